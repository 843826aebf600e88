"""Marks for the prompt cache, from the official client through a translation to the service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kiro_asgi.simulator import Simulator, answer, text
from kiro_asgi.simulator.service import CHAT
from tests.conformance.asked import EACH_WAY
from tests.conformance.clients import Clients
from tests.conformance.gateways import Gateway

ANTHROPIC = ("anthropic.chat", "anthropic/claude-haiku-4-5")
OTHERS = [(CHAT, "claude-haiku-4.5"), ("gemini.chat", "gemini-2.5-flash"), ("openai.chat", "gpt-4o")]
MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
TOOL = {"name": "f", "input_schema": {"type": "object", "properties": {}}}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
PLAIN = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}, "title": "t"}


def body_of(
    clients: Clients, gateway: Gateway, service: Simulator, asked: tuple[str, str], stream: bool, **more: Any
) -> Any:
    """The body that the service was sent."""
    operation, model = asked
    service.answer_with(lambda request: answer(*text("So.")) if request.operation == operation else None)
    params: dict[str, Any] = {"model": model, "max_tokens": 4096, **more}
    created = clients.anthropic(gateway).messages.create(stream=stream, **params)
    if stream:
        assert [*created]  # type: ignore[misc]
    (request,) = (request for request in service.requests if request.operation == operation)
    return json.loads(request.body)


def marks(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """The place and the value of every mark."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in items:
        at = f"{place}[{step}]" if isinstance(step, int) else f"{place}.{step}".lstrip(".")
        if step == "cache_control":
            yield place, inner
        else:
            yield from marks(inner, at)


def said(*blocks: Any) -> list[Any]:
    return [{"role": "user", "content": [*blocks]}]


CASES: dict[str, tuple[dict[str, Any], list[tuple[str, Any]]]] = {
    "tools-and-system": (
        {
            "tools": [TOOL, {**TOOL, "name": "g", "cache_control": HOUR}],
            "system": [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "cache_control": MARK}],
            "messages": said({"type": "text", "text": "x", "cache_control": MARK}),
        },
        [("tools[1]", HOUR), ("system[1]", MARK), ("messages[0].content[0]", MARK)],
    ),
    "hosted-tool": (
        {
            "tools": [{"type": "web_search_20250305", "name": "web_search", "cache_control": MARK}],
            "messages": said({"type": "text", "text": "x"}),
        },
        [("tools[0]", MARK)],
    ),
    "whole": ({"cache_control": HOUR, "messages": said({"type": "text", "text": "x"})}, [("", HOUR)]),
    "attachments": (
        {"messages": said({**IMAGE, "cache_control": MARK}, {**PLAIN, "cache_control": HOUR})},
        [("messages[0].content[0]", MARK), ("messages[0].content[1]", HOUR)],
    ),
    "calls-and-results": (
        {
            "tools": [TOOL],
            "messages": [
                *said({"type": "text", "text": "x"}),
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}, "cache_control": MARK}],
                },
                *said(
                    {
                        "type": "tool_result",
                        "tool_use_id": "t1",
                        "content": [{"type": "text", "text": "r", "cache_control": HOUR}],
                        "cache_control": MARK,
                    }
                ),
            ],
        },
        [
            ("messages[1].content[0]", MARK),
            ("messages[2].content[0].content[0]", HOUR),
            ("messages[2].content[0]", MARK),
        ],
    ),
    "attribution": (
        {
            "system": [
                {"type": "text", "text": "x-anthropic-billing-header: cc_version=1"},
                {"type": "text", "text": "b", "cache_control": {**HOUR, "scope": "global"}},
            ],
            "messages": said({"type": "text", "text": "x"}),
        },
        [("system[0]", {**HOUR, "scope": "global"})],
    ),
}


@EACH_WAY
@pytest.mark.parametrize(("asked", "expected"), CASES.values(), ids=CASES)
def test_marks_stand_where_the_client_put_them(
    clients: Clients, scripted: Gateway, service: Simulator, asked: dict[str, Any], expected: Any, stream: bool
) -> None:
    """On tools, system texts, blocks, blocks within results, and the whole request, with their time."""
    body = body_of(clients, scripted, service, ANTHROPIC, stream, **asked)

    assert sorted(marks(body), key=str) == sorted(expected, key=str)


def test_the_service_is_sent_four_at_most(clients: Clients, scripted: Gateway, service: Simulator) -> None:
    """The last ones: they stand for more of the prompt; one for the whole request counts."""
    blocks = [{"type": "text", "text": str(number), "cache_control": MARK} for number in range(6)]
    body = body_of(clients, scripted, service, ANTHROPIC, False, messages=said(*blocks), cache_control=MARK)

    kept = {f"messages[0].content[{number}]" for number in (3, 4, 5)}
    assert {place for place, _ in marks(body)} == {"", *kept}


@pytest.mark.parametrize("other", OTHERS, ids=[operation for operation, _ in OTHERS])
def test_other_services_are_not_told(
    clients: Clients, scripted: Gateway, service: Simulator, other: tuple[str, str]
) -> None:
    """They have no such marks; nothing is lost."""
    asked = CASES["tools-and-system"][0]
    body = body_of(clients, scripted, service, other, False, **asked)

    assert "ephemeral" not in json.dumps(body)


def test_what_is_no_mark_here_is_the_service_s_to_read(clients: Clients, scripted: Gateway, service: Simulator) -> None:
    """Null says nothing, and a kind of mark that nobody knows here goes where it stood."""
    wrong: Any = [{"type": "text", "text": "x", "cache_control": each} for each in (None, {"type": "new"})]
    body = body_of(clients, scripted, service, ANTHROPIC, False, messages=said(*wrong))

    assert [*marks(body)] == [("messages[0].content[1]", {"type": "new"})]


def test_the_same_beginning_is_the_same(clients: Clients, scripted: Gateway, service: Simulator) -> None:
    """What comes later in a conversation changes nothing before it, or the service would find nothing again."""
    asked = CASES["tools-and-system"][0]
    first = body_of(clients, scripted, service, ANTHROPIC, False, **asked)
    service.forget()
    turns = [*asked["messages"], {"role": "assistant", "content": "So."}, *said({"type": "text", "text": "y"})]
    second = body_of(clients, scripted, service, ANTHROPIC, False, **{**asked, "messages": turns})

    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert (second["tools"], second["system"]) == (first["tools"], first["system"])
