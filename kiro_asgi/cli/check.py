"""Check the settings, and show those in effect; secrets are masked.

The exit status is 1 when the gateway would refuse to start.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from attrs import asdict, frozen

from kiro_asgi.asgi.door.readiness import problems_of
from kiro_asgi.cli.serve import add_config
from kiro_asgi.cli.terminal import Printer, Tone, print_problem, printer_on
from kiro_asgi.config import Settings, describe, read_environment
from kiro_asgi.config.tree import assembled

DEFAULT: Final = "default"
"""The source of a setting that is not set."""


@frozen
class Report:
    """Problems, warnings and settings that were found."""

    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    settings: tuple[Mapping[str, str], ...] = ()
    """``path``, ``value``, ``source`` and ``env`` of each; none where they could not be read."""

    simulated: bool = False
    """Whether no service would be asked."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--json", action="store_true", help="for programs: one JSON object on standard output")
    parser.add_argument("--all", action="store_true", help="also the settings that have their defaults")
    add_config(parser)


def run(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Print the report."""
    report = examine(environ)
    if arguments.json:
        found = {"ok": not report.problems, **asdict(report)}
        printer_on(sys.stdout, environ).json(json.dumps(found, indent=2))
    else:
        for problem in report.problems:
            print_problem(printer_on(sys.stderr, environ), "problem: ", problem)
        for warning in report.warnings:
            printer_on(sys.stderr, environ).line(("warning: ", Tone.WARNING), warning, hang=4)
        _print(report, printer_on(sys.stdout, environ), () if arguments.all else (DEFAULT,))
    return 1 if report.problems else 0


def examine(environ: Mapping[str, str]) -> Report:
    """Read the settings as the gateway does, and build its parts as far as that needs no network."""
    reading = read_environment(Settings, environ)
    problems = problems_of(reading)
    if reading.problems:
        return Report(problems, reading.warnings)
    settings = assembled(reading)
    rows = tuple(
        {"path": row.path, "value": row.value, "source": reading.sources.get(row.path, DEFAULT), "env": row.env}
        for row in describe(settings)
    )
    return Report(problems, reading.warnings, rows, settings.simulate)


def _print(report: Report, output: Printer, hidden: Collection[str]) -> None:
    """Print the settings, without those whose source is *hidden*, and whether the gateway would start."""
    shown = [row for row in report.settings if row["source"] not in hidden]
    _print_settings(output, shown)
    if left := len(report.settings) - len(shown):
        output.line(f"{left} settings have their defaults; --all shows them.")
    if report.simulated:
        output.line(("Simulated: no service would be asked, and all answers would be made up.", Tone.WARNING))
    if not report.problems:
        output.line(("The gateway would start with these settings.", Tone.GOOD))
    else:
        output.line((f"The gateway would not start: {_count(report.problems)}, see above.", Tone.BAD))


def _count(problems: Sequence[str]) -> str:
    return "1 problem" if len(problems) == 1 else f"{len(problems)} problems"


def _print_settings(output: Printer, rows: Sequence[Mapping[str, str]]) -> None:
    paths, values = (max((len(row[key]) for row in rows), default=0) for key in ("path", "value"))
    for row in rows:
        tone = Tone.ASIDE if row["source"] == DEFAULT else Tone.NAME
        value, source = f"{row['value']:{min(values, 40)}}", row["source"]
        output.line((f"{row['path']:{paths}}", tone), f"  {value}  ", (source, Tone.ASIDE), hang=4)
