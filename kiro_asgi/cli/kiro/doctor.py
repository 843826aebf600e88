"""Checks of Kiro: its credential, its regions and connections, the token's renewal, the service's answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from time import time
from typing import Final

from attrs import define, evolve, field, frozen

from kiro_asgi.asgi.exchange.providers import new_store, new_transport, shared_renewals
from kiro_asgi.cli import doctor_checks
from kiro_asgi.cli.doctor_checks import GENERAL, PATIENCE, Finding, Questions, Verdict, failed, masked
from kiro_asgi.config import Settings
from kiro_asgi.errors import ConfigError, KiroAsgiError, NotTheUpstream, UpstreamRejected, UpstreamTokenInvalid
from kiro_asgi.failures.texts import clean
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.net.credentials.pool import Credentials
from kiro_asgi.net.credentials.sources import open_source
from kiro_asgi.net.transport import Transport
from kiro_asgi.state.base import Store
from kiro_asgi.upstreams.access import SignIns
from kiro_asgi.upstreams.base import Credential, CredentialKind, Token, TokenKind
from kiro_asgi.upstreams.kiro.account import UsageLimits, parse_limits
from kiro_asgi.upstreams.kiro.hosts import GENERATION, REGIONS, region_of
from kiro_asgi.upstreams.kiro.settings import KiroSettings
from kiro_asgi.upstreams.kiro.tokens import DEFAULT_REGION, KiroVendor
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream
from kiro_asgi.upstreams.manifest import Configured, probes_in

SIGN_IN: Final = "sign in again: kiro-asgi login"

ADVICE: Final = GENERAL.with_entries(
    {
        "credentials.unreadable": "name another file, or make a new one: kiro-asgi login",
        "sign_in.unreachable": "check the connections above, kiro.proxy and kiro.auth_endpoint",
        "profile_required": "set kiro.profile_arn; an API key must not be set as kiro.access_token",
        "improperly_formed": "kiro-asgi explain shows which rules were applied to a request",
        "INVALID_MODEL_ID": "ask for a model that is listed above; plans and regions differ",
    },
    {
        UpstreamTokenInvalid: f"check the key; with a token, try --refresh, or {SIGN_IN}",
        NotTheUpstream: "check kiro.endpoint; another server answers there",
        UpstreamRejected: "check kiro.region, kiro.origin and kiro.wire_style; the service rejects one of them",
    },
)

KINDS: Final[Mapping[TokenKind | CredentialKind, str]] = {
    TokenKind.SOCIAL: "Google or GitHub sign-in",
    TokenKind.OIDC: "Builder ID or IAM Identity Center sign-in",
    TokenKind.EXTERNAL_IDP: "sign-in with a company's own identity provider",
    CredentialKind.API_KEY: "API key",
    CredentialKind.ACCESS_TOKEN: "access token, which is not refreshed",
    CredentialKind.EXTERNAL_IDP: "access token of a company's own identity provider, which is not refreshed",
}


@define
class KiroExamination:
    """Checks the chain from the credential to an answer, and stops where it breaks."""

    _settings: Settings
    _configured: Configured[KiroSettings]
    _environ: Mapping[str, str]
    _put: Callable[[Finding], None]
    _held: list[Credentials]
    """Gets the credentials that are used, so that their tokens are masked in findings."""

    _upstream: KiroUpstream = field(init=False)
    _vendor: KiroVendor = field(init=False)
    _sign_in: SignIn | None = field(init=False, default=None)
    """The token file that comes first, where no other credential comes before it."""

    def __attrs_post_init__(self) -> None:
        self._upstream = KiroUpstream(settings=self._configured.settings)
        self._vendor = KiroVendor(self._configured.settings)

    async def run(self, *, refresh: bool, ask: bool) -> None:
        """Report a finding for each link; refresh a token that is still valid if *refresh*, ask a model if *ask*."""
        findings, sign_ins = credentials(self._settings.kiro, self._vendor, time)
        self._sign_in = next(iter(sign_ins), None) if self._vendor.given is None else None
        for finding in findings:
            self._put(finding)
        self._put(regions(self._settings.kiro, self._token, self._arn))
        if self._token is not None:
            self._put(expiry(self._token, time()))
        if self._settings.kiro.proxy:
            self._put(doctor_checks.proxied("proxy", "kiro.proxy", self._settings.kiro.proxy))
        else:
            self._put(doctor_checks.proxies(self._environ))
            await self._connections()
        if all(finding.verdict is not Verdict.FAIL for finding in findings):
            transport = new_transport(self._settings, self._settings.kiro.proxy)
            store = new_store(self._settings, Clocks())
            credential = await self._credential(transport, store, refresh)
            await store.aclose()
            if credential is not None:
                await self._service(transport, credential, ask)
            await transport.aclose()

    @property
    def _token(self) -> Token | None:
        return self._sign_in.token if self._sign_in is not None else None

    @property
    def _arn(self) -> str:
        return self._settings.kiro.profile_arn or (self._token.profile_arn if self._token is not None else "")

    async def _connections(self) -> None:
        found = [await self._connection(name, url) for name, url in self._places().items()]
        reached = any(finding.verdict is not Verdict.FAIL for finding in found)
        for finding in found:  # one that cannot be reached breaks nothing as long as another can
            missed = reached and finding.verdict is Verdict.FAIL
            self._put(evolve(finding, verdict=Verdict.WARN) if missed else finding)
        if self._token is not None and self._token.refresh_token:
            try:
                self._put(await self._connection("sign-in", self._vendor.renewal(self._token).url))
            except KiroAsgiError as error:
                self._put(evolve(failed("sign-in", error, ADVICE), verdict=Verdict.WARN))

    async def _connection(self, name: str, url: str) -> Finding:
        trusted = doctor_checks.trusted(self._settings)
        way = await doctor_checks.walk(url, trusted, self._settings.limits.connect_timeout)
        return doctor_checks.connection(name, way, self._environ, time())

    def _places(self) -> Mapping[str, str]:
        """The addresses of the service that may be asked, each under the name of its finding."""
        unsigned, hosts, places = Credential(CredentialKind.ACCESS_TOKEN, "", self._arn), self._upstream.hosts, {}
        for credential in hosts.candidates(unsigned):
            answers, lists = hosts.generation(credential), hosts.management(credential)
            places[f"service {credential.host}".strip()] = answers.base
            if lists.base != answers.base:
                places[f"management {credential.host}".strip()] = lists.base
        return places

    async def _credential(self, transport: Transport, store: Store, refresh: bool) -> Credential | None:
        """The credential that the gateway would use, renewed where that is due or requested.

        Gateways that use *store* are notified, as they notify one another, that their token is no longer valid.
        """
        sign_in = self._sign_in
        due = sign_in is not None and (sign_in.token.expires_at or inf) <= time()
        if sign_in is not None and (due or refresh) and not sign_in.keeps:
            self._put(not_kept(sign_in.path, due))
            if due:
                return None
            refresh = False
        kiro = evolve(self._settings.kiro, refresh_margin=0.0, fallback_credentials_files=())
        try:
            shared = shared_renewals(store)
            held = Credentials.create(SignIns(self._vendor, kiro), transport, shared=shared)
            self._held.append(held)
            credential = await held.get()
            newer = await held.renew(credential) if refresh and not due else credential
        except KiroAsgiError as error:
            self._put(failed("credential" if isinstance(error, ConfigError) else "refresh", error, ADVICE))
            return None
        if self._vendor.given is None:
            self._put(refreshed(due or refresh, newer is not None))
        return newer or credential

    async def _service(self, transport: Transport, credential: Credential, ask: bool) -> None:
        self._put(profile(credential, self._settings.kiro, self._token))
        questions = Questions(
            advice=ADVICE,
            transport=transport,
            upstream=self._upstream,
            credential=credential,
            first_patience=self._settings.kiro.first_token_timeout,
            patience=self._settings.stream.idle_timeout or PATIENCE,
            probes=tuple(probes_in(type(self._settings))),
        )
        await self._choose_hosts(questions)
        models = await questions.models()
        for finding in (questions.date, models, await _limits(questions, self._upstream)):
            if finding is not None:
                self._put(finding)
        if ask:
            self._put(await self._answer(questions))

    async def _choose_hosts(self, questions: Questions) -> None:
        """Report on each of the hosts that may be asked, and go on with the first that lists models."""
        candidates = self._upstream.hosts.candidates(questions.credential)
        if len(candidates) == 1:
            return
        taken = []
        for credential in candidates:
            try:
                await questions.ask(self._upstream.models_request(credential))
            except KiroAsgiError as error:
                self._put(refusing(credential.host, error))
            else:
                taken.append(credential)
                self._put(Finding(f"host {credential.host}", Verdict.OK, "lists models for this credential"))
        questions.credential = next(iter(taken), questions.credential)

    async def _answer(self, questions: Questions) -> Finding:
        """Ask a model, and where the host does not take the credential, at the other host."""
        credential = questions.credential
        try:
            return await questions.answered()
        except KiroAsgiError as error:
            other = self._upstream.hosts.moved(credential, GENERATION, error)
            if other is None:
                return failed("request", error, ADVICE)
            self._put(refusing(self._upstream.hosts.generation(credential).family.name, error))
        questions.credential = other
        return await questions.answer()


def refusing(host: str, error: KiroAsgiError) -> Finding:
    """A host that does not take the credential, where there is another one."""
    found = failed(f"host {host}", error, ADVICE)
    advice = "the gateway asks the other host, and remembers that; kiro.hosts spares it the attempt"
    return evolve(found, verdict=Verdict.WARN, advice=advice)


async def _limits(questions: Questions, upstream: KiroUpstream) -> Finding:
    """Check how much of the quota is left."""
    try:
        try:
            body = await questions.ask(upstream.limits_request(questions.credential))
        except UpstreamRejected:  # some enterprise accounts must not name their profile here
            body = await questions.ask(upstream.limits_request(upstream.hosts.unnamed(questions.credential)))
        return _left(parse_limits(body))
    except KiroAsgiError as error:
        found = failed("usage limits", error, ADVICE)
        return evolve(found, verdict=Verdict.WARN, advice="chats may work all the same")


def _left(limits: UsageLimits) -> Finding:
    reset = f", reset on {datetime.fromtimestamp(limits.resets_at, UTC):%Y-%m-%d %H:%M} UTC" if limits.resets_at else ""
    plan, unit = clean(limits.plan) or "unnamed plan", clean(limits.unit).lower() or "units"
    detail = f"{plan}: {limits.remaining:g} of {limits.limit:g} {unit} left{reset}"
    if limits.limit and not limits.remaining:
        return Finding("usage limits", Verdict.WARN, detail, "wait for the reset, or change the plan")
    return Finding("usage limits", Verdict.OK, detail)


@frozen
class SignIn:
    """One token file."""

    path: Path
    token: Token
    keeps: bool
    """Whether a renewed token would be written back to it."""


def credentials(kiro: KiroSettings, vendor: KiroVendor, now: Callable[[], float]) -> tuple[list[Finding], list[SignIn]]:
    """Check every credential that is set, in order of preference; also return the token files that can be read."""
    findings, sign_ins = [], []
    if vendor.given is not None:
        detail = f"{vendor.given.source}: {KINDS[vendor.given.kind]}"
        findings.append(Finding("credential", Verdict.OK, detail))
    for setting, path in _files(kiro):
        try:
            source = open_source(path, vendor, kiro.write_back, now)
            sign_ins.append(SignIn(path, source.load(), source.keeps))
        except OSError as error:
            message = f"{setting}: {path}: {error.strerror or error}"
            findings.append(failed("credential", ConfigError(message, code="credentials.unreadable"), ADVICE))
        except KiroAsgiError as error:
            findings.append(failed("credential", error, ADVICE))
        else:
            detail = f"{setting}: {path}, {KINDS[sign_ins[-1].token.kind]}"
            findings += [Finding("credential", Verdict.OK, detail), doctor_checks.file_mode("file mode", path)]
    if kiro.credentials_command:
        findings.append(Finding("credential", Verdict.OK, "kiro.credentials_command: a program that prints a token"))
    if not findings:
        advice = "set KIRO_API_KEY, or sign in: kiro-asgi login; without an account: kiro-asgi serve --simulate"
        findings.append(Finding("credential", Verdict.FAIL, "none is set", advice))
    return findings, sign_ins


def _files(kiro: KiroSettings) -> Iterator[tuple[str, Path]]:
    if kiro.credentials_file:
        yield "kiro.credentials_file", Path(kiro.credentials_file).expanduser()
    for name in kiro.fallback_credentials_files:
        yield "kiro.fallback_credentials_files", Path(name).expanduser()


def regions(kiro: KiroSettings, token: Token | None, arn: str) -> Finding:
    """The three regions, which are easily taken for one another."""
    service = region_of(arn) or kiro.region
    places = [f"service {kiro.endpoint or service}"]
    if region_of(arn):
        places.append(f"profile {region_of(arn)}")
    if token is not None:
        places.insert(0, f"sign-in {kiro.auth_endpoint or kiro.auth_region or token.region or DEFAULT_REGION}")
    detail = ", ".join(places)
    if kiro.endpoint or service in REGIONS:
        return Finding("regions", Verdict.OK, detail)
    return Finding(
        "regions", Verdict.WARN, detail, f"the service is known in {' and '.join(REGIONS)} only: kiro.region"
    )


def expiry(token: Token, now: float) -> Finding:
    """How long the access token lasts."""
    found = doctor_checks.expiry("expiry", token, now)
    if token.refresh_token:
        return evolve(found, verdict=Verdict.OK)
    verdict = Verdict.FAIL if found.verdict is Verdict.WARN else Verdict.WARN
    return evolve(found, verdict=verdict, detail=f"{found.detail}; there is no refresh token", advice=SIGN_IN)


def not_kept(path: Path, due: bool) -> Finding:
    """A token that is not refreshed here, because the new one would not be saved."""
    detail = f"not tried: kiro.write_back keeps refreshed tokens out of {path}, and the old one would become invalid"
    advice = "use the program that the file belongs to; it refreshes the token"
    return Finding("refresh", Verdict.FAIL if due else Verdict.WARN, detail, advice if due else "")


def refreshed(tried: bool, newer: bool) -> Finding:
    """Whether the token could be renewed."""
    if not tried:
        return Finding("refresh", Verdict.OK, "not needed now; --refresh tries it")
    if newer:
        return Finding("refresh", Verdict.OK, "works; there is a new token")
    return Finding("refresh", Verdict.WARN, "there is no newer token", SIGN_IN)


def profile(credential: Credential, kiro: KiroSettings, token: Token | None) -> Finding:
    """The profile that calls name."""
    if credential.kind is CredentialKind.API_KEY:
        return Finding("profile", Verdict.OK, "none; an API key has none")
    if not credential.profile_arn:
        advice = "set kiro.profile_arn if the service asks for one"
        return Finding("profile", Verdict.WARN, "none; the service lists none for this account", advice)
    token_arn = token.profile_arn if token is not None else ""
    where = {kiro.profile_arn: "from kiro.profile_arn", token_arn: "from the token"}
    return Finding(
        "profile", Verdict.OK, f"{masked(credential.profile_arn)}, {where.get(credential.profile_arn, 'as listed')}"
    )
