"""Checks of Kiro: its credential, its regions and connections, the token's renewal, what the service says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from math import inf
from time import time

from attrs import define, evolve, field

from kiro_asgi.asgi.wiring import kiro_upstream, new_transport
from kiro_asgi.cli import doctor_local, doctor_network
from kiro_asgi.cli.doctor_local import SignIn
from kiro_asgi.cli.doctor_service import PATIENCE, Questions
from kiro_asgi.cli.findings import Finding, Verdict, failed
from kiro_asgi.config import Settings
from kiro_asgi.errors import ConfigError, KiroAsgiError, UpstreamRejected
from kiro_asgi.net.credentials import Credentials
from kiro_asgi.net.transport import Transport
from kiro_asgi.upstreams.base import Credential, CredentialKind, Token
from kiro_asgi.upstreams.kiro.auth import without_profile
from kiro_asgi.upstreams.kiro.limits import Limits, parse_limits
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream
from kiro_asgi.upstreams.kiro.vendor import KiroVendor
from kiro_asgi.upstreams.replies import clean

__all__ = ["KiroExamination"]


@define
class KiroExamination:
    """Goes along the chain, and stops where it breaks."""

    _settings: Settings
    _vendor: KiroVendor
    _environ: Mapping[str, str]
    _put: Callable[[Finding], None]
    _held: list[Credentials]
    """Gets the credentials that are used, whose tokens must not be told."""

    _sign_in: SignIn | None = field(init=False, default=None)
    """The token file that comes first, where no other credential comes before it."""

    async def run(self, *, refresh: bool, ask: bool) -> None:
        """Put a finding for each link; renew a token that is still good if *refresh*, ask a model if *ask*."""
        findings, sign_ins = doctor_local.credentials(self._settings.kiro, self._vendor, time)
        self._sign_in = next(iter(sign_ins), None) if self._vendor.given is None else None
        for finding in findings:
            self._put(finding)
        self._put(doctor_local.regions(self._settings.kiro, self._token, self._arn))
        if self._token is not None:
            self._put(doctor_local.expiry(self._token, time()))
        if self._settings.kiro.proxy:
            self._put(doctor_local.proxied("proxy", "kiro.proxy", self._settings.kiro.proxy))
        else:
            self._put(doctor_local.proxies(self._environ))
            await self._connections()
        if all(finding.verdict is not Verdict.FAIL for finding in findings):
            transport = new_transport(self._settings)
            credential = await self._credential(transport, refresh)
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
        trusted = doctor_network.trusted(self._settings)
        unsigned = Credential(CredentialKind.ACCESS_TOKEN, "", self._arn)
        places = {"service": kiro_upstream(self._settings).base_url(unsigned)}
        if self._token is not None and self._token.refresh_token:
            try:
                places["sign-in"] = self._vendor.renewal(self._token).url
            except KiroAsgiError as error:
                self._put(evolve(failed("sign-in", error), verdict=Verdict.WARN))
        for name, url in places.items():
            way = await doctor_network.walk(url, trusted, self._settings.limits.connect_timeout)
            self._put(doctor_network.connection(name, way, self._environ, time()))

    async def _credential(self, transport: Transport, refresh: bool) -> Credential | None:
        """The credential that the gateway would use, renewed where that is due or wished for."""
        sign_in = self._sign_in
        due = sign_in is not None and (sign_in.token.expires_at or inf) <= time()
        if sign_in is not None and (due or refresh) and not sign_in.keeps:
            self._put(doctor_local.not_kept(sign_in.path, due))
            if due:
                return None
            refresh = False
        kiro = evolve(self._settings.kiro, refresh_margin=0.0, fallback_credentials_files=())
        try:
            credentials = Credentials.create(kiro, self._vendor, transport)
            self._held.append(credentials)
            credential = await credentials.get()
            newer = await credentials.renew(credential) if refresh and not due else credential
        except KiroAsgiError as error:
            self._put(failed("credential" if isinstance(error, ConfigError) else "refresh", error))
            return None
        if self._vendor.given is None:
            self._put(doctor_local.refreshed(due or refresh, newer is not None))
        return newer or credential

    async def _service(self, transport: Transport, credential: Credential, ask: bool) -> None:
        self._put(doctor_local.profile(credential, self._settings.kiro, self._token))
        upstream = kiro_upstream(self._settings)
        questions = Questions(
            transport=transport,
            upstream=upstream,
            credential=credential,
            first_patience=self._settings.kiro.first_token_timeout,
            patience=self._settings.stream.idle_timeout or PATIENCE,
        )
        models = await questions.models()
        for finding in (questions.date, models, await _limits(questions, upstream)):
            if finding is not None:
                self._put(finding)
        if ask:
            self._put(await questions.answer())


async def _limits(questions: Questions, upstream: KiroUpstream) -> Finding:
    """What is left of the quota."""
    try:
        try:
            body = await questions.ask(upstream.limits_request(questions.credential))
        except UpstreamRejected:  # some enterprise accounts must not name their profile here
            body = await questions.ask(upstream.limits_request(without_profile(questions.credential)))
        return _left(parse_limits(body))
    except KiroAsgiError as error:
        found = failed("usage limits", error)
        return evolve(found, verdict=Verdict.WARN, advice="chats may work all the same")


def _left(limits: Limits) -> Finding:
    reset = f", reset on {datetime.fromtimestamp(limits.resets_at, UTC):%Y-%m-%d %H:%M} UTC" if limits.resets_at else ""
    plan, unit = clean(limits.plan) or "unnamed plan", clean(limits.unit).lower() or "units"
    detail = f"{plan}: {limits.remaining:g} of {limits.limit:g} {unit} left{reset}"
    if limits.limit and not limits.remaining:
        return Finding("usage limits", Verdict.WARN, detail, "wait for the reset, or change the plan")
    return Finding("usage limits", Verdict.OK, detail)
