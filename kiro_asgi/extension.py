"""Stages, stores and observers that packages offer: a manifest each, with a table of settings of its own.

What a manifest makes stands above this module; each kind has its class of manifests beside its interface.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar

import attrs
from attrs import field, frozen

from kiro_asgi.errors import ConfigError
from kiro_asgi.interface import must_be, must_stand_for
from kiro_asgi.setting import Bounds, Choices, Shape, setting

__all__ = ["Bounds", "Choices", "ExtensionManifest", "ExtensionSettings", "Shape", "setting"]

_KEY: Final = "kiro_asgi.extension"
"""Where a field's metadata hold the manifest whose settings it has."""

T = TypeVar("T")
M = TypeVar("M", bound="ExtensionManifest[Any]")


@frozen(kw_only=True)
class ExtensionSettings:
    """Settings that every stage, store and observer from outside has; one with more of them derives its own class."""

    enabled: bool = setting(True)
    """Use it.  Of an installed package it is used where any of its settings is written, if only this one."""


def _make(settings: Any, /) -> object:
    raise NotImplementedError


def _refused(manifest: ExtensionManifest[Any], words: str) -> ConfigError:
    message = f"the {type(manifest).__name__} of {manifest.name!r:.60}: {words}"
    return ConfigError(message, code="config.manifest")


@frozen(kw_only=True)
class ExtensionManifest(Generic[T]):
    """One thing that a package offers.

    It is read wherever there are settings below its name, so `make` imports what takes long.

    Raises:
        ConfigError: A member is not what it has to be; the message names it.
    """

    name: str = field(validator=must_be(str, "text", _refused))
    """Of its table of settings, and of its entry point."""

    title: str = field(validator=must_be(str, "text", _refused))
    """Name in messages and pages."""

    make: Callable[[Any], T] = field(validator=must_stand_for(_make, _refused))
    """Make it of its settings, once for each application.  A setting that cannot work is a
    `kiro_asgi.ConfigError`."""

    settings: type[Any] = field(default=ExtensionSettings, validator=must_be(type, "type", _refused))
    """The class of its settings, a frozen attrs class."""


def extension_slice(manifest: ExtensionManifest[Any]) -> Any:
    """Declare a field that holds the settings of *manifest*; without any of them it has their defaults."""
    return field(factory=manifest.settings, metadata={_KEY: manifest})


def extensions_in(tree: type, kind: type[M]) -> Iterator[tuple[str, M]]:
    """Field and manifest of everything of one *kind* that the class *tree* has settings for."""
    for it in attrs.fields(tree):
        if isinstance(manifest := it.metadata.get(_KEY), kind):
            yield it.name, manifest


def enabled_in(tree: object, kind: type[M]) -> Iterator[tuple[M, Any]]:
    """Manifest and settings of everything of one *kind* that *tree* has settings for and does not switch off."""
    for name, manifest in extensions_in(type(tree), kind):
        if (settings := getattr(tree, name)).enabled:
            yield manifest, settings
