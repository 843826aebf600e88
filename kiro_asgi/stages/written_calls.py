"""Tool calls that a model wrote into its text instead of making them, in any of these notations::

    [Called write_file with args: {"path": "a"}]
    [Tool call: write_file {"path": "a"}]
    <invoke name="write_file"><parameter name="path">a</parameter></invoke>
    <mcp__server__write_file>{"path": "a"}</mcp__server__write_file>

Those with ``invoke`` also come as one of several within ``<function_calls>``.  The first three are what histories that
were flattened to text, and the models' own training, look like.  People write them too, so only a call of a known
tool, with arguments that can be read, counts.  The last is the form that some clients' prompts ask for.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from attrs import define, field, frozen

from kiro_asgi.limits import EXCERPT_CHARACTERS, WRITTEN_CALL_FAILURES
from kiro_asgi.model.events import (
    CodeReferences,
    ContextUsage,
    ConversationId,
    Delta,
    FollowupPrompt,
    Grounding,
    Metering,
    ModelName,
    Notice,
    ServedTier,
    TextDelta,
    TokenUsage,
    ToolCallFragment,
    Usage,
)
from kiro_asgi.stages.parts.fences import CodeTracker
from kiro_asgi.stages.tool_spelling import MCP
from kiro_asgi.wire.json import JsonError, dumps, loads

_MAX_HEAD: Final = 256
"""Characters that a head may have."""

_PLAIN: Final = re.compile(r'[^"{}]*+')
"""Characters without a meaning outside a string."""

_STRING: Final = re.compile(r'[^"\\]*+')
"""Characters without a meaning inside of one."""

_BLANKS: Final = re.compile(r"\s*+")


@frozen
class WrittenCall:
    """A call as it was read."""

    name: str
    input: str
    """JSON text."""


class Closing(Protocol):
    """Looks for the end of one excerpt, piece by piece."""

    def find(self, text: str, at: int, /) -> int:
        """Where in *text*, read from *at*, the excerpt ends; 0: after this text; -1: it is no excerpt."""
        ...


@frozen(kw_only=True)
class Form:
    """One way of writing calls."""

    lead: str
    """The literal text that begins an excerpt."""

    stop: str
    """The character that ends its head; it is not in *lead*."""

    head: re.Pattern[str]
    """All of the head, *lead* and *stop* included."""

    closing: Callable[[re.Match[str]], Closing]
    """Makes the search for the end of the excerpt after this head."""

    calls: Callable[[re.Match[str], str], Sequence[WrittenCall]]
    """The calls in a whole excerpt, given its head too; none where it is no excerpt after all."""

    suffix: str
    """The suffix of ids of such calls."""


@define
class Excerpt:
    """A possible excerpt, of which the lead has been read."""

    form: Form
    _longest: int
    calls: Sequence[WrittenCall] = field(init=False, default=())
    """The calls in it, once all of it has been read."""

    _pieces: list[str] = field(init=False)
    _size: int = field(init=False)
    _head: re.Match[str] | None = field(init=False, default=None)
    _closing: Closing = field(init=False)
    """Set once there is a head."""

    def __attrs_post_init__(self) -> None:
        self._pieces, self._size = [self.form.lead], len(self.form.lead)

    @property
    def text(self) -> str:
        """The part of it that has been read."""
        return "".join(self._pieces)

    def read(self, text: str, at: int) -> int:
        """Read on in *text* from *at*; return where it stopped, or -1, with nothing read, if this is no excerpt."""
        return self._read_head(text, at) if self._head is None else self._read_body(self._head, text, at)

    def _read_head(self, text: str, at: int) -> int:
        left = _MAX_HEAD - self._size
        end = text.find(self.form.stop, at, at + left) + 1
        if not end:
            return self._take(text, at, len(text)) if len(text) - at < left else -1
        self._head = self.form.head.fullmatch(self.text + text[at:end])
        if self._head is None:
            return -1
        self._closing = self.form.closing(self._head)
        return self._take(text, at, end)

    def _read_body(self, head: re.Match[str], text: str, at: int) -> int:
        end = self._closing.find(text, at)
        if end < 0 or self._size + (end or len(text) + 1) - at > self._longest:
            return -1
        if not end:
            return self._take(text, at, len(text))
        self.calls = self.form.calls(head, self.text + text[at:end])
        return self._take(text, at, end) if self.calls else -1

    def _take(self, text: str, at: int, end: int) -> int:
        self._pieces.append(text[at:end])
        self._size += end - at
        return end


@define
class Word:
    """The excerpt ends with the first occurrence of a word."""

    _word: str
    _tail: str = field(init=False, default="")
    """The end of what was looked at, one character shorter than the word at most."""

    def find(self, text: str, at: int, /) -> int:
        """See `Closing`."""
        size = len(self._word)
        seam = self._tail + text[at : at + size - 1]
        found = seam.find(self._word)
        if found >= 0:
            return at + found + size - len(self._tail)
        found = text.find(self._word, at)
        if found >= 0:
            return found + size
        self._tail = (self._tail + text[max(at, len(text) - size + 1) :])[1 - size :]
        return 0


@define
class Brackets:
    """The excerpt ends with a square bracket after the JSON object, whose first brace ends the head."""

    _depth: int = field(init=False, default=1)
    _in_string: bool = field(init=False, default=False)
    _escaped: bool = field(init=False, default=False)

    def find(self, text: str, at: int, /) -> int:
        """See `Closing`."""
        while self._depth and at < len(text):
            at = self._skip(text, at)
        if self._depth:
            return 0
        at = _BLANKS.match(text, at).end()  # type: ignore[union-attr]  # matches ""
        if at == len(text):
            return 0
        return at + 1 if text[at] == "]" else -1

    def _skip(self, text: str, at: int) -> int:
        """Past the next character that matters."""
        if self._escaped:
            self._escaped = False
            return at + 1
        at = (_STRING if self._in_string else _PLAIN).match(text, at).end()  # type: ignore[union-attr]  # matches ""
        if at < len(text):
            match text[at]:
                case '"':
                    self._in_string = not self._in_string
                case "\\":
                    self._escaped = True
                case brace:
                    self._depth += 1 if brace == "{" else -1
        return at + 1


def is_json(text: str) -> bool:
    """Whether *text* is one JSON value."""
    try:
        loads(text)
    except JsonError:
        return False
    return True


WRITTEN: Final = "tool_call.written"
"""A call was read from the text; the detail is the tool's name."""

_ASIDE: Final = frozenset(
    {
        TokenUsage,
        ContextUsage,
        Metering,
        Usage,
        FollowupPrompt,
        Grounding,
        CodeReferences,
        ConversationId,
        ModelName,
        Notice,
        ServedTier,
    }
)
"""Deltas that do not interrupt a text."""


@define
class WrittenCalls:
    """Turn excerpts of text that are calls into `ToolCallFragment`, each with a `Notice`; everything else passes.

    However the text is cut, the same comes of it, in the same order.  Nothing in a Markdown code block or between
    back-ticks is a call.  Text is held only while it may be a call: what never ends, is longer than *longest*, or is
    interrupted by anything but a report, goes out as text.
    """

    _forms: Iterable[Form]
    _longest: int = EXCERPT_CHARACTERS
    """Characters of an excerpt."""

    _leads: Mapping[str, Form] = field(init=False)
    _lead: re.Pattern[str] = field(init=False)
    """A lead, or the beginning of one at the end of a text."""

    _code: CodeTracker = field(init=False, factory=CodeTracker)
    _held: str = field(init=False, default="")
    """The tail of the text that a lead may begin with."""

    _excerpt: Excerpt | None = field(init=False, default=None)
    _failed: int = field(init=False, default=0)
    _numbers: Counter[str] = field(init=False, factory=Counter)
    """How often each id was needed."""

    def __attrs_post_init__(self) -> None:
        self._leads = {form.lead: form for form in self._forms}
        self._lead = _any_lead(self._leads)

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """Pass *items* on, with calls in place of their text."""
        for item in items:
            idle = not self._held and self._excerpt is None
            if type(item) is TextDelta:
                if idle and self._lead.search(item.text) is None:
                    self._code.advance(item.text)
                    yield item
                else:
                    yield from self._read(item.text)
            else:
                if not idle and type(item) not in _ASIDE:
                    yield from self.flush()
                yield item

    def flush(self) -> Iterator[Delta]:
        """The text that was held: it is interrupted, or has ended."""
        while self._excerpt is not None:
            yield from self._read((yield from self._give_up(self._excerpt)))
        held, self._held = self._held, ""
        yield from self._text(held)

    def _read(self, text: str) -> Iterator[Delta]:
        text, at, self._held = self._held + text, 0, ""
        while at < len(text):
            if self._excerpt is None:
                at = yield from self._search(text, at)
                continue
            end = self._excerpt.read(text, at)
            if end < 0:
                rest = yield from self._give_up(self._excerpt)
                text, at = rest + text[at:], 0
            else:
                at = end
                yield from self._written(self._excerpt)

    def _search(self, text: str, at: int) -> Generator[Delta, None, int]:
        """Yield text up to the next lead, and a lead in code, too, else begin an excerpt; return where the rest is."""
        match = self._lead.search(text, at) if self._failed < WRITTEN_CALL_FAILURES else None
        if match is None:
            yield from self._text(text[at:])
            return len(text)
        yield from self._text(text[at : match.start()])
        lead = match[0]
        if lead not in self._leads:
            self._held = lead
        elif self._code.in_code:
            yield from self._text(lead)
        else:
            self._excerpt = Excerpt(self._leads[lead], self._longest)
        return match.end()

    def _give_up(self, excerpt: Excerpt) -> Generator[Delta, None, str]:
        """Yield the lead as text; return what follows it, which may hold another lead."""
        self._excerpt = None
        self._failed += 1
        lead = excerpt.form.lead
        yield from self._text(lead)
        return excerpt.text[len(lead) :]

    def _written(self, excerpt: Excerpt) -> Iterator[Delta]:
        for call in excerpt.calls:
            self._excerpt = None
            yield Notice(WRITTEN, call.name)
            yield ToolCallFragment(self._new_id(f"{call.name}-{excerpt.form.suffix}"), call.name, call.input, stop=True)

    def _new_id(self, name: str) -> str:
        self._numbers[name] += 1
        number = self._numbers[name]
        return name if number == 1 else f"{name}-{number}"

    def _text(self, text: str) -> Iterator[TextDelta]:
        if text:
            self._code.advance(text)
            yield TextDelta(text)


def _any_lead(leads: Iterable[str]) -> re.Pattern[str]:
    starts = (f"{re.escape(lead[:size])}\\Z" for lead in leads for size in range(len(lead) - 1, 0, -1))
    return re.compile("|".join((*map(re.escape, leads), *starts)))


_SUFFIX: Final = "text"
_NAME: Final = r"([A-Za-z0-9_.:/-]+)"
_BRACKETED: Final = (
    ("[Called ", rf"\[Called (?:tool )?{_NAME} with(?: (?:args|arguments|input))?:?\s*\{{"),
    ("[Tool call: ", rf"\[Tool call: {_NAME}(?: with)?(?: (?:args|arguments|input))?:?\s*\{{"),
)
_PREFIXES: Final = ("", "antml:")
"""Prefixes that the names of the tags may have."""


def leaked_forms(names: Collection[str]) -> tuple[Form, ...]:
    """The forms of leaked calls, for tools of these names."""
    brackets = (_bracketed(names, lead, head) for lead, head in _BRACKETED)
    return (*brackets, *(form for prefix in _PREFIXES for form in _tagged(names, prefix)))


def _bracketed(names: Collection[str], lead: str, head: str) -> Form:
    def calls(head: re.Match[str], excerpt: str) -> tuple[WrittenCall, ...]:
        text = excerpt[head.end() - 1 : -1].rstrip()
        return (WrittenCall(head[1], text),) if head[1] in names and is_json(text) else ()

    return Form(lead=lead, stop="{", head=re.compile(head), closing=lambda _: Brackets(), calls=calls, suffix=_SUFFIX)


def _tagged(names: Collection[str], prefix: str) -> tuple[Form, Form]:
    notation = _Notation(names, prefix)

    def form(lead: str, head: str, name: str, calls: Callable[[str], Sequence[WrittenCall]]) -> Form:
        return Form(
            lead=f"<{prefix}{lead}",
            stop=">",
            head=re.compile(f"<{prefix}{head}>"),
            closing=lambda _: Word(f"</{prefix}{name}>"),
            calls=lambda _, excerpt: calls(excerpt),
            suffix=_SUFFIX,
        )

    return (
        form('invoke name="', rf'invoke name="{_NAME}"', "invoke", notation.calls),
        form("function_calls", "function_calls", "function_calls", notation.wrapped),
    )


@define
class _Notation:
    """The notation with tags."""

    _names: Collection[str]
    _prefix: str
    _invocation: re.Pattern[str] = field(init=False)
    _parameter: re.Pattern[str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        prefix = self._prefix
        self._invocation = re.compile(rf'\s*<{prefix}invoke name="{_NAME}">(.*?)</{prefix}invoke>', re.DOTALL)
        self._parameter = re.compile(rf'\s*<{prefix}parameter name="([^"]+)">(.*?)</{prefix}parameter>', re.DOTALL)

    def wrapped(self, text: str) -> Sequence[WrittenCall]:
        """The calls within a pair of outer tags."""
        return self.calls(text[text.index(">") + 1 : text.rindex("</")])

    def calls(self, text: str) -> Sequence[WrittenCall]:
        """All calls of *text*; none where anything else is in it, or one of them cannot be read."""
        found = _only(self._invocation, text)
        calls = [call for name, inside in found if (call := self._call(name, inside)) is not None]
        return calls if len(calls) == len(found) else ()

    def _call(self, name: str, inside: str) -> WrittenCall | None:
        parameters = _only(self._parameter, inside)
        arguments = dict(parameters)
        readable = len(arguments) == len(parameters) and (bool(arguments) or not inside.strip())
        return WrittenCall(name, dumps(arguments).decode()) if readable and name in self._names else None


def _only(pattern: re.Pattern[str], text: str) -> list[tuple[str, str]]:
    """Matches of *pattern* if *text* holds nothing else but blanks after them; otherwise none."""
    found, at = [], 0
    while match := pattern.match(text, at):
        found.append((match[1], match[2]))
        at = match.end()
    return [] if text[at:].strip() else found


def _closing(head: re.Match[str]) -> Word:
    return Word(f"</{head[1]}>")


def _calls(head: re.Match[str], excerpt: str) -> tuple[WrittenCall]:
    """One call; a body that is neither JSON nor empty becomes a string, which the assembler puts under ``input``."""
    body = excerpt[head.end() : -len(head[0]) - 1]
    return (WrittenCall(head[1], body if is_json(body.strip() or "{}") else dumps(body).decode()),)


MCP_XML: Final = Form(
    lead=f"<{MCP}",
    stop=">",
    head=re.compile(rf"<({MCP}[A-Za-z0-9_.-]+)>"),
    closing=_closing,
    calls=_calls,
    suffix="xml",
)
"""The form that some clients' prompts ask for; any name that begins as those of MCP tools do is taken."""
