"""What several settings must be together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kiro_asgi.config.gateway import LimitSettings
from kiro_asgi.config.leaves import families, tables
from kiro_asgi.setting import UPSTREAM
from kiro_asgi.upstreams.manifest import manifests_in

__all__ = ["conflicts", "misnamed", "unnameable"]


def misnamed(root: type, name: str) -> str:
    """What is wrong with the name that somebody gave an upstream, in words that follow it; empty when nothing is."""
    if not UPSTREAM.fits(name):
        return f"the name must be {UPSTREAM.words}"
    taken = {field for field, _ in manifests_in(root)} - families(root).keys()
    return "the name is taken; it has settings of its own" if name in taken else ""


def unnameable(tree: object) -> tuple[str, ...]:
    """One line for every name in a family of *tree* that no upstream can have."""
    root = type(tree)
    named = ((f"{family}.{name}", misnamed(root, name)) for family in families(root) for name in getattr(tree, family))
    return tuple(f"{table}: {words}" for table, words in named if words)


def conflicts(root: type, members: Iterable[str], values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Path and complaint for values that are good one by one, but not together.

    A slice that has a function ``conflicts`` is asked about its own values.

    Args:
        root: The class of the whole tree.
        members: The tables of upstreams that somebody named, e.g. ``custom.ollama``.
        values: By path; those that are missing have their defaults.
    """
    named = tuple(members)
    for table in named:  # only what has a table of its own has a public address
        if not values.get(f"{table}.endpoint"):
            yield f"{table}.endpoint", "must be set"
    for table, kind in tables(root, named).items():
        if (within := getattr(kind, "conflicts", None)) is not None:
            own = {path.removeprefix(f"{table}."): it for path, it in values.items() if path.startswith(f"{table}.")}
            yield from ((f"{table}.{name}", words) for name, words in within(own))
    if "*" in values.get("cors.origins", ()) and values.get("client.trust_host"):
        yield "cors.origins", "* lets every page act for users of the host (client.trust_host); name the origins"
    yield from _body_conflicts(values)


def _body_conflicts(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """A body of the largest size must find room; told of the setting that somebody changed."""
    usual = LimitSettings()
    body = values.get("limits.body_bytes", usual.body_bytes)
    room = values.get("limits.body_bytes_in_flight", usual.body_bytes_in_flight)
    if type(body) is not int or type(room) is not int or 2 * body <= room:
        return
    if room == usual.body_bytes_in_flight:
        yield "limits.body_bytes", f"must be at most half of limits.body_bytes_in_flight, which is {room}"
    else:
        yield "limits.body_bytes_in_flight", f"must be at least twice limits.body_bytes, which is {body}"
