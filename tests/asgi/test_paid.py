"""An answer that was begun is paid, whatever became of it at the client; what the service refused is free."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import anyio
import pytest

from kiro_asgi.simulator import CloseEarly, ExceptionFrame, Head, Reset, Stall, Trailers, answer, text
from kiro_asgi.simulator.kiro.hosts import CHAT
from kiro_asgi.simulator.scripts import json_answer
from tests.asgi.driver import post
from tests.quota.paid import MODELS, Ending, request_of

pytestmark = pytest.mark.anyio

LIMIT = 10_000
MANY = 20_000
"""Words of an answer: more tokens than the limit has."""

SMALL = 50
"""Tokens that a client says it wants: all that is reserved for it."""

APIS = ("chat", "messages", "responses", "gemini")
SERVICES = ("kiro", "openai", "anthropic", "gemini")
LENGTHS = {"chat": "max_completion_tokens", "messages": "max_tokens", "responses": "max_output_tokens"}


def asking(api: str, target: str, wish: str = "text", *, stream: bool = True, most: int = SMALL) -> Any:
    path, body = request_of(Ending(api, target, wish, (), 0, stream, None, 0, "k"), "x")
    if target == "kiro" and api != "messages":
        return post(path, body)
    if api == "gemini":
        body.setdefault("generationConfig", {})["maxOutputTokens"] = most
    else:
        body[LENGTHS[api]] = most
    return post(path, body)


@pytest.fixture
def app(gateway: Callable[..., Any], sim: Any) -> Any:
    direct = {"api_key": "k", "endpoint": sim.url, "first_token_timeout": 0.5}
    return gateway(
        fresh=True,
        quotas={"tokens_per_day": LIMIT},
        retry={"attempts": 1},
        stream={"idle_timeout": 1.0},
        kiro=direct,
        anthropic=direct,
        gemini=direct,
        openai={**direct, "endpoint": f"{sim.url}/v1"},
    )


SAID = text(*["word " * 100] * (MANY // 100))
COUNTED = answer(*text(*["word "] * 10), trailers=Trailers(input_tokens=10, output_tokens=LIMIT))


PAIRS = pytest.mark.parametrize(
    ("api", "target"), [pair for pair in product(APIS, SERVICES) if pair != ("messages", "kiro")]
)
"""For Kiro the gateway itself ends an answer after ``max_tokens``, which the Messages API demands."""


def is_spent(status: int) -> bool:
    return status in (402, 429)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("wish", ["schema", "call"])
@pytest.mark.parametrize("target", SERVICES)
@pytest.mark.parametrize("api", APIS)
async def test_an_answer_that_breaks_a_promise_is_paid(app, sim, api, target, wish, stream):
    """By the service's count: its model was asked, and is asked once more."""
    sim.answer_with(
        lambda request: COUNTED if request.operation.endswith("chat") or request.operation == CHAT else None
    )
    first = await asking(api, target, wish, stream=stream).run(app)
    second = await asking(api, target, "text", stream=stream).run(app)
    assert b"word" not in first.content or first.status == 200
    assert is_spent(second.status), second.content


@pytest.mark.parametrize(
    "ends",
    [
        pytest.param((Reset(),), id="reset"),
        pytest.param((CloseEarly(),), id="closed"),
        pytest.param((ExceptionFrame("InternalServerException", "no"),), id="error"),
        pytest.param((Stall(),), id="silence"),
    ],
)
@PAIRS
async def test_an_answer_that_breaks_off_is_paid(app, sim, api, target, ends):
    """By what had come, relayed or translated."""
    script = (Head(), *SAID, *ends)
    sim.answer_with(lambda request: script if request.operation.endswith("chat") or request.operation == CHAT else None)
    await asking(api, target).run(app)
    assert is_spent((await asking(api, target).run(app)).status)


@PAIRS
async def test_whoever_leaves_before_the_end_pays_what_came(app, sim, api, target):
    """Not only what was reserved."""
    script = (Head(), *SAID, Stall())
    sim.answer_with(lambda request: script if request.operation.endswith("chat") or request.operation == CHAT else None)
    exchange, sent = asking(api, target), 0

    async def read(message: Any) -> None:
        nonlocal sent
        sent += message.get("body", b"").count(b"word")
        if sent >= MANY:
            exchange.leave.set()

    exchange.on_send = read
    await exchange.run(app)
    assert is_spent((await asking(api, target).run(app)).status)


@pytest.mark.parametrize("target", SERVICES)
async def test_whoever_leaves_before_the_first_word_pays_the_reservation(app, sim, target):
    """The service was asked, and nobody knows what it made."""
    for _ in range(2):
        exchange = asking("messages", target, most=LIMIT)

        def silence(request: Any, leave: anyio.Event = exchange.leave) -> Any:
            leave.set()
            return (Stall(),)

        sim.answer_with(silence)
        await exchange.run(app)
        assert exchange.unanswered
    assert is_spent((await asking("messages", target, most=LIMIT).run(app)).status)


@pytest.mark.parametrize("target", SERVICES)
@pytest.mark.parametrize("status", [400, 403, 429, 500])
async def test_what_the_service_refused_is_free(app, sim, target, status):
    refusal = json_answer(status, {"message": "no", "error": {"message": "no", "code": status, "status": "NO"}})
    sim.answer_with(lambda _: refusal)
    for _ in range(3):
        assert (await asking("messages", target, most=LIMIT - 50).run(app)).status not in (200, 402)


@pytest.mark.parametrize(
    ("asked", "paid"), [(2, 2), ("3", 3), (128, 128), (10**9, 128), (10**30, 128), (1e300, 128), (0, 1), (-5, 1)]
)
@pytest.mark.parametrize("member", ["n", "best_of", "choices", "candidateCount"])
async def test_each_choice_is_reserved(gateway, sim, member, asked, paid):
    """Of requests that go through; of more than the most that OpenAI makes, so many."""
    app = gateway(
        fresh=True,
        client={"api_keys": ["k1", "k2"]},
        quotas={"tokens_per_minute": 100_000},
        openai={"api_key": "k", "endpoint": f"{sim.url}/v1"},
        gemini={"api_key": "k", "endpoint": sim.url},
    )

    async def left(key: str, **more: Any) -> int:
        if member == "candidateCount":
            config = {"maxOutputTokens": SMALL, **more}
            said = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}], "generationConfig": config}
            exchange = await post(f"/v1beta/models/{MODELS['gemini']}:generateContent", said, key=key).run(app)
        else:
            said = {
                "model": MODELS["openai"],
                "messages": [{"role": "user", "content": "hi"}],
                "max_completion_tokens": SMALL,
            }
            exchange = await post("/v1/chat/completions", {**said, **more}, key=key).run(app)
        return next(int(value) for name, value in exchange.headers.items() if name.endswith("remaining-tokens"))

    one, several = await left("k1"), await left("k2", **{member: asked})
    assert one - several == pytest.approx((paid - 1) * SMALL, abs=20)
