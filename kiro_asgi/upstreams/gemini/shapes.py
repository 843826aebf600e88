"""Members of an answer as what they should be: anything may come in their place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["object_of", "objects_of"]


def object_of(value: Any) -> Mapping[str, Any]:
    """*value* where it is an object, else an empty one."""
    return value if type(value) is dict else {}


def objects_of(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list."""
    return [item for item in value if type(item) is dict] if type(value) is list else []
