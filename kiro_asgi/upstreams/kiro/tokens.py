"""Tokens of the service: where they are kept, how they are presented, and how they are renewed.

They are kept in documents of the service's own clients, whose other members stay when they are written.
There are two spellings of one document.  The desktop client keeps a JSON file in camelCase, and the registration of its
OIDC client in a file beside it.  The command line keeps a SQLite store of key and value, whose values are JSON in
snake_case.  Renewing takes one request, for each kind of sign-in another.

Sources: https://docs.aws.amazon.com/singlesignon/latest/OIDCAPIReference/API_CreateToken.html,
https://www.rfc-editor.org/rfc/rfc6749#section-6
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from attrs import evolve, field, frozen

from kiro_asgi.errors import (
    KiroAsgiError,
    NotTheUpstream,
    UpstreamDenied,
    UpstreamFault,
    UpstreamThrottled,
    UpstreamUnavailable,
)
from kiro_asgi.failures.texts import clean
from kiro_asgi.failures.waits import fields_of, retry_after
from kiro_asgi.upstreams.base import Credential, CredentialKind, Token, TokenKind, UpstreamRequest
from kiro_asgi.upstreams.kiro.account import authorization, credential, parse_profiles
from kiro_asgi.upstreams.kiro.hosts import PROFILES, REGION, KiroHosts, oidc_host, social_host
from kiro_asgi.upstreams.kiro.settings import KiroSettings
from kiro_asgi.upstreams.settings import user_agent
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
"""The last second of the year 9999; an end that is later counts as unknown."""


class TokenUnreadable(KiroAsgiError):
    """A document is not a token, or lacks a part of one.  The message quotes nothing of it."""


def parse_token(document: bytes, beside: Callable[[str], bytes | None], now: float) -> Token:
    """The token of a JSON document.

    Args:
        document: In either spelling.
        beside: The file of that name in the same folder, ``None`` where there is none; asked for a client registration.
        now: Seconds since the epoch, for a document with a lifetime instead of an expiry.

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
        token: The token of a sign-in.
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
    """Seconds that the token of an answer lasts; ``None`` where it names none, or an implausible one."""
    lasts = fields.get("expiresIn", fields.get("expires_in"))
    return float(lasts) if (type(lasts) is int or type(lasts) is float) and 0 < lasts <= TEN_YEARS else None


def _text_of(fields: Mapping[str, Any], *names: str) -> str:
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
    name = _text_of(fields, "clientIdHash", "client_id_hash")
    if _text_of(fields, "clientId", "client_id") or not re.fullmatch(r"[\w-]{1,128}", name, re.ASCII):
        return fields
    found = beside(f"{name}.json")
    return fields if found is None else _object(found)


def _kind(fields: Mapping[str, Any], registration: Mapping[str, Any]) -> TokenKind:
    for name in ("authMethod", "auth_method", "provider"):
        kind = KINDS.get(re.sub(r"[^a-z]", "", _text_of(fields, name).lower()))
        if kind is not None:
            return kind
    if _text_of(fields, "tokenEndpoint", "token_endpoint"):
        return TokenKind.EXTERNAL_IDP
    return TokenKind.OIDC if _text_of(registration, "clientSecret", "client_secret") else TokenKind.SOCIAL


def _token(fields: Mapping[str, Any], registration: Mapping[str, Any], kind: TokenKind, now: float) -> Token:
    access, refresh = _text_of(fields, "accessToken", "access_token"), _text_of(fields, "refreshToken", "refresh_token")
    if not access and not refresh:
        raise TokenUnreadable("it holds no token", code="credentials.unreadable")
    if not re.fullmatch(r"[!-~]*", access):
        raise TokenUnreadable("its access token holds characters that none has", code="credentials.unreadable")
    return Token(
        access,
        refresh,
        _expires_at(fields, now),
        kind,
        region=_text_of(fields, "region", "ssoRegion", "sso_region") or _text_of(registration, "region"),
        profile_arn=_text_of(fields, "profileArn", "profile_arn"),
        client_id=_text_of(registration, "clientId", "client_id"),
        client_secret=_text_of(registration, "clientSecret", "client_secret"),
        token_endpoint=_text_of(fields, "tokenEndpoint", "token_endpoint"),
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
        return _text_of(_object(value or b""), "arn", "profile_arn")
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


SIGN_IN: Final = "credentials.login"
"""Code of errors against which only signing in again helps."""

DEFAULT_REGION: Final = "us-east-1"
JSON: Final = b"application/json"
FORM: Final = b"application/x-www-form-urlencoded"
THIS_MACHINE: Final = ("127.0.0.1", "::1", "localhost")

LIFETIME: Final = 3600.0
"""Seconds that a token lasts whose answer names no lifetime."""

EXTERNAL_PATH: Final = "/oauth2/v2.0/token"
"""Of a company's provider, where `auth_endpoint` stands in for it."""

TRANSIENT: Final = frozenset(
    {
        "slow_down",
        "slowdown",
        "temporarily_unavailable",
        "server_error",
        "internalserver",
        "throttling",
        "toomanyrequests",
    }
)
"""Errors with status 400 that pass, in lower case, without an ``Exception`` at the end."""


def renewal_request(token: Token, *, auth_endpoint: str, auth_region: str, user_agent: str) -> UpstreamRequest:
    """Ask for a new token.

    Args:
        token: The old one.
        auth_endpoint: Base URL; empty for the public host.
        auth_region: Region of the sign-in; empty for the token's own.
        user_agent: Value of the ``User-Agent`` header.

    Raises:
        UpstreamDenied: Code ``credentials.login``: the token lacks a part that renewal needs.
    """
    lacking = next((name for name, value in _needs(token) if not value), "")
    if lacking:
        raise _sign_in_error(f"the token cannot be renewed without {lacking}")
    region = auth_region or token.region or DEFAULT_REGION
    if not REGION.fullmatch(region):
        raise _sign_in_error("the sign-in region in the token is not the name of a region")
    base = auth_endpoint.rstrip("/")
    match token.kind:
        case TokenKind.SOCIAL:
            url, form = f"{base or social_host(region)}/refreshToken", {"refreshToken": token.refresh_token}
        case TokenKind.OIDC:
            url, form = f"{base or oidc_host(region)}/token", _oidc_form(token)
        case TokenKind.EXTERNAL_IDP:
            url = base + EXTERNAL_PATH if base else _trusted(token.token_endpoint)
            return UpstreamRequest("POST", url, _headers(FORM, user_agent), _external_form(token))
    return UpstreamRequest("POST", url, _headers(JSON, user_agent), dumps(form))


def renewed(token: Token, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes, now: float) -> Token:
    """The new token that an answer holds; what the answer leaves out stays as it was.

    Args:
        token: The old one.
        status: Of the answer.
        headers: Of the answer.
        body: Of the answer.
        now: Seconds since the epoch.

    Raises:
        UpstreamDenied: Code ``credentials.login``: the refresh token, or the client's registration, has ended.
        UpstreamThrottled: Too many renewals.
        UpstreamFault: It may work later.
        NotTheUpstream: This is no sign-in service.
    """
    report = _report(body)
    access = _text_of(report, "accessToken", "access_token")
    if status != 200:
        raise _refused(status, retry_after(fields_of(headers)), report)
    if not re.fullmatch(r"[!-~]+", access):
        raise NotTheUpstream("the server at the sign-in service's address sent no token", code="credentials.foreign")
    return evolve(
        token,
        access_token=access,
        refresh_token=_text_of(report, "refreshToken", "refresh_token") or token.refresh_token,
        expires_at=now + (lifetime(report) or LIFETIME),
        profile_arn=_text_of(report, "profileArn", "profile_arn") or token.profile_arn,
    )


def _sign_in_error(message: str) -> UpstreamDenied:
    """Make an error against which only signing in again helps."""
    return UpstreamDenied(f"{message}; sign in again, e.g. with kiro-asgi login", code=SIGN_IN)


def _needs(token: Token) -> tuple[tuple[str, str], ...]:
    always = ("a refresh token", token.refresh_token)
    match token.kind:
        case TokenKind.SOCIAL:
            return (always,)
        case TokenKind.OIDC:
            return (always, ("the client's registration", token.client_id and token.client_secret))
        case TokenKind.EXTERNAL_IDP:
            return (always, ("the client's id", token.client_id))


def _oidc_form(token: Token) -> dict[str, str]:
    return {
        "clientId": token.client_id,
        "clientSecret": token.client_secret,
        "refreshToken": token.refresh_token,
        "grantType": "refresh_token",
    }


def _external_form(token: Token) -> bytes:
    form = {"grant_type": "refresh_token", "client_id": token.client_id, "refresh_token": token.refresh_token}
    return urlencode({**form, "scope": " ".join(token.scopes)} if token.scopes else form).encode()


def _trusted(url: str) -> str:
    """*url*, if a refresh token may travel there: by TLS, or not beyond this machine.

    Raises:
        UpstreamDenied: It may not.
    """
    try:
        parts = urlsplit(url)
        is_valid = bool(parts.hostname) and parts.port != 0 and not _NOT_URL.search(url)
    except ValueError:
        is_valid = False
    if is_valid and (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in THIS_MACHINE)):
        return url
    raise _sign_in_error("the token names no endpoint of the company's provider that can be trusted with it")


def _headers(content_type: bytes, user_agent: str) -> tuple[tuple[bytes, bytes], ...]:
    return (
        (b"content-type", content_type),
        (b"accept", b"application/json"),
        (b"accept-encoding", b"identity"),
        (b"user-agent", user_agent.encode()),
    )


def _refused(status: int, retry_after: float | None, report: Mapping[str, Any]) -> KiroAsgiError:
    name = _text_of(report, "error", "__type", "code").partition(":")[0].rpartition("#")[2].removesuffix("Exception")
    explanation = clean(_text_of(report, "error_description", "errorMessage", "message") or name) or "no explanation"
    message = f"{explanation} (HTTP {status})"
    if status == 429 or (status == 400 and name.lower() in TRANSIENT):
        return UpstreamThrottled(
            f"the sign-in service is asked too often: {message}", code="credentials.throttled", retry_after=retry_after
        )
    if status in (400, 401):
        return _sign_in_error(f"the sign-in has ended: {message}")
    if 300 <= status < 400:
        return NotTheUpstream(f"another server answers for the sign-in service: {message}", code="credentials.foreign")
    kind = UpstreamUnavailable if status == 503 else UpstreamFault
    return kind(f"the token could not be renewed: {message}", code="credentials.fault", retry_after=retry_after)


def _report(body: bytes) -> Mapping[str, Any]:
    try:
        report = loads(body)
    except JsonError:
        return MappingProxyType({})
    return report if type(report) is dict else MappingProxyType({})


_NOT_URL: Final = re.compile(r"[\s\\#@\x00-\x1f\x7f-\U0010ffff]")


REACHED_BY: Final = "kiro.proxy and kiro.auth_endpoint"
"""The settings that decide how the sign-in service is reached."""


@frozen
class KiroVendor:
    """The service's tokens, as `kiro_asgi.upstreams.access.Vendor`.

    Three regions are kept apart.  Tokens are renewed in the region of the sign-in: ``auth_region``, else the token's
    own.  Profiles are asked for in the service's regions, ``region`` first.  Calls then go where the profile is.

    Raises:
        ConfigError: A credential in the settings has characters that a header cannot have.
    """

    settings: KiroSettings = field(factory=KiroSettings)
    table: str = field(kw_only=True, default="kiro")
    missing: str = field(
        kw_only=True,
        default="no Kiro credential: set KIRO_API_KEY, kiro.credentials_file or kiro.credentials_command",
    )
    reached_by: str = field(kw_only=True, default=REACHED_BY)
    rows: tuple[tuple[str, str], ...] = field(kw_only=True, default=ROWS)
    given: Credential | None = field(kw_only=True)
    """A credential that stands in the settings."""

    @given.default
    def _given_in_settings(self) -> Credential | None:
        kiro = self.settings
        if not (kiro.api_key or kiro.access_token):
            return None
        return credential(kiro.api_key, kiro.access_token, kiro.profile_arn, external_idp=kiro.external_idp)

    def parse(self, document: bytes, beside: Callable[[str], bytes | None], now: float) -> Token:
        """The token of a document; see `parse_token`."""
        return parse_token(document, beside, now)

    def parse_rows(self, rows: Mapping[tuple[str, str], bytes], now: float) -> Token:
        """The token of a store; see `parse_token_rows`."""
        return parse_token_rows(rows, now)

    def merge(self, document: bytes, token: Token) -> bytes:
        """*document* with *token* in it."""
        return merge_token(document, token)

    def credential(self, token: Token, source: str) -> Credential:
        """The credential of a token.  It has no region: that of the sign-in does not decide the service's."""
        external = token.kind is TokenKind.EXTERNAL_IDP
        kind = CredentialKind.EXTERNAL_IDP if external else CredentialKind.ACCESS_TOKEN
        return Credential(kind, token.access_token, self.settings.profile_arn or token.profile_arn, source=source)

    def renewal(self, token: Token) -> UpstreamRequest:
        """Ask for a new token; see `renewal_request`."""
        kiro = self.settings
        agent = user_agent(kiro.user_agent)
        return renewal_request(token, auth_endpoint=kiro.auth_endpoint, auth_region=kiro.auth_region, user_agent=agent)

    def renewed(
        self, token: Token, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes, now: float
    ) -> Token:
        """The new token that an answer holds; see the function `renewed`."""
        return renewed(token, status, headers, body, now)

    def profile_requests(self, credential: Credential) -> tuple[UpstreamRequest, ...]:
        """Ask which profile belongs to *credential*; nothing for an API key, which has none."""
        known = credential.profile_arn or credential.kind is CredentialKind.API_KEY
        if known or not self.settings.discover_profile:
            return ()
        headers = (
            (b"accept", b"application/json"),
            *authorization(credential),
            (b"accept-encoding", b"identity"),
            (b"user-agent", user_agent(self.settings.user_agent).encode()),
        )
        places = KiroHosts(self.settings).everywhere(credential)
        return tuple(address.request(PROFILES, {}, headers) for address in places)

    def profile(self, bodies: Iterable[bytes]) -> str:
        """The first usable profile of the answers; empty where they list none."""
        return next((profile.arn for body in bodies for profile in parse_profiles(body)), "")
