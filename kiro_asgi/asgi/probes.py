"""Probes of load balancers and supervisors: whether the process lives, and whether requests should come to it.

A gateway that is being drained is not ready, and goes on serving: whoever sends requests needs a moment to hear of it.
A credential that rests, or a quota that is spent, makes no gateway unready: the others have the same one, and clients
are told more by an answer of their API than by a proxy that has nobody left to ask.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from attrs import define, field, frozen

from kiro_asgi.asgi.models import Provider
from kiro_asgi.asgi.protocol import Headers, Scope
from kiro_asgi.state.base import Store, WatchedStore

__all__ = ["Readiness", "ReadinessCheck", "ReadinessReason"]

_CLOSE: Final[Headers] = ((b"connection", b"close"),)


class ReadinessReason(StrEnum):
    """Why a gateway is not ready, or does less than it should."""

    DRAINING = "draining"
    """It is being stopped."""

    CREDENTIALS = "credentials"
    """No upstream has a credential that works, and none will before somebody signs in."""

    STORE = "store"
    """What is kept between requests cannot be reached."""


@frozen
class Readiness:
    """Whether requests should come to a gateway."""

    reasons: tuple[ReadinessReason, ...] = ()
    """Why not."""

    degraded: tuple[ReadinessReason, ...] = ()
    """What is missing, though it is ready."""

    @property
    def is_ready(self) -> bool:
        """Whether there is no reason against it."""
        return not self.reasons


@define
class ReadinessCheck:
    """Looks at what one application knows already; asks nobody."""

    _providers: tuple[Provider, ...]
    _store: Store
    is_draining: bool = field(init=False, default=False)
    """Whether the process is going to end."""

    def drain(self) -> None:
        """Be unready from now on."""
        self.is_draining = True

    def readiness(self) -> Readiness:
        """The readiness at this moment."""
        down = isinstance(self._store, WatchedStore) and not self._store.is_reachable
        return Readiness(tuple(self._reasons()), (ReadinessReason.STORE,) if down else ())

    def _reasons(self) -> Iterator[ReadinessReason]:
        if self.is_draining:
            yield ReadinessReason.DRAINING
        if not any(provider.credentials.is_usable for provider in self._providers):
            yield ReadinessReason.CREDENTIALS

    def headers(self, scope: Scope) -> Headers:
        """Headers that have a client of HTTP/1 connect anew, which may bring it elsewhere, while this is drained."""
        return _CLOSE if self.is_draining and str(scope.get("http_version", "")).startswith("1") else ()
