"""Events of an answer as the objects of a stream.

Official clients take nothing but lines of ``data: {…}``, each with an empty line behind it: no comments, no names of
events, no sentinel.  Some forget a whole exchange for one object without a part; so every object has a candidate with
one, the last, which alone has a reason to end and token counts, too.

Source: https://ai.google.dev/api/generate-content#method:-models.streamgeneratecontent
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from attrs import define, field

from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.dialects.gemini.answer import (
    call_part,
    escaped,
    finish,
    grounding_of,
    tail,
    thought_or_text,
    usage_object,
)
from kiro_asgi.dialects.gemini.errors import error_body
from kiro_asgi.dialects.gemini.grounding import GroundingTally
from kiro_asgi.dialects.gemini.signatures import Signing
from kiro_asgi.errors import KiroAsgiError, UpstreamProtocolError
from kiro_asgi.model.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    Citation,
    Event,
    MessageEnd,
    RefusalDelta,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
    ToolInputDelta,
)
from kiro_asgi.wire.json import dumps, quote_bytes

_BEFORE: Final = b'{"candidates":[{"content":{"parts":['
_BEHIND: Final = b'],"role":"model"},"index":0}]'


@define
class _Encoder:
    """The stage from events to objects, whatever stands around those."""

    _heading: ResponseMeta
    _behind: bytes = field(init=False)
    _tail: bytes = field(init=False)
    _signing: Signing = field(init=False, factory=Signing)
    _grounding: GroundingTally = field(init=False)
    _block: BlockStart | None = field(init=False, default=None)
    _held: list[str] = field(init=False, factory=list)
    """Arguments of a call, or thinking that may be signed."""

    _signature: str = field(init=False, default="")
    ended: bool = field(init=False, default=False)
    """Whether the last object has been written, or an error instead."""

    def __attrs_post_init__(self) -> None:
        self._tail = escaped(tail(self._heading))
        self._behind = _BEHIND + self._tail
        self._grounding = grounding_of(self._heading)

    def objects(self, items: Iterable[Event]) -> Iterator[bytes]:
        """The objects for *items*."""
        for item in items:
            if type(item) is TextDelta or type(item) is RefusalDelta:
                self._grounding.text(item.text)
                if item.text:
                    yield self._object(thought_or_text(quote_bytes(item.text), thought=False))
            elif type(item) is ThinkingDelta:
                self._held.append(item.text)
                if item.text:
                    yield self._object(thought_or_text(quote_bytes(item.text), thought=True))
            elif type(item) is ToolInputDelta:
                self._held.append(item.json)
            elif type(item) is BlockEnd:
                yield from self._close()
            elif type(item) is MessageEnd:
                yield self._end(item)
            else:
                self._note(item)

    def _note(self, item: Event) -> None:
        if isinstance(item, BlockStart):
            self._block, self._held, self._signature = item, [], ""
            self._grounding.tool(item.value)
        elif isinstance(item, SignatureDelta):
            self._signature = item.signature
        elif isinstance(item, Citation):
            self._grounding.cite(item)

    def _close(self) -> Iterator[bytes]:
        block, held, self._held = self._block, "".join(self._held), []
        assert block is not None, "a block ended that had not begun"
        if block.kind is BlockKind.TOOL_CALL:
            yield from self._call(block, held)
        elif block.kind in (BlockKind.THINKING, BlockKind.REDACTED_THINKING):
            part = self._signing.thinking(held, self._signature, block.data)
            if part is not None:
                yield self._object(dumps(part))

    def _call(self, block: BlockStart, arguments: str) -> Iterator[bytes]:
        """A call; one that was cut is not told of, as nobody could make it."""
        try:
            part = call_part(block.call_id, block.name, arguments, {})
        except UpstreamProtocolError:
            return
        signature = self._signing.of_call()
        yield self._object(part[:-1] + b"," + dumps(signature)[1:] if signature else part)

    def _end(self, item: MessageEnd) -> bytes:
        self.ended = True
        last = dumps({"text": "", **self._signing.rest()})
        candidate = dumps(finish(item.stop_reason, self._grounding))[1:]
        usage = dumps(usage_object(item.usage))
        return escaped(
            b'%b%b],"role":"model"},%b],"usageMetadata":%b%b' % (_BEFORE, last, candidate, usage, self._tail)
        )

    def _object(self, part: bytes) -> bytes:
        return _BEFORE + escaped(part) + self._behind


@define
class SseEncoder(_Encoder):
    """Objects as server-sent events."""

    heartbeat: bytes = field(init=False, default=b"\n\n")
    """An empty event: the official clients take a comment for an error."""

    def feed(self, items: Iterable[Event], /) -> Iterator[bytes]:
        """The events of *items*."""
        for each in self.objects(items):
            yield b"data: %b\n\n" % each

    def flush(self) -> Iterator[bytes]:
        """Nothing: the last object says that it is."""
        yield from ()

    def error(self, error: KiroAsgiError) -> list[bytes]:
        """The error twice: as an event, and as Google has it, a bare object.  Each form is one that some client takes
        for an empty piece of the answer, or does not see."""
        if self.ended:
            return []
        self.ended = True
        body = escaped(error_body(error))
        return [b"data: %b\n\n" % body, body + b"\n"]


@define
class ArrayEncoder(_Encoder):
    """Objects as the elements of one array, which is what those get who do not ask for events."""

    heartbeat: bytes = field(init=False, default=b"\n")
    _before: bytes = field(init=False, default=b"[")

    def feed(self, items: Iterable[Event], /) -> Iterator[bytes]:
        """The elements for *items*."""
        for each in self.objects(items):
            yield self._element(each)

    def flush(self) -> Iterator[bytes]:
        """The end of the array."""
        yield b"]"

    def error(self, error: KiroAsgiError) -> list[bytes]:
        """The error as the last element."""
        if self.ended:
            return [b"]"]
        self.ended = True
        return [self._element(escaped(error_body(error))), b"]"]

    def _element(self, json: bytes) -> bytes:
        before, self._before = self._before, b",\n"
        return before + json
