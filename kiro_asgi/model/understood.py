"""A prompt as a service of one API understands it: what only another API has is left out, or stands for itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

from attrs import evolve

from kiro_asgi.errors import RequestError
from kiro_asgi.model.prompt import Opaque, Part, Prompt, Tool, ToolCallPart, ToolResult


def understood(prompt: Prompt, api: str) -> Prompt:
    """*prompt* as a service of this *api* understands it: without opaque parts, and tools as others have them.

    Args:
        prompt: The request.
        api: The client API that the service speaks; empty for none.

    Raises:
        RequestError: A part, or what is demanded, cannot be left out, and nothing stands for it.
    """
    for demand in prompt.demands:
        if demand.api != api:
            raise demand.refusal
    if any(tool.opaque is not None and tool.opaque.api != api for tool in prompt.tools):
        prompt = evolve(prompt, tools=tuple(chain.from_iterable(_tools(tool, api) for tool in prompt.tools)))
    if not any(_is_foreign(part, api) for turn in prompt.turns for part in turn.parts):
        return prompt
    turns = (evolve(turn, parts=tuple(understood_parts(turn.parts, api))) for turn in prompt.turns)
    kept = tuple(turn for turn in turns if turn.parts)
    if not kept:
        raise _nothing_to_read(prompt)
    return evolve(prompt, turns=kept)


def _tools(tool: Tool, api: str) -> tuple[Tool, ...]:
    if tool.opaque is None or tool.opaque.api == api:
        return (tool,)
    return tool.instead or (evolve(tool, opaque=None),)


_KIND: Final = 60
"""Characters of a word that a message shows."""


def _nothing_to_read(prompt: Prompt) -> RequestError:
    first = next((part for part in prompt.turns[0].parts if isinstance(part, Opaque)), None)
    place = prompt.turns[0].place if first is None else first.place
    kind = "part" if first is None else str(first.value.get("type", "part"))[:_KIND]
    message = (
        f"{place}: the service behind this model can read nothing of this, and this {kind} is the first of it; "
        "send a message, or what is in it"
    )
    return RequestError(message, code="invalid_value", param=place)


def _is_foreign(part: Part, api: str) -> bool:
    if type(part) is ToolResult:
        return any(type(each) is Opaque and each.api != api for each in part.parts)
    if type(part) is ToolCallPart:
        return bool(part.instead) and (part.unread is None or part.unread.api != api)
    return type(part) is Opaque and part.api != api


def understood_parts(parts: Iterable[Any], api: str) -> Iterator[Any]:
    """*parts* of a turn, or of a result, as of `understood`."""
    for part in parts:
        if type(part) is ToolResult:
            yield evolve(part, parts=tuple(understood_parts(part.parts, api))) if _is_foreign(part, api) else part
        elif type(part) is ToolCallPart:
            yield evolve(part, name=part.instead, instead="") if _is_foreign(part, api) else part
        elif type(part) is not Opaque or part.api == api:
            yield part
        elif part.refusal is not None:
            raise part.refusal
        else:
            yield from understood_parts(part.instead, api)
