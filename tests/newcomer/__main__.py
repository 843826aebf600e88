"""Do what README.md and the tutorial say, in an empty directory each: ``python -m tests.newcomer [PAGE ...]``.

Of all other pages what they install is installed, each in a new environment: the ordinary tests take all other steps.

Prints a table of all commands with their times, and exits with 1 where one fails, where an output is not what the page
says, or where the first answer comes later than `SOON` after the installation began.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from attrs import define, evolve, field, frozen

from tests.installing import wheel
from tests.newcomer.pages import Step, matches, steps_of

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = (ROOT / "README.md", ROOT / "docs" / "index.rst", *sorted((ROOT / "docs").glob("tutorial*.rst")))
OTHERS: Final = tuple(page for page in sorted((ROOT / "docs").rglob("*.rst")) if page not in PAGES)
SOON: Final = 60.0
"""Seconds from the first ``pip install`` to the first answer."""

PATIENCE: Final = 300.0
"""Seconds after which a command is given up."""

SERVERS: Final = ("kiro-asgi serve", "hypercorn ", "uvicorn ", "granian ", "daphne ")
"""Commands that run until they are stopped."""

PORT: Final = 8000
"""Where they listen, by their own defaults."""

ANSWERS: Final = ("curl ", "kiro-asgi demo")
"""Commands that ask for an answer; so does any Python block that prints."""


@frozen
class Done:
    """A step that was taken."""

    step: Step
    seconds: float
    verdict: str
    """``ok``, ``running``, ``not run: …``, or what is wrong."""

    @property
    def good(self) -> bool:
        return self.verdict in ("ok", "running") or self.verdict.startswith("not run")

    @property
    def asks(self) -> bool:
        return self.step.language == "python" or any(word in self.step.code for word in ANSWERS)


@define
class Reader:
    """Somebody with a terminal in an empty directory."""

    folder: Path
    environ: dict[str, str]
    _prelude: list[str] = field(init=False, factory=list)
    """What has changed the state of the shell."""

    _server: subprocess.Popen[str] | None = field(init=False, default=None)

    def take(self, step: Step) -> Done:
        """Do what a step says."""
        if step.not_run:
            return Done(step, 0.0, f"not run: {step.not_run}")
        started = time.monotonic()
        runs_on = step.language == "shell" and any(it in step.code.rpartition("&&")[2] for it in SERVERS)
        verdict = self._start(step) if runs_on else self._run(step)
        return Done(step, time.monotonic() - started, verdict)

    def stop(self) -> None:
        """End the server, if one runs."""
        if self._server is not None:
            os.killpg(self._server.pid, signal.SIGTERM)
            self._server.communicate(timeout=30)
            self._server = None

    def _run(self, step: Step) -> str:
        command = ["sh", "-c", self._typed(step)]
        if step.language == "python":
            command = [".venv/bin/python", "-c", step.code]
        try:
            done = subprocess.run(command, **self._surroundings(), timeout=PATIENCE, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"fails: {error}"
        if step.code.startswith(("export ", "cd ")):
            self._prelude.append(step.code)
        if done.returncode:
            return f"fails with status {done.returncode}: {(done.stderr or done.stdout).strip()[-400:]}"
        if step.output and not matches(step.output, done.stdout):
            return f"prints something else than the page: {done.stdout[:400]}"
        if step.language == "python" and not done.stdout.strip():
            return "prints nothing"
        return "ok"

    def _start(self, step: Step) -> str:
        self.stop()
        if _listens():
            return f"fails: something else listens on port {PORT}"
        self._server = subprocess.Popen(["sh", "-c", self._typed(step)], **self._surroundings(), start_new_session=True)
        deadline = time.monotonic() + PATIENCE
        while not _listens():
            if self._server.poll() is not None or time.monotonic() > deadline:
                _, errors = self._server.communicate(timeout=10)
                self._server = None
                return f"does not run: {errors.strip()[-400:]}"
            time.sleep(0.05)
        return "running"

    def _typed(self, step: Step) -> str:
        # The checkout, which a page may name by a dot, is what will be published; here the wheel stands for it.
        return "\n".join((*self._prelude, step.code.replace("'.[", "'kiro-asgi[")))

    def _surroundings(self) -> dict[str, object]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return {"cwd": self.folder, "env": self.environ, **pipes}


def _listens() -> bool:
    try:
        socket.create_connection(("127.0.0.1", PORT), timeout=1).close()
    except OSError:
        return False
    return True


@contextmanager
def _reader(dist: Path) -> Iterator[Reader]:
    ours = ("KIRO_", "PYTHON", "VIRTUAL_ENV", "TOX_")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), environ["PATH"]))
    environ["PIP_FIND_LINKS"] = f"{environ.get('PIP_FIND_LINKS', '')} {dist}".strip()
    environ["PIP_NO_CACHE_DIR"] = "1"  # a newcomer has none
    with tempfile.TemporaryDirectory() as folder:
        reader = Reader(Path(folder), environ)
        try:
            yield reader
        finally:
            reader.stop()


def follow(page: Path, dist: Path) -> list[Done]:
    """Take the steps of *page* until one fails."""
    done: list[Done] = []
    with _reader(dist) as reader:
        for step in steps_of(page):
            done.append(reader.take(step))
            _print(done[-1])
            if not done[-1].good:
                break
    return done


def installations() -> list[Step]:
    """The steps of other pages that install something, in an environment that they leave to the reader."""
    steps = (step for page in OTHERS for step in steps_of(page) if step.code.startswith("pip install"))
    return [evolve(step, code=f"python3 -m venv .venv && .venv/bin/{step.code}") for step in steps if not step.not_run]


def install(step: Step, dist: Path) -> Done:
    """Take one of them."""
    with _reader(dist) as reader:
        done = reader.take(step)
    _print(done)
    return done


def first_answer(done: Sequence[Done]) -> float | None:
    """Seconds from the first installation to the end of the first answer; ``None`` where there is none."""
    ran = [it for it in done if not it.step.not_run]
    begin = next((at for at, it in enumerate(ran) if "pip install" in it.step.code), None)
    end = next((at for at, it in enumerate(ran) if it.asks and it.good and begin is not None and at > begin), None)
    return None if begin is None or end is None else sum(it.seconds for it in ran[begin : end + 1])


def _print(done: Done) -> None:
    code = " ".join(done.step.code.split())
    code = code if done.step.language == "shell" else f"python: {code}"
    shown = code if len(code) <= 70 else code[:69] + "…"
    print(f"{done.seconds:7.1f} s  {done.step.place:<16} {shown:<70}  {done.verdict}", flush=True)


def main(pages: Sequence[Path]) -> int:
    """Follow *pages*, or all if there is none; the exit status."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # by way of what ends the server
    good, given = True, pages or PAGES
    with tempfile.TemporaryDirectory() as folder:
        dist = wheel(Path(folder))
        for page in given:
            done = follow(page, dist)
            seconds = first_answer(done)
            answer = "no answer" if seconds is None else f"first answer after {seconds:.1f} s, at most {SOON:.0f}"
            print(f"{page.name}: {len(done)} steps, {answer}\n", flush=True)
            good = good and all(it.good for it in done) and seconds is not None and seconds <= SOON
        if not pages:
            installed = [install(step, dist) for step in installations()]
            good = good and all(it.good for it in installed)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main([Path(name) for name in sys.argv[1:]]))
