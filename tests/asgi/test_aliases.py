"""An operator's own names for models, from the settings to the wire and back."""

from __future__ import annotations

import pytest

from kiro_asgi import ConfigError, Settings, create_app
from tests.asgi.answers import DIALECTS, text_of
from tests.asgi.conftest import settings_for
from tests.asgi.driver import ask, get

pytestmark = pytest.mark.anyio

ALIASES = {"kiro": {"model_aliases": ["gpt-4o=fast", "fast=claude-haiku-4.5"]}}


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_service_sees_the_model_and_the_client_the_alias(dialect, gateway, sim):
    """What is sent names the model; what is answered names it as the client did."""
    exchange = await ask(dialect, "sim:count=2", stream=False, model="gpt-4o").run(gateway(**ALIASES))
    sent = sim.requests[-1].json()["conversationState"]["currentMessage"]["userInputMessage"]["modelId"]

    assert (text_of(dialect, exchange), exchange.json()["model"]) == ("1 2 ", "gpt-4o")
    assert sent == "claude-haiku-4.5"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("model", ["claude-opus-4-8-max", "deep"], ids=["name", "alias"])
async def test_effort_in_a_name_is_asked_for(dialect, model, gateway, sim):
    """Spelled by the client, or by the operator in an alias."""
    app = gateway(kiro={"model_aliases": ["deep=claude-opus-4.8-max"]})
    exchange = await ask(dialect, "sim:count=2", stream=False, model=model).run(app)
    body = sim.requests[-1].json()

    assert text_of(dialect, exchange) == "1 2 "
    assert body["additionalModelRequestFields"]["output_config"] == {"effort": "max"}
    assert body["conversationState"]["currentMessage"]["userInputMessage"]["modelId"] == "claude-opus-4.8"


async def test_an_alias_is_shown_as_a_model(gateway):
    """In the list behind the models, and on a page of its own; a wrong name is answered with it."""
    app = gateway(**ALIASES)
    listed = (await get("/v1/models").run(app)).json()["data"]
    page = (await get("/v1/models/gpt-4o").run(app)).json()
    wrong = (await get("/v1/models/gpt-4").run(app)).json()

    assert [card["id"] for card in listed[-2:]] == ["gpt-4o", "fast"]
    assert page == listed[-2]
    assert page["max_input_tokens"] == page["context_window"] == 200_000
    assert "did you mean gpt-4o" in wrong["error"]["message"]


def test_aliases_that_mean_nothing_are_refused_at_the_start() -> None:
    """Not when the first client asks for one."""
    settings: Settings = settings_for("http://127.0.0.1:1", {"kiro": {"model_aliases": ["a=b", "b=a"]}})

    with pytest.raises(ConfigError, match="a = b = a means no model"):
        create_app(settings)
