"""A service that pauses in the middle of its answers, and goes on only if all it said comes back as it was."""

from __future__ import annotations

import json
from typing import Any, Final

from attrs import define, field

from kiro_asgi.simulator import Head, RawBytes, RecordedRequest
from kiro_asgi.simulator.anthropic.encoder import refusal
from kiro_asgi.simulator.scripts import Script

__all__ = ["INPUT", "OUTPUT", "PARTS", "TEXT", "URL", "Pausing", "streamed"]

Json = dict[str, Any]

URL: Final = "https://example.org/fjord"
INPUT, OUTPUT = 11, 7
"""Tokens of each message."""

TEXT: Final = "Let me look. Fjords are deep, and cold."


def _search(call_id: str, query: str) -> Json:
    return {"type": "server_tool_use", "id": call_id, "name": "web_search", "input": {"query": query}}


def _found(call_id: str) -> Json:
    page = {"type": "web_search_result", "url": URL, "title": "Fjords", "encrypted_content": "Eo8B", "page_age": None}
    return {"type": "web_search_tool_result", "tool_use_id": call_id, "content": [page]}


_SOURCE: Final = {
    "type": "web_search_result_location",
    "url": URL,
    "title": "Fjords",
    "encrypted_index": "Eo8BCio",
    "cited_text": "They are deep.",
}

PARTS: Final[tuple[list[Json], ...]] = (
    [
        {"type": "thinking", "thinking": "Which fjord?", "signature": "c2lnbmVk"},
        {"type": "redacted_thinking", "data": "c2VhbGVk"},
        {"type": "text", "text": "Let me look. "},
        _search("srvtoolu_1", "fjords"),
    ],
    [
        _found("srvtoolu_1"),
        {"type": "text", "text": "Fjords are "},
        {"type": "text", "text": "deep", "citations": [_SOURCE]},
        _search("srvtoolu_2", "cold fjords"),
        _found("srvtoolu_2"),
    ],
    [{"type": "text", "text": ", and cold."}],
)
"""Blocks of each message of a turn; a call at the end of one has its result in the next."""

_USAGE: Final = {"input_tokens": INPUT, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}


def _event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def _message(blocks: list[Json], reason: str | None, output: int) -> Json:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-4-5",
        "content": blocks,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": {**_USAGE, "output_tokens": output},
    }


def _deltas(block: Json) -> tuple[Json, list[Json]]:
    """What the service says at the start of a block, and then."""
    match block["type"]:
        case "text":
            text = block["text"]
            pieces = [{"type": "text_delta", "text": piece} for piece in (text[:2], text[2:])]
            cites = [{"type": "citations_delta", "citation": each} for each in block.get("citations", ())]
            return {**block, "text": "", **({"citations": []} if cites else {})}, [*cites, *pieces]
        case "thinking":
            said = [{"type": "thinking_delta", "thinking": block["thinking"]}]
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*said, signed]
        case "server_tool_use":
            text = json.dumps(block["input"])
            pieces = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", text[:4], text[4:])]
            return {**block, "input": {}}, pieces
        case _:
            return block, []


def streamed(blocks: list[Json], reason: str | None) -> bytes:
    """A message as a stream; without a *reason* it breaks off in front of its end."""
    said = [_event("message_start", message=_message([], None, 1))]
    for index, block in enumerate(blocks):
        start, deltas = _deltas(block)
        said.append(_event("content_block_start", index=index, content_block=start))
        said += [_event("content_block_delta", index=index, delta=delta) for delta in deltas]
        said.append(_event("content_block_stop", index=index))
    if reason is not None:
        ending = {"stop_reason": reason, "stop_sequence": None}
        said += [_event("message_delta", delta=ending, usage={"output_tokens": OUTPUT}), _event("message_stop")]
    return b"".join(said)


@define
class Pausing:
    """Answers with the parts of a turn, each only to the request that hands all before it back."""

    parts: tuple[list[Json], ...] = PARTS
    endless: bool = False
    """Whether it pauses behind the last part as well, and says that again."""

    whole: bool = False
    """Whether it answers in one document."""

    asked: list[Json] = field(init=False, factory=list)
    """Bodies of requests."""

    def answer(self, request: RecordedRequest) -> Script | None:
        """The next part, or a refusal."""
        if request.operation != "anthropic.chat":
            return None
        body = json.loads(request.body)
        self.asked.append(body)
        at = self._place(body)
        if at is None:
            return refusal(400, "invalid_request_error", "messages: this is not what was said")
        paused = self.endless or at + 1 < len(self.parts)
        blocks, reason = self.parts[min(at, len(self.parts) - 1)], "pause_turn" if paused else "end_turn"
        if self.whole:
            document = json.dumps(_message(blocks, reason, OUTPUT)).encode()
            return Head(content_type="application/json"), RawBytes(document)
        return Head(content_type="text/event-stream"), RawBytes(streamed(blocks, reason))

    def _place(self, body: Json) -> int | None:
        """How many parts *body* hands back, unchanged, behind the first request; ``None`` for anything else."""
        first, messages = self.asked[0], body["messages"]
        if body == first:
            return 0
        *before, last = messages
        asked = {**body, "messages": before, "model": first["model"]}  # whose name is dated until models were listed
        if asked != first or last["role"] != "assistant":
            return None
        said: list[Json] = []
        for at in range(1, 20):
            said += self.parts[min(at, len(self.parts)) - 1]
            if said == last["content"]:
                return at
        return None
