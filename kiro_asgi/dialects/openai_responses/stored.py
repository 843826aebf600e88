"""Input items as the API lists them afterwards: each with an id, and messages in their full form.

Source: https://platform.openai.com/docs/api-reference/responses/input-items
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

__all__ = ["identified"]

_PREFIXES: Final = MappingProxyType(
    {
        "message": "msg",
        "reasoning": "rs",
        "function_call": "fc",
        "function_call_output": "fc",
        "custom_tool_call": "ctc",
        "custom_tool_call_output": "ctc",
        "web_search_call": "ws",
    }
)
"""How ids of items of a kind begin; those of the others begin with ``item``."""


def identified(items: Iterable[Mapping[str, Any]], token: str) -> Iterator[dict[str, Any]]:
    """The items in their full form; those that came without an id get one of *token* and their position.

    Args:
        items: As in `kiro_asgi.dialects.openai_responses.options.ResponsesOptions.input_items`.
        token: Characters that no other request has, legal in ids.
    """
    for index, item in enumerate(items):
        kind = item.get("type") or "message"
        known = item.get("id") or f"{_PREFIXES.get(kind, 'item')}_{token}{index}"
        full = {**item, "type": kind, "id": known}
        yield _full_message(full) if kind == "message" else full


def _full_message(item: dict[str, Any]) -> dict[str, Any]:
    content = item.get("content")
    if isinstance(content, str):
        said = item.get("role") == "assistant"
        part = {"type": "output_text", "text": content, "annotations": []}
        content = [part] if said else [{"type": "input_text", "text": content}]
    return {"status": "completed", **item, "content": content}
