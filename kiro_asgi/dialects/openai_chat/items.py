"""A body of the Responses API as one of Chat Completions: Cursor sends such a body to the path of this API.

Sources: https://platform.openai.com/docs/api-reference/responses/create,
https://platform.openai.com/docs/guides/migrate-to-responses
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.dialects.errors import invalid, unsupported
from kiro_asgi.wire.json import object_of, objects_of, text_of

_RENAMED: Final = MappingProxyType({"max_output_tokens": "max_completion_tokens"})


def is_of_responses(document: object) -> bool:
    """Whether *document* has items where this API has messages."""
    return isinstance(document, dict) and document.get("input") is not None and document.get("messages") is None


def as_messages(document: Mapping[str, Any]) -> dict[str, Any]:
    """*document*, of the Responses API, with what it says under the names of this API.

    Raises:
        RequestError: An item that means nothing in a list of messages; ``param`` names it.
    """
    found = {_RENAMED.get(name, name): value for name, value in document.items() if name not in _READ}
    found["messages"] = [*_instructions(document), *_joined(_messages(document.get("input")))]
    text = object_of(document.get("text"))
    if form := object_of(text.get("format")):
        schema = {name: value for name, value in form.items() if name != "type"}
        nested = {"json_schema": schema} if form.get("type") == "json_schema" else {}
        found["response_format"] = {"type": form.get("type"), **nested}
    return found | ({"verbosity": text["verbosity"]} if "verbosity" in text else {})


_READ: Final = frozenset({"input", "instructions", "text"})


def _instructions(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if instructions := document.get("instructions"):
        yield {"role": "system", "content": instructions}


def _messages(items: Any) -> Iterator[dict[str, Any]]:
    if isinstance(items, str):
        yield {"role": "user", "content": items}
        return
    if not isinstance(items, list):
        raise invalid("input", "expected a text, or a list of items")
    for index, item in enumerate(items):
        kind = text_of(object_of(item), "type") or "message"
        read = _ITEMS.get(kind)
        if read is None:
            raise unsupported(f"input[{index}].type", f"{kind[:60]} cannot be read at this path; POST /v1/responses")
        yield from read(object_of(item))


def _joined(messages: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The same, with all calls of one answer in one message, and its thinking with them."""
    latest: dict[str, Any] | None = None
    for message in messages:
        if latest is not None and message["role"] == latest["role"] == "assistant" and "content" not in message:
            latest.setdefault("tool_calls", []).extend(message.get("tool_calls", ()))
            continue
        if latest is not None:
            yield latest
        latest = message
    if latest is not None:
        yield latest


def _message(item: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"role": item.get("role"), "content": item.get("content")}


def _call(item: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    function = {"name": item.get("name"), "arguments": item.get("arguments")}
    yield {"role": "assistant", "tool_calls": [{"id": item.get("call_id"), "function": function}]}


def _custom_call(item: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    custom = {"name": item.get("name"), "input": item.get("input")}
    yield {"role": "assistant", "tool_calls": [{"id": item.get("call_id"), "type": "custom", "custom": custom}]}


def _output(item: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")}


def _reasoning(item: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Its text, as far as there is any: what is sealed belongs to the service that has sealed it."""
    parts = (*objects_of(item.get("summary")), *objects_of(item.get("content")))
    if text := "\n\n".join(text_of(part, "text") for part in parts):
        yield {"role": "assistant", "content": "", "reasoning_content": text}


_ITEMS: Final[Mapping[str, Callable[[Mapping[str, Any]], Iterator[dict[str, Any]]]]] = MappingProxyType(
    {
        "message": _message,
        "function_call": _call,
        "custom_tool_call": _custom_call,
        "function_call_output": _output,
        "custom_tool_call_output": _output,
        "reasoning": _reasoning,
    }
)
"""Kind of item to what makes messages of it."""
