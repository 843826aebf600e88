"""A key's models bind every model that a request names, relayed and translated alike."""

from __future__ import annotations

from hashlib import sha256
from itertools import product
from typing import Any

import pytest

from tests.asgi.driver import post

pytestmark = pytest.mark.anyio

KEY = "narrow"
CHEAP = {"chat": "openai/gpt-4o-mini", "messages": "anthropic/claude-haiku-4-5", "custom": "copy/gpt-4o"}
PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "custom": "/v1/chat/completions"}
FUNCTION = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
TOOLS = {"chat": [FUNCTION], "custom": [FUNCTION], "messages": [{"name": "f", "input_schema": {"type": "object"}}]}


@pytest.fixture
def app(gateway: Any, sim: Any) -> Any:
    direct = {"api_key": "k", "endpoint": sim.url}
    return gateway(
        fresh=True,
        keys={
            KEY: {
                "hash": f"sha256:{sha256(KEY.encode()).hexdigest()}",
                "models": [*CHEAP.values(), "anthropic/*haiku*", "anthropic/*sonnet*", "copy/other", "openai/other"],
            }
        },
        anthropic=direct,
        openai={**direct, "endpoint": f"{sim.url}/v1"},
        custom={"copy": {**direct, "endpoint": f"{sim.url}/v1", "relay": "allow"}},
    )


def asking(api: str, *, tools: bool, key: str = KEY, beside: Any = None, **more: Any) -> Any:
    body = {"model": CHEAP[api], "max_tokens": 50, "messages": [{"role": "user", "content": "hi"}], **more}
    if api == "chat":
        body["max_completion_tokens"] = body.pop("max_tokens")
    if tools:
        body["tools"] = [*TOOLS[api], *(beside or [])]
    elif beside:
        body["tools"] = beside
    return post(PATHS[api], body, key=key)


NAMING = [
    pytest.param("messages", {"fallbacks": [{"model": "{}"}]}, id="fallbacks"),
    pytest.param(
        "messages", {"beside": [{"type": "advisor_20260301", "name": "advisor", "model": "{}"}]}, id="advisor"
    ),
    pytest.param("custom", {"models": ["{}"]}, id="models"),
    pytest.param("custom", {"route": "{}"}, id="route"),
    pytest.param("custom", {"fallbacks": ["{}"]}, id="fallback-names"),
    pytest.param("custom", {"extra_body": {"model": "{}"}}, id="nested"),
    pytest.param("chat", {"models": ["{}"]}, id="models-at-openai"),
]


def asked(sim: Any) -> list[bytes]:
    """Bodies that the service was sent."""
    return [request.body for request in sim.requests if request.method == "POST"]


def filled(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return {key: filled(each, name) for key, each in value.items()}
    return [filled(each, name) for each in value] if isinstance(value, list) else value.replace("{}", name)


@pytest.mark.parametrize("tools", [False, True])
@pytest.mark.parametrize(("api", "more"), NAMING)
async def test_a_key_asks_for_none_of_the_others(app, sim, api, more, tools):
    """By whichever member, and whether the request is relayed (without tools) or translated."""
    refused = await asking(api, tools=tools, **filled(more, "expensive")).run(app)
    assert refused.status == 404
    assert "may not ask for this model" in refused.content.decode()
    assert not asked(sim)

    permitted = {"messages": "claude-sonnet-4-5", "custom": "other", "chat": "other"}[api]
    await asking(api, tools=tools, **filled(more, permitted)).run(app)
    assert asked(sim)


@pytest.mark.parametrize("tools", [False, True])
@pytest.mark.parametrize(("api", "more"), NAMING)
async def test_other_keys_may_name_any(app, sim, api, more, tools):
    await asking(api, tools=tools, key="k", **filled(more, "expensive")).run(app)
    assert b"expensive" in asked(sim)[0]


@pytest.mark.parametrize("tools", [False, True])
@pytest.mark.parametrize(
    ("api", "member"),
    [
        *product(PATHS, ["Model", "MODEL", "MAX_TOKENS", "Stream", "Messages"]),
        *product(["chat", "custom"], ["N", "Stream_Options"]),
        ("messages", "Stop_Sequences"),
    ],
)
async def test_a_member_that_is_another_but_for_case_is_not_passed_on(app, sim, api, member, tools):
    """A service that reads names without case would take it for that one."""
    await asking(api, tools=tools, key="k", **{member: "expensive"}).run(app)
    sent = asked(sim)
    assert sent and not any(f'"{member}"'.encode() in body for body in sent)


async def test_what_is_left_out_is_told(app, sim):
    exchange = asking("custom", tools=False, key="k", Model="expensive")
    exchange.scope["headers"].append((b"x-kiro-asgi-rules", b"1"))
    answered = await exchange.run(app)
    assert "fields.ignored" in answered.headers["x-kiro-asgi-rules"]


@pytest.mark.parametrize("key", ["k", KEY])
@pytest.mark.parametrize("api", PATHS)
async def test_a_body_with_its_model_twice_is_refused(app, sim, api, key):
    """Services differ in which of them counts."""
    model = CHEAP[api]
    said = '"messages":[{"role":"user","content":"hi"}]'
    body = f'{{"model":"gpt-5.1","max_tokens":5,"model":"{model}",{said}}}'
    refused = await post(PATHS[api], body.encode(), key=key).run(app)
    assert refused.status == 400
    assert "model: stands twice" in refused.content.decode()
    assert not asked(sim)


async def test_nor_may_one_stand_twice_where_others_are_named(app, sim):
    model = CHEAP["messages"]
    twice = '{"model":"claude-opus-4-5","model":"claude-sonnet-4-5"}'
    body = f'{{"model":"{model}","max_tokens":5,"fallbacks":[{twice}],"messages":[{{"role":"user","content":"hi"}}]}}'
    refused = await post("/v1/messages", body.encode(), key=KEY).run(app)
    assert (refused.status, asked(sim)) == (400, [])


@pytest.mark.parametrize("tools", [False, True])
@pytest.mark.parametrize(("names", "status"), [(["x"] * 101, 400), (["x" * 600], 404)])
async def test_names_are_few_and_short(app, sim, names, status, tools):
    """Whoever asks: each is matched with the patterns of a key."""
    refused = await asking("custom", tools=tools, key="k", models=names).run(app)
    assert (refused.status, asked(sim)) == (status, [])
