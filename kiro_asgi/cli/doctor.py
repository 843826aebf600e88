"""Check the whole chain from the settings to an answer, and say what to do about what is broken.

The exit status is 1 when anything fails.  One small question is asked of the service unless --no-request is given.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from time import time
from typing import Any, Final

import anyio
from attrs import define, evolve, field

from kiro_asgi._version import __version__
from kiro_asgi.asgi.wiring import kiro_upstream, kiro_vendor, new_transport
from kiro_asgi.cli import doctor_local, doctor_network
from kiro_asgi.cli.doctor_local import SignIn
from kiro_asgi.cli.doctor_service import Questions
from kiro_asgi.cli.findings import Finding, Verdict, failed
from kiro_asgi.cli.serve import add_config
from kiro_asgi.config import Settings, read_environment
from kiro_asgi.config.reading import CONFIG_VARIABLE
from kiro_asgi.errors import ConfigError, KiroAsgiError
from kiro_asgi.net.credentials import Credentials
from kiro_asgi.net.transport import Transport
from kiro_asgi.upstreams.base import Credential, CredentialKind, Token
from kiro_asgi.upstreams.kiro.vendor import KiroVendor

__all__ = ["add_arguments", "run"]

INTERRUPTED: Final = 130
WIDTH: Final = 14
"""Columns of the longest name, and a space."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--json", action="store_true", help="for programs: one JSON object on standard output")
    parser.add_argument("--no-request", action="store_true", help="ask the model nothing")
    parser.add_argument("--refresh", action="store_true", help="renew the token even if it is still good")
    add_config(parser)


def run(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Print the findings; 1 if one of them is a failure."""
    if arguments.config:
        environ = {**environ, CONFIG_VARIABLE: arguments.config}
    logging.getLogger("kiro_asgi").addHandler(logging.NullHandler())  # what is worth a word is a finding
    found: list[Finding] = []

    def put(finding: Finding) -> None:
        found.append(finding)
        if not arguments.json:
            _print(finding)

    try:
        _examine(environ, put, refresh=arguments.refresh, ask=not arguments.no_request)
    except KeyboardInterrupt:
        return INTERRUPTED
    good = all(finding.verdict is not Verdict.FAIL for finding in found)
    if arguments.json:
        print(json.dumps({"ok": good, "version": __version__, "findings": list(map(_row, found))}, indent=2))
    return 0 if good else 1


def _print(finding: Finding) -> None:
    print(f"{finding.verdict.value:<4}  {finding.name:<{WIDTH}} {finding.detail}", flush=True)
    if finding.advice:
        print(f"{'':<{WIDTH + 7}}-> {finding.advice}", flush=True)


def _row(finding: Finding) -> dict[str, str]:
    return {
        "name": finding.name,
        "verdict": finding.verdict.value,
        "detail": finding.detail,
        "advice": finding.advice,
    }


def _examine(environ: Mapping[str, str], put: Callable[[Finding], None], *, refresh: bool, ask: bool) -> None:
    reading = read_environment(Settings, environ)
    for finding in doctor_local.settings(reading):
        put(finding)
    if reading.problems:
        return
    try:
        settings = Settings.from_env(environ)
        vendor = kiro_vendor(settings)
    except ConfigError as error:
        put(failed("settings", error))
        return
    anyio.run(partial(_Examination(settings, vendor, environ, put).run, refresh=refresh, ask=ask))


@define
class _Examination:
    """Goes along the chain, and stops where it breaks."""

    _settings: Settings
    _vendor: KiroVendor
    _environ: Mapping[str, str]
    _put: Callable[[Finding], None]
    _sign_in: SignIn | None = field(init=False, default=None)
    """The token file that comes first, where no other credential comes before it."""

    async def run(self, *, refresh: bool, ask: bool) -> None:
        findings, sign_ins = doctor_local.credentials(self._settings.kiro, self._vendor, time)
        self._sign_in = next(iter(sign_ins), None) if self._vendor.given is None else None
        for finding in findings:
            self._put(finding)
        self._put(doctor_local.regions(self._settings.kiro, self._token, self._arn))
        if self._token is not None:
            self._put(doctor_local.expiry(self._token, time()))
        self._put(doctor_local.proxies(self._environ, self._settings.kiro))
        if not self._settings.kiro.proxy:
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
        library: Any = importlib.import_module(self._settings.http_library)
        trusted = library.default_ssl_context()  # as the gateway's
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
        questions = Questions(self._settings, transport, kiro_upstream(self._settings), credential)
        models = await questions.models()
        for finding in (questions.date, models, await questions.limits()):
            if finding is not None:
                self._put(finding)
        if ask:
            self._put(await questions.answer())
