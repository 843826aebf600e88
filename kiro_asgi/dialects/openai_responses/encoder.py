"""A streamed answer as the events of the Responses API.

Every event has a name line, which repeats its ``type``, and a number, from 0, without gaps.  The order is::

    response.created response.in_progress item* (response.completed | response.incomplete)
    or at any place behind the first two  error response.failed

    item = output_item.added body output_item.done

An item opens empty, and is sent whole when it is done.  Items do not overlap, but for a web search: it is done when its
result has come.  There is no sentinel at the end.

A block that is open becomes an item, or a part of one.  The pieces of an item differ in their number and one string, so
the bytes around those are made once.

Source: https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from types import MappingProxyType
from typing import Any, Final

from attrs import define, field

from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.dialects.opaque import members_of
from kiro_asgi.dialects.openai_common import SERVED
from kiro_asgi.dialects.openai_responses.parsing import options_of
from kiro_asgi.dialects.openai_responses.response import (
    INCOMPLETE,
    REASONING,
    REFUSAL,
    SUMMARY,
    TEXT,
    OutputItems,
    PartShape,
    Place,
    RenderedResponse,
    ResponseObject,
    ResponseOutcome,
    call_fields,
    error_fields,
    failure,
    function_fields,
    message,
    reasoning,
    usage_object,
)
from kiro_asgi.dialects.openai_responses.sealing import Sealer
from kiro_asgi.dialects.openai_responses.shapes import API
from kiro_asgi.dialects.openai_responses.tools import PROGRESS, url_citation, url_citations, web_search_call
from kiro_asgi.dialects.pieces import Literal, Pieces
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.events import (
    UNAVAILABLE,
    WEB_SEARCH,
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
    OpaqueEvent,
    RefusalDelta,
    ServerCall,
    ServerResult,
    SignatureDelta,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolInputDelta,
    ToolOutput,
    Usage,
)
from kiro_asgi.model.prompt import ThinkingPart
from kiro_asgi.model.unread import Unread
from kiro_asgi.wire.json import JsonError, dumps, loads, object_of, quote_bytes, text_of
from kiro_asgi.wire.sse import encode_comment

_NOWHERE: Final = Place(-1, "")


@define
class _ItemBlock:
    _output: OutputItems
    start: BlockStart
    place: Place = field(init=False, default=_NOWHERE)
    """Of its item, once that has begun."""

    json: Literal = field(init=False, factory=Literal)
    """Of all pieces that were events."""

    length: int = field(init=False, default=0)
    """Characters of them."""

    of_item: dict[str, Any] = field(init=False, factory=dict)
    of_part: dict[str, Any] = field(init=False, factory=dict)
    """Members that are not understood."""

    _before: bytes = field(init=False, default=b"")
    """Bytes before the number of an event with a piece."""

    _after: bytes = field(init=False, default=b"")
    """Bytes between the number and the piece."""

    @property
    def begun(self) -> bool:
        """Whether pieces are events; those of a part are from its first one on."""
        return bool(self._before)

    def take(self, unread: Unread | None) -> None:
        """Take members that are not understood; the last of a name counts."""
        for members in members_of(API, (unread,)):
            self.of_item |= object_of(members.get("item"))
            self.of_part |= object_of(members.get("part"))

    def _stream(self, name: str, where: bytes) -> None:
        """Make, once, the bytes around the pieces of events *name*; *where* is JSON of the fields that they share."""
        word = name.encode()
        self._before = b'event: %b\ndata: {"type":"%b","sequence_number":' % (word, word)
        self._after = b',%b,"delta":' % where

    def piece(self, text: str) -> bytes:
        """The event of the next piece, where there was one already."""
        piece = quote_bytes(text)
        self.length += len(text)
        self.json.add(piece)
        return b"%b%d%b%b}\n\n" % (self._before, next(self._output.numbers), self._after, piece)


@define
class CallBlock(_ItemBlock):
    """A call; its pieces are events if it is a function's, and only collected if not."""

    pieces: list[str] = field(init=False, factory=list)

    @property
    def text(self) -> str:
        """All pieces."""
        return "".join(self.pieces)

    def begin(self, fields: dict[str, Any]) -> list[bytes]:
        """Begin the item of a function's call."""
        self.place, added = self._output.add("function_call", fields)
        self._stream("response.function_call_arguments.delta", dumps(self.place.fields)[1:-1])
        return added

    def feed(self, text: str) -> list[bytes]:
        """The next piece."""
        self.pieces.append(text)
        return [self.piece(text)] if self.begun else []


@define
class PartBlock(_ItemBlock):
    """Text or thinking."""

    shape: PartShape
    phase: str = field(init=False, default="")
    """Of its text, where the service names it."""

    annotations: list[dict[str, Any]] = field(init=False, factory=list)
    """Citations of its text, as clients have received them."""

    _where: bytes = field(init=False, default=b"")
    """JSON of `where`, without braces."""

    @property
    def where(self) -> dict[str, Any]:
        """Fields of every event about the part."""
        return {**self.place.fields, **self.shape.place}

    def feed(self, text: str) -> list[bytes]:
        """The next piece.  A part begins with its first, and a message with its only part."""
        return [self.piece(text)] if self.begun else [*self._begin(), self.piece(text)]

    def _begin(self) -> list[bytes]:
        added: list[bytes] = []
        if self.place is _NOWHERE:
            self.place, added = self._output.add("message", message([], "in_progress"))
        self._where = dumps(self.where)[1:-1]
        self._stream(f"response.{self.shape.events}.delta", self._where + self.shape.also)
        return added + self._part_event("added", self.shape.part(self.json.pieces()))

    def end(self) -> tuple[Pieces, list[bytes]]:
        """End the part: its final form, and the events about it."""
        text, member = self.json.pieces(), b',"%b":' % self.shape.member.encode()
        done = self._output.frame(
            f"response.{self.shape.events}.done", self._where, member, *text, self.shape.also + b"}"
        )
        part = self.shape.part(text, self.annotations, self.of_part)
        return part, done + self._part_event("done", part)

    def _part_event(self, name: str, part: Pieces) -> list[bytes]:
        return self._output.frame(f"response.{self.shape.added}.{name}", self._where, b',"part":', *part, b"}")


@define
class ReasoningBlock(PartBlock):
    """Thinking, of which the text is sealed at its end."""

    signature: str = field(init=False, default="")

    @property
    def thinking(self) -> ThinkingPart:
        """The thinking to seal."""
        return ThinkingPart(self.json.text(), self.signature, self.start.data)


_COMMENT: Final = encode_comment("ping")

_FILTERED: Final = "The content filter of the model service has withheld this answer."
"""The refusal, where the filter left no word of an answer."""


class ResponsesEncoder:
    """Events in, server-sent events out; one for each answer.

    Args:
        meta: Facts of the answer, with the `ResponsesOptions` of its request.
        sealer: Makes ``encrypted_content``; the client is shown it where its request asks for that.
        clock: Seconds since the epoch, for ``completed_at``; without it an answer is complete when it begins.
        first: Number of its first event.
    """

    __slots__ = (
        "_block",
        "_cited",
        "_clock",
        "_ended",
        "_options",
        "_output",
        "_sealer",
        "_searches",
        "_text",
        "complete",
        "seals",
    )

    def __init__(
        self,
        meta: ResponseMeta,
        sealer: Sealer | None = None,
        clock: Callable[[], float] | None = None,
        *,
        first: int = 0,
    ) -> None:
        self._clock = clock or (lambda: meta.created)
        self._options = options_of(meta)
        self._sealer = sealer
        self.seals: dict[str, str] = {}
        """``encrypted_content`` of reasoning items, by their ids, also where the client is not shown it."""
        self._output = OutputItems(ResponseObject(meta), count(first))
        self._block: PartBlock | CallBlock | None = None
        self._text: PartBlock | None = None
        """Text whose block has ended, and that another block may continue."""
        self._searches: dict[str, tuple[Place, ServerCall]] = {}
        """Web searches under way, by call id."""
        self._cited: ToolOutput | None = None
        """The search whose results the next text cites."""
        self._ended = False
        self.complete = False
        """Whether the answer has come to its end, with nothing going wrong."""

    @property
    def heartbeat(self) -> bytes:
        """An event, as Codex counts no comments: an empty piece of what is open; else the response so far.

        It changes nothing for a client that builds the answer of the events, and all official unions have it.
        """
        if self._ended:
            return _COMMENT
        block = self._block or self._text
        return block.piece("") if block is not None and block.begun else self._output.progress()

    @property
    def response(self) -> Pieces:
        """The response object as the client received it last."""
        return self._output.response

    @property
    def size(self) -> int:
        """Bytes of that."""
        return sum(map(len, self._output.response))

    @property
    def rendered(self) -> RenderedResponse:
        """The same, apart at its output."""
        return self._output.rendered

    def feed(self, items: Iterable[Event], /) -> Iterator[bytes]:
        """Server-sent events for *items*; none for what this API cannot express."""
        for item in items:
            if type(item) is TextDelta and (block := self._block) is not None and block.length and item.text:
                yield block.piece(item.text)  # nearly all of an answer
            else:
                yield from _STEPS[type(item)](self, item)

    def without_answer(self) -> list[bytes]:
        """All events of a response for which no model is asked: it has no output, and costs nothing."""
        self._ended = self.complete = True
        events = self._output.snapshot(ResponseOutcome(), "created", "in_progress")
        end = ResponseOutcome("completed", None, None, usage_object(Usage()), "", int(self._clock()))
        return events + self._output.snapshot(end, "completed")

    def flush(self) -> Iterator[bytes]:
        """Nothing: the end is an event."""
        yield from ()

    def error(self, error: KiroAsgiError) -> list[bytes]:
        """The error, and the response that has failed of it; nothing when the stream has ended."""
        if self._ended:
            return []
        self._ended = True
        events = (
            self._finish_text() + self._output.release("completed") + self._output.event("error", error_fields(error))
        )
        return events + self._output.snapshot(ResponseOutcome("failed", error=failure(error)), "failed")

    def cancel(self) -> list[bytes]:
        """End the open items; the API has no event for a response that was cancelled."""
        self._ended = True
        events = self._finish_text() + self._output.release("incomplete")
        return events + self._output.snapshot(ResponseOutcome("cancelled"))

    def _start(self, event: MessageStart) -> list[bytes]:
        for unread in event.unread:
            self._take_members(unread)
        return self._output.snapshot(ResponseOutcome(), "created", "in_progress") + self._compaction_item()

    def _take_members(self, unread: Unread) -> None:
        for members in members_of(API, (unread,)):
            self._output.members |= object_of(members.get("response"))

    def _of_message(self, event: MessageMembers) -> list[bytes]:
        """The response has them at its end."""
        self._take_members(event.unread)
        return []

    def _of_block(self, event: BlockMembers) -> list[bytes]:
        """Its item has them when it is done."""
        assert self._block is not None, "members outside of a block"
        self._block.take(event.unread)
        return []

    def _pass_event(self, event: OpaqueEvent) -> list[bytes]:
        """An event that nobody here knows; where it names an item, that is the open one."""
        block, fields = self._block or self._text, _unnumbered(event.unread.members)
        if "item_id" in fields and block is not None and block.place is not _NOWHERE:
            fields |= block.place.fields
        return self._output.event(text_of(event.unread.members, "type"), fields) if event.unread.api == API else []

    def _compaction_item(self) -> list[bytes]:
        """The compaction that was made before the answer, as its first item."""
        if not self._options.compaction:
            return []
        fields = {"type": "compaction", "encrypted_content": self._options.compaction["encrypted_content"]}
        place, events = self._output.add("compaction", {**fields, "encrypted_content": ""})
        return events + self._output.done(place, fields)

    def _usage(self, usage: Usage) -> dict[str, Any]:
        """Token counts; those of a compaction stand by themselves, as the context has become shorter by it."""
        compacted = self._options.compaction.get("usage")
        return usage_object(usage) | ({} if compacted is None else {"compaction": compacted})

    def _end(self, event: MessageEnd) -> list[bytes]:
        self._ended = self.complete = True
        events = self._finish_text() + self._give_up_searches()
        explanation = event.declined.explanation if event.declined is not None else ""
        if explanation or (event.stop_reason is StopReason.CONTENT_FILTER and not self._output.has("message")):
            events += self._own_message(REFUSAL, explanation or _FILTERED)
        elif not self._output.has_answer:
            events += self._own_message(TEXT, "")
        usage, tier = self._usage(event.usage), SERVED.get(event.usage.tier, "")
        if reason := INCOMPLETE.get(event.stop_reason):
            events += self._output.release("incomplete")
            return events + self._output.snapshot(
                ResponseOutcome("incomplete", None, {"reason": reason}, usage, tier), "incomplete"
            )
        certain = not (self._output.awaits_client or event.malformed)
        events += self._output.release("completed", "final_answer" if certain else "")
        return events + self._output.snapshot(
            ResponseOutcome("completed", None, None, usage, tier, int(self._clock())), "completed"
        )

    def _own_message(self, shape: PartShape, text: str) -> list[bytes]:
        """A message of our own."""
        block = PartBlock(self._output, BlockStart(0, BlockKind.TEXT), shape)
        return block.feed(text) + self._end_part(block)

    def _start_block(self, event: BlockStart) -> list[bytes]:
        if event.continues and self._text is not None and not (self._text.of_item or self._text.of_part):
            self._block, self._text = self._text, None
            self._block.take(event.unread)
            return []
        events = self._finish_text() + _STARTS[event.kind](self, event)
        if self._block is not None:
            self._block.take(event.unread)
        return events

    def _end_block(self, event: BlockEnd) -> list[bytes]:
        block, self._block = self._block, None
        if isinstance(block, PartBlock):
            block.phase = event.phase
        return _ENDS[block.start.kind](self, block) if block is not None else []

    def _piece(self, event: TextDelta | RefusalDelta | ThinkingDelta) -> list[bytes]:
        assert self._block is not None, "a piece outside of a block"
        return self._block.feed(event.text) if event.text else []

    def _input(self, event: ToolInputDelta) -> list[bytes]:
        assert self._block is not None, "a piece outside of a block"
        return self._block.feed(event.json) if event.json else []

    # Text and thinking.

    def _start_text(self, event: BlockStart) -> list[bytes]:
        self._block = PartBlock(self._output, event, REFUSAL if event.kind is BlockKind.REFUSAL else TEXT)
        return []

    def _end_text(self, block: PartBlock) -> list[bytes]:
        """Keep it open: the next block may continue it."""
        self._text = block
        return []

    def _finish_text(self) -> list[bytes]:
        block, self._text = self._text, None
        return [] if block is None else self._end_part(block)

    def _end_part(self, block: PartBlock) -> list[bytes]:
        """The message is done when something follows it; one without a text is shown for its members only."""
        events: list[bytes] = []
        if not block.begun:
            if not (block.of_item or block.of_part):
                return []
            events += block.feed("")
        cited, self._cited = self._cited, None
        for each in url_citations(cited) if cited is not None else ():
            events += self._annotate(block, each)
        part, ended = block.end()
        self._output.hold(block.place, {**block.of_item, **message([part], "", block.phase)})
        return events + ended

    def _annotate(self, block: PartBlock, annotation: dict[str, Any]) -> list[bytes]:
        fields = {**block.where, "annotation_index": len(block.annotations), "annotation": annotation}
        block.annotations.append(annotation)
        return self._output.event("response.output_text.annotation.added", fields)

    def _cite(self, event: Citation) -> list[bytes]:
        """Of a source without an address the API has no annotation, but for its own."""
        block = self._block
        assert isinstance(block, PartBlock), "a citation outside of text"
        if not block.begun or not (event.url or event.origin):
            return []
        return self._annotate(block, url_citation(event, block.length))

    def _start_thinking(self, event: BlockStart) -> list[bytes]:
        shape = SUMMARY if self._options.summarises_reasoning else REASONING
        self._block = ReasoningBlock(self._output, event, shape)
        self._block.place, added = self._output.add("reasoning", reasoning(shape, []))
        return added

    def _sign(self, event: SignatureDelta) -> list[bytes]:
        assert isinstance(self._block, ReasoningBlock), "a signature outside of thinking"
        self._block.signature = event.signature
        return []

    def _end_thinking(self, block: ReasoningBlock) -> list[bytes]:
        parts, ended = [], list[bytes]()
        if block.begun:
            part, ended = block.end()
            parts.append(part)
        if self._sealer is not None:
            self.seals[block.place.id] = self._sealer.seal(block.thinking)
        sealed = self.seals.get(block.place.id, "") if self._options.seals_reasoning else ""
        return ended + self._output.done(block.place, {**block.of_item, **reasoning(block.shape, parts, sealed)})

    # Calls that the client runs.

    def _start_call(self, event: BlockStart) -> list[bytes]:
        """Only a function's arguments are sent as they come: all other input has another form than the model's."""
        self._block = CallBlock(self._output, event)
        if not self._is_function(event.name):
            return []
        return self._block.begin(function_fields(event, self._options, self._block.json.pieces()))

    def _is_function(self, name: str) -> bool:
        return name not in self._options.client_tools and name not in self._options.custom_tools

    def _end_call(self, block: CallBlock) -> list[bytes]:
        if not self._is_function(block.start.name):
            return self._complete_call(block)
        owed = [] if block.pieces else block.feed("{}")
        arguments = block.json.pieces()
        status = "completed" if _is_object(block.text) else "incomplete"
        fields = function_fields(block.start, self._options, arguments, status)
        complete = {**block.place.fields, "name": fields["name"], "arguments": arguments}
        done = self._output.event("response.function_call_arguments.done", complete)
        return owed + done + self._output.done(block.place, {**block.of_item, **fields})

    def _complete_call(self, block: CallBlock) -> list[bytes]:
        """A call of another kind; one that was cut is left out, because it might do what the model did not mean."""
        if not _is_object(block.text):
            return []
        fields = {**block.of_item, **call_fields(block.start, self._options, block.text or "{}")}
        begun = {**fields, "status": "in_progress"}
        if "input" not in fields:
            place, events = self._output.add(fields["type"], begun)
            return events + self._output.done(place, fields)
        place, events = self._output.add(fields["type"], {**begun, "input": ""})
        for name, member in (("delta", "delta"), ("done", "input")):
            text = {**place.fields, member: fields["input"]}
            events += self._output.event(f"response.custom_tool_call_input.{name}", text)
        return events + self._output.done(place, fields)

    # Items of kinds that are not understood.

    def _start_opaque(self, event: BlockStart) -> list[bytes]:
        """All of the item, under an id of ours."""
        value = event.value
        assert isinstance(value, OpaqueBlock), "an opaque block without its value"
        if value.unread.api != API:
            return []
        item = _without_id(value.unread.members)
        place, events = self._output.add(text_of(item, "type"), _without_id(next(iter(value.pieces), item)))
        for piece in value.pieces[1:]:
            events += self._output.event(text_of(piece, "type"), {**_unnumbered(piece), **place.fields})
        return events + self._output.done(place, item)

    # Calls that are run on the way.

    def _start_search(self, event: BlockStart) -> list[bytes]:
        """A web search; other tools have no items, and their results are sent as text alone."""
        call = event.value
        assert isinstance(call, ServerCall), "a call without its value"
        if call.kind != WEB_SEARCH:
            return []
        place, events = self._output.add("web_search_call", web_search_call(call))
        self._searches[call.call_id] = place, call
        for name in PROGRESS[:2]:
            events += self._output.event(name, place.fields)
        return events

    def _end_search(self, event: BlockStart) -> list[bytes]:
        result = event.value
        assert isinstance(result, ServerResult), "a result without its value"
        if result.call.call_id not in self._searches:
            return []
        place, call = self._searches.pop(result.call.call_id)
        self._cited = result.output
        done = self._output.event(PROGRESS[2], place.fields)
        return done + self._output.done(place, web_search_call(call, result.output))

    def _give_up_searches(self) -> list[bytes]:
        """End those that have no result."""
        failed = ToolOutput(error_code=UNAVAILABLE)
        events: list[bytes] = []
        for place, call in self._searches.values():
            events += self._output.done(place, web_search_call(call, failed))
        return events


class CommentingEncoder(ResponsesEncoder):
    """One whose heartbeats are comments."""

    __slots__ = ()

    @property
    def heartbeat(self) -> bytes:
        """A comment."""
        return _COMMENT


def _without_id(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != "id"}


def _unnumbered(event: Mapping[str, Any]) -> dict[str, Any]:
    """Members of an event but its kind and number."""
    return {name: value for name, value in event.items() if name not in ("type", "sequence_number")}


def _is_object(arguments: str) -> bool:
    try:
        return isinstance(loads(arguments or "{}"), dict)
    except JsonError:
        return False


_STEPS: Final = MappingProxyType[type[Event], Callable[[ResponsesEncoder, Any], list[bytes]]](
    {
        MessageStart: ResponsesEncoder._start,
        BlockStart: ResponsesEncoder._start_block,
        TextDelta: ResponsesEncoder._piece,
        Citation: ResponsesEncoder._cite,
        MessageMembers: ResponsesEncoder._of_message,
        BlockMembers: ResponsesEncoder._of_block,
        OpaqueEvent: ResponsesEncoder._pass_event,
        RefusalDelta: ResponsesEncoder._piece,
        ThinkingDelta: ResponsesEncoder._piece,
        SignatureDelta: ResponsesEncoder._sign,
        ToolInputDelta: ResponsesEncoder._input,
        BlockEnd: ResponsesEncoder._end_block,
        MessageEnd: ResponsesEncoder._end,
    }
)

_STARTS: Final = MappingProxyType[BlockKind, Callable[[ResponsesEncoder, BlockStart], list[bytes]]](
    {
        BlockKind.TEXT: ResponsesEncoder._start_text,
        BlockKind.REFUSAL: ResponsesEncoder._start_text,
        BlockKind.THINKING: ResponsesEncoder._start_thinking,
        BlockKind.REDACTED_THINKING: ResponsesEncoder._start_thinking,
        BlockKind.TOOL_CALL: ResponsesEncoder._start_call,
        BlockKind.SERVER_CALL: ResponsesEncoder._start_search,
        BlockKind.SERVER_RESULT: ResponsesEncoder._end_search,
        BlockKind.OPAQUE: ResponsesEncoder._start_opaque,
    }
)

_ENDS: Final = MappingProxyType[BlockKind, Callable[[ResponsesEncoder, Any], list[bytes]]](
    {
        BlockKind.TEXT: ResponsesEncoder._end_text,
        BlockKind.REFUSAL: ResponsesEncoder._end_text,
        BlockKind.THINKING: ResponsesEncoder._end_thinking,
        BlockKind.REDACTED_THINKING: ResponsesEncoder._end_thinking,
        BlockKind.TOOL_CALL: ResponsesEncoder._end_call,
    }
)
