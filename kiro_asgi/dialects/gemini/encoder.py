"""Answers, streamed and collected, as objects of the API.

Of a stream official clients take nothing but lines of ``data: {…}``, each with an empty line behind it: no comments, no
names of events, no sentinel.  Some forget a whole exchange for one object without a part; so every object has a
candidate with one, the last, which alone has a reason to end and token counts, too.

Everything is ASCII but for what only strings hold, and of that, too, what some official clients take for the end of a
line is escaped.

Sources: https://ai.google.dev/api/generate-content#method:-models.streamgeneratecontent,
https://ai.google.dev/api/generate-content#GenerateContentResponse
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Set
from types import MappingProxyType
from typing import Any, Final

from attrs import define, field

from kiro_asgi.dialects.base import Apart, ResponseMeta
from kiro_asgi.dialects.gemini.content import Signing
from kiro_asgi.dialects.gemini.errors import error_body
from kiro_asgi.dialects.gemini.parsing import GeminiOptions
from kiro_asgi.dialects.gemini.shapes import API
from kiro_asgi.dialects.opaque import joined, members_of
from kiro_asgi.dialects.pieces import closing, dump_array, dump_text
from kiro_asgi.errors import KiroAsgiError, UpstreamProtocolError
from kiro_asgi.model.events import (
    BlockEnd,
    BlockKind,
    BlockMembers,
    BlockStart,
    Citation,
    Event,
    MessageEnd,
    MessageMembers,
    MessageStart,
    OpaqueBlock,
    RefusalDelta,
    ServerCall,
    ServerResult,
    SignatureDelta,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolInputDelta,
    Usage,
)
from kiro_asgi.model.handling import Tier
from kiro_asgi.model.message import (
    Block,
    Message,
    RedactedThinkingBlock,
    RefusalBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from kiro_asgi.model.unread import Unread, accumulated, restore
from kiro_asgi.wire.json import JsonError, dumps, loads, object_of, objects_of, quote_bytes, text_of


@define
class GroundingTally:
    """Collects the pages that one answer rests on, as its ``groundingMetadata``: searches, their results, citations.

    Places in the answer are counted in bytes of UTF-8.

    Source: https://ai.google.dev/api/generate-content#GroundingMetadata
    """

    keeps_text: bool = True
    """Whether there may be citations, for which the text is looked at again."""

    _queries: list[str] = field(init=False, factory=list)
    _pages: dict[str, str] = field(init=False, factory=dict)
    """Address to title, in order."""

    _numbers: dict[str, int] = field(init=False, factory=dict)
    """Address to its place among the pages."""

    _supports: list[dict[str, Any]] = field(init=False, factory=list)
    _pieces: list[str] = field(init=False, factory=list)
    _begins: list[tuple[int, int]] = field(init=False, factory=list)
    """Where each piece begins: in characters, and in bytes."""

    _chars: int = field(init=False, default=0)
    _bytes: int = field(init=False, default=0)

    def text(self, text: str) -> None:
        """Some text of the answer."""
        if self.keeps_text:
            self._pieces.append(text)
            self._begins.append((self._chars, self._bytes))
            self._chars += len(text)
            self._bytes += len(text) if text.isascii() else len(text.encode(errors="replace"))

    def tool(self, value: ServerCall | ServerResult | OpaqueBlock | None) -> None:
        """A search, or its result."""
        if isinstance(value, ServerCall):
            self._queries += filter(None, (text_of(value.input, "query"),))
        elif isinstance(value, ServerResult):
            for hit in value.output.hits:
                self._page(hit.url, hit.title)

    def cite(self, citation: Citation) -> None:
        """A source of the text so far; one without an address has no place."""
        if not (citation.url and self.keeps_text):
            return
        begin, end = self._chars - citation.begins, self._chars - citation.ends
        segment = {"startIndex": self._place(begin), "endIndex": self._place(end), "text": self._between(begin, end)}
        number = self._page(citation.url, citation.title)
        self._supports.append({"segment": segment, "groundingChunkIndices": [number]})

    def metadata(self) -> dict[str, Any]:
        """All of it; empty where there is nothing."""
        pages = [{"web": {"uri": uri, "title": title or uri}} for uri, title in self._pages.items()]
        found = {"webSearchQueries": self._queries, "groundingChunks": pages, "groundingSupports": self._supports}
        filled = {name: value for name, value in found.items() if value}
        return {"groundingMetadata": filled} if filled else {}

    def _page(self, url: str, title: str) -> int:
        self._pages.setdefault(url, title)
        return self._numbers.setdefault(url, len(self._numbers))

    def _piece(self, char: int) -> int:
        return max(bisect_right(self._begins, (char, self._bytes + 1)) - 1, 0)

    def _place(self, char: int) -> int:
        """The byte at which a character begins."""
        if not self._pieces or char >= self._chars:
            return self._bytes
        at = self._piece(char)
        chars, size = self._begins[at]
        return size + len(self._pieces[at][: max(char - chars, 0)].encode(errors="replace"))

    def _between(self, begin: int, end: int) -> str:
        first, last = self._piece(begin), self._piece(end)
        start = self._begins[first][0] if self._begins else 0
        return "".join(self._pieces[first : last + 1])[max(begin - start, 0) : max(end - start, 0)]


_FINISH: Final[Mapping[StopReason, str]] = MappingProxyType(
    {
        StopReason.LENGTH: "MAX_TOKENS",
        StopReason.CONTEXT_FULL: "MAX_TOKENS",
        StopReason.PAUSED: "MAX_TOKENS",
        StopReason.COMPACTED: "MAX_TOKENS",
        StopReason.CONTENT_FILTER: "SAFETY",
        StopReason.REFUSAL: "SAFETY",
    }
)
"""Every other reason is ``STOP``; calls show in the parts."""

_MESSAGES: Final[Mapping[StopReason, str]] = MappingProxyType(
    {
        StopReason.CONTEXT_FULL: "The context window is full.",
        StopReason.PAUSED: "The service paused before the end of the answer.",
        StopReason.COMPACTED: "The service summed the conversation up, and did not answer.",
        StopReason.CONTENT_FILTER: "A filter of the service took the answer, or the rest of it.",
        StopReason.REFUSAL: "The model declined to answer.",
    }
)

_LINE_ENDS: Final = ((b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"), (b"\xc2\x85", b"\\u0085"))
"""Characters at which clients split lines, though no standard for events does, to their escapes in JSON."""


def _escaped(json: bytes) -> bytes:
    """*json*, whose strings hold no line end as it stands."""
    if not json.isascii():
        for character, escape in _LINE_ENDS:
            json = json.replace(character, escape)
    return json


_OWN_OF_TEXT: Final = frozenset({"text", "thought", "thoughtSignature"})


def _thought_or_text(text: bytes, *, thought: bool) -> bytes:
    """A part of text, which is JSON already."""
    return b'{"text":%b,"thought":true}' % text if thought else b'{"text":%b}' % text


def _with_members(part: bytes, members: Mapping[str, Any]) -> bytes:
    """*part*, an object that is not empty, with *members* that it does not have."""
    return part[:-1] + closing(members)


def _call_part(
    call_id: str, name: str, arguments: str, signature: Mapping[str, str], unread: Iterable[Unread] = ()
) -> bytes:
    """A call.

    Raises:
        UpstreamProtocolError: The arguments are not a JSON object.
    """
    try:
        value = loads(arguments or "{}")
    except JsonError as error:
        raise UpstreamProtocolError("the arguments of a tool call are not JSON", code="tool_call.arguments") from error
    if not isinstance(value, dict):
        raise UpstreamProtocolError("the arguments of a tool call are not a JSON object", code="tool_call.arguments")
    part = {"functionCall": {"id": call_id, "name": name, "args": value}, **signature}
    restore(part, joined(API, unread, frozenset()))
    return dumps(part)


def _grounding_of(meta: ResponseMeta) -> GroundingTally:
    """The tally of an answer that has not begun."""
    options = meta.options
    return GroundingTally(keeps_text=isinstance(options, GeminiOptions) and options.grounded)


def _finish(end: Message | MessageEnd, grounding: GroundingTally, others: Mapping[str, Any]) -> dict[str, Any]:
    """Members of a candidate that has ended, and *others* of the service's, which knows its own sources best."""
    ended: dict[str, Any] = {"finishReason": _FINISH.get(end.stop_reason, "STOP")}
    if end.stop_reason in _MESSAGES:
        explanation = end.declined.explanation if end.declined is not None else ""
        ended["finishMessage"] = explanation or _MESSAGES[end.stop_reason]
    ended |= {"index": 0, **grounding.metadata()}
    if "groundingMetadata" in others:
        ended.pop("groundingMetadata", None)
    restore(ended, others)
    return ended


@define
class _Members:
    """Members of an answer that are not understood; of those that several events have the last counts."""

    _top: dict[str, Any] = field(init=False, factory=dict)
    _candidate: dict[str, Any] = field(init=False, factory=dict)
    _content: dict[str, Any] = field(init=False, factory=dict)
    _pieces: list[Mapping[str, Any]] = field(init=False, factory=list)

    def add(self, unread: Iterable[Unread]) -> None:
        """Take those of some events."""
        for members in members_of(API, unread):
            self._top |= members
            for each in objects_of(members.get("candidates")):
                self._candidate |= each
                self._content |= object_of(each.get("content"))
                if pieces := {name: each[name] for name in _IN_PIECES if name in each}:
                    self._pieces.append(pieces)

    @property
    def top(self) -> bytes:
        """Those of the whole answer, as JSON behind a comma."""
        return _listed(self._top, _OWN)

    @property
    def content(self) -> bytes:
        """Those of its content, likewise."""
        return _listed(self._content, _OWN_CONTENT)

    @property
    def candidate(self) -> Mapping[str, Any]:
        """Those of its candidate."""
        found = self._candidate | accumulated(self._pieces)
        return {name: value for name, value in found.items() if name not in _OWN_CANDIDATE}

    @property
    def usage(self) -> Mapping[str, Any]:
        """Those of its token counts."""
        return object_of(self._top.get("usageMetadata"))


def _listed(members: Mapping[str, Any], own: Set[str]) -> bytes:
    others = {name: value for name, value in members.items() if name not in own}
    return b"," + dumps(others)[1:-1] if others else b""


_OWN: Final = frozenset({"candidates", "usageMetadata", "modelVersion", "responseId"})
_OWN_CANDIDATE: Final = frozenset({"content", "finishReason", "index"})
_OWN_CONTENT: Final = frozenset({"parts", "role"})
"""Members that are always ours."""

_IN_PIECES: Final = ("logprobsResult",)
"""Members of a candidate that come in pieces."""


def _tail(meta: ResponseMeta) -> bytes:
    """The members at the end of every object of an answer."""
    return b',"modelVersion":%b,"responseId":%b}' % (quote_bytes(meta.model), quote_bytes(meta.id))


def _usage_object(usage: Usage, others: Mapping[str, Any]) -> dict[str, Any]:
    """Token counts; thinking is not among those of the candidate, and the cache's are among the prompt's."""
    prompt, thoughts = usage.prompt_tokens, usage.thinking_tokens
    counts: dict[str, Any] = {
        "promptTokenCount": prompt,
        "candidatesTokenCount": max(usage.output_tokens - thoughts, 0),
        "totalTokenCount": prompt + usage.output_tokens,
    }
    if usage.cache_read_tokens:
        counts["cachedContentTokenCount"] = usage.cache_read_tokens
    if thoughts:
        counts["thoughtsTokenCount"] = thoughts
    if usage.tier in SERVED and "trafficType" not in others:
        counts["trafficType"] = SERVED[usage.tier]
    return {**others, **counts}


SERVED: Final[Mapping[Tier | None, str]] = MappingProxyType(
    {
        Tier.STANDARD: "ON_DEMAND",
        Tier.FLEX: "ON_DEMAND_FLEX",
        Tier.PRIORITY: "ON_DEMAND_PRIORITY",
        Tier.SCALE: "PROVISIONED_THROUGHPUT",
    }
)
"""The tier that answered, to the word of ``usageMetadata.trafficType``."""


# A collected answer.


def render(message: Message, meta: ResponseMeta) -> Iterator[bytes]:
    """The JSON body of a collected answer, in pieces.

    Raises:
        UpstreamProtocolError: The arguments of a call are not a JSON object.
    """
    signing, grounding = Signing(), _grounding_of(meta)
    yield b'{"candidates":[{"content":{"parts":'
    for piece in dump_array(_parts(message, signing, grounding)):
        yield _escaped(piece)
    others = _Members()
    others.add(message.unread)
    candidate = dumps(_finish(message, grounding, others.candidate))[1:]
    usage = dumps(_usage_object(message.usage, others.usage))
    tail = others.top + _tail(meta)
    yield _escaped(b',"role":"model"%b},%b],"usageMetadata":%b%b' % (others.content, candidate, usage, tail))


def _parts(message: Message, signing: Signing, grounding: GroundingTally) -> Iterator[Iterable[bytes]]:
    """The parts of an answer, never none; each in pieces."""
    empty = True
    for block in message.blocks:
        for part in _part(block, signing, grounding):
            empty = False
            yield part
    rest = signing.rest()
    if rest or empty:
        yield (dumps({"text": "", **rest}),)


def _part(block: Block, signing: Signing, grounding: GroundingTally) -> Iterator[Iterable[bytes]]:
    match block:
        case TextBlock(text) | RefusalBlock(text):
            grounding.text(text)
            if text or block.unread:
                yield (b'{"text":', *dump_text(text), _rest({}, block.unread))
            for citation in block.citations if isinstance(block, TextBlock) else ():
                grounding.cite(citation)
        case ThinkingBlock(text, signature, unread):
            if text or unread:
                yield (b'{"text":', *dump_text(text), _rest({"thought": True}, unread))
            if (part := signing.thinking(text, signature)) is not None:
                yield (dumps(part),)
        case RedactedThinkingBlock(data):
            signing.thinking("", "", data)
        case ToolCallBlock(call_id, name, arguments, unread):
            yield (_call_part(call_id, name, arguments, signing.of_call(), unread),)
        case OpaqueBlock(unread):
            yield from ((dumps(dict(members)),) for members in members_of(API, (unread,)))
        case server:
            grounding.tool(server)


def _rest(own: Mapping[str, Any], unread: Iterable[Unread]) -> bytes:
    """The end of a part behind its text."""
    return closing({**own, **joined(API, unread, _OWN_OF_TEXT)})


# A streamed answer.


_BEFORE: Final = b'{"candidates":[{"content":{"parts":['
_BEHIND: Final = b'],"role":"model"},"index":0}]'


@define
class _Encoder:
    """The stage from events to objects, whatever stands around those."""

    _meta: ResponseMeta
    _behind: bytes = field(init=False)
    _tail: bytes = field(init=False)
    _signing: Signing = field(init=False, factory=Signing)
    _grounding: GroundingTally = field(init=False)
    _block: BlockStart | None = field(init=False, default=None)
    _held: list[str] = field(init=False, factory=list)
    """Arguments of a call, or thinking that may be signed."""

    _signature: str = field(init=False, default="")
    _others: _Members = field(init=False, factory=_Members)
    """Members of the answer, for its end."""

    _members: Mapping[str, Any] = field(init=False, factory=dict)
    """Members of the open block, for its next part."""

    ended: bool = field(init=False, default=False)
    """Whether the last object has been written, or an error instead."""

    def __attrs_post_init__(self) -> None:
        self._tail = _escaped(_tail(self._meta))
        self._behind = _BEHIND + self._tail
        self._grounding = _grounding_of(self._meta)

    def objects(self, items: Iterable[Event]) -> Iterator[bytes]:
        """The objects for *items*."""
        for item in items:
            if type(item) is TextDelta or type(item) is RefusalDelta:
                self._grounding.text(item.text)
                if item.text:
                    yield self._text(quote_bytes(item.text), thought=False)
            elif type(item) is ThinkingDelta:
                self._held.append(item.text)
                if item.text:
                    yield self._text(quote_bytes(item.text), thought=True)
            elif type(item) is ToolInputDelta:
                self._held.append(item.json)
            elif type(item) is BlockEnd:
                yield from self._close()
            elif type(item) is MessageEnd:
                yield self._end(item)
            else:
                self._note(item)

    def _text(self, text: bytes, *, thought: bool) -> bytes:
        part = _thought_or_text(text, thought=thought)
        if self._members:
            part, self._members = _with_members(part, self._members), {}
        return self._object(part)

    def _note(self, item: Event) -> None:
        if isinstance(item, BlockStart):
            self._block, self._held, self._signature = item, [], ""
            self._members = joined(API, (item.unread,), _OWN_OF_TEXT)
            self._grounding.tool(item.value)
        elif isinstance(item, BlockMembers):
            self._members = {**self._members, **joined(API, (item.unread,), _OWN_OF_TEXT)}
        elif isinstance(item, MessageStart):
            self._others.add(item.unread)
        elif isinstance(item, MessageMembers):
            self._others.add((item.unread,))
        elif isinstance(item, SignatureDelta):
            self._signature = item.signature
        elif isinstance(item, Citation):
            self._grounding.cite(item)

    def _close(self) -> Iterator[bytes]:
        block, held, self._held = self._block, "".join(self._held), []
        assert block is not None, "a block ended that had not begun"
        if isinstance(block.value, OpaqueBlock):
            if block.value.unread.api == API:
                yield self._object(dumps(dict(block.value.unread.members)))
        elif self._members and block.kind is not BlockKind.TOOL_CALL:
            yield self._text(b'""', thought=block.kind is BlockKind.THINKING)
        if block.kind is BlockKind.TOOL_CALL:
            yield from self._call(block, held)
        elif block.kind in (BlockKind.THINKING, BlockKind.REDACTED_THINKING):
            part = self._signing.thinking(held, self._signature, block.data)
            if part is not None:
                yield self._object(dumps(part))

    def _call(self, block: BlockStart, arguments: str) -> Iterator[bytes]:
        """A call; one that was cut is left out, as no client could run it."""
        try:
            part = _call_part(block.call_id, block.name, arguments, {}, (Unread(API, self._members),))
        except UpstreamProtocolError:
            return
        signature = self._signing.of_call()
        yield self._object(_with_members(part, signature))

    def _end(self, item: MessageEnd) -> bytes:
        self.ended = True
        last = dumps({"text": "", **self._signing.rest()})
        others = self._others
        candidate = dumps(_finish(item, self._grounding, others.candidate))[1:]
        usage = dumps(_usage_object(item.usage, others.usage))
        turn = b'%b%b],"role":"model"%b}' % (_BEFORE, last, others.content)
        return _escaped(b'%b,%b],"usageMetadata":%b%b%b' % (turn, candidate, usage, others.top, self._tail))

    def _object(self, part: bytes) -> bytes:
        return _BEFORE + _escaped(part) + self._behind


@define
class SseEncoder(_Encoder):
    """Objects as server-sent events."""

    heartbeat: bytes = field(init=False, default=b"\n\n")
    """An empty event: the official clients take a comment for an error."""

    def feed(self, items: Iterable[Event], /) -> Iterator[bytes]:
        """The events of *items*."""
        for each in self.objects(items):
            yield b"data: %b\n\n" % each

    def flush(self) -> Iterator[bytes]:
        """Nothing: the last object has the reason for the end."""
        yield from ()

    def error(self, error: KiroAsgiError) -> list[bytes]:
        """The error twice: as an event, and as Google has it, a bare object.  Each form is one that some client takes
        for an empty piece of the answer, or does not see.

        ``@google/genai`` knows the object only where one read has nothing else, and else reports half an event.
        """
        if self.ended:
            return []
        self.ended = True
        body = _escaped(error_body(error))
        return [b"data: %b\n\n" % body, Apart(body + b"\n")]


@define
class ArrayEncoder(_Encoder):
    """Objects as the elements of one array, for clients that do not ask for events."""

    heartbeat: bytes = field(init=False, default=b"\n")
    _before: bytes = field(init=False, default=b"[")

    def feed(self, items: Iterable[Event], /) -> Iterator[bytes]:
        """The elements for *items*."""
        for each in self.objects(items):
            yield self._element(each)

    def flush(self) -> Iterator[bytes]:
        """The end of the array."""
        yield b"]"

    def error(self, error: KiroAsgiError) -> list[bytes]:
        """The error as the last element."""
        if self.ended:
            return [b"]"]
        self.ended = True
        return [self._element(_escaped(error_body(error))), b"]"]

    def _element(self, json: bytes) -> bytes:
        before, self._before = self._before, b",\n"
        return before + json
