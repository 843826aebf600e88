from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.config.gateway import REPAIR
from kiro_asgi.stages.parts.argument_text import MENDINGS, is_cut, parse_arguments
from kiro_asgi.wire.json import JsonError, loads
from tests.growth import assert_linear
from tests.stages.timing import assert_linear as assert_linear_time

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)
OBJECTS = st.dictionaries(st.text(max_size=5), JSON, min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("text", "value", "mended"),
    [
        pytest.param('{"a":"x\ny\tz"}', {"a": "x\ny\tz"}, ("control_characters",), id="line-break"),
        pytest.param('{"a":"\x00\x1f\r\b\f"}', {"a": "\x00\x1f\r\b\f"}, ("control_characters",), id="every-kind"),
        pytest.param('{"a\n":"\\\\\n\\"\n"}', {"a\n": '\\\n"\n'}, ("control_characters",), id="beside-escapes"),
        pytest.param('{"a":1,}', {"a": 1}, ("trailing_commas",), id="object"),
        pytest.param('{"a":[1,2 , ],\n}', {"a": [1, 2]}, ("trailing_commas",), id="both"),
        pytest.param('{"a":",]",}', {"a": ",]"}, ("trailing_commas",), id="not-in-strings"),
        pytest.param('\ufeff{"a":1}', {"a": 1}, ("byte_order_mark",), id="mark"),
        pytest.param(' \n\ufeff {"a":"\ufeff"}\ufeff', {"a": "\ufeff"}, ("byte_order_mark",), id="marks"),
        pytest.param('\ufeff{"a":"\n",}', {"a": "\n"}, ("byte_order_mark", *MENDINGS[:2]), id="all"),
        pytest.param('{"a":1}{"a":1}{"a":1}', {"a": 1}, ("repetitions",), id="three-times"),
        pytest.param('{}{ } {"a":{}}', {"a": {}}, ("repetitions",), id="behind-empty-ones"),
        pytest.param('{}{"a":1}{"a":1}', {"a": 1}, ("repetitions",), id="both-kinds"),
        pytest.param('{\n "a":\t1 }', {"a": 1}, (), id="white-space-is-none"),
        pytest.param('{"a":"\ufeff"}', {"a": "\ufeff"}, (), id="mark-within"),
    ],
)
def test_what_is_mended(text, value, mended):
    """What cannot have meant anything else is mended, by name, and each repair can be left out by it."""
    read = parse_arguments(text, MENDINGS)

    assert (read.value, read.mended) == (value, mended)
    assert json.loads(read.text) == value
    for name in mended:
        with pytest.raises(JsonError):
            parse_arguments(text, set(MENDINGS) - {name})


@pytest.mark.parametrize(
    "text",
    [
        "{'a':1}",
        "{a:1}",
        "{\"a\":'x'}",
        '{"a":"he said "hi""}',
        '{"a":}',
        '{"a":,}',
        "[,]",
        "[1,,]",
        "{,}",
        '{"a":1},',
        '{"a":1}}',
        '{"a":1]',
        '{"a":"\\\n"}',
        '{"a":NaN}',
        '{"a":tru}',
        "{}{}",
        '{"a":1}{"a":2}',
        '{"a":1}{"a":1}{"a":2}',
        "[" * 200 + "]" * 200,
        '{"a": 5" tall"}',
    ],
)
def test_what_is_not(text):
    """Whatever may mean several things stays as it is, and it is malformed, not cut."""
    with pytest.raises(JsonError):
        parse_arguments(text, MENDINGS)

    assert not is_cut(text, stopped=True)


def _spoiled(value: dict[str, object], places: list[int]) -> str:
    """*value* as JSON with everything in it that is mended."""
    text = json.dumps(value, ensure_ascii=False)
    text = re.sub(r"(?<!\\)((?:\\\\)*)\\([nt])", lambda it: it[1] + {"n": "\n", "t": "\t"}[it[2]], text)
    out, string = [], False
    for at, char in enumerate(text):
        if char == '"' and not re.search(r"(?<!\\)(\\\\)*\\$", text[:at]):
            string = not string
        if not string and char in "]}" and text[at - 1] not in "[{" and at % 3 in places:
            out.append(" ,\n")
        out.append(char)
    return "".join(out)


@given(OBJECTS, st.lists(st.integers(0, 2)))
def test_mending_gives_back_what_was_meant(value, places):
    """Control characters and commas come and go; the value stays."""
    assert parse_arguments(_spoiled(value, places), MENDINGS).value == value


@given(OBJECTS, st.lists(st.integers(0, 2)), st.integers(1, 10_000), st.booleans())
def test_every_beginning_of_an_object_is_cut(value, places, place, stopped):
    """Wherever arguments are cut, also such as have to be mended, they are called cut and never delivered."""
    text = _spoiled(value, places)
    text = text[: 1 + place % (len(text) - 1)]

    with pytest.raises(JsonError):
        parse_arguments(text, MENDINGS)
    assert is_cut(text, stopped=stopped)


@given(OBJECTS, st.text(min_size=1))
def test_what_stands_behind_an_object_is_no_cut(value, rest):
    """A whole value with something behind it is complete."""
    text = json.dumps(value) + rest
    try:
        loads(text)
    except JsonError:
        assert not is_cut(text, stopped=True)


@given(st.text())
def test_reading_never_fails_otherwise(text):
    """Any text can be read or not, and be cut or not."""
    try:
        read = parse_arguments(text, MENDINGS)
    except JsonError:
        assert is_cut(text, stopped=True) in (True, False)
    else:
        assert loads(read.text) == read.value


@pytest.mark.parametrize(
    ("text", "stopped", "cut"),
    [
        pytest.param("tru", False, True, id="a-word"),
        pytest.param("tru", True, False, id="a-word-that-is-called-complete"),
        pytest.param('"a', True, True, id="text"),
        pytest.param('{"a":"\\u12', True, True, id="escape"),
        pytest.param('{"a":"x }', True, True, id="brace-in-a-string-that-never-ends"),
        pytest.param('{"a":{"b":1}', True, True, id="inner-object"),
        pytest.param('\ufeff{"a":"x\n', True, True, id="with-what-would-be-mended"),
    ],
)
def test_cut_or_malformed(text, stopped, cut):
    """Only what more text could have completed is cut."""
    assert is_cut(text, stopped=stopped) == cut


@pytest.mark.parametrize("unit", ['"\n",', ",]", "{,", '"a', "\\\n", ", \n", "[ ", "\ufeff"])
def test_mending_takes_linear_time(unit):
    """R24: more text takes proportionally longer, in steps of Python and within regular expressions."""

    def make(size: int) -> Callable[[], object]:
        return partial(_judge, '{"a":[' + unit * size)

    assert_linear(make, 500)
    assert_linear_time(make, 20_000)


def _judge(text: str) -> bool:
    try:
        parse_arguments(text, MENDINGS)
    except JsonError:
        return is_cut(text, stopped=True)
    return False


def test_every_repair_can_be_named_in_the_settings():
    """``tools.repairs_off`` knows exactly these."""
    assert all(map(REPAIR.fits, MENDINGS))
    assert not REPAIR.fits("single_quotes")
    assert all(name in REPAIR.words for name in MENDINGS)
