"""What the body of a request holds: the base of its estimate, and of the counts in a log line."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from kiro_asgi.stages.estimate import DOCUMENT_TOKENS, IMAGE_TOKENS, TURN_TOKENS, Estimator
from kiro_asgi.wire.json import dumps


@define
class BodyContent:
    """What a model reads of one request."""

    messages: int = 0
    tools: int = 0
    results: int = 0
    """Of tools."""

    images: int = 0
    documents: int = 0
    """Those that are not among the texts."""

    system: list[str] = field(factory=list)
    texts: list[str] = field(factory=list)
    """Without the system's."""

    values: list[Any] = field(factory=list)
    """JSON that the model reads: tools, and arguments of calls."""

    def estimate(self, estimator: Estimator) -> float:
        """Tokens: those of texts and values, and a fixed price for each image and document."""
        fixed = TURN_TOKENS * self.messages + IMAGE_TOKENS * self.images + DOCUMENT_TOKENS * self.documents
        read = "".join((*self.system, *self.texts)), dumps(self.values)[1:-1].decode()
        return fixed + sum(map(estimator.estimate_tokens, read))

    def statistics(self, size: int) -> dict[str, int]:
        """Counts for a body of *size* bytes, and the characters of its system text; none of its texts."""
        return {
            "bytes": size,
            "messages": self.messages,
            "tools": self.tools,
            "tool_results": self.results,
            "images": self.images,
            "system": sum(map(len, self.system)),
        }
