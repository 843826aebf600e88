"""The walk over the parts of a prompt: what each kind becomes is a service's own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from attrs import define, field

from kiro_asgi.model.prompt import Document, Image, Opaque, Part, Text, ThinkingPart, ToolCallPart, ToolResult

Block = dict[str, Any]
"""A part as a service writes it."""

Into = TypeVar("Into")

_KINDS: Final[Mapping[type, str]] = MappingProxyType(
    {
        Text: "text",
        Image: "image",
        Document: "document",
        ThinkingPart: "thinking",
        ToolCallPart: "call",
        ToolResult: "result",
        Opaque: "opaque",
    }
)
"""Kind of a part to the method that writes it."""


class PartWriter(ABC, Generic[Into]):
    """Writes parts into what a service has for a turn.

    A result of a tool holds parts that are written in the same way, and no results: so there are two levels at most.

    Raises:
        RequestError: A part cannot be sent to the service.
    """

    __slots__ = ()

    def write(self, parts: Iterable[Part], into: Into) -> None:
        """Write *parts* in their order."""
        for part in parts:
            getattr(self, _KINDS[type(part)])(part, into)
            if part.unread is not None:
                self.unread(part, into)
            if part.cache:
                self.mark(part.cache, into)

    @abstractmethod
    def text(self, part: Text, into: Into) -> None:
        """Write a text."""

    @abstractmethod
    def image(self, part: Image, into: Into) -> None:
        """Write an image."""

    @abstractmethod
    def document(self, part: Document, into: Into) -> None:
        """Write a document."""

    @abstractmethod
    def thinking(self, part: ThinkingPart, into: Into) -> None:
        """Write thinking of an earlier answer."""

    @abstractmethod
    def call(self, part: ToolCallPart, into: Into) -> None:
        """Write a call of an earlier answer."""

    @abstractmethod
    def result(self, part: ToolResult, into: Into) -> None:
        """Write the result of a call."""

    def opaque(self, part: Opaque, into: Into) -> None:
        """Write a part that only services of its own API understand: what stands for it at all others."""
        self.write(part.instead, into)

    def unread(self, part: Part, into: Into) -> None:
        """Write the members of *part* that the reader of its API did not understand into what was written last for it;
        only services of that API have a place for them."""

    def mark(self, mark: str, into: Into) -> None:
        """Mark what was written last for the service's cache, as of `Text.cache`; most services know no marks."""


@define
class Blocks:
    """The blocks of a turn, or of a result in it, in their order."""

    place: str
    """Where the turn stands in the client's request."""

    nested: bool = False
    """Whether they are of a result."""

    written: list[Block] = field(factory=list)


class BlockWriter(PartWriter[Blocks]):
    """Writes parts as a list of blocks."""

    __slots__ = ()

    def blocks(self, parts: Iterable[Part], place: str, *, nested: bool = False) -> list[Block]:
        """The blocks for *parts*, as of `Blocks`."""
        into = Blocks(place, nested)
        self.write(parts, into)
        return into.written
