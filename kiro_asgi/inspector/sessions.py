"""Sessions of viewers, who have shown the inspector's secret from a page of the inspector's own.

A session is a cookie with the time of its end, sealed with a key that is derived from the secret.  Nothing is kept
here, so it is good in every process with the same secret, and a new secret ends all of them.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from typing import Final

from attrs import field, frozen

COOKIE: Final = "kiro_asgi_inspector"

LIFETIME: Final = 8 * 3600
"""Seconds for which a session is good."""

_PURPOSE: Final = b"kiro_asgi inspector session"
_OWN: Final = (b"same-origin", b"none")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")


@frozen
class Sessions:
    """Begins sessions, and checks their cookies."""

    _secret: str = field(repr=False)
    _wall: Callable[[], float]
    """Seconds since the epoch."""

    def admits(self, secret: str) -> bool:
        """Whether *secret* is the right one."""
        return hmac.compare_digest(secret.encode(errors="replace"), self._secret.encode())

    def begin(self) -> str:
        """A new session, as the value of a cookie."""
        words = f"{int(self._wall()) + LIFETIME}.{secrets.token_hex(8)}"
        return f"{words}.{self._seal(words)}"

    def is_good(self, cookies: Iterable[bytes]) -> bool:
        """Whether one of the ``cookie`` headers has a session that has not ended."""
        return any(map(self._is_mine, _values(cookies)))

    def _is_mine(self, value: str) -> bool:
        words, _, seal = value.rpartition(".")
        if not (value.isascii() and hmac.compare_digest(seal, self._seal(words))):
            return False
        return int(words.partition(".")[0]) > self._wall()  # sealed by us, so a number

    def _seal(self, words: str) -> str:
        key = sha256(_PURPOSE + self._secret.encode()).digest()
        return hmac.new(key, words.encode(), sha256).hexdigest()


def _values(cookies: Iterable[bytes]) -> Iterator[str]:
    for header in cookies:
        for pair in header.decode("latin-1").split(";"):
            name, _, value = pair.strip().partition("=")
            if name == COOKIE:
                yield value


def is_foreign(sites: Iterable[bytes]) -> bool:
    """Whether the ``sec-fetch-site`` headers say that another site's page sent the request; old browsers send none."""
    return any(site not in _OWN for site in sites)


def is_allowed_host(hosts: Iterable[bytes], allowed: Iterable[str]) -> bool:
    """Whether the ``host`` headers name this machine or one of *allowed*.

    Another name means that another site's page made a browser take this machine for its own server (DNS rebinding).
    """
    names = [_without_port(host.decode("latin-1").lower()) for host in hosts]
    return len(names) == 1 and names[0] in (*_LOOPBACK, *allowed)


def _without_port(host: str) -> str:
    return host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]
