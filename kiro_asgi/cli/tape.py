"""Check, mask or trim a tape, or make a curl command or an HTTP archive of it.

``check`` has the status 1 where the tape holds what looks like a secret, or where a replay gives something else.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from kiro_asgi.cli.terminal import Printer, Tone, printer_on
from kiro_asgi.redaction import Redactor
from kiro_asgi.replay import derive
from kiro_asgi.replay.run import settings_on
from kiro_asgi.replay.trimming import replayed, trim
from kiro_asgi.tapes import Tape, TapeError, load_tape
from kiro_asgi.tapes.exports import as_curl, as_har
from kiro_asgi.tapes.masking import Protection, cover_shapes
from kiro_asgi.tapes.recorder import protected


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("action", choices=tuple(_ACTIONS), help="check, mask, trim, curl or har")
    parser.add_argument("tape", type=Path, metavar="TAPE", help="a file, see tapes.path; .gz is read, too")


def run(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Do the action, and print its result."""
    return _ACTIONS[arguments.action](load_tape(arguments.tape), printer_on(sys.stdout, environ))


def _check(tape: Tape, printer: Printer) -> int:
    problems = [*_problems(tape)]
    plans = ", ".join(f"{line.text('upstream')}/{line.text('model')}" for line in tape.of("plan"))
    outcome = (
        "no end: it is still being written, or its process ended" if tape.end is None else tape.end.text("outcome")
    )
    printer.line((f"{tape.head.text('id')}  {tape.head.text('content')}  {plans}  {outcome}", Tone.NAME))
    for problem in problems or ["nothing looks like a secret, and a replay gives the same"]:
        printer.line((problem, Tone.TEXT))
    return int(bool(problems))


def _problems(tape: Tape) -> Iterator[str]:
    for number, line in enumerate(tape.lines, 1):
        written = line.write()
        if cover_shapes(written) != written or cover_shapes(line.data) != line.data:
            yield f"line {number} ({line.kind}) holds what looks like a secret"
    yield from (f"it names {path}, which a replay does not take" for path in settings_on(tape).left_out)
    try:
        replay = derive(tape)
    except TapeError as error:
        yield error.message
    else:
        if (difference := replay.difference) is not None:
            yield f"a replay sends the client something else from byte {difference.offset} on"
        elif not replay.is_same:
            yield f"a replay sends the client the status {replay.status}, and it got {tape.status}"


def _mask(tape: Tape, printer: Printer) -> int:
    masked = protected(tape, Protection(Redactor.of(()), is_masking=True))
    # What the client got stays evidence: it is made anew only where a replay gives the same.
    made = replayed(masked) if not tape.cut and derive(tape).is_same else masked
    printer.json(made.write().decode().removesuffix("\n"))
    return 0


def _trim(tape: Tape, printer: Printer) -> int:
    printer.json(trim(tape).write().decode().removesuffix("\n"))
    return 0


def _curl(tape: Tape, printer: Printer) -> int:
    printer.text(as_curl(tape))
    return 0


def _har(tape: Tape, printer: Printer) -> int:
    printer.json(json.dumps(as_har(tape), indent=1))
    return 0


_ACTIONS: Final[Mapping[str, Callable[[Tape, Printer], int]]] = {
    "check": _check,
    "mask": _mask,
    "trim": _trim,
    "curl": _curl,
    "har": _har,
}
