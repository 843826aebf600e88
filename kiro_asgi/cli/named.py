"""Commands of one upstream alone: its manifest names them as text, and they are imported when they are needed."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kiro_asgi.errors import ConfigError
from kiro_asgi.named import imported
from kiro_asgi.upstreams.manifest import Manifest


class Command(Protocol):
    """A module, or another object, that a command is run by."""

    def add_arguments(self, parser: argparse.ArgumentParser, /) -> None:
        """Declare the options."""
        ...

    def run(self, arguments: argparse.Namespace, environ: Mapping[str, str], /) -> int:
        """Run it; returns the exit status."""
        ...


def login_of(manifest: Manifest[Any]) -> Command:
    """Import how a user signs in.

    Raises:
        ConfigError: There is no sign-in, or the name of it leads to none.
    """
    if not manifest.login:
        raise ConfigError(f"{manifest.title} has no sign-in; set its key instead")
    found: Command = _imported(manifest, "login", "add_arguments", "run")
    return found


def doctor_of(manifest: Manifest[Any]) -> Callable[..., Any]:
    """Import the class that examines an upstream, made and used as `kiro_asgi.cli.doctor.DirectExamination` is.

    Raises:
        ConfigError: The name of it leads to none.
    """
    found: Callable[..., Any] = _imported(manifest, "doctor", "run")
    return found


def _imported(manifest: Manifest[Any], field: str, *members: str) -> Any:
    """What the manifest names in *field*; it must have *members*, which can be called."""
    name: str = getattr(manifest, field)
    place = f"the manifest of the upstream {manifest.name!r} has {field}"
    found = imported(name, place, code="config.manifest")
    if missing := [member for member in members if not callable(getattr(found, member, None))]:
        raise ConfigError(
            f"{place} = {name!r}, which has no {' and no '.join(missing)} to call", code="config.manifest"
        )
    return found
