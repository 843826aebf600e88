"""Reading an answer: from its media type and bytes to frames or objects, and from these to deltas.

The service answers in the event-stream encoding; test doubles and relays answer in text, under the same media type or
others.  The first twelve bytes decide: a frame begins with two lengths below 2**24, so with bytes that no text holds.
A damaged frame is therefore still read as a frame, and refused, rather than searched for text.  Text is searched for
JSON objects: events, which differ only in their keys, or whole answers.  A JSON document by its media type is a whole
answer, a report of an error, or several events in a row.

A frame is an event, an exception or an error, by its ``:message-type``.  Events go through `READERS`, a table from
event type to the reader of its payload; the other two end the answer.  The types are the members of the response stream
of the public streaming SDKs (``ChatResponseStream``), and those that the live service adds:
``metadataEvent.stopReason`` and ``.stopDetails``, ``contextUsageEvent``, ``tokenUsageEvent``; or that other clients of
it have seen: ``metadataEvent.refusal``, ``messageStopEvent``, ``usageEvent``, ``metricsEvent``.  A payload is whatever
JSON object arrived, so readers trust no field: one of the wrong type counts as absent.

Source: https://www.npmjs.com/package/@aws/codewhisperer-streaming-client
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, TypeGuard

from attrs import define, field

from kiro_asgi.errors import AnswerTooLarge, KiroAsgiError, NotTheUpstream, UpstreamError
from kiro_asgi.failures.meanings import error_of, key_of
from kiro_asgi.failures.report import described, failure, refusal, report_in
from kiro_asgi.failures.texts import clean
from kiro_asgi.limits import BODY_BYTES, LARGEST_COUNT, NOTICES
from kiro_asgi.model.events import (
    CodeReferences,
    ContextUsage,
    ConversationId,
    Delta,
    FollowupPrompt,
    Metering,
    ModelName,
    Notice,
    RedactedThinking,
    SignatureDelta,
    Stop,
    StopReason,
    TextBreak,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCallFragment,
)
from kiro_asgi.model.media_types import essence
from kiro_asgi.stages.base import Stage
from kiro_asgi.stages.counts import told
from kiro_asgi.upstreams.declined import declined, recommended
from kiro_asgi.upstreams.ends import Meaning, end_of, outlasts, unknown, word_in
from kiro_asgi.upstreams.json_events import HALF
from kiro_asgi.upstreams.kiro.document import MESSAGE, events_of, is_whole
from kiro_asgi.upstreams.kiro.errors import MEANINGS, is_exception, is_report
from kiro_asgi.upstreams.kiro.text_frames import ANY_OBJECT, TextAsFrames
from kiro_asgi.wire.eventstream import Frame, FrameDecoder, HeaderValue
from kiro_asgi.wire.json import JsonError, dumps, loads, loads_answer, object_of, text_of
from kiro_asgi.wire.json_pieces import JsonPieces
from kiro_asgi.wire.objects import ObjectScanner

Payload = dict[str, Any]


@define
class Seen:
    """State of an answer that later events depend on."""

    model: str = ""
    """The last `ModelName`: the service repeats it in every event."""

    stop: StopReason | None = None
    """Why the answer ended, as far as the service has said it; after a filter, no other reason counts."""

    has_content: bool = False
    """Whether anything came that a client may have been shown."""

    asks_again: bool = False
    """Whether the service can be asked otherwise where it declines to write reasoning as text."""

    has_unknown: bool = False
    """Whether a frame without its type came whose payload does not show it either."""


Reader = Callable[[Payload, Seen], Iterable[Delta]]

STOP_REASONS: Final[Mapping[str, Meaning]] = MappingProxyType(
    {
        "END_TURN": StopReason.END,
        "STOPPED": StopReason.END,
        "TOOL_USE": StopReason.TOOL_CALL,
        "MAX_TOKENS": StopReason.LENGTH,
        "MAX_TOKENS_REACHED": StopReason.LENGTH,
        "TIMEOUT": StopReason.LENGTH,
        "MODEL_CONTEXT_WINDOW_EXCEEDED": StopReason.CONTEXT_FULL,
        "STOP_SEQUENCE": StopReason.STOP_SEQUENCE,
        "CONTENT_FILTERED": StopReason.CONTENT_FILTER,
        "GUARDRAIL_INTERVENED": StopReason.CONTENT_FILTER,
    }
)
"""The service's stop reason to ours.  An unknown one counts as none, with a notice: the reason is inferred."""


def _unwrap(payload: Payload, event_type: str) -> Payload:
    """The payload itself, or that of a wrapper named for its event: some proxies add one."""
    inner = payload.get(event_type)
    return inner if type(inner) is dict else payload


# The answer itself.


def _text(payload: Payload, seen: Seen) -> Iterable[Delta]:
    text = payload.get("content")
    deltas: tuple[Delta, ...] = (TextDelta(text),) if type(text) is str else ()
    if payload.get("modelId", seen.model) == seen.model:
        return deltas
    return (*_model(payload, seen), *deltas)


def _model(payload: Payload, seen: Seen) -> tuple[ModelName, ...]:
    name = text_of(payload, "modelId")
    if not name or name == seen.model:
        return ()
    seen.model = name
    return (ModelName(name),)


def _thinking(payload: Payload, seen: Seen) -> Iterable[Delta]:
    text = payload.get("text") or payload.get("reasoningText")
    if type(text) is dict:
        payload, text = payload | text, text.get("text")
    deltas: tuple[Delta, ...] = (ThinkingDelta(text),) if text and type(text) is str else ()
    return deltas if deltas and len(payload) == 1 else (*deltas, *_seals(payload))


def _seals(payload: Payload) -> Iterable[Delta]:
    if signature := text_of(payload, "signature"):
        yield SignatureDelta(signature)
    if redacted := text_of(payload, "redactedContent"):
        yield RedactedThinking(redacted)


def _tool_call(payload: Payload, seen: Seen) -> Iterable[Delta]:
    call_id = payload.get("toolUseId", "")
    name = payload.get("name", "")
    arguments = payload.get("input", "")
    if type(call_id) is not str or type(name) is not str or type(arguments) is not str:
        call_id, name, arguments = text_of(payload, "toolUseId"), text_of(payload, "name"), _arguments(arguments)
    stop = payload.get("stop") is True
    return (ToolCallFragment(call_id, name, arguments, stop),) if call_id or name or arguments or stop else ()


def _arguments(value: Any) -> str:
    """JSON text of arguments that came as a value; none for an empty one, which may stand before the first piece."""
    if type(value) is str:
        return value
    return dumps(value).decode() if value else ""


# Facts about the answer.


def _metadata(payload: Payload, seen: Seen) -> Iterable[Delta]:
    usage = payload.get("tokenUsage")
    if type(usage) is dict:
        yield from _token_usage(usage, seen)
    yield from _context_usage(payload, seen)
    yield from _stop(payload, seen)


def _stop(payload: Payload, seen: Seen) -> Iterable[Delta]:
    details = object_of(payload.get("stopDetails"))
    refusal = next((it for it in (details.get("refusal"), payload.get("refusal")) if type(it) is dict), None)
    if refusal is not None:
        seen.stop = StopReason.CONTENT_FILTER
        why = declined(refusal)
        if seen.asks_again and not seen.has_content and why and why.category.lower() == REASONING_EXTRACTION:
            raise UpstreamError(f"the service declined to answer: {why.explanation}", code=REASONING_EXTRACTION)
        yield from recommended(why)
        yield Stop(StopReason.CONTENT_FILTER, declined=why)
        return
    unknown_details = [name for name, value in details.items() if name != "refusal" and value is not None]
    if unknown_details:
        yield Notice("stop.details_unknown", clean(", ".join(unknown_details))[:60])
    said = payload.get("stopReason") or word_in(payload) or next(iter(unknown_details), None)
    if said and seen.stop is not StopReason.CONTENT_FILTER:
        if (reason := end_of(said, STOP_REASONS)) is None:
            yield unknown(said)
        elif outlasts(reason) or not outlasts(seen.stop):
            seen.stop = reason
            yield Stop(reason)


REASONING_EXTRACTION: Final = "reasoning_extraction"
"""The category of a refusal to write down the model's reasoning, and the code of the error that stands for it."""


def _token_usage(usage: Payload, seen: Seen) -> Iterable[Delta]:
    """The token counts of one record, unless it has none of them, and the context percentage where it has that."""
    inner = usage.get("tokenUsage")
    usage = usage | inner if type(inner) is dict else usage
    reported = TokenUsage(
        input_tokens=_count(usage, "uncachedInputTokens", "inputTokens", "input_tokens", "prompt_tokens"),
        output_tokens=_count(usage, "outputTokens", "output_tokens", "completion_tokens"),
        cache_read_tokens=_count(usage, "cacheReadInputTokens", "cache_read_input_tokens"),
        cache_write_tokens=_count(usage, "cacheWriteInputTokens", "cache_creation_input_tokens"),
    )
    if (counts := told(reported)) != TokenUsage():
        yield counts
    yield from _context_usage(usage, seen)


def _context_usage(payload: Payload, seen: Seen) -> Iterable[Delta]:
    """A full window ends an answer, too; but a stop reason of the service's takes precedence."""
    percentage = _amount(payload, "contextUsagePercentage")
    if percentage is not None:
        yield ContextUsage(min(percentage, 100.0))
        if percentage >= 100 and seen.stop is None:
            yield Stop(StopReason.CONTEXT_FULL)


def _report_of_usage(payload: Payload, seen: Seen) -> Iterable[Delta]:
    """Counts or a price, in a record or at the top: nobody has described these events."""
    yield from _metering(payload, seen) if "usage" in payload else _token_usage(payload, seen)
    yield from _stop(payload, seen)


def _metering(payload: Payload, seen: Seen) -> Iterable[Delta]:
    """A number is a price, and so is a record with a unit; a record of token counts is one."""
    record = payload.get("usage")
    if type(record) is dict:
        if "unit" not in record:
            return _token_usage(record, seen)
        amount = next((record[key] for key in ("usage", "amount", "value") if key in record), None)
        payload = {"usage": amount, "unit": record["unit"]}
    amount = _amount(payload, "usage")
    return () if amount is None else (Metering(amount, text_of(payload, "unit")),)


def _conversation(payload: Payload, seen: Seen) -> Iterable[Delta]:
    conversation = text_of(payload, "conversationId")
    return (ConversationId(conversation),) if conversation else ()


def _followup(payload: Payload, seen: Seen) -> Iterable[Delta]:
    value = payload.get("followupPrompt")
    return () if value is None else (FollowupPrompt(value),)


def _references(payload: Payload, seen: Seen) -> Iterable[Delta]:
    listed = payload.get("references")
    references = tuple(item for item in listed if type(item) is dict and item) if type(listed) is list else ()
    return (CodeReferences(references),) if references else ()


def _exception(name: str, payload: Mapping[str, Any]) -> KiroAsgiError:
    ended = f"the answer ended with {clean(name)[:60] or 'an unnamed exception'}"
    return error_of(failure(payload, name, message=ended), MEANINGS)


def _invalid_state(payload: Payload, seen: Seen) -> Iterable[Delta]:
    raise _exception("InvalidStateException", payload)


def _ignore(payload: Payload, seen: Seen) -> Iterable[Delta]:
    return ()


# Fields.


def _number(value: Any) -> TypeGuard[int | float]:
    return type(value) in (int, float) and 0 <= value <= LARGEST_COUNT


def _amount(payload: Payload, key: str) -> float | None:
    value = payload.get(key)
    return float(value) if _number(value) else None


def _count(payload: Payload, *keys: str) -> int | None:
    """The first of *keys* that holds a number."""
    return next((int(payload[key]) for key in keys if _number(payload.get(key))), None)


CONTENT: Final = frozenset({"assistantResponseEvent", "reasoningContentEvent", "toolUseEvent"})
"""Types of the events that a client is shown something of."""

READERS: Final[Mapping[str, Reader]] = MappingProxyType(
    {
        "assistantResponseEvent": _text,
        "reasoningContentEvent": _thinking,
        "toolUseEvent": _tool_call,
        "metadataEvent": _metadata,
        "tokenUsageEvent": _token_usage,
        "messageStopEvent": _metadata,
        "usageEvent": _report_of_usage,
        "metricsEvent": _report_of_usage,
        "contextUsageEvent": _context_usage,
        "meteringEvent": _metering,
        "messageMetadataEvent": _conversation,
        "initial-response": _conversation,
        "followupPromptEvent": _followup,
        "codeReferenceEvent": _references,
        "invalidStateEvent": _invalid_state,
        # Known, and of no use to any client API.
        "citationEvent": _ignore,
        "codeEvent": _ignore,
        "documentCitationEvent": _ignore,
        "dryRunSucceedEvent": _ignore,
        "intentsEvent": _ignore,
        "interactionComponentsEvent": _ignore,
        "supplementaryWebLinksEvent": _ignore,
        "toolResultEvent": _ignore,
    }
)
"""Event type to the reader of its payload."""


ENDINGS: Final = ("exception", "error")
"""Message types after which nothing comes."""

NAMING: Final = (":exception-type", ":error-code", ":event-type")
"""Headers that name such an end, the most specific first."""

OUTPUT_LIMIT: Final = key_of("ContentLengthExceededException")
"""An exception that is no failure: the answer has reached its greatest length, and its content so far is good."""

_plain_text: Final = re.compile(rb'\{"content":"([ !#-\[\]-~]*+)"(?:,"modelId":"([ !#-\[\]-~]*+)")?+\}').fullmatch
"""A short piece of text, with or without the model's name behind it: nearly every event is one, and is read so at half
the price.  What is not plain ASCII takes the JSON parser."""

_read_text: Final = READERS["assistantResponseEvent"]


@define
class FrameEventDecoder:
    """Turn `Frame` objects into deltas.

    Unknown and malformed events are skipped with a `Notice`: the service adds event types unannounced.

    Raises:
        KiroAsgiError: An exception or error frame, or an event that reports a failure, by the tables of
            `kiro_asgi.upstreams.kiro.errors`.
    """

    _seen: Seen = field(factory=Seen)
    _model: bytes = field(init=False, default=b"")
    """``_seen.model`` as it stands in a payload."""

    _json: JsonPieces = field(init=False, factory=JsonPieces)
    _headers: Mapping[str, HeaderValue] | None = field(init=False, default=None)
    """Headers of the last event; frames with the same headers share one mapping."""

    _type: str = field(init=False, default="")
    _reader: Reader | None = field(init=False, default=None)
    _ended: bool = field(init=False, default=False)
    _unknown: set[str] = field(init=False, factory=set)
    _notices: int = field(init=False, default=0)

    def feed(self, items: Iterable[Frame], /) -> Iterator[Delta]:
        """Decode frames to deltas."""
        for frame in items:
            if frame.headers is not self._headers and not self._look_up(frame.headers):
                yield from self._end(frame)
            elif (
                self._reader is _read_text and (plain := _plain_text(frame.payload)) and plain[2] in (None, self._model)
            ):
                yield TextDelta(plain[1].decode())
            else:
                yield from self._read(frame.payload)

    def flush(self) -> Iterator[Delta]:
        """Half of a character, where one is left; whether an answer is complete is decided where all of it is known."""
        if not self._json.is_whole:
            yield HALF

    def _look_up(self, headers: Mapping[str, HeaderValue]) -> bool:
        """Get ready for events with these headers; false if they are not those of an event, or come after the end."""
        event_type = headers.get(":event-type")
        name = event_type if type(event_type) is str else ""
        if self._ended or headers.get(":message-type") in ENDINGS or is_exception(name):
            return False
        self._headers, self._type, self._reader = headers, name, READERS.get(name) if name else _untyped
        self._seen.has_content |= name in CONTENT or not name
        return True

    def _read(self, data: bytes) -> Iterable[Delta]:
        if self._reader is None:
            return self._skip_type()
        try:
            payload = self._json.loads(data) if data else {}
        except JsonError as error:
            return self._notice("event.undecodable", f"{self._type}: {error}")
        if type(payload) is not dict:
            return self._notice("event.undecodable", f"{self._type}: not an object")
        payload = _unwrap(payload, self._type)
        if "error" in payload and (report := report_in(payload)):
            raise _exception("", report)
        deltas = self._reader(payload, self._seen)
        if self._reader is _read_text:
            self._model = self._seen.model.encode()
        return deltas

    def _skip_type(self) -> Iterable[Delta]:
        if self._type in self._unknown or self._notices >= NOTICES:
            return ()
        self._unknown.add(self._type)
        return self._notice("event.unknown", self._type)

    def _notice(self, code: str, detail: str) -> Iterable[Delta]:
        self._notices += 1
        return (Notice(code, clean(detail)),) if self._notices <= NOTICES else ()

    def _end(self, frame: Frame) -> Iterator[Delta]:
        if self._ended:
            return
        self._ended, self._headers = True, None
        name = next(filter(None, (_text_of(frame, header) for header in NAMING)), "")
        if key_of(name) == OUTPUT_LIMIT:
            yield Stop(StopReason.LENGTH)
        else:
            raise _exception(name, _report(frame, name))


def _text_of(frame: Frame, header: str) -> str:
    value = frame.headers.get(header)
    return value if type(value) is str else ""


def _report(frame: Frame, name: str) -> Payload:
    """The payload of an exception; an error has its message in a header instead."""
    try:
        payload: Any = loads(frame.payload)
    except JsonError:
        payload = None
    report = object_of(payload)
    wrapped = (value for key, value in report.items() if type(value) is dict and key_of(key) == key_of(name))
    return {"message": _text_of(frame, ":error-message"), **next(wrapped, report)}


BY_KEY: Final[tuple[tuple[str, Reader], ...]] = (
    ("followupPrompt", READERS["followupPromptEvent"]),
    ("toolUseId", READERS["toolUseEvent"]),
    ("name", READERS["toolUseEvent"]),
    ("input", READERS["toolUseEvent"]),
    ("stop", READERS["toolUseEvent"]),
    ("content", READERS["assistantResponseEvent"]),
    ("usage", READERS["usageEvent"]),
    ("tokenUsage", READERS["metadataEvent"]),
    ("stopReason", READERS["metadataEvent"]),
    ("stopDetails", READERS["metadataEvent"]),
    ("refusal", READERS["metadataEvent"]),
    ("contextUsagePercentage", READERS["contextUsageEvent"]),
)
"""Key to the reader of the objects that have it; the first that fits."""


def _untyped(payload: Payload, seen: Seen) -> Iterable[Delta]:
    """A frame without its type is what its payload shows.

    Raises:
        KiroAsgiError: The error that it reports.
    """
    if is_whole(payload):
        yield from _whole(payload, seen)
    elif (reader := next((reader for key, reader in BY_KEY if key in payload), None)) is not None:
        yield from reader(payload, seen)
    elif is_report(body := dumps(payload)):
        raise error_of(refusal(200, (), body), MEANINGS)
    elif payload and not seen.has_unknown:
        seen.has_unknown = True
        yield Notice("event.unknown", clean(", ".join(payload))[:60])


@define
class Damage:
    """Adds a notice for each damage that an earlier stage has skipped; checks once a read, not at every delta."""

    _code: str
    _count: Callable[[], int]
    _reported: int = field(init=False, default=0)

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """The same deltas, and the notices behind them."""
        yield from items
        yield from self.flush()

    def flush(self) -> Iterator[Delta]:
        """Notices of damage that has not been reported yet, within the bound."""
        before, self._reported = self._reported, min(self._count(), NOTICES)
        yield from [Notice(self._code)] * (self._reported - before)


ANSWERS: Final = (TextDelta, ThinkingDelta, RedactedThinking, ToolCallFragment, Stop)
"""Deltas of which an answer has one at least."""


@define
class DocumentDecoder:
    """Read JSON documents: a whole answer, or its events; or an error that was given the status of a success.

    Raises:
        AnswerTooLarge: From `feed`: it has more than `kiro_asgi.limits.BODY_BYTES`.
        KiroAsgiError: From `flush`: the error that the document reports, or `NotTheUpstream` where it is no answer.
    """

    _body: bytearray = field(init=False, factory=bytearray)

    def feed(self, items: Iterable[bytes], /) -> Iterator[Delta]:
        """Yield nothing."""
        for chunk in items:
            self._body += chunk
            if len(self._body) > BODY_BYTES:
                raise AnswerTooLarge(f"the answer has more than {BODY_BYTES} bytes", code="answer_too_large")
        yield from ()

    def flush(self) -> Iterator[Delta]:
        """The deltas of the whole answer."""
        body = bytes(self._body)
        if is_report(body):
            raise error_of(refusal(200, (), body), MEANINGS)
        document = _document(body)
        deltas = [*(_objects(body) if document is None else _whole(document, Seen()))]
        if not any(isinstance(delta, ANSWERS) for delta in deltas):
            raise _foreign(described(_document(body)))
        yield from deltas


def _objects(body: bytes) -> Iterator[Delta]:
    """The deltas of several objects in a row."""
    scanner, seen = ObjectScanner(prefixes=ANY_OBJECT), Seen()
    for item in chain(scanner.feed([body]), scanner.flush()):
        yield from _untyped(item, seen)


def _whole(document: Any, seen: Seen) -> Iterator[Delta]:
    """The deltas of a whole answer."""
    for name, payload in events_of(document):
        yield from (TextBreak(),) if name == MESSAGE else _read(name, payload, seen)


def _read(name: str, payload: Payload, seen: Seen) -> Iterable[Delta]:
    if is_exception(name):
        raise _exception(name, payload)
    reader = READERS.get(name)
    return (Notice("event.unknown", clean(name)),) if reader is None else reader(payload, seen)


def _document(body: bytes) -> Any:
    try:
        return loads_answer(body)
    except JsonError:
        return None


def _foreign(what: str) -> NotTheUpstream:
    return NotTheUpstream(f"the service answered with {what}", code="upstream.content_type")


KINDS: Final = MappingProxyType(
    {
        "application/vnd.amazon.eventstream": "stream",
        "": "stream",
        "application/octet-stream": "stream",
        "binary/octet-stream": "stream",
        "text/plain": "stream",
        "application/jsonl": "stream",
        "application/json-lines": "stream",
        "application/x-jsonlines": "stream",
        "application/x-ndjson": "stream",
        "application/json": "document",
        "application/x-amz-json-1.0": "document",
        "application/x-amz-json-1.1": "document",
    }
)
"""Media type to how an answer of that type is read."""


def stages(content_type: str, checksums: str = "strict", *, asks_again: bool = False) -> tuple[Stage[Any, Any], ...]:
    """Fresh stages, bytes to `Delta`.

    Args:
        content_type: Of the answer.
        checksums: ``strict``, ``warn`` or ``off``.
        asks_again: Whether a refusal to write reasoning as text is an error, while nothing has been shown.

    Raises:
        NotTheUpstream: Code ``upstream.content_type``: no answer comes in this media type.
    """
    match KINDS.get(essence(content_type)):
        case "stream":
            frames, events = FrameDecoder(checksums=checksums), FrameEventDecoder(Seen(asks_again=asks_again))
            warns = [Damage("frame.checksum", lambda: frames.mismatches)] if checksums == "warn" else []
            return (TextAsFrames(), frames, events, *warns)
        case "document":
            return (DocumentDecoder(),)
    raise _foreign(f"the media type {clean(content_type)!r}")
