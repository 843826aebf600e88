"""Broken and hostile frames: a typed error, nothing of the bad frame, no memory for it (F093, F106, R13, R14, R25)."""

from __future__ import annotations

import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import UpstreamProtocolError
from kiro_asgi.wire.eventstream import Frame, FrameDecoder, decode_buffer, decode_frame, encode_frame
from tests.helpers import byte_by_byte
from tests.wire.strategies import outcome, repaired_frames, seal

GOOD = encode_frame({":event-type": "good"}, b"{}")
GOOD_FRAME = Frame({":event-type": "good"}, b"{}")

NAME = b"\x01x"

BAD_FRAMES = [
    pytest.param(seal(b"", b"", total=0), "frame.length", id="total-0"),
    pytest.param(seal(b"", b"", total=12), "frame.length", id="total-12"),
    pytest.param(seal(b"", b"", total=15), "frame.length", id="total-15"),
    pytest.param(seal(b"", b"", headers_size=1), "frame.length", id="headers-overrun-frame"),
    pytest.param(seal(b"", b"", total=0xFFFFFFFF), "frame.too_large", id="total-4GiB"),
    pytest.param(seal(b"", b"", total=2**31), "frame.too_large", id="total-2GiB"),
    pytest.param(seal(b"", b"", total=2**24 + 1), "frame.too_large", id="total-16MiB+1"),
    pytest.param(seal(b"", b"", total=2**18, headers_size=2**17 + 1), "frame.too_large", id="headers-128KiB+1"),
    pytest.param(seal(b"", b"", total=16, headers_size=0xFFFFFFFF), "frame.too_large", id="headers-4GiB"),
    pytest.param(seal(b"\x00\x00", b""), "frame.headers", id="empty-name"),
    pytest.param(seal(b"\x05ab", b""), "frame.headers", id="name-cut"),
    pytest.param(seal(NAME, b""), "frame.headers", id="type-missing"),
    pytest.param(seal(NAME + b"\x0a", b""), "frame.headers", id="type-10"),
    pytest.param(seal(NAME + b"\xff", b""), "frame.headers", id="type-255"),
    pytest.param(seal(NAME + b"\x02", b""), "frame.headers", id="int8-cut"),
    pytest.param(seal(NAME + b"\x03\x00", b""), "frame.headers", id="int16-cut"),
    pytest.param(seal(NAME + b"\x04\x00\x00\x00", b""), "frame.headers", id="int32-cut"),
    pytest.param(seal(NAME + b"\x05\x00", b""), "frame.headers", id="int64-cut"),
    pytest.param(seal(NAME + b"\x06\x00", b""), "frame.headers", id="bytes-length-cut"),
    pytest.param(seal(NAME + b"\x06\x00\x02a", b""), "frame.headers", id="bytes-cut"),
    pytest.param(seal(NAME + b"\x07\x00\x02a", b"bcd"), "frame.headers", id="text-overruns-into-payload"),
    pytest.param(seal(NAME + b"\x08" + bytes(7), b""), "frame.headers", id="timestamp-cut"),
    pytest.param(seal(NAME + b"\x09" + bytes(15), b""), "frame.headers", id="uuid-cut"),
    pytest.param(seal(NAME + b"\x07\x00\x02\xc3\x28", b""), "frame.headers", id="text-not-utf8"),
    pytest.param(seal(b"\x01\xff\x00", b""), "frame.headers", id="name-not-utf8"),
    pytest.param(seal((NAME + b"\x00") * 2, b""), "frame.headers", id="duplicate"),
    pytest.param(seal(NAME + b"\x06\x80\x00" + bytes(32_768), b""), "frame.headers", id="value-32768"),
    pytest.param(seal(b"".join(b"\x04%04d\x00" % i for i in range(1025)), b""), "frame.headers", id="1025-headers"),
]


@pytest.mark.parametrize(("wire", "code"), BAD_FRAMES)
def test_a_malformed_frame_is_a_typed_error(wire: bytes, code: str) -> None:
    """F106, R13: checksums are right, the rest is not; the frame before is delivered, the frame after is not."""
    stream = GOOD + wire + GOOD

    assert ([GOOD_FRAME], code) == outcome(FrameDecoder(), [stream])
    assert ([GOOD_FRAME], code) == outcome(FrameDecoder(), byte_by_byte(stream))


@pytest.mark.parametrize(("wire", "code"), BAD_FRAMES)
def test_functional_forms_raise_the_same(wire: bytes, code: str) -> None:
    """F456: single frames and buffers are refused like streams."""
    for attempt in (lambda: decode_frame(GOOD + wire, len(GOOD)), lambda: decode_buffer(GOOD + wire)):
        with pytest.raises(UpstreamProtocolError) as info:
            attempt()
        assert code == info.value.code


def test_every_single_bit_flip_is_found() -> None:
    """F093, R13: of a frame of 200 bytes with any bit flipped nothing is delivered, and the error is a checksum's."""
    headers = {":event-type": "assistantResponseEvent", "n": 1}
    wire = encode_frame(headers, b"x" * (200 - len(encode_frame(headers))))
    assert len(wire) == 200

    for bit in range(8 * len(wire)):
        bad = bytearray(wire)
        bad[bit // 8] ^= 1 << bit % 8
        assert outcome(FrameDecoder(), [GOOD + bad + GOOD]) == ([GOOD_FRAME], "frame.checksum"), bit


def damaged(place: int) -> bytes:
    """`GOOD` with one bit of the byte at *place* flipped."""
    return GOOD[:place] + bytes([GOOD[place] ^ 1]) + GOOD[place + 1 :]


WRONG_PRELUDE = damaged(9)[:-4]


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(damaged(9), id="prelude"),
        pytest.param(damaged(len(GOOD) - 1), id="message"),
        pytest.param(WRONG_PRELUDE + zlib.crc32(WRONG_PRELUDE).to_bytes(4, "big"), id="prelude-only"),
    ],
)
@pytest.mark.parametrize(
    ("checksums", "frames", "code", "mismatches"),
    [
        pytest.param("strict", 1, "frame.checksum", 0, id="strict"),
        pytest.param("warn", 3, None, 1, id="warn"),
        pytest.param("off", 3, None, 0, id="off"),
    ],
)
def test_modes_of_checking(bad: bytes, checksums: str, frames: int, code: str | None, mismatches: int) -> None:
    """F093: a wrong checksum ends the stream, is counted once a frame, or is not looked at; reads do not matter."""
    stream = GOOD + bad + GOOD

    for pieces in ([stream], byte_by_byte(stream)):
        decoder = FrameDecoder(checksums=checksums)
        assert ([GOOD_FRAME] * frames, code) == outcome(decoder, pieces)
        assert mismatches == decoder.mismatches


def test_unknown_mode_is_refused() -> None:
    """A misspelt mode does not silently mean one of the others."""
    with pytest.raises(ValueError, match="checksums"):
        FrameDecoder(checksums="lenient")


@pytest.mark.parametrize(
    "prelude",
    [
        pytest.param(seal(b"", b"", total=0xFFFFFFFF)[:12], id="4GiB"),
        pytest.param(seal(b"", b"", total=2**31)[:12], id="2GiB"),
        pytest.param(seal(b"", b"", total=2**18, headers_size=2**17 + 1)[:12], id="headers-128KiB+1"),
    ],
)
def test_oversized_lengths_are_refused_at_byte_twelve(prelude: bytes) -> None:
    """R14: the twelfth byte raises, not the eleventh, and no room is made for what was announced."""
    decoder = FrameDecoder()
    tracemalloc.start()
    try:
        assert list(decoder.feed([prelude[:11]])) == []
        with pytest.raises(UpstreamProtocolError) as info:
            list(decoder.feed([prelude[11:]]))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert info.value.code == "frame.too_large"
    assert peak <= 64 * 1024


def test_the_cap_of_a_frame_is_a_setting() -> None:
    """R14: a frame of exactly the cap passes, one byte more does not."""
    wire = encode_frame({}, b"x" * 84)

    assert ([Frame({}, b"x" * 84)], None) == outcome(FrameDecoder(max_frame=100), [wire])
    assert outcome(FrameDecoder(max_frame=99), [wire]) == ([], "frame.too_large")


@given(st.lists(repaired_frames(), max_size=3), st.sampled_from(["strict", "warn", "off"]))
def test_repaired_frames_give_frames_or_a_typed_error(wires: list[bytes], checksums: str) -> None:
    """R25: damage behind right checksums reaches every check; nothing untyped escapes, and read sizes do not matter."""
    stream = b"".join(wires)

    assert outcome(FrameDecoder(checksums=checksums), [stream]) == outcome(
        FrameDecoder(checksums=checksums), byte_by_byte(stream)
    )


@given(st.binary(max_size=200), st.sampled_from(["strict", "warn", "off"]))
def test_garbage_gives_frames_or_a_typed_error(data: bytes, checksums: str) -> None:
    """R25: the same for bytes that never were a frame."""
    assert outcome(FrameDecoder(checksums=checksums), [data]) == outcome(
        FrameDecoder(checksums=checksums), byte_by_byte(data)
    )
