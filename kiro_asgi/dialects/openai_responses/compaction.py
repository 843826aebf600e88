"""Compaction: a summary in the place of a conversation, written by the model that the request names.

A request that ends with an item ``compaction_trigger`` asks for that: its prompt is followed by `INSTRUCTION`, and the
model's text becomes the one item of the answer, ``compaction``, which holds it sealed.  Such an item stands for all
items before it.  Of those the model still gets texts of the system, the user's last messages, and calls that wait for
their results.  It gets the summary as the assistant's text: quotes in it are to gain no weight.

Source: https://platform.openai.com/docs/guides/compaction
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve

from kiro_asgi.dialects.errors import invalid, missing
from kiro_asgi.dialects.references import refuse_references
from kiro_asgi.model.prompt import Prompt, Role, Sampling, Text, Thinking, ToolChoice, Turn
from kiro_asgi.wire.json import objects_of, text_of

TRIGGER: Final = "compaction_trigger"
"""Kind of the item that asks for a compaction."""

COMPACTIONS: Final = ("compaction", "compaction_summary", "context_compaction")
"""Kinds of items that hold one: today's, a former one, and one of Codex."""

INSTRUCTION: Final = (
    "This conversation is going to be continued by somebody who will see nothing of it but what you write now. "
    "Write down everything that is needed to go on without asking again:\n"
    "- what the user wants, in the user's own words where these matter, and every wish and limit that still holds;\n"
    "- what has been done, what was decided and why, and what was tried and did not work;\n"
    "- files, functions, commands, addresses, names and values that matter, exactly as they are spelt;\n"
    "- what the results of tools have shown, as far as it is still needed;\n"
    "- what is being done right now, and which step comes next.\n"
    "Use no tools, and do not answer the user. Write only this summary."
)

GO_ON: Final = "Go on from there."
"""The user's message behind a summary that nothing follows: services want the last message to be the user's."""

_USER_CHARACTERS: Final = 80_000
"""Characters of the user's messages that stay beside a summary: about 20,000 tokens, the latest first."""

_ROLES_KEPT: Final = ("system", "developer")

_SENT: Final = (
    "model",
    "input",
    "instructions",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "safety_identifier",
    "user",
)
"""Fields of a request to compact that count, if only to be refused; Codex sends more of them."""

_CALLS: Final = MappingProxyType(
    {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
)
"""Kind of call to that of its result."""


def compaction_request(value: Any) -> Any:
    """The request that is answered with a compaction, from the body of one to compact.

    Raises:
        RequestError: There is nothing to compact, or part of it is elsewhere.
    """
    if not isinstance(value, Mapping):
        return value
    refuse_references(value, ("previous_response_id",))
    request = {name: value[name] for name in _SENT if value.get(name) is not None}
    items = request.get("input", [])
    if items == [] and "previous_response_id" not in request:
        raise missing("input", "send input or previous_response_id")
    if isinstance(items, str):
        items = [{"type": "message", "role": "user", "content": items}]
    asked = [*items, {"type": TRIGGER}] if isinstance(items, list) else items
    return {**request, "input": asked, "store": False}


def halves(items: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Those of *items* to be compacted, and the user's messages at their end, which stay behind the compaction."""
    end = len(items)
    while end and items[end - 1].get("type", "message") == "message" and items[end - 1].get("role") == "user":
        end -= 1
    return list(items[:end]), list(items[end:])


def is_triggered(items: Any) -> bool:
    """Whether the last of a request's *items* asks for a compaction.

    Raises:
        RequestError: One that is not the last does.
    """
    places = [place for place, item in _objects(items) if item.get("type") == TRIGGER]
    for place in places:
        if place != len(items) - 1:
            raise invalid(f"input[{place}]", f"{TRIGGER} has to be the last item")
    return bool(places)


def untriggered(items: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """*items* without one that asks for a compaction."""
    return [item for item in items if item.get("type") != TRIGGER]


def compacting(prompt: Prompt, place: str) -> Prompt:
    """The prompt that asks for a summary of *prompt*, without anything that shapes an answer to the user.

    Where even that is too long for the model, its oldest turns are left out.
    """
    return evolve(
        prompt,
        turns=(*prompt.turns, Turn(Role.USER, (Text(INSTRUCTION),), place)),
        tools=(),
        tool_choice=ToolChoice(),
        thinking=Thinking(),
        sampling=Sampling(),
        schema=None,
        shortens=True,
    )


def summarising(summary: str) -> Text:
    """A summary as text for a model."""
    return Text(f"Summary of the conversation up to here:\n\n{summary}")


def _sealed(item: Mapping[str, Any]) -> str:
    """The sealed summary of a compaction item; empty where it has none."""
    return text_of(item, "encrypted_content")


def superseded(items: Any) -> frozenset[int]:
    """Places of a request's *items* that need not be read, because the newest compaction among them stands for them."""
    holders = [place for place, item in _objects(items) if item.get("type") in COMPACTIONS and _sealed(item)]
    if not holders:
        return frozenset()
    before = items[: holders[-1]]
    return frozenset(range(len(before))).difference(_kept(before), _open_calls(before))


def kept_messages(items: Sequence[Any]) -> list[Mapping[str, Any]]:
    """The user's messages among *items* that stay beside a compaction of them all."""
    return [items[place] for place in sorted(_kept(items)) if items[place].get("role") == "user"]


def _objects(items: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for place, item in enumerate(items if isinstance(items, list) else ()):
        if type(item) is dict or isinstance(item, Mapping):
            yield place, item


def _kept(items: Sequence[Any]) -> Iterator[int]:
    """Places of messages that stay beside a summary of *items*."""
    room = _USER_CHARACTERS
    for place in range(len(items) - 1, -1, -1):
        item = items[place]
        if not isinstance(item, Mapping) or item.get("type", "message") != "message":
            continue
        if item.get("role") in _ROLES_KEPT:
            yield place
        elif item.get("role") == "user" and room > 0:
            room -= _length(item.get("content"))
            if room >= 0:
                yield place


def _length(content: Any) -> int:
    """Characters of a message's texts."""
    if isinstance(content, str):
        return len(content)
    return sum(len(text_of(part, "text")) for part in objects_of(content))


def _open_calls(items: Sequence[Any]) -> Iterator[int]:
    """Places of calls among *items* that have no result there."""
    answered = {
        (item.get("type"), item["call_id"]) for _, item in _objects(items) if isinstance(item.get("call_id"), str)
    }
    for place, item in _objects(items):
        result = _CALLS.get(text_of(item, "type"))
        if result is not None and (result, item.get("call_id")) not in answered:
            yield place
