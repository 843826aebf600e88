"""Ending an answer where the client said, for upstreams that cannot be told."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final

from attrs import define, field

from kiro_asgi.model.events import (
    Delta,
    FollowupPrompt,
    RedactedThinking,
    SignatureDelta,
    Stop,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolCallCut,
    ToolCallEnd,
    ToolCallFragment,
    ToolCallStart,
    ToolInputDelta,
)
from kiro_asgi.stages.estimate import Estimator, TokenEstimator
from kiro_asgi.stages.matching import WordMatcher

__all__ = ["Limits"]

_CONTENT: Final = frozenset(
    {
        TextDelta,
        ThinkingDelta,
        SignatureDelta,
        RedactedThinking,
        ToolCallFragment,
        ToolCallStart,
        ToolInputDelta,
        ToolCallEnd,
        ToolCallCut,
        FollowupPrompt,
        Stop,
    }
)
"""What does not come any more behind a limit; reports on usage still do."""


@define(kw_only=True)
class Limits:
    """End the answer at a stop sequence or at a number of tokens, whichever comes first.

    A stop sequence is found across deltas, in text only, and not across anything that interrupts the text.  Of several,
    that counts which is complete first.  Neither it nor what follows goes out; text that may be the beginning of one is
    held until that is certain.

    Tokens are estimated over text, thinking and tool input.  A text that passes the limit is cut there; a tool call
    that does is left unfinished.
    """

    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    estimator: Estimator = field(factory=TokenEstimator)

    reached: bool = field(init=False, default=False)
    """Whether the answer has been ended; all that may still come of use are reports on usage."""

    _matcher: WordMatcher = field(init=False)
    _active: bool = field(init=False)
    _held: str = field(init=False, default="")
    _weight: float = field(init=False, default=0.0)

    def __attrs_post_init__(self) -> None:
        self._matcher = WordMatcher(self.stop)
        self._active = any(self.stop) or self.max_tokens is not None

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """Pass *items* on, up to the limit."""
        return self._limit(items) if self._active else iter(items)

    def flush(self) -> Iterator[Delta]:
        """The text that was held."""
        yield from self._release()

    def _limit(self, items: Iterable[Delta]) -> Iterator[Delta]:
        for item in items:
            if self.reached:
                if type(item) not in _CONTENT:
                    yield item
            elif type(item) is TextDelta:
                yield from self._text(item) if self._matcher else self._spend(item)
            elif type(item) in _CONTENT:
                yield from self._release()
                yield from self._other(item)
            else:
                yield item

    def _text(self, delta: TextDelta) -> tuple[Delta, ...]:
        found = self._matcher.find(delta.text)
        pending = self._matcher.pending
        if found is None and not pending and not self._held:
            return self._spend(delta)
        held, text = self._held, self._held + delta.text
        if found is None:
            keep = len(text) - pending
            self._held = text[keep:]
            return self._spend(TextDelta(text[:keep]))
        end, word = found
        self._held = ""
        shown = self._spend(TextDelta(text[: len(held) + end - len(word)]))
        if self.reached:
            return shown
        self.reached = True
        return (*shown, Stop(StopReason.STOP_SEQUENCE, word))

    def _release(self) -> tuple[Delta, ...]:
        """The text that was held: no stop sequence comes of it."""
        held, self._held = self._held, ""
        self._matcher.reset()
        return self._spend(TextDelta(held)) if held and not self.reached else ()

    def _other(self, item: Delta) -> tuple[Delta, ...]:
        if self.reached:
            return ()
        match item:
            case ThinkingDelta():
                return self._spend(item)
            case ToolCallFragment(input=json) | ToolInputDelta(json):
                return (item,) if self._pay(json) else (Stop(StopReason.LENGTH),)
            case _:
                return (item,)

    def _spend(self, delta: TextDelta | ThinkingDelta) -> tuple[Delta, ...]:
        """*delta*, or as much of it as the limit leaves."""
        text = delta.text
        if not text:
            return ()
        if self._pay(text):
            return (delta,)
        part = text[: self._fitting(text)]
        return (*((type(delta)(part),) if part else ()), Stop(StopReason.LENGTH))

    def _pay(self, text: str) -> bool:
        """Count *text*, unless that passes the limit."""
        if self.max_tokens is None:
            return True
        weight = self._weight + self.estimator.weigh(text)
        if weight > self.max_tokens:
            self.reached = True
            return False
        self._weight = weight
        return True

    def _fitting(self, text: str) -> int:
        """How many characters of *text* the limit leaves."""
        assert self.max_tokens is not None, "there is no limit"
        left = self.max_tokens - self._weight
        return bisect_right(range(1, len(text)), left, key=lambda size: self.estimator.weigh(text[:size]))
