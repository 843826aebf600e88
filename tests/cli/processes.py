"""The command as a user runs it: a process of its own, in a folder and an environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Queue

from attrs import define, field

PREFIX = (sys.executable, "-W", "error", "-m", "kiro_asgi")


def clean_environment(**extra: str) -> dict[str, str]:
    """Ours without any setting of the gateway."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KIRO_", "PYTHONWARNINGS"))}
    return {**kept, "PYTHONUNBUFFERED": "1", **extra}


def command(*arguments: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run ``kiro-asgi`` to its end."""
    return subprocess.run(
        [*PREFIX, *arguments],
        cwd=cwd,
        env=clean_environment(**environ),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@define
class Serving:
    """A running ``kiro-asgi serve``."""

    process: subprocess.Popen[str]
    announced: list[str] = field(factory=list)

    @property
    def base(self) -> str:
        """What Anthropic clients are told to use."""
        (line,) = (line for line in self.announced if line.startswith("Anthropic base_url:"))
        return line.split()[-1]

    def stop(self) -> str:
        """End it as a supervisor does; what it wrote to standard error."""
        self.process.terminate()
        return self.finish()

    def finish(self) -> str:
        """Wait for its end."""
        _, errors = self.process.communicate(timeout=30)
        return errors


@contextmanager
def serving(
    *arguments: str, cwd: Path, lines: int = 4, within: Sequence[str] = (), **environ: str
) -> Iterator[Serving]:
    """Run ``kiro-asgi serve`` on a free port until the end of the block; entered when it accepts connections.

    *within* is a command that becomes the one that its arguments are, e.g. in a namespace of its own.
    """
    process = subprocess.Popen(
        [*within, *PREFIX, "serve", "--port", "0", *arguments],
        cwd=cwd,
        env=clean_environment(**environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Serving(process, _read_lines(process, lines))
    finally:
        process.kill()
        process.communicate()


def _read_lines(process: subprocess.Popen[str], count: int) -> list[str]:
    found: Queue[str] = Queue()
    assert process.stdout is not None
    stream = process.stdout

    def read() -> None:
        for _ in range(count):
            found.put(stream.readline().rstrip("\n"))

    threading.Thread(target=read, daemon=True).start()
    lines = [found.get(timeout=20) for _ in range(count)]
    assert all(lines), process.communicate()[1]
    return lines


def sse_names(lines: Sequence[str]) -> list[str]:
    """Names of the server-sent events in the output of ``demo``."""
    return [line.split()[0] for line in lines if line.startswith("  ") and not line.startswith("  =")]
