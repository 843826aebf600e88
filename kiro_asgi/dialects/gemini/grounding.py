"""The pages that an answer rests on, as ``groundingMetadata``.

Places in the answer are counted in bytes of UTF-8.

Source: https://ai.google.dev/api/generate-content#GroundingMetadata
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from attrs import define, field

from kiro_asgi.model.events import Citation, ServerCall, ServerResult
from kiro_asgi.wire.json import text_of


@define
class GroundingTally:
    """Collects searches, pages, and what is said of them in one answer."""

    keeps_text: bool = True
    """Whether there may be citations, for which the text is looked at again."""

    _queries: list[str] = field(init=False, factory=list)
    _pages: dict[str, str] = field(init=False, factory=dict)
    """Address to title, in order."""

    _numbers: dict[str, int] = field(init=False, factory=dict)
    """Address to its place among the pages."""

    _supports: list[dict[str, Any]] = field(init=False, factory=list)
    _pieces: list[str] = field(init=False, factory=list)
    _begins: list[tuple[int, int]] = field(init=False, factory=list)
    """Where each piece begins: in characters, and in bytes."""

    _chars: int = field(init=False, default=0)
    _bytes: int = field(init=False, default=0)

    def text(self, text: str) -> None:
        """Some text of the answer."""
        if self.keeps_text:
            self._pieces.append(text)
            self._begins.append((self._chars, self._bytes))
            self._chars += len(text)
            self._bytes += len(text) if text.isascii() else len(text.encode(errors="replace"))

    def tool(self, value: ServerCall | ServerResult | None) -> None:
        """A search, or what it found."""
        if isinstance(value, ServerCall):
            self._queries += filter(None, (text_of(value.input, "query"),))
        elif value is not None:
            for hit in value.output.hits:
                self._page(hit.url, hit.title)

    def cite(self, citation: Citation) -> None:
        """A source of the text so far; one without an address has no place."""
        if not (citation.url and self.keeps_text):
            return
        begin, end = self._chars - citation.begins, self._chars - citation.ends
        segment = {"startIndex": self._place(begin), "endIndex": self._place(end), "text": self._between(begin, end)}
        number = self._page(citation.url, citation.title)
        self._supports.append({"segment": segment, "groundingChunkIndices": [number]})

    def metadata(self) -> dict[str, Any]:
        """All of it; empty where there is nothing."""
        pages = [{"web": {"uri": uri, "title": title or uri}} for uri, title in self._pages.items()]
        found = {"webSearchQueries": self._queries, "groundingChunks": pages, "groundingSupports": self._supports}
        told = {name: value for name, value in found.items() if value}
        return {"groundingMetadata": told} if told else {}

    def _page(self, url: str, title: str) -> int:
        self._pages.setdefault(url, title)
        return self._numbers.setdefault(url, len(self._numbers))

    def _piece(self, char: int) -> int:
        return max(bisect_right(self._begins, (char, self._bytes + 1)) - 1, 0)

    def _place(self, char: int) -> int:
        """The byte at which a character begins."""
        if not self._pieces or char >= self._chars:
            return self._bytes
        at = self._piece(char)
        chars, size = self._begins[at]
        return size + len(self._pieces[at][: max(char - chars, 0)].encode(errors="replace"))

    def _between(self, begin: int, end: int) -> str:
        first, last = self._piece(begin), self._piece(end)
        start = self._begins[first][0] if self._begins else 0
        return "".join(self._pieces[first : last + 1])[max(begin - start, 0) : max(end - start, 0)]
