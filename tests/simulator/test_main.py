"""``python -m kiro_asgi.simulator``."""

from __future__ import annotations

import signal
import subprocess
import sys

from kiro_asgi.simulator import markers_as_markdown
from kiro_asgi.simulator.__main__ import main
from tests.simulator.asking import ask

COMMAND = [sys.executable, "-W", "error", "-m", "kiro_asgi.simulator"]


def test_runs_alone_until_interrupted():
    """It prints its address, answers, and ends quietly with status 0 on an interrupt."""
    with subprocess.Popen(
        [*COMMAND, "--port", "0", "--pace", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        url = process.stdout.readline().strip()
        answered = ask(url, "Sing.")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)

    assert answered.text == "You said: Sing."
    assert (process.returncode, errors) == (0, "")


def test_prints_the_markers(capsys):
    """``--markers`` prints the table of the documentation."""
    assert main(["--markers"]) == 0
    assert capsys.readouterr().out == markers_as_markdown()
