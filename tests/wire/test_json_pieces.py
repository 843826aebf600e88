"""Characters that a service cuts into halves, over two documents."""

from __future__ import annotations

import json
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model.events import Notice, TextDelta, ThinkingDelta, ToolCallFragment
from kiro_asgi.stages.base import Pipeline
from kiro_asgi.stages.opaque import SameApi
from kiro_asgi.upstreams.gemini.answer import JsonObjects
from kiro_asgi.upstreams.json_events import HALF
from kiro_asgi.upstreams.kiro.answer import FrameEventDecoder
from kiro_asgi.upstreams.openai.upstream import OpenAIUpstream
from kiro_asgi.wire.eventstream import Frame
from kiro_asgi.wire.json import JsonError
from kiro_asgi.wire.json_pieces import JsonPieces
from tests.helpers import run
from tests.upstreams.openai.chunks import DONE, chunk, piece, sse

TEXTS = st.text('aé\U0001f600\U0001f469"\\', max_size=5)
LONE = "\\ud83d"


def units(text: str) -> list[str]:
    """The text as code units of UTF-16, as JSON's escapes have them."""
    data = text.encode("utf-16-le")
    return [data[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(data), 2)]


@given(st.lists(st.tuples(st.sampled_from(["text", "thinking", "call"]), TEXTS), max_size=5), st.data())
def test_a_text_is_the_same_however_it_is_cut(pieces: list[tuple[str, str]], data: st.DataObject) -> None:
    """Cut between any two code units, text, thinking and arguments arrive whole."""
    values = [chunk({"tool_calls": [piece(0, "c", "f")]})]
    for kind, text in pieces:
        codes = units(text)
        places = sorted({place % (len(codes) + 1) for place in data.draw(st.lists(st.integers(0, 9)))})
        for start, end in zip([0, *places], [*places, len(codes)], strict=True):
            part = "".join(codes[start:end])
            delta = {"text": {"content": part}, "thinking": {"reasoning_content": part}}
            values.append(chunk(delta.get(kind, {"tool_calls": [piece(0, None, None, part)]})))
    answer = sse(*values, chunk(finish="stop")) + DONE
    found = run(Pipeline(*OpenAIUpstream().decoder("text/event-stream"), SameApi("", "")), [answer])

    said = [("text" if type(it) is TextDelta else "thinking", it.text) for it in found if hasattr(it, "text")]
    wanted = [(kind, text) for kind, text in pieces if kind != "call" and text]
    assert _joined(said) == _joined(wanted)
    calls = "".join(it.input for it in found if isinstance(it, ToolCallFragment))
    assert calls == "".join(text for kind, text in pieces if kind == "call")
    assert HALF not in found


def _joined(pieces: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(kind, "".join(text for _, text in group)) for kind, group in groupby(pieces, lambda it: it[0])]


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (['{"a":"x\\ud83d"}', '{"a":"\\ude00y"}'], [{"a": "x"}, {"a": "\U0001f600y"}]),
        (['{"a":"\\ud83d"}', '{"b":1}', '{"a":"\\uDE00"}'], [{"a": ""}, {"b": 1}, {"a": "\U0001f600"}]),
        (['["\\ud83d","\\ud83e"]', '["\\ude00","\\udd14"]'], [["", ""], ["\U0001f600", "\U0001f914"]]),
        (['{"a":"\\ud83d x"}', '{"a":"\\ude00"}'], [{"a": "\ufffd x"}, {"a": "\ufffd"}]),
        (['{"a":"\\\\ud83d"}', '{"a":"\\\\ude00"}'], [{"a": "\\ud83d"}, {"a": "\\ude00"}]),
        (['{"a":"\\ud83d\\ude00"}'], [{"a": "\U0001f600"}]),
        (['{"a":"\\ude00"}'], [{"a": "\ufffd"}]),
        (['{"name":"\\ud83d","toolUseId": "\\ud83d"}'], [{"name": "\ufffd", "toolUseId": "\ufffd"}]),
    ],
)
def test_halves(texts: list[str], values: list[object]) -> None:
    """Halves at an end and at a beginning belong together, whatever comes between; others are no character."""
    pieces = JsonPieces()

    assert [pieces.loads(text) for text in texts] == values
    assert JsonPieces().loads(texts[0].encode()) == values[0]
    assert pieces.is_whole


def test_half_of_a_character_that_is_left_is_said() -> None:
    """Its other half never came: the answer is not what the model wrote."""
    answer = sse(chunk({"content": "a \ud83d"}), chunk({"content": "b"}), chunk(finish="stop")) + DONE
    found = run(Pipeline(*OpenAIUpstream().decoder("text/event-stream"), SameApi("", "")), [answer])

    assert [it for it in found if isinstance(it, Notice | ThinkingDelta)] == [HALF]
    assert "".join(it.text for it in found if isinstance(it, TextDelta)) == "a b"


@pytest.mark.parametrize("kind", ["application/json", "application/vnd.amazon.eventstream"])
def test_services_whose_answers_are_no_events_say_so_too(kind: str) -> None:
    """A JSON array of Gemini's, and frames of Kiro's."""
    if kind == "application/json":
        chunks = [{"candidates": [{"content": {"parts": [{"text": "a \ud83d"}]}}]}]
        found = run(Pipeline(JsonObjects()), [json.dumps(chunks).encode()])
    else:
        headers = {":message-type": "event", ":event-type": "assistantResponseEvent"}
        found = run(FrameEventDecoder(), [Frame(headers, rb'{"content":"a \ud83d"}')])

    assert found[-1] == HALF


def test_no_more_than_some_halves_wait() -> None:
    """A flood of them holds nothing."""
    pieces = JsonPieces()
    values = pieces.loads(json.dumps(["\ud83d"] * 1000))

    assert values.count("") == 64
    assert values.count("\ufffd") == 936
    with pytest.raises(JsonError):
        pieces.loads(b'{"a":"\\ud83d\xff"}')
