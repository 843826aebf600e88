"""What the operator has become of thinking: whole answers in front of a simulated service."""

from __future__ import annotations

from typing import Any

import pytest

from kiro_asgi.simulator import answer, text, thinking
from tests.asgi.answers import ALL_DIALECTS, text_of
from tests.asgi.driver import ask

pytestmark = pytest.mark.anyio

ASKED: dict[str, Any] = {
    "anthropic": {"thinking": {"type": "enabled", "budget_tokens": 2048}},
    "openai": {"reasoning_effort": "high"},
    "responses": {"reasoning": {"effort": "high"}},
}
NATIVE = (*thinking("h", "m"), *text("Hello"))
TAGGED = text("<thinking>hm</thinking>", "\n\n", "Hello")


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "collected"])
@pytest.mark.parametrize("dialect", ALL_DIALECTS)
@pytest.mark.parametrize("events", [NATIVE, TAGGED], ids=["native", "tags"])
@pytest.mark.parametrize(
    ("handling", "expected"),
    [
        pytest.param("remove", "Hello", id="F167"),
        pytest.param("pass", "<thinking>hm</thinking>Hello", id="F168"),
        pytest.param("strip_tags", "hmHello", id="F169"),
    ],
)
async def test_handling_holds_for_all_thinking(dialect, stream, events, handling, expected, gateway, sim):
    """``kiro.fake_reasoning_handling`` is about native thinking as about that in tags, as in the library."""
    sim.enqueue(answer(*events))
    app = gateway(kiro={"fake_reasoning_handling": handling})
    exchange = await ask(dialect, "think", stream=stream, **ASKED[dialect]).run(app)

    assert text_of(dialect, exchange) == expected
    assert b"reasoning_content" not in exchange.content
    assert b'"type":"thinking"' not in exchange.content
    assert b"response.reasoning" not in exchange.content


@pytest.mark.parametrize("dialect", ALL_DIALECTS)
async def test_handling_holds_where_nobody_asked(dialect, gateway, sim):
    """Some models think unasked; what becomes of that is not the client's to say either."""
    sim.enqueue(answer(*NATIVE))
    exchange = await ask(dialect, "hi", stream=False).run(gateway(kiro={"fake_reasoning_handling": "remove"}))

    assert text_of(dialect, exchange) == "Hello"
    assert b"hm" not in exchange.content


async def test_tags_can_be_left_alone(gateway, sim):
    """Without ``kiro.fake_reasoning_enabled`` nothing looks for them."""
    sim.enqueue(answer(*TAGGED))
    app = gateway(kiro={"fake_reasoning_enabled": False})
    exchange = await ask("openai", "think", stream=False, **ASKED["openai"]).run(app)

    assert text_of("openai", exchange) == "<thinking>hm</thinking>\n\nHello"
