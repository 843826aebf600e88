"""Server-sent events whose data is JSON, and JSON lines."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import UpstreamProtocolError
from kiro_asgi.model.events import Notice
from kiro_asgi.upstreams.json_events import JsonEvent, JsonEvents, JsonLines
from tests.growth import assert_linear
from tests.helpers import run_apart

STREAM = (
    b'event: a\ndata: {"x":"\xc3\xa9"}\n\n: ping\n\ndata: nonsense\n\ndata:[1]\n\ndata: {"x":"\xff"}\n\n'
    b'data: {"y":1}\r\n\r\ndata: [DONE]\n\n'
)
EVENTS = [
    JsonEvent("a", {"x": "é"}),
    Notice("event.undecodable"),
    Notice("event.undecodable"),
    Notice("event.undecodable", "not UTF-8"),
    JsonEvent("message", {"y": 1}),
    JsonEvent("message", {}, done=True),
]


@given(st.lists(st.integers(0, len(STREAM))))
def test_it_does_not_matter_where_the_stream_is_cut(cuts: list[int]) -> None:
    """What is no object is passed over with a notice; the rest is whole, wherever the network cut it."""
    places = [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[a:b] for a, b in pairwise(places)]

    assert run_apart(JsonEvents(), chunks) == EVENTS


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_what_is_no_number_costs_nothing_beside_it(number: str) -> None:
    """Servers in Python write it into log probabilities; the text of the same event was lost."""
    data = b'data: {"text":"Hello","logprobs":%b}\n\n' % number.encode()

    assert run_apart(JsonEvents(), [data]) == [JsonEvent("message", {"text": "Hello", "logprobs": None})]
    assert run_apart(JsonLines(), [data[6:]]) == [{"text": "Hello", "logprobs": None}]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n", b""])
@pytest.mark.parametrize(
    ("last", "events"),
    [
        (b'event: b\ndata: {"z":1}', [JsonEvent("b", {"z": 1})]),
        (b"data: [DONE]", [JsonEvent("message", {}, done=True)]),
        (b'data: {"z":1', []),
        (b"event: b", []),
        (b"dat", []),
    ],
)
def test_the_last_event_needs_no_empty_line(last: bytes, end: bytes, events: list[JsonEvent]) -> None:
    """What is whole is read; what is cut says nothing, and what it lacks will be missed."""
    assert run_apart(JsonEvents(), [STREAM, last, end]) == EVENTS + events


LINES = b'{"x":"\xc3\xa9"}\n\n \r\nnonsense\r\n[1]\n{"y":1}\r\n'
OBJECTS = [{"x": "\u00e9"}, Notice("line.undecodable"), Notice("line.undecodable"), {"y": 1}]


@given(st.lists(st.integers(0, len(LINES))))
def test_it_does_not_matter_where_lines_are_cut(cuts: list[int]) -> None:
    """As of events."""
    places = [0, *sorted(cuts), len(LINES)]

    assert run_apart(JsonLines(), [LINES[a:b] for a, b in pairwise(places)]) == OBJECTS


@pytest.mark.parametrize(("last", "objects"), [(b'{"z":1}', [{"z": 1}]), (b'{"z":1', []), (b" ", [])])
def test_the_last_line_needs_no_end(last: bytes, objects: list[object]) -> None:
    """What is whole is read; half an object is none."""
    assert run_apart(JsonLines(), [LINES, last]) == OBJECTS + objects


@given(st.lists(st.binary(max_size=20)))
def test_lines_of_anything_raise_nothing(chunks: list[bytes]) -> None:
    """Whatever comes is an object, or a notice."""
    assert all(isinstance(item, dict | Notice) for item in run_apart(JsonLines(), chunks))


def test_a_line_has_a_largest_size() -> None:
    """Also one that comes in pieces and never ends."""
    stage = JsonLines(max_line=8)

    assert [*stage.feed([b"1234567", b"8\n"])] == [Notice("line.undecodable")]
    with pytest.raises(UpstreamProtocolError, match="line of the answer has more than 8 bytes"):
        [*stage.feed([b"12345678", b"9"])]


@pytest.mark.parametrize("piece", [b"x", b'{"a":1}\n', b"\n"])
def test_lines_take_linear_work(piece: bytes) -> None:
    """One long line in small pieces, many lines, and empty ones."""
    assert_linear(lambda size: lambda: [*JsonLines().feed([piece] * size)], 500)
