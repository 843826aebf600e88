"""Markers for answers of every kind, and for changes to an answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import evolve, frozen

from kiro_asgi.simulator.conversation import Conversation, OfferedTool
from kiro_asgi.simulator.default_answer import call, compose, starts_agent, value_for, wanted_tool
from kiro_asgi.simulator.pieces import TRAILERS, CallPart, Ending, Event, Opened, Piece, Sealed, Words
from kiro_asgi.simulator.scripts import (
    SEALED,
    Head,
    Layout,
    Repeat,
    Script,
    Trailers,
    paced,
    tagged_thinking,
    text,
    thinking,
    tool_call,
    tool_calls_interleaved,
    with_layout,
    words,
)

SENTENCE: Final = "This is a simulated answer, and it is streamed in small pieces."
THOUGHT: Final = "A simulated thought, before the answer."
UNICODE: Final = "Zażółć gęślą jaźń – 日本語のテキスト – 👩‍👩‍👧‍👦 – Ελληνικά – 🇳🇴 – עברית."
WEATHER: Final = OfferedTool(
    "get_weather",
    "Look up current weather.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
"""The tool that is called where the request has none."""

FOO: Final = Event("fooEvent", {"content": "not for you", "foo": {"bar": [1, 2, 3]}})
CUT_INPUT: Final = '{"path": "a.py", "content": "import os'


@frozen
class Marker:
    """One marker word."""

    shows: str
    """The effect, as a sentence without a full stop."""

    script: Callable[[Conversation, str], Script]
    parameter: str = ""
    """Meaning of the text after ``=``; empty: there is none."""


def number(parameter: str, default: float, most: float) -> float:
    """*parameter* as a number from 0 to *most*; *default* if it is none."""
    try:
        value = float(parameter)
    except ValueError:
        return default
    return min(max(value, 0.0), most) if value == value else default


def _text(conversation: Conversation, _: str) -> Script:
    return compose(conversation, *text(*words(SENTENCE), model=conversation.model))


def _thinking(conversation: Conversation, _: str) -> Script:
    return compose(conversation, *thinking(*words(THOUGHT)), *text(*words(SENTENCE)))


def _thinking_tool(conversation: Conversation, parameter: str, tool: OfferedTool) -> Script:
    return compose(conversation, *thinking(*words(THOUGHT)), *call(tool, conversation))


def _tagged(conversation: Conversation, parameter: str) -> Script:
    return compose(conversation, *tagged_thinking(THOUGHT, parameter or "thinking"), *text(*words(SENTENCE)))


def _redacted(conversation: Conversation, _: str) -> Script:
    return compose(conversation, Sealed(SEALED), *text(*words(SENTENCE)))


def _tool_named(conversation: Conversation, name: str) -> OfferedTool | None:
    """The tool of that *name*, or without one any that starts no agent; ``None`` where it is not offered."""
    offered = conversation.tools or (WEATHER,)
    if name:
        alike = [tool for tool in offered if _plain(tool.name) == _plain(name)]
        return next((tool for tool in alike if tool.name == name), next(iter(alike), None))
    tools = [tool for tool in offered if not starts_agent(tool)]
    return wanted_tool(conversation) or next(iter(tools[::-1] if conversation.results else tools), None)


def _plain(name: str) -> str:
    """A name without what services do not allow in one."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _calling(
    make: Callable[[Conversation, str, OfferedTool], Script],
) -> Callable[[Conversation, str], Script]:
    """The script of a marker that calls the tool that its parameter names; a text where that is not offered."""

    def script(conversation: Conversation, parameter: str) -> Script:
        if (tool := _tool_named(conversation, parameter)) is not None:
            return make(conversation, parameter, tool)
        return compose(conversation, *text(*words(f"No tool {parameter or 'but those of agents'} is offered.")))

    return script


def _given_arguments(conversation: Conversation, name: str) -> Mapping[str, Any] | None:
    """The JSON object that follows ``sim:tool=NAME`` in the question."""
    place = re.search(rf"sim:tool[=:]{re.escape(name)}\s*(?=\{{)", conversation.question) if name else None
    try:
        return json.JSONDecoder().raw_decode(conversation.question, place.end())[0] if place else None
    except (ValueError, RecursionError):
        return None


def _varied(tool: OfferedTool, conversation: Conversation, index: int) -> Mapping[str, Any]:
    """Arguments that differ from call to call where the schema leaves room."""
    made = value_for(tool.schema, conversation.user_text)
    if not isinstance(made, dict):  # of a tool without a schema
        return {}
    properties = tool.schema.get("properties", {})
    free = (
        key for key, value in made.items()
        if isinstance(value, str) and not {"enum", "const", "format", "maxLength"} & set(properties.get(key, {}))
    )  # fmt: skip
    key = next(free, None)
    return made if key is None or not index else {**made, key: f"{made[key]} {index + 1}"}


def _calls(conversation: Conversation, parameter: str) -> list[tuple[CallPart, ...]]:
    tools = [tool for tool in conversation.tools if not starts_agent(tool)] or [WEATHER]
    picked = (tools[at % len(tools)] for at in range(max(int(number(parameter, 2, 100)), 1)))
    return [call(tool, conversation, at, _varied(tool, conversation, at)) for at, tool in enumerate(picked)]


def _tool(conversation: Conversation, parameter: str, tool: OfferedTool) -> Script:
    called = call(tool, conversation, arguments=_given_arguments(conversation, parameter))
    return compose(conversation, *text("Let me check.", ""), *called)


def _parallel(conversation: Conversation, parameter: str) -> Script:
    return compose(
        conversation, *text("Let me check."), *(step for one in _calls(conversation, parameter) for step in one)
    )


def _interleaved(conversation: Conversation, parameter: str) -> Script:
    return compose(conversation, *tool_calls_interleaved(*_calls(conversation, parameter)))


def _cut_tool(conversation: Conversation, parameter: str, tool: OfferedTool) -> Script:
    steps: tuple[Piece, ...] = (*text("I write the file."), *tool_call(tool.name, CUT_INPUT, stop=False))
    return compose(conversation, *steps, trailers=Trailers(None, None, 0, None, None))


def _null_tool(conversation: Conversation, parameter: str, tool: OfferedTool) -> Script:
    return compose(conversation, *tool_call(tool.name, "null"))


def _bad_tool_json(conversation: Conversation, parameter: str, tool: OfferedTool) -> Script:
    return compose(conversation, *text("I write the file."), *tool_call(tool.name, CUT_INPUT))


def _unicode(conversation: Conversation, _: str) -> Script:
    return compose(conversation, *text(*UNICODE), layout=Layout(chunk=7))


def _stop(reason: str) -> Callable[[Conversation, str], Script]:
    def script(conversation: Conversation, _: str) -> Script:
        return compose(conversation, *text(*words(SENTENCE)[:-3]), trailers=Trailers(reason))

    return script


def _context_full(conversation: Conversation, _: str) -> Script:
    return compose(conversation, *text(*words(SENTENCE)), trailers=Trailers(None, None, 0, 100.0))


def _thinking_only(conversation: Conversation, _: str) -> Script:
    return compose(conversation, *thinking(*words(THOUGHT)))


def _count(conversation: Conversation, parameter: str) -> Script:
    last = int(number(parameter, 10, 100_000))
    return compose(conversation, *text(*(f"{at} " for at in range(1, last + 1))))


def _repeated(conversation: Conversation, piece: str, times: int) -> Script:
    head, *trailers = compose(conversation)
    return (head, Repeat(Words(piece), times), *trailers)


def _long(conversation: Conversation, parameter: str) -> Script:
    return _repeated(conversation, "word ", int(number(parameter, 1000, 10_000_000)))


def _flood(conversation: Conversation, parameter: str) -> Script:
    return _repeated(conversation, "0123456789abcdef" * 4096, int(number(parameter, 8, 10_240)) * 16)


ANSWERS: Final[Mapping[str, Marker]] = {
    "text": Marker("a text answer", _text),
    "thinking": Marker("native reasoning with a signature, then text", _thinking),
    "tagged": Marker("thinking in tags at the start of the text, the tags cut in two", _tagged, "tag name (thinking)"),
    "redacted": Marker("sealed reasoning, then text", _redacted),
    "thinking-only": Marker("native reasoning and no answer", _thinking_only),
    "tool": Marker(
        "text, then a call of a tool on offer (or of get_weather)",
        _calling(_tool),
        "tool name; behind it may stand its arguments, as JSON",
    ),
    "thinking-tool": Marker("native reasoning with a signature, then a call", _calling(_thinking_tool), "tool name"),
    "parallel": Marker("several tool calls one after the other", _parallel, "how many (2)"),
    "interleaved": Marker("several tool calls whose fragments take turns", _interleaved, "how many (2)"),
    "cut-tool": Marker("a tool call that never ends: no stop, no trailers", _calling(_cut_tool), "tool name"),
    "null-tool": Marker("a tool call with null as its arguments", _calling(_null_tool), "tool name"),
    "bad-tool-json": Marker("a tool call whose arguments are not JSON", _calling(_bad_tool_json), "tool name"),
    "unicode": Marker("multi-byte text in HTTP chunks of seven bytes", _unicode),
    "length": Marker("a text that ends with the stop reason MAX_TOKENS", _stop("MAX_TOKENS")),
    "stop-sequence": Marker("a text that ends with the stop reason STOP_SEQUENCE", _stop("STOP_SEQUENCE")),
    "filtered": Marker("a text that ends with the stop reason CONTENT_FILTERED", _stop("CONTENT_FILTERED")),
    "context-full": Marker("a text after which the context window is 100 % full", _context_full),
    "count": Marker("the numbers from 1, each an event", _count, "last number (10)"),
    "long": Marker("many equal small events", _long, "how many (1000)"),
    "flood": Marker("text in events of 64 KiB, as fast as it is read", _flood, "MiB (8)"),
}
"""Answers in place of the default one."""


def _inserted(script: Script, extra: Piece) -> Script:
    return tuple(part for step in script for part in ((step, extra) if isinstance(step, Head | Piece) else (step,)))


def _without(*kinds: type) -> Callable[[Script, str], Script]:
    return lambda script, _: tuple(step for step in script if not isinstance(step, kinds))


def _without_usage(script: Script, _: str) -> Script:
    return tuple(evolve(step, used=None) if isinstance(step, Ending) else step for step in script)


def _same_ids(script: Script, _: str) -> Script:
    found = dict.fromkeys(step.call_id for step in script if isinstance(step, CallPart))
    numbered = {call_id: f"call_{number}" for number, call_id in enumerate(found)}
    return tuple(
        evolve(step, call_id=numbered[step.call_id]) if isinstance(step, CallPart) else step for step in script
    )


def _initial(script: Script, _: str) -> Script:
    opening = Opened("00000000-0000-4000-8000-000000000000")
    return tuple(part for step in script for part in ((step, opening) if isinstance(step, Head) else (step,)))


CHANGES: Final[Mapping[str, tuple[str, Callable[[Script, str], Script], str]]] = {
    "bytes": ("one byte a socket write", lambda script, _: with_layout(script, Layout(write=1)), ""),
    "chunks": (
        "HTTP chunks of a fixed size, across frames",
        lambda script, parameter: with_layout(script, Layout(chunk=max(int(number(parameter, 5, 1 << 24)), 1))),
        "bytes (5)",
    ),
    "whole": ("everything in one HTTP chunk", lambda script, _: with_layout(script, Layout(chunk=1 << 62)), ""),
    "slow": (
        "a pause after every event",
        lambda script, parameter: paced(script, number(parameter, 0.2, 600)),
        "seconds (0.2)",
    ),
    "empty-frames": ("an empty text event after every event", lambda script, _: _inserted(script, *text("")), ""),
    "unknown-event": ("an event of an unknown type after every event", lambda script, _: _inserted(script, FOO), ""),
    "initial": ("an initial-response event first", _initial, ""),
    "same-ids": ("call ids that begin with call_0 in every answer", _same_ids, ""),
    "no-trailers": ("no metadata, context usage or metering event", _without(*TRAILERS), ""),
    "no-metadata": ("no metadata event, as some accounts never get one", _without(Ending), ""),
    "no-usage": ("a metadata event with a stop reason only", _without_usage, ""),
}
"""Changes to any answer: the effect in words, the change, its parameter."""
