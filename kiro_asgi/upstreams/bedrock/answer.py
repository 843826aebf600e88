"""Answers of the service as deltas: frames of a stream, or the document of an answer that is not streamed.

Events of Converse are read here.  Frames of InvokeModel hold the events of a model's own API; for Claude these are read
by the reader of the Messages API.

Sources: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html and
API_runtime_InvokeModelWithResponseStream.html
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import define, evolve, field

from kiro_asgi.errors import AnswerTooLarge, NotTheUpstream, UpstreamFault, UpstreamProtocolError
from kiro_asgi.failures.meanings import error_of
from kiro_asgi.failures.report import document_of, failure, names_failure, report_in
from kiro_asgi.failures.texts import clean
from kiro_asgi.limits import BODY_BYTES, NOTICES
from kiro_asgi.model.budget import ITEM, AnswerBudget, size_of_value
from kiro_asgi.model.events import (
    Citation,
    Delta,
    Notice,
    RedactedThinking,
    SignatureDelta,
    Stop,
    StopReason,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCallFragment,
)
from kiro_asgi.model.media_types import essence
from kiro_asgi.model.signatures import unless_unsigned
from kiro_asgi.stages.base import Stage
from kiro_asgi.stages.counts import Reports, converse_counts
from kiro_asgi.stages.ending import MISSING
from kiro_asgi.upstreams.bedrock.errors import MEANINGS
from kiro_asgi.upstreams.bedrock.interpreter import CODE, RESULT, Ran
from kiro_asgi.upstreams.bedrock.request import SERVED
from kiro_asgi.upstreams.declined import declined
from kiro_asgi.upstreams.ends import Meaning, end_of, kept, unknown, word_in
from kiro_asgi.upstreams.headers import JSON, require_media_type
from kiro_asgi.upstreams.json_events import HALF, JsonEvent
from kiro_asgi.upstreams.media import embedded
from kiro_asgi.upstreams.tiers import served
from kiro_asgi.upstreams.unread import arguments_in, parts_of
from kiro_asgi.wire.eventstream import Frame, FrameDecoder
from kiro_asgi.wire.json import JsonError, count_of, object_of, objects_of, text_of
from kiro_asgi.wire.json_pieces import JsonPieces

STOP_REASONS: Final[Mapping[str, Meaning]] = MappingProxyType(
    {
        "end_turn": StopReason.END,
        "tool_use": StopReason.TOOL_CALL,
        "max_tokens": StopReason.LENGTH,
        "stop_sequence": StopReason.STOP_SEQUENCE,
        "guardrail_intervened": StopReason.CONTENT_FILTER,
        "content_filtered": StopReason.CONTENT_FILTER,
        "model_context_window_exceeded": StopReason.CONTEXT_FULL,
        "malformed_model_output": UpstreamFault,
        "malformed_tool_use": UpstreamFault,
    }
)
"""``stopReason`` to its meaning."""

_PLACES: Final = (
    ("documentChar", "char_location", "start_char_index", "end_char_index"),
    ("documentPage", "page_location", "start_page_number", "end_page_number"),
    ("documentChunk", "content_block_location", "start_block_index", "end_block_index"),
    ("searchResultLocation", "search_result_location", "start_block_index", "end_block_index"),
)
"""Kinds of places in documents and search results, and what the Messages API calls them and their bounds."""


@define
class _Block:
    """A content block while it is open."""

    call_id: str = ""
    """Of a tool call; empty for any other block."""

    is_passed_over: bool = False
    ran: Ran | None = None
    """Code that the service ran, or its result."""

    characters: int = 0
    """Of its text so far."""

    redacted: bytearray = field(factory=bytearray)
    citations: list[Mapping[str, Any]] = field(factory=list)
    size: int = ITEM
    """Room that its end gives back."""


@define
class ConverseEvents:
    """The stage from events of Converse to deltas.

    Raises:
        AnswerTooLarge: What has to be kept takes more than `kiro_asgi.limits.ANSWER_BYTES`.
        KiroAsgiError: From `flush`, `UpstreamProtocolError` with the code ``stream.cut``: the stream ended before the
            message did; from `feed`, `UpstreamError`: the service gave the answer up.
    """

    _open: dict[int, _Block] = field(init=False, factory=dict)
    _calls: dict[str, int] = field(init=False, factory=dict)
    """Id of each call, to the number behind the last one that was made of it."""

    _stop: Stop | None = field(init=False, default=None)
    _reports: Reports = field(init=False, factory=lambda: Reports(converse_counts))
    _intervention: str = field(init=False, default="")
    """Why a guardrail intervened, where its trace is asked for."""

    _notices: int = field(init=False, default=0)
    _budget: AnswerBudget = field(factory=AnswerBudget)

    def feed(self, items: Iterable[JsonEvent], /) -> Iterator[Delta]:
        """The deltas of *items*."""
        for event in items:
            reader = _EVENTS.get(event.name)
            if reader is not None:
                yield from reader(self, event.value)
            else:
                yield from self._notice("event.unknown", event.name)

    def flush(self) -> Iterator[Delta]:
        """How the message ended."""
        if self._stop is None:
            raise UpstreamProtocolError("the answer ended before its last event", code="stream.cut")
        for index in sorted(self._open):
            yield from self._close(index)
        if (counts := self._reports.counts) != TokenUsage():
            yield counts
        is_filtered = self._stop.reason is StopReason.CONTENT_FILTER
        yield evolve(self._stop, declined=declined({"explanation": self._intervention})) if is_filtered else self._stop

    def _notice(self, code: str, detail: str) -> Iterable[Delta]:
        self._notices += 1
        return (Notice(code, clean(detail)[:60]),) if self._notices <= NOTICES else ()

    def _block(self, value: Mapping[str, Any]) -> _Block:
        """The block that an event is about; opened here where its start did not come."""
        index = value.get("contentBlockIndex")
        index = index if type(index) is int else -1
        if index not in self._open:
            self._budget.take(ITEM)
            self._open[index] = _Block()
        return self._open[index]

    def _keep(self, block: _Block, size: int) -> None:
        self._budget.take(size)
        block.size += size

    def _start(self, value: Mapping[str, Any]) -> Iterator[Delta]:
        start = object_of(value.get("start"))
        call, result = object_of(start.get("toolUse")), object_of(start.get("toolResult"))
        if (text_of(call, "type") and text_of(call, "name") == CODE) or text_of(result, "type") == RESULT:
            self._block(value).ran = Ran()
            return
        if not call:
            if start:
                yield from self._notice("block.unknown", ", ".join(start))
                self._block(value).is_passed_over = bool(result)
            return
        block = self._block(value)
        if text_of(call, "type"):  # the service runs it, and clients have no such tool
            block.is_passed_over = True
            yield from self._notice("block.unknown", f"{text_of(call, 'type')} {text_of(call, 'name')}")
            return
        block.call_id = self._distinct(text_of(call, "toolUseId"))
        self._budget.take(ITEM)  # its id is known until the end
        yield ToolCallFragment(block.call_id, text_of(call, "name"))

    def _distinct(self, call_id: str) -> str:
        """An id that no other call has: the service's, but for a number where it is not given, or given twice."""
        stem = call_id or "tooluse"
        number = self._calls.get(stem, 1)
        while not call_id or call_id in self._calls:
            number += 1
            call_id = f"{stem}_{number}"
        self._calls[stem] = number
        self._calls.setdefault(call_id, 1)
        return call_id

    def _delta(self, value: Mapping[str, Any]) -> Iterator[Delta]:
        delta, block = object_of(value.get("delta")), self._block(value)
        if block.is_passed_over:
            return
        if text_of(object_of(delta.get("toolResult")), "type") == RESULT and block.ran is None:
            block.ran = Ran()  # of an answer that came whole
        if block.ran is not None:
            self._keep(block, ITEM + size_of_value(delta))
            block.ran.take(delta)
            return
        if text := text_of(delta, "text"):
            block.characters += len(text)
            yield TextDelta(text)
        if (call := delta.get("toolUse")) is not None:
            yield from self._call(value, block, object_of(call))
        if (reasoning := delta.get("reasoningContent")) is not None:
            yield from self._reasoning(block, object_of(reasoning))
        if (image := delta.get("image")) is not None:
            yield from self._image(object_of(image))
        if type(citation := delta.get("citation")) is dict:
            self._keep(block, ITEM + size_of_value(citation))
            block.citations.append(citation)
        if unknown := [name for name in delta if name not in _DELTAS]:
            yield from self._notice("delta.unknown", unknown[0])

    def _image(self, image: Mapping[str, Any]) -> Iterable[Delta]:
        media_type = f"image/{text_of(image, 'format') or 'png'}"
        shown = embedded(media_type, text_of(object_of(image.get("source")), "bytes"))
        return (TextDelta(shown),) if shown else self._notice("content.unreadable", "image")

    def _call(self, value: Mapping[str, Any], block: _Block, call: Mapping[str, Any]) -> Iterator[Delta]:
        """A piece of a call; one that begins in the middle has its name with it."""
        if not block.call_id and text_of(call, "name"):
            yield from self._start({**value, "start": {"toolUse": call}})
        yield from self._input(block, arguments_in(call))

    def _input(self, block: _Block, text: str) -> Iterable[Delta]:
        if not text:
            return ()
        if not block.call_id:  # of what is open, arguments can be no other's; else they are a call's that has no name
            calls = [each.call_id for each in self._open.values() if each.call_id]
            block.call_id = calls[0] if len(calls) == 1 else self._distinct("")
            self._budget.take(ITEM)
        return (ToolCallFragment(block.call_id, input=text),)

    def _reasoning(self, block: _Block, reasoning: Mapping[str, Any]) -> Iterator[Delta]:
        if text := text_of(reasoning, "text"):
            yield ThinkingDelta(text)
        if signature := unless_unsigned(text_of(reasoning, "signature")):
            yield SignatureDelta(signature)
        if redacted := text_of(reasoning, "redactedContent"):
            try:
                piece = b64decode(redacted, validate=True)
            except ValueError:  # base64 that is none, and characters that are no part of any
                yield from self._notice("delta.undecodable", "redactedContent")
                return
            self._keep(block, len(piece))
            block.redacted += piece

    def _stopped(self, value: Mapping[str, Any]) -> Iterator[Delta]:
        index = value.get("contentBlockIndex")
        yield from self._close(index if type(index) is int else -1)

    def _close(self, index: int) -> Iterator[Delta]:
        block = self._open.pop(index, None)
        if block is None:
            return
        self._budget.give_back(block.size)
        if block.ran is not None and (shown := block.ran.shown()):
            yield TextDelta(shown)
        if block.call_id:
            yield ToolCallFragment(block.call_id, stop=True)
        if block.redacted:
            yield RedactedThinking(b64encode(block.redacted).decode())
        for citation in block.citations:
            yield _citation(citation, block.characters)

    def _message_stop(self, value: Mapping[str, Any]) -> Iterable[Delta]:
        said = value.get("stopReason") or word_in(value)
        reason = end_of(said, STOP_REASONS) if said else None
        fields = object_of(value.get("additionalModelResponseFields"))
        sequence = text_of(object_of(fields.get("delta")), "stop_sequence") or text_of(fields, "stop_sequence")
        met = sequence if reason is StopReason.STOP_SEQUENCE else ""
        self._stop = kept(self._stop, Stop(reason or StopReason.END, met or None))
        return () if reason else (unknown(said) if said else MISSING,)

    def _metadata(self, value: Mapping[str, Any]) -> Iterable[Delta]:
        self._reports.take(object_of(value.get("usage")))
        guardrail = object_of(object_of(value.get("trace")).get("guardrail"))
        self._intervention = text_of(guardrail, "actionReason") or self._intervention
        return served(object_of(value.get("serviceTier")).get("type"), SERVED)

    def _ignore(self, _: Mapping[str, Any]) -> Iterable[Delta]:
        return ()


_DELTAS: Final = frozenset({"text", "toolUse", "reasoningContent", "citation", "image"})

_EVENTS: Final[Mapping[str, Callable[[ConverseEvents, Mapping[str, Any]], Iterable[Delta]]]] = MappingProxyType(
    {
        "messageStart": ConverseEvents._ignore,
        "contentBlockStart": ConverseEvents._start,
        "contentBlockDelta": ConverseEvents._delta,
        "contentBlockStop": ConverseEvents._stopped,
        "messageStop": ConverseEvents._message_stop,
        "metadata": ConverseEvents._metadata,
    }
)
"""Type of an event to its reader."""


def _citation(citation: Mapping[str, Any], characters: int) -> Citation:
    """A source of a block of so many *characters*."""
    place, title = object_of(citation.get("location")), text_of(citation, "title")
    quote = "".join(text_of(each, "text") for each in objects_of(citation.get("sourceContent")))
    url = text_of(object_of(place.get("web")), "url")
    if not url and "searchResultLocation" in place:
        url = text_of(citation, "source")
    location: dict[str, Any] = {}
    for kind, name, begins, ends in _PLACES:
        if found := object_of(place.get(kind)):
            location = {
                "type": name,
                "cited_text": quote,
                **_cited(citation, found),
                begins: count_of(found, "start") or 0,
                ends: count_of(found, "end") or 0,
            }
    return Citation(characters, 0, title, url, quote, location)


def _cited(citation: Mapping[str, Any], place: Mapping[str, Any]) -> dict[str, Any]:
    """What a citation is of, as the Messages API names it."""
    title = text_of(citation, "title") or None
    if (result := count_of(place, "searchResultIndex")) is not None:
        return {"search_result_index": result, "source": text_of(citation, "source"), "title": title}
    return {"document_index": count_of(place, "documentIndex") or 0, "document_title": title}


FRAMES: Final = "application/vnd.amazon.eventstream"


@define
class Frames:
    """The stage from frames to deltas: of Converse, or of the Messages API where frames hold its events.

    Raises:
        KiroAsgiError: The error that a frame reports, or one of `ConverseEvents` or of *messages*.
    """

    _messages: Callable[[], Stage[JsonEvent, Delta]]
    """Makes the reader of the Messages API's events."""

    _json: JsonPieces = field(init=False, factory=JsonPieces)
    _inner: Stage[JsonEvent, Delta] | None = field(init=False, default=None)
    """Reader of the events; the first frame decides which."""

    def feed(self, items: Iterable[Frame], /) -> Iterator[Delta]:
        """The deltas of the frames."""
        for frame in items:
            name = _header(frame, ":event-type")
            if frame.message_type in ("exception", "error") or names_failure(name):
                raise _exception(frame, name)
            try:
                value = self._json.loads(frame.payload) if frame.payload else {}
            except JsonError:
                value = None
            if type(value) is not dict:
                yield Notice("event.undecodable", clean(name)[:60])
            elif name == "chunk":
                yield from self._chunk(value)
            else:
                self._inner = self._inner or ConverseEvents()
                yield from self._inner.feed((JsonEvent(name, value),))

    def flush(self) -> Iterator[Delta]:
        """How the message ended."""
        if not self._json.is_whole:
            yield HALF
        yield from (self._inner or ConverseEvents()).flush()

    def _chunk(self, value: Mapping[str, Any]) -> Iterable[Delta]:
        """One event of the model's own API."""
        self._inner = self._inner or self._messages()
        try:
            event = self._json.loads(b64decode(text_of(value, "bytes"), validate=True))
        except (JsonError, ValueError):
            event = None
        if type(event) is not dict:
            return (Notice("event.undecodable", "chunk"),)
        return self._inner.feed((JsonEvent(text_of(event, "type"), event),))


def _header(frame: Frame, name: str) -> str:
    value = frame.headers.get(name)
    return value if type(value) is str else ""


def _exception(frame: Frame, event: str) -> Exception:
    name = _header(frame, ":exception-type") or _header(frame, ":error-code") or event
    report = failure(document_of(frame.payload), name, message=clean(_header(frame, ":error-message")) or _ended(name))
    return error_of(report, MEANINGS)


def _ended(name: str) -> str:
    return f"the answer ended with {clean(name)[:60] or 'an unnamed exception'}"


@define
class WholeAnswer:
    """The stage from the document of an answer that is not streamed to deltas; all of them come at the end.

    Raises:
        AnswerTooLarge: From `feed`: there is too much of it.
        NotTheUpstream: From `flush`: it is not an answer.
    """

    _messages: Callable[[], Stage[JsonEvent, Delta]]
    _body: bytearray = field(init=False, factory=bytearray)

    def feed(self, items: Iterable[bytes], /) -> Iterator[Delta]:
        """Gather *items*; yield nothing."""
        for chunk in items:
            self._body += chunk
            if len(self._body) > BODY_BYTES:
                raise AnswerTooLarge(f"the answer has more than {BODY_BYTES} bytes", code="answer_too_large")
        yield from ()

    def flush(self) -> Iterator[Delta]:
        """The deltas."""
        answer = document_of(bytes(self._body))
        if report := report_in(answer):
            raise error_of(failure(report), MEANINGS)
        if text_of(answer, "type") == "message":
            reader = self._messages()
            yield from reader.feed((JsonEvent("message_start", {"type": "message_start", "message": answer}),))
            yield from reader.feed((JsonEvent("message_stop", {"type": "message_stop"}),))
        elif "stopReason" in answer:
            reader = ConverseEvents()
            yield from reader.feed(_events_of(answer))
        elif text_of(answer, "message") or text_of(answer, "Message"):
            raise error_of(failure(answer), MEANINGS)
        else:
            raise NotTheUpstream(
                "the service answered with JSON that is not a message: check its endpoint", code="upstream.content_type"
            )
        yield from reader.flush()


def _events_of(answer: Mapping[str, Any]) -> Iterator[JsonEvent]:
    """The events of a stream with the same content as a whole answer of Converse."""
    message = object_of(object_of(answer.get("output")).get("message"))
    for index, block in enumerate(parts_of(message.get("content"))):
        place = {"contentBlockIndex": index}
        for start, delta in _pieces(block):
            if start:
                yield JsonEvent("contentBlockStart", {**place, "start": start})
            yield JsonEvent("contentBlockDelta", {**place, "delta": delta})
        yield JsonEvent("contentBlockStop", place)
    yield JsonEvent("messageStop", answer)
    yield JsonEvent("metadata", answer)


def _pieces(block: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Start and delta of what a block holds."""
    for kind, value in block.items():
        match kind:
            case "toolUse":
                call = object_of(value)
                yield {kind: call}, {kind: {"input": arguments_in(call) or "{}"}}
            case "reasoningContent":
                reasoning = object_of(value)
                yield {}, {kind: {**reasoning, **object_of(reasoning.get("reasoningText"))}}
            case "citationsContent":
                cited = object_of(value)
                yield from (({}, {"text": text_of(each, "text")}) for each in objects_of(cited.get("content")))
                yield from (({}, {"citation": each}) for each in objects_of(cited.get("citations")))
            case _:
                yield {}, {kind: value}


def stages(content_type: str, messages: Callable[[], Stage[JsonEvent, Delta]]) -> tuple[Stage[Any, Any], ...]:
    """Fresh stages, bytes to `Delta`.

    Raises:
        NotTheUpstream: Code ``upstream.content_type``: no answer comes in this media type.
    """
    require_media_type(content_type, (FRAMES, JSON))
    return (WholeAnswer(messages),) if essence(content_type) == JSON else (FrameDecoder(), Frames(messages))
