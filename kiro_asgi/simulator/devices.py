"""Signing in on another device: the code that a user confirms, and the polls of who waits for that.

Two services do this.  AWS SSO OIDC speaks OAuth in camelCase; the desktop service, for Google and GitHub, has names
and units of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import define, field

from kiro_asgi.simulator.builders import json_answer
from kiro_asgi.simulator.scripts import Script

__all__ = ["DEVICE_GRANT", "Devices", "oauth_error"]

DEVICE_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
PREFIX: Final = "simulated-device-"
PAGE: Final = "http://127.0.0.1/device"
USER_CODE: Final = "SIMU-LATE"
MAX_CODES: Final = 10_000
"""Device codes that are remembered; then the oldest are unknown."""

OUTCOMES: Final[Mapping[str, str]] = {"expired": "expired_token", "denied": "access_denied"}
"""Outcome to the error that ends the polling."""


@define
class Devices:
    """What becomes of device authorizations."""

    slow_downs: int = 0
    """Polls of each code that are told to slow down, before anything else."""

    pending: int = 1
    """Polls of each code that come too early: the user has not finished."""

    outcome: str = "approved"
    """What the user does then: ``approved``, ``denied``, or nothing (``expired``)."""

    interval: float = 1.0
    """Seconds that a client is told to leave between two polls."""

    expires_in: float = 600.0
    """Seconds that a code is said to last."""

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
        """What a poll of *code* comes to: an OAuth error code, or nothing where the user has signed in."""
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
