"""Content blocks of an answer while they are open, and searches that the service runs itself.

Source: https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/web-search-tool
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final

from attrs import define, evolve, field

from kiro_asgi.model.events import (
    UNAVAILABLE,
    WEB_SEARCH,
    Citation,
    Delta,
    Notice,
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
from kiro_asgi.upstreams.errors import clean
from kiro_asgi.upstreams.media import embedded, linked
from kiro_asgi.wire.json import JsonError, dumps, loads, object_of, objects_of, text_of

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
            yield Notice("result.stray", clean(text_of(block, "type"))[:60])
        else:
            yield ServerResult(call, _output(block.get("content")))


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

    gathers: ClassVar[bool] = False
    """Whether it keeps its pieces."""

    is_text: ClassVar[bool] = False

    def opening(self) -> Iterable[Delta]:
        """Deltas of its start."""
        return ()

    def write(self, text: str) -> Iterable[Delta]:
        """Deltas of a piece of its arguments."""
        return ()

    def add_text(self, text: str) -> Iterable[Delta]:
        """Deltas of a piece of its text."""
        return (TextDelta(text),)

    def cite(self, location: Mapping[str, Any]) -> None:
        """Remember a source."""

    def closing(self) -> Iterable[Delta]:
        """Deltas of its end."""
        return ()


@define
class _WholeBlock(OpenBlock):
    """A block whose start may hold all of it."""

    _deltas: tuple[Delta, ...]

    def opening(self) -> Iterable[Delta]:
        """The deltas of the start."""
        return self._deltas


@define
class _Text(OpenBlock):
    """A block of text, which is cited as a whole."""

    is_text: ClassVar[bool] = True
    _text: str
    _locations: list[Mapping[str, Any]]
    _size: int = field(init=False, default=0)

    def opening(self) -> Iterator[Delta]:
        """The text that its start holds."""
        if self._text:
            yield from self.add_text(self._text)

    def add_text(self, text: str) -> Iterable[Delta]:
        """A piece of it."""
        self._size += len(text)
        return (TextDelta(text),)

    def cite(self, location: Mapping[str, Any]) -> None:
        """Keep a source for the end: it may come before the text."""
        self._locations.append(location)

    def closing(self) -> Iterator[Delta]:
        """The sources."""
        for location in self._locations:
            url = text_of(location, "url") or _address(text_of(location, "source"))
            title = text_of(location, "title") or text_of(location, "document_title")
            yield Citation(self._size, 0, title, url, text_of(location, "cited_text"), location)


def _address(source: str) -> str:
    """*source* where it is an address; clients name search results as they like."""
    return source if source.startswith(("https://", "http://")) else ""


@define
class _ClientCall(OpenBlock):
    """A call that the client runs; arguments in the start count where no others come."""

    lasting: ClassVar[bool] = True
    _call_id: str
    _name: str
    _input: str

    def opening(self) -> Iterable[Delta]:
        """Its id and name."""
        yield ToolCallFragment(self._call_id, self._name)

    def write(self, text: str) -> Iterable[Delta]:
        """A fragment."""
        if text:
            self._input = ""
            yield ToolCallFragment(self._call_id, input=text)

    def closing(self) -> Iterable[Delta]:
        """The end of the arguments, which are complete."""
        yield ToolCallFragment(self._call_id, input=self._input, stop=True)


@define
class _ServerCall(OpenBlock):
    """A call that the service runs."""

    lasting: ClassVar[bool] = True
    gathers: ClassVar[bool] = True
    _call_id: str
    _name: str
    _input: Mapping[str, Any]
    _searches: Searches
    _pieces: list[str] = field(init=False, factory=list)

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
            yield from self._searches.called(ServerCall(self._call_id, self._name, self._name, arguments))
        else:
            yield Notice("server_call.arguments", clean(self._name)[:60])


@define
class _Result(OpenBlock):
    """The result of a call that the service has run."""

    _block: Mapping[str, Any]
    _searches: Searches

    def closing(self) -> Iterable[Delta]:
        """The result."""
        return self._searches.answered(self._block)


def _text(block: Mapping[str, Any], _: set[str], __: Searches) -> OpenBlock:
    return _Text(text_of(block, "text"), [*objects_of(block.get("citations"))])


def _thinking(block: Mapping[str, Any], _: set[str], __: Searches) -> OpenBlock:
    text, signature = text_of(block, "thinking"), unless_unsigned(text_of(block, "signature"))
    return _WholeBlock((*([ThinkingDelta(text)] if text else ()), *([SignatureDelta(signature)] if signature else ())))


def _redacted(block: Mapping[str, Any], _: set[str], __: Searches) -> OpenBlock:
    data = text_of(block, "data")
    return _WholeBlock((RedactedThinking(data),) if data else ())


def _image(block: Mapping[str, Any], _: set[str], __: Searches) -> OpenBlock:
    source = object_of(block.get("source"))
    shown = linked(text_of(source, "url"), "image/*")
    shown = shown or embedded(text_of(source, "media_type"), text_of(source, "data"))
    return _WholeBlock((TextDelta(shown) if shown else Notice("content.unreadable", "image"),))


def _call(block: Mapping[str, Any], calls: set[str], _: Searches) -> OpenBlock:
    arguments = block.get("input")
    written = dumps(arguments).decode() if type(arguments) is dict and arguments else ""
    return _ClientCall(_distinct(text_of(block, "id"), calls), text_of(block, "name"), written)


def _server_call(block: Mapping[str, Any], calls: set[str], searches: Searches) -> OpenBlock:
    arguments = block.get("input")
    arguments = arguments if type(arguments) is dict else {}
    return _ServerCall(_distinct(text_of(block, "id"), calls), text_of(block, "name"), arguments, searches)


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
        "image": _image,
        "tool_use": _call,
        "server_tool_use": _server_call,
        "web_search_tool_result": _result,
    }
)
"""Type of a block to its reader."""


def index_of(value: Mapping[str, Any]) -> int:
    """The place of the block that an event is about; -1 where it names none."""
    index = value.get("index")
    return index if type(index) is int else -1
