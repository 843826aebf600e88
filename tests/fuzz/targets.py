"""The table of targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kiro_asgi.limits import SCHEMA_COPIES
from tests.fuzz.answered import answer_of, answers_of
from tests.fuzz.asked import library, requests_of, schemas, stops
from tests.fuzz.connections import connection
from tests.fuzz.conversations import conversation
from tests.fuzz.embedded import vectors
from tests.fuzz.inspected import inspected
from tests.fuzz.seeds import SERVICES
from tests.fuzz.served import serve_answer, serve_request
from tests.fuzz.source import Source
from tests.fuzz.taped import tape
from tests.fuzz.target import Target, made
from tests.fuzz.wire import documents, frames, objects, sse

__all__ = ["TARGETS"]


def _served(service: str) -> Callable[[bytes], int]:
    def run(data: bytes) -> int:
        wire, source = made(data, lambda it: answer_of(service, it))
        serve_answer(service, wire, source)
        return len(wire)

    return run


ANSWERING: Final = (*SERVICES, "bedrock", "responses")
"""Services whose answers are read; ``responses`` is OpenAI's other API."""

TARGETS: Final[Mapping[str, Target]] = {
    "frames": Target(frames, 6_000, 60),
    "sse": Target(sse, 6_000, 60),
    "objects": Target(objects, 6_000, 60),
    "json": Target(documents, 6_000, 60),
    "vectors": Target(vectors, 20_000, 100),
    "chat": Target(requests_of("openai"), 40_000, 100),
    "messages": Target(requests_of("anthropic"), 40_000, 100),
    "responses": Target(requests_of("responses"), 40_000, 100),
    "gemini": Target(requests_of("gemini"), 40_000, 100),
    "schemas": Target(schemas, 40_000 + 100 * SCHEMA_COPIES, 200),
    "stops": Target(stops, 10_000, 100),
    "library": Target(library, 40_000, 100),
    "scopes": Target(lambda data: serve_request(Source(data)), 60_000, 100),
    **{f"answers-{service}": Target(answers_of(service), 60_000, 100) for service in ANSWERING},
    "websocket": Target(connection, 200_000, 200),
    "conversations": Target(conversation, 200_000, 200),
    "tapes": Target(tape, 600_000, 400),  # most of them make some ten applications, of 50,000 each
    "inspector": Target(inspected, 200_000, 200),
    **{f"app-{service}": Target(_served(service), 100_000, 200) for service in SERVICES},
}
"""Name to target."""
