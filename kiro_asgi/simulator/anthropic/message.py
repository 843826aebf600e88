"""The parts of a message in Anthropic's format."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final

from kiro_asgi.simulator.pieces import CONTEXT_FULL, CallPart, Sealed, Searched, Stop, Thought, Words
from kiro_asgi.simulator.speech import Block

__all__ = ["STOPS", "block_of", "citations", "ending", "own_id", "sealed", "search_blocks"]

Json = dict[str, Any]

STOPS: Final[Mapping[str, str]] = {
    "END_TURN": "end_turn",
    "TOOL_USE": "tool_use",
    "MAX_TOKENS": "max_tokens",
    "STOP_SEQUENCE": "stop_sequence",
    "CONTENT_FILTERED": "refusal",
    "GUARDRAIL_INTERVENED": "refusal",
    "REFUSED": "refusal",
    CONTEXT_FULL: "model_context_window_exceeded",
}
"""Stop reason in Kiro's words to the one of this format."""


def ending(stop: Stop) -> Json:
    """Why the message ends."""
    ending: Json = {"stop_reason": STOPS.get(stop.reason, stop.reason), "stop_sequence": stop.sequence or None}
    if ending["stop_reason"] == "refusal":
        ending["stop_details"] = {"type": "refusal", "category": "cyber", "explanation": "A simulated refusal."}
    return ending


def own_id(call_id: str, prefix: str = "toolu_") -> str:
    """*call_id* with this format's prefix."""
    return prefix + call_id.removeprefix("tooluse_").replace("-", "A")


def block_of(block: Block, cites: list[Json]) -> Json:
    """*block* as a block of content; *cites* are what its text rests on."""
    match block.first:
        case Words():
            return {"type": "text", "text": block.text, **({"citations": cites} if cites else {})}
        case Thought():
            return {"type": "thinking", "thinking": block.text, "signature": block.seal}
        case Sealed(data):
            return {"type": "redacted_thinking", "data": data}
        case CallPart(call_id, name):
            return {"type": "tool_use", "id": own_id(call_id), "name": name, "input": _arguments(block.text)}
        case _:
            raise AssertionError(f"{block.first!r} is no block")


def _arguments(text: str) -> Any:
    try:
        return json.loads(text or "{}")
    except ValueError:
        return {}


def sealed(url: str) -> str:
    """What stands for the page at *url*, and has to come back as it is."""
    return b64encode(f"sealed {url}".encode()).decode()


def search_blocks(searched: Searched, call_id: str) -> list[Json]:
    """The call of a search, and its result."""
    results = [
        {
            "type": "web_search_result",
            "url": hit.url,
            "title": hit.title,
            "encrypted_content": sealed(hit.url),
            "page_age": None,
        }
        for hit in searched.hits
    ]
    query = {"query": searched.query}
    return [
        {"type": "server_tool_use", "id": call_id, "name": "web_search", "input": query},
        {"type": "web_search_tool_result", "tool_use_id": call_id, "content": results},
    ]


def citations(searched: Searched) -> list[Json]:
    """What is cited of a search."""
    return [
        {
            "type": "web_search_result_location",
            "url": hit.url,
            "title": hit.title,
            "encrypted_index": sealed(hit.url),
            "cited_text": hit.title,
        }
        for hit in searched.hits
    ]
