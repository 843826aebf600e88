"""Make a key for a client, and the lines of settings by which the gateway knows it.

The key is printed once and kept nowhere; the settings hold its hash.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from secrets import token_urlsafe
from typing import Final

from kiro_asgi.cli.terminal import Tone, printer_on
from kiro_asgi.quota.settings import hash_of
from kiro_asgi.setting import UPSTREAM

_BYTES: Final = 32
"""Random bytes in a key."""

_PREFIX: Final = "ka_"
"""Prefix by which a published key can be found."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare ``new NAME``."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    new = actions.add_parser("new", help="make a key")
    new.add_argument("name", type=_name, metavar="NAME", help="of the client, in small letters")


def _name(text: str) -> str:
    if not UPSTREAM.fits(text):
        raise argparse.ArgumentTypeError(f"must be {UPSTREAM.words}")
    return text


def run(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Print a new key, and what to set."""
    name, key = arguments.name, _PREFIX + token_urlsafe(_BYTES)
    hashed = hash_of(key.encode())
    printer = printer_on(sys.stdout, environ)
    for label, words in (
        ("Key, shown only now", key),
        ("In the TOML file", f"[keys.{name}]"),
        ("", f'hash = "{hashed}"'),
        ("Or in the environment", f"KIRO_ASGI__KEYS__{name.upper()}__HASH={hashed}"),
    ):
        printer.line((f"{label + ':' if label else '':<24}", Tone.NAME), words)
    return 0
