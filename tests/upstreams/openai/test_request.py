"""Prompts to request bodies."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.errors import RequestError
from kiro_asgi.model.prompt import (
    Document,
    Image,
    Prompt,
    Role,
    Sampling,
    Text,
    Thinking,
    ThinkingMode,
    ThinkingPart,
    Tool,
    ToolChoice,
    ToolChoiceMode,
    Turn,
)
from kiro_asgi.stages.estimate import TokenEstimator
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard, Rendered
from kiro_asgi.upstreams.openai.models import BUILTIN
from kiro_asgi.upstreams.openai.rules import RULES
from kiro_asgi.upstreams.openai.upstream import OpenAIUpstream
from tests.upstreams.kiro.prompts import PNG, PROMPTS, TOOLS, ask, assistant, call, result, user
from tests.upstreams.openai.invariants import check_body

KEY = Credential(CredentialKind.API_KEY, "sk-secret")
PLAIN = ModelCard("gpt-4.1")
CUSTOM = "http://localhost:11434/v1"
IMAGE = Image("image/png", PNG, place="messages[0].content[1]")


def rendered(prompt: Prompt, model: str = "gpt-4.1", **settings: Any) -> Rendered:
    return OpenAIUpstream(**settings).render(prompt, ModelCard(model), KEY)


def body(prompt: Prompt, model: str = "gpt-4.1", **settings: Any) -> Any:
    found = rendered(prompt, model, **settings)
    assert json.loads(found.request.body) == found.document
    return found.document


def rules(prompt: Prompt, model: str = "gpt-4.1", **settings: Any) -> list[str]:
    return [note.rule for note in rendered(prompt, model, **settings).notes]


def messages(prompt: Prompt, **settings: Any) -> Any:
    return body(prompt, **settings)["messages"]


def exchanged(document: Any) -> list[Any]:
    """What was called, and what it gave."""
    return [each.get("tool_calls", each) for each in document["messages"] if {"tool_calls", "tool_call_id"} & set(each)]


# The whole.


@given(PROMPTS, st.sampled_from(["", CUSTOM]))
def test_every_prompt_becomes_a_request_that_the_api_takes(prompt: Prompt, endpoint: str) -> None:
    """Whatever a dialect hands over is refused, or carried in a legal body; every rule that was met is in the table."""
    upstream = OpenAIUpstream(endpoint=endpoint)
    try:
        found = upstream.render(prompt, PLAIN, KEY)
    except RequestError as error:
        assert error.param
        return

    check_body(json.loads(found.request.body))
    assert {note.rule for note in found.notes} <= {rule.name for rule in RULES}
    assert upstream.estimate_tokens(found, TokenEstimator()) > 0
    assert upstream.statistics(found)["messages"] == len(found.document["messages"])


@given(PROMPTS)
def test_our_own_reader_takes_what_is_written(prompt: Prompt) -> None:
    """The dialect of the same API reads every body, and finds the calls and results that were told."""
    try:
        written = rendered(prompt).document
    except RequestError:
        return
    read = OpenAIChat().parse(json.dumps(written).encode()).prompt
    again = rendered(read).document

    assert exchanged(again) == exchanged(written)
    assert again.get("tools") == written.get("tools")


def test_a_plain_question_is_nothing_but_itself() -> None:
    """What nobody asked for is not sent, and nothing is noted."""
    prompt = ask(user("Hi"), system=("Be kind.", "Be brief."))

    assert body(prompt) == {
        "model": "gpt-4.1",
        "messages": [{"role": "system", "content": "Be kind.\n\nBe brief."}, {"role": "user", "content": "Hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert rules(prompt) == []
    assert "stream_options" not in body(prompt, include_usage=False)


# The conversation.


def test_results_stand_behind_their_calls_in_the_order_of_the_calls() -> None:
    """Each call is answered once, right behind its message, wherever the client has the result; the rest follows."""
    prompt = ask(
        user("go"),
        assistant("I look.", call("a", x=1), call("b")),
        user(result("b", "two"), "and?", result("a", "one")),
    )

    assert messages(prompt) == [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
                {"id": "b", "type": "function", "function": {"name": "f", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "one"},
        {"role": "tool", "tool_call_id": "b", "content": "two"},
        {"role": "user", "content": "and?"},
    ]
    assert rules(prompt) == ["results.ordered"]


def test_a_call_without_a_result_gets_one_and_a_result_without_a_call_becomes_text() -> None:
    """The API refuses both; a message of calls alone has no content."""
    prompt = ask(user("go"), assistant(call("a")), user("never mind", result("zz", "lost")))
    _, asked, answered, said = messages(prompt)

    assert asked["content"] is None
    assert answered["role"] == "tool"
    assert "cancelled" in answered["content"]
    assert said["content"].startswith("never mind")
    assert "lost" in said["content"]
    assert rules(prompt) == ["results.orphan_to_text", "calls.unanswered", "results.error_told"]


def test_attachments_of_results_move_to_the_user() -> None:
    """A tool's message holds text only; a picture it gave stands in the user's message behind all results."""
    prompt = ask(user("go"), assistant(call("a"), call("b")), user(result("a", IMAGE), result("b", "x"), "so?"))
    *_, first, second, said = messages(prompt)

    assert "attachment" in first["content"]
    assert second == {"role": "tool", "tool_call_id": "b", "content": "x"}
    assert [part["type"] for part in said["content"]] == ["text", "image_url", "text"]
    assert said["content"][1]["image_url"]["url"] == f"data:image/png;base64,{PNG}"
    assert rules(prompt) == ["results.attachment_lifted"]


def test_that_a_tool_failed_is_told() -> None:
    """The API has no field for it."""
    prompt = ask(user("go"), assistant(call("a")), user(result("a", "no file", is_error=True)))

    assert messages(prompt)[-1]["content"] == "The tool call failed.\nno file"
    assert rules(prompt) == ["results.error_told"]


def test_images_and_documents_stand_where_they_were() -> None:
    """By value as data: URLs, images by address too; plain text is text, and base64 is made plain."""
    pdf = Document("application/pdf", "QUJD\nRA==", title="a.pdf")
    text = Document("text/plain", text="words", title="b.txt")
    [message] = messages(ask(user("see", IMAGE, Image(url="https://x/y.png"), pdf, text)))

    assert message["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QUJDRA=="}},
        {"type": "text", "text": "b.txt\n\nwords"},
    ]
    assert rules(ask(user("see", IMAGE, pdf))) == ["attachments.base64"]


@pytest.mark.parametrize(
    ("part", "rule"),
    [
        (IMAGE, "images.model"),
        (Document("application/pdf", url="https://x/y.pdf", place="messages[0].content[1]"), "documents.address"),
        (Document("application/pdf", "??", place="messages[0].content[1]"), "attachments.base64"),
    ],
)
def test_what_cannot_be_attached_is_refused(part: Any, rule: str) -> None:
    """The refusal names the rule and the place."""
    with pytest.raises(RequestError, match=rule) as caught:
        OpenAIUpstream().render(ask(user(part)), ModelCard("m", images=False), KEY)

    assert caught.value.param == "messages[0].content[1]"


def test_a_format_that_openai_does_not_know() -> None:
    """Its bytes count, or what it is said to be; another server may know it."""
    tiff = Image("image/tiff", "SUkqAA==", place="messages[0].content[1]")
    with pytest.raises(RequestError, match=r"images\.format") as caught:
        body(ask(user(tiff)))

    assert caught.value.param == tiff.place
    assert rules(ask(user(tiff)), endpoint=CUSTOM) == []
    assert rules(ask(user(Image("image/tiff", PNG)))) == ["images.mismatch"]


def test_earlier_thinking_goes_back_to_servers_that_have_a_field_for_it() -> None:
    """OpenAI has none; and what another service sealed is nobody else's."""
    prompt = ask(user("q"), assistant(ThinkingPart("hm"), ThinkingPart("x", "sig"), "a"), user("r"))

    assert "reasoning_content" not in messages(prompt)[1]
    assert messages(prompt, endpoint=CUSTOM)[1]["reasoning_content"] == "hm"
    assert "reasoning_content" not in messages(prompt, endpoint=CUSTOM, replay_thinking=False)[1]
    assert rules(prompt) == rules(prompt, endpoint=CUSTOM) == ["thinking.dropped"]


def test_long_ids_are_replaced_in_call_and_result() -> None:
    """The service takes 40 characters; a substitute is the same in every request."""
    prompt = ask(user("q"), assistant(call("i" * 41)), user(result("i" * 41, "r")))
    _, asked, answered = messages(prompt)

    assert asked["tool_calls"][0]["id"] == answered["tool_call_id"]
    assert len(answered["tool_call_id"]) == 40
    assert messages(prompt) == messages(prompt)


# Tools.


def test_tools_are_functions_and_strange_names_come_back() -> None:
    """An empty schema is that of an object; a name in a foreign alphabet is replaced, and the answer's undone."""
    tools = (Tool("mcp.x/y", "Does it.", {}), Tool("f", "", {"type": "object", "properties": {"a": {}}}))
    found = rendered(ask(user("q"), tools=tools, tool_choice=ToolChoice(ToolChoiceMode.NAMED, "mcp.x/y", False)))
    (first, second), wire = found.document["tools"], next(iter(found.tool_names))

    assert found.tool_names == {wire: "mcp.x/y"}
    assert first["function"] == {
        "name": wire,
        "description": "Does it.",
        "parameters": {"type": "object", "properties": {}},
    }
    assert second["function"] == {"name": "f", "parameters": {"type": "object", "properties": {"a": {}}}}
    assert found.document["tool_choice"] == {"type": "function", "function": {"name": wire}}
    assert found.document["parallel_tool_calls"] is False


def test_arrays_in_schemas_have_items() -> None:
    """The service refuses one that does not say what is in it; a property called ``items`` is none of its business."""
    bare, named = {"type": ["array", "null"]}, {"type": "object", "properties": {"items": {"type": "string"}}}
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"a": bare, "b": {"anyOf": [bare, {"type": "null"}]}, "type": named},
    }
    found = rendered(ask(user("q"), tools=(Tool("f", "", schema), Tool("g", "", named))))
    first, second = (tool["function"]["parameters"] for tool in found.document["tools"])

    filled = {"type": ["array", "null"], "items": {}}
    assert first["properties"] == {"a": filled, "b": {"anyOf": [filled, {"type": "null"}]}, "type": named}
    assert second is named
    assert [note.rule for note in found.notes] == ["schema.items"]
    assert schema["properties"]["a"] == {"type": ["array", "null"]}


@pytest.mark.parametrize(
    ("mode", "choice"),
    [(ToolChoiceMode.AUTO, None), (ToolChoiceMode.REQUIRED, "required"), (ToolChoiceMode.NONE, "none")],
)
def test_choices(mode: ToolChoiceMode, choice: str | None) -> None:
    """What is the default is not sent; several calls are allowed unless the client says otherwise."""
    found = body(ask(user("q"), tools=(Tool("f"),), tool_choice=ToolChoice(mode)))

    assert found.get("tool_choice") == choice
    assert "parallel_tool_calls" not in found


def test_hosted_tools_are_offered_like_all_others() -> None:
    """The service runs none in this API, so the gateway runs them, or says that it cannot."""
    schema = {"type": "object", "properties": {"query": {"type": "string"}}}
    tools = (Tool("web_search", "Search.", schema, hosted="web_search", place="tools[0]"),)
    prompt = ask(user("q"), tools=tools, tool_choice=ToolChoice(ToolChoiceMode.NAMED, "web_search"))
    function = {"name": "web_search", "description": "Search.", "parameters": schema}

    assert body(prompt)["tools"] == [{"type": "function", "function": function}]
    assert body(prompt)["tool_choice"]["function"] == {"name": "web_search"}


@pytest.mark.parametrize(
    ("schema", "kept"),
    [
        ({"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": False}, True),
        ({"type": "object", "properties": {"a": {}}, "required": [], "additionalProperties": False}, False),
        ({"type": "object", "properties": {"a": {}}}, False),
    ],
)
@pytest.mark.parametrize("settings", [{}, {"endpoint": CUSTOM}])
def test_strict_is_demanded_where_the_service_can_keep_it(
    schema: dict[str, Any], kept: bool, settings: dict[str, Any]
) -> None:
    """It refuses a tool whose schema leaves anything open; a note says that such a demand is left out."""
    prompt = ask(user("q"), tools=(Tool("f", "d", schema, strict=True),))
    [tool] = body(prompt, **settings)["tools"]

    assert tool["function"].get("strict") is (True if kept else None)
    assert rules(prompt, **settings) == ([] if kept else ["tools.strict"])


def test_a_choice_without_a_tool_is_refused() -> None:
    """To demand a call of nothing, or of a tool that is not there, is a mistake of the client's."""
    for choice in (ToolChoice(ToolChoiceMode.REQUIRED), ToolChoice(ToolChoiceMode.NAMED, "web_search")):
        with pytest.raises(RequestError, match=r"tools\.choice_unknown"):
            body(ask(user("q"), tool_choice=choice))


# Options.


def test_sampling() -> None:
    """Every field has its place; the length stands under the name that the server knows."""
    sampling = Sampling(100, 0.5, 0.9, 40, ("a", "b"), 7, 0.1, 0.2)
    found = body(ask(user("q"), sampling=sampling))

    wanted = {
        "max_completion_tokens": 100,
        "temperature": 0.5,
        "top_p": 0.9,
        "stop": ["a", "b"],
        "seed": 7,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
    }
    assert {name: found.get(name) for name in wanted} == wanted
    assert "top_k" not in found
    assert rules(ask(user("q"), sampling=sampling)) == ["sampling.top_k"]
    local = body(ask(user("q"), sampling=sampling), endpoint=CUSTOM, max_tokens_field="max_tokens")
    assert (local["top_k"], local["max_tokens"]) == (40, 100)
    assert "max_completion_tokens" not in local


@pytest.mark.parametrize(
    ("model", "length"),
    [("gpt-4o", 16_384), ("gpt-4o-2024-08-06", 16_384), ("gpt-5", 64_000), ("o3", 64_000), ("llama", 64_000)],
)
def test_the_greatest_length_is_what_the_model_writes(model: str, length: int) -> None:
    """Clients of other services ask for more; of a model that nobody knows nothing is assumed."""
    prompt = ask(user("q"), sampling=Sampling(64_000))

    assert body(prompt, model)["max_completion_tokens"] == length
    assert rules(prompt, model) == (["sampling.max_tokens"] if length < 64_000 else [])


def test_the_gateway_sees_to_stop_sequences_beyond_what_openai_takes() -> None:
    """To drop one would give another answer; what other servers take is for them to say."""
    prompt = ask(user("q"), sampling=Sampling(stop=("a", "b", "c", "d", "e")))
    put = OpenAIUpstream().render(prompt, ModelCard("gpt-4o"), KEY)

    assert (body(prompt)["stop"], put.stop) == (["a", "b", "c", "d"], ("e",))
    assert rules(prompt) == ["stop.limit"]
    assert len(body(prompt, endpoint=CUSTOM)["stop"]) == 5


@pytest.mark.parametrize(
    ("model", "kept"),
    [("gpt-4o", True), ("gpt-5", False), ("o3", False), ("openai/o4-mini", False), ("gpt-5-chat-latest", True)],
)
def test_models_that_think_draw_in_their_own_way(model: str, kept: bool) -> None:
    """They refuse a temperature and stop sequences; the gateway ends the answer in their stead, and that is told."""
    prompt = ask(user("q"), sampling=Sampling(temperature=0.2, stop=("x",)))

    assert ("temperature" in body(prompt, model)) is kept
    assert ("stop" in body(prompt, model)) is kept
    assert rules(prompt, model) == ([] if kept else ["stop.unavailable", "sampling.fixed"])


ENABLED, DISABLED, SILENT = ThinkingMode.ENABLED, ThinkingMode.DISABLED, ThinkingMode.DEFAULT


@pytest.mark.parametrize(
    ("model", "thinking", "effort", "rule"),
    [
        ("gpt-5", Thinking(), None, None),
        ("gpt-5", Thinking(ENABLED), "medium", None),
        ("gpt-5", Thinking(ENABLED, effort="max"), "high", None),
        ("gpt-5.2", Thinking(ENABLED, effort="max"), "xhigh", None),
        ("gpt-5.1", Thinking(ENABLED, effort="minimal"), "low", None),
        ("o3", Thinking(ENABLED, 2_000), "low", "thinking.budget_to_effort"),
        ("o3", Thinking(ENABLED, 16_000), "medium", "thinking.budget_to_effort"),
        ("o3", Thinking(ENABLED, 32_000), "high", "thinking.budget_to_effort"),
        ("gpt-5.1", Thinking(DISABLED), "none", None),
        ("gpt-5", Thinking(DISABLED), "minimal", "thinking.not_disabled"),
        ("o3", Thinking(DISABLED), "low", "thinking.not_disabled"),
        ("gpt-4o", Thinking(DISABLED), None, None),
        ("gpt-4o", Thinking(ENABLED, 2_000), None, "thinking.unavailable"),
        ("qwen3:8b", Thinking(ENABLED), "medium", None),
        ("qwen3:8b", Thinking(SILENT), None, None),
        ("qwen3:8b", Thinking(DISABLED), None, "thinking.not_disabled"),
    ],
)
def test_effort(model: str, thinking: Thinking, effort: str | None, rule: str | None) -> None:
    """A demand for thinking becomes the nearest effort that the model knows."""
    prompt = ask(user("q"), thinking=thinking)

    assert body(prompt, model).get("reasoning_effort") == effort
    assert rules(prompt, model) == ([rule] if rule else [])


CLOSED = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (CLOSED, True),
        ({**CLOSED, "required": []}, False),
        ({**CLOSED, "properties": {"a": {"type": "array", "items": {"type": "object"}}}}, False),
        ({**CLOSED, "$defs": {"b": CLOSED}, "properties": {"a": {"enum": [{"type": "object"}]}}}, True),
        ({"type": "object", "properties": {"a": {}}, "required": ["a"]}, False),
    ],
)
def test_schemas_of_answers(schema: dict[str, Any], strict: bool) -> None:
    """The service is held to a schema where it can be; it refuses to be with any other."""
    found = body(ask(user("q"), schema=schema))["response_format"]

    assert found == {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": strict}}


def test_any_json_object() -> None:
    """An empty schema means just that."""
    assert body(ask(user("q"), schema={}))["response_format"] == {"type": "json_object"}


@given(TOOLS)
def test_weight_and_statistics_count_what_is_sent(tools: tuple[Tool, ...]) -> None:
    """More tools weigh more; counts are of the body."""
    upstream, bare = OpenAIUpstream(), rendered(ask(user("q", IMAGE), system=("abc",)))
    found = upstream.render(ask(user("q", IMAGE), system=("abc",), tools=tools), PLAIN, KEY)

    assert upstream.estimate_tokens(found, TokenEstimator()) >= upstream.estimate_tokens(bare, TokenEstimator()) > 1_600
    assert upstream.statistics(bare) == {
        "bytes": len(bare.request.body),
        "messages": 2,
        "tools": 0,
        "tool_results": 0,
        "images": 1,
        "system": 3,
    }


def test_the_models_that_think_are_known_by_their_cards() -> None:
    """A card's efforts are those of its name."""
    assert {card.id: card.efforts for card in BUILTIN}["gpt-5"] == ("minimal", "low", "medium", "high")


def test_refusals_go_back_to_openai_alone() -> None:
    """It has a field for them; to any other server they are text."""
    declined = Turn(Role.ASSISTANT, (Text("No."), Text("Never.", is_refusal=True)))
    prompt = ask(user("How?"), declined, user("And now?"))

    assert messages(prompt)[1] == {"role": "assistant", "content": "No.", "refusal": "Never."}
    assert messages(prompt, endpoint=CUSTOM)[1] == {"role": "assistant", "content": "No.\nNever."}
    alone = ask(user("How?"), evolve(declined, parts=declined.parts[1:]), user("And now?"))
    assert messages(alone)[1] == {"role": "assistant", "content": None, "refusal": "Never."}
