"""Signatures of models that are not Anthropic's: what a client is given, and hands back, is what the model signed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_responses.sealing import Sealer
from kiro_asgi.model.events import StopReason
from kiro_asgi.model.message import Message, TextBlock, ThinkingBlock, ToolCallBlock
from kiro_asgi.model.prompt import Part, Prompt, ThinkingPart, ToolCallPart
from kiro_asgi.model.signatures import marked
from tests.dialects.echoes import SEALER, Client, chat, given_answer, handed_back, messages, responses
from tests.dialects.openai_chat import grammar as chat_grammar


def kept(prompt: Prompt) -> list[Part]:
    """The thinking and the calls of a prompt."""
    return [part for turn in prompt.turns for part in turn.parts if isinstance(part, ThinkingPart | ToolCallPart)]


KINDS = st.sampled_from(["call", "text", "thought"])
WORDS = st.text("ab+/=:é", min_size=1, max_size=9)
SIGNATURES = st.builds(marked, st.just("gemini"), KINDS, WORDS)
THINKING = st.builds(ThinkingBlock, st.sampled_from(["", "hm"]), SIGNATURES)


@st.composite
def answers(draw: st.DrawFn) -> Message:
    """Answers with signatures anywhere, and calls with ids of their own."""
    blocks: list[Any] = draw(st.lists(THINKING | st.just(TextBlock("a")) | st.just(None), min_size=1, max_size=6))
    called = [ToolCallBlock(f"call_{number}", "f", "{}") if it is None else it for number, it in enumerate(blocks)]
    return Message(tuple(called), StopReason.TOOL_CALL if None in blocks else StopReason.END)


def parts(message: Message) -> list[Part]:
    """What was given, as a prompt would have it."""
    return [
        ToolCallPart(block.call_id, "f", {})
        if isinstance(block, ToolCallBlock)
        else ThinkingPart(block.text, block.signature)
        for block in message.blocks
        if not isinstance(block, TextBlock)
    ]


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("client", [messages, responses])
@given(message=answers())
def test_every_signature_comes_back(client: Client, streamed: bool, message: Message) -> None:
    """F187, §1.8: all of them, each in its place, with and without thinking before it."""
    assert kept(client(message, streamed)) == parts(message)


@pytest.mark.parametrize("streamed", [True, False])
@given(message=answers())
def test_the_signatures_of_calls_come_back_in_chat_completions(streamed: bool, message: Message) -> None:
    """F187, §1.8: each directly before its call; what this API has no place for is thinking without a signature."""
    expected: list[Part] = []
    pending = ""
    for part in parts(message):
        if isinstance(part, ThinkingPart):
            pending = part.signature if part.signature.startswith("gemini.call:") else pending
        else:
            expected += [ThinkingPart(signature=pending), part] if pending else [part]
            pending = ""

    assert [part for part in kept(chat(message, streamed)) if part != ThinkingPart(part_text(message))] == expected


def part_text(message: Message) -> str:
    return "".join(block.text for block in message.blocks if isinstance(block, ThinkingBlock))


def test_where_it_stands_in_chat_completions() -> None:
    """§1.8: where Google's own gateway to this API has it, as the model gave it; a call's first chunk brings it."""
    message = Message((ThinkingBlock("", "gemini.call:AA=="), ToolCallBlock("call_1", "f", "{}")), StopReason.TOOL_CALL)
    request = {"messages": [{"role": "user", "content": "hi"}]}
    extra = {"google": {"thought_signature": "AA=="}}

    body = json.loads(given_answer(OpenAIChat(), request, message, streamed=False))
    assert body["choices"][0]["message"]["tool_calls"] == [
        {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}, "extra_content": extra}
    ]
    _, first, *rest = chat_grammar.check(given_answer(OpenAIChat(), request, message, streamed=True))
    assert first["choices"][0]["delta"]["tool_calls"][0]["extra_content"] == extra
    assert "extra_content" not in json.dumps(rest)


@pytest.mark.parametrize(
    "extra", [None, 1, "x", [], {}, {"google": None}, {"google": {"thought_signature": ""}}, {"google": []}]
)
def test_anything_else_that_stands_there(extra: Any) -> None:
    """Other vendors may put there what they like."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}, "extra_content": extra}
    echo = {"role": "assistant", "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "c", "content": "1"}

    assert kept(handed_back(OpenAIChat(), {"messages": [echo, result]})) == [ToolCallPart("c", "f", {})]


def test_a_seal_opens_whoever_answers_next() -> None:
    """A conversation that goes on with another model keeps its thinking; the signature says who may have it."""
    thinking = ThinkingPart("", "gemini.call:AA==")

    assert Sealer.create(b"key", "me").open(SEALER.seal(thinking)) == thinking
