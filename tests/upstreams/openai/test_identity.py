"""Items of Responses are known by their ids, wherever a server says that they stand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model.events import StopReason, TextDelta, ThinkingDelta, ToolCallFragment
from kiro_asgi.stages.base import Pipeline
from kiro_asgi.upstreams.openai import responses_answer as responses
from tests.upstreams.test_ends import sse

SSE = "text/event-stream"
ITEMS: list[dict[str, Any]] = [
    {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "I think"}]},
    {"type": "message", "id": "m_1", "content": [{"type": "output_text", "text": "Hello"}]},
    {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "look", "arguments": '{"city":"Rome"}'},
    {"type": "function_call", "id": "fc_2", "call_id": "b", "name": "look", "arguments": '{"city":"Oslo"}'},
    {"type": "message", "id": "m_2", "content": [{"type": "output_text", "text": " there"}]},
]
EMPTY = {"reasoning": {"content": []}, "message": {"content": []}, "function_call": {"arguments": ""}}
PIECES = {
    "reasoning": ("response.reasoning_text", "delta", "text"),
    "message": ("response.output_text", "delta", "text"),
    "function_call": ("response.function_call_arguments", "delta", "arguments"),
}


def whole_of(item: dict[str, Any]) -> str:
    return item["arguments"] if item["type"] == "function_call" else item["content"][0]["text"]


def events_of(item: dict[str, Any]) -> list[dict[str, Any]]:
    """An item's events, each with its id."""
    kind, delta, whole = PIECES[item["type"]]
    about, text = {"item_id": item["id"], "content_index": 0}, whole_of(item)
    return [
        {"type": "response.output_item.added", "item": {**item, **EMPTY[item["type"]]}},
        {"type": f"{kind}.delta", **about, delta: text[:3]},
        {"type": f"{kind}.delta", **about, delta: text[3:]},
        {"type": f"{kind}.done", **about, whole: text},
        {"type": "response.output_item.done", "item": item},
    ]


def told(*events: dict[str, Any]) -> tuple[str, str, list[str], StopReason]:
    """Thinking, text, arguments and the end."""
    pipeline = Pipeline(*responses.stages(SSE, lambda: "new", "s"))
    deltas = [*pipeline.feed([sse(*events)]), *pipeline.flush()]
    calls: dict[str, str] = {}
    for delta in deltas:
        if isinstance(delta, ToolCallFragment):
            calls[delta.call_id] = calls.get(delta.call_id, "") + delta.input
    return (
        "".join(delta.text for delta in deltas if isinstance(delta, ThinkingDelta)),
        "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)),
        [*calls.values()],
        deltas[-1].reason,
    )


def expected(items: list[dict[str, Any]]) -> tuple[str, str, list[str], StopReason]:
    of = {kind: [whole_of(item) for item in items if item["type"] == kind] for kind in PIECES}
    end = StopReason.TOOL_CALL if of["function_call"] else StopReason.END
    return "".join(of["reasoning"]), "".join(of["message"]), of["function_call"], end


def anonymous(event: dict[str, Any]) -> dict[str, Any]:
    item = {name: value for name, value in event.get("item", {}).items() if name != "id"}
    return {name: value for name, value in event.items() if name not in ("item_id", "item")} | (
        {"item": item} if item else {}
    )


@given(
    chosen=st.lists(st.sampled_from(range(len(ITEMS))), unique=True).map(sorted),
    place=st.sampled_from(["none", "right", "from 1", "always 0", "repeated"]),
    final=st.sampled_from(["all", "none", "reversed", "other ids", "no ids"]),
    named=st.booleans(),
)
def test_every_item_is_told_once(chosen: list[int], place: str, final: str, named: bool) -> None:
    """Whatever a server does to places, and to the items of the whole answer at the end, there is one answer."""
    items = [ITEMS[number] for number in chosen]
    named = named or place not in ("right", "from 1")
    events = []
    for number, item in enumerate(items):
        index = {"none": None, "right": number, "from 1": number + 1, "always 0": 0, "repeated": number // 2}[place]
        for event in events_of(item):
            events.append(event if index is None else {**event, "output_index": index})
    events = events if named else [*map(anonymous, events)]
    output = {
        "all": items,
        "none": [],
        "reversed": items[::-1],
        "other ids": [{**item, "id": f"x{number}"} for number, item in enumerate(items)],
        "no ids": [{name: value for name, value in item.items() if name != "id"} for item in items],
    }[final]
    end = {"type": "response.completed", "response": {"status": "completed", "output": output}}

    assert told(*events, end) == expected(items)


def test_an_item_that_only_the_whole_answer_has_is_told() -> None:
    """Reasoning in front moves the places of all others."""
    end = {"type": "response.completed", "response": {"status": "completed", "output": ITEMS[:2]}}

    assert told(*events_of(ITEMS[1]), end)[:2] == ("I think", "Hello")
    assert told(*({**event, "output_index": 0} for event in events_of(ITEMS[1])), end)[:2] == ("I think", "Hello")


@pytest.mark.parametrize("index", [{}, {"output_index": 0}])
def test_ids_that_change_with_every_event_do_not_count(index: dict[str, Any]) -> None:
    """Some servers seal them anew each time; the place decides then."""
    events: list[dict[str, Any]] = []
    for number, event in enumerate(events_of(ITEMS[1])):
        item = {"item": {**event["item"], "id": f"i{number}"}} if "item" in event else {"item_id": f"i{number}"}
        events.append({**event, **item, **index})
    end = {"type": "response.completed", "response": {"output": [{**ITEMS[1], "id": "last"}]}}

    assert told(*events, end)[1] == "Hello"


def test_arguments_may_be_an_object() -> None:
    """As those of Chat Completions may."""
    item = {**ITEMS[2], "arguments": {"city": "Rome"}}
    end = {"type": "response.completed", "response": {"output": [item]}}
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}

    for events in ([end], [done, end]):
        assert told(*events)[2:] == (['{"city":"Rome"}'], StopReason.TOOL_CALL)
