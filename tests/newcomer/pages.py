"""Pages as steps that a reader takes, whatever the words between them are; CONTRIBUTING.md says how blocks are read."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import dedent
from typing import Final

from attrs import evolve, frozen

__all__ = ["Block", "Step", "blocks_of", "matches", "steps_of"]

FENCE: Final = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
DIRECTIVE: Final = re.compile(
    r"^( *)\.\. (?:code-block|sourcecode|code):: *(\w*)\n((?:\n|\1   .*\n?)+)"
    r"|^( *)\.\. literalinclude:: *(\S+)\n"
    r"|^( *)(?!\.\. )\S.*::\n\n((?:\n|\6   .*\n?)+)",
    re.MULTILINE,
)
"""Code on the page, a file that it shows, or a literal block behind two colons, each with its indentation first."""

MARK: Final = re.compile(
    r"(?:<!-- (not run|run by): ((?:(?!-->).)+?) -->|^ *\.\. (not run|run by): ((?:(?!^ *\.\. ).)+?))\s*\Z",
    re.MULTILINE | re.DOTALL,
)
"""A comment as the last thing before a block."""

CAPTION: Final = re.compile(r"^ *:caption: (.+)$", re.MULTILINE)
SHOWN: Final = {".py": "python", ".mjs": "javascript"}
"""End of a shown file's name to its language, where that is not the end itself."""

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
    """One piece of code."""

    language: str
    """As the page calls it; ``literal`` behind two colons, and for a shown file by the end of its name."""

    code: str
    line: int
    not_run: str = ""
    """Why it is only read, as a comment before it says."""

    run_by: str = ""
    """The test that runs it, as a comment before it says, where that is not the one for its language."""

    follows: bool = False
    """Whether nothing stands between it and the block before."""

    caption: str = ""
    shown: str = ""
    """Path of a file that is shown, relative to the page."""


def steps_of(page: Path) -> list[Step]:
    """The steps of a Markdown or reStructuredText page."""
    steps: list[Step] = []
    for block in blocks_of(page):
        if block.language == "text" and block.follows and steps:
            steps[-1] = evolve(steps[-1], output=tuple(block.code.splitlines()))
        steps += _steps_in(block, f"{page.name}:{block.line}")
    return steps


def blocks_of(page: Path) -> Iterator[Block]:
    """Every block of a page, in order, whatever its language is."""
    text, end = page.read_text("utf-8"), 0
    for found in (FENCE if page.suffix == ".md" else DIRECTIVE).finditer(text):
        between = text[end : found.start()]
        line = text.count("\n", 0, found.start()) + 1
        block = evolve(_block(found, page), line=line, follows=end > 0 and not between.strip())
        if marked := MARK.search(between):
            words = " ".join((marked[2] or marked[4]).split())
            block = evolve(block, **{(marked[1] or marked[3]).replace(" ", "_"): words})
        yield block
        end = found.end()


def _block(found: re.Match[str], page: Path) -> Block:
    if page.suffix == ".md":
        return Block(found[2], dedent(found[3]), 0)
    if found[5] is not None:
        suffix, file = Path(found[5]).suffix, page.parent / found[5]
        return Block(SHOWN.get(suffix, suffix[1:] or file.name), file.read_text("utf-8"), 0, shown=found[5])
    if found[7] is not None:
        return Block("literal", _dedented(found[7]), 0)
    caption = CAPTION.search(found[3])
    return Block(found[2], _dedented(found[3]), 0, caption=caption[1] if caption else "")


def _dedented(code: str) -> str:
    """*code* without its indentation, and without the options before it."""
    lines = dedent(code).splitlines()
    while lines and lines[0].startswith(":"):
        del lines[0]
    return "\n".join(lines).strip("\n") + "\n"


def _steps_in(block: Block, place: str) -> Iterator[Step]:
    if block.shown or block.run_by:
        return
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
    """Lines that belong together: those that end with a backslash, or within quotes; comments are none."""
    whole = ""
    for line in lines:
        whole += line + "\n"
        if line.endswith("\\") or _is_quoting(whole):
            continue
        if whole.strip() and not whole.lstrip().startswith("#"):
            yield whole.strip()
        whole = ""


def _is_quoting(command: str) -> bool:
    """Whether a quote is open at its end."""
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return True
    return False


def matches(expected: Sequence[str], output: str) -> bool:
    """Whether *output* is what a page says: ``…`` is any text, as a line any lines; times, ports and spaces differ."""
    rows = []
    for line in expected:
        words = TIME_OR_PORT.sub(r"\\d+(?:\\.\\d+)?", r"\ ".join(map(re.escape, line.split())))
        words = words.replace(r"\ ", " +").replace("…", ".*")
        rows.append(r"(?:.*\n)*?" if line.strip() == "…" else rf" *{words} *\n")
    return re.fullmatch("".join(rows), output.rstrip("\n") + "\n") is not None
