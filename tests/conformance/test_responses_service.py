"""OpenAI's Responses API on both sides, through the official client: what goes through, and what is translated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.conformance.clients import Clients
from tests.conformance.gateways import TRANSIENT_RETRIES, Gateway, watched

EACH_WAY = pytest.mark.parametrize("model", ["openai/gpt-5", "local/gpt-5"], ids=["through", "translated"])
SEALED: Any = "reasoning.encrypted_content"
THINKING: Any = {"effort": "low", "summary": "auto"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway in front of a service that is asked by that API: as ``openai`` it is sent a client's own bytes."""
    said = {"API": "responses", "API_KEY": "key", "ENDPOINT": "{service}/v1"}
    settings = {f"KIRO_ASGI__{path}__{name}": it for path in ("OPENAI", "CUSTOM__LOCAL") for name, it in said.items()}
    with watched(tmp_path_factory.mktemp("responses"), **TRANSIENT_RETRIES, **settings) as running:
        yield running


@pytest.fixture
def client(clients: Clients, served: Gateway) -> openai.OpenAI:
    return clients.openai(served)


def reasoned(items: list[Any]) -> Any:
    """The reasoning among *items*."""
    (found,) = (item for item in items if item.get("type") == "reasoning")
    return found


@EACH_WAY
def test_reasoning_is_handed_back_by_the_client(client: openai.OpenAI, served: Gateway, model: str) -> None:
    """Sealed, in the form that the client got; the service, which verifies it, has its own back."""
    asked: Any = {"model": model, "reasoning": THINKING, "include": [SEALED], "store": False}
    with client.responses.stream(**asked, input="sim:thinking One?") as events:
        one = events.get_final_response()
    output = [item.model_dump(exclude_none=True) for item in one.output]
    assert reasoned(output)["summary"][0]["text"] and reasoned(output)["encrypted_content"]

    two = client.responses.create(**asked, input=[*output, {"role": "user", "content": "Two of sealed?"}])
    assert two.status == "completed"
    sent = json.loads(served.asked("Two of sealed?")[-1].body)["input"]
    assert reasoned(sent)["encrypted_content"].startswith("gAAAA"), "the service's own"


@EACH_WAY
def test_reasoning_is_kept_for_the_next_request(client: openai.OpenAI, served: Gateway, model: str) -> None:
    """Also where the client did not ask for seals; what it fetches is what it was told."""
    asked: Any = {"model": model, "reasoning": THINKING}
    one = client.responses.create(**asked, input="sim:thinking One?")
    assert client.responses.retrieve(one.id).output == one.output
    two = client.responses.create(**asked, input="Two of kept?", previous_response_id=one.id)
    assert two.previous_response_id == one.id
    sent = json.loads(served.asked("Two of kept?")[-1].body)
    assert reasoned(sent["input"])["encrypted_content"].startswith("gAAAA")
    assert sent["store"] is False and "previous_response_id" not in sent
    client.responses.delete(one.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(one.id)
