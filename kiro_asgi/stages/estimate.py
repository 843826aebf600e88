"""Estimates of token counts without a tokenizer, and their correction by experience.

Tokenizers of the models behind us are not public, and a count is needed before the service reports one.  An estimate
has the right order of magnitude, at a negligible cost.

Tokenizers differ from model to model, and what people write differs too.  Where the service counts, its count is set
against our estimate of the same texts, and later estimates for that model are corrected by what was found.  A service
adds instructions of its own to a prompt, and a share of the window is rounded: both drown only in a large prompt.  An
answer may hold thinking that was never sent.  So small samples, and those far off, are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil, exp, expm1, log
from string import ascii_letters, digits
from types import MappingProxyType
from typing import ClassVar, Final, Protocol

from attrs import define, field, frozen

from kiro_asgi.model.events import Usage, UsageSource

IMAGE_TOKENS: Final = 1_600
"""An image near the size to which larger ones are scaled down.  Source: https://docs.claude.com/en/docs/build-with-claude/vision"""

DOCUMENT_TOKENS: Final = 3_000
"""One page of PDF, upper end.  Source: https://docs.claude.com/en/docs/build-with-claude/pdf-support"""

TURN_TOKENS: Final = 4
"""Role marks and separators around one turn."""

COUNTED_AT_ONCE: Final = 4_096
"""Characters of an answer: many pieces together cost hardly more than one."""

_LETTER: Final = 4
_BLANK: Final = 1
_CLASSES: Final[tuple[tuple[int, Iterable[int]], ...]] = (
    (10, range(0x80)),
    (14, digits.encode()),
    (8, b"\t"),
    (6, b"\r\n"),
    (3, b'"'),
    (28, range(0xC0, 0xC4)),
    (32, range(0xC4, 0xCD)),
    (12, range(0xCD, 0xD0)),
    (7, range(0xD0, 0xD4)),
    (11, range(0xD4, 0xE0)),
    (13, b"\xe0"),
    (11, b"\xe1"),
    (20, b"\xe2"),
    (13, range(0xE3, 0xEA)),
    (15, range(0xEA, 0xEE)),
    (16, range(0xEE, 0xF0)),
    (36, range(0xF0, 0x100)),
)
"""Sixteenths of a token to the first bytes, in UTF-8, of the characters that weigh them; a later row overrules."""

_SIXTEENTHS: Final = bytes(
    next((weight for weight, first in reversed(_CLASSES) if byte in first), 0) for byte in range(0x100)
)

_COUNTED: Final = (ascii_letters + " ").encode() + bytes(range(0x80, 0xC0))
"""Bytes that are not looked up: letters and blanks are counted apart, and a first byte stands for its character."""


class Estimator(Protocol):
    """Anything that can put a number of tokens on a text."""

    def estimate_tokens(self, text: str, /) -> float:
        """Tokens in *text* as a fraction, to be added up over the pieces of a stream."""
        ...

    def count(self, text: str, /) -> int:
        """Whole tokens in *text*."""
        ...


@frozen
class TokenEstimator:
    """A guess from character classes, in tokens a character.

    ==============================================  ======  ====================================  ======
    ASCII letters                                   1/4     Hebrew, Arabic, Armenian              11/16
    blanks                                          1/16    Thai, Devanagari and their kin        13/16
    double quotes                                   3/16    Vietnamese accents, Georgian          11/16
    line breaks                                     3/8     dashes, arrows, other symbols         5/4
    tabs                                            1/2     Chinese, kana                         13/16
    digits                                          7/8     Korean                                15/16
    other ASCII                                     5/8     full-width forms                      1
    é, ß … and the accents of Central Europe        7/4, 2  emoji, rare ideographs                9/4
    Greek; Cyrillic                                 3/4,
                                                    7/16
    ==============================================  ======  ====================================  ======

    They were fitted to the counts of two public tokenizers for texts in 26 languages and code in 7; the error that
    remains is in the documentation, and grows with the distance between the two.  Weights are sums of powers of two,
    hence exact: however a text is cut, its pieces weigh what the whole weighs.
    """

    most: ClassVar[float] = max(_SIXTEENTHS) / 16
    """Tokens that a character weighs at most."""

    def estimate_tokens(self, text: str, /) -> float:
        """Tokens in *text* as a fraction; additive over concatenation."""
        others = text.encode("utf-8", "surrogatepass").translate(_SIXTEENTHS, _COUNTED)
        blanks = text.count(" ")
        letters = len(text) - len(others) - blanks
        return (_LETTER * letters + _BLANK * blanks + sum(others)) / 16

    def count(self, text: str, /) -> int:
        """Whole tokens in *text*, rounded up."""
        return ceil(self.estimate_tokens(text))


MOST: Final = 2.0
"""The largest correction, up or down: beyond it, something other than the tokenizer is at work."""

FAR_OFF: Final = 4.0
"""Ratio of a count to its estimate, or the reverse, from which on they are not about the same texts."""

STEPS: Final = 256
"""Corrections are whole numbers of this part, hence exact: an answer weighs the same however it is cut."""


@frozen
class _Trust:
    """The weight of samples from one source."""

    least: int
    """Tokens, by our estimate, below which a sample is ignored."""

    share: float
    """Its part in the correction, once there are many."""


_INPUT: Final[Mapping[UsageSource, _Trust]] = MappingProxyType(
    {UsageSource.UPSTREAM: _Trust(1_024, 1 / 8), UsageSource.CONTEXT: _Trust(4_096, 1 / 16)}
)
_OUTPUT: Final[Mapping[UsageSource, _Trust]] = MappingProxyType({UsageSource.UPSTREAM: _Trust(128, 1 / 8)})


@frozen
class Experience:
    """Calibration of the estimates of one kind for one model."""

    samples: int = 0
    lean: float = 0.0
    """Natural logarithm of count ÷ estimate, averaged, the newest weighing most."""

    doubt: float = 0.0
    """How far the logarithm was from *lean* as it was then, averaged likewise."""

    @property
    def factor(self) -> float:
        """The factor for estimates: from 1/2 to 2, and 1 without samples."""
        return min(max(round(exp(self.lean) * STEPS) / STEPS, 1 / MOST), MOST)

    @property
    def error(self) -> float:
        """By how much corrected estimates were off of late, as a part of the count: 0.05 is five percent."""
        return expm1(self.doubt)

    def after(self, ratio: float, share: float) -> Experience:
        """The calibration after one more sample, a count that is *ratio* times its estimate.

        Until there are many, every sample counts alike, and so does the first belief that estimates are right.
        """
        surprise = log(ratio) - self.lean
        share = max(share, 1 / (self.samples + 2))
        doubt = abs(surprise) if not self.samples else self.doubt + share * (abs(surprise) - self.doubt)
        return Experience(self.samples + 1, self.lean + share * surprise, doubt)


_OF_CREDITS: Final = 1 / 8
"""Part of the newest answer in what a token takes in credits."""

_UNKNOWN: Final = (Experience(), Experience())
"""Calibration of a model of which no answer has been counted."""


@define
class Calibration:
    """Corrections of estimates, by model id, for prompts and for answers.

    Deterministic: the same samples in the same order lead to the same corrections.  Holds numbers only.
    """

    models: int = 256
    """Models that are remembered; of more, those updated least recently are forgotten."""

    _known: dict[str, tuple[Experience, Experience]] = field(init=False, factory=dict)
    """Input and output, by model id; the one updated last comes last."""

    _credits: dict[str, float] = field(init=False, factory=dict)
    """Credits for a token, by model id, likewise."""

    def input_factor(self, model: str) -> float:
        """The factor for estimates of a prompt for *model*."""
        return self._known.get(model, _UNKNOWN)[0].factor

    def output_factor(self, model: str) -> float:
        """The factor for estimates of an answer of *model*."""
        return self._known.get(model, _UNKNOWN)[1].factor

    def tokens(self, model: str, estimated: float) -> int:
        """Whole tokens that *model* reads in a prompt estimated at so many."""
        return ceil(estimated * self.input_factor(model))

    def observe(self, model: str, estimated: float, usage: Usage) -> None:
        """Learn from one answer.

        Args:
            model: Its model's id.
            estimated: The prompt's tokens, uncorrected.
            usage: What was counted in the end.
        """
        self._observe_credits(model, usage)
        prompt, answer = self._known.get(model, _UNKNOWN)
        usage = usage.of_answer  # other runs read another prompt
        learnt = (
            _learnt(prompt, usage.prompt_tokens, estimated, _INPUT.get(usage.input_source)),
            _learnt(answer, usage.output_tokens, usage.output_estimate, _OUTPUT.get(usage.output_source)),
        )
        if learnt != (prompt, answer):
            self._known.pop(model, None)
            self._known[model] = learnt
            if len(self._known) > self.models:
                del self._known[next(iter(self._known))]

    def credits(self, model: str) -> float:
        """Credits that *model* takes for a token of prompt or answer; 0 as long as no answer has said."""
        return self._credits.get(model, 0.0)

    def _observe_credits(self, model: str, usage: Usage) -> None:
        tokens, metering = usage.prompt_tokens + usage.output_tokens, usage.metering
        if metering is None or not tokens:
            return
        before, rate = self._credits.pop(model, None), metering.amount / tokens
        self._credits[model] = rate if before is None else before + (rate - before) * _OF_CREDITS
        if len(self._credits) > self.models:
            del self._credits[next(iter(self._credits))]

    def describe(self) -> Mapping[str, tuple[Experience, Experience]]:
        """The calibration of each model: of its input, and of its output."""
        return MappingProxyType(dict(self._known))


def _learnt(experience: Experience, counted: int, estimated: float, trust: _Trust | None) -> Experience:
    if trust is None or estimated < trust.least or not 1 / FAR_OFF < counted / estimated < FAR_OFF:
        return experience
    return experience.after(counted / estimated, trust.share)
