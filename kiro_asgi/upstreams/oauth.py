"""Base for services whose users sign in: tokens in a file of ours, renewed as OAuth 2.0 has it.

The file is the token endpoint's answer with a moment in the place of a duration::

    {"access_token": "…", "refresh_token": "…", "expires_at": 1700000000}

Source: https://www.rfc-editor.org/rfc/rfc6749#section-6
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn, Self
from urllib.parse import urlencode

from attrs import evolve, field, frozen

from kiro_asgi.errors import UpstreamDenied, UpstreamFault
from kiro_asgi.setting import PATH, Bounds, Choices, setting
from kiro_asgi.upstreams.access import Beside, Headers, Row
from kiro_asgi.upstreams.base import Credential, CredentialKind, Token, UpstreamRequest
from kiro_asgi.upstreams.settings import DirectSettings
from kiro_asgi.wire.json import JsonError, dumps, loads, object_of, text_of

_HEADER: Final = re.compile(r"[!-~]+")
"""What a token may consist of: it becomes part of a header."""

_LATEST: Final = 253_402_300_799.0
"""The last second of the year 9999."""

_DENIED: Final = frozenset({400, 401, 403})
"""Statuses by which a token endpoint says that only signing in again helps."""


@frozen(kw_only=True)
class SignInSettings(DirectSettings):
    """Settings of a service whose user signs in; a key, where there is one, is not needed."""

    credentials_file: str = setting("", PATH)
    """File with the tokens of the sign-in."""

    credentials_command: str = setting("")
    """Program, with its arguments, that prints such a document; in the place of a file."""

    fallback_credentials_files: tuple[str, ...] = setting((), PATH)
    """Further files, for other users, tried in this order."""

    write_back: str = setting("files", Choices(("files", "nowhere")))
    """Where renewed tokens are kept: in their files, or in memory alone."""

    refresh_margin: float = setting(300.0, Bounds(0, 86_400))
    """Seconds before its end at which a token is renewed."""

    @property
    def configured(self) -> bool:
        """Whether there is a sign-in."""
        return any((self.credentials_file, self.credentials_command, self.fallback_credentials_files))

    def simulated(self, url: str) -> Self:
        """The same with a simulator at *url* as the service; no token is left."""
        bare = evolve(super().simulated(url), credentials_file="", credentials_command="")
        return evolve(bare, fallback_credentials_files=())


@frozen
class OAuthVendor:
    """One service's tokens; a subclass overrides what is different there (`kiro_asgi.upstreams.Vendor`)."""

    table: str
    """Name of the service's table of settings."""

    token_url: str
    """Where tokens are renewed."""

    client_id: str = ""
    client_secret: str = field(default="", repr=False)

    @property
    def missing(self) -> str:
        """The settings to name in an error, where there is no credential."""
        return f"no sign-in: run kiro-asgi login {self.table}, and set {self.table}.credentials_file"

    @property
    def reached_by(self) -> str:
        """The settings that decide how the token endpoint is reached."""
        return f"{self.table}.proxy"

    @property
    def given(self) -> Credential | None:
        """No credential stands in the settings."""
        return None

    @property
    def rows(self) -> tuple[Row, ...]:
        """None: tokens are in files."""
        return ()

    def parse(self, document: bytes, beside: Beside, now: float) -> Token:
        """The token of a document.

        Raises:
            UpstreamFault: There is none in it; the message names the place, and quotes nothing.
        """
        return self._token(self._object(document), _moment, now)

    def parse_rows(self, rows: Mapping[Row, bytes], now: float) -> Token:
        """None: tokens are in files.

        Raises:
            UpstreamFault: Always.
        """
        self._refuse("it is a SQLite store, and not a file of JSON")

    def merge(self, document: bytes, token: Token) -> bytes:
        """*document* with *token* in it; what else is in it stays."""
        tokens = {"access_token": token.access_token, "refresh_token": token.refresh_token}
        return dumps({**self._object(document), **tokens, "expires_at": token.expires_at})

    def credential(self, token: Token, source: str) -> Credential:
        """The credential to present to the service."""
        return Credential(CredentialKind.ACCESS_TOKEN, token.access_token, source=source)

    def profile_requests(self, credential: Credential) -> tuple[UpstreamRequest, ...]:
        """Nothing: there are no profiles."""
        return ()

    def profile(self, bodies: Iterable[bytes]) -> str:
        """None."""
        return ""

    def renewal(self, token: Token) -> UpstreamRequest:
        """Ask for a new token.

        Raises:
            UpstreamDenied: There is nothing to renew it with.
        """
        if not token.refresh_token:
            self._sign_in("the token has expired, or is refused")
        form = {"grant_type": "refresh_token", "refresh_token": token.refresh_token}
        form |= {"client_id": self.client_id} if self.client_id else {}
        form |= {"client_secret": self.client_secret} if self.client_secret else {}
        headers = ((b"content-type", b"application/x-www-form-urlencoded"), (b"accept", b"application/json"))
        return UpstreamRequest("POST", self.token_url, headers, urlencode(form).encode())

    def renewed(self, token: Token, status: int, headers: Headers, body: bytes, now: float) -> Token:
        """The new token that an answer holds; without a refresh token in it, the old one stays.

        Raises:
            UpstreamDenied: Only signing in again helps.
            UpstreamFault: There is none now.
        """
        if status in _DENIED:
            self._sign_in("the sign-in has expired, or was revoked")
        if status != 200:
            raise UpstreamFault(f"{self.token_url} answered {status}", code="credentials.renewal")
        new = self._token(self._object(body), _duration, now)
        return new if new.refresh_token else evolve(new, refresh_token=token.refresh_token)

    def _token(self, fields: Mapping[str, Any], end: Any, now: float) -> Token:
        access, refresh = text_of(fields, "access_token"), text_of(fields, "refresh_token")
        if not _HEADER.fullmatch(access):
            self._refuse("access_token is missing, or has characters that no header may have")
        return Token(access, refresh, end(fields, now))

    def _object(self, document: bytes) -> Mapping[str, Any]:
        try:
            return object_of(loads(document))
        except JsonError:
            self._refuse("it is not JSON")

    def _refuse(self, reason: str) -> NoReturn:
        message = f"{reason}; sign in again: kiro-asgi login {self.table}"
        raise UpstreamFault(message, code="credentials.unreadable")

    def _sign_in(self, reason: str) -> NoReturn:
        message = f"{self.table}: {reason}; run: kiro-asgi login {self.table}"
        raise UpstreamDenied(message, code="credentials.login")


def _moment(fields: Mapping[str, Any], now: float) -> float | None:
    """The end of a token in a file; ``None`` where it is not known."""
    end = fields.get("expires_at")
    return float(end) if isinstance(end, int | float) and 0 <= end <= _LATEST else None


def _duration(fields: Mapping[str, Any], now: float) -> float | None:
    """The same of an answer, which has seconds from *now*."""
    seconds = fields.get("expires_in")
    return now + float(seconds) if isinstance(seconds, int | float) and 0 <= seconds <= _LATEST - now else None


def token_document(body: bytes, now: float) -> bytes:
    """The document to keep for the answer of a token endpoint: what ``login`` writes.

    Raises:
        UpstreamFault: There is no token in it.
    """
    vendor = OAuthVendor("", "")
    return vendor.merge(b"{}", vendor.renewed(Token(""), 200, (), body, now))
