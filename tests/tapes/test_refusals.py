"""A tape of a failure gives the failure again, whatever the gateway did about it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from kiro_asgi import Settings, simulator
from kiro_asgi.asgi.door.parts import Internals
from kiro_asgi.asgi.exchange.providers import in_effect
from kiro_asgi.create import new_app
from kiro_asgi.replay import Replay, derive
from kiro_asgi.simulation import SimulatedTransport
from kiro_asgi.simulator.server import Simulator
from kiro_asgi.tapes import Tape
from kiro_asgi.wire.json import loads
from tests.asgi.conftest import settings_for
from tests.tapes.recording import MODELS, PATHS, question, read_all, services

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]  # a replay has its own loop

REFUSALS = (
    *("sim:429", "sim:suspicious", "sim:daily", "sim:quota", "sim:overage", "sim:overloaded", "sim:403"),
    *("sim:token-invalid", "sim:suspended", "sim:404", "sim:500", "sim:503", "sim:too-long", "sim:bad-request"),
    *("sim:bad-model", "sim:exception", "sim:exception-first", "sim:eof", "sim:fin", "sim:reset", "sim:reset-first"),
    *("sim:hang-up", "sim:torn", "sim:bad-crc", "sim:empty", "sim:html", "sim:json-200-error", "sim:once-503"),
)
BY_WORDS = (
    *("sim:suspicious", "sim:token-invalid", "sim:404", "sim:500"),
    *("sim:exception", "sim:exception-first"),
)
"""Refusals that are known by words, which a masked tape does not have."""

QUICK = {"base": 0.01, "capacity_base": 0.01, "rate_base": 0.01, "attempts": 2, "max_wait": 0.1}
ALL = {"when": "all", "content": "full"}


@pytest.fixture
async def sim() -> AsyncIterator[Simulator]:
    async with simulator.serve() as running:
        running.accounts.devices.interval = 0.02
        yield running


async def replayed(tape: Tape) -> Replay:
    return await anyio.to_thread.run_sync(partial(derive, tape))


async def differing(tapes: list[Tape]) -> list[str]:
    """The tapes whose replay gives the client something else, or that miss an answer, with the first difference."""
    wrong = []
    for number, tape in enumerate(tapes):
        replay = await replayed(tape)
        if not replay.is_same or replay.missing:
            where = [] if replay.difference is None else [*replay.difference.explain()]
            wrong.append(f"{number} misses {replay.missing}: {where}")
    return wrong


async def taped(settings: Settings, folder: Path, asked: list[Any], internals: Internals | None = None) -> list[Tape]:
    app = new_app(settings, internals=internals)
    for each in asked:
        await each.run(app)
    await app.aclose()
    return read_all(folder)


@pytest.mark.parametrize("content", ["full", "masked"])
async def test_what_kiro_refuses_is_refused_again(content: str, sim: Simulator, tmp_path: Path) -> None:
    """At one host, as `--simulate` has it: a key that is refused, a quota with its end, and all others."""
    slices = {"tapes": {**ALL, "content": content, "path": str(tmp_path)}, "retry": {**QUICK, "quota_probe": 0}}
    asked = [question("anthropic", marker) for marker in REFUSALS]

    tapes = await taped(settings_for(sim.url, slices), tmp_path, asked)
    assert len(tapes) == len(asked)
    wrong = [REFUSALS[int(each.split()[0])] for each in await differing(tapes)]
    assert " ".join(each for each in wrong if content == "full" or each not in BY_WORDS) == ""
    assert any(b"resets at 2096-10-02" in tape.sent for tape in tapes) or content == "masked"


async def test_both_hosts_of_kiro(tmp_path: Path) -> None:
    """Where the gateway may go to the other one, and the credential remembers which it was."""
    kiro = {"api_key": "ksk_x"}
    tables = {"tapes": {**ALL, "path": str(tmp_path)}, "retry": QUICK, "client": {"api_keys": ["k"]}, "kiro": kiro}
    transport = SimulatedTransport()
    internals = Internals(transports=lambda settings, proxy: transport)
    asked = [question("openai", marker) for marker in ("Hello", "sim:token-invalid", "sim:403", "Hello", "sim:quota")]

    tapes = await taped(Settings.from_mapping(tables), tmp_path, asked, internals)
    assert await differing(tapes) == []


async def test_the_simulation_of_an_application(tmp_path: Path) -> None:
    """With the service within the process, as `create_app(simulate=True)` has it."""
    settings = Settings.from_mapping(
        {"tapes": {**ALL, "path": str(tmp_path)}, "simulate": True, "client": {"api_keys": ["k"]}}
    )
    asked = [question("responses", marker) for marker in ("sim:token-invalid", "sim:quota", "sim:cut-tool")]

    tapes = await taped(settings, tmp_path, asked)
    assert settings != in_effect(settings)
    assert await differing(tapes) == []


@pytest.mark.parametrize("service", [name for name in MODELS if name != "kiro"])
async def test_the_next_key_is_used_again(service: str, sim: Simulator, tmp_path: Path) -> None:
    """Of two keys the first is refused and rests; a call finds the second at once, and another finds none."""
    tables = services(sim)
    table = tables["custom"]["local"] if service == "custom" else tables[service]
    table |= {"api_key": "first", "fallback_api_keys": ["second"]}
    slices = {"tapes": {**ALL, "path": str(tmp_path)}, "retry": {**QUICK, "quota_probe": 60}, **tables}
    sim.revoke("first")
    asked = [question(api, "Hello", MODELS[service]) for api in PATHS]
    asked += [question("openai", marker, MODELS[service]) for marker in ("sim:429", "sim:quota", "Hello")]

    tapes = await taped(settings_for(sim.url, slices), tmp_path, asked)
    assert len(tapes) == len(asked) and {200} < {tape.status for tape in tapes}
    assert await differing(tapes) == []


async def test_a_renewed_token_is_renewed_again(sim: Simulator, tmp_path: Path) -> None:
    """The service refuses the token once; the tape has neither of the two, nor how it was renewed."""
    file = tmp_path / "token.json"
    file.write_text('{"accessToken": "aoa-old", "refreshToken": "aor-first", "expiresAt": "2999-01-01T00:00:00Z"}')
    kiro = {"api_key": "", "credentials_file": str(file), "auth_endpoint": sim.url}
    folder = tmp_path / "tapes"
    slices = {"tapes": {**ALL, "path": str(folder)}, "retry": QUICK, "kiro": kiro}
    sim.revoke("aoa-old")

    tapes = await taped(settings_for(sim.url, slices), folder, [question("anthropic", "Hello") for _ in range(2)])
    assert [len(tape.attempts) for tape in tapes] == [2, 1] and {tape.status for tape in tapes} == {200}
    assert await differing(tapes) == []
    written = b"".join(tape.write() for tape in tapes)
    assert b"aoa-old" not in written and b"aor-first" not in written


async def test_what_is_noticed_is_kept(sim: Simulator, tmp_path: Path) -> None:
    """An answer whose tool call was cut has an end; with the usual choice its tape would be missing."""
    found = {}
    for when in ("noticed", "error"):
        folder = tmp_path / when
        slices = {"tapes": {**ALL, "when": when, "path": str(folder)}, "retry": QUICK}
        asked = [question("anthropic", marker) for marker in ("Hello", "sim:cut-tool", "sim:torn")]
        tapes = await taped(settings_for(sim.url, slices), folder, asked)
        found[when] = {loads(tape.request.data)["messages"][0]["content"] for tape in tapes}

    assert found == {"noticed": {"sim:cut-tool", "sim:torn"}, "error": {"sim:torn"}}
