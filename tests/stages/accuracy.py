"""How far off our estimates are, against two public tokenizers that need not be installed.

``tokens.json`` holds texts, each in two halves, and what both tokenizers count in every half:

claude
    ``@anthropic-ai/tokenizer`` 0.0.4, after Unicode normalization to NFKC, as that package does it.
o200k
    ``o200k_base`` of ``gpt-tokenizer`` 4.0.0.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from attrs import frozen

from kiro_asgi.model.events import Usage, UsageSource
from kiro_asgi.stages.estimate import Calibration, TokenEstimator

TEXTS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("tokens.json").read_text("utf-8"))
TOKENIZERS = ("claude", "o200k")
ANSWERS = 20
"""Answers that are learnt from."""


@frozen
class Accuracy:
    """What became of one text under one tokenizer."""

    tokens: int
    before: float
    """Estimate ÷ count - 1."""

    after: float
    """The same of the second half, by what was learnt from the first."""


def measure(text: dict[str, Any], tokenizer: str) -> Accuracy:
    """Estimate *text*, learn from its first half, and estimate the second once more."""
    weights = [TokenEstimator().estimate_tokens(half) for half in text["halves"]]
    counts = text[tokenizer]
    factor = learnt(weights[0], counts[0])
    return Accuracy(sum(counts), sum(weights) / sum(counts) - 1, weights[1] * factor / counts[1] - 1)


def learnt(weight: float, count: int) -> float:
    """The correction that prompts made of a hundred such texts lead to."""
    calibration = Calibration()
    for _ in range(ANSWERS):
        calibration.observe("m", 100 * weight, Usage(100 * count, input_source=UsageSource.UPSTREAM))
    return calibration.input_factor("m")


def table() -> list[tuple[str, ...]]:
    """One row for every text: tokens, error in percent before and after, for one tokenizer after the other."""
    rows = []
    for text in TEXTS:
        results = [measure(text, tokenizer) for tokenizer in TOKENIZERS]
        cells = [(str(it.tokens), f"{it.before:+.0%}", f"{it.after:+.0%}") for it in results]
        rows.append((text["name"], *cells[0], *cells[1]))
    return rows
