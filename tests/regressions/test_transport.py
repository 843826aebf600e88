"""How the bytes come makes no difference: for every upstream and every client API."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from tests.helpers import byte_by_byte
from tests.regressions.crossing import CHAT, CLIENTS, Client, Heard, both_ways, each_client, each_upstream, heard
from tests.regressions.speech import COUNTED, Call, Say, Think, framed, spoken, stream

PIECES = (Think("hm é"), Say("Hé 日"), Say("𝄞!"), Call("c1", "f", {"a": "é"}))
MEANT = Heard(
    "Hé 日𝄞!", "hm é", [("f", {"a": "é"})], ["c1"], order=["thinking", "text", "call"], end="call", usage=COUNTED
)


def between(events: list[Any], also: bytes) -> bytes:
    return also.join([b"", *map(framed, events), b""])


def in_lines(events: list[Any]) -> bytes:
    """Each event's data on many lines."""
    told = b""
    for event in events:
        data = event if type(event) is str else json.dumps(event, indent=1)
        name = f"event: {event['type']}\n" if "type" in event else ""
        told += (name + "".join(f"data: {line}\n" for line in data.split("\n")) + "\n").encode()
    return told


FORMS: dict[str, Callable[[list[Any]], bytes]] = {
    "usual": stream,
    "no-blank-behind-the-name": lambda events: stream(events).replace(b"data: ", b"data:"),
    "crlf": lambda events: stream(events).replace(b"\n", b"\r\n"),
    "cr": lambda events: stream(events).replace(b"\n", b"\r"),
    "byte-order-mark": lambda events: b"\xef\xbb\xbf" + stream(events),
    "data-of-many-lines": in_lines,
    "comments-between": lambda events: between(events, b": ping\n\n"),
    "fields-between": lambda events: between(events, b"id: 7\nretry: 10\nfoo\n\n"),
    "no-json-between": lambda events: between(events, b"data: {nonsense\n\n"),
    "no-utf8-between": lambda events: between(events, b"data: \xff\xc3\n\n"),
    "last-event-without-its-blank-line": lambda events: stream(events).removesuffix(b"\n"),
    "last-event-without-any-line-end": lambda events: stream(events).rstrip(b"\n"),
}


@pytest.mark.parametrize("cut", [True, False], ids=["byte-by-byte", "at-once"])
@pytest.mark.parametrize("form", FORMS)
@each_client
@each_upstream
def test_every_spelling_of_a_stream_says_the_same(upstream: str, client: Client, form: str, cut: bool) -> None:
    """§2.1, §3.8: split characters, line ends, joined data lines, a last line that does not end: nothing is lost."""
    data = FORMS[form](spoken(upstream, *PIECES, end="call"))

    assert heard(client, True, upstream, byte_by_byte(data) if cut else [data]) == MEANT


@both_ways
@each_client
def test_an_envelope_is_taken_off(client: Client, streamed: bool) -> None:
    """§2.1: objects that come wrapped in ``response`` are the same objects, streamed or in an array."""
    wrapped = [{"response": event, "traceId": "t"} for event in spoken("gemini", *PIECES, end="call")]
    expected = MEANT if streamed or client is not CHAT else evolve(MEANT, order=[])

    assert heard(client, streamed, "gemini", [stream(wrapped)]) == expected
    array = json.dumps(wrapped).encode()
    assert heard(client, streamed, "gemini", byte_by_byte(array), content_type="application/json") == expected


@each_upstream
def test_a_byte_that_is_no_character_costs_its_event(upstream: str) -> None:
    """§2.1: it is not fatal, and nobody is shown a character that the model never wrote."""
    data = stream(spoken(upstream, Say("a-X-b"), Say("c"))).replace(b"-X-", b"\xff")

    for client in CLIENTS:
        assert heard(client, True, upstream, [data]).text == "c"


@each_client
@each_upstream
def test_a_stream_that_ends_within_an_event(upstream: str, client: Client) -> None:
    """§2.1: wherever the last bytes are missing, the client is told that the answer failed, or has all of it."""
    data = stream(spoken(upstream, *PIECES, end="call"))
    whole = heard(client, True, upstream, [data])
    for end in [match.end() for match in re.finditer(rb"\n", data)] + [len(data) - 5, len(data) // 2]:
        found = heard(client, True, upstream, [data[:end]])
        assert found.end == "error" or found == whole or (found.text, found.calls) == (whole.text, whole.calls)
