"""Routing of model names to upstreams, by the name itself and by the operator's table.

============================  =========================================================================
the name                      means
============================  =========================================================================
``gemini/gemini-2.5-flash``   that upstream and no other, where an upstream of this name is set up; but a
                              service that lists the whole name letter by letter owns it, where the
                              upstream does not list what is behind the slash
a row of the table            the row's targets: the first is asked, each other where those before fail
anything else                 whatever upstream lists it letter by letter, in the operator's order; else one
                              that knows another spelling of it; else the default one
============================  =========================================================================
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from kiro_asgi.errors import ConfigError
from kiro_asgi.patterns import Pattern


@frozen
class Target:
    """A model of one upstream."""

    upstream: str
    model: str
    """As that upstream is asked for it; it may know other spellings."""


@frozen
class Row:
    """One row of the operator's table."""

    pattern: Pattern
    """Names of models."""

    targets: tuple[tuple[str, str], ...]
    """Upstream and model, in the order in which they are asked; without a model, the name itself."""

    @property
    def rank(self) -> tuple[bool, int]:
        """Greater for the more particular of two rows that match."""
        written = self.pattern.text
        return "*" not in written, len(written.replace("*", ""))


@frozen
class Registry:
    """The upstreams that are set up, and the table.

    Raises:
        ConfigError: A row, or the default, names an upstream that is not set up.
    """

    upstreams: tuple[str, ...]
    """Their names, in the operator's order."""

    rows: tuple[Row, ...] = ()
    default: str = ""
    """The upstream of names that no upstream lists; empty for the first of all."""

    known: frozenset[str] = frozenset()
    """Names of the upstreams that can be set up."""

    def __attrs_post_init__(self) -> None:
        named = {upstream for row in self.rows for upstream, _ in row.targets} | {self.last}
        if missing := sorted(named - set(self.upstreams)):
            names = ", ".join(missing)
            raise ConfigError(f"routing: no upstream is set up by the name of {names}", code="routing.upstream")

    @property
    def last(self) -> str:
        """The upstream of names that no upstream lists."""
        return self.default or self.upstreams[0]

    def targets(self, name: str) -> tuple[Target, ...]:
        """Targets of *name*, by its prefix or the operator's table; none where the upstreams' own lists decide."""
        prefixed = self.prefixed(name)
        if prefixed is not None:
            return (prefixed,)
        matching = [row for row in self.rows if row.pattern.fits(name)]
        if not matching:
            return ()
        best = max(matching, key=lambda row: row.rank)
        return tuple(Target(upstream, model or name) for upstream, model in best.targets)

    def prefixed(self, name: str) -> Target | None:
        """The model of the upstream that *name* begins with; ``None`` where it begins with none."""
        prefix, slash, rest = name.partition("/")
        return Target(prefix, rest) if slash and rest and prefix in self.upstreams else None

    def hint(self, name: str) -> str:
        """End of the message for an unknown model *name*; empty where there is nothing to add."""
        prefix, slash, _ = name.partition("/")
        absent = slash and prefix in self.known and prefix not in self.upstreams
        return f" (the upstream {prefix} is not set up here)" if absent else ""


def read_rows(entries: Iterable[str]) -> tuple[Row, ...]:
    """Rows of texts such as ``claude-*=kiro>anthropic/claude-sonnet-4-5``.

    Raises:
        ConfigError: A text of another form.
    """
    return tuple(map(_row, entries))


def _row(entry: str) -> Row:
    pattern, equals, targets = entry.partition("=")
    pairs = [target.strip().partition("/") for target in targets.split(">")]
    if not equals or not pattern.strip() or not all(upstream for upstream, _, _ in pairs):
        raise ConfigError(
            f"routing.models: {entry[:100]!r} is not written as name=upstream/model", code="routing.models"
        )
    return Row(Pattern(pattern.strip()), tuple((upstream, model) for upstream, _, model in pairs))
