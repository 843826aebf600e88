"""Token counts of the service, as everybody else counts them.

Source: https://ai.google.dev/api/generate-content#UsageMetadata
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define, field

from kiro_asgi.model.events import TokenUsage
from kiro_asgi.wire.members import count_of

__all__ = ["UsageReader"]


@define
class UsageReader:
    """Reads every ``usageMetadata`` of an answer.  They are cumulative: of each count the last one holds.

    Thoughts are not among ``candidatesTokenCount``, what tools added is not in ``promptTokenCount``, and what was read
    from a cache is.
    """

    _said: dict[str, Any] = field(init=False, factory=dict)

    def read(self, metadata: Mapping[str, Any]) -> None:
        """Take what *metadata* says."""
        self._said.update(metadata)

    @property
    def usage(self) -> TokenUsage:
        """The counts; ``None`` where one was never given, and all of them where they come to nothing: LiteLLM writes
        0 for what it does not know."""
        if self._said.get("totalTokenCount") == 0:
            return TokenUsage()
        cached, thoughts = self._count("cachedContentTokenCount"), self._count("thoughtsTokenCount")
        prompt, answer = self._count("promptTokenCount"), self._count("candidatesTokenCount")
        if prompt is not None:
            prompt = max(prompt + (self._count("toolUsePromptTokenCount") or 0) - (cached or 0), 0)
        if answer is not None or thoughts is not None:
            answer = (answer or 0) + (thoughts or 0)
        return TokenUsage(prompt, answer, cache_read_tokens=cached, thinking_tokens=thoughts)

    def _count(self, name: str) -> int | None:
        return count_of(self._said, name)
