"""Show usage by day, client, upstream and model, from the ledger that gateways with state.usage keep.

Tokens that a service reported and those that were estimated have columns of their own.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from kiro_asgi.asgi.kept.usage import new_ledger
from kiro_asgi.cli.lasting import as_served, state_file, state_folder
from kiro_asgi.cli.serve import add_config
from kiro_asgi.cli.terminal import Printer, Tone, printer_on
from kiro_asgi.config import Settings
from kiro_asgi.errors import ConfigError, StoreUnavailable
from kiro_asgi.quota.base import UsageRow
from kiro_asgi.quota.ledger import AMOUNTS, KEPT_DAYS, PARTS, Total, as_csv, read_day, totals
from kiro_asgi.state.pending import WRITE_EVERY
from kiro_asgi.visible import visible

_DAYS: Final = 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--by", type=_parts, default=("day", "key", "upstream", "model"), metavar="PARTS", help=f"of {','.join(PARTS)}"
    )
    parser.add_argument("--since", type=_day, metavar="DAY", help=f"e.g. 2026-11-01 (default: {_DAYS} days)")
    parser.add_argument("--until", type=_day, metavar="DAY", help="included (default: today)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="a list of objects")
    form.add_argument("--csv", action="store_true", help="for spreadsheets")
    add_config(parser)


def _parts(text: str) -> tuple[str, ...]:
    parts = tuple(text.split(","))
    if not PARTS.keys() >= {*parts} or len({*parts}) < len(parts):
        raise argparse.ArgumentTypeError(f"must be some of {', '.join(PARTS)}, with commas between them")
    return parts


def _day(text: str) -> date:
    try:
        return read_day(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Print the sums."""
    settings = Settings.from_env(environ)
    settings = _with_ledger(settings, environ)
    last = arguments.until or datetime.now(ZoneInfo(settings.quotas.timezone)).date()
    first = max(arguments.since or last - timedelta(days=_DAYS - 1), last - timedelta(days=KEPT_DAYS - 1))
    lines = totals(_rows(settings, first, last), arguments.by)
    printer = printer_on(sys.stdout, environ)
    if not lines:
        printer_on(sys.stderr, environ).line(_no_usage(settings, first, last))
    if arguments.json:
        printer.json(json.dumps([line.named(arguments.by) for line in lines], indent=2))
    elif arguments.csv:
        printer.text(as_csv(lines, arguments.by).removesuffix("\n"))
    elif lines:
        _print(arguments.by, lines, printer)
    return 0


def _no_usage(settings: Settings, first: date, last: date) -> str:
    """Why there may be no rows for those days."""
    words = f"No usage was written for {first} to {last}"
    if not settings.state.usage:
        return f"{words}: state.usage is off in these settings, and a gateway with them keeps none."
    return f"{words}. A gateway writes the usage of an answer up to {WRITE_EVERY:g} seconds after its end."


def _with_ledger(settings: Settings, environ: Mapping[str, str]) -> Settings:
    """*settings* with the place where a gateway with them keeps usage.

    Raises:
        ConfigError: There is none.
    """
    if settings.simulate or settings.state.engine == "memory":
        cause = "simulate" if settings.simulate else "state.engine"
        raise ConfigError(
            f"{cause}: such a gateway keeps usage in its own memory, where its inspector alone can show it", code=cause
        )
    served = as_served(settings, environ)
    if served.state.engine == "auto":
        path = state_file(settings, state_folder(environ))
        raise ConfigError(
            f"state.usage: nothing was written yet: there is no file {path}; kiro-asgi serve makes it, and writes "
            f"usage there where state.usage is set, up to {WRITE_EVERY:g} seconds after an answer. To read the file of "
            "another gateway, name it in state.path",
            code="state.path",
        )
    return served


def _rows(settings: Settings, first: date, last: date) -> Iterable[UsageRow]:
    ledger = new_ledger(settings)
    try:
        return ledger.rows(first.isoformat(), last.isoformat())
    except StoreUnavailable as error:
        raise ConfigError(f"the usage cannot be read: {error.detail}", code=error.code) from error
    finally:
        ledger.close()


def _print(parts: Sequence[str], lines: Sequence[Total], printer: Printer) -> None:
    """Print a table, without columns that are empty."""
    names = [name for name in AMOUNTS if any(line.amounts.get(name) for line in lines)]
    groups = ((*map(visible, line.group), *map(str, line.values(names))) for line in lines)
    table = [(*parts, *names), *groups]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for number, row in enumerate(table):
        texts = (f"{text:<{width}}  " for text, width in zip(row, widths, strict=True))
        printer.line(("".join(texts), Tone.NAME if number == 0 else Tone.TEXT))
