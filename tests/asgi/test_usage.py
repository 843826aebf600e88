"""The ledger of an application: what was used is there after its end, and a command shows it."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import anyio
import pytest
from attrs import evolve

from kiro_asgi.asgi.kept.usage import UsageObserver
from kiro_asgi.cli import main
from kiro_asgi.errors import StoreUnavailable
from kiro_asgi.inspector.site import Inspector
from kiro_asgi.model.events import Metering, Usage, UsageSource
from kiro_asgi.quota.base import UsageKey, UsageRow
from kiro_asgi.quota.ledger import UsageWriter
from kiro_asgi.quota.memory import MemoryLedger
from tests.asgi.driver import post
from tests.observers.facts import CALL, END, PLAN
from tests.parts import part_of

MESSAGES = {"model": "claude-sonnet-4.5", "max_tokens": 100, "messages": [{"role": "user", "content": "sim:text"}]}
FAILING = {**MESSAGES, "messages": [{"role": "user", "content": "sim:500"}]}
ROW = UsageRow(UsageKey("2026-11-23", "key:alice", "kiro", "m"), {"requests": 1})


@pytest.mark.anyio
async def test_usage_outlives_the_application(gateway, sim, tmp_path, monkeypatch, capsys):
    """Added up over two lives of it, by client and model; a request that was refused here asked nobody."""
    state = {"engine": "sqlite", "path": str(tmp_path / "state.db"), "usage": True}
    for _ in range(2):
        app = gateway(fresh=True, state=state, retry={"attempts": 1})
        answers = [await post("/v1/messages", body, key="k").run(app) for body in (MESSAGES, FAILING)]
        await post("/v1/messages", {}, key="k").run(app)
        await app.aclose()
    told = answers[0].json()["usage"]

    monkeypatch.setenv("KIRO_ASGI__STATE__ENGINE", "sqlite")
    monkeypatch.setenv("KIRO_ASGI__STATE__PATH", state["path"])
    assert main(["usage", "--by", "upstream,key", "--json"]) == 0
    (line,) = json.loads(capsys.readouterr().out)
    assert (line["upstream"], line["key"][:4], line["requests"], line["failures"]) == ("kiro", "key:", 4, 2)
    assert line["input_tokens"] + line["estimated_input_tokens"] == 2 * told["input_tokens"]
    assert line["output_tokens"] + line["estimated_output_tokens"] == 2 * told["output_tokens"]
    assert main(["usage", "--by", "model", "--csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("claude-sonnet-4.5,4,2,")
    assert main(["usage"]) == 0
    assert {"answers_with_credits", "credits", "requests"} <= {*capsys.readouterr().out.split()}
    assert main(["usage", "--until", "2001-01-01", "--csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_told_and_estimated_tokens_are_never_one_sum():
    told, ledger = UsageSource.UPSTREAM, MemoryLedger()
    writer = UsageWriter(ledger)
    observer = UsageObserver(writer, ZoneInfo("Europe/Berlin"))
    began = evolve(CALL, principal="key:alice", time=datetime(2026, 11, 22, 23, 30, tzinfo=UTC).timestamp())
    for usage in (Usage(5, 7, input_source=told, output_source=told), Usage(50, 70), Usage(500, 0, 900)):
        observer.ended(began, evolve(END, usage=usage, plan=evolve(PLAN, model="m" * 1_000)))
    observer.ended(began, evolve(END, plan=None))
    writer.close()
    (row,) = ledger.rows("2026-11-23", "2026-11-23")
    assert (row.key.principal, row.key.model) == ("key:alice", "m" * 200)
    assert row.amounts["requests"] == 3
    tokens = {name: amount for name, amount in row.amounts.items() if name.endswith("_tokens")}
    assert tokens == {
        "input_tokens": 5,
        "output_tokens": 7,
        "estimated_input_tokens": 550,
        "estimated_output_tokens": 70,
    }


def test_credits_are_those_of_answers_that_have_them():
    """Where the service says nothing, what an answer took is not known, and counts towards no average."""
    ledger = MemoryLedger()
    writer = UsageWriter(ledger)
    observer = UsageObserver(writer, ZoneInfo("UTC"))
    for metering in (Metering(0.25), None, Metering(0.5), Metering(0.0)):
        observer.ended(CALL, evolve(END, usage=Usage(5, 7, metering=metering), plan=PLAN))
    writer.close()
    (row,) = ledger.rows("2000-01-01", "2999-01-01")

    assert (row.amounts["requests"], row.amounts["credits"], row.amounts["answers_with_credits"]) == (4, 0.75, 3)


@pytest.mark.anyio
@pytest.mark.parametrize("engine", ["auto", "memory"])
async def test_usage_in_memory_is_for_the_inspector_alone(gateway, capsys, monkeypatch, tmp_path, engine):
    """It shows it as long as the process lives; no other process can, and says so."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("kiro_asgi.state.pending.WRITE_EVERY", 0.0)
    monkeypatch.setenv("KIRO_ASGI__STATE__ENGINE", engine)
    inspector = {"enabled": True, "secret": "s" * 16}
    app = gateway(fresh=True, state={"usage": True, "engine": engine}, inspector=inspector)
    await post("/v1/messages", MESSAGES, key="k").run(app)
    pages = part_of(app, Inspector)
    with anyio.fail_after(10):
        while not (rows := [*pages._sources.usage("2000-01-01", "2999-01-01")]):  # noqa: ASYNC110 - a thread writes
            await anyio.sleep(0.01)
    await app.aclose()

    assert [(row.key.upstream, row.amounts["requests"]) for row in rows] == [("kiro", 1)]
    assert main(["usage"]) == 1
    assert capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


class Failing(MemoryLedger):
    """Refuses as often as it is told."""

    refusals = 0

    def add(self, rows):
        if self.refusals:
            self.refusals -= 1
            raise StoreUnavailable("busy", code="state.test")
        super().add(rows)


def test_usage_waits_for_a_ledger_that_cannot_be_written(monkeypatch, caplog):
    """Nothing is lost or counted twice, and who closes waits for it; what is never written is told."""
    monkeypatch.setattr("kiro_asgi.state.pending._PARTING", 0.2)
    ledger = Failing()
    writer = UsageWriter(ledger)
    ledger.refusals = 2
    writer.add(ROW)
    writer.add(ROW)
    writer.close()
    assert [row.amounts for row in ledger.rows("2026-11-23", "2026-11-23")] == [{"requests": 2}]
    ledger.refusals = 10**9
    writer.add(ROW)
    writer.close()
    assert "1 rows of usage are lost" in caplog.text
    assert not [thread for thread in threading.enumerate() if thread.name == "kiro-asgi usage"]
