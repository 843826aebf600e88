"""What the clients ask; marker words (``sim:…``) choose what the simulated service answers."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel

from kiro_asgi.simulator.answers import SENTENCE, THOUGHT

__all__ = [
    "CHAT_TOOLS",
    "MESSAGES_TOOLS",
    "MODEL",
    "NATIVE",
    "PNG",
    "RESPONSES_TOOLS",
    "SENTENCE",
    "TEXT_ONLY",
    "THOUGHT",
    "City",
    "user",
]

MODEL: Final = "claude-haiku-4.5"
"""Without native thinking."""

NATIVE: Final = "claude-sonnet-4.5"
"""With native thinking."""

TEXT_ONLY: Final = "glm-5"
"""Without images."""

PNG: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""One pixel, in base64."""

_SCHEMAS: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    (
        "get_weather",
        "Look up current weather.",
        {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    ),
    ("now", "Tell the time.", {"type": "object", "properties": {}}),
)

CHAT_TOOLS: Final[list[Any]] = [
    {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}
    for name, description, schema in _SCHEMAS
]
MESSAGES_TOOLS: Final[list[Any]] = [
    {"name": name, "description": description, "input_schema": schema} for name, description, schema in _SCHEMAS
]

RESPONSES_TOOLS: Final[list[Any]] = [
    {"type": "function", "name": name, "description": description, "parameters": schema, "strict": False}
    for name, description, schema in _SCHEMAS
]


class City(BaseModel):
    """A form for answers."""

    name: str
    population: int
    sights: list[str]


def user(content: Any) -> list[Any]:
    """A conversation of one message."""
    return [{"role": "user", "content": content}]
