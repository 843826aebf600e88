"""The tree of all settings: how it is built from files and variables, and its description in words."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from types import MappingProxyType
from typing import Any, Self, TypeVar

import attrs
from attrs import field, fields, frozen

from kiro_asgi.config.gateway import (
    ClientSettings,
    CorsSettings,
    FetchSettings,
    InspectorSettings,
    LimitSettings,
    PriceSettings,
    PromiseSettings,
    RecoverySettings,
    ResponsesSettings,
    RetrySettings,
    RoutingSettings,
    StateSettings,
    StreamSettings,
    StructuredSettings,
    ToolSettings,
)
from kiro_asgi.config.installed import Party, including
from kiro_asgi.config.leaves import (
    Leaf,
    assemble,
    leaves,
    mappings_in,
    members_of,
    stated_in,
    tables_in,
    values_of,
)
from kiro_asgi.config.reading import SettingsReading, read_environment, read_mapping, read_toml
from kiro_asgi.config.validation import no_tables, require, unnameable, violations
from kiro_asgi.quota.settings import CredentialSettings, GroupSettings, KeySettings, QuotaSettings
from kiro_asgi.setting import Choices, setting
from kiro_asgi.tapes.settings import TapeSettings
from kiro_asgi.upstreams.builtin import BuiltinSettings

T = TypeVar("T")


def _read_only(tables: Mapping[str, T]) -> Mapping[str, T]:
    """*tables* as they are now; what is no mapping is left for `Settings` to refuse."""
    return MappingProxyType(dict(tables)) if isinstance(tables, Mapping) else tables


@frozen(kw_only=True)
class Settings(BuiltinSettings):
    """All settings: of the gateway, and of each upstream below its name.

    A mapping in the place of a table is read as `from_mapping` reads it.

    Raises:
        ConfigError: A value breaks its rule, or a table is none; the message lists every such path.
    """

    client: ClientSettings = field(factory=ClientSettings)
    cors: CorsSettings = field(factory=CorsSettings)
    routing: RoutingSettings = field(factory=RoutingSettings)
    tools: ToolSettings = field(factory=ToolSettings)
    responses: ResponsesSettings = field(factory=ResponsesSettings)
    stream: StreamSettings = field(factory=StreamSettings)
    structured: StructuredSettings = field(factory=StructuredSettings)
    promises: PromiseSettings = field(factory=PromiseSettings)
    fetch: FetchSettings = field(factory=FetchSettings)
    inspector: InspectorSettings = field(factory=InspectorSettings)
    limits: LimitSettings = field(factory=LimitSettings)
    retry: RetrySettings = field(factory=RetrySettings)
    recovery: RecoverySettings = field(factory=RecoverySettings)
    state: StateSettings = field(factory=StateSettings)
    tapes: TapeSettings = field(factory=TapeSettings)
    prices: PriceSettings = field(factory=PriceSettings)
    quotas: QuotaSettings = field(factory=QuotaSettings)
    keys: Mapping[str, KeySettings] = field(factory=dict, converter=_read_only, hash=False)
    """Clients' keys, by names of your own."""

    groups: Mapping[str, GroupSettings] = field(factory=dict, converter=_read_only, hash=False)
    """Limits that several keys share, by names of your own."""

    credentials: Mapping[str, CredentialSettings] = field(factory=dict, converter=_read_only, hash=False)
    """Limits of the gateway's own credentials, by names of your own."""

    preset: str = setting("native", Choices(("native", "contract")))
    """Defaults of the other settings: ``native``, or ``contract``, which is what the first gateways promised.
    It counts where settings are read, from a mapping, a file or the environment."""

    http_library: str = setting("httpcore", Choices(("httpcore", "httpcore2")))
    """The library that connects to services: ``httpcore``, or ``httpcore2``, its maintained fork."""

    emit_code_references: bool = setting(False, presets={"contract": True})
    """Send licensed sources as an Anthropic event of their own; the official SDKs do not know it."""

    simulate: bool = False
    """Ask no service, but a simulated one within the process, to try the gateway without an account.  Real credentials
    are neither used nor sent.  No state file or state server is opened: what is kept, counted and limited is in memory.
    Clients need no key, unless the settings have one."""

    start_page: bool = True
    """Answer ``GET`` at the mount point with the addresses of the APIs: as a page for browsers, as JSON for programs.
    It tells nobody more than the APIs do.  Off: there is nothing, and an error says so."""

    openapi: str = setting("auto", Choices(("auto", "on", "off")))
    """Answer ``GET /openapi.json`` with a description of every path, body and error in the form of OpenAPI 3.1, for
    programs that make clients or documentation of it.  It needs a key where the APIs do.  ``auto``: ``on`` with
    ``kiro-asgi serve``, ``off`` in every other application, where the path may be the host's own."""

    raise_unexpected: bool = False
    """Raise unexpected exceptions to the host as well, once they are answered and logged: for a debugger, an error
    tracker or a test client around the application.  Starlette's test client gets them in any case."""

    def __attrs_post_init__(self) -> None:
        require(no_tables(self))
        for name, value in _read_tables(self).items():
            object.__setattr__(self, name, value)  # frozen for everybody else
        require(unnameable(self) or violations(type(self), tables_in(self), stated_in(self)))

    @classmethod
    def including(cls, *parties: Party) -> type[Self]:
        """The same class with the settings of *parties* from outside, each below its name.

        They are upstreams, client APIs, stages, stores and observers.

        Raises:
            ConfigError: One of them is no manifest, or its name is taken or cannot be one.
        """
        return including(cls, parties)

    def with_defaults(self, *parties: Party) -> Settings:
        """These settings, with defaults for each of *parties* for which they have no table.

        Raises:
            ConfigError: As for `including`.
        """
        kind = self.including(*parties)
        return self if kind is type(self) else kind(**{it.name: getattr(self, it.name) for it in fields(type(self))})

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Settings:
        """Settings from nested mappings, e.g. ``{"kiro": {"region": "eu-central-1"}}``.

        Raises:
            ConfigError: Unknown keys, wrong types or impossible values; all of them at once.
        """
        return cls._of(read_mapping(cls, mapping))

    @classmethod
    def from_toml(cls, path: Path | str) -> Settings:
        """Settings from a TOML file whose tables are the slices.

        Raises:
            ConfigError: As for `from_mapping`, or the file cannot be read.
        """
        return cls._of(read_toml(cls, Path(path)))

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Settings:
        """Settings from environment variables, and from the TOML file that ``KIRO_ASGI_CONFIG`` names.

        Raises:
            ConfigError: As for `from_toml`; a variable with our prefix that names no setting is an error too.
        """
        return cls._of(read_environment(cls, environ))

    @classmethod
    def _of(cls, reading: SettingsReading) -> Settings:
        require(reading.problems)
        return assembled(reading)


def _read_tables(settings: Settings) -> Mapping[str, Any]:
    """The fields of *settings* that hold mappings in the place of tables, with the tables.

    Raises:
        ConfigError: A name or a value is wrong.
    """
    written = mappings_in(settings)
    if not written:
        return written
    reading = read_mapping(type(settings), {"preset": settings.preset, **written})
    require(reading.problems)
    made = assembled(reading)
    return {name: _joined(getattr(settings, name), getattr(made, name)) for name in written}


def _joined(given: Any, made: Any) -> Any:
    """The table that was *made*, or those of a family beside the others that were *given*."""
    return _read_only({**given, **made}) if isinstance(made, Mapping) else made


def assembled(reading: SettingsReading) -> Settings:
    """The settings of what was read, with defaults where a value cannot be used."""
    return assemble(reading.root, reading.values)


@frozen
class SettingRow:
    """One setting in words."""

    path: str
    env: str
    type: str
    default: str
    value: str
    """The current value; a secret is masked."""

    choices: tuple[str, ...]
    """The allowed values, without the empty one where that is the default; empty where any value is allowed."""

    doc: str
    """The docstring under the field, on one line; reStructuredText."""


def describe(settings: Settings | None = None) -> tuple[SettingRow, ...]:
    """Every setting as a row of text, in the order of the source; without *settings* with the default values.

    For the reference and for ``kiro-asgi check``.  The explanations are the docstrings under the fields, read from the
    source: there is no second place to keep in step.
    """
    settings = settings or Settings()
    values, root = values_of(settings), type(settings)
    known = leaves(root, members_of(root, values))
    docs = {owner: _field_docs(owner) for owner in {leaf.owner for leaf in known.values()}}
    return tuple(
        SettingRow(
            leaf.path,
            leaf.env,
            _type_name(leaf.type),
            display(leaf, leaf.default),
            display(leaf, values[leaf.path]),
            _choices(leaf),
            docs[leaf.owner][leaf.name],
        )
        for leaf in known.values()
    )


def display(leaf: Leaf, value: Any) -> str:
    """*value* as it would be written in the environment; a secret only as its number of characters."""
    texts = value if isinstance(value, tuple) else (value,)
    if leaf.secret:
        return ", ".join(f"*** ({len(text)} characters)" for text in texts if text)
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(f"{text:.15g}" if isinstance(text, float) else str(text) for text in texts)


def _choices(leaf: Leaf) -> tuple[str, ...]:
    rule = leaf.declared.rule
    return tuple(filter(None, rule.words)) if isinstance(rule, Choices) else ()


def _type_name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) and kind in (bool, int, float, str) else "list of str"


def _field_docs(owner: type) -> dict[str, str]:
    """Field name to the docstring under it, in the class or in the one that it shares fields with.

    A class without readable source has none: an upstream from outside may make its class anywhere.
    """
    docs = dict.fromkeys((it.name for it in attrs.fields(owner)), "")
    for kind in filter(attrs.has, reversed(owner.__mro__)):
        try:
            body = ast.parse(dedent(inspect.getsource(kind))).body[0]
        except (OSError, TypeError):
            continue
        assert isinstance(body, ast.ClassDef)
        for target, text in zip(body.body, body.body[1:], strict=False):
            match target, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                    docs[name] = " ".join(words.split())
    return docs
