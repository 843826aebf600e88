"""LiteLLM's proxy as an upstream, in each of the three formats that it speaks, and the official clients in front of us.

What it changes on its own way is in the assertions, too: an end that was cut is an ordinary one when it has gone
through LiteLLM, so no test of cut answers is here.
"""

from __future__ import annotations

from typing import Any, Final

import anthropic
import openai
import pytest

from kiro_asgi.model.signatures import UNSIGNED
from tests.conformance.clients import Clients
from tests.conformance.gateways import Gateway
from tests.servers.asking import EACH_MODE, TOOL, message_of, result_of, text_of
from tests.servers.litellm import MODELS, SAID

EACH_UPSTREAM = pytest.mark.parametrize("upstream", ["litellm", "anthropic", "gemini"])
EACH_BACKEND = pytest.mark.parametrize("model", ["local", "claude"])

SENTENCE: Final = "This is a simulated answer, and it is streamed in small pieces."
HALF: Final = "This is a simulated answer,"


def completion_of(client: openai.OpenAI, model: str, asked: str, *, stream: bool) -> Any:
    given: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": asked}]}
    if not stream:
        return client.chat.completions.create(**given)
    with client.chat.completions.stream(**given, stream_options={"include_usage": True}) as events:
        return events.get_final_completion()


def response_of(client: openai.OpenAI, model: str, asked: str, *, stream: bool) -> Any:
    if not stream:
        return client.responses.create(model=model, input=asked)
    with client.responses.stream(model=model, input=asked) as events:
        return events.get_final_response()


@pytest.fixture
def messages(clients: Clients, behind_litellm: Gateway) -> anthropic.Anthropic:
    return clients.anthropic(behind_litellm)


@pytest.fixture
def chat(clients: Clients, behind_litellm: Gateway) -> openai.OpenAI:
    return clients.openai(behind_litellm)


def test_its_models_are_listed(chat: openai.OpenAI) -> None:
    """In its own order, under their own names for the first upstream that has them."""
    listed = [model.id for model in chat.models.list() if model.owned_by == "litellm"]

    assert listed == [*MODELS]
    assert chat.models.retrieve("anthropic/talker").owned_by == "anthropic"


@EACH_MODE
@EACH_UPSTREAM
def test_a_message(messages: anthropic.Anthropic, upstream: str, stream: bool) -> None:
    """Every letter of it; and what it took, where LiteLLM knows, else an estimate."""
    message = message_of(messages, f"{upstream}/talker", "Hi", stream=stream)

    assert (text_of(message), message.stop_reason) == (SAID, "end_turn")
    assert message.usage.input_tokens > 0
    assert message.usage.output_tokens > 0


@EACH_MODE
@EACH_UPSTREAM
def test_a_completion(chat: openai.OpenAI, upstream: str, stream: bool) -> None:
    """The same for Chat Completions, which go to the first upstream as they are."""
    completion = completion_of(chat, f"{upstream}/talker", "Hi", stream=stream)

    assert (completion.model, completion.choices[0].message.content) == (f"{upstream}/talker", SAID)
    assert completion.choices[0].finish_reason == "stop"
    assert completion.usage.prompt_tokens > 0
    assert completion.usage.completion_tokens > 0


@EACH_MODE
@EACH_UPSTREAM
def test_a_response(chat: openai.OpenAI, upstream: str, stream: bool) -> None:
    """The same for the Responses API."""
    response = response_of(chat, f"{upstream}/talker", "Hi", stream=stream)

    assert (response.output_text, response.status) == (SAID, "completed")
    assert response.usage.input_tokens > 0
    assert response.usage.output_tokens > 0


@EACH_MODE
@EACH_BACKEND
@EACH_UPSTREAM
def test_two_calls_and_their_results(messages: anthropic.Anthropic, upstream: str, model: str, stream: bool) -> None:
    """Calls come apart, each with an id of its own, and their results arrive at the model behind LiteLLM.

    It tells calls of one tool apart by their names when it reads Gemini's format, so there one has to be enough.
    """
    name = f"{upstream}/{model}"
    message = message_of(messages, name, "sim:parallel", stream=stream, tools=[TOOL])
    calls = [block for block in message.content if block.type == "tool_use"]

    assert [(call.name, call.input) for call in calls] == [
        ("get_weather", {"city": "Oslo"}),
        ("get_weather", {"city": "Oslo 2"}),
    ]
    assert (len({call.id for call in calls}), message.stop_reason) == (2, "tool_use")

    calls = calls[: 1 if upstream == "gemini" else 2]
    turns = [
        {"role": "user", "content": "What is the weather?"},
        {"role": "assistant", "content": [call.model_dump(exclude_none=True) for call in calls]},
        {"role": "user", "content": [result_of(call) for call in calls]},
    ]
    answer = text_of(message_of(messages, name, turns, stream=stream, tools=[TOOL]))
    assert all(f"Snow in {call.input['city']}" in answer for call in calls)


@EACH_MODE
@pytest.mark.parametrize("name", ["litellm/local", "litellm/claude", "anthropic/claude"])
def test_thinking(messages: anthropic.Anthropic, name: str, stream: bool) -> None:
    """It is told in the formats in which LiteLLM tells it, and with its seal in the one that has seals."""
    wanted = {"type": "enabled", "budget_tokens": 2_000}
    message = message_of(messages, name, "sim:thinking", stream=stream, thinking=wanted)

    thought = next(block for block in message.content if block.type == "thinking")
    assert (thought.thinking, text_of(message)) == ("A simulated thought, before the answer.", SENTENCE)
    assert (thought.signature != UNSIGNED) is (name == "anthropic/claude")

    turns = [
        {"role": "user", "content": "sim:thinking"},
        {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in message.content]},
        {"role": "user", "content": "Count to 3"},
    ]
    assert "3" in text_of(message_of(messages, name, turns, stream=stream, thinking=wanted))


@EACH_UPSTREAM
@pytest.mark.parametrize(("marker", "reason"), [("sim:length", "max_tokens"), ("sim:filtered", "refusal")])
def test_other_ends(messages: anthropic.Anthropic, upstream: str, marker: str, reason: str) -> None:
    """Why an answer ended is kept."""
    assert message_of(messages, f"{upstream}/local", marker, stream=True).stop_reason == reason


@EACH_MODE
@EACH_UPSTREAM
@pytest.mark.parametrize(
    ("model", "status", "kind", "words"),
    [
        ("limited", 429, "rate_limit_error", "mock rate limit error"),
        ("broken", 502, "api_error", "mock internal server error"),
        ("full", 400, "invalid_request_error", "prompt is too long"),
    ],
)
def test_refusals(
    messages: anthropic.Anthropic, upstream: str, model: str, status: int, kind: str, words: str, stream: bool
) -> None:
    """Clients are told what they act upon, whatever LiteLLM has made of it."""
    with pytest.raises(anthropic.APIStatusError, match=words) as refused:
        message_of(messages, f"{upstream}/{model}", "Hi", stream=stream)

    assert (refused.value.status_code, refused.value.body["error"]["type"]) == (status, kind)  # type: ignore[index]


@EACH_UPSTREAM
def test_an_error_in_the_middle(messages: anthropic.Anthropic, upstream: str) -> None:
    """What came before it has come, and the stream says what went wrong."""
    texts: list[str] = []
    with (
        pytest.raises(anthropic.APIStatusError, match="Rate limit reached") as broken,
        messages.messages.stream(
            model=f"{upstream}/local",
            max_tokens=100,
            messages=[{"role": "user", "content": "sim:exception=ThrottlingException"}],
        ) as events,
    ):
        texts.extend(events.text_stream)

    assert "".join(texts) == HALF
    assert broken.value.body["error"]["type"] == "rate_limit_error"  # type: ignore[index]


@EACH_UPSTREAM
def test_a_model_that_there_is_not(messages: anthropic.Anthropic, upstream: str) -> None:
    """Whether we know it from the list, or LiteLLM says it."""
    with pytest.raises(anthropic.NotFoundError, match="nonesuch"):
        message_of(messages, f"{upstream}/nonesuch", "Hi", stream=False)
