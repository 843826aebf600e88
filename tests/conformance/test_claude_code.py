"""What Claude Code asks, and how it reads the answer.

Numbers are those of the project's list of conformance assertions.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from kiro_asgi.wire.sse import SseDecoder
from tests.conformance.asking import MESSAGES_TOOLS, MODEL, NATIVE, user
from tests.conformance.claude_code import ClaudeCode, Dropped, Malformed, Reported
from tests.conformance.gateways import KEY, Gateway
from tests.conformance.raw import post

Event = tuple[str, dict[str, Any]]

BETAS = "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,effort-2025-11-24"

HEADERS = {
    "authorization": "",
    "x_api_key": KEY,
    "anthropic_version": "2023-06-01",
    "anthropic_beta": BETAS,
    "anthropic_dangerous_direct_browser_access": "true",
    "x_app": "cli",
    "user_agent": "claude-cli/2.1.329 (external, cli)",
    "x_claude_code_session_id": "00000000-0000-4000-8000-000000000000",
    "x_stainless_helper_method": "stream",
}


def request(messages: list[Any], *, stream: bool = True, model: str = MODEL, **more: Any) -> dict[str, Any]:
    """A turn of the main loop."""
    return {
        "model": model,
        "max_tokens": 32000,
        "stream": stream,
        "system": [
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.329; cc_entrypoint=cli"},
            {"type": "text", "text": "You are an agent.", "cache_control": {"type": "ephemeral", "scope": "global"}},
        ],
        "messages": messages,
        "tools": [
            {**MESSAGES_TOOLS[0], "strict": True, "eager_input_streaming": True},
            {**MESSAGES_TOOLS[1], "cache_control": {"type": "ephemeral", "ttl": "1h"}},
            {"type": "web_search_20250305", "name": "web_search", "max_uses": 5},
        ],
        "metadata": {"user_id": '{"device_id":"d","account_uuid":"","session_id":"s"}'},
        "thinking": {"type": "adaptive"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "output_config": {"effort": "medium"},
        **more,
    }


def events(body: bytes) -> list[Event]:
    return [(event.event, json.loads(event.data)) for event in SseDecoder().feed([body])]


def turn(gateway: Gateway, messages: list[Any], **more: Any) -> dict[str, Any]:
    answer = post(gateway, "/v1/messages?beta=true", request(messages, **more), **HEADERS)
    assert answer.status == 200, answer.body
    return ClaudeCode(("get_weather", "now")).read(events(answer.body))


@pytest.mark.parametrize("model", [MODEL, NATIVE])
@pytest.mark.parametrize(
    "content",
    [
        "Hello",
        "What is the weather in Oslo? Use the get_weather tool.",
        "sim:unicode",
        "sim:parallel",
        "sim:interleaved",
        "sim:tool=now sim:bytes",
        "sim:thinking",
        "sim:tagged",
        "sim:redacted",
        "sim:cut-tool",
        "sim:length",
        "sim:filtered",
        "sim:no-trailers",
        "sim:text sim:empty-frames sim:unknown-event",
        "sim:eof",
    ],
)
def test_68_streams(gateway: Gateway, model: str, content: str) -> None:
    """It is content with every answer, and reads what the same request without a stream gives it."""
    read = turn(gateway, user(content), model=model)
    whole = post(gateway, "/v1/messages?beta=true", request(user(content), stream=False, model=model), **HEADERS)
    expected = json.loads(whole.body)
    differing = {"id", "usage", "stop_details"}

    assert {k: v for k, v in read.items() if k not in differing} == {
        k: v for k, v in expected.items() if k not in differing
    }
    assert read["usage"] | expected["usage"] == read["usage"]


@pytest.mark.parametrize("marker", ["exception", "reset", "torn"])
def test_68_errors(gateway: Gateway, marker: str) -> None:
    """It is told of an answer that breaks off, and does not take it for whole."""
    with pytest.raises(Reported):
        turn(gateway, user(f"sim:{marker}"))


@pytest.mark.parametrize("model", [MODEL, NATIVE])
def test_68_a_turn_with_a_tool(gateway: Gateway, model: str) -> None:
    """It echoes the assistant's blocks as it read them, adds the result, and gets the end of the turn."""
    question = user("What is the weather in Oslo? Use the get_weather tool.")
    called = turn(gateway, question, model=model)
    (use,) = (block for block in called["content"] if block["type"] == "tool_use")
    history = [
        *question,
        {"role": "assistant", "content": called["content"]},
        *user([{"type": "tool_result", "tool_use_id": use["id"], "content": "sunny"}]),
    ]
    done = turn(gateway, history, model=model)

    assert (called["stop_reason"], called["content"][0]["type"]) == ("tool_use", "thinking")
    assert (use["name"], use["input"]) == ("get_weather", {"city": "Oslo"})
    assert done["stop_reason"] == "end_turn"
    assert done["content"][-1]["text"].strip() == "The tool says: sunny"


def test_68_key_check(gateway: Gateway) -> None:
    """The small question by which a key is tried."""
    answer = post(gateway, "/v1/messages?beta=true", {"model": MODEL, "max_tokens": 1, "messages": user("test")})

    assert answer.status == 200
    assert json.loads(answer.body)["stop_reason"] == "max_tokens"


def test_68_search_alone(gateway: Gateway) -> None:
    """The side question by which the agent searches: its only tool runs on the server."""
    search = [{"type": "web_search_20250305", "name": "web_search", "max_uses": 8}]
    asked = request(user("sim:tool=web_search"), tools=search, stream=False)
    answer = json.loads(post(gateway, "/v1/messages?beta=true", asked, **HEADERS).body)
    found = [block for block in answer["content"] if block["type"] == "web_search_tool_result"]

    assert [hit["url"] for hit in found[0]["content"]] == ["https://example.org/simulated"]
    assert answer["stop_reason"] == "end_turn"


def test_68_server_tools_that_we_do_not_have(gateway: Gateway) -> None:
    """They are left out; a call that only such a tool could be is a clean 400."""
    tools = [{"type": "advisor_20260301", "name": "advisor"}]
    chosen = post(gateway, "/v1/messages?beta=true", request(user("Ask."), tools=tools), **HEADERS)
    demanded = request(user("Ask."), tools=tools, tool_choice={"type": "any"})
    refused = post(gateway, "/v1/messages?beta=true", demanded, **HEADERS)

    assert chosen.status == 200
    assert refused.status == 400
    assert "advisor_20260301 (tools[0])" in refused.body.decode()


GOOD: list[Event] = [
    (each["type"], each)
    for each in (
        {"type": "message_start", "message": {"stop_reason": None, "usage": {"input_tokens": 5, "output_tokens": 0}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"input_tokens": 0, "output_tokens": 1},
        },
        {"type": "message_stop"},
    )
]


def _without(*places: int) -> Callable[[], list[Event]]:
    return lambda: [event for place, event in enumerate(GOOD) if place not in places]


def _with(place: int, event: dict[str, Any]) -> Callable[[], list[Event]]:
    return lambda: [*GOOD[:place], (event["type"], event), *GOOD[place:]]


def test_68_the_automaton_reads_a_good_stream() -> None:
    """What the checker makes of a stream by hand: a count of zero at the end does not undo the one at the start."""
    read = ClaudeCode().read(GOOD)

    assert read["content"] == [{"type": "text", "text": "Hi"}]
    assert (read["stop_reason"], read["usage"]) == ("end_turn", {"input_tokens": 5, "output_tokens": 1})


@pytest.mark.parametrize(
    ("stream", "trouble"),
    [
        pytest.param(_without(0), Malformed, id="no-start"),
        pytest.param(_without(1), Malformed, id="no-block-start"),
        pytest.param(_without(3), Dropped, id="block-left-open"),
        pytest.param(_without(4, 5), Dropped, id="no-end"),
        pytest.param(_with(4, GOOD[2][1]), Malformed, id="delta-after-its-block"),
        pytest.param(_with(4, GOOD[3][1]), Malformed, id="block-stops-twice"),
        pytest.param(_with(4, GOOD[1][1]), Malformed, id="block-starts-again"),
        pytest.param(_with(1, GOOD[0][1]), Malformed, id="two-starts"),
        pytest.param(_with(6, {"type": "ping"}), Malformed, id="after-the-end"),
        pytest.param(_with(2, {"type": "error", "error": {"type": "api_error", "message": "m"}}), Reported, id="error"),
        pytest.param(
            _with(2, {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": None}}),
            Malformed,
            id="not-text",
        ),
        pytest.param(
            _with(
                2, {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": ""}}
            ),
            Malformed,
            id="delta-of-another-kind",
        ),
    ],
)
def test_68_the_automaton_refuses(stream: Callable[[], list[Event]], trouble: type[Exception]) -> None:
    """A checker that accepts everything would prove nothing."""
    with pytest.raises(trouble):
        ClaudeCode().read(stream())
