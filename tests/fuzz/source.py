"""Choices out of bytes, and what is done with them to JSON documents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from attrs import define, field

__all__ = ["ODD_TEXTS", "ODD_VALUES", "Source", "dumped"]

Value = TypeVar("Value")

REPEATS: Final = (1, 2, 3, 8, 64, 512)
"""How often a thing is repeated: often enough for work to show that grows faster than its input."""

DEPTHS: Final = (1, 8, 63, 64, 126, 127, 128, 129, 500, 3000)
"""How deep a thing is nested; around `kiro_asgi.limits.JSON_DEPTH`, and beyond what Python recurses."""

ODD_TEXTS: Final = (
    "",
    "\0",
    "\ud800",
    "\u2028\r\n",
    "<thinking>",
    "</thinking>",
    "<invoke name=",
    "[Called f with args: {",
    "```json\n{",
    '{"a":',
    "_session_",
    "x" * 300,
    "é👋" * 20,
    "../..",
    "kiro-asgi:",
    "$ref",
    "#/$defs/a",
    "data:image/png;base64,AAAA",
)

ODD_VALUES: Final = (
    "null",
    "true",
    "0",
    "-1",
    "9223372036854775808",
    "9" * 400,
    "1e308",
    "-0.0",
    "[]",
    "{}",
    "[[]]",
    "[null]",
    '{"": null}',
    '{"type": "object"}',
    '{"type": "text", "text": "x"}',
    *map(json.dumps, ODD_TEXTS),
)
"""As JSON, so that each is new."""


@define
class Source:
    """Draws choices from *data*, the same for the same bytes; when they are used up, the first of everything."""

    data: bytes
    _at: int = field(init=False, default=0)

    @property
    def left(self) -> int:
        """Bytes that are not used up."""
        return len(self.data) - self._at

    def byte(self) -> int:
        """A number from 0 to 255."""
        self._at += 1
        return self.data[self._at - 1] if self._at <= len(self.data) else 0

    def below(self, limit: int) -> int:
        """A number from 0 to *limit* - 1; 0 where that is none."""
        if limit <= 1:
            return 0
        number = self.byte() if limit <= 256 else self.byte() << 16 | self.byte() << 8 | self.byte()
        return number % limit

    def pick(self, options: Sequence[Value]) -> Value:
        """One of *options*."""
        return options[self.below(len(options))]

    def take(self, most: int = 64) -> bytes:
        """Some bytes as they stand, *most* at most; all that is left for -1."""
        size = self.left if most < 0 else min(self.below(most + 1), self.left)
        self._at += size
        return self.data[self._at - size : self._at]

    def text(self) -> str:
        """A text: an odd one, or of bytes as they stand."""
        if self.below(3):
            return self.pick(ODD_TEXTS)
        return self.take(40).decode("utf-8", "replace")

    def value(self, depth: int = 3) -> Any:
        """A JSON value."""
        kind = self.below(6 if depth else 3)
        if kind < 2:
            return json.loads(self.pick(ODD_VALUES))
        if kind == 2:
            return self.text()
        if kind == 3:
            return [self.value(depth - 1) for _ in range(self.below(4))] * self.pick(REPEATS[:3])
        return {self.text(): self.value(depth - 1) for _ in range(self.below(4))}

    def cuts(self, size: int) -> list[int]:
        """Places to cut *size* bytes at."""
        return [self.below(size + 1) for _ in range(self.below(5))]

    def mutated(self, document: Any) -> Any:
        """A copy of *document* with some of its places changed."""
        document = json.loads(json.dumps(document))
        for _ in range(self.below(6)):
            document = self._changed(document)
        return document

    def _changed(self, document: Any) -> Any:
        """*document*, one place of which is changed."""
        box = [document]
        parent: Any = box
        key: Any = 0
        while self.below(5) and isinstance(parent[key], dict | list) and parent[key]:
            parent = parent[key]
            key = self.pick(list(parent) if isinstance(parent, dict) else range(len(parent)))
        match self.below(7):
            case 0:
                parent[key] = json.loads(self.pick(ODD_VALUES))
            case 1:
                parent[key] = self.value()
            case 2 if isinstance(parent, dict):
                del parent[key]
            case 3 if isinstance(parent, dict):
                parent[self.text()] = parent.pop(key)
            case 4 if isinstance(parent, list):
                parent[key : key + 1] = [parent[key]] * self.pick(REPEATS)
            case 5 if isinstance(parent[key], str):
                parent[key] = self._spoilt(parent[key])
            case 6:
                parent[key] = {self.text(): parent[key]} if self.below(2) else [parent[key]]
            case _ if isinstance(parent[key], dict):
                parent[key][self.text()] = self.value()
        return box[0]

    def _spoilt(self, text: str) -> str:
        place = self.below(len(text) + 1)
        return text[:place] + self.text() * self.pick(REPEATS[:5]) + text[place:]

    def edited(self, data: bytes) -> bytes:
        """*data* with some of its bytes changed, nested or repeated."""
        for _ in range(self.below(4)):
            start = self.below(len(data) + 1)
            end = min(len(data), start + self.below(32))
            match self.below(5):
                case 0:
                    data = data[:start] + self.take(16) + data[end:]
                case 1:
                    data = data[:start] + data[start:end] * self.pick(REPEATS) + data[end:]
                case 2:
                    data = data[:start] + data[end:]
                case 3:
                    opening, closing = self.pick(((b"[", b"]"), (b'{"a":', b"}"), (b"(", b")"), (b"<a>", b"</a>")))
                    depth = self.pick(DEPTHS)
                    data = data[:start] + opening * depth + data[start:end] + closing * depth + data[end:]
                case _:
                    data = data[:end]
        return data


def dumped(value: Any) -> bytes:
    """*value* as JSON, odd numbers and halves of surrogate pairs included."""
    return json.dumps(value, separators=(",", ":")).encode()
