"""The command as a user runs it: a process of its own, in a folder and an environment of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
import tty
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from multiprocessing import get_context
from multiprocessing.context import ForkServerContext
from pathlib import Path
from queue import Queue
from tempfile import TemporaryDirectory

from attrs import define, field

from kiro_asgi.cli import main
from tests.unexpected import look_for_bugs

FOREIGN = ("KIRO_", "PYTHONWARNINGS", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "COLORTERM")
"""Beginnings of variables that would change what the command does."""

PATIENCE = 60.0
"""Seconds that a start may take on a busy machine."""

LAST = "Try it:"
"""Beginning of the last line that ``serve`` announces."""

PREFIX = (sys.executable, "-W", "error", "-m", "kiro_asgi")


def clean_environment(**extra: str) -> dict[str, str]:
    """Ours without any setting of the gateway."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    return {**kept, "PYTHONUNBUFFERED": "1", **extra}


def environment_in(cwd: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The same with *environ*, and with a place for state below *cwd*."""
    return clean_environment(**{"XDG_STATE_HOME": str(cwd / "state"), **environ})


def command(*arguments: str, cwd: Path, output: Path | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run ``kiro-asgi`` to its end, in a process forked from one that has imported it, which takes the most time.

    Its standard output goes to *output* where that is given, e.g. a pipe that somebody reads.
    """
    with TemporaryDirectory() as room:
        files = Path(room, "out"), Path(room, "err")
        files[0].touch()
        outputs = output or files[0], files[1]
        process = _warm().Process(
            target=_command, args=(arguments, cwd, environment_in(cwd, environ), outputs), daemon=True
        )
        process.start()
        process.join(60)
        assert process.exitcode is not None, f"{arguments} does not end"
        return subprocess.CompletedProcess(arguments, process.exitcode, *(file.read_text() for file in files))


def on_a_terminal(
    *arguments: str, cwd: Path, columns: int = 80, interrupt_at: str = "", **environ: str
) -> tuple[int, str]:
    """Run ``kiro-asgi`` to its end with both outputs on one terminal; the status, and what the terminal was sent.

    Once *interrupt_at* is there, it gets the signal of Ctrl-C.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    tty.setraw(theirs)  # line ends arrive as they are sent
    place = Path(os.ttyname(theirs))
    environ = {"TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **environ}
    process = _warm().Process(
        target=_command, args=(arguments, cwd, environment_in(cwd, environ), (place, place)), daemon=True
    )
    seen, found = bytearray(), threading.Event()

    def read() -> None:
        while data := os.read(ours, 65536):
            seen.extend(data)
            if interrupt_at.encode() in seen:
                found.set()
            if seen.endswith(b"\0"):
                return

    reader = threading.Thread(target=read)
    reader.start()
    process.start()
    if interrupt_at:
        assert found.wait(20), seen.decode()
        os.kill(process.pid or 0, signal.SIGINT)
    process.join(60)
    assert process.exitcode is not None, f"{arguments} does not end"
    os.write(theirs, b"\0")
    reader.join()
    os.close(ours)
    os.close(theirs)
    return process.exitcode, seen[:-1].decode()


@cache
def _warm() -> ForkServerContext:
    context = get_context("forkserver")
    context.set_forkserver_preload(["kiro_asgi.cli"])
    return context


def _command(arguments: Sequence[str], cwd: Path, environ: Mapping[str, str], outputs: Sequence[Path]) -> None:
    """What Python does for ``-W error -m kiro_asgi`` in *cwd*."""
    for descriptor, output in enumerate(outputs, start=1):
        os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_NOCTTY), descriptor)
    os.chdir(cwd)
    sys.path.insert(0, str(cwd))
    os.environ.clear()
    os.environ.update(environ)
    warnings.simplefilter("error")
    sys.exit(main(arguments))


@define
class Serving:
    """A running ``kiro-asgi serve``."""

    process: subprocess.Popen[str]
    announced: list[str] = field(factory=list)
    errors: str = ""
    """What it has written to standard error, once it has ended."""

    @property
    def base(self) -> str:
        """What Anthropic clients are told to use."""
        return self.told("Anthropic base_url")

    def told(self, name: str) -> str:
        """What it has announced by this *name*."""
        (line,) = (line for line in self.announced if line.startswith(f"{name}:"))
        return line.partition(":")[2].strip()

    def stop(self) -> str:
        """End it as a supervisor does; what it wrote to standard error."""
        self.process.terminate()
        return self.finish()

    def finish(self) -> str:
        """Wait for its end."""
        self.errors = self.process.communicate(timeout=30)[1] or ""
        return self.errors


@contextmanager
def serving(
    *arguments: str, cwd: Path, within: Sequence[str] = (), stderr: int = subprocess.PIPE, **environ: str
) -> Iterator[Serving]:
    """Run ``kiro-asgi serve`` on a free port until the end of the block; entered when it accepts connections.

    A bug that it has written of fails the test.

    *within* is a command that becomes the one that its arguments are, e.g. in a namespace of its own; *stderr* is where
    it logs, where the test reads that itself.
    """
    process = subprocess.Popen(
        [*within, *PREFIX, "serve", "--port", "0", "--drain-delay", "0", *arguments],
        cwd=cwd,
        env=environment_in(cwd, environ),
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )
    try:
        server = Serving(process, _announced(process))
        yield server
    finally:
        process.kill()
        _, rest = process.communicate()
    look_for_bugs(server.errors or rest or "", "kiro-asgi serve")


def _announced(process: subprocess.Popen[str]) -> list[str]:
    """The lines with which it says that it serves, up to the last one."""
    found: Queue[str] = Queue()
    assert process.stdout is not None
    stream = process.stdout

    def read() -> None:
        line = "…"
        while line and not line.startswith(LAST):
            line = stream.readline().rstrip("\n")
            found.put(line)

    threading.Thread(target=read, daemon=True).start()
    lines = [found.get(timeout=PATIENCE)]
    while not lines[-1].startswith(LAST):
        assert lines[-1], process.communicate()[1]
        lines.append(found.get(timeout=PATIENCE))
    return lines
