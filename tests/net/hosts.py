"""A host with TLS in the test's own event loop, that says whatever a test wants it to, and a resolver that lies."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSListener
from attrs import define, field

__all__ = ["CERTIFICATE", "HOST", "Host", "Resolver", "head", "hosted", "permit_loopback"]

HOST: Final = "img.example.test"
"""The name in the certificate; ``cdn.example.test`` is in it as well."""

_TLS: Final = Path(__file__).parent / "tls"

CERTIFICATE: Final = str(_TLS / "certificate.pem")
"""Whom to trust: for tests only, and its key lies beside it."""

Script = Callable[[ByteStream], Awaitable[None]]


def head(status: int = 200, *headers: str, length: int | None = None) -> bytes:
    """The head of an answer."""
    lines = [f"HTTP/1.1 {status} X", *headers, *([] if length is None else [f"content-length: {length}"])]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def permit_loopback(address: str) -> bool:
    """The rule of a world in which 127.0.0.1 is the only public address."""
    return address == "127.0.0.1"


@define
class Host:
    """What is served, by path, and what was asked."""

    port: int
    scripts: dict[str, bytes | Script] = field(factory=dict)
    """An answer, or who gives it; the connection is closed after it."""

    asked: list[bytes] = field(factory=list)
    """Heads of requests."""

    def url(self, path: str = "/a.png", host: str = HOST) -> str:
        return f"https://{host}:{self.port}{path}"

    @property
    def allowed(self) -> tuple[str, ...]:
        return (f"{HOST}:{self.port}",)

    def serve(self, path: str, content: bytes, *headers: str, status: int = 200) -> str:
        """Serve *content*; its address."""
        self.scripts[path] = head(status, *headers, length=len(content)) + content
        return self.url(path)

    async def handle(self, stream: ByteStream) -> None:
        try:
            async with stream:
                request = b""
                while b"\r\n\r\n" not in request:
                    request += await stream.receive()
                self.asked.append(request)
                script = self.scripts[request.split()[1].decode()]
                if isinstance(script, bytes):
                    await stream.send(script)
                else:
                    await script(stream)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, ssl.SSLError):
            return


@asynccontextmanager
async def hosted() -> AsyncIterator[Host]:
    """A host that listens until the end of the block."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE, _TLS / "key.pem")
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        host = Host(listener.extra(SocketAttribute.local_port))
        async with anyio.create_task_group() as group:
            group.start_soon(TLSListener(listener, context, standard_compatible=False).serve, host.handle)
            yield host
            group.cancel_scope.cancel()


@define
class Resolver:
    """Answers by host; the last answer goes on."""

    answers: dict[str, list[Sequence[str]]] = field(factory=lambda: {HOST: [("127.0.0.1",)]})
    asked: list[str] = field(factory=list)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        given = self.answers.get(host)
        if given is None:
            raise OSError("no such host")
        return given.pop(0) if len(given) > 1 else given[0]
