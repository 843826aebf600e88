"""Cutting an answer into numbered blocks: the last stage that is the same for every dialect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, get_args

from attrs import define, field

from kiro_asgi.limits import EARLY_MEMBERS, REMEMBERED_NOTICES
from kiro_asgi.model.budget import AnswerBudget, size_of
from kiro_asgi.model.events import (
    Appendix,
    BlockEnd,
    BlockKind,
    BlockMembers,
    BlockStart,
    Citation,
    CodeReferences,
    ConversationId,
    Delta,
    Event,
    MalformedCall,
    MessageEnd,
    MessageMembers,
    MessageStart,
    ModelName,
    Notice,
    OpaqueBlock,
    OpaqueEvent,
    RedactedThinking,
    RefusalDelta,
    ServedTier,
    ServerCall,
    ServerResult,
    SignatureDelta,
    Stop,
    StopReason,
    TextBreak,
    TextDelta,
    ThinkingDelta,
    ToolCallCut,
    ToolCallEnd,
    ToolCallMalformed,
    ToolCallStart,
    ToolInputDelta,
    TruncationInfo,
    Usage,
)
from kiro_asgi.model.handling import Tier
from kiro_asgi.model.signatures import read_mark
from kiro_asgi.model.unread import Unread
from kiro_asgi.stages.own import DECODER, DELTAS, no_delta

_Remembered = Stop | Usage | Notice | CodeReferences | ModelName | ServedTier | ConversationId


@define(kw_only=True)
class BlockFramer:
    """Turn deltas into events that obey the grammar of `kiro_asgi.model.events`.

    The message starts with the first delta that shows something, so a client that waits for an event waits for the
    model, not for the connection.  Empty text opens nothing; an answer without any block gets one empty text block.  A
    signature is held until its thinking block closes; one that comes outside of thinking gets a thinking block of its
    own, and so does a marked one (`kiro_asgi.model.signatures`) that comes after another.  Text after a citation or a
    `TextBreak` stands in a block of its own, which continues the one before unless that had a phase; a citation that
    follows no text is dropped.  What is not understood of the message is held until it starts, for it shows nothing,
    unless there is much of it.

    The framer does not decide: `Stop` and `Usage` come from stages before it, and the last one of each counts.

    Raises:
        AnswerTooLarge: There is no room for a notice, a reference, a cut call, or what waits for the start.
        TypeError: An item is no delta: a mistake of who wrote the stage that it comes from.
    """

    input_tokens: int = 0
    """The prompt's size, for `MessageStart`."""

    tier: Tier | None = None
    """The service tier, for `MessageStart`: that by the head of the answer, or the first that the service names."""

    lead_in: str = ""
    """Text before a tool call that nothing else precedes; empty for none."""

    budget: AnswerBudget = field(factory=AnswerBudget)
    """The answer's, charged with what `MessageEnd` reports."""

    started: bool = field(init=False, default=False)
    """Whether `MessageStart` went out."""

    end: MessageEnd | None = field(init=False, default=None)
    """The last event, once it was sent."""

    model_name: str = field(init=False, default="")
    """The model that really answers, if the upstream reported it."""

    conversation_id: str = field(init=False, default="")

    _accepts: type | None = field(init=False, default=None)
    """The kind of delta that needs nothing but to be passed on."""

    _open: BlockKind | None = field(init=False, default=None)
    _next: int = field(init=False, default=0)
    _broken: bool = field(init=False, default=False)
    """Whether what came last is text that goes on in another block."""

    _signature: str = field(init=False, default="")
    _unread: list[Unread] = field(init=False, factory=list)
    """Members of the message that came before its start."""

    _early: list[Event] = field(init=False, factory=list)
    """Events that did."""

    _stop: Stop = field(init=False, default=Stop(StopReason.END))
    _usage: Usage = field(init=False)
    _truncations: list[TruncationInfo] = field(init=False, factory=list)
    _malformed: list[MalformedCall] = field(init=False, factory=list)
    _references: list[dict[str, Any]] = field(init=False, factory=list)
    _notices: list[Notice] = field(init=False, factory=list)

    def __attrs_post_init__(self) -> None:
        self._usage = Usage(input_tokens=self.input_tokens)

    def feed(self, items: Iterable[Delta], /) -> Iterator[Event]:
        """The events that *items* lead to."""
        for item in items:
            if type(item) is self._accepts:
                yield item  # type: ignore[misc]  # a piece of a block is an event
            elif (handle := _HANDLERS.get(type(item))) is not None:
                yield from handle(self, item)
            elif type(item) not in DELTAS:
                no_delta(item, DECODER)

    def flush(self) -> Iterator[Event]:
        """Close what is open and end the message."""
        if not self._next:
            yield from self._open_block(BlockKind.TEXT)
            yield TextDelta("")
        if self._open is not None:
            yield from self._close_block()
        self.end = MessageEnd(
            self._stop.reason,
            self._stop.sequence,
            self._usage,
            tuple(self._truncations),
            tuple(self._references),
            tuple(self._notices),
            tuple(self._malformed),
            self._stop.declined,
        )
        yield self.end

    @property
    def opened(self) -> bool:
        """Whether a block was opened."""
        return self._next > 0

    def begin(self) -> Iterator[Event]:
        """Start the message now, if it has not been: for a client that cannot wait any longer."""
        if not self.started:  # set only once the event is taken: an output that sends nothing yet does not take it
            self.started = True
            yield MessageStart(Usage(input_tokens=self.input_tokens, tier=self.tier), tuple(self._unread))
            yield from self._early

    # The events of a delta are few and known at once: a tuple of them costs less than a generator within a generator.

    def _open_block(
        self,
        kind: BlockKind,
        call_id: str = "",
        name: str = "",
        data: str = "",
        value: ServerCall | ServerResult | OpaqueBlock | None = None,
        unread: Unread | None = None,
    ) -> tuple[Event, ...]:
        before = (*(() if self.started else self.begin()), *(() if self._open is None else self._close_block()))
        continues = self._broken and kind is BlockKind.TEXT
        self._broken = False
        start = BlockStart(self._next, kind, call_id, name, data, value, continues, unread)
        self._next += 1
        self._open = kind
        self._accepts = _PIECE[kind]
        return (*before, start)

    def _close_block(self, phase: str = "") -> tuple[Event, ...]:
        if self._open is None:
            return ()
        signature, self._signature = self._signature, ""
        self._open = self._accepts = None
        end = BlockEnd(self._next - 1, phase)
        return (SignatureDelta(signature), end) if signature else (end,)

    def _text(self, delta: TextDelta | RefusalDelta | ThinkingDelta) -> tuple[Event, ...]:
        if not isinstance(delta.text, str):  # an empty answer would show nothing of it
            raise TypeError(f"a {type(delta).__name__} holds a {type(delta.text).__name__}; it must hold text")
        return (*self._open_block(_KINDS[type(delta)]), delta) if delta.text else ()

    def _break(self, delta: TextBreak) -> tuple[Event, ...]:
        if self._open is not BlockKind.TEXT:
            return ()
        self._broken = not delta.phase
        return self._close_block(delta.phase)

    def _cite(self, citation: Citation) -> tuple[Event, ...]:
        if self._open is not BlockKind.TEXT:
            return ()
        self._accepts, self._broken = None, True
        return (citation,)

    def _appendix(self, delta: Appendix) -> tuple[Event, ...]:
        self._broken = False
        return (*self._text(TextDelta(delta.text)), *self._close_block())

    def _seal(self, delta: SignatureDelta) -> tuple[Event, ...]:
        if not delta.signature:
            return ()
        opened: tuple[Event, ...] = ()
        if self._open is not BlockKind.THINKING or _apart(self._signature, delta.signature):
            opened = self._open_block(BlockKind.THINKING)
        self._signature = delta.signature
        self._accepts = None  # a seal does not cover thinking after it
        return opened

    def _redacted(self, delta: RedactedThinking) -> tuple[Event, ...]:
        opened = self._open_block(BlockKind.REDACTED_THINKING, data=delta.data, unread=delta.unread)
        return (*opened, *self._close_block())

    def _call(self, delta: ToolCallStart) -> tuple[Event, ...]:
        lead_in = self._text(TextDelta(self.lead_in)) if self.lead_in and not self._next else ()
        return (*lead_in, *self._open_block(BlockKind.TOOL_CALL, delta.call_id, delta.name, unread=delta.unread))

    def _call_end(self, delta: ToolCallEnd) -> tuple[Event, ...]:
        assert self._open is BlockKind.TOOL_CALL, "a tool call ended that is not open"
        late = () if delta.unread is None else (BlockMembers(BlockKind.TOOL_CALL, delta.unread),)
        return (*late, *self._close_block())

    def _call_cut(self, delta: ToolCallCut) -> tuple[Event, ...]:
        self._keep(self._truncations, delta.info)
        return self._close_call()

    def _call_malformed(self, delta: ToolCallMalformed) -> tuple[Event, ...]:
        self._keep(self._malformed, delta.info)
        return self._close_call()

    def _close_call(self) -> tuple[Event, ...]:
        """Of a call that is given up, a part may have been sent."""
        return self._close_block() if self._open is BlockKind.TOOL_CALL else ()

    def _server_call(self, delta: ServerCall) -> tuple[Event, ...]:
        return (*self._open_block(BlockKind.SERVER_CALL, value=delta), *self._close_block())

    def _server_result(self, delta: ServerResult) -> tuple[Event, ...]:
        """The result, and once more as text, unless the model rewords it afterwards."""
        opened = self._open_block(BlockKind.SERVER_RESULT, value=delta)
        if delta.output.reworded:
            return (*opened, *self._close_block())
        return (*opened, *self._appendix(Appendix(delta.output.told)))

    def _members(self, delta: BlockMembers) -> tuple[Event, ...]:
        """They begin a block, too, where none of the kind is open, or its seal says that it is complete."""
        if self._open is delta.kind and not self._signature:
            return (delta,)
        return self._open_block(delta.kind, unread=delta.unread)

    def _opaque_block(self, delta: OpaqueBlock) -> tuple[Event, ...]:
        return (*self._open_block(BlockKind.OPAQUE, value=delta), *self._close_block())

    def _of_message(self, delta: MessageMembers | OpaqueEvent) -> tuple[Event, ...]:
        if not self._next:  # who writes it may keep it as long as there is no block
            self.budget.take(size_of(delta))
        if self.started:
            return (delta,)
        if isinstance(delta, MessageMembers):
            self._unread.append(delta.unread)
        else:
            self._early.append(delta)
        return () if len(self._unread) + len(self._early) < EARLY_MEMBERS else tuple(self.begin())

    def _input(self, _: ToolInputDelta) -> tuple[Event, ...]:
        raise AssertionError("arguments came while no tool call was open")

    def _remember(self, delta: _Remembered) -> tuple[Event, ...]:
        match delta:
            case Stop():
                self._stop = delta
            case Usage():
                self._usage = delta
            case Notice():
                self._keep(self._notices, delta)
            case CodeReferences(references):
                self._keep(self._references, *references)
            case ModelName(value):
                self.model_name = value
            case ServedTier(tier):
                self.tier = self.tier or tier
            case _:
                self.conversation_id = delta.value
        return ()

    def _keep(self, kept: list[Any], *more: Any) -> None:
        """Remember *more* as well, up to the limit on their number."""
        for item in more[: REMEMBERED_NOTICES - len(kept)]:
            self.budget.take(size_of(item))
            kept.append(item)


def _apart(earlier: str, later: str) -> bool:
    """Whether neither of two signatures replaces the other: those with a mark are of one part each."""
    return bool(earlier) and later != earlier and bool(read_mark(later).owner)


_KINDS: Final[Mapping[type, BlockKind]] = MappingProxyType(
    {TextDelta: BlockKind.TEXT, RefusalDelta: BlockKind.REFUSAL, ThinkingDelta: BlockKind.THINKING}
)
"""Piece of text to the block that it stands in."""

_PIECE: Final[Mapping[BlockKind, type | None]] = MappingProxyType(
    {
        **{kind: piece for piece, kind in _KINDS.items()},
        BlockKind.REDACTED_THINKING: None,
        BlockKind.TOOL_CALL: ToolInputDelta,
        **dict.fromkeys((BlockKind.SERVER_CALL, BlockKind.SERVER_RESULT, BlockKind.OPAQUE)),
    }
)
"""The kind of delta that continues a block of each kind."""

_HANDLERS: Final[Mapping[type, Callable[[BlockFramer, Any], tuple[Event, ...]]]] = MappingProxyType(
    {
        **dict.fromkeys(_KINDS, BlockFramer._text),
        TextBreak: BlockFramer._break,
        Citation: BlockFramer._cite,
        Appendix: BlockFramer._appendix,
        SignatureDelta: BlockFramer._seal,
        RedactedThinking: BlockFramer._redacted,
        ToolCallStart: BlockFramer._call,
        ToolInputDelta: BlockFramer._input,
        ToolCallEnd: BlockFramer._call_end,
        ToolCallCut: BlockFramer._call_cut,
        ToolCallMalformed: BlockFramer._call_malformed,
        ServerCall: BlockFramer._server_call,
        ServerResult: BlockFramer._server_result,
        BlockMembers: BlockFramer._members,
        OpaqueBlock: BlockFramer._opaque_block,
        **dict.fromkeys((MessageMembers, OpaqueEvent), BlockFramer._of_message),
        **dict.fromkeys(get_args(_Remembered), BlockFramer._remember),
    }
)
"""The handler of a delta that does not continue the open block; any other delta is dropped."""
