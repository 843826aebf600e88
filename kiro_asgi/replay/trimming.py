"""Reduction of a tape: what the client got stays the same, byte for byte, and whatever that does not need goes.

Parts of the client's request, settings and fetched files are removed, large ones first, as long as the replay gives the
same.  So a report of a hundred tools and messages becomes a test that shows the fault.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

from attrs import define, evolve

from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.limits import TAPE_TRIALS
from kiro_asgi.replay.run import Replay, derive
from kiro_asgi.tapes.format import Line, Tape, TapeError
from kiro_asgi.wire.json import JsonError, dumps, loads

_SHORT: Final = 16
"""Characters to which a text is cut."""

_Path = tuple[str | int, ...]


def trim(tape: Tape, most: int = TAPE_TRIALS) -> Tape:
    """*tape*, reduced to what gives the client the same, as far as *most* trials find it.

    Raises:
        TapeError: It is cut, or has no request, so it cannot be replayed; or a replay gives the client something else,
            which would replace what it got.
    """
    original = derive(tape)
    if not original.is_same:
        raise TapeError(
            "a replay of this tape does not give what the client got, so it cannot be trimmed: that would replace the "
            "recorded answer; kiro-asgi replay shows where they differ",
            code="trim.differs",
        )
    parts = {"request": _document(tape.request.data), "settings": tape.head.members.get("settings") or {}}
    parts["files"] = [place for place, line in enumerate(tape.lines) if line.kind == "file"]

    def is_same(candidate: Any) -> bool:
        try:
            replay = derive(_with(tape, candidate))
        except KiroAsgiError:
            return False
        return (replay.status, replay.sent, replay.missing) == (original.status, original.sent, original.missing)

    return replayed(_with(tape, shrink(parts, is_same, most)))


def _document(body: bytes) -> Any:
    try:
        return loads(body)
    except JsonError:
        return None


def _with(tape: Tape, parts: Any) -> Tape:
    """*tape* with these *parts* of it, as `trim` names them."""
    lines: list[Line] = []
    for place, line in enumerate(tape.lines):
        if line.kind == "tape":
            lines.append(evolve(line, members={**line.members, "settings": parts["settings"]}))
        elif line.kind == "client.request" and parts["request"] is not None:
            lines.append(evolve(line, data=dumps(parts["request"])))
        elif line.kind != "file" or place in parts["files"]:
            lines.append(line)
    return Tape(tuple(lines))


def replayed(tape: Tape) -> Tape:
    """*tape*, whose replay gives the same, with what is sent now, to the client and to services.

    Then another replay gives the same after a part of it was changed, too.
    """
    replay = derive(tape)
    kept = [*_with_requests(tape, replay)]
    made = [Line("client.bytes", step.t, {}, step.value) for step in replay.steps if step.kind == "send"]
    end = next((place for place, line in enumerate(kept) if line.kind == "end"), len(kept))
    return Tape((*kept[:end], *made, *kept[end:]))


def _with_requests(tape: Tape, replay: Replay) -> Iterator[Line]:
    """The lines without those to the client, and with the requests that services are sent now."""
    asked = iter(replay.asked)
    for line in tape.lines:
        if line.kind == "up.request" and (request := next(asked, None)) is not None:
            yield evolve(line, data=request.body)
        elif line.kind != "client.bytes":
            yield line


def shrink(document: dict[str, Any], holds: Callable[[Any], bool], most: int) -> Any:
    """The smallest part of *document*, which is JSON, for which *holds* is true; its own members stay.

    Children are removed by halves, then by quarters, and so on down to one; texts are cut.  *holds* is called *most*
    times at most.
    """
    return _Shrinking(document, holds, most).run()


@define
class _Shrinking:
    """A document, as small as it is so far."""

    _document: Any
    _holds: Callable[[Any], bool]
    _left: int

    def run(self) -> Any:
        waiting: deque[_Path] = deque((name,) for name in self._document)
        while waiting and self._left > 0:
            path = waiting.popleft()
            value = _at(self._document, path)
            if isinstance(value, dict | list):
                waiting.extend((*path, name) for name in self._remove_parts(path))
            elif isinstance(value, str) and len(value) > _SHORT:
                self._try(path, value[:_SHORT])
        return self._document

    def _remove_parts(self, path: _Path) -> list[str | int]:
        """Remove what can be removed of one value, and return the names of what is left."""
        parts = [*_items(_at(self._document, path))]
        size = len(parts)
        while size:
            start = 0
            while start < len(parts):
                fewer = parts[:start] + parts[start + size :]
                if self._try(path, _joined(_at(self._document, path), fewer)):
                    parts = fewer
                else:
                    start += size
            size //= 2
        return [name for name, _ in _items(_at(self._document, path))]

    def _try(self, path: _Path, value: Any) -> bool:
        if self._left <= 0:
            return False
        self._left -= 1
        candidate = _replaced(self._document, path, value)
        if not self._holds(candidate):
            return False
        self._document = candidate
        return True


def _items(value: Any) -> Iterator[tuple[Any, Any]]:
    return iter(value.items() if isinstance(value, dict) else enumerate(value))


def _joined(like: Any, parts: list[tuple[Any, Any]]) -> Any:
    return dict(parts) if isinstance(like, dict) else [value for _, value in parts]


def _at(document: Any, path: _Path) -> Any:
    for name in path:
        document = document[name]
    return document


def _replaced(document: Any, path: _Path, value: Any) -> Any:
    """*document* with another *value* at *path*; what lies beside it is shared."""
    if not path:
        return value
    parts = [(name, _replaced(old, path[1:], value) if name == path[0] else old) for name, old in _items(document)]
    return _joined(document, parts)
