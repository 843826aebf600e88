"""Do the exchange of a tape again, and say whether the client would be sent the same.

Nobody is asked, and nothing waits.  The status is 0 where it is the same, 1 where it differs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from kiro_asgi.cli.replay_page import LANES, page_of
from kiro_asgi.cli.terminal import Printer, Tone, printer_on
from kiro_asgi.replay import Difference, Replay, Step, derive, read_setting
from kiro_asgi.tapes import load_tape

_WIDTH: Final = 100
"""Characters of a value that are shown."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("tape", type=Path, metavar="TAPE", help="a file, see tapes.path")
    parser.add_argument(
        "--stage",
        metavar="NAME",
        help="show each step: bytes (what was read), sse (what was sent), all, or a stage such as FrameDecoder",
    )
    parser.add_argument(
        "--rechunk", default="recorded", metavar="HOW", help="cut the service's bytes: recorded, a number, random:SEED"
    )
    parser.add_argument("--speed", type=float, default=0.0, metavar="X", help="1 as it was, 0 at once (default)")
    parser.add_argument(
        "--set",
        dest="changed",
        type=_setting,
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="change a setting",
    )
    parser.add_argument("--diff", type=Path, metavar="OTHER", help="compare with this tape, done again the same way")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write all of it as a page; it has no scripts")


def _setting(text: str) -> tuple[str, Any]:
    path, equals, value = text.partition("=")
    if not path or not equals:
        raise argparse.ArgumentTypeError("must be written as path=value, e.g. stream.heartbeat=5")
    return path, read_setting(value)


def run(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Print what is the same, and what is not."""
    printer = printer_on(sys.stdout, environ)
    options: dict[str, Any] = {
        "rechunk": arguments.rechunk,
        "speed": max(0.0, arguments.speed),
        "changed": dict(arguments.changed),
    }
    played = derive(load_tape(arguments.tape), **options)
    if arguments.stage:
        for line in _lines(played, arguments.stage.lower()):
            print(line)
    other = None if arguments.diff is None else derive(load_tape(arguments.diff), **options)
    difference = played.difference if other is None else Difference.between(other.sent, played.sent)
    _print_result(printer, played, difference)
    if arguments.html is not None:
        arguments.html.write_text(page_of(played, difference), "utf-8")
    return int(difference is not None)


def _lines(played: Replay, wanted: str) -> Iterator[str]:
    """The steps of one kind, each with the one that led to it."""
    for index, step in enumerate(played.steps):
        names = {"all", {"read": "bytes", "send": "sse"}.get(step.kind, step.stage.lower())}
        if wanted in names:
            yield _line(index, step)
    if played.dropped:
        yield f"and {played.dropped} more steps"


def _line(index: int, step: Step) -> str:
    lane = LANES.get(step.kind, step.stage)
    cause = f"<- {step.cause}" if step.cause >= 0 else ""
    value = repr(step.value)
    return f"{index:>6} {step.t:>10.6f} {lane:<20} {cause:<9} {value if len(value) <= _WIDTH else value[:_WIDTH] + '…'}"


def _print_result(printer: Printer, played: Replay, difference: Difference | None) -> None:
    size, steps = len(played.sent), len(played.steps) + played.dropped
    printer.line((f"HTTP {played.status}, {size} bytes in {steps} steps", Tone.TEXT))
    if played.missing:
        printer.line((f"{played.missing} answers were asked for that are not on the tape", Tone.TEXT))
    if difference is None:
        printer.line(("the client is sent the same, byte for byte", Tone.TEXT))
        return
    for line in difference.explain():
        printer.line((line, Tone.TEXT))
