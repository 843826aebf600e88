"""The block of an answer that is open, on its way to become an item, or a part of one.

Source: https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

from typing import Any, Final

from attrs import define, field

from kiro_asgi.dialects.openai_responses.output import Output, Place
from kiro_asgi.dialects.openai_responses.output_items import PartShape, message
from kiro_asgi.model.events import BlockStart
from kiro_asgi.wire.json import dumps, quote_bytes

__all__ = ["CallBlock", "PartBlock"]

_NOWHERE: Final = Place(-1, "")


@define
class _Block:
    _output: Output
    start: BlockStart
    place: Place = field(init=False, default=_NOWHERE)
    """Of its item, once that has begun."""

    pieces: list[str] = field(init=False, factory=list)
    _before: bytes = field(init=False, default=b"")
    """What stands before the number of an event with a piece."""

    _after: bytes = field(init=False, default=b"")
    """What stands between the number and the piece."""

    @property
    def text(self) -> str:
        """All pieces."""
        return "".join(self.pieces)

    def _stream(self, name: str, fields: dict[str, Any]) -> None:
        """What surrounds the pieces of events *name*, made once."""
        word = name.encode()
        self._before = b'event: %b\ndata: {"type":"%b","sequence_number":' % (word, word)
        self._after = b"," + dumps(fields)[1:-1] + b',"delta":'

    def _piece(self, text: str) -> bytes:
        self.pieces.append(text)
        return b"%b%d%b%b}\n\n" % (self._before, self._output.next_number(), self._after, quote_bytes(text))


@define
class CallBlock(_Block):
    """A call; its pieces are events if it is a function's, and only collected if not."""

    def begin(self, fields: dict[str, Any]) -> bytes:
        """Begin the item of a function's call."""
        self.place, added = self._output.add("function_call", fields)
        self._stream("response.function_call_arguments.delta", self.place.fields)
        return added

    def say(self, text: str) -> bytes:
        """The next piece."""
        if self._before:
            return self._piece(text)
        self.pieces.append(text)
        return b""


@define
class PartBlock(_Block):
    """Text or thinking."""

    shape: PartShape
    signature: str = field(init=False, default="")
    annotations: list[dict[str, Any]] = field(init=False, factory=list)
    """What has been said of its text."""
    length: int = field(init=False, default=0)
    """Characters so far."""

    @property
    def where(self) -> dict[str, Any]:
        """What every event about the part says."""
        return {**self.place.fields, **self.shape.place}

    def say(self, text: str) -> bytes:
        """The next piece.  A part begins with its first, and a message with its only part: so none is empty."""
        self.length += len(text)
        return self._piece(text) if self.pieces else self._begin() + self._piece(text)

    def _begin(self) -> bytes:
        added = b""
        if self.place is _NOWHERE:
            self.place, added = self._output.add("message", message([], "in_progress"))
        self._stream(f"response.{self.shape.events}.delta", {**self.where, **self.shape.also})
        fields = {**self.where, "part": self.shape.part("")}
        return added + self._output.event(f"response.{self.shape.added}.added", fields)

    def end(self, part: dict[str, Any]) -> bytes:
        """End the part, which became *part*."""
        text = {self.shape.member: part[self.shape.member], **self.shape.also}
        done = self._output.event(f"response.{self.shape.events}.done", {**self.where, **text})
        return done + self._output.event(f"response.{self.shape.added}.done", {**self.where, "part": part})
