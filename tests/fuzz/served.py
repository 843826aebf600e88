"""The whole application under attack, asked through the ASGI interface."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import kiro_asgi.testing.grammar.messages as anthropic_grammar
import tests.dialects.openai_chat.grammar as openai_grammar
import tests.dialects.openai_responses.grammar as responses_grammar
from tests.asgi.driver import PATHS, Exchange, ask, http_scope, post
from tests.fuzz.house import HEAD, MODELS, chunks, house
from tests.fuzz.seeds import TOOL, requests
from tests.fuzz.source import Source, dumped
from tests.helpers import cut

__all__ = ["serve_answer", "serve_request"]

HEADS: Final = (
    HEAD,
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
    b"HTTP/1.1 400 No\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
    b"HTTP/1.1 429 No\r\nretry-after: 1\r\ncontent-type: %s\r\ntransfer-encoding: chunked\r\n\r\n",
    b"HTTP/1.1 103 Hm\r\n\r\nHTTP/1.1 200 OK\r\ncontent-type: %s\r\ntransfer-encoding: chunked\r\n\r\n",
)

CHECKS: Final[Mapping[str, Callable[[bytes], Any]]] = {
    "openai": openai_grammar.check,
    "anthropic": anthropic_grammar.check,
    "responses": responses_grammar.check,
}

TOOLS: Final[Mapping[str, Any]] = {
    "openai": {"type": "function", "function": {"name": "get_weather", "parameters": TOOL}},
    "anthropic": {"name": "get_weather", "input_schema": TOOL},
    "responses": {"type": "function", "name": "get_weather", "parameters": TOOL},
}


def serve_answer(service: str, wire: bytes, source: Source) -> None:
    """*wire*, as *service* says it, becomes an answer, or an error, in one of the APIs."""
    kind = b"application/vnd.amazon.eventstream" if service == "kiro" else b"text/event-stream"
    head = source.pick(HEADS) if source.below(4) == 3 else HEADS[0]
    sent = [head.replace(b"%s", kind), *chunks(cut(wire, source.cuts(len(wire))))]
    if source.below(4) != 3:
        sent.append(b"0\r\n\r\n")
    if source.below(8) == 7:
        sent = [source.edited(b"".join(sent))]
    place = house()
    place.script = sent
    api = source.pick(tuple(PATHS))
    stream = bool(source.below(2))
    exchange = place.run(ask(api, "x", stream=stream, model=MODELS[service], tools=[TOOLS[api]]))
    _check(api, exchange, stream=stream, passed=(api, service) in PASSED)


PASSED: Final = {("openai", "openai"), ("anthropic", "anthropic")}
"""APIs whose services' own bytes go through, whatever they are."""


def _check(api: str, exchange: Exchange, *, stream: bool, passed: bool = False) -> None:
    assert exchange.starts == 1
    assert exchange.complete, "the body does not end"
    assert exchange.status != 500, exchange.content
    json_body = exchange.headers["content-type"] == "application/json"
    if exchange.status != 200:
        assert 400 <= exchange.status < 600
        assert json_body and "error" in exchange.json()
    elif passed:
        return
    elif json_body:
        assert not stream
        exchange.json()
    else:
        assert stream
        broken = api == "anthropic" and b"\nevent: error\n" in b"\n" + exchange.content
        (anthropic_grammar.check_cut if broken else CHECKS[api])(exchange.content)


METHODS: Final = ("POST", "GET", "HEAD", "DELETE", "OPTIONS", "", "PÖST")
PLACES: Final = (
    *PATHS.values(),
    "/health",
    "/v1/models",
    "/v1/models/x%2Fy",
    "/v1/responses/resp_1",
    "/v1/responses/resp_1/input_items",
    "/v1/conversations",
    "/v1/conversations/conv_1/items/msg_1",
    "/v1/responses/input_tokens",
    "/v1/messages/count_tokens",
    "/",
    "",
    "//v1/messages",
    "/v1/messages/",
    "/llm/v1/messages",
)
HEADERS: Final = (
    b"authorization",
    b"x-api-key",
    b"content-type",
    b"content-length",
    b"content-encoding",
    b"anthropic-version",
    b"anthropic-beta",
    b"x-kiro-asgi-rules",
    b"x-request-id",
    b"transfer-encoding",
    b"accept",
)
VALUES: Final = (
    b"Bearer k",
    b"k",
    b"Bearer",
    b"application/json",
    b"gzip",
    b"99999999999999999999",
    b"-1",
    b"\xff\0",
    b"",
)
ODD: Final = ("null", '"staff"', "0", "[]", "{}", '{"is_authenticated": true}')

TEXTS: Final = ("root_path", "query_string")
"""Members of a scope that are text or bytes, if they are there at all."""


def serve_request(source: Source) -> int:
    """A request whose head, scope and body are odd becomes an answer; the size of it."""
    name = source.pick(tuple(PATHS))
    body = dumped(source.mutated(source.pick(requests(name)))) if source.below(2) else source.take(-1)
    exchange = post(source.pick(PLACES), body)
    headers = [(source.pick(HEADERS), source.pick(VALUES) or source.take(20)) for _ in range(source.below(5))]
    scope = http_scope(source.pick(METHODS), exchange.scope["path"])
    scope["headers"] = [*([] if source.below(4) == 3 else exchange.scope["headers"]), *headers]
    for key in ("user", "state", "root_path", "query_string", "client", "extensions"):
        match source.below(8):
            case 6 if key in TEXTS:
                scope[key] = source.take(8) if key == "query_string" else source.text()
            case 6:
                scope[key] = json.loads(source.pick(ODD))
            case 7:
                scope.pop(key, None)
    place = house()
    place.script = [b"HTTP/1.1 400 No\r\ncontent-length: 2\r\n\r\n{}"]
    exchange = Exchange(scope, cut(body, source.cuts(len(body))) if source.below(4) else [])
    if source.below(8) == 7 or not exchange.body:
        exchange.leave.set()
    place.run(exchange)
    if exchange.messages:
        assert exchange.starts == 1
        assert exchange.complete, "the body does not end"
        assert exchange.status != 500, exchange.content
    return len(body) + sum(len(name) + len(value) for name, value in scope["headers"])
