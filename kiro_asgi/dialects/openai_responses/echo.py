"""What the answer repeats of its request.

Source: https://platform.openai.com/docs/api-reference/responses/object
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kiro_asgi.dialects.openai_responses.body import Body
from kiro_asgi.dialects.openai_responses.options import ResponsesOptions
from kiro_asgi.dialects.openai_responses.tools import Toolbox

__all__ = ["read_options"]

_ECHOED: Final = (
    "instructions",
    "tool_choice",
    "parallel_tool_calls",
    "text",
    "truncation",
    "metadata",
    "max_output_tokens",
    "max_tool_calls",
    "temperature",
    "top_p",
    "top_logprobs",
    "store",
    "previous_response_id",
    "user",
    "safety_identifier",
    "prompt_cache_key",
)
"""Fields that the answer repeats as they came."""


def read_options(request: Body, value: Mapping[str, Any], toolbox: Toolbox) -> ResponsesOptions:
    """The options of a request; *value* is its body as it came, which *request* was read from."""
    said = {name: value[name] for name in _ECHOED if value.get(name) is not None}
    text = {"format": {"type": "text"}} | {
        name: each for name, each in said.pop("text", {}).items() if each is not None
    }
    reasoning = {"effort": request.reasoning.effort, "summary": request.reasoning.shown} if request.reasoning else {}
    return ResponsesOptions(
        **said,
        text=text,
        reasoning={name: word for name, word in reasoning.items() if word},
        tools=tuple(_shown(tool) for tool in value.get("tools") or ()),
        include=request.include or (),
        custom_tools=frozenset(toolbox.custom),
        client_tools=toolbox.items,
        namespaces=toolbox.namespaces,
        input_items=_input_items(value["input"]),
    )


def _shown(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """A tool as the answer repeats it: a function with every field that strict clients look for."""
    if (tool.get("type") or "function") != "function":
        return tool
    nested = tool.get("function") or {}
    flat = {name: value for name, value in tool.items() if name != "function"}
    return {"parameters": None, "strict": None, **flat, **nested, "type": "function"}


def _input_items(value: str | list[Any]) -> tuple[Mapping[str, Any], ...]:
    """The input as items, as they came."""
    if isinstance(value, str):
        return ({"type": "message", "role": "user", "content": [{"type": "input_text", "text": value}]},)
    return tuple(value)
