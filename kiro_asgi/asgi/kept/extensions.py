"""Stages, stores and observers from outside: what is asked of each, and those that the settings have tables for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from attrs import evolve

from kiro_asgi.asgi.kept.guarded import GuardedStore
from kiro_asgi.config import Settings
from kiro_asgi.errors import ConfigError
from kiro_asgi.extension import ExtensionManifest, enabled_in
from kiro_asgi.interface import call_lacks, lacks, offers
from kiro_asgi.model.events import Delta
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.observers.base import Observer, ObserverManifest
from kiro_asgi.stages.base import Stage, StageManifest
from kiro_asgi.stages.own import OwnStage
from kiro_asgi.state.base import BatchStore, Store, StoreManifest, WatchedStore

T = TypeVar("T")


def _make_stage(prompt: Prompt, /) -> Stage[Delta, Delta]:
    raise NotImplementedError


def stage_lacks(given: object) -> Iterator[str]:
    """What *given* lacks to make stages; what it makes is looked at when it does."""
    if words := call_lacks(given, _make_stage):
        yield words


def store_lacks(given: object) -> Iterator[str]:
    """What *given* lacks to be a store; what it need not have is looked at where it has it."""
    yield from (f"{words}; see kiro_asgi.Store" for words in lacks(given, Store))
    for more in (BatchStore, WatchedStore):
        if offers(given, more):
            yield from (f"{words}; see kiro_asgi.{more.__name__}" for words in lacks(given, more))


def observer_lacks(given: object) -> Iterator[str]:
    """What *given* lacks to be an observer."""
    if not isinstance(given, Observer | type):
        yield "must inherit from kiro_asgi.Observer, whose methods do nothing where a subclass defines none"
    yield from (f"{words}; see kiro_asgi.Observer" for words in lacks(given, Observer))


def stages_of(settings: Settings) -> Iterator[OwnStage]:
    """Make the stages that *settings* have tables for, in the order of the tables.

    Raises:
        ConfigError: A setting of one cannot work, or what is made is none.
    """
    for manifest, own in enabled_in(settings, StageManifest):
        yield OwnStage(manifest.name, _made(manifest, own, stage_lacks))


def observers_of(settings: Settings) -> Iterator[Observer]:
    """Make the observers that *settings* have tables for.

    Raises:
        ConfigError: As for `stages_of`.
    """
    for manifest, own in enabled_in(settings, ObserverManifest):
        yield _made(manifest, own, observer_lacks)


def store_table(settings: Settings) -> tuple[StoreManifest, Any] | None:
    """Manifest and settings of the store from outside that *settings* have; ``None`` where they have none.

    Raises:
        ConfigError: They have two, or name an engine as well.
    """
    found = [*enabled_in(settings, StoreManifest)]
    if not found:
        return None
    if len(found) > 1:
        names = " and ".join(manifest.name for manifest, _ in found)
        raise ConfigError(f"{names}: there can be one store; set enabled = false for the others", code="state")
    if (engine := settings.state.engine) != "auto":
        message = f"state.engine: must be auto where {found[0][0].name} is the store, not {engine}"
        raise ConfigError(message, code="state.engine")
    return found[0]


def store_of(settings: Settings) -> Store | None:
    """Make the store from outside that *settings* have; ``None`` where they have none.

    Raises:
        ConfigError: As for `store_table` and `stages_of`.
    """
    found = store_table(settings)
    return None if found is None else GuardedStore(_made(*found, store_lacks), settings.state.timeout)


def without_store(settings: Settings) -> Settings:
    """*settings* with the store from outside switched off.

    Raises:
        ConfigError: As for `store_table`.
    """
    found = store_table(settings)
    if found is None:
        return settings
    manifest, own = found
    return evolve(settings, **{manifest.name: evolve(own, enabled=False)})


def _made(manifest: ExtensionManifest[T], own: Any, lacking: Callable[[object], Iterator[str]]) -> T:
    made = manifest.make(own)
    if lack := next(lacking(made), ""):
        raise ConfigError(f"{manifest.name}: make gave a {type(made).__name__}: {lack}", code="config.manifest")
    return made
