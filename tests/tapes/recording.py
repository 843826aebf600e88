"""Tapes of exchanges with the simulated services."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from time import time
from typing import Any

from kiro_asgi.asgi.door.parts import Internals
from kiro_asgi.create import new_app
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.simulator.server import Simulator
from kiro_asgi.tapes import Tape, read_tape
from tests.asgi.conftest import settings_for
from tests.asgi.driver import Exchange, post

PATHS = {
    "anthropic": "/v1/messages",
    "openai": "/v1/chat/completions",
    "responses": "/v1/responses",
    "gemini": "/v1beta/models/{model}:streamGenerateContent",
}

MODELS = {
    "kiro": "claude-sonnet-4.5",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-2.5-flash",
    "openai": "openai/gpt-4o",
    "custom": "local/gpt-4o",
    "bedrock": "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
}
"""A model of each service."""

_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def services(sim: Simulator) -> dict[str, Any]:
    """Settings of every service."""
    return {
        "anthropic": {"api_key": "sk-ant", "endpoint": sim.url},
        "openai": {"api_key": "sk-oai", "endpoint": f"{sim.url}/v1"},
        "gemini": {"api_key": "goo", "endpoint": sim.url},
        "bedrock": {"api_key": "bedrock-key", "endpoint": sim.url, "region": "us-east-1"},
        "custom": {"local": {"endpoint": f"{sim.url}/v1"}},
    }


def question(dialect: str, prompt: str, model: str = MODELS["kiro"], *, tools: bool = False) -> Exchange:
    """A request for a streamed answer."""
    tool = {"name": "get_weather", "description": "Tells the weather."}
    body: dict[str, Any] = {"model": model, "stream": True}
    path = PATHS[dialect].format(model=model)
    match dialect:
        case "anthropic":
            body |= {"max_tokens": 999, "messages": [{"role": "user", "content": prompt}]}
            given: list[Any] = [{**tool, "input_schema": _SCHEMA}]
        case "openai":
            body |= {"messages": [{"role": "user", "content": prompt}]}
            given = [{"type": "function", "function": {**tool, "parameters": _SCHEMA}}]
        case "responses":
            body |= {"input": prompt}
            given = [{"type": "function", **tool, "parameters": _SCHEMA}]
        case _:
            body = {"contents": [{"role": "user", "parts": [{"text": prompt}]}]}
            given = [{"functionDeclarations": [{**tool, "parametersJsonSchema": _SCHEMA}]}]
    if tools:
        body["tools"] = given
    return post(path, body, query_string=b"alt=sse" if dialect == "gemini" else b"")


async def tapes_of(
    sim: Simulator,
    folder: Path,
    asked: Iterable[Exchange],
    wall_clock: Callable[[], float] = time,
    **slices: Any,
) -> list[Tape]:
    """The tapes that are written while *asked* is answered, the oldest first."""
    tapes = {"path": str(folder), **slices.pop("tapes", {})}
    app = new_app(
        settings_for(sim.url, {**slices, "tapes": tapes}), internals=Internals(clocks=Clocks(wall=wall_clock))
    )
    for each in asked:
        await each.run(app)
    await app.aclose()
    return read_all(folder)


def read_all(folder: Path) -> list[Tape]:
    """The tapes of a folder."""
    found = [read_tape([path.read_bytes()]) for path in folder.glob("*.tape.jsonl")]
    return sorted(found, key=lambda tape: tape.head.number("at"))
