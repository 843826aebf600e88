"""One HTTP request, answer as it arrives: what the demonstration needs of a client, and no more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import anyio
import h11

__all__ = ["post"]

CHUNK = 65_536


async def post(url: str, headers: Mapping[str, str], body: bytes, take: Callable[[int, bytes], None]) -> None:
    """Send *body* and hand over the answer piece by piece, each with the status.

    Raises:
        OSError: No connection, or it broke.
        h11.RemoteProtocolError: The answer is not HTTP, or is torn.
    """
    parts = urlsplit(url)
    lines = [("host", parts.netloc), ("content-length", str(len(body))), ("connection", "close"), *headers.items()]
    http = h11.Connection(h11.CLIENT)
    async with await anyio.connect_tcp(parts.hostname or "", parts.port or 80) as stream:
        head = http.send(h11.Request(method="POST", target=parts.path or "/", headers=lines)) or b""
        await stream.send(head + (http.send(h11.Data(data=body)) or b"") + (http.send(h11.EndOfMessage()) or b""))
        await _receive(http, stream, take)


async def _receive(http: h11.Connection, stream: anyio.abc.ByteStream, take: Callable[[int, bytes], None]) -> None:
    status = 0
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            try:
                http.receive_data(await stream.receive(CHUNK))
            except anyio.EndOfStream:
                http.receive_data(b"")
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            take(status, bytes(event.data))
        elif isinstance(event, h11.EndOfMessage):
            return
