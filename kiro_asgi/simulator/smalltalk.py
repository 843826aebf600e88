"""What the simulated model says to a prompt without a marker: the same answer to the same question, always.

It greets, adds, counts, calls a tool where one seems wanted, quotes tool results, answers in JSON where a schema is
given, and otherwise repeats what it was told.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from kiro_asgi.simulator.builders import (
    Trailers,
    answer,
    conversation_id,
    initial_response,
    tagged_thinking,
    text,
    thinking,
    tool_call,
    tool_id,
    words,
)
from kiro_asgi.simulator.catalogue import MODELS
from kiro_asgi.simulator.conversation import Conversation, ToolSpec, as_list, as_map
from kiro_asgi.simulator.made_up import value_for
from kiro_asgi.simulator.scripts import Event, Head, Layout, Script

__all__ = ["call", "compose", "converse", "thought_about", "wanted_tool"]

OPERATORS: Final[Mapping[str, Callable[[float, float], float]]] = {
    "+": operator.add,
    "plus": operator.add,
    "-": operator.sub,
    "minus": operator.sub,
    "*": operator.mul,
    "x": operator.mul,
    "times": operator.mul,
    "/": operator.truediv,
    "divided by": operator.truediv,
}
SUM: Final = re.compile(r"(-?\d+(?:\.\d+)?)\s*(\+|-|\*|/|\bx\b|plus|minus|times|divided by)\s*(-?\d+(?:\.\d+)?)")
SUM_CUE: Final = re.compile(
    r"what(?:'s| is| does)|calculat|comput|how much|equal|\badd\b|=|^[-\d\s.+*/x?]+$", re.IGNORECASE
)
COUNT: Final = re.compile(r"\bcount\b.*?\bto (\d+)", re.IGNORECASE | re.DOTALL)
MODEL: Final = re.compile(r"\b(?:which|what) model\b|\bwho are you\b", re.IGNORECASE)
GREETING: Final = re.compile(r"\W*(?:hi|hello|hey|good (?:morning|evening|day)|hallo|bonjour)\b", re.IGNORECASE)
JSON_WANTED: Final = re.compile(
    r"\bjson schema\b|\b(?:respond|reply|answer|output|return|produce)\b[^.\n]{0,100}\bjson\b", re.IGNORECASE
)
TOOL_DEMANDED: Final = re.compile(
    r"\bmust (?:call|use|invoke)\b[^\n]{0,120}|\b(?:call|use|invoke) the [^\n]{0,80}\btool\b", re.IGNORECASE
)
TOOL_INSTRUCTED: Final = re.compile(r"\bmust call (?:the tool|at least one|a tool)\b[^\n]{0,100}", re.IGNORECASE)
"""The same for instructions, where agents say much about tools that is no demand."""

TOOL_FORBIDDEN: Final = re.compile(
    r"\b(?:do not|don't|must not|never) (?:call|use|invoke) (?:any |a |the )?tools?\b", re.IGNORECASE
)
DULL: Final = frozenset(
    re.findall(
        r"\w+",
        "any and are can current does for from get give has have into its list look make one set some that the this "
        "tool tools use used using what when which who with you your please",
    )
)
"""Words that say nothing about which tool is meant."""

MAX_COUNT: Final = 10_000
MAX_OBJECTS: Final = 64
"""How many opening braces of a text are tried as the start of a schema."""


def compose(
    conversation: Conversation, *steps: Event, trailers: Trailers | None = None, layout: Layout | None = None
) -> Script:
    """A complete answer to *conversation* around *steps*, with the head and the trailers that fit it."""
    identity = str(conversation.state.get("conversationId") or conversation_id(conversation.content))
    opening = (initial_response(identity),) if conversation.rpc else ()
    headers = () if conversation.rpc else (("x-amzn-codewhisperer-conversation-id", identity),)
    head = Head(headers=headers, layout=layout or Layout())
    return answer(*opening, *steps, trailers=trailers or _trailers(conversation, steps), head=head)


def _trailers(conversation: Conversation, steps: tuple[Event, ...]) -> Trailers:
    called = any(step.type == "toolUseEvent" for step in steps)
    window = next((model.window for model in MODELS if model.id == conversation.model), 200_000)
    prompt = conversation.size
    return Trailers(
        "TOOL_USE" if called else "END_TURN", prompt, len(steps), round(100 * (prompt + len(steps)) / window, 4), 0.0123
    )


def thought_about(conversation: Conversation) -> str:
    """What there is to think about a prompt."""
    if conversation.results:
        return "The tool has answered. I should tell the user."
    return f"The user says: {conversation.said[:80]} I should answer that."


def converse(conversation: Conversation) -> Script:
    """An answer to any prompt."""
    steps = next(steps for talk in TALKS if (steps := talk(conversation)) is not None)
    thought = thought_about(conversation)
    if conversation.wants_native_thinking:
        return compose(conversation, *thinking(*words(thought)), *steps)
    if conversation.wants_tagged_thinking:
        return compose(conversation, *tagged_thinking(thought), *steps)
    return compose(conversation, *steps)


def _say(conversation: Conversation, sentence: str) -> tuple[Event, ...]:
    return text(*words(sentence), model=conversation.model)


def _results(conversation: Conversation) -> tuple[Event, ...] | None:
    if not conversation.results:
        return None
    quotes = (f"{'failed: ' if failed else ''}{result[:500]}" for _, result, failed in conversation.results)
    return _say(conversation, "The tool says: " + "; ".join(quotes))


def _demanded_json(conversation: Conversation) -> tuple[Event, ...] | None:
    for place in (conversation.content, conversation.instructions):
        if JSON_WANTED.search(place):
            schema = next((found for found in _objects(place) if _looks_like_schema(found)), None)
            value = {"answer": conversation.said[:200]} if schema is None else _fitting(schema, conversation.said)
            return _say(conversation, json.dumps(value, ensure_ascii=False))
    return None


def _fitting(schema: Mapping[str, Any], said: str) -> Any:
    return value_for(schema, said.split("{", 1)[0].strip()[:200], everything=True)


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
    return any(
        word in value for word in ("properties", "$ref", "anyOf", "oneOf", "allOf", "enum", "items")
    ) or isinstance(value.get("type"), str)


def _names(tool: ToolSpec) -> re.Pattern[str]:
    spaced = re.escape(re.sub(r"[_-]+", " ", tool.name))
    return re.compile(rf"(?<![\w-])(?:{re.escape(tool.name)}|{spaced})(?![\w-])", re.IGNORECASE)


def _telling_words(sentence: str) -> set[str]:
    parts = re.findall(r"[A-Z]?[a-z0-9à-ÿ]+|[A-Z]+", sentence)
    return {part.lower() for part in parts if len(part) > 2} - DULL


def wanted_tool(conversation: Conversation) -> ToolSpec | None:
    """The tool that the prompt seems to ask for; ``None`` if it reads like a question for a human, or is a result.

    Where a call is demanded behind a result, any is of the last tool: agents put the one there that ends their loop.
    """
    tools = conversation.tools
    places = conversation.content, conversation.instructions
    if not tools or any(map(TOOL_FORBIDDEN.search, places)):
        return None
    demand = TOOL_DEMANDED.search(conversation.content) or TOOL_INSTRUCTED.search(conversation.instructions)
    if conversation.results and not demand:
        return None
    for place in (demand[0] if demand else "", conversation.said):
        for tool in tools:
            if _names(tool).search(place):
                return tool
    if conversation.results:
        return tools[-1]
    said = _telling_words(conversation.said)
    best = max(tools, key=lambda tool: _closeness(said, tool))
    return best if demand or _closeness(said, best) >= 2 else None


def _closeness(said: set[str], tool: ToolSpec) -> int:
    return 2 * len(said & _telling_words(tool.name)) + len(said & _telling_words(tool.description))


def call(
    tool: ToolSpec, conversation: Conversation, index: int = 0, arguments: Mapping[str, Any] | None = None
) -> tuple[Event, ...]:
    """A call of *tool* with arguments that fit its schema and, where possible, the prompt."""
    made = value_for(tool.schema, conversation.said) if arguments is None else arguments
    identity = tool_id(f"{conversation.content}\0{len(conversation.history)}", index)
    return tool_call(tool.name, made if isinstance(made, dict) else {}, call_id=identity)


def _tool_call(conversation: Conversation) -> tuple[Event, ...] | None:
    tool = wanted_tool(conversation)
    if tool is None:
        return None
    return (*_say(conversation, f"Let me use {tool.name}."), *text(""), *call(tool, conversation))


def _sum(conversation: Conversation) -> tuple[Event, ...] | None:
    found = SUM.search(conversation.said) if SUM_CUE.search(conversation.said) else None
    if found is None:
        return None
    if found[2] in ("/", "divided by") and not float(found[3]):
        return _say(conversation, "Nobody can divide by zero.")
    value = OPERATORS[found[2]](float(found[1]), float(found[3]))
    return _say(conversation, f"{found[1]} {found[2]} {found[3]} = {value:.15g}")


def _count(conversation: Conversation) -> tuple[Event, ...] | None:
    found = COUNT.search(conversation.said)
    if found is None:
        return None
    last = min(int(found[1][:9]), MAX_COUNT)
    return _say(conversation, ", ".join(map(str, range(1, last + 1))) + ".")


def _model(conversation: Conversation) -> tuple[Event, ...] | None:
    if not MODEL.search(conversation.said):
        return None
    return _say(
        conversation, f"I am the simulator that comes with kiro_asgi. You asked for the model {conversation.model}."
    )


def _greeting(conversation: Conversation) -> tuple[Event, ...] | None:
    if not GREETING.match(conversation.said):
        return None
    return _say(conversation, "Hello! I am a simulated model. Ask me for a sum, or let me count to ten.")


def _echo(conversation: Conversation) -> tuple[Event, ...]:
    return _say(conversation, f"You said: {conversation.said}{_seen(conversation)}")


def _seen(conversation: Conversation) -> str:
    pictures = [as_map(picture) for picture in as_list(conversation.current.get("images"))]
    if not pictures:
        return ""
    each = ", ".join(f"image/{picture.get('format')} of {_size(picture)} bytes" for picture in pictures)
    return f" I also see {len(pictures)} image{'s' * (len(pictures) != 1)}: {each}."


def _size(picture: Mapping[str, Any]) -> int:
    encoded = str(as_map(picture.get("source")).get("bytes", "")).rstrip("=")
    return len(encoded) * 3 // 4


TALKS: Final[tuple[Callable[[Conversation], tuple[Event, ...] | None], ...]] = (
    _tool_call, _demanded_json, _results, _sum, _count, _model, _greeting, _echo,
)  # fmt: skip
"""Tried in order; the last one always has an answer."""
