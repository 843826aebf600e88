"""The HTTP library's exceptions in our words, by one table."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from kiro_asgi.errors import KiroAsgiError, TooBusy, UpstreamProtocolError, UpstreamTimeout, UpstreamUnreachable

__all__ = ["EXHAUSTED", "Translation", "translated", "translations"]

Translation = Callable[[Exception], KiroAsgiError]

EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""What the system calls it when this process, or the machine, can have no other socket."""


def _unconnected(error: Exception) -> KiroAsgiError:
    if _is_exhaustion(error):
        words = "this gateway cannot open another connection: it has no file descriptor or no memory left"
        return TooBusy(words, code="out_of_descriptors", retry_after=1)
    return _unreachable(error)


def _is_exhaustion(error: BaseException | None) -> bool:
    """Whether *error*, or what led to it, is this machine's own want of descriptors or memory."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in EXHAUSTED:
            return True
        if isinstance(error, BaseExceptionGroup) and any(map(_is_exhaustion, error.exceptions)):
            return True
        error = error.__cause__ or error.__context__
    return False


def _unreachable(error: Exception) -> KiroAsgiError:
    return UpstreamUnreachable(f"Stream connection failed: {_words(error)}", code="connection_failed")


def _silent(error: Exception) -> KiroAsgiError:
    return UpstreamTimeout("the upstream did not answer in time", code="timeout")


def _not_http(error: Exception) -> KiroAsgiError:
    return UpstreamProtocolError(f"Stream connection failed: {_words(error)}", code="connection_broken")


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__


def translations(library: Any) -> dict[type[Exception], Translation]:
    """The library's exceptions, most special first, and what each means to us."""
    return {
        library.ConnectTimeout: _unreachable,
        library.TimeoutException: _silent,
        library.ConnectError: _unconnected,
        library.NetworkError: _unreachable,
        library.RemoteProtocolError: _unreachable,
        library.ProtocolError: _not_http,
        library.ProxyError: _unreachable,
        library.UnsupportedProtocol: _not_http,
    }


@contextmanager
def translated(table: dict[type[Exception], Translation]) -> Iterator[None]:
    """Raise what the table makes of the library's exceptions; any other passes."""
    try:
        yield
    except tuple(table) as error:
        translate = next(make for kind, make in table.items() if isinstance(error, kind))
        raise translate(error) from error
