"""What clients can make the gateway remember stays bounded."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from kiro_asgi.asgi.recovery import Recovery
from kiro_asgi.model.events import TextDelta, ToolCallFragment
from kiro_asgi.model.prompt import Prompt, Role, Text, Turn
from kiro_asgi.stages.answer import Answer, Plan, build_pipeline
from kiro_asgi.state.memory import MemoryStore
from tests.helpers import run

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
    asked = await recovery.prepare(Prompt("m", (Turn(Role.USER, (Text("go"),)),)), "alice")
    before = resident()
    for number in range(5_000):
        await recovery.remember(asked, cut_answer(number))

    assert len(store) == 1_000
    assert store.size_bytes < 2 * MIB
    assert resident() - before <= 16 * MIB
    for number in (0, 4_499, 4_500, 4_999):
        said = Turn(Role.ASSISTANT, (Text(f"answer {number}"),))
        found = await recovery.prepare(Prompt("m", (said, Turn(Role.USER, (Text("?"),)))), "alice")
        assert bool(found.notes) is (number >= 4_500), number  # two keys an answer
