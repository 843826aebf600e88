"""Tools of a request, as functions for the model, the client's choice among them, and how the calls of each come back.

What the vendor's servers would run is taken with its kind, see `kiro_asgi.dialects.tools`.

Sources: https://platform.openai.com/docs/guides/tools;
https://platform.openai.com/docs/api-reference/responses/create#responses-create-tool_choice
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import asdict, define, evolve, field

from kiro_asgi.dialects.errors import invalid, missing, unsupported
from kiro_asgi.dialects.openai_responses.calls import CLIENT_TOOLS, custom_schema, flat_name
from kiro_asgi.dialects.openai_responses.tool_shapes import (
    TOOLS,
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
from kiro_asgi.dialects.tools import SEARCH_TOOL, hosted_tool, name_of_kind
from kiro_asgi.model.prompt import TextForm, Tool, ToolChoice, ToolChoiceMode


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
            _READERS[type(body)](self, body, f"{place}[{index}]")

    def _put(self, tool: Tool, place: str) -> str:
        """Take one; its name, or an empty one where there is another of that name."""
        if not tool.name:
            raise invalid(f"{place}.name", "empty")
        return tool.name if self.tools.setdefault(tool.name, tool) is tool else ""

    def _function(self, body: ResponsesFunctionTool, place: str) -> str:
        function = body.function
        if function is None:
            if body.name is None:
                raise missing(f"{place}.name", "required field missing")
            function = NestedFunction(body.name, body.description, body.parameters)
        tool = Tool(function.name, function.description or "", function.parameters or {}, place=place)
        return self._put(tool, place)

    def _custom(self, body: ResponsesCustomTool, place: str) -> str:
        schema = custom_schema("The whole input, as plain text.")
        rule = None if body.format is None else {name: it for name, it in asdict(body.format).items() if it is not None}
        form = TextForm(body.description or "", rule)
        name = self._put(Tool(body.name, _description(body), schema, text_form=form, place=place), place)
        self.custom |= {name} if name else set()
        return name

    def _namespace(self, body: Namespace, place: str) -> None:
        if not body.name:
            raise invalid(f"{place}.name", "empty")
        inner = ToolCollector()
        inner.add(body.tools, f"{place}.tools")
        for name, tool in inner.tools.items():
            flat, told = flat_name(body.name, name), _paragraphs(body.description, tool.description)
            if self._put(evolve(tool, name=flat, description=told), place):
                self.namespaces[flat] = body.name, name
                self.custom |= {flat} if name in inner.custom else set()

    def _search(self, body: ResponsesSearchTool, place: str) -> None:
        domains = body.filters and body.filters.allowed_domains
        options = {"allowed_domains": domains} if domains else {}
        self._put(evolve(SEARCH_TOOL, options=options, place=place), place)

    def _client(self, kind: str, place: str, **said: Any) -> None:
        known = CLIENT_TOOLS[kind]
        if self._put(evolve(known.tool, place=place, **said), place):
            self.items[kind] = known.item

    def _kind(self, body: KindTool, place: str) -> None:
        self._client(body.type, place)

    def _shell(self, body: ShellTool, place: str) -> None:
        if (body.environment or {}).get("type", "local") == "local":
            self._client("shell", place)
        else:
            self._put(hosted_tool("shell", place), place)

    def _tool_search(self, body: ToolSearch, place: str) -> None:
        """The vendor's own search is not needed: every tool is shown at once."""
        if body.execution == "client":
            said = {"description": body.description, "schema": body.parameters}
            self._client("tool_search", place, **{name: value for name, value in said.items() if value})

    def _hosted(self, body: Raw, place: str) -> None:
        """Run by the vendor, or not known."""
        self._put(hosted_tool(str(body.value.get("type")), place), place)


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


def _description(body: ResponsesCustomTool) -> str:
    """The client's description of a custom tool, and the form that its input must have."""
    form = body.format
    if form is None or not form.definition:
        return body.description or ""
    rule = f"The input must match this grammar ({form.syntax or 'lark'}):\n{form.definition}"
    return _paragraphs(body.description, rule)


def _paragraphs(*texts: str | None) -> str:
    return "\n\n".join(filter(None, texts))


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
        return _known(_KINDS[kind], tools) if hosted is None and isinstance(kind, str) and kind in _KINDS else hosted
    inner = entry.get("function", entry)
    name = inner.get("name") if isinstance(inner, Mapping) else None
    if not isinstance(name, str):
        raise invalid(_PLACE, "expected the name of a tool")
    namespace = entry.get("namespace")
    return _known(flat_name(namespace, name) if isinstance(namespace, str) else name, tools)


def _known(name: str, tools: Tools) -> str:
    if name not in tools:
        raise invalid(_PLACE, f"no tool is named {name[:60]!r}")
    return name
