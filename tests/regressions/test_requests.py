"""What a client asks is what every upstream is asked, whatever API the client speaks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kiro_asgi.model.message import fold
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.stages.answer import build_pipeline
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard
from tests.dialects import echoes
from tests.regressions.crossing import CHAT, MESSAGES, PLAN, RESPONSES, SSE, UPSTREAMS, each_upstream
from tests.regressions.speech import stream

KEY = Credential(CredentialKind.API_KEY, "k")
MODELS = {
    "gemini": ModelCard("gemini-2.5-pro"),
    "anthropic": ModelCard("claude-sonnet-4-5"),
    "openai": ModelCard("gpt-4o"),
}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
ARGUMENTS = {"$ref": "#/x", "type": ["object"], "items": {"const": 1}, "additionalProperties": False}
"""Arguments that look like a schema."""

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
WORDS = "Be brief.", "One.", "(no content)", "Two.", "[undefined]", "Three."
"""What is said, by the system, the user, thrice the assistant and the user; two texts look like stand-ins for none."""


def messages(**more: Any) -> Prompt:
    system, first, *said, last = WORDS
    call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": ARGUMENTS}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    turns = [
        {"role": "user", "content": first},
        {"role": "assistant", "content": said[0]},
        {"role": "assistant", "content": [{"type": "text", "text": said[1]}, call]},
        {"role": "assistant", "content": said[2]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "seen"}]},
        {"role": "user", "content": [{"type": "text", "text": last}, image]},
    ]
    tools = [{"name": name, "input_schema": SCHEMA} for name in "fg"]
    body = {"model": "m", "max_tokens": 9000, "system": system, "messages": turns, "tools": tools, **more}
    return MESSAGES.dialect.parse(json.dumps(body).encode()).prompt


def chat(**more: Any) -> Prompt:
    system, first, *said, last = WORDS
    call = {"id": "toolu_1", "type": "function", "function": {"name": "f", "arguments": json.dumps(ARGUMENTS)}}
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    turns = [
        {"role": "user", "content": first},
        {"role": "developer", "content": system},
        {"role": "assistant", "content": said[0]},
        {"role": "assistant", "content": said[1], "tool_calls": [call]},
        {"role": "assistant", "content": said[2]},
        {"role": "tool", "tool_call_id": "toolu_1", "content": "seen"},
        {"role": "user", "content": [{"type": "text", "text": last}, image]},
    ]
    tools = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in "fg"]
    return CHAT.dialect.parse(json.dumps({"model": "m", "messages": turns, "tools": tools, **more}).encode()).prompt


def responses(**more: Any) -> Prompt:
    system, first, *said, last = WORDS
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}
    items = [
        {"role": "user", "content": first},
        {"role": "system", "content": system},
        {"role": "assistant", "content": said[0]},
        {"role": "assistant", "content": said[1]},
        {"type": "function_call", "call_id": "toolu_1", "name": "f", "arguments": json.dumps(ARGUMENTS)},
        {"role": "assistant", "content": said[2]},
        {"type": "function_call_output", "call_id": "toolu_1", "output": "seen"},
        {"role": "user", "content": [{"type": "input_text", "text": last}, image]},
    ]
    tools = [{"type": "function", "name": name, "parameters": SCHEMA} for name in "fg"]
    return RESPONSES.dialect.parse(json.dumps({"model": "m", "input": items, "tools": tools, **more}).encode()).prompt


ASKING = {"messages": messages, "chat": chat, "responses": responses}
each_api = pytest.mark.parametrize("api", ASKING)


def body_of(upstream: str, prompt: Prompt) -> dict[str, Any]:
    return dict(UPSTREAMS[upstream]().render(prompt, MODELS[upstream], KEY).document)


def roles(body: dict[str, Any]) -> list[str]:
    return [turn["role"] for turn in body.get("contents") or body["messages"]]


def arguments_in(body: dict[str, Any]) -> list[Any]:
    """The arguments of the calls in a request."""
    if "contents" in body:
        parts = [part for turn in body["contents"] for part in turn["parts"]]
        return [part["functionCall"]["args"] for part in parts if "functionCall" in part]
    calls = [call for turn in body["messages"] for call in turn.get("tool_calls") or ()]
    blocks = [block for turn in body["messages"] if type(turn["content"]) is list for block in turn["content"]]
    asked = [block["input"] for block in blocks if block["type"] == "tool_use"]
    return asked + [json.loads(call["function"]["arguments"]) for call in calls]


@each_api
@each_upstream
def test_everything_that_was_said_is_sent(upstream: str, api: str) -> None:
    """§1.2, §3.9: no turn is dropped beside its neighbour, no text for what it says, no image for where it stands."""
    told = json.dumps(body_of(upstream, ASKING[api]()))

    for said in (*map(json.dumps, WORDS), '"seen"', PNG):
        assert said.strip('"') in told


@each_api
def test_the_system_does_not_speak_among_the_turns(api: str) -> None:
    """§1.2: services with two sides get two, in turns, whoever else spoke in between."""
    for upstream, model in (("gemini", "model"), ("anthropic", "assistant")):
        spoken = roles(body_of(upstream, ASKING[api]()))
        assert spoken == ["user", model] * (len(spoken) // 2) + ["user"]


@each_api
@each_upstream
def test_arguments_are_no_schema(upstream: str, api: str) -> None:
    """§1.6: whatever they look like, they are sent as they were."""
    assert arguments_in(body_of(upstream, ASKING[api]())) == [ARGUMENTS]


@each_upstream
@pytest.mark.parametrize(
    ("api", "choice"),
    [
        ("messages", {"type": "tool", "name": "g"}),
        ("chat", {"type": "function", "function": {"name": "g"}}),
        ("responses", {"type": "function", "name": "g"}),
    ],
)
def test_a_choice_keeps_its_name(upstream: str, api: str, choice: Any) -> None:
    """§1.2: who wants one tool does not get any tool."""
    body = body_of(upstream, ASKING[api](tool_choice=choice))

    expected = {
        "gemini": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["g"]}},
        "anthropic": {"type": "tool", "name": "g"},
        "openai": {"type": "function", "function": {"name": "g"}},
    }
    assert (body.get("toolConfig") or body.get("tool_choice")) == expected[upstream]


@pytest.mark.parametrize("effort", ["low", "medium", "high"])
@pytest.mark.parametrize("api", ["chat", "responses"])
def test_an_effort_becomes_a_budget_that_is_legal(api: str, effort: str) -> None:
    """§3.9: 1,024 tokens or more, and fewer than the answer may have."""
    question = [{"role": "user", "content": "hi"}]
    asked: dict[str, dict[str, Any]] = {
        "chat": {"messages": question, "reasoning_effort": effort},
        "responses": {"input": question, "reasoning": {"effort": effort}},
    }
    body = body_of("anthropic", ASKING[api](**asked[api]))

    assert 1024 <= body["thinking"]["budget_tokens"] < body["max_tokens"]


THOUGHT = {"text": "hm", "thought": True, "thoughtSignature": "dGhvdWdodA=="}
SAID = {"text": "a", "thoughtSignature": "dGV4dA=="}
FIRST = {"functionCall": {"id": "x1", "name": "f", "args": {}}, "thoughtSignature": "Y2FsbA=="}
SECOND = {"functionCall": {"id": "x2", "name": "g", "args": {}}}


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "collected"])
@pytest.mark.parametrize(
    ("client", "kept"),
    [
        pytest.param(echoes.messages, [THOUGHT, SAID, FIRST, SECOND], id="messages"),
        pytest.param(echoes.responses, [THOUGHT, SAID, FIRST, SECOND], id="responses"),
        pytest.param(echoes.chat, [{"text": "a"}, FIRST, SECOND], id="chat"),
    ],
)
def test_signatures_go_back_where_they_were(client: echoes.Client, kept: list[Any], streamed: bool) -> None:
    """§1.8: as they came, though some are readable words when decoded; on no other part; thinking is never text."""
    upstream = UPSTREAMS["gemini"]()
    answer = build_pipeline(upstream.decoder(SSE), PLAN)
    event = {"candidates": [{"content": {"parts": [THOUGHT, SAID, FIRST, SECOND]}, "finishReason": "STOP"}]}
    message = fold([*answer.feed([stream([event])]), *answer.flush()])

    body = upstream.render(client(message, streamed), ModelCard("gemini-3-pro-preview"), KEY).document
    [said] = [turn["parts"] for turn in body["contents"] if turn["role"] == "model"]
    assert said == kept
