"""Requests and answers as bytes on a socket, with the time at which each came."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from attrs import field, frozen

from tests.conformance.gateways import KEY, Gateway

__all__ = ["PATHS", "Answer", "connect", "exchange", "post", "request_bytes"]

PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages"}


@frozen
class Answer:
    """A whole answer."""

    received: tuple[tuple[float, bytes], ...] = field(repr=False)
    """What each read of the socket gave, and when; last, nothing: the end."""

    @property
    def data(self) -> bytes:
        return b"".join(piece for _, piece in self.received)

    @property
    def status(self) -> int:
        return int(self.data.split(b" ", 2)[1])

    @property
    def headers(self) -> dict[str, str]:
        """Names in lower case; of a repeated one, all values."""
        found: dict[str, list[str]] = {}
        for line in self.data.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]:
            name, _, value = line.decode().partition(":")
            found.setdefault(name.lower(), []).append(value.strip())
        return {name: ", ".join(values) for name, values in found.items()}

    @property
    def body(self) -> bytes:
        """Without chunk sizes; complete, or this fails."""
        rest = self.data.partition(b"\r\n\r\n")[2]
        if self.headers.get("transfer-encoding") != "chunked":
            assert len(rest) == int(self.headers["content-length"])
            return rest
        body = b""
        while True:
            size, _, rest = rest.partition(b"\r\n")
            if not int(size, 16):
                assert rest == b"\r\n", "the last chunk is the end"
                return body
            body += rest[: int(size, 16)]
            assert rest[int(size, 16) :][:2] == b"\r\n"
            rest = rest[int(size, 16) + 2 :]

    def when(self, marker: bytes) -> float:
        """The time by which *marker* had come."""
        seen = b""
        for moment, piece in self.received:
            seen += piece
            if marker in seen:
                return moment
        raise AssertionError(f"{marker!r} never came")

    @property
    def ended(self) -> float:
        """The time of the end."""
        return self.received[-1][0]


def request_bytes(method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """A request that asks for the connection to be closed after the answer."""
    lines = {"host": "gateway", "connection": "close", "content-length": str(len(body)), **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body


def connect(gateway: Gateway) -> socket.socket:
    """A connection to *gateway*."""
    url = urlsplit(gateway.base)
    return socket.create_connection((url.hostname, url.port), timeout=20)


def exchange(gateway: Gateway, request: bytes) -> Answer:
    """Send *request* and read until the gateway closes the connection."""
    received = []
    with connect(gateway) as connection:
        connection.sendall(request)
        while True:
            piece = connection.recv(65536)
            received.append((time.monotonic(), piece))
            if not piece:
                return Answer(tuple(received))


def post(gateway: Gateway, path: str, document: Any, **headers: str) -> Answer:
    """Post JSON; names of *headers* are written with underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    known = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    return exchange(gateway, request_bytes("POST", path, {**known, **named}, body))
