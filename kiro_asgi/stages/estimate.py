"""Guessing token counts without a tokenizer.

Tokenizers of the models behind us are not public, and a count is needed before the service says one.  All that is
asked of a guess here is the right order of magnitude, at a cost that nobody notices.
"""

from __future__ import annotations

from math import ceil
from string import ascii_letters
from typing import Final, Protocol

from attrs import frozen

from kiro_asgi.model.prompt import (
    Document,
    Image,
    Part,
    Prompt,
    Text,
    ThinkingPart,
    Tool,
    ToolCallPart,
)
from kiro_asgi.wire.json import dumps

__all__ = ["DOCUMENT_TOKENS", "IMAGE_TOKENS", "TURN_TOKENS", "Estimator", "TokenEstimator", "count_prompt"]

IMAGE_TOKENS: Final = 1_600
"""An image near the size to which larger ones are scaled down.  Source: https://docs.claude.com/en/docs/build-with-claude/vision"""

DOCUMENT_TOKENS: Final = 3_000
"""One page of PDF, upper end.  Source: https://docs.claude.com/en/docs/build-with-claude/pdf-support"""

TURN_TOKENS: Final = 4
"""Role marks and separators around one turn."""

_DENSE: Final = bytes(set(range(0x80)) - set((ascii_letters + " ").encode()))
"""ASCII digits, punctuation and control characters: few of them make a token."""


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

    ========================================================  =====
    ASCII letters and blanks                                  0.25
    ASCII digits, punctuation, line breaks                    0.5
    two bytes in UTF-8: accents, Greek, Cyrillic, Arabic …    0.625
    three bytes: Chinese, Japanese, Korean, Thai …            1
    four bytes: emoji, rare ideographs                        1.375
    ========================================================  =====

    Weights are sums of powers of two, hence exact: however a text is cut, its pieces weigh what the whole weighs.
    """

    def weigh(self, text: str, /) -> float:
        """Tokens in *text* as a fraction; additive over concatenation."""
        data = text.encode("utf-8", "surrogatepass")
        length, size = len(text), len(data)
        dense = size - len(data.translate(None, _DENSE))
        return 0.25 * (length + dense) + 0.375 * (size - length)

    def count(self, text: str, /) -> int:
        """Whole tokens in *text*, rounded up."""
        return ceil(self.weigh(text))


def count_prompt(prompt: Prompt, estimator: Estimator) -> int:
    """Tokens that a model reads for *prompt*: system texts, turns and tool definitions; images at a fixed price."""
    weight = sum(map(estimator.weigh, prompt.system))
    weight += sum(TURN_TOKENS + _weigh_parts(turn.parts, estimator) for turn in prompt.turns)
    weight += sum(_weigh_tool(tool, estimator) for tool in prompt.tools)
    return ceil(weight)


def _weigh_parts(parts: tuple[Part, ...], estimator: Estimator) -> float:
    return sum(_weigh_part(part, estimator) for part in parts)


def _weigh_part(part: Part, estimator: Estimator) -> float:
    match part:
        case Text(text):
            return estimator.weigh(text)
        case ThinkingPart(text, _, redacted):
            return estimator.weigh(text) + estimator.weigh(redacted)
        case Image():
            return IMAGE_TOKENS
        case Document():
            return estimator.weigh(part.title) + (estimator.weigh(part.text) if part.text else DOCUMENT_TOKENS)
        case ToolCallPart(_, name, arguments):
            return estimator.weigh(name) + estimator.weigh(dumps(dict(arguments)).decode())
        case _:
            return _weigh_parts(part.parts, estimator)


def _weigh_tool(tool: Tool, estimator: Estimator) -> float:
    return sum(map(estimator.weigh, (tool.name, tool.description, dumps(dict(tool.schema)).decode())))
