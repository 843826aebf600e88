"""Upstreams, client APIs, stages, stores and observers from outside: manifests that a program hands over, or that
installed packages offer.

A package offers one by an entry point with the manifest's name, in the group of its kind.  It is imported where
settings below that name are set, and not before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from keyword import iskeyword
from typing import Any, Final, Generic, TypeVar, cast

import attrs
from attrs import frozen

from kiro_asgi.config.leaves import families, leaves, slices
from kiro_asgi.config.validation import TYPES
from kiro_asgi.dialects.manifest import DialectManifest, DialectSettings, dialect_slice, dialects_in
from kiro_asgi.errors import ConfigError
from kiro_asgi.extension import ExtensionManifest, ExtensionSettings, extension_slice, extensions_in
from kiro_asgi.observers.base import ObserverManifest
from kiro_asgi.setting import UPSTREAM
from kiro_asgi.stages.base import StageManifest
from kiro_asgi.state.base import StoreManifest
from kiro_asgi.upstreams.manifest import Manifest, UpstreamSettings, manifests_in, slice_of
from kiro_asgi.upstreams.services import KnownService

T = TypeVar("T")
Party = Manifest[Any] | DialectManifest | ExtensionManifest[Any]
"""What has a table of settings of its own."""

M = TypeVar("M", bound=Party | KnownService)
P = TypeVar("P", bound=Party)
E = TypeVar("E", bound=ExtensionManifest[Any])


@frozen(kw_only=True)
class Offer(Generic[M]):
    """What packages offer of one kind, and the entry points where it is found."""

    title: str
    """Its name in messages, with the article."""

    group: str
    """The group of entry points."""

    public: str
    """The module from which extensions import."""

    manifest: type[M]
    """What an entry point is."""

    def installed(self, name: str) -> M:
        """What an installed package offers by this *name*, imported.

        Raises:
            ConfigError: None or several do, it cannot be imported, or is something else.
        """
        points = offered(self).get(name, ())
        if len(points) != 1:
            packages = ", ".join(map(_package, points))
            several = f"several packages offer {self.title} of this name; uninstall all but one: {packages}"
            raise ConfigError(several if points else f"no installed package offers {self.title} {name!r}")
        [point] = points
        place = f"the entry point {point.value} of {_package(point)}"
        try:
            manifest = point.load()
        except Exception as error:  # an extension's module may raise anything
            raise ConfigError(f"{place} cannot be imported: {type(error).__name__}: {error}") from error
        if not isinstance(manifest, self.manifest):
            wanted = f"{self.public}.{self.manifest.__name__}"
            raise ConfigError(f"{place} must be a {wanted}, not {type(manifest).__name__}")
        if manifest.name != name:
            raise ConfigError(f"{place} is called {manifest.name!r}; it must have the entry point's name")
        return manifest


@frozen(kw_only=True)
class PartyKind(Offer[P]):
    """A kind of extension with settings of its own; entry points are its manifests."""

    base: type
    """A class that has every attribute that settings must have."""

    declare: Callable[[P], Any]
    """Make the field of a tree that holds the settings of a manifest."""

    known: Callable[[type], Iterable[tuple[str, P]]]
    """Field and manifest of each that the class of a tree has settings for."""


UPSTREAMS: Final[PartyKind[Manifest[Any]]] = PartyKind(
    title="an upstream",
    group="kiro_asgi.upstreams",
    public="kiro_asgi.upstreams",
    manifest=Manifest,
    base=UpstreamSettings,
    declare=slice_of,
    known=manifests_in,
)
DIALECTS: Final[PartyKind[DialectManifest]] = PartyKind(
    title="a client API",
    group="kiro_asgi.dialects",
    public="kiro_asgi.dialects",
    manifest=DialectManifest,
    base=DialectSettings,
    declare=dialect_slice,
    known=dialects_in,
)


def _extensions(title: str, group: str, manifest: type[E]) -> PartyKind[E]:
    return PartyKind(
        title=title,
        group=f"kiro_asgi.{group}",
        public="kiro_asgi",
        manifest=manifest,
        base=ExtensionSettings,
        declare=extension_slice,
        known=partial(extensions_in, kind=manifest),
    )


STAGES: Final = _extensions("a stage", "stages", StageManifest)
STORES: Final = _extensions("a store", "stores", StoreManifest)
OBSERVERS: Final = _extensions("an observer", "observers", ObserverManifest)

KINDS: Final[tuple[PartyKind[Any], ...]] = (UPSTREAMS, DIALECTS, STAGES, STORES, OBSERVERS)
"""Every kind of what has settings of its own; no two of them may have one name."""

SERVICES: Final[Offer[KnownService]] = Offer(
    title="a known service", group="kiro_asgi.services", public="kiro_asgi.upstreams", manifest=KnownService
)
"""Rows for the table of known services."""


def including(root: type[T], manifests: Iterable[Party]) -> type[T]:
    """*root* with settings for each of *manifests*, below its name; one that it has already stays as it is.

    Raises:
        ConfigError: One of them is no manifest, its settings are none, or its name is taken or cannot be one.
    """
    known = {name: manifest for kind in KINDS for name, manifest in kind.known(root)}
    new: dict[str, Party] = {}
    for manifest in manifests:
        if known.get(getattr(manifest, "name", "")) is not manifest:
            if problem := next(_problems(root, manifest, new), ""):
                raise ConfigError(problem, code="config.manifest")
            new[manifest.name] = manifest
    return cast(type[T], _including(cast(Any, root), tuple(new.values()))) if new else root


@cache
def _including(root: type[Any], manifests: tuple[Party, ...]) -> Any:
    body = {"__module__": __name__, "__qualname__": root.__qualname__, "__doc__": root.__doc__}
    hints = {it.name: it.settings for it in manifests}
    fields = {it.name: kind.declare(it) for it in manifests if (kind := _kind(it)) is not None}
    return attrs.frozen(kw_only=True)(type(root.__name__, (root,), {**body, "__annotations__": hints, **fields}))


def with_installed(root: type, tables: Iterable[str]) -> tuple[type, Mapping[str, str]]:
    """*root* with those of *tables* that it does not know and an installed package offers.

    Returns:
        The class, and the problem of each table that is offered and cannot be loaded.
    """
    there = {*(it.name for it in attrs.fields(root)), *slices(root), *families(root)}
    wrong: dict[str, str] = {}
    for table in dict.fromkeys(table for table in tables if table not in there):
        kinds = [kind for kind in KINDS if table in offered(kind)]
        if len(kinds) > 1:
            titles = " and ".join(kind.title for kind in kinds)
            wrong[table] = f"installed packages offer {titles} of this name; uninstall one of them"
        elif kinds:
            try:
                root = including(root, (kinds[0].installed(table),))
            except ConfigError as error:
                wrong[table] = error.message
    return root, wrong


def offered(*kinds: Offer[Any]) -> Mapping[str, tuple[EntryPoint, ...]]:
    """The entry points of *kinds* in installed packages, by name; of all kinds where none is named.  Nothing is
    imported."""
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for kind in kinds or KINDS:
        for point in entry_points(group=kind.group):
            others = found.get(point.name, ())
            if all((point.value, _package(point)) != (other.value, _package(other)) for other in others):
                found[point.name] = (*others, point)
    return found


def _kind(manifest: object) -> PartyKind[Any] | None:
    return next((kind for kind in KINDS if isinstance(manifest, kind.manifest)), None)


def _problems(root: type, manifest: Any, others: Iterable[str]) -> Iterator[str]:
    """Problems of *manifest*, which is to be added to *root* with *others*."""
    if (kind := _kind(manifest)) is None:
        known = ", ".join(f"{each.public}.{each.manifest.__name__}" for each in KINDS)
        yield f"{manifest!r:.60} is none of {known}"
        return
    name, settings, title = manifest.name, manifest.settings, kind.title.partition(" ")[2]
    if not UPSTREAM.fits(name) or not name.isidentifier() or "__" in name:
        yield f"the {title} {name!r:.60}: a name is a word of small letters, digits and single _"
    elif hasattr(root, name) or name in others or iskeyword(name):
        yield f"the {title} {name!r}: the name is taken; give the manifest another"
    elif not attrs.has(settings):
        yield f"the {title} {name!r}: the settings must be a frozen attrs class, not {settings!r:.60}"
    else:
        yield from (f"the {title} {name!r}: {settings.__name__}{words}" for words in _settings_problems(settings, kind))


def _settings_problems(settings: type, kind: PartyKind[Any]) -> Iterator[str]:
    try:
        made, known = settings(), leaves(settings)
    except Exception as error:  # noqa: BLE001 - an extension's class may raise anything
        yield f" cannot be made without arguments: {type(error).__name__}: {error}"
        return
    for leaf in known.values():
        if leaf.type not in TYPES:
            yield f".{leaf.path} must be annotated as bool, int, float, str or tuple[str, ...]"
    for name in vars(kind.base):
        if not name.startswith("_") and not hasattr(made, name):
            yield f" has no {name!r}; see {kind.public}.{kind.base.__name__}"


def _package(point: EntryPoint) -> str:
    """The package that a point is of, and its version."""
    return "an unknown package" if point.dist is None else f"{point.dist.name} {point.dist.version}"
