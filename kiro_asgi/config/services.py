"""Known services: a table that names one has its values where the operator sets no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

from kiro_asgi.config.installed import SERVICES, offered
from kiro_asgi.config.leaves import Leaf
from kiro_asgi.config.validation import complaint
from kiro_asgi.errors import ConfigError
from kiro_asgi.upstreams.services import KnownService

_SHOWN: Final = 60
"""Characters of a name that a message repeats."""

SERVICE: Final = "service"
"""Setting of a table that names one."""


def services_named(
    kinds: Mapping[str, type], known: Mapping[str, Leaf], values: Mapping[str, Any]
) -> tuple[Mapping[str, tuple[str, Any]], Mapping[str, str]]:
    """The settings for which the names of services in *values* stand.

    Args:
        kinds: Table to its class, which has ``known_services`` where it may name one.
        known: All settings, by path.
        values: Those that are written, by path.

    Returns:
        Path to the service's name and its value; and table to the problem with the name in it.
    """
    found: dict[str, tuple[str, Any]] = {}
    unknown: dict[str, str] = {}
    for table, kind in kinds.items():
        name = values.get(f"{table}.{SERVICE}")
        if not name or not hasattr(kind, "known_services"):
            continue
        try:
            row = service_named(name, kind.known_services)
            found |= {path: (name, value) for path, value in _values(known, table, row)}
        except ConfigError as error:
            unknown[table] = error.message
    return found, unknown


def all_services(rows: Mapping[str, KnownService]) -> Iterator[KnownService]:
    """*rows*, and those that installed packages offer; one that cannot be loaded is left out, and the table that names
    it says why."""
    yield from rows.values()
    for name in sorted(offered(SERVICES).keys() - rows.keys()):
        try:
            yield SERVICES.installed(name)
        except ConfigError:
            continue


def service_named(name: Any, rows: Mapping[str, KnownService]) -> KnownService:
    """The service called *name*, of *rows* or of an installed package.

    Raises:
        ConfigError: There is none, or it cannot be loaded.
    """
    there = offered(SERVICES)
    if type(name) is str and name in rows:
        return rows[name]
    if type(name) is str and name in there:
        return SERVICES.installed(name)
    close = get_close_matches(str(name)[:_SHOWN], [*rows, *there], n=1)
    hint = f"did you mean {close[0]}?" if close else "kiro-asgi services lists those that are known"
    raise ConfigError(f"no service is known as {name!r:.{_SHOWN}}; {hint}")


def _values(known: Mapping[str, Leaf], table: str, row: KnownService) -> Iterator[tuple[str, Any]]:
    """Path and value of each setting of *table* for which *row* stands.

    Raises:
        ConfigError: There is no such setting, or it cannot have this value.
    """
    for setting, value in row.settings.items():
        path = f"{table}.{setting}"
        if words := complaint(known[path], value) if path in known else "is no setting of this table":
            raise ConfigError(f"the known service {row.name!r}: {setting} {words}")
        yield path, value
