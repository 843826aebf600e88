"""Tools: their specifications, their schemas, and the sentences that stand in for missing fields of the service.

A schema is sent with an object at the root, and only keywords that every model behind the service knows.  The keywords
that are dropped narrow a value further than its type does (formats, lengths, ranges).  They are advice to the model,
some back ends refuse the whole request because of one, and the client checks the arguments anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final

from attrs import define, field, frozen

from kiro_asgi.errors import RequestError
from kiro_asgi.limits import SCHEMA_DEPTH
from kiro_asgi.model.notes import Note, Notes
from kiro_asgi.model.prompt import Prompt, Tool, ToolChoice, ToolChoiceMode
from kiro_asgi.rendering.names import WireNames
from kiro_asgi.rendering.schemas import COMBINATORS, DEFINITIONS, flat, schema_instructions, target
from kiro_asgi.upstreams.kiro.rules.kept import Tools, are_same
from kiro_asgi.upstreams.kiro.rules.texts import Texts

DROPPED: Final = frozenset(
    (
        "$schema",
        "$id",
        "$comment",
        "additionalProperties",
        "contains",
        "contentEncoding",
        "contentMediaType",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "else",
        "encrypted",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "if",
        "maxContains",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minContains",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "pattern",
        "patternProperties",
        "propertyNames",
        "strict",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
        "uniqueItems",
    )
)
"""Keywords that at least one back end refuses."""


@define
class Schemas:
    """Cleans the schemas of one request; those of the client stay as they are."""

    _notes: Notes
    _dropped: frozenset[str] = field(init=False, default=DROPPED)
    _place: str = field(init=False, default="")
    _found: set[str] = field(init=False, factory=set)

    def __attrs_post_init__(self) -> None:
        if "schema.keywords" in self._notes.off:
            self._dropped = frozenset()

    def clean(self, schema: Mapping[str, Any], place: str = "") -> dict[str, Any]:
        """A new schema that the service takes; a rule that applied to *schema* is noted once."""
        self._place = place
        self._found.clear()
        root = self._schema(schema, SCHEMA_DEPTH)
        if "$ref" in root and self._may("schema.reference"):
            root = {**(target(root, root) or {}), **{key: value for key, value in root.items() if key != "$ref"}}
        if any(keyword in root for keyword in COMBINATORS) and self._may("schema.combinators"):
            root = flat(root)
        properties = root.get("properties")
        if (properties is None or root.get("type") != "object") and self._may("schema.root"):
            root["type"], root["properties"] = "object", properties or {}
        self._name_properties(root)
        return root

    def _name_properties(self, root: dict[str, Any]) -> None:
        """Keep only names of properties as required."""
        required, properties = root.get("required"), root.get("properties", ())
        if required and not all(name in properties for name in required) and self._may("schema.required"):
            root["required"] = [name for name in required if name in properties]
            if not root["required"]:
                del root["required"]

    def _may(self, rule: str) -> bool:
        if rule in self._found:
            return True
        if not self._notes.applies(rule, self._place):
            return False
        self._found.add(rule)
        return True

    def _schema(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        if depth == 0 and self._may("schema.depth"):
            return {}
        cleaned: dict[str, Any] = {}
        for key, value in schema.items():
            if key in self._dropped:
                self._may("schema.keywords")
            elif type(value) is str and key not in READERS and key != "required":
                cleaned[key] = value
            elif key == "required":
                self._require(cleaned, value)
            elif (found := READERS.get(key, Schemas._nested)(self, value, depth)) is not None:
                cleaned[key] = found
            elif not self._may("schema.malformed"):
                cleaned[key] = value
        return cleaned

    def _named(self, value: Any, depth: int) -> dict[str, Any] | None:
        """Schemas by names of the client's, which are never taken for keywords."""
        return {name: self._part(part, depth) for name, part in value.items()} if isinstance(value, Mapping) else None

    def _part(self, part: Any, depth: int) -> Any:
        """One schema; one that is just true, false or null becomes empty."""
        if isinstance(part, Mapping):
            return self._schema(part, depth - 1)
        return {} if self._may("schema.malformed") else part

    def _nested(self, value: Any, depth: int) -> Any:
        """The value of a keyword that may hold a schema, or several."""
        if isinstance(value, Mapping):
            return self._schema(value, depth - 1)
        if not isinstance(value, list | tuple):
            return value
        parts = [self._part(part, depth) if isinstance(part, Mapping | bool) else part for part in value]
        return [part for part in parts if part is not None or not self._may("schema.malformed")] or None

    def _items(self, value: Any, depth: int) -> Any:
        return self._part(value, depth) if isinstance(value, bool) else self._nested(value, depth)

    def _literal(self, value: Any, _: int) -> Any:
        """A value that is not a schema."""
        return None if value == [] else value

    def _require(self, cleaned: dict[str, Any], value: Any) -> None:
        """Keep required names, each once; an empty list is left out."""
        names = [name for name in value if isinstance(name, str)] if isinstance(value, list | tuple) else []
        names = list(dict.fromkeys(names))
        if (not names or names != value) and not self._may("schema.required"):
            cleaned["required"] = value
        elif names:
            cleaned["required"] = names


READERS: Final[Mapping[str, Callable[[Schemas, Any, int], Any]]] = MappingProxyType(
    {
        **dict.fromkeys(("properties", *DEFINITIONS), Schemas._named),
        **dict.fromkeys(("enum", "const", "default", "example", "examples"), Schemas._literal),
        "items": Schemas._items,
    }
)
"""Keyword to its reader, which returns ``None`` for what is to be dropped; others hold a schema, schemas or a value."""


MAX_DESCRIPTION: Final = 10_200
"""Bytes of a description; the service's own limit is 10,240 or slightly less."""

MANIFEST_HEADING: Final = "Tool reference manifest (hash → tool)"

GONE: Final = "This tool is no longer available."


def offered(prompt: Prompt, used: Mapping[str, str], notes: Notes) -> tuple[Tool, ...]:
    """The tools to define: those of the prompt, and those that earlier turns called.

    Args:
        used: Names of the latter, each with the place of its first call.

    Raises:
        RequestError: The choice names a tool that is not there.
    """
    tools = _first_of_each(prompt.tools, notes)
    _require_choice(prompt.tool_choice, tools, notes)
    if prompt.tool_choice.mode is ToolChoiceMode.NONE:
        tools = [tool for tool in tools if tool.name in used or not notes.applies("tools.withheld", tool.place)]
    if not used:
        return tuple(tools)
    known = {tool.name for tool in tools}
    missing = [(name, place) for name, place in used.items() if name not in known]
    return *tools, *(_stub(name, place) for name, place in missing if notes.applies("tools.stubbed", place))


def _stub(name: str, place: str) -> Tool:
    return Tool(name, GONE, {"type": "object", "properties": {}}, place=place)


def _first_of_each(tools: tuple[Tool, ...], notes: Notes) -> list[Tool]:
    first: dict[str, Tool] = {}
    return [
        tool
        for tool in tools
        if first.setdefault(tool.name, tool) is tool or not notes.applies("tools.duplicate_dropped", tool.place)
    ]


def _require_choice(choice: ToolChoice, tools: list[Tool], notes: Notes) -> None:
    rule = "tools.choice_unknown"
    if choice.mode is not ToolChoiceMode.NAMED or any(tool.name == choice.name for tool in tools) or rule in notes.off:
        return
    message = f"tool_choice: no tool is named {choice.name[:60]!r} (rule {rule})"
    raise RequestError(message, code="unsupported_value", param="tool_choice")


@frozen(eq=False)
class _Written:
    """The tools of a request as they were written; kept with the last, which is forgotten first."""

    _purpose: tuple[object, ...]
    _before: Sequence[Tool]
    """The others: it refers to none that may be forgotten before it, and not to its own."""

    _names: Sequence[str]
    notes: Sequence[Note]
    entries: Tools
    moved: list[str]

    def is_of(self, tools: Sequence[Tool], names: Sequence[str], purpose: tuple[object, ...]) -> bool:
        """Whether it was written of the very same *tools*, under the same *names*, for the same *purpose*."""
        return are_same(tools[:-1], self._before) and names == self._names and purpose == self._purpose


@define
class Specifications:
    """Writes the tools of one request."""

    _notes: Notes
    _names: WireNames
    _texts: Texts
    _limit: int
    """Characters of a description."""

    _purpose: tuple[object, ...] = ()
    """All that a specification depends on beside its tool."""

    _schemas: Schemas = field(init=False)
    _moved: list[str] = field(init=False, factory=list)

    def __attrs_post_init__(self) -> None:
        self._schemas = Schemas(self._notes)

    def write(self, tools: Sequence[Tool]) -> list[dict[str, Any]]:
        """The entries of ``tools``: those of an earlier request, where all tools are of one."""
        names = [self._names.wire(tool.name, tool.place) for tool in tools]
        if not tools or not all(tool.kept.lasts for tool in tools):
            return [*map(self._entry, names, tools)]
        made = tools[-1].kept.made
        if isinstance(made, _Written) and made.is_of(tools, names, self._purpose):
            self._notes.again(made.notes)
        else:
            with self._notes.logged() as notes:
                entries = Tools([*map(self._entry, names, tools)])
            made = _Written(self._purpose, tools[:-1], names, notes, entries, self._moved)
            for tool in tools:
                tool.kept.made = None
            tools[-1].kept.made = made
        self._moved = made.moved
        return made.entries

    def _entry(self, name: str, tool: Tool) -> dict[str, Any]:
        """One of them; its description is never empty."""
        schema = self._schemas.clean(tool.schema, tool.place)
        description = self._description(name, tool)
        return {"toolSpecification": {"name": name, "description": description, "inputSchema": {"json": schema}}}

    def _description(self, name: str, tool: Tool) -> str:
        text = self._texts.clean(tool.description.strip(), tool.place)
        if not text and self._notes.applies("tools.undescribed", tool.place):
            return f"Tool: {name}"
        cut = _cut(text, self._limit)
        if cut is text or not self._notes.applies("tools.description_moved", tool.place):
            return text
        self._moved.append(_manifest_line(name, text))
        return cut

    def manifest(self) -> str:
        """The full text of every description that had to be cut; empty if none had to."""
        return "\n".join((MANIFEST_HEADING, *self._moved)) if self._moved else ""


def _cut(text: str, limit: int) -> str:
    """At most *limit* characters, and no more bytes than the service takes."""
    if len(text) > limit:
        text = text[:limit]
    if 4 * len(text) <= MAX_DESCRIPTION or len(encoded := text.encode("utf-8", "replace")) <= MAX_DESCRIPTION:
        return text
    return encoded[:MAX_DESCRIPTION].decode("utf-8", "ignore")


def _manifest_line(name: str, text: str) -> str:
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"- {name} [{digest}, {len(text)} chars]: {text}"


def directives(prompt: Prompt, names: WireNames, notes: Notes) -> Iterator[str]:
    """The client's tool choice and schema as sentences."""
    sentences = [*_choice(prompt.tool_choice, names)] if prompt.tools else []
    if sentences and notes.applies("tools.choice_told", "tool_choice"):
        yield from sentences
    if prompt.schema is not None and notes.applies("output.schema_instruction"):
        yield from schema_instructions(prompt.schema)


def _choice(choice: ToolChoice, names: WireNames) -> Iterator[str]:
    match choice.mode:
        case ToolChoiceMode.NAMED:
            yield f"You must call the tool {names.wire(choice.name)} in this answer."
        case ToolChoiceMode.REQUIRED:
            yield "You must call at least one of the tools in this answer."
        case ToolChoiceMode.NONE:
            yield "You must not call any tool in this answer."
    if not choice.parallel and choice.mode is not ToolChoiceMode.NONE:
        yield "Call no more than one tool in this answer."
