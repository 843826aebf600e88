"""Small requests that are made to cost much: the work grows with their size, and errors stay short."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from kiro_asgi.asgi.door.auth import Authenticator
from kiro_asgi.asgi.routing import Routes
from kiro_asgi.config import ClientSettings, Settings
from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.builtin import BUILTIN
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.upstreams.kiro.account import credential
from kiro_asgi.upstreams.kiro.models import FALLBACK
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream
from tests.asgi.driver import Exchange, get, http_scope, post
from tests.growth import assert_linear
from tests.helpers import at_once

HEAD = {"model": "claude-sonnet-4.5", "max_tokens": 10}
CREDENTIAL = credential("ksk_x", "", "", external_idp=False)
UPSTREAM = KiroUpstream()
DIALECTS = {"anthropic": AnthropicMessages(), "openai": OpenAIChat(), "responses": OpenAIResponses()}

Shape = Callable[[int], Any]


def calls(count: int, name: str) -> list[dict[str, Any]]:
    return [{"type": "tool_use", "id": name.format(at), "name": "t", "input": {}} for at in range(count)]


def results(count: int, name: str) -> list[dict[str, Any]]:
    return [{"type": "tool_result", "tool_use_id": name.format(at), "content": "r"} for at in range(count)]


def called(count: int, name: str = "c{}") -> dict[str, Any]:
    turns = [("user", "go"), ("assistant", calls(count, name)), ("user", results(count, name))]
    return {**HEAD, "messages": [{"role": role, "content": content} for role, content in turns]}


def parts(part: dict[str, Any]) -> Shape:
    return lambda n: {**HEAD, "messages": [{"role": "user", "content": [part] * n}]}


def turns(*turns: dict[str, Any]) -> Shape:
    return lambda n: {**HEAD, "messages": [turns[at % len(turns)] for at in range(n)]}


def items(*items: dict[str, Any]) -> Shape:
    return lambda n: {**HEAD, "input": [items[at % len(items)] for at in range(n)]}


HI = {"role": "user", "content": "hi"}
ANSWER = {"role": "assistant", "content": "ho"}
SHAPES: dict[str, tuple[str, Shape]] = {
    **{
        f"{dialect}-{name}": (dialect, shape)
        for dialect in ("anthropic", "openai")
        for name, shape in {
            "turns": turns(HI, ANSWER),
            "turns-of-one-role": turns(HI),
            "empty-turns": turns({"role": "user", "content": ""}, {"role": "assistant", "content": ""}),
            "parts": parts({"type": "text", "text": "a"}),
            "empty-parts": parts({"type": "text", "text": ""}),
            "unknown-parts": parts({"type": "nope"}),
            "wrong-turns": turns({"role": 3, "content": 7}),
            "unknown-members": lambda n: {**HEAD, "messages": [HI], **{f"k{at}": 1 for at in range(n)}},
        }.items()
    },
    "anthropic-system": (
        "anthropic",
        lambda n: {**HEAD, "messages": [HI], "system": [{"type": "text", "text": "a"}] * n},
    ),
    "anthropic-calls": ("anthropic", called),
    "anthropic-calls-of-one-id": ("anthropic", lambda n: called(n, "c")),
    "anthropic-orphans": (
        "anthropic",
        lambda n: {**HEAD, "messages": [{"role": "user", "content": results(n, "c{}")}]},
    ),
    "anthropic-tools": (
        "anthropic",
        lambda n: {**HEAD, "messages": [HI], "tools": [{"name": f"t{at}", "input_schema": {}} for at in range(n)]},
    ),
    "anthropic-tools-of-one-name": (
        "anthropic",
        lambda n: {**HEAD, "messages": [HI], "tools": [{"name": "t", "input_schema": {}}] * n},
    ),
    "responses-items": ("responses", items(HI, ANSWER)),
    "responses-items-of-one-role": ("responses", items(HI)),
    "responses-wrong-items": ("responses", items({"type": "nope"})),
    "responses-references": ("responses", items({"type": "item_reference", "id": "msg_1"})),
    "responses-metadata": (
        "responses",
        lambda n: {**HEAD, "input": "hi", "metadata": {f"k{at}": "v" for at in range(n)}},
    ),
    "responses-include": ("responses", lambda n: {**HEAD, "input": "hi", "include": ["x"] * n}),
}


@pytest.mark.parametrize(("dialect", "shape"), SHAPES.values(), ids=SHAPES)
def test_reading_and_putting_a_request_takes_linear_work(dialect, shape):
    """From its bytes to the service's words, or to the refusal."""

    def make(size: int) -> Callable[[], object]:
        body = json.dumps(shape(size)).encode()

        def work() -> object:
            try:
                return UPSTREAM.render(DIALECTS[dialect].parse(body).prompt, FALLBACK[0], CREDENTIAL, "")
            except KiroAsgiError as error:
                assert len(error.message) < 1_000
                return error

        return work

    make(10)()  # what is made once and kept, such as the readers of types
    assert_linear(make, 150)


def test_headers_take_linear_work():
    """Any number of headers, and of keys in them."""
    keys = Authenticator(Settings(client=ClientSettings(allow_anonymous=True)))

    def make(size: int) -> Callable[[], object]:
        return lambda: at_once(keys.identify(http_scope(headers=[("authorization", "Bearer x")] * size)))

    assert_linear(make, 500)


@pytest.mark.parametrize("path", ["/" * 100_000, "/v1/models/" + "m/" * 50_000, "/v1/responses/resp_" + "a" * 100_000])
def test_paths_take_linear_work(path):
    """However long they are."""

    def make(size: int) -> Callable[[], object]:
        def work() -> None:
            try:
                Routes(BUILTIN).find(http_scope("GET", path[: size * 100]))
            except KiroAsgiError:
                return

        return work

    assert_linear(make, 200)


MILLION = 1_000_000
LONG = {
    "path": lambda: get("/" + "x" * MILLION),
    "path-of-nuls": lambda: get("/" + "\0" * MILLION),
    "path-of-surrogates": lambda: get("/v1/models/" + "\ud800" * 10),
    "method-for-a-long-path": lambda: get("/v1/responses/resp_" + "a" * MILLION + "/cancel"),
    "method-for-a-path-of-surrogates": lambda: get("/v1/responses/resp_\udcff/cancel"),
    "method": lambda: Exchange(http_scope("X" * MILLION, "/v1/messages")),
    "response": lambda: get("/v1/responses/resp_" + "a" * MILLION),
    "model-in-path": lambda: get("/v1/models/" + "m" * MILLION),
    "model": lambda: post("/v1/chat/completions", {"model": "m" * MILLION, "messages": [HI]}),
    "model-of-controls": lambda: post("/v1/messages", {**HEAD, "model": "\x1b[31m\r\n" * 1000, "messages": [HI]}),
    "previous": lambda: post("/v1/responses", {**HEAD, "input": "hi", "previous_response_id": "resp_" + "x" * MILLION}),
    "query": lambda: get("/v1/responses/resp_1/input_items", query_string=b"a=1&" * (MILLION // 4)),
    "query-not-utf8": lambda: get("/v1/responses/resp_1/input_items", query_string=b"order=\xff"),
    "after": lambda: get("/v1/responses/resp_1/input_items", query_string=b"after=" + b"x" * MILLION),
    "key": lambda: get("/v1/models", key="k" * MILLION),
    "errors": lambda: post("/v1/messages", {**HEAD, "messages": [{"role": 3, "content": 7}] * 10_000}),
    "role": lambda: post("/v1/messages", {**HEAD, "messages": [{"role": "r" * MILLION, "content": "hi"}]}),
    "kind": lambda: post(
        "/v1/messages", {**HEAD, "messages": [{"role": "user", "content": [{"type": "t" * MILLION}]}]}
    ),
    "member": lambda: post("/v1/responses", {**HEAD, "input": "hi", "m" * MILLION: 1, "store": "s" * MILLION}),
    "number": lambda: post("/v1/messages", b'{"max_tokens":' + b"9" * MILLION + b',"model":"m","messages":[]}'),
    "length": lambda: Exchange(
        http_scope("POST", "/v1/messages", [("x-api-key", "k"), ("content-length", "x" * MILLION)])
    ),
    "encoding": lambda: Exchange(
        http_scope("POST", "/v1/messages", [("x-api-key", "k"), ("content-encoding", "x" * MILLION)])
    ),
}


@pytest.mark.anyio
@pytest.mark.parametrize("make", LONG.values(), ids=LONG)
async def test_what_is_long_is_not_repeated(make, gateway, caplog):
    """A refusal is a 4xx of less than 2 kB, in one line of the log, whatever the client wrote, and has no traceback."""
    caplog.set_level(logging.INFO)
    exchange = await make().run(gateway())

    assert 400 <= exchange.status < 500
    assert exchange.complete and len(exchange.content) < 2_000
    assert exchange.json()
    for record in caplog.records:
        assert record.exc_info is None
        assert len(record.getMessage()) < 3_000
    (line,) = [record.getMessage() for record in caplog.records if record.name == "kiro_asgi.access"]
    assert line.isascii() and line.isprintable()
