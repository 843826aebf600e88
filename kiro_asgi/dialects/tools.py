"""Tools and calls, as far as all dialects read them alike.

A client lists hosted tools for the service to run.  A dialect does not know which of them can be run, and takes all:
`kiro_asgi.asgi.kept.server_tools.Toolbox.offered`, which knows the service, leaves out those that it does not have, or
refuses a demand for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kiro_asgi.errors import RequestError
from kiro_asgi.model.events import WEB_SEARCH
from kiro_asgi.model.prompt import TEXT_INPUT, TextForm, Tool
from kiro_asgi.model.unread import Unread
from kiro_asgi.wire.json import JsonError, as_object, loads, text_of

_MAX_KIND: Final = 60
"""Characters of a kind that errors repeat."""

SEARCH_TOOL: Final = Tool(
    "web_search",
    "Search the web. Gives titles, addresses and excerpts of pages.",
    {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "What to search for."}},
        "required": ["query"],
    },
    hosted=WEB_SEARCH,
)


def hosted_tool(kind: str, place: str, name: str = "") -> Tool:
    """A tool of a *kind* for which there is no function, so that no model can be offered it here.

    Without a *name* it is called by its kind and its place, as no function can be.
    """
    kind = kind[:_MAX_KIND]
    return Tool(name or f"{kind} ({place})", hosted=kind, place=place)


def is_callable(tool: Tool) -> bool:
    """Whether *tool* is described so that a model can call it."""
    return not tool.hosted or bool(tool.schema)


def name_of_kind(kind: object, tools: Iterable[Tool]) -> str | None:
    """Name of the first of *tools* that is hosted and of this *kind*; ``None`` where there is none."""
    kind = str(kind)[:_MAX_KIND]
    return next((tool.name for tool in tools if tool.hosted == kind), None)


def text_tool(name: str, description: str, form: Mapping[str, Any] | None, place: str, unread: Unread | None) -> Tool:
    """A tool that takes a text, of the form that the client describes: elsewhere a function with one string."""
    schema = {
        "type": "object",
        "properties": {TEXT_INPUT: {"type": "string", "description": "The whole input, as plain text."}},
        "required": [TEXT_INPUT],
        "additionalProperties": False,
    }
    told = description
    if definition := text_of(form or {}, "definition"):
        rule = f"The input must match this grammar ({text_of(form or {}, 'syntax') or 'lark'}):\n{definition}"
        told = f"{description}\n\n{rule}" if description else rule
    return Tool(name, told, schema, text_form=TextForm(description, form), place=place, unread=unread)


def text_given(arguments: str) -> str:
    """The text of such a tool's call; arguments of another form are taken as they are, and none are no text."""
    try:
        value = loads(arguments)
    except JsonError:
        return arguments
    text = value.get(TEXT_INPUT, "" if not value else None) if isinstance(value, dict) else None
    return text if isinstance(text, str) else arguments


def read_arguments(arguments: str | Mapping[str, Any] | None, place: str) -> Mapping[str, Any]:
    """Arguments as an object; any other value is kept, by `as_object`, because an old call cannot be made again.

    Raises:
        RequestError: They are nested too deep; ``param`` is *place*.
    """
    value: Any = arguments
    try:
        if isinstance(arguments, str) and not arguments.isspace():
            value = loads(arguments)
    except JsonError as error:
        if error.code == "json.too_deep":
            raise RequestError(f"{place}: {error.message}", code="invalid_value", param=place) from error
    return as_object(value)
