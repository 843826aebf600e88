"""Upstreams from outside the package: manifests that a program hands over, or that installed packages offer.

A package offers one by an entry point of the group `GROUP`, which has the upstream's name.  It is imported where
somebody has written settings below that name, and not before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from keyword import iskeyword
from typing import Any, Final, TypeVar, cast

import attrs

from kiro_asgi.config.leaves import families, leaves, slices
from kiro_asgi.config.rules import TYPES
from kiro_asgi.errors import ConfigError
from kiro_asgi.setting import UPSTREAM
from kiro_asgi.upstreams.manifest import Manifest, UpstreamSettings, manifests_in, slice_of

__all__ = ["GROUP", "including", "installed", "offered", "with_installed"]

T = TypeVar("T")

GROUP: Final = "kiro_asgi.upstreams"
"""Entry points of this group are manifests."""


def including(root: type[T], manifests: Iterable[Manifest[Any]]) -> type[T]:
    """*root* with settings for each of *manifests*, below its name; one that it has already stays as it is.

    Raises:
        ConfigError: One of them is no manifest, its settings are none, or its name is taken or cannot be one.
    """
    tree: Any = root
    known = dict(manifests_in(root))
    new: dict[str, Manifest[Any]] = {}
    for manifest in manifests:
        if known.get(getattr(manifest, "name", "")) is not manifest:
            if problem := next(_problems(root, manifest, new), ""):
                raise ConfigError(problem, code="config.upstream")
            new[manifest.name] = manifest
    return cast(type[T], _including(tree, tuple(new.values()))) if new else root


@cache
def _including(root: type[Any], manifests: tuple[Manifest[Any], ...]) -> Any:
    body = {"__module__": __name__, "__qualname__": root.__qualname__, "__doc__": root.__doc__}
    kinds = {it.name: it.settings for it in manifests}
    fields = {it.name: slice_of(it) for it in manifests}
    return attrs.frozen(kw_only=True)(type(root.__name__, (root,), {**body, "__annotations__": kinds, **fields}))


def with_installed(root: type, tables: Iterable[str]) -> tuple[type, Mapping[str, str]]:
    """*root* with those of *tables* that it does not know and an installed package offers.

    Returns:
        The class, and of each table that is offered and cannot be had what is wrong.
    """
    there = {*(it.name for it in attrs.fields(root)), *slices(root), *families(root)}
    wrong: dict[str, str] = {}
    if absent := dict.fromkeys(table for table in tables if table not in there):
        for table in filter(offered().__contains__, absent):
            try:
                root = including(root, (installed(table),))
            except ConfigError as error:
                wrong[table] = error.message
    return root, wrong


def offered() -> Mapping[str, tuple[EntryPoint, ...]]:
    """What installed packages offer, by name; nothing of it is imported."""
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for point in entry_points(group=GROUP):
        others = found.get(point.name, ())
        if all((point.value, _package(point)) != (other.value, _package(other)) for other in others):
            found[point.name] = (*others, point)
    return found


def installed(name: str) -> Manifest[Any]:
    """The manifest that an installed package offers by this *name*, imported.

    Raises:
        ConfigError: None or several do, it cannot be imported, or is something else.
    """
    points = offered().get(name, ())
    if len(points) != 1:
        packages = ", ".join(map(_package, points))
        several = f"several packages offer this upstream; uninstall all but one: {packages}"
        raise ConfigError(several if points else f"no installed package offers the upstream {name!r}")
    [point] = points
    place = f"the entry point {point.value} of {_package(point)}"
    try:
        manifest = point.load()
    except Exception as error:  # whatever a module does when it is imported
        raise ConfigError(f"{place} cannot be imported: {type(error).__name__}: {error}") from error
    if not isinstance(manifest, Manifest):
        raise ConfigError(f"{place} must be a kiro_asgi.upstreams.Manifest, not {type(manifest).__name__}")
    if manifest.name != name:
        raise ConfigError(f"{place} is called {manifest.name!r}; it must have the entry point's name")
    return manifest


def _problems(root: type, manifest: Any, others: Iterable[str]) -> Iterator[str]:
    """What is wrong with *manifest*, which is to stand in *root* beside *others*."""
    if not isinstance(manifest, Manifest):
        yield f"an upstream must be a kiro_asgi.upstreams.Manifest, not {manifest!r:.60}"
        return
    name, kind = manifest.name, manifest.settings
    if not UPSTREAM.fits(name) or not name.isidentifier() or "__" in name:
        yield f"the upstream {name!r:.60}: a name is a word of small letters, digits and single _"
    elif hasattr(root, name) or name in others or iskeyword(name):
        yield f"the upstream {name!r}: the name is taken; give the manifest another"
    elif not attrs.has(kind):
        yield f"the upstream {name!r}: the settings must be a frozen attrs class, not {kind!r:.60}"
    else:
        yield from (f"the upstream {name!r}: {kind.__name__}{words}" for words in _settings_problems(kind))


def _settings_problems(kind: type) -> Iterator[str]:
    try:
        settings, known = kind(), leaves(kind)
    except Exception as error:  # noqa: BLE001 - anybody's class
        yield f" cannot be made without arguments: {type(error).__name__}: {error}"
        return
    for leaf in known.values():
        if leaf.type not in TYPES:
            yield f".{leaf.path} must be annotated as bool, int, float, str or tuple[str, ...]"
    for name in vars(UpstreamSettings):
        if not name.startswith("_") and not hasattr(settings, name):
            yield f" has no {name!r}; see kiro_asgi.upstreams.UpstreamSettings"


def _package(point: EntryPoint) -> str:
    """The package that a point is of, and its version."""
    return "an unknown package" if point.dist is None else f"{point.dist.name} {point.dist.version}"
