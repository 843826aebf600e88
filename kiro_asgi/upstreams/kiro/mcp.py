"""The service's own tools, called by JSON-RPC at ``/mcp``; of them, its web search.

An answer wraps the pages twice: a JSON-RPC result holds a text, and the text is a JSON document.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from kiro_asgi.errors import RequestError, UpstreamFault, UpstreamProtocolError
from kiro_asgi.failures.texts import clean
from kiro_asgi.model.events import SearchHit
from kiro_asgi.upstreams.base import UpstreamRequest
from kiro_asgi.upstreams.kiro.hosts import MCP
from kiro_asgi.wire.json import JsonError, dumps, loads, object_of, objects_of

INVALID_PARAMS: Final = -32602
"""Error code of JSON-RPC for arguments that do not fit.  Source: https://www.jsonrpc.org/specification"""

LAST_SECOND: Final = 253_402_300_799
"""Of the year 9999."""


def search_request(
    base: str, profile_arn: str, headers: tuple[tuple[bytes, bytes], ...], query: str, call_id: str
) -> UpstreamRequest:
    """Ask for a web search at *base*; *headers* are sent as they are, *call_id* comes back with the answer."""
    if profile_arn:
        headers = (*headers, (b"x-amzn-kiro-profile-arn", profile_arn.encode()))
    call = {
        "id": f"web_search_{call_id}",
        "jsonrpc": "2.0",
        "method": "tools/call",
        "params": {"name": "web_search", "arguments": {"query": query}},
    }
    return UpstreamRequest("POST", base + MCP, ((b"content-type", b"application/json"), *headers), dumps(call))


def parse_search(body: bytes) -> tuple[SearchHit, ...]:
    """The pages of an answer, best first; those without an address that a browser could open are skipped.

    Raises:
        RequestError: The service does not take the query.
        UpstreamError: Any other failure, be it of JSON-RPC, of the tool or of the search.
    """
    answer = _object(body)
    error = answer.get("error")
    if error:
        raise _rpc_error(object_of(error))
    result = object_of(answer.get("result"))
    text = "\n".join(_texts(result))
    if result.get("isError"):
        raise _failed(text)
    found = _object(text)
    if found.get("error"):
        raise _failed(str(found["error"]))
    if type(found.get("results")) is not list:
        raise _malformed()
    return tuple(_hits(found["results"]))


def _rpc_error(error: Mapping[str, Any]) -> RequestError | UpstreamFault:
    if error.get("code") == INVALID_PARAMS:
        return RequestError(
            f"the web search does not take the query: {_explanation(error.get('message'))}", code="mcp.query"
        )
    return _failed(error.get("message"))


def _failed(message: Any) -> UpstreamFault:
    return UpstreamFault(f"the web search failed: {_explanation(message)}", code="mcp.error")


def _explanation(message: Any) -> str:
    return (clean(message) if type(message) is str else "") or "no explanation"


def _malformed() -> UpstreamProtocolError:
    return UpstreamProtocolError("the answer of the web search is unreadable", code="mcp.malformed")


def _object(data: bytes | str) -> Mapping[str, Any]:
    try:
        value = loads(data)
    except JsonError:
        raise _malformed() from None
    if type(value) is not dict:
        raise _malformed()
    return value


def _texts(result: Mapping[str, Any]) -> Iterator[str]:
    for part in objects_of(result.get("content")):
        if part.get("type") == "text" and type(part.get("text")) is str:
            yield part["text"]


def _hits(results: Iterable[Any]) -> Iterator[SearchHit]:
    for page in map(object_of, results):
        url = _line(page, "url")
        if url.lower().startswith(("http://", "https://")):
            yield SearchHit(_line(page, "title") or url, url, _line(page, "snippet"), _date(page.get("publishedDate")))


def _line(page: Mapping[str, Any], key: str) -> str:
    """A member as one line."""
    value = page.get(key)
    return " ".join(value.split()) if type(value) is str else ""


def _date(milliseconds: Any) -> str:
    if type(milliseconds) not in (int, float) or not 0 < milliseconds <= 1000 * LAST_SECOND:
        return ""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).date().isoformat()
