"""Reading an answer of the Responses API: from its media type and bytes to events, and from events to deltas.

Every event names its kind in ``type``, and the item that it is about by its id and its place in the output.  The id
decides: servers leave places out, or count them otherwise; the place does where the id is new.  An item's last
event holds all of it: content that no delta brought is emitted then.  An answer is complete when one of the three last
events has come (`ENDS`); without one it was cut.

Source: https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from attrs import define, field

from kiro_asgi.errors import UpstreamFault, UpstreamProtocolError
from kiro_asgi.failures.meanings import UNEXPLAINED, error_of
from kiro_asgi.failures.report import failure, report_in
from kiro_asgi.failures.texts import clean
from kiro_asgi.limits import NOTICES
from kiro_asgi.model.budget import ITEM, AnswerBudget, size_of_value
from kiro_asgi.model.events import (
    BlockKind,
    BlockMembers,
    Citation,
    Delta,
    MessageMembers,
    ModelName,
    Notice,
    OpaqueBlock,
    OpaqueEvent,
    RefusalDelta,
    SignatureDelta,
    Stop,
    StopReason,
    TextBreak,
    TextDelta,
    ThinkingDelta,
    ToolCallFragment,
)
from kiro_asgi.model.prompt import TEXT_INPUT
from kiro_asgi.model.unread import Unread, accumulated, restore
from kiro_asgi.stages.base import Stage
from kiro_asgi.stages.counts import responses_counts
from kiro_asgi.stages.ending import MISSING
from kiro_asgi.upstreams.ends import CUT, Meaning, end_of, meaning_of, unknown
from kiro_asgi.upstreams.headers import EVENT_STREAM, JSON, require_media_type
from kiro_asgi.upstreams.json_events import JsonEvent, JsonEvents, StreamOrDocument, WholeBody
from kiro_asgi.upstreams.media import image
from kiro_asgi.upstreams.openai.calls import ObjectEnd
from kiro_asgi.upstreams.openai.documents import answer_in
from kiro_asgi.upstreams.openai.errors import MEANINGS
from kiro_asgi.upstreams.openai.reasoning import sealed
from kiro_asgi.upstreams.openai.request import SERVED
from kiro_asgi.upstreams.openai.responses_members import (
    CUSTOM_CALL,
    EVENT,
    NAMES,
    OWN,
    PART,
    READ_ITEMS,
    unread_response,
)
from kiro_asgi.upstreams.openai.shown_items import SHOWN
from kiro_asgi.upstreams.tiers import served
from kiro_asgi.upstreams.unread import Repeated, Told, arguments_in, is_word, others, parts_of, within
from kiro_asgi.wire.json import count_of, object_of, objects_of, quote, text_of

Object = Mapping[str, Any]

API: Final = "openai_responses"
"""Name of the API, as of `kiro_asgi.model.unread.Unread`."""

ENDS: Final = ("response.completed", "response.incomplete", "response.failed")
"""Kinds of the event that ends an answer."""

_BEGINNINGS: Final = ("response.created", "response.queued", "response.in_progress")
"""Kinds of events with an answer that is under way."""

_TEXT: Final = "response.output_text.delta"
_ADDED: Final = "response.output_item.added"
_DONE: Final = "response.output_item.done"

_TEXTS: Final = ("output_text", "refusal", "text")
"""Kinds of parts that are text, which may be empty."""

_CALLS: Final = ("function_call", CUSTOM_CALL)
"""Kinds of items that are calls."""

_TURN: Final = ("message", *_CALLS)
"""Kinds of items that are of the model's turn, and not of a tool of the service."""

_TYPED: Final = frozenset({"type"})
"""What every event has."""

_OPENING: Final = f'{{"{TEXT_INPUT}":"'
_CLOSING: Final = '"}'
"""JSON around a text that is the one string of a function's arguments."""

_INCOMPLETE: Final[Mapping[str, Meaning]] = MappingProxyType(
    {"max_output_tokens": StopReason.LENGTH, "content_filter": StopReason.CONTENT_FILTER}
)
"""Reason of an incomplete answer to its meaning."""

_STATUSES: Final[Mapping[str, Meaning]] = MappingProxyType(
    {
        "completed": StopReason.END,
        "incomplete": StopReason.LENGTH,
        "failed": UpstreamFault,
        "cancelled": UpstreamFault,
    }
)
"""Status of an answer at its end to its meaning, where it has no other reason."""

_ACCEPTED: Final = (EVENT_STREAM, JSON)

_ABORTED: Final = "server_error"
"""Word for an answer that has failed, and says nothing of why."""


def stages(content_type: str, new_id: Callable[[], str], service: str) -> tuple[Stage[Any, Any], ...]:
    """Fresh stages, bytes to `Delta`, for an answer of the upstream named *service*.

    Raises:
        NotTheUpstream: Code ``upstream.content_type``: no answer comes in this media type.
    """
    require_media_type(content_type, _ACCEPTED)
    return (StreamOrDocument(WholeResponse, JsonEvents, partial(EventDecoder, new_id, service)),)


@define(eq=False)
class _Item:
    """State of one item of the output."""

    item_id: str
    """The service's, or one of ours."""

    kind: str = ""
    call_id: str = ""
    name: str = ""
    emitted: int = 0
    """Characters of a call's arguments so far, or of the text of its latest part."""

    part: int = 0
    """The latest part."""

    thought: str = ""
    """Kind of the events that brought its thinking: a service may send it twice."""

    begun: bool = False
    """Whether a call's name was emitted."""

    orphan: str = ""
    """The first piece of arguments that came before it was known to be a call."""

    ended: bool = False
    end: ObjectEnd = field(factory=ObjectEnd)
    """Of a call's arguments: they may come once more, in another spelling."""

    events: list[Object] = field(factory=list)
    """The item as it began, and events about it, where its kind is not read."""

    members: dict[str, Any] = field(factory=dict)
    """What is not read of it, and of events about it."""

    parts: dict[int, dict[str, Any]] = field(factory=dict)
    """The same of its parts, by their places, as far as events before its last have it."""

    chances: dict[int, list[Any]] = field(factory=dict)
    """Probabilities of the texts of its parts, by their places, as they came with pieces: some servers send them with
    those alone."""


@define
class EventDecoder:
    """The stage from JSON events to deltas.

    Raises:
        KiroAsgiError: The error that stands in the place of an event, see `kiro_asgi.upstreams.openai.errors`.
        UpstreamProtocolError: Code ``stream.cut``, from `flush`: the answer is incomplete.
        AnswerTooLarge: It has more items than there is room for.
    """

    new_id: Callable[[], str]
    """Makes ids of calls that have none."""

    service: str = ""
    """Name of the upstream, to which alone its reasoning is handed back."""

    _items: list[_Item] = field(init=False, factory=list)
    """In the order in which they came."""

    _ids: dict[str, _Item] = field(init=False, factory=dict)
    _places: dict[int, _Item] = field(init=False, factory=dict)

    _budget: AnswerBudget = field(init=False, factory=AnswerBudget)
    _end: Object | None = field(init=False, default=None)
    """The event that ended the answer."""

    _stop: StopReason = field(init=False, default=StopReason.END)
    """Why it ended, by that event."""

    _model: str = field(init=False, default="")
    _is_cut: bool = field(init=False, default=False)
    """Whether an item says of itself that it is not complete."""

    _calls: int = field(init=False, default=0)
    _call_ids: set[str] = field(init=False, factory=set)
    _refused: bool = field(init=False, default=False)
    _members: Repeated = field(init=False)
    """Members of the response that are not read."""

    _told: Told = field(init=False)
    _notices: set[Notice] = field(init=False, factory=set)

    def __attrs_post_init__(self) -> None:
        self._members = Repeated(self._budget)
        self._told = Told(NAMES, OWN, self._budget)

    def feed(self, items: Iterable[JsonEvent | Notice], /) -> Iterator[Delta]:
        """The deltas of the events."""
        for item in items:
            if isinstance(item, Notice):
                yield from self._notice(item)
            elif not item.done and self._end is None:
                yield from self._read(item.value, item.name)

    def flush(self) -> Iterator[Delta]:
        """How the answer ended."""
        if self._end is None:
            raise UpstreamProtocolError("the upstream's answer ended in the middle", code="stream.cut")
        response = object_of(self._end.get("response"))
        is_complete = self._stop not in CUT
        for item in self._items:
            if item.kind in _CALLS and not item.ended and (is_complete or not item.begun):
                yield self._fragment(item, self._closing(item) if is_complete else "", stop=is_complete)
        if is_complete and (orphan := next((it.orphan for it in self._items if it.orphan and not it.kind), "")):
            yield ToolCallFragment("", input=orphan)
        if usage := object_of(response.get("usage")):
            yield responses_counts(usage)
        yield from self._told.rest()
        yield Stop(self._reason() if is_complete else self._stop)

    def _reason(self) -> StopReason:
        """Why an answer ended that is complete."""
        if self._calls:
            return StopReason.TOOL_CALL
        return StopReason.REFUSAL if self._refused else self._stop

    def _read(self, value: Object, name: str) -> Iterator[Delta]:
        kind = text_of(value, "type")
        read = _READERS.get(kind)
        if read is not None:
            if kind not in _DELTAS or not value.keys() <= EVENT or value.get("logprobs"):
                self._told.see(value)
            yield from read(self, value)
            if not value.keys() <= EVENT and kind not in _WHOLE:
                self._event_members(value)
        elif kind in ENDS or _ends(value):
            yield from self._finish(value)
        elif report := report_in(value, name, _TYPED):
            raise error_of(failure(report, name, message=UNEXPLAINED), MEANINGS)
        elif (item := self._opaque_item(value)) is not None:
            self._budget.take(ITEM + size_of_value(value))
            item.events.append(value)
        elif kind in _REPEATING:
            self._repeat(value)
        elif kind not in _SILENT:
            notices = tuple(self._notice(Notice("event.unknown", clean(kind)[:60])))
            yield from (OpaqueEvent(Unread(API, value), notices),) if is_word(kind) else notices

    def _opaque_item(self, value: Object) -> _Item | None:
        """The item of an unknown kind that an event is about."""
        place = value.get("output_index")
        found = self._ids.get(text_of(value, "item_id")) or self._places.get(place if type(place) is int else -1)
        return found if found is not None and found.kind and found.kind not in READ_ITEMS else None

    def _repeat(self, value: Object) -> None:
        """Keep what is not read of an event that only repeats others."""
        self._told.see(value)
        if not value.keys() <= EVENT:
            self._event_members(value)
        part = object_of(value.get("part"))
        if not part.keys() <= PART:
            self._keep_part(self._item(value), _place_of(value), part)

    def _event_members(self, value: Object) -> None:
        """Keep what is not read of an event for the item that it is about."""
        self._keep(self._item(value), others(value, EVENT))

    def _keep(self, item: _Item, members: Object) -> None:
        """Keep *members* for the end of an item."""
        if members:
            self._budget.take(ITEM + size_of_value(members))
            item.members |= members

    def _keep_part(self, item: _Item, place: int, part: Object) -> None:
        """Keep what is not read of a part for the end of its item; there its probabilities are."""
        if members := others(part, {*PART, "logprobs"}):
            self._budget.take(ITEM + size_of_value(members))
            item.parts[place] = item.parts.get(place, {}) | members

    def _unread(self, members: Object) -> Unread:
        return Unread(API, self._told.hand_on(members))

    def _created(self, value: Object) -> Iterator[Delta]:
        model = text_of(object_of(value.get("response")), "model")
        if model and model != self._model:
            self._model = model
            yield ModelName(model)
        unread = {**others(value, EVENT), **unread_response(object_of(value.get("response")))}
        if members := self._members.new(unread):
            yield MessageMembers(self._unread({"response": members}))

    def _finish(self, value: Object) -> Iterator[Delta]:
        response = object_of(value.get("response"))
        report = report_in({"error": response.get("error")})
        if report or value.get("type") == "response.failed":
            raise error_of(failure(report or {}, _ABORTED, message="the service aborted its answer"), MEANINGS)
        self._told.see(value)
        yield from self._created(value)
        for item, fields in self._paired(objects_of(response.get("output"))):
            if not item.ended:
                yield from self._done({"item_id": item.item_id, "item": fields})
        if not self._items and (text := text_of(response, "output_text")):
            yield TextDelta(text)
        yield from served(response.get("service_tier"), SERVED)  # before, it is what was asked for
        yield from self._read_reason(value, response)
        self._end = value

    def _read_reason(self, value: Object, response: Object) -> Iterator[Delta]:
        """Why the answer ended: by its status, or else the kind of the event, and what it says of an incomplete one."""
        found = None
        if status := response.get("status"):
            found = end_of(status, _STATUSES)
            if found is None:
                yield from self._notice(unknown(status))
        elif value.get("type") not in ENDS:
            yield MISSING
        self._stop = found or end_of(_word(value), _STATUSES) or StopReason.END
        if why := object_of(response.get("incomplete_details")).get("reason"):
            cut = end_of(why, _INCOMPLETE)
            if cut is None:
                yield from self._notice(unknown(why))
            if cut in CUT or self._stop not in CUT:
                self._stop = cut if cut in CUT else StopReason.LENGTH
        if self._is_cut and self._stop not in CUT:
            self._stop = StopReason.LENGTH

    def _paired(self, output: Iterable[Object]) -> Iterator[tuple[_Item, Object]]:
        """The items of the whole answer with what is known of each: by id, or else the next of its kind."""
        known = {text_of(fields, "id") for fields in output} & self._ids.keys()
        rest: dict[str, list[_Item]] = {}
        for item in reversed(self._items):
            if item.item_id not in known:
                rest.setdefault(item.kind, []).append(item)
        for fields in output:
            item_id = text_of(fields, "id")
            alike = None if known and item_id else rest.get(text_of(fields, "type"))
            yield self._ids.get(item_id) or (alike.pop() if alike else self._new(fields)), fields

    def _item(self, value: Object) -> _Item:
        """The item that an event is about."""
        item_id = text_of(value, "item_id") or text_of(object_of(value.get("item")), "id")
        place, kind = value.get("output_index"), text_of(value, "type")
        found = self._ids.get(item_id)
        if found is not None and found.ended and kind == _ADDED:  # one id for all
            found = None
        if found is None:
            found = self._placed(place)
            is_another = kind == _ADDED or (kind == _DONE and found is not None and found.ended)
            if is_another and (item_id or type(place) is not int):
                found = None
        if found is None:
            found = self._new({"id": item_id})
        elif kind == _DONE and item_id and item_id not in self._ids:  # until then, its id may change with each event
            self._budget.take(ITEM + size_of_value(item_id))
            self._ids[item_id] = found
        if type(place) is int:
            self._places[place] = found
        return found

    def _placed(self, place: Any) -> _Item | None:
        """The item at *place*; where there is none, the latest."""
        if type(place) is int:
            return self._places.get(place)
        return self._items[-1] if self._items else None

    def _new(self, fields: Object) -> _Item:
        item = _Item(text_of(fields, "id") or f"item {len(self._items)}")
        self._budget.take(ITEM + size_of_value(item.item_id))
        self._items.append(item)
        self._ids[item.item_id] = item
        return item

    def _added(self, value: Object) -> Iterator[Delta]:
        item, fields = self._item(value), object_of(value.get("item"))
        self._keep(item, others(value, EVENT))
        self._keep(item, others(fields, READ_ITEMS.get(text_of(fields, "type"), fields.keys())))
        yield from self._begin(item, fields)

    def _begin(self, item: _Item, fields: Object) -> Iterator[Delta]:
        """Record an item from its first event, or from its last where there was no other."""
        if item.kind:
            return
        item.kind = text_of(fields, "type")
        if item.kind and item.kind not in READ_ITEMS:
            self._budget.take(ITEM + size_of_value(fields))
            item.events.append(fields)
        if item.kind in _CALLS:
            self._calls += 1
            item.call_id, item.name = self._distinct(text_of(fields, "call_id")), text_of(fields, "name")
            yield self._fragment(item, "")

    def _distinct(self, call_id: str) -> str:
        """An id that no other call has: the service's, where that is one."""
        while not call_id or call_id in self._call_ids:
            call_id = self.new_id()
        self._budget.take(ITEM + size_of_value(call_id))
        self._call_ids.add(call_id)
        return call_id

    def _fragment(
        self, item: _Item, arguments: str, *, stop: bool = False, unread: Unread | None = None
    ) -> ToolCallFragment:
        name = "" if item.begun else item.name
        item.begun, item.ended = True, stop
        item.emitted += len(arguments)
        if arguments:
            item.end.feed(arguments)
        return ToolCallFragment(item.call_id, name, arguments, stop, unread)

    def _text_delta(self, value: Object) -> Iterator[Delta]:
        if chances := objects_of(value.get("logprobs")):
            self._budget.take(ITEM + size_of_value(chances))
            self._item(value).chances.setdefault(_place_of(value), []).extend(chances)
        yield from self._emit_text(value, text_of(value, "delta"))

    def _text_done(self, value: Object) -> Iterator[Delta]:
        """All of a part's text, of which the end may be new."""
        item = self._part(value)
        yield from self._emit_text(value, text_of(value, "text")[item.emitted :])

    def _emit_text(self, value: Object, text: str) -> Iterator[Delta]:
        if text:
            self._part(value).emitted += len(text)
            yield TextDelta(text)

    def _part(self, value: Object) -> _Item:
        """The message that *value* is about, at the part that it is about."""
        item, part = self._item(value), count_of(value, "content_index") or 0
        item.kind = item.kind or "message"
        if part != item.part:
            item.part, item.emitted = part, 0
        return item

    def _refusal_delta(self, value: Object) -> Iterator[Delta]:
        yield from self._refuse(value, text_of(value, "delta"))

    def _refusal_done(self, value: Object) -> Iterator[Delta]:
        item = self._part(value)
        yield from self._refuse(value, text_of(value, "refusal")[item.emitted :])

    def _refuse(self, value: Object, text: str) -> Iterator[Delta]:
        if text:
            self._refused = True
            self._part(value).emitted += len(text)
            yield RefusalDelta(text)

    def _annotation(self, value: Object) -> Iterator[Delta]:
        """A page that the text of a part relies on."""
        page, emitted = object_of(value.get("annotation")), self._part(value).emitted
        if url := text_of(page, "url"):
            start, end = count_of(page, "start_index") or 0, count_of(page, "end_index") or emitted
            begins, ends = max(emitted - start, 0), max(emitted - end, 0)
            yield Citation(max(begins, ends), ends, text_of(page, "title"), url, origin=self._unread(page))
        else:
            notices = tuple(self._notice(Notice("annotation.unknown", clean(text_of(page, "type"))[:60])))
            yield Citation(emitted, origin=self._unread(page), instead=notices)

    def _arguments_delta(self, value: Object) -> Iterator[Delta]:
        item, piece = self._item(value), text_of(value, "delta")
        if not item.kind:
            item.orphan = item.orphan or piece
        if piece and item.kind == "function_call" and not item.ended:
            yield self._fragment(item, piece)

    def _arguments_done(self, value: Object) -> Iterator[Delta]:
        item = self._item(value)
        rest = "" if item.end.reached else arguments_in(value)[item.emitted :]
        if rest and item.kind == "function_call" and not item.ended:
            yield self._fragment(item, rest)

    def _input_delta(self, value: Object) -> Iterator[Delta]:
        yield from self._input(value, text_of(value, "delta"))

    def _input_done(self, value: Object) -> Iterator[Delta]:
        item = self._item(value)
        yield from self._input(value, text_of(value, "input")[item.emitted :])

    def _input(self, value: Object, text: str) -> Iterator[Delta]:
        """Text for a tool, as the one string of a function's arguments."""
        item = self._item(value)
        if text and item.kind == CUSTOM_CALL and not item.ended:
            emitted = item.emitted + len(text)
            yield self._fragment(item, ("" if item.emitted else _OPENING) + quote(text)[1:-1])
            # In characters of the service's text, as `_input_done` cuts it; `_fragment` counted those of the JSON.
            item.emitted = emitted

    @staticmethod
    def _closing(item: _Item) -> str:
        """The end of the arguments of a complete call."""
        if item.kind != CUSTOM_CALL:
            return ""
        return ("" if item.emitted else _OPENING) + _CLOSING

    def _summary_part(self, value: Object) -> Iterator[Delta]:
        """A part of a summary is a paragraph."""
        item = self._item(value)
        self._keep_part(item, _place_of(value), object_of(value.get("part")))
        if item.thought:
            yield ThinkingDelta("\n\n")

    def _thinking(self, value: Object) -> Iterator[Delta]:
        item, kind, piece = self._item(value), text_of(value, "type"), text_of(value, "delta")
        item.kind = item.kind or "reasoning"
        if piece and item.thought in ("", kind):
            item.thought = kind
            yield ThinkingDelta(piece)

    def _done(self, value: Object) -> Iterator[Delta]:
        """An item is complete: emit the rest of it."""
        item, fields = self._item(value), object_of(value.get("item"))
        if item.ended:
            return
        yield from self._begin(item, fields)
        self._keep(item, others(value, EVENT))
        self._keep(item, others(fields, READ_ITEMS.get(item.kind, fields.keys())))
        is_cut = item.kind in _TURN and end_of(fields.get("status") or "completed", _STATUSES) in CUT
        self._is_cut |= is_cut
        unread = self._unread({"item": item.members}) if item.members else None
        match item.kind:
            case "message":
                yield from self._message(value, fields)
                if phase := text_of(fields, "phase"):
                    yield TextBreak(phase)
            case "function_call":
                if not item.name and (name := text_of(fields, "name")):
                    item.name = name
                    yield ToolCallFragment(item.call_id, name)
                yield from self._arguments_done({**value, "arguments": arguments_in(fields)})
                if not is_cut:
                    yield self._fragment(item, "", stop=True, unread=unread)
                return
            case "custom_tool_call":
                yield from self._input_done({**value, "input": fields.get("input")})
                if not is_cut:
                    yield self._fragment(item, self._closing(item), stop=True, unread=unread)
                return
            case "reasoning":
                yield from self._reasoning(item, fields)
            case _:
                yield self._opaque(item, fields)
        item.ended = True

    def _opaque(self, item: _Item, fields: Object) -> OpaqueBlock:
        """An item of a kind that is not read; what it shows goes to everybody."""
        reader = SHOWN.get(item.kind)
        shown = reader(fields) if reader is not None else ""
        notices = () if shown else self._notice(Notice("item.unknown", clean(item.kind)[:60]))
        events, item.events = tuple(item.events), []
        whole = dict(fields)
        for begun in (*events[:1], item.members):
            restore(whole, begun)
        return OpaqueBlock(self._unread(whole), events, (TextDelta(shown),) if shown else tuple(notices))

    def _message(self, value: Object, fields: Object) -> Iterator[Delta]:
        item, parts = self._item(value), [*parts_of(fields.get("content"), type="output_text")]
        passed: dict[str, Any] = {}
        chances: list[Any] = []
        for place, part in enumerate(parts):
            self._keep_part(item, place, part)
            chances += objects_of(part.get("logprobs")) or item.chances.pop(place, [])
            if place < item.part:
                passed |= item.parts.pop(place, {})
                continue
            of_part, passed = passed | item.parts.pop(place, {}), {}
            about = {**value, "content_index": place}
            if not (part.get("text") or part.get("refusal")) and (kind := text_of(part, "type")) not in _TEXTS:
                if shown := image(part):
                    self._told.hand_on(part)
                    yield from self._emit_text(about, shown)
                else:
                    notices = tuple(self._notice(Notice("content.unknown", clean(kind)[:60])))
                    whole = {"status": "completed", "role": "assistant", "content": [{**of_part, **part}]}
                    whole = {**(item.members if part is parts[-1] else {}), "type": "message", **whole}
                    yield OpaqueBlock(self._unread(whole), (), notices)
                continue
            is_new = place != item.part or not item.emitted
            yield from self._text_done({**about, "text": part.get("text")})
            yield from self._refusal_done({**about, "refusal": part.get("refusal")})
            if is_new:
                for annotation in objects_of(part.get("annotations")):
                    yield from self._annotation({**about, "annotation": annotation})
            of_part |= {"logprobs": chances} if chances else {}
            chances = []
            if found := within(part=of_part, item=item.members if part is parts[-1] else {}):
                block = BlockKind.REFUSAL if part.get("refusal") else BlockKind.TEXT
                yield BlockMembers(block, self._unread(found))
                yield TextBreak()
        if item.members and not parts:
            yield BlockMembers(BlockKind.TEXT, self._unread({"item": item.members}))
            yield TextBreak()

    def _reasoning(self, item: _Item, fields: Object) -> Iterator[Delta]:
        summary, content = ([*parts_of(fields.get(name), type="text")] for name in ("summary", "content"))
        parts = summary or content
        if summary and _joined(content) not in ("", _joined(summary)):
            yield from self._notice(Notice("members.unknown", "content"))
        if not item.thought and (text := _joined(parts)):
            yield ThinkingDelta(text)
        for place, part in enumerate(parts):
            self._keep_part(item, place, part)
        of_parts, item.parts = accumulated(item.parts[place] for place in sorted(item.parts)), {}
        if found := within(part=of_parts, item=item.members):
            yield BlockMembers(BlockKind.THINKING, self._unread(found))
        if seal := sealed(fields, self.service):
            yield SignatureDelta(seal)

    def _notice(self, notice: Notice) -> Iterator[Notice]:
        """Emit each notice once."""
        if notice not in self._notices and len(self._notices) < NOTICES:
            self._notices.add(notice)
            yield notice


def _joined(parts: Iterable[Object]) -> str:
    """The texts of thinking, as paragraphs."""
    return "\n\n".join(filter(None, (text_of(part, "text") for part in parts)))


def _place_of(value: Object) -> int:
    """The place of the part that an event is about."""
    return count_of(value, "content_index") or count_of(value, "summary_index") or 0


_READERS: Final[Mapping[str, Callable[[EventDecoder, Object], Iterator[Delta]]]] = MappingProxyType(
    {
        _TEXT: EventDecoder._text_delta,
        "response.function_call_arguments.delta": EventDecoder._arguments_delta,
        "response.reasoning_summary_text.delta": EventDecoder._thinking,
        "response.reasoning_text.delta": EventDecoder._thinking,
        "response.reasoning_summary_part.added": EventDecoder._summary_part,
        "response.custom_tool_call_input.delta": EventDecoder._input_delta,
        "response.custom_tool_call_input.done": EventDecoder._input_done,
        _ADDED: EventDecoder._added,
        _DONE: EventDecoder._done,
        "response.output_text.done": EventDecoder._text_done,
        "response.output_text.annotation.added": EventDecoder._annotation,
        "response.function_call_arguments.done": EventDecoder._arguments_done,
        "response.refusal.delta": EventDecoder._refusal_delta,
        "response.refusal.done": EventDecoder._refusal_done,
        **dict.fromkeys(_BEGINNINGS, EventDecoder._created),
    }
)
"""Kind of event to its reader."""

_WHOLE: Final = frozenset({_ADDED, _DONE, *_BEGINNINGS})
"""Kinds of events whose reader takes all that they have."""

_DELTAS: Final = frozenset(kind for kind in _READERS if kind.endswith(".delta"))
"""Kinds of events with a piece of something, of which there are many."""

_REPEATING: Final = frozenset(
    {
        "response.content_part.added",
        "response.content_part.done",
        "response.reasoning_summary_part.done",
        "response.reasoning_summary_text.done",
        "response.reasoning_text.done",
    }
)
"""Kinds of events that only repeat what others say of an item."""


def _word(value: Object) -> str:
    """The status in the kind of an event about the whole answer."""
    return text_of(value, "type").removeprefix("response.")


def _ends(value: Object) -> bool:
    """Whether an event of an unknown kind is the end of the answer: it holds all of it, and its kind is a status."""
    return type(value.get("response")) is dict and meaning_of(_word(value), _STATUSES) is not None


_UNNAMED: Final = "response.done"
"""Kind of the event with an answer that does not say how it ended."""

_SILENT: Final = frozenset(
    {
        "keepalive",
        "response.image_generation_call.in_progress",
        "response.image_generation_call.generating",
        "response.image_generation_call.partial_image",
        "response.image_generation_call.completed",
    }
)
"""Kinds of events that are not about the answer."""


@define
class WholeResponse(WholeBody):
    """Read a document as the only event of a stream.

    Raises:
        AnswerTooLarge: From `feed`: there is too much of it.
        UpstreamProtocolError: From `flush`: it is not an answer.
        KiroAsgiError: From `flush`: the error that it reports.
    """

    def flush(self) -> Iterator[JsonEvent | Notice]:
        """The event."""
        value = answer_in(bytes(self._body), "output", "response")
        kind = f"response.{value.get('status')}"
        kind = kind if kind in (*ENDS, *_BEGINNINGS) else ENDS[0] if value.get("status") else _UNNAMED
        yield JsonEvent(kind, {"type": kind, "response": value})
