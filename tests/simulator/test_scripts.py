"""Scripts become bytes; layouts change only where these are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import UpstreamProtocolError
from kiro_asgi.simulator import (
    CorruptChecksum,
    Event,
    ExceptionFrame,
    Head,
    Layout,
    Pause,
    RawBytes,
    Repeat,
    Reset,
    TornFrame,
    text,
)
from kiro_asgi.simulator.kiro.encoder import encode, encode_script
from kiro_asgi.simulator.scripts import lay_out, paced, with_layout
from kiro_asgi.wire.eventstream import FrameDecoder

HI = Event("assistantResponseEvent", {"content": "Hi"})
VECTOR = bytes.fromhex(
    "0000007c0000005c3bddcf780d3a6d6573736167652d747970650700056576656e740b3a6576656e742d747970650700166173736973"
    "74616e74526573706f6e73654576656e740d3a636f6e74656e742d747970650700106170706c69636174696f6e2f6a736f6e7b22636f"
    "6e74656e74223a224869227d09f66f51"
)
"""The frame of *HI*, computed independently."""

STEPS = st.lists(
    st.one_of(
        st.text(max_size=5).map(lambda piece: text(piece)[0]),
        st.binary(max_size=20).map(RawBytes),
        st.builds(Repeat, st.just(HI), st.integers(0, 3)),
        st.just(Pause(0)),
    ),
    max_size=8,
).map(tuple)


def test_events_are_the_services_bytes():
    """An event frame equals the published test vector."""
    assert encode(HI) == VECTOR


@given(STEPS, st.integers(0, 40))
def test_layout_changes_only_the_cuts(steps, size):
    """The bytes are the same however they are cut; with a size, chunks have it unless a pause or the end follows."""
    parts = list(lay_out(encode_script((Head(layout=Layout(chunk=size)), *steps))))
    whole = b"".join(encode(step) * getattr(step, "times", 1) for step in steps if not isinstance(step, Pause))

    assert b"".join(part for part in parts if isinstance(part, bytes)) == whole
    assert b"" not in parts
    for part, following in pairwise(parts):
        if size and isinstance(part, bytes):
            assert len(part) <= size
            assert len(part) == size or not isinstance(following, bytes)


def test_a_break_sends_what_is_there_first():
    """What precedes a reset goes out before it, even in one big chunk."""
    script = with_layout((*text("a", "b"), Reset()), Layout(chunk=1 << 30))

    assert [type(part) for part in lay_out(encode_script(script))] == [Head, bytes, Reset]


def test_paced_pauses_after_events_only():
    """Pace puts a pause after each event, not after a JSON body."""
    assert paced((Head(), HI, RawBytes(b"x")), 0.5) == (Head(), HI, Pause(0.5), RawBytes(b"x"))


@pytest.mark.parametrize(
    ("step", "code"),
    [
        pytest.param(CorruptChecksum(HI), "message", id="message"),
        pytest.param(CorruptChecksum(HI, "prelude"), "prelude", id="prelude"),
        pytest.param(TornFrame(HI), "torn", id="half"),
        pytest.param(TornFrame(HI, -1), "torn", id="all-but-one"),
        pytest.param(TornFrame(HI, 3), "torn", id="three-bytes"),
    ],
)
def test_broken_frames_are_broken(step, code):
    """A strict decoder refuses them, and differently from whole ones by exactly one bit or by a missing end."""
    decoder = FrameDecoder()

    with pytest.raises(UpstreamProtocolError):
        [*decoder.feed([encode(step)]), *decoder.flush()]
    difference = bytes(a ^ b for a, b in zip(encode(step), VECTOR, strict=False))
    assert sum(map(int.bit_count, difference)) == (code != "torn")
    assert (len(encode(step)) < len(VECTOR)) == (code == "torn")


def test_exception_frames_carry_message_and_reason():
    """An exception frame says so in its headers, and holds what a refusal holds."""
    [frame] = FrameDecoder().feed([encode(ExceptionFrame("ThrottlingException", "slow down"))])

    assert (frame.headers[":message-type"], frame.headers[":exception-type"]) == ("exception", "ThrottlingException")
    assert frame.payload == b'{"message":"slow down","reason":null}'
