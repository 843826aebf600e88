"""From what somebody wrote (TOML, environment, mappings) to values by path, with every mistake found on the way.

Layers are read one by one, lowest first, so that a mistake is reported even where a higher layer overrides it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from attrs import field, frozen

from kiro_asgi.config.leaves import ENV_PREFIX, Leaf, leaves, slices
from kiro_asgi.config.presets import NATIVE, PRESETS
from kiro_asgi.config.rules import complaint

__all__ = [
    "CONFIG_VARIABLE",
    "KEY_VARIABLE",
    "Given",
    "Reading",
    "read",
    "read_environment",
    "read_mapping",
    "read_toml",
]

CONFIG_VARIABLE: Final = "KIRO_ASGI_CONFIG"
"""Names a TOML file; the environment wins over it."""

KEY_VARIABLE: Final = "KIRO_API_KEY"
"""The service's own variable for ``kiro.api_key``; the setting's own name wins over it."""

WORDS: Final[Mapping[str, bool]] = MappingProxyType(
    {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
)
"""What a switch may be called in the environment."""


@frozen
class Given:
    """One value, as somebody wrote it."""

    source: str
    """Where, in words for a message."""

    value: Any = field(default=None, repr=False)
    path: str = ""
    """The setting; empty when *problem* says why there is none."""

    problem: str = ""


@frozen
class Reading:
    """What was read from all layers together."""

    values: Mapping[str, Any] = field(repr=False)
    sources: Mapping[str, str]
    """Path to where its value comes from; a path that is missing has its default."""

    problems: tuple[str, ...]
    """One line each; the values are only of use when there are none."""


def read(root: type, given: Iterable[Given]) -> Reading:
    """Check every value, and let later ones win; what nobody gave has the value of the preset that was chosen."""
    known = leaves(root)
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    problems: list[str] = []
    for it in given:
        if words := it.problem or complaint(known[it.path], it.value):
            problems.append(f"{it.source}: {words}")
        else:
            values[it.path] = it.value
            sources[it.path] = it.source
    preset = values.get("preset", NATIVE)
    below = PRESETS[preset]
    return Reading({**below, **values}, {**dict.fromkeys(below, f"preset {preset}"), **sources}, tuple(problems))


def read_environment(root: type, environ: Mapping[str, str]) -> Reading:
    """The file that `CONFIG_VARIABLE` names, then the variables themselves."""
    file = environ.get(CONFIG_VARIABLE, "")
    return read(root, (*(read_toml(root, Path(file)) if file else ()), *_variables(root, environ)))


def read_mapping(root: type, mapping: Mapping[str, Any], place: str = "") -> Iterator[Given]:
    """Values of nested mappings; *place* names the document in messages."""
    known, tables = leaves(root), slices(root)
    for path, value in _spread(mapping, tables):
        source = f"{place}: {path}" if place else path
        if path in known:
            yield Given(source, tuple(value) if type(value) is list else value, path)
        elif path in tables:
            yield Given(source, problem="must be a table of settings")
        else:
            yield Given(source, problem=_unknown(path, known))


def read_toml(root: type, file: Path) -> Iterator[Given]:
    """Values of a TOML file; one that cannot be read is a problem like any other."""
    try:
        document = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        yield Given(str(file), problem=f"cannot be read: {error.strerror}")
    except UnicodeDecodeError:
        yield Given(str(file), problem="cannot be read: not UTF-8")
    except tomllib.TOMLDecodeError as error:
        yield Given(str(file), problem=f"is not TOML: {error}")
    else:
        yield from read_mapping(root, document, file.name)


def _variables(root: type, environ: Mapping[str, str]) -> Iterator[Given]:
    known = {leaf.env: leaf for leaf in leaves(root).values()}
    if key := environ.get(KEY_VARIABLE, ""):
        yield Given(KEY_VARIABLE, key, "kiro.api_key")
    for name in sorted(name for name in environ if name.upper().startswith(ENV_PREFIX)):
        if name in known:
            yield _from_text(known[name], environ[name])
        else:
            yield Given(name, problem=_unknown(name, known))


def _from_text(leaf: Leaf, text: str) -> Given:
    """The value that *text* stands for; left as text where it stands for none, so that its rule complains."""
    value: Any = text
    if leaf.type is bool:
        value = WORDS.get(text.strip().lower(), text)
    elif leaf.type is int or leaf.type is float:
        value = _number(leaf.type, text)
    elif leaf.type is not str:
        value = tuple(item for part in text.split(",") if (item := part.strip()))
    return Given(leaf.env, value, leaf.path)


def _number(kind: type, text: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        return text


def _spread(table: Mapping[str, Any], tables: Mapping[str, type], at: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        path = f"{at}{key}"
        if path in tables and isinstance(value, Mapping):
            yield from _spread(value, tables, f"{path}.")
        else:
            yield path, value


def _unknown(name: str, known: Iterable[str]) -> str:
    by_lower = {it.lower(): it for it in known}
    close = get_close_matches(name.lower(), list(by_lower), n=1)
    return f"no such setting; did you mean {by_lower[close[0]]}?" if close else "no such setting"
