"""What the door needs of HTTP and of sockets that does not wait for anything."""

from __future__ import annotations

import socket
import struct
from http import HTTPStatus
from typing import Final

import h11

from kiro_asgi.simulator.record import RecordedRequest
from kiro_asgi.simulator.scripts import Head

__all__ = ["BAD_REQUEST", "TOO_LARGE", "listen", "prepare", "recorded", "reset_on_close", "response"]

BAD_REQUEST: Final = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
TOO_LARGE: Final = b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
REQUEST_ID: Final = (b"x-amzn-requestid", b"00000000-0000-4000-8000-000000000000")
BACKLOG: Final = 1024


def recorded(event: h11.Request, connection: int) -> RecordedRequest:
    """The request that *event* opens, still without its body."""
    path, _, query = event.target.decode("ascii", "replace").partition("?")
    headers = {name.decode("ascii"): value.decode("latin-1") for name, value in event.headers}
    return RecordedRequest(event.method.decode("ascii"), path, query, headers, connection=connection)


def response(head: Head) -> h11.Response:
    """*head* as h11 sends it."""
    headers = [(name.encode(), value.encode("latin-1")) for name, value in head.headers]
    headers += [(b"content-type", head.content_type.encode()), REQUEST_ID]
    if head.length is not None:
        headers.append((b"content-length", b"%d" % head.length))
    return h11.Response(status_code=head.status, headers=headers, reason=_phrase(head.status).encode())


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def listen(port: int) -> socket.socket:
    """A listening, non-blocking socket on 127.0.0.1; *port* 0 takes a free one.

    Raises:
        OSError: The port is taken.
    """
    sock = socket.socket()
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", port))
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def prepare(sock: socket.socket, send_buffer: int | None) -> None:
    """Make an accepted socket non-blocking and prompt."""
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if send_buffer is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)


def reset_on_close(sock: socket.socket) -> None:
    """Let closing *sock* send RST instead of FIN."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
