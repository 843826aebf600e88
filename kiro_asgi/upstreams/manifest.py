"""Manifest of an upstream: one value for each kind of service, and all that other modules know of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from secrets import token_hex
from types import MappingProxyType
from typing import Any, Final, Generic, Protocol, Self, TypeVar, cast

import attrs
from attrs import field, frozen

from kiro_asgi.errors import ConfigError
from kiro_asgi.interface import fields_lack, lacks, must_be, must_be_named, must_be_texts, must_stand_for, offers
from kiro_asgi.model.rules import Rule, declared_rules
from kiro_asgi.upstreams.access import Keys, SignIns
from kiro_asgi.upstreams.base import NamingUpstream
from kiro_asgi.upstreams.machine import NO_MACHINE, Machine
from kiro_asgi.upstreams.settings import DescribedQuota, Setup

_KEY: Final = "kiro_asgi.manifest"
"""Where a field's metadata hold the manifest of those whose settings it has."""


def new_token() -> str:
    """Make an unused id of 24 letters and digits."""
    return token_hex(12)


class UpstreamSettings(Protocol):
    """Settings that every upstream has, whatever else it adds."""

    @property
    def configured(self) -> bool:
        """Whether the service is to be asked at all."""
        ...

    @property
    def endpoint(self) -> str:
        """Base URL of the service; empty for its public one."""
        ...

    @property
    def proxy(self) -> str:
        """URL of an HTTP proxy for all connections to it; empty for none."""
        ...

    @property
    def models_ttl(self) -> float:
        """Seconds that a fetched list of models is believed."""
        ...

    @property
    def model_aliases(self) -> tuple[str, ...]:
        """Names for models, each as ``name=model``."""
        ...

    def keyed(self, key: str) -> Self:
        """The same with *key* as the only credential."""
        ...

    def simulated(self, url: str) -> Self:
        """The same with a simulator at *url* as the service, which is sent no real secret."""
        ...


S = TypeVar("S", bound=UpstreamSettings)


def _refused(manifest: Manifest[Any], words: str) -> ConfigError:
    return ConfigError(f"the manifest of the upstream {manifest.name!r:.60}: {words}", code="config.manifest")


def _make(configured: Configured[Any], /) -> Setup:
    raise NotImplementedError


def _rules(rules: Iterable[str | Rule]) -> tuple[Rule, ...]:
    return declared_rules(rules, "an upstream")


_check_name: Final = must_be_named(_refused)


@frozen(kw_only=True)
class Manifest(Generic[S]):
    """One kind of service.

    It is read at every start.  So `make` imports the code that asks the service, only where that is set up; and what
    commands alone need is named as text, and imported when a command needs it.

    Raises:
        ConfigError: A member is not what it has to be; the message names it.
    """

    name: str = field(validator=must_be(str, "text", _refused))
    """Of its table of settings, and what a client may write in front of a model's name."""

    title: str = field(validator=must_be(str, "text", _refused))
    """Name in messages and pages."""

    settings: type[S] = field(validator=must_be(type, "type", _refused))
    """The class of its settings."""

    make: Callable[[Configured[S]], Setup] = field(validator=must_stand_for(_make, _refused))
    """Everything that it takes to ask it; opens nothing.  A setting that cannot work is a `ConfigError`."""

    doctor: str = field(default="", validator=_check_name)
    """What examines it, as ``package.module:Class``: a `kiro_asgi.cli.doctor.Examination`, made as that of keys is.
    Empty where there are only keys to examine."""

    login: str = field(default="", validator=_check_name)
    """How a user signs in, as ``package.module``, or ``package.module:name``: it has ``add_arguments(parser)`` and
    ``run(arguments, environ) -> exit status``, as the command's own modules have.  Empty where there is no sign-in."""

    probes: tuple[str, ...] = field(default=(), validator=must_be_texts(_refused))
    """Models that cost little, for a small question, best first."""

    rules: tuple[Rule, ...] = field(default=(), converter=_rules)
    """What its notes may name, beside the rules of its `Setup`: names of the catalogue, and rules of its own."""

    key_variables: tuple[str, ...] = field(default=(), validator=must_be_texts(_refused))
    """Variables in which other programs find the service's key.  The gateway reads none of them, as the key may be
    meant for something else; where no service is set up, a message says that it is there."""


@frozen
class Configured(Generic[S]):
    """One upstream as it stands in the settings."""

    path: str
    """Of its table, e.g. ``gemini`` or ``custom.local``."""

    manifest: Manifest[S]
    settings: S
    token: Callable[[], str] = field(default=new_token, eq=False, repr=False)
    """Makes 24 letters and digits, for ids in answers of a service that gives none."""

    machine: Machine = field(default=NO_MACHINE, eq=False, repr=False)
    """The machine that asks it, for a service whose credentials and region may stand outside the settings."""

    @property
    def name(self) -> str:
        """Name of the upstream: the last part of the path."""
        return self.path.rpartition(".")[2]

    def check(self) -> None:
        """Look into everything that `make` makes; once is enough, as it takes as long as to make it.

        Raises:
            ConfigError: A setting that cannot work, or what is made cannot be asked.
        """
        self._refuse(_parts_lack(self.make()))

    def make(self) -> Setup:
        """Everything that it takes to ask it.

        Raises:
            ConfigError: A setting that cannot work, or what is made is no such thing.
        """
        setup = self.manifest.make(self)
        self._refuse(_setup_lacks(setup))
        known = {rule.name for rule in setup.rules}
        more = tuple(rule for rule in self.manifest.rules if rule.name not in known)
        return attrs.evolve(setup, rules=(*setup.rules, *more)) if more else setup

    def _refuse(self, lacks: Iterator[str]) -> None:
        if lack := next(lacks, ""):
            raise ConfigError(f"{self.path}: the upstream's make gave {lack}", code="config.manifest")


def _setup_lacks(setup: object) -> Iterator[str]:
    """Why what a manifest has made is no `Setup`, in words that follow "gave"."""
    if not isinstance(setup, Setup):
        yield f"{setup!r:.60}, and must give a kiro_asgi.upstreams.Setup"
        return
    if not isinstance(setup.access, Keys | SignIns):
        yield f"a Setup whose access is a {type(setup.access).__name__}; it must be Keys or SignIns"
    elif isinstance(setup.access, Keys) and not _are_named(setup.access.named):
        yield "a Setup whose access has keys without names; Keys.named must be pairs of a name and a key, both texts"
    if not isinstance(setup.rules, tuple):
        yield f"a Setup whose rules must be a tuple of Rule, not {type(setup.rules).__name__}"
        return
    for at, rule in enumerate(setup.rules):
        if not isinstance(rule, Rule):
            yield f"a Setup whose rules[{at}] must be Rule, not {type(rule).__name__}"


def _parts_lack(setup: Setup) -> Iterator[str]:
    """The same of what is in one."""
    yield from (f"a Setup whose {words}" for words in fields_lack(setup))
    optional = (("upstream", setup.upstream, NamingUpstream), ("quota", setup.quota, DescribedQuota))
    for name, part, interface in optional:
        if offers(part, interface):
            yield from (f"a Setup whose {name}, {type(part).__name__}: {words}" for words in lacks(part, interface))


def _are_named(keys: object) -> bool:
    """Whether *keys* are what `Keys` has; no message repeats one."""
    pairs = tuple(keys) if isinstance(keys, Iterable) else ()
    return bool(pairs) and all(
        isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(text, str) for text in pair) for pair in pairs
    )


def slice_of(manifest: Manifest[S]) -> S:
    """Declare a field that holds the settings of *manifest*; without any of them it has their defaults."""
    made: S = field(factory=manifest.settings, metadata={_KEY: manifest})
    return made


def family_of(manifest: Manifest[S]) -> Mapping[str, S]:
    """Declare a field that holds the settings of any number of upstreams of one kind, by the operator's names."""
    made: Mapping[str, S] = field(factory=dict, converter=_read_only, hash=False, metadata={_KEY: manifest})
    return made


def _read_only(members: Mapping[str, S]) -> Mapping[str, S]:
    """*members* as they are now; what is no mapping is left for the tree of settings to refuse."""
    return MappingProxyType(dict(members)) if isinstance(members, Mapping) else members


def manifests_in(tree: type) -> Iterator[tuple[str, Manifest[Any]]]:
    """Field and manifest of every kind that the class *tree* has settings for, in the order of asking."""
    for attribute in attrs.fields(tree):
        if (manifest := cast(Manifest[Any] | None, attribute.metadata.get(_KEY))) is not None:
            yield attribute.name, manifest


def probes_in(tree: type) -> Iterator[str]:
    """Models that cost little, of every kind that *tree* has settings for: many services have the models of others."""
    return (name for _, manifest in manifests_in(tree) for name in manifest.probes)


def all_of(tree: object) -> Iterator[Configured[Any]]:
    """Every upstream that *tree* has settings for, whether it is set up or not, in the order of asking."""
    for name, manifest in manifests_in(type(tree)):
        value = getattr(tree, name)
        if isinstance(value, Mapping):
            yield from (Configured(f"{name}.{member}", manifest, settings) for member, settings in value.items())
        else:
            yield Configured(name, manifest, value)


def set_up(tree: object, machine: Machine = NO_MACHINE) -> tuple[Configured[Any], ...]:
    """The upstreams that are asked, by *machine*, in order, unless the operator sets another.

    The first that there are settings for is one of them where it is configured, and where no other is.
    """
    known = tuple(attrs.evolve(each, machine=machine) for each in all_of(tree))
    return tuple(each for each in known if each.settings.configured) or known[:1]
