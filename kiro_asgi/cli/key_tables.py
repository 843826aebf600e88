"""Tables of clients' keys in a file of settings, changed line by line: all else stays as its author wrote it.

A change is written only if the file then says what it said before but for that change, however the table is written.
"""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from kiro_asgi.errors import ConfigError
from kiro_asgi.limits import SETTINGS_BYTES
from kiro_asgi.private import folder_lock, read_ordinary, replace_file

_HEADER: Final = re.compile(
    r"""\[[ \t]*+keys[ \t]*+\.[ \t]*+(?:"([^"]*+)"|'([^']*+)'|([\w-]++))[ \t]*+\][ \t]*+(?:\#.*)?"""
)
"""The line that begins the table of a key, without the blanks around it."""

_PATIENCE: Final = 10.0
"""Seconds that a change waits for another one."""


def _nothing() -> None:
    """Nothing is to be done before a file is replaced."""


@frozen
class KeyFile:
    """A file of settings with tables of keys."""

    path: Path

    def set(self, name: str, setting: str, value: str | bool, ready: Callable[[], None] = _nothing) -> None:
        """Set *setting* of the key that is called *name*.

        Args:
            name: The key's.
            setting: Which.
            value: To what.
            ready: Called right before the file is replaced; if it raises, nothing is changed.

        Raises:
            ConfigError: The file has no such table, or cannot be changed.
        """
        written = str(value).lower() if isinstance(value, bool) else f'"{value}"'
        line = f"{setting} = {written}"

        def change(lines: list[str], first: int, last: int) -> list[str]:
            kept = [each for each in lines[first + 1 : last] if each.partition("=")[0].strip() != setting]
            return [*lines[: first + 1], line, *kept, *lines[last:]]

        def expected(document: dict[str, Any]) -> None:
            document["keys"][name][setting] = value

        self._change(name, change, expected, ready)

    def remove(self, name: str) -> None:
        """Remove the table of the key that is called *name*; errors as of `set`.

        The last one stays, unless the file lets clients in by other means: without any, no gateway starts; one that
        simulates its services lets all in.
        """

        def change(lines: list[str], first: int, last: int) -> list[str]:
            return [*lines[:first], *lines[last:]]

        def expected(document: dict[str, Any]) -> None:
            del document["keys"][name]
            if document["keys"]:
                return
            del document["keys"]
            client = document.get("client", {})
            if not any(client.get(door) for door in ("api_keys", "trust_host", "allow_anonymous")):
                raise ConfigError(
                    f"{name} is the last key of {self.path}, and without one no gateway would start: kiro-asgi keys "
                    f"disable {name} refuses it; or change it by hand",
                    code="keys",
                )

        self._change(name, change, expected)

    def _change(
        self,
        name: str,
        change: Callable[[list[str], int, int], list[str]],
        expected: Callable[[dict[str, Any]], None],
        ready: Callable[[], None] = _nothing,
    ) -> None:
        target = self.path.resolve()
        try:
            with folder_lock(target.parent, _PATIENCE):
                self._change_locked(target, name, change, expected, ready)
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be changed: {error.strerror}", code="keys") from None

    def _change_locked(
        self,
        target: Path,
        name: str,
        change: Callable[[list[str], int, int], list[str]],
        expected: Callable[[dict[str, Any]], None],
        ready: Callable[[], None],
    ) -> None:
        text, before = self._read(target)
        if name not in before.get("keys", {}):
            raise ConfigError(f"{self.path} has no table [keys.{name}]: change it where it is set", code="keys")
        wanted = copy.deepcopy(before)
        expected(wanted)
        lines = text.split("\n")
        found = _place(lines, name)
        changed = "\n".join(change(lines, *found)) if found else text
        if _parsed(changed) != wanted:
            raise ConfigError(
                f"{self.path}: the table keys.{name} is written in a form that is not changed here; change it by hand",
                code="keys",
            )

        def last_look() -> None:
            if self._read(target)[0] != text:  # an editor takes no lock
                raise ConfigError(f"{self.path}: was changed by another program just now; try again", code="keys")
            ready()

        replace_file(target, changed.encode(), last_look)

    def _read(self, target: Path) -> tuple[str, dict[str, Any]]:
        try:
            text = read_ordinary(target, SETTINGS_BYTES).decode()
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be read: {error.strerror}", code="keys") from None
        except UnicodeDecodeError:
            raise ConfigError(f"{self.path}: cannot be read: not UTF-8", code="keys") from None
        document = _parsed(text)
        if document is None:
            raise ConfigError(f"{self.path}: is not TOML; kiro-asgi check tells where", code="keys")
        return text, document


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _place(lines: list[str], name: str) -> tuple[int, int] | None:
    """The first line of the table of the key *name*, and the first behind it; ``None`` where none is found.

    Comments and blank lines at its end may be about what follows.
    """
    first = next((number for number, line in enumerate(lines) if _key_of(line) == name), None)
    if first is None:
        return None
    behind = (number for number in range(first + 1, len(lines)) if lines[number].lstrip().startswith("["))
    last = next(behind, len(lines))
    while last > first + 1 and (not lines[last - 1].strip() or lines[last - 1].lstrip().startswith("#")):
        last -= 1
    return first, last


def _key_of(line: str) -> str:
    """The name of the key whose table begins with *line*; empty for another line."""
    found = _HEADER.fullmatch(line.strip())
    return next(filter(None, found.groups()), "") if found is not None else ""
