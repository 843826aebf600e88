"""The reason why an answer ended, decided once, and what the client is told of calls that were withheld."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Final

from attrs import define, field, frozen

from kiro_asgi.errors import UpstreamProtocolError
from kiro_asgi.model.events import (
    Appendix,
    ContextUsage,
    ConversationId,
    Delta,
    MalformedCall,
    Metering,
    ModelName,
    Notice,
    RedactedThinking,
    RefusalDelta,
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
"""Calls that are told of one by one."""

_NAME: Final = 100
"""Characters of a tool's name that are told."""

_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "en": "[Notice from the gateway] The model called the tool “{name}” with malformed arguments ({reason}). "
        "The call was withheld, and nothing was executed.",
        "zh": "[网关提示] 模型调用工具“{name}”时给出的参数格式有误（{reason}）。该调用已被拦截，未执行任何操作。",
    }
)


def _words_for(calls: Iterable[MalformedCall], language: str) -> Iterator[Appendix]:
    """The notice to the client after the answer, in ``en`` or ``zh``; of very many calls, it names the first.

    Without a word it would see an answer that just ends, where the model meant to do something.
    """
    for call in islice(calls, _MOST):
        said = _WORDS[language].format(name=call.name[:_NAME] or "?", reason=call.reason)
        yield Appendix(f"\n\n{said}")


NO_TERMINAL_SIGNAL: Final = "stream.no_terminal_signal"
"""The answer ended without a stop reason and without any report on usage: perhaps it was cut."""


@frozen
class _Row:
    said: frozenset[StopReason | None]
    """The upstream's last word; ``None`` is silence."""

    seen: frozenset[type]
    """Kinds of delta, any of which the answer must hold; empty for anything at all."""

    verdict: StopReason | None
    """``None`` leaves the upstream's word as it is."""


_FINAL: Final = frozenset(
    {
        StopReason.LENGTH,
        StopReason.CONTENT_FILTER,
        StopReason.REFUSAL,
        StopReason.STOP_SEQUENCE,
        StopReason.CONTEXT_FULL,
    }
)
_ANY: Final = frozenset({None, *StopReason})
_SILENT: Final = frozenset({None})
_WHATEVER: Final[frozenset[type]] = frozenset()

_THINKING: Final = frozenset({ThinkingDelta, RedactedThinking, SignatureDelta})
_REPORTS: Final = frozenset({TokenUsage, ContextUsage, Metering})
_WHOLE: Final = frozenset({ToolCallEnd, ServerCall})
"""Kinds of delta that come only when all of it has arrived."""

_LABELS: Final = frozenset({ConversationId, ModelName, Notice})
"""Kinds of delta that may come without an answer."""

_TABLE: Final = (
    _Row(_FINAL, _WHATEVER, None),
    _Row(_ANY, frozenset({ToolCallCut}), StopReason.LENGTH),
    _Row(_ANY, frozenset({ToolCallEnd}), StopReason.TOOL_CALL),
    _Row(frozenset({StopReason.TOOL_CALL}), _WHATEVER, StopReason.END),
    _Row(frozenset({StopReason.END, StopReason.PAUSED}), _WHATEVER, None),
    _Row(_SILENT, frozenset({TextDelta, RefusalDelta, ServerCall, ToolCallMalformed}), StopReason.END),
    _Row(_SILENT, _THINKING, StopReason.LENGTH),
    _Row(_SILENT, _WHATEVER, StopReason.END),
)
"""The first row that fits decides."""


@define
class EndOfStream:
    """Absorb every `Stop` and say one, the last, when the answer has ended.

    =========================================================  ===============================  =======================
    the upstream's last word                                   the answer holds                 verdict
    =========================================================  ===============================  =======================
    ``LENGTH CONTENT_FILTER STOP_SEQUENCE CONTEXT_FULL``       anything                         as the upstream said
    ``REFUSAL``
    ``END TOOL_CALL PAUSED`` or silence                        a tool call that was cut         ``LENGTH``
    ``END TOOL_CALL PAUSED`` or silence                        a complete tool call             ``TOOL_CALL``
    ``END TOOL_CALL``                                          no tool call                     ``END``
    ``PAUSED``                                                 no tool call                     as the upstream said
    silence                                                    text, a refusal, a server        ``END``
                                                               tool's call, or one that is
                                                               malformed
    silence                                                    thinking, neither of those       ``LENGTH``
    silence                                                    nothing but reports              ``END``, an empty answer
    silence                                                    nothing at all                   an error
    =========================================================  ===============================  =======================

    The call of a server tool is no tool call: it is answered before the message ends (F216).

    Text without any terminal signal, neither stop reason nor report on usage, adds a `Notice`: some accounts never
    receive a stop reason, so its absence alone is no failure.  Calls that were withheld as malformed are told of before
    the verdict.

    Raises:
        UpstreamProtocolError: The stream held no answer at all (from `flush`, before anything else comes of it).
    """

    _language: str = ""
    """Language in which the client is told of malformed calls, ``en`` or ``zh``; empty for not at all."""

    _stop: Stop | None = field(init=False, default=None)
    _seen: set[type] = field(init=False, factory=set)
    """Kinds of deltas that came, without `Stop`, malformed calls, and empty text."""

    _malformed: list[MalformedCall] = field(init=False, factory=list)

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """Pass *items* on, all but `Stop`."""
        seen = self._seen
        for item in items:
            if type(item) in seen:
                yield item
            elif type(item) is Stop:
                self._stop = item
            elif type(item) is ToolCallMalformed:
                self._malformed.append(item.info)
                yield item
            else:
                if not isinstance(item, TextDelta | ThinkingDelta) or item.text:
                    seen.add(type(item))
                yield item

    def flush(self) -> Iterator[Delta]:
        """The verdict, behind the last words."""
        seen = self._seen
        if self._malformed:
            seen.add(ToolCallMalformed)
            yield from _words_for(self._malformed if self._language else (), self._language)
        if self._stop is None and seen <= _LABELS:
            raise UpstreamProtocolError("the upstream's answer is empty", code="stream.empty")
        if self._stop is None and TextDelta in seen and seen.isdisjoint(_REPORTS | _WHOLE):
            yield Notice(NO_TERMINAL_SIGNAL)
        yield self._verdict()

    def _verdict(self) -> Stop:
        stop = self._stop
        said = stop.reason if stop else None
        for row in _TABLE:
            if said in row.said and not (row.seen and row.seen.isdisjoint(self._seen)):
                break
        if row.verdict is not None:
            return Stop(row.verdict)
        assert stop is not None, "a row for silence has a verdict of its own"
        return stop
