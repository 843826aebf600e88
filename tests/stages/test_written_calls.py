from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.limits import EXCERPT_CHARACTERS
from kiro_asgi.model.events import (
    Delta,
    Notice,
    SignatureDelta,
    Stop,
    StopReason,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCallFragment,
    ToolInputDelta,
)
from kiro_asgi.stages.tool_calls import ToolCallAssembler
from kiro_asgi.stages.written_calls import MCP_XML, WRITTEN, WrittenCalls, leaked_forms
from kiro_asgi.wire.json import loads
from tests.helpers import run, run_apart
from tests.stages.deltas import answers
from tests.stages.timing import assert_linear

CALL = '<mcp__a__b>{"x": 1}</mcp__a__b>'
NAMES = ("f", "mcp__a__b")
EVERY = (MCP_XML, *leaked_forms(NAMES))


def element(tag: str, name: str, inside: str = "", prefix: str = "") -> str:
    """One element of the notation with tags."""
    return f'<{prefix}{tag} name="{name}">{inside}</{prefix}{tag}>'


def wrapped(inside: str, prefix: str = "") -> str:
    return f"<{prefix}function_calls>{inside}</{prefix}function_calls>"


def told(texts: list[str], forms=(MCP_XML,), **options: object) -> list[object]:
    """Texts, joined, and calls as ``(id, name, input)``."""
    found: list[object] = []
    for item in run_apart(WrittenCalls(forms, **options), map(TextDelta, texts)):
        if type(item) is ToolCallFragment:
            assert item.stop
            found.append((item.call_id, item.name, item.input))
        elif type(item) is TextDelta and item.text:
            if found and isinstance(found[-1], str):
                found[-1] += item.text
            else:
                found.append(item.text)
    return found


def call(body: str = '{"x": 1}', name: str = "mcp__a__b", number: str = "") -> tuple[str, str, str]:
    return f"{name}-xml{number}", name, body


NOTE = Notice(WRITTEN, "mcp__a__b")


@pytest.mark.parametrize("pieces", [1, 3, 1000], ids=["letters", "threes", "whole"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(CALL, [call()], id="F226-F232"),
        pytest.param(f"a {CALL} b", ["a ", call(), " b"], id="F229-text-around-in-order"),
        pytest.param(CALL + CALL, [call(), call(number="-2")], id="F235-distinct-ids"),
        pytest.param(f"{CALL}\n{CALL}", [call(), "\n", call(number="-2")], id="F235-text-between"),
        pytest.param("<mcp__a__b>{}</mcp__a__c></mcp__a__b>", [call('"{}</mcp__a__c>"')], id="F229-its-own-close-tag"),
        pytest.param('<mcp__a__b>\n {"x":1} \n</mcp__a__b>', [call('\n {"x":1} \n')], id="F230-blanks"),
        pytest.param("<mcp__a__b>ls -l</mcp__a__b>", [call('"ls -l"')], id="F231"),
        pytest.param("<mcp__a__b></mcp__a__b>", [call("")], id="no-arguments"),
        pytest.param("a <mcp__a__b>{} b", ["a <mcp__a__b>{} b"], id="F234-unterminated"),
        pytest.param(f"<mcp__x__y> {CALL} z", ["<mcp__x__y> ", call(), " z"], id="a-call-behind-an-unterminated-one"),
        pytest.param("<mcp__a__b", ["<mcp__a__b"], id="half-an-open-tag"),
        pytest.param("a <mc", ["a <mc"], id="half-a-lead"),
        pytest.param("<mc<mcp__<" + CALL, ["<mc<mcp__<", call()], id="leads-that-are-none"),
        pytest.param('<mcp__a__b k="v">{}</mcp__a__b>', ['<mcp__a__b k="v">{}</mcp__a__b>'], id="attributes"),
        pytest.param("<mcp__a__b/>", ["<mcp__a__b/>"], id="closes-itself"),
        pytest.param("<mcp__>{}</mcp__>", ["<mcp__>{}</mcp__>"], id="no-name"),
        pytest.param(f"`{CALL}` {CALL}", [f"`{CALL}` ", call()], id="between-back-ticks"),
        pytest.param(f"```\n{CALL}\n```\n{CALL}", [f"```\n{CALL}\n```\n", call()], id="in-a-code-block"),
        pytest.param("if a < b: <mcp x>", ["if a < b: <mcp x>"], id="no-call"),
    ],
)
def test_the_bridge(text, expected, pieces):
    """Each complete element is a call, at its place in the text, however it is cut; anything else is text (§2.6).

    Nothing of it is text, wherever its marker is split (F227, F228).
    """
    assert told([text[at : at + pieces] for at in range(0, len(text), pieces)]) == expected


X = element("parameter", "x", "1\n2")
F = element("invoke", "f", X)

LEAKED = [
    pytest.param('[Called f with args: {"x": "]}"}]', [("f", '{"x": "]}"}')], id="called"),
    pytest.param('[Called tool f with {"x": {"y": "\\""}} ]', [("f", '{"x": {"y": "\\""}}')], id="called-tool"),
    pytest.param("[Tool call: f {}]", [("f", "{}")], id="tool-call"),
    pytest.param('[Tool call: f with arguments: {"x": 1}]', [("f", '{"x": 1}')], id="tool-call-with"),
    pytest.param(element("invoke", "f"), [("f", "{}")], id="invoke-without-parameters"),
    pytest.param(F, [("f", '{"x":"1\\n2"}')], id="invoke"),
    pytest.param(
        element("invoke", "f", f"\n{X}\n" + element("parameter", "y") + "\n"), [("f", '{"x":"1\\n2","y":""}')], id="two"
    ),
    pytest.param(
        wrapped(f"\n{F}\n" + element("invoke", "mcp__a__b") + "\n"),
        [("f", '{"x":"1\\n2"}'), ("mcp__a__b", "{}")],
        id="several",
    ),
    pytest.param(
        wrapped(element("invoke", "f", element("parameter", "x", "1", "antml:"), "antml:"), "antml:"),
        [("f", '{"x":"1"}')],
        id="prefixed",
    ),
]

STAYS = [
    pytest.param('[Called g with args: {"x": 1}]', id="no-such-tool"),
    pytest.param("[Called f with args: {x: 1}]", id="no-json"),
    pytest.param('[Called f with args: {"x": 1} and more]', id="more-behind-it"),
    pytest.param("[Called f with args: [1]]", id="no-object"),
    pytest.param("[Called f with args: {}", id="no-bracket"),
    pytest.param("[Called off] [Called f {}]", id="prose"),
    pytest.param(element("invoke", "g"), id="no-such-tool-invoked"),
    pytest.param(element("invoke", "f", "text"), id="no-parameters"),
    pytest.param(element("invoke", "f", X + "text"), id="text-behind-parameters"),
    pytest.param(element("invoke", "f", X + X), id="a-parameter-twice"),
    pytest.param(wrapped(""), id="nothing-wrapped"),
    pytest.param(wrapped(element("invoke", "f", "text") + "text"), id="text-wrapped"),
    pytest.param(f"`{F}`", id="between-back-ticks"),
]


@pytest.mark.parametrize("pieces", [1, 1000], ids=["letters", "whole"])
@pytest.mark.parametrize(("text", "calls"), LEAKED)
def test_leaked_calls(text, calls, pieces):
    """A call of a known tool with readable arguments is one, in each of the notations."""
    found = told([text[at : at + pieces] for at in range(0, len(text), pieces)], EVERY)

    assert [(name, arguments) for _, name, arguments in found] == calls
    assert found[0][0] == "f-text"


@pytest.mark.parametrize("text", STAYS)
def test_what_is_no_leaked_call(text):
    """Unknown tools, unreadable arguments and code stay text, to the letter."""
    assert told(list(text), EVERY) == [text]


@pytest.mark.parametrize(("text", "_"), LEAKED)
def test_leaked_calls_have_a_switch(text, _):
    """The bridge alone leaves other notations alone."""
    assert told(list(text)) == [text]


def test_a_failed_wrapper_does_not_hide_a_call():
    """Behind what turned out to be no call, the rest is searched again."""
    text = wrapped("prose" + F)

    assert told(list(text), EVERY) == ["<function_calls>prose", ("f-text", "f", '{"x":"1\\n2"}'), "</function_calls>"]


def test_thinking_is_not_searched():
    """What a model thinks about a call is no call."""
    assert run(WrittenCalls((MCP_XML,)), [ThinkingDelta(CALL)]) == [ThinkingDelta(CALL)]


@pytest.mark.parametrize(
    "between", [ThinkingDelta("t"), SignatureDelta("s"), ToolCallFragment("c", "f", "{}", stop=True)], ids=repr
)
@pytest.mark.parametrize("at", [3, 9, 20])
def test_content_interrupts(at, between):
    """Text that is held goes out before other content, as text: the rest of the call would come too late."""
    items = run(WrittenCalls((MCP_XML,)), [TextDelta(CALL[:at]), between, TextDelta(CALL[at:])])
    place = items.index(between)

    assert "".join(it.text for it in items[:place]) == CALL[:at]
    assert "".join(it.text for it in items[place + 1 :]) == CALL[at:]


@pytest.mark.parametrize("report", [TokenUsage(1), Notice("n")], ids=repr)
def test_reports_do_not_interrupt(report):
    """A report may come in the middle of a text, and passes what is held of it."""
    assert run(WrittenCalls((MCP_XML,)), [TextDelta(CALL[:9]), report, TextDelta(CALL[9:])]) == [
        report,
        NOTE,
        ToolCallFragment("mcp__a__b-xml", "mcp__a__b", '{"x": 1}', stop=True),
    ]


def test_plain_text_passes_as_it_is():
    """What begins no call is neither held nor copied."""
    stage, items = WrittenCalls(EVERY), [TextDelta("plain"), TextDelta(""), Stop(StopReason.END)]

    assert all(ours is theirs for ours, theirs in zip(stage.feed(items), items, strict=True))


@pytest.mark.parametrize("size", [1, 7, 5000])
def test_a_long_passage_is_text(size):
    """Beyond the cap nothing is waited for; what follows is searched as before."""
    body = "x" * 1000
    text = f"<mcp__a__b>{body}</mcp__a__b>{CALL}"
    limit = len(text) - len(CALL)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]

    assert told(pieces, longest=limit)[0] == call(f'"{body}"')
    assert told(pieces, longest=limit - 1) == [text.removesuffix(CALL), call()]


def test_a_text_about_calls_is_left_alone():
    """After many beginnings that came to nothing, the rest of the answer is not searched."""
    assert told(["<mcp__a b>" * 31 + CALL]) == ["<mcp__a b>" * 31, call()]
    assert told(["<mcp__a b>" * 32 + CALL]) == ["<mcp__a b>" * 32 + CALL]


@pytest.mark.parametrize("text", ["<mcp__a>", "<mcp__", "<", '[Called f with {"', "<function_calls>"])
def test_nonsense_takes_linear_time(text):
    """Beginnings without ends cost what their length costs."""
    assert_linear(lambda size: lambda: told([text * size], EVERY), 2000)


def test_the_cap():
    """One MiB (decisions 5.27)."""
    assert EXCERPT_CHARACTERS == 1024 * 1024


WHOLE = (CALL, F, wrapped(F), wrapped(""), "[Called f with {}]", "<mcp__a__b>", "</mcp__a__b>", "<mcp__", "[Called ")
PARTS = st.sampled_from([*WHOLE, "mcp__a__b>", "<", "{", "}", "]", '"', "`", "```", "\n", "text ", "é日🙂"])
TEXTS = st.lists(PARTS, max_size=12).map("".join)


@given(TEXTS, st.lists(st.integers(0, 999), max_size=8))
def test_cuts_do_not_matter(text, cuts):
    """The same texts and calls come of a text however it is cut."""
    places = [0, *sorted(at % (len(text) + 1) for at in cuts), len(text)]

    assert told([text[start:end] for start, end in pairwise(places)], EVERY) == told([text], EVERY)


@given(TEXTS)
def test_nothing_is_lost(text):
    """Without a complete call the text is what it was; with some, what is left around them is in order."""
    found = told(list(text), EVERY)
    around = [it for it in found if isinstance(it, str)]
    at = 0
    for piece in around:
        at = text.index(piece, at) + len(piece)
    if len(around) == len(found):
        assert "".join(around) == text


@given(answers())
def test_laws_with_anything_between(deltas):
    """Garbage never raises, everything but text passes in order, and each call that comes of it is an object."""
    items = run(WrittenCalls(EVERY), [*deltas, TextDelta(CALL)])

    def others(deltas: list[Delta]) -> list[Delta]:
        return [it for it in deltas if type(it) not in (TextDelta, ToolCallFragment) and it != NOTE]

    assert others(items) == others(deltas)
    opened = [it for it in run(ToolCallAssembler(), items) if type(it) is ToolInputDelta]
    assert all(isinstance(loads(it.json), dict) for it in opened)
