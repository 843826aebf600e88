"""Validate settings: each value by its own rule, then several together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.config.gateway import LimitSettings
from kiro_asgi.config.leaves import Leaf, families, leaves, slices, tables
from kiro_asgi.errors import ConfigError
from kiro_asgi.setting import UPSTREAM, Shape
from kiro_asgi.upstreams.manifest import manifests_in


def misnamed(root: type, family: str, name: str) -> str:
    """The problem with a name in *family*, as a message that follows it; empty when there is none."""
    if not UPSTREAM.fits(name):
        return f"the name must be {UPSTREAM.words}"
    return "the name is taken; it has settings of its own" if name in _taken(root, family) else ""


@cache
def _taken(root: type, family: str) -> frozenset[str]:
    """Names that no member of *family* can have."""
    upstreams = {field for field, _ in manifests_in(root)}
    return frozenset(upstreams - families(root).keys() if family in upstreams else ())


def unnameable(tree: object) -> tuple[str, ...]:
    """One line for every name in a family of *tree* that no member of it can have."""
    root = type(tree)
    named = (
        (f"{family}.{name}", misnamed(root, family, name))
        for family in families(root)
        for name in getattr(tree, family)
    )
    return tuple(f"{table}: {words}" for table, words in named if words)


def no_tables(tree: object) -> tuple[str, ...]:
    """One line for everything in *tree* that stands where a table is wanted, and is none."""
    root = type(tree)
    wanted = [(name, kind, getattr(tree, name)) for name, kind in slices(root).items()]
    wrong = []
    for family, kind in families(root).items():
        if isinstance(members := getattr(tree, family), Mapping):
            wanted += [(f"{family}.{name}", kind, table) for name, table in members.items()]
        else:
            wrong.append(f"{family}: must be a mapping of names to {kind.__name__}, not {type(members).__name__}")
    for path, kind, table in wanted:
        if not isinstance(table, kind | Mapping):
            wrong.append(f"{path}: must be {kind.__name__}, or a mapping of its settings, not {type(table).__name__}")
    return tuple(wrong)


def conflicts(root: type, members: Iterable[str], values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Path and complaint for values that are good one by one, but not together.

    A slice that has a function ``conflicts`` is asked about its own values.

    Args:
        root: The class of the whole tree.
        members: The tables of families that are set, e.g. ``custom.ollama``.
        values: By path; those that are missing have their defaults.
    """
    named, upstreams = tuple(members), {field for field, _ in manifests_in(root)}
    for table in named:  # only what has a table of its own has a public address, and the service of a sign-in
        placed = any(values.get(f"{table}.{name}") for name in ("endpoint", "credentials_file"))
        if table.partition(".")[0] in upstreams and not placed:
            yield f"{table}.endpoint", "must be set"
    by_table: dict[str, dict[str, Any]] = {}
    for path, value in values.items():
        table, _, name = path.rpartition(".")
        by_table.setdefault(table, {})[name] = value
    for table, kind in tables(root, named).items():
        if (within := getattr(kind, "conflicts", None)) is not None:
            yield from ((f"{table}.{name}", words) for name, words in within(by_table.get(table, {})))
    if "*" in values.get("cors.origins", ()) and values.get("client.trust_host"):
        yield "cors.origins", "* lets every page act for users of the host (client.trust_host); name the origins"
    yield from _body_conflicts(values)


def _body_conflicts(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """A body of the largest size must find room; reported for the setting that was changed from its default."""
    usual = LimitSettings()
    body = values.get("limits.body_bytes", usual.body_bytes)
    room = values.get("limits.body_bytes_in_flight", usual.body_bytes_in_flight)
    if type(body) is not int or type(room) is not int or 2 * body <= room:
        return
    if room == usual.body_bytes_in_flight:
        yield "limits.body_bytes", f"must be at most half of limits.body_bytes_in_flight, which is {room}"
    else:
        yield "limits.body_bytes_in_flight", f"must be at least twice limits.body_bytes, which is {body}"


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
    """The problem with *value*, as a message that follows the name of the setting; empty when there is none.

    The words never repeat a secret, nor a text of the wrong shape: it may hold one.
    """
    if not has_type(leaf.type, value):
        return f"must be {TYPES[leaf.type]}{_shown(leaf, value)}"
    rule = leaf.declared.rule
    if rule is None or value == leaf.default or not (words := rule.complaint(value)):
        return ""
    return words if isinstance(rule, Shape) else words + _shown(leaf, value)


def violations(root: type, members: Iterable[str], values: Mapping[str, Any]) -> tuple[str, ...]:
    """One line for every value that breaks its rule, and for all that do not go together; see `conflicts`."""
    members = tuple(members)
    known = leaves(root, members)
    found = ((path, complaint(known[path], value)) for path, value in values.items())
    return tuple(f"{path}: {words}" for path, words in (*found, *conflicts(root, members, values)) if words)


def require(problems: Iterable[str]) -> None:
    """Refuse settings that have problems.

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
