"""Calls that are items of a kind of their own: of tools that only this API has, and of the web search.

The client runs the former.  For the model each is a function; the arguments of a call are what its item holds.  The
gateway or the service runs the search: its item has the addresses, and the text that follows cites them.

Sources: https://platform.openai.com/docs/guides/tools-shell,
https://platform.openai.com/docs/guides/tools-local-shell, https://platform.openai.com/docs/guides/tools-apply-patch,
https://platform.openai.com/docs/guides/function-calling (custom tools),
https://platform.openai.com/docs/guides/tools-web-search
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from kiro_asgi.dialects.openai_responses.shapes import ClientCall
from kiro_asgi.model.events import Citation, ServerCall, ToolOutput
from kiro_asgi.model.prompt import TEXT_INPUT, Tool
from kiro_asgi.wire.json import JsonError, loads

Object = Mapping[str, Any]


def custom_schema(description: str) -> dict[str, Any]:
    """The one string that a custom tool takes."""
    return {
        "type": "object",
        "properties": {TEXT_INPUT: {"type": "string", "description": description}},
        "required": [TEXT_INPUT],
        "additionalProperties": False,
    }


def custom_input(arguments: str) -> str:
    """The text of a custom tool's call; arguments of another form are taken as they are."""
    try:
        text = loads(arguments)[TEXT_INPUT]
    except (JsonError, KeyError, TypeError, IndexError):
        return arguments
    return text if isinstance(text, str) else arguments


def flat_name(namespace: str, name: str) -> str:
    """The name under which the model calls a tool of a namespace."""
    return f"{namespace}__{name}"


@frozen
class ClientTool:
    """A tool that the API knows by its kind, and whose calls are items of a kind of their own."""

    tool: Tool
    item: str
    """The kind of item that a call is."""

    fields: Callable[[Object], dict[str, Any]]
    """Arguments to the item's fields, all of them well-formed whatever the model wrote."""

    arguments: Callable[[ClientCall], Object]
    """An item of an earlier answer to the arguments."""


def item_fields(kind: str, arguments: str) -> dict[str, Any]:
    """Fields of an item of this *kind* besides ``id``, ``call_id``, ``status`` and ``type``.

    Args:
        kind: A value of `kiro_asgi.dialects.openai_responses.options.ResponsesOptions.client_tools`.
        arguments: The call's, complete; JSON text.
    """
    try:
        value = loads(arguments)
    except JsonError:
        value = None
    return _FIELDS[kind](value if isinstance(value, dict) else {})


# Arguments and fields of each kind.


def _local_shell_action(arguments: Object) -> dict[str, Any]:
    command, env = arguments.get("command"), arguments.get("env")
    action = {
        "type": "exec",
        "command": ["bash", "-lc", command] if isinstance(command, str) else _strings(command),
        "env": {key: value for key, value in env.items() if isinstance(value, str)} if isinstance(env, dict) else {},
        **_known(arguments, {"timeout_ms": int, "user": str, "working_directory": str}),
    }
    return {"action": action}


def _shell_action(arguments: Object) -> dict[str, Any]:
    commands = arguments.get("commands")
    limits = {"timeout_ms": None, "max_output_length": None} | _known(
        arguments, {"timeout_ms": int, "max_output_length": int}
    )
    action = {"commands": [commands] if isinstance(commands, str) else _strings(commands), **limits}
    return {"action": action, "environment": {"type": "local"}}


def _patch_operation(arguments: Object) -> dict[str, Any]:
    kind = arguments.get("type")
    if kind not in _PATCHES:
        kind = "update_file"
    texts = {"path": "", "diff": ""} | _known(arguments, {"path": str, "diff": str})
    if kind == "delete_file":
        del texts["diff"]
    return {"operation": {"type": kind, **texts}}


def _search_arguments(arguments: Object) -> dict[str, Any]:
    return {"arguments": dict(arguments), "execution": "client"}


def _strings(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _known(arguments: Object, types: Mapping[str, type]) -> dict[str, Any]:
    return {name: arguments[name] for name, kind in types.items() if type(arguments.get(name)) is kind}


def _said(value: Any, *left_out: str) -> Object:
    """The members of an object that say something."""
    members = value.items() if isinstance(value, Mapping) else ()
    return {key: each for key, each in members if each is not None and key not in left_out}


_PATCHES: Final = ("create_file", "update_file", "delete_file")

_STRING: Final[Object] = {"type": "string"}

_STRINGS: Final[Object] = {"type": "array", "items": _STRING}

_COUNT: Final[Object] = {"type": "integer"}


def _tool(name: str, description: str, properties: Object, *required: str) -> Tool:
    return Tool(name, description, {"type": "object", "properties": properties, "required": list(required)})


_LOCAL_SHELL: Final = ClientTool(
    _tool(
        "local_shell",
        "Run one command on the user's machine. Gives its output.",
        {
            "command": {**_STRINGS, "description": 'The program and its arguments, e.g. ["bash", "-lc", "ls"].'},
            "env": {"type": "object", "additionalProperties": _STRING},
            "working_directory": _STRING,
            "timeout_ms": _COUNT,
        },
        "command",
    ),
    "local_shell_call",
    _local_shell_action,
    lambda item: _said(item.action, "type"),
)

_SHELL: Final = ClientTool(
    _tool(
        "shell",
        "Run shell commands on the user's machine, one after the other. Gives the output of each.",
        {"commands": _STRINGS, "timeout_ms": _COUNT, "max_output_length": _COUNT},
        "commands",
    ),
    "shell_call",
    _shell_action,
    lambda item: _said(item.action),
)

_APPLY_PATCH: Final = ClientTool(
    _tool(
        "apply_patch",
        "Create, update or delete one file.",
        {
            "type": {"type": "string", "enum": list(_PATCHES)},
            "path": {**_STRING, "description": "The file, relative to the workspace."},
            "diff": {
                **_STRING,
                "description": "The change, in the V4A diff format: sections that begin with @@, lines that begin with "
                "a space, + or -. Of a new file every line begins with +. Not for delete_file.",
            },
        },
        "type",
        "path",
    ),
    "apply_patch_call",
    _patch_operation,
    lambda item: _said(item.operation),
)

_TOOL_SEARCH: Final = ClientTool(
    _tool(
        "tool_search",
        "Search for tools that are not listed yet. Those that are found can be called afterwards.",
        {"query": {**_STRING, "description": "What the tool should do."}},
        "query",
    ),
    "tool_search_call",
    _search_arguments,
    lambda item: _said(item.arguments),
)

CLIENT_TOOLS: Final = MappingProxyType(
    {each.tool.name: each for each in (_LOCAL_SHELL, _SHELL, _APPLY_PATCH, _TOOL_SEARCH)}
)
"""Kind of tool, which is also its name for the model, to what it is."""

_FIELDS: Final = MappingProxyType({each.item: each.fields for each in CLIENT_TOOLS.values()})


PROGRESS: Final = (
    "response.web_search_call.in_progress",
    "response.web_search_call.searching",
    "response.web_search_call.completed",
)
"""The events between the item's ``added`` and its ``done``: two when the search begins, one when it has ended."""


def web_search_call(call: ServerCall, output: ToolOutput | None = None) -> dict[str, Any]:
    """Fields of the output item, its id apart; without *output* the search is still under way."""
    query = str(call.input.get("query", ""))
    action: dict[str, Any] = {"type": "search", "query": query, "queries": call.input.get("queries") or [query]}
    if output is not None:
        action["sources"] = [{"type": "url", "url": hit.url} for hit in output.hits]
    return {"type": "web_search_call", "status": _status(output), "action": action}


def url_citations(output: ToolOutput, offset: int = 0) -> list[dict[str, Any]]:
    """Annotations of the text part in which ``output.told`` begins at the character *offset*."""
    return [_annotation(offset + start, offset + end, hit.url, hit.title) for start, end, hit in output.spans()]


def url_citation(source: Citation, end: int) -> dict[str, Any]:
    """Annotation of the text part behind whose first *end* characters the *source* stands."""
    return _annotation(max(end - source.begins, 0), max(end - source.ends, 0), source.url, source.title)


def _annotation(start: int, end: int, url: str, title: str) -> dict[str, Any]:
    return {"type": "url_citation", "start_index": start, "end_index": end, "url": url, "title": title}


def _status(output: ToolOutput | None) -> str:
    if output is None:
        return "in_progress"
    return "failed" if output.error_code else "completed"
