"""Tools of a request as functions for the model, the client's choice among them, and the items that their calls become.

Most calls are items of one kind.  Calls of some tools are items of a kind of their own: of those that only this API
has, and of the web search.  The client runs the former; the arguments of such a call are what its item holds.  The
gateway or the service runs the search: its item has the addresses, and the text that follows cites them.  What else the
vendor's servers would run is taken with its kind, see `kiro_asgi.dialects.tools`.

Sources: https://platform.openai.com/docs/guides/tools;
https://platform.openai.com/docs/guides/tools-shell, https://platform.openai.com/docs/guides/tools-local-shell,
https://platform.openai.com/docs/guides/tools-apply-patch, https://platform.openai.com/docs/guides/tools-web-search,
https://platform.openai.com/docs/guides/function-calling (custom tools),
https://platform.openai.com/docs/api-reference/responses/create#responses-create-tool_choice
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import define, evolve, field, frozen

from kiro_asgi.dialects.errors import invalid, missing, unsupported
from kiro_asgi.dialects.opaque import with_others
from kiro_asgi.dialects.openai_responses.shapes import (
    API,
    BESIDE,
    TOOLS,
    ClientCall,
    KindTool,
    Namespace,
    NestedFunction,
    ResponsesCustomTool,
    ResponsesFunctionTool,
    ResponsesSearchTool,
    ShellTool,
    ToolBody,
    ToolSearch,
)
from kiro_asgi.dialects.structure import Raw
from kiro_asgi.dialects.tools import SEARCH_TOOL, hosted_tool, name_of_kind, text_tool
from kiro_asgi.model.events import Citation, ServerCall, ToolOutput
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Opaque, Tool, ToolChoice, ToolChoiceMode
from kiro_asgi.wire.json import JsonError, loads

Object = Mapping[str, Any]


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
    """Fields of an item of this *kind*, apart from ``id``, ``call_id``, ``status`` and ``type``.

    Args:
        kind: A value of `kiro_asgi.dialects.openai_responses.parsing.ResponsesOptions.client_tools`.
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


def _members(value: Any, *left_out: str) -> Object:
    """The members of an object that have a value, but for those *left_out*."""
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
    lambda item: _members(item.action, "type"),
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
    lambda item: _members(item.action),
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
    lambda item: _members(item.operation),
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
    lambda item: _members(item.arguments),
)

CLIENT_TOOLS: Final = MappingProxyType(
    {each.tool.name: each for each in (_LOCAL_SHELL, _SHELL, _APPLY_PATCH, _TOOL_SEARCH)}
)
"""Kind of tool, which is also its name for the model, to the tool."""

_FIELDS: Final = MappingProxyType({each.item: each.fields for each in CLIENT_TOOLS.values()})


# The web search.


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
    own: dict[str, Any] = {}
    if source.url:
        own = _annotation(max(end - source.begins, 0), max(end - source.ends, 0), source.url, source.title)
    return with_others(own, API, (source.origin,))


def _annotation(start: int, end: int, url: str, title: str) -> dict[str, Any]:
    return {"type": "url_citation", "start_index": start, "end_index": end, "url": url, "title": title}


def _status(output: ToolOutput | None) -> str:
    if output is None:
        return "in_progress"
    return "failed" if output.error_code else "completed"


# Tools, as clients list them.


@define
class ToolCollector:
    """Collects tools; of several with one name the first counts, for clients repeat those that they had deferred.

    Raises:
        RequestError: From `add`: a tool without a name.
    """

    tools: dict[str, Tool] = field(init=False, factory=dict)
    """By the name that the model calls them."""

    custom: set[str] = field(init=False, factory=set)
    """Those of them whose input is text."""

    items: dict[str, str] = field(init=False, factory=dict)
    """Those of them whose calls are items of a kind of their own, to that kind."""

    namespaces: dict[str, tuple[str, str]] = field(init=False, factory=dict)
    """Those of them that are in a namespace, to that and to their name in it."""

    def add(self, bodies: Iterable[ToolBody], place: str) -> None:
        """Take the tools that are listed at *place* of the request."""
        for index, body in enumerate(bodies):
            self.take(body, f"{place}[{index}]")

    def take(self, body: ToolBody, place: str) -> None:
        """Take the tool, or the tools of a namespace, at *place* of the request."""
        _READERS[type(body)](self, body, place)

    def join(self, other: ToolCollector, notes: Notes) -> None:
        """Take those of another collector, which stays as it is."""
        for name, tool in other.tools.items():
            if not self._put(tool, tool.place):
                notes.applies("tools.duplicate_dropped", tool.place)
            else:
                self.custom |= {name} & other.custom
                self.items |= {name: other.items[name]} if name in other.items else {}
                self.namespaces |= {name: other.namespaces[name]} if name in other.namespaces else {}

    def _put(self, tool: Tool, place: str) -> str:
        """Take one; its name, or an empty one where there is another of that name."""
        if not tool.name:
            raise invalid(f"{place}.name", "is empty")
        return tool.name if self.tools.setdefault(tool.name, tool) is tool else ""

    def _function(self, body: ResponsesFunctionTool, place: str) -> str:
        function = body.function
        if function is None:
            if body.name is None:
                raise missing(f"{place}.name", "required field missing")
            function = NestedFunction(body.name, body.description, body.parameters, body.strict)
        flat = {name: value for name, value in body.unread.items() if name != "function"}
        tool = Tool(
            function.name,
            function.description or "",
            function.parameters or {},
            strict=function.strict is True,
            place=place,
            unread=BESIDE(function, **flat),
        )
        return self._put(tool, place)

    def _custom(self, body: ResponsesCustomTool, place: str) -> str:
        tool = text_tool(body.name, body.description or "", body.format, place, BESIDE(body))
        name = self._put(tool, place)
        self.custom |= {name} if name else set()
        return name

    def _namespace(self, body: Namespace, place: str) -> None:
        if not body.name:
            raise invalid(f"{place}.name", "is empty")
        inner = ToolCollector()
        inner.add(body.tools, f"{place}.tools")
        for name, tool in inner.tools.items():
            flat, description = flat_name(body.name, name), _paragraphs(body.description, tool.description)
            if self._put(evolve(tool, name=flat, description=description), place):
                self.namespaces[flat] = body.name, name
                self.custom |= {flat} if name in inner.custom else set()

    def _search(self, body: ResponsesSearchTool, place: str) -> None:
        domains = body.filters and body.filters.allowed_domains
        options = {"allowed_domains": domains} if domains else {}
        self._put(evolve(SEARCH_TOOL, options=options, place=place, opaque=Opaque(API, body.given, place)), place)

    def _client(self, kind: str, place: str, **changes: Any) -> None:
        known = CLIENT_TOOLS[kind]
        if self._put(evolve(known.tool, place=place, **changes), place):
            self.items[kind] = known.item

    def _kind(self, body: KindTool, place: str) -> None:
        self._client(body.type, place, opaque=Opaque(API, body.given, place))

    def _shell(self, body: ShellTool, place: str) -> None:
        opaque = Opaque(API, body.given, place)
        if (body.environment or {}).get("type", "local") == "local":
            self._client("shell", place, opaque=opaque)
        else:
            self._put(evolve(hosted_tool("shell", place), opaque=opaque), place)

    def _tool_search(self, body: ToolSearch, place: str) -> None:
        """The vendor's own search is needed by nobody else: every tool is shown at once."""
        opaque = Opaque(API, body.given, place)
        if body.execution == "client":
            given = {"description": body.description, "schema": body.parameters}
            self._client("tool_search", place, opaque=opaque, **{name: it for name, it in given.items() if it})
        else:
            self._put(evolve(hosted_tool("tool_search", place), opaque=opaque), place)

    def _hosted(self, body: Raw, place: str) -> None:
        """Run by the vendor, or not known."""
        hosted = hosted_tool(str(body.value.get("type")), place)
        self._put(evolve(hosted, opaque=Opaque(API, body.value, place)), place)


_READERS: Final = MappingProxyType[type, Any](
    {
        ResponsesFunctionTool: ToolCollector._function,
        ResponsesCustomTool: ToolCollector._custom,
        Namespace: ToolCollector._namespace,
        ResponsesSearchTool: ToolCollector._search,
        ToolSearch: ToolCollector._tool_search,
        ShellTool: ToolCollector._shell,
        KindTool: ToolCollector._kind,
        Raw: ToolCollector._hosted,
    }
)


def _paragraphs(*texts: str | None) -> str:
    return "\n\n".join(filter(None, texts))


# The client's choice.


Tools = Mapping[str, Tool]

_PLACE: Final = "tool_choice"

_MODES: Final = MappingProxyType(
    {"none": ToolChoiceMode.NONE, "auto": ToolChoiceMode.AUTO, "required": ToolChoiceMode.REQUIRED}
)

_KINDS: Final = MappingProxyType(
    {kind: SEARCH_TOOL.name for kind, shape in TOOLS.classes.items() if shape is ResponsesSearchTool}
    | {kind: kind for kind in CLIENT_TOOLS}
)
"""Kind of tool, where the kind says which one is meant, to its name."""


def read_choice(
    choice: str | Mapping[str, Any] | None, tools: Tools, parallel: bool
) -> tuple[tuple[Tool, ...], ToolChoice]:
    """The tools that may be called, and whether one must be.

    Raises:
        RequestError: A tool that is not there.
    """
    if choice is None:
        return tuple(tools.values()), ToolChoice(parallel=parallel)
    if isinstance(choice, str):
        return tuple(tools.values()), ToolChoice(_mode(choice, tools), parallel=parallel, raw=choice)
    if choice.get("type") == "allowed_tools":
        allowed = _allowed(choice, tools)
        mode = _mode(choice.get("mode", "auto"), allowed)
        return tuple(allowed.values()), ToolChoice(mode, parallel=parallel, raw=choice, allowed=frozenset(allowed))
    name = _named(choice, tools)
    if name is None:
        raise unsupported(_PLACE, f"no tool of type {str(choice.get('type'))[:60]} is among tools")
    return tuple(tools.values()), ToolChoice(ToolChoiceMode.NAMED, name, parallel, choice)


def _mode(word: Any, tools: Tools) -> ToolChoiceMode:
    mode = _MODES.get(word) if isinstance(word, str) else None
    if mode is None:
        raise invalid(_PLACE, f"expected one of {', '.join(_MODES)}, got {str(word)[:60]!r}")
    if mode is ToolChoiceMode.REQUIRED and not tools:
        raise invalid(_PLACE, "a call is required, but there are no tools")
    return mode


def _allowed(choice: Mapping[str, Any], tools: Tools) -> Tools:
    """Only some of the tools."""
    listed = choice.get("tools")
    if not isinstance(listed, list) or not all(isinstance(entry, Mapping) for entry in listed):
        raise invalid(_PLACE, "expected a list of allowed tools")
    names = {_named(entry, tools) for entry in listed}
    return {name: tool for name, tool in tools.items() if name in names}


def _named(entry: Mapping[str, Any], tools: Tools) -> str | None:
    """The name of the tool that *entry* means; ``None`` for one of a kind that is not there."""
    kind = entry.get("type")
    if kind not in ("function", "custom"):
        hosted = name_of_kind(kind, tools.values())
        return _offered(_KINDS[kind], tools) if hosted is None and isinstance(kind, str) and kind in _KINDS else hosted
    inner = entry.get("function", entry)
    name = inner.get("name") if isinstance(inner, Mapping) else None
    if not isinstance(name, str):
        raise invalid(_PLACE, "expected the name of a tool")
    namespace = entry.get("namespace")
    return _offered(flat_name(namespace, name) if isinstance(namespace, str) else name, tools)


def _offered(name: str, tools: Tools) -> str:
    if name not in tools:
        raise invalid(_PLACE, f"no tool is named {name[:60]!r}")
    return name
