"""What all frameworks are asked; each question's result is printed as one line of JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable
from typing import Any

from pydantic import BaseModel

GIVEN: Any = json.load(sys.stdin)
"""``base``, ``key``, ``models``, ``failures`` and, for these, ``failing``, a model."""

OPENAI_BASE = f"{GIVEN['base']}/v1"

CALL = 'sim:tool=get_weather {"city": "Bergen"}'
PARALLEL = "sim:parallel=2"
DESCRIBE = "Describe Bergen."


class City(BaseModel):
    """A form for answers."""

    name: str
    population: int
    sights: list[str]


def get_weather(city: str) -> str:
    """Look up current weather."""
    return f"4 C in {city}"


async def report(name: str, answer: Awaitable[Any]) -> None:
    """Wait for *answer* and print it, or the error that it raises."""
    try:
        outcome = {"value": await answer}
    except Exception as error:  # noqa: BLE001 - each library has its own
        outcome = {"raised": {"classes": [each.__name__ for each in type(error).__mro__], "message": str(error)}}
    print(json.dumps({"name": name, **outcome}), flush=True)
