"""Several upstreams behind one door: who is asked for which model, and who is asked instead."""

from __future__ import annotations

from typing import Any

import pytest

from kiro_asgi import ConfigError, Settings
from kiro_asgi.asgi.exchange.providers import new_providers
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.simulator import refusal
from kiro_asgi.simulator.scripts import json_answer
from tests.asgi.answers import ALL_DIALECTS, error_of, text_of
from tests.asgi.driver import Exchange, get, post

pytestmark = pytest.mark.anyio

EACH_DIALECT = pytest.mark.parametrize("dialect", ALL_DIALECTS)
EACH_MODE = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "collected"])

PATHS = {"anthropic": "/v1/messages", "openai": "/v1/chat/completions", "responses": "/v1/responses"}
NOBODY = "http://127.0.0.1:9"
"""Where nothing listens."""

WIRE_STYLES = {
    "kiro": "/generateAssistantResponse",
    "anthropic": "/v1/messages",
    "openai": "/v1/chat/completions",
    "gemini": "/v1beta/models/gemini-2.5-flash:streamGenerateContent",
}


def ask(dialect: str, model: str, prompt: str = "Count to 3", *, stream: bool = False, **more: Any) -> Exchange:
    said = {"input": prompt} if dialect == "responses" else {"messages": [{"role": "user", "content": prompt}]}
    limit = {"max_tokens": 999} if dialect == "anthropic" else {}
    return post(PATHS[dialect], {"model": model, "stream": stream, **said, **limit, **more})


@pytest.fixture
def everything(gateway, sim):
    """A gateway in front of all upstreams; further slices go on top."""

    def make(**slices: Any):
        upstreams = {
            "anthropic": {"api_key": "sk-ant", "endpoint": sim.url},
            "openai": {"api_key": "sk-oai", "endpoint": f"{sim.url}/v1"},
            "gemini": {"api_key": "goo", "endpoint": sim.url},
            "custom": {"local": {"endpoint": f"{sim.url}/v1"}, "gone": {"endpoint": NOBODY}},
        }
        return gateway(**{**upstreams, **slices})

    return make


async def test_all_models_are_listed(everything):
    """Each under the name by which it is asked; of two with one name the second has its upstream's before it."""
    listed = (await get("/v1/models").run(everything())).json()["data"]
    owners = {model["id"]: model["owned_by"] for model in listed}

    assert (owners["claude-sonnet-4.5"], owners["claude-sonnet-4-5"]) == ("kiro", "anthropic")
    assert (owners["gemini-2.5-flash"], owners["gpt-4o"], owners["local/gpt-4o"]) == ("gemini", "openai", "local")
    assert len(owners) == len(listed)


@pytest.mark.parametrize("name", ["gpt-4o", "local/gpt-4o", "gemini-2.5-flash", "gemini/gemini-2.5-flash"])
async def test_a_model_is_found_under_every_name_that_is_asked(name, everything):
    """The answer names the model as it is listed."""
    exchange = await get(f"/v1/models/{name}").run(everything())

    assert exchange.status == 200
    assert exchange.json()["id"].endswith(name.rpartition("/")[2])


@EACH_MODE
@EACH_DIALECT
@pytest.mark.parametrize(
    ("model", "upstream"),
    [
        ("claude-sonnet-4.5", "kiro"),
        ("anthropic/claude-sonnet-4-5", "anthropic"),
        ("gemini-2.5-flash", "gemini"),
        ("gemini/gemini-2.5-flash", "gemini"),
        ("gpt-4o", "openai"),
        ("local/gpt-4o", "openai"),
    ],
)
async def test_who_answers(dialect, stream, model, upstream, everything, sim):
    """By prefix, or by who lists the name; the client gets its own name for the model back (F419, F420)."""
    exchange = await ask(dialect, model, stream=stream).run(everything())
    asked = [
        request.path.partition("?")[0] for request in sim.requests if request.path.startswith(WIRE_STYLES[upstream])
    ]

    assert text_of(dialect, exchange)
    assert asked == [WIRE_STYLES[upstream]]
    assert f'"{model}"'.encode() in exchange.content


@EACH_DIALECT
async def test_a_prefix_of_no_upstream(dialect, gateway):
    """The error says what is missing, since the name alone looks right."""
    exchange = await ask(dialect, "gemini/gemini-2.5-flash").run(gateway())

    assert exchange.status == 404
    assert "the upstream gemini is not set up here" in error_of(dialect, exchange)["message"]


@EACH_DIALECT
async def test_a_name_that_nobody_lists(dialect, everything):
    """Where every list is known, an unknown name is an error of the client's."""
    exchange = await ask(dialect, "no-such-model").run(everything())

    assert exchange.status == 404
    assert "no-such-model" in error_of(dialect, exchange)["message"]


async def test_names_that_nobody_lists_go_to_the_default(everything, sim):
    """An upstream that lists nothing takes any name, if the operator says so."""
    app = everything(routing={"default": "gone"}, fresh=True)
    exchange = await ask("openai", "no-such-model").run(app)

    assert exchange.status == 503
    assert not [request for request in sim.requests if request.path in WIRE_STYLES.values()]


async def test_without_kiro(gateway, sim):
    """No account of Kiro's is needed where another upstream is set up; its models need no prefix."""
    app = gateway(kiro={"api_key": ""}, gemini={"api_key": "goo", "endpoint": sim.url})
    exchange = await ask("anthropic", "gemini-2.5-flash", stream=True).run(app)

    assert text_of("anthropic", exchange)
    assert {model["owned_by"] for model in (await get("/v1/models").run(app)).json()["data"]} == {"gemini"}


@pytest.mark.parametrize("routing", [{"models": ["x=nobody/y"]}, {"order": ["nobody"]}, {"default": "nobody"}])
def test_a_table_that_leads_nowhere(routing, gateway):
    """Found at start-up."""
    with pytest.raises(ConfigError, match="nobody"):
        gateway(routing=routing, fresh=True)


TABLE = {"models": ["best=gone/x>gemini/gemini-2.5-flash", "relayed=openai/gpt-4o>gemini/gemini-2.5-flash"]}


@EACH_MODE
@EACH_DIALECT
async def test_another_upstream_stands_in(dialect, stream, everything, sim):
    """An upstream that cannot be reached is passed over before anything was sent; nothing shows it (F081)."""
    exchange = await ask(dialect, "best", stream=stream).run(everything(routing=TABLE))

    assert "3" in text_of(dialect, exchange)
    assert exchange.content.count(b'"best"') >= 1


@EACH_MODE
async def test_from_bytes_that_go_through_to_an_answer_that_is_translated(stream, everything, sim):
    """What was to go on as it is, is read and put anew for the upstream that stands in."""
    sim.enqueue(refusal(503, "no capacity"), operation="openai.chat")
    exchange = await ask("openai", "relayed", stream=stream).run(everything(routing=TABLE, retry={"attempts": 1}))

    assert "3" in text_of("openai", exchange)
    assert [request.path for request in sim.requests if request.path == WIRE_STYLES["openai"]] == [
        WIRE_STYLES["openai"]
    ]


async def test_a_request_that_is_called_invalid_goes_nowhere_else(everything, sim):
    """Another upstream would hide what is wrong with it."""
    sim.enqueue(refusal(400, "no"), operation="openai.chat")
    exchange = await ask("openai", "relayed").run(everything(routing=TABLE))

    assert exchange.status == 400
    assert not [request for request in sim.requests if "gemini" in request.path]


async def test_tokens_are_counted_for_any_upstream(everything):
    """As it would be sent."""
    body = {"model": "gemini-2.5-flash", "messages": [{"role": "user", "content": "Count to 3"}]}
    exchange = await post("/v1/messages/count_tokens", body).run(everything())

    assert exchange.json()["input_tokens"] > 2


# Whose a model is.


async def test_exact_ids_come_before_spellings(everything, sim):
    """What one service lists letter by letter is its own, though an earlier one has a model that is also spelled so."""
    for model, upstream in (("claude-sonnet-4-5", "anthropic"), ("claude-sonnet-4.5", "kiro")):
        sim.forget()
        assert (await ask("openai", model).run(everything())).status == 200
        assert [request.path for request in sim.requests if request.path in WIRE_STYLES.values()] == [
            WIRE_STYLES[upstream]
        ]


async def test_a_listed_id_belongs_to_who_lists_it(everything, sim):
    """Ids with a slash too: the upstream before it is meant only where it lists what is behind it, or nobody does."""
    listing = {"object": "list", "data": [{"id": "openai/gpt-oss-120b"}, {"id": "openai/gpt-4o"}]}

    def listed(request: Any) -> Any:
        groq = request.headers.get("authorization") == "Bearer sk-groq" and request.path.endswith("/models")
        return json_answer(200, listing) if groq else None

    sim.answer_with(listed)
    app = everything(custom={"groq": {"endpoint": f"{sim.url}/v1", "api_key": "sk-groq"}})
    keys = {}
    for model in ("openai/gpt-oss-120b", "openai/gpt-4o", "groq/openai/gpt-4o", "openai/nobody-lists-this"):
        sim.forget()
        await ask("openai", model).run(app)
        keys[model] = [each.headers["authorization"] for each in sim.requests if each.path == WIRE_STYLES["openai"]]
    sim.answer_with(None)

    assert keys["openai/gpt-oss-120b"] == keys["groq/openai/gpt-4o"] == ["Bearer sk-groq"]
    assert keys["openai/gpt-4o"] == ["Bearer sk-oai"]
    assert "Bearer sk-groq" not in keys["openai/nobody-lists-this"]


def test_each_vendors_own_service_has_accounts_of_its_own():
    """What one vendor says of an account says nothing of another's; the same host by two names is one service."""
    settings = Settings.from_mapping(
        {
            "anthropic": {"api_key": "a"},
            "gemini": {"api_key": "g"},
            "openai": {"api_key": "o"},
            "custom": {"mine": {"endpoint": "https://api.openai.com/v1", "api_key": "m"}},
        }
    )
    services = {name: provider.setup.account for name, provider in new_providers(settings, Clocks(), ()).items()}

    assert services["mine"] == services["openai"]
    assert len({services["anthropic"], services["gemini"], services["openai"]}) == 3
