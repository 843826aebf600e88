"""The command line itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kiro_asgi import __version__
from kiro_asgi.cli import COMMANDS
from tests.cli.processes import command


def test_version(tmp_path: Path) -> None:
    """``--version`` is the package's."""
    done = command("--version", cwd=tmp_path)

    assert (done.returncode, done.stdout) == (0, f"kiro-asgi {__version__}\n")


def test_help_names_every_command(tmp_path: Path) -> None:
    """A user finds the commands, each with a sentence."""
    done = command("--help", cwd=tmp_path)

    assert done.returncode == 0
    assert all(re.search(rf"^ +{name} +\w", done.stdout, re.MULTILINE) for name in COMMANDS)


@pytest.mark.parametrize("arguments", [(), ("dance",), ("serve", "--port", "x"), ("serve", "--loop", "gevent")])
def test_a_wrong_command_line_ends_with_2(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """As every program does, so that scripts can tell it from bad settings."""
    done = command(*arguments, cwd=tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    assert "usage: kiro-asgi" in done.stderr


def test_serving_is_not_imported_before_it_is_needed(tmp_path: Path) -> None:
    """The server is an extra: importing the command must not need it."""
    (tmp_path / "hypercorn.py").write_text("raise ModuleNotFoundError('gone', name='hypercorn')\n")
    done = command("check", "--help", cwd=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
