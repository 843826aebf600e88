"""Guessing token counts without a tokenizer.

Tokenizers of the models behind us are not public, and a count is needed before the service says one.  A guess here has
the right order of magnitude, at a cost that nobody notices; `kiro_asgi.stages.calibration` corrects it by experience.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from string import ascii_letters, digits
from typing import Final, Protocol

from attrs import frozen

__all__ = ["DOCUMENT_TOKENS", "IMAGE_TOKENS", "TURN_TOKENS", "Estimator", "TokenEstimator"]

IMAGE_TOKENS: Final = 1_600
"""An image near the size to which larger ones are scaled down.  Source: https://docs.claude.com/en/docs/build-with-claude/vision"""

DOCUMENT_TOKENS: Final = 3_000
"""One page of PDF, upper end.  Source: https://docs.claude.com/en/docs/build-with-claude/pdf-support"""

TURN_TOKENS: Final = 4
"""Role marks and separators around one turn."""

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
"""Bytes that need no looking up: letters and blanks are counted, and the rest of a character follows its first byte."""


class Estimator(Protocol):
    """Anything that can put a number of tokens on a text."""

    def weigh(self, text: str, /) -> float:
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

    They were fitted to what two public tokenizers say of texts in 26 languages and of code in 7; what error remains
    is in the documentation, and grows with the distance between the two.  Weights are sums of powers of two, hence
    exact: however a text is cut, its pieces weigh what the whole weighs.
    """

    def weigh(self, text: str, /) -> float:
        """Tokens in *text* as a fraction; additive over concatenation."""
        others = text.encode("utf-8", "surrogatepass").translate(_SIXTEENTHS, _COUNTED)
        blanks = text.count(" ")
        letters = len(text) - len(others) - blanks
        return (_LETTER * letters + _BLANK * blanks + sum(others)) / 16

    def count(self, text: str, /) -> int:
        """Whole tokens in *text*, rounded up."""
        return ceil(self.weigh(text))
