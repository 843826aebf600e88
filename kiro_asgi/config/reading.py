"""Read settings (TOML, environment, mappings) into values by path, and report every mistake on the way.

Layers are read one by one, lowest first, so that a mistake is reported even where a higher layer overrides it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve, field, frozen

from kiro_asgi.config.installed import offered, with_installed
from kiro_asgi.config.leaves import ENV_PREFIX, Leaf, families, leaves, members_of, preset_values, slices, tables
from kiro_asgi.config.services import SERVICE, services_named
from kiro_asgi.config.validation import complaint, conflicts, misnamed
from kiro_asgi.config.variables import keys_elsewhere, misspelt
from kiro_asgi.limits import SETTINGS_BYTES
from kiro_asgi.private import read_ordinary

CONFIG_VARIABLE: Final = "KIRO_ASGI_CONFIG"
"""Names a TOML file; the environment wins over it."""

WORDS: Final[Mapping[str, bool]] = MappingProxyType(
    {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
)
"""Spellings of booleans in the environment."""


GONE: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(
            ("retry.cap", "retry.rate_cap", "retry.capacity_cap"),
            "is gone: retry.max_wait bounds all waiting between the tries of one request",
        ),
        "retry.rest": "is gone: see retry.refused_base and retry.refused_cap, and retry.quota_probe for spent quotas",
    }
)
"""Removed settings, and what to set instead."""


@frozen
class Given:
    """One value, as it was written."""

    source: str
    """Its place, in words for a message."""

    value: Any = field(default=None, repr=False)
    path: str = ""
    """The setting; empty when *problem* says why there is none."""

    problem: str = ""
    doubtful: tuple[str, ...] = ()
    """Tables about which nothing is known because of *problem*; empty for the settings that are in none."""


@frozen
class SettingsReading:
    """Values, sources and problems of all layers together."""

    root: type
    """The class of the tree: the one to read, with the settings of those upstreams and client APIs of installed
    packages that were written."""

    values: Mapping[str, Any] = field(repr=False)
    sources: Mapping[str, str]
    """Path to where its value comes from; a path that is missing has its default."""

    problems: tuple[str, ...]
    """One line each."""

    faulty: frozenset[str] = frozenset()
    """Tables with a value that cannot be used; *values* has none of these tables' values."""

    warnings: tuple[str, ...] = ()
    """One line for each name that is probably misspelt, though not so that it has to be ours."""

    keys_elsewhere: Mapping[str, str] = field(factory=dict)
    """Variables of other programs in which there are keys of services, to those of ours that would be read."""


def read(root: type, given: Iterable[Given]) -> SettingsReading:
    """Check every value, and let later ones win; the others have the values of the chosen preset."""
    given = tuple(given)
    members = members_of(root, (it.path for it in given))
    known = leaves(root, members)
    faulty: set[str] = set()
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    problems: list[str] = []
    for it in given:
        if it.problem:
            problems.append(f"{it.source}: {it.problem}")
            faulty.update(it.doubtful)
        elif words := complaint(known[it.path], it.value):
            problems.append(f"{it.source}: {words}")
            faulty.add(it.path.rpartition(".")[0])
        else:
            values[it.path] = it.value
            sources[it.path] = it.source
    faulty.update(member for member in members if member.partition(".")[0] in faulty)
    written = {it.path: it.value for it in given if not it.problem}
    preset = values.get("preset", known["preset"].default)
    below = preset_values(root, preset)
    origins = dict.fromkeys(below, f"preset {preset}")
    found, unknown = services_named(tables(root, members), known, written)
    for table, words in unknown.items():
        if table not in faulty:
            problems.append(f"{sources[f'{table}.{SERVICE}']}: {words}")
    for path, (name, value) in found.items():
        below[path], origins[path] = value, f"service {name}"
    doubtful = {table for it in given for table in it.doubtful} | unknown.keys()
    for path, words in conflicts(root, members, {**below, **written}):
        # Of an unknown service the other settings are not known; what is in doubt may have been meant to be right.
        if (table := path.rpartition(".")[0]) not in doubtful and table.partition(".")[0] not in doubtful:
            problems.append(f"{sources.get(path, path)}: {words}")
            faulty.add(table)
    faulty |= unknown.keys()
    usable = {path: value for path, value in {**below, **values}.items() if path.rpartition(".")[0] not in faulty}
    origins |= sources
    return SettingsReading(root, usable, origins, tuple(problems), frozenset(faulty))


def read_environment(root: type, environ: Mapping[str, str]) -> SettingsReading:
    """The file that `CONFIG_VARIABLE` names, then the variables themselves."""
    file = environ.get(CONFIG_VARIABLE, "")
    reading = _read(root, _document(root, Path(file)) if file else {}, Path(file).name, environ)
    return evolve(
        reading,
        warnings=tuple(misspelt(reading.root, environ, (CONFIG_VARIABLE,))),
        keys_elsewhere=keys_elsewhere(reading.root, environ),
    )


def read_mapping(root: type, mapping: Mapping[str, Any]) -> SettingsReading:
    """Values of nested mappings."""
    return _read(root, mapping)


def read_toml(root: type, file: Path) -> SettingsReading:
    """Values of a TOML file; one that cannot be read is a problem like any other."""
    return _read(root, _document(root, file), file.name)


def _read(
    root: type, document: Mapping[str, Any] | Given, place: str = "", environ: Mapping[str, str] = MappingProxyType({})
) -> SettingsReading:
    """Read *document*, which is called *place* in messages, and *environ*, which wins over it."""
    given = [document] if isinstance(document, Given) else []
    written = {} if isinstance(document, Given) else document
    root, wrong = with_installed(root, (*written, *filter(None, map(_table, environ))))
    for table, problem in wrong.items():
        given.append(Given(f"{place}: {table}" if table in written and place else table, problem=problem))
    given += _values(root, {key: value for key, value in written.items() if key not in wrong}, place)
    given += _variables(root, {name: text for name, text in environ.items() if _table(name) not in wrong})
    return read(root, given)


def _values(root: type, mapping: Mapping[str, Any], place: str) -> Iterator[Given]:
    """Values of nested mappings; *place* names the document in messages."""
    members = tuple(_named(root, mapping))
    known, tables = leaves(root, members), {*slices(root), *families(root), *members}
    for path, value in _spread(mapping, tables):
        source = f"{place}: {path}" if place else path
        if path in known:
            yield Given(source, _as_setting(value), path)
        elif path in tables:
            yield Given(source, problem="is empty" if value == {} else "must be a table of settings")
        elif path.rpartition(".")[0] in members:
            yield _unknown(source, path, known.near(path.rpartition(".")[0]))
        elif problem := _misnamed(root, path) or GONE.get(path):
            yield Given(source, problem=problem)
        else:
            lasting = (*slices(root), *families(root), *offered())
            there = {name: name for name in lasting} if isinstance(value, Mapping) else known.near("")
            yield _unknown(source, path, there)


def _as_setting(value: Any) -> Any:
    """*value* of a document as settings have it: lists as tuples, and TOML's dates with times as texts."""
    if type(value) is list:
        return tuple(value)
    return value.isoformat() if type(value) is datetime else value


def _document(root: type, file: Path) -> Mapping[str, Any] | Given:
    """Load a TOML file; a `Given` with the problem where it cannot be read, as all settings may stand there."""
    try:
        return tomllib.loads(read_ordinary(file, SETTINGS_BYTES).decode("utf-8"))
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        problem = "cannot be read: not UTF-8"
    except tomllib.TOMLDecodeError as error:
        problem = f"is not TOML: {error}"
    return Given(str(file), problem=problem, doubtful=("", *slices(root), *families(root)))


def _table(variable: str) -> str:
    """The table, or the top-level setting, that *variable* names; empty for a variable without our prefix."""
    ours = variable.upper().startswith(ENV_PREFIX)
    return variable[len(ENV_PREFIX) :].lower().partition("__")[0] if ours else ""


def _variables(root: type, environ: Mapping[str, str]) -> Iterator[Given]:
    names = sorted(name for name in environ if name.upper().startswith(ENV_PREFIX))
    tables = (_path(name).rpartition(".")[0] for name in names)
    members = (table for table in tables if _misnamed(root, table) == "")
    known = {leaf.env: leaf for leaf in leaves(root, members).values()}
    for leaf in known.values():
        if (variable := leaf.declared.variable) and (text := environ.get(variable, "")):
            yield evolve(_from_text(leaf, text), source=variable)
    for name in names:
        if name in known:
            yield _from_text(known[name], environ[name])
        else:
            path = _path(name)
            if problem := _misnamed(root, path.rpartition(".")[0]) or GONE.get(path):
                yield Given(name, problem=problem)
            else:
                yield _unknown(name, name, {leaf.env: leaf.table for leaf in known.values()})


def _path(variable: str) -> str:
    """The path that *variable* stands for, whether there is such a setting or not; a name may hold ``__`` itself."""
    head, _, name = variable[len(ENV_PREFIX) :].lower().rpartition("__")
    return f"{head.replace('__', '.', 1)}.{name}"


def _from_text(leaf: Leaf, text: str) -> Given:
    """The value that *text* stands for; left as text where it stands for none, so that its rule reports it."""
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


def _spread(table: Mapping[str, Any], tables: Collection[str], at: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        path = f"{at}{key}"
        if path in tables and isinstance(value, Mapping) and (value or at == ""):
            yield from _spread(value, tables, f"{path}.")
        else:
            yield path, value


def _named(root: type, mapping: Mapping[str, Any]) -> Iterator[str]:
    """The tables of families in *mapping*."""
    for family in families(root):
        if isinstance(named := mapping.get(family), Mapping):
            yield from (table for name in named if _misnamed(root, table := f"{family}.{name}") == "")


def _misnamed(root: type, table: str) -> str | None:
    """The problem with the name of a family's table; empty where there is none, ``None`` where it is in no family."""
    family, dot, name = table.partition(".")
    return misnamed(root, family, name) if dot and family in families(root) else None


_ALIKE: Final = 0.65
"""How much alike a name and the one that was meant are at least, from 0 to 1."""


def _unknown(source: str, name: str, known: Mapping[str, str]) -> Given:
    """There is no setting called *name*; *known* has the names that there are, and the table of each.

    The table that was probably meant is in doubt: what is missing there is a consequence, and not reported as well.
    """
    by_lower = {it.lower(): it for it in known}
    close = get_close_matches(name.lower(), list(by_lower), n=1, cutoff=_ALIKE)
    if not close:
        return Given(source, problem="no such setting")
    meant = by_lower[close[0]]
    return Given(source, problem=f"no such setting; did you mean {meant}?", doubtful=(known[meant],))
