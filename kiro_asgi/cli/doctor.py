"""Check the whole chain from the settings to an answer, and show what to do about what is broken.

The exit status is 1 when anything fails.  Each upstream is asked one small question unless --no-request is given.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from time import time
from typing import Any, Final, Protocol

import anyio
from anyio import to_thread
from attrs import define, evolve, field

from kiro_asgi._version import __version__
from kiro_asgi.asgi.door.readiness import problems_of
from kiro_asgi.asgi.exchange.providers import new_store, new_transport
from kiro_asgi.asgi.kept.secrets import Secrets, hide_in_logs, secrets_in
from kiro_asgi.cli import doctor_checks
from kiro_asgi.cli.doctor_checks import (
    PATIENCE,
    Advice,
    Finding,
    Questions,
    Verdict,
    failed,
    span,
    with_key,
)
from kiro_asgi.cli.lasting import as_served
from kiro_asgi.cli.named import doctor_of
from kiro_asgi.cli.serve import add_config
from kiro_asgi.cli.terminal import Printer, Spinner, Tone, printer_on
from kiro_asgi.config import Settings, read_environment
from kiro_asgi.config.tree import assembled
from kiro_asgi.errors import ConfigError, KiroAsgiError, UpstreamTokenInvalid
from kiro_asgi.failures.report import document_of
from kiro_asgi.failures.texts import clean
from kiro_asgi.net.aws import ThisMachine
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.net.credentials.pool import Credentials
from kiro_asgi.net.credentials.sources import open_source
from kiro_asgi.net.requests import fetch_whole
from kiro_asgi.net.transport import Transport
from kiro_asgi.upstreams.access import Keys, SignIns
from kiro_asgi.upstreams.base import Credential, Upstream, UpstreamRequest
from kiro_asgi.upstreams.manifest import Configured, probes_in, set_up
from kiro_asgi.upstreams.settings import DescribedQuota
from kiro_asgi.wire.json import objects_of, text_of

_RESTING: Final = "resting"
_GATEWAY_PATIENCE: Final = 5.0
"""Seconds for the answer of a running gateway."""


async def resting(url: str, settings: Settings) -> Finding:
    """Ask the gateway at the base *url* which credentials rest, with the first of its keys in *settings*."""
    keys = settings.client.api_keys[:1]
    advice = "check that client.api_keys are the gateway's own"
    if settings.keys and not keys:  # the settings have only their hashes
        advice = "the settings have only hashes of keys; set client.api_keys to one of the keys for this command"
    headers = [(b"authorization", f"Bearer {key}".encode()) for key in keys]
    transport = new_transport(settings, proxy="")
    try:
        request = UpstreamRequest("GET", f"{url.rstrip('/')}/ready", tuple(headers))
        answer = await fetch_whole(transport, request, patience=_GATEWAY_PATIENCE)
    except KiroAsgiError as error:
        found = failed(_RESTING, error)
        return Finding(_RESTING, Verdict.FAIL, found.detail, f"check that a gateway runs at {url}")
    finally:
        await transport.aclose()
    report = document_of(answer.body)
    if "resting" not in report:
        return Finding(_RESTING, Verdict.WARN, "the gateway does not show which credentials rest", advice)
    rests = list(_describe(objects_of(report["resting"]), "{reason}, next try in {left}"))
    limited = list(_describe(objects_of(report.get("at_limit")), "at its limit of {limit}, room in {left}"))
    adapted = list(_learnt(objects_of(report.get("adapted"))))
    if rests:
        advice = "they are not used until then; the gateway's log has the service's message"
        return Finding(_RESTING, Verdict.WARN, "; ".join((*rests, *limited, *adapted)), advice)
    return Finding(_RESTING, Verdict.OK, "; ".join(("no credential rests", *limited, *adapted)))


def _learnt(lessons: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """What the gateway asks otherwise because a service refused it, in words."""
    for each in lessons:
        seconds = each.get("seconds_left")
        left = f", for {span(seconds)}" if type(seconds) is int else ""
        model = clean(f"{text_of(each, 'upstream')}:{text_of(each, 'model')}")
        yield f"{model} is asked without {clean(text_of(each, 'refused'))}, which it refused{left}"


def _describe(credentials: Iterable[Mapping[str, Any]], words: str) -> Iterator[str]:
    for each in credentials:
        seconds = each.get("seconds")
        left = span(seconds) if type(seconds) is int else "a while"
        state = words.format(reason=clean(text_of(each, "reason")), limit=clean(text_of(each, "limit")), left=left)
        yield f"{clean(text_of(each, 'credential'))}: {state}"


SIMULATED: Final = Finding(
    "services",
    Verdict.WARN,
    "simulated: the gateway asks no service and uses no credential, so none is checked",
    "to check them, remove the setting simulate",
)

TONES: Final[Mapping[Verdict, Tone]] = {
    Verdict.OK: Tone.GOOD,
    Verdict.WARN: Tone.WARNING,
    Verdict.FAIL: Tone.BAD,
}
SUMMARIES: Final[Mapping[Verdict, str]] = {Verdict.FAIL: "Broken: ", Verdict.WARN: "Warnings: "}
WIDTH: Final = 18
"""Columns of the longest name of a well-known upstream's finding, and a space."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--json", action="store_true", help="for programs: one JSON object on standard output")
    parser.add_argument("--no-request", action="store_true", help="ask no model anything")
    parser.add_argument("--gateway", metavar="URL", default="", help="ask a running gateway which credentials rest")
    parser.add_argument("--refresh", action="store_true", help="renew tokens even if they are still good")
    add_config(parser)


def run(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Print the findings; 1 if one of them is a failure."""
    logging.getLogger("kiro_asgi").addHandler(logging.NullHandler())  # the findings report what matters
    found: list[Finding] = []
    output, spinner = printer_on(sys.stdout, environ), Spinner.on(sys.stderr, environ)

    def report(finding: Finding) -> None:
        found.append(finding)
        if not arguments.json:
            spinner.clear()
            _print(output, finding)

    _examine(
        environ, report, spinner, refresh=arguments.refresh, ask=not arguments.no_request, gateway=arguments.gateway
    )
    good = all(finding.verdict is not Verdict.FAIL for finding in found)
    if arguments.json:
        output.json(json.dumps({"ok": good, "version": __version__, "findings": list(map(_row, found))}, indent=2))
    else:
        _summarise(output, found)
    return 0 if good else 1


def _print(output: Printer, finding: Finding) -> None:
    verdict = (f"{finding.verdict.value:<4}", TONES[finding.verdict])
    output.line(verdict, "  ", (f"{finding.name:<{WIDTH}} ", Tone.NAME), finding.detail, hang=WIDTH + 7)
    if finding.advice:
        output.line(f"{'':<{WIDTH + 7}}", ("-> ", TONES[finding.verdict]), finding.advice, hang=WIDTH + 10)


def _summarise(output: Printer, found: Sequence[Finding]) -> None:
    """Print the result at the end, where a reader looks first."""
    names = {verdict: [it.name for it in found if it.verdict is verdict] for verdict in Verdict}
    output.line()
    for verdict, words in SUMMARIES.items():
        if names[verdict]:
            output.line((words, TONES[verdict]), ", ".join(dict.fromkeys(names[verdict])), hang=4)
    if not names[Verdict.FAIL]:
        output.line(("Nothing is broken.", Tone.GOOD))


def _row(finding: Finding) -> dict[str, str]:
    return {
        "name": finding.name,
        "verdict": finding.verdict.value,
        "detail": finding.detail,
        "advice": finding.advice,
    }


def _report_masked(secrets: Secrets, report: Callable[[Finding], None], finding: Finding) -> None:
    """Report a finding; secrets that a message quotes are masked."""
    report(evolve(finding, detail=secrets.hide(finding.detail), advice=secrets.hide(finding.advice)))


def _examine(
    environ: Mapping[str, str],
    report: Callable[[Finding], None],
    spinner: Spinner,
    *,
    refresh: bool,
    ask: bool,
    gateway: str,
) -> None:
    reading = read_environment(Settings, environ)
    for finding in doctor_checks.settings(reading, problems_of(reading)):
        report(finding)
    if reading.problems:
        return
    if assembled(reading).simulate:
        _report_simulated(report, gateway, assembled(reading))
        return
    try:
        settings = _with_usable_state(as_served(assembled(reading), environ))
        found = set_up(settings, ThisMachine())
        held: list[Credentials] = []
        secrets = Secrets(lambda: chain(secrets_in(settings), *(credentials.secrets for credentials in held)))
        report = partial(_report_masked, secrets, report)
        hide_in_logs(secrets)
        examinations = [
            (each, examination(settings, each, environ, report, held))
            for each in found
            if (examination := _examination(each, report)) is not None
        ]
    except ConfigError:
        return  # its reasons are among the findings

    async def examine() -> None:
        async for finding in doctor_checks.kept(settings):
            report(finding)
        if gateway:
            async with spinner.turning(f"asking {gateway}"):
                report(await resting(gateway, settings))
        if not any(each.manifest.doctor for each in found):
            report(doctor_checks.proxies(environ))
        for configured, examination in examinations:
            async with spinner.turning(f"examining {configured.name}"):
                await examination.run(refresh=refresh, ask=ask)

    anyio.run(examine)


def _report_simulated(report: Callable[[Finding], None], gateway: str, settings: Settings) -> None:
    """Report what can be found where every service is simulated."""
    report(SIMULATED)
    if gateway:
        report(anyio.run(resting, gateway, settings))


def _with_usable_state(settings: Settings) -> Settings:
    """*settings*; with state in memory where their store cannot be used, which is among the findings."""
    try:
        new_store(settings, Clocks())
    except ConfigError:
        return evolve(settings, state=evolve(settings.state, engine="memory"))
    return settings


class Examination(Protocol):
    """Checks one upstream for ``kiro-asgi doctor``."""

    async def run(self, *, refresh: bool, ask: bool) -> None:
        """Check link by link, and stop where the chain breaks.

        Args:
            refresh: Renew a token that is still good.
            ask: Ask a model for a small answer.
        """
        ...


@define
class DirectExamination:
    """Checks one upstream with API keys, or with the sign-in that another program keeps, link by link, and stops where
    the chain breaks."""

    _settings: Settings
    _configured: Configured[Any]
    _environ: Mapping[str, str]
    _put: Callable[[Finding], None]
    _held: list[Credentials]
    """Collects the credentials that are used, so that their tokens are masked in findings."""

    _upstream: Upstream = field(init=False)
    _access: Keys | SignIns = field(init=False)
    _quota: DescribedQuota | None = field(init=False)
    _first_patience: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        setup = self._configured.make()
        self._upstream, self._access = setup.upstream, setup.access
        self._quota = setup.quota if isinstance(setup.quota, DescribedQuota) else None
        self._first_patience = setup.answer_options.first_event_timeout

    async def run(self, *, refresh: bool, ask: bool) -> None:
        """Put a finding for each link; ask a model if *ask*.  Nothing is renewed here, so *refresh* has no effect."""
        access = self._access
        found = (
            [await self._key(access)] if isinstance(access, Keys) else await to_thread.run_sync(self._sign_in, access)
        )
        for finding in found:
            self._put(finding)
        if any(finding.verdict is Verdict.FAIL for finding in found):
            return
        transport = new_transport(self._settings, self._configured.settings.proxy)
        credential = await self._credential(transport)
        if credential is not None:
            reached = await self._connection(credential)
            self._put(reached)
            if reached.verdict is not Verdict.FAIL:
                await self._answers(transport, credential, ask)
        await transport.aclose()

    def _called(self, name: str) -> str:
        return f"{self._configured.name} {name}"

    def _sign_in(self, access: SignIns) -> list[Finding]:
        """The file of the sign-in: whether it can be read, who else may, and how long its token lasts."""
        path = Path(access.places.credentials_file).expanduser()
        name = self._called("sign-in")
        try:
            token = open_source(path, access.vendor, access.places.write_back, time).load()
        except OSError as error:
            unreadable = ConfigError(f"{path}: {error.strerror or error}", code="credentials.unreadable")
            return [failed(name, unreadable, self._advice)]
        except KiroAsgiError as error:
            return [failed(name, error, self._advice)]
        return [
            Finding(name, Verdict.OK, f"{path}, {'a token' if token.account else 'a key'}"),
            doctor_checks.file_mode(self._called("file mode"), path),
            doctor_checks.expiry(self._called("expiry"), token, time()),
        ]

    @property
    def _advice(self) -> Advice:
        advice, access = with_key(self._configured.path), self._access
        return (
            advice
            if isinstance(access, Keys)
            else advice.with_entries(
                {"credentials.unreadable": access.renewed_by}, {UpstreamTokenInvalid: access.renewed_by}
            )
        )

    async def _key(self, keys: Keys) -> Finding:
        """The keys, and what the upstream itself reports about them."""
        found = doctor_checks.keys(self._called("key"), keys)
        if keys.examine is None:
            return found
        try:
            more = await to_thread.run_sync(keys.examine)
        except KiroAsgiError as error:
            return failed(found.name, error, with_key(self._configured.path))
        return evolve(found, detail=f"{found.detail}; {more}")

    async def _credential(self, transport: Transport) -> Credential | None:
        """The first key, the token that it is exchanged for, or that of the sign-in."""
        access, name = self._access, self._called("token")
        access = evolve(access, named=access.named[:1]) if isinstance(access, Keys) else access
        try:
            credentials = Credentials.create(access, transport)
            self._held.append(credentials)
            credential = await credentials.get()
        except KiroAsgiError as error:
            self._put(failed(name, error, self._advice))
            return None
        if isinstance(access, Keys) and access.exchange is not None:
            self._put(Finding(name, Verdict.OK, "the key was exchanged for one"))
        return credential

    async def _connection(self, credential: Credential) -> Finding:
        settings, name = self._configured.settings, self._called("service")
        if settings.proxy:
            return doctor_checks.proxied(name, f"{self._configured.path}.proxy", settings.proxy)
        url, patience = self._upstream.models_request(credential).url, self._settings.limits.connect_timeout
        way = await doctor_checks.walk(url, doctor_checks.trusted(self._settings), patience)
        return doctor_checks.connection(name, way, self._environ, time())

    async def _answers(self, transport: Transport, credential: Credential, ask: bool) -> None:
        questions = Questions(
            prefix=self._called(""),
            advice=self._advice,
            transport=transport,
            upstream=self._upstream,
            credential=credential,
            first_patience=self._first_patience,
            patience=self._settings.stream.idle_timeout or PATIENCE,
            probes=tuple(probes_in(type(self._settings))),
        )
        models = await questions.models()
        self._put(models)
        if models.verdict is not Verdict.FAIL and credential.account and self._quota is not None:
            self._put(await self._limits(questions, self._quota))
        if ask and models.verdict is not Verdict.FAIL:
            self._put(await questions.answer())

    async def _limits(self, questions: Questions, quota: DescribedQuota) -> Finding:
        """What is used of the account's limits."""
        name = self._called("limits")
        try:
            body = await questions.ask(quota.questions[0](questions.credential))
        except KiroAsgiError as error:
            found = failed(name, error, self._advice)
            return evolve(found, verdict=Verdict.WARN, advice="chats may work all the same")
        spent = quota.reset(body) is not None
        advice = "wait for the reset, or change the plan" if spent else ""
        return Finding(name, Verdict.WARN if spent else Verdict.OK, quota.describe(body), advice)


def _examination(configured: Configured[Any], report: Callable[[Finding], None]) -> Callable[..., Examination] | None:
    """The class that examines an upstream: the one that its manifest names, else the one for keys.  ``None``, and a
    finding, where that name leads to none."""
    if not configured.manifest.doctor:
        return DirectExamination
    try:
        return doctor_of(configured.manifest)
    except ConfigError as error:
        report(Finding(f"{configured.name} doctor", Verdict.FAIL, error.message, "correct the manifest"))
        return None
