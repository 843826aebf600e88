"""From the service's answer to the contract's, and to a client's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model.events import FollowupPrompt, Stop, StopReason, TextDelta, ThinkingDelta, Usage
from kiro_asgi.model.message import Message, TextBlock, ThinkingBlock, ToolCallBlock
from kiro_asgi.streaming import ContractOptions, translate_kiro_response
from kiro_asgi.upstreams.kiro.contract import OutputMessage, Response, ResponseUsage, ToolUse
from kiro_asgi.upstreams.kiro.contract.answer import (
    LEAD_IN,
    CleanText,
    LegacyStops,
    ReminderFilter,
    as_message,
    as_response,
    contract_stages,
)
from kiro_asgi.upstreams.kiro.rules.texts import sanitize_text
from tests.helpers import run, run_apart
from tests.upstreams.kiro.contract.test_texts import CLOSE, NOISY, OPEN

CALL = OutputMessage(tool_use=ToolUse("t1", "f", {"a": 1}))
CALL_BLOCK = {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}


def translated(*messages: str | OutputMessage, stop: str = "", **options: Any) -> dict[str, Any]:
    output = tuple(OutputMessage(it) if isinstance(it, str) else it for it in messages)
    response = Response(output, ResponseUsage(3, 2, 5), stop)
    return translate_kiro_response(response, model="my-model", options=ContractOptions(**options))


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def test_every_output_message_is_a_block():
    """Texts are sanitised, blank ones skipped (F378, F379)."""
    assert translated("a", " \n", "\x1b[1mb\x00", "")["content"] == [text("a"), text("b")]


def test_an_answer_without_words_has_no_block():
    """What is sent must be legal as the next request's history, which an empty block is not."""
    assert translated(" ")["content"] == []


def test_the_head_of_an_answer():
    """An id of its own, the model that was asked for, the assistant's role (F380, F381, F382)."""
    one, other = translated("a"), translated("a")

    assert one["id"].startswith("msg_")
    assert one["id"] != other["id"]
    assert (one["model"], one["role"], one["type"]) == ("my-model", "assistant", "message")


@pytest.mark.parametrize(
    ("word", "legacy", "strict"),
    [
        ("MAX_TOKENS", "max_tokens", "max_tokens"),
        ("MAX_TOKENS_REACHED", "max_tokens", "max_tokens"),
        ("TIMEOUT", "max_tokens", "max_tokens"),
        ("STOP_SEQUENCE", "end_turn", "stop_sequence"),
        ("STOPPED", "end_turn", "end_turn"),
        ("CONTENT_FILTERED", "end_turn", "refusal"),
        ("MODEL_CONTEXT_WINDOW_EXCEEDED", "max_tokens", "model_context_window_exceeded"),
        ("TOOL_USE", "end_turn", "end_turn"),
        ("SOMETHING", "end_turn", "end_turn"),
        ("", "end_turn", "end_turn"),
    ],
)
def test_the_words_for_an_end(word, legacy, strict):
    """The contract knows two ends, the strict map all of them (F383 to F386)."""
    assert translated("a", stop=word)["stop_reason"] == legacy
    assert translated("a", stop=word, legacy_stop_map=False)["stop_reason"] == strict


def test_usage_is_mapped():
    """Input and output tokens; the total stays inside; without usage there is none (F387)."""
    usage = translated("a")["usage"]

    assert (usage["input_tokens"], usage["output_tokens"]) == (3, 2)
    assert "total_tokens" not in usage
    assert translate_kiro_response(Response((OutputMessage("a"),)), model="m")["usage"] is None


def test_what_looks_like_a_tool_call_in_text_stays_text():
    """Text passes as it is, whatever it encodes (F388)."""
    words = '<tool_use name="f">{"a": 1}</tool_use>'

    assert translated(words)["content"] == [text(words)]


def test_a_leading_tool_call_is_led_in():
    """Only where it is the first block; then the answer ends in tool use (F217, F218)."""
    assert translated(CALL)["content"] == [text("I will call a tool to help with this:"), CALL_BLOCK]
    assert translated("a", CALL)["content"] == [text("a"), CALL_BLOCK]
    assert translated(" ", CALL)["content"] == [text(LEAD_IN), CALL_BLOCK]
    assert translated(OutputMessage(thinking=ThinkingBlock("hm")), CALL)["content"][0]["type"] == "thinking"
    assert [translated(CALL, stop=word)["stop_reason"] for word in ("", "TOOL_USE", "MAX_TOKENS")] == [
        "tool_use",
        "tool_use",
        "max_tokens",
    ]


@pytest.mark.parametrize(("value", "arguments"), [("{broken", {"input": "{broken"}), ([1], {"input": [1]})])
def test_arguments_that_are_no_object_become_a_member_of_one(value, arguments):
    """Nothing fails over arguments that were no JSON (F401)."""
    call = OutputMessage(tool_use=ToolUse("t1", "f", value))

    assert translated("a", call)["content"][1]["input"] == arguments


def test_a_message_as_the_contract_has_it():
    """A text run is an output message; arguments are parsed; the plain end has no word (5.5, F401)."""
    message = Message(
        (ThinkingBlock("hm", "c2ln"), TextBlock("a"), ToolCallBlock("t1", "f", '{"a":1}'), TextBlock("b")),
        usage=Usage(3, 2, cache_read_tokens=4),
    )
    response = as_response(message)

    assert response == Response(
        (OutputMessage(thinking=ThinkingBlock("hm", "c2ln")), OutputMessage("a"), CALL, OutputMessage("b")),
        ResponseUsage(7, 2, 9),
        "",
    )
    assert as_message(response).blocks == message.blocks
    assert as_response(Message(stop_reason=StopReason.LENGTH)).stop_reason == "MAX_TOKENS"


# The same while it streams.


def joined(deltas: list[Any]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


@given(NOISY, st.lists(st.integers(0, 200), max_size=6))
def test_streamed_text_is_clean_wherever_it_is_cut(words, cuts):
    """A sequence that is cut in two is still one (F379, F407)."""
    places = sorted({place % (len(words) + 1) for place in cuts})
    pieces = [TextDelta(words[a:b]) for a, b in zip([0, *places], [*places, len(words)], strict=True)]

    assert joined(run_apart(CleanText(), pieces)) == sanitize_text(words, reminders=False)


@given(NOISY, st.lists(st.integers(0, 200), max_size=6))
def test_streamed_text_has_no_blocks_wherever_it_is_cut(words, cuts):
    """The result depends on the text alone, and of a text with one block only that is missing (F379, F409)."""
    places = sorted({place % (len(words) + 1) for place in cuts})
    pieces = [TextDelta(words[a:b]) for a, b in zip([0, *places], [*places, len(words)], strict=True)]
    filtered = joined(run_apart(ReminderFilter(), pieces))

    assert filtered == joined(run(ReminderFilter(), [TextDelta(words)]))
    assert (OPEN in words and CLOSE in words) or filtered == words


def test_streamed_blocks_are_removed():
    """Complete blocks go, an open one comes at the end, or before whatever is no text (F409)."""
    pieces = [*map(TextDelta, f"a{OPEN}x{CLOSE}b{OPEN}y"), ThinkingDelta("hm"), TextDelta("c")]
    deltas = run_apart(ReminderFilter(), pieces)

    assert joined(deltas) == f"ab{OPEN}yc"
    assert deltas.index(ThinkingDelta("hm")) == len(deltas) - 2


def test_what_is_held_back_keeps_its_place():
    """A string for the terminal that never ends is text, and stands before the thinking that follows it (F407)."""
    pieces = [TextDelta("a\x1b]b"), ThinkingDelta("hm"), TextDelta("c")]

    assert run(CleanText(), pieces) == [TextDelta("a"), TextDelta("b"), ThinkingDelta("hm"), TextDelta("c")]


def test_text_flows_at_once():
    """Nothing is held back that cannot begin a sequence or a tag."""
    stages = contract_stages(ContractOptions())
    deltas: Any = [TextDelta("a < b > c [31m")]
    for stage in stages:
        deltas = stage.feed(deltas)

    assert joined(list(deltas)) == "a < b > c [31m"


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (StopReason.STOP_SEQUENCE, StopReason.END),
        (StopReason.CONTENT_FILTER, StopReason.END),
        (StopReason.CONTEXT_FULL, StopReason.LENGTH),
        (StopReason.LENGTH, StopReason.LENGTH),
        (StopReason.TOOL_CALL, StopReason.TOOL_CALL),
        (StopReason.END, StopReason.END),
    ],
)
def test_streamed_reasons(said, meant):
    """The contract's map for the service's reasons; all else passes, follow-up prompts too (F384, F386, F389)."""
    assert run(LegacyStops(), [FollowupPrompt("x"), Stop(said)]) == [FollowupPrompt("x"), Stop(meant)]


def test_the_stages_are_a_choice():
    """Reminders and the strict map can be kept."""
    options = ContractOptions(strip_system_reminders=False, legacy_stop_map=False)

    assert [type(stage) for stage in contract_stages(options)] == [CleanText]
