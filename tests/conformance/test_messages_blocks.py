"""Tools and thinking in Messages through the official Python client.

Numbers are those of the project's list of conformance assertions.
"""

from __future__ import annotations

import json
import re
from typing import Any

import anthropic
import pytest

from tests.conformance.asking import MESSAGES_TOOLS, MODEL, NATIVE, PNG, SENTENCE, THOUGHT, user
from tests.conformance.test_messages import ask, helper

Params = dict[str, Any]

BOTH = pytest.mark.parametrize("way", [ask, helper], ids=["whole", "helper"])

CALL_ID = re.compile(r"[A-Za-z0-9_-]{5,64}")


def _tool_uses(message: Any) -> list[Any]:
    return [block for block in message.content if block.type == "tool_use"]


def test_51_tools(messages: anthropic.Anthropic) -> None:
    """A call opens empty; its pieces are the text of one JSON object."""
    with messages.messages.create(
        model=MODEL, max_tokens=99, messages=user("sim:tool"), tools=MESSAGES_TOOLS, stream=True
    ) as stream:
        events: list[Any] = list(stream)
    (opened,) = [
        each for each in events if each.type == "content_block_start" and each.content_block.type == "tool_use"
    ]
    pieces = [
        each.delta.partial_json
        for each in events
        if each.type == "content_block_delta" and each.index == opened.index and each.delta.type == "input_json_delta"
    ]

    assert (opened.content_block.name, opened.content_block.input) == ("get_weather", {})
    assert CALL_ID.fullmatch(opened.content_block.id)
    assert json.loads("".join(pieces)) == {"city": "Oslo"}
    assert [each.delta.stop_reason for each in events if each.type == "message_delta"] == ["tool_use"]


@BOTH
@pytest.mark.parametrize("content", ["sim:parallel", "sim:interleaved", "sim:parallel=3 sim:bytes"])
def test_52_parallel(messages: anthropic.Anthropic, content: str, way: Any) -> None:
    """Several calls are several blocks, each whole, in the order in which they became complete."""
    answer = way(messages, content, tools=MESSAGES_TOOLS)
    uses = [(use.name, use.input) for use in _tool_uses(answer)]
    two = [("get_weather", {"city": "Oslo"}), ("now", {})]

    assert uses[:2] == (two[::-1] if "interleaved" in content else two)
    assert len({use.id for use in _tool_uses(answer)}) == len(uses) == (3 if "=3" in content else 2)
    assert answer.stop_reason == "tool_use"


def test_52_blocks_follow_one_another(messages: anthropic.Anthropic) -> None:
    """Indexes count from 0 without gaps, and a block closes before the next one opens, however the service mixes."""
    with messages.messages.create(
        model=MODEL, max_tokens=99, messages=user("sim:interleaved=3"), tools=MESSAGES_TOOLS, stream=True
    ) as stream:
        edges = [(each.type, each.index) for each in stream if each.type.endswith(("block_start", "block_stop"))]  # type: ignore[union-attr]

    assert edges == [(kind, index) for index in range(3) for kind in ("content_block_start", "content_block_stop")]


@BOTH
@pytest.mark.parametrize("kind", ["auto", "any"])
def test_52_no_parallel_calls(messages: anthropic.Anthropic, kind: str, way: Any) -> None:
    """`disable_parallel_tool_use` gets one call of an answer that had two."""
    choice = {"type": kind, "disable_parallel_tool_use": True}
    answer = way(messages, "sim:parallel", tools=MESSAGES_TOOLS, tool_choice=choice)

    assert [use.name for use in _tool_uses(answer)] == ["get_weather"]
    assert answer.stop_reason == "tool_use"


@BOTH
@pytest.mark.parametrize(
    ("choice", "called"),
    [
        pytest.param({"type": "none"}, [], id="none"),
        pytest.param({"type": "auto"}, [], id="auto"),
        pytest.param({"type": "any"}, ["get_weather"], id="any"),
        pytest.param({"type": "tool", "name": "now"}, ["now"], id="tool"),
    ],
)
def test_51_tool_choice(messages: anthropic.Anthropic, choice: Params, called: list[str], way: Any) -> None:
    """Every kind of choice reaches the model."""
    answer = way(messages, "How do you do?", tools=MESSAGES_TOOLS, tool_choice=choice)

    assert [use.name for use in _tool_uses(answer)] == called
    assert answer.stop_reason == ("tool_use" if called else "end_turn")


def test_51_unknown_tool_choice(messages: anthropic.Anthropic) -> None:
    """A choice that names nothing on offer is refused."""
    with pytest.raises(anthropic.BadRequestError, match="tool_choice"):
        ask(messages, "Hello", tools=MESSAGES_TOOLS, tool_choice={"type": "tool", "name": "unknown"})


_IMAGE: Params = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}


@pytest.mark.parametrize(
    ("result", "quoted"),
    [
        pytest.param({"content": "sunny"}, "sunny", id="text"),
        pytest.param(
            {"content": [{"type": "text", "text": "sun"}, {"type": "text", "text": "ny"}]}, "sun", id="blocks"
        ),
        pytest.param({"content": "no such city", "is_error": True}, "failed: no such city", id="error"),
        pytest.param({"content": [{"type": "text", "text": "a map"}, _IMAGE]}, "a map", id="image"),
        pytest.param({}, "The tool says:", id="nothing"),
    ],
)
def test_53_tool_result(messages: anthropic.Anthropic, result: Params, quoted: str) -> None:
    """Every form of a result is taken after its call, which is echoed as it came."""
    called = ask(messages, "sim:tool", tools=MESSAGES_TOOLS)
    (use,) = _tool_uses(called)
    history: list[Any] = [
        *user("sim:tool"),
        {"role": "assistant", "content": called.content},
        *user([{"type": "tool_result", "tool_use_id": use.id, **result}, {"type": "text", "text": "Go on."}]),
    ]
    answer = messages.messages.create(model=MODEL, max_tokens=99, messages=history, tools=MESSAGES_TOOLS)

    assert answer.stop_reason == "end_turn"
    assert quoted in answer.content[0].text  # type: ignore[union-attr]


ENABLED: Params = {"type": "enabled", "budget_tokens": 1024}
ADAPTIVE: Params = {"type": "adaptive"}
DISABLED: Params = {"type": "disabled"}


@pytest.mark.parametrize("content", ["sim:thinking", "What is 2 + 3?"])
@pytest.mark.parametrize("model", [MODEL, NATIVE], ids=["in-tags", "native"])
@pytest.mark.parametrize("thinking", [ENABLED, ADAPTIVE], ids=["enabled", "adaptive"])
def test_54_thinking(messages: anthropic.Anthropic, thinking: Params, model: str, content: str) -> None:
    """Thinking is the first block and ends with its one signature."""
    params: Params = {"model": model, "max_tokens": 4096, "thinking": thinking}
    with messages.messages.create(**params, messages=user(content), stream=True) as stream:
        events: list[Any] = list(stream)
    deltas = [each.delta for each in events if each.type == "content_block_delta" and each.index == 0]
    whole = ask(messages, content, **params)

    assert [block.type for block in whole.content] == ["thinking", "text"]
    assert {delta.type for delta in deltas[:-1]} == {"thinking_delta"}
    assert deltas[-1].type == "signature_delta"
    assert "".join(delta.thinking for delta in deltas[:-1]) == whole.content[0].thinking  # type: ignore[union-attr]
    assert deltas[-1].signature == whole.content[0].signature  # type: ignore[union-attr]


@BOTH
@pytest.mark.parametrize("model", [MODEL, NATIVE], ids=["in-tags", "native"])
@pytest.mark.parametrize("content", ["sim:thinking", "sim:redacted", "What is 2 + 3?"])
def test_54_disabled(messages: anthropic.Anthropic, content: str, model: str, way: Any) -> None:
    """Who declines thinking gets none, whatever the service sends."""
    answer = way(messages, content, model=model, thinking=DISABLED)

    assert [block.type for block in answer.content] == ["text"]


def test_54_replay(messages: anthropic.Anthropic) -> None:
    """Thinking comes back with its signature; the service, which checks it, accepts it, with a tool in between."""
    params: Params = {"model": NATIVE, "max_tokens": 4096, "thinking": ENABLED, "tools": MESSAGES_TOOLS}
    question = "What is the weather in Oslo? Use the get_weather tool."
    called = ask(messages, question, **params)
    (use,) = _tool_uses(called)
    history: list[Any] = [
        *user(question),
        {"role": "assistant", "content": called.content},
        *user([{"type": "tool_result", "tool_use_id": use.id, "content": "sunny"}]),
    ]
    answer = messages.messages.create(**params, messages=history)

    assert called.content[0].type == "thinking"
    assert answer.content[-1].text == "The tool says: sunny"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "block",
    [
        pytest.param({"type": "redacted_thinking", "data": "c2VhbGVk"}, id="sealed"),
        pytest.param({"type": "thinking", "thinking": THOUGHT, "signature": ""}, id="unsigned"),
    ],
)
def test_54_foreign_thinking(messages: anthropic.Anthropic, block: Params) -> None:
    """Thinking that the service did not sign never fails a request."""
    history: list[Any] = [
        *user("Hello"),
        {"role": "assistant", "content": [block, {"type": "text", "text": "Hi."}]},
        *user("sim:text"),
    ]
    answer = messages.messages.create(model=NATIVE, max_tokens=99, messages=history)

    assert answer.content[0].text == SENTENCE  # type: ignore[union-attr]
