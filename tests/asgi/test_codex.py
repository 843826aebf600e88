"""The sign-in of the Codex command: its file, and the service that it is for, from every API."""

from __future__ import annotations

import json
import logging
from itertools import count
from time import time
from typing import Any

import pytest

from kiro_asgi import Settings, create_app
from kiro_asgi.asgi.exchange.explain import explain
from kiro_asgi.asgi.exchange.model_routes import Models
from kiro_asgi.errors import ConfigError
from kiro_asgi.simulator.server import Simulator
from tests.asgi.answers import ALL_DIALECTS, error_of, text_of
from tests.asgi.driver import Exchange, get, post
from tests.asgi.test_upstreams import ask
from tests.codex_files import ACCOUNT, jwt, signed_in, write
from tests.parts import part_of

pytestmark = pytest.mark.anyio

MODEL = "openai/gpt-5.2"
NUMBERS = count(1000)
LOGIN = "codex login"


@pytest.fixture
def token() -> str:
    """Another one for each test: those that were refused stay refused."""
    return jwt(next(NUMBERS))


@pytest.fixture
def file(tmp_path, token):
    return write(tmp_path / "auth.json", signed_in(token))


@pytest.fixture
def codex(gateway, sim, file):
    """A gateway with that file alone."""

    def make(**more: Any):
        slices = {"endpoint": f"{sim.url}/backend-api/codex", "credentials_file": str(file), **more}
        return gateway(openai=slices, fresh=True)

    return make


def chats(sim: Simulator) -> list[Any]:
    return [request for request in sim.requests if request.operation == "codex.chat"]


def gemini(prompt: str, *, stream: bool, **more: Any) -> Exchange:
    how = "streamGenerateContent" if stream else "generateContent"
    query = {"query_string": b"alt=sse"} if stream else {}
    contents = [{"role": "user", "parts": [{"text": prompt}]}]
    return post(f"/v1beta/models/{MODEL}:{how}", {"contents": contents, **more}, **query)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("dialect", [*ALL_DIALECTS, "gemini"])
async def test_every_api(dialect, stream, codex, sim, file, token):
    """Each is answered, streamed and whole, by a service that refuses what Codex's refuses; the file stays."""
    app, before = codex(), (file.read_bytes(), file.stat().st_mtime_ns)
    if dialect == "gemini":
        limits = {"generationConfig": {"maxOutputTokens": 999, "temperature": 0.5, "topP": 0.5}}
        exchange = await gemini("Count to 3", stream=stream, **limits).run(app)
        assert (exchange.status, b"3" in exchange.content) == (200, True)
    else:
        limit = {"max_output_tokens": 999} if dialect == "responses" else {"max_tokens": 999}
        exchange = await ask(dialect, MODEL, stream=stream, temperature=0.5, top_p=0.5, **limit).run(app)
        assert "3" in text_of(dialect, exchange)
    [request] = chats(sim)
    sent = request.json()

    assert (request.path, request.headers["chatgpt-account-id"]) == ("/backend-api/codex/responses", ACCOUNT)
    assert request.headers["authorization"] == f"Bearer {token}"
    assert request.headers["originator"] == "kiro-asgi"
    assert request.headers["user-agent"].startswith("kiro-asgi/")
    assert (sent["store"], sent["stream"], sent["instructions"]) == (False, True, "Answer the user.")
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before
    assert [it.name for it in file.parent.iterdir()] == ["auth.json"]


async def test_system_texts_are_the_instructions(codex, sim):
    """In place of our own; from the Responses API, system items as well."""
    items = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
    await post("/v1/responses", {"model": MODEL, "input": items}).run(codex())

    assert chats(sim)[-1].json()["instructions"] == "Be brief."


OWN = {
    "model": MODEL,
    "instructions": "Be brief.",
    "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]}],
    "store": False,
    "stream": True,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "conversation",
}
"""A request as the command itself makes it."""


@pytest.mark.parametrize(
    ("change", "relayed"),
    [
        ({}, True),
        ({"instructions": None, "input": [{"role": "developer", "content": "Be kind."}, *OWN["input"]]}, True),
        ({"stream": False}, False),
        ({"instructions": None}, False),
        ({"metadata": {"a": "b"}}, False),
        ({"service_tier": "auto"}, False),
        ({"some_new_field": 1}, False),
        ({"max_output_tokens": 99}, False),
        ({"temperature": 1}, False),
        ({"input": [{"role": "system", "content": "Be kind."}, *OWN["input"]]}, False),
        ({"input": "Hello"}, False),
    ],
    ids=str,
)
async def test_what_is_relayed(change, relayed, codex, sim):
    """A request goes on as it is only where the service takes it so; any other is translated, and answered."""
    exchange = await post("/v1/responses", {**OWN, **change}).run(codex())
    sent = chats(sim)[-1].json()

    assert exchange.status == 200
    assert (sent == {**OWN, **change, "model": "gpt-5.2"}) == relayed


async def test_models(codex, sim):
    """They are the account's own, asked for in the name of a version of the command."""
    listed = (await get("/v1/models").run(codex())).json()["data"]
    asked = [request for request in sim.requests if request.path == "/backend-api/codex/models"]

    assert {"gpt-5.2", "gpt-5.1-codex-max"} <= {model["id"] for model in listed}
    assert all(request.query.startswith("client_version=") for request in asked)
    assert asked


async def test_a_new_token_in_the_file(codex, sim, file, token):
    """It is used from then on, though the old one is good."""
    app = codex()
    await ask("openai", MODEL).run(app)
    newer = jwt(next(NUMBERS))
    write(file, signed_in(newer, account_id="acc-other"))
    with_time_between_looks(app)
    await ask("openai", MODEL).run(app)

    assert [request.headers["authorization"] for request in chats(sim)] == [f"Bearer {token}", f"Bearer {newer}"]
    assert chats(sim)[-1].headers["chatgpt-account-id"] == "acc-other"


def with_time_between_looks(app: Any) -> None:
    """As if a second had passed since the file was looked at."""
    for state in app_states(app):
        state._read_at = 0.0


def app_states(app: Any) -> Any:
    return part_of(app, Models)._providers["openai"].credentials._states


async def test_a_refused_token_is_read_again(codex, sim, file, token):
    """Within the same request, where the command has renewed it meanwhile, however recently the file was read."""
    app = codex()
    await ask("openai", MODEL).run(app)
    for _ in range(3):
        sim.revoke(token)
        token = jwt(next(NUMBERS))
        write(file, signed_in(token))
        assert "3" in text_of("openai", await ask("openai", MODEL).run(app))
        assert chats(sim)[-1].headers["authorization"] == f"Bearer {token}"


@pytest.mark.parametrize("dialect", ALL_DIALECTS)
async def test_a_refused_token_names_the_command(dialect, codex, sim, token, caplog):
    """The client and the log are told what renews it; no token is in either."""
    sim.revoke(token)
    with caplog.at_level(logging.DEBUG, "kiro_asgi"):
        exchange = await ask(dialect, MODEL).run(codex())

    assert (exchange.status, LOGIN in error_of(dialect, exchange)["message"]) == (502, True)
    assert LOGIN in caplog.text
    assert token not in caplog.text
    assert "canary" not in exchange.content.decode() + caplog.text


@pytest.mark.parametrize("dialect", ALL_DIALECTS)
async def test_an_expired_token_names_the_command(dialect, codex, sim, file):
    """It is not sent, and a renewed one in the file is used at once."""
    write(file, signed_in(jwt(next(NUMBERS), exp=int(time()) - 5)))
    app = codex()
    exchange = await ask(dialect, MODEL).run(app)
    assert (exchange.status, LOGIN in error_of(dialect, exchange)["message"]) == (502, True)
    assert not chats(sim)

    write(file, signed_in(jwt(next(NUMBERS))))
    with_time_between_looks(app)
    assert "3" in text_of(dialect, await ask(dialect, MODEL).run(app))


async def test_a_key_in_the_file(gateway, sim, tmp_path):
    """It is an ordinary key for the ordinary address, in an ordinary request."""
    path = write(tmp_path / "auth.json", {"auth_mode": "apikey", "OPENAI_API_KEY": "sk-canary-key"})
    app = gateway(openai={"endpoint": f"{sim.url}/v1", "credentials_file": str(path)}, fresh=True)
    await ask("openai", MODEL, max_tokens=99).run(app)
    request = next(it for it in sim.requests if it.operation == "responses.chat")

    assert request.headers["authorization"] == "Bearer sk-canary-key"
    assert "chatgpt-account-id" not in request.headers
    assert request.json()["max_output_tokens"] == 99


@pytest.mark.parametrize(("dialect", "status"), [("openai", 402), ("anthropic", 402), ("responses", 429)])
async def test_a_spent_limit(dialect, status, gateway, sim, file):
    """It is a spent quota until its reset, and rests the credential."""
    slices = {"endpoint": f"{sim.url}/backend-api/codex", "credentials_file": str(file)}
    app = gateway(openai=slices, fresh=True, retry={"quota_probe": 300.0})
    for _ in range(2):
        exchange = await ask(dialect, MODEL, "sim:quota").run(app)
        assert (exchange.status, "limit" in error_of(dialect, exchange)["message"]) == (status, True)
    assert len(chats(sim)) == 1
    [(_, fault, _)] = next(iter(app_states(app))).cooldowns()
    assert (fault.code, fault.retry_after) == ("usage_limit_reached", 3 * 86_400)


async def test_tools_and_thinking(codex, sim):
    """A call, its result and its thinking go back and forth."""
    tools = [{"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}]
    body = {"model": MODEL, "tools": tools, "reasoning": {"effort": "minimal"}, "input": "sim:tool=look {}"}
    app = codex()
    first = (await post("/v1/responses", body).run(app)).json()
    call = next(item for item in first["output"] if item["type"] == "function_call")
    history = [{"role": "user", "content": "Look"}, *first["output"]]
    history.append({"type": "function_call_output", "call_id": call["call_id"], "output": "done"})
    second = await post("/v1/responses", {**body, "input": history}).run(app)

    assert second.status == 200, second.content
    assert {json.loads(request.body)["reasoning"]["effort"] for request in chats(sim)} == {"low"}
    assert all(request.json()["include"] == ["reasoning.encrypted_content"] for request in chats(sim))


async def test_beside_a_key(gateway, sim, file, token):
    """Under a name of its own, where OpenAI itself is asked with a key; a request of the command is relayed, too."""
    codex = {"endpoint": f"{sim.url}/backend-api/codex", "credentials_file": str(file)}
    app = gateway(openai={"endpoint": f"{sim.url}/v1", "api_key": "sk-oai"}, custom={"codex": codex}, fresh=True)
    await post("/v1/responses", {**OWN, "model": "codex/gpt-5.2"}).run(app)
    await ask("openai", MODEL).run(app)

    assert chats(sim)[-1].json() == {**OWN, "model": "gpt-5.2"}
    assert chats(sim)[-1].headers["authorization"] == f"Bearer {token}"
    assert sim.requests[-1].headers["authorization"] == "Bearer sk-oai"


@pytest.mark.parametrize(
    ("more", "setting"),
    [
        ({"api_key": "sk-oai"}, "api_key"),
        ({"fallback_api_keys": ["sk-oai"]}, "fallback_api_keys"),
        ({"api": "chat"}, "api"),
    ],
)
def test_settings_that_do_not_go_together(more, setting):
    """The error names the one to remove; a table of one's own with a file needs no address."""
    with pytest.raises(ConfigError, match=rf"openai\.{setting}"):
        Settings.from_mapping({"openai": {"credentials_file": "auth.json", **more}})
    assert Settings.from_mapping({"custom": {"codex": {"credentials_file": "auth.json"}}}).custom["codex"].configured


def test_simulated():
    """No file is read then, wherever it would be."""
    create_app(Settings.from_mapping({"simulate": True, "custom": {"codex": {"credentials_file": "/nowhere"}}}))


def test_explained():
    """The request is shown as that service gets it, with the rules; the file is not read."""
    settings = Settings.from_mapping({"openai": {"credentials_file": "/nowhere"}})
    body = {"model": MODEL, "max_tokens": 99, "messages": [{"role": "user", "content": "Hello"}]}
    told = json.dumps(explain(json.dumps(body).encode(), settings, "openai_chat", None, None))

    assert "service.field" in told
    assert "service.instructions" in told
