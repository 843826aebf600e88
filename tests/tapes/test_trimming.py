"""A trimmed tape gives the same bytes, and has nothing left that they do not need."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio.to_thread
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from kiro_asgi import simulator
from kiro_asgi.cli import main
from kiro_asgi.replay import derive
from kiro_asgi.replay.trimming import shrink, trim
from kiro_asgi.tapes import Tape, TapeError, load_tape, read_tape
from kiro_asgi.wire.json import loads
from tests.asgi.driver import post
from tests.tapes.corpus import CORPUS
from tests.tapes.recording import MODELS, tapes_of

JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=3), inner, max_size=6),
    max_leaves=30,
)


def leaves(value: Any) -> list[Any]:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return [value] if parts is None else [leaf for part in parts for leaf in leaves(part)]


@given(JSON, st.integers(0, 200))
@settings(max_examples=25)
def test_shrinking(document, most):
    """What has to hold holds of what is left; a trial is counted, and enough of them leave nothing that can go."""
    needed = {leaf for leaf in leaves(document)[::3] if isinstance(leaf, int)}
    trials = 0

    def holds(candidate: Any) -> bool:
        nonlocal trials
        trials += 1
        return needed <= {*leaves(candidate["of"])}

    small = shrink({"of": document}, holds, most)

    assert trials <= most and needed <= {*leaves(small["of"])}
    rest = [leaf for leaf in leaves(small["of"]) if isinstance(leaf, int)]
    if most == 200 and isinstance(document, list):
        assert sorted(rest) == sorted(needed)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # a replay has a loop of its own
async def test_a_long_request(tmp_path):
    """Of many turns, tools and settings there is left what the answer depends on; services are asked accordingly."""
    unused = {"type": "object", "properties": {f"p{at}": {"type": "string"} for at in range(9)}}
    turns = [{"role": role, "content": "Long ago. " * 20} for _ in range(4) for role in ("user", "assistant")]
    body = {
        "model": MODELS["kiro"],
        "max_tokens": 999,
        "stream": True,
        "system": "You are a weather frog.",
        "messages": [*turns, {"role": "user", "content": "Plans? sim:tool"}],
        "tools": [{"name": name, "input_schema": unused} for name in ("frob", "get_weather", "grind")],
    }
    options = {"tapes": {"when": "all", "content": "full"}, "stream": {"heartbeat": 7.0}}
    async with simulator.serve() as sim:
        (tape,) = await tapes_of(sim, tmp_path, [post("/v1/messages", body)], **options)

    small = await anyio.to_thread.run_sync(partial(trim, tape))

    assert (await anyio.to_thread.run_sync(derive, small)).difference is None and small.sent == tape.sent
    left = loads(small.request.data)
    assert len(left["messages"]) == 1 and "system" not in left and len(small.request.data) < 200
    assert small.head.members["settings"] == {} != tape.head.members["settings"]
    (asked,) = (line.data for line in small.of("up.request"))
    assert b"frog" not in asked and b"conversationState" in asked


def test_a_sealed_answer():
    """What the gateway seals is the same in each replay, or no part of such a tape could go."""
    tape = load_tape(CORPUS / "sealed.tape.jsonl")
    first, again, small = derive(tape), derive(tape), trim(tape)

    assert first.sent == again.sent == small.sent == derive(small).sent
    assert len(small.request.data) < len(tape.request.data)


def test_evidence_is_not_replaced(tmp_path, capsys):
    """A tape whose replay differs, in a byte or in its status, is not trimmed; masked, it keeps what the client got."""
    tape = load_tape(CORPUS / "counting.tape.jsonl")
    other = [evolve(line, data=line.data + b" ") if line.kind == "client.bytes" else line for line in tape.lines]
    moved = [
        evolve(line, members={**line.members, "status": 502}) if line.kind == "client.head" else line
        for line in tape.lines
    ]

    for lines in (other, moved):
        changed = Tape(tuple(lines))
        with pytest.raises(TapeError, match="does not give what the client got"):
            trim(changed)
        path = tmp_path / "changed.tape.jsonl"
        path.write_bytes(changed.write())
        assert main(["tape", "mask", str(path)]) == 0
        masked = read_tape([capsys.readouterr().out.encode()])
        assert (len(masked.sent), masked.status) == (len(changed.sent), changed.status)
        assert main(["tape", "check", str(path)]) == 1
        assert "a replay sends the client" in capsys.readouterr().out
