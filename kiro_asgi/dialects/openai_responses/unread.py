"""Parts of a Responses request that no service receives, whichever it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.dialects.openai_responses.fields import FIELDS, Fate
from kiro_asgi.dialects.openai_responses.items import TOLD
from kiro_asgi.dialects.openai_responses.options import SEALED
from kiro_asgi.dialects.openai_responses.shapes import (
    FORMATS,
    ITEMS,
    PARTS,
    ResponsesBody,
    ResponsesJsonSchemaFormat,
)
from kiro_asgi.dialects.openai_responses.tool_shapes import MEMBERS, TOOLS
from kiro_asgi.dialects.unread import Finding, Reading, unread, unread_tools
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.wire.members import objects_of

__all__ = ["unread_fields"]

_READING: Final = Reading(
    body=ResponsesBody,
    unions=((PARTS, ""), (ITEMS, "items.unknown"), (TOOLS, ""), (MEMBERS, "tools.left_out"), (FORMATS, "")),
    members=MappingProxyType(
        {
            **{(ResponsesBody, name): "fields.echoed" for name, it in FIELDS.items() if it.fate is Fate.ECHOED},
            (ResponsesBody, "user"): "fields.no_effect",
            (ResponsesBody, "safety_identifier"): "fields.no_effect",
            (ResponsesBody, "stream_options"): "fields.no_effect",
            (ResponsesJsonSchemaFormat, "name"): "fields.no_effect",
            (ResponsesJsonSchemaFormat, "strict"): "",
        }
    ),
    partly=frozenset(TOLD),
)


def unread_fields(value: Mapping[str, Any], prompt: Prompt, earlier: int = 0) -> Iterator[Finding]:
    """Rules and places of a request's body, which became *prompt* with so many *earlier* items before its own."""
    yield from unread(value, _READING)
    yield from unread_tools(value.get("tools"), prompt.tools)
    for index, name in enumerate(value.get("include") or ()):
        if name != SEALED:
            yield "values.unknown", f"include[{index}]"
    told = {turn.place for turn in prompt.turns}
    items = value.get("input")
    for index, item in enumerate(items if isinstance(items, list) else ()):
        if _seals(item) and f"input[{index + earlier}]" not in told:
            yield "thinking.sealed_dropped", f"input[{index}]"


def _seals(item: Any) -> bool:
    return any(each.get("type") == "reasoning" and each.get("encrypted_content") for each in objects_of([item]))
