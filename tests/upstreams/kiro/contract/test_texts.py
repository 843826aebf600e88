"""Sanitised texts, and JSON that may be broken."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.upstreams.kiro.contract.answer import safe_parse_json
from kiro_asgi.upstreams.kiro.rules.texts import sanitize_text

OPEN, CLOSE = "<system-reminder>", "</system-reminder>"

ESCAPES = ("\x1b[", "31m", "\x1b]0;t", "\x1b\\")
PIECES = st.sampled_from(
    (OPEN, CLOSE, "<system-", "reminder>", "</system-", *"><\x07\x9b\x9c\x00\x85\n\t\ra é🗼\x1b", *ESCAPES)
)
NOISY = st.lists(PIECES | st.text(max_size=4), max_size=30).map("".join)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("\x1b[31mred\x1b[0m", "red", id="colour"),
        pytest.param("\x1b[38;5;196mred\x1b[K", "red", id="parameters"),
        pytest.param("\x1b[?25lhidden", "hidden", id="private-mode"),
        pytest.param("\x9b1mbold", "bold", id="one-character-introducer"),
        pytest.param("\x1b]0;title\x07text", "text", id="title-ended-by-bell"),
        pytest.param("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link", id="link"),
        pytest.param("\x1bPq#0;2\x1b\\text", "text", id="device-string"),
        pytest.param("\x1bMup\x1b7\x1b(Bset", "upset", id="single-character"),
        pytest.param("cut \x1b[3", "cut ", id="cut"),
        pytest.param("\x1b]no end", "no end", id="string-without-an-end"),
    ],
)
def test_escape_sequences_are_removed(text, expected):
    """Control sequences, strings and single-character escapes go, and nothing else (F407)."""
    assert sanitize_text(text) == expected


def test_control_characters_are_removed_but_three():
    """Both sets of control characters and DEL go; line feed, carriage return and tab stay (F408)."""
    controls = "".join(map(chr, [*range(0x20), 0x7F, *range(0x80, 0xA0)])).replace("\x1b", "").replace("\x9b", "")

    assert sanitize_text(f"a{controls}z") == "a\t\n\rz"
    assert sanitize_text("a\x1b") == "a"
    assert sanitize_text("a\x9b") == "a"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(f"a{OPEN}x\ny\n{CLOSE}b", "ab", id="several-lines"),
        pytest.param(f"{OPEN}1{CLOSE}a{OPEN}2{CLOSE}", "a", id="two"),
        pytest.param(f"a {OPEN} b", f"a {OPEN} b", id="never-closed"),
        pytest.param(f"a {CLOSE} b", f"a {CLOSE} b", id="never-opened"),
        pytest.param(f"{CLOSE}a{OPEN}", f"{CLOSE}a{OPEN}", id="wrong-way-round"),
        pytest.param(f"{OPEN}a {OPEN} b{CLOSE}c", "c", id="mentioned-inside"),
        pytest.param(f"<system-{OPEN}x{CLOSE}reminder>y{CLOSE}z", "z", id="joined-by-a-removal"),
        pytest.param("<system-rem\x1b[0minder>x</system-reminder>y", "y", id="split-by-a-sequence"),
    ],
)
def test_complete_reminder_blocks_are_removed(text, expected):
    """A block goes from its tag to the first closing one; what is not complete stays (F409, F410)."""
    assert sanitize_text(text) == expected


def test_reminder_blocks_may_stay():
    """The blocks are left alone on demand; the rest is done all the same (F409)."""
    assert sanitize_text(f"\x1b[1m{OPEN}x{CLOSE}", reminders=False) == f"{OPEN}x{CLOSE}"


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])))
def test_ordinary_text_stays(text):
    """Whatever has no control characters and no block is not touched (F411)."""
    assert sanitize_text(text) == text


@given(NOISY)
def test_sanitising_twice_is_sanitising_once(text):
    """What is left has nothing left to remove (F369)."""
    once = sanitize_text(text)

    assert sanitize_text(once) == once
    assert not set(once) & set(map(chr, [*range(9), 11, 12, *range(14, 32), *range(0x7F, 0xA0)]))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(OPEN * 20_000, id="opened"),
        pytest.param(OPEN * 20_000 + CLOSE, id="opened-and-closed"),
        pytest.param("<sys" * 9_000 + OPEN + "x" + CLOSE + f"tem-reminder>{CLOSE}" * 9_000, id="nested"),
        pytest.param("\x1b]" * 150_000, id="strings"),
        pytest.param("\x1b[" + "0" * 300_000, id="parameters"),
        pytest.param("\x9b" * 300_000, id="introducers"),
    ],
)
def test_the_time_is_linear(text):
    """A third of a megabyte made to be slow takes a fraction of a second."""
    begun = time.process_time()
    sanitize_text(text)

    assert time.process_time() - begun < 2


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(' {"a":1} ', {"a": 1}, id="white-space"),
        pytest.param("1\\", 1, id="dangling-backslash"),
        pytest.param('{"a":1}\\', {"a": 1}, id="object-and-backslash"),
        pytest.param("[1]\\u", [1], id="cut-escape"),
        pytest.param("[1]\\u0", [1], id="cut-escape-1"),
        pytest.param("[1]\\u00", [1], id="cut-escape-2"),
        pytest.param("[1, 2]", [1, 2], id="list"),
        pytest.param('"a"', "a", id="string"),
        pytest.param("1.5", 1.5, id="number"),
        pytest.param("true", True, id="true"),
        pytest.param("null", None, id="null"),
    ],
)
def test_json_is_parsed(value, expected):
    """Every kind of JSON, with white space around it or half an escape behind it (F393, F395, F397, F398)."""
    assert safe_parse_json(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("", id="empty"),
        pytest.param("  ", id="blank"),
        pytest.param("1\\\\", id="two-backslashes"),
        pytest.param('{"a": "b', id="cut"),
        pytest.param('"a\\u00', id="cut-in-a-string"),
        pytest.param(" sunny ", id="words"),
        pytest.param("NaN", id="nan"),
        pytest.param("[Infinity]", id="infinity"),
        pytest.param("1e999", id="overflow"),
        pytest.param("9" * 5000, id="too-many-digits"),
        pytest.param("[" * 100_000, id="deep"),
        pytest.param("[" * 5000 + "]" * 5000, id="deep-and-closed"),
    ],
)
def test_what_is_no_json_comes_back(value):
    """The very same object, white space and all (F394, F396, F399)."""
    assert safe_parse_json(value) is value


@given(st.text(st.sampled_from('{}[]"\\u01 \n:,aeN-.\ud800\udc00'), max_size=40) | st.text())
def test_parsing_never_fails(value):
    """Whatever the text, there is a value (F400, F401)."""
    safe_parse_json(value)
