"""Frames over WebSocket: what clients send is read or refused, and answers come out the same however they are cut."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kiro_asgi.dialects.openai_responses.frames import AnswerFrames, Aside, Create, read_frame
from kiro_asgi.errors import RequestError
from kiro_asgi.wire.sse import encode_comment, encode_sse
from tests.growth import assert_linear

KINDS = ("response.create", "response.steer", "response.inject", "response.interrupt", "response.processed")
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = ("generate", "stream_id", "background", "prompt_cache_options", "previous_response_id", "response_id", "input")
FRAMES = st.fixed_dictionaries({"type": st.sampled_from(KINDS) | JSON}, optional=dict.fromkeys(FIELDS, JSON)).map(
    lambda frame: json.dumps(frame).encode()
)


@given(data=st.binary(max_size=60) | FRAMES)
@example(data=b"\xff")
@example(data=b"[" * 10_000)
def test_a_frame_is_read_or_refused(data: bytes) -> None:
    """Garbage gives a typed error with a code; a request has left in it what HTTP has, too."""
    try:
        frame = read_frame(data)
    except RequestError as error:
        assert error.code and error.status == 400
    else:
        if isinstance(frame, Create):
            assert frame.size == len(data) and frame.value["stream"] is True
            assert not {"type", "generate", "background", "stream_id"} & frame.value.keys()
        else:
            assert isinstance(frame, Aside) and (not frame.reply or json.loads(frame.reply)["type"].endswith(".failed"))


@pytest.mark.parametrize("unit", ['{"a":0},', "[],", '"\\u00e9",'])
def test_reading_is_linear(unit: str) -> None:
    """Whatever a frame holds, and how often."""

    def make(size: int) -> Any:
        data = f'{{"type":"response.create","input":[{unit * size}0]}}'.encode()
        return lambda: read_frame(data)

    assert_linear(make, 200)


EVENTS = st.lists(
    st.tuples(st.sampled_from(("response.output_text.delta", "error", "")), JSON.map(json.dumps)), max_size=6
)
WAYS = {
    "ours": lambda name, data: encode_sse(name, data),
    "carriage returns": lambda name, data: encode_sse(name, data).replace(b"\n", b"\r\n"),
    "no space": lambda name, data: encode_sse(name, data).replace(b"data: ", b"data:"),
    "with a comment": lambda name, data: encode_comment("ping") + encode_sse(name, data),
}
"""How services write events, which may go through as they are."""


@given(events=EVENTS, way=st.sampled_from(sorted(WAYS)), cuts=st.lists(st.integers(0, 200), max_size=4))
def test_an_answer_is_the_same_however_it_is_cut(events: list[Any], way: str, cuts: list[int]) -> None:
    """A frame for each event but ``error``, with its data; however the service writes it."""
    stream = b"".join(WAYS[way](name, data) for name, data in events)
    places = [0, *sorted(cuts), len(stream)]
    frames = AnswerFrames(200, [])

    told = [text for start, end in itertools.pairwise(places) for text in frames.feed(stream[start:end])]

    assert [*told, *frames.flush()] == [data for name, data in events if name != "error"]


def test_an_error_is_one_frame() -> None:
    """With the status, a code where the API has none, and the headers that are about the error."""
    body = {"error": {"type": "server_error", "code": None, "message": "m", "param": None}}
    data = json.dumps(body).encode()
    frames = AnswerFrames(503, [(b"retry-after", b"1"), (b"content-length", b"%d" % len(data))])

    told = [*frames.feed(data[:9]), *frames.feed(data[9:]), *frames.flush()]

    assert [json.loads(text) for text in told] == [
        {
            "type": "error",
            "status": 503,
            "error": {**body["error"], "code": "server_error"},
            "headers": {"retry-after": "1"},
        }
    ]
