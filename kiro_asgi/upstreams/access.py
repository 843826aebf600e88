"""Access to a service: keys in its settings, or tokens of a user who signed in.

All of it is pure; `kiro_asgi.net.credentials.pool` looks after what is named here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from attrs import field, frozen

from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.upstreams.base import Credential, Token, UpstreamRequest

Headers = Sequence[tuple[bytes, bytes]]

Row = tuple[str, str]
"""Table and key in a store."""

Beside = Callable[[str], bytes | None]
"""The bytes of a file in the same folder; ``None`` where there is none."""


class Presenter(Protocol):
    """How one vendor's tokens are used."""

    def credential(self, token: Token, source: str) -> Credential:
        """The credential to present to the service."""
        ...

    def profile_requests(self, credential: Credential) -> tuple[UpstreamRequest, ...]:
        """Ask which profile belongs to *credential*, best place first; nothing where that is known or not wanted."""
        ...

    def profile(self, bodies: Iterable[bytes]) -> str:
        """The profile to use of those that the answers list; empty where they list none."""
        ...


class Renewer(Protocol):
    """How a sign-in service is asked for new tokens."""

    @property
    def reached_by(self) -> str:
        """The settings that decide how it is reached, for the error where it is not."""
        ...

    def renewal(self, token: Token) -> UpstreamRequest:
        """Ask for a new token.

        Raises:
            UpstreamDenied: The token lacks a part that renewal needs; signing in again helps.
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
    def table(self) -> str:
        """Name of the upstream's table of settings."""
        ...

    @property
    def missing(self) -> str:
        """The settings to name in an error, where there is no credential."""
        ...

    @property
    def given(self) -> Credential | None:
        """A credential that stands in the settings."""
        ...

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows of a store that `parse_rows` reads."""
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


class Hosts(Protocol):
    """Which of a service's hosts a credential is sent to, where it has several."""

    def elsewhere(self, credential: Credential, request: UpstreamRequest, error: KiroAsgiError) -> Credential | None:
        """*credential* for other hosts, where *error*, the end of *request*, says that it and the host do not belong
        together; ``None`` where it says something else, or there are no others.  Must not lead away from a judgement
        about the account."""
        ...


class TokenPlaces(Protocol):
    """The settings that name the places of tokens."""

    @property
    def credentials_file(self) -> str:
        """A token file or a store; empty for none."""
        ...

    @property
    def credentials_command(self) -> str:
        """A program, with its arguments, that prints a token; empty for none."""
        ...

    @property
    def fallback_credentials_files(self) -> tuple[str, ...]:
        """More files or stores, tried in this order."""
        ...

    @property
    def write_back(self) -> str:
        """Where renewed tokens are kept: ``files``, ``stores`` (as well) or ``nowhere``."""
        ...

    @property
    def refresh_margin(self) -> float:
        """Seconds before its end at which a token is renewed."""
        ...


@frozen
class SignIns:
    """Tokens that are found in files, stores and programs, and renewed."""

    vendor: Vendor
    places: TokenPlaces
    renewed_by: str = ""
    """How a user has the program that a file belongs to renew its token, in words, where only that program does; then
    the file is read again, once a second at most, as long as requests come.  Empty: the gateway renews tokens."""


@frozen
class KeyExchange:
    """Where a key becomes a token."""

    url: str
    scheme: str = "Bearer"
    """How the key is presented: ``Bearer`` or ``token``."""

    headers: Headers = field(default=(), repr=False)
    """Further headers of the request."""

    def request(self, key: str) -> UpstreamRequest:
        """Ask for a token for *key*."""
        authorization = (b"authorization", f"{self.scheme} {key}".encode("ascii"))
        return UpstreamRequest("GET", self.url, (authorization, (b"accept", b"application/json"), *self.headers))


WITHOUT_KEY: Final = "the service is asked without one"
"""Behaviour without a key, as ``doctor`` reports it."""


@frozen
class Keys:
    """Keys that stand in the settings."""

    named: tuple[tuple[str, str], ...] = field(repr=False)
    """Name, which is unique, and key, in order of preference.  Without keys, an empty one: the service gets none."""

    exchange: KeyExchange | None = None
    """How a key becomes a token, where the service wants that instead."""

    without: str = WITHOUT_KEY
    """Behaviour where there is none, as ``doctor`` reports it."""

    examine: Callable[[], str] | None = field(default=None, eq=False, repr=False)
    """Describes the credentials that are used, for ``doctor``; may block.  Raises a `KiroAsgiError` where they are
    unusable.  ``None``: there is nothing to add."""
