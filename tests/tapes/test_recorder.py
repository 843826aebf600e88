"""The gateway records what is wanted, beside the event loop, and without secrets."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from kiro_asgi import create_app, simulator
from kiro_asgi.asgi.kept import taping
from kiro_asgi.limits import TAPE_EXCHANGE_BYTES
from kiro_asgi.simulator import refusal
from kiro_asgi.simulator.server import Simulator
from kiro_asgi.tapes import read_tape
from tests.asgi.conftest import settings_for
from tests.asgi.driver import ask, post
from tests.tapes.recording import tapes_of

pytestmark = pytest.mark.anyio


@pytest.fixture
async def sim() -> AsyncIterator[Simulator]:
    async with simulator.serve() as running:
        yield running


async def test_everything_that_went_in_and_out(sim, tmp_path):
    """One attempt that is refused and one that is answered: requests, heads, reads, sends, ids and decisions."""
    sim.enqueue(refusal(429, "ThrottlingException"))
    asked = ask("anthropic", "Hello, ksk_test", stream=True)

    (tape,) = await tapes_of(sim, tmp_path, [asked], tapes={"when": "all", "content": "full"})

    assert "ksk_test" not in tape.write().decode() and "Bearer k" not in tape.write().decode()
    assert json.loads(tape.request.data)["messages"][0]["content"] == "Hello, ********"
    echoed = [body.replace(b"ksk_test", b"********") for body in asked.bodies]
    assert [line.data for line in tape.of("client.bytes")] == echoed
    assert [(attempt.plan.number("n"), attempt.answers[0].head.members["status"]) for attempt in tape.attempts] == [
        (1, 429),
        (2, 200),
    ]
    assert all(answer.reads and answer.end for attempt in tape.attempts for answer in attempt.answers)
    assert [f"msg_{token}" in asked.content.decode() for token in tape.tokens] == [True]
    assert tape.end.members["outcome"] == "complete" and not tape.cut
    assert [line.t for line in tape.lines] == sorted(line.t for line in tape.lines)
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


async def test_masked_is_the_default(sim, tmp_path):
    """A failure is recorded, without a word of it; an answer is not, and neither is a stranger."""
    sim.enqueue(refusal(400, "ValidationException"))
    failed, fine, stranger = (ask("openai", "Secret plans", stream=False) for _ in range(3))
    stranger.scope["headers"] = []

    (tape,) = await tapes_of(sim, tmp_path, [failed, fine, stranger])

    assert (failed.status, fine.status, stranger.status) == (400, 200, 401)
    assert tape.is_masked and "Xxxxxx xxxxx" in tape.write().decode() and "plans" not in tape.write().decode()
    assert tape.end.text("error") == "UpstreamRejected"


@pytest.mark.parametrize(("when", "count"), [("retried", 1), ("header", 1), ("cut", 0)])
async def test_when(sim, tmp_path, when, count):
    """Calls with several attempts, or those that ask for it."""
    sim.enqueue(refusal(429, "ThrottlingException"))
    asked = ask("responses", "Hello", stream=True), ask("responses", "Hello", stream=True)
    asked[1].scope["headers"].append((b"x-kiro-asgi-tape", b"1"))

    assert len(await tapes_of(sim, tmp_path, asked, tapes={"when": when})) == count


async def test_caps(sim, tmp_path, monkeypatch):
    """A long exchange is cut, and says so; a full folder loses its oldest tapes."""
    monkeypatch.setattr(taping, "TAPE_EXCHANGE_BYTES", 2000)
    body = json.dumps({"model": "claude-sonnet-4.5", "messages": [{"role": "user", "content": "a" * 400}]}).encode()
    (tmp_path / "19700101T000000-req_old.tape.jsonl").write_bytes(bytes(1024 * 1024))
    app = create_app(settings_for(sim.url, {"tapes": {"path": str(tmp_path), "when": "all", "bytes": 1024 * 1024}}))

    await post("/v1/chat/completions", body).run(app)
    await app.aclose()

    (path,) = tmp_path.iterdir()
    tape = read_tape([path.read_bytes()])
    assert tape.cut and tape.end is not None and not tape.sent
    assert TAPE_EXCHANGE_BYTES > 2000
