"""Small requests, whose response is read to its end: lists of models, tokens, limits."""

from __future__ import annotations

from urllib.parse import urlsplit

import anyio
from attrs import define, field, frozen

from kiro_asgi.errors import (
    UpstreamProtocolError,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from kiro_asgi.limits import FETCHED_BYTES
from kiro_asgi.net.transport import Headers, Transport
from kiro_asgi.upstreams.base import UpstreamRequest


@frozen
class HttpResponse:
    """A response whose body was read to its end."""

    status: int
    headers: Headers = field(repr=False)
    body: bytes = field(repr=False)


@define
class _BodyReader:
    """Reads everything, up to a limit."""

    _patience: float
    _limit: int
    status: int = field(init=False, default=0)
    headers: Headers = field(init=False, default=(), repr=False)
    body: bytearray = field(init=False, factory=bytearray, repr=False)

    def start(self) -> float:
        return self._patience

    def begin(self, status: int, headers: Headers) -> None:
        self.status, self.headers = status, headers

    def take(self, chunk: bytes, /) -> None:
        self.body += chunk

    async def process(self) -> float:
        if len(self.body) > self._limit:
            raise UpstreamProtocolError(
                f"the upstream's answer has more than {self._limit} bytes", code="answer_too_long"
            )
        return self._patience


async def fetch_whole(
    transport: Transport, request: UpstreamRequest, *, patience: float, limit: int = FETCHED_BYTES
) -> HttpResponse:
    """Send *request* and read the response, whatever its status.

    Args:
        transport: What to send it with.
        request: What to send.
        patience: Seconds for all of it.
        limit: Largest body, in bytes; it is looked at before every read.

    Raises:
        UpstreamUnreachable: No connection, or it broke.
        UpstreamTimeout: It took longer.
        UpstreamProtocolError: Not HTTP, or more than *limit*.
        TooBusy: Too many requests wait for a connection already.
    """
    reader = _BodyReader(patience, limit)
    try:
        with anyio.fail_after(patience):
            await transport.fetch(request, reader, patience=patience)
    except TimeoutError:
        raise UpstreamTimeout("the upstream did not answer in time", code="timeout") from None
    return HttpResponse(reader.status, reader.headers, bytes(reader.body))


async def ask_sign_in(
    transport: Transport, request: UpstreamRequest, *, patience: float, reached_by: str
) -> HttpResponse:
    """Send *request* to the service that issues tokens.

    Where it cannot be reached the error names *reached_by*, the settings for reaching it.

    Raises:
        UpstreamUnreachable: Code ``sign_in.unreachable``.
        KiroAsgiError: As for `kiro_asgi.net.requests.fetch_whole`.
    """
    try:
        return await fetch_whole(transport, request, patience=patience)
    except UpstreamUnreachable as error:
        place = urlsplit(request.url).netloc
        raise type(error)(
            f"the sign-in service at {place} cannot be reached ({error.message}); check the network, {reached_by}",
            code="sign_in.unreachable",
        ) from error
