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
from kiro_asgi.dialects.pieces import Pieces, dump_array, dump_text
from kiro_asgi.model.events import BlockStart
from kiro_asgi.wire.json import dumps

__all__ = [
    "REASONING",
    "REFUSAL",
    "SUMMARY",
    "TEXT",
    "PartShape",
    "call_fields",
    "function_fields",
    "item_id",
    "message",
    "reasoning",
]

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

    also: bytes = b""
    """What events with text must have beside it: JSON of members, from the comma on."""

    def part(self, text: Pieces, annotations: Sequence[Any] = ()) -> Pieces:
        """The part."""
        marks = b',"annotations":%b%b' % (dumps(annotations), self.also) if self.also else b""
        return Pieces((b'{"type":"%b","%b":' % (self.kind.encode(), self.member.encode()), *text, marks + b"}"))


TEXT: Final = PartShape("output_text", "text", "output_text", also=b',"logprobs":[]')

REFUSAL: Final = PartShape("refusal", "refusal", "refusal")

REASONING: Final = PartShape("reasoning_text", "text", "reasoning_text")

SUMMARY: Final = PartShape(
    "summary_text",
    "text",
    "reasoning_summary_text",
    "reasoning_summary_part",
    MappingProxyType({"summary_index": 0}),
)


def message(parts: Sequence[Pieces], status: str) -> dict[str, Any]:
    """Fields of what the model said; of *parts* there is at most one."""
    return {"type": "message", "status": status, "role": "assistant", "content": _listed(parts)}


def reasoning(shape: PartShape, parts: Sequence[Pieces], sealed: str = "") -> dict[str, Any]:
    """Fields of what the model thought.

    Args:
        shape: Whether *parts* are its summary or the thinking itself.
        parts: At most one.
        sealed: What proves it; empty where there is none, or nobody asked.
    """
    shown = _listed(parts)
    fields: dict[str, Any] = {"type": "reasoning", "summary": shown if shape is SUMMARY else []}
    if shape is REASONING and parts:
        fields["content"] = shown
    if sealed:
        fields["encrypted_content"] = sealed
    return fields


def _listed(parts: Sequence[Pieces]) -> Pieces | list[Any]:
    return Pieces(dump_array(parts)) if parts else []


# Calls.


def function_fields(
    start: BlockStart, options: ResponsesOptions, arguments: Pieces, status: str = "in_progress"
) -> dict[str, Any]:
    """Fields of a call of a function.

    Args:
        start: Names it.
        options: Say which tools have another name for the client.
        arguments: What there is of them, as JSON of their text.
        status: Of the call, not of its result.
    """
    return {"type": "function_call", "status": status, **_named(start, options), "arguments": arguments}


def call_fields(start: BlockStart, options: ResponsesOptions, arguments: str) -> dict[str, Any]:
    """Fields of a complete call of a tool that is no function; *options* say what its items are."""
    if kind := options.client_tools.get(start.name):
        return {"type": kind, "status": "completed", "call_id": start.call_id, **item_fields(kind, arguments)}
    text = Pieces(dump_text(custom_input(arguments)))
    return {"type": "custom_tool_call", "status": "completed", **_named(start, options), "input": text}


def _named(start: BlockStart, options: ResponsesOptions) -> dict[str, Any]:
    namespace, name = options.namespaces.get(start.name, ("", start.name))
    return {"call_id": start.call_id, **({"namespace": namespace} if namespace else {}), "name": name}
