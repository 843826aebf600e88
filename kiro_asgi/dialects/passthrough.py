"""Requests and answers that go through as they are, where a service speaks the client's own API.

Of an answer, three things have to be known: whether it has begun with an error, so that it may be asked for again;
whether it came to its end, so that a cut answer is never taken for a whole one; and what it used.  The events that have
these facts are found by words in them, and no other event is read.

In the bytes only the model's name is ever changed, where the client calls the model by another than the service.  What
goes out always ends with an event, so that a sign of life or an error of ours may stand behind it.  An error of the
service in the middle of an answer is not passed on: the answer ends as any other that cannot go on.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from math import ceil
from typing import Any, Final, Protocol

from attrs import define, evolve, field, frozen

from kiro_asgi.dialects.base import Dialect, ParsedRequest, ResponseMeta
from kiro_asgi.dialects.choices import choices_of, length_of
from kiro_asgi.dialects.named_models import NO_MODELS, models_named
from kiro_asgi.dialects.structure import is_misspelt, structure_value
from kiro_asgi.errors import KiroAsgiError, NotTheUpstream, RequestError, UpstreamProtocolError
from kiro_asgi.failures.report import described, report_in
from kiro_asgi.limits import EVENT_BYTES, REQUEST_DEPTH
from kiro_asgi.model.events import TokenUsage, Usage
from kiro_asgi.model.handling import Tier
from kiro_asgi.model.prompt import Prompt, Sampling
from kiro_asgi.stages.counts import Reports
from kiro_asgi.stages.estimate import TokenEstimator
from kiro_asgi.stages.usage import UsageMeter
from kiro_asgi.wire.json import JsonError, dumps, loads, object_of, quote_bytes
from kiro_asgi.wire.sse import ServerSentEvent, SseDecoder, encode_comment, encode_sse

_MEMBER: Final = re.compile(rb'"model"\s*:\s*("(?:[^"\\]|\\.)*")', re.DOTALL)
"""Inside a string the quotes have backslashes before them, so what is found is a member; group 1 is its value."""


def _renamed(text: bytes, name: bytes, place: Sequence[str], old: str = "") -> bytes:
    """*text* with *name* instead of the model's name at *place*; unchanged where no name stands there.

    Args:
        text: One JSON document, or a line that holds one behind a field name.
        name: A JSON string literal.
        place: The keys that lead to the member, the last being ``model``.  They are looked at only where a text has
            several members of that name, or one with another value than *old*, which costs one more reading of it.
        old: The model's name, where it is known.
    """
    spots = [match.span(1) for match in _MEMBER.finditer(text)]
    if not spots:
        return text
    alone = len(spots) == 1 and (not old or loads(text[slice(*spots[0])]) == old)
    spot = 0 if alone else _spot_at(text, place)
    if spot is None:
        return text
    start, end = spots[spot]
    return text[:start] + name + text[end:]


def _spot_at(text: bytes, place: Sequence[str]) -> int | None:
    """Which of the members of *text* stands at *place*: every one gets its number as its value, then one is read."""
    numbers = count()
    numbered = _MEMBER.sub(lambda _: b'"model":%d' % next(numbers), text)
    try:
        value = loads(numbered[numbered.find(b"{") :], max_depth=REQUEST_DEPTH)
    except JsonError:
        return None
    for key in place:
        value = value.get(key) if type(value) is dict else None
    return value if type(value) is int else None


# The request.


def renamed(body: bytes, old: str, new: str) -> bytes:
    """The client's very bytes, but for the model's name where the service has a *new* one instead of the *old* one.

    A body that spells the member's own name with escapes is written anew.
    """
    if new == old:
        return body
    changed = _renamed(body, quote_bytes(new), ("model",), old)
    return dumps({**loads(body, max_depth=REQUEST_DEPTH), "model": new}) if changed == body else changed


@frozen
class Passed:
    """A request as it may go on."""

    body: bytes = field(repr=False)
    named: tuple[tuple[str, str], ...] = NO_MODELS
    """Places and names of the models that it names beside its own."""

    misspelt: bool = False
    """Whether a member has the name of another one but for case."""

    @classmethod
    def of(cls, body: bytes, document: Mapping[str, Any], shape: type) -> Passed:
        """The *body*, which says what *document* does, of which *shape* reads the members that it has."""
        return cls(body, models_named(document), any(is_misspelt(shape, name) for name in document))


@frozen
class _Head:
    model: str
    stream: bool | None = None


def head_of(document: Any, refusal: RequestError) -> ParsedRequest:
    """What has to be known of a request, the *document*, that its reader has refused, so that a service of its API may
    judge it.

    Raises:
        RequestError: It has no model: the *refusal*.
    """
    try:
        head = structure_value(document, _Head)
    except RequestError:
        raise refusal from None
    if not head.model:
        raise refusal
    return unread_request(head.model, bool(head.stream), document)


def unread_request(model: str, stream: bool, members: Mapping[str, Any]) -> ParsedRequest:
    """A request for *model* of which only what is paid for is known, by its *members*."""
    prompt = Prompt(model, sampling=Sampling(length_of(members)))
    return ParsedRequest(prompt, stream, None, choices=choices_of(members))


# The answer.


Fault = Callable[[bytes], KiroAsgiError]
"""From a server-sent event that holds an error of the service to the error that it means."""

_COMMENT: Final = encode_comment("ping")

_WRITTEN: Final = re.compile(
    rb'"(?:content|reasoning|reasoning_content|refusal|arguments|text|delta|thinking|partial_json)"\s*:\s*'
    rb'("(?:[^"\\]++|\\.)*+")',
    re.DOTALL,
)
"""What a model has written, in whatever API; group 1 is a text of JSON.  Quantifiers that give nothing back: a text
without an end is read once."""

_FIELD: Final = b"data:"
"""In every event, as one without data is none.  Source: the WHATWG's HTML standard, section 9.2.6."""

_ENDS: Final = (b"\n\n", b"\n\r\n", b"\r\r", b"\r\r\n", b"\n\r")
"""Endings of bytes that end with an empty line, and so with an event."""


@frozen
class Sign:
    """Facts of a document that the gateway depends on."""

    ended: bool = False
    failed: bool = False
    usage: Mapping[str, Any] | None = None
    """A report on the tokens of the answer."""

    tier: Tier | None = None
    """The service tier that answers."""

    opening: bool = False
    """Whether *usage* is from before the answer, of which it has a token or so."""


@frozen(kw_only=True)
class Format:
    """Facts of one API that its passthrough needs."""

    heartbeat: bytes
    """A sign of life within an answer."""

    early_heartbeat: bytes = _COMMENT
    """The same before it: a comment, since some clients take an event for the beginning of an answer."""

    relevant: re.Pattern[bytes]
    """Found in every event that `read` has to see, and in few others."""

    done: bytes = b""
    """Data of the event at the end, where that is no JSON; empty where it is."""

    read: Callable[[Mapping[str, Any]], Sign]
    """From the data of an event, or the body of a collected answer."""

    counts: Callable[[Mapping[str, Any]], TokenUsage]
    """From all such reports as one."""

    content: frozenset[str]
    """Members of which a collected answer has one."""

    named: bytes = b""
    """Found in every event that names the model; empty where answers do not repeat the client's name for it."""

    place: tuple[str, ...] = ()
    """Where in such an event the name stands; in a collected answer it is the member ``model``."""

    meta: Callable[[Mapping[str, Any], ResponseMeta], ResponseMeta] = field(default=lambda _, meta: meta)
    """From the first event, and the facts known without it, to those that an error repeats."""

    error: Callable[[KiroAsgiError, ResponseMeta], list[bytes]]
    """The in-band ending of an answer that cannot go on."""


@define
class PassthroughStage:
    """The stage from a service's bytes to a client's, for one answer.

    Args:
        format: Of the API.
        fault: Translates an error of the service.
        meta: Facts that an error of ours repeats, as far as the answer has not named them.
        name: The client's name for the model; empty where it is the service's, too.
        max_event: Largest event that is accepted, in bytes.
    """

    _format: Format
    _fault: Fault
    _meta: ResponseMeta
    _name: str = ""
    _max_event: int = field(default=EVENT_BYTES, kw_only=True)

    heartbeat: bytes = field(init=False)
    """The sign of life that may be sent now."""

    begun: bool = field(init=False, default=False)
    """Whether an event has come through."""

    events_seen: int = field(init=False, default=0)
    """Pieces with events in them that have come through; comments and halves of events are none."""

    ended: bool = field(init=False, default=False)
    """Whether the API's own signal has come that an answer is complete."""

    failure: KiroAsgiError | None = field(init=False, default=None)
    """The error with which the service broke off its answer."""

    tier: Tier | None = field(init=False, default=None)
    """The service tier by the head of the answer, which counts before what the body says."""

    _closed: bool = field(init=False, default=False)
    """Whether the API's sentinel has gone out, behind which nothing may stand."""

    _literal: bytes = field(init=False)
    _held: bytearray = field(init=False, factory=bytearray)
    """The event that has not ended."""

    _before: bytearray = field(init=False, factory=bytearray)
    """Comments before the first event: they are no answer yet, and sent they would rule out another try."""

    _named: Tier | None = field(init=False, default=None)
    """The last tier that the service has named."""

    _reports: Reports | None = field(init=False, default=None)
    counted: bool = field(init=False, default=False)
    """Whether the service has counted the answer, as far as it has come."""

    _written: float = field(init=False, default=0.0)

    def __attrs_post_init__(self) -> None:
        self.heartbeat = self._format.early_heartbeat
        self._literal = quote_bytes(self._name) if self._name else b""

    @property
    def usage(self) -> Usage | None:
        """Tokens of the answer, as far as the service has counted them."""
        if self._reports is None:
            return None
        meter = UsageMeter(input_tokens=0, tier=self.tier or self._named)
        deque(meter.feed([self._reports.counts]), maxlen=0)
        return meter.usage

    @property
    def written(self) -> int:
        """Tokens of what the model wrote, estimated, up to where the service counted them."""
        return ceil(self._written)

    def feed(self, items: Iterable[bytes], /) -> Iterator[bytes]:
        """The events that *items* complete, in one piece.

        Raises:
            KiroAsgiError: The answer began with an error, or was broken off with one; what came before has been given.
            UpstreamProtocolError: Code ``sse.too_large``.
        """
        data = b"" if self._closed else b"".join(items)
        if self._held or not data.endswith(_ENDS):
            data = self._whole_events(data)
        if data and not self.begun:
            data = self._begin(data)
        if not data:
            return
        self.events_seen += _FIELD in data
        self._estimate(data)
        done = self._format.done
        if (done and done in data) or self._format.relevant.search(data):
            data = self._look(data)
        if data:
            yield self._rewritten(data)
        if self.failure is not None:
            raise self.failure

    def flush(self) -> Iterator[bytes]:
        """The last event, where its empty line is missing, and the API's sentinel, where the service has sent none.

        Raises:
            KiroAsgiError: The answer ended with an error, or before its end: code ``stream.cut``.
        """
        rest, before = bytes(self._before + self._held), (self.ended, self._closed)
        cut = rest == b"\n"  # half of a line's end; some clients see no event that ends with the other half
        self._before.clear()
        self._held.clear()
        if rest and not self._closed:
            rest = self._look(rest + b"\n\n")
        if self.failure is not None:
            raise self.failure
        if not self.ended:
            raise UpstreamProtocolError("the upstream's answer ended before it was complete", code="stream.cut")
        if rest and before != (self.ended, self._closed):  # anything else that has no end is half an event
            self._estimate(rest)
            yield self._rewritten(rest)
        elif cut:
            yield b"\n"
        if not self._closed:
            yield self._sentinel()

    def whole(self, body: bytes) -> bytes:
        """A collected answer.

        Raises:
            KiroAsgiError: It is an error, whatever its status was.
            UpstreamProtocolError: Code ``answer.undecodable``: it is no JSON object.
            NotTheUpstream: Code ``upstream.content_type``: it is another one than an answer.
        """
        try:
            document = loads(body)
        except JsonError as why:
            self.failure = _undecodable()
            raise self.failure from why
        if type(document) is not dict:
            self.failure = _undecodable()
            raise self.failure
        sign, content = self._format.read(document), self._format.content
        if sign.failed or report_in(document, content=content):
            self.failure = self._fault(encode_sse("error", dumps(document)))
        elif all(document.get(member) is None for member in content):
            message = f"the service answered with {described(document)}"
            self.failure = NotTheUpstream(message, code="upstream.content_type")
        if self.failure is not None:
            raise self.failure
        self._estimate(body)
        self._count(sign)
        self.ended = True
        named = self._literal and type(document.get("model")) is str
        return _renamed(body, self._literal, ("model",)) if named else body

    def error(self, error: KiroAsgiError) -> list[bytes]:
        """The in-band ending of an answer that has begun and cannot go on; no error where all of it has come."""
        if self._closed or (self.ended and self.failure is None):
            return [] if self._closed else [self._sentinel()]
        self._closed = True
        return self._ending(error)

    def _ending(self, error: KiroAsgiError) -> list[bytes]:
        """The in-band ending of an answer that cannot go on."""
        return self._format.error(error, self._meta)

    def _sentinel(self) -> bytes:
        """The event behind which nothing may stand; nothing where the API has none."""
        self._closed = True
        return encode_sse("", self._format.done) if self._format.done else b""

    def _whole_events(self, data: bytes) -> bytes:
        """The whole events in what is held and *data*; the rest is held."""
        held = self._held
        unseen = max(len(held) - 2, 0)
        held += data
        end = _last_end(held, unseen)
        self._bound(len(held) - end)
        data = bytes(held[:end])
        del held[:end]
        return data

    def _begin(self, data: bytes) -> bytes:
        """All that stands up to the end of *data*, if there is an event in it; else nothing."""
        self._before += data
        if (first := next(SseDecoder().feed([data]), None)) is None:
            self._bound(len(self._before))
            return b""
        document = self._document(first)
        if self._format.read(document).failed or report_in(document, first.event):
            raise self._fault(encode_sse(first.event, first.data))
        meta = self._format.meta(document, self._meta)
        self._meta = evolve(meta, model=self._name or meta.model)
        self.begun, self.heartbeat = True, self._format.heartbeat
        begin = bytes(self._before)
        self._before.clear()
        return begin

    def _bound(self, size: int) -> None:
        if size > self._max_event:
            raise UpstreamProtocolError(
                f"an event of the upstream has more than {self._max_event} bytes", code="sse.too_large"
            )

    def _look(self, data: bytes) -> bytes:
        """Whole events, without an error among them and what stands behind it, or behind the sentinel."""
        plain = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in data else data
        for begin, end in self._relevant(plain):
            event = next(SseDecoder().feed([plain[begin:end]]), None)
            if event is None:
                continue
            if self._is_sentinel(event):
                self.ended = self._closed = True
                return plain[:end] if end < len(plain) else data
            sign = self._format.read(self._document(event))
            if sign.failed:
                self.failure = self._fault(encode_sse(event.event, event.data))
                return plain[:begin]
            self.ended = self.ended or sign.ended
            self._count(sign)
        return data

    def _relevant(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Where the events begin and end that have to be read."""
        spots = [match.start() for match in self._format.relevant.finditer(data)]
        if self._format.done and self._format.done in data:
            spots = sorted((*spots, *_places(data, self._format.done)))
        seen = 0
        for spot in spots:
            if spot < seen:
                continue
            before = data.rfind(b"\n\n", seen, spot)
            begin = seen if before < 0 else before + 2
            seen = data.find(b"\n\n", spot) + 2
            yield begin, seen

    def _is_sentinel(self, event: ServerSentEvent) -> bool:
        return bool(self._format.done) and event.data.strip().encode() == self._format.done

    @staticmethod
    def _document(event: ServerSentEvent) -> Mapping[str, Any]:
        """The object that *event* holds; an empty one where it holds anything else."""
        try:
            return object_of(loads(event.data))
        except JsonError:
            return {}

    def _count(self, sign: Sign) -> None:
        self._named = sign.tier or self._named
        if sign.usage is not None:
            self._reports = self._reports or Reports(self._format.counts)
            self._reports.take(sign.usage)
            if not sign.opening and self._reports.counts.output_tokens is not None:
                self.counted = True

    def _estimate(self, data: bytes) -> None:
        """Add what the model has written in *data*, unless the service has counted: most do so at the end."""
        if not self.counted:
            for match in _WRITTEN.finditer(data):
                self._written += _ESTIMATOR.estimate_tokens(_text(match[1]))

    def _rewritten(self, data: bytes) -> bytes:
        """*data*, whole events, with the client's name for the model in every event that names it."""
        named, literal, place = self._format.named, self._literal, self._format.place
        if not literal or named not in data:
            return data
        lines = data.splitlines(keepends=True)
        return b"".join([_renamed(line, literal, place) if named in line else line for line in lines])


_ESTIMATOR: Final = TokenEstimator()


def _text(literal: bytes) -> str:
    """The text of JSON that *literal* is, as far as it is one."""
    try:
        return str(loads(literal)) if b"\\" in literal else literal[1:-1].decode(errors="replace")
    except JsonError:
        return literal.decode(errors="replace")


def _last_end(data: bytearray, start: int) -> int:
    """Where the last whole event of *data* ends, looking from *start* on; 0 where there is none."""
    ends = [at + 2 for pair in (b"\n\n", b"\n\r", b"\r\r") if (at := data.rfind(pair, start)) >= 0]
    end = max(ends, default=0)
    return end + 1 if bytes(data[end - 2 : end + 1]) in (b"\n\r\n", b"\r\r\n") else end


def _places(data: bytes, word: bytes) -> Iterator[int]:
    """Where *word* stands in *data*."""
    at = data.find(word)
    while at >= 0:
        yield at
        at = data.find(word, at + len(word))


def _undecodable() -> UpstreamProtocolError:
    return UpstreamProtocolError("the upstream's answer is no JSON object", code="answer.undecodable")


# The dialect.


class TransparentDialect(Dialect, Protocol):
    """A client API in which a service's own answers may go through as they are."""

    def passed(self, body: bytes, /) -> Passed | None:
        """The *body* of a request as it may go on; ``None`` where the gateway keeps, makes or has sealed a part of
        it."""
        ...

    def renamed(self, body: bytes, old: str, new: str, /) -> bytes:
        """A body that goes on, with a *new* name of the model instead of the *old* one."""
        ...

    def head(self, body: bytes, refusal: RequestError, /) -> ParsedRequest:
        """What has to be known of a request that `parse` has refused.

        Raises:
            RequestError: It cannot go anywhere: the *refusal*.
        """
        ...

    def passthrough(self, fault: Fault, meta: ResponseMeta, name: str = "") -> PassthroughStage:
        """A fresh stage for the answer to such a request.

        Args:
            fault: Translates an error of the service.
            meta: Facts that an error of ours repeats, as far as the answer has not named them.
            name: The client's name for the model; empty where it is the service's, too.
        """
        ...
