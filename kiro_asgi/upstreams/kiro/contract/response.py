"""Answers as the contract has them, between a whole message of the service and a whole message for a client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.model.events import StopReason, Usage
from kiro_asgi.model.message import Block, Message, RedactedThinkingBlock, TextBlock, ThinkingBlock, ToolCallBlock
from kiro_asgi.upstreams.kiro.contract.answer import stop_reason
from kiro_asgi.upstreams.kiro.contract.json import safe_parse_json
from kiro_asgi.upstreams.kiro.contract.model import OutputMessage, Response, ResponseUsage, ToolUse
from kiro_asgi.upstreams.kiro.contract.sanitize import sanitize_text
from kiro_asgi.wire.json import dumps

__all__ = ["LEAD_IN", "as_message", "as_response"]

LEAD_IN: Final = "I will call a tool to help with this:"
"""What stands before an answer that begins with a tool call."""

WORDS: Final[Mapping[StopReason, str]] = MappingProxyType(
    {
        StopReason.TOOL_CALL: "TOOL_USE",
        StopReason.LENGTH: "MAX_TOKENS",
        StopReason.CONTEXT_FULL: "MODEL_CONTEXT_WINDOW_EXCEEDED",
        StopReason.STOP_SEQUENCE: "STOP_SEQUENCE",
        StopReason.CONTENT_FILTER: "CONTENT_FILTERED",
    }
)
"""Reason to the service's word; none for the plain end, which some accounts are never told of."""


def as_response(message: Message) -> Response:
    """*message*, folded from the service's events, as the contract has it: every block is an output message."""
    prompt, output = message.usage.prompt_tokens, message.usage.output_tokens
    return Response(
        tuple(_output(message.blocks)),
        ResponseUsage(prompt, output, prompt + output),
        WORDS.get(message.stop_reason, ""),
    )


def _output(blocks: Iterable[Block]) -> Iterator[OutputMessage]:
    for block in blocks:
        match block:
            case TextBlock(text):
                yield OutputMessage(text)
            case ThinkingBlock() | RedactedThinkingBlock():
                yield OutputMessage(thinking=block)
            case ToolCallBlock(call_id, name, arguments):
                yield OutputMessage(tool_use=ToolUse(call_id, name, safe_parse_json(arguments)))


def as_message(response: Response, *, legacy_stop_map: bool = True, reminders: bool = True) -> Message:
    """*response* for a client: a block for every output message that says something, with a clean text.

    Args:
        response: The answer.
        legacy_stop_map: As ``legacy`` of `kiro_asgi.upstreams.kiro.contract.answer.stop_reason`.
        reminders: As for `sanitize_text`.
    """
    blocks = tuple(_blocks(response.output_messages, reminders))
    calls = any(isinstance(block, ToolCallBlock) for block in blocks)
    reason = stop_reason(response.stop_reason, legacy=legacy_stop_map)
    if reason in (StopReason.END, StopReason.TOOL_CALL):
        reason = StopReason.TOOL_CALL if calls else StopReason.END
    lead_in = (TextBlock(LEAD_IN),) if blocks and isinstance(blocks[0], ToolCallBlock) else ()
    usage = response.usage or ResponseUsage()
    return Message((*lead_in, *blocks), reason, usage=Usage(usage.input_tokens, usage.output_tokens))


def _blocks(messages: Iterable[OutputMessage], reminders: bool) -> Iterator[Block]:
    for message in messages:
        if message.thinking is not None:
            yield message.thinking
        if (text := sanitize_text(message.content, reminders=reminders)).strip():
            yield TextBlock(text)
        if message.tool_use is not None:
            call = message.tool_use
            yield ToolCallBlock(call.id, call.name, dumps(_arguments(call.input)).decode())


def _arguments(value: Any) -> Mapping[str, Any]:
    """Arguments are an object; any other value, such as text that was no JSON, becomes a member of one."""
    return value if isinstance(value, Mapping) else {"input": value}
