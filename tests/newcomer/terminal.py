"""Does what a page says in the ordinary tests: its shell commands in order, with every service simulated.

A command is what it is on the page, but for the port, as other tests run beside it.  ``kiro-asgi``, servers and
``pytest`` are those of this environment.  Steps that install something are left to ``tox -e newcomer``.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from attrs import define, field

from tests.cli.processes import clean_environment
from tests.newcomer.pages import Step, matches

__all__ = ["Terminal", "is_installation", "terminal"]

PATIENCE: Final = 120.0
"""Seconds for a command, or for a server to listen."""

INSTALLATION: Final = re.compile(r"\bpip install\b|-m venv\b")
SERVER: Final = re.compile(r"(?:[A-Z_]+=\S+ )*(?:\S*/)?(kiro-asgi serve|hypercorn|uvicorn)\b")
HEALTH: Final = ("/health", "/llm/health")
"""Where a gateway says that it lives, alone or mounted as on all pages."""

SETTLED: Final = re.compile(r"^(?:export|cd) ", re.MULTILINE)
"""Commands that change the state of the shell."""

ADDRESS: Final = "127.0.0.1:8000"
PORTS: Final[Mapping[str, str]] = {
    "kiro-asgi serve": " --port {port}",
    "hypercorn": " --bind 127.0.0.1:{port}",
    "uvicorn": " --port {port}",
}
"""Server to what has it listen on another port than its own."""


def is_installation(step: Step) -> bool:
    """Whether it needs a package index."""
    return step.language == "shell" and bool(INSTALLATION.search(step.code))


@define
class Terminal:
    """A shell in a folder of its own."""

    folder: Path
    environ: dict[str, str]
    default: str
    """Address of a gateway that runs already, where the page has started none."""

    _settled: list[str] = field(init=False, factory=list)
    _server: subprocess.Popen[bytes] | None = field(init=False, default=None)
    _address: str = field(init=False, default="")

    def take(self, step: Step) -> str:
        """Do what a step says; what is wrong, empty where nothing is."""
        if is_installation(step):
            return ""
        found = SERVER.match(step.code) if step.language == "shell" else None
        return self._run(step) if found is None else self._start(step, found[1])

    def stop(self) -> None:
        """End the server, if one runs."""
        server, self._server, self._address = self._server, None, ""
        if server is not None:
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)
            server.wait()

    def _run(self, step: Step) -> str:
        code = step.code.replace(ADDRESS, self._address or self.default)
        command = [sys.executable, "-"] if step.language == "python" else ["bash", "-e"]
        script = code if step.language == "python" else "\n".join((*self._settled, code))
        done = subprocess.run(
            command, cwd=self.folder, env=self.environ, input=script, capture_output=True, text=True, timeout=PATIENCE
        )
        if SETTLED.match(code):
            self._settled.append(code)
        if done.returncode and not step.output:  # a failure that a page shows is compared like any other output
            return f"ends with status {done.returncode}: {(done.stderr or done.stdout).strip()[-600:]}"
        if step.output and not matches(step.output, done.stdout):
            return f"prints something else than the page:\n{done.stdout[-2000:]}"
        return ""

    def _start(self, step: Step, server: str) -> str:
        self.stop()
        port, metrics = _free_port(), _free_port()
        code = re.sub(r" --port \d+|\s+#.*", "", step.code).replace(" 9464", f" {metrics}")
        code = f"exec env {code}{PORTS[server].format(port=port)}"
        said = self.folder / "server.log"
        with said.open("wb") as output:
            self._server = subprocess.Popen(
                ["bash", "-e", "-c", "\n".join((*self._settled, code))],
                cwd=self.folder,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        (self.folder / "server.pid").write_text(str(self._server.pid))
        self._address = f"127.0.0.1:{port}"
        if not self._soon(lambda: any(_lives(f"http://{self._address}{path}") for path in HEALTH)):
            return f"does not serve: {said.read_text()[-600:]}"
        if step.output and not self._soon(lambda: matches((*step.output, "…"), f"{said.read_text()}end\n")):
            return f"prints something else than the page:\n{said.read_text()[-2000:]}"
        return ""

    def _soon(self, condition: Callable[[], bool]) -> bool:
        """Wait until *condition* holds, and the server lives; whether it came to that."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if self._server is None or self._server.poll() is not None or time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True


@contextmanager
def terminal(folder: Path, gateway: str, service: str) -> Iterator[Terminal]:
    """A terminal in *folder*, where the commands of this environment are, and every service is simulated.

    Args:
        folder: An empty one, whose ``home`` becomes the user's.
        gateway: Address of a gateway that runs already.
        service: URL of a simulated service, for what asks one without the gateway, such as a sign-in.
    """
    commands, home, here = folder / ".venv" / "bin", folder / "home", Path(sys.executable).parent
    home.mkdir(parents=True)
    commands.parent.mkdir()
    commands.symlink_to(here)
    (home / ".curlrc").write_text("fail-with-body\n")  # an answer that is an error is a failure
    tools = folder / "tools"
    tools.mkdir()
    # The server's own process and no other's of this machine; and no page is opened in anybody's browser.
    (tools / "pidof").write_text(f"#!/bin/sh\ncat '{folder}/server.pid'\n")
    (tools / "pidof").chmod(0o755)
    environ = clean_environment(
        PATH=os.pathsep.join((str(tools), str(here), os.environ["PATH"])),
        HOME=str(home),
        XDG_STATE_HOME=str(home / ".local" / "state"),
        BROWSER="true",
        KIRO_ASGI__SIMULATE="true",
        KIRO_ASGI__KIRO__AUTH_ENDPOINT=service,
        DJANGO_SETTINGS_MODULE="django.conf.global_settings",
        GEMINI_API_KEY="AIza-of-nobody",
        ANTHROPIC_API_KEY="sk-ant-of-nobody",
        OPENAI_API_KEY="sk-of-nobody",
    )
    made = Terminal(folder, environ, gateway)
    try:
        yield made
    finally:
        made.stop()


def furnish(folder: Path, examples: Path, tape: Path) -> None:
    """Put there what pages have as files: the examples, and a tape of a failed call."""
    shutil.copytree(examples, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "clients"))
    (folder / "home" / "tapes").mkdir(parents=True, exist_ok=True)
    shutil.copy(tape, folder / "error.tape.jsonl")
    shutil.copy(tape, folder / "home" / "tapes")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _lives(url: str) -> bool:
    try:
        with urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
