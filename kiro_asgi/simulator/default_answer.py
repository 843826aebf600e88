"""The answer to a prompt without a marker: always the same to the same question.

The first of these that fits: a call of the tool that the prompt asks for, JSON that a given schema accepts, a quotation
of tool results, an echo of the question.  A thought comes first where the request wants thinking.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from kiro_asgi.simulator.conversation import KiroConversation, OfferedTool, as_list, as_map
from kiro_asgi.simulator.models import MODELS
from kiro_asgi.simulator.schema_values import value_for
from kiro_asgi.simulator.scripts import (
    Event,
    Head,
    Layout,
    Script,
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
"""Words that do not tell one tool from another."""

MAX_OBJECTS: Final = 64
"""How many opening braces of a text are tried as the start of a schema."""


def compose(
    conversation: KiroConversation, *steps: Event, trailers: Trailers | None = None, layout: Layout | None = None
) -> Script:
    """A complete answer to *conversation* around *steps*, with the head and the trailers that fit it."""
    identity = str(conversation.state.get("conversationId") or conversation_id(conversation.content))
    opening = (initial_response(identity),) if conversation.rpc else ()
    headers = () if conversation.rpc else (("x-amzn-codewhisperer-conversation-id", identity),)
    head = Head(headers=headers, layout=layout or Layout())
    return answer(*opening, *steps, trailers=trailers or _trailers(conversation, steps), head=head)


def _trailers(conversation: KiroConversation, steps: tuple[Event, ...]) -> Trailers:
    called = any(step.type == "toolUseEvent" for step in steps)
    window = next((model.window for model in MODELS if model.id == conversation.model), 200_000)
    prompt = conversation.size
    return Trailers(
        "TOOL_USE" if called else "END_TURN", prompt, len(steps), round(100 * (prompt + len(steps)) / window, 4), 0.0123
    )


def thought_about(conversation: KiroConversation) -> str:
    """Return the text of a thought about a prompt."""
    if conversation.results:
        return "The tool has answered. I should tell the user."
    return f"The user says: {conversation.user_text[:80]} I should answer that."


def default_answer(conversation: KiroConversation) -> Script:
    """Answer any prompt."""
    steps = next(steps for make in ANSWERS if (steps := make(conversation)) is not None)
    thought = thought_about(conversation)
    if conversation.wants_native_thinking:
        return compose(conversation, *thinking(*words(thought)), *steps)
    if conversation.wants_tagged_thinking:
        return compose(conversation, *tagged_thinking(thought), *steps)
    return compose(conversation, *steps)


def _text(conversation: KiroConversation, sentence: str) -> tuple[Event, ...]:
    return text(*words(sentence), model=conversation.model)


def _quoted_results(conversation: KiroConversation) -> tuple[Event, ...] | None:
    if not conversation.results:
        return None
    quotes = (f"{'failed: ' if failed else ''}{result[:500]}" for _, result, failed in conversation.results)
    return _text(conversation, "The tool says: " + "; ".join(quotes))


def _demanded_json(conversation: KiroConversation) -> tuple[Event, ...] | None:
    for place in (conversation.content, conversation.instructions):
        if JSON_WANTED.search(place):
            schema = next((found for found in _objects(place) if _looks_like_schema(found)), None)
            value = (
                {"answer": conversation.user_text[:200]} if schema is None else _fitting(schema, conversation.user_text)
            )
            return _text(conversation, json.dumps(value, ensure_ascii=False))
    return None


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


def wanted_tool(conversation: KiroConversation) -> OfferedTool | None:
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
    for place in (demand[0] if demand else "", conversation.user_text):
        for tool in tools:
            if _names(tool).search(place):
                return tool
    if conversation.results:
        return tools[-1]
    wanted = _distinctive_words(conversation.user_text)
    best = max(tools, key=lambda tool: _closeness(wanted, tool))
    return best if demand or _closeness(wanted, best) >= 2 else None


def _closeness(wanted: set[str], tool: OfferedTool) -> int:
    return 2 * len(wanted & _distinctive_words(tool.name)) + len(wanted & _distinctive_words(tool.description))


def call(
    tool: OfferedTool, conversation: KiroConversation, index: int = 0, arguments: Mapping[str, Any] | None = None
) -> tuple[Event, ...]:
    """A call of *tool* with arguments that fit its schema and, where possible, the prompt."""
    made = value_for(tool.schema, conversation.user_text) if arguments is None else arguments
    identity = tool_id(f"{conversation.content}\0{len(conversation.history)}", index)
    return tool_call(tool.name, made if isinstance(made, dict) else {}, call_id=identity)


def _tool_call(conversation: KiroConversation) -> tuple[Event, ...] | None:
    tool = wanted_tool(conversation)
    if tool is None:
        return None
    return (*_text(conversation, f"Let me use {tool.name}."), *text(""), *call(tool, conversation))


def _echo(conversation: KiroConversation) -> tuple[Event, ...]:
    return _text(conversation, f"You said: {conversation.user_text}{_seen(conversation)}")


def _seen(conversation: KiroConversation) -> str:
    pictures = [as_map(picture) for picture in as_list(conversation.current.get("images"))]
    if not pictures:
        return ""
    each = ", ".join(f"image/{picture.get('format')} of {_size(picture)} bytes" for picture in pictures)
    return f" I also see {len(pictures)} image{'s' * (len(pictures) != 1)}: {each}."


def _size(picture: Mapping[str, Any]) -> int:
    encoded = str(as_map(picture.get("source")).get("bytes", "")).rstrip("=")
    return len(encoded) * 3 // 4


ANSWERS: Final[tuple[Callable[[KiroConversation], tuple[Event, ...] | None], ...]] = (
    _tool_call,
    _demanded_json,
    _quoted_results,
    _echo,
)
"""Tried in order; the last one always answers."""
