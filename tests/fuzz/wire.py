"""Targets below every service: frames, server-sent events, objects in noise, JSON."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable
from typing import Any, Final

from kiro_asgi.errors import UpstreamProtocolError
from kiro_asgi.limits import JSON_DEPTH
from kiro_asgi.stages.base import Stage
from kiro_asgi.wire import json as wire_json
from kiro_asgi.wire.eventstream import FrameDecoder, encode_frame
from kiro_asgi.wire.objects import ObjectScanner
from kiro_asgi.wire.sse import SseDecoder
from tests.fuzz.source import REPEATS, Source, dumped
from tests.fuzz.target import made, refuse, same, ways_to_cut

__all__ = ["documents", "frames", "objects", "sse"]


def _outcome(stage: Stage[bytes, Any], pieces: Iterable[bytes]) -> tuple[list[Any], str]:
    found: list[Any] = []
    try:
        for piece in pieces:
            found.extend(stage.feed([piece]))
        found.extend(stage.flush())
    except UpstreamProtocolError as error:
        return found, error.code
    return found, ""


def _frame(source: Source) -> bytes:
    """A frame, perhaps damaged, perhaps with checksums that are right all the same."""
    kinds = ("event", "exception", "error", "x")
    headers = {":message-type": source.pick(kinds), ":event-type": "assistantResponseEvent", "x": source.value(0)}
    wanted = {name: value for name, value in headers.items() if isinstance(value, str | bool) and source.below(8)}
    try:
        data = encode_frame(wanted, source.take(200) * source.pick(REPEATS))
    except (ValueError, UnicodeEncodeError):
        data = encode_frame({":event-type": "x"}, b"{}")
    if source.below(2):
        return data
    head, body = bytearray(data[:8]), source.edited(data[12:-4])
    if source.below(2):
        head = bytearray(struct.pack(">II", len(body) + 16, source.below(len(body) + 8)))
    if not source.below(4):
        head[source.below(8)] ^= 1 << source.below(8)
    lengths = bytes(head) + struct.pack(">I", zlib.crc32(head))
    return lengths + body + struct.pack(">I", zlib.crc32(lengths + body))


def frames(data: bytes) -> int:
    wire, source = made(data, lambda it: b"".join(_frame(it) for _ in range(it.below(6))) * it.pick(REPEATS))
    checksums = source.pick(("strict", "warn", "off"))
    same(_outcome(FrameDecoder(checksums=checksums), way) for way in ways_to_cut(wire, source))
    return len(wire)


SSE_TOKENS: Final = (b"data: ", b"data:", b"event: x", b"id: 1", b"retry: 99", b"\n", b"\r\n", b"\r", b"\n\n", b": c")


def _events(source: Source) -> bytes:
    parts = [source.take(30) if source.below(2) else source.pick(SSE_TOKENS) for _ in range(source.below(40))]
    return source.edited(b"".join(parts)) * source.pick(REPEATS)


def sse(data: bytes) -> int:
    wire, source = made(data, _events)
    largest = source.pick((1 << 24, 40))
    same(_outcome(SseDecoder(max_event=largest), way) for way in ways_to_cut(wire, source))
    return len(wire)


def _scanned(source: Source) -> bytes:
    parts = []
    for _ in range(source.below(12)):
        wire = dumped({source.pick(("content", "name", "input", "usage", "x")): source.value()})
        parts.append(source.edited(wire) * source.pick(REPEATS) if source.below(3) else source.take(60))
    return b"".join(parts)


def objects(data: bytes) -> int:
    wire, source = made(data, _scanned)
    scanners: list[ObjectScanner] = []
    largest = source.pick((1 << 24, 60))

    def found(way: list[bytes]) -> tuple[list[Any], str]:
        scanners.append(ObjectScanner(max_object=largest))
        return _outcome(scanners[-1], way)

    same(found(way) for way in ways_to_cut(wire, source))
    return len(wire)


def _documents(source: Source) -> bytes:
    return source.edited(dumped(source.value()) * source.pick(REPEATS[:2]))


def documents(data: bytes) -> int:
    wire, _ = made(data, _documents)
    try:
        value = wire_json.loads(wire)
    except wire_json.JsonError as error:
        assert error.code.startswith("json."), error.code
        return len(wire)
    assert _depth(value) <= JSON_DEPTH
    written = wire_json.dumps(value)
    assert wire_json.loads(written) == value
    json.loads(written, parse_constant=refuse)
    return len(wire)


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level:
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner.extend(each.values())
            elif isinstance(each, list):
                inner.extend(each)
        depth += any(isinstance(each, dict | list) for each in level)
        level = inner
    return depth
