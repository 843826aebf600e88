"""Bodies with a content coding, unpacked as they come: a piece at a time, within a cap on size and one on ratio.

gzip and deflate are in every interpreter.  zstd is in that of 3.14, and in the package ``backports.zstd``; br is in the
package ``brotli``.  The extra ``packed`` has both.

Source: https://www.rfc-editor.org/rfc/rfc9110#section-8.4.1, https://www.rfc-editor.org/rfc/rfc9659 (windows of zstd)
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, Protocol

from attrs import define, field, frozen

from kiro_asgi.errors import BodyTooLarge, RequestError
from kiro_asgi.limits import PACKED_FREE_BYTES, PACKED_RATIO

STEP: Final = 256 * 1024
"""Bytes of a piece, or little more."""

_WINDOW: Final = 23
"""Binary logarithm of the greatest window of zstd that a receiver has to support: 8 MiB."""


class _Decoder(Protocol):
    """Unpacks one stream."""

    @property
    def eof(self) -> bool:
        """Whether its end was reached."""
        ...

    @property
    def unused_data(self) -> bytes:
        """What follows the end."""
        ...

    @property
    def needs_input(self) -> bool:
        """Whether nothing more comes without more data."""
        ...

    def decompress(self, data: bytes, size: int, /) -> bytes:
        """The next *size* bytes, or little more, of the stream that *data* goes on with.  The rest is kept."""
        ...


@define
class _Zlib:
    """gzip and deflate.  deflate has zlib's header by the standard, and none from some clients."""

    _bits: int
    """As of `zlib.decompressobj`; 0 for deflate, until its first bytes show which."""

    _object: Any = field(init=False, default=None)
    _rest: bytes = field(init=False, default=b"")
    _full: bool = field(init=False, default=False)
    """Whether as much came as was asked for, so that there may be more."""

    @property
    def eof(self) -> bool:
        return self._object is not None and bool(self._object.eof)

    @property
    def unused_data(self) -> bytes:
        return b"" if self._object is None else bytes(self._object.unused_data)

    @property
    def needs_input(self) -> bool:
        return self._object is None or not (self._rest or self._full)

    def decompress(self, data: bytes, size: int, /) -> bytes:
        data = self._rest + data
        if self._object is None:
            self._rest = data
            if len(data) < 2:
                return b""
            has_header = data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            self._object = zlib.decompressobj(self._bits or (zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS))
        found: bytes = self._object.decompress(data, size)
        self._rest, self._full = self._object.unconsumed_tail, len(found) == size
        return found


@define
class _Brotli:
    """br, of whose answers a limit is exceeded by up to as much again."""

    _object: Any
    _full: bool = field(init=False, default=False)
    unused_data: bytes = field(init=False, default=b"")

    @property
    def eof(self) -> bool:
        return bool(self._object.is_finished())

    @property
    def needs_input(self) -> bool:
        return not self._full and bool(self._object.can_accept_more_data())

    def decompress(self, data: bytes, size: int, /) -> bytes:
        found: bytes = self._object.process(data, output_buffer_limit=size)
        self._full = len(found) >= size
        return found


@frozen
class Coding:
    """One content coding."""

    name: str
    new: Callable[[], _Decoder]
    room: int
    """Bytes that unpacking takes beside what comes of it, at most."""


def _gzip() -> Coding:
    return Coding("gzip", lambda: _Zlib(16 + zlib.MAX_WBITS), 64 * 1024)


def _deflate() -> Coding:
    return Coding("deflate", lambda: _Zlib(0), 64 * 1024)


def _zstd() -> Coding | None:
    for name in ("compression.zstd", "backports.zstd"):
        try:
            zstd: Any = import_module(name)
        except ImportError:
            continue
        new = partial(zstd.ZstdDecompressor, options={zstd.DecompressionParameter.window_log_max: _WINDOW})
        return Coding("zstd", new, 2 << _WINDOW)
    return None


def _brotli() -> Coding | None:
    try:
        decompressor: Any = import_module("brotli").Decompressor
    except ImportError:
        return None
    if not hasattr(decompressor, "can_accept_more_data"):  # before 1.2 it unpacks all at once
        return None
    return Coding("br", lambda: _Brotli(decompressor()), 32 * 1024 * 1024)


_CODINGS: Final[Mapping[str, Callable[[], Coding | None]]] = MappingProxyType(
    {"gzip": _gzip, "x-gzip": _gzip, "deflate": _deflate, "zstd": _zstd, "br": _brotli}
)


def coding_of(name: str) -> Coding | None:
    """The coding of this *name*; ``None`` where this interpreter cannot unpack it."""
    make = _CODINGS.get(name)
    return None if make is None else make()


def coding_names() -> tuple[str, ...]:
    """Names of the codings that this interpreter can unpack."""
    return tuple(name for name, make in _CODINGS.items() if (coding := make()) is not None and coding.name == name)


@define
class Unpacker:
    """Unpacks one body, which is one stream.

    Raises:
        RequestError: From `feed` and `flush`: it is not of the coding.
        BodyTooLarge: From `feed`: it unpacks to more than *max_bytes*, or to far more than it has.
    """

    _coding: Coding
    _max_bytes: int
    _decoder: _Decoder = field(init=False)
    _packed: int = field(init=False, default=0)
    _size: int = field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        self._decoder = self._coding.new()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What some more bytes unpack to, in pieces."""
        self._packed += len(data)
        while not self._decoder.eof and (data or not self._decoder.needs_input):
            yield self._checked(self._step(data))
            data = b""
        if data or self._decoder.unused_data:
            raise self._broken("something follows its end")

    def flush(self) -> None:
        """Take note that the body has ended."""
        if not self._decoder.eof:
            raise self._broken("it ends too early")

    def _step(self, data: bytes) -> bytes:
        try:
            return self._decoder.decompress(data, STEP)
        except Exception as error:  # each module has an error of its own
            raise self._broken(str(error)[:200]) from error

    def _checked(self, piece: bytes) -> bytes:
        self._size += len(piece)
        if self._size > self._max_bytes:
            raise BodyTooLarge(f"the request body unpacks to more than {self._max_bytes} bytes", code="body_too_large")
        if self._size > PACKED_FREE_BYTES and self._size > PACKED_RATIO * self._packed:
            raise BodyTooLarge(
                f"the request body unpacks to more than {PACKED_RATIO} times its size; send it as it is",
                code="body_too_large",
            )
        return piece

    def _broken(self, reason: str) -> RequestError:
        return RequestError(
            f"the request body cannot be read as {self._coding.name}: {reason}", code="invalid_encoding"
        )
