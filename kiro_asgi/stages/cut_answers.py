"""What is kept of an answer that was cut short, and under which keys.

===============================================================  =====================================================
what the client was shown                                        key
===============================================================  =====================================================
part of the call that was cut                                    the call's id
text or whole calls, but not the call that was cut               fingerprint of the answer
nothing                                                          fingerprint of the user's turn before it
===============================================================  =====================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from attrs import asdict, evolve, frozen

from kiro_asgi.model.events import MessageEnd, StopReason, TruncationInfo
from kiro_asgi.model.message import Message, TextBlock, ToolCallBlock
from kiro_asgi.model.prompt import Role, Text, ToolCallPart, ToolResult, Turn
from kiro_asgi.stages.fingerprint import Fingerprint
from kiro_asgi.wire.json import JsonError, dumps, loads

__all__ = ["CutAnswer", "after_key", "answer_key", "call_key", "fingerprint_of", "records_of", "truncation_records"]

_CALLS: Final = 8
"""Cut calls of one answer that are remembered."""

_NAME: Final = 100
"""Characters of a tool's name that are remembered."""

_PLACEHOLDERS: Final = frozenset({"(no content)"})
"""What clients put in the place of an answer without any; Claude Code does."""


@frozen
class CutAnswer:
    """What is remembered of an answer that was cut."""

    calls: tuple[TruncationInfo, ...] = ()
    """The tool calls that were cut; none where it was the text."""

    size_bytes: int = 0
    """UTF-8 bytes of text that reached the client."""

    def encode(self) -> bytes:
        """As a store keeps it."""
        return dumps(asdict(self))

    @classmethod
    def decode(cls, data: bytes) -> CutAnswer | None:
        """What `encode` wrote; ``None`` for bytes that it cannot have written."""
        try:
            value = loads(data)
            calls = tuple(TruncationInfo(**call) for call in value["calls"])
            size = value["size_bytes"]
        except (JsonError, KeyError, TypeError):
            return None
        texts = (text for call in calls for text in (call.call_id, call.name, call.reason, call.digest))
        sizes = (size, *(call.size_bytes for call in calls))
        whole = all(type(text) is str for text in texts) and all(type(size) is int for size in sizes)
        return cls(calls, size) if whole else None


def records_of(
    shown: Fingerprint, end: MessageEnd | Message, *, asked: Sequence[Turn] = (), limited: bool = False
) -> Mapping[str, CutAnswer]:
    """What to keep of an answer, by key; nothing for one that was not cut.

    Only an answer that ends with the stop reason ``LENGTH`` was cut, and this is what its client was told.

    Args:
        shown: What the client was shown.
        end: How the answer ended.
        asked: The turns that it answers.
        limited: Whether it ended at a limit that the client had set.  Then text is as long as it should be, and only
            a call that was cut is worth a word.
    """
    if end.stop_reason is not StopReason.LENGTH or (limited and not end.truncations):
        return {}
    cut = end.truncations[:_CALLS]
    begun = {call_id for call_id, _ in shown.calls}
    hidden = [info for info in cut if info.call_id not in begun]
    records = {call_key(info.call_id): _record(shown, [info, *hidden]) for info in cut if info.call_id in begun}
    digest = shown.digest(without={info.call_id for info in end.truncations})
    key = answer_key(digest) if digest else after_key(asked[-1]) if asked else ""
    return {**records, key: _record(shown, cut)} if key else records


def truncation_records(message: Message, *, asked: Sequence[Turn] = ()) -> Mapping[str, CutAnswer]:
    """What to keep of a whole answer, by key, for `recover` and its kin; nothing for one that was not cut.

    Args:
        message: The answer.
        asked: The turns that it answers; without them an answer that has no content is not found again.
    """
    shown = Fingerprint()
    for block in message.blocks:
        if isinstance(block, TextBlock):
            shown.write(block.text)
        elif isinstance(block, ToolCallBlock):
            shown.calls.append((block.call_id, block.name))
    return records_of(shown, message, asked=asked)


def _record(shown: Fingerprint, cut: Iterable[TruncationInfo]) -> CutAnswer:
    """Without what may be of any size and tells the model nothing."""
    return CutAnswer(tuple(evolve(info, call_id="", name=info.name[:_NAME]) for info in cut), shown.size_bytes)


def fingerprint_of(*turns: Turn) -> Fingerprint:
    """Of an answer that a client has sent back, or of what a user said."""
    shown = Fingerprint()
    for part in chain.from_iterable(turn.parts for turn in turns):
        match part:
            case Text(text) if text.strip() not in _PLACEHOLDERS:
                shown.write(text)
            case ToolCallPart(call_id, name):
                shown.calls.append((call_id, name))
            case ToolResult(call_id):
                shown.calls.append((call_id, ""))
    return shown


def call_key(call_id: str) -> str:
    """The key of a call that the client was shown a part of."""
    return f"call:{call_id}"


def answer_key(digest: str) -> str:
    """The key of an answer with that fingerprint."""
    return f"answer:{digest}"


def after_key(turn: Turn) -> str:
    """The key of an answer without content to that turn; empty where the turn has none either."""
    digest = fingerprint_of(turn).digest() if turn.role is Role.USER else ""
    return f"after:{digest}" if digest else ""
