"""Turns in several messages: what is kept of each, what is asked next, and when nothing is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import AnswerTooLarge
from kiro_asgi.limits import ANSWER_BYTES
from kiro_asgi.model.events import Delta, ServerCall, ServerResult, Stop, StopReason
from kiro_asgi.stages.base import Pipeline
from kiro_asgi.stages.opaque import SameApi
from kiro_asgi.upstreams.anthropic.answer import PausableTurn, may_pause
from kiro_asgi.upstreams.base import UpstreamRequest
from tests.growth import assert_linear
from tests.helpers import cut, run
from tests.pauses import PARTS, streamed
from tests.upstreams.anthropic.test_events import END, HEAD, delta, end, sse, start, stop

ASKED = {"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "fjords"}]}], "max_tokens": 9}
SSE = "text/event-stream"
TEXT = {"type": "text", "text": ""}


def turn(**more: Any) -> PausableTurn:
    return PausableTurn(UpstreamRequest("POST", "https://x/v1/messages", ()), {**ASKED, **more})


def read(reader: PausableTurn, data: bytes, cuts: list[int] | None = None, content_type: str = SSE) -> list[Delta]:
    return run(Pipeline(*reader.decoder(content_type), SameApi("", "")), cut(data, cuts or []))


def paused_after(*events: Any) -> bool:
    reader = turn()
    read(reader, sse(HEAD, *events, end("pause_turn"), END))
    return reader.paused


@given(st.lists(st.integers(0, 4000), max_size=6))
def test_everything_goes_back_as_it_came(cuts: list[int]) -> None:
    """All blocks of all messages, however their bytes were cut, behind what was asked at first."""
    reader, said = turn(), []
    for part in PARTS[:2]:
        read(reader, streamed(part, "pause_turn"), cuts)
        said += part
        assert reader.paused
        asked = json.loads(reader.following().body)
        assert asked == {**ASKED, "messages": [*ASKED["messages"], {"role": "assistant", "content": said}]}
    read(reader, streamed(PARTS[2], "end_turn"), cuts)
    assert not reader.paused


def test_a_result_finds_its_call_in_the_message_before() -> None:
    """They are of one turn."""
    reader = turn()
    (call,) = (item for item in read(reader, streamed(PARTS[0], "pause_turn")) if isinstance(item, ServerCall))
    first, second = (it for it in read(reader, streamed(PARTS[1], "end_turn")) if isinstance(it, ServerResult))

    assert (first.call, second.call.call_id) == (call, "srvtoolu_2")


def test_what_the_assistant_had_begun_to_say_stays_one_message() -> None:
    """Two messages of one side are none that every service takes."""
    begun = {"role": "assistant", "content": [{"type": "text", "text": "Fjords"}]}
    reader = turn(messages=[*ASKED["messages"], begun])
    read(reader, streamed(PARTS[0], "pause_turn"))
    *before, last = json.loads(reader.following().body)["messages"]

    assert (before, last["content"]) == (ASKED["messages"], [*begun["content"], *PARTS[0]])


def test_a_whole_message_is_kept_as_well() -> None:
    """It has all blocks at once."""
    message = {**HEAD["message"], "type": "message", "content": PARTS[0], "stop_reason": "pause_turn"}
    reader = turn()
    found = read(reader, json.dumps(message).encode(), content_type="application/json")

    assert found[-1] == Stop(StopReason.PAUSED)
    assert json.loads(reader.following().body)["messages"][-1]["content"] == PARTS[0]


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([start(TEXT), delta("novel_delta", x=1), stop()], id="a delta that is not known"),
        pytest.param([delta("text_delta", text="x")], id="a delta without a block"),
        pytest.param([start(TEXT), delta("text_delta", text="x")], id="a block without an end"),
        pytest.param([start(TEXT), start(TEXT), stop()], id="two blocks at one place"),
        pytest.param(
            [start({**PARTS[0][3], "input": {}}), delta("input_json_delta", partial_json="{"), stop()],
            id="arguments that are no JSON",
        ),
        pytest.param(
            [start({"type": "tool_use", "id": "t", "name": "f", "input": {}}), stop()], id="a call of the client's"
        ),
    ],
)
def test_what_cannot_be_handed_back_ends_the_turn(events: list[Any]) -> None:
    """The service would refuse what it has not said, and a call that has no result."""
    assert not paused_after(*events)
    assert paused_after(start(TEXT), delta("text_delta", text="x"), stop())


def test_a_summary_goes_back_within_a_turn() -> None:
    """The service may sum the conversation up between the steps of its tools."""
    reader, summary = turn(), {"content": "So far.", "encrypted_content": "c2VhbGVk"}
    opened = start({"type": "compaction", "content": None})
    read(reader, sse(HEAD, opened, delta("compaction_delta", **summary), stop(), end("pause_turn"), END))

    assert reader.paused
    said = json.loads(reader.following().body)["messages"][-1]["content"]
    assert said == [{"type": "compaction", **summary}]


def test_a_turn_that_ends_with_a_summary_is_the_client_s() -> None:
    """It has asked for a pause there, or for nothing else."""
    reader, summary = turn(), {"type": "compaction", "content": "So far."}
    message = {**HEAD["message"], "type": "message", "content": [summary], "stop_reason": "compaction"}
    found = read(reader, json.dumps(message).encode(), content_type="application/json")

    assert found[-1] == Stop(StopReason.COMPACTED)
    assert not reader.paused


def test_all_messages_share_the_room_of_one_answer() -> None:
    """What is kept is counted, and bounded."""
    reader, piece = turn(), "x" * (ANSWER_BYTES // 4)
    data = sse(HEAD, start(TEXT), delta("text_delta", text=piece), stop(), end("pause_turn"), END)
    for _ in range(3):
        read(reader, data)
    with pytest.raises(AnswerTooLarge):
        read(reader, data)


def test_only_tools_of_the_service_make_it_pause() -> None:
    """Nobody else pays for what is kept."""
    assert may_pause({"tools": [{"name": "f", "input_schema": {}}, {"type": "web_search_20250305"}]})
    assert not may_pause({"tools": [{"name": "f", "input_schema": {}}]})
    assert not may_pause({})


def test_many_pieces_take_linear_time() -> None:
    """Each is looked at once."""

    def make(count: int) -> Callable[[], object]:
        pieces = (delta("text_delta", text="x") for _ in range(count))
        data = sse(HEAD, start(TEXT), *pieces, stop(), end("pause_turn"), END)
        reader = turn()
        return lambda: (read(reader, data), reader.following())

    assert_linear(make, 200)
