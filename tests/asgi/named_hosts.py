"""A network where the service's public names are a simulator's: real sockets, and no TLS, which it does not speak."""

from __future__ import annotations

import socket
from collections.abc import Collection
from typing import Any
from urllib.parse import urlsplit

from attrs import define, field

from kiro_asgi.config import Settings
from kiro_asgi.net.transport import Transport


class Unencrypted:
    """A stream on which TLS is taken for granted."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def start_tls(self, *args: Any, **kwargs: Any) -> Unencrypted:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@define
class NamedHosts:
    """Where each name leads."""

    url: str
    """The simulator's."""

    unknown: Collection[str] = ()
    """Ends of names that cannot be resolved."""

    closed: Collection[str] = ()
    """Ends of names at which nobody listens."""

    tried: list[str] = field(factory=list)
    """Names, in the order in which they were connected to."""

    def transport(self, settings: Settings, proxy: str) -> Transport:
        return Transport(network=lambda inner: Network(inner, self))

    def place(self, host: str) -> tuple[str, int]:
        """Host and port for a connection to *host*."""
        self.tried.append(host)
        if host.endswith(tuple(self.unknown)):
            return f"{host}.invalid", 443
        if host.endswith(tuple(self.closed)):
            return "127.0.0.1", closed_port()
        return "127.0.0.1", urlsplit(self.url).port or 80


@define
class Network:
    """The library's backend, with names of our own."""

    _inner: Any
    _hosts: NamedHosts

    async def connect_tcp(self, host: str, port: int, *args: Any, **kwargs: Any) -> Unencrypted:
        return Unencrypted(await self._inner.connect_tcp(*self._hosts.place(host), *args, **kwargs))

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


def closed_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
