"""Content blocks of an answer while they are open, and searches that the service runs itself.

Source: https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/web-search-tool
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final

from attrs import define, evolve, field

from kiro_asgi.failures.texts import clean
from kiro_asgi.model.budget import ITEM, AnswerBudget, size_of_value
from kiro_asgi.model.events import (
    UNAVAILABLE,
    WEB_SEARCH,
    BlockKind,
    BlockMembers,
    Citation,
    Delta,
    Notice,
    OpaqueBlock,
    RedactedThinking,
    SearchHit,
    ServerCall,
    ServerResult,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
    ToolCallFragment,
    ToolOutput,
)
from kiro_asgi.model.prompt import Part, Role, Text, ToolCallPart, ToolResult, Turn
from kiro_asgi.model.signatures import unless_unsigned
from kiro_asgi.model.unread import Unread, accumulated
from kiro_asgi.upstreams.media import embedded, fenced, linked, printed
from kiro_asgi.upstreams.unread import ARGUMENTS, arguments_in, others, unplaced
from kiro_asgi.wire.json import JsonError, loads, object_of, objects_of, text_of

API: Final = "anthropic"
"""Name of the API, as of `kiro_asgi.model.unread.Unread`."""

_PREFIX: Final = "srvtoolu_"
"""Beginning of the service's ids of its own calls; it takes no other."""


@define
class Searches:
    """The calls of one answer that the service runs, so that results find theirs."""

    _calls: dict[str, ServerCall] = field(init=False, factory=dict)

    def called(self, call: ServerCall) -> Iterator[Delta]:
        """Remember a call."""
        self._calls[call.call_id] = call
        yield call

    def answered(self, block: Mapping[str, Any]) -> Iterator[Delta]:
        """The result that *block* is, once."""
        call = self._calls.pop(text_of(block, "tool_use_id"), None)
        if call is None:
            yield OpaqueBlock(Unread(API, block), (), (Notice("result.stray", clean(text_of(block, "type"))[:60]),))
        else:
            yield ServerResult(call, _output(block.get("content")), Unread(API, block))


def _output(content: Any) -> ToolOutput:
    """Results of a search; the model reads them, and answers in its own words."""
    if type(content) is not list:
        code = text_of(content, "error_code") if type(content) is dict else ""
        return ToolOutput(error_code=code or UNAVAILABLE, reworded=True)
    return ToolOutput(tuple(map(_hit, (page for page in content if type(page) is dict))), reworded=True)


def _hit(page: Mapping[str, Any]) -> SearchHit:
    title, url, age, sealed = (text_of(page, name) for name in ("title", "url", "page_age", "encrypted_content"))
    return SearchHit(title, url, published=age, encrypted_content=sealed)


# On the way back.


def as_server_calls(turn: Turn) -> Turn:
    """*turn* with the results of its searches as the service sealed them, and their calls as the service's own."""
    found = {part.call_id for part in turn.parts if type(part) is ToolResult and part.block}
    if not found or turn.role is not Role.ASSISTANT:
        return turn
    called = {part.call_id for part in turn.parts if type(part) is ToolCallPart}
    ids = frozenset(each for each in found & called if each.startswith(_PREFIX))
    return evolve(turn, parts=tuple(_as_server_block(part, ids) for part in turn.parts))


def _as_server_block(part: Part, ids: frozenset[str]) -> Part:
    """A block as it is, where *part* belongs to a search whose id is in *ids*."""
    if type(part) is ToolCallPart and part.call_id in ids:
        call = {"type": "server_tool_use", "id": part.call_id, "name": WEB_SEARCH, "input": dict(part.input)}
        return Text("", part.cache, block=call)
    if type(part) is ToolResult and part.block and part.call_id in ids:
        return Text("", part.cache, block=part.block)
    return part


class OpenBlock:
    """A block without state of its own, or one of an unknown type."""

    lasting: ClassVar[bool] = False
    """Whether a part of it is kept until the end of the answer: a call's id, or a call that the service runs."""

    is_call: ClassVar[bool] = False
    """Whether the client runs it."""

    gathers: ClassVar[bool] = False
    """Whether it keeps its pieces."""

    @property
    def keeps_members(self) -> bool:
        """Whether it keeps members that come after its start."""
        return self.lasting

    is_text: ClassVar[bool] = False
    is_opaque: ClassVar[bool] = False
    """Whether it takes every piece as it is."""

    def take(self, delta: Mapping[str, Any]) -> Iterable[Delta]:
        """Deltas of a piece that is not looked at; only where `is_opaque`."""
        raise AssertionError("a piece was not looked at")

    def begin_with(self, unread: Unread) -> None:
        """Take members of its start that are not understood, before `opening`."""

    def members(self, unread: Unread, *instead: Notice) -> Iterable[Delta]:
        """Deltas of members that came later, or of a piece that is not understood."""
        return instead or unplaced(unread.members)

    def opening(self) -> Iterable[Delta]:
        """Deltas of its start."""
        return ()

    def write(self, text: str) -> Iterable[Delta]:
        """Deltas of a piece of its arguments."""
        return ()

    def unended(self) -> Iterable[Delta]:
        """What is left of it where the message ends, and it does not."""
        return self.closing() if self.is_opaque or self.is_text else ()

    def add_text(self, text: str) -> Iterable[Delta]:
        """Deltas of a piece of its text."""
        return (TextDelta(text),)

    def cite(self, location: Mapping[str, Any]) -> None:
        """Remember a source."""

    def closing(self) -> Iterable[Delta]:
        """Deltas of its end."""
        return ()


@define
class _Thinking(OpenBlock):
    """Thinking, of which the start may hold all."""

    _deltas: tuple[Delta, ...]

    def begin_with(self, unread: Unread) -> None:
        """They stand before the rest."""
        self._deltas = (BlockMembers(BlockKind.THINKING, unread), *self._deltas)

    def members(self, unread: Unread, *instead: Notice) -> Iterable[Delta]:
        """Where they came."""
        return (BlockMembers(BlockKind.THINKING, unread, instead),)

    def opening(self) -> Iterable[Delta]:
        """The deltas of the start."""
        return self._deltas


@define
class _WholeAtEnd(OpenBlock):
    """A block that `closing` gives whole, with members that came after its start."""

    def members(self, unread: Unread, *instead: Notice) -> Iterable[Delta]:
        """None: they are kept as those of the start; a piece of an unknown kind is not."""
        if not instead:
            self.begin_with(unread)
        return instead


@define
class _Redacted(_WholeAtEnd):
    """Thinking that is sealed."""

    _data: str
    _members: dict[str, Any] = field(init=False, factory=dict)

    def begin_with(self, unread: Unread) -> None:
        """Keep them."""
        self._members |= unread.members

    def closing(self) -> Iterable[Delta]:
        """All of it."""
        unread = Unread(API, self._members) if self._members else None
        return (RedactedThinking(self._data, unread),) if self._data else unplaced(self._members)


@define
class Opaque(OpenBlock):
    """A block of a kind that is not understood, which waits for its end."""

    is_opaque: ClassVar[bool] = True
    _pieces: list[Mapping[str, Any]]
    """Its start, and what followed."""

    _budget: AnswerBudget

    def take(self, delta: Mapping[str, Any]) -> Iterable[Delta]:
        """Gather a piece; no deltas yet.

        Raises:
            AnswerTooLarge: There is no room for it.
        """
        self._budget.take(ITEM + size_of_value(delta))
        self._pieces.append(delta)
        return ()

    def add_text(self, text: str) -> Iterable[Delta]:
        """Gather a piece that is text."""
        return self.take({"type": "text_delta", "text": text})

    def begin_with(self, unread: Unread) -> None:
        """Its start has them."""

    def members(self, unread: Unread, *_: Notice) -> Iterable[Delta]:
        """As of a piece."""
        return self.take(unread.members)

    def closing(self) -> Iterator[Delta]:
        """The block; in its place what `shown_of` makes of it, or else its text, for nobody else knows what it is."""
        start, *pieces = self._pieces
        whole = KeptBlock(start)
        texts: list[TextDelta | ThinkingDelta] = []
        for piece in pieces:
            whole.add(piece)
            whole.add({"type": "", **others(piece, PIECES.get(text_of(piece, "type"), piece.keys()))})
            if text := text_of(piece, "text"):
                texts.append(TextDelta(text))
            elif text := text_of(piece, "thinking"):
                texts.append(ThinkingDelta(text))
        block = whole.lenient()
        shown, name = shown_of(block), text_of(start, "name") or text_of(start, "type")
        instead = (TextDelta(shown),) if shown else (Notice("block.unknown", clean(name)[:60]), *texts)
        yield OpaqueBlock(Unread(API, block), tuple(self._pieces), instead)


def shown_of(block: Mapping[str, Any]) -> str:
    """A block as text for clients of other APIs; empty for one that has nothing to show them."""
    kind = text_of(block, "type")
    reader = SHOWN.get(text_of(block, "name") if kind == "server_tool_use" else kind)
    return reader(block) if reader is not None else ""


def _summary(block: Mapping[str, Any]) -> str:
    summary = text_of(block, "content")
    return summary if summary.strip() else ""


def _image(block: Mapping[str, Any]) -> str:
    source = object_of(block.get("source"))
    shown = linked(text_of(source, "url"), "image/*")
    return shown or embedded(text_of(source, "media_type"), text_of(source, "data"))


def _code(block: Mapping[str, Any]) -> str:
    """The code of a call; that of a command is one of a shell."""
    given = object_of(block.get("input"))
    if code := text_of(given, "code"):
        return fenced(code, "python")
    command = text_of(given, "command")
    return fenced(command, "bash") if command else ""


def _ran(block: Mapping[str, Any]) -> str:
    """What the code of a call wrote, or why it did not run."""
    result = object_of(block.get("content"))
    failed = text_of(result, "error_code") or (result.get("return_code") and f"exit code {result['return_code']}") or ""
    return printed(text_of(result, "stdout"), text_of(result, "stderr"), failed)


SHOWN: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = MappingProxyType(
    {
        "compaction": _summary,
        "image": _image,
        **dict.fromkeys(("code_execution", "bash_code_execution"), _code),
        **dict.fromkeys(("code_execution_tool_result", "bash_code_execution_tool_result"), _ran),
    }
)
"""Type of a block, or name of the service's tool that it calls, to its text; other blocks are named by a notice."""


@define
class KeptBlock:
    """A block as its pieces make it up."""

    _start: Mapping[str, Any]
    pieces: dict[str, list[str]] = field(init=False, factory=dict)
    """By the member that they make up."""

    citations: list[Any] = field(init=False, factory=list)
    _others: list[Mapping[str, Any]] = field(init=False, factory=list)

    def add(self, delta: Mapping[str, Any]) -> None:
        """Take a piece; one of an unknown kind adds to the members that it names."""
        kind = text_of(delta, "type")
        if kind in MEMBERS:
            name, source = MEMBERS[kind]
            self.pieces.setdefault(name, []).append(text_of(delta, source))
        elif kind == "citations_delta":
            self.citations.append(delta.get("citation"))
        else:
            self._others.append({name: value for name, value in delta.items() if name != "type"})

    def written(self) -> dict[str, Any]:
        """All of it.

        Raises:
            JsonError: Its arguments are not JSON.
        """
        return self._written(loads)

    def lenient(self) -> dict[str, Any]:
        """All of it; arguments that are not JSON as their text."""
        return self._written(_loaded_or_text)

    def _written(self, read: Callable[[str], Any]) -> dict[str, Any]:
        block = accumulated((self._start, *self._others)) if self._others else dict(self._start)
        for name, pieces in self.pieces.items():
            text = "".join(pieces)
            if name != "input":
                block[name] = text_of(block, name) + text
            elif text:
                block[name] = read(text)
        if self.citations:
            block["citations"] = [*objects_of(block.get("citations")), *self.citations]
        return block


def _loaded_or_text(text: str) -> Any:
    try:
        return loads(text)
    except JsonError:
        return text


MEMBERS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "text_delta": ("text", "text"),
        "thinking_delta": ("thinking", "thinking"),
        "signature_delta": ("signature", "signature"),
        "input_json_delta": ("input", "partial_json"),
    }
)
"""Kind of delta to the member of the block that it adds to, and its own member that has the piece."""

PIECES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        **{kind: frozenset({"type", source}) for kind, (_, source) in MEMBERS.items()},
        "citations_delta": frozenset({"type", "citation"}),
    }
)
"""Kind of delta to the members that are read."""


@define
class _Text(OpenBlock):
    """A block of text, which is cited as a whole.

    Clients get no text without a word: members that come before the first one stand behind it, and those of a text that
    has none are named.
    """

    is_text: ClassVar[bool] = True
    _text: str
    _locations: list[Mapping[str, Any]]
    _size: int = field(init=False, default=0)
    _unread: Unread | None = field(init=False, default=None)
    _is_worded: bool = field(init=False, default=False)
    """Whether a word has come."""

    _early: list[BlockMembers] = field(init=False, factory=list)
    """Members that came before it, but after the start."""

    @property
    def keeps_members(self) -> bool:
        """Until the first word."""
        return not self._is_worded

    def begin_with(self, unread: Unread) -> None:
        """They stand before the text."""
        self._unread = unread

    def members(self, unread: Unread, *instead: Notice) -> Iterable[Delta]:
        """Where they came, but not before the first word."""
        found = BlockMembers(BlockKind.TEXT, unread, instead)
        if self._is_worded:
            return (found,)
        self._early.append(found)
        return ()

    def opening(self) -> Iterator[Delta]:
        """The text that its start holds."""
        if self._unread is not None:
            yield BlockMembers(BlockKind.TEXT, self._unread)
        if self._text:
            yield from self.add_text(self._text)

    def add_text(self, text: str) -> Iterable[Delta]:
        """A piece of it."""
        self._size += len(text)
        if self._is_worded or not text.strip():
            return (TextDelta(text),)
        self._is_worded = True
        early, self._early = self._early, []
        return (TextDelta(text), *early)

    def cite(self, location: Mapping[str, Any]) -> None:
        """Keep a source for the end: it may come before the text."""
        self._locations.append(location)

    def closing(self) -> Iterator[Delta]:
        """The sources."""
        if not self._is_worded:
            yield from self._wordless()
            return
        for location in self._locations:
            url = text_of(location, "url") or _address(text_of(location, "source"))
            title = text_of(location, "title") or text_of(location, "document_title")
            yield Citation(self._size, 0, title, url, text_of(location, "cited_text"), location)

    def _wordless(self) -> Iterator[Delta]:
        """What there was beside a text that is left out."""
        names = dict.fromkeys(self._unread.members if self._unread else ())
        for early in self._early:
            yield from early.instead
            names |= {} if early.instead else dict.fromkeys(early.unread.members)
        yield from unplaced([*names, *(["citations"] if self._locations else [])])


def _address(source: str) -> str:
    """*source* where it is an address; clients name search results as they like."""
    return source if source.startswith(("https://", "http://")) else ""


@define
class _ClientCall(OpenBlock):
    """A call that the client runs; arguments in the start count where no others come."""

    lasting: ClassVar[bool] = True
    is_call: ClassVar[bool] = True
    _call_id: str
    _name: str
    _input: str
    _unread: Unread | None = field(init=False, default=None)

    def begin_with(self, unread: Unread) -> None:
        """They come with its id and name."""
        self._unread = unread

    def members(self, unread: Unread, *instead: Notice) -> Iterable[Delta]:
        """With the call; a piece of an unknown kind has no place there, as the arguments may have been mended."""
        return instead or (ToolCallFragment(self._call_id, unread=unread),)

    def opening(self) -> Iterable[Delta]:
        """Its id and name."""
        yield ToolCallFragment(self._call_id, self._name, unread=self._unread)

    def write(self, text: str) -> Iterable[Delta]:
        """A fragment."""
        if text:
            self._input = ""
            yield ToolCallFragment(self._call_id, input=text)

    def unended(self) -> Iterable[Delta]:
        """Arguments that its start held."""
        yield from (ToolCallFragment(self._call_id, input=self._input),) if self._input else ()

    def closing(self) -> Iterable[Delta]:
        """The end of the arguments, which are complete."""
        yield ToolCallFragment(self._call_id, input=self._input, stop=True)


@define
class _ServerCall(_WholeAtEnd):
    """A call that the service runs."""

    lasting: ClassVar[bool] = True
    gathers: ClassVar[bool] = True
    _call_id: str
    _name: str
    _input: Mapping[str, Any]
    _searches: Searches
    _block: Mapping[str, Any]
    _pieces: list[str] = field(init=False, factory=list)
    _late: list[Mapping[str, Any]] = field(init=False, factory=list)

    def begin_with(self, unread: Unread) -> None:
        """Keep them."""
        self._late.append(unread.members)

    def write(self, text: str) -> Iterable[Delta]:
        """Gather the piece; no deltas yet."""
        self._pieces.append(text)
        return ()

    def closing(self) -> Iterator[Delta]:
        """The whole call."""
        written = "".join(self._pieces)
        try:
            arguments = loads(written) if written.strip() else self._input
        except JsonError:
            arguments = None
        if isinstance(arguments, Mapping):
            origin = Unread(API, {**accumulated((self._block, *self._late)), "input": arguments})
            yield from self._searches.called(ServerCall(self._call_id, self._name, self._name, arguments, origin))
        else:
            yield Notice("server_call.arguments", clean(self._name)[:60])


@define
class _Result(_WholeAtEnd):
    """The result of a call that the service has run."""

    _block: Mapping[str, Any]
    _searches: Searches

    def begin_with(self, unread: Unread) -> None:
        """Keep them."""
        self._block = {**unread.members, **self._block}

    def closing(self) -> Iterable[Delta]:
        """The result."""
        return self._searches.answered(self._block)


def _text(block: Mapping[str, Any], _: set[str], __: Searches) -> OpenBlock:
    return _Text(text_of(block, "text"), [*objects_of(block.get("citations"))])


def _thinking(block: Mapping[str, Any], _: set[str], __: Searches) -> OpenBlock:
    text, signature = text_of(block, "thinking"), unless_unsigned(text_of(block, "signature"))
    return _Thinking((*([ThinkingDelta(text)] if text else ()), *([SignatureDelta(signature)] if signature else ())))


def _redacted(block: Mapping[str, Any], _: set[str], __: Searches) -> OpenBlock:
    return _Redacted(text_of(block, "data"))


def _call(block: Mapping[str, Any], calls: set[str], _: Searches) -> OpenBlock:
    given = {name: value for name in ARGUMENTS if (value := block.get(name))}  # an empty one stands for later pieces
    written = arguments_in(given)
    return _ClientCall(_distinct(text_of(block, "id"), calls), text_of(block, "name"), written)


def _search(block: Mapping[str, Any], calls: set[str], searches: Searches) -> OpenBlock:
    call_id, name = _distinct(text_of(block, "id"), calls), text_of(block, "name")
    call = _ServerCall(call_id, name, object_of(block.get("input")), searches, block)
    call.write(text_of(block, "input"))
    return call


def _result(block: Mapping[str, Any], _: set[str], searches: Searches) -> OpenBlock:
    return _Result(block, searches)


def _distinct(call_id: str, calls: set[str]) -> str:
    """An id that no other call has: the service's, but for a number where it is not given, or given twice."""
    stem = call_id or "toolu"
    number = 1
    while not call_id or call_id in calls:
        number += 1
        call_id = f"{stem}_{number}"
    calls.add(call_id)
    return call_id


OPENERS: Final[Mapping[str, Callable[[Mapping[str, Any], set[str], Searches], OpenBlock]]] = MappingProxyType(
    {
        "text": _text,
        "thinking": _thinking,
        "redacted_thinking": _redacted,
        "tool_use": _call,
        "web_search_tool_result": _result,
    }
)
"""Type of a block to its reader."""


def opener_of(block: Mapping[str, Any]) -> Callable[[Mapping[str, Any], set[str], Searches], OpenBlock] | None:
    """The reader of *block*; ``None`` for one that is handed on whole.  Of the service's own tools, other APIs know the
    search."""
    kind = text_of(block, "type")
    return _search if kind == "server_tool_use" and text_of(block, "name") == WEB_SEARCH else OPENERS.get(kind)


KNOWN: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "text": frozenset({"type", "text", "citations"}),
        "thinking": frozenset({"type", "thinking", "signature"}),
        "redacted_thinking": frozenset({"type", "data"}),
        "tool_use": frozenset({"type", "id", "name", "input"}),
    }
)
"""Type of a block to the members that are read; blocks of other types are kept whole."""


def index_of(value: Mapping[str, Any]) -> int:
    """The place of the block that an event is about; -1 where it names none."""
    index = value.get("index")
    return index if type(index) is int else -1
