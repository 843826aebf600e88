"""Prompts to bodies of the Responses API."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses
from kiro_asgi.errors import RequestError, UpstreamRejected
from kiro_asgi.model.prompt import (
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
from kiro_asgi.simulator.responses import read
from kiro_asgi.simulator.responses.checks import RULES as SERVICE_RULES
from kiro_asgi.simulator.responses.encoder import seal_of
from kiro_asgi.stages.estimate import TokenEstimator
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard, Rendered
from kiro_asgi.upstreams.openai.reasoning import opened, sealed
from kiro_asgi.upstreams.openai.rules import RULES
from kiro_asgi.upstreams.openai.upstream import ResponsesUpstream
from tests.upstreams.kiro.prompts import PNG, PROMPTS, ask, assistant, call, result, user

KEY = Credential(CredentialKind.API_KEY, "sk-secret")
IMAGE = Image("image/png", PNG, place="messages[0].content[1]")
REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "hm"}],
    "encrypted_content": seal_of("rs_1"),
}


def rendered(prompt: Prompt, model: str = "gpt-5", conversation: str = "", **settings: Any) -> Rendered:
    return ResponsesUpstream(**settings).render(prompt, ModelCard(model), KEY, conversation)


def body(prompt: Prompt, model: str = "gpt-5", **settings: Any) -> Any:
    return json.loads(rendered(prompt, model, **settings).request.body)


def rules(prompt: Prompt, model: str = "gpt-5", **settings: Any) -> list[str]:
    return [note.rule for note in rendered(prompt, model, **settings).notes]


def items(*turns: Turn, **settings: Any) -> Any:
    return body(ask(*turns), **settings)["input"]


@given(PROMPTS, st.sampled_from(["gpt-5", "gpt-5.2", "gpt-4o", "gpt-5-pro"]))
def test_the_service_takes_whatever_is_sent(prompt: Prompt, model: str) -> None:
    """By the rules of the simulated one; or it is refused here, with its place."""
    try:
        found = body(prompt, model)
    except RequestError as refused:
        assert refused.param
        return
    assert [rule(found, read(found)) for rule in SERVICE_RULES] == [""] * len(SERVICE_RULES)


@given(PROMPTS)
def test_every_adaptation_has_a_rule(prompt: Prompt) -> None:
    """And every note names one."""
    try:
        notes = rules(prompt)
    except RequestError:
        return
    assert {*notes} <= {rule.name for rule in RULES}


def test_a_conversation() -> None:
    """Items in the order in which things were said; what was sealed before the call that came of it."""
    seal = sealed(REASONING, "openai")
    prompt = ask(
        user("q", IMAGE),
        Turn(Role.ASSISTANT, (ThinkingPart("hm", seal), Text("Let me see."), Text("No.", is_refusal=True))),
        assistant(call("c1", "f", a=1)),
        user(result("c1", "21"), "and?"),
        system=("Be brief.", "Be kind."),
    )

    assert body(prompt)["instructions"] == "Be brief.\n\nBe kind."
    assert body(prompt)["input"] == [
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "q"},
                {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"},
            ],
        },
        REASONING,
        {
            "type": "message",
            "role": "assistant",
            "content": [
                {"type": "output_text", "text": "Let me see.", "annotations": []},
                {"type": "refusal", "refusal": "No."},
            ],
        },
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a":1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "21"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "and?"}]},
    ]


def test_what_is_written_is_read_as_the_same() -> None:
    """By the gateway's own reader of this API: turns, tools, choice, length and form."""
    prompt = ask(
        user("q", IMAGE),
        assistant("Let me see.", call("c1", "f", a=1)),
        user(result("c1", "21", is_error=False)),
        tools=(Tool("f", "Does it.", {"type": "object", "properties": {"a": {"type": "integer"}}}),),
        tool_choice=ToolChoice(ToolChoiceMode.NAMED, "f", parallel=False),
        sampling=Sampling(max_tokens=100, temperature=0.5),
        schema={"type": "object", "properties": {}, "required": [], "additionalProperties": False},
        system=("Be brief.",),
    )
    again = OpenAIResponses().parse(rendered(prompt, "gpt-4o").request.body).prompt

    assert [part for turn in again.turns for part in turn.parts] == [
        part for turn in prompt.turns for part in turn.parts
    ]
    assert (again.system, again.sampling, again.schema) == (prompt.system, prompt.sampling, prompt.schema)
    assert [(tool.name, tool.description, tool.schema) for tool in again.tools] == [
        (tool.name, tool.description, tool.schema) for tool in prompt.tools
    ]
    assert (again.tool_choice.mode, again.tool_choice.name, again.tool_choice.parallel) == (
        ToolChoiceMode.NAMED,
        "f",
        False,
    )


def test_a_result_with_an_image_and_one_that_failed() -> None:
    """Results have parts here, so nothing moves elsewhere."""
    results = user(result("c1", IMAGE), result("c2", "oh", is_error=True))
    outputs = items(user("q"), assistant(call("c1"), call("c2")), results)[-2:]

    assert [it["output"] for it in outputs] == [
        [{"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"}],
        "The tool call failed.\noh",
    ]


def test_nobody_else_gets_what_is_sealed() -> None:
    """Neither another service, nor this one what was sealed elsewhere, or changed on its way."""
    seal = sealed(REASONING, "openai")
    turns = (user("q"), Turn(Role.ASSISTANT, (ThinkingPart("hm", seal), Text("a"))), user("r"))

    assert opened(seal, "openai") == REASONING
    assert [opened(text, "openai") for text in (seal[:-9], "", "AbC=", "openai.reasoning:e30=")] == [None] * 4
    for settings in ({"name": "other"}, {"replay_thinking": False}):
        assert [it["type"] for it in items(*turns, **settings)] == ["message"] * 3
        assert rules(ask(*turns), **settings) == ["thinking.dropped"]
    assert not sealed({"type": "reasoning", "summary": []}, "openai")


def test_nothing_is_stored_and_what_is_remembered_is_found() -> None:
    """The reasoning comes sealed instead; the key is where the service looks for what it has read before."""
    found = body(ask(user("q")), conversation="one")

    assert (found["store"], found["include"]) == (False, ["reasoning.encrypted_content"])
    assert (found["prompt_cache_key"], found["stream"]) == ("one", True)
    assert "include" not in body(ask(user("q")), "gpt-4o"), "a model that does not reason refuses it"


def test_phases_and_how_long_an_answer_shall_be() -> None:
    """Messages of two phases stay two."""
    answer = assistant(Text("I look.", phase="commentary"), Text("It is 21."), Text("Bye.", phase="final_answer"))
    found = body(ask(user("q"), answer, user("r"), verbosity="low"))

    assert [it.get("phase") for it in found["input"]] == [None, "commentary", None, "final_answer", None]
    assert found["text"] == {"verbosity": "low"}


def test_thinking_is_an_effort_with_a_summary() -> None:
    """Where the client asks for it; a client that wants no words of it gets none."""
    wanted = ask(user("q"), thinking=Thinking(ThinkingMode.ENABLED, effort="low"))
    silent = evolve(wanted, thinking=evolve(wanted.thinking, omitted=True))
    none = ask(user("q"), thinking=Thinking(ThinkingMode.DISABLED))

    assert body(wanted)["reasoning"] == {"effort": "low", "summary": "auto"}
    assert body(silent)["reasoning"] == {"effort": "low"}
    assert body(none, "gpt-5.2")["reasoning"] == {"effort": "none"}
    assert "reasoning" not in body(ask(user("q")))


def test_what_the_api_has_no_field_for() -> None:
    """Is said; stop sequences are seen to by the gateway."""
    prompt = ask(user("q"), sampling=Sampling(5, 0.5, top_k=3, stop=("x",), seed=1, presence_penalty=0.1))
    found = rendered(prompt, "gpt-4o")

    assert found.stop == ("x",)
    assert found.document["max_output_tokens"] == 16
    assert found.document["temperature"] == 0.5
    assert not {"top_k", "seed", "stop", "presence_penalty"} & {*found.document}
    assert [note.rule for note in found.notes] == ["sampling.max_tokens", *["sampling.unknown"], "stop.unavailable"]


def test_a_form_that_the_service_holds_the_model_to() -> None:
    """Only one whose objects are all closed, and only at OpenAI."""
    closed = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    strict, loose = (rendered(ask(user("q"), schema=schema)) for schema in (closed, {"type": "object"}))

    assert strict.document["text"]["format"] == {
        "type": "json_schema", "name": "answer", "schema": closed, "strict": True,
    }  # fmt: skip
    assert (strict.formed, loose.formed) == (True, False)
    assert not rendered(ask(user("q"), schema=closed), endpoint="http://localhost/v1").formed


REFUSALS = [
    ("Unsupported parameter: 'stream_options'.", "stream_options"),
    ("Your organization must be verified to generate reasoning summaries.", "summary"),
    ("Encrypted content is not supported with this model.", "include"),
    ("The encrypted content gAAA could not be verified.", "encrypted_content"),
    ("Unknown parameter: 'prompt_cache_key'.", "prompt_cache_key"),
]


@pytest.mark.parametrize(("message", "blamed"), REFUSALS)
def test_what_is_refused_is_left_out(message: str, blamed: str) -> None:
    """Once; where it is refused all the same, asking differently is no remedy."""
    seal = sealed(REASONING, "openai")
    thinking = Thinking(ThinkingMode.ENABLED, effort="low")
    turns = user("q"), Turn(Role.ASSISTANT, (ThinkingPart("hm", seal), Text("a"))), user("r")
    upstream = ResponsesUpstream()
    first = upstream.render(ask(*turns, thinking=thinking), ModelCard("gpt-5"), KEY, "one")
    healed = upstream.adapt_after_error(UpstreamRejected(message), first)
    assert healed is not None
    second = healed.render(ask(*turns, thinking=thinking), ModelCard("gpt-5"), KEY, "one")

    assert second.document != first.document
    assert [note.rule for note in second.notes] == ["adapted.field"]
    assert [each.feature for each in healed.remedies] == [blamed]
    assert healed.adapt_after_error(UpstreamRejected(message), second) is None


def test_sizes() -> None:
    """Texts, calls and tools count, and an image has its price."""
    small, large = (rendered(ask(user("word " * size), tools=(Tool("f"),))) for size in (10, 100))
    with_image = rendered(ask(user("word " * 10, IMAGE), tools=(Tool("f"),)))
    upstream, estimator = ResponsesUpstream(), TokenEstimator()
    few, many, seen = (upstream.estimate_tokens(each, estimator) for each in (small, large, with_image))

    assert few < many < seen
    assert upstream.statistics(with_image) == {
        "bytes": len(with_image.request.body),
        "messages": 1,
        "tools": 1,
        "tool_results": 0,
        "images": 1,
        "system": 0,
    }


GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: /x+/"}


def test_tools_that_take_a_text() -> None:
    """They, the choice of one, their calls and what came of these have a form of their own; elsewhere none."""
    asked = {
        "model": "gpt-5",
        "tools": [{"type": "custom", "name": "patch", "description": "Patches.", "format": GRAMMAR}],
        "tool_choice": {"type": "custom", "name": "patch"},
        "input": [
            {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "xx"},
            {"type": "custom_tool_call_output", "call_id": "c1", "output": "Done."},
        ],
    }
    prompt = OpenAIResponses().parse(json.dumps(asked).encode()).prompt
    found = body(prompt)
    assert {name: found[name] for name in ("tools", "tool_choice")} == {
        name: asked[name] for name in ("tools", "tool_choice")
    }
    assert [item for item in found["input"] if item["type"] != "message"] == asked["input"]
    assert [rule(found, read(found)) for rule in SERVICE_RULES] == [""] * len(SERVICE_RULES)

    plain = body(prompt, takes_text=False)
    assert plain["tools"][0]["type"] == plain["tool_choice"]["type"] == "function"
    assert "start: /x+/" in plain["tools"][0]["description"]
    call = next(item for item in plain["input"] if item["type"] == "function_call")
    assert json.loads(call["arguments"]) == {"input": "xx"}
