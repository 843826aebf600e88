"""Fuzz by atheris, guided by what code an input reaches: ``python -m tests.fuzz [TARGET …] --seconds 3600``.

Each target gets its share of the time, in a process of its own.  What is found does not end it: of each failure the
shortest input is written to the folder of findings, and told at the end.  An input that takes longer than ``--alarm``
seconds ends its target; that is to be looked at, since a machine may be slow.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

from attrs import define, field

from tests import certificates
from tests.fuzz import corpus

LONGEST: Final = 600
"""Bytes of an input; it says what to repeat, so that what it stands for can be much longer."""

MEMORY: Final = 3000
"""MiB."""

SEEDS: Final = 24
"""Inputs to begin with besides the corpus: any bytes are a program."""

ROOM: Final = 14_000
"""Bytes of the file of one target in the corpus."""


@define
class Findings:
    """Where failures go, the shortest input of each kind."""

    folder: Path
    _known: dict[str, int] = field(factory=dict)

    def add(self, target: str, data: bytes, error: BaseException) -> None:
        """Write *data* down, unless a shorter input led to the same."""
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{target}-{type(error).__name__}-{Path(last.filename).stem}-{last.lineno}"
        if self._known.setdefault(place, LONGEST + 1) <= len(data):
            return
        self._known[place] = len(data)
        told = "".join(traceback.format_exception(error))
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f"{place}.txt").write_text(f"{data.hex()}\n\n{told}")


def _fuzz(target: str, findings: Findings, arguments: list[str]) -> None:
    """Fuzz in this process; does not return."""
    import atheris

    with atheris.instrument_imports(include=["kiro_asgi"]):
        from tests.fuzz.targets import TARGETS
    logging.disable()
    certificates.read_once(setattr)
    check = TARGETS[target].check

    def one(data: bytes) -> None:
        try:
            check(data)
        except Exception as error:  # noqa: BLE001 - whatever escapes is a finding, and the search goes on
            findings.add(target, data, error)

    atheris.Setup([sys.argv[0], *arguments], one)
    atheris.Fuzz()


def _run(target: str, seconds: int, alarm: int, folder: Path, *, keep: bool) -> str:
    """Fuzz in another process; what libFuzzer says at its end."""
    with TemporaryDirectory() as room:
        grown, kept = Path(room, "grown"), Path(room, "kept")
        grown.mkdir()
        kept.mkdir()
        for number, data in enumerate(corpus.inputs(target)):
            (kept / str(number)).write_bytes(data)
        for number in range(SEEDS):
            (kept / f"seed{number}").write_bytes(Random(number).randbytes(LONGEST >> number % 6))
        folder.mkdir(parents=True, exist_ok=True)
        told = _output(
            [
                *(sys.executable, "-m", "tests.fuzz", "--only", target, "--findings", str(folder)),
                *("-len_control=0", f"-timeout={alarm}", f"-rss_limit_mb={MEMORY}", f"-max_len={LONGEST}"),
                *(f"-artifact_prefix={folder}/{target}-alarm-", f"-max_total_time={seconds}", "-report_slow_units=99"),
                *(str(grown), str(kept)),
            ]
        )
        if keep:
            corpus.add(target, (path.read_bytes() for path in grown.iterdir()), ROOM)
    return next((line for line in reversed(told.splitlines()) if " cov: " in line or "ALARM" in line), told[-500:])


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    return done.stdout + done.stderr


def main() -> int:
    """Fuzz; 0 where nothing was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="what to fuzz (default: all)")
    parser.add_argument("--seconds", type=int, default=3600, help="for all together (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="processes at once (default: %(default)s)")
    parser.add_argument("--alarm", type=int, default=20, help="for one input (default: %(default)s)")
    parser.add_argument("--findings", type=Path, default=Path("build/fuzz"), metavar="FOLDER")
    parser.add_argument("--keep", action="store_true", help="add what reaches new code to the corpus in the tree")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    asked, rest = parser.parse_known_args()
    if asked.only:
        _fuzz(asked.only, Findings(asked.findings), [*rest, *asked.targets])  # options, and folders of inputs
    from tests.fuzz.targets import TARGETS

    names: list[Any] = [name for name in TARGETS if not asked.targets or name in asked.targets]
    share = max(1, asked.seconds * asked.jobs // len(names))
    before = {*asked.findings.glob("*")}
    with ThreadPoolExecutor(asked.jobs) as pool:
        run = partial(_run, seconds=share, alarm=asked.alarm, folder=asked.findings, keep=asked.keep)
        for name, told in zip(names, pool.map(run, names), strict=True):
            print(f"{name:<18} {share} s  {told}", flush=True)
    found = sorted({*asked.findings.glob("*")} - before)
    print(*(f"found: {path}" for path in found), sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
