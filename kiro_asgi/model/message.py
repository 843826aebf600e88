"""A whole answer, and how it is folded from events.

`fold` is the other end of the pipeline: a streamed answer ends in an encoder, a collected one here, and both read the
same events, so the two modes cannot drift.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Final

from attrs import define, evolve, field, frozen

from kiro_asgi.model.events import (
    BlockEnd,
    BlockKind,
    BlockMembers,
    BlockStart,
    Citation,
    Declined,
    Event,
    MalformedCall,
    MessageEnd,
    MessageMembers,
    MessageStart,
    OpaqueBlock,
    OpaqueEvent,
    RefusalDelta,
    ServerCall,
    ServerResult,
    SignatureDelta,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolInputDelta,
    TruncationInfo,
    Usage,
)
from kiro_asgi.model.unread import Unread

__all__ = [
    "LONG",
    "Block",
    "Message",
    "MessageBuilder",
    "RedactedThinkingBlock",
    "RefusalBlock",
    "TextBlock",
    "ThinkingBlock",
    "ToolCallBlock",
    "fold",
    "replay",
    "split_sentences",
    "unsplit",
]

LONG: Final = 32 * 1024
"""Characters of a text on which work is done at once: more would keep the event loop from other requests."""


@frozen
class TextBlock:
    """Answer text."""

    text: str
    citations: tuple[Citation, ...] = ()
    """Sources, counted back from the end of the text."""

    continues: bool = False
    """As of `BlockStart`."""

    phase: str = ""
    """As of `BlockEnd`."""

    unread: tuple[Unread, ...] = ()
    """Members that are not understood, in the order in which they came."""


@frozen
class RefusalBlock:
    """Text by which the model declines to answer."""

    text: str
    unread: tuple[Unread, ...] = ()
    """As of `TextBlock`."""


@frozen
class ThinkingBlock:
    """Thinking, with its seal where the upstream gave one."""

    text: str
    signature: str = ""
    unread: tuple[Unread, ...] = ()
    """As of `TextBlock`."""


@frozen
class RedactedThinkingBlock:
    """Thinking that only the upstream can read."""

    data: str
    unread: tuple[Unread, ...] = ()
    """As of `TextBlock`."""


@frozen
class ToolCallBlock:
    """A complete tool call."""

    call_id: str
    name: str
    input: str
    """The arguments: JSON text of one object."""

    unread: tuple[Unread, ...] = ()
    """As of `TextBlock`."""


Block = (
    TextBlock
    | RefusalBlock
    | ThinkingBlock
    | RedactedThinkingBlock
    | ToolCallBlock
    | ServerCall
    | ServerResult
    | OpaqueBlock
)
"""A piece of an answer."""


@frozen
class Message:
    """One whole answer."""

    blocks: tuple[Block, ...] = ()
    stop_reason: StopReason = StopReason.END
    stop_sequence: str | None = None
    usage: Usage = field(factory=Usage)
    truncations: tuple[TruncationInfo, ...] = ()
    references: tuple[dict[str, Any], ...] = ()
    malformed: tuple[MalformedCall, ...] = ()
    declined: Declined | None = None
    unread: tuple[Unread, ...] = ()
    """Members of the message that are not understood, as of `MessageMembers`, in the order in which they came."""

    @property
    def text(self) -> str:
        """The answer text of all text blocks, joined."""
        return "".join(block.text for block in self.blocks if isinstance(block, TextBlock))

    @property
    def shown(self) -> str:
        """The same with text by which the model declines: all that a client without a place for that shows."""
        return "".join(block.text for block in self.blocks if isinstance(block, TextBlock | RefusalBlock))


@define
class _OpenBlock:
    """What has come of a block."""

    start: BlockStart
    pieces: list[str] = field(init=False, factory=list)
    citations: list[Citation] = field(init=False, factory=list)
    signature: str = field(init=False, default="")
    unread: list[Unread] = field(init=False, factory=list)

    def close(self, phase: str) -> Block:
        """The whole block."""
        start, content = self.start, "".join(self.pieces)
        unread = (*(() if start.unread is None else (start.unread,)), *self.unread)
        match start.kind:
            case BlockKind.TEXT:
                return TextBlock(content, tuple(self.citations), start.continues, phase, unread)
            case BlockKind.REFUSAL:
                return RefusalBlock(content, unread)
            case BlockKind.THINKING:
                return ThinkingBlock(content, self.signature, unread)
            case BlockKind.REDACTED_THINKING:
                return RedactedThinkingBlock(start.data, unread)
            case BlockKind.TOOL_CALL:
                return ToolCallBlock(start.call_id, start.name, content or "{}", unread)
            case BlockKind.SERVER_CALL | BlockKind.SERVER_RESULT | BlockKind.OPAQUE:
                assert start.value is not None, "a block that comes whole without its value"
                return start.value


class MessageBuilder:
    """Collects events, as they come, into one message."""

    __slots__ = ("_blocks", "_open", "_unread", "message")

    def __init__(self) -> None:
        self._blocks: list[Block] = []
        self._open: _OpenBlock | None = None
        self._unread: list[Unread] = []
        self.message: Message | None = None
        """The message, once its `MessageEnd` has been fed."""

    def feed(self, events: Iterable[Event]) -> None:
        """Take some events.

        Raises:
            AssertionError: They do not obey the grammar, which is a bug of the stage that made them.
        """
        for event in events:
            match event:
                case BlockStart():
                    self._open = _OpenBlock(event)
                case MessageStart():
                    self._unread += event.unread
                case MessageMembers(unread):
                    self._unread.append(unread)
                case MessageEnd():
                    self.message = _finish(tuple(self._blocks), event, tuple(self._unread))
                case OpaqueEvent():
                    pass  # of a stream alone
                case BlockEnd(_, phase):
                    assert self._open is not None, "a block ended that had not begun"
                    self._blocks.append(self._open.close(phase))
                    self._open = None
                case _:
                    assert self._open is not None, "a piece outside of a block"
                    _take(self._open, event)


def _take(block: _OpenBlock, piece: _Piece) -> None:
    match piece:
        case TextDelta(text) | RefusalDelta(text) | ThinkingDelta(text):
            block.pieces.append(text)
        case ToolInputDelta(json):
            block.pieces.append(json)
        case Citation():
            block.citations.append(piece)
        case SignatureDelta(value):
            block.signature = value
        case BlockMembers(_, unread):
            block.unread.append(unread)


_Piece = TextDelta | RefusalDelta | ThinkingDelta | ToolInputDelta | Citation | SignatureDelta | BlockMembers


def _finish(blocks: tuple[Block, ...], end: MessageEnd, unread: tuple[Unread, ...]) -> Message:
    return Message(
        blocks,
        end.stop_reason,
        end.stop_sequence,
        end.usage,
        end.truncations,
        end.references,
        end.malformed,
        end.declined,
        unread,
    )


def fold(events: Iterable[Event]) -> Message:
    """Collect a whole stream of events, from `MessageStart` to `MessageEnd`, into one message."""
    builder = MessageBuilder()
    builder.feed(events)
    assert builder.message is not None, "the events end without a MessageEnd"
    return builder.message


def unsplit(text: str) -> Iterable[str]:
    """*text* in one piece, or in pieces of `LONG` characters where it is longer."""
    return (text,) if len(text) <= LONG else _pieces(text)


def _pieces(text: str) -> Iterator[str]:
    start = 0
    while start < len(text):
        end = start + LONG
        end -= "\ud800" <= text[end - 1 : end] <= "\udbff"  # a pair of surrogates is one character
        yield text[start:end]
        start = end


def split_sentences(text: str) -> Iterable[str]:
    """*text* cut after the white space that follows a full stop, a question mark or an exclamation mark."""
    if not text:
        return (text,)
    return (piece for sentence in _SENTENCE.finditer(text) for piece in unsplit(sentence[0]))


_SENTENCE: Final = re.compile(
    r"(?:[^.!?。！？]++|[.!?。！？]++(?!\s|\Z))++(?:[.!?。！？]++(?:\s++|\Z))?+|[.!?。！？]++(?:\s++|\Z)"
)
"""Possessive: a run of full stops is read once, whatever follows it."""


def _open(index: int, block: Block, cut: Callable[[str], Iterable[str]]) -> Iterable[Event]:
    match block:
        case TextBlock(text, citations, continues):
            start, *more = _begun(index, BlockKind.TEXT, block.unread)
            # Members stand behind the text: a block of text is opened at its first word, and few of them wait for that.
            return chain((evolve(start, continues=continues),), map(TextDelta, cut(text)), more, citations)
        case RefusalBlock(text, unread):
            start, *more = _begun(index, BlockKind.REFUSAL, unread)
            return chain((start,), map(RefusalDelta, unsplit(text)), more)
        case ThinkingBlock(text, signature, unread):
            thinking = map(ThinkingDelta, unsplit(text)) if text else ()
            seal = (SignatureDelta(signature),) if signature else ()
            return chain(_begun(index, BlockKind.THINKING, unread), thinking, seal)
        case RedactedThinkingBlock(data, unread):
            start, *more = _begun(index, BlockKind.REDACTED_THINKING, unread)
            return (evolve(start, data=data), *more)
        case ToolCallBlock(call_id, name, json, unread):
            start, *more = _begun(index, BlockKind.TOOL_CALL, unread)
            return chain((evolve(start, call_id=call_id, name=name), *more), map(ToolInputDelta, unsplit(json)))
        case ServerCall():
            return (BlockStart(index, BlockKind.SERVER_CALL, value=block),)
        case ServerResult():
            return (BlockStart(index, BlockKind.SERVER_RESULT, value=block),)
        case OpaqueBlock():
            return (BlockStart(index, BlockKind.OPAQUE, value=block),)


def _begun(index: int, kind: BlockKind, unread: tuple[Unread, ...]) -> tuple[BlockStart, *tuple[BlockMembers, ...]]:
    """The start of a block, and the members that it cannot hold."""
    return BlockStart(index, kind, unread=next(iter(unread), None)), *(BlockMembers(kind, each) for each in unread[1:])


def replay(message: Message, cut: Callable[[str], Iterable[str]] = unsplit) -> Iterable[Event]:
    """A stream of events that folds to *message*: one delta a block, but for text that *cut* makes several of, for what
    is long, and for thinking that is only a signature."""
    yield MessageStart(Usage(input_tokens=message.usage.input_tokens), message.unread)
    for index, block in enumerate(message.blocks):
        yield from _open(index, block, cut)
        yield BlockEnd(index, block.phase if isinstance(block, TextBlock) else "")
    yield MessageEnd(
        message.stop_reason,
        message.stop_sequence,
        message.usage,
        message.truncations,
        message.references,
        malformed=message.malformed,
        declined=message.declined,
    )
