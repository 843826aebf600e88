"""The contract over a network of one's own: translate, ask, translate back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from attrs import evolve

from kiro_asgi import KiroAsgiError, UpstreamError, streaming
from kiro_asgi.errors import UpstreamDenied, UpstreamRejected
from kiro_asgi.model.prompt import Sampling
from kiro_asgi.streaming import ContractOptions, SseDecoder, execute_kiro, stream_kiro
from kiro_asgi.upstreams.kiro.contract import OutputMessage, ToolUse
from tests.helpers import kiro_exception, kiro_stream, kiro_text, run
from tests.test_streaming import TRAILER, taken, tool
from tests.upstreams.kiro.contract.prompts import LOOP, prompt, user

pytestmark = pytest.mark.anyio

QUESTION = prompt(user("q"))
NATIVE = ContractOptions(drop_tool_events=False)
IMPROPER = UpstreamRejected("Improperly formed request.", code="improperly_formed")

TOOL = kiro_stream(*tool("t1", "f", '{"a":', "1}"), *TRAILER)


class Network:
    """Gives one answer after the other, a piece at a time, and keeps what it was asked."""

    def __init__(self, *answers: bytes | Exception) -> None:
        self.answers = list(answers)
        self.bodies: list[Any] = []
        self.closed = 0

    async def __call__(self, body: bytes) -> AsyncIterator[bytes]:
        self.bodies.append(json.loads(body))
        answer = self.answers.pop(0)
        try:
            if isinstance(answer, Exception):
                raise answer
            for at in range(0, len(answer), 50):
                yield answer[at : at + 50]
        finally:
            self.closed += 1

    def content(self, at: int = -1) -> str:
        """The current message of a request."""
        message = self.bodies[at]["conversationState"]["currentMessage"]["userInputMessage"]
        return str(message["content"])


def events(pieces: list[bytes]) -> list[Any]:
    return [json.loads(event.data) for event in run(SseDecoder(), [b"".join(pieces)])]


async def test_a_request_is_translated_sent_and_translated_back():
    """The network is given the contract's text, and the answer is a message (F390, F457)."""
    network = Network(kiro_text(["\x1b[1mGrü", "ße"]))
    message = await execute_kiro(evolve(LOOP, system=("S",)), network)

    assert network.content() == "S\n\nTool result context:\nTool invoked (t1): f\nTool result (t1): 42\n\nSure?"
    assert message["content"] == [{"type": "text", "text": "Grüße"}]
    assert (message["model"], message["stop_reason"]) == ("claude-sonnet-4.5", "end_turn")
    assert message["usage"]["output_tokens"] > 0
    assert network.closed == 1


async def test_an_answer_is_collected_as_the_contract_has_it():
    """A text run is an output message, and only a reason that says something has a word (F379, F387, 5.5)."""
    data = kiro_stream(("assistantResponseEvent", {"content": "a"}), ("assistantResponseEvent", {"content": "b"}))
    response = await streaming.collect_kiro_response(Network(data + TOOL)(b"{}"))
    cut = await streaming.collect_kiro_response(Network(kiro_text(["a"], "MAX_TOKENS"))(b"{}"))

    assert response.output_messages == (OutputMessage("ab"), OutputMessage(tool_use=ToolUse("t1", "f", {"a": 1})))
    assert (response.stop_reason, cut.stop_reason) == ("TOOL_USE", "MAX_TOKENS")
    assert cut.usage is not None
    assert cut.usage.total_tokens == cut.usage.input_tokens + cut.usage.output_tokens > 0


@pytest.mark.parametrize("indent", [None, 1], ids=["compact", "pretty"])
@pytest.mark.parametrize("names", ["outputMessages usage stopReason", "usage stopReason outputMessages"])
async def test_a_whole_answer_is_read_as_one(names, indent):
    """One message is one block, a blank one none, and the facts are those of the document (F378, F379)."""
    facts = {
        "outputMessages": [{"content": "Seven"}, {"content": "  "}, {"content": "degrees"}],
        "usage": {"inputTokens": 5, "outputTokens": 3, "totalTokens": 8},
        "stopReason": "MAX_TOKENS",
    }
    data = json.dumps({name: facts[name] for name in names.split()}, indent=indent).encode()
    message = await execute_kiro(QUESTION, Network(data))
    response = await streaming.collect_kiro_response(Network(data)(b"{}"))
    collected = await streaming.collect_anthropic_response(Network(data)(b"{}"), model="claude-sonnet-4.5")

    for each in (message, collected):
        assert [block["text"] for block in each["content"]] == ["Seven", "degrees"]
        assert each["stop_reason"] == "max_tokens"
        assert (each["usage"]["input_tokens"], each["usage"]["output_tokens"]) == (5, 3)
    assert [each.content for each in response.output_messages] == ["Seven", "degrees"]
    assert response.stop_reason == "MAX_TOKENS"


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"accounts": []}', b"<html>No.</html>", b'{"outputMessages": ['])
async def test_an_answer_with_nothing_in_it_is_an_error(data):
    """No caller takes it for an empty answer."""
    with pytest.raises(KiroAsgiError):
        await execute_kiro(QUESTION, Network(data))
    with pytest.raises(KiroAsgiError):
        await streaming.collect_kiro_response(Network(data)(b"{}"))


async def test_a_tool_call_comes_back():
    """With the lead-in before it, and a reason to end (F217, F390)."""
    message = await execute_kiro(QUESTION, Network(TOOL))

    assert message["content"] == [
        {"type": "text", "text": "I will call a tool to help with this:"},
        {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}},
    ]
    assert message["stop_reason"] == "tool_use"


async def test_a_stream_is_the_message():
    """A block is one delta, numbered in order; the end has the reason and the usage (F285, F286, F288, F289, F391)."""
    sent = events(await taken(stream_kiro(QUESTION, Network(TOOL))))

    assert [event["type"] for event in sent] == [
        "message_start",
        *("content_block_start", "content_block_delta", "content_block_stop") * 2,
        "message_delta",
        "message_stop",
    ]
    assert [event["index"] for event in sent if "index" in event] == [0, 0, 0, 1, 1, 1]
    assert sent[5]["delta"] == {"type": "input_json_delta", "partial_json": '{"a":1}'}
    assert sent[-2]["delta"]["stop_reason"] == "tool_use"
    assert sent[-2]["usage"]["output_tokens"] > 0


async def test_text_may_come_by_sentences():
    """Several deltas then, which join to the text (F287)."""
    words = "One. Two!  Three"
    sent = events(await taken(stream_kiro(QUESTION, Network(kiro_text([words])), by_sentence=True)))
    pieces = [event["delta"]["text"] for event in sent if event["type"] == "content_block_delta"]

    assert pieces == ["One. ", "Two!  ", "Three"]


async def test_native_history_is_told_as_text_after_a_refusal():
    """Exactly one more request, the same in text (F073)."""
    network = Network(IMPROPER, kiro_text(["a"]))
    message = await execute_kiro(LOOP, network, options=NATIVE)

    assert message["content"][0]["text"] == "a"
    assert network.content(0) == "Sure?"
    assert network.content(1).startswith("Tool result context:\n")
    assert len(network.bodies) == 2


@pytest.mark.parametrize(
    ("answers", "options"),
    [
        pytest.param((IMPROPER,), ContractOptions(), id="text-already"),
        pytest.param((IMPROPER, IMPROPER), NATIVE, id="twice"),
        pytest.param((IMPROPER, UpstreamDenied("no")), NATIVE, id="another-one-then"),
        pytest.param((UpstreamDenied("no"),), NATIVE, id="another-one"),
        pytest.param((kiro_text(["a"])[:-3],), ContractOptions(), id="torn"),
        pytest.param((kiro_text(["a"]) + kiro_exception("ThrottlingException", "slow"),), NATIVE, id="late"),
        pytest.param((b"",), ContractOptions(), id="empty"),
    ],
)
async def test_a_failure_is_told_and_nothing_else(answers, options):
    """The last error comes through, no event goes out, and everything is closed (F074, F075, F089, F392)."""
    network, sent = Network(*answers), []
    with pytest.raises(UpstreamError):
        async for data in stream_kiro(LOOP, network, options=options):
            sent.append(data)

    assert sent == []
    assert network.answers == []
    assert network.closed == len(answers)


async def test_limits_that_the_service_does_not_know_are_kept():
    """A stop sequence ends the answer, and the rest of it is not read."""
    asked = evolve(QUESTION, sampling=Sampling(stop=("END",)))
    network = Network(kiro_text(["one END", *["two"] * 100]))
    message = await execute_kiro(asked, network)

    assert message["content"] == [{"type": "text", "text": "one "}]
    assert network.closed == 1


async def test_an_unknown_model_is_never_asked_for():
    """The error comes before any call (F341)."""
    network = Network()
    with pytest.raises(KiroAsgiError, match="unsupported model"):
        await execute_kiro(evolve(QUESTION, model="nobody"), network)

    assert network.bodies == []


def test_the_functions_of_the_document_are_exported():
    """All of them by name (F457)."""
    names = {
        *("collect_kiro_response", "translate_kiro_request", "translate_kiro_response", "execute_kiro", "stream_kiro"),
        *("safe_parse_json", "clean_json_schema_properties", "sanitize_text", "reasoning_effort_from_budget"),
    }

    assert names <= set(streaming.__all__)
