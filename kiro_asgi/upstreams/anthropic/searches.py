"""Searches that the service runs itself.

Source: https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/web-search-tool
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import define, evolve, field

from kiro_asgi.model.events import Delta, Notice, ServerCall, ServerResult
from kiro_asgi.model.prompt import Part, Role, Text, ToolCallPart, ToolResult, Turn
from kiro_asgi.model.server_tools import UNAVAILABLE, WEB_SEARCH, SearchHit, ToolOutput
from kiro_asgi.upstreams.errors import clean
from kiro_asgi.wire.members import text_of

__all__ = ["Searches", "told_again"]

_PREFIX: Final = "srvtoolu_"
"""How the service's ids of its own calls begin; it takes no other."""


@define
class Searches:
    """The calls of one answer that the service runs, so that results find theirs."""

    _calls: dict[str, ServerCall] = field(init=False, factory=dict)

    def called(self, call: ServerCall) -> Iterator[Delta]:
        """A call."""
        self._calls[call.call_id] = call
        yield call

    def answered(self, block: Mapping[str, Any]) -> Iterator[Delta]:
        """The result that *block* is, once."""
        call = self._calls.pop(text_of(block, "tool_use_id"), None)
        if call is None:
            yield Notice("result.stray", clean(text_of(block, "type"))[:60])
        else:
            yield ServerResult(call, _output(block.get("content")))


def _output(content: Any) -> ToolOutput:
    """What was found; the model reads it, and says in its own words what it makes of it."""
    if type(content) is not list:
        code = text_of(content, "error_code") if type(content) is dict else ""
        return ToolOutput(error_code=code or UNAVAILABLE, reworded=True)
    return ToolOutput(tuple(map(_hit, (it for it in content if type(it) is dict))), reworded=True)


def _hit(page: Mapping[str, Any]) -> SearchHit:
    title, url, age, sealed = (text_of(page, name) for name in ("title", "url", "page_age", "encrypted_content"))
    return SearchHit(title, url, published=age, encrypted_content=sealed)


# On the way back.


def told_again(turn: Turn) -> Turn:
    """*turn* with what its searches gave as the service sealed it, and their calls as calls of the service."""
    found = {part.call_id for part in turn.parts if type(part) is ToolResult and part.block}
    if not found or turn.role is not Role.ASSISTANT:
        return turn
    called = {part.call_id for part in turn.parts if type(part) is ToolCallPart}
    ids = frozenset(each for each in found & called if each.startswith(_PREFIX))
    return evolve(turn, parts=tuple(_told(part, ids) for part in turn.parts))


def _told(part: Part, ids: frozenset[str]) -> Part:
    """A block as it is, where *part* belongs to a search whose id is in *ids*."""
    if type(part) is ToolCallPart and part.call_id in ids:
        call = {"type": "server_tool_use", "id": part.call_id, "name": WEB_SEARCH, "input": dict(part.input)}
        return Text("", part.cache, block=call)
    if type(part) is ToolResult and part.block and part.call_id in ids:
        return Text("", part.cache, block=part.block)
    return part
