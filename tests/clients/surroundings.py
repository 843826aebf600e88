"""Where a client runs: with the gateway in a network of its own, and with nothing of ours in its environment."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from attrs import frozen

from tests.cli.processes import serving

__all__ = ["CONNECTED", "KEY", "SECLUDED", "Gateway", "obstacle", "running"]

CONNECTED: Final = "KIRO_ASGI_CLIENTS_CONNECTED"
"""Set to 1, this lets clients run where they can reach more than the gateway."""

SECLUDED: Final = ("unshare", "--user", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
"""Before a command: it runs in a network that has a loopback interface and no other."""

KEY: Final = "choose-a-key"
"""The only key that the gateway accepts; the page on clients names it."""

SETTINGS: Final = {"KIRO_ASGI__CLIENT__API_KEYS": KEY, "KIRO_ASGI__ROUTING__MODELS": "claude-*=kiro"}
"""The page's, where Anthropic is set up, too: names with dashes are its own."""

PATIENCE: Final = 90.0
"""Seconds after which a client is ended."""


def obstacle() -> str:
    """What keeps us from making a network; empty: nothing."""
    missing = [tool for tool in ("unshare", "nsenter", "ip") if shutil.which(tool) is None]
    if missing:
        return f"needs {', '.join(missing)}"
    made = subprocess.run([*SECLUDED, "true"], capture_output=True, text=True, timeout=30, check=False)
    return made.stderr.strip() if made.returncode else ""


@frozen
class Gateway:
    """A gateway in front of the simulator, and the way to run something next to it."""

    base: str
    """What Anthropic's clients are told to use; without ``/v1``."""

    enter: Sequence[str] = ()
    stop: Callable[[], str] = str
    """End it; what it wrote to its log."""

    def run(self, *command: str, folder: Path, home: Path, given: str = "", **environ: str) -> str:
        """Run *command* to its end, which has to be a good one; what it wrote to standard output.

        It sees *environ* and what no process can do without.
        """
        known = {"PATH": _path(), "HOME": str(home), "TMPDIR": str(home), "LANG": "C.UTF-8", **environ}
        with subprocess.Popen(
            [*self.enter, *command],
            cwd=folder,
            env=known,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                output, errors = process.communicate(given, timeout=PATIENCE)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        assert process.returncode == 0, f"{output}\n{errors}"
        return output


def _path() -> str:
    """Places of the system's programs, and of Node.js."""
    node = shutil.which("node")
    assert node, "needs node"
    return os.pathsep.join((str(Path(node).parent), "/usr/local/bin", "/usr/bin", "/bin"))


@contextmanager
def running(cwd: Path, *options: str, secluded: bool, **settings: str) -> Iterator[Gateway]:
    """Run a gateway, in a network of its own where *secluded*, until the end of the block.

    *options* are those of the command, *settings* variables of its environment beside `SETTINGS`.
    """
    within = SECLUDED if secluded else ()
    with serving("--simulate", *options, cwd=cwd, within=within, **{**SETTINGS, **settings}) as server:
        target = f"--target={server.process.pid}"
        enter = ("nsenter", target, "--user", "--net", "--preserve-credentials") if secluded else ()
        yield Gateway(server.base, enter, server.stop)
