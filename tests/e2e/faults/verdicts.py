"""Reads an answer the way a strict client does: was it whole, was it broken off, what did it say.

Every function takes the route and the exchange, and fails where the form is wrong.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

from attrs import frozen

from kiro_asgi.testing.grammar import messages as anthropic
from tests.asgi.driver import Exchange
from tests.dialects.openai_chat import grammar as openai
from tests.dialects.openai_responses import grammar as responses


def strict(data: bytes | str) -> Any:
    """The value of a JSON text that any parser of the strict kind accepts, and reads the same."""
    text = data.decode("utf-8", "strict") if isinstance(data, bytes) else data
    value = json.loads(text, parse_constant=_refuse, parse_float=_finite, parse_int=_exact, object_pairs_hook=_unique)
    json.dumps(value, ensure_ascii=False).encode("utf-8", "strict")  # no lone surrogate
    return value


def _refuse(word: str) -> None:
    raise AssertionError(f"{word} is not JSON")


def _finite(digits: str) -> float:
    assert isfinite(float(digits)), f"{digits} overflows"
    return float(digits)


def _exact(digits: str) -> int:
    assert len(digits) < 20, "an integer beyond 64 bits"
    return int(digits)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs), "a key occurs twice"
    return dict(pairs)


@frozen
class Answer:
    """A whole answer, in terms that all APIs share."""

    text: str
    thinking: str
    calls: tuple[tuple[str, str, Any], ...]
    """Id, name and arguments of every call."""

    stop: str


def check_transport(exchange: Exchange) -> None:
    """One head, then bodies, the last of which says that it is the last."""
    kinds = [message["type"] for message in exchange.messages]
    assert kinds == ["http.response.start", *["http.response.body"] * (len(kinds) - 1)], kinds
    mores = [message.get("more_body", False) for message in exchange.messages[1:]]
    assert mores == [True] * (len(mores) - 1) + [False], mores


def whole(route: str, exchange: Exchange, *, stream: bool) -> Answer:
    """The answer; fails unless it is complete and well-formed."""
    check_transport(exchange)
    assert exchange.status == 200, exchange.content[:500]
    _check_json(route, exchange.content, stream=stream)
    if route == "anthropic":
        if stream:
            _check_arguments(anthropic.parse_sse(exchange.content))
        return _anthropic(anthropic.check(exchange.content) if stream else exchange.json())
    if route == "responses":
        return _responses(responses.check(exchange.content)[-1]["response"] if stream else _checked(exchange))
    if not stream:
        openai.COMPLETION.validate_json(exchange.content, strict=True)
        (choice,) = exchange.json()["choices"]
        return _openai(choice)
    chunks = openai.check(exchange.content)
    assert "error" not in chunks[-1], chunks[-1]
    return _openai(openai.fold(chunks))


def broken(route: str, exchange: Exchange) -> str:
    """The text that came before a stream was broken off; fails unless it ends with one error, and nothing else."""
    check_transport(exchange)
    assert exchange.status == 200, exchange.content[:500]
    _check_json(route, exchange.content, stream=True)
    if route == "anthropic":
        anthropic.check_cut(exchange.content)
        events = anthropic.parse_sse(exchange.content)
        assert not {"message_delta", "message_stop"} & {event["type"] for event in events}, "a normal finish"
        return "".join(event["delta"].get("text", "") for event in events if event["type"] == "content_block_delta")
    if route == "responses":
        told = responses.check(exchange.content)
        assert told[-1]["type"] == "response.failed"
        return "".join(event["delta"] for event in told if event["type"] == "response.output_text.delta")
    chunks = openai.check(exchange.content)
    assert "error" in chunks[-1]
    folded = openai.fold(chunks)
    assert folded["finish_reason"] is None, "a normal finish"
    return str(folded["message"].get("content") or "")


def refused(route: str, exchange: Exchange, status: int) -> str:
    """The message of an error in a JSON body of its own."""
    check_transport(exchange)
    assert exchange.status == status, (exchange.status, exchange.content[:500])
    assert exchange.headers["content-type"] == "application/json"
    document = strict(exchange.content)
    if route == "anthropic":
        assert document["type"] == "error" and set(document["error"]) >= {"type", "message"}
    else:
        assert set(document["error"]) == {"message", "type", "param", "code"}
    return str(document["error"]["message"])


def lost(route: str, exchange: Exchange) -> str:
    """The message about an answer that did not come whole: a bad gateway, or a connection that broke."""
    assert exchange.status in (502, 503)
    return refused(route, exchange, exchange.status)


def _check_json(route: str, content: bytes, *, stream: bool) -> None:
    if not stream:
        strict(content)
    elif route in ("anthropic", "responses"):
        for line in content.decode().split("\n"):
            if line.startswith("data: "):
                strict(line.removeprefix("data: "))
    else:
        for data in openai.payloads(content):
            if data != "[DONE]":
                strict(data)


def _check_arguments(events: list[dict[str, Any]]) -> None:
    pieces: dict[int, str] = {}
    for event in events:
        if event["type"] == "content_block_delta" and event["delta"]["type"] == "input_json_delta":
            pieces[event["index"]] = pieces.get(event["index"], "") + event["delta"]["partial_json"]
    for arguments in pieces.values():
        strict(arguments)


def _anthropic(message: dict[str, Any]) -> Answer:
    def joined(kind: str, key: str) -> str:
        return "".join(block[key] for block in message["content"] if block["type"] == kind)

    calls = [block for block in message["content"] if block["type"] == "tool_use"]
    return Answer(
        joined("text", "text"),
        joined("thinking", "thinking"),
        tuple((call["id"], call["name"], call["input"]) for call in calls),
        message["stop_reason"],
    )


def _checked(exchange: Exchange) -> dict[str, Any]:
    responses.RESPONSE.validate_json(exchange.content, strict=True)
    response: dict[str, Any] = exchange.json()
    return response


def _responses(response: dict[str, Any]) -> Answer:
    def joined(kind: str) -> str:
        parts = [part for item in response["output"] if item["type"] == kind for part in item.get("content", ())]
        return "".join(part["text"] for part in parts)

    calls = [item for item in response["output"] if item["type"] == "function_call"]
    return Answer(
        joined("message"),
        joined("reasoning"),
        tuple((call["call_id"], call["name"], strict(call["arguments"])) for call in calls),
        response["status"],
    )


def _openai(choice: dict[str, Any]) -> Answer:
    message = choice["message"]
    calls = message.get("tool_calls") or []
    return Answer(
        message.get("content") or "",
        message.get("reasoning_content") or "",
        tuple((call["id"], call["function"]["name"], strict(call["function"]["arguments"])) for call in calls),
        choice["finish_reason"],
    )
