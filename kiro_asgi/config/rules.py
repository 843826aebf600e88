"""What is wrong with a value, or with several together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.config.leaves import Leaf, leaves, members_of
from kiro_asgi.config.wholes import conflicts
from kiro_asgi.errors import ConfigError
from kiro_asgi.setting import Shape

__all__ = ["complaint", "require", "violations"]

TYPES: Final[Mapping[Any, str]] = MappingProxyType(
    {
        bool: "true or false",
        int: "a whole number",
        float: "a number",
        str: "text",
        tuple[str, ...]: "a list of texts",
    }
)


def complaint(leaf: Leaf, value: Any) -> str:
    """What is wrong with *value*, in words that follow the name of the setting; empty when nothing is.

    The words never repeat a secret, nor a text of the wrong shape: it may hold one.
    """
    if not has_type(leaf.type, value):
        return f"must be {TYPES[leaf.type]}{_shown(leaf, value)}"
    rule = leaf.declared.rule
    if rule is None or value == leaf.default or not (words := rule.complaint(value)):
        return ""
    return words if isinstance(rule, Shape) else words + _shown(leaf, value)


def violations(root: type, values: Mapping[str, Any]) -> tuple[str, ...]:
    """One line for every value that breaks its rule, and for all that do not go together."""
    members = members_of(root, values)
    known = leaves(root, members)
    found = ((path, complaint(known[path], value)) for path, value in values.items())
    return tuple(f"{path}: {words}" for path, words in (*found, *conflicts(root, members, values)) if words)


def require(problems: Iterable[str]) -> None:
    """Accept no problems.

    Raises:
        ConfigError: There are some; the message has one line for each.
    """
    if lines := tuple(problems):
        head = "1 setting cannot be used" if len(lines) == 1 else f"{len(lines)} settings cannot be used"
        raise ConfigError("\n  ".join((f"{head}:", *lines)), code="config.invalid")


def has_type(kind: Any, value: Any) -> bool:
    """Whether *value* is of a setting's type, without any coercion; a whole number will do for a ``float``."""
    if kind is bool or kind is str:
        return type(value) is kind
    if kind is int:
        return type(value) is int
    if kind is float:
        return type(value) is int or (type(value) is float and abs(value) != float("inf") and value == value)
    return type(value) is tuple and all(type(item) is str for item in value)


def _shown(leaf: Leaf, value: Any) -> str:
    return "" if leaf.secret else f", not {value!r:.60}"
