"""Show the known services, and the settings that each of them stands for.

With a name: the table of settings that has the same effect, to be copied and changed for a service that is not known.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kiro_asgi.cli.terminal import Printer, Tone, print_problem, printer_on
from kiro_asgi.config import Settings
from kiro_asgi.config.leaves import families
from kiro_asgi.config.services import all_services
from kiro_asgi.upstreams.services import KnownService

FAMILY: Final = next(
    (name, kind.known_services) for name, kind in families(Settings).items() if hasattr(kind, "known_services")
)
"""The family of tables that may name a known service, and those that come with the gateway."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("name", nargs="?", help="show the settings of this one as TOML")
    parser.add_argument("--json", action="store_true", help="for programs: one JSON object on standard output")


def run(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Print them."""
    output = printer_on(sys.stdout, environ)
    found = known_services()
    if arguments.name is not None:
        found = {name: row for name, row in found.items() if name == arguments.name}
        if not found:
            words = f"no service is known as {arguments.name!r:.60}: kiro-asgi services lists those that are"
            print_problem(printer_on(sys.stderr, environ), "problem: ", words)
            return 1
    if arguments.json:
        output.json(json.dumps([_as_json(row) for row in found.values()], indent=2))
    elif arguments.name is not None:
        for line in toml_of(found[arguments.name]):
            output.line(line)
    else:
        _print(found.values(), output)
    return 0


def known_services() -> dict[str, KnownService]:
    """All of them, by name: those that come with the gateway, then those of installed packages."""
    return {row.name: row for row in all_services(FAMILY[1])}


def toml_of(row: KnownService) -> Iterable[str]:
    """The lines of settings for which the name of a service stands."""
    yield f"# {row.title}, as of {row.dated}: {row.source}"
    yield f"[{FAMILY[0]}.{row.name}]"
    for name, value in row.settings.items():
        yield f"{name} = {written(value)}"


def written(value: Any) -> str:
    """*value* of a setting in TOML, whose texts, lists, numbers and truths are written as those of JSON."""
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def _as_json(row: KnownService) -> dict[str, Any]:
    settings = dict(row.settings)
    return {"name": row.name, "title": row.title, "settings": settings, "source": row.source, "dated": row.dated}


def _print(rows: Iterable[KnownService], output: Printer) -> None:
    rows = tuple(rows)
    names, titles = max(len(row.name) for row in rows), max(len(row.title) for row in rows)
    for row in rows:
        place = row.settings.get("endpoint", "set endpoint")
        output.line((f"{row.name:{names}}", Tone.NAME), f"  {row.title:{titles}}  ", (place, Tone.ASIDE), hang=4)
    output.line(f'Use one as service = "…" in a table [{FAMILY[0]}.NAME]; kiro-asgi services NAME shows its settings.')
