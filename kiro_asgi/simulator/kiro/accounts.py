"""The simulated operations other than the chat: sign-in, profiles, usage limits, web search.

==================================  =======================  ============================================
``POST``                            Operation                What it does
==================================  =======================  ============================================
``/refreshToken``                   RefreshToken             refreshes a social token
``/token``                          CreateToken              refreshes an OIDC token; polls a device code
``/client/register``                RegisterClient           registers an OIDC client
``/device_authorization``           StartDeviceAuthorization starts an OIDC device flow
``/oauth/device/authorization``     StartSocialAuthorization starts a social device flow
``/oauth/device/poll``              PollSocialAuthorization  polls its device code
``/oauth2/v2.0/token``              CreateExternalToken      refreshes the token of a company's own provider
==================================  =======================  ============================================

Refresh tokens rotate: each works once.  A token that was never seen is accepted, so tests make up their
own.  `Accounts` has the switches; ``Simulator.calls`` counts each operation; ``Simulator.enqueue`` with the name of an
operation answers it once with something else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import define, field

from kiro_asgi.simulator.conversation import as_map
from kiro_asgi.simulator.kiro.hosts import AMAZON, KIRO
from kiro_asgi.simulator.scripts import Pause, Script, json_answer

PROFILE_ARN: Final = "arn:aws:codewhisperer:us-east-1:123456789012:profile/SIMULATED"


def profiles(arns: tuple[str, ...]) -> dict[str, Any]:
    """The answer to ``ListAvailableProfiles``."""
    entries = [
        {"arn": arn, "profileName": f"Simulated {number}", "status": "ACTIVE", "profileType": "Q_DEVELOPER"}
        for number, arn in enumerate(arns, 1)
    ]
    return {"profiles": entries, "nextToken": None}


def usage_limits(
    *, used: float = 12.5, limit: float = 1000.0, resets_at: float = 4_000_000_000.0, plan: str = "KIRO PRO"
) -> dict[str, Any]:
    """The answer to ``GetUsageLimits``; *resets_at* in seconds since the epoch."""
    counted = {
        "resourceType": "CREDIT",
        "displayName": "Credit",
        "displayNamePlural": "Credits",
        "unit": "INVOCATIONS",
        "currentUsage": int(used),
        "currentUsageWithPrecision": used,
        "usageLimit": int(limit),
        "usageLimitWithPrecision": limit,
        "currentOverages": 0,
        "overageCap": 0,
        "overageRate": 0.04,
        "nextDateReset": resets_at,
    }
    return {
        "nextDateReset": resets_at,
        "daysUntilReset": 30,
        "limits": [],
        "usageBreakdownList": [counted],
        "subscriptionInfo": {"type": "Q_DEVELOPER_STANDALONE_PRO", "subscriptionTitle": plan},
        "overageConfiguration": {"overageStatus": "DISABLED"},
        "userInfo": {"userId": "simulated", "email": "someone@example.org"},
    }


DEVICE_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
PREFIX: Final = "simulated-device-"
PAGE: Final = "http://127.0.0.1/device"
USER_CODE: Final = "SIMU-LATE"
MAX_CODES: Final = 10_000
"""Device codes that are remembered; then the oldest are unknown."""

OUTCOMES: Final[Mapping[str, str]] = {"expired": "expired_token", "denied": "access_denied"}
"""Outcome to the error that ends the polling."""


@define
class DeviceSignIn:
    """Device authorizations: the code that a user confirms, and the polls of the client that waits for it.

    Two services have them: AWS SSO OIDC with OAuth in camelCase, and the desktop service, for Google and GitHub, with
    names and units of its own.
    """

    slow_downs: int = 0
    """Polls of each code that get ``slow_down``, before anything else."""

    pending: int = 1
    """Polls of each code that come too early: the user has not finished."""

    outcome: str = "approved"
    """The user's decision: ``approved``, ``denied``, or nothing (``expired``)."""

    interval: float = 1.0
    """Seconds that the answer asks a client to leave between two polls."""

    expires_in: float = 600.0
    """Announced lifetime of a code, in seconds."""

    _polls: dict[str, int] = field(init=False, factory=dict, repr=False)
    """Device code to the number of its polls."""

    _started: int = field(init=False, default=0)

    def authorize(self, document: Mapping[str, Any]) -> Script:
        """``POST /device_authorization``."""
        if not document.get("clientId") or not document.get("clientSecret"):
            return oauth_error("invalid_client", "clientId and clientSecret are required")
        if not document.get("startUrl"):
            return oauth_error("invalid_request", "startUrl is required")
        return json_answer(200, {**self._code(), "expiresIn": self.expires_in, "interval": self.interval})

    def authorize_social(self, document: Mapping[str, Any]) -> Script:
        """``POST /oauth/device/authorization``."""
        if not document.get("clientId") or document.get("loginProvider") not in ("Google", "Github"):
            return oauth_error("invalid_request", "clientId and loginProvider, Google or Github, are required")
        times = {"expiresInMilliseconds": self.expires_in * 1000, "intervalInMilliseconds": self.interval * 1000}
        return json_answer(200, {**self._code(), **times})

    def poll(self, code: object) -> str:
        """Return the OAuth error code for a poll of *code*; empty: the user has signed in."""
        polls = self._polls.get(str(code))
        if polls is None:
            return "expired_token"
        self._polls[str(code)] = polls + 1
        if polls < self.slow_downs:
            return "slow_down"
        if polls < self.slow_downs + self.pending:
            return "authorization_pending"
        if self.outcome == "approved":
            del self._polls[str(code)]
            return ""
        return OUTCOMES[self.outcome]

    def _code(self) -> dict[str, Any]:
        self._started += 1
        code = f"{PREFIX}{self._started}"
        self._polls[code] = 0
        if len(self._polls) > MAX_CODES:
            del self._polls[next(iter(self._polls))]
        return {
            "deviceCode": code,
            "userCode": USER_CODE,
            "verificationUri": PAGE,
            "verificationUriComplete": f"{PAGE}?user_code={USER_CODE}",
        }


DESCRIPTIONS: Final[Mapping[str, str]] = {
    "authorization_pending": "the user has not finished",
    "slow_down": "polled too often",
    "expired_token": "the device code is unknown or has expired",
    "access_denied": "the user has refused",
}


def oauth_error(code: str, description: str = "") -> Script:
    """A refusal as OAuth has it."""
    return json_answer(400, {"error": code, "error_description": description or DESCRIPTIONS[code]})


Tokens = dict[str, Any]

MAX_KNOWN: Final = 10_000
"""Refresh tokens that are remembered; then the oldest work again."""


@define
class Accounts:
    """The accounts, their tokens and profiles.  Every public field may be changed at any time."""

    expires_in: int = 3600
    """Announced lifetime of an access token, in seconds."""

    rotate: bool = True
    """Whether a refresh token is replaced when it is used."""

    overlap: bool = False
    """Whether a replaced refresh token goes on working until the one that replaced it is used.  Otherwise it is dead at
    once, and a client that crashes before it stores the new one has none."""

    delay: float = 0.0
    """Seconds a refresh takes, so that a second one at the same time shows."""

    refresh_answer: Script | None = None
    """Answer to every refresh instead, after *delay*, as `refusal` or `json_answer` makes it."""

    devices: DeviceSignIn = field(factory=DeviceSignIn)
    """The course of device flows."""

    hosts: dict[str, tuple[str, ...]] = field(factory=lambda: {"": (KIRO, AMAZON)}, repr=False)
    """Token to the families of hosts that take it, ``kiro.dev`` and ``amazonaws``; the others refuse it with 403, as
    invalid.  A token that is not here counts as ``""``."""

    profile_required: bool = False
    """Whether lists and usage that name no profile are refused with 403, as of members of an organisation."""

    revoked: set[str] = field(factory=set, repr=False)
    """Access tokens that are refused with 403 from now on."""

    profiles: dict[str, tuple[str, ...]] = field(factory=lambda: {"": (PROFILE_ARN,)})
    """Region to the ARNs of its profiles.  A request names a region by the first part of its path, as in
    ``/eu-central-1/ListAvailableProfiles``; a region that is not here has the same as ``""``."""

    profiles_denied: set[str] = field(factory=set)
    """Regions whose profiles are refused with 403."""

    usage: Mapping[str, Any] = field(factory=usage_limits)
    """The answer to ``GetUsageLimits``; `kiro_asgi.simulator.usage_limits` makes others."""

    refreshes: int = field(init=False, default=0)
    """Refreshes that succeeded, of any kind."""

    _issued: int = field(init=False, default=0)
    _spent: dict[str, None] = field(init=False, factory=dict, repr=False)
    _replaces: dict[str, str] = field(init=False, factory=dict, repr=False)
    """New refresh token to the old one that dies when the new one is used."""

    def refresh_social(self, document: Mapping[str, Any]) -> Script:
        """``POST /refreshToken``."""
        return self._refresh(document.get("refreshToken"), _social, "Invalid refresh token provided")

    def create_token(self, document: Mapping[str, Any]) -> Script:
        """``POST /token``: a refresh, or a poll of a device authorization."""
        if not document.get("clientId") or not document.get("clientSecret"):
            return oauth_error("invalid_client", "clientId and clientSecret are required")
        match document.get("grantType"):
            case "refresh_token":
                return self._refresh(document.get("refreshToken"), _oidc, "Invalid refresh token")
            case str(grant) if grant == DEVICE_GRANT:
                error = self.devices.poll(document.get("deviceCode"))
                return oauth_error(error) if error else json_answer(200, _oidc(self._tokens()))
            case _:
                return oauth_error("unsupported_grant_type", "grantType must be refresh_token or a device code's")

    def poll_social(self, document: Mapping[str, Any]) -> Script:
        """``POST /oauth/device/poll``; what is not over yet has status 200, and tokens come without a lifetime."""
        match self.devices.poll(document.get("deviceCode")):
            case "":
                tokens = {**_social(self._tokens()), "identityProvider": "Google"}
                del tokens["expiresIn"]
                return json_answer(200, tokens)
            case "authorization_pending" | "slow_down" as status:
                return json_answer(200, {"status": status})
            case error:
                return oauth_error(error)

    def refresh_external(self, form: Mapping[str, str]) -> Script:
        """``POST /oauth2/v2.0/token``: form-encoded, names in snake_case, no client secret."""
        if form.get("grant_type") != "refresh_token" or not form.get("client_id"):
            return oauth_error("invalid_request", "grant_type must be refresh_token, and there must be a client_id")
        return self._refresh(form.get("refresh_token"), _external, "AADSTS70000: the refresh token is not valid")

    def register_client(self, document: Mapping[str, Any]) -> Script:
        """``POST /client/register``."""
        if not document.get("clientName"):
            return oauth_error("invalid_request", "clientName is required")
        registration = {
            "clientId": "simulated-client",
            "clientSecret": "simulated-secret",
            "clientIdIssuedAt": 1_750_000_000,
            "clientSecretExpiresAt": 4_000_000_000,
        }
        return json_answer(200, registration)

    def _refresh(self, token: object, shape: Callable[[Tokens], Tokens], refused: str) -> Script:
        if self.refresh_answer is not None:
            script = self.refresh_answer
        elif isinstance(token, str) and token and token not in self._spent:
            script = json_answer(200, shape(self._renewed(token)))
        else:
            script = oauth_error("invalid_grant", refused)
        return (Pause(self.delay), *script) if self.delay else script

    def _renewed(self, token: str) -> Tokens:
        self.refreshes += 1
        if token in self._replaces:
            _remember(self._spent, self._replaces.pop(token), None)
        tokens = self._tokens()
        if not self.rotate:
            del tokens["refreshToken"]
        elif self.overlap:
            _remember(self._replaces, tokens["refreshToken"], token)
        else:
            _remember(self._spent, token, None)
        return tokens

    def _tokens(self) -> Tokens:
        self._issued += 1
        access, refresh = (f"{kind}Simulated{self._issued:0>100}" for kind in ("aoa", "aor"))
        return {"accessToken": access, "expiresIn": self.expires_in, "refreshToken": refresh}


def _social(tokens: Tokens) -> Tokens:
    return {**tokens, "profileArn": PROFILE_ARN}


def _oidc(tokens: Tokens) -> Tokens:
    return {**tokens, "tokenType": "Bearer"}


def _external(tokens: Tokens) -> Tokens:
    names = {"expiresIn": "expires_in", "refreshToken": "refresh_token"}
    rest = {name: tokens[key] for key, name in names.items() if key in tokens}
    return {"access_token": f"eyJ{tokens['accessToken']}", "token_type": "Bearer", **rest}


def _remember(table: dict[str, Any], key: str, value: Any) -> None:
    table[key] = value
    if len(table) > MAX_KNOWN:
        del table[next(iter(table))]


WEB_SEARCH: Final[Mapping[str, Any]] = {
    "name": "web_search",
    "description": "Search the web.",
    "inputSchema": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
}


def _search(query: str) -> dict[str, Any]:
    page = {
        "title": f"About {query}",
        "url": "https://example.org/simulated",
        "snippet": f"A simulated page about {query}.",
        "publishedDate": 1_750_000_000_000,
        "id": "1",
        "domain": "example.org",
        "maxVerbatimWordLimit": 30,
        "publicDomain": False,
    }
    found = {"results": [page], "totalResults": 1, "query": query, "error": None}
    return {"content": [{"type": "text", "text": json.dumps(found)}], "isError": False}


def mcp(document: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON-RPC answer to a call of ``/mcp``; ``tools/call`` knows ``web_search`` only."""
    frame = {"jsonrpc": "2.0", "id": document.get("id")}
    parameters = as_map(document.get("params"))
    match document.get("method"):
        case "initialize":
            server = {"name": "kiro-asgi simulator", "version": "1"}
            result: dict[str, Any] = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": server,
            }
        case "tools/list":
            result = {"tools": [WEB_SEARCH]}
        case "tools/call" if parameters.get("name") == "web_search":
            result = _search(str(as_map(parameters.get("arguments")).get("query", "")))
        case _:
            return {**frame, "error": {"code": -32601, "message": "Method not found"}}
    return {**frame, "result": result}
