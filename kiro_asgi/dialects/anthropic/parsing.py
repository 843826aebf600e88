"""From the body of a Messages request to a prompt.

Tools that run on Anthropic's servers are taken with their kind, see `kiro_asgi.dialects.tools`; a search among deferred
tools is one of them.  What is not read is kept beside what is, for services of the same API.

Sources: https://docs.anthropic.com/en/api/messages,
https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/overview
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeVar

from attrs import evolve, frozen

from kiro_asgi.dialects.anthropic.arguments import integer, integers, number, object_schema, string, words
from kiro_asgi.dialects.anthropic.content import is_summary, read_blocks, read_mark, read_text, rest_of_mark
from kiro_asgi.dialects.anthropic.server_tools import answered_in_place
from kiro_asgi.dialects.anthropic.shapes import (
    API,
    BESIDE,
    CONVERTER,
    FIELD_REQUIRED,
    CompactionBlock,
    MessageBody,
    MessagesCountBody,
    MessagesRequestBody,
    MessagesTextBlock,
    MessagesTool,
    OutputFormat,
    SystemBody,
    ThinkingBody,
    ToolChoiceBody,
)
from kiro_asgi.dialects.anthropic.toolsets import named_apart, toolset_of
from kiro_asgi.dialects.base import ParsedRequest
from kiro_asgi.dialects.errors import NO_MODEL
from kiro_asgi.dialects.known import ArrayDecoder, Read, Recalled, read_tools, read_turn, recalling
from kiro_asgi.dialects.references import HELD, referred, refuse_references
from kiro_asgi.dialects.structure import Raw, members_of, read_json, structure_value
from kiro_asgi.dialects.tools import SEARCH_TOOL, hosted_tool
from kiro_asgi.errors import RequestError
from kiro_asgi.model.depth import require_depths
from kiro_asgi.model.handling import Handling, Tier
from kiro_asgi.model.notes import UNHEARD, Notes
from kiro_asgi.model.own_lines import own_line, without_own_line
from kiro_asgi.model.prompt import (
    Demand,
    Opaque,
    Part,
    Prompt,
    Role,
    Sampling,
    Text,
    Thinking,
    ThinkingMode,
    Tool,
    ToolChoice,
    ToolChoiceMode,
    ToolResult,
    Turn,
)
from kiro_asgi.model.unread import Unread
from kiro_asgi.stages.limits import check_stop
from kiro_asgi.wire.json import Decoder, JsonError, loads, object_of, text_of

B = TypeVar("B", bound=MessagesCountBody)

# Tools: who runs which of them, and the client's demands on their use.


_BASH: Final = Tool(
    "bash",
    "Run a command in a persistent bash session and return its output.",
    object_schema(
        (),
        command=string("The command to run; required unless restart is true."),
        restart={"type": "boolean", "description": "Restart the session instead of running a command."},
    ),
)

_EDITOR: Final = Tool(
    "str_replace_based_edit_tool",
    "View, create and edit text files.",
    object_schema(
        ("command", "path"),
        command=words("view", "create", "str_replace", "insert", "undo_edit"),
        path=string("Path of the file or directory."),
        view_range=integers("view: first and last line, from 1; -1 is the end."),
        file_text=string("create: content of the file."),
        old_str=string("str_replace: text to replace, which must occur exactly once."),
        new_str=string("str_replace and insert: text to put in."),
        insert_line=integer("insert: line after which to put the text."),
        insert_text=string("insert: text to put in."),
    ),
)

_MEMORY: Final = Tool(
    "memory",
    "Keep notes in files under /memories between conversations.",
    object_schema(
        ("command",),
        command=words("view", "create", "str_replace", "insert", "delete", "rename"),
        path=string("Path under /memories."),
        view_range=integers("view: first and last line, from 1."),
        file_text=string("create: content of the file."),
        old_str=string("str_replace: text to replace."),
        new_str=string("str_replace: text to put in."),
        insert_line=integer("insert: line after which to put the text."),
        insert_text=string("insert: text to put in."),
        old_path=string("rename: path now."),
        new_path=string("rename: path afterwards."),
    ),
)

_COMPUTER: Final = Tool(
    "computer",
    "Use a computer through its screen, mouse and keyboard.",
    object_schema(
        ("action",),
        action=words(
            "key", "type", "mouse_move", "left_click", "left_click_drag", "right_click", "middle_click", "double_click",
            "triple_click", "left_mouse_down", "left_mouse_up", "scroll", "hold_key", "wait", "screenshot",
            "cursor_position", "zoom",
        ),
        coordinate=integers("Where, in pixels from the top left: x, y."),
        start_coordinate=integers("left_click_drag: where to start, x, y."),
        region=integers("zoom: left, top, right, bottom.", 4),
        text=string("Text to type, or keys to press."),
        scroll_direction=words("up", "down", "left", "right"),
        scroll_amount=integer("scroll: how many clicks of the wheel."),
        duration=number("hold_key and wait: seconds."),
    ),
)  # fmt: skip

CLIENT_TOOLS: Final = (("bash_", _BASH), ("text_editor_", _EDITOR), ("memory_", _MEMORY), ("computer_2", _COMPUTER))
"""Beginning of a tool's type to the function that stands for it; the rest of the type is a date."""

_FETCH: Final = Tool(
    "web_fetch",
    "Read the page at an address on the web.",
    object_schema(("url",), url=string("Address of the page.")),
    hosted="web_fetch",
)

_CODE: Final = Tool(
    "code_execution",
    "Run Python code in a sandbox and return its output.",
    object_schema(("code",), code=string("The code to run.")),
    hosted="code_execution",
)

HOSTED_TOOLS: Final = (("web_search_", SEARCH_TOOL), ("web_fetch_", _FETCH), ("code_execution_", _CODE))
"""The same for tools that run on a server."""

_TOOL_SEARCH: Final = "tool_search_tool_"

CHOICES: Final = MappingProxyType(
    {
        "auto": ToolChoiceMode.AUTO,
        "any": ToolChoiceMode.REQUIRED,
        "tool": ToolChoiceMode.NAMED,
        "none": ToolChoiceMode.NONE,
    }
)


def _parse_tools(
    bodies: tuple[MessagesTool, ...], choice: ToolChoice, before: Sequence[Tool], notes: Notes
) -> tuple[Tool, ...]:
    """The tools in order, with those *before* them, which are known.

    Raises:
        RequestError: A tool without a name, or a choice that names none of the tools: an entry of a toolset has no
            name, and those of its members are not among the tools' names.
    """
    tools = (*before, *(_parse_tool(index, body, notes) for index, body in enumerate(bodies, len(before))))
    named = (tool.name for tool in tools if toolset_of(tool.hosted) is None)
    if choice.mode is ToolChoiceMode.NAMED and choice.name not in named:
        raise RequestError(f'tool_choice.name: no tool "{choice.name[:60]}" among tools', param="tool_choice.name")
    if choice.mode is ToolChoiceMode.REQUIRED and not tools:
        raise RequestError("tool_choice: a tool is demanded but there are no tools", param="tool_choice")
    return tools


def _known_tool(kind: str) -> Tool | None:
    """The function that stands for tools of this type; ``None`` where none does."""
    return next((tool for start, tool in (*CLIENT_TOOLS, *HOSTED_TOOLS) if kind.startswith(start)), None)


def _parse_tool(index: int, body: MessagesTool, notes: Notes) -> Tool:
    kind, place = body.type or "custom", f"tools[{index}]"
    known, toolset = _known_tool(kind), toolset_of(kind)
    if body.configs and toolset is None:
        notes.applies("fields.ignored", f"{place}.configs", kept_for=API)
    if kind == "custom" or (body.input_schema is not None and known is None):
        if not body.name:
            raise RequestError(f"{place}.name: {FIELD_REQUIRED}", param=f"{place}.name")
        mark, rest = read_mark(body.cache_control), rest_of_mark(body.cache_control)
        return Tool(
            body.name,
            body.description or "",
            body.input_schema or {},
            strict=body.strict is True,
            place=place,
            cache=mark,
            unread=BESIDE(body, cache_control=rest),
        )
    opaque = Opaque(API, body.given, place)
    if toolset is not None:
        members = toolset.offered(body.configs, place, read_mark(body.cache_control), notes)
        return evolve(hosted_tool(kind, place, kind), opaque=opaque, instead=members)
    if known is None:
        if kind.startswith(_TOOL_SEARCH):
            kind = "tool_search"
        return evolve(hosted_tool(kind, place, body.name or kind), opaque=opaque)
    for name in ("description", "input_schema"):
        if getattr(body, name) is not None:
            notes.applies("fields.ignored", f"{place}.{name}")
    return evolve(
        known,
        name=body.name or known.name,
        description=known.description + _screen(body),
        strict=body.strict is True,
        options=_options(body, place) if known.hosted else {},
        place=place,
        cache=read_mark(body.cache_control),
        opaque=opaque,
    )


def _options(body: MessagesTool, place: str) -> dict[str, Any]:
    """The client's options for a hosted tool."""
    if body.max_uses is not None and body.max_uses < 1:
        raise RequestError(f"{place}.max_uses: must be positive", param=f"{place}.max_uses")
    if body.allowed_domains and body.blocked_domains:
        message = "cannot be used together with allowed_domains"
        raise RequestError(f"{place}.blocked_domains: {message}", param=f"{place}.blocked_domains")
    given = {name: getattr(body, name) for name in ("max_uses", "allowed_domains", "blocked_domains")}
    return {name: value for name, value in given.items() if value}


def _screen(body: MessagesTool) -> str:
    if body.display_width_px is None or body.display_height_px is None:
        return ""
    return f" The screen is {body.display_width_px} by {body.display_height_px} pixels."


def _parse_tool_choice(value: Mapping[str, Any] | None, notes: Notes) -> ToolChoice:
    """Read the client's choice; an unknown kind demands nothing and is kept raw.

    Raises:
        RequestError: Malformed, or a tool is demanded but not named.
    """
    if value is None:
        return ToolChoice()
    body = structure_value(value, ToolChoiceBody, missing=FIELD_REQUIRED, at="tool_choice")
    BESIDE.note_word(notes, body.type, CHOICES, "tool_choice.type")
    mode = CHOICES.get(body.type, ToolChoiceMode.AUTO)
    if mode is ToolChoiceMode.NAMED and not body.name:
        raise RequestError(f"tool_choice.name: {FIELD_REQUIRED}", param="tool_choice.name")
    name = body.name if mode is ToolChoiceMode.NAMED else None
    return ToolChoice(mode, name or "", parallel=not body.disable_parallel_tool_use, raw=value)


# The request.


_MARK: Final = "_session_"
_ID: Final = re.compile(r"[\w-]*+")


def session_of(metadata: Mapping[str, Any]) -> str:
    """The id of the session; empty where there is none.

    The API has one field for it, ``user_id``, whose format is the client's own business.  Claude Code writes
    ``user_…_account_…_session_<id>`` there, or a JSON object with a ``session_id``.  Anything else may name a person,
    who may have several conversations at once, so it says nothing about sessions.
    """
    user = metadata.get("user_id")
    if type(user) is not str:
        return ""
    # Matched from the end: a search for a mark with an id behind it would try the rest of the text from every mark on.
    ending = _ID.match(user[::-1])
    assert ending is not None, "a pattern that matches nothing, too"
    session = user[len(user) - ending.end() :].partition(_MARK)[2]
    return session or (_member(user, "session_id") if user.startswith("{") else "")


def _member(document: str, *names: str) -> str:
    """The first of the members *names* that is a text."""
    try:
        members = object_of(loads(document))
    except JsonError:
        return ""
    return next(filter(None, (text_of(members, name) for name in names)), "")


def _user(metadata: Mapping[str, Any]) -> str:
    """The id of the user without that of the session, which is another one in each conversation."""
    user = metadata.get("user_id")
    if type(user) is not str or not user:
        return ""
    session = session_of(metadata)
    if not session:
        return user
    if user.startswith("{"):
        return _member(user, "account_uuid", "device_id", "user_id")
    return user.removesuffix(session).removesuffix(_MARK)


TIERS: Final = MappingProxyType({"auto": Tier.AUTO, "standard_only": Tier.STANDARD})

_LASTING: Final = "1h"
"""The mark for the prompt's cache that is more than the usual one."""


def _handling(request: MessagesCountBody, metadata: Mapping[str, Any], marks: Iterable[str], notes: Notes) -> Handling:
    tier = request.unread.get("service_tier")
    BESIDE.note_word(notes, tier, TIERS, "service_tier")
    BESIDE.note_others(notes, metadata, ("user_id",), "metadata")
    return Handling(
        TIERS.get(tier) if isinstance(tier, str) else None,
        user=_user(metadata),
        retention=_LASTING if _LASTING in marks else "",
        places={"tier": "service_tier", "user": "metadata.user_id", "retention": "cache_control"},
    )


EFFORTS: Final = frozenset({"low", "medium", "high", "xhigh", "max"})

MODES: Final = MappingProxyType(
    {
        "enabled": ThinkingMode.ENABLED,
        "adaptive": ThinkingMode.ADAPTIVE,
        "between_tools": ThinkingMode.ADAPTIVE,
        "disabled": ThinkingMode.DISABLED,
    }
)

DISPLAYS: Final = ("omitted", "summarized")
"""How thinking may be shown; new ways are the service's own."""

_PLAIN_MODES: Final = frozenset({"enabled", "adaptive", "disabled"})
"""Those that every model of the service has."""

_RANGES: Final = (("temperature", 0, 1), ("top_p", 0, 1), ("top_k", 0, None), ("max_tokens", 0, None))
"""Field, least and greatest value."""


def parse_messages(body: bytes, notes: Notes = UNHEARD) -> ParsedRequest:
    """Read the body of ``POST /v1/messages``.

    Raises:
        RequestError: Not a legal request; ``param`` names the place.
    """
    request = _read(body, MessagesRequestBody, notes=notes)
    return _parsed(_prompt(request, _sampling(request), notes=notes), request)


def parse_recalled(body: bytes, recalled: Recalled) -> ParsedRequest:
    """The same, where earlier requests are known.

    Raises:
        RequestError: Not a legal request; ``param`` names the place.
    """
    decoder = ArrayDecoder(("tools", "messages"), recalled)
    return recalling(decoder, partial(_recalled, body, decoder)) or parse_messages(body)


def _recalled(body: bytes, decoder: ArrayDecoder) -> tuple[ParsedRequest, Mapping[str, Iterable[Read]]]:
    request = _read(body, MessagesRequestBody, decoder)
    before = _Before(decoder.known("messages"), decoder.known("tools"))
    if before.turns and any(map(_holds_summary, request.messages)):  # it stands for what is known
        decoder.parts.clear()
        return parse_messages(body), {}
    prompt = _prompt(request, _sampling(request), before)
    tools = (read_tools(tool, (tool,)) for tool in prompt.tools[len(before.tools) :])
    return _parsed(prompt, request), {"tools": tools, "messages": _lasting(prompt, request, before)}


def _parsed(prompt: Prompt, request: MessagesRequestBody) -> ParsedRequest:
    prompt, options = named_apart(prompt)
    return ParsedRequest(prompt, bool(request.stream), options)


@frozen
class _Before:
    """What was read of earlier requests, and begins this one, too."""

    turns: Sequence[Turn | None] = ()
    """One for each message; ``None`` where nothing is left of it."""

    tools: Sequence[Tool] = ()


_NOTHING: Final = _Before()


def _lasting(prompt: Prompt, request: MessagesCountBody, before: _Before) -> Iterator[Read]:
    """What the messages that are not known became, up to the first that does not stand for itself alone."""
    if any(map(_holds_summary, request.messages)):  # of what it stands for there are no turns
        return
    turns = {turn.place: turn for turn in prompt.turns[sum(map(bool, before.turns)) :]}
    for index, message in enumerate(request.messages, len(before.turns)):
        turn = turns.get(f"messages[{index}]")
        read = None if isinstance(message, Raw) or message.role == "system" else read_turn(turn, turn)
        if read is None:
            return
        yield read


def _holds_summary(message: MessageBody | Raw) -> bool:
    blocks = message.content if isinstance(message, MessageBody) and isinstance(message.content, tuple) else ()
    return any(type(block) is CompactionBlock for block in blocks)


def parse_count(body: bytes) -> Prompt:
    """Read the body of ``POST /v1/messages/count_tokens``: the same without ``max_tokens`` and sampling.

    Raises:
        RequestError: Not a legal request; ``param`` names the place.
    """
    return named_apart(_prompt(_read(body, MessagesCountBody), Sampling()))[0]


def _read(body: bytes, cls: type[B], decoder: Decoder | None = None, notes: Notes = UNHEARD) -> B:
    value = read_json(body, decoder=decoder)
    # First: a thread's later requests may lack anything, and what they lack must not be what the error is about.
    refuse_references(value, HELD)
    request = structure_value(value, cls, converter=CONVERTER, missing=FIELD_REQUIRED)
    BESIDE.note(notes, request, value)
    return request


def _prompt(
    request: MessagesCountBody, sampling: Sampling, before: _Before = _NOTHING, notes: Notes = UNHEARD
) -> Prompt:
    if not request.model:
        raise RequestError(f"model: {NO_MODEL}", param="model")
    choice = _parse_tool_choice(request.tool_choice, notes)
    turns = (*filter(None, before.turns), *_turns(request.messages, len(before.turns), notes))
    if not turns:
        raise RequestError("messages: at least one message is required", param="messages")
    system = tuple(_system(request.system, notes))
    tools = _parse_tools(request.tools or (), choice, before.tools, notes)
    marks = {part.cache for turn in turns for part in turn.parts}
    marks |= {tool.cache for tool in tools}
    marks |= {read_mark(request.cache_control), *(mark for _, mark, _ in system)}
    prompt = Prompt(
        request.model,
        turns,
        system=tuple(text for text, _, _ in system),
        attribution=_attribution(request.system),
        system_marks={index: mark for index, (_, mark, _) in enumerate(system) if mark},
        cache=read_mark(request.cache_control),
        tools=tools,
        tool_choice=choice,
        thinking=_thinking(request, notes),
        sampling=sampling,
        metadata=request.metadata or {},
        handling=_handling(request, request.metadata or {}, marks, notes),
        session=session_of(request.metadata or {}),
        schema=_schema(request),
        demands=(*referred(request.unread, API), *_demands(request)),
        unread=BESIDE(request, **_in_part(request, notes)),
        system_unread={index: more for index, (_, _, more) in enumerate(system) if more is not None},
    )
    require_depths(prompt, (*before.turns, *before.tools))
    return prompt


def _in_part(request: MessagesCountBody, notes: Notes) -> Mapping[str, Any]:
    """Members that were read in part, or mean something else here, as a service of the API needs them."""
    choice, thinking, output = request.tool_choice or {}, request.thinking, request.output_config
    more: dict[str, Any] = {
        "metadata": request.metadata,
        "cache_control": rest_of_mark(request.cache_control),
        "tool_choice": choice if choice.get("type") not in CHOICES else _without(choice, ToolChoiceBody),
    }
    if thinking is not None and thinking.type not in _PLAIN_MODES:
        more["thinking"] = {**thinking.unread, **_sent(thinking)}
    elif thinking is not None and thinking.display not in (None, *DISPLAYS):
        more["thinking"] = {**thinking.unread, "display": thinking.display}
    if output is not None and output.effort is not None and output.effort not in EFFORTS:
        notes.applies("values.unknown", "output_config.effort", kept_for=API)
        more["output_config"] = {**output.unread, "effort": output.effort}
    return {name: value for name, value in more.items() if value}


def _without(value: Mapping[str, Any], cls: type) -> dict[str, Any]:
    return {name: it for name, it in value.items() if name not in members_of(cls)}


def _sent(thinking: ThinkingBody) -> dict[str, Any]:
    members = {name: getattr(thinking, name) for name in members_of(ThinkingBody)}
    return {name: value for name, value in members.items() if value is not None}


def _turns(messages: tuple[MessageBody | Raw, ...], before: int, notes: Notes) -> Iterator[Turn]:
    """One turn a message, *before* which there are so many that are known.

    Other roles are passed over, and so are messages of which nothing is left.
    System text in mid-conversation joins the user's turn that comes after it, behind the results of tools, for those
    must follow their calls; at the end it is a turn of its own.  What the newest compaction stands for is left out, as
    the API leaves it out.
    """
    asides: list[Part] = []
    first, start = newest_summary(messages)
    superseded = (*(f"[{index}]" for index in range(first)), *(f"[{first}].content[{at}]" for at in range(start)))
    for place in superseded:
        notes.applies("turns.compacted", f"messages{place}")
    for index, message in enumerate(messages[first:], first):
        place = f"messages[{before + index}]"
        if isinstance(message, Raw):
            notes.applies("turns.unknown", place)
            continue
        blocks = read_blocks(message.content, f"{place}.content", notes, start if index == first else 0)
        if type(message) is SystemBody:
            asides += _texts_alone(blocks, notes)
            continue
        parts = tuple(part for _, part in blocks)
        if message.role == "user" and (parts or asides):
            yield Turn(Role.USER, _insert(asides, parts), place, unread=BESIDE(message))
            asides = []
        elif parts and message.role == "assistant":
            yield Turn(Role.ASSISTANT, answered_in_place(parts), place, unread=BESIDE(message))
    if asides:
        yield Turn(Role.USER, tuple(asides), place)


def _texts_alone(blocks: Iterable[tuple[str, Part]], notes: Notes) -> Iterator[Text]:
    """What system text in mid-conversation can hold of *blocks*."""
    for place, part in blocks:
        if isinstance(part, Text):
            yield part
        else:
            notes.applies("blocks.unreadable", place)


def newest_summary(messages: Sequence[MessageBody | Raw]) -> tuple[int, int]:
    """Places of the message and of the block in it with which the conversation begins: the newest compaction's.

    Source: https://platform.claude.com/docs/en/build-with-claude/compaction
    """
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        blocks = message.content if isinstance(message, MessageBody) and isinstance(message.content, tuple) else ()
        if found := [at for at, block in enumerate(blocks) if type(block) is CompactionBlock and is_summary(block)]:
            return index, found[-1]
    return 0, 0


def _insert(asides: list[Part], parts: tuple[Part, ...]) -> tuple[Part, ...]:
    if not asides:
        return parts
    results = 1 + max((index for index, part in enumerate(parts) if isinstance(part, ToolResult)), default=-1)
    return *parts[:results], *asides, *parts[results:]


def _system(system: Any, notes: Notes) -> Iterator[tuple[str, str, Unread | None]]:
    """Its texts in order, without the attribution line, each with its mark for the cache, and what was not read."""
    texts = [(each.text, each.cache, each.unread) for each in _texts(system, notes)]
    if texts and own_line(texts[0][0]):
        notes.applies("system.attribution", "system" if isinstance(system, str) else "system[0].text", kept_for=API)
        texts[0] = without_own_line(texts[0][0]), *texts[0][1:]
    return (each for each in texts if each[0])


def _attribution(system: Any) -> Text | None:
    """The attribution line; members of its block are of the text behind it, if there is any."""
    first = next(_texts(system, UNHEARD), None)
    if first is None or not (line := own_line(first.text)):
        return None
    return Text(line, unread=None if without_own_line(first.text) else first.unread)


def _texts(system: str | tuple[MessagesTextBlock | Raw, ...] | None, notes: Notes) -> Iterator[Text]:
    if isinstance(system, str):
        yield Text(system)
        return
    for index, block in enumerate(system or ()):
        if isinstance(block, Raw):
            notes.applies("blocks.unreadable", f"system[{index}]")
        else:
            yield read_text(block, f"system[{index}]", notes)


def _thinking(request: MessagesCountBody, notes: Notes) -> Thinking:
    effort = request.output_config and request.output_config.effort
    effort = effort if effort in EFFORTS else ""
    if request.thinking is None:
        return Thinking(effort=effort or "")
    budget = request.thinking.budget_tokens
    if budget is not None and budget < 1:
        raise RequestError("thinking.budget_tokens: must be positive", param="thinking.budget_tokens")
    kind = request.thinking.type
    BESIDE.note_word(notes, kind, MODES, "thinking.type")
    BESIDE.note_word(notes, request.thinking.display, DISPLAYS, "thinking.display")
    if budget is not None and kind != "enabled":
        notes.applies("fields.ignored", "thinking.budget_tokens", kept_for="" if kind in _PLAIN_MODES else API)
    mode = MODES.get(kind, ThinkingMode.DEFAULT)
    return Thinking(
        mode, budget if mode is ThinkingMode.ENABLED else None, effort or "", request.thinking.display == "omitted"
    )


def _demands(request: MessagesCountBody) -> Iterator[Demand]:
    """A form of the answer that only services of the API may have."""
    place, output = _format(request)
    if output is not None and output.type != _FORM:
        refusal = RequestError(f"{place}: only {_FORM} is supported", param=f"{place}.type")
        given = {**output.unread, "type": output.type, **({} if output.schema is None else {"schema": output.schema})}
        yield Demand(API, {"output_config": {"format": given}}, refusal)


_FORM: Final = "json_schema"


def _format(request: MessagesCountBody) -> tuple[str, OutputFormat | None]:
    """The form of the answer, and its place; ``output_format`` is the former name of ``output_config.format``."""
    if request.output_config is not None and request.output_config.format is not None:
        return "output_config.format", request.output_config.format
    return "output_format", request.output_format


def _schema(request: MessagesCountBody) -> Any:
    """The schema of the answer."""
    place, output = _format(request)
    if output is None or output.type != _FORM:
        return None
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
