"""Tools, blocks, items and members of the client's own kinds on their way to a service of its API.

Whatever they hold: nothing of them is read for what it is not, and the answer is read as ever.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import pytest

from tests.asgi.driver import Exchange
from tests.asgi.test_unknown_answers import (
    FORMS,
    answering,
    chat,
    generated,
    in_chunks,
    responded,
    said,
    slices,
    sse,
    streamed,
)
from tests.asgi.test_unknown_answers import asking as plainly

pytestmark = pytest.mark.anyio

OUTPUT: Final = {"type": "output_text", "text": "Hello.", "annotations": list[Any]()}
ANSWERS: Final[Mapping[str, tuple[str, bytes]]] = {
    "chat": ("openai_chat", chat({"content": "Hello."})),
    "responses": (
        "openai_responses",
        streamed(responded({"type": "message", "role": "assistant", "content": [OUTPUT]})),
    ),
    "messages": ("anthropic", sse(*said({"type": "text", "text": "Hello."}))),
    "invoke": ("anthropic", in_chunks(*said({"type": "text", "text": "Hello."}))),
    "gemini": ("gemini", sse(generated({"text": "Hello."}))),
}
"""Form of a service to the API of its clients and an answer."""


async def asked(name: str, document: Mapping[str, Any], app: Any, sim: Any) -> tuple[Exchange, Any]:
    """What becomes of a request to the service *name*, and the body that the service got."""
    client, data = ANSWERS[name]
    sim.answer_with(answering(FORMS[name], data))
    exchange = plainly(client, FORMS[name].model, True)
    body = {**json.loads(exchange.body[0]), **document}
    exchange.body[:] = [json.dumps(body).encode()]
    exchange.scope["headers"] = [it for it in exchange.scope["headers"] if it[0] != b"content-length"]
    await exchange.run(app)
    sim.answer_with(None)
    got = [recorded for recorded in sim.requests if recorded.operation == FORMS[name].operation]
    return exchange, json.loads(got[-1].body) if got else None


TOOLS: Final = (
    {"type": "bash_20250124", "name": "bash"},
    {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
    {"type": "memory_20250818", "name": "memory"},
    {"type": "computer_20250124", "name": "computer", "display_width_px": 1, "display_height_px": 1},
    {"type": "web_search_20250305", "name": "web_search"},
    {"type": "web_fetch_20250910", "name": "web_fetch"},
    {"type": "code_execution_20250825", "name": "code_execution"},
    {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"},
    {"type": "invented_20300101", "name": "invented"},
)


@pytest.mark.parametrize("name", ["messages", "invoke"])
@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool["type"])
async def test_answers_are_read_whatever_tools_there_are(tool, name, gateway, service, sim):
    """With tools that the service runs, a turn may come in parts; it comes in the service's own frames all the same."""
    exchange, _ = await asked(name, {"tools": [tool]}, gateway(**slices(service, FORMS[name])), sim)
    assert exchange.status == 200 and b"Hello." in exchange.content


ODD: Final = (
    *({"text": 5}, {"text": {"a": 1}}, {"content": {"a": 1}}, {"content": [5, "x", [1]]}, {"content": "s"}),
    *({"output": {"a": 1}}, {"output": [5, None]}, {"output": 5}, {"summary": [5]}, {"name_": {"a": 1}}),
    *({"arguments": {"q": 1}}, {"input": [1]}, {"input": {"a": 1}}, {"source": 5}, {"source": {"data": 5}}),
    *({"thinking": {"a": 1}}, {"refusal": 5}, {"parts": [5]}, {"image_url": 5}, {"tool_use_id": 5}, {"id": 5}),
    *({"call_id": 5}, {"role": 5}, {"function": 5}, {"title": 5}, {"annotations": 5}),
)
"""Members that other kinds have, with values that those never have."""

TEXT: Final = {"type": "text", "text": "hi"}
CALL: Final = {"type": "tool_use", "id": "t", "name": "x", "input": {}}


def places(own: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Requests, by the service, that have *own* wherever a kind that nobody knows may stand."""
    kind = {"type": "hologram", **own}
    user = {"role": "user", "content": "hi"}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [kind]}
    turns = [user, {"role": "assistant", "content": [CALL]}, {"role": "user", "content": [result]}]
    blocks = [
        {"messages": [{"role": "user", "content": [TEXT, kind]}]},
        {"messages": [user, {"role": "assistant", "content": [TEXT, kind]}, user]},
        {"messages": turns},
        {"messages": [user], "tools": [{"name": "h", **kind, "type": "hologram_1"}]},
    ]
    return {
        "responses": [
            {"input": [user, kind]},
            {"input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}, kind]}]},
            {"input": "hi", "tools": [kind]},
        ],
        "messages": blocks,
        "invoke": blocks,
        "chat": [{"messages": [{"role": "user", "content": [TEXT, kind]}]}, {"messages": [user], "tools": [kind]}],
        "gemini": [
            {"contents": [{"role": "user", "parts": [{"text": "hi"}, {"hologram": own}]}]},
            {"contents": [{"role": "user", "parts": [{"text": "hi"}]}], "tools": [{"hologram": own}]},
        ],
    }


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("own", ODD, ids=json.dumps)
async def test_members_of_an_own_kind_may_be_anything(own, name, gateway, service, sim):
    """They arrive, and nobody takes them for those of a kind that is known; a service that is asked by another of its
    APIs at first gets them by the right one.
    """
    app = gateway(**slices(service, FORMS[name]))
    for document in places(own)[name]:
        exchange, got = await asked(name, document, app, sim)
        assert exchange.status == 200, exchange.content
        assert b"Hello." in exchange.content
        assert "hologram" in json.dumps(got)


PIXEL: Final = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="  # noqa: E501
ITEMS: Final = (
    {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot", "image_url": PIXEL}},
    {"type": "mcp_call", "id": "m", "server_label": "s", "name": "look", "arguments": "{}", "output": "seen"},
    {"type": "image_generation_call", "id": "i", "result": PIXEL.partition(",")[2], "status": "completed"},
    {"type": "mcp_list_tools", "id": "l", "server_label": "s", "tools": [{"name": "look", "input_schema": {}}]},
)


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item["type"])
async def test_items_of_earlier_answers_reach_the_service(item, gateway, service, sim):
    exchange, got = await asked(
        "responses",
        {"input": [{"role": "user", "content": "hi"}, item]},
        gateway(**slices(service, FORMS["responses"])),
        sim,
    )
    assert exchange.status == 200
    assert item in got["input"]


async def test_phases_and_annotations_of_earlier_texts_reach_the_service(gateway, service, sim):
    """And no note says that they do not."""
    page = {"type": "url_citation", "url": "https://example.org/", "title": "T", "start_index": 0, "end_index": 2}
    content = [{"type": "output_text", "text": "Hm.", "annotations": [page]}]
    earlier = {"type": "message", "role": "assistant", "id": "m", "content": content, "phase": "commentary"}
    document = {"input": [{"role": "user", "content": "hi"}, earlier, {"role": "user", "content": "on"}]}
    exchange, got = await asked("responses", document, gateway(**slices(service, FORMS["responses"])), sim)

    assert (got["input"][1]["phase"], got["input"][1]["content"]) == ("commentary", content)
    assert "phase" not in exchange.headers.get("x-kiro-asgi-rules", "")
