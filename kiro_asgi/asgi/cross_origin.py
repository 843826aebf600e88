"""Pages of other origins: which of them may use the gateway from a browser, and what is done about the others.

A browser asks first (a preflight), and shows a page nothing of an answer that does not name its origin.

Source: https://fetch.spec.whatwg.org/#http-cors-protocol
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from attrs import frozen

from kiro_asgi.asgi.http import Headers, header_values, response_body, response_start
from kiro_asgi.asgi.typing import Message, Scope, Send
from kiro_asgi.errors import ForeignOrigin, UnsupportedMediaType
from kiro_asgi.limits import PREFLIGHT_BYTES, PREFLIGHT_NAMES

__all__ = ["CrossOrigin"]

_ORIGIN: Final = b"origin"
_METHOD: Final = b"access-control-request-method"
_HEADERS: Final = b"access-control-request-headers"
_ALLOW_ORIGIN: Final = b"access-control-allow-origin"

_TOKEN: Final = re.compile(rb"[\w!#$%&'*+.^`|~-]+", re.ASCII)
"""Source: https://www.rfc-editor.org/rfc/rfc9110#section-5.6.2"""

_FORBIDDEN: Final = frozenset({b"cookie", b"cookie2"})
"""Headers that no page may be allowed to set; browsers refuse them as well."""

_EXPOSED: Final = (b"x-kiro-asgi-rules", b"allow")
"""Headers of answers, whatever the client API, that a page may read."""

_MAX_AGE: Final = b"7200"
"""Seconds for which a browser need not ask again; Chromium takes no more."""

_JSON: Final = re.compile(
    rb"[ \t]*+application/(?:[\w.-]++\+)?json[ \t]*+(?:;.*)?", re.ASCII | re.IGNORECASE | re.DOTALL
)


@frozen
class CrossOrigin:
    """The origins whose pages may use the gateway, as browsers write them; none switches everything off."""

    _origins: tuple[str, ...] = ()
    _exposed: tuple[bytes, ...] = ()
    """Headers of answers that clients of the APIs read."""

    def admits(self, origin: bytes) -> bool:
        """Whether a page of *origin* may read answers."""
        return any(origin == each.encode() for each in self._origins) or "*" in self._origins

    def is_preflight(self, scope: Scope) -> bool:
        """Whether a browser asks for permission before it sends a request."""
        return (
            bool(self._origins)
            and scope["method"] == "OPTIONS"
            and bool(header_values(scope, _ORIGIN))
            and bool(header_values(scope, _METHOD))
        )

    async def answer(self, scope: Scope, methods: Iterable[str], send: Send) -> None:
        """Answer a preflight: 204 with what is allowed, *methods* among it, or 403 without any permission.

        Whoever asks need show no key: browsers send none here.
        """
        origin = self._admitted(scope)
        headers: Headers = [(b"vary", b"Origin")] if origin is None else [*_permissions(origin, methods, scope)]
        await send(response_start(403 if origin is None else 204, headers))
        await send(response_body(b""))

    def telling(self, scope: Scope, send: Send) -> Send:
        """*send* with every response, whatever its status, made readable for the page that asked, if it may."""
        if not self._origins:
            return send
        origin = self._admitted(scope)
        told = [(b"vary", b"Origin")]
        if origin is not None:
            exposed = b", ".join((*self._exposed, *_EXPOSED))
            told += [(_ALLOW_ORIGIN, origin), (b"access-control-expose-headers", exposed)]

        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *told]}
            await send(message)

        return tell

    def require_same_site(self, scope: Scope) -> None:
        """Refuse what a page of another site may have made a browser send, with the cookies of a user who is signed in.

        Browsers send a form, or text without a type, wherever a page wants, and ask nobody first; they name the page's
        origin.  Requests that show a key need no such guard: a page would have to know it.

        Raises:
            ForeignOrigin: The page is another site's, and none that may use the gateway.
            UnsupportedMediaType: The body does not say that it is JSON.
        """
        for origin in header_values(scope, _ORIGIN):
            if not (self.admits(origin) or _is_own(origin, scope)):
                raise ForeignOrigin(
                    "a page of another origin sent this on behalf of a user who is signed in; "
                    "cors.origins names the origins that may",
                    code="foreign_origin",
                )
        if scope["method"] == "POST" and not any(map(_JSON.fullmatch, header_values(scope, b"content-type"))):
            raise UnsupportedMediaType(
                "send the request body with content-type: application/json", code="unsupported_media_type"
            )

    def _admitted(self, scope: Scope) -> bytes | None:
        """The origin that the request comes from, if its pages may use the gateway."""
        origins = header_values(scope, _ORIGIN)
        return origins[0] if len(origins) == 1 and self.admits(origins[0]) else None


def _permissions(origin: bytes, methods: Iterable[str], scope: Scope) -> Iterator[tuple[bytes, bytes]]:
    """What a page of *origin* is told that it may send."""
    yield _ALLOW_ORIGIN, origin
    yield b"access-control-allow-methods", ", ".join(methods).encode()
    yield b"access-control-max-age", _MAX_AGE
    yield b"vary", b"Origin, Access-Control-Request-Headers"
    if names := b", ".join(_requested(scope)):
        yield b"access-control-allow-headers", names


def _requested(scope: Scope) -> Iterator[bytes]:
    """The names of headers that a page wants to send, in lower case: any, but for those that are no page's business.

    SDKs add names with every release, so a fixed list would keep them out; ``*`` would not cover ``authorization``.
    """
    asked = b",".join(header_values(scope, _HEADERS))
    if len(asked) <= PREFLIGHT_BYTES:
        for name in asked.lower().split(b",")[:PREFLIGHT_NAMES]:
            if _TOKEN.fullmatch(name := name.strip(b" \t")) and name not in _FORBIDDEN:
                yield name


def _is_own(origin: bytes, scope: Scope) -> bool:
    """Whether a page came from where the request went.  The scheme is left out: a proxy may have ended TLS."""
    scheme, found, place = origin.lower().partition(b"://")
    hosts = header_values(scope, b"host")
    return bool(found and scheme) and len(hosts) == 1 and _bare(place) == _bare(hosts[0].lower())


def _bare(place: bytes) -> bytes:
    """A host without the ports that stand for http and https."""
    return place.removesuffix(b":80").removesuffix(b":443")
