"""What of a request no service is told, whichever it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.dialects.gemini.shapes import Blob, FileData, GenerateBody, ToolBody
from kiro_asgi.dialects.unread import Finding, Reading, unread
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.wire.members import objects_of, text_of

__all__ = ["unread_fields"]

_NO_EFFECT: Final = "fields.no_effect"

_READING: Final = Reading(
    body=GenerateBody,
    unions=(),
    members=MappingProxyType(
        {
            (GenerateBody, "model"): _NO_EFFECT,
            (GenerateBody, "labels"): _NO_EFFECT,
            (GenerateBody, "safety_settings"): "fields.ignored",
            (Blob, "display_name"): "",
            (FileData, "display_name"): "",
            (ToolBody, "google_search"): "",
        }
    ),
)


def unread_fields(value: Mapping[str, Any], prompt: Prompt) -> Iterator[Finding]:
    """Rules and places of a request's body in one spelling, which became *prompt*."""
    yield from unread(value, _READING)
    taken = {tool.name for tool in prompt.tools}
    for index, entry in enumerate(objects_of(value.get("tools"))):
        for at, function in enumerate(objects_of(entry.get("function_declarations"))):
            if text_of(function, "name") not in taken:
                yield "tools.left_out", f"tools[{index}].function_declarations[{at}]"
