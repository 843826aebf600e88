"""The kit's laws hold for every part that the package has, and for those of the pages."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from kiro_asgi.dialects.builtin import BUILTIN
from kiro_asgi.dialects.manifest import DialectManifest, Endpoint
from kiro_asgi.model.events import Citation, ModelName, RefusalDelta, TextDelta, ThinkingDelta
from kiro_asgi.state.memory import MemoryStore
from kiro_asgi.state.sqlite import SqliteStore
from kiro_asgi.testing import Clock, check_cuts, check_dialect, check_store, check_upstream
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.builtin import BuiltinSettings
from kiro_asgi.upstreams.manifest import Manifest, manifests_in
from kiro_asgi.wire.eventstream import encode_frame
from tests.examples import example

CHAT = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "?"}]
TOOL = {"type": "function", "function": {"name": "f", "description": "F", "parameters": {"type": "object"}}}

REQUESTS: dict[str, Any] = {
    "openai_chat": {"model": "m", "messages": CHAT, "tools": [TOOL], "temperature": 0.5, "stop": ["."]},
    "openai_completions": {"model": "m", "prompt": "Hi", "max_tokens": 9, "stop": ["."]},
    "openai_responses": {"model": "m", "input": CHAT, "instructions": "Be kind.", "reasoning": {"effort": "low"}},
    "anthropic": {"model": "m", "max_tokens": 9, "messages": CHAT, "system": [{"type": "text", "text": "Be kind."}]},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}], "generationConfig": {"temperature": 0.5}},
}


@pytest.mark.parametrize("manifest", BUILTIN, ids=lambda manifest: manifest.name)
def test_each_client_api_keeps_the_laws(manifest: DialectManifest) -> None:
    """Those that come with the package."""
    check_dialect(manifest, REQUESTS[manifest.name])


OLLAMA = example("ollama_dialect").OLLAMA
SAID = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Hi", "images": ["aGk="]},
    {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
    {"role": "tool", "content": "2", "tool_name": "f"},
]


@pytest.mark.parametrize(
    ("manifest", "request_", "headers", "endpoint"),
    [
        (example("plain_dialect").PLAIN, b"Hi", [(b"x-model", b"m")], None),
        (OLLAMA, {"model": "m", "messages": SAID, "tools": [TOOL], "options": {"stop": ["."]}}, [], None),
        (OLLAMA, {"model": "m", "prompt": "Hi", "system": "Be kind."}, [], OLLAMA.endpoints[1]),
    ],
    ids=["plain", "ollama-chat", "ollama-generate"],
)
def test_so_do_those_of_the_pages(
    manifest: DialectManifest, request_: Any, headers: Any, endpoint: Endpoint | None
) -> None:
    """Each at each of its endpoints."""
    check_dialect(manifest, request_, headers=headers, endpoint=endpoint)


def sse(*data: str) -> bytes:
    return "".join(f"data: {each}\n\n" for each in data).encode()


MESSAGES = (
    '{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"c","content":[],'
    '"usage":{"input_tokens":3,"output_tokens":1}}}',
    '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
    '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Côld wáter."}}',
    '{"type":"content_block_stop","index":0}',
    '{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":7}}',
    '{"type":"message_stop"}',
)

ANSWERS: dict[str, tuple[bytes, str]] = {
    "anthropic": (
        b"".join(b"event: %b\n%b" % (each.split('"')[3].encode(), sse(each)) for each in MESSAGES),
        "text/event-stream",
    ),
    "gemini": (
        sse(
            '{"candidates":[{"content":{"role":"model","parts":[{"text":"Côld "}]}}]}',
            '{"candidates":[{"content":{"role":"model","parts":[{"text":"wáter."}]},"finishReason":"STOP"}],'
            '"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":7}}',
        ),
        "text/event-stream",
    ),
    "openai": (
        sse(
            '{"choices":[{"index":0,"delta":{"role":"assistant","content":"Côld "}}]}',
            '{"choices":[{"index":0,"delta":{"content":"wáter."},"finish_reason":"stop"}]}',
            '{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":7}}',
            "[DONE]",
        ),
        "text/event-stream",
    ),
}
ALL = dict(manifests_in(BuiltinSettings))
SERVICES = {name: manifest for name, manifest in manifests_in(BuiltinSettings) if name in ANSWERS}


@pytest.mark.parametrize("name", ANSWERS)
def test_each_service_keeps_the_laws(name: str) -> None:
    """Those that come with the package and mark the end of an answer."""
    answer, kind = ANSWERS[name]

    assert check_upstream(SERVICES[name], answer, kind)


FRAMED = "application/vnd.amazon.eventstream"


def frames(*events: tuple[str, Any]) -> list[bytes]:
    """An answer of AWS, a frame an event."""
    about = {":message-type": "event", ":content-type": "application/json"}
    return [encode_frame({**about, ":event-type": kind}, json.dumps(said).encode()) for kind, said in events]


def test_kiro_keeps_the_laws() -> None:
    """It has no word for the end of an answer: behind each frame it may be over, and nowhere else."""
    said = (
        ("reasoningContentEvent", {"text": "Hm."}),
        ("assistantResponseEvent", {"content": "Côld "}),
        ("assistantResponseEvent", {"content": "wáter."}),
        ("toolUseEvent", {"toolUseId": "t", "name": "f", "input": '{"a":1}'}),
        ("toolUseEvent", {"toolUseId": "t", "name": "f", "stop": True}),
        ("meteringEvent", {"usage": 0.02, "unit": "credit", "unitPlural": "credits"}),
    )
    each = frames(*said)
    ends = {0, *accumulate(map(len, each))}
    listed = b'{"models":[{"modelId":"claude-sonnet-4.5","tokenLimits":{"maxInputTokens":200000}}]}'
    deltas = check_upstream(ALL["kiro"], b"".join(each), FRAMED, models=listed, may_end_at=ends)

    assert TextDelta("Côld wáter.") in deltas
    with pytest.raises(AssertionError, match="passes for a whole one"):
        check_upstream(ALL["kiro"], b"".join(each), FRAMED)


CLAUDE_ON_BEDROCK = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"


@pytest.mark.parametrize("model", ["amazon.nova-pro-v1:0", CLAUDE_ON_BEDROCK])
def test_bedrock_keeps_the_laws(model: str) -> None:
    """By the Converse API; Claude is asked by its own API, whose prompts keep them, too."""
    answer = frames(
        ("messageStart", {"role": "assistant"}),
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "Côld "}}),
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "wáter."}}),
        ("contentBlockStop", {"contentBlockIndex": 0}),
        ("messageStop", {"stopReason": "end_turn"}),
        ("metadata", {"usage": {"inputTokens": 3, "outputTokens": 7, "totalTokens": 10}, "metrics": {"latencyMs": 1}}),
    )
    listed = b'{"modelSummaries":[{"modelId":"amazon.nova-pro-v1:0","outputModalities":["TEXT"]}]}'
    settings = evolve(ALL["bedrock"].settings().keyed("secret-that-must-not-be-shown"), region="eu-central-1")
    card = ModelCard(model, context_window=200_000)
    deltas = check_upstream(ALL["bedrock"], b"".join(answer), FRAMED, model=card, models=listed, settings=settings)

    assert TextDelta("Côld wáter.") in deltas


RIVER: Manifest[Any] = example("river_upstream").RIVER
LINES = '{"thought":"Hm."}\n{"text":"The water "}\n{"text":"is côld."}\n{"end":"done","read":11,"wrote":7}\n'.encode()


def test_so_does_the_one_of_the_pages() -> None:
    """With its list of models."""
    deltas = check_upstream(RIVER, LINES, "application/x-ndjson", models=b'[{"name":"stream"}]')

    assert TextDelta("The water is côld.") in deltas


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["memory", "sqlite", "folder", "true-time"])
async def test_each_store_keeps_the_laws(kind: str, tmp_path: Path, anyio_backend: str) -> None:
    """Those that come with the package, and the one of the pages: with a clock that stands still, and in true time."""
    clock, numbers = Clock(), iter(range(100))
    folder_store = example("folder_store").FolderStore
    makers: dict[str, Callable[[], Any]] = {
        "memory": lambda: MemoryStore(clock=clock),
        "sqlite": lambda: SqliteStore(tmp_path / f"{next(numbers)}.db", clock=clock),
        "folder": lambda: folder_store(tmp_path / str(next(numbers)), clock),
        "true-time": lambda: folder_store(tmp_path / str(next(numbers))),
    }

    await check_store(makers[kind], None if kind == "true-time" else clock)


def test_the_stage_of_the_pages_keeps_the_law() -> None:
    """Texts of each kind, what parts them, and what does not."""
    items = [
        TextDelta("a blue"),
        ModelName("m"),
        TextDelta("birdblue"),
        Citation(begins=4, ends=0),
        ThinkingDelta("blue"),
        RefusalDelta("bluebird bluebir"),
    ]

    found = check_cuts(lambda: example("redacting_stage").Redactor("bluebird"), items)
    assert found[0] == TextDelta("a ********blue")
