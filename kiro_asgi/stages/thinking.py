"""Separating thinking from the answer where the model writes its thinking between tags.

Models that are asked for thinking in the prompt, instead of by a parameter, write ``<thinking>…</thinking>`` into their
answer.  Everything here keeps only text that may yet turn out to be a tag, and looks at every character once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

from attrs import Attribute, define, field, frozen, setters

from kiro_asgi.errors import ConfigError
from kiro_asgi.model.events import (
    BlockKind,
    BlockMembers,
    Citation,
    Delta,
    OpaqueBlock,
    RedactedThinking,
    RefusalDelta,
    SignatureDelta,
    Stop,
    TextBreak,
    TextDelta,
    ThinkingDelta,
    ToolCallCut,
    ToolCallEnd,
    ToolCallFragment,
    ToolCallMalformed,
    ToolCallStart,
    ToolInputDelta,
)
from kiro_asgi.model.signatures import CALL, read_mark
from kiro_asgi.stages.base import Filter
from kiro_asgi.stages.parts.fences import CodeTracker

MODES: Final = ("as_reasoning_content", "remove", "pass", "strip_tags")
KEPT: Final = "as_reasoning_content"
"""The one of `MODES` in which thinking stays thinking."""

SCANS: Final = ("auto", "start", "anywhere", "open")
TAGS: Final = ("thinking", "think", "reasoning", "thought")

Piece = TextDelta | ThinkingDelta


class ThinkingState(Enum):
    """Where in an answer a parser is."""

    PRE_CONTENT = "pre_content"
    """Nothing but white space and the beginning of a tag has come."""

    IN_THINKING = "in_thinking"
    """After an opening tag."""

    STREAMING = "streaming"
    """In the answer proper."""


@frozen
class ThinkingParseResult:
    """The result of one piece of text; without any content, the piece is still held back."""

    thinking_content: str | None = None
    regular_content: str | None = None

    is_first_thinking_chunk: bool = False
    """Whether a thinking section begins with this."""

    is_last_thinking_chunk: bool = False
    """Whether a thinking section ends with this; its last text may have come before.  Sections without text count for
    neither flag."""


@frozen
class Handling:
    """The treatment of thinking."""

    thinking: type[TextDelta] | type[ThinkingDelta] | None
    """The delta that thinking text becomes; ``None`` drops it."""

    tags: bool = False
    """Whether the tags, and the blanks before the first, stay."""


HANDLING: Final[Mapping[str, Handling]] = MappingProxyType(
    {
        "as_reasoning_content": Handling(ThinkingDelta),
        "remove": Handling(None),
        "pass": Handling(TextDelta, tags=True),
        "strip_tags": Handling(TextDelta),
    }
)


def _one_of(choices: tuple[str, ...]) -> Callable[[Any, Attribute[str], str], None]:
    def check(_: Any, attribute: Attribute[str], value: str) -> None:
        if value not in choices:
            raise ConfigError(f"thinking {attribute.name} must be one of {', '.join(choices)}, not {value!r}")

    return check


def _check_tags(_: Any, __: Any, tags: tuple[str, ...]) -> None:
    for tag in tags:
        if not re.fullmatch(r"[^<>\s]+", tag):
            raise ConfigError(f"a thinking tag is a word without brackets, not {tag!r}")


@define(kw_only=True, on_setattr=setters.NO_OP)
class ThinkingParser:
    """Split text into thinking and answer, however it is cut.

    The tail that is held is never longer than a tag.  With *scan* ``start``, only a tag before everything else counts,
    and what follows its end is never searched again.  With ``anywhere``, every opening tag counts that is not inside a
    Markdown code block or between back-ticks.  With ``open``, an answer that begins without a tag is thinking up to the
    first of the closing *tags*: the template of the model wrote the opening one.  With ``auto``, which is ``start``
    otherwise, the first closing tag that nothing opened is dropped, outside of code.  An opening tag is closed by its
    own closing tag alone, and thinking that never closes is thinking to the end.

    White space between a closing tag and what follows belongs to neither and is dropped, in every mode, and so is white
    space before a leading tag, unless the tag stays.  Otherwise text keeps every character.

    Raises:
        ConfigError: No such mode or scan, or a tag that is no word.
    """

    mode: str = field(default="as_reasoning_content", validator=_one_of(MODES))
    tags: tuple[str, ...] = field(default=TAGS, validator=_check_tags)
    scan: str = field(default="start", validator=_one_of(SCANS))

    initial_buffer: int = 20
    """Most characters of white space before a leading tag."""

    state: ThinkingState = field(init=False, default=ThinkingState.PRE_CONTENT)

    _anywhere: bool = field(init=False)
    _handling: Handling = field(init=False)
    _openers: tuple[str, ...] = field(init=False)
    _closers: tuple[str, ...] = field(init=False)
    _opener: re.Pattern[str] = field(init=False)
    _longest: int = field(init=False)
    _code: CodeTracker = field(init=False, factory=CodeTracker)
    _closer: str = field(init=False, default="")
    _held: str = field(init=False, default="")
    _begun: bool = field(init=False, default=False)
    """Whether the open section has had text."""

    _closed: bool = field(init=False, default=False)
    """Whether nothing but white space has come since a closing tag."""

    _stray: bool = field(init=False, default=False)
    """Whether a closing tag that nothing opened is looked for."""

    _first: bool = field(init=False, default=False)
    _last: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self._anywhere = self.scan == "anywhere"
        self._handling = HANDLING[self.mode]
        self._openers = tuple(f"<{tag}>" for tag in self.tags)
        self._closers = tuple(f"</{tag}>" for tag in self.tags)
        self._opener = re.compile("|".join(map(re.escape, self._openers)) or r"(?!)")
        self._longest = max(map(len, self._openers), default=0)

    def feed(self, text: str) -> ThinkingParseResult:
        """Take *text*; give its content, joined: `pieces` keeps the order."""
        return self._result(self.pieces(text))

    def finalize(self) -> ThinkingParseResult:
        """Give the text that was held back: the answer has ended."""
        result = self._result(self.release())
        if self.state is ThinkingState.IN_THINKING and self._begun:
            self._begun = False
            return ThinkingParseResult(
                result.thinking_content, result.regular_content, result.is_first_thinking_chunk, True
            )
        return result

    def pieces(self, text: str) -> Iterator[Piece]:
        """Take *text*; give its content in order, no piece empty."""
        text, self._held = self._held + text, ""
        while text:
            if self._closed:
                text = text.lstrip()
                self._closed = not text
                continue
            match self.state:
                case ThinkingState.PRE_CONTENT:
                    text = yield from self._before(text)
                case ThinkingState.IN_THINKING:
                    text = yield from self._inside(text)
                case ThinkingState.STREAMING if self._stray:
                    text = yield from self._stripped(text)
                case ThinkingState.STREAMING if self._anywhere:
                    text = yield from self._after(text)
                case _:
                    yield TextDelta(text)
                    return

    def release(self) -> Iterator[Piece]:
        """Give the text that was held back: it was no tag, since something else follows it."""
        held, self._held = self._held, ""
        if self.state is ThinkingState.IN_THINKING:
            yield from self._thought(held)
            return
        self.state, self._closed = ThinkingState.STREAMING, False
        if held:
            self._code.advance(held)
            yield TextDelta(held)

    def stop_searching(self) -> None:
        """Take all further text for the answer."""
        self._anywhere = self._closed = self._stray = False
        self.state = ThinkingState.STREAMING

    @property
    def done(self) -> bool:
        """Whether all further text is answer."""
        return self.state is ThinkingState.STREAMING and not (self._anywhere or self._closed or self._stray)

    def _before(self, text: str) -> Generator[Piece, None, str]:
        """A leading tag, or the certainty that there is none."""
        tag = text.lstrip()
        blanks = len(text) - len(tag)
        if blanks <= self.initial_buffer:
            for opener in self._openers:
                if tag.startswith(opener):
                    if self._handling.tags and blanks:
                        yield TextDelta(text[:blanks])
                    yield from self._enter(opener)
                    return tag[len(opener) :]
            if any(opener.startswith(tag) for opener in self._openers):
                self._held = text
                return ""
        if self.scan == "open" and self.tags:
            self.state, self._closer = ThinkingState.IN_THINKING, self._closers[0]
        else:
            self.state = ThinkingState.STREAMING
            self._stray = self.scan == "auto" and bool(self.tags)
        return text

    def _stripped(self, text: str) -> Generator[Piece, None, str]:
        """Answer text up to a closing tag that nothing opened, which goes; in code it stays."""
        closers = self._closers
        found = min((at for closer in closers if (at := text.find(closer)) >= 0), default=-1)
        keep = _tail(text, closers, self._longest + 1) if found < 0 else found
        self._code.advance(text[:keep])
        if keep:
            yield TextDelta(text[:keep])
        if found < 0:
            self._held = text[keep:]
            return ""
        closer = next(closer for closer in closers if text.startswith(closer, found))
        rest = text[found + len(closer) :]
        if self._code.in_code or self._handling.tags:
            self._code.advance(closer)
            yield TextDelta(closer)
        else:
            self._stray, self._closed = False, True
        return rest

    def _inside(self, text: str) -> Generator[Piece, None, str]:
        end = text.find(self._closer)
        if end < 0:
            keep = _tail(text, (self._closer,), len(self._closer))
            self._held = text[keep:]
            yield from self._thought(text[:keep])
            return ""
        yield from self._thought(text[:end])
        self._last |= self._begun
        self._begun = False
        if self._handling.tags:
            yield TextDelta(self._closer)
        self.state, self._closed = ThinkingState.STREAMING, True
        return text[end + len(self._closer) :]

    def _after(self, text: str) -> Generator[Piece, None, str]:
        """Answer text up to the next opening tag that is not in code."""
        if "<" not in text:
            self._code.advance(text)
            yield TextDelta(text)
            return ""
        seen = 0
        for match in self._opener.finditer(text):
            self._code.advance(text[seen : match.start()])
            seen = match.start()
            if self._code.in_code:
                continue
            if seen:
                yield TextDelta(text[:seen])
            yield from self._enter(match[0])
            return text[match.end() :]
        keep = _tail(text, self._openers, self._longest)
        self._held = text[keep:]
        self._code.advance(text[seen:keep])
        if keep:
            yield TextDelta(text[:keep])
        return ""

    def _enter(self, opener: str) -> Iterator[Piece]:
        self.state = ThinkingState.IN_THINKING
        self._closer = f"</{opener[1:]}"
        if self._handling.tags:
            yield TextDelta(opener)

    def _thought(self, text: str) -> Iterator[Piece]:
        if not text:
            return
        self._first |= not self._begun
        self._begun = True
        if self._handling.thinking is not None:
            yield self._handling.thinking(text)

    def _result(self, pieces: Iterator[Piece]) -> ThinkingParseResult:
        self._first = self._last = False
        thinking: list[str] = []
        regular: list[str] = []
        for piece in pieces:
            (thinking if type(piece) is ThinkingDelta else regular).append(piece.text)
        return ThinkingParseResult("".join(thinking) or None, "".join(regular) or None, self._first, self._last)


def _tail(text: str, tags: tuple[str, ...], longest: int) -> int:
    """Where the longest tail of *text* begins that is a proper prefix of a tag; tags have no bracket but the first."""
    start = text.rfind("<", max(0, len(text) - longest + 1))
    if start >= 0 and any(tag.startswith(text[start:]) for tag in tags):
        return start
    return len(text)


_BARRIERS: Final = frozenset(
    {
        TextBreak,
        Citation,
        RefusalDelta,
        SignatureDelta,
        RedactedThinking,
        ToolCallFragment,
        ToolCallStart,
        ToolInputDelta,
        ToolCallEnd,
        ToolCallCut,
        ToolCallMalformed,
        BlockMembers,
        OpaqueBlock,
        Stop,
    }
)
"""Deltas that text must not be held across."""

_SEALS: Final = frozenset({SignatureDelta, RedactedThinking})
"""Kinds of delta without a meaning once thinking has become text."""


@define(kw_only=True)
class ThinkingSplitter:
    """Turn text between thinking tags into `ThinkingDelta`, and treat all thinking as *mode* says.

    ``remove`` drops native thinking as well, ``strip_tags`` turns it into text, and ``pass`` does so between
    ``<thinking>`` tags; its seals go in all three, but not those of tool calls.  After the first native thinking, tags
    are plain text.

    Text that is held goes out before any other content that follows it.  With *scan* ``start``, nothing is looked at
    any more once the answer proper has begun.

    Raises:
        ConfigError: See `ThinkingParser`.
    """

    mode: str = "as_reasoning_content"
    tags: tuple[str, ...] = TAGS
    scan: str = "start"

    _parser: ThinkingParser = field(init=False)
    _native: bool = field(init=False, default=False)
    """Whether the upstream itself marks thinking."""

    _wrapped: bool = field(init=False, default=False)
    """Whether native thinking is open as text between tags."""

    _keeps_thinking: bool = field(init=False)
    _idle: bool = field(init=False, default=False)
    """Whether nothing that may still come needs to be looked at."""

    def __attrs_post_init__(self) -> None:
        self._parser = ThinkingParser(mode=self.mode, tags=self.tags, scan=self.scan)
        self._keeps_thinking = self.mode == KEPT

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """Pass *items* on, thinking separated from text."""
        return iter(items) if self._idle else self._split(iter(items))

    def flush(self) -> Iterator[Delta]:
        """The text that was held."""
        yield from self._parser.release()
        yield from self._unwrap()

    def _split(self, items: Iterator[Delta]) -> Iterator[Delta]:
        parser = self._parser
        for item in items:
            if type(item) is TextDelta:
                if self._wrapped:
                    yield from self._unwrap()
                yield from (item,) if parser.done else parser.pieces(item.text)
            elif type(item) is ThinkingDelta:
                yield from self._think(item)
            elif type(item) in _BARRIERS:
                yield from self._parser.release()
                yield from self._other(item)
            else:
                yield item
            if self._keeps_thinking and parser.done:
                self._idle = True
                yield from items
                return

    def _think(self, delta: ThinkingDelta) -> Iterator[Delta]:
        if not self._native:
            self._native = True
            yield from self._parser.release()
            self._parser.stop_searching()
        handling = HANDLING[self.mode]
        if handling.thinking is None or not delta.text:
            return
        if handling.tags and not self._wrapped:
            self._wrapped = True
            yield TextDelta("<thinking>")
        yield handling.thinking(delta.text)

    def _other(self, item: Delta) -> Iterator[Delta]:
        if type(item) not in _SEALS and not _is_of_thinking(item):
            yield from self._unwrap()
            yield item
        elif self._keeps_thinking or _is_of_a_call(item):
            yield item

    def _unwrap(self) -> Iterator[Delta]:
        if self._wrapped:
            self._wrapped = False
            yield TextDelta("</thinking>")


def _is_of_a_call(seal: Delta) -> bool:
    return type(seal) is SignatureDelta and read_mark(seal.signature).part == CALL


def _is_of_thinking(item: Delta) -> bool:
    """Whether it is members of thinking, which may hold its text once more."""
    return type(item) is BlockMembers and item.kind is BlockKind.THINKING


class OmittedThinking(Filter[Delta]):
    """Drop the text of thinking and keep its seals, for a client that wants nothing else of it."""

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """Pass *items* on, all but `ThinkingDelta` and what else may hold its text."""
        return (item for item in items if not (type(item) is ThinkingDelta or _is_of_thinking(item)))
