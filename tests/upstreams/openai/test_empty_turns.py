"""Earlier answers without a word: no service is sent a message with nothing in it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kiro_asgi.model.prompt import Part, Prompt, Role, Text, ThinkingPart, ToolCallPart, ToolResult, Turn
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard
from kiro_asgi.upstreams.openai.upstream import OpenAIUpstream, ResponsesUpstream

KEY = Credential(CredentialKind.API_KEY, "k")
SERVERS = {
    "a server": OpenAIUpstream(name="local", endpoint="http://localhost/v1"),
    "one that demands thinking": OpenAIUpstream(name="local", endpoint="http://localhost/v1", demands_thinking=True),
    "OpenAI": OpenAIUpstream(),
    "OpenAI, Responses": ResponsesUpstream(),
}


def user(*parts: Part | str) -> Turn:
    return Turn(Role.USER, tuple(Text(part) if isinstance(part, str) else part for part in parts))


def sent(server: str, *turns: Turn) -> list[dict[str, Any]]:
    body = json.loads(SERVERS[server].render(Prompt("m", turns), ModelCard("gpt-4o"), KEY).request.body)
    messages: list[dict[str, Any]] = body.get("messages") or body["input"]
    return messages


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param((), id="nothing"),
        pytest.param((Text(""),), id="empty"),
        pytest.param((Text(" \n"),), id="blank"),
        pytest.param((ThinkingPart("hm"),), id="thinking"),
        pytest.param((ThinkingPart("hm", "c2ln"),), id="signed-thinking"),
        pytest.param((ThinkingPart("hm", "nobody.thought:"), Text("")), id="thinking-and-nothing"),
        pytest.param((ThinkingPart(redacted="x"),), id="sealed"),
    ],
)
@pytest.mark.parametrize("server", SERVERS)
def test_an_answer_without_a_word_is_left_out(server: str, parts: tuple[Part, ...]) -> None:
    """As a client of Chat Completions leaves it out itself; what stands around it stays."""
    messages = sent(server, user("hi"), Turn(Role.ASSISTANT, parts), user("go on"))

    assert {message["role"] for message in messages} == {"user"}
    assert "hi" in json.dumps(messages) and "go on" in json.dumps(messages)
    assert sent(server, Turn(Role.ASSISTANT, parts))[0]["role"] == "user"


@pytest.mark.parametrize("server", SERVERS)
def test_an_answer_with_a_call_stays(server: str) -> None:
    """Whatever else it has not."""
    call = Turn(Role.ASSISTANT, (Text(""), ToolCallPart("c1", "f", {})))
    messages = sent(server, user("hi"), call, user(ToolResult("c1", (Text("r"),))))

    assert any(message.get("tool_calls") or message.get("type") == "function_call" for message in messages)
    assert all(message.get("content") != "" for message in messages)
