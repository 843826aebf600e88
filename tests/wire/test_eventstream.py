"""Frames: the layout, the limits, and independence from read sizes (F091-F104, F106, F108, F456, R16)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import UpstreamProtocolError
from kiro_asgi.wire.eventstream import (
    Frame,
    FrameDecoder,
    Int8,
    Int16,
    Int32,
    Int64,
    Timestamp,
    decode_buffer,
    decode_frame,
    encode_frame,
)
from tests.helpers import byte_by_byte, cut, kiro_stream, run, run_apart
from tests.wire.strategies import frames

JSON_EVENT = {":message-type": "event", ":event-type": "assistantResponseEvent", ":content-type": "application/json"}
EXCEPTION = {
    ":message-type": "exception",
    ":exception-type": "ThrottlingException",
    ":content-type": "application/json",
}

EMPTY = bytes.fromhex(
    "00000010"  # total length 16
    "00000000"  # headers length 0
    "05c248eb"  # prelude checksum
    "7d98c8ff"  # message checksum
)

TEXT = bytes.fromhex(
    "0000007c"  # total length 124
    "0000005c"  # headers length 92
    "3bddcf78"  # prelude checksum
    "0d 3a6d6573736167652d74797065"  # 13, :message-type
    "07 0005 6576656e74"  # text, 5, event
    "0b 3a6576656e742d74797065"  # 11, :event-type
    "07 0016 617373697374616e74526573706f6e73654576656e74"  # text, 22, assistantResponseEvent
    "0d 3a636f6e74656e742d74797065"  # 13, :content-type
    "07 0010 6170706c69636174696f6e2f6a736f6e"  # text, 16, application/json
    "7b22636f6e74656e74223a224869227d"  # {"content":"Hi"}
    "09f66f51"  # message checksum
)

THROTTLED = bytes.fromhex(
    "00000096"  # total length 150
    "00000061"  # headers length 97
    "01d15c17"  # prelude checksum
    "0d 3a6d6573736167652d74797065"  # 13, :message-type
    "07 0009 657863657074696f6e"  # text, 9, exception
    "0f 3a657863657074696f6e2d74797065"  # 15, :exception-type
    "07 0013 5468726f74746c696e67457863657074696f6e"  # text, 19, ThrottlingException
    "0d 3a636f6e74656e742d74797065"  # 13, :content-type
    "07 0010 6170706c69636174696f6e2f6a736f6e"  # text, 16, application/json
    "7b226d657373616765223a22736c6f7720646f776e222c22726561736f6e223a6e756c6c7d"  # {"message":"slow down",…}
    "184e5f2c"  # message checksum
)

VECTORS = [
    pytest.param(EMPTY, Frame({}, b""), id="empty"),
    pytest.param(TEXT, Frame(JSON_EVENT, b'{"content":"Hi"}'), id="event"),
    pytest.param(THROTTLED, Frame(EXCEPTION, b'{"message":"slow down","reason":null}'), id="exception"),
]

EVERY_TYPE: list[Any] = [
    pytest.param(True, "00", id="true"),
    pytest.param(False, "01", id="false"),
    pytest.param(Int8(-1), "02 ff", id="int8"),
    pytest.param(Int16(-2), "03 fffe", id="int16"),
    pytest.param(Int32(1), "04 00000001", id="int32"),
    pytest.param(Int64(1), "05 0000000000000001", id="int64"),
    pytest.param(b"\x00\xff", "06 0002 00ff", id="bytes"),
    pytest.param("é", "07 0002 c3a9", id="text"),
    pytest.param(Timestamp(-1), "08 ffffffffffffffff", id="timestamp"),
    pytest.param(UUID(int=1), "09 00000000000000000000000000000001", id="uuid"),
]

STREAM = kiro_stream(
    ("assistantResponseEvent", {"content": "Grüße, 世界 👋"}),
    ("toolUseEvent", {"name": "read", "toolUseId": "tooluse_1", "input": '{"path": "}"}'}),
    ("meteringEvent", {"usage": 0.01}),
)


@pytest.mark.parametrize(("wire", "frame"), VECTORS)
def test_vectors_both_ways(wire: bytes, frame: Frame) -> None:
    """F091, F092, F094, F097, F098: a known frame decodes to its parts, and they encode to it."""
    assert [frame] == run(FrameDecoder(), [wire])
    assert wire == encode_frame(frame.headers, frame.payload)


@pytest.mark.parametrize(("value", "wire"), EVERY_TYPE)
def test_header_types_both_ways(value: Any, wire: str) -> None:
    """F095, F096: each of the ten types is read as its own Python type and written as it was; later headers parse."""
    data = encode_frame({"x": value, "after": "ok"}, b"")
    section = data[12:-4]

    assert section == b"\x01x" + bytes.fromhex(wire) + b"\x05after\x07\x00\x02ok"
    (frame,) = run(FrameDecoder(), [data])
    assert {"x": value, "after": "ok"} == frame.headers
    assert type(value) is type(frame.headers["x"])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(2**31 - 1, Int32(2**31 - 1), id="int-4"),
        pytest.param(2**31, Int64(2**31), id="int-8"),
        pytest.param(datetime(1970, 1, 1, 0, 0, 1, 5000, tzinfo=UTC), Timestamp(1005), id="datetime"),
        pytest.param(datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC), Timestamp(-1), id="before-1970"),
    ],
)
def test_plain_values_are_written_as_the_type_that_fits(value: Any, expected: Any) -> None:
    """An ``int`` takes four bytes or eight, a ``datetime`` becomes milliseconds."""
    (frame,) = run(FrameDecoder(), [encode_frame({"x": value})])

    assert expected == frame.headers["x"]
    assert type(expected) is type(frame.headers["x"])


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        pytest.param({"": "x"}, ValueError, id="empty-name"),
        pytest.param({"n" * 256: "x"}, ValueError, id="long-name"),
        pytest.param({"x": "v" * 32_768}, ValueError, id="long-text"),
        pytest.param({"x": b"v" * 32_768}, ValueError, id="long-bytes"),
        pytest.param({"x": Int8(128)}, ValueError, id="int8-overflow"),
        pytest.param({"x": Int16(-32_769)}, ValueError, id="int16-overflow"),
        pytest.param({"x": 2**63}, ValueError, id="int64-overflow"),
        pytest.param({str(i): True for i in range(1025)}, ValueError, id="too-many"),
        pytest.param({str(i): "v" * 32_767 for i in range(5)}, ValueError, id="section-too-long"),
        pytest.param({"x": 1.5}, TypeError, id="float"),
        pytest.param({"x": datetime(2020, 1, 1)}, TypeError, id="naive-datetime"),  # on purpose
    ],
)
def test_encoder_refuses_what_the_format_has_no_room_for(headers: Any, error: type[Exception]) -> None:
    """What a decoder would refuse is never written."""
    with pytest.raises(error):
        encode_frame(headers)


def test_largest_header_passes() -> None:
    """Limits are inclusive: a name of 255 bytes, a value of 32767, 1024 headers."""
    largest = {"n" * 255: "v" * 32_767} | {str(i): True for i in range(1023)}

    assert [Frame(largest, b"")] == run(FrameDecoder(), [encode_frame(largest)])


@pytest.mark.parametrize("size", [0, 1, 65_536])
def test_payload_is_what_was_encoded(size: int) -> None:
    """F097: payload bounds hold for every size."""
    payload = bytes(i % 251 for i in range(size))

    assert [Frame(JSON_EVENT, payload)] == run(FrameDecoder(), [encode_frame(JSON_EVENT, payload)])


@given(st.lists(frames, max_size=5))
def test_agrees_with_botocore(items: list[tuple[dict[str, Any], bytes]]) -> None:
    """Valid streams with every header type decode as in botocore (which leaves a uuid as bytes)."""
    wire = b"".join(encode_frame(headers, payload) for headers, payload in items)
    reference = EventStreamBuffer()
    reference.add_data(wire)

    expected = [(message.headers, message.payload) for message in reference]
    assert expected == [(_plain(frame.headers), frame.payload) for frame in run(FrameDecoder(), [wire])]


def _plain(headers: Any) -> dict[str, Any]:
    return {name: value.bytes if isinstance(value, UUID) else value for name, value in headers.items()}


def test_frames_appear_with_their_last_byte() -> None:
    """F102, F103: nothing before the last byte of a frame, one frame after it; frames of one read keep their order."""
    decoder = FrameDecoder()
    counts = [len(list(decoder.feed([byte]))) for byte in byte_by_byte(TEXT + EMPTY)]

    assert [i + 1 for i, count in enumerate(counts) if count] == [len(TEXT), len(TEXT) + len(EMPTY)]
    assert run(FrameDecoder(), [TEXT, EMPTY]) == run(FrameDecoder(), [TEXT + EMPTY])


@pytest.mark.parametrize("size", range(1, 12))
def test_small_reads(size: int) -> None:
    """R16: reads of 1 to 11 bytes give the same frames."""
    pieces = [STREAM[i : i + size] for i in range(0, len(STREAM), size)]

    assert run(FrameDecoder(), [STREAM]) == run_apart(FrameDecoder(), pieces)


def test_every_two_way_split() -> None:
    """F101, F104, R16: wherever a stream of three frames is cut in two, the frames are the same."""
    whole = run(FrameDecoder(), [STREAM])

    assert len(whole) == 3
    for place in range(len(STREAM) + 1):
        assert whole == run_apart(FrameDecoder(), [STREAM[:place], STREAM[place:]]), place


@given(st.lists(frames, max_size=4), st.lists(st.integers(0, 2000)))
def test_frames_do_not_depend_on_read_sizes(items: list[tuple[dict[str, Any], bytes]], cuts: list[int]) -> None:
    """F104, R16: any stream, cut anywhere, gives what was encoded."""
    wire = b"".join(encode_frame(headers, payload) for headers, payload in items)

    assert [Frame(*item) for item in items] == run_apart(FrameDecoder(), cut(wire, cuts))


@pytest.mark.parametrize("size", [1, 11, 12, 16, 123])
def test_torn_frame_is_reported_at_the_end(size: int) -> None:
    """F108: a stream that ends inside a frame delivers the frames before it and is an error at the end."""
    decoder = FrameDecoder()

    assert [Frame({}, b"")] == list(decoder.feed([EMPTY + TEXT[:size]]))
    with pytest.raises(UpstreamProtocolError) as info:
        list(decoder.flush())
    assert info.value.code == "frame.truncated"


def test_a_reader_that_stops_early_loses_no_frame() -> None:
    """Frames that were not asked for are still there the next time."""
    decoder = FrameDecoder()
    first = next(decoder.feed([TEXT + EMPTY + THROTTLED]))

    assert [first, *decoder.feed([b""])] == run(FrameDecoder(), [TEXT + EMPTY + THROTTLED])


def test_equal_headers_are_shared_and_read_only() -> None:
    """Headers sections are remembered by their bytes, so nobody may write to them."""
    one, other = run(FrameDecoder(), [TEXT + TEXT])

    assert one.headers is other.headers
    with pytest.raises(TypeError):
        one.headers["x"] = 1


def test_memory_of_the_decoder_is_bounded() -> None:
    """Neither ever new lengths nor ever new or large headers make a decoder grow."""
    decoder = FrameDecoder()
    wire = b"".join(encode_frame({"n": i}, b"x" * i) for i in range(1000)) + encode_frame({"n": "v" * 30_000})

    assert len(list(decoder.feed([wire]))) == 1001
    assert len(decoder._preludes) <= 128
    assert len(decoder._sections) <= 128
    assert max(map(len, decoder._sections)) <= 1024


def test_one_frame_at_a_time() -> None:
    """F456: the functional form gives a frame and the next offset, and nothing while bytes are missing."""
    wire = TEXT + EMPTY
    frame, offset = decode_frame(wire) or pytest.fail("no frame")

    assert (Frame(JSON_EVENT, b'{"content":"Hi"}'), len(TEXT)) == (frame, offset)
    assert (Frame({}, b""), len(wire)) == decode_frame(wire, offset)
    assert decode_frame(wire, len(wire)) is None
    assert all(decode_frame(TEXT[:size]) is None for size in range(len(TEXT)))


def test_a_buffer_at_a_time() -> None:
    """F102, F456: the functional form gives the complete frames and the bytes that remain."""
    assert ([Frame({}, b""), Frame({}, b"")], TEXT[:50]) == decode_buffer(EMPTY + EMPTY + TEXT[:50])
    assert decode_buffer(b"") == ([], b"")


DEFAULTS = ("unknown", "application/json", "event")


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param({}, DEFAULTS, id="none"),
        pytest.param({":event-type": "", ":content-type": "", ":message-type": ""}, DEFAULTS, id="empty"),
        pytest.param({":event-type": b"x", ":content-type": True, ":message-type": False}, DEFAULTS, id="no-texts"),
        pytest.param(
            {":event-type": "a", ":content-type": "text/plain", ":message-type": "error"},
            ("a", "text/plain", "error"),
            id="said",
        ),
    ],
)
def test_what_a_frame_says_of_itself(headers, expected):
    """F099: a frame whose headers do not say it is an event, of unknown type, in JSON."""
    (frame,) = run(FrameDecoder(), [encode_frame(headers, b"{}")])

    assert (frame.event_type, frame.content_type, frame.message_type) == expected
