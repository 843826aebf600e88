"""A process that replays tapes of strangers and is watched: ``python -m tests.tapes.watched TAPE FOLDER``.

It prints, as JSON, the deeds outside of its own memory that a replay led to, by the settings that the tape named.  Each
setting there is gets hostile values that its rule allows, so one that is added later is tried, too.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, Final

import httpcore
import httpcore2
from attrs import define, evolve, field

from kiro_asgi.cli import main
from kiro_asgi.config import Settings
from kiro_asgi.config.leaves import Leaf, leaves
from kiro_asgi.setting import Bounds, Choices
from kiro_asgi.tapes import Tape, load_tape

_MEMBERS: Final = ("custom.evil", "keys.evil", "credentials.evil")

_ADDRESS: Final = "127.0.0.1:9"

_TURNS: Final = 3

_WITH_OTHERS: Final[Mapping[str, Any]] = {
    "kiro.effort_budgets": ["1", "2"],
    "kiro.rules_off": [],
    "routing.order": ["kiro"],
    "routing.default": "kiro",
    "inspector.trust_host": False,
    "keys.evil.upstreams": ["kiro"],
    "credentials.evil.credential": "*",
    "limits.body_bytes_in_flight": 2**41,
}
"""Values that have to go together with others."""

_TEXTS: Final = (
    f"http://{_ADDRESS}",
    f"valkey://{_ADDRESS}/0",
    "evil.example.com",
    "us-east-1",
    "evil",
    "a=kiro/evil",
    "tool.wire=client",
    "trailing_commas",
    "sha256:" + "0" * 64,
    "2026-12-31T00:00:00Z",
    "Europe/Berlin",
    "x-evil=1",
    "model=1/2",
    "1",
    "evil-secret-0123456789",
)
"""Of these the first that a rule takes, for texts that have one; others get the names of a file and a program."""

_DEEDS: Final = frozenset(
    {
        *("os.scandir", "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink"),
        *("os.truncate", "os.chmod", "os.chown", "os.utime", "os.system", "os.exec", "os.fork", "os.posix_spawn"),
        *("subprocess.Popen", "sqlite3.connect", "ctypes.dlopen", "socket.connect", "socket.bind", "socket.sendto"),
        *("socket.getaddrinfo", "socket.gethostbyname"),
    }
)
"""Events of the interpreter: https://docs.python.org/3/library/audit_events.html"""

_CODE: Final = (sys.prefix, sys.base_prefix, str(Path(__file__).parents[2] / "kiro_asgi"), "/usr/share/zoneinfo")


@define
class Watch:
    """What the process does outside of its own memory, while it is watched; itself the hook."""

    deeds: list[str] = field(init=False, factory=list)
    _known: tuple[str, ...] = field(init=False, default=())
    """Beginnings of paths that may be read; none while nothing is watched."""

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._known and (event in _DEEDS or (event == "open" and self._is_foreign(*arguments))):
            self.deeds.append(f"{event} {arguments[:2]!r:.160}")

    def _is_foreign(self, path: object, mode: object, flags: int) -> bool:
        """Whether a file is opened to be written, or is neither code nor the tape."""
        is_read = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) == 0
        return not isinstance(path, int) and not (is_read and os.fsdecode(path).startswith(self._known))

    @contextmanager
    def watching(self, tape: Path) -> Iterator[None]:
        """Watch what happens in the block, which reads *tape*."""
        self._known = (*_CODE, str(tape))
        try:
            yield
        finally:
            self._known = ()


def hostile(folder: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Settings for tapes, and what they are called: all together, and each table by itself, with several values."""
    known = leaves(Settings, _MEMBERS)
    tables = dict.fromkeys(path.rpartition(".")[0] for path in known)
    for turn in range(_TURNS):
        values = {path: _value(leaf, turn, folder) for path, leaf in known.items()}
        yield f"all, turn {turn}", values
        for table in tables:
            named = {path: it for path, it in values.items() if path.rpartition(".")[0] == table}
            yield f"{table or 'no table'}, turn {turn}", named


def _value(leaf: Leaf, turn: int, folder: Path) -> Any:
    """A value that the setting's rule allows; others in each *turn*."""
    rule = leaf.declared.rule
    if leaf.path in _WITH_OTHERS:
        return _WITH_OTHERS[leaf.path]
    if leaf.type is bool:
        return turn % 2 == 0
    if isinstance(rule, Choices):
        return rule.words[-1 - turn % len(rule.words)]
    if isinstance(rule, Bounds):
        return leaf.type((rule.lowest, rule.highest, min(rule.highest, rule.lowest + 1))[turn])
    text = next(it for it in _TEXTS if not rule.complaint(it)) if rule else _files(folder)[turn]
    return text if leaf.type is str else [text]


def _files(folder: Path) -> tuple[str, ...]:
    """What a text without a rule may name: a file, a program, another file."""
    return (str(folder / "made" / "by.db"), f"touch {folder / 'spawned'}", str(folder / "victim"))


def run(tape: Path, folder: Path) -> dict[str, Any]:
    """Check the tape with each of those settings: what each check did, and those without a replay."""
    for library in (httpcore, httpcore2):  # each context for TLS takes 0.1 s, and is the same
        library.default_ssl_context = functools.cache(library.default_ssl_context)
    check(tape)  # what is imported now is not imported while it is watched
    watch, recorded = Watch(), load_tape(tape)
    sys.addaudithook(watch)
    told = folder / "told.tape.jsonl"
    did: dict[str, list[str]] = {}
    missing: list[str] = []
    for name, settings in hostile(folder):
        told.write_bytes(named(recorded, settings).write())
        watch.deeds.clear()
        with watch.watching(told):
            said = check(told)
        if "a replay " not in said:
            missing.append(f"{name}: {said}")
        if watch.deeds:
            did[name] = [*watch.deeds]
    return {"did": did, "not_replayed": missing}


def named(tape: Tape, settings: Mapping[str, Any]) -> Tape:
    """*tape*, which names *settings*."""
    head = evolve(tape.head, members={**tape.head.members, "settings": settings})
    return Tape((head, *tape.lines[1:]))


def check(tape: Path) -> str:
    """What the command for a tape from somebody else prints."""
    with redirect_stdout(StringIO()) as output, redirect_stderr(output):
        main(["tape", "check", str(tape)])
    return output.getvalue()


if __name__ == "__main__":
    print(json.dumps(run(*map(Path, sys.argv[1:])), indent=1))
