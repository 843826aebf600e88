"""Checks of the surroundings, and findings: settings, keys, the environment's proxies, a host, the clock."""

from __future__ import annotations

import importlib
import re
import socket
import ssl
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from enum import Enum
from ipaddress import ip_address
from time import perf_counter
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
from anyio.streams.tls import TLSAttribute, TLSStream
from attrs import define, field, frozen

from kiro_asgi import errors
from kiro_asgi.cli.terminal import variables_in
from kiro_asgi.config import Settings, SettingsReading
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.upstreams.access import Keys


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


PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


def settings(reading: SettingsReading, problems: Collection[str]) -> Iterator[Finding]:
    """Where the settings come from; one failure for each reason why no gateway would start with them."""
    for problem in problems:
        variables = ", ".join(variables_in(problem))
        advice = f"in the environment: {variables}" if variables else "correct it"
        yield Finding("settings", Verdict.FAIL, problem, f"{advice}; kiro-asgi check shows what is set")
    if not problems:
        places = Counter(_place(source) for source in reading.sources.values())
        words = [f"{count} from {place}" for place, count in places.items()]
        detail = ", ".join([*words, "the rest are defaults"]) if words else "all are defaults"
        yield Finding("settings", Verdict.OK, detail)


def _place(source: str) -> str:
    file, colon, _ = source.rpartition(": ")
    return file if colon else source if source.startswith("preset ") else "the environment"


def proxies(environ: Mapping[str, str]) -> Finding:
    """Check the environment for proxies, which other programs use and the gateway does not."""
    found = [name for name in environ if name.upper() in PROXIES and environ[name]]
    if not found:
        return Finding("proxy", Verdict.OK, "no proxy in the environment; connections are direct")
    detail = f"{', '.join(sorted(found))} in the environment not used; connections are direct"
    return Finding(
        "proxy", Verdict.WARN, detail, "see that this machine may connect directly, or set the upstream's proxy"
    )


def proxied(name: str, setting: str, proxy: str) -> Finding:
    """Our own proxy, which stands in *setting*."""
    place = proxy.rpartition("@")[2].rpartition("/")[2]
    return Finding(name, Verdict.OK, f"{setting}: connections go through {place}, and are not looked at")


def keys(name: str, given: Keys) -> Finding:
    """Which keys there are for an upstream."""
    found = [setting for setting, key in given.named if key]
    if not found:
        return Finding(name, Verdict.OK, f"none; {given.without}")
    others = f"; {len(found) - 1} more, which are not tried here" if len(found) > 1 else ""
    return Finding(name, Verdict.OK, found[0] + others)


SOON: Final = 14 * 86_400.0
"""Seconds before the end of a certificate at which that is worth a word."""

SKEW: Final = 60.0
"""Seconds that clocks may differ by; well below the margin at which tokens are renewed."""

CA_VARIABLES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")
STEPS: Final[Mapping[str, str]] = {
    "DNS": "see that the host's name is right, and that this machine can resolve names",
    "TCP": "see that a firewall lets this machine connect; proxies of the environment are not used",
    "TLS": "a proxy may intercept the encryption; set SSL_CERT_FILE to a file with its certificate",
}
"""Step to what to do where it fails."""


@define
class Way:
    """How far a connection to a host comes, step by step."""

    host: str
    port: int
    encrypted: bool
    steps: dict[str, float] = field(init=False, factory=dict)
    """Step to the seconds it took."""

    at: str = field(init=False, default="")
    """The step that was begun last."""

    failure: str = field(init=False, default="")
    """Why that step failed; empty where it did not."""

    version: str = field(init=False, default="")
    certificate: Mapping[str, Any] = field(init=False, factory=dict)
    """As `ssl.SSLSocket.getpeercert` has it."""

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure one step."""
        self.at, started = name, perf_counter()
        yield
        self.steps[name] = perf_counter() - started


def trusted(settings: Settings) -> ssl.SSLContext:
    """The certificates that the gateway trusts."""
    library: Any = importlib.import_module(settings.http_library)
    context: ssl.SSLContext = library.default_ssl_context()
    return context


async def walk(url: str, context: ssl.SSLContext, patience: float) -> Way:
    """Connect to the host of *url* as far as that goes; *patience* in seconds for all of it."""
    parts = urlsplit(url)
    encrypted = parts.scheme == "https"
    way = Way(parts.hostname or "", parts.port or (443 if encrypted else 80), encrypted)
    try:
        with anyio.fail_after(patience):
            await _walk(way, context)
    except TimeoutError:
        way.failure = f"no answer within {patience:g} s"
    except ssl.SSLCertVerificationError as error:
        way.failure = error.verify_message
    except OSError as error:
        way.failure = error.strerror or str(error)
    except (anyio.BrokenResourceError, anyio.EndOfStream):
        way.failure = "the host closed the connection"
    return way


async def _walk(way: Way, context: ssl.SSLContext) -> None:
    with way.step("DNS"):
        await anyio.getaddrinfo(way.host, way.port, type=socket.SOCK_STREAM)
    with way.step("TCP"):
        stream = await anyio.connect_tcp(way.host, way.port)
    async with stream:
        if way.encrypted:
            with way.step("TLS"):
                tls = await TLSStream.wrap(stream, hostname=way.host, ssl_context=context, standard_compatible=False)
            way.version = tls.extra(TLSAttribute.tls_version)
            certificate: Any = TLSAttribute.peer_certificate  # its type does not fit the method's
            way.certificate = tls.extra(certificate) or {}


def connection(name: str, way: Way, environ: Mapping[str, str], now: float) -> Finding:
    """Make a finding of *route*, for the connection called *name*."""
    times = ", ".join(f"{step} {seconds * 1000:.0f} ms" for step, seconds in way.steps.items())
    place = f"{way.host}:{way.port}"
    if way.failure:
        return Finding(name, Verdict.FAIL, f"{place}: {way.at} failed: {way.failure}", STEPS[way.at])
    if not way.encrypted:
        here = way.host == "localhost" or _is_loopback(way.host)
        advice = "" if here else "tokens are sent in the clear; use https"
        return Finding(name, Verdict.OK if here else Verdict.WARN, f"{place}: {times}, not encrypted", advice)
    own = [variable for variable in CA_VARIABLES if environ.get(variable)]
    authorities = f", trusted by {' and '.join(own)}" if own else ""
    left = ssl.cert_time_to_seconds(way.certificate["notAfter"]) - now
    detail = f"{place}: {times}, {way.version}, certificate of {_issuer(way)} for {span(left)}{authorities}"
    if left > SOON:
        return Finding(name, Verdict.OK, detail)
    return Finding(name, Verdict.WARN, detail, "the certificate expires soon; its owner must renew it")


def _issuer(way: Way) -> str:
    names = {key: value for part in way.certificate.get("issuer", ()) for key, value in part}
    return str(names.get("organizationName") or names.get("commonName") or "an unknown issuer")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def clock(headers: Iterable[tuple[bytes, bytes]], now: float) -> Finding:
    """Our clock against the ``Date`` of an answer that has just come; *now* in seconds since the epoch."""
    dates = [value.decode("latin-1") for name, value in headers if name.lower() == b"date"]
    try:
        ahead = now - parsedate_to_datetime(dates[0]).timestamp()
    except (ValueError, IndexError):
        return Finding("clock", Verdict.OK, "not compared; the service does not say what time it is")
    if abs(ahead) <= SKEW:
        return Finding("clock", Verdict.OK, "the service's clock and ours agree")
    direction = "ahead of" if ahead > 0 else "behind"
    detail = f"ours is {span(ahead)} {direction} the service's"
    return Finding("clock", Verdict.WARN, detail, "set the clock; tokens are renewed by it")
