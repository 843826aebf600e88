"""What clients can make the gateway remember stays bounded."""

from __future__ import annotations

import contextlib
import gc
from pathlib import Path

import pytest

from kiro_asgi.asgi.door.auth import Authenticator
from kiro_asgi.asgi.exchange.factory import ConversationIds
from kiro_asgi.asgi.kept.memory import Recovery
from kiro_asgi.config import ClientSettings, Settings
from kiro_asgi.errors import Unauthorized, UnknownModel, UpstreamFault
from kiro_asgi.model.events import TextDelta, ToolCallFragment
from kiro_asgi.model.prompt import Prompt, Role, Text, Turn
from kiro_asgi.net.catalogue import Catalogue, ModelSource
from kiro_asgi.net.single_flight import SingleFlight
from kiro_asgi.net.transport import Transport
from kiro_asgi.stages.answer import Answer, Plan, build_pipeline
from kiro_asgi.state.memory import MemoryStore
from kiro_asgi.upstreams.base import ModelPage
from kiro_asgi.upstreams.kiro.models import FALLBACK, did_you_mean, normalise
from tests.asgi.driver import http_scope
from tests.helpers import at_once, run

MIB = 1024 * 1024


def resident() -> int:
    """Bytes of memory that this process has now."""
    gc.collect()
    line = next(line for line in Path("/proc/self/status").read_text("ascii").splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def cut_answer(number: int) -> Answer:
    """An answer like no other, cut in a call of which the client was shown a part."""
    answer = build_pipeline((), Plan(fingerprint=True, tool_emission="incremental"))
    run(answer, [TextDelta(f"answer {number}"), ToolCallFragment(f"c{number}", "write" * 1_000, '{"a')])
    return answer


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_a_million_keys_fill_a_store_and_no_more():
    """R47: 10^6 unique keys leave as many entries as allowed, those set last, and no memory behind."""
    store = MemoryStore(entries=1_000)
    before = resident()
    for number in range(1_000_000):
        await store.set(f"{number:064x}", b"x" * 200, 3_600.0)

    assert len(store) == 1_000
    assert [number for number in (998_999, 999_000, 999_999) if await store.get(f"{number:064x}")] == [999_000, 999_999]
    assert resident() - before <= 16 * MIB


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_cut_answers_without_end_leave_a_bounded_memory():
    """R47: unique texts and call ids, by the way that answers take, cost no more than their share."""
    store = MemoryStore(entries=1_000)
    recovery = Recovery(store)
    first = Turn(Role.USER, (Text("go"),))
    asked = await recovery.prepare(Prompt("m", (first,)), "alice")
    before = resident()
    for number in range(5_000):
        await recovery.remember(asked, cut_answer(number))

    assert len(store) == 1_000
    assert store.size_bytes < 2 * MIB
    assert resident() - before <= 16 * MIB
    for number in (0, 4_499, 4_500, 4_999):
        said = Turn(Role.ASSISTANT, (Text(f"answer {number}"),))
        found = await recovery.prepare(Prompt("m", (first, said, Turn(Role.USER, (Text("?"),)))), "alice")
        assert bool(found.notes) is (number >= 4_500), number  # two keys an answer


def test_wrong_keys_leave_nothing_behind():
    """R47: whoever tries keys only spends time."""
    authenticator, before = Authenticator(Settings(client=ClientSettings(api_keys=("right",)))), resident()
    for number in range(100_000):
        with contextlib.suppress(Unauthorized):
            at_once(authenticator.identify(http_scope(headers=[("authorization", f"Bearer {number:064x}")])))

    assert resident() - before <= 16 * MIB
    found = at_once(authenticator.identify(http_scope(headers=[("authorization", "Bearer right")])))
    assert found.principal.startswith("key:")


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
@pytest.mark.parametrize(("listed", "names"), [(True, 2_000), (False, 20_000)])
async def test_unknown_names_leave_nothing_behind(listed, names):
    """R47: names of models are refused, or passed on where there is no list; neither is remembered, nor asked about."""
    asked = 0

    async def ask(page: str) -> bytes:
        nonlocal asked
        asked += 1
        if not listed:
            raise UpstreamFault("no list")
        return b""

    source = ModelSource(
        ask=ask, parse=lambda _: ModelPage(FALLBACK), normalise=normalise, suggest=did_you_mean, builtin=FALLBACK
    )
    catalogue = Catalogue(source, SingleFlight("listing", Transport()), clock=lambda: 0.0)
    await catalogue.cards()
    known, before = len(catalogue._index), resident()
    for number in range(names):
        with contextlib.suppress(UnknownModel):
            await catalogue.find(f"made-up-{number}" + "x" * 100)

    assert (asked, len(catalogue._index)) == (1, known)
    assert resident() - before <= 16 * MIB


def test_names_of_conversations_are_not_kept():
    """R47: they are computed each time."""
    names, before = ConversationIds(), resident()
    for number in range(100_000):
        names.name("key:12345678", f"session-{number}")

    assert resident() - before <= 16 * MIB


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_locks_that_nobody_holds_take_no_memory():
    """R47: a lock is as short-lived as its holder."""
    store, before = MemoryStore(), resident()
    for number in range(50_000):
        async with store.lock(f"{number:064x}"):
            pass

    assert resident() - before <= 16 * MIB
