"""The simulated sign-in services: refresh (social and OIDC), client registration, device authorization.

Refresh tokens rotate: each works once.  A token that was never seen is taken for a good one, so tests make up their
own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import define, field

from kiro_asgi.simulator.builders import json_answer
from kiro_asgi.simulator.scripts import Pause, Script

__all__ = ["PROFILE_ARN", "Accounts"]

PROFILE_ARN: Final = "arn:aws:codewhisperer:us-east-1:123456789012:profile/SIMULATED"
DEVICE_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
MAX_SPENT: Final = 10_000
"""Spent refresh tokens that are remembered; then the oldest work again."""


@define
class Accounts:
    """Who may sign in, and with which tokens."""

    expires_in: int = 3600
    """Seconds an access token is said to last."""

    rotate: bool = True
    """Whether a refresh token dies when it is used."""

    delay: float = 0.0
    """Seconds a refresh takes, to see whether anybody refreshes twice."""

    revoked: set[str] = field(factory=set, repr=False)
    """Access tokens that are refused with 403 from now on."""

    refreshes: int = field(init=False, default=0)
    """Refreshes that succeeded."""

    _issued: int = field(init=False, default=0)
    _spent: dict[str, None] = field(init=False, factory=dict, repr=False)
    _polled: set[str] = field(init=False, factory=set)

    def refresh_social(self, document: Mapping[str, Any]) -> Script:
        """``POST /refreshToken``."""
        return self._after_delay(self._refresh(document, {"profileArn": PROFILE_ARN}, "Invalid refresh token provided"))

    def create_token(self, document: Mapping[str, Any]) -> Script:
        """``POST /token``: a refresh, or a poll of a device authorization (pending the first time)."""
        if not document.get("clientId") or not document.get("clientSecret"):
            return _oauth_error("invalid_client", "clientId and clientSecret are required")
        match document.get("grantType"):
            case "refresh_token":
                return self._after_delay(self._refresh(document, {"tokenType": "Bearer"}, "Invalid refresh token"))
            case str(grant) if grant == DEVICE_GRANT:
                return self._poll(str(document.get("deviceCode", "")))
            case _:
                return _oauth_error("unsupported_grant_type", "grantType must be refresh_token or a device code's")

    def _after_delay(self, script: Script) -> Script:
        return (Pause(self.delay), *script) if self.delay else script

    def _refresh(self, document: Mapping[str, Any], extra: Mapping[str, Any], refused: str) -> Script:
        token = document.get("refreshToken")
        if not isinstance(token, str) or not token or token in self._spent:
            return _oauth_error("invalid_grant", refused)
        if self.rotate:
            self._spent[token] = None
            if len(self._spent) > MAX_SPENT:
                del self._spent[next(iter(self._spent))]
        self.refreshes += 1
        return json_answer(200, {**self._tokens(), **extra})

    def _tokens(self) -> dict[str, Any]:
        self._issued += 1
        refresh = {"refreshToken": f"aorSimulated{self._issued:0>100}"} if self.rotate else {}
        return {"accessToken": f"aoaSimulated{self._issued:0>100}", "expiresIn": self.expires_in, **refresh}

    def _poll(self, code: str) -> Script:
        if not code.startswith("simulated-device-"):
            return _oauth_error("expired_token", "unknown device code")
        if code not in self._polled:
            self._polled.add(code)
            return _oauth_error("authorization_pending", "the user has not finished")
        self._polled.discard(code)
        tokens = self._tokens()
        return json_answer(200, {"refreshToken": f"aorSimulated{self._issued:0>100}", **tokens, "tokenType": "Bearer"})

    def register_client(self, document: Mapping[str, Any]) -> Script:
        """``POST /client/register``."""
        if not document.get("clientName"):
            return _oauth_error("invalid_request", "clientName is required")
        registration = {
            "clientId": "simulated-client",
            "clientSecret": "simulated-secret",
            "clientIdIssuedAt": 1_750_000_000,
            "clientSecretExpiresAt": 4_000_000_000,
        }
        return json_answer(200, registration)

    def authorize_device(self, document: Mapping[str, Any]) -> Script:
        """``POST /device_authorization``."""
        self._issued += 1
        page = "http://127.0.0.1/device"
        authorization = {
            "deviceCode": f"simulated-device-{self._issued}",
            "userCode": "SIMU-LATE",
            "verificationUri": page,
            "verificationUriComplete": f"{page}?user_code=SIMU-LATE",
            "expiresIn": 600,
            "interval": 1,
        }
        return json_answer(200, authorization)


def _oauth_error(code: str, description: str) -> Script:
    return json_answer(400, {"error": code, "error_description": description})
