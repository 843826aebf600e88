"""Make, list, switch off, renew or remove keys of clients.

A key is printed once and kept nowhere; the settings hold its hash.  What changes a key changes its table in the file of
settings; a running gateway takes it over on SIGHUP.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_urlsafe
from types import MappingProxyType
from typing import Any, Final

from attrs import fields

from kiro_asgi.cli.key_tables import KeyFile
from kiro_asgi.cli.serve import add_config
from kiro_asgi.cli.terminal import Printer, Tone, discard_output, printer_on
from kiro_asgi.config import Settings
from kiro_asgi.config.reading import CONFIG_VARIABLE
from kiro_asgi.errors import ConfigError
from kiro_asgi.quota.settings import Allowance, KeySettings, hash_of, standing_of
from kiro_asgi.setting import UPSTREAM

_BYTES: Final = 32
"""Random bytes in a key."""

_PREFIX: Final = "ka_"
"""Prefix by which a published key can be found."""

_LATER: Final = "a gateway that runs takes this over on SIGHUP"

_ACTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "new": "make a key",
        "show": "show what a key may do",
        "disable": "refuse a key, and keep its settings",
        "enable": "take a key that was disabled",
        "rotate": "make another key in the place of one",
        "revoke": "remove a key",
    }
)
"""What is done to one key to its summary."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="list all keys")
    listing.add_argument("--json", action="store_true", help="for programs: a list of objects")
    add_config(listing)
    for action, summary in _ACTIONS.items():
        one = actions.add_parser(action, help=summary)
        one.add_argument("name", type=_name, metavar="NAME", help="of the client, in small letters")
        add_config(one)


def _name(text: str) -> str:
    if not UPSTREAM.fits(text):
        raise argparse.ArgumentTypeError(f"must be {UPSTREAM.words}")
    return text


def run(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Do what was asked for."""
    printer = printer_on(sys.stdout, environ)
    if arguments.action == "new":
        _print_new(arguments.name, printer)
        return 0
    if arguments.action == "list":
        _print_list(Settings.from_env(environ), printer, as_json=arguments.json)
        return 0
    if arguments.action == "show":
        _print_key(Settings.from_env(environ), arguments.name, printer)
        return 0
    file = environ.get(CONFIG_VARIABLE, "")
    if not file:
        raise ConfigError(
            f"keys are changed in a file of settings: name it by --config or {CONFIG_VARIABLE}; one that is set in the "
            "environment is changed there",
            code="keys",
        )
    _CHANGES[arguments.action](KeyFile(Path(file)), arguments.name, printer)
    return 0


def _print_new(name: str, printer: Printer) -> None:
    """Print a new key, and what to set."""
    key, hashed = _new_key()
    for label, words in (
        ("Key, shown only now", key),
        ("In the TOML file", f"[keys.{name}]"),
        ("", f'hash = "{hashed}"'),
        ("Or in the environment", f"KIRO_ASGI__KEYS__{name.upper()}__HASH={hashed}"),
    ):
        _print_pair(printer, label, words)


def _new_key() -> tuple[str, str]:
    """A key, and its hash."""
    key = _PREFIX + token_urlsafe(_BYTES)
    return key, hash_of(key.encode())


def _print_pair(printer: Printer, label: str, words: str) -> None:
    printer.line((f"{label + ':' if label else '':<24}", Tone.NAME), words)


def _disable(file: KeyFile, name: str, printer: Printer) -> None:
    file.set(name, "disabled", True)
    printer.line(f"The key {name} is disabled; {_LATER}.")


def _enable(file: KeyFile, name: str, printer: Printer) -> None:
    file.set(name, "disabled", False)
    printer.line(f"The key {name} is enabled; {_LATER}.")


def _rotate(file: KeyFile, name: str, printer: Printer) -> None:
    key, hashed = _new_key()

    def show() -> None:
        """Show the key before the old one ends: nobody could have it later."""
        try:
            _print_pair(printer, "Key, shown only now", key)
            sys.stdout.flush()
        except OSError as error:
            discard_output()
            raise ConfigError(
                f"the new key cannot be shown ({error.strerror}): nothing is changed, and the old one stays",
                code="keys",
            ) from None

    file.set(name, "hash", hashed, show)
    printer.line(f"It takes the place of the key {name}, which is refused from then on; {_LATER}.")


def _revoke(file: KeyFile, name: str, printer: Printer) -> None:
    file.remove(name)
    printer.line(f"The key {name} is removed; {_LATER}.")


_CHANGES: Final[Mapping[str, Callable[[KeyFile, str, Printer], None]]] = MappingProxyType(
    {"disable": _disable, "enable": _enable, "rotate": _rotate, "revoke": _revoke}
)


def _print_list(settings: Settings, printer: Printer, *, as_json: bool) -> None:
    now = datetime.now(UTC).timestamp()
    rows = [{"name": name, **_facts(key, now)} for name, key in settings.keys.items()]
    if as_json:
        printer.json(json.dumps(rows, indent=2))
        return
    if not rows:
        printer.line("There are no keys with names; kiro-asgi keys new NAME makes one.")
        return
    names = [name for name in rows[0] if any(row[name] for row in rows)]
    table = [names, *([_shown(row[name]) for name in names] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for number, line in enumerate(table):
        texts = (f"{text:<{width}}  " for text, width in zip(line, widths, strict=True))
        printer.line(("".join(texts), Tone.NAME if number == 0 else Tone.TEXT))


def _print_key(settings: Settings, name: str, printer: Printer) -> None:
    key = settings.keys.get(name)
    if key is None:
        there = ", ".join(settings.keys) or "none"
        raise ConfigError(f"there is no key {name}; there are: {there}", code="keys")
    now = datetime.now(UTC).timestamp()
    group = settings.groups.get(key.group)
    limits = [("limit", key), *([] if group is None else [(f"limit of {key.group}", group)])]
    for label, words in (
        *((label, _shown(value)) for label, value in _facts(key, now).items() if value),
        *((label, words) for label, allowance in limits for words in _limits(allowance)),
    ):
        _print_pair(printer, label, words)


def _facts(key: KeySettings, now: float) -> dict[str, Any]:
    return {
        "state": standing_of(key, now),
        "group": key.group,
        "models": list(key.models),
        "upstreams": list(key.upstreams),
        "expires": key.expires,
    }


def _shown(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


def _limits(allowance: Allowance) -> Iterator[str]:
    for it in fields(Allowance):
        if limit := getattr(allowance, it.name):
            yield f"{limit:.15g} {it.name.replace('_', ' ')}"
