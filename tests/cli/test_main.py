"""The command line itself."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from kiro_asgi import __version__
from kiro_asgi.cli import COMMANDS, main
from tests.cli.processes import PREFIX, clean_environment, command


def outcome(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str, str]:
    """Exit status and both outputs of a command line that is answered at once."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    return caught.value.code, *capsys.readouterr()


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """``--version`` is the package's."""
    assert outcome(capsys, "--version") == (0, f"kiro-asgi {__version__}\n", "")


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """A user finds the commands, each with a sentence."""
    status, out, errors = outcome(capsys, "--help")

    assert (status, errors) == (0, "")
    assert all(re.search(rf"^ +{name} +\w", out, re.MULTILINE) for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_summary_is_the_first_sentence_of_the_module(name: str) -> None:
    """It stands in a table, so that help of one command imports no other."""
    assert (import_module(f"kiro_asgi.cli.{name}").__doc__ or "").partition("\n")[0] == COMMANDS[name]


def test_only_the_command_that_runs_is_imported() -> None:
    """A gateway that serves holds no code of the demonstration, of replays or of the examination."""
    code = """
import sys
from kiro_asgi.cli import COMMANDS, main
try:
    main(["serve", "--help"])
except SystemExit:
    print(*(name for name in COMMANDS if f"kiro_asgi.cli.{name}" in sys.modules), "kiro_asgi.replay" in sys.modules)
"""
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout

    assert printed.splitlines()[-1] == "serve False"


@pytest.mark.parametrize("arguments", [(), ("dance",), ("serve", "--port", "x"), ("serve", "--loop", "gevent")])
def test_a_wrong_command_line_ends_with_2(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """As every program does, so that scripts can tell it from bad settings."""
    status, out, errors = outcome(capsys, *arguments)

    assert (status, out) == (2, "")
    assert "usage: kiro-asgi" in errors


def test_serving_is_not_imported_before_it_is_needed(tmp_path: Path) -> None:
    """The server is an extra: the other commands must not need it."""
    (tmp_path / "hypercorn.py").write_text("raise ModuleNotFoundError('gone', name='hypercorn')\n")
    done = command("check", "--help", cwd=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")


def test_a_reader_that_has_seen_enough(tmp_path: Path) -> None:
    """Output into ``head`` ends without a traceback."""
    process = subprocess.Popen(
        [*PREFIX, "check"],
        cwd=tmp_path,
        env=clean_environment(KIRO_API_KEY="ksk_x", KIRO_ASGI__CLIENT__API_KEYS="k"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()

    assert (process.returncode, errors) == (1, b"")
