"""What the compliance suite of Open Responses asks of each server and event loop; judged by `OPEN` alone.

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
from tests.conformance.responses_schema import OPEN, OPEN_ITEMS, sse_events
from tests.e2e.hosts.servers import served
from tests.websocket import connected, turn

Params = dict[str, Any]


@pytest.fixture(scope="module", params=["hypercorn-asyncio", "hypercorn-trio", "uvicorn"])
def anywhere(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """The simulated service behind each server; the first is the one that the other tests use."""
    if request.param == "hypercorn-asyncio":
        yield request.getfixturevalue("gateway")
    elif request.param == "hypercorn-trio":
        folder = tmp_path_factory.mktemp("trio")
        with serving("--simulate", "--loop", "trio", cwd=folder, KIRO_ASGI__CLIENT__API_KEYS=KEY) as server:
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
    answer = post(anywhere, "/v1/responses", {"model": MODEL, **params}, authorization=f"Bearer {_key(anywhere)}")
    assert answer.status == 200, answer.body

    events = [*sse_events([answer.body])] if params.get("stream") else []
    response = events[-1]["response"] if events else json.loads(answer.body)

    assert answer.headers["content-type"].startswith("text/event-stream" if events else "application/json")
    assert [problem for value in (*events, response) for problem in OPEN.problems(value)] == []
    assert not events or b"\r" not in answer.body
    assert response["status"] == "completed"
    assert wanted in [item["type"] for item in response["output"]]


def test_the_compliance_suite_compacts(anywhere: Gateway) -> None:
    """compact-response, compact-missing-model, websocket-compact-new-chain: what is compacted begins a new chain."""
    talk = [said("user", "I am Ada."), said("assistant", "Hello.")]
    params: Params = {"model": MODEL, "prompt_cache_key": "k1", "input": talk}
    part = {"type": "output_text", "text": "Anything else?"}
    key = {"authorization": f"Bearer {_key(anywhere)}"}
    missing = post(anywhere, "/v1/responses/compact", {"input": "hi"}, **key)
    whole = post(anywhere, "/v1/responses/compact", params, **key)
    params["input"] = [*talk, said("assistant", [part])]
    compacted = json.loads(post(anywhere, "/v1/responses/compact", params, **key).body)
    with connected(anywhere.base, _key(anywhere)) as connection:
        frames = turn(connection, [*compacted["output"], said("user", "Who am I?")], tools=[], store=False)

    assert missing.status == 400
    assert [problem for each in compacted["output"] for problem in OPEN_ITEMS[each["type"]](each, "item")] == []
    assert [each["type"] for each in json.loads(whole.body)["output"]] == ["message", "compaction"]
    assert (compacted["object"], type(compacted["created_at"])) == ("response.compaction", int)
    assert frames[-1]["type"] == "response.completed"
    assert [problem for frame in frames for problem in OPEN.problems(frame)] == []


def _key(gateway: Gateway) -> str:
    return KEY if gateway.service is None else "k"


def test_the_compliance_suite_passes_over_websocket(anywhere: Gateway) -> None:
    """One connection after the other: each frame is valid, and each end is the one that the case wants."""
    frames: list[Params] = []

    def end(connection: Any, content: Any, **more: Any) -> Params:
        told = turn(connection, content, **more)
        frames.extend(told)
        return told[-1]

    def code(frame: Params) -> str:
        return str(frame["error"]["code"] if frame["type"] == "error" else frame["response"]["error"]["code"])

    def connection() -> Any:
        return connected(anywhere.base, _key(anywhere))

    with connection() as first:
        done = [
            end(first, [said("user", "Greet me in three words.")]),  # websocket-response
            end(first, "Say one.", store=False),  # websocket-sequential-responses
            end(first, "Say two.", store=False),
            end(first, "Remember: blue.", store=False),  # websocket-continuation
        ]
        held = done[-1]["response"]["id"]
        done.append(end(first, [said("user", "Which colour?")], previous_response_id=held, store=False))
    with connection() as second:
        # websocket-reconnect-store-false-recovery, websocket-previous-response-not-found
        missing = [
            end(second, "And now?", previous_response_id=held, store=False),
            end(second, "And now?", previous_response_id="resp_invented", store=False),
        ]
        done.append(end(second, "Afresh.", store=False))
        # websocket-failed-continuation-evicts-cache
        held = end(second, "Remember: green.", store=False)["response"]["id"]
        orphan = [{"type": "function_call_output", "call_id": "call_unknown", "output": "{}"}]
        failed = end(second, orphan, previous_response_id=held, store=False)
        missing.append(end(second, "Which colour?", previous_response_id=held, store=False))

    assert [frame["type"] for frame in done] == ["response.completed"] * 6
    assert [problem for frame in frames if frame["type"] != "error" for problem in OPEN.problems(frame)] == []
    assert failed["type"] in ("error", "response.failed")
    assert [code(frame) for frame in missing] == ["previous_response_not_found"] * 3
    assert all(isinstance(frame["status"], int) and code(frame) for frame in frames if frame["type"] == "error")
