"""Kiro's event stream: each piece of an answer as a frame of the binary event stream.

Source: https://docs.aws.amazon.com/AmazonS3/latest/API/RESTSelectObjectAppendix.html (the frames); the names of the
events are the service's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from attrs import evolve

from kiro_asgi.simulator.pieces import (
    CallPart,
    Charged,
    ContextUsed,
    Ending,
    Event,
    ExceptionFrame,
    Opened,
    Piece,
    Seal,
    Sealed,
    Thought,
    TokensUsed,
    Words,
)
from kiro_asgi.simulator.scripts import (
    JSON,
    ByteStep,
    CorruptChecksum,
    Head,
    RawBytes,
    Repeat,
    Script,
    Step,
    TornFrame,
)
from kiro_asgi.wire.eventstream import encode_frame

EVENT_STREAM: Final = "application/vnd.amazon.eventstream"
CONVERSATION: Final = "x-amzn-codewhisperer-conversation-id"
"""Header that names the conversation."""


def event_of(piece: Piece) -> Event:
    """The service's event for *piece*."""
    if isinstance(piece, Event):
        return piece
    name, payload = _EVENTS[type(piece)]
    return Event(name, payload(piece))


def _words(piece: Words) -> dict[str, Any]:
    return {"content": piece.text, **({"modelId": piece.model} if piece.model else {})}


def _call(piece: CallPart) -> dict[str, Any]:
    more = {"stop": True} if piece.stop else {"input": piece.input} if piece.input else {}
    return {**more, "name": piece.name, "toolUseId": piece.call_id}


def _ending(piece: Ending) -> dict[str, Any]:
    return {**_reason(piece), **({} if piece.used is None else _used(piece.used))}


def _reason(ending: Ending) -> dict[str, Any]:
    sequence = {"stopSequence": ending.sequence} if ending.sequence else {}
    return {} if ending.reason is None else {"stopReason": ending.reason, **sequence}


def _used(used: TokensUsed) -> dict[str, Any]:
    usage = {
        "uncachedInputTokens": used.input,
        "cacheReadInputTokens": used.cached,
        "cacheWriteInputTokens": 0,
        "outputTokens": used.output,
        "totalTokens": used.input + used.output,
    }
    return {"tokenUsage": usage}


_EVENTS: Final[Mapping[type, tuple[str, Callable[[Any], dict[str, Any]]]]] = {
    Words: ("assistantResponseEvent", _words),
    Thought: ("reasoningContentEvent", lambda piece: {"text": piece.text}),
    Seal: ("reasoningContentEvent", lambda piece: {"signature": piece.signature}),
    Sealed: ("reasoningContentEvent", lambda piece: {"redactedContent": piece.data}),
    CallPart: ("toolUseEvent", _call),
    Ending: ("metadataEvent", _ending),
    ContextUsed: ("contextUsageEvent", lambda piece: {"contextUsagePercentage": piece.percentage}),
    Charged: ("meteringEvent", lambda piece: {"usage": piece.credits, "unit": "credit", "unitPlural": "credits"}),
    Opened: ("initial-response", lambda piece: {"conversationId": piece.conversation}),
}
"""Piece to the service's name for it, and what it holds; there is no event for pictures and searches."""


def _frame(kind: str, name: str, payload: Mapping[str, Any]) -> bytes:
    headers = {":message-type": kind, f":{kind}-type": name, ":content-type": JSON}
    return encode_frame(headers, json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode())


def _corrupt(data: bytes, which: str) -> bytes:
    place = 8 if which == "prelude" else len(data) - 1
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def encode(step: ByteStep) -> bytes:
    """The bytes of a step that has some; of a `Repeat`, those of one round."""
    match step:
        case ExceptionFrame(name, message, reason):
            return _frame("exception", name, {"message": message, "reason": reason})
        case RawBytes(data):
            return data
        case CorruptChecksum(frame, which):
            return _corrupt(encode(frame), which)
        case TornFrame(frame, keep):
            data = encode(frame)
            return data[: len(data) // 2 if keep is None else keep]
        case Repeat(frame, _):
            return encode(frame)
        case _:
            event = event_of(step)
            return _frame("event", event.type, event.payload)


def encode_script(script: Script) -> Script:
    """*script* with every step that has bytes as these."""
    return tuple(_encoded(script))


def _encoded(script: Script) -> Iterator[Step]:
    begun = False
    for step in script:
        if isinstance(step, Head):
            begun = True
            yield _headed(step)
        elif isinstance(step, ByteStep):
            if not begun:
                begun = True
                yield Head(content_type=EVENT_STREAM)
            data = RawBytes(encode(step))
            yield evolve(step, frame=data) if isinstance(step, Repeat) else data
        else:
            yield step


def _headed(head: Head) -> Head:
    if head.content_type is not None:
        return head
    named = ((CONVERSATION, head.conversation),) if head.conversation else ()
    return evolve(head, content_type=EVENT_STREAM, headers=(*head.headers, *named))
