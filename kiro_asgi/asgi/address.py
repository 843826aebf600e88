"""The address under which a client has reached the gateway, for links and examples that it is shown.

Proxies that end TLS or take a prefix away say so in ``x-forwarded-*`` headers, which anybody can send.  So this is for
the sender of the request alone, and decides nothing; what has not the shape of an address is passed over.

Source: https://developer.mozilla.org/docs/Web/HTTP/Reference/Headers/X-Forwarded-Proto, and the two of its kind
"""

from __future__ import annotations

import re
from typing import Final

from kiro_asgi.asgi.protocol import Scope, header_values
from kiro_asgi.asgi.routing import root_of

_SCHEME: Final = re.compile(r"https?")
_HOST: Final = re.compile(r"(?:[A-Za-z0-9_.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
_PREFIX: Final = re.compile(r"(?:/[A-Za-z0-9._~-]{1,100}){1,8}")

_HERE: Final = "localhost"
"""Host of a client of HTTP/1.0 that names none."""


def base_url(scope: Scope) -> str:
    """Scheme, host and prefix, without a slash at the end."""
    scheme = _said(scope, b"x-forwarded-proto", _SCHEME) or _shaped(str(scope.get("scheme", "")), _SCHEME)
    host = _said(scope, b"x-forwarded-host", _HOST) or _said(scope, b"host", _HOST)
    taken, root = _said(scope, b"x-forwarded-prefix", _PREFIX), _shaped(root_of(scope), _PREFIX)
    prefix = root if f"{root}/".startswith(f"{taken}/") else taken + root
    return f"{scheme or 'http'}://{host or _HERE}{prefix}"


def _said(scope: Scope, name: bytes, shape: re.Pattern[str]) -> str:
    """The first value of a header, which is the client's own or that of the proxy next to it; empty where it has not
    this *shape*."""
    first = b"".join(header_values(scope, name)[:1]).partition(b",")[0]
    return _shaped(first.strip().decode("latin-1"), shape)


def _shaped(text: str, shape: re.Pattern[str]) -> str:
    text = text.rstrip("/")
    return text if shape.fullmatch(text) else ""
