"""From prompts to bodies that the Messages API takes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.errors import RequestError
from kiro_asgi.model.prompt import (
    Document,
    Image,
    Prompt,
    Sampling,
    Thinking,
    ThinkingMode,
    ThinkingPart,
    Tool,
    ToolChoice,
    ToolChoiceMode,
)
from kiro_asgi.model.signatures import marked
from kiro_asgi.simulator.anthropic import read
from kiro_asgi.simulator.anthropic.checks import RULES as RULEBOOK
from kiro_asgi.simulator.anthropic.checks import signatures_valid
from kiro_asgi.upstreams.anthropic.rules import RULES
from kiro_asgi.upstreams.base import ModelCard
from tests.upstreams.anthropic.asking import (
    ADAPTIVE,
    BUDGETED,
    EITHER,
    MODELS,
    THOUGHTLESS,
    body,
    content,
    rendered,
    rules,
)
from tests.upstreams.anthropic.checker import check_body
from tests.upstreams.kiro.prompts import PNG, PROMPTS, ask, assistant, call, result, user

HI = user("hi")
THOUGHT = ThinkingPart("hm", "c2ln")
HIGH = Thinking(ThinkingMode.ENABLED, effort="high")
FORCED = ToolChoice(ToolChoiceMode.REQUIRED)
F = Tool("f", schema={"type": "object"})


@given(PROMPTS, st.sampled_from(MODELS), st.booleans())
def test_every_body_is_legal(prompt: Prompt, model: Any, replay: bool) -> None:
    """Whatever a dialect hands over, the body breaks no rule of the API, and each note is of a rule that is listed."""
    made = rendered(prompt, model, replay_thinking=replay)
    sent = json.loads(made.request.body)

    check_body(sent)
    assert {note.rule for note in made.notes} <= {rule.name for rule in RULES}
    AnthropicMessages().parse(made.request.body)


@given(PROMPTS, st.sampled_from((BUDGETED, EITHER)))
def test_the_simulated_service_takes_every_body(prompt: Prompt, model: ModelCard) -> None:
    """The simulator, which has the API's rules from its documentation, refuses none but for signatures, which it gives
    itself, and a turn without thinking, which it takes amiss from models that do not mind."""
    sent = body(prompt, evolve(model, id=model.id.removesuffix("-20250929")))
    kept = [rule(sent, read(sent)) for rule in RULEBOOK if rule is not signatures_valid]

    assert [words for words in kept if words and "Expected `thinking`" not in words] == []


@given(PROMPTS)
def test_a_body_read_and_written_again_is_the_same(prompt: Prompt) -> None:
    """Our own dialect reads from a body what the body says: nothing is left to adapt in the turns and the tools."""
    sent = body(prompt)
    again = body(AnthropicMessages().parse(json.dumps(sent).encode()).prompt)

    assert again["messages"] == sent["messages"]
    assert again.get("system") == sent.get("system")
    assert again.get("tools") == sent.get("tools")
    assert again.get("thinking") == sent.get("thinking")


def test_the_least_request() -> None:
    """Nothing that was not said is in a body, but for what the API demands."""
    assert body(ask(HI, sampling=Sampling(max_tokens=5))) == {
        "model": BUDGETED.id,
        "stream": True,
        "max_tokens": 5,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    }
    assert rules(ask(HI, sampling=Sampling(max_tokens=5))) == []


def test_a_conversation_is_named_and_a_session_is_not() -> None:
    """The service learns which requests belong together, and not what the client calls them."""
    sent = body(ask(HI, session="my-session", metadata={"user_id": "me"}), conversation="0-1")
    assert sent["metadata"] == {"user_id": "0-1"}
    assert "metadata" not in body(ask(HI, metadata={"user_id": "me"}))


def test_system_texts_are_blocks() -> None:
    """Each system text is a block; blank ones are none."""
    sent = body(ask(HI, system=("one", " ", "two")))
    assert sent["system"] == [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]


def test_a_schema_is_told() -> None:
    """Structured output becomes words of the system text, the last of it."""
    prompt = ask(HI, system=("one",), schema={"type": "object"})
    assert body(prompt)["system"][0]["text"] == "one"
    assert '{"type":"object"}' in body(prompt)["system"][1]["text"]
    assert "output.schema_instruction" in rules(prompt)


# Turns.


def test_neighbours_are_merged() -> None:
    """Turns of one side become one message, block by block."""
    assert content(ask(user("a"), user("b"), assistant("c"), user("d"))) == [
        ("user", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
        ("assistant", [{"type": "text", "text": "c"}]),
        ("user", [{"type": "text", "text": "d"}]),
    ]


@pytest.mark.parametrize(
    ("turns", "roles", "rule"),
    [
        ([], ["user"], "turns.empty"),
        ([user("")], ["user"], "turns.empty"),
        ([assistant("a"), HI], ["user", "assistant", "user"], "turns.user_first"),
        ([HI, assistant(THOUGHT), HI], ["user"], "thinking.alone_dropped"),
        ([HI, assistant(call())], ["user", "assistant", "user"], "calls.unanswered"),
    ],
)
def test_who_speaks_when(turns: list[Any], roles: list[str], rule: str) -> None:
    """The user begins, the sides take turns, and nobody says nothing."""
    assert [role for role, _ in content(ask(*turns))] == roles
    assert rule in rules(ask(*turns))


def test_a_last_word_of_the_assistant() -> None:
    """Models that go on from there do, without white space at the end; others, and those that think, are asked to."""
    prompt = ask(HI, assistant("So \n"))
    assert content(prompt)[-1] == ("assistant", [{"type": "text", "text": "So"}])
    assert "turns.trimmed" in rules(prompt)
    for asked, model in ((prompt, EITHER), (evolve(prompt, thinking=HIGH), BUDGETED)):
        assert content(asked, model)[-1] == ("user", [{"type": "text", "text": "Continue."}])
        assert "turns.prefill" in rules(asked, model)


def test_results_come_first_and_in_order() -> None:
    """Results stand before all else in the user's turn, in the order of the calls, whatever the client's order was."""
    turns = [HI, assistant(call("a"), call("b")), user("text", result("b", "2"), result("a", "1"))]
    assert content(ask(*turns))[-1][1] == [
        {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "1"}]},
        {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "2"}]},
        {"type": "text", "text": "text"},
    ]


def test_an_error_holds_nothing_but_text() -> None:
    """The service refuses an image in a result that is an error, so the image stands behind the results."""
    prompt = ask(HI, assistant(call()), user(result("c1", "no", Image("image/png", PNG), is_error=True), "so?"))
    first, image, text = content(prompt)[-1][1]
    assert first["content"] == [{"type": "text", "text": "no"}] and first["is_error"] is True
    assert (image["type"], text["text"]) == ("image", "so?")
    assert "results.attachment_lifted" in rules(prompt)


# Tools.


def test_tools() -> None:
    """Name, description and schema; a name that the API does not take is mapped, and mapped back in answers."""
    made = rendered(ask(HI, tools=(Tool("mcp.x", "d", {"properties": {}}), F)))
    mapped, plain = made.document["tools"]
    assert plain == {"name": "f", "input_schema": {"type": "object"}}
    assert mapped == {
        "name": mapped["name"],
        "description": "d",
        "input_schema": {"properties": {}, "type": "object"},
    }
    assert made.tool_names == {mapped["name"]: "mcp.x"}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (ToolChoice(), None),
        (ToolChoice(parallel=False), {"type": "auto", "disable_parallel_tool_use": True}),
        (ToolChoice(ToolChoiceMode.REQUIRED), {"type": "any"}),
        (ToolChoice(ToolChoiceMode.NONE, parallel=False), {"type": "none"}),
        (ToolChoice(ToolChoiceMode.NAMED, "f", parallel=False),
         {"type": "tool", "name": "f", "disable_parallel_tool_use": True}),
    ],
)  # fmt: skip
def test_choices(choice: ToolChoice, expected: Any) -> None:
    """Each choice has its words; the usual one has none."""
    assert body(ask(HI, tools=(F,), tool_choice=choice)).get("tool_choice") == expected
    assert "tool_choice" not in body(ask(HI))


def test_a_choice_of_no_tool_is_refused() -> None:
    """What cannot be called is not demanded."""
    with pytest.raises(RequestError, match=r"tools\.choice_unknown") as caught:
        body(ask(HI, tools=(F,), tool_choice=ToolChoice(ToolChoiceMode.NAMED, "g")))
    assert caught.value.param == "tool_choice"


def test_calls_of_the_past_have_definitions() -> None:
    """The service wants to know the tools of earlier calls; those that are gone cannot be called again."""
    sent = body(ask(HI, assistant(call()), user(result("c1", "1"))))
    assert sent["tools"] == [{"name": "f", "input_schema": {"type": "object"}}]
    assert sent["tool_choice"] == {"type": "none"}


def test_the_web_search_is_the_services_own() -> None:
    """F214: the service searches itself, as the client's options have it; a choice names its tool."""
    search = Tool("websearch", hosted="web_search", options={"max_uses": 2, "allowed_domains": ("a.org",), "other": 1})
    sent = body(ask(HI, tools=(search,), tool_choice=ToolChoice(ToolChoiceMode.NAMED, "websearch")))
    assert sent["tools"] == [
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 2, "allowed_domains": ["a.org"]}
    ]
    assert sent["tool_choice"] == {"type": "tool", "name": "web_search"}
    assert body(ask(HI, tools=(search,), max_tool_calls=1))["tools"][0]["max_uses"] == 1
    assert body(ask(HI, tools=(search,), max_tool_calls=3))["tools"][0]["max_uses"] == 2


def test_names_are_given_once() -> None:
    """Of tools with one name the first counts, and the service's own search has a name like any."""
    search = Tool("websearch", hosted="web_search")
    prompt = ask(HI, tools=(search, F, evolve(F, description="d"), Tool("web_search")))
    assert [tool["name"] for tool in body(prompt)["tools"]] == ["web_search", "f"]
    assert body(prompt)["tools"][1] == {"name": "f", "input_schema": {"type": "object"}}
    assert "tools.duplicate_dropped" in rules(prompt)


def test_other_hosted_tools_are_tools() -> None:
    """What the gateway runs, the model calls like any tool."""
    sent = body(ask(HI, tools=(Tool("web_fetch", "d", {"type": "object"}, hosted="web_fetch"),)))
    assert sent["tools"] == [{"name": "web_fetch", "description": "d", "input_schema": {"type": "object"}}]


def test_alternatives_at_the_root_of_a_schema() -> None:
    """The API refuses them there, and nowhere else."""
    inner = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    schema = {"anyOf": [{"properties": {"a": inner}}, {"properties": {"b": {}}}]}
    sent = body(ask(HI, tools=(Tool("f", schema=schema),)))
    assert sent["tools"][0]["input_schema"] == {"type": "object", "properties": {"b": {}, "a": inner}}
    assert {"schema.combinators", "schema.root"} <= {*rules(ask(HI, tools=(Tool("f", schema=schema),)))}


# Attachments.


PDF = {"type": "base64", "media_type": "application/pdf", "data": "QQ=="}
DRAWN = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}


def document(**source: str) -> dict[str, Any]:
    return {"type": "document", "source": source}


@pytest.mark.parametrize(
    ("part", "block", "rule"),
    [
        (Image("image/png", PNG), DRAWN, ""),
        (Image("image/jpeg", PNG), DRAWN, "images.mismatch"),
        (Image(url="https://a/b.png"), {"type": "image", "source": {"type": "url", "url": "https://a/b.png"}}, ""),
        (Document("application/pdf", "QQ==", title="T"), {**document(**PDF), "title": "T"}, ""),
        (Document("application/pdf", "QQ"), document(**PDF), "attachments.base64"),
        (Document("text/plain", text=" ", title="T"), {"type": "text", "text": "T"}, ""),
        (Document("text/plain", text="a"), document(type="text", media_type="text/plain", data="a"), ""),
        (Document("text/csv", "YSxi"), document(type="text", media_type="text/plain", data="a,b"), "documents.plain"),
        (Document("application/pdf", url="https://a/b"), document(type="url", url="https://a/b"), ""),
    ],
)
def test_attachments(part: Any, block: Any, rule: str) -> None:
    """Images and documents by value and by address, in the API's forms."""
    prompt = ask(user("look", part), sampling=Sampling(5))
    assert content(prompt)[0][1][1] == block
    assert rules(prompt) == ([rule] if rule else [])


@pytest.mark.parametrize(
    ("part", "rule"),
    [
        (Image("image/tiff", "SUkq"), "images.format"),
        (Image("image/png", "?"), "attachments.base64"),
        (Document("application/msword", "QQ=="), "documents.format"),
    ],
)
def test_attachments_that_are_refused(part: Any, rule: str) -> None:
    """What the service cannot read is refused, with rule and place."""
    with pytest.raises(RequestError, match=rule) as caught:
        body(ask(user(evolve(part, place="messages[0].content[0]"))))
    assert caught.value.param == "messages[0].content[0]"


def test_a_model_without_eyes() -> None:
    """An image for a model that takes none is refused."""
    with pytest.raises(RequestError, match=r"images\.model"):
        body(ask(user(Image(url="https://a"))), evolve(BUDGETED, images=False))


# Thinking.


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (THOUGHT, {"type": "thinking", "thinking": "hm", "signature": "c2ln"}),
        (ThinkingPart("", "c2ln"), {"type": "thinking", "thinking": "", "signature": "c2ln"}),
        (ThinkingPart(redacted="QQ=="), {"type": "redacted_thinking", "data": "QQ=="}),
        (ThinkingPart("hm"), None),
        (ThinkingPart("hm", marked("gemini", "call", "c2ln")), None),
    ],
)
def test_earlier_thinking(part: ThinkingPart, block: Any) -> None:
    """F187: what Anthropic's models have signed goes back as it was; nothing else does, and nothing if so is set."""
    prompt = ask(HI, assistant("so", part), HI)
    text = {"type": "text", "text": "so"}
    assert content(prompt)[1][1] == [*([block] if block else []), text]
    assert ("thinking.first" if block else "thinking.unsigned_dropped") in rules(prompt)
    assert content(prompt, replay_thinking=False)[1][1] == [text]


@pytest.mark.parametrize("limit", [1, 600, 1024])
def test_an_answer_without_room_for_thinking_has_none(limit: int) -> None:
    """The client's limit is never raised: it pays for what is written."""
    prompt = ask(HI, thinking=Thinking(ThinkingMode.ENABLED, 1024), sampling=Sampling(limit))
    sent = body(prompt)

    assert sent["max_tokens"] == limit
    assert "thinking" not in sent
    assert "thinking.max_tokens" in rules(prompt)


@pytest.mark.parametrize(
    ("thinking", "limit", "expected", "rule"),
    [
        (Thinking(ThinkingMode.ENABLED, 3000), 5000, (5000, 3000), ""),
        (Thinking(ThinkingMode.ENABLED, 100), 5000, (5000, 1024), "thinking.budget"),
        (Thinking(ThinkingMode.ENABLED, 9000), 5000, (5000, 2500), "thinking.budget"),
        (Thinking(ThinkingMode.ENABLED, 5000), 1025, (1025, 1024), "thinking.budget"),
        (Thinking(ThinkingMode.ENABLED, effort="low"), 5000, (5000, 4000), "thinking.effort"),
        (Thinking(ThinkingMode.ADAPTIVE), None, (42_000, 10_000), "sampling.max_tokens_default"),
        (Thinking(ThinkingMode.ENABLED, effort="max"), 999_999, (64_000, 32_000), "sampling.max_tokens"),
    ],
)
def test_budgets(thinking: Thinking, limit: int | None, expected: tuple[int, int], rule: str) -> None:
    """A budget has 1,024 tokens or more, and fewer than the answer may have, which the API insists on."""
    prompt = ask(HI, thinking=thinking, sampling=Sampling(limit))
    sent = body(prompt)
    assert sent["thinking"]["type"] == "enabled"
    assert (sent["max_tokens"], sent["thinking"]["budget_tokens"]) == expected
    assert not rule or rule in rules(prompt)


@pytest.mark.parametrize(
    ("thinking", "model", "effort", "rule"),
    [
        (HIGH, ADAPTIVE, "high", ""),
        (Thinking(ThinkingMode.ENABLED, 15_000), ADAPTIVE, "medium", "thinking.adaptive"),
        (Thinking(ThinkingMode.ADAPTIVE), ADAPTIVE, None, ""),
        (Thinking(ThinkingMode.ADAPTIVE, effort="xhigh"), EITHER, "high", "thinking.effort"),
    ],
)
def test_adaptive_models(thinking: Thinking, model: Any, effort: str | None, rule: str) -> None:
    """A model that decides by itself is told a level; a budget becomes one."""
    prompt = ask(HI, thinking=thinking, sampling=Sampling(5000))
    sent = body(prompt, model)
    assert sent["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert sent.get("output_config") == ({"effort": effort} if effort else None)
    assert rules(prompt, model) == ([rule] if rule else [])


def test_a_budget_for_a_model_that_takes_both() -> None:
    """Who names a budget gets it wherever a model takes one."""
    sent = body(ask(HI, thinking=Thinking(ThinkingMode.ENABLED, 3000)), EITHER)
    assert sent["thinking"] == {"type": "enabled", "budget_tokens": 3000}


@pytest.mark.parametrize(
    ("prompt", "model", "rule"),
    [
        (ask(HI, thinking=HIGH), THOUGHTLESS, "thinking.unavailable"),
        (ask(HI, thinking=HIGH, tools=(F,), tool_choice=FORCED), BUDGETED, "thinking.forced_call"),
        (ask(HI, assistant("so", call()), user(result("c1", "1")), thinking=HIGH), BUDGETED, "thinking.resumed"),
    ],
)
def test_where_there_is_no_thinking(prompt: Prompt, model: Any, rule: str) -> None:
    """The API refuses thinking there, so it is not asked for, and that is noted."""
    assert "thinking" not in body(prompt, model)
    assert rule in rules(prompt, model)


def test_thinking_that_was_handed_back_goes_on() -> None:
    """A turn that begins with thinking may go on with thinking behind the results of its calls."""
    prompt = ask(HI, assistant(THOUGHT, call()), user(result("c1", "1")), thinking=HIGH)
    assert body(prompt)["thinking"]["type"] == "enabled"


def test_no_thinking_is_said() -> None:
    """A client that wants none is taken at its word where there is some."""
    off = Thinking(ThinkingMode.DISABLED)
    assert body(ask(HI, thinking=off))["thinking"] == {"type": "disabled"}
    assert "thinking" not in body(ask(HI, thinking=off), THOUGHTLESS)
    assert "thinking" not in body(ask(HI))


# Sampling.


@pytest.mark.parametrize(
    ("sampling", "fields", "expected", "rule"),
    [
        (Sampling(temperature=0.5, top_k=3), {}, {"temperature": 0.5, "top_k": 3}, ""),
        (Sampling(temperature=1.7), {}, {"temperature": 1}, "sampling.temperature"),
        (Sampling(temperature=0.5, top_p=0.5), {}, {"temperature": 0.5}, "sampling.top_p"),
        (Sampling(top_p=0.5), {"thinking": HIGH}, {}, "sampling.thinking"),
        (Sampling(stop=("a", " \n")), {}, {"stop_sequences": ["a"]}, "sampling.stop_blank"),
        (Sampling(seed=1), {}, {}, "sampling.ignored"),
        (Sampling(frequency_penalty=0.0), {}, {}, "sampling.ignored"),
    ],
)
def test_sampling(sampling: Sampling, fields: dict[str, Any], expected: dict[str, Any], rule: str) -> None:
    """What the service takes is said, the rest is noted."""
    prompt = ask(HI, sampling=sampling, **fields)
    sent = body(prompt)
    names = ("temperature", "top_p", "top_k", "stop_sequences")
    assert {name: sent[name] for name in names if name in sent} == expected
    assert not rule or rule in rules(prompt)


def test_sampling_that_is_gone() -> None:
    """Newer models, and the newer version of the API, have no temperature."""
    prompt = ask(HI, sampling=Sampling(temperature=0.5))
    for model, version in ((ADAPTIVE, "2023-06-01"), (BUDGETED, "2026-10-21")):
        assert "temperature" not in body(prompt, model, version=version)
        assert "sampling.model" in rules(prompt, model, version=version)


def test_sampling_twice() -> None:
    """Older models take temperature and top_p together."""
    sent = body(ask(HI, sampling=Sampling(temperature=0.5, top_p=0.5)), THOUGHTLESS)
    assert (sent["temperature"], sent["top_p"]) == (0.5, 0.5)
