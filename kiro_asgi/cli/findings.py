"""Findings of checks, and the advice for errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Final

from attrs import frozen

from kiro_asgi import errors
from kiro_asgi.errors import KiroAsgiError

__all__ = ["GENERAL", "Advice", "Finding", "Verdict", "failed", "masked", "span", "with_key"]


class Verdict(Enum):
    """Severity of a finding."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@frozen
class Finding:
    """The result of one check."""

    name: str
    """Stable, in words, e.g. ``file mode``."""

    verdict: Verdict
    detail: str
    """One line, without secrets."""

    advice: str = ""
    """Action for the reader; empty where there is none."""


@frozen
class Advice:
    """Advice for the errors of one upstream."""

    by_code: Mapping[str, str]
    """Code of an error to what to do about it; looked up before the class."""

    by_class: Mapping[type[KiroAsgiError], str]
    """Class of an error to the same; the nearest class counts."""

    def besides(self, by_code: Mapping[str, str], by_class: Mapping[type[KiroAsgiError], str]) -> Advice:
        """Return the same with entries added, or replaced."""
        return Advice({**self.by_code, **by_code}, {**self.by_class, **by_class})

    def about(self, error: KiroAsgiError) -> str:
        """The advice for *error*; empty where there is none."""
        by_class = next((self.by_class[kind] for kind in type(error).__mro__ if kind in self.by_class), "")
        return self.by_code.get(error.code, by_class)


GENERAL: Final = Advice(
    {
        "credentials.login": "",  # the message says so
        "credentials.foreign": "look for a proxy or a captive portal that answers for the sign-in service",
        "credentials.slow": "ask again in a minute; the sign-in service takes its time",
        "credentials.locked": "another process holds the lock; see what it is doing",
    },
    {
        errors.UpstreamSuspended: "only the account's owner can change that, with the service's support; do not go on",
        errors.UpstreamSuspicious: "leave the account alone for some hours; to go on asking makes it a suspension",
        errors.UpstreamDenied: "see that the account has this feature, and that the profile is its own",
        errors.UpstreamQuotaSpent: "wait for the reset, or change the plan",
        errors.UpstreamThrottled: "wait a minute or two",
        errors.UpstreamOverloaded: "try later, or another model",
        errors.UpstreamUnreachable: "see the connections above",
        errors.UpstreamFault: "try later; the fault is the service's",
        errors.ConfigError: "kiro-asgi check shows what is set",
    },
)
"""The advice for errors of any upstream."""


def with_key(path: str) -> Advice:
    """For an upstream that is asked with a key, whose settings stand at *path*."""
    return GENERAL.besides(
        {},
        {
            errors.UpstreamTokenInvalid: f"see that {path}.api_key is right, and that it is a key of this service",
            errors.UpstreamDenied: "see what the key may do, and that the service is to be had where you are",
            errors.UpstreamQuotaSpent: (
                f"see the account's plan and what is left of it, or set {path}.fallback_api_keys"
            ),
            errors.NotTheUpstream: f"see what {path}.endpoint names; something else answers there",
            errors.UpstreamRejected: f"see what {path}.endpoint names; the service finds fault with the request",
        },
    )


def failed(name: str, error: KiroAsgiError, advice: Advice = GENERAL) -> Finding:
    """A check that ended in an error: its message, class and code."""
    code = f", {error.code}" if error.code else ""
    detail = f"{_without_ids(error.message)} ({type(error).__name__}{code})"
    return Finding(name, Verdict.FAIL, detail, advice.about(error))


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
