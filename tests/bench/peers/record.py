"""What a run has found, as a file that the documentation reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["toml"]


def toml(found: Mapping[str, Any]) -> str:
    """*found* as TOML: values first, then the tables in it."""
    return "\n".join(("# Written by `tox -e peers`; not to be edited.", *_table(found, ()))) + "\n"


def _table(values: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    inner = {name: value for name, value in values.items() if isinstance(value, Mapping)}
    if path and len(inner) < len(values):
        yield from ("", f"[{'.'.join(path)}]")
    yield from (f"{name} = {_value(value)}" for name, value in values.items() if name not in inner)
    for name, value in inner.items():
        yield from _table(value, (*path, name))


def _value(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)  # a basic string of TOML is one of JSON
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
