"""Searches that the service runs itself.

Source: https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/web-search-tool
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import define, field

from kiro_asgi.model.events import Delta, Notice, ServerCall, ServerResult
from kiro_asgi.model.server_tools import UNAVAILABLE, SearchHit, ToolOutput
from kiro_asgi.upstreams.replies import clean
from kiro_asgi.wire.members import text_of

__all__ = ["Searches"]


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
    return SearchHit(text_of(page, "title"), text_of(page, "url"), published=text_of(page, "page_age"))
