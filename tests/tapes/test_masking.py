"""Secrets and prose leave, and nothing else changes: sizes, structure, frames."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kiro_asgi.redaction import Redactor
from kiro_asgi.tapes.masking import EVENT_STREAM, Protection, cover_shapes, mask, shown_headers, shown_url
from kiro_asgi.wire.eventstream import decode_buffer, encode_frame
from tests.growth import assert_linear

SECRET = "ksk_0123456789abcdef"
MASKING, COVERING = (Protection(Redactor.of((SECRET,)), is_masking=it) for it in (True, False))


@pytest.mark.parametrize(
    ("data", "masked"),
    [
        ('{"text":"Héllo 7"}', '{"text":"Xéxxx 1"}'),
        ('{"type":"text_delta","n":42,"ok":true}', '{"type":"text_delta","n":42,"ok":true}'),
        (
            r'{"input":"{\"city\": \"Graz\", \"n\": 20, \"b\": true}"}',
            r'{"input":"{\"xxxx\": \"Xxxx\", \"x\": 11, \"x\": true}"}',
        ),
        ('{"text":"<thinking>why</thinking>"}', '{"text":"<thinking>xxx</thinking>"}'),
        ('{"text":"\\u00e9\\ud83d\\ude80\\n"}', '{"text":"\\u4e2d\\ud83d\\ude00\\n"}'),
        ('{"what I said":1}', '{"xxxx X xxxx":1}'),
        ('{"bytes":"eyJ0ZXh0IjoiSMOpIn0="}', '{"bytes":"eyJ0ZXh0IjoiWMOpIn0="}'),
        ('{"bytes":"AAH/aGk="}', '{"bytes":"XXX/xXx="}'),
        ("event: ping\ndata: {}\n\n: some words\n", "event: ping\ndata: {}\n\n: xxxx xxxxx\n"),
        ('{"stopReason":"END_TURN"}', '{"stopReason":"END_TURN"}'),
        ('{"tool_choice":"auto","text":"auto pilot"}', '{"tool_choice":"auto","text":"xxxx xxxxx"}'),
        ("data: [DONE]\n\n", "data: [DONE]\n\n"),
        ('{"text":"cut in the midd', '{"text":"xxx xx xxx xxxx'),
        ("<html>Not a service</html>", "<xxxx>Xxx x xxxxxxx</xxxx>"),
    ],
)
def test_only_prose_changes(data, masked):
    """Letters and digits of texts; names of members, numbers, tags and escapes stay."""
    assert mask(data.encode()).decode() == masked


TEXTS = st.text(st.characters(codec="utf-8"), max_size=30)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=25)
@given(DOCUMENTS, st.booleans())
def test_a_masked_document_is_a_document_of_the_same_size(document, ascii_only):
    """It can be read, and the texts in it have no letter and no digit of their own."""
    data = json.dumps({"a": document}, ensure_ascii=ascii_only).encode()

    masked = mask(data)

    assert len(masked) == len(data)
    assert mask(masked) == masked
    json.loads(masked)


@settings(max_examples=25)
@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=4))
def test_anything_keeps_its_size_and_its_cuts(data, cuts):
    """Also garbage, as JSON and as frames."""
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    reads = [data[start:stop] for start, stop in pairwise(places)]
    for kind in (EVENT_STREAM, "application/json"):
        assert [*map(len, MASKING.protect_reads(reads, kind))] == [*map(len, reads)]


def test_a_changed_frame_is_sealed_again():
    """Its checksums are right; one that was wrong before stays wrong, and one that is cut stays cut."""
    frame = encode_frame({":event-type": "assistantResponseEvent"}, b'{"content":"my key is ' + SECRET.encode() + b'"}')
    torn = frame[:-1] + bytes([frame[-1] ^ 1])

    (one, other), rest = decode_buffer(MASKING.protect_frames(frame + frame + frame[:-9]))

    assert one == other and one.headers[":event-type"] == "assistantResponseEvent"
    assert json.loads(one.payload) == {"content": "xx xxx xx " + "*" * len(SECRET)}
    assert len(rest) == len(frame) - 9 and b"key" not in rest
    assert MASKING.protect_frames(torn)[-4:] == torn[-4:]
    assert SECRET.encode() in frame and SECRET.encode() not in COVERING.protect_frames(frame)


def test_secrets_go_by_what_is_known_and_by_their_looks():
    """Also where two reads cut them; names of headers say what is harmless."""
    shape = b"sk-ant-" + b"a1" * 12
    assert cover_shapes(b'{"k":"' + shape + b'"}') == b'{"k":"' + b"*" * len(shape) + b'"}'
    assert b"".join(COVERING.protect_reads([b"ksk_01234567", b"89abcdef!"], "text/plain")) == b"*" * len(SECRET) + b"!"
    assert shown_headers([(b"X-Api-Key", b"k"), (b"accept", b"a/b")], COVERING.cover) == [
        ["X-Api-Key", "(hidden, 1 bytes)"],
        ["accept", "a/b"],
    ]
    assert shown_headers([(b"x-api-key", b"(hidden, 17 bytes)")], COVERING.cover) == [
        ["x-api-key", "(hidden, 17 bytes)"]
    ]
    assert shown_url("/v1?alt=sse&key=abc#x", COVERING.cover) == "/v1?alt=sse&key=***#x"


def test_masking_is_linear():
    """Quotes, escapes and what begins like a secret cost no more than other bytes."""
    for piece in (b'"a', b"\\", b"sk-" + b"a" * 20, b"eyJaaaaaaaa.", b"-----BEGIN A-----", b'"\\u00e9" '):
        assert_linear(lambda size, piece=piece: lambda: MASKING.protect(piece * size), 200)
