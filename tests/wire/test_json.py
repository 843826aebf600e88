"""JSON at the edges: what is refused, what is repaired, and that all output is strict (R19, R20, R21)."""

from __future__ import annotations

import json as reference
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.limits import JSON_VALUES
from kiro_asgi.wire import json
from kiro_asgi.wire.json import JsonError, count_of

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10)
surrogates = st.integers(0xD800, 0xDFFF).map(chr) | st.sampled_from("\ud83d\ude00")
wild_text = st.lists(st.characters() | surrogates | st.sampled_from('"\\\n\0ud8'), max_size=20).map("".join)


def repaired(text: str) -> str:
    """*text* with pairs of surrogates joined and single ones replaced, the slow and obvious way."""
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in joined)


def strict(data: bytes) -> Any:
    """Parse like a parser that takes RFC 8259 and nothing more."""

    def refuse(word: str) -> Any:
        raise AssertionError(word)

    return reference.loads(data.decode("utf-8", "strict"), parse_constant=refuse)


@given(values)
def test_round_trip(value: Any) -> None:
    """What was dumped loads as it was, and is compact."""
    data = json.dumps(value)

    assert value == json.loads(data) == json.loads(data.decode()) == strict(data)
    assert data == reference.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(b"", "json.invalid", id="empty"),
        pytest.param(b" ", "json.invalid", id="blank"),
        pytest.param(b"{", "json.invalid", id="cut"),
        pytest.param(b'"' + b'\\"' * 1000, "json.invalid", id="cut-in-escapes"),
        pytest.param(b"{} x", "json.invalid", id="extra-data"),
        pytest.param(b"{'a':1}", "json.invalid", id="single-quotes"),
        pytest.param(b'"\n"', "json.invalid", id="raw-control-character"),
        pytest.param(b'"\\ud8"', "json.invalid", id="cut-escape"),
        pytest.param(b"NaN", "json.invalid", id="nan"),
        pytest.param(b'{"a":Infinity}', "json.invalid", id="infinity"),
        pytest.param(b"[-Infinity]", "json.invalid", id="minus-infinity"),
        pytest.param(b"1e400", "json.invalid", id="1e400"),
        pytest.param(b"[-1e400]", "json.invalid", id="minus-1e400"),
        pytest.param(b"9" * 5000, "json.invalid", id="5000-digits"),
        pytest.param(b'"\xff"', "json.not_utf8", id="bad-byte"),
        pytest.param(b'"\xed\xa0\x80"', "json.not_utf8", id="surrogate-bytes"),
        pytest.param('{"a":1}'.encode("utf-16"), "json.not_utf8", id="utf-16"),
        pytest.param(b"[" * 100_000, "json.too_deep", id="deep-arrays"),
        pytest.param(b'{"a":' * 100_000, "json.too_deep", id="deep-objects"),
        pytest.param(b"[" * 129 + b"]" * 129, "json.too_deep", id="depth-129"),
        pytest.param(b'["\\"[",' * 129 + b"1" + b"]" * 129, "json.too_deep", id="depth-129-with-strings"),
        pytest.param(b"[[]," + b"[" * 128 + b"]" * 129, "json.too_deep", id="depth-129-with-a-sibling"),
        pytest.param(b"[" * 128 + b"[],[]" + b"]" * 128, "json.too_deep", id="depth-129-with-a-sibling-inside"),
        pytest.param("[" * 129, "json.too_deep", id="text"),
    ],
)
def test_refused(data: bytes | str, code: str) -> None:
    """R19, R20, R21: whatever is not strict JSON of bounded depth is one typed error."""
    with pytest.raises(JsonError) as info:
        json.loads(data)
    assert code == info.value.code
    assert info.value.status == 400


@pytest.mark.parametrize(
    ("data", "value"),
    [
        pytest.param(b"[" * 128 + b"]" * 128, None, id="depth-128"),
        pytest.param(b"[[]," + b"[" * 127 + b"]" * 128, None, id="depth-128-with-a-sibling"),
        pytest.param(b"[" * 127 + b"[],[]" + b"]" * 127, None, id="depth-128-with-a-sibling-inside"),
        pytest.param(b'{"a":[],"b":' * 64 + b'{"c":[' + b"]}" + b"}" * 64, None, id="depth-66-with-siblings"),
        pytest.param(b"[" + b",".join([b"[]"] * 1000) + b"]", None, id="wide"),
        pytest.param(b'"' + b"[{" * 1000 + b'"', "[{" * 1000, id="brackets-in-a-string"),
        pytest.param(b'["\\\\", "' + b"[" * 200 + b'"]', ["\\", "[" * 200], id="brackets-after-an-escape"),
        pytest.param(b'["\\"", "' + b"[" * 200 + b'"]', ['"', "[" * 200], id="brackets-after-a-quote"),
        pytest.param(b"\xef\xbb\xbf{}", {}, id="byte-order-mark"),
        pytest.param("\ufeff{}", {}, id="byte-order-mark-in-text"),
        pytest.param(b" \t\r\n1 \n", 1, id="white-space"),
        pytest.param(b'{"a":1,"a":2}', {"a": 2}, id="last-key-wins"),
        pytest.param(b"1e308", 1e308, id="large-float"),
        pytest.param(b'"\\ud83d\\ude00"', "😀", id="pair"),
        pytest.param(b'"\\uD83D\\uDE00"', "😀", id="pair-upper-case"),
        pytest.param(b'"\\ud83d"', "\ufffd", id="high-alone"),
        pytest.param(b'"\\ude00\\ud83d"', "\ufffd\ufffd", id="wrong-order"),
        pytest.param(b'"\\ud83d\\ud83d\\ude00"', "\ufffd😀", id="high-before-a-pair"),
        pytest.param(b'{"\\uDC00":1}', {"\ufffd": 1}, id="in-a-key"),
        pytest.param(b'"\\\\ud83d"', "\\ud83d", id="not-an-escape"),
        pytest.param('"\ud800"', "\ufffd", id="raw-in-text"),
    ],
)
def test_accepted(data: bytes | str, value: Any) -> None:
    """R19, R21: the limits are inclusive, and what can be repaired is."""
    loaded = json.loads(data)

    assert loaded == (reference.loads(data) if value is None else value)
    assert loaded == strict(json.dumps(loaded))


def test_size_is_bounded() -> None:
    """The size limit counts UTF-8 bytes, whether bytes or text are given, and is inclusive."""
    assert "ééé" == json.loads('"ééé"', max_bytes=8) == json.loads('"ééé"'.encode(), max_bytes=8)
    for data in ('"ééé"', '"ééé"'.encode(), b'"123456"'):
        with pytest.raises(JsonError) as info:
            json.loads(data, max_bytes=7)
        assert info.value.code == "json.too_large"


VALUE_SHAPES = [
    pytest.param(lambda count: b"[" + b",".join([b"1"] * count) + b"]", id="elements"),
    pytest.param(lambda count: b"{" + b",".join(b'"%d":1' % at for at in range(count)) + b"}", id="members"),
    pytest.param(lambda count: b"[" + b",".join([b'"a,[{\\",\\\\"'] * count) + b"]", id="texts"),
    pytest.param(lambda count: b"[" + b",".join([b"[0]"] * (count // 2)) + b"]", id="arrays"),
]


@pytest.mark.parametrize("shape", VALUE_SHAPES)
def test_values_are_counted(shape: Callable[[int], bytes]) -> None:
    """As many values as allowed are taken; commas and brackets in texts are none of them."""
    json.loads(shape(JSON_VALUES - 2))
    with pytest.raises(JsonError, match=str(JSON_VALUES)) as caught:
        json.loads(shape(JSON_VALUES + 2))

    assert caught.value.code == "json.too_many_values"


@pytest.mark.parametrize("data", [b'""' * 3 * JSON_VALUES + b"[" * 200, b'["",' * 3 * JSON_VALUES])
def test_what_is_counted_takes_little_memory(data: bytes) -> None:
    """Strings beyond number are refused before each of them is an object."""
    tracemalloc.start()
    try:
        with pytest.raises(JsonError, match="values"):
            json.loads(data)
        assert tracemalloc.get_traced_memory()[1] <= 4 * len(data)
    finally:
        tracemalloc.stop()


def test_depth_is_a_setting() -> None:
    """A caller that allows more than the interpreter can nest gets the typed error too."""
    assert json.loads(b"[[]]", max_depth=2) == [[]]
    for data, depth in ((b"[[]]", 1), (b"[" * 100_000 + b"]" * 100_000, 10**6)):
        with pytest.raises(JsonError) as info:
            json.loads(data, max_depth=depth)
        assert info.value.code == "json.too_deep"


@given(wild_text)
def test_surrogates_never_get_through(text: str) -> None:
    """R21: from escapes or from text, single surrogates become U+FFFD, and pairs become their character."""
    expected = repaired(text)

    assert {expected: [expected]} == json.loads(reference.dumps({text: [text]}).encode())
    assert expected == strict(json.dumps(text)) == strict(json.quote_bytes(text)) == strict(json.quote(text).encode())


@given(st.binary(max_size=60) | st.text('[]{}",:\\ud8 1e-.', max_size=60).map(str.encode))
def test_anything_is_a_value_or_a_typed_error(data: bytes) -> None:
    """R19-R21: no other exception escapes, and every value can be written again."""
    try:
        value = json.loads(data, max_depth=3)
    except JsonError:
        return
    assert value == strict(json.dumps(value))


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        pytest.param("", '""', id="empty"),
        pytest.param('a"b\\c', '"a\\"b\\\\c"', id="escapes"),
        pytest.param("\r\n\0\x1f", '"\\r\\n\\u0000\\u001f"', id="control-characters"),
        pytest.param("é😀\u2028", '"é😀\u2028"', id="raw-beyond-ascii"),
    ],
)
def test_quote(text: str, literal: str) -> None:
    """R26: a literal holds no raw line end, and characters beyond ASCII stand for themselves."""
    assert literal == json.quote(text)
    assert literal.encode() == json.quote_bytes(text) == json.dumps(text)


def test_a_structure_without_end_is_never_written() -> None:
    """A list or an object that contains itself is told apart from one that is written twice."""
    endless: list[Any] = []
    endless.append({"again": endless})

    with pytest.raises(ValueError, match="contains itself"):
        json.dumps(endless)
    twice: list[Any] = [1]
    assert json.dumps([twice, twice]) == b"[[1],[1]]"


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_never_written(number: float) -> None:
    """R21: there is no JSON for them."""
    with pytest.raises(ValueError, match="JSON compliant"):
        json.dumps([number])


@pytest.mark.parametrize(
    ("value", "tokens"),
    [
        (12, 12),
        (12.0, 12),
        (0.0, 0),
        (12.5, None),
        (-1.0, None),
        (1e300, None),
        (True, None),
        ("12", None),
        (None, None),
    ],
)
def test_a_count_is_a_count_however_it_is_written(value: Any, tokens: int | None) -> None:
    """Some services write ``12.0``, which is the same number in JSON; nothing that is none becomes one."""
    assert count_of({"n": value}, "n") == tokens
    assert type(count_of({"n": value}, "n")) is type(tokens)
