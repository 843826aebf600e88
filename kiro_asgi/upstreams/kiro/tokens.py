"""Where tokens are kept: the documents of the service's own clients, read and written without losing what is theirs.

There are two spellings of one document.  The desktop client keeps a JSON file in camelCase, and the registration of its
OIDC client in a file beside it.  The command line keeps a SQLite store of key and value, whose values are JSON in
snake_case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve

from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.upstreams.base import Token, TokenKind
from kiro_asgi.wire.json import JsonError, dumps, loads

Row = tuple[str, str]
"""Table and key."""

KINDS: Final[Mapping[str, TokenKind]] = MappingProxyType(
    {
        "social": TokenKind.SOCIAL,
        "google": TokenKind.SOCIAL,
        "github": TokenKind.SOCIAL,
        "idc": TokenKind.OIDC,
        "oidc": TokenKind.OIDC,
        "iamidentitycenter": TokenKind.OIDC,
        "builderid": TokenKind.OIDC,
        "awsbuilderid": TokenKind.OIDC,
        "enterprise": TokenKind.OIDC,
        "internal": TokenKind.OIDC,
        "externalidp": TokenKind.EXTERNAL_IDP,
    }
)
"""Kinds by ``authMethod`` and ``provider``, in lower case without punctuation."""

TOKENS: Final[Mapping[Row, TokenKind]] = MappingProxyType(
    {
        ("auth_kv", "kirocli:social:token"): TokenKind.SOCIAL,
        ("auth_kv", "kirocli:odic:token"): TokenKind.OIDC,
        ("auth_kv", "kirocli:external-idp:token"): TokenKind.EXTERNAL_IDP,
        ("auth_kv", "codewhisperer:odic:token"): TokenKind.OIDC,
    }
)
"""Rows that hold a token, the command line's own before that of its predecessor; "odic" is how they spell it."""

PROFILE: Final[Row] = ("state", "api.codewhisperer.profile")
SSO_REGION: Final[Row] = ("state", "auth.idc.region")

ROWS: Final[tuple[Row, ...]] = (
    *TOKENS,
    ("auth_kv", "kirocli:odic:device-registration"),
    ("auth_kv", "codewhisperer:odic:device-registration"),
    PROFILE,
    SSO_REGION,
)
"""Every row of a store that `parse_token_rows` wants to see."""

MILLISECONDS: Final = 1e11
"""From here on a number of seconds would be in the year 5138; it counts milliseconds."""

TEN_YEARS: Final = 10 * 365 * 86_400

LATEST: Final = 253_402_300_799.0
"""The last second of the year 9999; what claims to last longer does not say when it ends."""


class TokenUnreadable(KiroAsgiError):
    """A document is no token, or lacks what a token needs.  The message quotes nothing of it."""


def parse_token(document: bytes, beside: Callable[[str], bytes | None], now: float) -> Token:
    """The token of a JSON document.

    Args:
        document: In either spelling.
        beside: The file of that name in the same folder, ``None`` where there is none; asked for a client registration.
        now: Seconds since the epoch, for a document that says how long a token lasts and not until when.

    Raises:
        TokenUnreadable: Not JSON, or neither an access token nor a refresh token in it.
    """
    fields = _object(document)
    registration = _registration(fields, beside)
    return _token(fields, registration, _kind(fields, registration), now)


def parse_token_rows(rows: Mapping[Row, bytes], now: float) -> Token:
    """The token of a store; of several, the one that lasts longest.

    Args:
        rows: Those of `ROWS` that the store has.
        now: As for `parse_token`.

    Raises:
        TokenUnreadable: No row holds a token, or those that do are damaged.
    """
    found: list[Token] = []
    failure = TokenUnreadable("it holds no sign-in of the Kiro command line", code="credentials.unreadable")
    for row, kind in TOKENS.items():
        if row in rows:
            try:
                found.append(_row_token(rows, row, kind, now))
            except TokenUnreadable as error:
                failure = error
    if not found:
        raise failure
    return max(found, key=lambda token: token.expires_at or 0.0)


def merge_token(document: bytes, token: Token) -> bytes:
    """*document* with *token* in it, in the document's spelling; what else is in it stays."""
    try:
        fields = _object(document)
    except TokenUnreadable:
        fields = {}
    if "access_token" not in fields and "refresh_token" not in fields:
        return dumps({**fields, **_written(token)})
    written = {_snake(name): value for name, value in _written(token).items()}
    if "profile_arn" not in fields:
        written.pop("profile_arn", None)  # a store keeps the profile in a row of its own
    return dumps({**fields, **written})


def render_token(token: Token, provider: str = "") -> bytes:
    """A document of our own for *token*, as the desktop client writes it, the client registration included.

    Args:
        token: What a sign-in gave.
        provider: Who vouches for the user, e.g. ``Google`` or ``BuilderId``.
    """
    method = {TokenKind.SOCIAL: "social", TokenKind.OIDC: "IdC", TokenKind.EXTERNAL_IDP: "external_idp"}[token.kind]
    fields = {
        **_written(token),
        "authMethod": method,
        "provider": provider,
        "region": token.region,
        "clientId": token.client_id,
        "clientSecret": token.client_secret,
        "tokenEndpoint": token.token_endpoint,
        "scopes": list(token.scopes),
    }
    return dumps({name: value for name, value in fields.items() if value})


def expiry(value: Any) -> float | None:
    """A time as seconds since the epoch: RFC 3339 with any number of fraction digits, where UTC is meant if no offset
    is named, or a number of seconds or milliseconds; ``None`` where it is neither."""
    if type(value) is int or type(value) is float:
        seconds = value / 1000 if MILLISECONDS <= value <= 1000 * LATEST else value
        return float(seconds) if 0 <= seconds <= LATEST else None
    if type(value) is not str:
        return None
    try:
        moment = datetime.fromisoformat(value.strip())
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def lifetime(fields: Mapping[str, Any]) -> float | None:
    """Seconds that the token of an answer lasts; ``None`` where it does not say, or nothing that can be believed."""
    lasts = fields.get("expiresIn", fields.get("expires_in"))
    return float(lasts) if (type(lasts) is int or type(lasts) is float) and 0 < lasts <= TEN_YEARS else None


def text_of(fields: Mapping[str, Any], *names: str) -> str:
    """The first of the named members that is a text with something in it; empty where there is none."""
    values = (fields.get(name) for name in names)
    return next((value.strip() for value in values if type(value) is str and value.strip()), "")


def rfc3339(seconds: float) -> str:
    """A time as the desktop client writes it: UTC, in milliseconds."""
    moment = datetime(1970, 1, 1) + timedelta(milliseconds=round(seconds * 1000))
    return moment.isoformat(timespec="milliseconds") + "Z"


def _object(document: bytes) -> dict[str, Any]:
    try:
        fields = loads(document)
    except JsonError:
        raise TokenUnreadable("it is not JSON", code="credentials.unreadable") from None
    if type(fields) is not dict:
        raise TokenUnreadable("it is not a JSON object", code="credentials.unreadable")
    return fields


def _registration(fields: Mapping[str, Any], beside: Callable[[str], bytes | None]) -> Mapping[str, Any]:
    """Where the OIDC client's id and secret stand: in the document, or in the file that it names by a hash."""
    name = text_of(fields, "clientIdHash", "client_id_hash")
    if text_of(fields, "clientId", "client_id") or not re.fullmatch(r"[\w-]{1,128}", name, re.ASCII):
        return fields
    found = beside(f"{name}.json")
    return fields if found is None else _object(found)


def _kind(fields: Mapping[str, Any], registration: Mapping[str, Any]) -> TokenKind:
    for name in ("authMethod", "auth_method", "provider"):
        kind = KINDS.get(re.sub(r"[^a-z]", "", text_of(fields, name).lower()))
        if kind is not None:
            return kind
    if text_of(fields, "tokenEndpoint", "token_endpoint"):
        return TokenKind.EXTERNAL_IDP
    return TokenKind.OIDC if text_of(registration, "clientSecret", "client_secret") else TokenKind.SOCIAL


def _token(fields: Mapping[str, Any], registration: Mapping[str, Any], kind: TokenKind, now: float) -> Token:
    access, refresh = text_of(fields, "accessToken", "access_token"), text_of(fields, "refreshToken", "refresh_token")
    if not access and not refresh:
        raise TokenUnreadable("it holds no token", code="credentials.unreadable")
    if not re.fullmatch(r"[!-~]*", access):
        raise TokenUnreadable("its access token holds characters that none has", code="credentials.unreadable")
    return Token(
        access,
        refresh,
        _expires_at(fields, now),
        kind,
        region=text_of(fields, "region", "ssoRegion", "sso_region") or text_of(registration, "region"),
        profile_arn=text_of(fields, "profileArn", "profile_arn"),
        client_id=text_of(registration, "clientId", "client_id"),
        client_secret=text_of(registration, "clientSecret", "client_secret"),
        token_endpoint=text_of(fields, "tokenEndpoint", "token_endpoint"),
        scopes=_scopes(fields),
    )


def _expires_at(fields: Mapping[str, Any], now: float) -> float | None:
    for name in ("expiresAt", "expires_at"):
        if name in fields:
            return expiry(fields[name])
    lasts = lifetime(fields)
    return now + lasts if lasts is not None else None


def _scopes(fields: Mapping[str, Any]) -> tuple[str, ...]:
    value = fields.get("scopes", fields.get("scope"))
    words = value.split() if type(value) is str else value
    return tuple(word for word in words if type(word) is str) if type(words) is list else ()


def _row_token(rows: Mapping[Row, bytes], row: Row, kind: TokenKind, now: float) -> Token:
    table, key = row
    fields = _object(rows[row])
    registered = rows.get((table, key.removesuffix("token") + "device-registration"))
    registration = _object(registered) if kind is TokenKind.OIDC and registered is not None else fields
    token = _token(fields, registration, kind, now)
    return evolve(
        token,
        place=row,
        region=token.region or _plain(rows.get(SSO_REGION)),
        profile_arn=token.profile_arn or _chosen_profile(rows.get(PROFILE)),
    )


def _plain(value: bytes | None) -> str:
    """A value of the store's own: a JSON text, or the text itself."""
    text = (value or b"").decode("utf-8", "replace").strip()
    return text.strip('"')


def _chosen_profile(value: bytes | None) -> str:
    try:
        return text_of(_object(value or b""), "arn", "profile_arn")
    except TokenUnreadable:
        return ""


def _written(token: Token) -> dict[str, Any]:
    fields = {
        "accessToken": token.access_token,
        "refreshToken": token.refresh_token,
        "expiresAt": rfc3339(token.expires_at) if token.expires_at is not None else "",
        "profileArn": token.profile_arn,
    }
    return {name: value for name, value in fields.items() if value}


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda letter: "_" + letter[0].lower(), name)
