"""A whole answer, and how it is folded from events.

`fold` is the other end of the pipeline: a streamed answer ends in an encoder, a collected one here, and both read the
same events, so the two modes cannot drift.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Final

from attrs import field, frozen

from kiro_asgi.model.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    Citation,
    Declined,
    Event,
    MalformedCall,
    MessageEnd,
    MessageStart,
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


@frozen
class RefusalBlock:
    """Text by which the model declines to answer."""

    text: str


@frozen
class ThinkingBlock:
    """Thinking, with its seal where the upstream gave one."""

    text: str
    signature: str = ""


@frozen
class RedactedThinkingBlock:
    """Thinking that only the upstream can read."""

    data: str


@frozen
class ToolCallBlock:
    """A complete tool call."""

    call_id: str
    name: str
    input: str
    """The arguments: JSON text of one object."""


Block = TextBlock | RefusalBlock | ThinkingBlock | RedactedThinkingBlock | ToolCallBlock | ServerCall | ServerResult
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

    @property
    def text(self) -> str:
        """The answer text of all text blocks, joined."""
        return "".join(block.text for block in self.blocks if isinstance(block, TextBlock))

    @property
    def shown(self) -> str:
        """The same with text by which the model declines: all that a client without a place for that shows."""
        return "".join(block.text for block in self.blocks if isinstance(block, TextBlock | RefusalBlock))


def _close(start: BlockStart, pieces: list[str], signature: str, citations: list[Citation], phase: str) -> Block:
    content = "".join(pieces)
    match start.kind:
        case BlockKind.TEXT:
            return TextBlock(content, tuple(citations), start.continues, phase)
        case BlockKind.REFUSAL:
            return RefusalBlock(content)
        case BlockKind.THINKING:
            return ThinkingBlock(content, signature)
        case BlockKind.REDACTED_THINKING:
            return RedactedThinkingBlock(start.data)
        case BlockKind.TOOL_CALL:
            return ToolCallBlock(start.call_id, start.name, content or "{}")
        case BlockKind.SERVER_CALL | BlockKind.SERVER_RESULT:
            assert start.value is not None, "a block of a server tool without its value"
            return start.value


class MessageBuilder:
    """Collects events, as they come, into one message."""

    __slots__ = ("_blocks", "_citations", "_pieces", "_signature", "_start", "message")

    def __init__(self) -> None:
        self._blocks: list[Block] = []
        self._pieces: list[str] = []
        self._citations: list[Citation] = []
        self._signature = ""
        self._start: BlockStart | None = None
        self.message: Message | None = None
        """The message, once its `MessageEnd` has been fed."""

    def feed(self, events: Iterable[Event]) -> None:
        """Take some events.

        Raises:
            AssertionError: They do not obey the grammar, which is a bug of the stage that made them.
        """
        for event in events:
            match event:
                case TextDelta(text) | RefusalDelta(text) | ThinkingDelta(text):
                    self._pieces.append(text)
                case ToolInputDelta(json):
                    self._pieces.append(json)
                case Citation():
                    self._citations.append(event)
                case SignatureDelta(value):
                    self._signature = value
                case BlockStart():
                    self._start, self._pieces, self._citations, self._signature = event, [], [], ""
                case BlockEnd(_, phase):
                    assert self._start is not None, "a block ended that had not begun"
                    self._blocks.append(_close(self._start, self._pieces, self._signature, self._citations, phase))
                    self._start, self._pieces = None, []
                case MessageStart():
                    pass
                case MessageEnd():
                    self.message = _finish(tuple(self._blocks), event)


def _finish(blocks: tuple[Block, ...], end: MessageEnd) -> Message:
    return Message(
        blocks,
        end.stop_reason,
        end.stop_sequence,
        end.usage,
        end.truncations,
        end.references,
        end.malformed,
        end.declined,
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
            start = BlockStart(index, BlockKind.TEXT, continues=continues)
            return chain((start,), map(TextDelta, cut(text)), citations)
        case RefusalBlock(text):
            return chain((BlockStart(index, BlockKind.REFUSAL),), map(RefusalDelta, unsplit(text)))
        case ThinkingBlock(text, signature):
            thinking = map(ThinkingDelta, unsplit(text)) if text else ()
            seal = (SignatureDelta(signature),) if signature else ()
            return chain((BlockStart(index, BlockKind.THINKING),), thinking, seal)
        case RedactedThinkingBlock(data):
            return (BlockStart(index, BlockKind.REDACTED_THINKING, data=data),)
        case ToolCallBlock(call_id, name, json):
            start = BlockStart(index, BlockKind.TOOL_CALL, call_id, name)
            return chain((start,), map(ToolInputDelta, unsplit(json)))
        case ServerCall():
            return (BlockStart(index, BlockKind.SERVER_CALL, value=block),)
        case ServerResult():
            return (BlockStart(index, BlockKind.SERVER_RESULT, value=block),)


def replay(message: Message, cut: Callable[[str], Iterable[str]] = unsplit) -> Iterable[Event]:
    """A stream of events that folds to *message*: one delta a block, but for text that *cut* makes several of, for what
    is long, and for thinking that is only a signature."""
    yield MessageStart(Usage(input_tokens=message.usage.input_tokens))
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
