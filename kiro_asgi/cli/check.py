"""Check the settings and show what they come to; secrets are masked.

The exit status is 1 when the gateway would refuse to start.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping

from attrs import frozen

from kiro_asgi.asgi.readiness import problems_of
from kiro_asgi.cli.serve import add_config
from kiro_asgi.config import Settings, describe, read_environment
from kiro_asgi.config.reading import CONFIG_VARIABLE
from kiro_asgi.config.tree import assembled

__all__ = ["Report", "add_arguments", "examine", "run"]


@frozen
class Report:
    """What was found."""

    problems: tuple[str, ...]
    settings: tuple[Mapping[str, str], ...] = ()
    """``path``, ``value``, ``source`` and ``env`` of each; none where they could not be read."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--json", action="store_true", help="for programs: one JSON object on standard output")
    add_config(parser)


def run(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Print the report."""
    if arguments.config:
        environ = {**environ, CONFIG_VARIABLE: arguments.config}
    report = examine(environ)
    if arguments.json:
        print(
            json.dumps({"ok": not report.problems, "problems": report.problems, "settings": report.settings}, indent=2)
        )
    else:
        _print(report)
    return 1 if report.problems else 0


def examine(environ: Mapping[str, str]) -> Report:
    """Read the settings as the gateway does, and make what it is made of as far as that goes without a network."""
    reading = read_environment(Settings, environ)
    problems = problems_of(reading)
    if reading.problems:
        return Report(problems)
    rows = tuple(
        {"path": row.path, "value": row.value, "source": reading.sources.get(row.path, "default"), "env": row.env}
        for row in describe(assembled(reading))
    )
    return Report(problems, rows)


def _print(report: Report) -> None:
    if report.settings:
        paths, values = (max(len(row[key]) for row in report.settings) for key in ("path", "value"))
        for row in report.settings:
            print(f"{row['path']:{paths}}  {row['value']:{min(values, 40)}}  {row['source']}".rstrip())
    for problem in report.problems:
        print(f"problem: {problem}", file=sys.stderr)
    if not report.problems:
        print("\nThe gateway would start with these settings.")
