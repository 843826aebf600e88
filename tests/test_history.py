"""The check of commits' subjects, on repositories made for it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.history import complaints, main

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")

LONG = "Name the setting in the error, " + "and its place in the file of settings " * 2


def run(folder: Path, *arguments: str) -> str:
    """A command of git, without the settings of whoever runs the test."""
    who = {f"GIT_{part}_{what}": f"a@{what}" for part in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environ = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, **who}
    done = subprocess.run(["git", *arguments], cwd=folder, env=environ, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def repository(folder: Path, *messages: str) -> str:
    """A repository with a commit for each message; the name of the first."""
    folder.mkdir(exist_ok=True)
    run(folder, "init", "-q", "-b", "main")
    for message in messages:
        run(folder, "commit", "-q", "--allow-empty", "-m", message)
    return run(folder, "rev-list", "--max-parents=0", "HEAD")


@pytest.mark.parametrize(
    ("message", "number"),
    [
        ("Name the setting in the error", 0),
        ("Name the setting in the error\n\nIt was not said: which one. And why; so it is now.\n", 0),
        ("Re-read the key file, and pass the address on", 0),
        ("Embed the picture", 0),
        ("N" + "a" * 69 + " b", 0),
        ("N" + "a" * 70 + " b", 1),
        (LONG, 1),
        ("Name the setting\nin the error", 1),
        ("Named the setting", 1),
        ("Names the setting", 1),
        ("Naming the setting", 1),
        ("fix: name the setting", 1),
        ("x", 1),
        ("Name the setting.", 1),
        ("Name the setting; drop the other", 1),
    ],
)
def test_a_subject_is_one_short_imperative_line(message: str, number: int) -> None:
    assert len([*complaints(message)]) == number


def test_commits_since_the_start_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those before it are not, nor are merges; the complaint names the commit."""
    start = repository(tmp_path, "old, and wrong.", "Add one", LONG)
    run(tmp_path, "checkout", "-q", "-b", "side", "HEAD~1")
    run(tmp_path, "commit", "-q", "--allow-empty", "-m", "Add two")
    run(tmp_path, "merge", "-q", "--no-ff", "-m", "merged.", "main")

    assert main(tmp_path, start) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith(LONG.strip())
    assert len(lines) == 2


def test_a_release_begins_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What stands before the last tag is published."""
    start = repository(tmp_path, "Begin", "wrong")
    run(tmp_path, "tag", "v1")
    run(tmp_path, "commit", "-q", "--allow-empty", "-m", "Add one")

    assert main(tmp_path, start) == 0
    assert capsys.readouterr().out == "subjects of commits: 1 checked\n"


@pytest.mark.parametrize("kind", ["archive", "within another", "shallow", "without it"])
def test_where_there_is_no_history_the_check_says_so(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An archive, one that is unpacked in somebody's repository, a shallow clone, a history of its own."""
    start = repository(tmp_path / "all", "Begin", "Add one", "Add two")
    place = tmp_path / "all" / "here" if kind == "within another" else tmp_path / "here"
    if kind == "shallow":
        run(tmp_path, "clone", "-q", "--depth", "1", f"file://{tmp_path / 'all'}", str(place))
    elif kind == "without it":
        repository(place, "wrong")
    else:
        place.mkdir()

    assert main(place, start) == 0
    assert capsys.readouterr().out.startswith("subjects of commits: not checked, ")


def test_a_fresh_clone_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = repository(tmp_path / "all", "Begin", "wrong")
    run(tmp_path, "clone", "-q", str(tmp_path / "all"), str(tmp_path / "here"))

    assert main(tmp_path / "here", start) == 1
    assert "begin with a verb" in capsys.readouterr().out
