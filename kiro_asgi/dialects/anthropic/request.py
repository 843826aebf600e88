"""From the body of a Messages request to a prompt.

The API has one field that tells a session, ``metadata.user_id``, whose format is the client's own business.  Claude
Code writes ``user_…_account_…_session_<id>`` there, or a JSON object with a ``session_id``.  Anything else may name a
person, who may have several conversations at once, so it says nothing about sessions.

Source: https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from kiro_asgi.dialects.anthropic.content import parse_content
from kiro_asgi.dialects.anthropic.server_tools import answered_in_place
from kiro_asgi.dialects.anthropic.shapes import (
    CONVERTER,
    FIELD_REQUIRED,
    MessageBody,
    MessagesCountBody,
    MessagesRequestBody,
    MessagesTextBlock,
    read_mark,
)
from kiro_asgi.dialects.anthropic.tools import parse_tool_choice, parse_tools
from kiro_asgi.dialects.base import ParsedRequest
from kiro_asgi.dialects.errors import NO_MODEL
from kiro_asgi.dialects.structure import Raw, structure
from kiro_asgi.errors import RequestError
from kiro_asgi.model.prompt import (
    Part,
    Prompt,
    Role,
    Sampling,
    Text,
    Thinking,
    ThinkingMode,
    ToolResult,
    Turn,
    require_depths,
)
from kiro_asgi.stages.limits import check_stop
from kiro_asgi.wire.json import JsonError, loads

_MARK: Final = "_session_"
_ID: Final = re.compile(r"[\w-]*+")


def session_of(metadata: Mapping[str, Any]) -> str:
    """The id of the session; empty where there is none."""
    user = metadata.get("user_id")
    if type(user) is not str:
        return ""
    # Matched from the end: a search for a mark with an id behind it would try the rest of the text from every mark on.
    ending = _ID.match(user[::-1])
    assert ending is not None, "a pattern that matches nothing, too"
    session = user[len(user) - ending.end() :].partition(_MARK)[2]
    return session or (_member(user) if user.startswith("{") else "")


def _member(document: str) -> str:
    try:
        session = loads(document).get("session_id")
    except JsonError:
        return ""
    return session if type(session) is str else ""


@frozen
class AnthropicOptions:
    """Options of a request that only this API has."""

    warm_up: bool = False
    """``max_tokens: 0``: the prompt is only to be cached, and the answer has no content."""


ATTRIBUTION: Final = "x-anthropic-billing-header:"
"""How the line begins that Claude Code puts before its system text; it changes with every request and says nothing to
the model."""

EFFORTS: Final = frozenset({"low", "medium", "high", "xhigh", "max"})

MODES: Final = MappingProxyType(
    {
        "enabled": ThinkingMode.ENABLED,
        "adaptive": ThinkingMode.ADAPTIVE,
        "between_tools": ThinkingMode.ADAPTIVE,
        "disabled": ThinkingMode.DISABLED,
    }
)

_RANGES: Final = (("temperature", 0, 1), ("top_p", 0, 1), ("top_k", 0, None), ("max_tokens", 0, None))
"""Field, least and greatest value."""


def parse_messages(body: bytes) -> ParsedRequest:
    """Read the body of ``POST /v1/messages``.

    Raises:
        RequestError: Not a legal request; ``param`` names the place.
    """
    request = structure(body, MessagesRequestBody, converter=CONVERTER, missing=FIELD_REQUIRED)
    prompt = _prompt(request, _sampling(request))
    return ParsedRequest(prompt, bool(request.stream), AnthropicOptions(warm_up=request.max_tokens == 0))


def parse_count(body: bytes) -> Prompt:
    """Read the body of ``POST /v1/messages/count_tokens``: the same without ``max_tokens`` and sampling.

    Raises:
        RequestError: Not a legal request; ``param`` names the place.
    """
    return _prompt(structure(body, MessagesCountBody, converter=CONVERTER, missing=FIELD_REQUIRED), Sampling())


def _prompt(request: MessagesCountBody, sampling: Sampling) -> Prompt:
    if not request.model:
        raise RequestError(f"model: {NO_MODEL}", param="model")
    choice = parse_tool_choice(request.tool_choice)
    turns = tuple(_turns(request.messages))
    if not turns:
        raise RequestError("messages: at least one message is required", param="messages")
    system = tuple(_system(request.system))
    prompt = Prompt(
        request.model,
        turns,
        system=tuple(text for text, _ in system),
        system_marks={index: mark for index, (_, mark) in enumerate(system) if mark},
        cache=read_mark(request.cache_control),
        tools=parse_tools(request.tools or (), choice),
        tool_choice=choice,
        thinking=_thinking(request),
        sampling=sampling,
        metadata=request.metadata or {},
        session=session_of(request.metadata or {}),
        schema=_schema(request),
    )
    require_depths(prompt)
    return prompt


def _turns(messages: tuple[MessageBody | Raw, ...]) -> Iterator[Turn]:
    """One turn a message; other roles are passed over, and so are messages of which nothing is left.

    System text in mid-conversation joins the user's turn that comes after it, behind the results of tools, for those
    must follow their calls; at the end it is a turn of its own.
    """
    asides: list[Part] = []
    for index, message in enumerate(messages):
        if isinstance(message, Raw):
            continue
        place = f"messages[{index}]"
        parts = tuple(parse_content(message.content, f"{place}.content"))
        if message.role == "system":
            asides += [part for part in parts if isinstance(part, Text)]
        elif message.role == "user" and (parts or asides):
            yield Turn(Role.USER, _insert(asides, parts), place)
            asides = []
        elif parts and message.role == "assistant":
            yield Turn(Role.ASSISTANT, answered_in_place(parts), place)
    if asides:
        yield Turn(Role.USER, tuple(asides), place)


def _insert(asides: list[Part], parts: tuple[Part, ...]) -> tuple[Part, ...]:
    if not asides:
        return parts
    results = 1 + max((index for index, part in enumerate(parts) if isinstance(part, ToolResult)), default=-1)
    return *parts[:results], *asides, *parts[results:]


def _system(system: Any) -> Iterator[tuple[str, str]]:
    """Its texts in order, without the attribution line, each with its mark for the cache."""
    blocks = (MessagesTextBlock(system),) if isinstance(system, str) else system or ()
    texts = [(each.text, read_mark(each.cache_control)) for each in blocks if isinstance(each, MessagesTextBlock)]
    if texts and texts[0][0].startswith(ATTRIBUTION):
        texts[0] = texts[0][0].partition("\n")[2], texts[0][1]
    return (each for each in texts if each[0])


def _thinking(request: MessagesCountBody) -> Thinking:
    effort = request.output_config and request.output_config.effort
    effort = effort if effort in EFFORTS else ""
    if request.thinking is None:
        return Thinking(effort=effort or "")
    budget = request.thinking.budget_tokens
    if budget is not None and budget < 1:
        raise RequestError("thinking.budget_tokens: must be positive", param="thinking.budget_tokens")
    mode = MODES.get(request.thinking.type, ThinkingMode.DEFAULT)
    return Thinking(
        mode, budget if mode is ThinkingMode.ENABLED else None, effort or "", request.thinking.display == "omitted"
    )


def _schema(request: MessagesCountBody) -> Any:
    """The schema of the answer; ``output_format`` is what ``output_config.format`` was called before."""
    place, output = "output_format", request.output_format
    if request.output_config is not None and request.output_config.format is not None:
        place, output = "output_config.format", request.output_config.format
    if output is None:
        return None
    if output.type != "json_schema":
        raise RequestError(f"{place}: only json_schema is supported", param=f"{place}.type")
    if output.schema is None:
        raise RequestError(f"{place}.schema: {FIELD_REQUIRED}", param=f"{place}.schema")
    return output.schema


def _sampling(request: MessagesRequestBody) -> Sampling:
    for name, least, greatest in _RANGES:
        value = getattr(request, name)
        if value is not None and (value < least or (greatest is not None and value > greatest)):
            wanted = f"between {least} and {greatest}" if greatest is not None else f"{least} or more"
            raise RequestError(f"{name}: must be {wanted}", param=name)
    stop = request.stop_sequences or ()
    if "" in stop:
        raise RequestError("stop_sequences: must not be empty strings", param=f"stop_sequences[{stop.index('')}]")
    check_stop(stop, "stop_sequences")
    return Sampling(request.max_tokens, request.temperature, request.top_p, request.top_k, stop)
