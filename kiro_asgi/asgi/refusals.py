"""What is written down of a request: when the upstream calls it invalid, enough to find out why, and no word of it.

Its words only where somebody has switched that on.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from logging import getLogger
from typing import Final

from kiro_asgi.asgi.exchange import Exchange
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.net.transport import Headers
from kiro_asgi.upstreams.replies import redacted

__all__ = ["log_body", "log_refusal"]

_log = getLogger("kiro_asgi")

_TELLING: Final = (b"x-amzn-errortype", b"x-amzn-requestid", b"content-type")
"""Headers of a refusal that help to find out what it means."""

_MAX_HEADER: Final = 200
_BULK: Final = re.compile(r'"[A-Za-z0-9+/=_-]{1000,}"')
"""Images, documents, signatures: nobody reads them in a log."""


def log_refusal(exchange: Exchange, status: int, headers: Headers, error: KiroAsgiError) -> None:
    """Write down a 400: the upstream's words, its telling headers, what was adapted, and the request's sizes.

    *error* holds the upstream's words redacted and cut.
    """
    if status != HTTPStatus.BAD_REQUEST:
        return
    told = [f"{name.decode().lower()}={_plain(value)}" for name, value in headers if name.lower() in _TELLING]
    counts = [f"{name}={count}" for name, count in exchange.sizes().items()]
    rules = ",".join(note.rule for note in exchange.notes) or "none"
    _log.warning(
        "upstream answered %d %s: %r; %s; rules applied: %s",
        status,
        HTTPStatus(status).phrase,
        error,
        " ".join((*told, *counts)),
        rules,
        extra={"request_id": exchange.request.request_id},
    )


def log_body(exchange: Exchange) -> None:
    """Write down what the upstream is sent, where somebody wants that: no secrets, and nothing that is no text."""
    body = _BULK.sub('"[left out]"', exchange.rendered.request.body.decode("utf-8", "replace"))
    _log.debug("request body: %s", redacted(body), extra={"request_id": exchange.request.request_id})


def _plain(value: bytes) -> str:
    return value[:_MAX_HEADER].decode("latin-1").encode("unicode_escape").decode("ascii")
