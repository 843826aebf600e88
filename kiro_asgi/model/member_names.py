"""Values with other names of members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def with_names(value: Any, names: Mapping[str, str]) -> Any:
    """*value* with the members of every object in it under the names that *names* has for theirs.

    The very same value where none of them is in it.
    """
    if isinstance(value, Mapping):
        members = {name: with_names(each, names) for name, each in value.items()}
        if not any(name in names for name in members):
            return value if all(members[name] is value[name] for name in members) else members
        return {names.get(name, name): each for name, each in members.items()}
    if isinstance(value, list | tuple):
        items = [with_names(each, names) for each in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value
