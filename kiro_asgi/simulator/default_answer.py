"""The answer to a prompt without a marker: always the same to the same question.

The first of these that fits: a call of the tool that the prompt asks for, JSON that a given schema accepts, a quotation
of tool results, an echo of the question.  A thought comes first where the request wants thinking.

Arguments and JSON are made up by `value_for`, with words taken from the prompt where they fit.  It covers what schemas
of tools and answers are made of: types, ``enum``, ``const``, ``default``, local ``$ref``, combinators, bounds, common
formats.  ``pattern`` is not solved.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import ceil, floor, inf
from typing import Any, Final

from attrs import define, field

from kiro_asgi.simulator.conversation import Conversation, OfferedTool
from kiro_asgi.simulator.pieces import CallPart, Opened, Piece
from kiro_asgi.simulator.scripts import (
    Head,
    Layout,
    Script,
    Trailers,
    answer,
    conversation_id,
    tagged_thinking,
    text,
    thinking,
    tool_call,
    tool_id,
    words,
)

HUGE: Final = 1e15
"""Bounds beyond this are ignored."""

MAX_ITEMS: Final = 100
MAX_LENGTH: Final = 10_000
MAX_SIZE: Final = 200_000
"""Values and characters of all of it; whatever comes then is the emptiest of its type.  A schema may ask for itself
several times, and so for more than a machine holds."""

MAX_BRANCHES: Final = 32
"""References and alternatives that are followed, one after the other, for one value."""

MAX_DEPTH: Final = 6
"""Deeper schemas get the emptiest value of their type, which ends recursion through ``$ref``."""

FORMATS: Final[Mapping[str, str]] = {
    "date": "2026-01-02",
    "time": "03:04:05Z",
    "date-time": "2026-01-02T03:04:05Z",
    "email": "someone@example.org",
    "uri": "https://example.org/",
    "url": "https://example.org/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "127.0.0.1",
    "ipv6": "::1",
    "hostname": "example.org",
}

FINDERS: Final[tuple[tuple[re.Pattern[str], re.Pattern[str], str], ...]] = (
    (
        re.compile(r"path|file|dir"),
        re.compile(r"(?<![\w:/])((?:[\w.~-]*/)+[\w.-]*\w|\w[\w-]*\.\w{1,5})\b"),
        "example.txt",
    ),
    (re.compile(r"url|uri|link"), re.compile(r"(https?://[^\s\"'<>)]+)"), "https://example.org/"),
    (re.compile(r"mail"), re.compile(r"([\w.+-]+@[\w-]+(?:\.[\w-]+)+)"), "someone@example.org"),
    (
        re.compile(r"city|location|place|country|region|town"),
        re.compile(r"\b(?:in|for|at|of|to|from|near) ((?:[A-ZÀ-ÞĀ-Ž][\w'’-]+ ?)+)"),
        "Oslo",
    ),
    (re.compile(r"command|cmd|shell"), re.compile(r"`([^`]+)`"), "ls"),
    (re.compile(r"expression|formula"), re.compile(r"(\d[\d\s.+*/()-]*\d)"), "2 + 3"),
)
"""Property name, how to find such a thing in a text, and what to take when there is none."""

QUOTED: Final = re.compile(r"[\"“`']([^\"”`']{1,200})[\"”`'](?!\w)")
NUMBER: Final = re.compile(r"-?\d{1,15}(?:\.\d{1,15})?")


@define
class _Maker:
    text: str
    root: Mapping[str, Any]
    everything: bool
    """Whether optional properties are filled too."""

    numbers: list[float] = field(factory=list)
    size: int = 0
    """Values and characters so far."""

    def make(self, schema: Any, name: str, depth: int) -> Any:
        self.size += 1
        depth = depth if self.size < MAX_SIZE else max(depth, 2 * MAX_DEPTH + 1)
        if not isinstance(schema, Mapping):
            return self._counted(self.text or "anything")
        schema = self._resolved(schema, depth)
        if "const" in schema:
            return schema["const"]
        if values := _sequence(schema.get("enum")):
            return self._choice(values)
        if "default" in schema:
            return schema["default"]
        return MAKERS[_kind(schema)](self, schema, name, depth)

    def _resolved(self, schema: Mapping[str, Any], depth: int) -> Mapping[str, Any]:
        for _ in range(MAX_BRANCHES):
            if isinstance(reference := schema.get("$ref"), str):
                schema = _look_up(self.root, reference)
            elif branches := _sequence(schema.get("anyOf")) or _sequence(schema.get("oneOf")):
                rest = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf")}
                schema = {**rest, **_mapping(branches[-1] if depth > MAX_DEPTH else branches[0])}
            elif parts := _sequence(schema.get("allOf")):
                schema = _merged([{key: value for key, value in schema.items() if key != "allOf"}, *parts], self.root)
            else:
                break
        return schema

    def _choice(self, values: Sequence[Any]) -> Any:
        lowered = self.text.lower()
        return next((value for value in values if isinstance(value, str) and value.lower() in lowered), values[0])

    def object(self, schema: Mapping[str, Any], name: str, depth: int) -> dict[str, Any]:
        properties = _mapping(schema.get("properties"))
        required = [key for key in _sequence(schema.get("required")) if isinstance(key, str)]
        if depth > MAX_DEPTH:
            wanted = required if depth <= 2 * MAX_DEPTH else []
        else:
            wanted = [*required, *(properties if self.everything else [] if required else list(properties)[:1])]
        return {key: self.make(properties.get(key, {}), key, depth + 1) for key in dict.fromkeys(wanted)}

    def array(self, schema: Mapping[str, Any], name: str, depth: int) -> list[Any]:
        least = max(_bound(schema, "minItems", 0), int(depth <= MAX_DEPTH))
        count = int(min(least, _bound(schema, "maxItems", MAX_ITEMS), MAX_ITEMS)) if depth <= 2 * MAX_DEPTH else 0
        return [self.make(schema.get("items", {}), name, depth + 1) for _ in range(count)]

    def string(self, schema: Mapping[str, Any], name: str, depth: int) -> str:
        value = FORMATS.get(str(schema.get("format"))) or self._word(name)
        most = MAX_LENGTH if self.size < MAX_SIZE else 0
        value = value.ljust(int(min(_bound(schema, "minLength", 0), most)), ".")
        return self._counted(value[: int(_bound(schema, "maxLength", MAX_LENGTH))])

    def _counted(self, value: str) -> str:
        self.size += len(value)
        return value

    def _word(self, name: str) -> str:
        for names, pattern, fallback in FINDERS:
            if names.search(name.lower()):
                found = pattern.search(self.text)
                return found[1].strip() if found else fallback
        quoted = QUOTED.search(self.text)
        return quoted[1] if quoted else self.text[:200] or "example"

    def number(self, schema: Mapping[str, Any], name: str, depth: int) -> float:
        return next(filter(partial(_is_within, schema), self._candidates(schema)), 1)

    def integer(self, schema: Mapping[str, Any], name: str, depth: int) -> int:
        whole = (int(value) for value in self._candidates(schema) if value == int(value))
        return next(filter(partial(_is_within, schema), whole), 1)

    def _candidates(self, schema: Mapping[str, Any]) -> Iterator[float]:
        """Numbers of which one fits, where any does: one of the text, those at the bounds, and one between them."""
        value = self.numbers.pop(0) if self.numbers else 1
        low = max(_bound(schema, "minimum", -HUGE), _bound(schema, "exclusiveMinimum", -HUGE))
        high = min(_bound(schema, "maximum", HUGE), _bound(schema, "exclusiveMaximum", HUGE))
        step = _bound(schema, "multipleOf", 0)
        if step > 0:
            nearest = ceil(min(max(value, low), high) / step)
            yield from (times * step for times in (nearest, nearest - 1, nearest + 1))
        else:
            yield from (value, ceil(value), ceil(low), ceil(low) + 1, floor(high), floor(high) - 1, low, high)
            yield (low + high) / 2

    def boolean(self, schema: Mapping[str, Any], name: str, depth: int) -> bool:
        return True

    def null(self, schema: Mapping[str, Any], name: str, depth: int) -> None:
        return None


MAKERS: Final[Mapping[str, Any]] = {
    "object": _Maker.object,
    "array": _Maker.array,
    "string": _Maker.string,
    "number": _Maker.number,
    "integer": _Maker.integer,
    "boolean": _Maker.boolean,
    "null": _Maker.null,
}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _bound(schema: Mapping[str, Any], word: str, default: float) -> float:
    value = schema.get(word)
    return value if isinstance(value, int | float) and abs(value) < HUGE else default


def _is_within(schema: Mapping[str, Any], value: float) -> bool:
    """Whether a number keeps the bounds of *schema*."""
    least, most = _bound(schema, "minimum", -inf), _bound(schema, "maximum", inf)
    return least <= value <= most and (
        _bound(schema, "exclusiveMinimum", -inf) < value < _bound(schema, "exclusiveMaximum", inf)
    )


def _kind(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "null")
    if isinstance(kind, str) and kind in MAKERS:
        return kind
    return "object" if "properties" in schema else "array" if "items" in schema else "string"


def _look_up(root: Mapping[str, Any], reference: str) -> Mapping[str, Any]:
    place: Any = root
    for key in reference.removeprefix("#").split("/")[1:]:
        place = _mapping(place).get(key.replace("~1", "/").replace("~0", "~"))
    return _mapping(place)


def _merged(parts: Sequence[Any], root: Mapping[str, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for part in map(_mapping, parts):
        resolved = _look_up(root, part["$ref"]) if isinstance(part.get("$ref"), str) else part
        properties = {**_mapping(merged.get("properties")), **_mapping(resolved.get("properties"))}
        required = [*_sequence(merged.get("required")), *_sequence(resolved.get("required"))]
        merged |= resolved
        merged |= {"properties": properties, "required": required} if properties else {}
    return merged


def value_for(schema: Mapping[str, Any], text: str = "", *, everything: bool = False) -> Any:
    """A value that *schema* accepts.

    Args:
        schema: JSON Schema, local references only.
        text: Where cities, paths, numbers and quoted words are taken from.
        everything: Fill optional properties too.
    """
    numbers = [float(found) if "." in found else int(found) for found in NUMBER.findall(text[:10_000])]
    return _Maker(text, schema, everything, numbers).make(schema, "", 0)


JSON_WANTED: Final = re.compile(
    r"\bjson schema\b|\b(?:respond|reply|answer|output|return|produce)\b[^.\n]{0,100}\bjson\b", re.IGNORECASE
)
TOOL_DEMANDED: Final = re.compile(
    r"\bmust (?:call|use|invoke)\b[^\n]{0,120}|\b(?:call|use|invoke) the [^\n]{0,80}\btool\b", re.IGNORECASE
)
TOOL_INSTRUCTED: Final = re.compile(r"\bmust call (?:the tool|at least one|a tool)\b[^\n]{0,100}", re.IGNORECASE)
"""The same for instructions, which mention tools often without a demand."""

TOOL_FORBIDDEN: Final = re.compile(
    r"\b(?:do not|don't|must not|never) (?:call|use|invoke) (?:any |a |the )?tools?\b", re.IGNORECASE
)
COMMON_WORDS: Final = frozenset(
    re.findall(
        r"\w+",
        "any and are can current does for from get give has have into its list look make one set some that the this "
        "tool tools use used using what when which who with you your please",
    )
)
"""Words that do not distinguish one tool from another."""

MAX_OBJECTS: Final = 64
"""Number of opening braces of a text that are tried as the start of a schema."""


def compose(
    conversation: Conversation, *steps: Piece, trailers: Trailers | None = None, layout: Layout | None = None
) -> Script:
    """A complete answer to *conversation* around *steps*, with the head and the trailers that fit it."""
    identity = conversation.id or conversation_id(conversation.content)
    opening = (Opened(identity),) if conversation.opens else ()
    head = Head(conversation="" if conversation.opens else identity, layout=layout or Layout())
    return answer(*opening, *steps, trailers=trailers or _trailers(conversation, steps), head=head)


def _trailers(conversation: Conversation, steps: tuple[Piece, ...]) -> Trailers:
    called = any(isinstance(step, CallPart) for step in steps)
    prompt, window = conversation.size, conversation.window
    return Trailers(
        "TOOL_USE" if called else "END_TURN", prompt, len(steps), round(100 * (prompt + len(steps)) / window, 4), 0.0123
    )


def thought_about(conversation: Conversation) -> str:
    """Return the text of a thought about a prompt."""
    if conversation.results:
        return "The tool has answered. I should tell the user."
    return f"The user says: {conversation.user_text[:80]} I should answer that."


def default_answer(conversation: Conversation) -> Script:
    """Answer any prompt."""
    steps = next(steps for make in ANSWERS if (steps := make(conversation)) is not None)
    thought = thought_about(conversation)
    if conversation.wants_native_thinking:
        return compose(conversation, *thinking(*words(thought)), *steps)
    if conversation.wants_tagged_thinking:
        return compose(conversation, *tagged_thinking(thought), *steps)
    return compose(conversation, *steps)


def _text(conversation: Conversation, sentence: str) -> tuple[Piece, ...]:
    return text(*words(sentence), model=conversation.model)


def _quoted_results(conversation: Conversation) -> tuple[Piece, ...] | None:
    if not conversation.results:
        return None
    quotes = (f"{'failed: ' if each.failed else ''}{each.text[:500]}" for each in conversation.results)
    return _text(conversation, "The tool says: " + "; ".join(quotes))


def _demanded_json(conversation: Conversation) -> tuple[Piece, ...] | None:
    places = conversation.content, conversation.instructions
    if not any(map(JSON_WANTED.search, places)):
        return None
    # The wish may be the user's, and the schema stand in the instructions, or the other way round.
    schemas = (found for place in places for found in _objects(place) if _looks_like_schema(found))
    schema, said = next(schemas, None), conversation.user_text
    value = {"answer": said[:200]} if schema is None else _fitting(schema, said)
    return _text(conversation, json.dumps(value, ensure_ascii=False))


def _fitting(schema: Mapping[str, Any], text: str) -> Any:
    return value_for(schema, text.split("{", 1)[0].strip()[:200], everything=True)


def _objects(place: str) -> list[Any]:
    decoder = json.JSONDecoder()
    found: list[Any] = []
    at = place.find("{")
    for _ in range(MAX_OBJECTS):
        if at < 0:
            break
        try:
            value, at = decoder.raw_decode(place, at)
            found.append(value)
        except (ValueError, RecursionError):
            at += 1
        at = place.find("{", at)
    return found


def _looks_like_schema(value: Mapping[str, Any]) -> bool:
    """Whether *value* may be a JSON Schema; types in capitals are Google's, as its client quotes them."""
    kind = value.get("type")
    if isinstance(kind, str) and not kind.islower():
        return False
    return any(
        word in value for word in ("properties", "$ref", "anyOf", "oneOf", "allOf", "enum", "items")
    ) or isinstance(kind, str)


def _names(tool: OfferedTool) -> re.Pattern[str]:
    spaced = re.escape(re.sub(r"[_-]+", " ", tool.name))
    return re.compile(rf"(?<![\w-])(?:{re.escape(tool.name)}|{spaced})(?![\w-])", re.IGNORECASE)


def _distinctive_words(sentence: str) -> set[str]:
    parts = re.findall(r"[A-Z]?[a-z0-9à-ÿ]+|[A-Z]+", sentence)
    return {part.lower() for part in parts if len(part) > 2} - COMMON_WORDS


_STARTS_AGENT: Final = re.compile(r"agent|^task$|new_?task|spawn|delegat|dispatch|workflow", re.IGNORECASE)


def starts_agent(tool: OfferedTool) -> bool:
    """Whether *tool* seems to start an agent, which would ask again, and be told to start others."""
    return bool(_STARTS_AGENT.search(tool.name))


def wanted_tool(conversation: Conversation) -> OfferedTool | None:
    """The tool that the prompt seems to ask for; ``None`` if it reads like a question for a human, or is a result.

    Where a call is demanded after a result, it is one of the last tool: agents put the one there that ends their loop.
    A tool that starts an agent is called if it is named, and not otherwise.
    """
    tools = conversation.tools
    places = conversation.question, conversation.instructions
    if not tools or any(map(TOOL_FORBIDDEN.search, places)):
        return None
    demand = TOOL_DEMANDED.search(conversation.question) or TOOL_INSTRUCTED.search(conversation.instructions)
    if conversation.results and not demand:
        return None
    for place in (demand[0] if demand else "", conversation.user_text):
        for tool in tools:
            if _names(tool).search(place):
                return tool
    tools = tuple(tool for tool in tools if not starts_agent(tool))
    if conversation.results or not tools:
        return tools[-1] if tools else None
    wanted = _distinctive_words(conversation.user_text)
    best = max(tools, key=lambda tool: _closeness(wanted, tool))
    return best if demand or _closeness(wanted, best) >= 2 else None


def _closeness(wanted: set[str], tool: OfferedTool) -> int:
    return 2 * len(wanted & _distinctive_words(tool.name)) + len(wanted & _distinctive_words(tool.description))


def call(
    tool: OfferedTool, conversation: Conversation, index: int = 0, arguments: Mapping[str, Any] | None = None
) -> tuple[CallPart, ...]:
    """A call of *tool* with arguments that fit its schema and, where possible, the prompt."""
    made = value_for(tool.schema, conversation.user_text) if arguments is None else arguments
    identity = tool_id(f"{conversation.content}\0{len(conversation.earlier)}", index)
    return tool_call(tool.name, made if isinstance(made, dict) else {}, call_id=identity)


def _tool_call(conversation: Conversation) -> tuple[Piece, ...] | None:
    tool = wanted_tool(conversation)
    if tool is None:
        return None
    return (*_text(conversation, f"Let me use {tool.name}."), *text(""), *call(tool, conversation))


def _echo(conversation: Conversation) -> tuple[Piece, ...]:
    return _text(conversation, f"You said: {conversation.user_text}{_seen(conversation)}")


def _seen(conversation: Conversation) -> str:
    if not conversation.images:
        return ""
    each = ", ".join(f"image/{kind} of {size} bytes" for kind, size in conversation.images)
    return f" I also see {len(conversation.images)} image{'s' * (len(conversation.images) != 1)}: {each}."


ANSWERS: Final[tuple[Callable[[Conversation], tuple[Piece, ...] | None], ...]] = (
    _tool_call,
    _demanded_json,
    _quoted_results,
    _echo,
)
"""Tried in order; the last one always answers."""
