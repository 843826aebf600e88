"""Members of foreign JSON by their expected types: a value of another type counts as absent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kiro_asgi.limits import LARGEST_COUNT

__all__ = ["count", "count_of", "object_of", "objects_of", "text_of"]


def object_of(value: Any) -> Mapping[str, Any]:
    """*value* where it is an object, else an empty one."""
    return value if type(value) is dict else {}


def objects_of(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list; nothing of anything else."""
    return [item for item in value if type(item) is dict] if type(value) is list else []


def text_of(report: Mapping[str, Any], key: str) -> str:
    """The text of a member; empty where it is none."""
    value = report.get(key)
    return value if type(value) is str else ""


def count(value: Any) -> int | None:
    """*value* where it is a number of tokens that can be meant, from 0 to `LARGEST_COUNT`; else ``None``."""
    return value if type(value) is int and 0 <= value <= LARGEST_COUNT else None


def count_of(report: Mapping[str, Any], key: str) -> int | None:
    """The number of tokens in a member; ``None`` where it is none."""
    return count(report.get(key))
