"""How long a service may be silent before its first event: longer where there is more to read, or thinking."""

from __future__ import annotations

from typing import Any

import pytest

from kiro_asgi.simulator import Head, Pause, RawBytes, answer, text
from tests.asgi.answers import ALL_DIALECTS, comes_true, text_of
from tests.asgi.driver import ask
from tests.asgi.test_passing import MODELS, OPERATIONS, STREAMS, asked, asking, upstreams
from tests.asgi.test_passing import NAMES as FORMATS
from tests.asgi.test_thinking import ASKED

pytestmark = pytest.mark.anyio

LONG = "word " * 6_000
"""More than 4,000 tokens, and fewer than 8,000, for the estimator as for who counts bytes."""

SILENCE = Pause(1.3)
ONCE_MORE = {"timeout_attempts": 2}
"""As it is by default."""

IMPATIENT = {"first_token_timeout": 0.7, "thinking_first_token_timeout": 0.7}


def late(*steps: Any) -> tuple[Any, ...]:
    """An answer whose head comes at once, and its first event later."""
    head, *rest = steps
    return (head, SILENCE, *rest)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "collected"])
@pytest.mark.parametrize("dialect", ALL_DIALECTS)
async def test_silence_is_tried_once_more(dialect, stream, gateway, sim):
    """Decision 0a: two calls, however many tries there are otherwise; then it is a 504."""
    sim.enqueue(*[late(*answer(*text("Hello")))] * 3)
    exchange = await ask(dialect, "hi", stream=stream).run(gateway(kiro=IMPATIENT, retry=ONCE_MORE))

    assert exchange.status == 504
    assert await comes_true(sim, lambda: len(sim.requests) == 2)  # the last was given up when it had hardly come


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "collected"])
@pytest.mark.parametrize("dialect", ALL_DIALECTS)
async def test_a_second_more_for_each_4000_tokens(dialect, stream, gateway, sim):
    """Decision 0a: by the estimate of the prompt as the model reads it."""
    sim.enqueue(late(*answer(*text("Hello"))))
    exchange = await ask(dialect, LONG, stream=stream).run(gateway(kiro=IMPATIENT, retry=ONCE_MORE))

    assert (text_of(dialect, exchange), len(sim.requests)) == ("Hello", 1)


@pytest.mark.parametrize("dialect", ALL_DIALECTS)
async def test_thinking_has_a_limit_of_its_own(dialect, gateway, sim):
    """Decision 0a: where it was asked for the limit is that much at least."""
    sim.enqueue(late(*answer(*text("Hello"))))
    app = gateway(kiro={**IMPATIENT, "thinking_first_token_timeout": 5.0})
    exchange = await ask(dialect, "hi", stream=True, **ASKED[dialect]).run(app)

    assert (text_of(dialect, exchange), len(sim.requests)) == ("Hello", 1)


@pytest.mark.parametrize(
    ("model", "patient"),
    [
        ("auto", True),
        ("claude-opus-4.7", True),
        ("claude-sonnet-5", True),
        ("gpt-5.6-sol", True),
        ("glm-5", True),
        ("claude-sonnet-4.5", False),
        ("claude-haiku-4.5", False),
    ],
)
async def test_a_model_that_thinks_unasked_has_that_limit_too(model, patient, gateway, sim):
    """Decision 0a: no client need say that it wants thinking of a model that thinks anyway."""
    sim.enqueue(*[late(*answer(*text("Hello")))] * 2)
    app = gateway(kiro={**IMPATIENT, "thinking_first_token_timeout": 5.0}, retry=ONCE_MORE)
    exchange = await ask("openai", "hi", stream=True, model=model).run(app)

    assert (exchange.status, len(sim.requests)) == ((200, 1) if patient else (504, 2))


@pytest.mark.parametrize("api", MODELS)
@pytest.mark.parametrize(("content", "calls"), [("Hi", 2), (LONG, 1)], ids=["short", "long"])
async def test_so_it_is_where_bytes_go_through(api, content, calls, gateway, sim):
    """E20: a prompt that nobody reads here is as long as its bytes say."""
    stream = late(Head(content_type="text/event-stream"), RawBytes(STREAMS[FORMATS[api]]))
    sim.enqueue(*[stream] * 2, operation=OPERATIONS[api])
    slices = upstreams(sim.url)
    app = gateway(**{**slices, api: {**slices[api], **IMPATIENT}}, retry=ONCE_MORE)
    exchange = await asking(api, stream=True, messages=[{"role": "user", "content": content}]).run(app)

    assert (exchange.status, len(asked(sim, api))) == (504 if calls == 2 else 200, calls)
