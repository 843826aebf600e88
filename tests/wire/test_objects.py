"""JSON objects in noise (F109-F122, R16, R19, R20, R24)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import UpstreamProtocolError
from kiro_asgi.wire import json
from kiro_asgi.wire.objects import PREFIXES, ObjectScanner
from tests.helpers import byte_by_byte, cut, kiro_stream, run, run_apart
from tests.wire.strategies import outcome

EVENTS: list[tuple[str, dict[str, Any]]] = [
    ("assistantResponseEvent", {"content": 'Grüße, 世界 👋 } { " \\'}),
    ("toolUseEvent", {"name": "read", "toolUseId": "1", "input": {"a": [{"b": {}}]}}),
    ("toolUseEvent", {"stop": True, "name": "read", "toolUseId": "1"}),
    ("meteringEvent", {"usage": 0.01, "unit": "credit"}),
]
STREAM = kiro_stream(*EVENTS)


@pytest.mark.parametrize(
    ("data", "objects"),
    [
        pytest.param('{"content":"a"}', [{"content": "a"}], id="F110-content"),
        pytest.param('{"name":"read"}', [{"name": "read"}], id="F111-name"),
        pytest.param('{"input":"{}"}', [{"input": "{}"}], id="F112-input"),
        pytest.param('{"stop":true}', [{"stop": True}], id="F113-stop"),
        pytest.param('{"followupPrompt":{"content":"x"}}', [{"followupPrompt": {"content": "x"}}], id="F114-followup"),
        pytest.param('{"usage":1}', [{"usage": 1}], id="F115-usage"),
        pytest.param('{"contextUsagePercentage":1.5}', [{"contextUsagePercentage": 1.5}], id="F116-context"),
        pytest.param('{"input":{"a":{"b":{}}}} }', [{"input": {"a": {"b": {}}}}], id="F117-outermost-brace"),
        pytest.param(r'{"content":"a } \" { b"}', [{"content": 'a } " { b'}], id="F118-braces-in-strings"),
        pytest.param(r'{"content":"\\"}{"stop":1}', [{"content": "\\"}, {"stop": 1}], id="F118-escaped-backslash"),
        pytest.param('{"stop":1}{"content":"a"}', [{"stop": 1}, {"content": "a"}], id="earliest-position-first"),
        pytest.param('{"usage":x}{"content":"a"}', [{"content": "a"}], id="F120-bad-object-skipped"),
        pytest.param('{"content":1e999}{"content":"a"}', [{"content": "a"}], id="F120-infinity-skipped"),
        pytest.param('{"contentX":1}{"other":{"content":"a"}}', [{"content": "a"}], id="inner-object-of-a-stranger"),
        pytest.param('\0\x0b:{"{"conte{"content":"a"}\x7f"', [{"content": "a"}], id="F122-noise"),
        pytest.param("no objects { here }", [], id="nothing"),
    ],
)
def test_objects_are_found(data: str, objects: list[dict[str, Any]]) -> None:
    """F110-F122: known beginnings are recognised, ends are where braces balance, the rest is dropped."""
    assert objects == run(ObjectScanner(), [data.encode()])
    assert objects == run_apart(ObjectScanner(), byte_by_byte(data.encode()))


def test_objects_between_binary_frames() -> None:
    """F122: framed bytes, read without looking at the frames, give the payloads."""
    assert [payload for _, payload in EVENTS] == run(ObjectScanner(), [STREAM])


def test_every_two_way_split() -> None:
    """F109, F119, R16, R20: wherever the stream is cut, multi-byte characters included, the objects are the same."""
    whole = run(ObjectScanner(), [STREAM])

    for place in range(len(STREAM) + 1):
        assert whole == run_apart(ObjectScanner(), [STREAM[:place], STREAM[place:]]), place


tokens = st.sampled_from([*PREFIXES, b"{", b"}", b'"', b"\\", b'"a"', b"1", b" ", b",", b":", b"\xff", "é".encode()])


@given(st.lists(tokens, max_size=30).map(b"".join), st.lists(st.integers(0, 300)))
def test_objects_do_not_depend_on_read_sizes(data: bytes, cuts: list[int]) -> None:
    """F109, R25: objects or a typed error, the same for whole, cut and single bytes; so is the count of the skipped."""
    scanners = [ObjectScanner(max_object=60) for _ in range(3)]
    whole, parts, single = map(outcome, scanners, ([data], cut(data, cuts), byte_by_byte(data)))

    assert whole == parts == single
    if whole[1] != "object.too_large":
        assert scanners[0].skipped == scanners[1].skipped == scanners[2].skipped


def test_an_incomplete_object_waits() -> None:
    """F119: nothing before the closing brace, everything with it; a stream that ends earlier is an error."""
    scanner = ObjectScanner()

    assert list(scanner.feed([b'noise {"content":"a'])) == []
    with pytest.raises(UpstreamProtocolError) as info:
        list(scanner.flush())
    assert info.value.code == "object.truncated"
    assert list(scanner.feed([b'b"} {"conte'])) == [{"content": "ab"}]
    assert list(scanner.flush()) == []


def test_skipped_objects_are_counted() -> None:
    """F120, R19: bad and bottomless objects are dropped and counted, those after them are found."""
    scanner = ObjectScanner()
    deep = b'{"input":' * 1000 + b"1" + b"}" * 1000

    assert run(scanner, [b'{"content":}' + deep + b'{"stop":1}']) == [{"stop": 1}]
    assert scanner.skipped == 2


def test_damaged_characters_do_not_cost_the_object() -> None:
    """R20: a byte that is not UTF-8 becomes U+FFFD."""
    assert run(ObjectScanner(), [b'{"content":"a\xffb"}']) == [{"content": "a\ufffdb"}]


def test_junk_is_not_kept() -> None:
    """F121: of what belongs to no object only a possible beginning stays."""
    scanner = ObjectScanner()
    for chunk in (b'{"content":"a"}' * 10, b"x{" * 10_000, b"\0" * 10_000):
        list(scanner.feed([chunk]))
        assert len(scanner._buffer) - scanner._start < max(map(len, PREFIXES))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(
            b'{"stop":1}{"content":"78901234567"}', ([{"stop": 1}, {"content": "78901234567"}], None), id="at"
        ),
        pytest.param(b'{"stop":1}{"content":"789012345678"}', ([{"stop": 1}], "object.too_large"), id="over"),
        pytest.param(b'{"stop":1}{"content":"789012345678901', ([{"stop": 1}], "object.too_large"), id="open"),
    ],
)
def test_an_object_is_capped(data: bytes, expected: Any) -> None:
    """R24: an object larger than the cap is a typed error, not memory; those before it are delivered."""
    assert expected == outcome(ObjectScanner(max_object=25), [data])
    assert expected == outcome(ObjectScanner(max_object=25), byte_by_byte(data))


def test_beginnings_are_a_setting() -> None:
    """Another service's objects are found by their own first keys."""
    assert run(ObjectScanner(prefixes=(b'{"type":',)), [b'{"content":1}{"type":"x"}']) == [{"type": "x"}]


@given(st.recursive(st.text() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_any_object_is_found_whole(value: Any) -> None:
    """F117, F118: whatever an object holds, it ends where it ends."""
    wire = json.dumps({"content": value})

    assert [{"content": value}] * 2 == run(ObjectScanner(), [b'}"' + wire + b'{"' + wire + b"\\"])
