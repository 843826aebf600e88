"""Learning from the service's counts how far off our own are.

Tokenizers differ from model to model, and what people write differs too.  Where the service counts, its count is set
against our estimate of the same texts, and later estimates for that model are corrected by what was found.

A service adds instructions of its own to a prompt, and a share of the window is rounded: both drown only in a large
prompt.  An answer may hold thinking that nobody was shown.  So small samples, and those far off, teach nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, exp, expm1, log
from types import MappingProxyType
from typing import Final

from attrs import define, field, frozen

from kiro_asgi.model.events import Usage, UsageSource

__all__ = ["Calibration", "Experience"]

MOST: Final = 2.0
"""The largest correction, up or down: beyond it, something other than the tokenizer is at work."""

FAR_OFF: Final = 4.0
"""Ratio of a count to its estimate, or the reverse, from which on they are not about the same texts."""

STEPS: Final = 256
"""Corrections are whole numbers of this part, hence exact: an answer weighs the same however it is cut."""


@frozen
class _Trust:
    """What a sample from one source is worth."""

    least: int
    """Tokens, by our estimate, below which it is worth nothing."""

    share: float
    """Its part in the correction, once there are many."""


_INPUT: Final[Mapping[UsageSource, _Trust]] = MappingProxyType(
    {UsageSource.UPSTREAM: _Trust(1_024, 1 / 8), UsageSource.CONTEXT: _Trust(4_096, 1 / 16)}
)
_OUTPUT: Final[Mapping[UsageSource, _Trust]] = MappingProxyType({UsageSource.UPSTREAM: _Trust(128, 1 / 8)})


@frozen
class Experience:
    """What is known about the estimates of one kind for one model."""

    samples: int = 0
    lean: float = 0.0
    """Natural logarithm of count ÷ estimate, averaged, the newest weighing most."""

    doubt: float = 0.0
    """How far the logarithm was from *lean* as it was then, averaged likewise."""

    @property
    def factor(self) -> float:
        """What an estimate is multiplied by: from 1/2 to 2, and 1 without experience."""
        return min(max(round(exp(self.lean) * STEPS) / STEPS, 1 / MOST), MOST)

    @property
    def error(self) -> float:
        """By how much corrected estimates were off of late, as a part of the count: 0.05 is five percent."""
        return expm1(self.doubt)

    def after(self, ratio: float, share: float) -> Experience:
        """What is known after one more sample, a count that is *ratio* times its estimate.

        Until there are many, every sample counts alike, and so does the first belief that estimates are right.
        """
        surprise = log(ratio) - self.lean
        share = max(share, 1 / (self.samples + 2))
        doubt = abs(surprise) if not self.samples else self.doubt + share * (abs(surprise) - self.doubt)
        return Experience(self.samples + 1, self.lean + share * surprise, doubt)


_NONE: Final = Experience()


@define
class Calibration:
    """Corrections of estimates, by model id, for prompts and for answers.

    Deterministic: the same samples in the same order lead to the same corrections.  Holds numbers only.
    """

    models: int = 256
    """Models that are remembered; of more, the ones that were not heard of for longest are forgotten."""

    _known: dict[str, tuple[Experience, Experience]] = field(init=False, factory=dict)
    """Input and output, by model id; the one heard of last comes last."""

    def input_factor(self, model: str) -> float:
        """What the weight of a prompt for *model* is multiplied by."""
        return self._of(model)[0].factor

    def output_factor(self, model: str) -> float:
        """What the weight of an answer of *model* is multiplied by."""
        return self._of(model)[1].factor

    def tokens(self, model: str, weight: float) -> int:
        """Whole tokens of a prompt of *weight* for *model*, corrected."""
        return ceil(weight * self.input_factor(model))

    def observe(self, model: str, estimated: float, usage: Usage) -> None:
        """Learn from one answer.

        Args:
            model: Its model's id.
            estimated: The prompt's weight, uncorrected.
            usage: What was counted in the end.
        """
        prompt, answer = self._of(model)
        learnt = (
            _learnt(prompt, usage.prompt_tokens, estimated, _INPUT.get(usage.input_source)),
            _learnt(answer, usage.output_tokens, usage.output_estimate, _OUTPUT.get(usage.output_source)),
        )
        if learnt != (prompt, answer):
            self._known.pop(model, None)
            self._known[model] = learnt
            if len(self._known) > self.models:
                del self._known[next(iter(self._known))]

    def describe(self) -> Mapping[str, tuple[Experience, Experience]]:
        """What is known of each model: about its input, and about its output."""
        return MappingProxyType(dict(self._known))

    def _of(self, model: str) -> tuple[Experience, Experience]:
        return self._known.get(model, (_NONE, _NONE))


def _learnt(experience: Experience, counted: int, estimated: float, trust: _Trust | None) -> Experience:
    if trust is None or estimated < trust.least or not 1 / FAR_OFF < counted / estimated < FAR_OFF:
        return experience
    return experience.after(counted / estimated, trust.share)
