"""The HTTP library's exceptions in our words, by one table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kiro_asgi.errors import KiroAsgiError, UpstreamProtocolError, UpstreamTimeout, UpstreamUnreachable

__all__ = ["Translation", "translated", "translations"]

Translation = Callable[[Exception], KiroAsgiError]


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
