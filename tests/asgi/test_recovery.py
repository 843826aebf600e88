"""Cut answers between two requests: kept in a store, for one client, until they have been told of."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from attrs import evolve

from kiro_asgi.asgi.kept.memory import Recovery
from kiro_asgi.model.events import StopReason, TextDelta, ToolCallFragment
from kiro_asgi.model.notes import Note
from kiro_asgi.model.prompt import Prompt, Role, Text, Turn
from kiro_asgi.stages.answer import Answer, Plan, build_pipeline
from kiro_asgi.state.memory import MemoryStore
from tests.helpers import run
from tests.state.engines import ENGINES, Clock

pytestmark = pytest.mark.anyio

ASK = Turn(Role.USER, (Text("write it"),), place="messages[0]")
FIRST = Prompt("m", (ASK,))
SECOND = Prompt(
    "m",
    (
        ASK,
        Turn(Role.ASSISTANT, (Text("I write."),), place="messages[1]"),
        Turn(Role.USER, (Text("go on"),), place="messages[2]"),
    ),
)
CUT = (TextDelta("I write."), ToolCallFragment("c1", "write", '{"a'))
WHOLE = (TextDelta("done"),)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=ENGINES)
async def recovery(request: pytest.FixtureRequest, clock: Clock) -> AsyncIterator[Recovery]:
    async with ENGINES[request.param](clock) as store:
        yield Recovery(store, ttl=60.0)


def answered(deltas, **plan) -> Answer:
    """An answer that has come to its end."""
    answer = build_pipeline((), Plan(fingerprint=True, **plan))
    run(answer, deltas)
    return answer


async def cut_off(recovery, principal="alice", prompt=FIRST):
    await recovery.remember(await recovery.prepare(prompt, principal), answered(CUT))


async def test_a_cut_answer_is_told_of_in_the_next_request(recovery):
    """F248/F252: the prompt gets a notice and says where; the client's own prompt stays what it was."""
    await cut_off(recovery)
    recovered = await recovery.prepare(SECOND, "alice")

    assert "NOT executed" in recovered.prompt.turns[2].parts[0].text
    assert recovered.prompt.turns[2].parts[1:] == SECOND.turns[2].parts
    assert recovered.asked is SECOND
    assert recovered.notes == (Note("recovery.cut_answer", 1, "messages[2]"),)


async def test_an_answer_without_content_is_known_by_its_question(recovery):
    """F252: where the client was shown nothing, what it had asked tells which answer it was."""
    await recovery.remember(await recovery.prepare(FIRST, "alice"), answered(CUT[1:]))
    recovered = await recovery.prepare(evolve(SECOND, turns=(ASK, SECOND.turns[2])), "alice")

    assert len(recovered.prompt.turns[1].parts) == 2


async def test_nobody_else_is_told(recovery):
    """F254: another client with the very same conversation gets nothing."""
    await cut_off(recovery)
    recovered = await recovery.prepare(SECOND, "bob")

    assert recovered.prompt is SECOND
    assert recovered.notes == recovered.used == ()


async def test_a_notice_is_given_until_a_request_with_it_was_answered(recovery):
    """R47: a record is used up by one whole answer; until then every try says the same."""
    await cut_off(recovery)
    first, again = [await recovery.prepare(SECOND, "alice") for _ in range(2)]
    await recovery.remember(first, answered(WHOLE))
    later = await recovery.prepare(SECOND, "alice")

    assert first.prompt == again.prompt != SECOND
    assert later.prompt is SECOND


async def test_an_answer_that_is_cut_again_is_told_of_again(recovery):
    """F252: the loop closes as often as it has to, even where both answers look the same."""
    await cut_off(recovery)
    await cut_off(recovery, prompt=SECOND)
    third = evolve(SECOND, turns=(*SECOND.turns, *SECOND.turns[1:]))
    recovered = await recovery.prepare(third, "alice")

    assert len(recovered.prompt.turns[4].parts) == 2
    assert recovered.prompt.turns[:4] == third.turns[:4]


async def test_what_was_cut_long_ago_is_forgotten(recovery, clock):
    """F254: a record has a time to live."""
    await cut_off(recovery)
    clock.now += 59.0
    assert (await recovery.prepare(SECOND, "alice")).prompt is not SECOND
    clock.now += 1.0
    assert (await recovery.prepare(SECOND, "alice")).prompt is SECOND


@pytest.mark.parametrize(
    ("text", "plan", "reason"),
    [
        pytest.param("I write.", {}, StopReason.END, id="a-whole-answer"),
        pytest.param("I write. And", {"stop": (" And",)}, StopReason.STOP_SEQUENCE, id="the-client's-stop-sequence"),
        pytest.param("I write. And", {"max_tokens": 1}, StopReason.LENGTH, id="the-client's-limit"),
    ],
)
async def test_what_the_service_did_not_cut_is_not_remembered(text, plan, reason):
    """F253: an answer as long as the model or the client wanted it leaves nothing behind."""
    store = MemoryStore()
    answer = answered([TextDelta(text)], **plan)
    await Recovery(store).remember(await Recovery(store).prepare(FIRST, "alice"), answer)

    assert answer.end.stop_reason is reason
    assert len(store) == 0


async def test_a_call_shown_in_part_is_kept_by_its_id():
    """5.8: in incremental mode the client may send the call back or drop it; either finds the record."""
    store = MemoryStore()
    recovery = Recovery(store)
    await recovery.remember(await recovery.prepare(FIRST, "alice"), answered(CUT, tool_emission="incremental"))

    assert len(store) == 2


async def test_it_can_be_switched_off():
    """Nothing is read, nothing is written, and no fingerprint is asked for."""
    store = MemoryStore()
    await cut_off(Recovery(store))
    off = Recovery(store, enabled=False)
    recovered = await off.prepare(SECOND, "alice")
    await off.remember(recovered, build_pipeline((), Plan()))

    assert recovered.prompt is SECOND
    assert len(store) == 1
