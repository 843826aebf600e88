"""Check the subjects of commits: ``python -m tests.history``, a part of ``tox -e lint``.

A subject has at most 72 letters, so that ``git log --oneline`` and every forge show all of it, and is one line in the
imperative.  The commits since the last tag are checked; where there is none, those since `START`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
START: Final = "8d9796e64d00cb588b8d0e93098a40cc4b307ef5"
"""The last commit before this check."""

LONGEST: Final = 72

NO_VERB: Final = re.compile(
    r"(?!(?:Alias|Bring|Embed|Exceed|Feed|Need|Ping|Proceed|Seed|Shed|Speed|String)\b)[A-Z][a-z]*(?:ed|ing|[^su]s)\b"
)
"""A first word that is no imperative by its end, such as Added, Adding or Adds."""


class NoHistory(Exception):
    """There is nothing to check; the message gives the reason."""


def git(root: Path, *arguments: str) -> str:
    """The output of a command of git.

    Raises:
        NoHistory: There is no git, or it refuses.
    """
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    except OSError as error:
        raise NoHistory(f"git cannot be run: {error}") from error
    if done.returncode:
        raise NoHistory(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


def unchecked(root: Path, start: str) -> list[tuple[str, str]]:
    """Name and message of each commit since the last release, the newest first; merges are none.

    Raises:
        NoHistory: *root* is no repository of its own, or its history does not reach back so far.
    """
    if Path(git(root, "rev-parse", "--show-toplevel")).resolve() != root.resolve():
        raise NoHistory(f"{root} is not a repository of its own")
    tags = git(root, "tag", "--merged", "HEAD", "--sort=-creatordate").splitlines()
    since = next(iter(tags), start)
    if git(root, "merge-base", since, "HEAD") != git(root, "rev-parse", f"{since}^{{commit}}"):
        raise NoHistory(f"{since} is not in the history of this commit")
    log = git(root, "log", "--no-merges", "--format=%h%x00%B%x01", f"{since}..HEAD")
    commits = (entry.strip("\n").partition("\0") for entry in log.split("\1") if entry.strip("\n"))
    return [(name, message) for name, _, message in commits]


def complaints(message: str) -> Iterator[str]:
    """The rules that the message of a commit breaks, in words."""
    subject, _, rest = message.strip("\n").partition("\n")
    if len(subject) > LONGEST:
        yield f"it has {len(subject)} letters, and may have {LONGEST}; the why goes into the body"
    if rest and not rest.startswith("\n"):
        yield "it is one line; leave the second line of the message empty"
    if not re.match(r"[A-Z][a-z-]+ \S", subject) or NO_VERB.match(subject):
        yield "begin with a verb in the imperative, such as Add, Name or Mend"
    if subject.endswith(".") or ";" in subject:
        yield "name one change, without a full stop or a semicolon"


def wrong(commits: Iterable[tuple[str, str]]) -> list[str]:
    """A line for each rule that a commit breaks."""
    return [
        f"{name} {message.partition(chr(10))[0]}\n    {it}" for name, message in commits for it in complaints(message)
    ]


def main(root: Path = ROOT, start: str = START) -> int:
    """Check a repository; the exit status."""
    try:
        commits = unchecked(root, start)
    except NoHistory as reason:
        print(f"subjects of commits: not checked, {reason}")
        return 0
    lines = wrong(commits)
    print("\n".join(lines) or f"subjects of commits: {len(commits)} checked")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
