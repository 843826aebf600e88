"""The ASGI 3 interface: its types under short names, bodies, whole responses, handshakes, and the lifespan.

What we send is checked against asgiref's types where it is made.  What we are given is read as plain dictionaries: the
``TypedDict`` unions demand keys that the standard makes optional, and an application that is mounted in others must
read what they really pass.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping, Sequence
from io import BytesIO
from typing import Any, Final, cast
from urllib.parse import parse_qs

import anyio
from anyio.lowlevel import checkpoint
from asgiref.typing import HTTPResponseBodyEvent, HTTPResponseStartEvent
from attrs import define, field, frozen

from kiro_asgi.errors import BodyTimeout, BodyTooLarge, RequestError, UnsupportedEncoding
from kiro_asgi.limits import EMPTY_MESSAGES, QUERY_FIELDS
from kiro_asgi.wire.packed import STEP, Coding, Unpacker, coding_names, coding_of

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

AnyASGIApp = Callable[[Any, Any, Any], Awaitable[None]]
"""An application of another framework: each has types of its own for scope, receive and send."""


Headers = Iterable[tuple[bytes, bytes]]

_PIECE: Final = 256 * 1024
"""Most bytes in one message to the server."""

JSON = (b"content-type", b"application/json")


CLIENT_GONE: Final = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)
"""Exceptions that hosts and their middlewares raise where the client is gone."""


class Disconnected(Exception):
    """The client is gone; nothing can be sent any more."""


class Stalled(Disconnected):
    """The client does not read what it is sent; it is treated as if it were gone."""


_UNINTERRUPTED: Final = 16
"""Messages that may be taken in one turn of the event loop."""


@define(eq=False)
class Listener:
    """A host's ``receive``, behind which a loop ends, or at least leaves others their turns, whatever comes.

    A middleware that has read the body may give it again and again, or never say that the client has left, and it may
    do so at once each time: without a turn of the event loop, neither a time limit nor a cancellation would count.
    """

    _receive: Receive
    _taken: int = field(init=False, default=0)
    _empty: int = field(init=False, default=0)
    """Messages that said nothing."""

    _whole: bool = field(init=False, default=False)
    """Whether the end of the body has come."""

    async def __call__(self) -> Message:
        """The next message; none for ever where `EMPTY_MESSAGES` have said nothing."""
        if self._empty == EMPTY_MESSAGES:
            await anyio.sleep_forever()
        message = await self._receive()
        self._taken += 1
        self._empty += not self._says_something(message)
        if self._taken % _UNINTERRUPTED == 0:
            await checkpoint()
        return message

    def _says_something(self, message: Message) -> bool:
        if message["type"] != "http.request":
            return message["type"] in _TELLING
        news = not self._whole and bool(message.get("body") or not message.get("more_body"))
        self._whole = self._whole or not message.get("more_body")
        return news


_TELLING: Final = ("http.disconnect", "websocket.receive", "websocket.disconnect")


def header_values(scope: Scope, name: bytes) -> list[bytes]:
    """Every value of one request header; *name* in lower case."""
    return [value for key, value in scope.get("headers") or () if key.lower() == name]


def query_values(scope: Scope) -> dict[str, list[str]]:
    """The values of the query's parameters, by name.

    Raises:
        RequestError: There are more than `QUERY_FIELDS`.
    """
    try:
        return parse_qs((scope.get("query_string") or b"").decode("latin-1"), max_num_fields=QUERY_FIELDS)
    except ValueError:
        raise RequestError(f"the query has more than {QUERY_FIELDS} parameters", code="query_too_long") from None


def identity_headers(request_id: str, names: Iterable[bytes]) -> tuple[tuple[bytes, bytes], ...]:
    """The id of a request under the *names* that clients look for."""
    value = request_id.encode("ascii")
    return tuple((name, value) for name in names)


async def read_body(
    scope: Scope,
    receive: Receive,
    *,
    max_bytes: int,
    seconds: float,
    hold: Callable[[int], None],
    release: Callable[[int], None],
) -> bytes:
    """The whole request body.

    Args:
        scope: The request.
        receive: Its messages.
        max_bytes: More is refused as soon as it is seen, without being kept, packed or not.
        seconds: For the whole body.
        hold: Asked for room for so many more bytes; raises where there is none.
        release: Told of bytes that are held no longer.

    Raises:
        BodyTooLarge: More than *max_bytes*, announced or sent.
        BodyTimeout: It did not arrive in time.
        UnsupportedEncoding: It is packed in a way that is not known here.
        RequestError: It is not what it is said to be packed as.
        Disconnected: The client left before the end.
    """
    coding = _coding(scope)
    _check_announced(header_values(scope, b"content-length"), max_bytes)
    with anyio.move_on_after(seconds):
        if coding is None:
            return await _collect(receive, max_bytes, hold)
        room = min(coding.room, max_bytes)
        hold(room)
        body = await _unpacked(receive, Unpacker(coding, max_bytes), max_bytes, hold)
        release(room)
        return body
    raise BodyTimeout(f"the request body did not arrive within {seconds:g} s", code="body_timeout")


def _coding(scope: Scope) -> Coding | None:
    """How the body is packed; ``None`` for one that is not.

    Raises:
        UnsupportedEncoding: It is packed in a way that is not known here, or several times.
    """
    names = b",".join(header_values(scope, b"content-encoding")).decode("latin-1").lower().split(",")
    packed = [name.strip() for name in names if name.strip() not in ("", "identity")]
    if not packed:
        return None
    coding = coding_of(packed[0]) if len(packed) == 1 else None
    if coding is None:
        known = coding_names()
        raise UnsupportedEncoding(
            f"the request body is packed as {', '.join(packed)[:60]!r}; send it as {' or '.join(known)}, or as it is, "
            "without Content-Encoding",
            accepted=known,
            code="unsupported_encoding",
        )
    return coding


async def _unpacked(receive: Receive, unpacker: Unpacker, max_bytes: int, hold: Callable[[int], None]) -> bytes:
    """The whole body of messages that are packed; the event loop has a turn after each piece."""
    body, size, more = BytesIO(), 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        chunk, more = message.get("body", b""), message.get("more_body", False)
        size += len(chunk)
        if size > max_bytes:
            raise _too_large(max_bytes)
        for start in range(0, len(chunk), STEP):
            for piece in unpacker.feed(chunk[start : start + STEP]):
                hold(len(piece))
                body.write(piece)
                await checkpoint()
    unpacker.flush()
    return body.getvalue()


def _check_announced(lengths: list[bytes], max_bytes: int) -> None:
    for length in lengths:
        # Compared as text first: an absurd length must not become an absurd integer.
        digits = length.strip().lstrip(b"0") or b"0"
        if not digits.isdigit():
            raise RequestError("Content-Length is not a number", code="invalid_content_length")
        if len(digits) > 18 or int(digits) > max_bytes:
            raise _too_large(max_bytes)


async def _collect(receive: Receive, max_bytes: int, hold: Callable[[int], None]) -> bytes:
    body = BytesIO()  # whose value is handed out without a second copy
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        chunk = message.get("body", b"")
        if body.tell() + len(chunk) > max_bytes:
            raise _too_large(max_bytes)
        hold(len(chunk))
        body.write(chunk)
        if not message.get("more_body", False):
            return body.getvalue()


def _too_large(max_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"the request body is larger than {max_bytes} bytes", code="body_too_large")


async def respond(send: Send, status: int, body: bytes, headers: Headers) -> None:
    """Send one whole response."""
    await respond_in_pieces(send, status, [body], headers)


async def respond_in_pieces(send: Send, status: int, pieces: Sequence[bytes | memoryview], headers: Headers) -> None:
    """Send one whole response, whose body is *pieces* joined."""
    size = sum(map(len, pieces))
    await send(response_start(status, [*headers, (b"content-length", b"%d" % size)]))
    await send(response_body(await send_most(send, pieces)))


async def respond_while_made(
    send: Send, status: int, pieces: Iterable[bytes], headers: Headers, turn: Callable[[], Awaitable[None]]
) -> None:
    """Send one whole response, whose body is *pieces* joined, while they are made: with its length if it is short.

    *turn* is awaited before each is made.
    """
    joined, size, begun, made = list[bytes](), 0, False, iter(pieces)
    while True:
        await turn()
        piece = next(made, None)
        if piece is None:
            break
        if size > _PIECE:
            if not begun:
                await send(response_start(status, headers))
            await send(response_body(b"".join(joined), more=True))
            joined, size, begun = [], 0, True
        joined.append(piece)
        size += len(piece)
    if begun:
        await send(response_body(b"".join(joined)))
    else:
        await respond_in_pieces(send, status, joined, headers)


async def send_most(send: Send, pieces: Sequence[bytes | memoryview]) -> bytes:
    """Send *pieces*, joined, but for the last message, whose body is returned.

    A client that is merely slow takes each message in time.  Other requests get a turn of the event loop after each:
    a server whose client is fast does not wait for anything.
    """
    if sum(map(len, pieces)) <= _PIECE:
        return b"".join(pieces)
    last = b""
    for data in _bodies(pieces):
        if last:
            await send(response_body(last, more=True))
            await checkpoint()
        last = data
    return last


def _bodies(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """*pieces* in as many bytes as go into one message."""
    joined: list[bytes | memoryview] = []
    size = 0
    for piece in pieces:
        if size + len(piece) > _PIECE:
            yield b"".join(joined)
            joined, size = [], 0
            end = max(len(piece) - 1, 0) // _PIECE * _PIECE
            yield from (bytes(piece[at : at + _PIECE]) for at in range(0, end, _PIECE))
            piece = piece[end:]
        joined.append(piece)
        size += len(piece)
    yield b"".join(joined)


def response_start(status: int, headers: Headers) -> Message:
    """The message that begins a response."""
    message: HTTPResponseStartEvent = {
        "type": "http.response.start",
        "status": status,
        "headers": headers,
        "trailers": False,
    }
    return cast(Message, message)


def response_body(data: bytes, *, more: bool = False) -> Message:
    """A message with some of a response's body."""
    message: HTTPResponseBodyEvent = {"type": "http.response.body", "body": data, "more_body": more}
    return cast(Message, message)


@frozen
class Lifespan:
    """Confirms every event, and releases resources at the end."""

    _close: Callable[[], Awaitable[None]]

    async def run(self, received: Iterable[Message], receive: Receive, send: Send) -> None:
        """Answer lifespan messages until shutdown.

        Args:
            received: Messages that the host has read already and not answered.
            receive: Where more come from.
            send: Where answers go.
        """
        backlog = iter(received)
        while True:
            message = next(backlog, None) or await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self._close()
                await send({"type": "lifespan.shutdown.complete"})
                return


async def host_lifespan(
    host_app: ASGIApp,
    begin: Callable[[], Awaitable[None]],
    close: Callable[[], Awaitable[None]],
    scope: Scope,
    receive: Receive,
    send: Send,
) -> None:
    """Run the lifespan of the host with our beginning and end in it; answer the events where the host has none."""
    received: list[Message] = []
    answered = False

    async def beginning() -> Message:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await begin()
        return message

    async def listen() -> Message:
        message = await beginning()
        received.append(message)
        return message

    async def answer(message: Message) -> None:
        nonlocal answered
        answered = True
        if message["type"].startswith("lifespan.shutdown"):
            await close()
        await send(message)

    try:
        await host_app(scope, listen, answer)
    except Exception:
        if answered:
            raise
    if not answered:
        await Lifespan(close).run(received, Listener(beginning), send)


_DENIAL: Final = "websocket.http.response"


def handshake_send(scope: Scope, send: Send) -> Send:
    """*send* of a WebSocket that takes an HTTP response as the answer to the handshake; WebSocket messages pass.

    A server that has the extension can answer with any status, with headers and a body, by which clients distinguish
    "use HTTP" from "your key is wrong".  Without it a refusal is 403 whatever its status, and has no body.

    Source: https://asgi.readthedocs.io/en/latest/extensions.html#websocket-denial-response
    """
    denies = _DENIAL in (scope.get("extensions") or ())

    async def translate(message: Message) -> None:
        kind = message["type"]
        if not kind.startswith("http."):
            await send(message)
        elif denies:
            await send({**message, "type": f"websocket.{kind}"})
        elif kind == "http.response.start":
            await send({"type": "websocket.close", "code": 1000, "reason": ""})

    return translate
