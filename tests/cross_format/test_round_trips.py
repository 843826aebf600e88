"""What one half of an API writes, the other half reads."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_chat.parsing import ChatOptions
from kiro_asgi.model.events import Event, ServerResult, StopReason
from kiro_asgi.model.message import Block, Message, RefusalBlock, TextBlock, ThinkingBlock, ToolCallBlock, fold
from kiro_asgi.stages.answer import Plan, build_pipeline
from kiro_asgi.upstreams.openai.upstream import OpenAIUpstream
from kiro_asgi.wire.json import loads
from tests.dialects.strategies import answers
from tests.helpers import cut, run
from tests.upstreams.openai.chunks import new_ids

HEADING = ResponseMeta("chatcmpl-1", "m", 1, ChatOptions(include_usage=True))
PLAN = Plan(drop_equal_tool_calls=False)
READ_AS = {
    StopReason.STOP_SEQUENCE: StopReason.END,
    StopReason.CONTEXT_FULL: StopReason.LENGTH,
    StopReason.PAUSED: StopReason.LENGTH,
    StopReason.COMPACTED: StopReason.LENGTH,
}
"""Reasons for which the API has no word of their own."""


def carried(message: Message) -> tuple[str, str, str, list[tuple[str, object]]]:
    """What the API carries of a message: one text, one refusal, one reasoning, the calls."""
    texts = "".join(block.text for block in message.blocks if isinstance(block, TextBlock))
    refusal = "".join(block.text for block in message.blocks if isinstance(block, RefusalBlock))
    thinking = "".join(block.text for block in message.blocks if isinstance(block, ThinkingBlock))
    calls = [(block.name, loads(block.input)) for block in message.blocks if isinstance(block, ToolCallBlock)]
    return texts, refusal, thinking, calls


def read(stream: bytes, cuts: list[int]) -> Message:
    answer = build_pipeline(OpenAIUpstream(new_id=new_ids()).decoder("text/event-stream"), PLAN)
    events = [event for piece in cut(stream, cuts) for event in answer.feed([piece])]
    return fold([*events, *answer.flush()])


def shows_its_end(message: Message) -> bool:
    """Not an answer that says that it calls a tool, and has no call: that may be an error."""
    called = any(isinstance(block, ToolCallBlock) for block in message.blocks)
    return called or message.stop_reason is not StopReason.TOOL_CALL


def expected(message: Message) -> StopReason:
    reason = READ_AS.get(message.stop_reason, message.stop_reason)
    called = any(isinstance(block, ToolCallBlock) for block in message.blocks)
    if reason in (StopReason.LENGTH, StopReason.CONTENT_FILTER):
        return reason
    refused = any(isinstance(block, RefusalBlock) and block.text for block in message.blocks)
    if called:
        return StopReason.TOOL_CALL
    return StopReason.REFUSAL if refused and reason is not StopReason.TOOL_CALL else StopReason.END


@given(answers(), st.lists(st.integers(0, 10_000), max_size=4))
def test_our_own_streams_are_read_as_they_were_meant(events: list[Event], cuts: list[int]) -> None:
    """Any legal answer, written as Chat Completions and read again, says the same, as far as the API carries it."""
    meant = fold(events)
    assume(shows_its_end(meant))
    found = read(b"".join(run(OpenAIChat().encoder(HEADING), events)), cuts)

    if not any(isinstance(block, ServerResult) for block in meant.blocks):
        assert carried(found) == carried(meant)
    assert found.stop_reason is expected(meant)
    assert found.usage.prompt_tokens == meant.usage.prompt_tokens
    assert found.usage.output_tokens == meant.usage.output_tokens


def read_whole(body: bytes) -> Message:
    answer = build_pipeline(OpenAIUpstream(new_id=new_ids()).decoder("application/json"), PLAN)
    return fold([*answer.feed([body]), *answer.flush()])


@given(answers())
def test_our_own_documents_are_read_as_they_were_meant(events: list[Event]) -> None:
    """The same for an answer in one piece."""
    meant = fold(events)
    assume(shows_its_end(meant))
    found = read_whole(b"".join(OpenAIChat().render(meant, HEADING)))

    if not any(isinstance(block, ServerResult) for block in meant.blocks):
        assert carried(found) == carried(meant)
    assert found.stop_reason is expected(meant)


CALL = ToolCallBlock("call_0", "f", "{}")


@pytest.mark.parametrize("blocks", [(CALL, CALL), (RefusalBlock("no"), CALL)], ids=["one-id", "refusal"])
def test_calls_of_a_document_stay_calls(blocks: tuple[Block, ...]) -> None:
    """Two of one id are two, each whole; a refusal beside one does not end the answer."""
    meant = Message(blocks, StopReason.END)
    found = read_whole(b"".join(OpenAIChat().render(meant, HEADING)))

    assert carried(found) == carried(meant)
    assert found.stop_reason is StopReason.TOOL_CALL
