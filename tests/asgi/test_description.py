"""``/openapi.json``: everything that is served is in it, and what it says of a body is what its reader takes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from kiro_asgi import create_app
from kiro_asgi.apis.description import Description
from kiro_asgi.apis.gateway import GatewayOperations
from kiro_asgi.asgi.routing import DESCRIPTION, GATEWAY, GREETINGS, new_dialects
from kiro_asgi.config import Settings
from kiro_asgi.dialects.base import DescribedDialect
from kiro_asgi.dialects.builtin import BUILTIN
from kiro_asgi.dialects.manifest import REFUSE, WEBSOCKET
from kiro_asgi.dialects.structure import make_converter, structure_value
from kiro_asgi.errors import RequestError
from kiro_asgi.tapes import load_tapes
from tests.asgi.conftest import settings_for
from tests.asgi.driver import Exchange, http_scope, post
from tests.cli.processes import serving
from tests.examples import example

pytestmark = pytest.mark.anyio

CORPUS = Path(__file__).parents[1] / "tapes" / "corpus"
SOCKETS = [it.path for api in BUILTIN for it in api.routes if it.method == WEBSOCKET]
OLLAMA = example("ollama_dialect").OLLAMA


async def described(app: Any, **scope: Any) -> dict[str, Any]:
    sent = [("authorization", "Bearer k"), ("host", "llm.example")]
    exchange = await Exchange(http_scope("GET", scope.pop("path", "/openapi.json"), sent, **scope)).run(app)
    assert exchange.status == 200, exchange.content
    assert exchange.headers["content-type"] == "application/json"
    return dict(exchange.json())


@cache
def document(*keys: str) -> dict[str, Any]:
    """That of an application with all APIs of the package, which needs a key."""
    dialects = new_dialects(Settings())
    names = ((b"authorization", b"x-api-key"), ("key",))
    made = Description(dialects, (*GATEWAY, DESCRIPTION), GatewayOperations, *names, True)
    return made.document("https://llm.example")


async def test_a_validator_takes_it(gateway) -> None:
    """With an API from outside, that the same holds for."""
    validator = pytest.importorskip("openapi_spec_validator", reason="needs it, as tox -e deployment has it")
    outside = create_app(settings_for("http://127.0.0.1:9", {"openapi": "on"}), dialects=[OLLAMA])

    for made in (await described(gateway(openapi="on")), await described(outside), document()):
        validator.validate(made)
        assert made["openapi"] == "3.1.0"
    await outside.aclose()


async def test_every_path_that_is_served_is_there(gateway) -> None:
    """And none that is not: but for those where there is only a reason why there is nothing."""
    told = {(method.upper(), path) for path, methods in document()["paths"].items() for method in methods}
    served = set()
    for endpoint in [it for api in BUILTIN for it in api.routes if it.operation != REFUSE] + [*GATEWAY, DESCRIPTION]:
        path = re.sub(r"\{(\w+)(:path)?\}", r"{\1}", endpoint.path)
        method = "GET" if endpoint.method == WEBSOCKET else endpoint.method
        served |= {(method, f"{path}:{verb}" if verb else path) for verb in endpoint.verbs or ("",)}

    assert told == served
    app = gateway(openapi="on", client={"allow_anonymous": True, "api_keys": ()})
    for method, path in sorted(told - {(it.method, it.path) for it in GREETINGS}):
        body = b"{}" if method == "POST" else b""
        exchange = await Exchange(http_scope(method, re.sub(r"\{\w+\}", "x", path)), [body]).run(app)
        said = exchange.content.decode()
        assert "there is nothing at" not in said, (method, path)
        assert exchange.status != 405 or path in SOCKETS, (method, path)


def test_each_operation_says_what_it_does() -> None:
    """In a sentence of its own, under an id that no other has."""
    operations = [it for methods in document()["paths"].values() for it in methods.values()]

    assert all(re.fullmatch(r"[A-Z].*\.", it["summary"]) for it in operations)
    ids = [it["operationId"] for it in operations]
    assert len(set(ids)) == len(ids)


async def test_it_needs_a_key_where_the_apis_do(gateway) -> None:
    """And is not there where it is not switched on."""
    on, sent = gateway(openapi="on"), [("authorization", "Bearer k")]

    assert (await Exchange(http_scope("GET", "/openapi.json")).run(on)).status == 401
    assert (await Exchange(http_scope("POST", "/openapi.json", sent)).run(on)).status == 405
    for app in (gateway(), gateway(openapi="off")):
        assert (await Exchange(http_scope("GET", "/openapi.json", sent)).run(app)).status == 404
    open_to_all = await described(gateway(openapi="on", client={"allow_anonymous": True, "api_keys": ()}))
    assert {} in open_to_all["security"]
    assert {} not in (await described(on))["security"]


async def test_where_it_is(gateway) -> None:
    """Below the prefix and behind the proxy, as its reader has reached it."""
    app = gateway(openapi="on")

    plain = await described(app)
    mounted = await described(app, path="/llm/openapi.json", root_path="/llm", scheme="https")
    assert [it["servers"] for it in (plain, mounted)] == [
        [{"url": "http://llm.example"}],
        [{"url": "https://llm.example/llm"}],
    ]


async def test_a_key_is_shown_as_it_is_told(gateway) -> None:
    """Each way of the description lets a client in."""
    app, made = gateway(openapi="on"), await described(gateway(openapi="on"))
    schemes = made["components"]["securitySchemes"]

    assert [next(iter(it)) for it in made["security"]] == [*schemes]
    for scheme in schemes.values():
        parameter = scheme.get("in") == "query"
        headers = (
            [] if parameter else [(scheme.get("name", "authorization"), "Bearer k" if "scheme" in scheme else "k")]
        )
        query = f"{scheme['name']}=k".encode() if parameter else b""
        exchange = await Exchange(http_scope("GET", "/v1/models", headers, query_string=query)).run(app)
        assert exchange.status == 200, scheme


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/completions"])
async def test_an_error_has_the_form_of_its_example(gateway, path: str) -> None:
    """Of the same members."""
    content = document()["paths"][path]["post"]["responses"]["default"]["content"]["application/json"]
    exchange = await post(path, {}).run(gateway())

    assert exchange.status == 400
    assert shape_of(content["example"]) == shape_of(exchange.json())


def shape_of(value: Any) -> Any:
    return {name: shape_of(it) for name, it in value.items()} if isinstance(value, dict) else None


async def test_an_api_from_outside() -> None:
    """Its own operations in their own words, its requests by the class that reads them, its constants as they are."""
    app = create_app(settings_for("http://127.0.0.1:9", {"openapi": "on"}), dialects=[OLLAMA])
    made = await described(app)
    await app.aclose()

    chat = made["paths"]["/api/chat"]["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    assert "messages" in made["components"]["schemas"][chat.rpartition("/")[2]]["properties"]
    version = made["paths"]["/api/version"]["get"]["responses"]["200"]["content"]["application/json"]
    assert [*version["example"]] == ["version"]


def test_serve_has_it(tmp_path: Path) -> None:
    """Unless it is off."""
    with serving("--simulate", cwd=tmp_path) as server, urlopen(f"{server.base}/openapi.json") as answer:
        assert json.load(answer)["servers"] == [{"url": server.base}]
    with (
        serving("--simulate", cwd=tmp_path, KIRO_ASGI__OPENAPI="off") as server,
        pytest.raises(HTTPError, match="404"),
    ):
        urlopen(f"{server.base}/openapi.json")


# What it says of bodies.


@frozen
class Kind:
    """A body of an API, and both verdicts on one."""

    api: str
    operation: str

    def read(self, value: Any) -> bool:
        """Whether the reader takes *value*."""
        shape, converter = reading(self.api, self.operation)
        try:
            structure_value(value, shape, converter=converter)
        except RequestError:
            return False
        return True

    @property
    def validator(self) -> Draft202012Validator:
        """Of the schema."""
        return validator_of(f"{self.api}.{reading(self.api, self.operation)[0].__name__}")


@cache
def reading(api: str, operation: str) -> tuple[type, Any]:
    """The class of a body, and what reads it."""
    (dialect,) = (it for manifest, it in new_dialects(Settings()).items() if manifest.name == api)
    assert isinstance(dialect, DescribedDialect)
    body = dialect.bodies[operation]
    return body.shape, make_converter(*body.unions)


@cache
def validator_of(name: str) -> Draft202012Validator:
    root = {"$ref": f"#/components/schemas/{name}", "components": document()["components"]}
    return Draft202012Validator(root)


KINDS = {
    "/v1/messages": Kind("anthropic", "answer"),
    "/v1/messages/count_tokens": Kind("anthropic", "count"),
    "/v1/chat/completions": Kind("openai_chat", "answer"),
    "/v1/responses": Kind("openai_responses", "answer"),
    "/v1/conversations": Kind("openai_responses", "make_conversation"),
}


def recorded() -> Iterator[tuple[str, Any]]:
    """Requests of official SDKs and of real clients, which the gateway has answered."""
    for tape in load_tapes(CORPUS):
        path, body = tape.request.text("path"), tape.request.data
        if body and (path in KINDS or path.endswith("enerateContent")):
            yield path, json.loads(body)


REQUESTS = [*recorded()]


def test_requests_of_real_clients_fit() -> None:
    """Each on a tape that was answered, Gemini's in its documented spelling."""
    assert {path for path, _ in REQUESTS} > {"/v1/messages", "/v1/chat/completions", "/v1/responses"}
    for path, body in REQUESTS:
        checker = KINDS[path].validator if path in KINDS else validator_of("gemini.GenerateBody")
        assert [f"{it.json_path}: {it.message[:200]}" for it in checker.iter_errors(body)] == [], path


VALUES = st.sampled_from([None, True, 0, 1.5, -1, "", "text", "auto", [], [{}], {}, {"type": "text"}, {"type": "no"}])


@st.composite
def changed(draw: st.DrawFn, value: Any, depth: int = 0) -> Any:
    """*value* with something in it that may not be legal."""
    if depth > 3 or not isinstance(value, dict | list) or not value or draw(st.integers(0, 4)) == 0:
        return draw(VALUES)
    if isinstance(value, list):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], draw(changed(value[at], depth + 1)), *value[at + 1 :]]
    name = draw(st.sampled_from(sorted(value)))
    if draw(st.booleans()):
        return {**value, name: draw(changed(value[name], depth + 1))}
    return {each: it for each, it in value.items() if each != name}


OWN = [(path, body) for path, body in REQUESTS if path in KINDS and len(json.dumps(body)) < 20_000]


@given(st.data())
@settings(max_examples=200)
def test_the_schema_takes_what_the_reader_takes(data: st.DataObject) -> None:
    """Whatever is changed in a request."""
    path, body = data.draw(st.sampled_from(OWN))
    value = data.draw(changed(body))
    kind = KINDS[path]

    assert kind.validator.is_valid(value) == kind.read(value), value
