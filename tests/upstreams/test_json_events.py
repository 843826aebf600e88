"""Server-sent events whose data is JSON."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model.events import Notice
from kiro_asgi.upstreams.json_events import JsonEvent, JsonEvents
from tests.helpers import run_apart

STREAM = (
    b'event: a\ndata: {"x":"\xc3\xa9"}\n\n: ping\n\ndata: nonsense\n\ndata:[1]\n\ndata: {"y":1}\r\n\r\ndata: [DONE]\n\n'
)
EVENTS = [
    JsonEvent("a", {"x": "é"}),
    Notice("event.undecodable"),
    Notice("event.undecodable"),
    JsonEvent("message", {"y": 1}),
    JsonEvent("message", {}, done=True),
]


@given(st.lists(st.integers(0, len(STREAM))))
def test_it_does_not_matter_where_the_stream_is_cut(cuts: list[int]) -> None:
    """What is no object is passed over with a notice; the rest is whole, wherever the network cut it."""
    places = [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[a:b] for a, b in pairwise(places)]

    assert run_apart(JsonEvents(), chunks) == EVENTS


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
