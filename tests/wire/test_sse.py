"""Server-sent events as the WHATWG standard reads them, and as they are written (F428, R16, R20, R24, R26)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.wire.sse import ServerSentEvent, SseDecoder, encode_comment, encode_sse
from tests.helpers import byte_by_byte, cut, run, run_apart
from tests.wire.strategies import outcome

Event = ServerSentEvent


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        pytest.param("data: a\n\n", [Event(data="a")], id="lf"),
        pytest.param("data: a\r\n\r\ndata: b\r\n\r\n", [Event(data="a"), Event(data="b")], id="crlf"),
        pytest.param("data: a\r\ndata: b\r\n\r\n", [Event(data="a\nb")], id="crlf-between-lines"),
        pytest.param("data: a\r\rdata: b\r\r", [Event(data="a"), Event(data="b")], id="cr"),
        pytest.param("data: a\r\n\rdata: b\n\r\n", [Event(data="a"), Event(data="b")], id="mixed"),
        pytest.param("data: YHOO\ndata: +2\ndata: 10\n\n", [Event(data="YHOO\n+2\n10")], id="standard-lines"),
        pytest.param(
            ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
            [Event(data="first event", id="1"), Event(data="second event"), Event(data=" third event")],
            id="standard-ids",
        ),
        pytest.param("data\n\ndata\ndata\n\ndata:", [Event(data=""), Event(data="\n")], id="standard-empty"),
        pytest.param("data:test\n\ndata: test\n\n", [Event(data="test"), Event(data="test")], id="standard-space"),
        pytest.param("event: add\ndata: 7\n\ndata: 8\n\n", [Event("add", "7"), Event(data="8")], id="name-resets"),
        pytest.param("event: x\n\ndata: 1\n\n", [Event(data="1")], id="name-without-data"),
        pytest.param("event\ndata: 1\n\n", [Event(data="1")], id="empty-name"),
        pytest.param(
            "id: 1\ndata: a\n\ndata: b\n\n", [Event(data="a", id="1"), Event(data="b", id="1")], id="id-stays"
        ),
        pytest.param("id: 1\n\nid: a\0b\ndata: x\n\n", [Event(data="x", id="1")], id="id-with-nul"),
        pytest.param("retry: 10\ndata: x\n\ndata: y\n\n", [Event(data="x", retry=10), Event(data="y")], id="retry"),
        pytest.param("retry: 1e3\ndata: x\n\n", [Event(data="x")], id="retry-not-digits"),
        pytest.param("retry: ١\ndata: x\n\n", [Event(data="x")], id="retry-not-ascii"),
        pytest.param(f"retry: {'9' * 5000}\ndata: x\n\n", [Event(data="x")], id="retry-endless"),
        pytest.param("DATA: x\n data: x\nfoo: x\n\n", [], id="unknown-fields"),
        pytest.param(":\n: data: x\n\n", [], id="comments"),
        pytest.param("data: [DONE]\n\n", [Event(data="[DONE]")], id="done"),
        pytest.param("data: a:b\n\n", [Event(data="a:b")], id="colon-in-value"),
        pytest.param("\ufeffdata: x\n\n", [Event(data="x")], id="byte-order-mark"),
        pytest.param("\ufeff\ufeffdata: x\n\n", [], id="second-byte-order-mark"),
        pytest.param("data: x\n\n\ufeffdata: y\n\n", [Event(data="x")], id="late-byte-order-mark"),
        pytest.param("data: a\u2028b\u0085c\x0cd\n\n", [Event(data="a\u2028b\u0085c\x0cd")], id="other-line-ends"),
        pytest.param("data: x\n", [], id="unterminated"),
        pytest.param("data: x", [], id="unterminated-line"),
        pytest.param("", [], id="nothing"),
    ],
)
def test_interpretation(stream: str, events: list[Event]) -> None:
    """F428: a stream means what the standard says, whole or byte by byte."""
    data = stream.encode()

    assert events == run(SseDecoder(), [data])
    assert events == run_apart(SseDecoder(), byte_by_byte(data))


def test_an_event_is_dispatched_by_its_last_byte() -> None:
    """A carriage return ends a line at once, whether or not a line feed follows."""
    decoder = SseDecoder()

    assert [Event(data="a")] == list(decoder.feed([b"data: a\r\n\r"]))
    assert list(decoder.feed([b""])) == []
    assert [Event(data="b")] == list(decoder.feed([b"\ndata: b\n\n"]))


def test_facts_about_the_stream_are_public() -> None:
    """The reconnection time holds at once, the last id from the next empty line on, even without data."""
    decoder = SseDecoder()

    list(decoder.feed([b"retry: 5\nid: 7\n"]))
    assert (decoder.retry, decoder.last_event_id) == (5, "")
    list(decoder.feed([b"\nid: 8\n"]))
    assert list(decoder.flush()) == []
    assert (decoder.retry, decoder.last_event_id) == (5, "7")


def interpret(data: bytes) -> list[Event]:
    """The standard's algorithm over the whole decoded text, one line after the other."""
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    *lines, _ = re.split("\r\n|\r|\n", text)
    events, last_id, name, buffer, retry = [], "", "", "", None
    for line in lines:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if buffer:
                events.append(Event(name or "message", buffer[:-1], last_id, retry))
            name, buffer, retry = "", "", None
        elif field == "data":
            buffer += value + "\n"
        elif field == "event":
            name = value
        elif field == "id" and "\0" not in value:
            last_id = value
        elif field == "retry" and re.fullmatch("[0-9]{1,15}", value):
            retry = int(value)
    return events


pieces = st.sampled_from(
    ["data", "event", "id", "retry", ":", " ", "\r", "\n", "\r\n", "\n\n", "é", "世", "😀", "\ufeff", "\0", "1", "x"]
).map(str.encode) | st.sampled_from([b"\xff", b"\xe4\xb8", b"\xf0\x9f\x98", b"\x80"])


@given(st.lists(pieces, max_size=30).map(b"".join), st.lists(st.integers(0, 200)))
def test_agrees_with_the_standard_however_it_is_cut(data: bytes, cuts: list[int]) -> None:
    """R16, R20, R25: any bytes, cut anywhere, mean what the algorithm says of the whole; bad UTF-8 becomes U+FFFD."""
    assert interpret(data) == run(SseDecoder(), [data]) == run_apart(SseDecoder(), cut(data, cuts))


def test_characters_survive_every_split() -> None:
    """R20: wherever a multilingual text is cut, no character is damaged."""
    text = "Grüße, 世界, мир, 👋🏽, مرحبا"
    data = encode_sse("", text)

    for place in range(len(data) + 1):
        assert [Event(data=text)] == run_apart(SseDecoder(), [data[:place], data[place:]]), place


@pytest.mark.parametrize(
    ("stream", "count"),
    [
        pytest.param(b"data: 7890\n\n", 1, id="at-the-cap"),
        pytest.param(b"data: 78901\n\n", 0, id="line-over"),
        pytest.param(b"data:\ndata:\ndata:\n\n", 0, id="lines-over"),
        pytest.param(b"data: 1\n\ndata: 2\n\ndata: 34567", 2, id="open-line-over"),
        pytest.param(b": 345678901\n", 0, id="comment-over"),
    ],
)
def test_an_event_is_capped(stream: bytes, count: int) -> None:
    """R24: an event larger than the cap is a typed error, not memory; those before it are delivered."""
    whole = outcome(SseDecoder(max_event=10), [stream])

    assert (count, None if stream.endswith(b"7890\n\n") else "sse.too_large") == (len(whole[0]), whole[1])
    assert whole == outcome(SseDecoder(max_event=10), byte_by_byte(stream))


def test_comments_do_not_pile_up() -> None:
    """Signs of life without an empty line after them do not count against an event."""
    assert ([Event(data="x")], None) == outcome(SseDecoder(max_event=10), [b": ping\n" * 100 + b"data: x\n\n"])


@pytest.mark.parametrize(
    ("event", "data", "wire"),
    [
        pytest.param("ping", b"{}", b"event: ping\ndata: {}\n\n", id="named"),
        pytest.param("", "[DONE]", b"data: [DONE]\n\n", id="unnamed"),
        pytest.param("", "a\r\nb\rc\nd\n", b"data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n", id="lines"),
        pytest.param("x", "a\rdata: b", b"event: x\ndata: a\ndata: data: b\n\n", id="carriage-return-alone"),
        pytest.param("", "é\ud800", b"data: \xc3\xa9?\n\n", id="surrogate"),
    ],
)
def test_encoding(event: str, data: bytes | str, wire: bytes) -> None:
    """An event is its name, a line of data per line, and an empty line."""
    assert wire == encode_sse(event, data)


@pytest.mark.parametrize("event", ["a\nb", "a\rb", "\n", "a\r\ndata: x"])
def test_a_name_cannot_inject_fields(event: str) -> None:
    """R26: a name with a line end is refused."""
    with pytest.raises(ValueError, match="line end"):
        encode_sse(event, b"x")


@given(st.text(st.characters(exclude_characters="\r\n", codec="utf-8")), st.text(st.characters(codec="utf-8")))
def test_what_is_written_is_one_event(event: str, data: str) -> None:
    """R26: whatever name and data hold, a reader sees exactly one event with them; comments are not seen."""
    (found,) = run(SseDecoder(), [encode_comment(data) + encode_sse(event, data) + encode_comment()])

    assert Event(event or "message", re.sub("\r\n|\r", "\n", data)) == found
