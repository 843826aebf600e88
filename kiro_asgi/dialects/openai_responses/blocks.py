"""The block of an answer that is open, on its way to become an item, or a part of one.

Source: https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

from typing import Any, Final

from attrs import define, field

from kiro_asgi.dialects.openai_responses.response import OutputItems, PartShape, Place, message
from kiro_asgi.dialects.pieces import Literal, Pieces
from kiro_asgi.model.events import BlockStart
from kiro_asgi.model.prompt import ThinkingPart
from kiro_asgi.wire.json import dumps, quote_bytes

_NOWHERE: Final = Place(-1, "")


@define
class _ItemBlock:
    _output: OutputItems
    start: BlockStart
    place: Place = field(init=False, default=_NOWHERE)
    """Of its item, once that has begun."""

    json: Literal = field(init=False, factory=Literal)
    """Of all pieces that were events."""

    length: int = field(init=False, default=0)
    """Characters of them."""

    _before: bytes = field(init=False, default=b"")
    """Bytes before the number of an event with a piece."""

    _after: bytes = field(init=False, default=b"")
    """Bytes between the number and the piece."""

    @property
    def begun(self) -> bool:
        """Whether pieces are events; those of a part are from its first one on."""
        return bool(self._before)

    def _stream(self, name: str, where: bytes) -> None:
        """Make, once, what surrounds the pieces of events *name*; *where* is JSON of what they all say."""
        word = name.encode()
        self._before = b'event: %b\ndata: {"type":"%b","sequence_number":' % (word, word)
        self._after = b',%b,"delta":' % where

    def piece(self, text: str) -> bytes:
        """The event of the next piece, where there was one already."""
        piece = quote_bytes(text)
        self.length += len(text)
        self.json.add(piece)
        return b"%b%d%b%b}\n\n" % (self._before, next(self._output.numbers), self._after, piece)


@define
class CallBlock(_ItemBlock):
    """A call; its pieces are events if it is a function's, and only collected if not."""

    pieces: list[str] = field(init=False, factory=list)

    @property
    def text(self) -> str:
        """All pieces."""
        return "".join(self.pieces)

    def begin(self, fields: dict[str, Any]) -> list[bytes]:
        """Begin the item of a function's call."""
        self.place, added = self._output.add("function_call", fields)
        self._stream("response.function_call_arguments.delta", dumps(self.place.fields)[1:-1])
        return added

    def say(self, text: str) -> list[bytes]:
        """The next piece."""
        self.pieces.append(text)
        return [self.piece(text)] if self.begun else []


@define
class PartBlock(_ItemBlock):
    """Text or thinking."""

    shape: PartShape
    phase: str = field(init=False, default="")
    """Of its text, where the service tells it."""

    annotations: list[dict[str, Any]] = field(init=False, factory=list)
    """Citations of its text, as clients have received them."""

    _where: bytes = field(init=False, default=b"")
    """JSON of `where`, without braces."""

    @property
    def where(self) -> dict[str, Any]:
        """Fields of every event about the part."""
        return {**self.place.fields, **self.shape.place}

    def say(self, text: str) -> list[bytes]:
        """The next piece.  A part begins with its first, and a message with its only part: so none is empty."""
        return [self.piece(text)] if self.begun else [*self._begin(), self.piece(text)]

    def _begin(self) -> list[bytes]:
        added: list[bytes] = []
        if self.place is _NOWHERE:
            self.place, added = self._output.add("message", message([], "in_progress"))
        self._where = dumps(self.where)[1:-1]
        self._stream(f"response.{self.shape.events}.delta", self._where + self.shape.also)
        return added + self._tell("added", self.shape.part(self.json.pieces()))

    def end(self) -> tuple[Pieces, list[bytes]]:
        """End the part; what it became, and the events that tell of it."""
        text, member = self.json.pieces(), b',"%b":' % self.shape.member.encode()
        done = self._output.frame(
            f"response.{self.shape.events}.done", self._where, member, *text, self.shape.also + b"}"
        )
        part = self.shape.part(text, self.annotations)
        return part, done + self._tell("done", part)

    def _tell(self, what: str, part: Pieces) -> list[bytes]:
        return self._output.frame(f"response.{self.shape.added}.{what}", self._where, b',"part":', *part, b"}")


@define
class ReasoningBlock(PartBlock):
    """Thinking, of which the text is sealed at its end."""

    signature: str = field(init=False, default="")

    @property
    def thinking(self) -> ThinkingPart:
        """The thinking to seal."""
        return ThinkingPart(self.json.text(), self.signature, self.start.data)
