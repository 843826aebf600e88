"""Which API a body is for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kiro_asgi.asgi.exchange.explain import guess
from kiro_asgi.dialects.builtin import BUILTIN

ASKED = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]}


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        pytest.param({}, "anthropic", id="max-tokens"),
        pytest.param({"max_tokens": 1, "tools": [{"name": "f", "input_schema": {}}]}, "anthropic", id="input-schema"),
        pytest.param({"tools": [{"type": "function", "function": {"name": "f"}}]}, "openai_chat", id="function"),
        pytest.param({"stream_options": {}}, "openai_chat", id="member"),
        pytest.param({"messages": [{"role": "system", "content": "x"}]}, "openai_chat", id="system-message"),
        pytest.param({"messages": [{"role": "system", "content": "x"}], "system": "y"}, "anthropic", id="both"),
        pytest.param({"messages": [{"role": "assistant", "tool_calls": []}]}, "openai_chat", id="calls"),
        pytest.param({"messages": "x", "tools": 3}, "anthropic", id="malformed"),
    ],
)
def test_the_api_is_guessed(members: dict[str, Any], expected: str) -> None:
    """A Chat Completions request shows itself; what does not, and has ``max_tokens``, is a Messages request."""
    assert guess(json.dumps({**ASKED, **members}).encode(), BUILTIN).name == expected


def test_without_max_tokens_it_is_no_messages_request() -> None:
    """The member is required there."""
    assert guess(b'{"model": "m", "messages": []}', BUILTIN).name == "openai_chat"


def test_a_prompt_makes_a_completions_request() -> None:
    """Beside messages it is a member that nobody knows."""
    assert guess(b'{"model": "m", "prompt": "hi", "max_tokens": 9}', BUILTIN).name == "openai_completions"
    assert guess(b'{"model": "m", "prompt": "hi", "messages": []}', BUILTIN).name == "openai_chat"


def test_an_input_makes_a_responses_request() -> None:
    """It has no messages."""
    assert guess(b'{"model": "m", "input": "hi"}', BUILTIN).name == "openai_responses"


ODD = ([], {}, ["x"], {"role": "x"}, 1, None, True, "x")


@pytest.mark.parametrize("api", BUILTIN, ids=lambda api: api.name)
def test_likeness_takes_whatever_stands_in_a_body(api: Any) -> None:
    """It is asked before anything is read, so members may be of any kind."""
    for odd in ODD:
        for inner in ({"role": odd}, {"type": odd}, {"content": odd}, odd):
            for member in ("messages", "input", "tools", "contents", "prompt", "system", "model"):
                assert api.likeness({member: [inner]}) in (-1, 0, 1, 2)
                assert api.likeness({member: odd}) in (-1, 0, 1, 2)
