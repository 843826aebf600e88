"""The memory budget of one answer.

Whatever keeps a part of an answer (a call whose arguments arrive, text that waits behind it, a message that is sent
whole) takes room from the one budget of that answer, and gives back what it lets go.  What goes out at once takes none.

Sizes are those of Python's objects, so a short text counts for more than its characters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from sys import getsizeof
from types import MappingProxyType
from typing import Any, Final

from attrs import astuple, define, field

from kiro_asgi.errors import AnswerTooLarge
from kiro_asgi.limits import ANSWER_BYTES
from kiro_asgi.model.events import (
    BlockEnd,
    BlockMembers,
    BlockStart,
    Citation,
    MalformedCall,
    MessageMembers,
    MessageStart,
    Notice,
    OpaqueBlock,
    OpaqueEvent,
    RedactedThinking,
    RefusalDelta,
    ServerCall,
    ServerResult,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
    ToolCallCut,
    ToolCallEnd,
    ToolCallMalformed,
    ToolCallStart,
    ToolInputDelta,
    TruncationInfo,
)
from kiro_asgi.model.unread import Unread

ITEM: Final = 512
"""Bytes that a block or a call costs in addition to its texts: objects, ids, entries in indexes."""

_OBJECT: Final = 64
"""Bytes of a small object."""

_PIECE: Final = 8
"""Bytes of a place in a list."""


@define
class AnswerBudget:
    """The room for what is kept of one answer."""

    limit: int = ANSWER_BYTES
    """Bytes."""

    size: int = field(init=False, default=0)
    """Bytes that are kept."""

    def take(self, size: int) -> None:
        """Keep *size* bytes more.

        Raises:
            AnswerTooLarge: There is no room for them.
        """
        self.size += size
        if self.size > self.limit:
            raise self._full()

    def keep(self, item: object) -> None:
        """Keep the bytes of *item* more, as `size_of` counts them.

        Raises:
            AnswerTooLarge: There is no room for them.
        """
        # Nearly all of an answer is text: this saves two calls for each piece of it.
        self.size += getsizeof(item.text) + _PIECE if type(item) is TextDelta else size_of(item)
        if self.size > self.limit:
            raise self._full()

    def give_back(self, size: int) -> None:
        """Keep *size* bytes less."""
        self.size -= size

    def _full(self) -> AnswerTooLarge:
        message = f"the answer has more than {self.limit} bytes that have to be kept (limits.answer_bytes)"
        return AnswerTooLarge(message, code="answer_too_large")


def size_of(item: object) -> int:
    """Bytes that it costs to keep a delta, an event or a JSON object."""
    if type(item) is TextDelta:  # Nearly all of an answer: this saves a call for each.
        return getsizeof(item.text) + _PIECE
    sizer = _SIZERS.get(type(item))
    return ITEM if sizer is None else sizer(item)


def size_of_value(value: Any) -> int:
    """Bytes of a JSON value with all that is in it; no recursion, whatever its depth."""
    size, rest = 0, [value]
    while rest:
        item = rest.pop()
        size += getsizeof(item) + _PIECE
        if type(item) in _PLAIN:
            continue
        if type(item) is dict or isinstance(item, Mapping):
            rest += item.keys()
            rest += item.values()
        elif isinstance(item, list | tuple):
            rest += item
    return size


_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
"""Types of values that hold no others; to ask each whether it is a `Mapping` takes as long as all the rest."""


def _of_text(item: RefusalDelta | ThinkingDelta) -> int:
    return getsizeof(item.text) + _PIECE


def _of_citation(item: Citation) -> int:
    texts = sum(map(getsizeof, (item.title, item.url, item.quote)))
    return ITEM + texts + size_of_value(item.location) + of_unread(item.origin)


def _of_result(item: ServerResult) -> int:
    texts = (text for hit in item.output.hits for text in astuple(hit))
    size = ITEM * (1 + len(item.output.hits)) + getsizeof(item.output.text) + sum(map(getsizeof, texts))
    return size + of_unread(item.origin)


def of_unread(unread: Unread | None) -> int:
    """Bytes that it costs to keep what was not understood."""
    return 0 if unread is None else ITEM + size_of_value(unread.members)


def _of_opaque(item: MessageMembers | BlockMembers | OpaqueEvent) -> int:
    return of_unread(item.unread)


def _of_opaque_block(item: OpaqueBlock) -> int:
    return of_unread(item.unread) + size_of_value(item.pieces)


def _of_message_start(item: MessageStart) -> int:
    return ITEM + sum(map(of_unread, item.unread))


def _of_start(item: BlockStart) -> int:
    value = 0 if item.value is None else size_of(item.value)
    names = getsizeof(item.call_id) + getsizeof(item.name) + getsizeof(item.data)
    return ITEM + names + value + of_unread(item.unread)


def _of_failed(item: TruncationInfo | MalformedCall) -> int:
    return ITEM + getsizeof(item.call_id) + getsizeof(item.name)


_SIZERS: Final[Mapping[type, Callable[[Any], int]]] = MappingProxyType(
    {
        RefusalDelta: _of_text,
        ThinkingDelta: _of_text,
        Citation: _of_citation,
        ToolInputDelta: lambda item: getsizeof(item.json) + _PIECE,
        SignatureDelta: lambda item: getsizeof(item.signature) + _OBJECT,
        RedactedThinking: lambda item: getsizeof(item.data) + _OBJECT + of_unread(item.unread),
        Notice: lambda item: getsizeof(item.code) + getsizeof(item.detail) + ITEM,
        ToolCallCut: lambda item: _of_failed(item.info),
        ToolCallMalformed: lambda item: _of_failed(item.info),
        TruncationInfo: _of_failed,
        MalformedCall: _of_failed,
        ToolCallStart: lambda item: ITEM + of_unread(item.unread),
        ToolCallEnd: lambda item: ITEM + of_unread(item.unread),
        ServerCall: lambda item: ITEM + size_of_value(item.input) + of_unread(item.origin),
        ServerResult: _of_result,
        **dict.fromkeys((MessageMembers, BlockMembers, OpaqueEvent), _of_opaque),
        OpaqueBlock: _of_opaque_block,
        MessageStart: _of_message_start,
        BlockStart: _of_start,
        BlockEnd: lambda _: 0,
        dict: size_of_value,
    }
)
"""Type to its size; other types are small, but for `TextDelta`, see `size_of`."""
