"""Pages as steps that a reader takes, whatever the words between them are; CONTRIBUTING.md says how blocks are read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from attrs import evolve, frozen

__all__ = ["Step", "matches", "steps_of"]

FENCE: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DIRECTIVE: Final = re.compile(r"^\.\. code-block:: (\w+)\n((?:\n|   .*\n?)+)", re.MULTILINE)
NOT_RUN: Final = re.compile(r"(?:<!-- not run: (.+?) -->|^\.\. not run: (.+?))\s*\Z", re.MULTILINE | re.DOTALL)
"""A comment as the last thing before a block."""

TIME_OR_PORT: Final = re.compile(r"\d+(?:\\\.\d+)?(?=\\? (?:ms|s)\b)|(?<=127\\\.0\\\.0\\\.1:)\d+")
"""Numbers that differ from run to run, in an escaped line."""


@frozen
class Step:
    """One thing to do."""

    place: str
    """Page and line."""

    language: str
    """``shell`` or ``python``."""

    code: str
    output: tuple[str, ...] = ()
    """What the page says comes out; nothing where it does not say."""

    not_run: str = ""
    """Why it is only read."""


@frozen
class Block:
    language: str
    code: str
    line: int
    not_run: str
    follows: bool
    """Whether nothing stands between it and the block before."""


def steps_of(page: Path) -> list[Step]:
    """The steps of a Markdown or reStructuredText page."""
    steps: list[Step] = []
    for block in _blocks(page.read_text("utf-8"), page.suffix):
        if block.language == "text" and block.follows and steps:
            steps[-1] = evolve(steps[-1], output=tuple(block.code.splitlines()))
        steps += _steps_in(block, f"{page.name}:{block.line}")
    return steps


def _blocks(text: str, suffix: str) -> Iterator[Block]:
    end = 0
    for found in (FENCE if suffix == ".md" else DIRECTIVE).finditer(text):
        between = text[end : found.start()]
        marked = NOT_RUN.search(between)
        reason = " ".join((marked[1] or marked[2]).split()) if marked else ""
        line = text.count("\n", 0, found.start()) + 1
        yield Block(found[1], _dedented(found[2], suffix), line, reason, end > 0 and not between.strip())
        end = found.end()


def _dedented(code: str, suffix: str) -> str:
    if suffix == ".md":
        return code
    lines = [line[3:] for line in code.splitlines() if not line.startswith("   :")]
    return "\n".join(lines).strip("\n") + "\n"


def _steps_in(block: Block, place: str) -> Iterator[Step]:
    if block.language == "python" and "print(" in block.code:
        yield Step(place, "python", block.code, not_run=block.not_run)
    elif block.language == "sh":
        for command in _commands(block.code.splitlines()):
            yield Step(place, "shell", command, not_run=block.not_run)
    elif block.language == "console":
        for prompt in re.split(r"^\$ ", block.code, flags=re.MULTILINE)[1:]:
            lines = prompt.rstrip("\n").split("\n")
            last = next((at for at, line in enumerate(lines) if not line.endswith("\\")), len(lines) - 1)
            (command,) = _commands(lines[: last + 1])
            yield Step(place, "shell", command, tuple(lines[last + 1 :]), block.not_run)


def _commands(lines: Sequence[str]) -> Iterator[str]:
    """Lines that belong together, e.g. those that end with a backslash; comments are none."""
    whole = ""
    for line in lines:
        whole += line + "\n"
        if not line.endswith("\\") and whole.strip() and not whole.lstrip().startswith("#"):
            yield whole.strip()
        if not line.endswith("\\"):
            whole = ""


def matches(expected: Sequence[str], output: str) -> bool:
    """Whether *output* is what a page says: ``…`` is any text, as a line any lines; times, ports and spaces differ."""
    rows = []
    for line in expected:
        words = TIME_OR_PORT.sub(r"\\d+(?:\\.\\d+)?", r"\ ".join(map(re.escape, line.split())))
        words = words.replace(r"\ ", " +").replace("…", ".*")
        rows.append(r"(?:.*\n)*?" if line.strip() == "…" else rf" *{words} *\n")
    return re.fullmatch("".join(rows), output.rstrip("\n") + "\n") is not None
