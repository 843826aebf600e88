"""A tree of attrs classes seen as dotted paths, e.g. ``kiro.region``; knows no particular setting.

Most tables always exist.  Those of a family, a field that maps names to slices, exist where they are set:
``custom.ollama`` is a member of the family ``custom``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from operator import attrgetter
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


@frozen(eq=False)
class Leaves(Mapping[str, Leaf]):
    """Every setting below a root by its path, in the order of the source.

    Those of families' tables, of which there may be very many, are made when they are asked for.
    """

    _root: type
    _kinds: Mapping[str, type]
    """The families' tables, e.g. ``custom.ollama``, and the class of each."""

    def __getitem__(self, path: str) -> Leaf:
        table, _, name = path.rpartition(".")
        kind = self._kinds.get(table)
        if kind is None:
            return _fixed_by_path(self._root)[path]
        own = _fixed_by_path(kind)[name]
        return Leaf(path, own.type, own.default, own.secret, own.owner, own.declared)

    def __iter__(self) -> Iterator[str]:
        tables: dict[str, list[str]] = {}
        for table in self._kinds:
            tables.setdefault(table.partition(".")[0], []).append(table)
        for name, paths in _places(self._root):
            if paths is None:
                for table in tables.get(name, ()):
                    yield from (f"{table}.{own}" for own in _fixed_by_path(self._kinds[table]))
            else:
                yield from paths

    def __len__(self) -> int:
        return len(_fixed_by_path(self._root)) + sum(len(_fixed_by_path(kind)) for kind in self._kinds.values())

    def near(self, table: str) -> Mapping[str, str]:
        """Paths to look among for what was meant in *table*, and the table of each: of very many, only its own."""
        if (kind := self._kinds.get(table)) is not None:
            return {f"{table}.{name}": table for name in _fixed_by_path(kind)}
        return {path: leaf.table for path, leaf in _fixed_by_path(self._root).items()}


def leaves(root: type, members: Iterable[str] = ()) -> Leaves:
    """Every setting below *root*; *members* are the paths of the families' tables, e.g. ``custom.ollama``."""
    known = families(root)
    return Leaves(root, {path: kind for path in members if (kind := known.get(path.partition(".")[0])) is not None})


def slices(root: type) -> Mapping[str, type]:
    """The nested classes directly below *root*, by field name."""
    return _slices(root)


def families(root: type) -> Mapping[str, type]:
    """The classes of the families' members, by field name."""
    return _families(root)


@cache
def _slices(root: Any) -> Mapping[str, type]:
    return MappingProxyType({name: kind for name, kind in _fields(root) if attrs.has(kind)})


@cache
def _families(root: Any) -> Mapping[str, type]:
    return MappingProxyType({name: kind for name, hint in _fields(root) if (kind := _member(hint)) is not None})


def members_of(root: type, paths: Iterable[str]) -> tuple[str, ...]:
    """The families' tables that *paths* are in, e.g. ``custom.ollama`` for ``custom.ollama.endpoint``."""
    known = families(root)
    return tuple(dict.fromkeys(path.rpartition(".")[0] for path in paths if path.partition(".")[0] in known))


def tables(root: type, members: Iterable[str] = ()) -> dict[str, type]:
    """Every table of settings and its class: those that always exist, and *members*."""
    known = families(root)
    return {**slices(root), **{path: known[path.partition(".")[0]] for path in members}}


def preset_values(root: type, preset: str) -> dict[str, Any]:
    """The values that *preset* sets, by path."""
    found = ((leaf.path, leaf.declared.presets) for leaf in leaves(root).values())
    return {path: presets[preset] for path, presets in found if preset in presets}


def values_of(tree: attrs.AttrsInstance) -> dict[str, Any]:
    """The values of *tree*, by path."""
    found: dict[str, Any] = {}
    lasting = lasting_values(tree)
    for name, paths in _places(type(tree)):
        found |= {path: lasting[path] for path in paths or ()}
        for member, table in getattr(tree, name).items() if paths is None else ():
            kind: Any = type(table)
            found |= {f"{name}.{member}.{own}": getattr(table, own) for own in _fixed_by_path(kind)}
    return found


def tables_in(tree: attrs.AttrsInstance) -> Iterator[str]:
    """The families' tables of *tree*."""
    return (f"{family}.{name}" for family in families(type(tree)) for name in getattr(tree, family))


def stated_in(tree: attrs.AttrsInstance) -> dict[str, Any]:
    """Those of them that are not the default's very objects: of very many tables only what was written."""
    defaults = _fixed_by_path(type(tree))
    found = {path: it for path, it in lasting_values(tree).items() if it is not defaults[path].default}
    for family in families(type(tree)):
        for name, table in getattr(tree, family).items():
            kind: Any = type(table)
            values, at = _getter(kind)(table), f"{family}.{name}."
            for own, value in zip(_fixed_by_path(kind).values(), values, strict=True):
                if value is not own.default:
                    found[at + own.path] = value
    return found


def lasting_values(tree: attrs.AttrsInstance) -> dict[str, Any]:
    """The values of the tables that always exist, by path."""
    found: dict[str, Any] = {}
    for name, paths in _places(type(tree)):
        holder = tree if paths == (name,) else getattr(tree, name)
        found |= {path: getattr(holder, path.rpartition(".")[2]) for path in paths or ()}
    return found


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
    members: dict[str, dict[str, Any]] = {family: {} for family in families(root)}
    for head, table in nested.items():
        family, _, name = head.partition(".")
        if name:
            members[family][name] = families(root)[family](**table)
    return root(**built, **members, **top)


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


@cache
def _fixed_by_path(root: Any) -> Mapping[str, Leaf]:
    """The settings that always exist below *root*."""
    return MappingProxyType({leaf.path: leaf for leaf in _walk(root)})


@cache
def _getter(kind: Any) -> Callable[[Any], tuple[Any, ...]]:
    """Takes all values of a table at once, in the order of `_fixed_by_path`."""
    names = tuple(_fixed_by_path(kind))
    found: Callable[[Any], Any] = attrgetter(*names)
    return found if len(names) > 1 else lambda table: (found(table),)


@cache
def _places(root: Any) -> tuple[tuple[str, tuple[str, ...] | None], ...]:
    """Each field of *root* with the paths of the settings that always exist there; ``None`` for a family."""
    fixed = tuple(_fixed_by_path(root))
    return tuple(
        (name, None if _member(hint) is not None else tuple(it for it in fixed if it.partition(".")[0] == name))
        for name, hint in _fields(root)
    )


def _walk(root: type, at: str = "") -> Iterator[Leaf]:
    hints = _hints(root)
    for it in attrs.fields(root):
        hint = hints[it.name]
        if attrs.has(hint):
            yield from _walk(hint, f"{at}{it.name}.")
        elif _member(hint) is None:
            yield Leaf(at + it.name, hint, it.default, it.repr is False, root, Declared.of(it))
