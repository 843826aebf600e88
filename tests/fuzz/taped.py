"""A target that takes a tape from somebody else: reads it, exports it, masks it, replays it, trims it, shows it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, Final

from kiro_asgi.cli.replay import _page_of as page_of
from kiro_asgi.errors import ConfigError
from kiro_asgi.inspector.replays import answer_of, attempts_of, one_recorded, one_step, recorded_steps, steps_of
from kiro_asgi.redaction import Redactor
from kiro_asgi.replay import Replay, derive
from kiro_asgi.replay.trimming import trim
from kiro_asgi.tapes import Tape, TapeError, read_tape
from kiro_asgi.tapes.exports import as_curl, as_har
from kiro_asgi.tapes.masking import Protection
from kiro_asgi.tapes.recorder import protected
from tests.fuzz.source import REPEATS, Source, dumped
from tests.fuzz.target import made, refuse, same, ways_to_cut
from tests.tapes.corpus import CORPUS

__all__ = ["tape"]

LARGEST: Final = 10_000
"""Bytes of a tape that is worth beginning with."""

TRIALS: Final = 3
"""Replays by which a tape is trimmed here."""

RECHUNKS: Final = ("recorded", "1", "7", "random:1", "random:", "0", "-1", "", "9" * 5000, "recorded:1", "٣")

MASKING: Final = Protection(Redactor.of(()), is_masking=True)


@cache
def _corpus() -> tuple[tuple[Any, ...], ...]:
    """Tapes of the corpus, a document for each line."""
    found = (path.read_bytes() for path in sorted(CORPUS.glob("*.tape.jsonl")))
    return tuple(tuple(map(json.loads, data.splitlines())) for data in found if len(data) < LARGEST)


def _tape(source: Source) -> bytes:
    """A tape: lines of one or two others, changed, left out, repeated, in another order."""
    lines = [*source.pick(_corpus())]
    if not source.below(4):
        lines += source.pick(_corpus())
    for _ in range(source.below(6)):
        place = source.below(len(lines))
        match source.below(6):
            case 0:
                del lines[place]
            case 1:
                lines[place:place] = [lines[place]] * source.pick(REPEATS[:5])
            case 2:
                lines.append(lines.pop(place))
            case _:
                lines[place] = source.mutated(lines[place])
        if not lines:
            break
    data = b"".join(dumped(line) + b"\n" for line in lines)
    return data if source.below(4) else source.edited(data)


def _read(pieces: Iterable[bytes]) -> Tape | str:
    try:
        return read_tape(pieces)
    except TapeError as error:
        return error.code


def tape(data: bytes) -> int:
    """Do with a tape what its finder can do with it."""
    wire, source = made(data, _tape)
    ways = [_read(pieces) for pieces in ways_to_cut(wire, source)]
    same(ways)
    if not isinstance(found := ways[0], str):
        assert read_tape([found.write()]) == read_tape([read_tape([found.write()]).write()])
        use = USES[source.pick([*USES])]
        with suppress(ConfigError):
            use(found, source)
    return len(wire)


def _export(found: Tape, source: Source) -> None:
    assert "\0" not in as_curl(found), "a shell cannot take it"
    json.loads(json.dumps(as_har(found)), parse_constant=refuse)


def _mask(found: Tape, source: Source) -> None:
    masked = protected(found, MASKING)
    assert [len(line.data) for line in masked.lines] == [len(line.data) for line in found.lines]
    assert protected(masked, MASKING).write() == masked.write(), "masked again, it is another"


def _replay(found: Tape, source: Source) -> None:
    """The replay is the same each time, and every view of it is JSON; the page for a browser has no script."""
    rechunk = source.pick(RECHUNKS)
    replay, again = (derive(found, rechunk=rechunk) for _ in range(2))
    assert _sent(replay) == _sent(again)
    for view in (steps_of(replay), answer_of(replay), one_step(replay, source.below(64))):
        _is_json(view)
    page = page_of(replay, replay.difference)
    assert "<script" not in page
    page.encode()


def _look(found: Tape, source: Source) -> None:
    for view in (recorded_steps(found), attempts_of(found), one_recorded(found, source.below(64))):
        _is_json(view)


def _trim(found: Tape, source: Source) -> None:
    """What is trimmed gives the client the same; it is the answer on the tape."""
    before = derive(found)
    if not before.is_same:
        return
    trimmed = trim(found, TRIALS)
    assert _sent(derive(trimmed)) == _sent(before)
    assert trimmed.sent == before.sent


def _sent(replay: Replay) -> tuple[int, bytes]:
    return replay.status, replay.sent


def _is_json(view: Any) -> None:
    json.loads(json.dumps(view), parse_constant=refuse)


USES: Final[Mapping[str, Callable[[Tape, Source], None]]] = {
    "export": _export,
    "mask": _mask,
    "replay": _replay,
    "look": _look,
    "trim": _trim,
}
