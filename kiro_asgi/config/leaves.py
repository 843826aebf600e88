"""A tree of attrs classes seen as dotted paths, e.g. ``kiro.region``; knows no particular setting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, get_type_hints

import attrs
from attrs import frozen

__all__ = ["ENV_PREFIX", "Leaf", "assemble", "leaves", "slices", "values_of"]

ENV_PREFIX = "KIRO_ASGI__"

T = TypeVar("T")


@frozen
class Leaf:
    """One setting, whatever its value."""

    path: str
    type: Any
    """As annotated: ``str``, ``bool``, ``int``, ``float`` or ``tuple[str, ...]``."""

    default: Any
    secret: bool
    """Whether the value must never be shown.  Taken from ``repr=False`` on the field, so both cannot differ."""

    owner: type
    """The slice that holds it."""

    @property
    def env(self) -> str:
        """Name of its environment variable."""
        return ENV_PREFIX + self.path.replace(".", "__").upper()

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]


def leaves(root: type) -> dict[str, Leaf]:
    """Every setting below *root* by its path, in the order of the source."""
    return {leaf.path: leaf for leaf in _walk(root, "")}


def slices(root: type) -> dict[str, type]:
    """The nested classes directly below *root*, by field name."""
    hints = get_type_hints(root)
    return {it.name: hints[it.name] for it in attrs.fields(root) if attrs.has(hints[it.name])}


def values_of(tree: attrs.AttrsInstance) -> dict[str, Any]:
    """What *tree* is set to, by path."""
    return {path: _at(tree, path) for path in leaves(type(tree))}


def assemble(root: type[T], values: Mapping[str, Any]) -> T:
    """Build *root* from paths; those that are missing keep their defaults."""
    nested: dict[str, dict[str, Any]] = {name: {} for name in slices(root)}
    top: dict[str, Any] = {}
    for path, value in values.items():
        head, _, name = path.rpartition(".")
        (nested[head] if head else top)[name] = value
    return root(**{name: kind(**nested[name]) for name, kind in slices(root).items()}, **top)


def _walk(root: type, at: str) -> Iterator[Leaf]:
    hints = get_type_hints(root)
    for it in attrs.fields(root):
        if attrs.has(hints[it.name]):
            yield from _walk(hints[it.name], f"{at}{it.name}.")
        else:
            yield Leaf(at + it.name, hints[it.name], it.default, it.repr is False, root)


def _at(tree: Any, path: str) -> Any:
    for name in path.split("."):
        tree = getattr(tree, name)
    return tree
