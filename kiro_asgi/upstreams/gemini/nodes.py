"""One schema, without references, as the service takes it: keyword by keyword, by tables of keywords.

The service knows a part of OpenAPI's schemas, and refuses a request with any other keyword.

Source: https://ai.google.dev/api/caching#Schema
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import define, field

from kiro_asgi.model.notes import Notes
from kiro_asgi.wire.json import dumps


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _is_flag(value: Any) -> bool:
    return type(value) is bool


def _is_anything(value: Any) -> bool:
    return True


TYPES: Final = ("string", "number", "integer", "boolean", "array", "object", "null")
"""In lower or upper case."""

KEPT: Final[Mapping[str, Callable[[Any], bool]]] = MappingProxyType(
    {
        "title": _is_text,
        "description": _is_text,
        "nullable": _is_flag,
        "minItems": _is_count,
        "maxItems": _is_count,
        "minProperties": _is_count,
        "maxProperties": _is_count,
        "minLength": _is_count,
        "maxLength": _is_count,
        "pattern": _is_text,
        "minimum": _is_number,
        "maximum": _is_number,
        "default": _is_anything,
        "example": _is_anything,
    }
)
"""Keywords that stay as they are, and what their values must be."""

FORMATS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "string": ("enum", "date-time"),
        "integer": ("int32", "int64"),
        "number": ("float", "double"),
    }
)
"""The formats of each type."""

DESCRIBED: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = MappingProxyType(
    {
        "exclusiveMinimum": (_is_number, "greater than {}"),
        "exclusiveMaximum": (_is_number, "less than {}"),
        "multipleOf": (_is_number, "a multiple of {}"),
        "uniqueItems": (_is_flag, "unique items: {}"),
        "contentEncoding": (_is_text, "content encoding {}"),
        "contentMediaType": (_is_text, "content type {}"),
        "not": (_is_anything, "not {}"),
        "patternProperties": (_is_anything, "properties by pattern {}"),
        "examples": (_is_anything, "for example {}"),
    }
)
"""Keywords that are stated in the description: a check of the value, and the text."""

SILENT: Final = frozenset(
    {
        *("$schema", "$id", "$anchor", "$comment", "$defs", "$vocabulary", "definitions"),
        *("deprecated", "readOnly", "writeOnly"),
    }
)
"""Keywords that demand nothing."""

OWNERS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "string": ("format", "minLength", "maxLength", "pattern", "enum", "contentEncoding", "contentMediaType"),
        "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems"),
        "object": (
            *("properties", "required", "minProperties", "maxProperties", "propertyOrdering"),
            *("additionalProperties", "patternProperties"),
        ),
        "number": ("format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        "integer": ("format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    }
)
"""Keywords that apply to one type only."""


def anything(*, arrays: bool = True) -> dict[str, Any]:
    """The schema of what may be anything: the service wants types to be named.

    Args:
        arrays: Whether it may be an array, of anything but arrays.
    """
    branches: list[dict[str, Any]] = [{"type": name} for name in ("string", "number", "boolean", "object")]
    return {"anyOf": [*branches, *([{"type": "array", "items": anything(arrays=False)}] if arrays else ())]}


Schema = dict[str, Any]

MAX_CONSTRAINT: Final = 300
"""Characters of a constraint in the description; a longer one is dropped."""


_ECHO: Final = 40
"""Characters of a name in a place, which stands in those of all that is within."""


@define
class Node:
    """One schema while it is written."""

    _notes: Notes
    _place: str
    _flat: Schema
    """The client's keywords, without references; used up."""

    _part: Callable[[Any, str], Schema]
    """Writes a schema within this one, which stands under a key."""

    _out: Schema = field(init=False, factory=dict)
    _constraints: list[str] = field(init=False, factory=list)

    def write(self) -> Schema:
        """The schema; once only."""
        self._values()
        self._types()
        for keyword, value in self._flat.items():
            if keyword in _WRITERS:
                _WRITERS[keyword](self, value)
            elif keyword in KEPT:
                self._keep(keyword, value)
            elif keyword in DESCRIBED:
                self._state(keyword, value)
            elif keyword not in SILENT:
                self._notes.applies("schema.keywords", self._place)
        self._finish()
        return self._out

    def _malformed(self) -> None:
        self._notes.applies("schema.malformed", self._place)

    def _values(self) -> None:
        """``enum`` and ``const``: only texts can be listed, other values are stated in the description."""
        values = self._flat.pop("enum", None)
        if "const" in self._flat:
            listed, values = values, [self._flat.pop("const")]
            if listed not in (None, values):
                self._notes.applies("schema.conflict", self._place)
        if values is None:
            return
        if type(values) is not list or not values:
            self._malformed()
            return
        rest = [value for value in values if value is not None]
        if len(rest) < len(values) and rest:
            self._out["nullable"] = True
        texts = [value for value in rest if type(value) is str and value]
        if texts and len(texts) == len(rest):
            self._out["enum"] = texts
            self._flat["type"] = self._flat["type"] if lowered(self._flat.get("type")) == "string" else "string"
            return
        self._notes.applies("schema.enum", self._place)
        if rest:
            self._add_constraint(f"one of {dumps(rest)[1:-1].decode()}")
        self._flat.setdefault("type", [*dict.fromkeys(map(_type_of, values))])

    def _types(self) -> None:
        """``type``: one at most; of several each is an alternative."""
        declared = self._flat.pop("type", None)
        if lowered(declared) in TYPES:
            self._out["type"] = declared
            return
        listed = declared if type(declared) is list else []
        names = [*dict.fromkeys(name for name in listed if lowered(name) in TYPES)]
        if declared is not None and (not names or any(lowered(name) not in TYPES for name in listed)):
            self._malformed()
        rest = [name for name in names if lowered(name) != "null"]
        if rest and len(rest) < len(names):
            self._out["nullable"] = True
        if len(rest) < 2:
            self._out |= {"type": (*rest, *names)[0]} if names else {}
        elif not {"anyOf", "oneOf"} & self._flat.keys():
            self._split(rest)

    def _split(self, rest: list[str]) -> None:
        """Make an alternative of each type, with the keywords that apply to it."""
        self._flat["anyOf"] = [{"type": name, **self._owned(name)} for name in rest]
        for name in OWNERS:
            for keyword in OWNERS[name]:
                self._flat.pop(keyword, None)

    def _owned(self, name: str) -> Schema:
        return {keyword: self._flat[keyword] for keyword in OWNERS.get(name.lower(), ()) if keyword in self._flat}

    def _keep(self, keyword: str, value: Any) -> None:
        if KEPT[keyword](value):
            self._out[keyword] = self._out.get(keyword, False) or value if keyword == "nullable" else value
        else:
            self._malformed()

    def _state(self, keyword: str, value: Any) -> None:
        fits, template = DESCRIBED[keyword]
        if not fits(value):
            self._malformed()
        elif value is not False:
            self._add_constraint(template.format(value if type(value) is str else dumps(value).decode()))

    def _add_constraint(self, text: str) -> None:
        if len(text) > MAX_CONSTRAINT:
            self._notes.applies("schema.keywords", self._place)
            return
        self._notes.applies("schema.told", self._place)
        self._constraints.append(text)

    def _format(self, value: Any) -> None:
        if type(value) is not str:
            self._malformed()
        elif value in FORMATS.get(lowered(self._out.get("type")), ()):
            self._out["format"] = value
        else:
            self._add_constraint(f"format {value}")

    def _items(self, value: Any) -> None:
        """Items of an array; where each place has a schema of its own, any of them at any place."""
        if type(value) is list:
            self._notes.applies("schema.tuple", self._place)
            value = {"anyOf": value}
        self._out["items"] = self._part(value, "items")

    def _prefix_items(self, value: Any) -> None:
        if type(value) is not list:
            self._malformed()
        elif not isinstance(self._flat.get("items"), Mapping):
            self._items(value)
        else:
            self._notes.applies("schema.keywords", self._place)

    def _properties(self, value: Any) -> None:
        if not isinstance(value, Mapping):
            self._malformed()
            return
        written = {name: self._part(part, f"properties.{name[:_ECHO]}") for name, part in value.items()}
        self._out["properties"] = {**self._out.get("properties", {}), **written}

    def _required(self, value: Any) -> None:
        """Checked against the properties at the end."""
        self._names("required", value)

    def _ordering(self, value: Any) -> None:
        self._names("propertyOrdering", value)

    def _names(self, keyword: str, value: Any) -> None:
        if type(value) is list:
            self._out[keyword] = value
        else:
            self._malformed()

    def _more_properties(self, value: Any) -> None:
        if isinstance(value, Mapping) and value:
            self._add_constraint(f"further properties {dumps(dict(value)).decode()}")
        elif value is False:
            self._notes.applies("schema.keywords", self._place)

    def _one_of(self, value: Any) -> None:
        self._notes.applies("schema.one_of", self._place)
        self._any_of(value)

    def _any_of(self, value: Any) -> None:
        """Alternatives; one that is left alone becomes part of the schema itself."""
        if type(value) is not list or "anyOf" in self._out:
            self._malformed()
            return
        branches = [self._part(self._typed(branch), f"anyOf[{index}]") for index, branch in enumerate(value)]
        rest = [branch for branch in branches if lowered(branch.get("type")) != "null"]
        if len(rest) < len(branches) and rest:
            self._out["nullable"] = True
        distinct = [*{dumps(branch): branch for branch in rest}.values()]
        if len(distinct) == 1:
            self._absorb(distinct[0])
        elif distinct:
            self._out["anyOf"] = distinct

    def _typed(self, branch: Any) -> Any:
        """Give an alternative without a type the schema's own."""
        if not isinstance(branch, Mapping) or "type" not in self._out or not branch.keys().isdisjoint(_TYPING):
            return branch
        return {"type": self._out["type"], **branch}

    def _absorb(self, branch: Schema) -> None:
        """Merge an alternative into the schema, whose own keywords win; one of another type stays an alternative."""
        if "type" in self._out and lowered(branch.get("type")) != lowered(self._out["type"]):
            self._out["anyOf"] = [branch]
            return
        self._describe(branch.pop("description", ""))
        properties = {**branch.pop("properties", {}), **self._out.get("properties", {})}
        own = {**self._flat, **self._out}
        if any(own.get(key, value) != value for key, value in branch.items()):
            self._notes.applies("schema.conflict", self._place)
        self._out |= {key: value for key, value in branch.items() if key not in own}
        if properties:
            self._out["properties"] = properties

    def _describe(self, text: str) -> None:
        """Add the description of a schema that becomes part of this one."""
        own = self._flat.get("description")
        if text and type(own) is str:
            self._flat["description"] = self._out["description"] = f"{own}\n{text}" if text not in own else own
        elif text:
            self._out["description"] = text

    def _finish(self) -> None:
        out = self._out
        self._name_type()
        if lowered(out.get("type")) == "array" and "items" not in out:
            self._notes.applies("schema.anything", self._place)
            out["items"] = anything(arrays=False)
        for keyword in ("required", "propertyOrdering"):
            if keyword in out:
                self._known(keyword)
        if self._constraints:
            constraints = f"({'; '.join(self._constraints)})"
            described = out.get("description")
            out["description"] = f"{described} {constraints}" if described else constraints

    def _name_type(self) -> None:
        """The service wants a type, or alternatives, and no keyword of another type than that."""
        out = self._out
        hints = _HINTS if "anyOf" not in out else _HOLDERS
        if "type" not in out and (found := next(filter(out.keys().__contains__, hints), "")):
            out["type"] = hints[found]
        for keyword, owner in _HOLDERS.items():
            if keyword in out and lowered(out["type"]) != owner:
                self._malformed()
                del out[keyword]
        if "type" not in out and "anyOf" not in out:
            self._notes.applies("schema.anything", self._place)
            out |= anything()

    def _known(self, keyword: str) -> None:
        """Keep only the names of properties."""
        names, properties = self._out.pop(keyword), self._out.get("properties", {})
        known = [*dict.fromkeys(name for name in names if type(name) is str and name in properties)]
        if known:
            self._out[keyword] = known
        if len(known) < len({*map(str, names)}):
            self._notes.applies("schema.required", self._place)


def lowered(name: Any) -> str:
    """A type's name in lower case; empty where it is not a text."""
    return name.lower() if type(name) is str else ""


def _type_of(value: Any) -> str:
    kinds = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
    return kinds.get(type(value), "null")


_HOLDERS: Final[Mapping[str, str]] = MappingProxyType({"properties": "object", "items": "array"})
"""Keywords with schemas, which one type only may have."""

_TYPING: Final = frozenset({"type", "$ref", "allOf", "anyOf", "oneOf", "enum", "const", *_HOLDERS})
"""Keywords by which a schema may determine its type."""

_HINTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **_HOLDERS,
        "enum": "string",
        "pattern": "string",
        "minLength": "string",
        "maxLength": "string",
        "minimum": "number",
        "maximum": "number",
    }
)
"""Keywords that imply the type where it is missing."""

_WRITERS: Final[Mapping[str, Callable[[Node, Any], None]]] = MappingProxyType(
    {
        "format": Node._format,
        "items": Node._items,
        "prefixItems": Node._prefix_items,
        "properties": Node._properties,
        "required": Node._required,
        "propertyOrdering": Node._ordering,
        "additionalProperties": Node._more_properties,
        "anyOf": Node._any_of,
        "oneOf": Node._one_of,
    }
)
"""Keywords that need more than a check of the value; the type is known by then."""
