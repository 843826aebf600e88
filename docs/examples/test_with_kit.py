"""What tests of an agent, and of parts of one's own, look like with `kiro_asgi.testing`."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.request import Request, urlopen

import anyio
from folder_store import FolderStore
from plain_dialect import PLAIN
from redacting_stage import Redactor

from kiro_asgi import create_app
from kiro_asgi.model.events import TextDelta
from kiro_asgi.testing import SIMULATED, Clock, ask, check_cuts, check_dialect, check_store, check_stream, serving

QUESTION = {"model": "claude-sonnet-4.5", "messages": [{"role": "user", "content": "sim:count=3"}]}


def test_an_agent_against_a_gateway_on_a_port() -> None:
    """Any client can be given the address."""
    with serving() as url:
        request = Request(f"{url}/v1/chat/completions", json.dumps(QUESTION).encode())
        with urlopen(request) as response:
            assert b"1 2 3" in response.read()


def test_a_question_in_process_and_the_grammar_of_its_answer() -> None:
    async def main() -> None:
        app = create_app(SIMULATED)
        answer = await ask(app, "/v1/chat/completions", {**QUESTION, "stream": True})
        await app.aclose()
        assert "1 2 3" in check_stream("openai_chat", answer.body)["message"]["content"]

    anyio.run(main)


def test_parts_of_ones_own(tmp_path: Path) -> None:
    check_dialect(PLAIN, b"Hi", headers=[(b"x-model", b"m")])
    check_cuts(lambda: Redactor("bluebird"), [TextDelta("a bluebird, a blue bird")])
    clock, numbers = Clock(), iter(range(100))
    anyio.run(check_store, lambda: FolderStore(tmp_path / str(next(numbers)), clock), clock)
