"""What an upstream says of itself to everybody else: one value for each kind of service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

import attrs
from attrs import frozen

__all__ = ["Manifest", "declared", "manifests_in", "read_only"]

_KEY: Final = "kiro_asgi.manifest"
"""Where a field's metadata hold the manifest of those whose settings it has."""


@frozen(kw_only=True)
class Manifest:
    """One kind of service.  It is read at every start; what asks the service is imported only where it is set up."""

    name: str
    """Of its table of settings, and what a client may write in front of a model's name."""

    title: str
    """What people call it."""

    settings: type
    """The class of its settings."""


def declared(manifest: Manifest) -> Mapping[str, Manifest]:
    """Metadata of a field that holds the settings of *manifest*, or a family: those of several, by their names."""
    return {_KEY: manifest}


def read_only(members: Mapping[str, Any]) -> Mapping[str, Any]:
    """*members* of a family as they are now."""
    return MappingProxyType(dict(members))


def manifests_in(tree: type) -> Iterator[tuple[str, Manifest]]:
    """Field and manifest of every upstream that the class *tree* has settings for, in the order of asking."""
    for it in attrs.fields(tree):
        if (manifest := cast(Manifest | None, it.metadata.get(_KEY))) is not None:
            yield it.name, manifest
