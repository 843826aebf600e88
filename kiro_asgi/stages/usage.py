"""Token counts of an answer, from the best source that reported one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil
from typing import Any, Final

from attrs import asdict, define, evolve, field

from kiro_asgi.model.events import (
    RUN_COUNTS,
    ContextUsage,
    Delta,
    Metering,
    RefusalDelta,
    ServedTier,
    ServerCall,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolInputDelta,
    Usage,
    UsageSource,
)
from kiro_asgi.model.handling import Tier
from kiro_asgi.stages.estimate import COUNTED_AT_ONCE, Estimator, TokenEstimator
from kiro_asgi.wire.json import dumps

_TOKENS_A_CREDIT: Final = 1_000

_CHARACTERS_A_TOKEN: Final = 3
"""Of arguments that were not looked at: JSON has more marks than prose."""


def metered_tokens(amount: float) -> int:
    """A token count from a price: the last resort, as a credit buys no fixed number of tokens.

    A thousand tokens a credit, rounded up; digits that only floating point put there do not round up.
    """
    return ceil(round(amount * _TOKENS_A_CREDIT, 6))


def provenance(usage: Usage) -> str:
    """Where the counts of *usage* come from, in words for a log line, e.g. ``input=context output=upstream``.

    Thinking and cache are named where there is something to name, and the price in the upstream's own unit.
    """
    words = [f"input={usage.input_source.value}", f"output={usage.output_source.value}"]
    if usage.thinking_tokens or usage.thinking_source is UsageSource.UPSTREAM:
        words.append(f"thinking={usage.thinking_source.value}")
    if usage.cache_source is not None:
        words.append(f"cache={usage.cache_source.value}")
    if usage.metering is not None:
        counted = usage.metering.source is UsageSource.UPSTREAM
        words.append(f"{'credits' if counted else 'estimated_credits'}={usage.metering.amount:.6g}")
    return " ".join(words)


@define(kw_only=True)
class UsageMeter:
    """Absorb the upstream's reports of usage, estimate the answer's tokens, and give one `Usage` at the end.

    ============  ==================  ==========================================  =========================  ==========
    count         first choice        second                                      third                      fourth
    ============  ==================  ==========================================  =========================  ==========
    input         upstream's count    share of the context window, minus output   estimate of the prompt
    output        upstream's count    estimate of text, thinking and tool input   credits, if nothing came   0
    thinking      upstream's count    estimate of thinking
    cache         upstream's count    0
    ============  ==================  ==========================================  =========================  ==========

    A count of 0 is a count; only a missing one falls through.  A window share so small that the answer alone would fill
    it has been rounded away and is ignored.  What other runs took (`SideRun`) is added.
    """

    input_tokens: int
    """The prompt's size, estimated."""

    context_window: int | None = None
    """Tokens that 100 % stands for; ``None`` when unknown, then percentages are ignored."""

    estimator: Estimator = field(factory=TokenEstimator)
    output_factor: float = 1.0
    """The calibrated factor of estimates, see `kiro_asgi.stages.estimate`."""

    tier: Tier | None = None
    """The tier by the head of the answer, which counts before what the body says; ``None`` where it has none."""

    _reported: TokenUsage = field(init=False, factory=TokenUsage)
    _percentage: float | None = field(init=False, default=None)
    _metering: Metering | None = field(init=False, default=None)
    _tier: Tier | None = field(init=False, default=None)
    _answer: float = field(init=False, default=0.0)
    _thinking: float = field(init=False, default=0.0)
    _texts: list[str] = field(init=False, factory=list)
    """Of the answer, not counted yet."""

    _thoughts: list[str] = field(init=False, factory=list)
    _length: int = field(init=False, default=0)
    """Characters that are not counted yet."""

    _arguments: int = field(init=False, default=0)
    """Characters of calls that have come so far."""

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """Pass *items* on, all but the reports; a tier goes on, too, as an answer may begin with it."""
        texts = self._texts
        for item in items:
            if type(item) is TextDelta or type(item) is RefusalDelta:
                texts.append(item.text)
                self._length += len(item.text)
            elif type(item) is ToolInputDelta:
                texts.append(item.json)
                self._length += len(item.json)
                self._arguments += len(item.json)
            elif type(item) is ThinkingDelta:
                self._thoughts.append(item.text)
                self._length += len(item.text)
            elif self._absorb(item):
                continue
            if self._length > COUNTED_AT_ONCE:
                self._count()
            yield item

    def flush(self) -> Iterator[Delta]:
        """The one `Usage`."""
        return iter((self.usage,))

    def _absorb(self, item: Delta) -> bool:
        match item:
            case TokenUsage():
                self._reported = added(self._reported, item)
            case ContextUsage(percentage):
                self._percentage = percentage
            case Metering(amount, unit):
                before = self._metering or Metering(0.0)
                self._metering = Metering(before.amount + amount, unit or before.unit)
            case ServedTier(tier):
                self._tier = tier
                return False
            case ServerCall():
                self._texts.append(arguments := dumps(dict(item.input)).decode())
                self._length += len(arguments)
                return False
            case _:
                return False
        return True

    def _count(self) -> None:
        estimate_tokens = self.estimator.estimate_tokens
        self._answer += estimate_tokens("".join(self._texts))
        self._thinking += estimate_tokens("".join(self._thoughts))
        self._texts.clear()
        self._thoughts.clear()
        self._length = 0

    @property
    def usage(self) -> Usage:
        """The counts, as far as the answer has come."""
        self._count()
        reported = self._reported
        output, output_source = self._output()
        caches = (reported.cache_read_tokens, reported.cache_write_tokens)
        read, written = caches[0] or 0, caches[1] or 0
        prompt, input_source = self._input(output + read + written)
        thought, thinking_source = self._thought()
        runs = reported.side_runs or ()
        beside = {name: sum(getattr(run, name) for run in runs) for name in RUN_COUNTS}
        return Usage(
            prompt + beside["input_tokens"],
            output + beside["output_tokens"],
            read + beside["cache_read_tokens"],
            written + beside["cache_write_tokens"],
            min(thought, output),
            input_source,
            output_source,
            self._metering,
            None if caches == (None, None) else UsageSource.UPSTREAM,
            thinking_source,
            ceil(self._answer + self._thinking),
            min(reported.image_tokens or 0, output),
            runs,
            self.tier or self._tier,
        )

    def usage_with(self, arguments: int) -> Usage:
        """The counts of an answer that goes no further, where the service has sent so many characters of calls."""
        usage, held = self.usage, arguments - self._arguments
        if held <= 0 or usage.output_source is not UsageSource.ESTIMATE:
            return usage
        return evolve(usage, output_tokens=usage.output_tokens + ceil(held / _CHARACTERS_A_TOKEN * self.output_factor))

    def _output(self) -> tuple[int, UsageSource]:
        if self._reported.output_tokens is not None:
            return self._reported.output_tokens, UsageSource.UPSTREAM
        tokens = ceil((self._answer + self._thinking) * self.output_factor)
        if not tokens and self._metering is not None:
            return metered_tokens(self._metering.amount), UsageSource.METERING
        return tokens, UsageSource.ESTIMATE

    def _thought(self) -> tuple[int, UsageSource]:
        if self._reported.thinking_tokens is not None:
            return self._reported.thinking_tokens, UsageSource.UPSTREAM
        return ceil(self._thinking * self.output_factor), UsageSource.ESTIMATE

    def _input(self, rest: int) -> tuple[int, UsageSource]:
        if self._reported.input_tokens is not None:
            return self._reported.input_tokens, UsageSource.UPSTREAM
        if self._percentage is not None and self.context_window:
            prompt = round(self._percentage / 100 * self.context_window) - rest
            if prompt > 0:
                return prompt, UsageSource.CONTEXT
        return self.input_tokens, UsageSource.ESTIMATE


def added(old: TokenUsage, new: TokenUsage) -> TokenUsage:
    """Both together; a count that *new* does not give stays as it was."""
    return evolve(old, **{name: count + (getattr(old, name) or type(count)()) for name, count in _given(new)})


def _given(usage: TokenUsage) -> Iterator[tuple[str, Any]]:
    counts = asdict(usage, filter=lambda about, _: about.name != "event_type", recurse=False)
    return ((name, count) for name, count in counts.items() if count is not None)
