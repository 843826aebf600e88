"""Frames for properties: valid ones, and hostile ones whose checksums are right."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from kiro_asgi.errors import UpstreamProtocolError
from kiro_asgi.stages.base import Stage
from kiro_asgi.wire.eventstream import Int8, Int16, Int32, Int64, Timestamp, encode_frame

Outcome = tuple[list[Any], str | None]


def seal(section: bytes, payload: bytes, *, total: int | None = None, headers_size: int | None = None) -> bytes:
    """A frame with both checksums right, whatever its lengths and headers say."""
    lengths = struct.pack(
        ">II",
        len(section) + len(payload) + 16 if total is None else total,
        len(section) if headers_size is None else headers_size,
    )
    message = lengths + struct.pack(">I", zlib.crc32(lengths)) + section + payload
    return message + struct.pack(">I", zlib.crc32(message))


def outcome(stage: Stage[bytes, Any], pieces: Iterable[bytes]) -> Outcome:
    """What a stage yields for *pieces*, and the code of the error that ended it."""
    found: list[Any] = []
    try:
        for piece in pieces:
            found.extend(stage.feed([piece]))  # what came before an error stays in the list
        found.extend(stage.flush())
    except UpstreamProtocolError as exc:
        return found, exc.code
    return found, None


def _integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)

header_values = st.one_of(
    st.booleans(),
    _integers(8).map(Int8),
    _integers(16).map(Int16),
    _integers(32).map(Int32),
    _integers(64).map(Int64),
    st.binary(max_size=40),
    st.text(st.characters(codec="utf-8"), max_size=40),
    _integers(64).map(Timestamp),
    st.binary(min_size=16, max_size=16).map(lambda data: UUID(bytes=data)),
)

headers = st.dictionaries(names, header_values, max_size=6)

payloads = st.binary(max_size=80)

frames = st.tuples(headers, payloads)

edits = st.lists(
    st.tuples(st.sampled_from(["flip", "insert", "delete", "cut", "repeat"]), st.integers(0, 400), st.integers(0, 255)),
    max_size=4,
)


@st.composite
def repaired_frames(draw: st.DrawFn) -> bytes:
    """A valid frame whose headers or lengths were damaged before both checksums were computed again."""
    values, payload = draw(frames)
    sealed = encode_frame(values, payload)
    section = bytearray(sealed[12 : len(sealed) - 4 - len(payload)])
    for kind, place, byte in draw(edits):
        _edit(section, kind, place % (len(section) + 1), byte)
    length = len(section) + len(payload) + 16
    total = draw(st.none() | st.integers(0, 40) | st.integers(length - 3, length + 3) | st.integers(0, 2**32 - 1))
    size = draw(st.none() | st.integers(0, len(section) + len(payload) + 8) | st.integers(0, 2**32 - 1))
    return seal(bytes(section), payload, total=total if draw(st.booleans()) else None, headers_size=size)


def _edit(section: bytearray, kind: str, place: int, byte: int) -> None:
    if kind == "insert":
        section.insert(place, byte)
    elif kind == "cut":
        del section[place:]
    elif kind == "repeat":
        section += section[:place]
    elif place < len(section):
        section[place : place + 1] = bytes([section[place] ^ byte]) if kind == "flip" else b""
