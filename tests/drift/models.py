"""Names of models in the SDKs: each belongs to a family, so that it is asked as it wants to be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, get_args

from anthropic.types.model import Model
from openai.types.shared import AllModels

from kiro_asgi.upstreams.anthropic.models import UNKNOWN, family
from kiro_asgi.upstreams.openai.models import efforts_of

__all__ = ["strangers"]

NO_FAMILY: Final = frozenset(
    {
        "claude-mythos-preview",
        "codex-mini-latest",
        "computer-use-preview",
        "computer-use-preview-2025-03-11",
        "gpt-daybreak-blue-latest",
        "gpt-daybreak-red-latest",
        "gpt-rosalind-research",
    }
)
"""Names without a version, or of a kind that had one model only: they are asked in the form that all models take."""


def strangers() -> Iterator[str]:
    """Names that no pattern knows."""
    for name in _words(Model):
        if family(name) is UNKNOWN and name not in NO_FAMILY:
            yield name
    for name in _words(AllModels):
        if efforts_of(name) is None and name not in NO_FAMILY:
            yield name


def _words(kind: Any) -> Iterator[str]:
    """The words of a union of literals."""
    for part in get_args(kind):
        if isinstance(part, str):
            yield part
        else:
            yield from _words(part)
