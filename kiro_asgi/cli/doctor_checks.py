"""Checks of the surroundings: settings, keys, proxies of the environment, the connection to a host, the clock."""

from __future__ import annotations

import importlib
import socket
import ssl
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from time import perf_counter
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
from anyio.streams.tls import TLSAttribute, TLSStream
from attrs import define, field

from kiro_asgi.cli.findings import Finding, Verdict, span
from kiro_asgi.cli.terminal import variables_in
from kiro_asgi.config import Settings, SettingsReading
from kiro_asgi.upstreams.access import Keys

__all__ = ["Way", "clock", "connection", "keys", "proxied", "proxies", "settings", "trusted", "walk"]

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
