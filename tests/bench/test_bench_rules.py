"""A big request put into the service's words, beside ``json.loads`` and ``json.dumps`` of the client's body.

``pytest tests/bench/test_bench_rules.py -s`` prints ratios of two measurements of the same run; none is asserted, as
timings are not facts.  What is asserted is that the work was done.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard
from kiro_asgi.upstreams.kiro.request import document
from kiro_asgi.upstreams.kiro.settings import KiroSettings
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream
from tests.bench.test_bench_pipeline import best, show

MODEL = ModelCard("claude-sonnet-4.5", efforts=("low", "high"))
UPSTREAM = KiroUpstream()
KEY = Credential(CredentialKind.API_KEY, "ksk_bench")
PROSE = "The quick brown fox jumps over the lazy dog, and nobody says why it does. "


def tool(number: int) -> dict[str, Any]:
    """One as clients send it, with keywords that have to go."""
    return {
        "name": f"tool_{number}",
        "description": PROSE * 6,
        "input_schema": {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": PROSE},
                "limit": {"type": "integer", "description": PROSE, "minimum": 1},
                "kind": {"type": "string", "enum": ["a", "b", "c"]},
                "edits": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"old": {"type": "string"}, "new": {"type": "string"}},
                        "required": ["old", "new"],
                        "additionalProperties": False,
                    },
                },
            },
            "required": ["path"],
            "additionalProperties": False,
        },
    }


def exchange(number: int) -> list[dict[str, Any]]:
    """A question with a tool's result, and an answer with a call: two messages."""
    call = {
        "type": "tool_use",
        "id": f"toolu_{number:04d}",
        "name": f"tool_{number % 20}",
        "input": {"path": f"/{number}"},
    }
    result = {"type": "tool_result", "tool_use_id": f"toolu_{number:04d}", "content": PROSE * 7}
    return [
        {"role": "assistant", "content": [{"type": "text", "text": PROSE}, call]},
        {"role": "user", "content": [result]},
    ]


def body(messages: int) -> bytes:
    """A Messages request as an agent sends it, with 20 tools."""
    turns = [{"role": "user", "content": PROSE}]
    for number in range(messages // 2):
        turns += exchange(number)
    fields = {"model": "m", "max_tokens": 9000, "system": PROSE * 40, "tools": [*map(tool, range(20))]}
    return json.dumps({**fields, "messages": turns}).encode()


BODY = body(200)
PROMPT: Prompt = AnthropicMessages().parse(BODY).prompt


def through_json() -> int:
    return len(json.dumps(json.loads(BODY)))


def written() -> int:
    return len(document(PROMPT, MODEL, KiroSettings(), conversation_id="c", profile_arn="").body)


def rendered() -> int:
    return len(UPSTREAM.render(PROMPT, MODEL, KEY).request.body)


@pytest.mark.parametrize("work", [written, rendered])
def test_ratio_to_json(work: Callable[[], int], capsys: pytest.CaptureFixture[str]) -> None:
    """Prints µs for a body of 110 KB and 200 messages, and the ratio to json both ways; the target is at most 2."""
    ours, theirs = best(work, runs=20, events=1), best(through_json, runs=20, events=1)

    show(capsys, f"{work.__name__}: {ours:.0f} µs, json both ways {theirs:.0f} µs, ratio {ours / theirs:.2f}")
    assert 100_000 < len(BODY) < 120_000
