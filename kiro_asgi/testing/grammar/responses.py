"""The grammar of a streamed Responses answer, as a checker that shares no code with the encoder.

Events are numbered from 0, begin with ``response.created`` and ``response.in_progress``, and end with the one event
that holds the whole response; each item is begun, filled and done, and in the end it is what its pieces made of it.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

BEGIN: Final[Sequence[str]] = ["response.created", "response.in_progress"]
ENDS: Final[Mapping[str, str]] = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
}

DELTAS: Final[Mapping[str, str]] = {
    "response.output_text": "text",
    "response.refusal": "refusal",
    "response.reasoning_text": "text",
    "response.reasoning_summary_text": "text",
    "response.function_call_arguments": "arguments",
    "response.custom_tool_call_input": "input",
}
"""Events that bring text, to the member that the text is of."""

LATER: Final = ("status", "phase", "encrypted_content")
"""What an item that is done may say otherwise than the pieces did."""


def events_of(stream: bytes) -> list[dict[str, Any]]:
    """The events; each is a name line and a data line, and nothing but comments stands between them."""
    blocks = stream.decode().split("\n\n")
    assert blocks.pop() == "", "the last event is not finished by a blank line"
    events = []
    for block in blocks:
        if not block.startswith(":"):
            name, data = block.split("\n")
            assert name.startswith("event: ") and data.startswith("data: "), block[:80]
            event = json.loads(data.removeprefix("data: "), parse_constant=_refuse)
            assert event["type"] == name.removeprefix("event: ")
            events.append(event)
    return events


def _refuse(word: str) -> None:
    raise AssertionError(f"{word} is not JSON")


def check(stream: bytes) -> list[dict[str, Any]]:
    """The events of a legal stream.

    Raises:
        AssertionError: The order or the form of something is not legal.
    """
    events = events_of(stream)
    types = [event["type"] for event in events]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert types[:2] == BEGIN
    assert types[-1] in ENDS and not set(types[:-1]) & ENDS.keys(), "not exactly one end"
    assert types.count("error") == (types[-1] == "response.failed")
    assert "error" not in types or types[-2] == "error", "an item stands between the error and the failure"
    assert {event["type"] for event in events[2:-1] if "response" in event} <= {"response.in_progress"}
    _check_responses([event["response"] for event in (*events[:2], events[-1])], ENDS[types[-1]])
    output = fold(events)
    assert events[-1]["response"]["output"] == [item for item in output if types[-1] != "response.failed" or item]
    return events


def _check_responses(responses: list[dict[str, Any]], status: str) -> None:
    """They are the same but for what becomes of an answer."""
    assert [response["status"] for response in responses] == ["in_progress", "in_progress", status]
    changing = ("status", "completed_at", "output", "usage", "error", "incomplete_details")
    constant = [{name: value for name, value in each.items() if name not in changing} for each in responses]
    assert constant[0] == constant[1] == constant[2]
    assert all(each["output"] == [] and each["usage"] is None for each in responses[:2])
    assert (responses[-1]["error"] is not None) == (status == "failed")
    assert (responses[-1]["incomplete_details"] is not None) == (status == "incomplete")
    assert (responses[-1]["usage"] is None) == (status == "failed")


def fold(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The output as a client puts it together; checked against the whole items. Items that are not done are empty."""
    begun: list[dict[str, Any]] = []
    done: list[dict[str, Any]] = []
    for event in events:
        kind, place = event["type"], event.get("output_index", -1)
        if kind == "response.output_item.added":
            assert place == len(begun), "an item is out of order"
            _check_empty(event["item"])
            begun.append(copy.deepcopy(event["item"]))
            done.append({})
        elif kind == "response.output_item.done":
            assert not done[place], "an item is done twice"
            _check_done(begun[place], event["item"])
            done[place] = event["item"]
        elif kind == "response.in_progress":
            told = event["response"]["output"]
            assert told == [item or seen for item, seen in zip(done, begun, strict=True)], "another response so far"
        elif place >= 0:
            assert not done[place] or kind.startswith("response.output_text.annotation"), "an item goes on"
            assert event["item_id"] == begun[place]["id"]
            _apply(begun[place], event)
    assert len({item["id"] for item in begun}) == len(begun), "two items have the same id"
    return done


def _check_empty(item: dict[str, Any]) -> None:
    assert not any(item.get(name) for name in ("content", "summary", "arguments", "input") if name in item) or (
        item["type"] == "tool_search_call"
    )
    assert item["type"] == "reasoning" or item["status"] == "in_progress"


def _check_done(begun: dict[str, Any], item: dict[str, Any]) -> None:
    """The item is what its pieces made of it."""
    if item["type"] == "web_search_call":
        assert begun["action"].items() <= item["action"].items()
        begun = {**begun, "action": item["action"]}
    assert {name: value for name, value in item.items() if name not in LATER} == {
        name: value for name, value in begun.items() if name not in LATER
    }
    assert item.get("status") != "in_progress"


def _apply(item: dict[str, Any], event: dict[str, Any]) -> None:
    family, _, step = event["type"].rpartition(".")
    if family in ("response.content_part", "response.reasoning_summary_part"):
        _apply_part(item, event, step)
    elif family == "response.output_text.annotation":
        annotations = item["content"][event["content_index"]]["annotations"]
        assert event["annotation_index"] == len(annotations)
        annotations.append(event["annotation"])
    elif family in DELTAS:
        holder = _holder(item, event)
        if step == "delta":
            holder[DELTAS[family]] += event["delta"]
        else:
            assert event[DELTAS[family]] == holder[DELTAS[family]]
            assert event.get("name") == (item["name"] if family.endswith("arguments") else None)
    else:
        assert family == "response.web_search_call"


def _apply_part(item: dict[str, Any], event: dict[str, Any], step: str) -> None:
    parts = item["summary"] if "summary_index" in event else item.setdefault("content", [])
    index = event["summary_index"] if "summary_index" in event else event["content_index"]
    if step == "added":
        assert index == len(parts)
        assert not any(event["part"].get(name) for name in ("text", "refusal", "annotations"))
        parts.append(copy.deepcopy(event["part"]))
    else:
        assert event["part"] == parts[index]


def _holder(item: dict[str, Any], event: dict[str, Any]) -> Any:
    """What the event's text is a member of."""
    if "summary_index" in event:
        return item["summary"][event["summary_index"]]
    return item["content"][event["content_index"]] if "content_index" in event else item
