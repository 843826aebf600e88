"""Reading an answer: from its media type and bytes to events, from events to deltas; and a turn of several messages.

Some services do not stream although they were asked to; a whole message is read as the events of a stream with the
same content.  Blocks come whole, one after the other, but nothing here relies on it: a piece of text is text wherever
it stands, and arguments go to the call whose index they name.  An unknown event gives a notice and nothing else.
Counts and the reason for the end are emitted once, when the stream has ended: the service's counts are cumulative.

A message with ``stop_reason: "pause_turn"`` is a part of a turn, because the service runs tools on the way.  The rest
is asked for by the same request with the content so far as the assistant's last message: every block as it came, for
the service checks signatures and finds its own calls again.

Sources: https://docs.anthropic.com/en/docs/build-with-claude/streaming,
https://docs.anthropic.com/en/api/handling-stop-reasons,
https://docs.claude.com/en/docs/build-with-claude/handling-stop-reasons
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import define, evolve, field

from kiro_asgi.errors import NotTheUpstream, UpstreamProtocolError
from kiro_asgi.failures.meanings import UNEXPLAINED, error_of
from kiro_asgi.failures.report import document_of, failure, report_in
from kiro_asgi.failures.texts import clean
from kiro_asgi.model.budget import ITEM, AnswerBudget, size_of_value
from kiro_asgi.model.events import (
    Delta,
    MessageMembers,
    ModelName,
    Notice,
    OpaqueEvent,
    SignatureDelta,
    Stop,
    StopReason,
    TextBreak,
    ThinkingDelta,
    TokenUsage,
)
from kiro_asgi.model.handling import Tier
from kiro_asgi.model.media_types import essence
from kiro_asgi.model.signatures import unless_unsigned
from kiro_asgi.model.unread import Unread
from kiro_asgi.stages.base import Stage
from kiro_asgi.stages.counts import Reports, messages_counts, unknown_runs
from kiro_asgi.stages.ending import MISSING
from kiro_asgi.upstreams.anthropic.blocks import (
    API,
    KNOWN,
    MEMBERS,
    PIECES,
    KeptBlock,
    Opaque,
    OpenBlock,
    Searches,
    index_of,
    opener_of,
)
from kiro_asgi.upstreams.anthropic.errors import MEANINGS
from kiro_asgi.upstreams.base import UpstreamRequest
from kiro_asgi.upstreams.declined import declined, recommended
from kiro_asgi.upstreams.ends import Meaning, end_of, kept, unknown, word_in
from kiro_asgi.upstreams.headers import EVENT_STREAM, JSON, require_media_type
from kiro_asgi.upstreams.json_events import JsonEvent, JsonEvents, WholeBody
from kiro_asgi.upstreams.tiers import served
from kiro_asgi.upstreams.unread import arguments_text, is_word, others, parts_of, within
from kiro_asgi.wire.json import JsonError, dumps, object_of, objects_of, text_of


@define
class WholeMessage(WholeBody):
    """The stage from the body of a whole message to the events of a stream with the same content, all at the end.

    Raises:
        AnswerTooLarge: From `feed`: there is too much of it.
        KiroAsgiError: From `flush`: the error that the body reports, or `NotTheUpstream` where it is not a message.
    """

    def flush(self) -> Iterator[JsonEvent]:
        """The events."""
        message = document_of(bytes(self._body))
        if report := report_in(message, content={"content"}):
            raise error_of(failure(report), MEANINGS)
        if text_of(message, "type") != "message":
            raise NotTheUpstream(
                "the service answered with JSON that is not a message: check its endpoint", code="upstream.content_type"
            )
        yield JsonEvent("message_start", {"type": "message_start", "message": message})
        yield JsonEvent("message_stop", {"type": "message_stop"})


def reader(content_type: str) -> Stage[bytes, Any]:
    """A fresh stage, bytes to the events of a message.

    Raises:
        NotTheUpstream: Code ``upstream.content_type``: no answer comes in this media type.
    """
    require_media_type(content_type, (EVENT_STREAM, JSON))
    return WholeMessage() if essence(content_type) == JSON else JsonEvents()


STOP_REASONS: Final[Mapping[str, Meaning]] = MappingProxyType(
    {
        "end_turn": StopReason.END,
        "tool_use": StopReason.TOOL_CALL,
        "max_tokens": StopReason.LENGTH,
        "stop_sequence": StopReason.STOP_SEQUENCE,
        "refusal": StopReason.CONTENT_FILTER,
        "model_context_window_exceeded": StopReason.CONTEXT_FULL,
        "pause_turn": StopReason.PAUSED,
        "compaction": StopReason.COMPACTED,
    }
)
"""``stop_reason`` to its meaning."""

_SERVED: Final[Mapping[str, Tier]] = MappingProxyType({"standard": Tier.STANDARD, "priority": Tier.PRIORITY})
"""``usage.service_tier`` to its meaning."""

_USAGE: Final = frozenset(
    {
        *("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
        "output_tokens_details",
    }
)
"""Counts of the answer itself; ``iterations``, with those of other runs, has a place in this API alone."""

_USAGE_DETAILS: Final = frozenset({"thinking_tokens"})
_MESSAGE: Final = frozenset(
    {"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "stop_details", "usage"}
)
_STOP_DETAILS: Final = frozenset({"type", "category", "explanation", "recommended_model"})
_ABOUT: Final = frozenset({"type", "message", "delta", "usage"})
"""Members of an object that are read; of `_ABOUT`, of an event about the message."""

_TYPED: Final = frozenset({"type"})
"""What every event has."""

_PLACED: Final = frozenset({"type", "index", "content_block", "delta"})
"""Members of an event about a block that are read."""


def _unread_usage(usage: Any) -> dict[str, Any]:
    found = object_of(usage)
    details = others(object_of(found.get("output_tokens_details")), _USAGE_DETAILS)
    return {**others(found, _USAGE), **within(output_tokens_details=details)}


def _unread_message(message: Mapping[str, Any]) -> dict[str, Any]:
    details = others(object_of(message.get("stop_details")), _STOP_DETAILS)
    return {**others(message, _MESSAGE), **within(stop_details=details, usage=_unread_usage(message.get("usage")))}


@define
class Ending:
    """Gathers usage and stop reason until the answer ends."""

    complete: bool = False
    """Whether the message has ended."""

    _stop: Stop | None = field(init=False, default=None)
    _reports: Reports = field(init=False, factory=lambda: Reports(messages_counts))

    def count(self, usage: Any) -> Iterator[Delta]:
        """Record ``usage``: counts are cumulative, but for a 0 that stands for "as before".  The tier, and notices of
        what is unknown."""
        found = object_of(usage)
        self._reports.take(found)
        yield from (Notice("usage.unknown", clean(kind)[:60]) for kind in unknown_runs(found))
        yield from served(found.get("service_tier"), _SERVED)

    def stop(self, delta: Mapping[str, Any], *places: Mapping[str, Any]) -> Iterator[Delta]:
        """Record ``stop_reason``; notices where it is unknown, and of what few APIs have a place for.

        Args:
            delta: What has to say it.
            places: Where some services say it instead.

        Raises:
            UpstreamError: The service gave the answer up.
        """
        name = delta.get("stop_reason") or word_in(delta, *places)
        if not name:
            return iter(())
        reason = end_of(name, STOP_REASONS)
        sequence = text_of(delta, "stop_sequence") if reason is StopReason.STOP_SEQUENCE else ""
        why = declined(object_of(delta.get("stop_details")))
        self._stop = kept(self._stop, Stop(reason or StopReason.END, sequence or None, why))
        return iter((*(() if reason else (unknown(name),)), *recommended(why)))

    @property
    def paused(self) -> bool:
        """Whether the message has ended before the turn did."""
        return self.complete and self._stop is not None and self._stop.reason is StopReason.PAUSED

    def deltas(self) -> Iterator[Delta]:
        """Counts and stop, for the end of the answer."""
        if (counts := self._reports.counts) != TokenUsage():
            yield counts
        yield MISSING if self._stop is None else self._stop


@define
class MessageEvents:
    """The stage from events to deltas.

    Raises:
        AnswerTooLarge: Blocks that are open, and calls, take more than `kiro_asgi.limits.ANSWER_BYTES`.
        KiroAsgiError: The error that an event reports; from `flush`, `UpstreamProtocolError` with the code
            ``stream.cut``: the stream ended before the message did.
    """

    _ending: Ending = field(init=False, factory=Ending)
    _open: dict[Any, tuple[OpenBlock, int]] = field(init=False, factory=dict)
    """By index, each with the room that its end gives back."""

    _calls: set[str] = field(init=False, factory=set)
    """Ids of all calls so far."""

    _searches: Searches = field(init=False, factory=Searches)
    _behind_text: bool = field(init=False, default=False)
    """Whether the block before was one of text."""

    _behind_cited: bool = field(init=False, default=False)
    """Whether the block before cites, or announced that it may, or has members of its own."""

    _budget: AnswerBudget = field(factory=AnswerBudget)
    """For blocks that are open, and what is known of those before."""

    @property
    def paused(self) -> bool:
        """Whether the message has ended before the turn did."""
        return self._ending.paused

    def resume(self) -> None:
        """Read another message as what follows the one before: a call there may have its result here."""
        self._ending = Ending()

    def feed(self, items: Iterable[JsonEvent | Notice], /) -> Iterator[Delta]:
        """The deltas of *items*; none after the end of the message."""
        for item in items:
            if type(item) is Notice:
                yield item
            elif type(item) is JsonEvent and not self._ending.complete:
                yield from self._event(item)

    def flush(self) -> Iterator[Delta]:
        """How the message ended."""
        if not self._ending.complete:
            raise UpstreamProtocolError("the answer ended before its last event", code="stream.cut")
        yield from self._ending.deltas()

    def _event(self, event: JsonEvent) -> Iterable[Delta]:
        kind = event.value.get("type", event.name)
        reader = _EVENTS.get(kind) if type(kind) is str else None
        if reader is None or "error" in event.value:
            self._refuse(event)
        if reader is not None:
            return reader(self, event.value)
        if event.done:
            return ()
        notice = Notice("event.unknown", clean(str(kind))[:60])
        if type(kind) is not str or not is_word(kind):
            return (notice,)
        return (OpaqueEvent(Unread(API, {"type": kind, **event.value}), (notice,)),)

    def _refuse(self, event: JsonEvent) -> None:
        if report := report_in(event.value, event.name, _TYPED):
            raise error_of(failure(report, event.name, message=UNEXPLAINED), MEANINGS)

    def _members(self, members: Mapping[str, Any]) -> Iterable[Delta]:
        """Members of the message, which clients may be given at its end."""
        if not members:
            return ()
        self._budget.take(ITEM + size_of_value(members))
        return (MessageMembers(Unread(API, members)),)

    def _start(self, value: Mapping[str, Any]) -> Iterator[Delta]:
        message = object_of(value.get("message"))
        if name := text_of(message, "model"):
            yield ModelName(name)
        yield from self._ending.count(message.get("usage"))
        yield from self._members({**others(value, _ABOUT), **within(message=_unread_message(message))})
        for block in parts_of(message.get("content"), type="text"):
            yield from self._open_block({"content_block": block})
            yield from self._close_block({})
        yield from self._ending.stop(message)

    def _open_block(self, value: Mapping[str, Any]) -> Iterator[Delta]:
        block, index = object_of(value.get("content_block")), index_of(value)
        yield from self._close_block(value)
        size = ITEM + size_of_value(block)
        self._budget.take(size)
        kind, about = text_of(block, "type"), others(value, _PLACED)
        opener = opener_of(block)
        if opener is None:
            self._open[index] = Opaque([{**about, **block}], self._budget), size
            return
        opened = opener(block, self._calls, self._searches)
        self._open[index] = opened, 0 if opened.lasting else size
        members = about | (others(block, KNOWN[kind]) if kind in KNOWN else {})
        if members:
            opened.begin_with(Unread(API, members))
        citations = block.get("citations")
        if opened.is_text and self._behind_text and (members or citations == [] or self._behind_cited):
            yield TextBreak()
        self._behind_text, self._behind_cited = opened.is_text, bool(members) or type(citations) is list
        yield from opened.opening()

    def _delta(self, value: Mapping[str, Any]) -> Iterable[Delta]:
        delta, (block, _) = object_of(value.get("delta")), self._open.get(index_of(value), _NONE)
        kind = delta.get("type")
        if kind == "text_delta" and len(delta) == 2 and len(value) == 3:  # nothing else in it, as nearly always
            return block.add_text(text_of(delta, "text"))
        if block.is_opaque:
            return block.take({**others(value, _PLACED), **delta})
        if kind == "text_delta":
            read = block.add_text(text_of(delta, "text"))
        elif kind == "thinking_delta":
            read = (ThinkingDelta(text_of(delta, "thinking")),)
        elif kind == "signature_delta":
            read = (SignatureDelta(unless_unsigned(text_of(delta, "signature"))),)
        elif kind == "input_json_delta":
            read = self._input(value, block, arguments_text(delta.get("partial_json")))
        elif kind == "citations_delta":
            read = self._cite(block, object_of(delta.get("citation")))
        else:
            notice = Notice("delta.unknown", clean(str(kind))[:60])
            return self._more(block, {**others(value, _PLACED), **delta}, notice)
        if len(delta) == 2 and len(value) == 3:
            return read
        return (*read, *self._more(block, others(value, _PLACED) | others(delta, PIECES[kind])))

    def _more(self, block: OpenBlock, members: Mapping[str, Any], *instead: Notice) -> Iterable[Delta]:
        """Members of a block that came after its start."""
        if not members:
            return ()
        self._behind_cited = True
        if block.keeps_members:
            self._budget.take(ITEM + size_of_value(members))
        return block.members(Unread(API, members), *instead)

    def _cite(self, block: OpenBlock, location: Mapping[str, Any]) -> Iterable[Delta]:
        self._budget.take(ITEM + size_of_value(location))
        self._behind_cited = True
        block.cite(location)
        return ()

    def _input(self, value: Mapping[str, Any], block: OpenBlock, text: str) -> Iterator[Delta]:
        if block is _STRAY:
            calls = [each for each, _ in self._open.values() if each.is_call]
            if len(calls) != 1:  # of what is open, arguments could be no other's; so they are a call's without a name
                yield from self._open_block({"index": value.get("index"), "content_block": {"type": "tool_use"}})
                calls = [self._open[index_of(value)][0]]
            block = calls[0]
        if block.gathers:
            self._budget.take(size_of_value(text))
        yield from block.write(text)

    def _close_block(self, value: Mapping[str, Any]) -> Iterator[Delta]:
        block, size = self._open.pop(index_of(value), _NONE)
        self._budget.give_back(size)
        if "content_block" not in value:  # another one begins in its place
            yield from self._more(block, others(value, _PLACED))
        yield from block.closing()

    def _message_delta(self, value: Mapping[str, Any]) -> Iterator[Delta]:
        delta, usage = object_of(value.get("delta")), value.get("usage")
        yield from self._ending.count(usage)
        unread = within(delta=_unread_message(delta), usage=_unread_usage(usage))
        yield from self._members({**others(value, _ABOUT), **unread})
        yield from self._ending.stop(delta, value)

    def _message_stop(self, value: Mapping[str, Any]) -> Iterator[Delta]:
        yield from self._ending.stop(value, object_of(value.get("message")))
        self._ending.complete = True
        for block, _ in self._open.values():
            yield from block.unended()
        yield from self._members(others(value, _ABOUT))

    def _ping(self, _: Mapping[str, Any]) -> Iterable[Delta]:
        return ()


_STRAY: Final = OpenBlock()
_NONE: Final = _STRAY, 0
"""For an event about a block that is not open."""

_EVENTS: Final[Mapping[str, Callable[[MessageEvents, Mapping[str, Any]], Iterable[Delta]]]] = MappingProxyType(
    {
        "message_start": MessageEvents._start,
        "content_block_start": MessageEvents._open_block,
        "content_block_delta": MessageEvents._delta,
        "content_block_stop": MessageEvents._close_block,
        "message_delta": MessageEvents._message_delta,
        "message_stop": MessageEvents._message_stop,
        "ping": MessageEvents._ping,
    }
)


def may_pause(document: Mapping[str, Any]) -> bool:
    """Whether the request *document* has tools that the service runs: only those have a type."""
    return any("type" in tool for tool in document.get("tools", ()))


@define
class PausableTurn:
    """Reads all messages of a turn, for `kiro_asgi.upstreams.base.PausingTurn`."""

    _request: UpstreamRequest
    """The first one."""

    _document: Mapping[str, Any]
    """Its body."""

    _budget: AnswerBudget = field(init=False, factory=AnswerBudget)
    _kept: KeptBlocks = field(init=False)
    _events: MessageEvents = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._kept, self._events = KeptBlocks(self._budget), MessageEvents(self._budget)

    def decoder(self, content_type: str) -> tuple[Stage[Any, Any], ...]:
        """Stages, bytes to `Delta`, for the next message.

        Raises:
            NotTheUpstream: Code ``upstream.content_type``: no answer comes in this media type.
        """
        events = reader(content_type)
        self._events.resume()
        return events, self._kept, self._events

    @property
    def paused(self) -> bool:
        """Whether the service goes on if it is handed its content so far."""
        return self._events.paused and self._kept.complete

    def following(self) -> UpstreamRequest:
        """Ask for the next message."""
        messages, content = [*self._document["messages"]], self._kept.blocks
        if messages[-1]["role"] == "assistant":
            content = [*messages.pop()["content"], *content]
        messages.append({"role": "assistant", "content": content})
        return evolve(self._request, body=dumps({**self._document, "messages": messages}))


@define
class KeptBlocks:
    """The stage that passes events on, and keeps the blocks that they make up.

    Raises:
        AnswerTooLarge: They take more than `kiro_asgi.limits.ANSWER_BYTES`.
    """

    _budget: AnswerBudget
    blocks: list[dict[str, Any]] = field(init=False, factory=list)
    """Those that are complete."""

    _open: dict[int, KeptBlock] = field(init=False, factory=dict)
    _lost: bool = field(init=False, default=False)
    """Whether there was content that cannot be handed back."""

    @property
    def complete(self) -> bool:
        """Whether the blocks are all content so far, and none is a call that the client has to answer."""
        return not (self._lost or self._open or any(block.get("type") == "tool_use" for block in self.blocks))

    def feed(self, items: Iterable[JsonEvent | Notice], /) -> Iterator[JsonEvent | Notice]:
        """The same items."""
        for item in items:
            if type(item) is JsonEvent:
                kind = item.value.get("type", item.name)
                if type(kind) is str and kind in _KEPT_EVENTS:
                    _KEPT_EVENTS[kind](self, item.value)
            yield item

    def flush(self) -> Iterator[JsonEvent | Notice]:
        """Nothing is held back."""
        yield from ()

    def _message(self, value: Mapping[str, Any]) -> None:
        """A message may begin with blocks, or be whole."""
        for block in objects_of(object_of(value.get("message")).get("content")):
            self._budget.take(ITEM + size_of_value(block))
            self.blocks.append(dict(block))

    def _start(self, value: Mapping[str, Any]) -> None:
        block, index = object_of(value.get("content_block")), index_of(value)
        self._budget.take(ITEM + size_of_value(block))
        self._lost |= index in self._open
        self._open[index] = KeptBlock(block)

    def _delta(self, value: Mapping[str, Any]) -> None:
        delta, block = object_of(value.get("delta")), self._open.get(index_of(value))
        kind = text_of(delta, "type")
        if block is None or kind not in _KEPT_PIECES:
            self._lost = True
        else:
            self._budget.take(size_of_value(delta))
            block.add(delta)

    def _stop(self, value: Mapping[str, Any]) -> None:
        block = self._open.pop(index_of(value), None)
        try:
            if block is not None:
                self.blocks.append(block.written())
        except JsonError:
            self._lost = True


_KEPT_PIECES: Final = frozenset({*MEMBERS, "citations_delta", "compaction_delta"})
"""Kinds of pieces of which it is known what they add."""

_KEPT_EVENTS: Final[Mapping[str, Callable[[KeptBlocks, Mapping[str, Any]], None]]] = MappingProxyType(
    {
        "message_start": KeptBlocks._message,
        "content_block_start": KeptBlocks._start,
        "content_block_delta": KeptBlocks._delta,
        "content_block_stop": KeptBlocks._stop,
    }
)
