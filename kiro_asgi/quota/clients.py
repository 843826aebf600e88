"""Clients: what each is called, what it may ask for, and what it may take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from math import inf, isfinite
from typing import Any, Final

from attrs import Attribute, evolve, field, fields, frozen

from kiro_asgi.errors import ConfigError
from kiro_asgi.patterns import Pattern
from kiro_asgi.quota.settings import MOST_COUNTED, Allowance, GroupSettings, KeySettings

_NAME_CHARACTERS: Final = 200

_LIMITS: Final = tuple(it.name for it in fields(Allowance))

NO_LIMITS: Final = Allowance()
"""Nothing is limited."""


def _text(given: object, attribute: Attribute[str], value: str) -> None:
    if not isinstance(value, str) or not 0 < len(value) <= _NAME_CHARACTERS or not value.isprintable():
        kind, words = type(given).__name__, f"must be 1 to {_NAME_CHARACTERS} printable characters, not {value!r:.60}"
        raise ValueError(f"{kind}.{attribute.name} {words}")


def _numbers(limits: Allowance) -> Allowance:
    """*limits* with numbers that can be counted with, as a database's decimals cannot.

    Raises:
        ValueError: One is none.
    """
    if not isinstance(limits, Allowance):
        raise ValueError(f"limits must be a kiro_asgi.Allowance, not {limits!r:.60}")
    if limits is NO_LIMITS:
        return limits
    given: dict[str, Any] = {name: getattr(limits, name) for name in _LIMITS}
    for name, value in given.items():
        if not _is_countable(value):
            raise ValueError(f"limits.{name} must be a number from 0, which is no limit, to 2**53, not {value!r:.60}")
    numbers: dict[str, Any] = {name: it if type(it) is int else float(it) for name, it in given.items()}
    return Allowance(**numbers)


def _is_countable(value: Any) -> bool:
    if not isinstance(value, int | float | Decimal) or isinstance(value, bool):
        return False
    return (isinstance(value, int) or isfinite(value)) and 0 <= value <= MOST_COUNTED


def _patterns(given: Iterable[str]) -> tuple[str, ...]:
    """*given* as a tuple.

    Raises:
        ValueError: It is one text, or not several.
    """
    if given == ():
        return ()
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping):
        patterns = tuple(given)  # first, as an iterator gives its items once: none left would permit everything
        if all(isinstance(each, str) for each in patterns):
            return patterns
    raise ValueError(f"models and upstreams must be lists of texts, not {given!r:.60}")


def _moment(given: object, attribute: Attribute[datetime | None], value: datetime | None) -> None:
    if value is not None and not (isinstance(value, datetime) and value.tzinfo is not None):
        raise ValueError(f"Client.expires must be a datetime with its time zone, or None, not {value!r:.60}")


@frozen(kw_only=True)
class Group:
    """Clients that share limits: what one has taken, the others have not.

    Raises:
        ValueError: A member is not what it has to be; the message names it.
    """

    name: str = field(validator=_text)
    """As a table of the settings in ``groups`` has it, it is that group: where a limit here is 0, that of the table
    holds."""

    limits: Allowance = field(factory=Allowance, converter=_numbers)


def _group(given: object, attribute: Attribute[Group | None], value: Group | None) -> None:
    if not isinstance(value, Group | None):
        raise ValueError(f"Client.group must be a kiro_asgi.Group, or None, not {value!r:.60}")


def _flag(given: object, attribute: Attribute[bool], value: bool) -> None:
    if type(value) is not bool:  # a text such as "no" would count as true
        raise ValueError(f"Client.{attribute.name} must be True or False, not {value!r:.60}")


@frozen(kw_only=True)
class Client:
    """A person or program that the gateway knows.

    Raises:
        ValueError: A member is not what it has to be; the message names it.
    """

    name: str = field(validator=_text)
    """Its own and stable: limits, usage and stored responses are kept under it."""

    limits: Allowance = field(factory=Allowance, converter=_numbers)
    """Where one is 0, that of ``quotas`` holds."""

    group: Group | None = field(default=None, validator=_group)
    """Each request takes from the limits of both."""

    models: tuple[str, ...] = field(default=(), converter=_patterns)
    """Models that it may ask for, each as ``upstream/model``; ``*`` stands for any text.  Empty: all."""

    upstreams: tuple[str, ...] = field(default=(), converter=_patterns)
    """Upstreams that it may ask, by the names of their tables.  Empty: all."""

    expires: datetime | None = field(default=None, validator=_moment)
    """From when on it is refused; ``None``: never."""

    disabled: bool = field(default=False, validator=_flag)
    """Refuse it."""

    _permitted: tuple[Pattern, ...] = field(init=False, eq=False, repr=False)

    @_permitted.default
    def _read(self) -> tuple[Pattern, ...]:
        return tuple(map(Pattern, self.models))

    def permits(self, model: str) -> bool:
        """Whether it may ask for *model*, which is ``upstream/model``."""
        if self.upstreams and model.partition("/")[0] not in self.upstreams:
            return False
        return not self.models or any(pattern.fits(model) for pattern in self._permitted)

    @property
    def expires_at(self) -> float:
        """When it expires, in seconds since the epoch."""
        return inf if self.expires is None else self.expires.timestamp()

    @property
    def group_name(self) -> str:
        """Empty where it is in no group."""
        return "" if self.group is None else self.group.name


NOBODY: Final = Client(name="nobody")
"""Of a request for which nobody need be known."""


def limited_by(client: Client, usual: Allowance, groups: Mapping[str, GroupSettings]) -> Client:
    """*client* with the limits that hold for it: its own, and the *usual* where it has none; its group likewise."""
    group = client.group
    if group is not None and group.name in groups:
        group = evolve(group, limits=_completed(group.limits, groups[group.name]))
    return evolve(client, limits=_completed(client.limits, usual), group=group)


def _completed(limits: Allowance, others: Allowance) -> Allowance:
    found = {name: value for name in _LIMITS if (value := getattr(limits, name) or getattr(others, name))}
    return Allowance(**found) if found else NO_LIMITS


def clients_of(
    keys: Mapping[str, KeySettings], groups: Mapping[str, GroupSettings], usual: Allowance
) -> Mapping[str, Client]:
    """The clients that have keys in the settings, by the names of their keys.

    Raises:
        ConfigError: There is no such group.
    """
    there = {name: Group(name=name, limits=_completed(table, NO_LIMITS)) for name, table in groups.items()}
    return {name: _client(name, key, there, usual) for name, key in keys.items()}


def _client(name: str, key: KeySettings, groups: Mapping[str, Group], usual: Allowance) -> Client:
    if key.group and key.group not in groups:
        there = ", ".join(groups) or "none"
        raise ConfigError(
            f"keys.{name}.group: there is no table groups.{key.group}; there are: {there}", code="keys.group"
        )
    return Client(
        name=name,
        limits=_completed(key, usual),
        group=groups[key.group] if key.group else None,
        models=key.models,
        upstreams=key.upstreams,
        expires=datetime.fromisoformat(key.expires) if key.expires else None,
        disabled=key.disabled,
    )
