"""Questions to the service that gives tokens."""

from __future__ import annotations

from urllib.parse import urlsplit

from kiro_asgi.errors import UpstreamUnreachable
from kiro_asgi.net.transport import Transport
from kiro_asgi.net.whole import WholeAnswer, fetch_whole
from kiro_asgi.upstreams.base import UpstreamRequest

__all__ = ["ask_sign_in"]


async def ask_sign_in(
    transport: Transport, request: UpstreamRequest, *, patience: float, reached_by: str
) -> WholeAnswer:
    """The whole answer; that the service cannot be reached has one wording, which names the settings *reached_by*.

    Raises:
        UpstreamUnreachable: Code ``sign_in.unreachable``.
        KiroAsgiError: As for `kiro_asgi.net.whole.fetch_whole`.
    """
    try:
        return await fetch_whole(transport, request, patience=patience)
    except UpstreamUnreachable as error:
        place = urlsplit(request.url).netloc
        raise type(error)(
            f"the sign-in service at {place} cannot be reached ({error.message}); see the network, {reached_by}",
            code="sign_in.unreachable",
        ) from error
