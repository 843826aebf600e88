"""The reason why an answer ended, decided once, and the notices to the client about calls that were withheld."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Final

from attrs import define, field, frozen

from kiro_asgi.errors import UpstreamError, UpstreamProtocolError
from kiro_asgi.model.events import (
    Appendix,
    BlockMembers,
    ContextUsage,
    ConversationId,
    Delta,
    MalformedCall,
    MessageMembers,
    Metering,
    ModelName,
    Notice,
    OpaqueBlock,
    OpaqueEvent,
    RedactedThinking,
    RefusalDelta,
    ServedTier,
    ServerCall,
    SignatureDelta,
    Stop,
    StopReason,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCallCut,
    ToolCallEnd,
    ToolCallMalformed,
)

_MOST: Final = 8
"""Most calls that get a notice each."""

_NAME: Final = 100
"""Characters of a tool's name that a notice shows."""

_SILENT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "en": "[Notice from the gateway] The service ended its answer without a word, and without a reason.",
        "zh": "[网关提示] 服务结束了回答，但没有给出任何内容，也没有说明原因。",
    }
)
_TEXTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "en": "[Notice from the gateway] The model called the tool “{name}” with malformed arguments ({reason}). "
        "The call was withheld, and nothing was executed.",
        "zh": "[网关提示] 模型调用工具“{name}”时给出的参数格式有误（{reason}）。该调用已被拦截，未执行任何操作。",
    }
)


def _notices(calls: Iterable[MalformedCall], language: str) -> Iterator[Appendix]:
    """Notices to the client after the answer, in ``en`` or ``zh``; of very many calls, for the first.

    Without them it would see an answer that just ends, where the model meant to do something.
    """
    for call in islice(calls, _MOST):
        notice = _TEXTS[language].format(name=call.name[:_NAME] or "?", reason=call.reason)
        yield Appendix(f"\n\n{notice}")


NO_TERMINAL_SIGNAL: Final = "stream.no_terminal_signal"
"""The answer ended without a stop reason and without any report on usage: perhaps it was cut."""

MISSING: Final = Notice("stop.missing")
"""The service says that its answer has ended, where it has to say why, and does not."""


SILENT: Final = "stop.silent"
"""The answer ended without a word, and without a reason."""

NO_CALL: Final = "stop.no_call"
"""The answer ended with the words that it calls a tool, and holds no call: it was lost at the service."""


@frozen
class _Row:
    reported: frozenset[StopReason | None]
    """The upstream's last stop reason; ``None`` for no `Stop` at all."""

    seen: frozenset[type]
    """Kinds of delta, any of which the answer must hold; empty for anything at all."""

    verdict: StopReason | None
    """``None`` leaves the upstream's stop reason as it is."""


_FINAL: Final = frozenset(
    {
        StopReason.LENGTH,
        StopReason.CONTENT_FILTER,
        StopReason.REFUSAL,
        StopReason.STOP_SEQUENCE,
        StopReason.CONTEXT_FULL,
        StopReason.COMPACTED,
    }
)
_DONE: Final = frozenset({StopReason.END, StopReason.TOOL_CALL})
_WHOLE_ENDS: Final = frozenset({None, *_DONE, StopReason.COMPACTED})
"""Ends of an answer of which nothing is missing, so that one that shows nothing had something that cannot be shown."""

_ANY: Final = frozenset({None, *StopReason})
_NONE: Final = frozenset({None})
_ANYTHING: Final[frozenset[type]] = frozenset()

_THINKING: Final = frozenset({ThinkingDelta, RedactedThinking, SignatureDelta})
_REPORTS: Final = frozenset({TokenUsage, ContextUsage, Metering})
_WHOLE: Final = frozenset({ToolCallEnd, ServerCall})
"""Kinds of delta that come only when all of it has arrived."""

_LABELS: Final = frozenset({ConversationId, ModelName, ServedTier, Notice, MessageMembers, BlockMembers, OpaqueEvent})
"""Kinds of delta that may come without an answer."""

_CONTENT: Final = frozenset(
    {
        *(TextDelta, RefusalDelta, ToolCallEnd, ToolCallCut, ToolCallMalformed, Appendix, OpaqueBlock),
    }
)
"""Kinds of delta that show something; a search that the service ran is no answer yet."""

_CALLED: Final = frozenset({ToolCallEnd, ToolCallCut, ToolCallMalformed, ServerCall, OpaqueBlock, OpaqueEvent})
"""Kinds of delta that are a call, or may be."""

_LOST: Final = frozenset(
    {
        *("content.unknown", "content.unreadable", "block.unknown", "item.unknown", "delta.unknown", "event.unknown"),
        *("event.undecodable", "event.malformed", "line.undecodable", "chunk.unreadable", "choice.unreadable"),
        *("delta.undecodable", "refusal.unreadable", "tool_call.unreadable", "tool_call.unnamed"),
    }
)
"""Codes of notices of something that may have been content."""

_TABLE: Final = (
    _Row(_FINAL, _ANYTHING, None),
    _Row(_ANY, frozenset({ToolCallCut}), StopReason.LENGTH),
    _Row(_ANY, frozenset({ToolCallEnd}), StopReason.TOOL_CALL),
    _Row(frozenset({StopReason.TOOL_CALL}), _ANYTHING, StopReason.END),
    _Row(frozenset({StopReason.END, StopReason.PAUSED}), _ANYTHING, None),
    _Row(_NONE, frozenset({TextDelta, RefusalDelta, ServerCall, ToolCallMalformed, OpaqueBlock}), StopReason.END),
    _Row(_NONE, _THINKING, StopReason.LENGTH),
    _Row(_NONE, _ANYTHING, StopReason.END),
)
"""The first row that fits decides."""


@define
class EndOfStream:
    """Absorb every `Stop`; yield one, decided from the last, when the answer has ended.

    =========================================================  ===============================  =======================
    the upstream's last stop reason                            the answer holds                 verdict
    =========================================================  ===============================  =======================
    ``LENGTH CONTENT_FILTER STOP_SEQUENCE CONTEXT_FULL``       anything                         the upstream's own
    ``REFUSAL COMPACTED``
    ``END TOOL_CALL PAUSED`` or none                           a tool call that was cut         ``LENGTH``
    ``END TOOL_CALL PAUSED`` or none                           a complete tool call             ``TOOL_CALL``
    ``END TOOL_CALL``                                          no tool call                     ``END``
    ``TOOL_CALL``                                              nothing that it shows            an error
    ``PAUSED``                                                 no tool call                     the upstream's own
    none                                                       text, a refusal, a server        ``END``
                                                               tool's call, one that is
                                                               malformed, or a block that is
                                                               not understood
    none                                                       thinking, neither of those       ``LENGTH``
    none                                                       nothing but reports              ``END``, with a notice
    none, where the service has to give one                    nothing but reports              an error
    none                                                       nothing at all                   an error
    =========================================================  ===============================  =======================

    The call of a server tool is no tool call: it is answered before the message ends (F216).

    A `Notice` says of text that ends with the words that a tool is called that there is no call.

    Text without any terminal signal, neither stop reason nor report on usage, adds a `Notice`: some accounts never
    receive a stop reason, so its absence alone is no failure.  The notices about calls that were withheld as
    malformed come before the verdict.

    Raises:
        UpstreamProtocolError: The stream held no answer at all (from `flush`, before anything else comes of it).
        UpstreamError: Code ``answer.unreadable``, from `flush`: all that it held was passed over, and it says of itself
            that it is complete.  Asked again, the service would send the same.
    """

    _language: str = ""
    """Language of the notices to the client, ``en`` or ``zh``; empty for no notice."""

    _stop: Stop | None = field(init=False, default=None)
    _seen: set[type] = field(init=False, factory=set)
    """Kinds of deltas that came, without `Stop`, malformed calls, and empty text."""

    _malformed: list[MalformedCall] = field(init=False, factory=list)
    _lost: Notice | None = field(init=False, default=None)
    """The first of what was passed over."""

    _missing: bool = field(init=False, default=False)
    """Whether the service owes a stop reason."""

    _withheld: bool = field(init=False, default=False)
    """Whether a call came that the client is not given."""

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """Pass *items* on, all but `Stop`."""
        seen = self._seen
        for item in items:
            if type(item) in seen:
                yield item
            elif type(item) is Stop:
                self._stop = item
            elif type(item) is Notice:
                if self._lost is None and item.code in _LOST:
                    self._lost = item
                self._missing |= item == MISSING
                self._withheld |= item.code.startswith("tool_call.")
                yield item
            elif type(item) is ToolCallMalformed:
                self._malformed.append(item.info)
                yield item
            else:
                if not isinstance(item, TextDelta | ThinkingDelta) or item.text:
                    seen.add(type(item))
                yield item

    def flush(self) -> Iterator[Delta]:
        """The verdict, after the notices."""
        seen = self._seen
        if self._malformed:
            seen.add(ToolCallMalformed)
            yield from _notices(self._malformed if self._language else (), self._language)
        if self._stop is None and seen <= (_LABELS | _REPORTS if self._missing else _LABELS):
            raise UpstreamProtocolError("the upstream's answer is empty", code="stream.empty")
        if self._lost is not None and seen.isdisjoint(_CONTENT) and self._reported in _WHOLE_ENDS:
            what = ": ".join(filter(None, (self._lost.code, self._lost.detail)))
            raise UpstreamError(
                f"the service's answer holds nothing that can be shown ({what})", code="answer.unreadable"
            )
        if self._reported is StopReason.TOOL_CALL and seen.isdisjoint(_CALLED) and not self._withheld:
            if seen.isdisjoint(_CONTENT):
                raise UpstreamProtocolError("the upstream's answer lacks the call that it ends with", code=NO_CALL)
            yield Notice(NO_CALL)
        is_unclear = self._stop is None and TextDelta in seen and seen.isdisjoint(_REPORTS | _WHOLE)
        if is_unclear and not self._missing:
            yield Notice(NO_TERMINAL_SIGNAL)
        if self._stop is None and seen.isdisjoint(_CONTENT | _THINKING | {ServerCall}):
            yield Notice(SILENT)
            yield from (Appendix(text) for language, text in _SILENT.items() if language == self._language)
        yield self._verdict()

    @property
    def _reported(self) -> StopReason | None:
        return None if self._stop is None else self._stop.reason

    def _verdict(self) -> Stop:
        stop, reported = self._stop, self._reported
        for row in _TABLE:
            if reported in row.reported and not (row.seen and row.seen.isdisjoint(self._seen)):
                break
        if row.verdict is not None:
            return Stop(row.verdict)
        assert stop is not None, "a row for no stop reason has a verdict of its own"
        return stop
