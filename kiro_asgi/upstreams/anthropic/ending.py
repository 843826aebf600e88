"""How an answer ended, and what it cost.

Source: https://docs.anthropic.com/en/api/handling-stop-reasons
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import define, field

from kiro_asgi.model.events import Delta, Notice, Stop, StopReason, TokenUsage
from kiro_asgi.upstreams.errors import clean
from kiro_asgi.wire.members import count, text_of

__all__ = ["STOP_REASONS", "Ending"]

STOP_REASONS: Final[Mapping[str, StopReason]] = MappingProxyType(
    {
        "end_turn": StopReason.END,
        "tool_use": StopReason.TOOL_CALL,
        "max_tokens": StopReason.LENGTH,
        "stop_sequence": StopReason.STOP_SEQUENCE,
        "refusal": StopReason.CONTENT_FILTER,
        "model_context_window_exceeded": StopReason.CONTEXT_FULL,
        "pause_turn": StopReason.PAUSED,
    }
)
"""``stop_reason`` to what it means; any other is an end that is noted."""

_COUNTS: Final = (
    ("input_tokens", "input_tokens"),
    ("output_tokens", "output_tokens"),
    ("cache_read_tokens", "cache_read_input_tokens"),
    ("cache_write_tokens", "cache_creation_input_tokens"),
)
"""Our name of a count, and the service's."""


@define
class Ending:
    """Gathers what the service says about the end, until it is the end."""

    complete: bool = False
    """Whether the message has ended."""

    _stop: Stop | None = field(init=False, default=None)
    _counts: dict[str, int] = field(init=False, factory=dict)

    def count(self, usage: Any) -> None:
        """Learn from ``usage``: counts are cumulative, but for a 0 that stands for "as before"."""
        if type(usage) is not dict:
            return
        for ours, theirs in _COUNTS:
            self._learn(ours, usage.get(theirs))
        details = usage.get("output_tokens_details")
        if type(details) is dict:
            self._learn("thinking_tokens", details.get("thinking_tokens"))

    def _learn(self, name: str, value: Any) -> None:
        said = count(value)
        if said or (said == 0 and name not in self._counts):
            self._counts[name] = said

    def stop(self, delta: Mapping[str, Any]) -> Iterator[Delta]:
        """Learn from ``stop_reason``; a notice where it is none of those known."""
        said = text_of(delta, "stop_reason")
        if not said:
            return iter(())
        reason = STOP_REASONS.get(said)
        sequence = text_of(delta, "stop_sequence") if reason is StopReason.STOP_SEQUENCE else ""
        self._stop = Stop(reason or StopReason.END, sequence or None)
        return iter(() if reason else (Notice("stop.unknown", clean(said)[:60]),))

    @property
    def paused(self) -> bool:
        """Whether the message has ended before the turn did."""
        return self.complete and self._stop is not None and self._stop.reason is StopReason.PAUSED

    def deltas(self) -> Iterator[Delta]:
        """What there is to say at the end; counts that are all 0 come from a service that does not count."""
        if any(self._counts.values()):
            yield TokenUsage(**self._counts)
        if self._stop is not None:
            yield self._stop
