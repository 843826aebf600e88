"""Bytes that nobody should send, and requests that are nearly right."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from typing import Any, Final

_PLACES: Final = 200
"""Places of a request at which a value is replaced."""

RUBBISH: Final = (
    b"",
    b" ",
    b"\x00",
    b"\xff\xfe",
    b"null",
    b"true",
    b"0",
    b"[]",
    b"{}",
    b'""',
    b"{",
    b'{"a":',
    b"NaN",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"9" * 10_000,
    b'"\\ud800"',
    b"<html>busy</html>",
    b"data: {}\n\ndata: [DONE]\n\n",
)
"""Bodies that are no request and no answer of any API."""

_VALUES: Final[tuple[Any, ...]] = (
    None,
    True,
    0,
    -1,
    2**70,
    1e308,
    "",
    " ",
    "x" * 10_000,
    "\x00\u2028",
    [],
    [None],
    [[]],
    {},
    {"": None},
    {"type": "unknown"},
)
"""What stands in the place of another value."""


def nearly(request: bytes) -> Iterator[tuple[str, bytes]]:
    """*request*, which is JSON, with one value replaced or left out, or one member more; each with words for it."""
    value = json.loads(request)
    for path in [*_paths(value)][:_PLACES]:
        place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
        for other in _VALUES:
            yield f"{place} is {other!r:.40}", _changed(value, path, partial(_put, other))
        yield f"{place} is missing", _changed(value, path, _remove)
    yield "a member that nobody knows", json.dumps({**value, "nobody_knows": {"deep": [1]}}).encode()


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, member in members:
        yield (*path, step)
        yield from _paths(member, (*path, step))


def _changed(value: Any, path: tuple[Any, ...], change: Any) -> bytes:
    copy = holder = deepcopy(value)
    for step in path[:-1]:
        holder = holder[step]
    change(holder, path[-1])
    return json.dumps(copy).encode()


def _put(value: Any, holder: Any, step: Any) -> None:
    holder[step] = value


def _remove(holder: Any, step: Any) -> None:
    del holder[step]
