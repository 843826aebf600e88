"""The list of models and token counts, through the official Python clients.

Numbers are those of the project's list of conformance assertions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from kiro_asgi.simulator import MODELS, json_answer
from tests.conformance.asking import MESSAGES_TOOLS, MODEL, PNG, user
from tests.conformance.clients import Clients
from tests.conformance.gateways import KEY, Gateway, watched
from tests.conformance.raw import exchange, request_bytes

IDS = [model.id for model in MODELS]
"""Those of Kiro, which are listed first."""


def test_65_lists(chat: openai.OpenAI, messages: anthropic.Anthropic) -> None:
    """One body that both strict clients accept, and of which neither wants a second page."""
    one, other, beta = chat.models.list(), messages.models.list(limit=1000), messages.beta.models.list()
    ids = [model.id for model in one]

    assert ids == [model.id for model in other] == [model.id for model in beta]
    assert ids[: len(IDS)] == IDS
    assert (other.has_more, other.first_id, other.last_id) == (False, ids[0], ids[-1])


@pytest.mark.parametrize("name", [MODEL, "gpt-5.6-sol"])
def test_65_retrieve(chat: openai.OpenAI, messages: anthropic.Anthropic, name: str) -> None:
    """One model by its id."""
    assert chat.models.retrieve(name).id == messages.models.retrieve(name).id == name


@pytest.mark.parametrize("name", ["no-such-model", "vendor/no-such-model", "a/b/c"])
def test_65_unknown(chat: openai.OpenAI, messages: anthropic.Anthropic, name: str) -> None:
    """404 in the words of each family, slashes or not; for Messages it names the model."""
    with pytest.raises(openai.NotFoundError) as one:
        chat.models.retrieve(name)
    with pytest.raises(anthropic.NotFoundError, match=f"model: {name}") as other:
        messages.models.retrieve(name)

    assert (one.value.code, other.value.type) == ("model_not_found", "not_found_error")


def test_65_slashes_as_they_are(gateway: Gateway) -> None:
    """A client that does not escape slashes gets the same answer."""
    answer = exchange(gateway, request_bytes("GET", "/v1/models/a/b", {"authorization": f"Bearer {KEY}"}))

    assert answer.status == 404
    assert json.loads(answer.body)["error"]["code"] == "model_not_found"


@pytest.fixture(scope="module")
def unkept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that asks for the list each time."""
    with watched(tmp_path_factory.mktemp("unkept"), KIRO_ASGI__KIRO__MODELS_TTL="0") as running:
        yield running


def test_what_a_service_lists_is_shown(unkept: Gateway, clients: Clients) -> None:
    """Whatever the table says of a model."""
    efforts = {"output_config": {"properties": {"effort": {"enum": ["low", "high"]}}}}
    entry = {
        "modelId": "claude-opus-4.7",
        "modelName": "Seven",
        "tokenLimits": {"maxInputTokens": 50_000, "maxOutputTokens": 3_000},
        "supportedInputTypes": ["TEXT"],
        "additionalModelRequestFieldsSchema": {"properties": efforts},
    }
    plain = {"modelId": "claude-opus-4.8", "supportedInputTypes": ["TEXT", "IMAGE"]}
    assert unkept.service is not None
    unkept.service.enqueue(*[json_answer(200, {"models": [entry, plain]})] * 9, operation="ListAvailableModels")
    seven, eight = clients.anthropic(unkept).models.list()
    again = clients.anthropic(unkept).models.retrieve("claude-opus-4-7")
    assert seven.capabilities is not None and eight.capabilities is not None
    levels = seven.capabilities.effort

    assert (seven.display_name, seven.max_input_tokens, seven.max_tokens) == ("Seven", 50_000, 3_000)
    assert (levels.low.supported, levels.medium.supported, levels.high.supported) == (True, False, True)
    assert (seven.capabilities.image_input.supported, eight.capabilities.image_input.supported) == (False, True)
    assert (seven.capabilities.thinking.supported, eight.capabilities.thinking.supported) == (True, False)
    assert again == seven
    assert clients.openai(unkept).models.retrieve("claude-opus-4.7").to_dict()["context_window"] == 50_000


PROMPTS: list[Any] = [
    pytest.param({"messages": user("sim:text sim:no-trailers")}, id="text"),
    pytest.param({"messages": user("sim:text sim:no-trailers 日本語 Ελληνικά 👩‍👩‍👧")}, id="unicode"),
    pytest.param({"messages": user("sim:text sim:no-trailers"), "system": "Be brief. " * 40}, id="system"),
    pytest.param({"messages": user("sim:text sim:no-trailers"), "tools": MESSAGES_TOOLS}, id="tools"),
    pytest.param(
        {
            "messages": user(
                [
                    {"type": "text", "text": "sim:text sim:no-trailers"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                ]
            )
        },
        id="image",
    ),
    pytest.param(
        {
            "messages": [
                *user("Hello"),
                {"role": "assistant", "content": "Hi. " * 50},
                *user("sim:text sim:no-trailers"),
            ]
        },
        id="history",
    ),
]


@pytest.mark.parametrize("prompt", PROMPTS)
def test_63_count_tokens(messages: anthropic.Anthropic, prompt: dict[str, Any]) -> None:
    """Where the service counts nothing, the count is exactly what the answer's usage says; the beta's too."""
    count = messages.messages.count_tokens(model=MODEL, **prompt).input_tokens
    beta = messages.beta.messages.count_tokens(model=MODEL, betas=["token-counting-2024-11-01"], **prompt)
    usage = messages.messages.create(model=MODEL, max_tokens=99, **prompt).usage

    assert count == beta.input_tokens
    assert count == usage.input_tokens + (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
    assert count > 0


def test_63_close_to_what_the_service_counts(messages: anthropic.Anthropic) -> None:
    """Where it does count, our guess is of its size."""
    prompt = "The quick brown fox jumps over the lazy dog. " * 200
    count = messages.messages.count_tokens(model=MODEL, messages=user(prompt)).input_tokens
    usage = messages.messages.create(model=MODEL, max_tokens=9999, messages=user(prompt)).usage

    assert 0.7 < count / usage.input_tokens < 1.5
