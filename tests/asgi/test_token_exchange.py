"""Services that want a token instead of the key itself (F424)."""

from __future__ import annotations

import pytest

from tests.asgi.answers import ALL_DIALECTS, text_of
from tests.asgi.test_upstreams import ask

pytestmark = pytest.mark.anyio

TOKEN, CHAT = "/copilot_internal/v2/token", "/chat/completions"


@pytest.fixture
def hub(gateway, sim):
    """A gateway in front of such a service: the answer of the exchange says where it is asked."""
    service = {"endpoint": f"{sim.url}/v1", "api_key": "gh-key", "token_url": sim.url + TOKEN, "token_scheme": "token"}
    return gateway(custom={"hub": service}, fresh=True)


@pytest.mark.parametrize("dialect", ALL_DIALECTS)
async def test_a_key_is_exchanged_once(dialect, hub, sim):
    """The key goes to the exchange only, the token to the service only, and one token serves many requests."""
    for _ in range(2):
        assert "3" in text_of(dialect, await ask(dialect, "hub/gpt-4o", stream=True).run(hub))
    exchanges = [request for request in sim.requests if request.path == TOKEN]
    chats = [request for request in sim.requests if request.path == CHAT]

    assert (len(exchanges), len(chats)) == (1, 2)
    assert exchanges[0].headers["authorization"] == "token gh-key"
    assert all("gh-key" not in request.headers["authorization"] for request in chats)


async def test_a_token_that_is_not_taken_any_more_is_exchanged_again(hub, sim):
    """Within the same request, and once."""
    await ask("openai", "hub/gpt-4o").run(hub)
    sim.revoke(sim.requests[-1].headers["authorization"].removeprefix("Bearer "))
    exchange = await ask("openai", "hub/gpt-4o").run(hub)

    assert "3" in text_of("openai", exchange)
    assert [request.path for request in sim.requests].count(TOKEN) == 2
