"""Toolsets that Anthropic defines and the client runs: one entry of ``tools`` without a name, with many members.

A service of the API gets the entry as it came, and calls a member by its own name, beside the name of the toolset.  For
any other service a function stands for each member, by the names of both: two toolsets have a ``screenshot``, and a
client may have a ``wait`` of its own.  The client is told of a call as the API tells it.

Sources: https://platform.claude.com/docs/en/agents-and-tools/tool-use/computer-use-tool,
https://platform.claude.com/docs/en/agents-and-tools/tool-use/browser-use-tool,
https://github.com/anthropics/anthropic-sdk-python (types of the members' inputs, members that are off unless enabled)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve, field, frozen

from kiro_asgi.dialects.anthropic.arguments import (
    Schema,
    either,
    integer,
    integers,
    number,
    object_schema,
    string,
    strings,
    words,
)
from kiro_asgi.dialects.anthropic.shapes import API
from kiro_asgi.errors import RequestError
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Prompt, Tool, ToolCallPart, Turn

_SHOWN: Final = 60
"""Characters of a member's name that an error repeats."""


@frozen
class Member:
    """A member of a toolset, as a call names it."""

    toolset: str
    """E.g. ``computer``."""

    name: str
    """E.g. ``left_click``."""


@frozen
class MessagesOptions:
    """What the answer to one request needs to know of it."""

    members: Mapping[str, Member]
    """By the name of the function that stands for it."""


@frozen
class Toolset:
    """One toolset."""

    name: str
    """As calls of its members have it in ``toolset_name``."""

    functions: Mapping[str, Tool]
    """By the name of the member for which each stands."""

    off: frozenset[str] = field(default=frozenset())
    """Members that are offered only where they are enabled."""

    def offered(self, configs: Any, place: str, cache: str, notes: Notes) -> tuple[Tool, ...]:
        """The functions for the members that are enabled.

        Args:
            configs: The client's, by member; ``None`` for none.
            place: Of the entry in the request.
            cache: Its mark for the cache, which the last function has.
            notes: Takes what is said of a member beside whether it is offered.

        Raises:
            RequestError: They are not what the API takes.
        """
        if configs is not None and not isinstance(configs, Mapping):
            raise RequestError(f"{place}.configs: must be an object", param=f"{place}.configs")
        at = f"{place}.configs"
        enabled = {name: _enabled(config, f"{at}.{name[:_SHOWN]}") for name, config in (configs or {}).items()}
        for name, config in (configs or {}).items():
            if name not in self.functions:
                notes.applies("fields.ignored", f"{at}.{name}", kept_for=API)
            elif config is not None and config.get("defer_loading") is not None:
                notes.applies("fields.no_effect", f"{at}.{name}.defer_loading", kept_for=API)
        names = [name for name in self.functions if _either(enabled.get(name), name not in self.off)]
        marks = {names[-1]: cache} if names else {}
        return tuple(evolve(self.functions[name], place=place, cache=marks.get(name, "")) for name in names)


def _enabled(config: Any, place: str) -> bool | None:
    """Whether a member is to be offered; ``None`` where its *config* does not say."""
    if config is None:
        return None
    if not isinstance(config, Mapping):
        raise RequestError(f"{place}: must be an object", param=place)
    enabled = config.get("enabled")
    if enabled is not None and not isinstance(enabled, bool):
        raise RequestError(f"{place}.enabled: must be true or false", param=f"{place}.enabled")
    return enabled


def _either(said: bool | None, usual: bool) -> bool:
    return usual if said is None else said


def function_name(toolset: str, member: str) -> str:
    """Name of the function that stands for a member, where no other tool has it."""
    return f"{toolset}_{member}"


def toolset_of(kind: str) -> Toolset | None:
    """The toolset that tools of this type are; ``None`` for other tools."""
    return next((toolset for start, toolset in TOOLSETS if kind.startswith(start)), None)


def named_apart(prompt: Prompt) -> tuple[Prompt, MessagesOptions | None]:
    """*prompt* with names for the members of its toolsets that no other tool has, and what they stand for.

    ``None`` where it has no toolsets.
    """
    if not any(tool.instead for tool in prompt.tools):
        return prompt, None
    taken = {tool.name for tool in prompt.tools if not tool.instead}
    members = {name: member for tool in prompt.tools if tool.instead for name, member in _members(tool)}
    renamed = {name: _free(name, taken) for name in members if name in taken}
    options = MessagesOptions({renamed.get(name, name): member for name, member in members.items()})
    if not renamed:
        return prompt, options
    tools = tuple(evolve(tool, instead=tuple(_renamed(tool.instead, renamed))) for tool in prompt.tools)
    turns = tuple(_with_names(turn, renamed) for turn in prompt.turns)
    return evolve(prompt, tools=tools, turns=turns), options


def _members(tool: Tool) -> Iterator[tuple[str, Member]]:
    toolset = toolset_of(tool.hosted)
    assert toolset is not None, f"functions stand for a tool that is no toolset: {tool.hosted}"
    before = len(function_name(toolset.name, ""))
    return ((function.name, Member(toolset.name, function.name[before:])) for function in tool.instead)


def _free(name: str, taken: set[str]) -> str:
    """A name that none of those *taken* is; each of them is looked at for one name at most."""
    while name in taken:
        name += "_"
    return name


def _renamed(functions: tuple[Tool, ...], names: Mapping[str, str]) -> Iterator[Tool]:
    return (evolve(function, name=names.get(function.name, function.name)) for function in functions)


def _with_names(turn: Turn, names: Mapping[str, str]) -> Turn:
    if not any(type(part) is ToolCallPart and part.instead in names for part in turn.parts):
        return turn
    parts = (
        evolve(part, instead=names.get(part.instead, part.instead)) if type(part) is ToolCallPart else part
        for part in turn.parts
    )
    return evolve(turn, parts=tuple(parts))


# The toolsets.


def _toolset(name: str, members: Mapping[str, tuple[str, Schema]], *off: str) -> Toolset:
    functions = {
        member: Tool(function_name(name, member), description, schema)
        for member, (description, schema) in members.items()
    }
    return Toolset(name, MappingProxyType(functions), frozenset(off))


def _function(description: str, *required: str, **properties: Schema) -> tuple[str, Schema]:
    return description, object_schema(required, **properties)


_DIRECTIONS: Final = words("up", "down", "left", "right")
_WHERE: Final = integers("x, y: pixels from the left and from the top edge of the screen.")
_AT: Final = integers("x, y: pixels from the left and from the top edge of the screen; where the cursor is, without.")
_HELD: Final = string('Keys to hold meanwhile, e.g. "ctrl" or "ctrl+shift".')


def _click(how: str) -> tuple[str, Schema]:
    return _function(f"{how} at a point of the screen, or where the cursor is.", coordinate=_AT, text=_HELD)


COMPUTER: Final = _toolset(
    "computer",
    {
        "key": _function(
            'Press a key, or several at once joined by "+", e.g. "Return", "Page_Down", "ctrl+s".',
            "text",
            text=string("The key or keys."),
            repeat=integer("How many times; once without."),
        ),
        "hold_key": _function(
            "Hold a key, or several at once, for a time; they are named as for key.",
            "text",
            "duration",
            text=string("The key or keys."),
            duration=integer("Seconds."),
        ),
        "type": _function("Type a text on the keyboard.", "text", text=string("The text.")),
        "cursor_position": _function("Tell where the cursor is: x, y in pixels."),
        "mouse_move": _function(
            "Move the cursor and click nothing, to hover; clicks move it themselves.", "coordinate", coordinate=_WHERE
        ),
        "left_mouse_down": _function("Press the left mouse button where the cursor is, and hold it."),
        "left_mouse_up": _function("Let the left mouse button go."),
        "left_click": _click("Click the left mouse button"),
        "left_click_drag": _function(
            "Drag with the left mouse button from one point of the screen to another.",
            "start_coordinate",
            "coordinate",
            start_coordinate=_WHERE,
            coordinate=_WHERE,
            text=_HELD,
        ),
        "right_click": _click("Click the right mouse button"),
        "middle_click": _click("Click the middle mouse button"),
        "double_click": _click("Click the left mouse button twice"),
        "triple_click": _click("Click the left mouse button three times"),
        "scroll": _function(
            "Turn the mouse wheel at a point of the screen, or where the cursor is; use this to scroll, not keys.",
            "scroll_direction",
            "scroll_amount",
            scroll_direction=_DIRECTIONS,
            scroll_amount=integer("Clicks of the wheel."),
            coordinate=_AT,
            text=_HELD,
        ),
        "wait": _function("Wait for a time.", "duration", duration=integer("Seconds.")),
        "screenshot": _function("Take a screenshot of the screen."),
        "zoom": _function(
            "Take a screenshot of a part of the screen, enlarged, to see details.",
            "region",
            region=integers("Left, top, right, bottom, in pixels of the whole screenshot.", 4),
        ),
    },
)


_POINT: Final = object_schema(
    ("type", "x", "y"),
    type=words("coordinate"),
    x=integer("Pixels from the left edge of the viewport."),
    y=integer("Pixels from its top edge."),
)
_ELEMENT: Final = object_schema(
    ("type", "ref"),
    type=words("ref"),
    ref=string('A reference to an element that read_page or find gave in this tab, e.g. "ref_7".'),
)
_TARGET: Final = either("A point of the viewport, or an element.", _POINT, _ELEMENT)
_TAB: Final = string("The tab; the active one without.")
_CHORD: Final = string('Keys to hold meanwhile, e.g. "shift" or "ctrl+shift".')


def _in_tab(description: str, *required: str, **properties: Schema) -> tuple[str, Schema]:
    """A function that acts on one tab."""
    return _function(description, *required, **properties, tab_id=_TAB)


def _click_in_tab(how: str) -> tuple[str, Schema]:
    return _in_tab(f"{how} at a point of the viewport, or on an element.", "target", target=_TARGET, modifiers=_CHORD)


BROWSER: Final = _toolset(
    "browser",
    {
        "navigate": _in_tab(
            "Go to an address, or through the tab's history.",
            "url",
            url=string('The address, https:// where it has no protocol; or "back", "forward", "reload".'),
        ),
        "list_tabs": _function("List the open tabs: tab_id, title and address of each."),
        "new_tab": _function("Open an empty tab, and tell its tab_id."),
        "switch_tab": _function(
            "Make a tab the active one, on which calls without tab_id act.", "tab_id", tab_id=string("The tab.")
        ),
        "close_tab": _function("Close a tab.", "tab_id", tab_id=string("The tab.")),
        "read_page": _in_tab(
            "Read the page as a tree of its elements, with references to them such as [ref_7], which other functions "
            "take. At most 50,000 characters: read a part, or less deep, where there are more.",
            depth=integer("Greatest depth of the tree; 15 without."),
            filter={
                **words("all", "interactive"),
                "description": "interactive: only what can be used; all: also what is outside the viewport; "
                "without: all that is visible.",
            },
            ref=string("The element whose part of the tree to read; the whole page without."),
        ),
        "get_page_text": _in_tab("Read the visible text of the page; for articles and other long texts."),
        "read_console": _in_tab("Read what the page has written to the console since the last time, a line each."),
        "read_network": _in_tab("Read the requests that the page has made since the last time, a line each."),
        "find": _in_tab(
            "Find at most 20 elements by a description, with references to them.",
            "query",
            query=string('Which elements, e.g. "search field".'),
        ),
        "form_input": _in_tab(
            "Set an element of a form.",
            "target",
            "value",
            target=_ELEMENT,
            value=either(
                "The value: true or false for a box to tick, the value or the text of an option.",
                {"type": "string"},
                {"type": "number"},
                {"type": "boolean"},
            ),
        ),
        "file_upload": _in_tab(
            "Give files to an element that takes some; paths or document_ids are needed.",
            "target",
            target=_ELEMENT,
            paths=strings("Paths of files where the browser runs."),
            document_ids=strings("Files that were laid ready for it."),
        ),
        "scroll_to": _in_tab("Scroll until an element is visible.", "target", target=_ELEMENT),
        "screenshot": _in_tab("Take a screenshot of the viewport."),
        "zoom": _in_tab(
            "Take a screenshot of a part of the viewport, enlarged, to see details.",
            "region",
            region=integers("Left, top, right, bottom, in pixels of the viewport.", 4),
        ),
        "left_click": _click_in_tab("Click the left mouse button"),
        "right_click": _click_in_tab("Click the right mouse button"),
        "middle_click": _click_in_tab("Click the middle mouse button"),
        "double_click": _click_in_tab("Click the left mouse button twice"),
        "triple_click": _click_in_tab("Click the left mouse button three times"),
        "hover": _in_tab("Move the cursor to a point or an element, and click nothing.", "target", target=_TARGET),
        "left_click_drag": _in_tab(
            "Drag with the left mouse button from one point of the viewport to another.",
            "from",
            "target",
            **{"from": _POINT},
            target=_POINT,
        ),
        "left_mouse_down": _in_tab("Press the left mouse button at a point, and hold it.", "target", target=_POINT),
        "left_mouse_up": _in_tab("Let the left mouse button go at a point.", "target", target=_POINT),
        "mouse_move": _in_tab("Move the cursor to a point, and click nothing.", "target", target=_POINT),
        "scroll": _in_tab(
            "Turn the mouse wheel at a point of the viewport.",
            "scroll_direction",
            "target",
            scroll_direction=_DIRECTIONS,
            target=_POINT,
            scroll_amount=integer("Clicks of the wheel, from 1 to 10; 3 without."),
        ),
        "type": _in_tab("Type a text where the focus is.", "text", text=string("The text.")),
        "key": _in_tab(
            'Press a key, several at once joined by "+", or one after another with spaces between them, '
            'e.g. "Return", "ctrl+a", "BackSpace BackSpace".',
            "text",
            text=string("The keys."),
            repeat=integer("How many times; once without."),
        ),
        "hold_key": _in_tab(
            "Hold a key, or several at once, for a time.",
            "text",
            "duration",
            text=string("The keys, named as for key."),
            duration=number("Seconds, at most 30."),
        ),
        "wait": _in_tab("Wait for a time.", "duration", duration=number("Seconds, at most 30.")),
        "javascript_exec": _in_tab(
            "Run JavaScript in the page, and tell the value of its last expression; without return.",
            "text",
            text=string("The code."),
        ),
    },
    "file_upload",
    "read_console",
    "read_network",
    "javascript_exec",
)

TOOLSETS: Final = (("computer_toolset_", COMPUTER), ("browser_toolset_", BROWSER))
"""Beginning of a tool's type to the toolset; the rest of the type is a date."""
