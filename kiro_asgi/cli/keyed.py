"""Settings in which a made-up key stands for every credential."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import evolve

from kiro_asgi.config import Settings
from kiro_asgi.upstreams.manifest import manifests_in

__all__ = ["keyed", "with_each"]


def keyed(settings: Settings, key: str) -> Settings:
    """*settings* with *key* as the only credential of every service, so that each well-known one is set up."""
    return with_each(settings, lambda upstream: upstream.keyed(key))


def with_each(settings: Settings, change: Callable[[Any], Any]) -> Settings:
    """*settings* with what *change* makes of the settings of each upstream."""
    changed: dict[str, Any] = {}
    for name, _ in manifests_in(type(settings)):
        value = getattr(settings, name)
        family = isinstance(value, Mapping)
        changed[name] = {member: change(it) for member, it in value.items()} if family else change(value)
    return evolve(settings, **changed)
