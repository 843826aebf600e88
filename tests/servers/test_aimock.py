"""aimock as an upstream, in each of the three formats, and the official client in front of us."""

from __future__ import annotations

from typing import Any

import anthropic
import pytest

from tests.conformance.clients import Clients
from tests.conformance.gateways import Gateway
from tests.servers.aimock import LONG, SAID
from tests.servers.asking import EACH_MODE, TOOL, message_of, result_of, text_of

MODELS = ("aimock/gpt-4o", "anthropic/claude-sonnet-4-5", "gemini/gemini-2.5-flash")
EACH_MODEL = pytest.mark.parametrize("model", MODELS)


@pytest.fixture
def messages(clients: Clients, behind_aimock: Gateway) -> anthropic.Anthropic:
    return clients.anthropic(behind_aimock)


@EACH_MODE
@EACH_MODEL
def test_a_text(messages: anthropic.Anthropic, model: str, stream: bool) -> None:
    """Every letter of it."""
    message = message_of(messages, model, "text", stream=stream)

    assert (text_of(message), message.stop_reason, message.model) == (SAID, "end_turn", model)


@EACH_MODE
@EACH_MODEL
def test_thinking(messages: anthropic.Anthropic, model: str, stream: bool) -> None:
    """Each format has its own place for it."""
    wanted = {"type": "enabled", "budget_tokens": 2_000}
    message = message_of(messages, model, "thought", stream=stream, thinking=wanted)

    thought = next(block.thinking for block in message.content if block.type == "thinking")
    assert (thought, text_of(message)) == ("A thought that takes some time.", "So it is.")


@EACH_MODE
@EACH_MODEL
def test_two_calls_and_their_results(messages: anthropic.Anthropic, model: str, stream: bool) -> None:
    """Calls come apart, and their results are known for results."""
    message = message_of(messages, model, "calls", stream=stream, tools=[TOOL])
    calls = [block for block in message.content if block.type == "tool_use"]

    assert [call.input for call in calls] == [{"city": "Oslo"}, {"city": "Ulm"}]
    assert (len({call.id for call in calls}), message.stop_reason) == (2, "tool_use")

    turns: list[dict[str, Any]] = [
        {"role": "user", "content": "calls"},
        {"role": "assistant", "content": [call.model_dump(exclude_none=True) for call in calls]},
        {"role": "user", "content": [result_of(call) for call in calls]},
    ]
    assert text_of(message_of(messages, model, turns, stream=stream, tools=[TOOL])) == "It snows."


@EACH_MODE
@EACH_MODEL
def test_a_length(messages: anthropic.Anthropic, model: str, stream: bool) -> None:
    """Why an answer ended is kept."""
    assert message_of(messages, model, "length", stream=stream).stop_reason == "max_tokens"


@EACH_MODE
@EACH_MODEL
def test_a_refusal(messages: anthropic.Anthropic, model: str, stream: bool) -> None:
    """With its status."""
    with pytest.raises(anthropic.RateLimitError, match="Rate limit reached"):
        message_of(messages, model, "limited", stream=stream)


@EACH_MODEL
def test_a_cut_answer(messages: anthropic.Anthropic, model: str) -> None:
    """It is no whole one, and what there was of it has come."""
    texts: list[str] = []
    asked: Any = [{"role": "user", "content": "cut"}]
    with (
        pytest.raises(anthropic.APIStatusError),
        messages.messages.stream(model=model, max_tokens=100, messages=asked) as events,
    ):
        texts.extend(events.text_stream)

    assert LONG.startswith("".join(texts))
