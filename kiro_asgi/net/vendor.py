"""What must be known about a vendor to look after its tokens; pure, and given to us by whoever knows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from kiro_asgi.net.transport import Headers
from kiro_asgi.upstreams.base import Credential, Token, UpstreamRequest

__all__ = ["Beside", "Presenter", "Renewer", "Row", "Vendor"]

Row = tuple[str, str]
"""Table and key in a store."""

Beside = Callable[[str], bytes | None]
"""The bytes of a file in the same folder; ``None`` where there is none."""


class Presenter(Protocol):
    """How one vendor's tokens are used."""

    def credential(self, token: Token, source: str) -> Credential:
        """What is presented to the service."""
        ...

    def profile_requests(self, credential: Credential) -> tuple[UpstreamRequest, ...]:
        """Ask which profile belongs to *credential*, best place first; nothing where that is known or not wanted."""
        ...

    def profile(self, bodies: Iterable[bytes]) -> str:
        """The profile to use of those that the answers list; empty where they list none."""
        ...


class Renewer(Protocol):
    """How a sign-in service is asked for new tokens."""

    def renewal(self, token: Token) -> UpstreamRequest:
        """Ask for a new token.

        Raises:
            UpstreamDenied: Nobody can be asked; signing in again helps.
        """
        ...

    def renewed(self, token: Token, status: int, headers: Headers, body: bytes, now: float) -> Token:
        """The new token that an answer holds.

        Raises:
            UpstreamDenied: Only signing in again helps.
            UpstreamError: There is none now.
        """
        ...


class Vendor(Presenter, Renewer, Protocol):
    """One vendor's tokens."""

    @property
    def given(self) -> Credential | None:
        """A credential that stands in the settings."""
        ...

    @property
    def rows(self) -> tuple[Row, ...]:
        """What `parse_rows` wants to see of a store."""
        ...

    def parse(self, document: bytes, beside: Beside, now: float) -> Token:
        """The token of a document.

        Raises:
            KiroAsgiError: There is none in it.
        """
        ...

    def parse_rows(self, rows: Mapping[Row, bytes], now: float) -> Token:
        """The token of a store.

        Raises:
            KiroAsgiError: There is none in it.
        """
        ...

    def merge(self, document: bytes, token: Token) -> bytes:
        """*document* with *token* in it; what else is in it stays."""
        ...
