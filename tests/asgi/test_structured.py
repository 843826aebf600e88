"""Answers that were to be JSON: they are delivered as they are, and a mismatch is logged."""

from __future__ import annotations

import pytest

from kiro_asgi.simulator import answer, text
from tests.asgi.answers import text_of
from tests.asgi.driver import PATHS, post

pytestmark = pytest.mark.anyio

FORMAT = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object", "required": ["a"]}}}


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "collect"])
@pytest.mark.parametrize(("said", "code"), [("Well, no.", "output.not_json"), ('{"a": 1}', "")])
async def test_a_mismatch_is_logged_and_the_answer_delivered(said, code, stream, gateway, sim, caplog):
    """Nothing enforces the form; the log tells by a code, without the text."""
    sim.enqueue(answer(*text(said)))
    body = {"model": "claude-sonnet-4.5", "messages": [{"role": "user", "content": "Hi."}], "response_format": FORMAT}
    exchange = await post(PATHS["openai"], {**body, "stream": stream}).run(gateway())

    assert text_of("openai", exchange) == said
    assert ("output." in caplog.text) == bool(code)
    assert code in caplog.text
    assert "Well" not in caplog.text
