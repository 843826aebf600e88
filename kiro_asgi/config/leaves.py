"""A tree of attrs classes seen as dotted paths, e.g. ``kiro.region``; knows no particular setting.

Most tables always exist.  Those of a family, a field that maps names to slices, exist where they are set:
``custom.ollama`` is a member of the family ``custom``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, TypeVar, get_args, get_type_hints

import attrs
from attrs import frozen

from kiro_asgi.setting import Declared

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

    declared: Declared
    """Its rule, variable and presets."""

    @property
    def env(self) -> str:
        """Name of its environment variable."""
        return ENV_PREFIX + self.path.replace(".", "__").upper()

    @property
    def table(self) -> str:
        """Path of the table that it stands in; empty where it stands in none."""
        return self.path.rpartition(".")[0]

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]


def leaves(root: type, members: Iterable[str] = ()) -> dict[str, Leaf]:
    """Every setting below *root* by its path, in the order of the source.

    *members* are the paths of the families' tables, e.g. ``custom.ollama``.
    """
    return {leaf.path: leaf for leaf in _walk(root, tuple(members))}


def slices(root: type) -> dict[str, type]:
    """The nested classes directly below *root*, by field name."""
    return {name: kind for name, kind in _fields(root) if attrs.has(kind)}


def families(root: type) -> dict[str, type]:
    """The classes of the families' members, by field name."""
    return {name: kind for name, hint in _fields(root) if (kind := _member(hint)) is not None}


def members_of(root: type, paths: Iterable[str]) -> tuple[str, ...]:
    """The families' tables that *paths* are in, e.g. ``custom.ollama`` for ``custom.ollama.endpoint``."""
    known = families(root)
    return tuple(dict.fromkeys(path.rpartition(".")[0] for path in paths if path.partition(".")[0] in known))


def tables(root: type, members: Iterable[str] = ()) -> dict[str, type]:
    """Every table of settings and its class: those that always exist, and *members*."""
    return slices(root) | {path: families(root)[path.partition(".")[0]] for path in members}


def preset_values(root: type, preset: str) -> dict[str, Any]:
    """The values that *preset* sets, by path."""
    found = ((leaf.path, leaf.declared.presets) for leaf in leaves(root).values())
    return {path: presets[preset] for path, presets in found if preset in presets}


def values_of(tree: attrs.AttrsInstance) -> dict[str, Any]:
    """The values of *tree*, by path."""
    named = (f"{family}.{name}" for family in families(type(tree)) for name in getattr(tree, family))
    return {path: _at(tree, path) for path in leaves(type(tree), named)}


def mappings_in(tree: attrs.AttrsInstance) -> dict[str, Any]:
    """The mappings of *tree* that stand where a table is wanted, by field; of a family, those of its members."""
    root = type(tree)
    found = {name: value for name in slices(root) if isinstance(value := getattr(tree, name), Mapping)}
    for family in families(root):
        if members := {it: table for it, table in getattr(tree, family).items() if isinstance(table, Mapping)}:
            found[family] = members
    return found


def assemble(root: type[T], values: Mapping[str, Any]) -> T:
    """Build *root* from paths; those that are missing keep their defaults."""
    nested: dict[str, dict[str, Any]] = {}
    top: dict[str, Any] = {}
    for path, value in values.items():
        head, _, name = path.rpartition(".")
        (nested.setdefault(head, {}) if head else top)[name] = value
    built = {name: kind(**nested.get(name, {})) for name, kind in slices(root).items()}
    for family, kind in families(root).items():
        tables = {head.partition(".")[2]: table for head, table in nested.items() if head.startswith(f"{family}.")}
        built[family] = {name: kind(**table) for name, table in tables.items()}
    return root(**built, **top)


@cache
def _hints(root: type) -> Mapping[str, Any]:
    """The types of a class's fields; cached, since reading annotations takes most of the time to build settings."""
    return MappingProxyType(get_type_hints(root))


def _fields(root: type) -> Iterator[tuple[str, Any]]:
    hints = _hints(root)
    return ((it.name, hints[it.name]) for it in attrs.fields(root))


@cache
def _member(hint: Any) -> type | None:
    return next((kind for kind in get_args(hint) if attrs.has(kind)), None)


def _walk(root: type, members: tuple[str, ...], at: str = "") -> Iterator[Leaf]:
    hints = _hints(root)
    for it in attrs.fields(root):
        hint = hints[it.name]
        if attrs.has(hint):
            yield from _fixed(hint, f"{at}{it.name}.")
        elif (kind := _member(hint)) is not None:
            for member in (path for path in members if path.startswith(f"{it.name}.")):
                yield from _walk(kind, (), f"{member}.")
        else:
            yield Leaf(at + it.name, hint, it.default, it.repr is False, root, Declared.of(it))


@cache
def _fixed(kind: type, at: str) -> tuple[Leaf, ...]:
    """The settings of a table that always exists."""
    return tuple(_walk(kind, (), at))


def _at(tree: Any, path: str) -> Any:
    for name in path.split("."):
        tree = tree[name] if isinstance(tree, Mapping) else getattr(tree, name)
    return tree
