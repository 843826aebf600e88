"""What a program may hand in beside its settings, and what is asked of each object.

All of it is looked at before anything is made: a wrong object is found by who hands it in, and not by the first request
that meets it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, islice
from types import FunctionType
from typing import Any, Final

from kiro_asgi.asgi.door.client_table import Presented
from kiro_asgi.asgi.door.parts import Additions
from kiro_asgi.asgi.kept.extensions import observer_lacks, stage_lacks, store_lacks
from kiro_asgi.asgi.kept.server_tools import tool_lacks
from kiro_asgi.asgi.protocol import Receive, Scope, Send
from kiro_asgi.config import Settings
from kiro_asgi.dialects.manifest import DialectManifest
from kiro_asgi.errors import ConfigError
from kiro_asgi.interface import call_lacks, class_lacks, is_async, lacks
from kiro_asgi.quota.clients import Client
from kiro_asgi.stages.estimate import Estimator
from kiro_asgi.upstreams.manifest import Manifest

Check = Callable[[Any], Iterable[str]]
"""From an object to what it lacks, each in a few words with advice."""


async def _may_inspect(scope: Scope, /) -> bool:
    raise NotImplementedError


async def _app(scope: Scope, receive: Receive, send: Send, /) -> None:
    raise NotImplementedError


def _find(presented: Presented, /) -> Client | None:
    raise NotImplementedError


async def _find_later(presented: Presented, /) -> Client | None:
    raise NotImplementedError


def _user_of(scope: Scope, /) -> object:
    raise NotImplementedError


async def _user_later(scope: Scope, /) -> object:
    raise NotImplementedError


async def _aclose() -> None:
    raise NotImplementedError


def _either(at_once: Callable[..., Any], later: Callable[..., Any], given: object) -> Iterator[str]:
    """What *given* lacks to stand in the place of the one, or of the other where it is async."""
    if isinstance(given, type):
        yield class_lacks(given)
    else:
        yield from _called_as(later if callable(given) and is_async(given) else at_once, given)


def _called_as(wanted: Callable[..., Any], given: object) -> Iterator[str]:
    if words := call_lacks(given, wanted):
        yield words


def _is_a(kind: type, given: object) -> Iterator[str]:
    if not isinstance(given, kind):
        yield f"must be a kiro_asgi.{kind.__name__}"


ONE: Final[Mapping[str, Check]] = {
    "inner": partial(_called_as, _app),
    "store": store_lacks,
    "estimator": lambda given: lacks(given, Estimator),
    "may_inspect": partial(_called_as, _may_inspect),
    "keys": partial(_either, _find, _find_later),
}
"""Parameter of `kiro_asgi.create_app` to what is asked of the object; ``None`` stands for none."""

MOUNTED: Final[Mapping[str, Check]] = {
    "host_app": partial(_called_as, _app),
    "gateway": partial(_called_as, _app),
    "principal": partial(_either, _user_of, _user_later),
    "aclose": partial(_called_as, _aclose),
}
"""The same of `kiro_asgi.mount`."""

SEVERAL: Final[Mapping[str, Check]] = {
    "upstreams": partial(_is_a, Manifest),
    "dialects": partial(_is_a, DialectManifest),
    "stages": stage_lacks,
    "server_tools": tool_lacks,
    "observers": observer_lacks,
}
"""The same of parameters that take several objects."""


def additions_of(given: Mapping[str, Any]) -> Additions:
    """What is *given*, by the names of parameters.

    Raises:
        ConfigError: One of the objects cannot be used; the message has a line for each, with its place.
    """
    kept = {name: value for name, value in given.items() if value is not None}
    several = {name: _all(name, value) for name, value in kept.items() if name in SEVERAL}
    placed = chain(
        ((name, ONE[name], value) for name, value in kept.items() if name in ONE),
        ((f"{name}[{at}]", SEVERAL[name], each) for name, every in several.items() for at, each in enumerate(every)),
    )
    if lines := [
        f"{place}, {_called(each)}: {words}"
        for place, check, each in placed
        for words in islice(check(each), 1)  # what else it lacks mostly follows from that
    ]:
        head = () if len(lines) == 1 else (f"{len(lines)} objects cannot be used:",)
        raise ConfigError("\n  ".join((*head, *lines)), code="config.object")
    return Additions(**{**kept, **several})


def require_settings(settings: object) -> None:
    """Check what is handed in as settings.

    Raises:
        ConfigError: It is none, e.g. the name of a file.
    """
    if not isinstance(settings, Settings | Mapping | None):
        message = f"settings: must be Settings, a mapping or None, not {settings!r:.60}"
        raise ConfigError(f"{message}; Settings.from_toml reads a file", code="config.object")


def _all(name: str, value: object) -> tuple[Any, ...]:
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        return tuple(value)
    raise ConfigError(f"{name}: must be a list, even of one, not {value!r:.60}", code="config.object")


def _called(given: object) -> str:
    return given.__name__ if isinstance(given, type | FunctionType) else type(given).__name__
