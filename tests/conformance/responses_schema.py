"""The Responses API's schema, version 2026-04-24 of Open Responses, as tables: what must be there, and of which type.

A rule takes a value and the place where it stands, and gives the problems found there.  Objects may have more members
than a table names, as clients may meet newer servers; none that it demands may be missing.

`OPEN` is the public specification alone.  `SERVED` has the kinds of item, tool and event besides that only OpenAI's own
API has: the SDKs and Codex read them.

Source: https://www.openresponses.org/specification
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from attrs import frozen

__all__ = ["OPEN", "SERVED", "Schema", "sse_events"]

Rule = Callable[[Any, str], Iterator[str]]


def of(*types: type) -> Rule:
    """Exactly one of *types*: ``True`` is no number here."""

    def check(value: Any, place: str) -> Iterator[str]:
        if type(value) not in types:
            yield f"{place}: expected {' or '.join(kind.__name__ for kind in types)}, got {json.dumps(value)[:80]}"

    return check


STR, INT, BOOL, NUMBER = of(str), of(int), of(bool), of(int, float)


def nullable(rule: Rule) -> Rule:
    """Null, or what *rule* takes."""
    return lambda value, place: iter(()) if value is None else rule(value, place)


def either(*words: str) -> Rule:
    """One of *words*."""

    def check(value: Any, place: str) -> Iterator[str]:
        if value not in words:
            yield f"{place}: expected one of {', '.join(words)}, got {json.dumps(value)[:80]}"

    return check


def each(rule: Rule) -> Rule:
    """A list of what *rule* takes."""

    def check(value: Any, place: str) -> Iterator[str]:
        yield from of(list)(value, place)
        for index, member in enumerate(value if isinstance(value, list) else ()):
            yield from rule(member, f"{place}[{index}]")

    return check


def anything(value: Any, place: str) -> Iterator[str]:
    """Whatever it is."""
    yield from ()


def has(required: Mapping[str, Rule], optional: Mapping[str, Rule] | None = None) -> Rule:
    """An object with all the *required* members, and perhaps the *optional* ones."""

    def check(value: Any, place: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield f"{place}: expected an object, got {json.dumps(value)[:80]}"
            return
        yield from (f"{place}.{name}: missing" for name in required if name not in value)
        for name, rule in {**required, **(optional or {})}.items():
            if name in value:
                yield from rule(value[name], f"{place}.{name}")

    return check


def tagged(kinds: Mapping[str, Rule]) -> Rule:
    """An object whose ``type`` says which of *kinds* it is."""

    def check(value: Any, place: str) -> Iterator[str]:
        kind = value.get("type") if isinstance(value, dict) else None
        if kind not in kinds:
            yield f"{place}.type: {kind!r} is no kind of it"
        else:
            yield from kinds[kind](value, place)

    return check


def any_of(*rules: Rule) -> Rule:
    """What one of *rules* takes; the problems are the last one's."""

    def check(value: Any, place: str) -> Iterator[str]:
        problems: list[str] = []
        for rule in rules:
            problems = list(rule(value, place))
            if not problems:
                return
        yield from problems

    return check


# Parts.

CITATION: Final = has({"url": STR, "title": STR, "start_index": INT, "end_index": INT})

TOP_LOGPROB: Final = has({"token": STR, "logprob": NUMBER, "bytes": each(INT)})

LOGPROB: Final = has({"token": STR, "logprob": NUMBER, "bytes": each(INT), "top_logprobs": each(TOP_LOGPROB)})

TEXT_PART: Final = has(
    {"text": STR, "annotations": each(tagged({"url_citation": CITATION}))}, {"logprobs": each(LOGPROB)}
)

ONE_TEXT: Final = has({"text": STR})

PART: Final = tagged(
    {
        "output_text": TEXT_PART,
        "refusal": has({"refusal": STR}),
        "input_text": ONE_TEXT,
        "input_image": has({"image_url": nullable(STR), "detail": either("low", "high", "auto")}),
        "input_file": has({}, {"filename": STR, "file_url": STR}),
        "text": ONE_TEXT,
        "summary_text": ONE_TEXT,
        "reasoning_text": ONE_TEXT,
    }
)

# Items.  The optional members may be absent; none of them may be null.

STATUS: Final = either("in_progress", "completed", "incomplete")

ROLE: Final = either("user", "assistant", "system", "developer", "unknown", "critic", "discriminator", "tool")

CALLED: Final[dict[str, Rule]] = {"id": STR, "call_id": STR, "status": STATUS}

OPEN_ITEMS: Final[dict[str, Rule]] = {
    "message": has(
        {"id": STR, "status": STATUS, "role": ROLE, "content": each(PART)},
        {"phase": either("commentary", "final_answer")},
    ),
    "function_call": has({**CALLED, "name": STR, "arguments": STR}),
    "function_call_output": has({**CALLED, "output": any_of(STR, each(PART))}),
    "reasoning": has({"id": STR, "summary": each(PART)}, {"content": each(PART), "encrypted_content": STR}),
    "compaction": has({"id": STR, "encrypted_content": STR}),
}

FURTHER_ITEMS: Final[dict[str, Rule]] = {
    "custom_tool_call": has({**CALLED, "name": STR, "input": STR}),
    "local_shell_call": has({**CALLED, "action": has({"type": either("exec"), "command": each(STR), "env": of(dict)})}),
    "shell_call": has({**CALLED, "action": has({"commands": each(STR)})}),
    "apply_patch_call": has({**CALLED, "operation": has({"type": STR, "path": STR})}),
    "tool_search_call": has({**CALLED, "arguments": of(dict), "execution": either("client", "server")}),
    "web_search_call": has(
        {
            "id": STR,
            "status": either("in_progress", "searching", "completed", "failed"),
            "action": has({"type": either("search"), "query": STR, "queries": each(STR)}),
        }
    ),
}

# Tools, and the choice among them.

OPEN_TOOLS: Final[dict[str, Rule]] = {
    "function": has(
        {
            "name": STR,
            "description": nullable(STR),
            "parameters": nullable(of(dict)),
            "strict": nullable(BOOL),
        }
    )
}

CHOICE: Final = any_of(
    either("none", "auto", "required"),
    has({"type": either("function")}, {"name": STR}),
    has({"type": either("allowed_tools"), "tools": each(of(dict)), "mode": either("none", "auto", "required")}),
)

# The response.

USAGE: Final = has(
    {
        "input_tokens": INT,
        "output_tokens": INT,
        "total_tokens": INT,
        "input_tokens_details": has({"cached_tokens": INT, "cache_write_tokens": INT}),
        "output_tokens_details": has({"reasoning_tokens": INT}),
    }
)
"""The specification alone does not know ``cache_write_tokens``, which OpenAI's SDK demands."""

FORMAT: Final = tagged(
    {
        "text": has({}),
        "json_object": has({}),
        "json_schema": has({"name": STR, "description": nullable(STR), "schema": of(dict), "strict": BOOL}),
    }
)
"""The published schema takes null only for ``schema``, against its own description."""

EFFORT: Final = either("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""The specification alone knows neither ``minimal`` nor ``max``, which OpenAI's SDK sends."""


def response_rule(item: Rule, tool: Rule, choice: Rule) -> Rule:
    """A whole response."""
    return has(
        {
            "id": STR,
            "object": either("response"),
            "created_at": INT,
            "completed_at": nullable(INT),
            "status": either("queued", "in_progress", "completed", "incomplete", "failed", "cancelled"),
            "incomplete_details": nullable(has({"reason": STR})),
            "model": STR,
            "previous_response_id": nullable(STR),
            "instructions": nullable(STR),
            "output": each(item),
            "error": nullable(has({"code": STR, "message": STR})),
            "tools": each(tool),
            "tool_choice": choice,
            "truncation": either("auto", "disabled"),
            "parallel_tool_calls": BOOL,
            "text": has({"format": FORMAT}, {"verbosity": either("low", "medium", "high")}),
            "top_p": NUMBER,
            "presence_penalty": NUMBER,
            "frequency_penalty": NUMBER,
            "top_logprobs": INT,
            "temperature": NUMBER,
            "reasoning": nullable(
                has({"effort": nullable(EFFORT), "summary": nullable(either("concise", "detailed", "auto"))})
            ),
            "usage": nullable(USAGE),
            "max_output_tokens": nullable(INT),
            "max_tool_calls": nullable(INT),
            "store": BOOL,
            "background": BOOL,
            "service_tier": STR,
            "metadata": of(dict),
            "safety_identifier": nullable(STR),
            "prompt_cache_key": nullable(STR),
        }
    )


ENDED: Final = {
    "completed": ("completed_at", "usage"),
    "incomplete": ("incomplete_details", "usage"),
    "failed": ("error",),
}
"""Status to the members that are null with every other status but those that name them, too."""


def ended(value: Any, place: str) -> Iterator[str]:
    """What a response tells of its end fits its status."""
    wanted = ENDED.get(value["status"], ())
    for name in ("completed_at", "usage", "incomplete_details", "error"):
        if (value[name] is not None) != (name in wanted):
            yield f"{place}.{name}: {json.dumps(value[name])[:80]} in a response that is {value['status']}"
    unfinished = [item for item in value["output"] if item.get("status") in ("in_progress", "incomplete")]
    if unfinished and value["status"] == "completed":
        yield f"{place}.output: an item is {unfinished[0]['status']} in a response that is completed"
    if any(item.get("status") == "incomplete" for item in value["output"][:-1]):
        yield f"{place}.output: only the last item may be incomplete"


# Events.

ITEM_EVENT: Final[dict[str, Rule]] = {"item_id": STR, "output_index": INT}

PART_EVENT: Final[dict[str, Rule]] = {**ITEM_EVENT, "content_index": INT}

SUMMARY_EVENT: Final[dict[str, Rule]] = {**ITEM_EVENT, "summary_index": INT}

LIFECYCLE: Final = ("created", "queued", "in_progress", "completed", "failed", "incomplete")

OPEN_EVENTS: Final[dict[str, Mapping[str, Rule]]] = {
    "response.content_part.added": {**PART_EVENT, "part": PART},
    "response.content_part.done": {**PART_EVENT, "part": PART},
    "response.output_text.delta": {**PART_EVENT, "delta": STR, "logprobs": each(LOGPROB)},
    "response.output_text.done": {**PART_EVENT, "text": STR, "logprobs": each(LOGPROB)},
    "response.output_text.annotation.added": {
        **PART_EVENT,
        "annotation_index": INT,
        "annotation": nullable(tagged({"url_citation": CITATION})),
    },
    "response.refusal.delta": {**PART_EVENT, "delta": STR},
    "response.refusal.done": {**PART_EVENT, "refusal": STR},
    "response.reasoning_summary_part.added": {**SUMMARY_EVENT, "part": PART},
    "response.reasoning_summary_part.done": {**SUMMARY_EVENT, "part": PART},
    "response.reasoning_summary_text.delta": {**SUMMARY_EVENT, "delta": STR},
    "response.reasoning_summary_text.done": {**SUMMARY_EVENT, "text": STR},
    "response.function_call_arguments.delta": {**ITEM_EVENT, "delta": STR},
    "response.function_call_arguments.done": {**ITEM_EVENT, "arguments": STR},
    "error": {"error": has({"type": STR, "code": nullable(STR), "message": STR, "param": nullable(STR)})},
}

FURTHER_EVENTS: Final[dict[str, Mapping[str, Rule]]] = {
    "response.reasoning_text.delta": {**PART_EVENT, "delta": STR},
    "response.reasoning_text.done": {**PART_EVENT, "text": STR},
    "response.custom_tool_call_input.delta": {**ITEM_EVENT, "delta": STR},
    "response.custom_tool_call_input.done": {**ITEM_EVENT, "input": STR},
    "response.web_search_call.in_progress": ITEM_EVENT,
    "response.web_search_call.searching": ITEM_EVENT,
    "response.web_search_call.completed": ITEM_EVENT,
}


@frozen
class Schema:
    """Rules for responses and for the events of streams."""

    response: Rule
    event: Rule

    @classmethod
    def create(
        cls, items: Mapping[str, Rule], tool: Rule, choice: Rule, events: Mapping[str, Mapping[str, Rule]]
    ) -> Schema:
        """Of these kinds."""
        item, response = tagged(items), response_rule(tagged(items), tool, choice)
        bodies = {
            **{f"response.{word}": {"response": response} for word in LIFECYCLE},
            **{f"response.output_item.{word}": {"output_index": INT, "item": item} for word in ("added", "done")},
            **events,
        }
        return cls(response, tagged({name: has({"sequence_number": INT, **body}) for name, body in bodies.items()}))

    def problems(self, value: Mapping[str, Any]) -> list[str]:
        """Of a response, or of one event."""
        whole = value.get("object") == "response"
        found = list((self.response if whole else self.event)(value, str(value.get("type", "response"))))
        response = value if whole else value.get("response")
        return found or (list(ended(response, "response")) if response is not None else [])


OPEN: Final = Schema.create(OPEN_ITEMS, tagged(OPEN_TOOLS), CHOICE, OPEN_EVENTS)

SERVED: Final = Schema.create(
    {**OPEN_ITEMS, **FURTHER_ITEMS},
    lambda tool, place: (
        OPEN_TOOLS["function"](tool, place) if tool.get("type") == "function" else has({"type": STR})(tool, place)
    ),
    any_of(CHOICE, has({"type": STR})),
    {**OPEN_EVENTS, **FURTHER_EVENTS},
)


def sse_events(pieces: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The events in *pieces* of a stream, which may be cut off."""
    for block in b"".join(pieces).split(b"\n\n")[:-1]:
        for line in block.split(b"\n"):
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))
