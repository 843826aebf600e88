"""The tools of a request: as functions for the model, and how the calls of each come back.

What the vendor's servers would run is taken with its kind, see `kiro_asgi.dialects.hosted`.

Source: https://platform.openai.com/docs/guides/tools
"""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType
from typing import Any, Final

from attrs import define, evolve, field

from kiro_asgi.dialects.hosted import SEARCH_TOOL, hosted_tool
from kiro_asgi.dialects.openai_responses.calls import CLIENT_TOOLS, custom_schema, flat_name
from kiro_asgi.dialects.openai_responses.tool_shapes import (
    CustomTool,
    Function,
    FunctionTool,
    KindTool,
    Namespace,
    SearchTool,
    ShellTool,
    ToolBody,
    ToolSearch,
)
from kiro_asgi.dialects.refusals import invalid, missing
from kiro_asgi.dialects.structure import Raw
from kiro_asgi.model.prompt import Tool

__all__ = ["Toolbox"]


@define
class Toolbox:
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

    def _function(self, body: FunctionTool, place: str) -> str:
        function = body.function
        if function is None:
            if body.name is None:
                raise missing(f"{place}.name", "required field missing")
            function = Function(body.name, body.description, body.parameters)
        tool = Tool(function.name, function.description or "", function.parameters or {}, place=place)
        return self._put(tool, place)

    def _custom(self, body: CustomTool, place: str) -> str:
        schema = custom_schema("The whole input, as plain text.")
        name = self._put(Tool(body.name, _description(body), schema, place=place), place)
        self.custom |= {name} if name else set()
        return name

    def _namespace(self, body: Namespace, place: str) -> None:
        if not body.name:
            raise invalid(f"{place}.name", "empty")
        inner = Toolbox()
        inner.add(body.tools, f"{place}.tools")
        for name, tool in inner.tools.items():
            flat, told = flat_name(body.name, name), _paragraphs(body.description, tool.description)
            if self._put(evolve(tool, name=flat, description=told), place):
                self.namespaces[flat] = body.name, name
                self.custom |= {flat} if name in inner.custom else set()

    def _search(self, body: SearchTool, place: str) -> None:
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
        FunctionTool: Toolbox._function,
        CustomTool: Toolbox._custom,
        Namespace: Toolbox._namespace,
        SearchTool: Toolbox._search,
        ToolSearch: Toolbox._tool_search,
        ShellTool: Toolbox._shell,
        KindTool: Toolbox._kind,
        Raw: Toolbox._hosted,
    }
)


def _description(body: CustomTool) -> str:
    """What the client says of a custom tool, and what its input must look like."""
    form = body.format
    if form is None or not form.definition:
        return body.description or ""
    rule = f"The input must match this grammar ({form.syntax or 'lark'}):\n{form.definition}"
    return _paragraphs(body.description, rule)


def _paragraphs(*texts: str | None) -> str:
    return "\n\n".join(filter(None, texts))
