"""The file in which the Codex command keeps its sign-in, read and never written.

``$CODEX_HOME/auth.json``, by default ``~/.codex/auth.json``::

    {"auth_mode": "chatgpt", "OPENAI_API_KEY": null, "last_refresh": "…",
     "tokens": {"id_token": JWT, "access_token": JWT, "refresh_token": "…", "account_id": "…"}}

The command renews the token when it asks a model and the token has expired, was refused, or is more than eight days
old.  A refresh token can be used once, so a second program that renewed it would sign the command out.

Source: https://github.com/openai/codex, ``codex-rs/login/src/auth/storage.rs``, ``manager.rs``, ``token_data.rs``
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn

from attrs import frozen

from kiro_asgi.errors import UpstreamDenied, UpstreamFault
from kiro_asgi.upstreams.access import Beside, Headers, Row, SignIns
from kiro_asgi.upstreams.base import Credential, CredentialKind, Token, UpstreamRequest
from kiro_asgi.upstreams.openai.codex import CODEX
from kiro_asgi.wire.json import JsonError, loads, object_of, text_of

_AUTH: Final = "https://api.openai.com/auth"
"""The claim with facts about the account."""

_HEADER: Final = re.compile(r"[!-~]+")
_ACCOUNT: Final = re.compile(r"[\w.-]{1,200}", re.ASCII)
_LATEST: Final = 253_402_300_799
"""The last second of the year 9999."""

RENEW: Final = "run codex, which renews it as soon as it asks a model, e.g. codex exec hello, or sign in: codex login"


def parse(document: bytes, key_endpoint: str) -> Token:
    """The token of the file, or the key, where it holds nothing else.

    Args:
        document: The file.
        key_endpoint: Base URL of the service for a key.

    Raises:
        UpstreamFault: Code ``credentials.unreadable``: there is none; the message names the place, and quotes nothing.
    """
    fields = _object(document)
    mode = re.sub("[^a-z]", "", text_of(fields, "auth_mode").lower())
    key, tokens = text_of(fields, "OPENAI_API_KEY"), object_of(fields.get("tokens"))
    access, refresh, identity = (text_of(tokens, name) for name in ("access_token", "refresh_token", "id_token"))
    if key and (mode == "apikey" or not access):
        _require(_HEADER, key, "OPENAI_API_KEY")
        return Token(key, endpoint=key_endpoint, beside=(access, refresh, identity))
    if not access:
        _refuse("tokens.access_token is missing, and there is no OPENAI_API_KEY")
    _require(_HEADER, access, "tokens.access_token")
    claims = _claims(access, "tokens.access_token")
    account = text_of(tokens, "account_id") or _account(claims) or _account(_claims(identity, "tokens.id_token"))
    if not account:
        _refuse("tokens.account_id is missing")
    _require(_ACCOUNT, account, "tokens.account_id")
    return Token(
        access,
        refresh,
        _expiry(claims),
        endpoint=CODEX.endpoint,
        account=account,
        beside=(identity, key),
    )


def _object(document: bytes) -> Mapping[str, Any]:
    try:
        fields = loads(document)
    except JsonError as error:
        _refuse("it is nested too deeply" if error.code == "json.too_deep" else "it is not JSON")
    if type(fields) is not dict:
        _refuse("it is not a JSON object")
    return fields


def _claims(token: str, place: str) -> Mapping[str, Any]:
    """The claims of a JWT; none of a token that is no JWT, which is for the service to judge."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        claims = loads(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, JsonError):
        _refuse(f"the claims of {place} are not JSON")
    return object_of(claims)


def _account(claims: Mapping[str, Any]) -> str:
    return text_of(object_of(claims.get(_AUTH)), "chatgpt_account_id")


def _expiry(claims: Mapping[str, Any]) -> float | None:
    """The end of the token, in seconds since the epoch; ``None`` where its claims do not name it."""
    ends = claims.get("exp")
    if ends is None:
        return None
    if type(ends) not in (int, float) or not 0 <= ends <= _LATEST:
        _refuse("the claim exp of tokens.access_token is no time")
    return float(ends)


def _require(form: re.Pattern[str], value: str, place: str) -> None:
    if not form.fullmatch(value):
        _refuse(f"{place} has characters that no header may have, or is too long")


def _refuse(reason: str) -> NoReturn:
    raise UpstreamFault(f"{reason}; sign in again: codex login", code="credentials.unreadable")


@frozen
class CodexPlaces:
    """The one place; a `kiro_asgi.upstreams.access.TokenPlaces`."""

    credentials_file: str
    credentials_command: str = ""
    fallback_credentials_files: tuple[str, ...] = ()
    write_back: str = "nowhere"
    refresh_margin: float = 0.0


@frozen
class CodexVendor:
    """The command's tokens, as `kiro_asgi.upstreams.access.Vendor`."""

    table: str
    endpoint: str
    """The operator's base URL, for whatever the file holds; empty for the service's own."""

    key_endpoint: str
    given: None = None
    rows: tuple[Row, ...] = ()
    reached_by: str = ""

    @property
    def missing(self) -> str:
        """The setting to name where there is no credential."""
        return f"no sign-in: set {self.table}.credentials_file"

    def parse(self, document: bytes, beside: Beside, now: float) -> Token:
        """The token of the file; see the function `parse`."""
        return parse(document, self.key_endpoint)

    def parse_rows(self, rows: Mapping[Row, bytes], now: float) -> Token:
        """None: the command keeps a JSON file."""
        _refuse("it is a SQLite store, and not the auth.json of the Codex command")

    def merge(self, document: bytes, token: Token) -> bytes:
        """*document*: nothing is written."""
        return document

    def credential(self, token: Token, source: str) -> Credential:
        """The credential of a token, or of a key."""
        kind = CredentialKind.ACCESS_TOKEN if token.account else CredentialKind.API_KEY
        address = "" if self.endpoint else token.endpoint
        return Credential(kind, token.access_token, source=source, endpoint=address, account=token.account)

    def profile_requests(self, credential: Credential) -> tuple[UpstreamRequest, ...]:
        """No requests: the file names the account."""
        return ()

    def profile(self, bodies: Iterable[bytes]) -> str:
        """No profile."""
        return ""

    def renewal(self, token: Token) -> UpstreamRequest:
        """Refuse: only the command renews its token.

        Raises:
            UpstreamDenied: Code ``credentials.login``; the message names the command.
        """
        where = f"{self.table}.credentials_file"
        if not token.account:
            raise UpstreamDenied(
                f"{where}: the key is refused; run codex login --with-api-key", code="credentials.login"
            )
        raise UpstreamDenied(f"{where}: the token has expired, or is refused; {RENEW}", code="credentials.login")

    def renewed(self, token: Token, status: int, headers: Headers, body: bytes, now: float) -> Token:
        """*token*: no service was asked for another one."""
        return token


def codex_sign_in(table: str, path: str, endpoint: str, key_endpoint: str) -> SignIns:
    """The access by the file at *path*, which stands in the slice called *table*."""
    return SignIns(CodexVendor(table, endpoint, key_endpoint), CodexPlaces(path), RENEW)
