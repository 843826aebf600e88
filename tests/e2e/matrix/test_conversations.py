"""What holds over a conversation, of every API in front of every service, by the official clients."""

from __future__ import annotations

from random import Random

import pytest

from kiro_asgi.simulator import answer, text, tool_call
from tests.e2e.matrix.apis import TOOLS
from tests.e2e.matrix.pairing import APIS, SERVICES, Bench

TURNS = 10
IDS = ("call_0", "call_1", "functions.now:0", "t", "7", "call_999999", "c_0123456789")
"""Few enough to come again, in every turn but the first."""


@pytest.mark.parametrize("to", SERVICES)
@pytest.mark.parametrize("api", APIS)
def test_call_ids_are_unique_over_a_conversation(api: str, to: str, on_asyncio: Bench) -> None:
    """Services that count the calls of each answer anew: the client pairs by ids, and the service is asked once a turn.

    Its history is a legal one of its API, and calls and results are still pairs when they come back.
    """
    random = Random(f"{api} {to}")
    pairing = on_asyncio.pairing(api, to, stream=random.random() < 0.5)
    seen: set[str] = set()
    calls = ()
    for turn in range(TURNS):
        ids = random.sample(IDS, random.randint(1, 3))
        made = [tool_call(random.choice([*TOOLS]), {"city": f"{turn} {call_id}"}, call_id=call_id) for call_id in ids]
        pairing.simulator.enqueue(
            answer(*text(f"Turn {turn}."), *[part for call in made for part in call]),
            operation=pairing.service.operation,
        )
        told = (
            pairing.return_results(calls, *[f"<{call.arguments['city']}>" for call in calls])
            if calls
            else pairing.ask("Go on.", tools=True)
        )
        calls = told.calls
        assert [call.arguments["city"] for call in calls] == [f"{turn} {call_id}" for call_id in ids]
        shown = {call.id for call in calls}
        assert len(shown) == len(ids) and not seen & shown, "an id that another call has"
        seen |= shown
        assert pairing.request  # once, so that the service had nothing to refuse
