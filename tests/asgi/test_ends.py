"""What clients and operators get of an answer that ends in a word that nobody knows, or in a failure."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kiro_asgi import create_app
from kiro_asgi.inspector.calls import RecentCalls, Seen
from kiro_asgi.inspector.rows import row
from kiro_asgi.observers.measures import NOTICES
from kiro_asgi.simulator import Head, RawBytes, Step
from tests.asgi.answers import ALL_DIALECTS, text_of
from tests.asgi.conftest import settings_for
from tests.asgi.driver import Exchange, ask
from tests.asgi.test_observers import Recorder
from tests.observers.test_measures import Sums

pytestmark = pytest.mark.anyio
HEADER = "x-kiro-asgi-rules"
NONE: Any = {}


def saying(word: str, *deltas: dict[str, Any]) -> tuple[Step, ...]:
    """A stream of Chat Completions that ends with *word*."""
    choices = [*({"index": 0, "delta": delta} for delta in deltas), {"index": 0, "delta": {}, "finish_reason": word}]
    data = b"".join(b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n" for choice in choices)
    return (Head(content_type="text/event-stream"), RawBytes(data + b"data: [DONE]\n\n"))


TEXT = {"content": "Hi"}
CALL = {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "look", "arguments": "{}"}}]}
EACH_DIALECT = pytest.mark.parametrize("dialect", ALL_DIALECTS)


async def asked(
    service: Any, sim: Any, dialect: str, *answers: Any, streamed: bool, observers: Any = (), slices: Any = NONE
) -> Exchange:
    """The answer to one question, at a service that gives *answers*."""
    custom = {"local": {"endpoint": f"{service.url}/v1", "api_key": "key"}}
    app = create_app(settings_for(service.url, {"custom": custom, **slices}), observers=observers)
    sim.enqueue(*answers, operation="openai.chat")
    exchange = ask(dialect, "hi", stream=streamed, model="local/gpt-4o")
    exchange.scope["headers"].append((HEADER.encode(), b"1"))
    done = await exchange.run(app)
    await app.aclose()
    return done


@EACH_DIALECT
@pytest.mark.parametrize("mode", ["collected", "synthetic", "stream"])
async def test_a_word_that_says_nothing_is_seen_by_all(dialect, mode, service, sim, caplog):
    """The header, where the end is known before it, the log, the metrics and the inspector."""
    recorder, sums, recent = Recorder(), Sums(), RecentCalls(8, 1_000_000)
    slices = {"stream": {"synthetic": True}} if mode == "synthetic" else {}
    observers = (recorder, sums, recent)
    exchange = await asked(
        service, sim, dialect, saying("tired", TEXT), streamed=mode != "collected", observers=observers, slices=slices
    )

    assert text_of(dialect, exchange) == "Hi"
    assert mode == "stream" or "stop.unknown:tired" in exchange.headers[HEADER].split(", ")
    assert any("stop.unknown:tired" in record.getMessage() for record in caplog.records)
    assert recorder.end.notices == {"stop.unknown:tired": 1}
    assert sums.of(NOTICES.name) == {("local", "stop.unknown:tired"): 1}
    assert [row(call)["notices"] for call in recent.changes(Seen(), 8).calls] == [{"stop.unknown:tired": 1}]


@EACH_DIALECT
@pytest.mark.parametrize("stream", [True, False])
async def test_a_failure_before_output_is_tried_again(dialect, stream, service, sim):
    """Nothing was sent; the client sees one answer."""
    exchange = await asked(service, sim, dialect, saying("network_error"), saying("stop", TEXT), streamed=stream)

    assert text_of(dialect, exchange) == "Hi"


@EACH_DIALECT
@pytest.mark.parametrize("held", [TEXT, CALL], ids=["text", "call"])
async def test_a_failure_after_output_is_an_error_in_the_stream(dialect, held, service, sim):
    """No client may take what there is for all of it, and run a call of it; text is not asked for twice."""
    exchange = await asked(service, sim, dialect, *[saying("network_error", held)] * 8, streamed=True)

    assert b"network_error" in exchange.content
    for word in (b'"finish_reason":"', b"response.completed", b"message_stop", b'"stop_reason":"'):
        assert word not in exchange.content
