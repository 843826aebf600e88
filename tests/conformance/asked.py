"""The same question through each official client, streamed and collected, and what its user gets to see."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import anthropic
import openai
import pytest
from attrs import frozen

from tests.conformance.asking import MODEL
from tests.conformance.clients import Clients
from tests.conformance.gateways import Gateway

__all__ = ["EACH_API", "EACH_WAY", "Seen", "ask"]

APIS: Final = ("messages", "chat", "responses")

EACH_API: Final = pytest.mark.parametrize("api", APIS)
EACH_WAY: Final = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "collected"])

Tools = Mapping[str, Mapping[str, Any]]
"""Name to JSON Schema."""


@frozen
class Seen:
    """An answer as the client's own types hold it."""

    text: str = ""
    thinking: str = ""
    calls: tuple[tuple[str, Any], ...] = ()
    """Name and arguments of each."""

    stop: str | None = ""
    """In the words of the API; of a response, its status, or why it is incomplete."""

    ids: tuple[str, ...] = ()
    """Ids of the calls."""

    refusal: str = ""
    """What stands where the API has a place of its own for a refusal."""


def ask(
    clients: Clients, gateway: Gateway, api: str, content: Any, *, stream: bool, tools: Tools | None = None, **more: Any
) -> Seen:
    """What the official client makes of the answer to *content*, a user's message or a whole conversation."""
    turns = [{"role": "user", "content": content}] if isinstance(content, str) else content
    params = {"model": MODEL, **more}
    if tools:
        params["tools"] = [_TOOL[api](name, schema) for name, schema in tools.items()]
    return _ASK[api](clients, gateway, turns, params, stream)


def _messages(clients: Clients, gateway: Gateway, turns: list[Any], params: dict[str, Any], stream: bool) -> Seen:
    client = clients.anthropic(gateway)
    params = {"max_tokens": 4096, **params, "messages": turns}
    message: anthropic.types.Message
    if stream:
        with client.messages.stream(**params) as events:
            message = events.get_final_message()
    else:
        message = client.messages.create(**params)
    calls = [block for block in message.content if block.type == "tool_use"]
    return Seen(
        "".join(block.text for block in message.content if block.type == "text"),
        "".join(block.thinking for block in message.content if block.type == "thinking"),
        tuple((call.name, call.input) for call in calls),
        message.stop_reason,
        tuple(call.id for call in calls),
    )


def _chat(clients: Clients, gateway: Gateway, turns: list[Any], params: dict[str, Any], stream: bool) -> Seen:
    completions = clients.openai(gateway).chat.completions
    if stream:
        with completions.stream(**params, messages=turns) as events:
            events.until_done()
            (choice,) = events.current_completion_snapshot.choices
    else:
        (choice,) = completions.create(**params, messages=turns).choices
    calls = choice.message.tool_calls or []
    return Seen(
        choice.message.content or "",
        getattr(choice.message, "reasoning_content", None) or "",
        tuple((call.function.name, json.loads(call.function.arguments)) for call in calls),
        choice.finish_reason,
        tuple(call.id for call in calls),
        choice.message.refusal or "",
    )


def _responses(clients: Clients, gateway: Gateway, turns: list[Any], params: dict[str, Any], stream: bool) -> Seen:
    responses = clients.openai(gateway).responses
    response: openai.types.responses.Response
    if stream:
        with responses.stream(**params, input=turns) as events:
            *_, last = events
            response = last.response
    else:
        response = responses.create(**params, input=turns)
    calls = [item for item in response.output if item.type == "function_call"]
    parts = [part for item in response.output if item.type == "message" for part in item.content]
    why = response.incomplete_details
    return Seen(
        response.output_text,
        "".join(part.text for item in response.output if item.type == "reasoning" for part in item.content or ()),
        tuple((call.name, json.loads(call.arguments)) for call in calls),
        why.reason if why is not None else response.status,
        tuple(call.call_id for call in calls),
        "".join(part.refusal for part in parts if part.type == "refusal"),
    )


_ASK: Final = {"messages": _messages, "chat": _chat, "responses": _responses}
_TOOL: Final = {
    "messages": lambda name, schema: {"name": name, "description": "d", "input_schema": schema},
    "chat": lambda name, schema: {
        "type": "function",
        "function": {"name": name, "description": "d", "parameters": schema},
    },
    "responses": lambda name, schema: {
        "type": "function",
        "name": name,
        "description": "d",
        "parameters": schema,
        "strict": False,
    },
}
