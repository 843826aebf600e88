"""Checks of ``kiro-asgi doctor``, and its findings: settings, keys, proxies, a host, clocks, the state, a service."""

from __future__ import annotations

import importlib
import re
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from enum import Enum
from ipaddress import ip_address
from pathlib import Path
from secrets import token_hex
from time import monotonic, perf_counter, time
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
from anyio.streams.tls import TLSAttribute, TLSStream
from attrs import define, evolve, field, frozen

from kiro_asgi import errors
from kiro_asgi.asgi.exchange.providers import new_store
from kiro_asgi.asgi.kept.extensions import store_table
from kiro_asgi.cli.terminal import variables_in
from kiro_asgi.config import Settings, SettingsReading
from kiro_asgi.errors import KiroAsgiError, StoreUnavailable, UpstreamRejected
from kiro_asgi.extension import enabled_in
from kiro_asgi.failures.meanings import ADDRESS
from kiro_asgi.failures.texts import clean
from kiro_asgi.limits import REFUSAL_BYTES
from kiro_asgi.model.events import ContextUsage, RefusalDelta, Stop, TextDelta, ThinkingDelta, TokenUsage
from kiro_asgi.model.prompt import Prompt, Role, Text, Turn
from kiro_asgi.net.catalogue import pages
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.net.credentials.sources import exposed
from kiro_asgi.net.requests import fetch_whole
from kiro_asgi.net.transport import Headers, Transport
from kiro_asgi.observers.base import ObserverManifest
from kiro_asgi.stages.base import Pipeline, StageManifest
from kiro_asgi.state.base import Store, StoreManifest, scoped
from kiro_asgi.upstreams.access import Keys
from kiro_asgi.upstreams.base import Credential, ModelCard, Rendered, Token, Upstream, UpstreamRequest


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

    def with_entries(self, by_code: Mapping[str, str], by_class: Mapping[type[KiroAsgiError], str]) -> Advice:
        """The same with entries added, or replaced."""
        return Advice({**self.by_code, **by_code}, {**self.by_class, **by_class})

    def about(self, error: KiroAsgiError) -> str:
        """The advice for *error*; empty where there is none."""
        by_class = next((self.by_class[kind] for kind in type(error).__mro__ if kind in self.by_class), "")
        return self.by_code.get(error.code, by_class)


GENERAL: Final = Advice(
    {
        "credentials.login": "",  # the message says so
        "credentials.foreign": "look for a proxy or a captive portal that answers for the sign-in service",
        "credentials.slow": "try again in a minute; the sign-in service is slow",
        "credentials.locked": "another process holds the lock; see what it is doing",
    },
    {
        errors.UpstreamSuspended: "send no more requests with this account; its owner must ask the service's support",
        errors.UpstreamSuspicious: "leave this account unused for some hours; more requests may get it suspended",
        errors.UpstreamDenied: "check that the account has this feature, and that the profile is its own",
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
    """Advice for an upstream with an API key, whose settings are at *path*."""
    return GENERAL.with_entries(
        {},
        {
            errors.UpstreamTokenInvalid: f"check that {path}.api_key is right, and that it is a key of this service",
            errors.UpstreamDenied: "check what the key may do, and that the service is available in your country",
            errors.UpstreamQuotaSpent: (
                f"check the account's plan and what is left of it, or set {path}.fallback_api_keys"
            ),
            errors.NotTheUpstream: f"check {path}.endpoint; something else answers there",
            errors.UpstreamRejected: f"check {path}.endpoint; the service refuses the request as invalid",
        },
    )


def failed(name: str, error: KiroAsgiError, advice: Advice = GENERAL) -> Finding:
    """A check that ended in an error: its message, class and code."""
    code = f", {error.code}" if error.code else ""
    said = error.detail if isinstance(error, StoreUnavailable) else error.message
    detail = f"{_without_ids(said)} ({type(error).__name__}{code})"
    return Finding(name, Verdict.FAIL, detail, advice.about(error))


def masked(arn: str) -> str:
    """*arn* with only the ends of its account and of its id, enough to distinguish two."""
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
    """The sources of the settings, or one failure for each reason why no gateway would start with them."""
    for problem in problems:
        variables = ", ".join(variables_in(problem))
        advice = f"in the environment: {variables}" if variables else "correct it"
        yield Finding("settings", Verdict.FAIL, problem, f"{advice}; kiro-asgi check shows what is set")
    if not problems:
        places = Counter(_place(source) for source in reading.sources.values())
        words = [f"{count} from {place}" for place, count in places.items()]
        detail = ", ".join([*words, "the rest are defaults"]) if words else "all are defaults"
        yield Finding("settings", Verdict.OK, detail)
    for warning in reading.warnings:
        yield Finding("settings", Verdict.WARN, warning, "correct the name, or unset the variable")


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
        "proxy", Verdict.WARN, detail, "check that this machine may connect directly, or set the upstream's proxy"
    )


def proxied(name: str, setting: str, proxy: str) -> Finding:
    """The gateway's own proxy, which is set by *setting*."""
    place = proxy.rpartition("@")[2].rpartition("/")[2]
    return Finding(name, Verdict.OK, f"{setting}: connections go through {place}, and are not checked")


def keys(name: str, given: Keys) -> Finding:
    """The keys of an upstream."""
    found = [setting for setting, key in given.named if key]
    if not found:
        return Finding(name, Verdict.OK, f"none; {given.without}")
    others = f"; {len(found) - 1} more, which are not tried here" if len(found) > 1 else ""
    return Finding(name, Verdict.OK, found[0] + others)


def file_mode(name: str, path: Path) -> Finding:
    """Who may read a file of tokens."""
    if exposed(path):
        return Finding(name, Verdict.WARN, f"other users may read {path}", f"chmod 600 {path}")
    return Finding(name, Verdict.OK, f"only you may read {path}")


def expiry(name: str, token: Token, now: float) -> Finding:
    """How long an access token lasts; one that has expired is a warning."""
    if token.expires_at is None:
        return Finding(name, Verdict.OK, "the token does not say how long it lasts")
    left = token.expires_at - now
    return Finding(name, *((Verdict.OK, f"in {span(left)}") if left > 0 else (Verdict.WARN, f"{span(left)} ago")))


SOON: Final = 14 * 86_400.0
"""Seconds before the end of a certificate at which that is a warning."""

SKEW: Final = 60.0
"""Seconds that clocks may differ by; well below the margin at which tokens are renewed."""

CA_VARIABLES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")
STEPS: Final[Mapping[str, str]] = {
    "DNS": "check that the host's name is right, and that this machine can resolve names",
    "TCP": "check that the firewall lets this machine connect; proxies of the environment are not used",
    "TLS": "a proxy may intercept the encryption; set SSL_CERT_FILE to a file with its certificate",
}
"""Step to the advice where it fails."""


@define
class Way:
    """The steps of a connection to a host, up to the one that fails."""

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
    """Make a finding of *way*, for the connection called *name*."""
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
    except (ValueError, IndexError, OverflowError):
        return Finding("clock", Verdict.OK, "not compared; the service's answer has no date")
    if abs(ahead) <= SKEW:
        return Finding("clock", Verdict.OK, "the service's clock and ours agree")
    direction = "ahead of" if ahead > 0 else "behind"
    detail = f"ours is {span(ahead)} {direction} the service's"
    return Finding("clock", Verdict.WARN, detail, "set the clock; tokens are renewed by it")


_STATE: Final = "state"

_STATE_PATIENCE: Final = 5.0
"""Seconds for all of it."""

_STATE_LOOK: Final = 0.02
"""Seconds between two attempts to read what was written."""

_TRIAL_TTL: Final = 60.0
"""Seconds that a trial value is kept if it is not deleted."""

_STATE_ADVICE: Final[Mapping[str, str]] = {
    "sqlite": "check that this user may write the file and its folder, and that the disk has room",
    "valkey": "check that the server runs, and that state.url has its address, name and password",
}


async def kept(settings: Settings) -> AsyncIterator[Finding]:
    """Findings about the store, and about stages and observers of installed packages."""
    if (found := await state(settings)) is not None:
        yield found
    for finding in extensions(settings):
        yield finding


async def state(settings: Settings) -> Finding | None:
    """Write a value as one gateway and read it as another, and lock it twice; ``None`` where all is kept in memory."""
    if (own := store_table(settings)) is not None:
        return await _own_state(settings, own[0])
    engine, place = settings.state.engine, _state_place(settings)
    if not settings.state.is_shared:
        return None
    try:
        one, other = new_store(settings, Clocks()), new_store(settings, Clocks())
        with anyio.fail_after(_STATE_PATIENCE):
            started = perf_counter()
            await _try_store(one, other)
            taken = perf_counter() - started
            odd = [] if engine == "sqlite" else await _check_server(settings)
    except TimeoutError:
        words = f"{place}: what one gateway writes, another does not find within {_STATE_PATIENCE:g} s"
        return Finding(_STATE, Verdict.FAIL, words, _STATE_ADVICE[engine])
    except KiroAsgiError as error:
        found = failed(_STATE, error)
        return Finding(_STATE, Verdict.FAIL, f"{place}: {found.detail}", _STATE_ADVICE[engine])
    words = f"{place}: written, locked, and read by another in {taken * 1000:.0f} ms"
    if not odd:
        return Finding(_STATE, Verdict.OK, words)
    return Finding(_STATE, Verdict.WARN, "; ".join((words, *(what for what, _ in odd))), "; ".join(do for _, do in odd))


async def _own_state(settings: Settings, manifest: StoreManifest) -> Finding:
    """The same for a store of an installed package, of which the gateway makes one: others may not share its values."""
    advice = f"check the settings below {manifest.name}, and what its package says"
    try:
        store = new_store(settings, Clocks())
        with anyio.fail_after(_STATE_PATIENCE):
            started = perf_counter()
            await _try_store(store, store)
            taken = perf_counter() - started
    except TimeoutError:
        words = f"{manifest.title}: what is written is not found within {_STATE_PATIENCE:g} s"
        return Finding(_STATE, Verdict.FAIL, words, advice)
    except KiroAsgiError as error:
        return Finding(_STATE, Verdict.FAIL, f"{manifest.title}: {failed(_STATE, error).detail}", advice)
    return Finding(_STATE, Verdict.OK, f"{manifest.title}: written, locked, and read in {taken * 1000:.0f} ms")


def extensions(settings: Settings) -> Iterator[Finding]:
    """A finding for each stage and observer of an installed package; that they can be made was examined before."""
    for manifest, _ in enabled_in(settings, StageManifest):
        yield Finding(manifest.name, Verdict.OK, f"{manifest.title}: a stage of every answer")
    for observer, _ in enabled_in(settings, ObserverManifest):
        yield Finding(observer.name, Verdict.OK, f"{observer.title}: an observer of every call")


def _state_place(settings: Settings) -> str:
    """The file, or the server's address without its secrets."""
    if settings.state.engine == "sqlite":
        return settings.state.path
    url = urlsplit(settings.state.url)
    return url.netloc.rpartition("@")[2] or url.path


async def _try_store(one: Store, other: Store) -> None:
    key, value = scoped("", "doctor", token_hex(16)), token_hex(16).encode()
    try:
        async with one.lock(key):
            await one.set(key, value, _TRIAL_TTL)
        async with other.lock(key):
            while await other.get(key) != value:  # noqa: ASYNC110 - a store sends no event
                await anyio.sleep(_STATE_LOOK)
            await other.delete(key)
    finally:
        await one.aclose()
        await other.aclose()


async def _check_server(settings: Settings) -> list[tuple[str, str]]:
    """Warnings about a server, each with its advice."""
    from kiro_asgi.state.valkey import ValkeyServer

    server = ValkeyServer(settings.state.url)
    try:
        if server.is_cluster:  # has a clock and a policy for each of its servers
            return []
        (seconds, _), memory = await server.ask(lambda client: (client.time(), client.info("memory")))
        return [*_server_warnings(seconds - time(), memory)]
    finally:
        await server.aclose()


def _server_warnings(ahead: float, memory: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if abs(ahead) > SKEW:
        yield (
            f"its clock is {span(ahead)} {'ahead of' if ahead > 0 else 'behind'} ours",
            "set the clocks, by which days and months of limits begin",
        )
    policy = str(memory.get("maxmemory_policy", ""))
    if policy.startswith("allkeys"):
        yield (
            f"its policy {policy} drops limits and usage where its memory is full",
            "set maxmemory-policy to volatile-ttl",
        )


PATIENCE: Final = 15.0
"""Seconds for each small request."""

QUESTION: Final = "Say ok."


@define
class _AnswerReader:
    """Decodes one answer of the chat operation."""

    _upstream: Upstream
    _first_patience: float
    _patience: float
    _started: float = field(init=False, factory=monotonic)
    _chunks: list[bytes] = field(init=False, factory=list)
    _pipeline: Pipeline[bytes, Any] | None = field(init=False, default=None)
    status: int = field(init=False, default=0)
    headers: Headers = field(init=False, default=())
    first: float | None = field(init=False, default=None)
    """Seconds to the first event."""

    deltas: list[Any] = field(init=False, factory=list)

    def start(self) -> float:
        return self._first_patience

    def begin(self, status: int, headers: Headers) -> None:
        self.status, self.headers = status, headers
        if status == 200:
            types = [value.decode("latin-1") for name, value in headers if name.lower() == b"content-type"]
            self._pipeline = Pipeline(*self._upstream.decoder("".join(types[:1])))

    def take(self, chunk: bytes, /) -> None:
        self._chunks.append(chunk)

    async def process(self) -> float:
        if self._pipeline is not None:
            self._read(self._pipeline.feed(self._chunks))
            self._chunks.clear()
        return self._patience

    def finish(self) -> None:
        """Read the rest.

        Raises:
            KiroAsgiError: The service refused, or the answer ends wrongly.
        """
        if self._pipeline is None:
            raise self._upstream.fault(self.status, self.headers, b"".join(self._chunks)[:REFUSAL_BYTES])
        self._read(self._pipeline.feed(self._chunks))
        self._read(self._pipeline.flush())

    def _read(self, deltas: Any) -> None:
        for delta in deltas:
            if self.first is None:
                self.first = monotonic() - self._started
            self.deltas.append(delta)


@define(kw_only=True)
class Questions:
    """Sends small requests to one service with one credential."""

    prefix: str = ""
    """Prefix of the names of findings."""

    advice: Advice
    """Advice for errors of the service."""

    transport: Transport
    upstream: Upstream
    credential: Credential
    first_patience: float
    """Seconds to the start of an answer."""

    patience: float
    """Seconds between two parts of it."""

    probes: tuple[str, ...]
    """Models that are known to be cheap, best first."""

    date: Finding | None = field(init=False, default=None)
    """The comparison of clocks, made from the first response."""

    _cards: tuple[ModelCard, ...] = field(init=False, default=())

    async def models(self) -> Finding:
        """Check the list of models."""
        name = self.called("models")
        try:
            listed = await pages(
                lambda page: self.ask(self.upstream.models_request(self.credential, page=page)),
                self.upstream.parse_models,
            )
        except KiroAsgiError as error:
            found = failed(name, error, self.advice)
            if not isinstance(error, UpstreamRejected) and error.code != ADDRESS:
                return found
            return evolve(found, verdict=Verdict.WARN, advice="none are listed, so every name is passed on as it is")
        self._cards = cards = tuple(card for page in listed for card in page.cards)
        names = ", ".join(clean(card.id) for card in cards[:4]) or "none"
        more = f" and {len(cards) - 4} more" if len(cards) > 4 else ""
        return Finding(name, Verdict.OK, f"{names}{more}{' on the first pages' if listed[-1].following else ''}")

    async def answer(self) -> Finding:
        """Check that a model answers one small question."""
        try:
            return await self.answered()
        except KiroAsgiError as error:
            return failed(self.called("request"), error, self.advice)

    async def answered(self) -> Finding:
        """As `answer`.

        Raises:
            KiroAsgiError: There is no answer.
        """
        name = self.called("request")
        card = self._cheapest()
        if card is None:
            return Finding(name, Verdict.WARN, "not asked, since no model is known", "ask for one by its name")
        prompt = Prompt(card.id, (Turn(Role.USER, (Text(QUESTION),)),))
        upstream, learnt = self.upstream, list[str]()
        while True:
            reader = _AnswerReader(upstream, self.first_patience, self.patience)
            rendered = upstream.render(prompt, card, self.credential)
            await self.transport.fetch(rendered.request, reader, patience=self.first_patience)
            try:
                reader.finish()
            except KiroAsgiError as error:
                adapted = upstream.adapt_after_error(error, rendered)
                if adapted is None or len(learnt) == _LESSONS:
                    raise
                changed = _changed(rendered, adapted.render(prompt, card, self.credential))
                if not changed:
                    raise
                upstream, learnt = adapted, [*learnt, changed]
            else:
                return _answered(name, card, reader, learnt)

    async def ask(self, request: UpstreamRequest) -> bytes:
        """The body of the answer to a small request.

        Raises:
            KiroAsgiError: There is none, or a refusal.
        """
        answer = await fetch_whole(self.transport, request, patience=PATIENCE)
        self.date = self.date or clock(answer.headers, time())
        if answer.status != 200:
            raise self.upstream.fault(answer.status, answer.headers, answer.body)
        return answer.body

    def called(self, name: str) -> str:
        """The name of a finding about this upstream."""
        return f"{self.prefix}{name}"

    def _cheapest(self) -> ModelCard | None:
        """A model for a small question: one that is known to be cheap, else the first; ``None`` where none is known."""
        cards = [card for card in self._cards or self.upstream.builtin if not card.embeds]
        by_name = {self.upstream.normalise(card.id): card for card in reversed(cards)}
        return next((by_name[name] for name in self.probes if name in by_name), next(iter(cards), None))


_LESSONS: Final = 8
"""Refusals of a field that one small request may meet."""


def _changed(before: Rendered, after: Rendered) -> str:
    """What a refusal has changed about the body of a request, in words; empty for nothing."""
    old, new = before.document, after.document
    gone, come = sorted(old.keys() - new.keys()), sorted(new.keys() - old.keys())
    if gone and come:
        return f"{', '.join(come)} in place of {', '.join(gone)}"
    if gone:
        return f"no {', '.join(gone)}"
    other = [name for name in new if new[name] != old.get(name)]
    return f"another form of {', '.join(sorted(other))}" if other else ""


def _answered(name: str, card: ModelCard, reader: _AnswerReader, learnt: Sequence[str]) -> Finding:
    deltas = reader.deltas
    stops = [delta.reason.name.lower() for delta in deltas if isinstance(delta, Stop)]
    usage = next((words for kind, words in USAGE.items() if any(isinstance(it, kind) for it in deltas)), "estimated")
    words = f"{clean(card.id)}: first event after {reader.first or 0:.2f} s, "
    words += f"stop reason {stops[-1] if stops else 'not given'}, usage {usage}"
    if learnt:
        words += f"; learnt from refusals: the service takes {', '.join(learnt)}"
        advice = "set what differs in its table, or another service there, so that no request has to be refused first"
        return Finding(name, Verdict.WARN, words, advice)
    if any(isinstance(delta, TextDelta | RefusalDelta | ThinkingDelta) for delta in deltas):
        return Finding(name, Verdict.OK, words)
    return Finding(name, Verdict.WARN, f"{words}, but no text", "ask once more; empty answers happen")


USAGE: Final = {TokenUsage: "in tokens by the service", ContextUsage: "by the share of the context window"}
"""Kind of report to the source of token counts, best first."""
