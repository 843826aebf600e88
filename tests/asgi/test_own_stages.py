"""A stage from outside, the one of the documentation, in every API."""

from __future__ import annotations

import pytest

from kiro_asgi import create_app
from kiro_asgi.simulator import answer, text
from tests.asgi.answers import ALL_DIALECTS, DIALECTS, text_of
from tests.asgi.conftest import settings_for
from tests.asgi.driver import ask
from tests.asgi.test_restart import frame, in_one_read
from tests.examples import example

pytestmark = pytest.mark.anyio

STAGES = [example("redacting_stage").redact_codename]

EACH_WAY = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "collected"])


@EACH_WAY
@pytest.mark.parametrize("dialect", ALL_DIALECTS)
async def test_it_sees_what_the_client_is_shown(dialect, stream, sim):
    """A word that comes in three events is found; what follows it, and the end of the answer, are there."""
    app = create_app(settings_for(sim.url, {}), stages=STAGES)
    sim.enqueue(answer(*text("The blue", "bir", "d sings in blue")))
    exchange = await ask(dialect, "hi", stream=stream).run(app)
    await app.aclose()

    assert (exchange.status, text_of(dialect, exchange)) == (200, "The ******** sings in blue")
    assert b"bird" not in exchange.content


@EACH_WAY
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_answer_that_would_go_through_as_it_is_does_not(dialect, stream, sim):
    """The service speaks the client's API; its answer is translated all the same."""
    url = f"{sim.url}/v1" if dialect == "openai" else sim.url
    slices = {dialect: {"endpoint": url, "api_key": "k"}, "routing": {"default": dialect}}
    app = create_app(settings_for(sim.url, slices), stages=[lambda prompt: example("redacting_stage").Redactor("2 3")])
    model = {"anthropic": "anthropic/claude-haiku-4-5", "openai": "openai/gpt-5"}[dialect]
    exchange = await ask(dialect, "sim:count=4", stream=stream, model=model).run(app)
    await app.aclose()

    assert text_of(dialect, exchange).endswith("1 *** 4 ")


async def test_a_further_try_has_stages_of_its_own(sim):
    """What the first try held back when its answer broke off is not sent in front of the second."""
    made = []

    def make(prompt):
        made.append(prompt.model)
        return STAGES[0](prompt)

    app = create_app(settings_for(sim.url, {}), stages=[make])
    sim.enqueue(in_one_read(frame("blue") + frame("never")[:40]))
    sim.enqueue(answer(*text("one")))
    exchange = await ask("openai", "hi", stream=True).run(app)
    await app.aclose()

    assert (exchange.status, text_of("openai", exchange)) == (200, "one")
    assert len(made) == 2
