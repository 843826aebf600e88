"""Encodes an answer as the Messages API does; its refusals and failures."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import define, field

from kiro_asgi.simulator.encoding import SSE, AnswerBlock, AnswerPart, CollectedAnswer
from kiro_asgi.simulator.format import Question
from kiro_asgi.simulator.pieces import (
    CONTEXT_FULL,
    AnswerEnd,
    CallPart,
    Event,
    ExceptionFrame,
    Seal,
    Sealed,
    Searched,
    Thought,
    TokensUsed,
    Words,
)
from kiro_asgi.simulator.scripts import Script, conversation_id, json_answer, tool_id

REQUEST_ID: Final = "req_011CSimulated"

REFUSALS: Final[Mapping[str, tuple[int, str, str]]] = {
    "429": (
        429,
        "rate_limit_error",
        "This request would exceed your organization's rate limit of 50 requests a minute.",
    ),
    "suspicious": (429, "rate_limit_error", "Your account has been temporarily limited."),
    "daily": (429, "rate_limit_error", "This request would exceed your organization's daily rate limit."),
    "quota": (
        400,
        "invalid_request_error",
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.",
    ),
    "overage": (402, "billing_error", "Your organization has reached its spend limit."),
    "overloaded": (529, "overloaded_error", "Overloaded"),
    "403": (403, "permission_error", "Your API key does not have permission to use the specified resource."),
    "token-invalid": (401, "authentication_error", "invalid x-api-key"),
    "suspended": (403, "permission_error", "This organization has been disabled."),
    "404": (404, "not_found_error", "Not found"),
    "500": (500, "api_error", "Internal server error"),
    "503": (503, "api_error", "Service unavailable"),
    "too-long": (400, "invalid_request_error", "prompt is too long: 210001 tokens > 200000 maximum"),
    "bad-request": (400, "invalid_request_error", "messages: Field required"),
    "bad-model": (404, "not_found_error", "model: no-such-model"),
    "bad-signature": (
        400,
        "invalid_request_error",
        "messages.1.content.0: Invalid `signature` in `thinking` block",
    ),
}
"""Refusals before the stream: status, type, message."""

FAILURES: Final[Mapping[str, tuple[int, str, str]]] = {
    "InternalServerException": (500, "api_error", "Internal server error"),
    "ThrottlingException": (429, "rate_limit_error", "Rate limited"),
    "ValidationException": (400, "invalid_request_error", "Improper request"),
    "ServiceUnavailableException": (529, "overloaded_error", "Overloaded"),
    "ContentLengthExceededException": (400, "invalid_request_error", "The answer is longer than the model can write"),
}
"""Exceptions of a script: status, type, message."""


def envelope(kind: str, message: str) -> dict[str, Any]:
    """The body of an error."""
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": REQUEST_ID}


def refusal(status: int, kind: str, message: str, retry_after: str = "") -> Script:
    """A refusal before the stream."""
    headers: tuple[tuple[str, str], ...] = (("request-id", REQUEST_ID),)
    if retry_after:
        headers += (("retry-after", retry_after),)
    return json_answer(status, envelope(kind, message), headers)


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
"""Stop reason of the simulator to the one of this format."""


def ending(stop: AnswerEnd) -> Json:
    """Why the message ends."""
    ending: Json = {"stop_reason": STOPS.get(stop.reason, stop.reason), "stop_sequence": stop.sequence or None}
    if ending["stop_reason"] == "refusal":
        ending["stop_details"] = {"type": "refusal", "category": "cyber", "explanation": "A simulated refusal."}
    return ending


def own_id(call_id: str, prefix: str = "toolu_") -> str:
    """*call_id* with this format's prefix."""
    return prefix + call_id.removeprefix("tooluse_").replace("-", "A")


def block_of(block: AnswerBlock, cites: list[Json]) -> Json:
    """*block* as a block of content; *cites* are the citations of its text."""
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
    """Return the token that stands for the page at *url*, and must come back unchanged."""
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
    """Make the citations of a search."""
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


@define
class AnthropicAnswerEncoder:
    """One answer, streamed or whole."""

    question: Question
    used: TokensUsed
    content_type: str = field(init=False, default=SSE)
    _started: bool = field(init=False, default=False)
    _next: int = field(init=False, default=0)
    _open: str = field(init=False, default="")
    """Kind of the open block at `_next` - 1, unless that is a call; empty: none."""

    _calls: dict[str, int] = field(init=False, factory=dict)
    """Call id to the index of its open block."""

    _cites: list[Json] = field(init=False, factory=list)
    _stop: AnswerEnd | None = field(init=False, default=None)

    def encode(self, piece: AnswerPart) -> Iterator[bytes]:
        """Encode *piece*: the events that it adds to the stream."""
        if not self._started:
            self._started = True
            yield _event("message_start", message=self._message([], None))
            yield _event("ping")
        yield from self._encode(piece)

    def _encode(self, piece: AnswerPart) -> Iterator[bytes]:
        match piece:
            case Words(text):
                yield from self._words(text)
            case Thought() | Seal():
                yield from self._thought(piece)
            case Sealed(data):
                yield from self._block_events({"type": "redacted_thinking", "data": data})
            case CallPart():
                yield from self._call(piece)
            case Searched():
                yield from self._searched(piece)
            case AnswerEnd():
                self._stop = piece
            case Event(name, payload):
                yield _event(name, **payload)
            case ExceptionFrame():
                yield _event("error", error=envelope(*FAILURES[piece.name][1:])["error"])
            case _:
                pass

    def close(self) -> Iterator[bytes]:
        """The end of the stream, if there was a `AnswerEnd`."""
        if self._stop is None:
            return
        yield from self._closed()
        for index in self._calls.values():
            yield _event("content_block_stop", index=index)
        yield _event("message_delta", delta=ending(self._stop), usage={"output_tokens": self.used.output})
        yield _event("message_stop")

    def document(self, answer: CollectedAnswer) -> Json:
        """A message."""
        cites: list[Json] = []
        blocks: list[Json] = []
        for block in answer.blocks:
            if isinstance(block.first, Searched):
                blocks += search_blocks(block.first, self._search_id())
                cites = citations(block.first)
            else:
                blocks += [block_of(block, cites if isinstance(block.first, Words) else [])]
        return self._message(blocks, answer.stop)

    def error(self, failure: ExceptionFrame) -> Script:
        """The response where *failure* is the whole answer."""
        status, kind, message = FAILURES[failure.name]
        return json_answer(status, envelope(kind, message))

    def _message(self, blocks: list[Json], stop: AnswerEnd | None) -> Json:
        usage = {
            "input_tokens": self.used.input,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": self.used.cached,
            "output_tokens": 1 if stop is None else self.used.output,
            "service_tier": "standard",
        }
        return {
            "id": f"msg_{conversation_id(self.question.conversation.content).replace('-', '')[:24]}",
            "type": "message",
            "role": "assistant",
            "model": self.question.model,
            "content": blocks,
            **({"stop_reason": None, "stop_sequence": None} if stop is None else ending(stop)),
            "usage": usage,
        }

    def _words(self, text: str) -> Iterator[bytes]:
        yield from self._opened("text", {"type": "text", "text": ""})
        yield self._delta(self._next - 1, "text_delta", text=text)
        for citation in self._cites:
            yield self._delta(self._next - 1, "citations_delta", citation=citation)
        self._cites = []

    def _thought(self, piece: Thought | Seal) -> Iterator[bytes]:
        yield from self._opened("thinking", {"type": "thinking", "thinking": "", "signature": ""})
        if isinstance(piece, Thought):
            yield self._delta(self._next - 1, "thinking_delta", thinking=piece.text)
        else:
            yield self._delta(self._next - 1, "signature_delta", signature=piece.signature)
            yield from self._closed()

    def _call(self, part: CallPart) -> Iterator[bytes]:
        if part.call_id not in self._calls:
            yield from self._closed()
            self._calls[part.call_id] = self._next
            block = {"type": "tool_use", "id": own_id(part.call_id), "name": part.name, "input": {}}
            yield _event("content_block_start", index=self._next, content_block=block)
            self._next += 1
            yield self._delta(self._next - 1, "input_json_delta", partial_json="")
        if part.input:
            yield self._delta(self._calls[part.call_id], "input_json_delta", partial_json=part.input)
        if part.stop:
            yield _event("content_block_stop", index=self._calls.pop(part.call_id))

    def _searched(self, searched: Searched) -> Iterator[bytes]:
        use, result = search_blocks(searched, self._search_id())
        yield from self._closed()
        yield _event("content_block_start", index=self._next, content_block={**use, "input": {}})
        yield self._delta(self._next, "input_json_delta", partial_json=json.dumps(use["input"]))
        yield _event("content_block_stop", index=self._next)
        self._next += 1
        yield from self._block_events(result)
        self._cites = citations(searched)

    def _search_id(self) -> str:
        return own_id(tool_id(self.question.conversation.content), "srvtoolu_")

    def _opened(self, kind: str, block: Json) -> Iterator[bytes]:
        if self._open != kind:
            yield from self._closed()
            yield _event("content_block_start", index=self._next, content_block=block)
            self._open = kind
            self._next += 1

    def _closed(self) -> Iterator[bytes]:
        if self._open:
            self._open = ""
            yield _event("content_block_stop", index=self._next - 1)

    def _block_events(self, block: Json) -> Iterator[bytes]:
        yield from self._closed()
        yield _event("content_block_start", index=self._next, content_block=block)
        yield _event("content_block_stop", index=self._next)
        self._next += 1

    def _delta(self, index: int, kind: str, **values: Any) -> bytes:
        return _event("content_block_delta", index=index, delta={"type": kind, **values})


def _event(name: str, **values: Any) -> bytes:
    data = json.dumps({"type": name, **values}, ensure_ascii=False)
    return f"event: {name}\ndata: {data}\n\n".encode()
