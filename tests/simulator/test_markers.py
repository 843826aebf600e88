"""Every marker does what its row says."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from attrs import frozen

from kiro_asgi.simulator import FORMAT_MARKERS, MARKERS, markers_as_markdown
from kiro_asgi.simulator.answers import CUT_INPUT, SENTENCE, THOUGHT, UNICODE
from kiro_asgi.simulator.conversation import Conversation, OfferedTool
from kiro_asgi.simulator.kiro.faults import REFUSALS
from kiro_asgi.simulator.markers import find_markers, play
from kiro_asgi.simulator.pieces import CallPart
from kiro_asgi.simulator.scripts import sign
from tests.simulator.asking import Answer, ask, call, prompt, tool

TEXT = "assistantResponseEvent"
TRAILERS = ["metadataEvent", "contextUsageEvent", "meteringEvent"]
HALF = SENTENCE[: len("This is a simulated answer,")]
SILENCE = 0.3
"""Seconds after which the tests take silence for silence."""

Check = Callable[[Answer], bool]


@frozen
class Sees:
    """What the client must see: the ending, the frame types, and a condition."""

    check: Check
    types: list[str] | None = None
    ending: str = "complete"
    status: int = 200
    ask: str = ""
    """What is asked beside the marker."""

    parameter: str = ""


def _inputs(answer: Answer) -> list[dict[str, object]]:
    return [json.loads(raw) for _, raw, stopped in answer.calls.values() if stopped]


ANSWERS = {
    "text": Sees(lambda a: a.text == SENTENCE and a.stop_reason == "END_TURN", [TEXT, *TRAILERS]),
    "thinking": Sees(
        lambda a: (
            (a.thoughts, a.text) == (THOUGHT, SENTENCE)
            and sign(THOUGHT) in [payload.get("signature") for _, payload in a.frames]
        ),
        ["reasoningContentEvent", TEXT, *TRAILERS],
    ),
    "tagged": Sees(lambda a: a.text == f"<thinking>{THOUGHT}</thinking>\n\n{SENTENCE}", [TEXT, *TRAILERS]),
    "redacted": Sees(lambda a: a.frames[0][1] == {"redactedContent": "c2VhbGVk"} and a.text == SENTENCE),
    "thinking-only": Sees(lambda a: a.text == "" and a.thoughts == THOUGHT, ["reasoningContentEvent", *TRAILERS]),
    "tool": Sees(
        lambda a: _inputs(a) == [{"city": "Oslo"}] and a.stop_reason == "TOOL_USE", [TEXT, "toolUseEvent", *TRAILERS]
    ),
    "thinking-tool": Sees(
        lambda a: a.thoughts == THOUGHT and _inputs(a) == [{"city": "Oslo"}],
        ["reasoningContentEvent", "toolUseEvent", *TRAILERS],
    ),
    "parallel": Sees(
        lambda a: _inputs(a) == [{"city": "Oslo"}, {"city": "Oslo 2"}, {"city": "Oslo 3"}],
        [TEXT, "toolUseEvent", *TRAILERS],
        parameter="3",
    ),
    "interleaved": Sees(
        lambda a: (
            _inputs(a) == [{"city": "Oslo"}, {"city": "Oslo 2"}]
            and a.frames[0][1]["toolUseId"] == a.frames[2][1]["toolUseId"] != a.frames[1][1]["toolUseId"]
        ),
        ["toolUseEvent", *TRAILERS],
    ),
    "cut-tool": Sees(lambda a: [*a.calls.values()] == [("get_weather", CUT_INPUT, False)], [TEXT, "toolUseEvent"]),
    "null-tool": Sees(lambda a: [*a.calls.values()] == [("get_weather", "null", True)], ["toolUseEvent", *TRAILERS]),
    "bad-tool-json": Sees(
        lambda a: [*a.calls.values()] == [("get_weather", CUT_INPUT, True)], [TEXT, "toolUseEvent", *TRAILERS]
    ),
    "unicode": Sees(lambda a: a.text == UNICODE and max(map(len, a.chunks)) == 7, [TEXT, *TRAILERS]),
    "length": Sees(lambda a: a.stop_reason == "MAX_TOKENS" and SENTENCE.startswith(a.text)),
    "stop-sequence": Sees(lambda a: a.stop_reason == "STOP_SEQUENCE"),
    "filtered": Sees(lambda a: a.stop_reason == "CONTENT_FILTERED"),
    "context-full": Sees(
        lambda a: ("contextUsageEvent", {"contextUsagePercentage": 100.0}) in a.frames,
        [TEXT, "contextUsageEvent", "meteringEvent"],
    ),
    "count": Sees(lambda a: a.text == "1 2 3 4 5 6 7 " and len(a.frames) == 10, parameter="7"),
    "long": Sees(lambda a: a.text == "word " * 300 and len(a.chunks) == 303, parameter="300"),
    "flood": Sees(lambda a: len(a.text) == 1 << 20, parameter="1"),
}

CHANGES = {
    "bytes": Sees(lambda a: a.text == SENTENCE, [TEXT, *TRAILERS], ask="sim:text"),
    "chunks": Sees(
        lambda a: a.text == SENTENCE and {len(c) for c in a.chunks[:-1]} == {3}, ask="sim:text", parameter="3"
    ),
    "whole": Sees(lambda a: a.text == SENTENCE and len(a.chunks) == 1, ask="sim:text"),
    "slow": Sees(lambda a: a.text == SENTENCE, ask="sim:text", parameter="0.001"),
    "empty-frames": Sees(lambda a: a.text == SENTENCE and (TEXT, {"content": ""}) in a.frames, ask="sim:text"),
    "unknown-event": Sees(
        lambda a: a.text == SENTENCE and a.types[:3] == ["fooEvent", TEXT, "fooEvent"], ask="sim:text"
    ),
    "initial": Sees(lambda a: a.types == ["initial-response", TEXT, *TRAILERS], ask="hello"),
    "same-ids": Sees(lambda a: [*a.calls] == ["call_0"], [TEXT, "toolUseEvent", *TRAILERS], ask="sim:tool"),
    "no-trailers": Sees(lambda a: a.text == SENTENCE, [TEXT], ask="sim:text"),
    "no-metadata": Sees(lambda a: a.text == SENTENCE, [TEXT, *TRAILERS[1:]], ask="sim:text"),
    "no-usage": Sees(lambda a: ("metadataEvent", {"stopReason": "END_TURN"}) in a.frames, ask="sim:text"),
}


def _refused(name: str) -> Sees:
    status, message, reason = REFUSALS[name]
    return Sees(
        lambda a: a.json == {"message": message, "reason": reason} and "x-amzn-errortype" in a.headers, status=status
    )


def _half(*types: str, ending: str = "complete") -> Sees:
    return Sees(lambda a: a.text == HALF, [TEXT, *types], ending)


FAULTS = {
    **{name: _refused(name) for name in REFUSALS},
    "429-retry-after": Sees(lambda a: a.headers["retry-after"] == "7", status=429, parameter="7"),
    "exception": Sees(
        lambda a: a.text == HALF and a.frames[-1][1]["reason"] == "USER_REQUEST_RATE_EXCEEDED",
        [TEXT, "ThrottlingException"],
        parameter="ThrottlingException",
    ),
    "exception-first": Sees(lambda a: a.text == "", ["InternalServerException"]),
    "length-exception": _half("ContentLengthExceededException"),
    "eof": _half(),
    "fin": _half(ending="cut"),
    "half-close": _half(ending="cut"),
    "reset": Sees(lambda a: HALF.startswith(a.text), ending="reset"),
    "reset-first": Sees(lambda a: a.body == b"", ending="reset", status=0),
    "reset-headers": Sees(lambda a: a.body == b"", ending="reset", status=-1),
    "hang-up": Sees(lambda a: a.body == b"", ending="cut", status=0),
    "torn": _half("broken"),
    "bad-crc": _half("broken"),
    "stall": Sees(lambda a: a.body == b"", ending="silence", status=0),
    "stall-headers": Sees(lambda a: a.body == b"", ending="silence"),
    "stall-mid": _half(ending="silence"),
    "late": Sees(lambda a: a.text == HALF, parameter="0.05"),
    "empty": Sees(lambda a: a.body == b"" and a.headers["content-type"] == "application/vnd.amazon.eventstream"),
    "html": Sees(lambda a: a.body.startswith(b"<!DOCTYPE html>") and "text/html" in a.headers["content-type"]),
    "json-200-error": Sees(lambda a: "message" in a.json and a.headers["content-type"] == "application/json"),
    "redirect": Sees(lambda a: a.headers["location"] == "/redirected", status=307, parameter="307"),
}

ALL = {**ANSWERS, **CHANGES, **FAULTS}


def test_every_marker_is_tested():
    """There is a row here for every marker; once-only faults repeat the faults."""
    assert {name for name, entry in MARKERS.items() if entry.kind != "once"} == set(ALL)
    assert {name for name, entry in MARKERS.items() if entry.kind == "once"} == {f"once-{name}" for name in FAULTS}


@pytest.mark.parametrize(("name", "sees"), [pytest.param(name, sees, id=name) for name, sees in ALL.items()])
def test_marker(simulator, name, sees):
    """A prompt with the marker is answered, and the answer ends, as the marker's row says."""
    marker = f"sim:{name}={sees.parameter}" if sees.parameter else f"sim:{name}"

    answer = ask(simulator.url, f"Please {marker} {sees.ask}.", timeout=SILENCE if sees.ending == "silence" else 10)

    assert answer.ending == sees.ending
    assert answer.status in ((0, 200) if sees.status < 0 else (sees.status,))
    assert sees.types is None or answer.types == sees.types
    assert sees.check(answer)


@pytest.mark.parametrize("name", [name for name, entry in MARKERS.items() if entry.kind == "once"])
def test_once_only_faults_strike_once(simulator, name):
    """The second request with the same text is answered; a changed text fails again."""
    failing = FAULTS[name.removeprefix("once-")]
    seconds = SILENCE if failing.ending == "silence" else 5.0

    first = ask(simulator.url, f"sim:{name} hello", timeout=seconds)
    second = ask(simulator.url, f"sim:{name} hello")
    other = ask(simulator.url, f"sim:{name} hello there", timeout=seconds)

    assert (first.ending, first.status) == (other.ending, other.status)
    assert first.body == other.body or first.ending == "reset"
    assert (first.status, first.ending, first.stop_reason) != (200, "complete", "END_TURN")
    assert (second.status, second.ending, second.stop_reason) == (200, "complete", "END_TURN")


def test_markers_combine(simulator):
    """Changes apply to the answer that another marker chooses, in any number."""
    answer = ask(simulator.url, "sim:tool sim:no-metadata sim:chunks=4")

    assert answer.types == [TEXT, "toolUseEvent", *TRAILERS[1:]]
    assert {len(chunk) for chunk in answer.chunks[:-1]} == {4}


@pytest.mark.parametrize(
    ("question", "arguments"),
    [
        pytest.param('sim:tool=get_weather {"city": "Bergen"}', {"city": "Bergen"}, id="given"),
        pytest.param('sim:tool:get_weather{"x": [{}, 1]} please', {"x": [{}, 1]}, id="as-they-are"),
        pytest.param('sim:tool=get_weather in {"city": "Bergen"}', {"city": "Oslo"}, id="apart"),
        pytest.param('sim:tool {"city": "Bergen"}', {"city": "Oslo"}, id="no-name"),
        pytest.param('sim:tool=get_weather {"city": ', {"city": "Oslo"}, id="no-json"),
    ],
)
def test_a_tool_is_called_with_given_arguments(simulator, question, arguments):
    """A JSON object that follows the tool's name is the arguments of the call, whatever the schema says."""
    answer = ask(simulator.url, question, tools=[tool()])

    assert _inputs(answer) == [arguments]


def test_an_unknown_marker_is_explained(simulator):
    """A typing error in a marker does not look like an answer."""
    answer = ask(simulator.url, "sim:tset")

    assert answer.text.startswith("There is no marker sim:tset. There are: text,")


@pytest.mark.parametrize(
    ("prompt", "markers"),
    [
        pytest.param("sim:text", [("text", "")], id="bare"),
        pytest.param("(sim:count=12).", [("count", "12")], id="equals"),
        pytest.param("sim:count:12, please", [("count", "12")], id="colon"),
        pytest.param("sim:slow=0.5 sim:tool", [("slow", "0.5"), ("tool", "")], id="two"),
        pytest.param("xsim:text sim: text SIM:text", [], id="none"),
        pytest.param("sim:text " * 50, [("text", "")] * 16, id="bounded"),
    ],
)
def test_marker_syntax(prompt, markers):
    """A marker is ``sim:NAME``, with a parameter after ``=`` or ``:``, wherever it stands."""
    assert find_markers(prompt) == markers


def test_markers_in_history_are_spent(simulator):
    """Only the current message chooses what happens."""
    document = prompt("hello")
    document["conversationState"]["history"] = [
        {"userInputMessage": {"content": "sim:500"}},
        {"assistantResponseMessage": {"content": "I could not, because of sim:500."}},
    ]

    assert call(simulator.url, "/generateAssistantResponse", document).text.startswith("You said: ")


def test_the_documentation_table_has_every_marker():
    """One row a marker, one for all once-only faults, two of heading."""
    table = markers_as_markdown()

    assert all(f"| `sim:{name}" in table for name in ALL)
    assert table.count("\n") == len(ALL) + 3


def test_other_formats_have_their_own_table():
    """What only other formats know is told by format, and is no marker of Kiro's."""
    assert set(FORMAT_MARKERS) == {"gemini", "anthropic", "openai", "responses", "codex", "bedrock"}
    assert {"array", "envelope"} <= set(FORMAT_MARKERS["gemini"])
    assert not set(MARKERS) & {name for known in FORMAT_MARKERS.values() for name in known}


def test_no_other_tool_stands_for_one_that_is_not_offered() -> None:
    """Nothing is called but what the marker names, also where a service has another spelling of it."""
    tools = (OfferedTool("Agent", "d", {}), OfferedTool("mcp__w__wx", "d", {}))
    calls = [call_names(f"sim:{name}", tools) for name in ("tool=nobody", "tool=mcp--w--wx", "tool", "parallel=2")]

    assert calls == [[], ["mcp__w__wx"], ["mcp__w__wx"], ["mcp__w__wx", "mcp__w__wx"]]
    assert call_names("sim:tool=Agent", tools) == ["Agent"]
    assert call_names("sim:tool", tools[:1]) == []


def test_ids_that_are_the_same_in_every_answer() -> None:
    """As of servers that count the calls of an answer, and not those of a conversation."""
    for asked in ("sim:same-ids sim:parallel=2", "again sim:same-ids sim:parallel=2"):
        script = play(Conversation(content=asked), lambda _: True)
        ids = dict.fromkeys(step.call_id for step in script if isinstance(step, CallPart))
        assert [*ids] == ["call_0", "call_1"]


def call_names(asked: str, tools: tuple[OfferedTool, ...]) -> list[str]:
    script = play(Conversation(content=asked, tools=tools), lambda _: True)
    return list({step.call_id: step.name for step in script if isinstance(step, CallPart)}.values())
