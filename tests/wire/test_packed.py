"""Packed bodies: read whole however they are cut, within caps, and refused where they are not what they say."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import BodyTooLarge, KiroAsgiError, RequestError
from kiro_asgi.limits import PACKED_FREE_BYTES, PACKED_RATIO
from kiro_asgi.wire.packed import STEP, Unpacker, coding_names, coding_of
from tests.helpers import cut

zstd = pytest.importorskip("backports.zstd")
brotli = pytest.importorskip("brotli")


def raw(data: bytes) -> bytes:
    made = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return made.compress(data) + made.flush()


PACKERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("x-gzip", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "deflate-raw": ("deflate", raw),
    "zstd": ("zstd", zstd.compress),
    "br": ("br", brotli.compress),
}
each = pytest.mark.parametrize("packer", PACKERS)


def unpacked(name: str, chunks: Iterable[bytes], max_bytes: int = 64 * 1024 * 1024) -> bytes:
    coding = coding_of(name)
    assert coding is not None
    unpacker = Unpacker(coding, max_bytes)
    pieces = [piece for chunk in chunks for piece in unpacker.feed(chunk)]
    unpacker.flush()
    assert max(map(len, pieces), default=0) <= 2 * STEP
    return b"".join(pieces)


@each
@given(st.binary(max_size=2_000), st.lists(st.integers(0, 4_000), max_size=6))
def test_a_body_is_the_same_however_it_is_cut(packer: str, data: bytes, cuts: list[int]) -> None:
    name, pack = PACKERS[packer]

    assert unpacked(name, cut(pack(data), cuts)) == data


@each
def test_a_large_body_comes_in_pieces(packer: str) -> None:
    name, pack = PACKERS[packer]
    data = random.Random(1).randbytes(700_000) + b"a" * 700_000 + bytes(range(256)) * 1_000

    assert unpacked(name, [pack(data)]) == data
    assert unpacked(name, (bytes([byte]) for byte in pack(data[-5_000:]))) == data[-5_000:]


@each
@pytest.mark.parametrize("size", [PACKED_FREE_BYTES + STEP + 1, 300 * 1024 * 1024], ids=["small", "large"])
def test_a_bomb_is_given_up_early(packer: str, size: int) -> None:
    """By the ratio, long before the cap, and with no more unpacked than a piece beyond it."""
    name, pack = PACKERS[packer]
    bomb = pack(bytes(size))
    coding = coding_of(name)
    assert coding is not None
    unpacker, came = Unpacker(coding, 2**40), 0
    with pytest.raises(BodyTooLarge, match=f"more than {PACKED_RATIO} times"):
        for piece in unpacker.feed(bomb):
            came += len(piece)
    assert came <= max(PACKED_FREE_BYTES, PACKED_RATIO * len(bomb)) + 2 * STEP


@each
def test_the_cap_holds_for_what_it_unpacks_to(packer: str) -> None:
    name, pack = PACKERS[packer]
    data = random.Random(2).randbytes(10_000)

    assert unpacked(name, [pack(data)], 10_000) == data
    with pytest.raises(BodyTooLarge, match="more than 9999 bytes"):
        unpacked(name, [pack(data)], 9_999)


@each
def test_what_is_damaged_is_refused(packer: str) -> None:
    """Cut, empty, of another coding, or with something behind its end; whichever bit is wrong, nothing else escapes."""
    name, pack = PACKERS[packer]
    data = pack(b"a body of some length" * 20)
    for chunks in ([data[:-5]], [b""], [], [b"{}"], [data + b"x"], [data, b"x"], [data, data]):
        with pytest.raises(RequestError, match="cannot be read as") as caught:
            unpacked(name, chunks)
        assert caught.value.code == "invalid_encoding"
    for place in range(len(data)):
        try:
            unpacked(name, [data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :]])
        except KiroAsgiError:
            continue


def test_a_window_of_gigabytes_is_refused() -> None:
    """Which a frame of zstd can demand in a few bytes."""
    compressor = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 27})
    data = compressor.compress(random.Random(3).randbytes(100_000)) + compressor.flush()

    with pytest.raises(RequestError, match="cannot be read as zstd"):
        unpacked("zstd", [data])


def test_the_names_are_those_that_can_be_read() -> None:
    assert coding_names() == ("gzip", "deflate", "zstd", "br")
    assert coding_of("compress") is None
