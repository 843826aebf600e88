"""The files of the page, as they come with the package: they are the same for everybody, and hold nothing secret.

There is no build step: a browser gets the very files that lie beside this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from attrs import frozen

_TYPES: Final[Mapping[str, bytes]] = MappingProxyType(
    {
        "html": b"text/html; charset=utf-8",
        "css": b"text/css; charset=utf-8",
        "js": b"text/javascript; charset=utf-8",
        "svg": b"image/svg+xml",
    }
)

INDEX: Final = "index.html"

_POLICY: Final = b"; ".join(
    (
        b"default-src 'none'",
        b"script-src 'self'",
        b"style-src 'self'",
        b"connect-src 'self'",
        b"img-src 'self' data:",
        b"base-uri 'none'",
        b"form-action 'none'",
        b"frame-ancestors 'none'",
        b"require-trusted-types-for 'script'",
        b"trusted-types 'none'",
    )
)
"""No script but ours, and no text that becomes one: whatever a model wrote, it stays text."""

PAGE_HEADERS: Final = (
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
"""Headers of every response of the inspector's."""


@frozen
class PageFile:
    """One file, and what a browser is told of it."""

    body: bytes
    type: bytes
    tag: bytes
    """Entity tag: another for other bytes."""


def page_files() -> Mapping[str, PageFile]:
    """Read all files, by name; the page itself has an empty one."""
    found = (each for each in files("kiro_asgi.inspector").joinpath("static").iterdir() if each.is_file())
    read = {each.name: each.read_bytes() for each in found}
    return {
        "" if name == INDEX else name: PageFile(
            body, _TYPES[name.rpartition(".")[2]], b'"%s"' % sha256(body).hexdigest()[:32].encode()
        )
        for name, body in read.items()
    }
