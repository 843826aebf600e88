from __future__ import annotations

import json

import pytest
from anthropic._models import validate_type
from anthropic.types import Message as SdkMessage
from anthropic.types import MessageTokensCount

from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.errors import UpstreamProtocolError
from kiro_asgi.model.events import StopReason, Usage
from kiro_asgi.model.message import Message, RedactedThinkingBlock, TextBlock, ThinkingBlock, ToolCallBlock

DIALECT = AnthropicMessages()
HEADING = ResponseMeta("msg_1", "m", 1)


def test_a_body_has_every_field() -> None:
    """F436, F440: the whole object, tool arguments as an object, counts as integers."""
    message = Message(
        (
            ThinkingBlock("t", "s"),
            RedactedThinkingBlock("d"),
            TextBlock("x"),
            ToolCallBlock("toolu_1", "f", '{"a":[1.5,"b"]}'),
        ),
        StopReason.TOOL_CALL,
        usage=Usage(1, 2, 3, 4, 1),
    )
    body = b"".join(DIALECT.render(message, HEADING))

    assert json.loads(body) == {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [
            {"type": "thinking", "thinking": "t", "signature": "s"},
            {"type": "redacted_thinking", "data": "d"},
            {"type": "text", "text": "x"},
            {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": [1.5, "b"]}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 1,
            "cache_creation_input_tokens": 4,
            "cache_read_input_tokens": 3,
            "output_tokens": 2,
            "output_tokens_details": {"thinking_tokens": 1},
        },
    }
    assert validate_type(type_=SdkMessage, value=json.loads(body)).stop_reason == "tool_use"


@pytest.mark.parametrize("arguments", ["{", "[]", "1", "[" * 1000])
def test_broken_arguments_are_no_answer(arguments: str) -> None:
    """F441: a call that cannot be written as an object is an error, not a partial body."""
    with pytest.raises(UpstreamProtocolError, match="arguments"):
        b"".join(DIALECT.render(Message((ToolCallBlock("c", "f", arguments),)), HEADING))


def test_a_count_is_an_object() -> None:
    """The body of a token count satisfies the SDK."""
    assert DIALECT.render_count(5) == b'{"input_tokens":5}'
    assert validate_type(type_=MessageTokensCount, value=json.loads(DIALECT.render_count(5))).input_tokens == 5


def test_a_heading_names_the_answer() -> None:
    """Ids have the prefix of this API; the model is the client's own word for it."""
    parsed = DIALECT.parse(b'{"model":"my/model","max_tokens":0,"messages":[{"role":"user","content":"hi"}]}')

    assert DIALECT.meta(parsed, lambda: "T" * 24, 5) == ResponseMeta("msg_" + "T" * 24, "my/model", 5, parsed.options)
