"""What a check found, and in which words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from attrs import frozen

from kiro_asgi import errors
from kiro_asgi.errors import KiroAsgiError

__all__ = ["SIGN_IN", "Finding", "Verdict", "failed", "masked", "span"]


class Verdict(Enum):
    """How good or bad it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@frozen
class Finding:
    """What one check found."""

    name: str
    """Stable, in words, e.g. ``file mode``."""

    verdict: Verdict
    detail: str
    """One line, without secrets."""

    advice: str = ""
    """What to do; empty where there is nothing to do."""


SIGN_IN: Final = "sign in again: kiro-asgi login"

BY_CODE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "credentials.login": "",  # the message says so
        "credentials.unreadable": "name another file, or make a new one: kiro-asgi login",
        "credentials.foreign": "look for a proxy or a captive portal that answers for the sign-in service",
        "credentials.slow": "ask again in a minute; the sign-in service takes its time",
        "credentials.locked": "another process holds the lock; see what it is doing",
        "sign_in.unreachable": "see the connections above, kiro.proxy and kiro.auth_endpoint",
        "profile_required": "set kiro.profile_arn; an API key must not be set as kiro.access_token",
        "improperly_formed": "kiro-asgi explain shows which rules were applied to a request",
        "INVALID_MODEL_ID": "ask for a model that is listed above; plans and regions differ",
    }
)
"""Code of an error to what to do about it; looked up before the class."""

BY_CLASS: Final[Mapping[type[KiroAsgiError], str]] = MappingProxyType(
    {
        errors.UpstreamTokenInvalid: f"see that the key is right; with a token, try --refresh, or {SIGN_IN}",
        errors.UpstreamSuspended: "only the account's owner can change that, with the service's support; do not go on",
        errors.UpstreamSuspicious: "leave the account alone for some hours; to go on asking makes it a suspension",
        errors.UpstreamDenied: "see that the account has this feature, and that the profile is its own",
        errors.UpstreamQuotaSpent: "wait for the reset, or change the plan",
        errors.UpstreamThrottled: "wait a minute or two",
        errors.UpstreamOverloaded: "try later, or another model",
        errors.NotTheUpstream: "see what kiro.endpoint names; something else answers there",
        errors.UpstreamUnreachable: "see the connections above",
        errors.UpstreamFault: "try later; the fault is the service's",
        errors.UpstreamRejected: "see kiro.region, kiro.origin and kiro.wire_style; the service finds fault with them",
        errors.ConfigError: "kiro-asgi check shows all settings",
    }
)
"""Class of an error to what to do about it; the nearest class counts."""

WITH_KEY: Final[Mapping[type[KiroAsgiError], str]] = MappingProxyType(
    {
        errors.UpstreamTokenInvalid: "see that {path}.api_key is right, and that it is a key of this service",
        errors.UpstreamDenied: "see what the key may do, and that the service is to be had where you are",
        errors.UpstreamQuotaSpent: "see the account's plan and what is left of it, or set {path}.fallback_api_keys",
        errors.NotTheUpstream: "see what {path}.endpoint names; something else answers there",
        errors.UpstreamRejected: "see what {path}.endpoint names; the service finds fault with the request",
    }
)
"""The same for an upstream that is asked with a key, whose settings stand at ``{path}``."""


def failed(name: str, error: KiroAsgiError, path: str = "kiro") -> Finding:
    """A check that ended in an error: its message, class and code; *path* is where the upstream's settings stand."""
    table = BY_CLASS if path == "kiro" else {**BY_CLASS, **WITH_KEY}
    by_class = next((table[kind] for kind in type(error).__mro__ if kind in table), "").format(path=path)
    code = f", {error.code}" if error.code else ""
    detail = f"{_without_ids(error.message)} ({type(error).__name__}{code})"
    return Finding(name, Verdict.FAIL, detail, BY_CODE.get(error.code, by_class))


def masked(arn: str) -> str:
    """*arn* with nothing but the ends of its account and of its id: enough to tell two apart."""
    *fields, account, resource = arn.split(":", 5) if arn.count(":") >= 5 else ("", "", arn)
    kind, slash, name = resource.rpartition("/")
    return ":".join(filter(None, (*fields, _end(account), f"{kind}{slash}{_end(name)}")))


def span(seconds: float) -> str:
    """A length of time in its two greatest units, e.g. ``3 h 5 min``."""
    rest, words = int(abs(seconds)), []
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        count, rest = divmod(rest, size)
        if count:
            words.append(f"{count} {unit}")
    return " ".join(words[:2]) or "0 s"


def _end(text: str) -> str:
    return f"…{text[-4:]}" if len(text) > 4 else text


def _without_ids(message: str) -> str:
    """*message* without the account and user ids that the service likes to quote."""
    message = re.sub(r"arn:[\w:/.-]+", lambda match: masked(match[0]), message)
    return re.sub(r"(?<=\()[\w.:-]{6,}(?=\))|\b\d{9,}\b", lambda match: _end(match[0]), message)
