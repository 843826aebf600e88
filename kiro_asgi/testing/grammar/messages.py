"""The grammar of a streamed Messages answer, as a checker that shares no code with the encoder.

::

    stream = message_start ping* block* [code_references] message_delta message_stop
    block  = content_block_start content_block_delta* content_block_stop

An ``error`` may stand for the rest of it, but not inside a block.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Set
from typing import Any, Final

PIECES: Final[Mapping[str, Mapping[str, str]]] = {
    "text": {"text_delta": "text", "citations_delta": "citation"},
    "thinking": {"thinking_delta": "thinking", "signature_delta": "signature"},
    "redacted_thinking": {},
    "tool_use": {"input_json_delta": "partial_json"},
    "server_tool_use": {"input_json_delta": "partial_json"},
    "web_search_tool_result": {},
    "web_fetch_tool_result": {},
    "code_execution_tool_result": {},
}


def parse_sse(stream: bytes) -> list[dict[str, Any]]:
    """The data of every event, each checked to be framed as the official SDKs want it."""
    assert stream.endswith(b"\n\n") or not stream
    events = []
    for chunk in re.split(r"\r\n\r\n|\n\n|\r\r", stream.decode())[:-1]:
        name, data = re.split(r"\r\n|\n|\r", chunk)
        assert name.startswith("event: ") and data.startswith("data: "), chunk
        event = json.loads(data.removeprefix("data: "))
        assert event["type"] == name.removeprefix("event: ")
        events.append(event)
    return events


def check(stream: bytes, *, cut: Set[str] = frozenset()) -> dict[str, Any]:
    """Fail unless *stream* is one whole, legal answer; the message that it adds up to.

    Calls whose ids are in *cut* were sent in pieces, and their input may end anywhere.
    """
    first, *middle, delta, stop = [event for event in parse_sse(stream) if event["type"] != "ping"]
    assert first["type"] == "message_start"
    message: dict[str, Any] = first["message"]
    assert message["content"] == [] and message["stop_reason"] is None and message["stop_sequence"] is None
    message["content"] = _blocks(middle, cut=cut)
    assert all(block["type"] != "text" or block["text"].strip() for block in message["content"]), "refused as input"
    assert delta["type"] == "message_delta"
    assert stop == {"type": "message_stop"}
    message |= delta["delta"]
    message["usage"] |= delta["usage"]
    return message


def check_cut(stream: bytes) -> dict[str, Any]:
    """Fail unless *stream* ends with an error and is legal until then; the error."""
    *before, last = [event for event in parse_sse(stream) if event["type"] != "ping"]
    assert last["type"] == "error"
    if before:
        assert before[0]["type"] == "message_start"
        _blocks(before[1:], whole=False)
    error: dict[str, Any] = last["error"]
    return error


def _blocks(events: list[dict[str, Any]], *, whole: bool = True, cut: Set[str] = frozenset()) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    rest = iter(events)
    for event in rest:
        if event["type"] == "code_references" and whole:
            assert next(rest, None) is None, "something follows the references"
            break
        assert event["type"] == "content_block_start", f"{event} outside of a block"
        assert event["index"] == len(blocks)
        pieces = []
        for piece in rest:
            assert piece["index"] == len(blocks)
            if piece["type"] == "content_block_stop":
                break
            assert piece["type"] == "content_block_delta"
            pieces.append(piece["delta"])
        else:
            raise AssertionError("a block was not closed")
        block = event["content_block"]
        blocks.append(_block(block, pieces, whole=whole and block.get("id") not in cut))
    return blocks


def _block(block: dict[str, Any], pieces: list[dict[str, Any]], *, whole: bool) -> dict[str, Any]:
    fields = PIECES[block["type"]]
    for piece in pieces:
        assert set(piece) == {"type", fields[piece["type"]]}
    if block["type"] in ("tool_use", "server_tool_use"):
        assert block["input"] == {}
        if whole:
            assert pieces, "a tool call without a piece"
            block["input"] = json.loads("".join(piece["partial_json"] for piece in pieces))
        return block
    if block["type"] == "thinking" and whole:
        assert [piece["type"] for piece in pieces].count("signature_delta") == 1
        assert pieces[-1]["type"] == "signature_delta"
    if citations := [piece["citation"] for piece in pieces if piece["type"] == "citations_delta"]:
        block["citations"] = citations
        assert all(piece["type"] == "citations_delta" for piece in pieces[-len(citations) :]), (
            "text follows its sources"
        )
    for kind, name in fields.items():
        if kind == "citations_delta":
            continue
        assert block[name] == ""
        block[name] = "".join(piece[name] for piece in pieces if piece["type"] == kind)
    return block
