"""Server tools, which run in the gateway or the service and not in the client: their calls and results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import field, frozen

WEB_SEARCH: Final = "web_search"
"""Kind of the tool that every API has."""

UNAVAILABLE: Final = "unavailable"
"""Error code of a tool that cannot be run, or failed for no reason that has a code of its own."""

_GAP: Final = "\n\n"


@frozen
class SearchHit:
    """One page that a search found."""

    title: str
    url: str
    snippet: str = ""
    published: str = ""
    """Date, ``2026-03-14``; empty when not said."""

    encrypted_content: str = ""
    """Content that only the service can read, and that goes back with the history; empty for none."""

    def __str__(self) -> str:
        """Title, address and snippet, a line each."""
        head = f"{self.title} ({self.published})" if self.published else self.title
        return "\n".join(line for line in (head, self.url, self.snippet) if line)


@frozen
class ToolOutput:
    """The output of a tool: pages, or a text, or an error."""

    hits: tuple[SearchHit, ...] = ()
    text: str = ""
    """The output of a tool that does not search; of an error, its message."""

    error_code: str = ""
    """A word of the Messages API, e.g. ``too_many_requests``; empty for success."""

    reworded: bool = field(default=False, eq=False)
    """Whether the model has read it and goes on in its own words, so that no text of the answer repeats it."""

    @property
    def told(self) -> str:
        """All of it as text, never empty; its `spans` say where the hits are."""
        if self.hits:
            return _GAP.join(map(str, self.hits))
        return self.text or self.error_code or "Nothing was found."

    def spans(self) -> Iterator[tuple[int, int, SearchHit]]:
        """Where in `told`, if that becomes part of the answer, each hit begins and ends, in characters."""
        if self.reworded:
            return
        end = -len(_GAP)
        for hit in self.hits:
            start = end + len(_GAP)
            end = start + len(str(hit))
            yield start, end, hit


@frozen
class ServerCall:
    """The model calls a tool that is run on the way; complete."""

    call_id: str
    name: str
    """As the client calls the tool."""

    kind: str
    """E.g. ``web_search``."""

    input: Mapping[str, Any] = field(factory=dict)


@frozen
class ServerResult:
    """A call with what the tool gave."""

    call: ServerCall
    output: ToolOutput
