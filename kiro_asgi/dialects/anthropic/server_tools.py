"""Tools that run on the server, in this API's form: their calls, their results, and both when they come back.

A call and its result are blocks of the answer.  For a kind of tool that the API does not have there is no such block;
its result is sent as text alone.

Source: https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/web-search-tool
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from kiro_asgi.dialects.anthropic.shapes import API
from kiro_asgi.model.events import (
    UNAVAILABLE,
    WEB_SEARCH,
    OpaqueBlock,
    SearchHit,
    ServerCall,
    ServerResult,
    ToolOutput,
)
from kiro_asgi.model.prompt import Part, Text, ThinkingPart, ToolCallPart, ToolResult
from kiro_asgi.model.signatures import CALL, read_mark
from kiro_asgi.wire.json import dumps, object_of, objects_of, text_of

_PLAIN: Final = "plain."
"""How ``encrypted_content`` begins that is ours: base64 of the snippet, open to everybody."""


def has_shape(block: object) -> bool:
    """Whether this API has a form for *block*."""
    if isinstance(block, OpaqueBlock):
        return block.unread.api == API
    call = block.call if isinstance(block, ServerResult) else block
    return not isinstance(call, ServerCall) or call.kind in _SHAPES or _origin(call) is not None


def render_server_block(block: ServerCall | ServerResult) -> dict[str, Any]:
    """A call or a result; it `has_shape`.  One of this API is written as it came."""
    origin = _origin(block)
    if origin is not None:
        return dict(origin)
    if isinstance(block, ServerCall):
        return {"type": "server_tool_use", "id": _id(block), "name": block.kind, "input": dict(block.input)}
    kind = block.call.kind
    return {"type": f"{kind}_tool_result", "tool_use_id": _id(block.call), "content": _content(block)}


def _origin(block: ServerCall | ServerResult) -> Mapping[str, Any] | None:
    return block.origin.members if block.origin is not None and block.origin.api == API else None


def tally(blocks: Iterable[object]) -> dict[str, Any]:
    """Members of ``usage`` for the server tools that succeeded; empty where none did."""
    results = (block for block in blocks if isinstance(block, ServerResult))
    kinds = [result.call.kind for result in results if not result.output.error_code]
    counts = {f"{kind}_requests": kinds.count(kind) for kind in (WEB_SEARCH, "web_fetch")}
    return {"server_tool_use": counts} if any(counts.values()) else {}


def _id(call: ServerCall) -> str:
    """The call's id in the form that clients check."""
    return "srvtoolu_" + re.sub(r"^(?:srvtoolu|tooluse|toolu|call)_|[^A-Za-z0-9_]", "", call.call_id)


def _content(result: ServerResult) -> Any:
    kind, code = result.call.kind, result.output.error_code
    shape = _SHAPES[kind]
    if code:
        known = code if code in shape.codes else UNAVAILABLE
        return {"type": f"{kind}_tool_result_error", "error_code": known}
    return shape.content(result)


def _pages(result: ServerResult) -> list[dict[str, Any]]:
    return [
        {
            "type": "web_search_result",
            "title": hit.title,
            "url": hit.url,
            "encrypted_content": hit.encrypted_content or _plain(hit.snippet),
            "page_age": hit.published or None,
        }
        for hit in result.output.hits
    ]


def _plain(snippet: str) -> str:
    return _PLAIN + b64encode(snippet.encode("utf-8", "replace")).decode()


def _page(result: ServerResult) -> dict[str, Any]:
    source = {"type": "text", "media_type": "text/plain", "data": result.output.told}
    return {
        "type": "web_fetch_result",
        "url": str(result.call.input.get("url", "")),
        "content": {"type": "document", "source": source, "title": None},
        "retrieved_at": None,
    }


def _run(result: ServerResult) -> dict[str, Any]:
    output = result.output.told
    return {"type": "code_execution_result", "stdout": output, "stderr": "", "return_code": 0, "content": []}


@frozen
class _Shape:
    content: Callable[[ServerResult], Any]
    """The content of the result block."""

    codes: frozenset[str]
    """The error codes that clients know."""


_COMMON: Final = frozenset({UNAVAILABLE, "invalid_tool_input", "too_many_requests"})

_SHAPES: Final = MappingProxyType(
    {
        WEB_SEARCH: _Shape(_pages, _COMMON | {"max_uses_exceeded", "query_too_long", "request_too_large"}),
        "web_fetch": _Shape(_page, _COMMON | {"max_uses_exceeded", "url_not_allowed", "url_not_accessible"}),
        "code_execution": _Shape(_run, _COMMON | {"execution_time_exceeded"}),
    }
)


# On the way back.


def parse_result(call_id: str, content: Any) -> ToolResult:
    """A result block of an earlier answer, ours or another server's."""
    if isinstance(content, list):
        hits = tuple(_hits(content))
        text = ToolOutput(hits).told if len(hits) == len(content) else dumps(content).decode()
        return ToolResult(call_id, (Text(text),), block=_sealed(call_id, content))
    result = object_of(content)
    failed = text_of(result, "type").endswith("_error")
    text = text_of(result, "text") if result.keys() == {"type", "text"} else ""
    return ToolResult(call_id, (Text(text or dumps(content).decode()),), failed)


def _sealed(call_id: str, content: list[Any]) -> Mapping[str, Any] | None:
    """The block, if all that it holds is sealed by the service that has searched."""
    pages = [page for page in objects_of(content) if page.get("type") == "web_search_result"]
    seals = [text_of(page, "encrypted_content") for page in pages]
    if not content or len(pages) < len(content) or not all(seal and not seal.startswith(_PLAIN) for seal in seals):
        return None
    return {"type": "web_search_tool_result", "tool_use_id": call_id, "content": content}


def _hits(content: list[Any]) -> Iterator[SearchHit]:
    for item in content:
        if isinstance(item, Mapping) and item.get("type") == "web_search_result":
            sealed = item.get("encrypted_content")
            title, url, age = (str(item.get(key) or "") for key in ("title", "url", "page_age"))
            yield SearchHit(title, url, _opened(sealed) if isinstance(sealed, str) else "", age)


def _opened(sealed: str) -> str:
    """The snippet, where we put it there; the content that others sealed only they can read."""
    if not sealed.startswith(_PLAIN):
        return ""
    try:
        return b64decode(sealed.removeprefix(_PLAIN), validate=True).decode()
    except (binascii.Error, ValueError):
        return ""


def answered_in_place(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The parts of an assistant's turn in an order in which a conversation could have come to them.

    Results stand behind their calls, and calls that the client is to answer at the end, with what is signed for them.
    Text that only repeats a result is left out.
    """
    results = {part.call_id: part for part in parts if isinstance(part, ToolResult)}
    if not results:
        return parts
    called = {part.call_id for part in parts if isinstance(part, ToolCallPart)}
    repeated = {part for result in results.values() for part in result.parts}
    ordered: list[Part] = []
    unanswered: list[Part] = []
    for part in parts:
        if isinstance(part, ToolCallPart) and part.call_id in results:
            ordered += [part, results[part.call_id]]
        elif isinstance(part, ToolCallPart):
            if ordered and _signs_a_call(ordered[-1]):
                unanswered.append(ordered.pop())
            unanswered.append(part)
        elif part not in repeated and not (isinstance(part, ToolResult) and part.call_id in called):
            ordered.append(part)
    return *ordered, *unanswered


def _signs_a_call(part: Part) -> bool:
    return isinstance(part, ThinkingPart) and read_mark(part.signature).part == CALL
