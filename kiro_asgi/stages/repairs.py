"""Which stages an answer needs for tool calls that arrive broken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from kiro_asgi.stages.arguments import ArgumentRepairs, Rename
from kiro_asgi.stages.parts.written_forms import Form
from kiro_asgi.stages.tool_spelling import MCP, ToolSpelling
from kiro_asgi.stages.written_calls import MCP_XML, WrittenCalls, leaked_forms

__all__ = ["Repairs"]


@frozen(kw_only=True)
class Repairs:
    """Repairs for the client's tools; none where there are no tools, or where nothing is switched on.

    A stage that has nothing to do is no stage: each property is ``None`` then.
    """

    schemas: Mapping[str, Mapping[str, Any]] = field(factory=dict)
    """JSON Schemas of arguments by the client's name of the tool."""

    aliases: Mapping[str, str] = field(factory=dict)
    """Name on the wire to the client's name: what the model knows a tool by."""

    renames: tuple[Rename, ...] = ()
    twins: bool = False
    decode: bool = False
    drop_unknown: bool = False
    mcp_bridge: bool = False
    spelling: bool = False
    leaked_calls: bool = False
    call_ids: frozenset[str] = frozenset()
    """Those that the conversation has used."""

    @property
    def written_calls(self) -> WrittenCalls | None:
        """Reads calls out of the text."""
        forms: list[Form] = [MCP_XML] if self.mcp_bridge and self._has_mcp else []
        if self.leaked_calls and self.schemas:
            known = {wire for wire, name in self.aliases.items() if name in self.schemas}
            forms += leaked_forms(known | set(self.schemas))
        return WrittenCalls(tuple(forms), self.call_ids) if forms else None

    @property
    def tool_spelling(self) -> ToolSpelling | None:
        """Corrects names."""
        return ToolSpelling(self.schemas) if self.spelling and self._has_mcp else None

    @property
    def arguments(self) -> ArgumentRepairs | None:
        """Puts arguments right, of calls that come whole."""
        if not self.schemas or not (self.renames or self.twins or self.decode or self.drop_unknown):
            return None
        return ArgumentRepairs(
            schemas=self.schemas,
            renames=self.renames,
            twins=self.twins,
            decode=self.decode,
            drop_unknown=self.drop_unknown,
        )

    @property
    def _has_mcp(self) -> bool:
        return any(name.startswith(MCP) for name in self.schemas)
