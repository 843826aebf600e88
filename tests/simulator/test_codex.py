"""The simulated service of the Codex command refuses what that service refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.codex_files import ACCOUNT, jwt
from tests.simulator.asking import call

RESPONSES, MODELS, USAGE = (f"/backend-api/{path}" for path in ("codex/responses", "codex/models", "wham/usage"))
GOOD: dict[str, Any] = {
    "model": "gpt-5.2",
    "instructions": "Be brief.",
    "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Count to 3"}]}],
    "store": False,
    "stream": True,
    "reasoning": {"effort": "low"},
    "include": ["reasoning.encrypted_content"],
}
SYSTEM = [{"role": "system", "content": "Be kind."}]


def headers(token: str = "", **more: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token or jwt()}", "chatgpt-account-id": ACCOUNT, **more}


def test_a_good_request(simulator):
    """It is answered by a stream that names no media type."""
    answer = call(simulator.url, RESPONSES, GOOD, headers=headers())

    assert (answer.status, answer.headers.get("content-type")) == (200, None)
    assert b"response.completed" in answer.body


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        ({"store": True}, "Store must be set to false"),
        ({"store": None}, "Store must be set to false"),
        ({"stream": False}, "Stream must be set to true"),
        ({"instructions": ""}, "Instructions are required"),
        ({"input": "Hello"}, "Input must be a list"),
        ({"input": [*SYSTEM, *GOOD["input"]]}, "System messages are not allowed"),
        ({"reasoning": {"effort": "minimal"}}, "Unsupported value: 'minimal'"),
        ({"input": []}, "One of 'input'"),
        ({"model": "gpt-4o"}, "The 'gpt-4o' model is not supported"),
        *(
            ({name: 1}, f"Unsupported parameter: {name}")
            for name in (
                "max_output_tokens", "temperature", "top_p", "metadata", "previous_response_id", "truncation", "user",
                "service_tier", "safety_identifier", "prompt_cache_retention", "background", "stream_options",
            )
        ),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_refused(change, detail, simulator):
    """Each with status 400 and the service's words."""
    answer = call(simulator.url, RESPONSES, {**GOOD, **change}, headers=headers())

    assert answer.status == 400
    assert json.loads(answer.body)["detail"].startswith(detail)


@pytest.mark.parametrize(
    "wrong",
    [
        headers(**{"chatgpt-account-id": ""}),
        headers(jwt(exp=5)),
        {"chatgpt-account-id": ACCOUNT},
    ],
    ids=["no account", "expired", "no token"],
)
@pytest.mark.parametrize("path", [RESPONSES, MODELS, USAGE])
def test_a_sign_in_that_is_none(path, wrong, simulator):
    """It is 401, for answers and for lists."""
    body = GOOD if path == RESPONSES else None
    answer = call(simulator.url, path, body, headers=wrong, method="POST" if body else "GET")

    assert answer.status == 401


def test_lists(simulator):
    """Models for a version of the command only; what is used of the limits."""
    listed = call(simulator.url, f"{MODELS}?client_version=0.147.0", method="GET", headers=headers())
    unnamed = call(simulator.url, MODELS, method="GET", headers=headers())
    usage = call(simulator.url, USAGE, method="GET", headers=headers())

    assert [model["slug"] for model in json.loads(listed.body)["models"]] == ["gpt-5.2", "gpt-5.1-codex-max"]
    assert json.loads(unnamed.body)["models"] == []
    assert json.loads(usage.body)["rate_limit"]["primary_window"]["used_percent"] == 25
