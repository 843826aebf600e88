"""What the service is told a conversation is called."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.asgi.exchange.factory import ConversationIds
from tests.asgi.answers import DIALECTS
from tests.asgi.driver import ask

anyio = pytest.mark.anyio

SESSION = "0f1e2d3c-1111-4222-8333-444455556666"
FIELDS: dict[str, dict[str, Any]] = {
    "anthropic": {"metadata": {"user_id": f"user_ab12_account_cd34_session_{SESSION}"}},
    "openai": {"prompt_cache_key": SESSION},
}


@given(st.text(), st.text(min_size=1), st.text(), st.text(min_size=1))
def test_a_name_is_one_to_one_and_a_uuid(principal: str, session: str, other: str, another: str) -> None:
    """The same client and session have the same name, any other pair another; each is a random UUID by its looks."""
    names = ConversationIds.by("salt")
    name, second = names.name(principal, session), names.name(other, another)

    assert (name == second) is ((principal, session) == (other, another))
    assert UUID(name).version == 4 and str(UUID(name)) == name
    assert ConversationIds.by("salt").name(principal, session) == name


def test_a_name_means_nothing_elsewhere() -> None:
    """Without the secret a name cannot be computed; by default each gateway has a secret of its own."""
    gateways = [ConversationIds.by("one"), ConversationIds.by("two"), ConversationIds.by(""), ConversationIds.by("")]

    assert len({each.name("key:1", SESSION) for each in gateways}) == 4


def test_what_has_no_name_gets_a_new_one_each_time() -> None:
    """Nothing is guessed: requests of which nobody says that they belong together do not."""
    names = ConversationIds.by("salt")

    assert names.name("key:1", "") != names.name("key:1", "")


def told(sim: Any) -> list[str]:
    """The names that the service was told."""
    return [json.loads(request.body)["conversationState"]["conversationId"] for request in sim.requests]


@anyio
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_session_is_one_conversation(dialect, gateway, sim):
    """The service can tell that requests belong together, and learns nothing else of what the client said."""
    app = gateway()
    for _ in range(2):
        await ask(dialect, "sim:text", stream=False, **FIELDS[dialect]).run(app)
    await ask(dialect, "sim:text", stream=False).run(app)
    first, second, other = told(sim)

    assert first == second != other
    assert not any(SESSION.encode() in request.body for request in sim.requests)


@anyio
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_another_try_is_the_same_conversation(dialect, gateway, sim):
    """What is asked again is not a new conversation, whether the client named it or not."""
    exchange = await ask(dialect, f"sim:once-500 {dialect}", stream=False).run(gateway())
    names = told(sim)

    assert exchange.status == 200
    assert (len(names), len(set(names))) == (2, 1)
