"""Output items, and the parts that some of them are made of.

An item is shown twice, when it opens and when it is done, and once more in the response object: with the same id, which
says of which response it is, and where in its output it stands.

Source: https://platform.openai.com/docs/api-reference/responses/object#responses/object-output
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from kiro_asgi.dialects.openai_responses.calls import custom_input, item_fields
from kiro_asgi.dialects.openai_responses.options import ResponsesOptions
from kiro_asgi.model.events import BlockStart

__all__ = ["REASONING", "REFUSAL", "SUMMARY", "TEXT", "PartShape", "call_fields", "item_id", "message", "reasoning"]

_PREFIXES: Final = MappingProxyType(
    {
        "message": "msg",
        "reasoning": "rs",
        "function_call": "fc",
        "custom_tool_call": "ctc",
        "local_shell_call": "lsh",
        "shell_call": "sh",
        "apply_patch_call": "apc",
        "tool_search_call": "tsc",
        "web_search_call": "ws",
    }
)
"""Kind of item to how its ids begin."""


def item_id(response_id: str, kind: str, index: int) -> str:
    """The id of the item of a *kind* that stands at *index* in the output of a response, ``resp_…``.

    ``msg_0123abcd_2`` is a message, the third item of ``resp_0123abcd``.
    """
    return f"{_PREFIXES[kind]}_{response_id.removeprefix('resp_')}_{index}"


# Items that are made of parts.


@frozen
class PartShape:
    """A kind of part, and the names of its events, without the ``response.`` before them."""

    kind: str
    member: str
    """Name of its only text."""

    events: str
    """``<events>.delta`` and ``<events>.done`` bring the text."""

    added: str = "content_part"
    """``<added>.added`` and ``<added>.done`` stand around those."""

    place: Mapping[str, Any] = MappingProxyType({"content_index": 0})
    """Which part of the item an event is about."""

    also: Mapping[str, Any] = MappingProxyType({})
    """What events with text must have beside it."""

    def part(self, text: str, annotations: Sequence[Any] = ()) -> dict[str, Any]:
        """The part."""
        marks = {"annotations": list(annotations), **self.also} if self.also else {}
        return {"type": self.kind, self.member: text, **marks}


TEXT: Final = PartShape("output_text", "text", "output_text", also=MappingProxyType({"logprobs": ()}))

REFUSAL: Final = PartShape("refusal", "refusal", "refusal")

REASONING: Final = PartShape("reasoning_text", "text", "reasoning_text")

SUMMARY: Final = PartShape(
    "summary_text",
    "text",
    "reasoning_summary_text",
    "reasoning_summary_part",
    MappingProxyType({"summary_index": 0}),
)


def message(parts: list[Any], status: str) -> dict[str, Any]:
    """Fields of what the model said."""
    return {"type": "message", "status": status, "role": "assistant", "content": parts}


def reasoning(shape: PartShape, parts: list[Any], sealed: str = "") -> dict[str, Any]:
    """Fields of what the model thought.

    Args:
        shape: Whether *parts* are its summary or the thinking itself.
        parts: At most one.
        sealed: What proves it; empty where there is none, or nobody asked.
    """
    fields: dict[str, Any] = {"type": "reasoning", "summary": parts if shape is SUMMARY else []}
    if shape is REASONING and parts:
        fields["content"] = parts
    if sealed:
        fields["encrypted_content"] = sealed
    return fields


# Calls.


def call_fields(
    start: BlockStart, options: ResponsesOptions, arguments: str, status: str = "in_progress"
) -> dict[str, Any]:
    """Fields of a call.

    Args:
        start: Names the tool.
        options: Say which tools have items of another kind, and another name, than functions.
        arguments: What there is of them, of a function; of other kinds all of them.
        status: Of the call, not of its result.
    """
    if kind := options.client_tools.get(start.name):
        return {"type": kind, "status": status, "call_id": start.call_id, **item_fields(kind, arguments)}
    namespace, name = options.namespaces.get(start.name, ("", start.name))
    fields = {"status": status, "call_id": start.call_id, **({"namespace": namespace} if namespace else {})}
    if start.name in options.custom_tools:
        return {"type": "custom_tool_call", **fields, "name": name, "input": custom_input(arguments)}
    return {"type": "function_call", **fields, "name": name, "arguments": arguments}
