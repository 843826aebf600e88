"""Tools of a request: who runs which of them, and what the client demands of them.

Tools that run on Anthropic's servers are taken with their kind, see `kiro_asgi.dialects.tools`.  A search among
deferred tools is left out, and nothing is lost by that: all tools are offered at once.

Source: https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/overview
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve

from kiro_asgi.dialects.anthropic.shapes import FIELD_REQUIRED, MessagesTool, ToolChoiceBody, read_mark
from kiro_asgi.dialects.structure import structure_value
from kiro_asgi.dialects.tools import SEARCH_TOOL, hosted_tool
from kiro_asgi.errors import RequestError
from kiro_asgi.model.prompt import Tool, ToolChoice, ToolChoiceMode


def _schema(required: Iterable[str], **properties: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"type": "object", "properties": properties, "required": [*required]}


def _string(description: str) -> Mapping[str, Any]:
    return {"type": "string", "description": description}


def _words(*words: str) -> Mapping[str, Any]:
    return {"type": "string", "enum": [*words]}


def _integers(description: str, count: int = 2) -> Mapping[str, Any]:
    return {
        "type": "array",
        "items": {"type": "integer"},
        "minItems": count,
        "maxItems": count,
        "description": description,
    }


_BASH: Final = Tool(
    "bash",
    "Run a command in a persistent bash session and return its output.",
    _schema(
        (),
        command=_string("The command to run; required unless restart is true."),
        restart={"type": "boolean", "description": "Restart the session instead of running a command."},
    ),
)

_EDITOR: Final = Tool(
    "str_replace_based_edit_tool",
    "View, create and edit text files.",
    _schema(
        ("command", "path"),
        command=_words("view", "create", "str_replace", "insert", "undo_edit"),
        path=_string("Path of the file or directory."),
        view_range=_integers("view: first and last line, from 1; -1 is the end."),
        file_text=_string("create: content of the file."),
        old_str=_string("str_replace: text to replace, which must occur exactly once."),
        new_str=_string("str_replace and insert: text to put in."),
        insert_line={"type": "integer", "description": "insert: line after which to put the text."},
        insert_text=_string("insert: text to put in."),
    ),
)

_MEMORY: Final = Tool(
    "memory",
    "Keep notes in files under /memories between conversations.",
    _schema(
        ("command",),
        command=_words("view", "create", "str_replace", "insert", "delete", "rename"),
        path=_string("Path under /memories."),
        view_range=_integers("view: first and last line, from 1."),
        file_text=_string("create: content of the file."),
        old_str=_string("str_replace: text to replace."),
        new_str=_string("str_replace: text to put in."),
        insert_line={"type": "integer", "description": "insert: line after which to put the text."},
        insert_text=_string("insert: text to put in."),
        old_path=_string("rename: path now."),
        new_path=_string("rename: path afterwards."),
    ),
)

_COMPUTER: Final = Tool(
    "computer",
    "Use a computer through its screen, mouse and keyboard.",
    _schema(
        ("action",),
        action=_words(
            "key", "type", "mouse_move", "left_click", "left_click_drag", "right_click", "middle_click", "double_click",
            "triple_click", "left_mouse_down", "left_mouse_up", "scroll", "hold_key", "wait", "screenshot",
            "cursor_position", "zoom",
        ),
        coordinate=_integers("Where, in pixels from the top left: x, y."),
        start_coordinate=_integers("left_click_drag: where to start, x, y."),
        region=_integers("zoom: left, top, right, bottom.", 4),
        text=_string("Text to type, or keys to press."),
        scroll_direction=_words("up", "down", "left", "right"),
        scroll_amount={"type": "integer", "description": "scroll: how many clicks of the wheel."},
        duration={"type": "number", "description": "hold_key and wait: seconds."},
    ),
)  # fmt: skip

CLIENT_TOOLS: Final = (("bash_", _BASH), ("text_editor_", _EDITOR), ("memory_", _MEMORY), ("computer_2", _COMPUTER))
"""Beginning of a tool's type to the function that stands for it; the rest of the type is a date."""

_FETCH: Final = Tool(
    "web_fetch",
    "Read the page at an address on the web.",
    _schema(("url",), url=_string("Address of the page.")),
    hosted="web_fetch",
)

_CODE: Final = Tool(
    "code_execution",
    "Run Python code in a sandbox and return its output.",
    _schema(("code",), code=_string("The code to run.")),
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


def parse_tools(bodies: tuple[MessagesTool, ...], choice: ToolChoice) -> tuple[Tool, ...]:
    """The tools in order, without a search among them.

    Raises:
        RequestError: A tool without a name, or a choice that names none of the tools.
    """
    tools = tuple(tool for index, body in enumerate(bodies) if (tool := _parse_tool(index, body)) is not None)
    _check_choice(tools, choice)
    return tools


def known_tool(kind: str) -> Tool | None:
    """The function that stands for tools of this type; ``None`` where none does."""
    return next((tool for start, tool in (*CLIENT_TOOLS, *HOSTED_TOOLS) if kind.startswith(start)), None)


def _parse_tool(index: int, body: MessagesTool) -> Tool | None:
    """One tool; ``None`` for a search among tools."""
    kind, place = body.type or "custom", f"tools[{index}]"
    known = known_tool(kind)
    if kind == "custom" or (body.input_schema is not None and known is None):
        if not body.name:
            raise RequestError(f"{place}.name: {FIELD_REQUIRED}", param=f"{place}.name")
        return Tool(
            body.name, body.description or "", body.input_schema or {}, place=place, cache=read_mark(body.cache_control)
        )
    if known is None:
        return None if kind.startswith(_TOOL_SEARCH) else hosted_tool(kind, place, body.name or kind)
    return evolve(
        known,
        name=body.name or known.name,
        description=known.description + _screen(body),
        options=_options(body, place) if known.hosted else {},
        place=place,
        cache=read_mark(body.cache_control),
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


def parse_tool_choice(value: Mapping[str, Any] | None) -> ToolChoice:
    """Read the client's choice; an unknown kind demands nothing and is kept raw.

    Raises:
        RequestError: Malformed, or a tool is demanded but not named.
    """
    if value is None:
        return ToolChoice()
    body = structure_value(value, ToolChoiceBody, missing=FIELD_REQUIRED, at="tool_choice")
    mode = CHOICES.get(body.type, ToolChoiceMode.AUTO)
    if mode is ToolChoiceMode.NAMED and not body.name:
        raise RequestError(f"tool_choice.name: {FIELD_REQUIRED}", param="tool_choice.name")
    name = body.name if mode is ToolChoiceMode.NAMED else None
    return ToolChoice(mode, name or "", parallel=not body.disable_parallel_tool_use, raw=value)


def _check_choice(tools: tuple[Tool, ...], choice: ToolChoice) -> None:
    if choice.mode is ToolChoiceMode.NAMED and all(tool.name != choice.name for tool in tools):
        raise RequestError(f'tool_choice.name: no tool "{choice.name[:60]}" among tools', param="tool_choice.name")
    if choice.mode is ToolChoiceMode.REQUIRED and not tools:
        raise RequestError("tool_choice: a tool is demanded but there are no tools", param="tool_choice")
