"""Sign-in: which options there are, what they come to, and where the token goes; as `kiro_asgi.cli.login` runs it."""

from __future__ import annotations

import argparse
import os
import re
import sys
import webbrowser
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import time
from typing import Final

import anyio

from kiro_asgi.asgi.providers import new_transport
from kiro_asgi.asgi.secrets import secrets_in
from kiro_asgi.config import Settings
from kiro_asgi.errors import ConfigError, KiroAsgiError
from kiro_asgi.net.files import locked, read_private, write_private
from kiro_asgi.redaction import Redactor
from kiro_asgi.upstreams.kiro import auth
from kiro_asgi.upstreams.kiro.cli.sign_in_screen import JsonScreen, Screen, TextScreen
from kiro_asgi.upstreams.kiro.cli.signing_in import SigningIn
from kiro_asgi.upstreams.kiro.signin import BUILDER_ID, PROVIDERS
from kiro_asgi.upstreams.kiro.tokens import TokenUnreadable, parse_token, render_token

__all__ = ["add_arguments", "default_file", "run"]

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
    screen: Screen = JsonScreen() if arguments.json else TextScreen.on(sys.stdout, sys.stderr, environ)
    browser = None if arguments.no_browser or arguments.json or not _has_display(environ) else open_page
    try:
        settings = Settings.from_env(environ)
        path = (arguments.file or default_file(environ)).absolute()
        _check_place(path)
        with _telling_no(secrets_in(settings)):
            anyio.run(partial(_login, _plan(arguments, settings), settings, path, screen, browser))
    except KeyboardInterrupt:
        screen.failed("the sign-in was broken off; nothing was written", "sign_in.interrupted")
        return INTERRUPTED
    except KiroAsgiError as error:
        screen.failed(error.message, error.code)
        return 1
    return 0


@contextmanager
def _telling_no(secrets: Iterable[str]) -> Iterator[None]:
    """Take *secrets* out of what an error says."""
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
    problems[f"{region!r} is not the name of a region"] = not auth.REGION.fullmatch(region)
    if found := [problem for problem, there in problems.items() if there]:
        raise ConfigError("; ".join(found), code="sign_in.options")
    return SigningIn(
        region=region,
        base=endpoint.rstrip("/"),
        provider=PROVIDERS.get(arguments.provider, ""),
        start_url=arguments.start_url or BUILDER_ID,
    )


async def _login(
    plan: SigningIn, settings: Settings, path: Path, screen: Screen, browser: Callable[[str], object] | None
) -> None:
    transport = new_transport(settings, settings.kiro.proxy)
    try:
        token, provider = await plan.run(transport, screen, browser, time)
    finally:
        await transport.aclose()
    try:
        async with locked(path, LOCK_PATIENCE):  # a gateway that is renewing the old token would write over the new one
            write_private(path, render_token(token, provider))
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}", code="sign_in.file") from error
    screen.done(path, plan.base)


def _check_place(path: Path) -> None:
    """See, before anybody signs in, that the file may be written, and is not somebody else's.

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
