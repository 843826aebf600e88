"""Processes and what the system counts of them: CPU time and memory of each with all that it started."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

__all__ = ["CORES", "START", "cpu", "memory", "running", "serving", "tree"]

CORES: Final = tuple(sorted(os.sched_getaffinity(0)))
"""What we may run on; gateways have the first, service and client the last."""

START: Final = 180.0
"""Seconds that a process has to start."""

ENDING: Final = 10.0
"""Seconds that a process has to end by itself."""

_CLOCK: Final = 2
"""``CPUCLOCK_SCHED`` of Linux: the time of all threads of a process in ns; ``/proc/PID/stat`` counts hundredths."""


def tree(pid: int) -> list[int]:
    """*pid* and all that it started, as far as they run."""
    found = [pid]
    for each in found:
        with suppress(OSError):
            for task in os.listdir(f"/proc/{each}/task"):
                found.extend(map(int, Path(f"/proc/{each}/task/{task}/children").read_text().split()))
    return found


def cpu(pid: int) -> float:
    """Seconds of CPU time that *pid* and its descendants have used; of those that have ended, nothing."""
    total = 0.0
    for each in tree(pid):
        with suppress(OSError):
            total += time.clock_gettime(~each << 3 | _CLOCK)
    return total


def memory(pid: int) -> float:
    """MiB of *pid* and its descendants; a page that several have is shared out among them."""
    total = 0
    for each in tree(pid):
        with suppress(OSError):
            lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
            total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


@contextmanager
def running(
    command: Sequence[str], folder: Path, environ: Mapping[str, str], core: int
) -> Iterator[subprocess.Popen[bytes]]:
    """Run *command* in *folder* on one core until the end of the block; what it says is in ``log``."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["taskset", "--cpu-list", str(core), *command], cwd=folder, env=environ, stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(ENDING)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def serving(folder: Path) -> Iterator[int]:
    """The port of the service, which runs until the end of the block."""
    command = [sys.executable, "-m", "tests.bench.peers.service"]
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    with running(command, folder, environ, CORES[-1]) as process:
        end = time.monotonic() + START
        while not (said := (folder / "log").read_text()).endswith("\n"):
            assert process.poll() is None and time.monotonic() < end, said
            time.sleep(0.02)
        yield int(said)
