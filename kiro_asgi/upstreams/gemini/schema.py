"""JSON Schema to the service's own schemas: a projection, as those can say less.

Whatever comes in, what comes out has only keywords that the service knows, and is in proportion to what came in:
references are followed as far as `kiro_asgi.limits.SCHEMA_COPIES` goes for one request.  A schema that is one of the
service's own already stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Tool
from kiro_asgi.upstreams.gemini.flatten import Copies, Flattening, Opened
from kiro_asgi.upstreams.gemini.keywords import anything
from kiro_asgi.upstreams.gemini.nodes import Node, lowered

__all__ = ["answer_schema", "parameters"]

Schema = dict[str, Any]


def parameters(tool: Tool, notes: Notes, copies: Copies) -> Schema:
    """The schema of a tool's arguments: an object; empty where it has no properties."""
    written = _written(tool.schema, tool.place or "tools", notes, copies) if tool.schema else {}
    if not written or written == anything():
        return {}
    if "anyOf" in written or lowered(written.get("type")) != "object":
        notes.applies("schema.alternatives" if "anyOf" in written else "schema.root", tool.place)
        written = _as_object(written)
    written.pop("nullable", None)
    return written if written.get("properties") else {}


def answer_schema(schema: Mapping[str, Any], notes: Notes, copies: Copies) -> Schema:
    """The schema of the answer; empty where it demands nothing."""
    written = _written(schema, "schema", notes, copies) if schema else {}
    return {} if written == anything() else written


def _as_object(written: Schema) -> Schema:
    """An object with the properties of all alternatives; those of one of them are not required."""
    properties: Schema = {}
    for branch in reversed((written, *written.get("anyOf", ()))):
        properties |= branch.get("properties", {})
    kept: Schema = {key: written[key] for key in _OF_OBJECTS if key in written}
    return {"type": "object", **kept, "properties": properties}


_OF_OBJECTS: Final = ("title", "description", "required", "propertyOrdering")
"""Keywords besides ``properties`` that stay true when there are more of these."""


def _written(schema: Mapping[str, Any], place: str, notes: Notes, copies: Copies) -> Schema:
    flattening = Flattening(schema, notes, copies)

    def write(node: Any, place: str, opened: Opened, depth: int) -> Schema:
        if not isinstance(node, Mapping):
            if node is not True:
                notes.applies("schema.malformed", place)
            return anything()
        flat, opened = flattening.flat(node, place, opened, depth)
        return Node(notes, place, flat, lambda part, key: write(part, f"{place}.{key}", opened, depth + 1)).write()

    return write(schema, place, Opened(), 0)
