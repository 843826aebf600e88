"""Bedrock behind a gateway, as the simulator plays it: over a real socket, on both event loops, in every client API."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from kiro_asgi import App, create_app, simulator
from kiro_asgi.errors import ConfigError
from kiro_asgi.simulator.request import SECRET_ACCESS_KEY
from tests.asgi.driver import get, post

pytestmark = pytest.mark.anyio

CLAUDE = "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0"
NOVA = "bedrock/amazon.nova-pro-v1:0"

TOOL = {"name": "look", "description": "Look around.", "input_schema": {"type": "object", "properties": {}}}


@pytest.fixture
async def service() -> AsyncIterator[simulator.Simulator]:
    async with simulator.serve(port=0) as sim:
        yield sim


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[None]:
    """Nothing of this machine's own AWS account counts."""
    for name in ("AWS_BEARER_TOKEN_BEDROCK", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    yield


def gateway(service: simulator.Simulator, **more: Any) -> App:
    bedrock = {"api_key": "bedrock-key", "region": "us-east-1", "endpoint": service.url, **more}
    return create_app({"client": {"allow_anonymous": True}, "bedrock": bedrock})


async def ask(app: App, model: str, *messages: Any, **more: Any) -> dict[str, Any]:
    """What an answer says, by the Messages API."""
    body = {"model": model, "max_tokens": 2000, "messages": list(messages), **more}
    exchange = await post("/v1/messages", body).run(app)
    assert exchange.status == 200, exchange.content
    found: dict[str, Any] = json.loads(exchange.content)
    return found


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.mark.parametrize("model", [CLAUDE, NOVA])
@pytest.mark.parametrize("claude_api", ["invoke", "converse"])
async def test_a_conversation_with_thinking_and_tools(
    service: simulator.Simulator, model: str, claude_api: str
) -> None:
    """Two turns with thinking and a call: the second, with its result, is one that the service takes."""
    app = gateway(service, claude_api=claude_api)
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}} if model == CLAUDE else {}
    question = user("sim:thinking-tool=look" if thinking else "sim:tool=look")
    first = await ask(app, model, question, tools=[TOOL], **thinking)
    assert first["stop_reason"] == "tool_use"
    calls = [block for block in first["content"] if block["type"] == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": call["id"], "content": "a door"} for call in calls]

    second = await ask(
        app,
        model,
        question,
        {"role": "assistant", "content": first["content"]},
        {"role": "user", "content": results},
        tools=[TOOL],
        **thinking,
    )

    assert calls and second["stop_reason"] in ("end_turn", "tool_use")
    assert first["usage"]["input_tokens"] > 0


async def test_aws_credentials_sign_every_request(
    service: simulator.Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a key a request is signed, with the path as it goes over the wire; the simulator verifies it."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_ACCESS_KEY)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session")
    app = gateway(service, api_key="")

    for model in (CLAUDE, NOVA):
        assert (await ask(app, model, user("hello")))["stop_reason"] == "end_turn"
    sent = dict(service.last_request.headers)
    assert "AWS4-HMAC-SHA256" in str(sent)
    assert "%3A" in service.last_request.path


async def test_without_credentials_it_says_what_to_set(service: simulator.Simulator) -> None:
    """The error names the settings."""
    exchange = await post("/v1/messages", {"model": NOVA, "max_tokens": 9, "messages": [user("a")]}).run(
        gateway(service, api_key="")
    )

    assert exchange.status == 502
    assert b"bedrock.api_key" in exchange.content


async def test_models_of_the_account_are_listed(service: simulator.Simulator) -> None:
    """Those that are asked by themselves, and the profiles."""
    app = gateway(service)
    await ask(app, NOVA, user("hello"))
    listed = (await get("/v1/models").run(app)).json()["data"]

    ids = {entry["id"].removeprefix("bedrock/") for entry in listed}
    assert {CLAUDE.removeprefix("bedrock/"), NOVA.removeprefix("bedrock/")} <= ids


def test_a_region_is_wanted() -> None:
    """Where nothing says it, nobody is asked in another."""
    with pytest.raises(ConfigError, match="region"):
        create_app({"client": {"allow_anonymous": True}, "bedrock": {"api_key": "k"}})


@pytest.mark.parametrize(
    "model",
    [
        "us.meta.llama3-3-70b-instruct-v1:0",
        "mistral.mistral-large-2407-v1:0",
        "openai.gpt-oss-120b-1:0",
        "us.amazon.nova-2-lite-v1:0",
        "global.anthropic.claude-opus-4-7",
    ],
)
async def test_every_family_takes_a_call_and_its_result(service: simulator.Simulator, model: str) -> None:
    """What a family refuses was adapted before, also where it streams no calls and the client wants a stream."""
    app = gateway(service)
    question = user("sim:tool=look")
    first = await ask(app, f"bedrock/{model}", question, tools=[TOOL])
    calls = [block for block in first["content"] if block["type"] == "tool_use"]
    said = [{"type": "tool_result", "tool_use_id": call["id"], "content": "a door"} for call in calls]
    history = (question, {"role": "assistant", "content": first["content"]}, {"role": "user", "content": said})

    body = {"model": f"bedrock/{model}", "max_tokens": 2000, "stream": True, "messages": history, "tools": [TOOL]}
    exchange = await post("/v1/messages", body).run(app)

    assert calls
    assert b'"type":"message_stop"' in exchange.content, exchange.content


@pytest.mark.parametrize(("marker", "status"), [("sim:429", 429), ("sim:exception=ThrottlingException", 429)])
async def test_throttling_has_its_status(service: simulator.Simulator, marker: str, status: int) -> None:
    """Also where it is the first frame of an answer."""
    settings = {"client": {"allow_anonymous": True}, "retry": {"attempts": 1}}
    bedrock = {"api_key": "bedrock-key", "region": "us-east-1", "endpoint": service.url}
    app = create_app({**settings, "bedrock": bedrock})
    exchange = await post("/v1/messages", {"model": NOVA, "max_tokens": 9, "messages": [user(marker)]}).run(app)

    assert exchange.status == status, exchange.content


async def test_a_schema_that_the_model_does_not_know_is_told_in_words(service: simulator.Simulator) -> None:
    """The family said that it knows them; the service's refusal counts more, and the answer is checked."""
    profile = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/simulated002"  # Nova is behind it
    app = gateway(service, models=[f"{profile}=qwen.qwen3-32b-v1:0"])
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    body = {"model": f"bedrock/{profile}", "messages": [user("hello")], "response_format": form}
    exchange = await post("/v1/chat/completions", body).run(app)

    assert exchange.status == 200, exchange.content
    assert set(json.loads(exchange.json()["choices"][0]["message"]["content"])) == {"a"}
    first, second = [json.loads(request.body) for request in service.requests if request.path.endswith("-stream")]
    assert ("outputConfig" in first, "system" in first) == (True, False)
    assert ("outputConfig" in second, "system" in second) == (False, True)


@pytest.mark.parametrize(
    ("table", "path", "signed_for"),
    [
        ("anthropic", "/v1/messages", "bedrock-mantle"),
        ("custom.mantle", "/v1/chat/completions", "bedrock"),
    ],
)
async def test_entrances_that_speak_other_apis_take_signatures(
    service: simulator.Simulator, monkeypatch: pytest.MonkeyPatch, table: str, path: str, signed_for: str
) -> None:
    """The upstream of that API asks them; each request is signed, translated or passed on, and the list of models."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_ACCESS_KEY)
    kind, _, name = table.partition(".")
    endpoint = service.url if kind == "anthropic" else f"{service.url}/v1"
    settings = {"endpoint": endpoint, "aws_service": signed_for, "aws_region": "us-east-1"}
    settings |= {"relay": "allow"} if name else {}
    app = create_app({"client": {"allow_anonymous": True}, kind: {name: settings} if name else settings})
    model = f"{name}/gpt-5" if name else "anthropic/claude-sonnet-4-5"
    for door in ("/v1/messages", "/v1/chat/completions"):
        body = {"model": model, "max_tokens": 2000, "messages": [user("hello")]}
        exchange = await post(door, body).run(app)
        assert exchange.status == 200, exchange.content
    await get("/v1/models").run(app)

    signatures = [request.headers.get("authorization", "") for request in service.requests]
    assert len(signatures) > 2
    assert all(f"/us-east-1/{signed_for}/aws4_request" in each for each in signatures)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    other = create_app({"client": {"allow_anonymous": True}, kind: {name: settings} if name else settings})
    refused = await post(path, {"model": model, "max_tokens": 9, "messages": [user("hello")]}).run(other)
    assert refused.status != 200, "a signature with another secret is refused"


async def test_arns_need_no_list(service: simulator.Simulator) -> None:
    """A profile by its ARN is asked for although the account's lists have it not; what it says of the model counts."""
    app = gateway(service)
    await get("/v1/models").run(app)
    arn = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0"

    assert (await ask(app, f"bedrock/{arn}", user("hello")))["stop_reason"] == "end_turn"
    assert service.last_request.path.endswith("/invoke-with-response-stream")
    assert "%2Fus.anthropic" in service.last_request.path


async def test_a_refused_signature_costs_the_thinking_alone(service: simulator.Simulator) -> None:
    """The question is asked once more without earlier thinking, of either API."""
    said = {"type": "thinking", "thinking": "Hm", "signature": "Rm9yZ2Vk"}
    turns = (user("hello"), {"role": "assistant", "content": [said, {"type": "text", "text": "Hi"}]}, user("and you?"))
    for claude_api in ("invoke", "converse"):
        service.forget()
        answer = await ask(gateway(service, claude_api=claude_api), CLAUDE, *turns)

        asked = [request.body for request in service.requests if request.method == "POST"]
        assert answer["stop_reason"] == "end_turn"
        assert [b"Rm9yZ2Vk" in body for body in asked] == [True, False]


FAMILIES = {
    "us.anthropic.claude-sonnet-4-5-20250929-v1:0": "",
    "us.anthropic.claude-opus-4-6-v1": "turns.prefill",
    "global.anthropic.claude-opus-4-7": "turns.prefill sampling.model",
    "anthropic.claude-3-haiku-20240307-v1:0": "",
    "amazon.nova-pro-v1:0": "turns.prefill",
    "us.amazon.nova-2-lite-v1:0": "turns.prefill",
    "us.meta.llama3-3-70b-instruct-v1:0": "turns.prefill sampling.model",
    "mistral.mistral-large-2407-v1:0": "turns.prefill sampling.model",
    "mistral.mistral-7b-instruct-v0:2": "system.told turns.prefill sampling.model",
    "openai.gpt-oss-120b-1:0": "turns.prefill sampling.model",
    "us.deepseek.r1-v1:0": "turns.prefill sampling.model",
}
"""Model to the rules that put one request, with system text, ``top_k`` and a prefill, into its family's form."""


async def test_each_family_has_its_rules(service: simulator.Simulator) -> None:
    """By Converse, every family takes the request, and the client is told what became of it."""
    app = gateway(service, claude_api="converse")
    found = {}
    for model in FAMILIES:
        body = {"model": f"bedrock/{model}", "max_tokens": 2000, "system": "Be brief.", "top_k": 5}
        exchange = post("/v1/messages", {**body, "messages": [user("hi"), {"role": "assistant", "content": "He"}]})
        exchange.scope["headers"] = [*exchange.scope["headers"], (b"x-kiro-asgi-rules", b"1")]
        await exchange.run(app)
        assert exchange.status == 200, exchange.content
        told = exchange.headers["x-kiro-asgi-rules"].split(", ")
        found[model] = " ".join(each.partition(";")[0] for each in told)

    assert found == FAMILIES
