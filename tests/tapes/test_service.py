"""Tapes answer for a service: the same bytes to the same request, and a refusal that says why to any other."""

from __future__ import annotations

import pytest

from kiro_asgi import create_app, simulator
from kiro_asgi.redaction import Redactor
from kiro_asgi.replay.service import TapeService
from kiro_asgi.simulator.scripts import CloseEarly, Head, Pause, RawBytes, Reset, Stall
from kiro_asgi.tapes import Line, Tape
from kiro_asgi.tapes.masking import Protection
from kiro_asgi.tapes.recorder import protected
from tests.asgi.conftest import settings_for
from tests.tapes.recording import MODELS, question, services, tapes_of

ALL = {"when": "all", "content": "full"}
MASKING = Protection(Redactor.of(()), is_masking=True)


def answers(tape: Tape) -> list[tuple[int, bytes]]:
    """What the services gave: status and bytes of each answer."""
    return [
        (answer.head.members["status"], b"".join(line.data for _, line in answer.reads))
        for attempt in tape.attempts
        for answer in attempt.answers
    ]


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # what is tried is the same on each
async def test_the_same_answer_to_the_same_request(tmp_path):
    """Of every service, after a refusal; to a masked tape's shape, too; to nothing else, in the service's form."""
    asked = [
        ("anthropic", "Count to 3", MODELS["kiro"]),
        *(("openai", "Hi", it) for it in MODELS.values()),
    ]
    async with simulator.serve() as sim:
        sim.enqueue(simulator.refusal(429, "ThrottlingException"))
        before = await tapes_of(sim, tmp_path / "a", [question(*each) for each in asked], tapes=ALL, **services(sim))
    masked = [protected(tape, MASKING) for tape in before]
    async with simulator.serve() as sim:
        for folder, tapes, words in (("b", before, ""), ("c", masked, " 2")):
            sim.answer_with(TapeService.of(tapes))
            again = [question(api, prompt.replace(" 3", words or " 3"), model) for api, prompt, model in asked]
            after = await tapes_of(sim, tmp_path / folder, again, tapes=ALL, **services(sim))
            assert [answers(tape) for tape in after] == [answers(tape) for tape in tapes]

        strangers = [question("openai", "Something that nobody has asked", it) for it in MODELS.values()]
        for stranger, app in ((it, create_app(settings_for(sim.url, services(sim)))) for it in strangers):
            await stranger.run(app)
            await app.aclose()
            assert stranger.status == 400 and "None of 7 tapes has this request" in stranger.json()["error"]["message"]
    assert [status for status, _ in answers(before[0])] == [429, 200]


def test_faults_and_pauses():
    """What broke off breaks off in the same way; a head that no server could send is made harmless."""
    headers = [["Content-Type", "a/b"], ["x-request-id", "1\r\nx: y"], ["via", "it"], ["x y", "z"], ["cookie", "c"]]
    ends = {"": None, "UpstreamTimeout": Stall(), "UpstreamUnreachable": Reset(), "none": CloseEarly()}
    lines = [Line("tape", 0.0, {"v": 1})]
    for name in ends:
        lines += [Line("plan", 0.0), Line("up.request", 0.0, {"url": f"http://h/v1/{name}"}, b"{}")]
        lines += [Line("up.head", 2.0, {"status": 7, "headers": headers}), Line("up.bytes", 4.0, {}, b"data")]
        lines += [Line("up.end", 5.0, {"error": name})] if name != "none" else []
    service = TapeService.of([Tape(tuple(lines))], speed=2)

    for name, end in ends.items():
        request = simulator.RecordedRequest("POST", f"/v1/{name}", "", {}, b"{}", operation="openai.chat")
        head = Head(502, "a/b", (("via", "it"),))
        assert service(request) == (Pause(1.0), head, Pause(1.0), RawBytes(b"data"), *([end] if end else []))
    assert service(simulator.RecordedRequest("GET", "/v1/models", "", {}, operation="openai.models")) is None
