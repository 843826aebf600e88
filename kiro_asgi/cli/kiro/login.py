"""Sign in with a browser: options, the device flow, the file that gets the token; run by `kiro_asgi.cli.login`."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
import webbrowser
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from time import monotonic, time
from typing import Any, Final, Protocol, TextIO

import anyio
import anyio.to_thread
from attrs import evolve, frozen

from kiro_asgi.asgi.exchange.providers import new_transport
from kiro_asgi.asgi.kept.secrets import secrets_in
from kiro_asgi.cli.terminal import Countdown, Printer, Tone, printer_on
from kiro_asgi.config import Settings
from kiro_asgi.errors import ConfigError, KiroAsgiError, UpstreamDenied, UpstreamUnreachable
from kiro_asgi.limits import REFUSAL_BYTES
from kiro_asgi.net.credentials.sources import locked, read_private, write_private
from kiro_asgi.net.requests import HttpResponse, ask_sign_in, fetch_whole
from kiro_asgi.net.transport import Transport
from kiro_asgi.redaction import Redactor
from kiro_asgi.upstreams.base import Token
from kiro_asgi.upstreams.kiro import hosts
from kiro_asgi.upstreams.kiro.hosts import oidc_host, social_host
from kiro_asgi.upstreams.kiro.signin import (
    BUILDER_ID,
    PROVIDERS,
    SLOWER,
    AuthorizationPending,
    DeviceCode,
    DeviceFlow,
    OidcFlow,
    SocialFlow,
    parse_device_code,
    parse_poll,
    parse_registration,
    registration_request,
)
from kiro_asgi.upstreams.kiro.tokens import (
    REACHED_BY,
    KiroVendor,
    TokenUnreadable,
    parse_token,
    render_token,
)


class SignInScreen(Protocol):
    """Where a sign-in is shown."""

    def code(self, code: DeviceCode) -> None:
        """Ask the user to confirm *code*."""
        ...

    def waiting(self, left: float) -> None:
        """Show that the user has *left* seconds."""
        ...

    def done(self, path: Path, endpoint: str) -> None:
        """Show where the token is, and the settings to use it."""
        ...

    def failed(self, message: str, code: str) -> None:
        """Show why there is no token."""
        ...


@frozen
class TextScreen:
    """Sentences on standard output; progress and errors on standard error."""

    _output: Printer
    _errors: Printer
    _countdown: Countdown

    @classmethod
    def on(cls, output: TextIO, errors: TextIO, environ: Mapping[str, str]) -> TextScreen:
        """One that suits these streams."""
        waiting = Countdown.on(errors, environ, "waiting for you")
        return cls(printer_on(output, environ), printer_on(errors, environ), waiting)

    def code(self, code: DeviceCode) -> None:
        """The address on a line of its own, to be copied."""
        self._output.line("Open this page, and see that it shows the code ", (code.user_code, Tone.TITLE), ":")
        self._output.line()
        self._output.line("   ", (code.address, Tone.NAME))
        self._output.line()

    def waiting(self, left: float) -> None:
        """The time that is left."""
        self._countdown.show(left)

    def done(self, path: Path, endpoint: str) -> None:
        """The settings as lines for a shell."""
        self._countdown.end()
        words = f" The token is in {path}, which only you can read. To use it:"
        self._output.line(("You are signed in.", Tone.GOOD), words)
        self._output.line()
        for name, value in _settings(path, endpoint).items():
            self._output.line("   export ", (name, Tone.NAME), f"={shlex.quote(value)}")

    def failed(self, message: str, code: str) -> None:
        """One sentence."""
        self._countdown.end()
        self._errors.line(("kiro-asgi: ", Tone.BAD), message, hang=4)


@frozen
class JsonScreen:
    """One JSON object a line; ``event`` is ``code``, ``done`` or ``failed``."""

    _output: Printer

    def code(self, code: DeviceCode) -> None:
        """``address``, ``user_code``, ``expires_in`` (seconds)."""
        self._print("code", address=code.address, user_code=code.user_code, expires_in=code.lifetime)

    def waiting(self, left: float) -> None:
        """Print nothing."""

    def done(self, path: Path, endpoint: str) -> None:
        """``file``, ``settings`` (environment variable to value)."""
        self._print("done", file=str(path), settings=_settings(path, endpoint))

    def failed(self, message: str, code: str) -> None:
        """``message``, ``code``."""
        self._print("failed", message=message, code=code)

    def _print(self, event: str, **fields: Any) -> None:
        self._output.json(json.dumps({"event": event, **fields}))


def _settings(path: Path, endpoint: str) -> dict[str, str]:
    names = {"KIRO_ASGI__KIRO__CREDENTIALS_FILE": str(path), "KIRO_ASGI__KIRO__AUTH_ENDPOINT": endpoint}
    return {name: value for name, value in names.items() if value}


TICK: Final = 0.1
"""Seconds between two signs of life on the screen."""

PATIENCE: Final = 15.0
"""Seconds for each answer of the sign-in service."""

_ask: Final = partial(ask_sign_in, patience=PATIENCE, reached_by=REACHED_BY)

BROWSER_PATIENCE: Final = 5.0
"""Seconds that a browser may take to come up before we go on without it."""


@frozen
class SigningIn:
    """The plan of a sign-in: its provider and its service."""

    region: str
    base: str
    """Base URL of the sign-in service; empty for the public one."""

    provider: str
    """Provider of the account; empty for the OIDC service."""

    start_url: str

    async def run(
        self,
        transport: Transport,
        screen: SignInScreen,
        browser: Callable[[str], object] | None,
        wall_clock: Callable[[], float],
    ) -> tuple[Token, str]:
        """Run the device flow; return the token and the provider.

        Raises:
            UpstreamError: There is no token; the message is one sentence that gives the reason.
        """
        flow = await self._flow(transport)
        answer = await _ask(transport, flow.code_request())
        code = parse_device_code(answer.status, _redacted_body(answer, flow.completed(Token("")).secrets))
        screen.code(code)
        if browser is not None:
            with anyio.move_on_after(BROWSER_PATIENCE):
                await anyio.to_thread.run_sync(browser, code.address, abandon_on_cancel=True)
        token = await _polled(transport, flow, code, screen, wall_clock)
        return flow.completed(token), flow.provider

    async def _flow(self, transport: Transport) -> DeviceFlow:
        base = self.base or (social_host if self.provider else oidc_host)(self.region)
        if self.provider:
            return SocialFlow(base, self.region, self.provider)
        answer = await _ask(transport, registration_request(base, self.start_url))
        return OidcFlow(base, self.region, self.start_url, parse_registration(answer.status, answer.body))


async def _polled(
    transport: Transport, flow: DeviceFlow, code: DeviceCode, screen: SignInScreen, wall_clock: Callable[[], float]
) -> Token:
    end, interval = monotonic() + code.lifetime, code.interval
    while monotonic() + interval < end:
        await _wait(interval, end, screen)
        try:
            answer = await _ask(transport, flow.poll_request(code))
        except UpstreamUnreachable:  # the user is still busy, and networks come back
            interval += SLOWER
            continue
        body = _redacted_body(answer, (code.code, *flow.completed(Token("")).secrets))
        found = parse_poll(answer.status, body, wall_clock())
        if not isinstance(found, AuthorizationPending):
            return found
        interval += found.slower
    raise UpstreamDenied("the code was not confirmed in time; sign in again", code="sign_in.expired")


def _redacted_body(answer: HttpResponse, secrets: Iterable[str]) -> bytes:
    """The body of *answer*; a refusal, which may quote our request, without *secrets*."""
    if answer.status == HTTPStatus.OK:
        return answer.body
    return Redactor.of(secrets).hide_in(answer.body[:REFUSAL_BYTES])


async def _wait(seconds: float, end: float, screen: SignInScreen) -> None:
    until = monotonic() + seconds
    while (left := until - monotonic()) > 0:
        screen.waiting(end - monotonic())
        await anyio.sleep(min(left, TICK))


METHODS: Final = ("builder-id", "idc", "social")
REGION: Final = "us-east-1"
LOCK_PATIENCE: Final = 40.0
"""Seconds; longer than a renewal takes."""

INTERRUPTED: Final = 130
"""Exit status after Ctrl-C, as shells have it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--method", choices=METHODS, help="how to sign in (default: what the other options imply)")
    parser.add_argument("--provider", choices=tuple(PROVIDERS), help="whose account, of method social")
    parser.add_argument("--start-url", metavar="URL", help="your organisation's access portal, of method idc")
    parser.add_argument("--region", help=f"region of the sign-in (default: kiro.auth_region, else {REGION})")
    parser.add_argument("--auth-endpoint", metavar="URL", help="base URL of the sign-in service")
    parser.add_argument("--file", type=Path, metavar="PATH", help="where the token goes (default: see the manual)")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.add_argument("--json", action="store_true", help="for programs: one JSON object a line; opens no browser")


def run(
    arguments: argparse.Namespace, environ: Mapping[str, str], open_page: Callable[[str], object] = webbrowser.open
) -> int:
    """Sign in; 0 when the token is in its file."""
    screen: SignInScreen = (
        JsonScreen(printer_on(sys.stdout, environ))
        if arguments.json
        else TextScreen.on(sys.stdout, sys.stderr, environ)
    )
    browser = None if arguments.no_browser or arguments.json or not _has_display(environ) else open_page
    try:
        settings = Settings.from_env(environ)
        path = (arguments.file or default_file(environ)).absolute()
        _check_place(path)
        with _redacting_errors(secrets_in(settings)):
            anyio.run(partial(_login, _plan(arguments, settings), settings, path, screen, browser))
    except KeyboardInterrupt:
        screen.failed("the sign-in was interrupted; nothing was written", "sign_in.interrupted")
        return INTERRUPTED
    except KiroAsgiError as error:
        screen.failed(error.message, error.code)
        return 1
    return 0


@contextmanager
def _redacting_errors(secrets: Iterable[str]) -> Iterator[None]:
    """Take *secrets* out of the messages of errors."""
    try:
        yield
    except KiroAsgiError as error:
        error.message = Redactor.of(secrets).hide(error.message)
        raise


def default_file(environ: Mapping[str, str]) -> Path:
    """``credentials.json`` in the user's configuration folder, by the XDG rules."""
    base = Path(environ.get("XDG_CONFIG_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".config") / "kiro-asgi" / "credentials.json"


def _plan(arguments: argparse.Namespace, settings: Settings) -> SigningIn:
    method = arguments.method or ("social" if arguments.provider else "idc" if arguments.start_url else "builder-id")
    problems = {
        "--start-url is needed: your organisation's access portal": method == "idc" and not arguments.start_url,
        "--provider is needed: google or github": method == "social" and not arguments.provider,
        f"--start-url does not go with method {method}": method != "idc" and arguments.start_url,
        f"--provider does not go with method {method}": method != "social" and arguments.provider,
    }
    endpoint = arguments.auth_endpoint or settings.kiro.auth_endpoint
    region = arguments.region or settings.kiro.auth_region or REGION
    problems["--auth-endpoint must be a URL"] = endpoint and not re.fullmatch(r"https?://[!-~]+", endpoint)
    problems[f"{region!r} is not the name of a region"] = not hosts.REGION.fullmatch(region)
    if found := [problem for problem, there in problems.items() if there]:
        raise ConfigError("; ".join(found), code="sign_in.options")
    return SigningIn(
        region=region,
        base=endpoint.rstrip("/"),
        provider=PROVIDERS.get(arguments.provider, ""),
        start_url=arguments.start_url or BUILDER_ID,
    )


async def _login(
    plan: SigningIn, settings: Settings, path: Path, screen: SignInScreen, browser: Callable[[str], object] | None
) -> None:
    transport = new_transport(settings, settings.kiro.proxy)
    try:
        token, provider = await plan.run(transport, screen, browser, time)
        # A sign-in service of another address issues tokens that are nothing to the public service.
        if settings.kiro.endpoint or settings.kiro.management_endpoint or not plan.base:
            token = await _with_profile(token, settings, transport)
    finally:
        await transport.aclose()
    try:
        async with locked(path, LOCK_PATIENCE):  # a gateway that is renewing the old token would write over the new one
            write_private(path, render_token(token, provider))
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}", code="sign_in.file") from error
    screen.done(path, plan.base)


async def _with_profile(token: Token, settings: Settings, transport: Transport) -> Token:
    """*token* with the account's profile, where it came without one and the service lists one in time."""
    vendor = KiroVendor(settings.kiro)
    with anyio.move_on_after(PATIENCE):
        for request in vendor.profile_requests(vendor.credential(token, "the sign-in")):
            with suppress(KiroAsgiError):
                answer = await fetch_whole(transport, request, patience=PATIENCE)
                arn = vendor.profile([answer.body]) if answer.status == HTTPStatus.OK else ""
                if arn:
                    return evolve(token, profile_arn=arn)
    return token


def _check_place(path: Path) -> None:
    """Check, before the user signs in, that the file may be written, and is not another program's.

    Raises:
        ConfigError: It may not.
    """
    try:
        parse_token(read_private(path), lambda _: None, 0)
    except TokenUnreadable as error:
        raise ConfigError(f"{path} exists and is left as it is: {error.message}", code="sign_in.file") from None
    except FileNotFoundError:
        folder = next(parent for parent in path.parents if parent.exists())
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ConfigError(f"cannot write {path}: no permission in {folder}", code="sign_in.file") from None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}", code="sign_in.file") from None
    if path.is_symlink():
        raise ConfigError(f"{path} is a symbolic link, which is not replaced", code="sign_in.file")


def _has_display(environ: Mapping[str, str]) -> bool:
    """Whether a browser can have a window; where it cannot, Python would start one inside this terminal."""
    return sys.platform in ("win32", "darwin") or any(map(environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")))
