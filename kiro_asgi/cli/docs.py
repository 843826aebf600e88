"""Print a page of the reference, made from the gateway's own tables: markers, settings, errors.

It is for whoever has only the installed package.

Without a name: the pages that there are.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from attrs import frozen

from kiro_asgi.cli.terminal import Tone, print_problem, printer_on
from kiro_asgi.config import describe
from kiro_asgi.inspector.sentences import CODES, ERRORS

Entry = tuple[str, str]
"""A name, and what is to be known of it."""


@frozen
class Page:
    """One page."""

    summary: str
    entries: Callable[[], Iterable[Entry]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("page", nargs="?", metavar="PAGE", help=f"one of {', '.join(PAGES)}")


def run(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Print the page, or the names of all."""
    output, name = printer_on(sys.stdout, environ), arguments.page
    if name is None:
        for each, page in PAGES.items():
            output.line((f"{each:10}", Tone.NAME), page.summary, hang=10)
        return 0
    if name not in PAGES:
        words = f"there is no page {name!r:.60}; there are: {', '.join(PAGES)}"
        print_problem(printer_on(sys.stderr, environ), "problem: ", words)
        return 1
    output.line((PAGES[name].summary, Tone.TITLE))
    for heading, words in PAGES[name].entries():
        output.line()
        output.line((heading, Tone.NAME))
        output.line("    ", _plain(words), hang=4)
    return 0


def _markers() -> Iterable[Entry]:
    from kiro_asgi import simulator  # 5 MiB that other pages do not need

    for name, entry in simulator.MARKERS.items():
        parameter = f" The parameter is {entry.parameter}." if entry.parameter else ""
        yield f"sim:{name}{'=…' * bool(entry.parameter)}", f"{entry.kind}: {entry.shows}.{parameter}"


def _settings() -> Iterable[Entry]:
    for row in describe():
        kind = " | ".join(row.choices) or row.type
        yield f"{row.path}  ({kind}, default: {row.default or 'empty'})", f"{row.doc} [{row.env}]"


def _errors() -> Iterable[Entry]:
    yield from ((kind.__name__, f"{said.cause} {said.advice}") for kind, said in ERRORS.items())
    yield from ((f"code {code}", f"{said.cause} {said.advice}") for code, said in CODES.items())


def _plain(text: str) -> str:
    """*text* without the marks of literals in reStructuredText."""
    return text.replace("``", "")


PAGES: Final[Mapping[str, Page]] = MappingProxyType(
    {
        "markers": Page("Words in a question that choose what a simulated service does.", _markers),
        "settings": Page("All settings, with their variables.", _settings),
        "errors": Page("Errors, their causes, and what to do.", _errors),
    }
)
"""By name."""
