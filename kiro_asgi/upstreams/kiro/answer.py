"""Choose the stages that read an answer, by its media type.

The service answers in the event-stream encoding, and where it says so, nothing else is accepted: a broken frame is
an error.  Where the media type says nothing (test doubles and proxies), the first twelve bytes decide: a frame begins
with two lengths below 2**24, so with bytes that no text holds.  A damaged frame is therefore still read as a frame, and
refused, rather than searched for text.  Answers without frames are bare JSON objects, which only their keys tell apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from types import MappingProxyType
from typing import Any, Final

from attrs import define, field

from kiro_asgi.errors import NotTheUpstream
from kiro_asgi.limits import NOTICES, REFUSAL_BYTES
from kiro_asgi.model.events import Delta, Notice
from kiro_asgi.stages.base import Pipeline, Stage
from kiro_asgi.upstreams.errors import clean
from kiro_asgi.upstreams.headers import essence
from kiro_asgi.upstreams.kiro.errors import fault, is_report
from kiro_asgi.upstreams.kiro.events import READERS, FrameEventDecoder, Reader, Seen
from kiro_asgi.wire.eventstream import FrameDecoder
from kiro_asgi.wire.objects import PREFIXES, ObjectScanner

SCANNED_PREFIXES: Final = (*PREFIXES, b'{"toolUseId":', b'{"stopReason":', b'{"tokenUsage":')
"""How the objects begin that are worth finding."""


BY_KEY: Final[tuple[tuple[str, Reader], ...]] = (
    ("followupPrompt", READERS["followupPromptEvent"]),
    ("toolUseId", READERS["toolUseEvent"]),
    ("name", READERS["toolUseEvent"]),
    ("input", READERS["toolUseEvent"]),
    ("stop", READERS["toolUseEvent"]),
    ("content", READERS["assistantResponseEvent"]),
    ("usage", READERS["meteringEvent"]),
    ("tokenUsage", READERS["metadataEvent"]),
    ("stopReason", READERS["metadataEvent"]),
    ("contextUsagePercentage", READERS["contextUsageEvent"]),
)
"""Key to the reader of the objects that have it; the first that fits."""


@define
class ScannedEventDecoder:
    """Turn the objects that a scan found into deltas; an object without a known key says nothing."""

    _seen: Seen = field(init=False, factory=Seen)

    def feed(self, items: Iterable[dict[str, Any]], /) -> Iterator[Delta]:
        """Decode objects to deltas."""
        for item in items:
            reader = next((reader for key, reader in BY_KEY if key in item), None)
            if reader is not None:
                yield from reader(item, self._seen)

    def flush(self) -> Iterator[Delta]:
        """Yield nothing."""
        yield from ()


PRELUDE: Final = 12
"""Bytes that tell a frame from anything else."""


@define
class Damage:
    """A notice for each damage that a stage before has passed over; looks once a read, not at every delta."""

    _code: str
    _count: Callable[[], int]
    _reported: int = field(init=False, default=0)

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """The same deltas, and the notices behind them."""
        yield from items
        yield from self.flush()

    def flush(self) -> Iterator[Delta]:
        """Notices of damage that has not been reported yet, within the bound."""
        before, self._reported = self._reported, min(self._count(), NOTICES)
        yield from [Notice(self._code)] * (self._reported - before)


def _framed(checksums: str) -> tuple[Stage[Any, Any], ...]:
    frames = FrameDecoder(checksums=checksums)
    if checksums != "warn":
        return frames, FrameEventDecoder()
    return frames, FrameEventDecoder(), Damage("frame.checksum", lambda: frames.mismatches)


@define
class SniffingDecoder:
    """Read frames, or JSON objects embedded in whatever comes instead; nothing is emitted before that is known."""

    checksums: str = "strict"
    _head: bytearray = field(init=False, factory=bytearray)
    _inner: Stage[bytes, Delta] | None = field(init=False, default=None)

    def feed(self, items: Iterable[bytes], /) -> Iterator[Delta]:
        """Decode bytes to deltas."""
        chunks = iter(items)
        if self._inner is None:
            for chunk in chunks:
                self._head += chunk
                if len(self._head) >= PRELUDE:
                    chunks = chain((bytes(self._head),), chunks)
                    self._inner = self._choose()
                    break
        if self._inner is not None:
            yield from self._inner.feed(chunks)

    def flush(self) -> Iterator[Delta]:
        """Decode the rest."""
        if self._inner is None:
            self._inner = self._choose()
            yield from self._inner.feed((bytes(self._head),))
        yield from self._inner.flush()

    def _choose(self) -> Stage[bytes, Delta]:
        if _is_text(self._head[:PRELUDE]):
            scanner = ObjectScanner(prefixes=SCANNED_PREFIXES)
            return Pipeline(scanner, ScannedEventDecoder(), Damage("event.undecodable", lambda: scanner.skipped))
        return Pipeline(*_framed(self.checksums))


def _is_text(head: bytearray) -> bool:
    return not any(byte < 0x20 and byte not in b"\t\n\r" for byte in head)


@define
class RefusalDecoder:
    """Read a JSON document where an answer should be: an error that was given the status of a success.

    Raises:
        KiroAsgiError: From `flush`, always: the error that the document reports, or that it is none.
    """

    _body: bytearray = field(init=False, factory=bytearray)

    def feed(self, items: Iterable[bytes], /) -> Iterator[Delta]:
        """Yield nothing."""
        for chunk in items:
            self._body += chunk[: REFUSAL_BYTES - len(self._body)]
        yield from ()

    def flush(self) -> Iterator[Delta]:
        """Raise the error that the document reports."""
        body = bytes(self._body)
        if is_report(body):
            raise fault(200, (), body)
        raise _foreign(f"a JSON document: {clean(body.decode('utf-8', 'replace'))[:200]}")
        yield


def _foreign(what: str) -> NotTheUpstream:
    return NotTheUpstream(f"the service answered with {what}", code="upstream.content_type")


KINDS: Final = MappingProxyType(
    {
        "application/vnd.amazon.eventstream": "frames",
        "": "unknown",
        "application/octet-stream": "unknown",
        "binary/octet-stream": "unknown",
        "text/plain": "unknown",
        "application/jsonl": "unknown",
        "application/json-lines": "unknown",
        "application/x-jsonlines": "unknown",
        "application/x-ndjson": "unknown",
        "application/json": "refusal",
        "application/x-amz-json-1.0": "refusal",
        "application/x-amz-json-1.1": "refusal",
    }
)
"""Media type to how an answer of that type is read."""


def stages(content_type: str, checksums: str = "strict") -> tuple[Stage[Any, Any], ...]:
    """Fresh stages, bytes to `Delta`.

    Raises:
        NotTheUpstream: Code ``upstream.content_type``: no answer comes in this media type.
    """
    match KINDS.get(essence(content_type)):
        case "frames":
            return _framed(checksums)
        case "unknown":
            return (SniffingDecoder(checksums),)
        case "refusal":
            return (RefusalDecoder(),)
    raise _foreign(f"the media type {clean(content_type)!r}")
