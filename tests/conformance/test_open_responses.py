"""What the compliance suite of Open Responses asks, on HTTP, of each server and event loop; judged by `OPEN` alone.

The cases bear the suite's names.  Its reader of streams is stricter than the standard: it splits at line feeds alone.

Source: https://www.openresponses.org/compliance
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from kiro_asgi import simulator
from tests.cli.processes import serving
from tests.conformance.asking import MODEL, PNG
from tests.conformance.gateways import KEY, Gateway
from tests.conformance.raw import post
from tests.conformance.responses_schema import OPEN, sse_events
from tests.e2e.hosts.servers import served

Params = dict[str, Any]


@pytest.fixture(scope="module", params=["hypercorn-asyncio", "hypercorn-trio", "uvicorn"])
def anywhere(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """The simulated service behind each server; the first is the one that the other tests use."""
    if request.param == "hypercorn-asyncio":
        yield request.getfixturevalue("gateway")
    elif request.param == "hypercorn-trio":
        folder = tmp_path_factory.mktemp("trio")
        with serving("--simulate", "--loop", "trio", cwd=folder, lines=5, KIRO_ASGI__CLIENT__API_KEYS=KEY) as server:
            yield Gateway(server.base)
    else:
        with simulator.running() as service, served("uvicorn", "alone:application", service.url) as server:
            yield Gateway(server.url, service)


def said(role: str, content: Any, **more: Any) -> Params:
    return {"type": "message", "role": role, "content": content, **more}


IMAGE: Final = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}

TOOL: Final[Params] = {
    "type": "function",
    "name": "get_weather",
    "description": "Look up current weather.",
    "parameters": {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]},
}

CASES: Final[dict[str, tuple[Params, str]]] = {
    "basic-response": ({"input": [said("user", "Greet me in three words.")]}, "message"),
    "assistant-phase": (
        {
            "input": [
                said("assistant", "I look it up.", phase="commentary"),
                said("assistant", "It is blue.", phase="final_answer"),
                said("user", "And at night?"),
            ]
        },
        "message",
    ),
    "streaming-response": ({"input": [said("user", "Count to five.")], "stream": True}, "message"),
    "system-prompt": ({"input": [said("system", "Speak like a pirate."), said("user", "Greet me.")]}, "message"),
    "tool-calling": (
        {"input": [said("user", "What is the weather in Oslo?")], "tools": [TOOL]},
        "function_call",
    ),
    "image-input": (
        {"input": [said("user", [{"type": "input_text", "text": "What is in this picture?"}, IMAGE])]},
        "message",
    ),
    "multi-turn": (
        {"input": [said("user", "I am Ada."), said("assistant", "Good day, Ada."), said("user", "Who am I?")]},
        "message",
    ),
}
"""Case to its request and the kind of item that must be in the output."""


@pytest.mark.parametrize("name", CASES)
def test_the_compliance_suite_passes(name: str, anywhere: Gateway) -> None:
    """Each body, and each event, has all that the specification demands; the answer came to its end."""
    params, wanted = CASES[name]
    key = KEY if anywhere.service is None else "k"
    answer = post(anywhere, "/v1/responses", {"model": MODEL, **params}, authorization=f"Bearer {key}")
    assert answer.status == 200, answer.body

    events = [*sse_events([answer.body])] if params.get("stream") else []
    response = events[-1]["response"] if events else json.loads(answer.body)

    assert answer.headers["content-type"].startswith("text/event-stream" if events else "application/json")
    assert [problem for value in (*events, response) for problem in OPEN.problems(value)] == []
    assert not events or b"\r" not in answer.body
    assert response["status"] == "completed"
    assert wanted in [item["type"] for item in response["output"]]
