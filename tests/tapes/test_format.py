"""A tape is read as it was written, also while it is written; anything else is refused with a reason."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kiro_asgi.tapes import Line, Tape, TapeError, read_tape

HEAD = Line("tape", 0.0, {"v": 1, "id": "req_1", "content": "full"})
KINDS = st.sampled_from(["up.bytes", "client.bytes", "note", "plan", "up.request", "up.head", "up.end"])


NAMES = st.text(st.characters(codec="utf-8"), max_size=3).filter(lambda name: name not in ("k", "t", "text", "b64"))
MEMBERS = st.dictionaries(NAMES, st.text(st.characters(codec="utf-8"), max_size=3), max_size=2)


@st.composite
def lines(draw):
    kind = draw(KINDS)
    data = draw(st.binary(max_size=20)) if kind.endswith(("bytes", "request")) else b""
    return Line(kind, draw(st.integers(0, 10**6)) / 64, draw(MEMBERS), data)


@settings(max_examples=25)
@given(st.lists(lines(), max_size=6), st.integers(1, 50))
def test_a_tape_is_read_as_it_was_written(recorded, size):
    """Whatever the pieces of the file are; and its attempts hold each line that belongs to one."""
    tape = Tape((HEAD, *recorded))
    written = tape.write()

    read = read_tape(written[at : at + size] for at in range(0, len(written), size))

    assert read == tape
    for attempt in read.attempts:
        assert all(read.lines[place] is line for answer in attempt.answers for place, line in answer.reads)


@settings(max_examples=60)
@given(st.binary(max_size=60) | st.text(max_size=40).map(str.encode))
def test_garbage_is_refused(data):
    """With a typed error, be it the whole file or a line."""
    for written in (data, HEAD.write() + data + b"\n"):
        try:
            tape = read_tape([written])
            _ = tape.attempts, tape.sent, tape.tokens, tape.cut
        except TapeError as error:
            assert error.code.startswith("tape.")


def test_a_tape_in_progress():
    """Its last line is passed over while it is not whole."""
    assert read_tape([HEAD.write() + b'{"k":"up.by']).lines == (HEAD,)


@pytest.mark.parametrize(
    ("written", "code"),
    [
        (b"", "tape.empty"),
        (b'{"k":"tape","t":0,"v":2}\n', "tape.version"),
        (b'{"k":"note","t":0}\n', "tape.head"),
        (HEAD.write() + b'{"k":"up.bytes","t":0,"b64":"?"}\n', "tape.bytes"),
        (HEAD.write() + b"[]\n", "tape.line"),
        (HEAD.write() + b'{"k":"end","t":' + b"9" * 400 + b"}\n", "tape.number"),
        (HEAD.write() + b"{\n", "tape.json"),
    ],
)
def test_each_reason(written, code):
    """The code says why."""
    with pytest.raises(TapeError) as refused:
        read_tape([written])
    assert refused.value.code == code
