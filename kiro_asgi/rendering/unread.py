"""Parts of a request that the reader of its API did not understand, written back for a service of the same API."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import field, frozen

from kiro_asgi.model.handling import Words, crossed
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Demand, Opaque, Prompt
from kiro_asgi.model.unread import Unread, restore

WITHHELD: Final = "fields.withheld"
"""Rule by which the operator keeps a member from being sent."""

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@frozen
class WriteBack:
    """Writes into the objects of one request what was kept for services of its API."""

    api: str
    """The client API that the service speaks; empty for none."""

    notes: Notes
    without: Mapping[str, str] = _NOTHING
    """Names of members, and kinds of parts, that are not sent, each with its rule."""

    written: set[str] = field(init=False, factory=set)
    """Names and kinds of those that were written."""

    def into(self, own: dict[str, Any], unread: Unread | None, begun: Container[str] = (), place: str = "") -> None:
        """Write what is *unread* of an object into *own*, what of it is sent.

        Args:
            own: Its members win.
            unread: What was kept; ``None`` for nothing.
            begun: Objects that mean nothing without their kind (``type``): where *own* has none, a rule left it out.
            place: Of the object, for notes.
        """
        if unread is None or unread.api != self.api:
            return
        members = unread.members if not self.without else self._allowed(unread.members, place)
        absent = [name for name, value in members.items() if name in begun and name not in own and _is_rest(value)]
        if absent:
            members = {name: value for name, value in members.items() if name not in absent}
        self.written.update(_named(members, own))
        restore(own, members)

    def whole(self, own: dict[str, Any], prompt: Prompt, words: Words, begun: Container[str] = ()) -> frozenset[str]:
        """Write what *prompt* has for the whole into the body *own*: what is unread and demanded, and what is `said`.

        What is demanded is not among the names by which a refusal leads to a request without it: the client reads it.

        Raises:
            RequestError: The operator keeps back what is demanded.
        """
        demands = [demand for demand in prompt.demands if demand.api == self.api]
        self.into(own, _without(prompt.unread, demands), begun)
        for demand in demands:
            if any(name in self.without for name in _named(demand.members, demand.members)):
                raise demand.refusal
            restore(own, demand.members)
        return self.said(own, prompt, words)

    def said(self, own: dict[str, Any], prompt: Prompt, words: Words) -> frozenset[str]:
        """Write into the body *own*, which wins, what *prompt* says in another API of how it is handled; the names by
        which a service may refuse it.

        What the words cannot say is noted where the service is chosen.
        """
        if prompt.unread is not None and prompt.unread.api == self.api:
            return frozenset()  # the client's own words are written back
        members = crossed(prompt.handling, words, Notes())
        if self.without:
            members = self._allowed(members, "")
        restore(own, members)
        return frozenset(_named(members, own))

    def system(self, prompt: Prompt) -> tuple[list[str], list[tuple[str, Unread]]]:
        """The system texts that can be joined, and behind them those that have members of their own, with these."""
        plain: list[str] = []
        others: list[tuple[str, Unread]] = []
        for index, text in enumerate(prompt.system):
            unread = prompt.system_unread.get(index)
            if unread is not None and unread.api == self.api:
                others.append((text, unread))
            elif text:
                plain.append(text)
        return plain, others

    def rule_against(self, name: str) -> str:
        """The rule by which the gateway's own member, or mark, of this *name* is not sent; empty for none."""
        return self.without.get(name, "")

    def opaque(self, part: Opaque) -> dict[str, Any] | None:
        """A part as its API has it; ``None`` where that is another one, or its kind is not sent."""
        kind = part.value.get("type")
        rule = self.without.get(kind) if isinstance(kind, str) else None
        if part.api != self.api or (rule is not None and self.notes.applies(rule, part.place)):
            return None
        if isinstance(kind, str):
            self.written.add(kind)
        return {**part.value}

    def _allowed(self, members: Mapping[str, Any], place: str) -> dict[str, Any]:
        """The *members* without those that are not sent, at any depth that a reader looked at or not."""
        kept: dict[str, Any] = {}
        pending: list[tuple[Mapping[str, Any], dict[str, Any], str]] = [(members, kept, place)]
        while pending:
            given, into, at = pending.pop()
            for name, value in given.items():
                where = f"{at}.{name}" if at else name
                rule = self.without.get(name)
                if rule is not None and self.notes.applies(rule, where):
                    continue
                into[name] = value
                if isinstance(value, Mapping):
                    into[name] = {}
                    pending.append((value, into[name], where))
        return kept


def _without(unread: Unread | None, demands: Iterable[Demand]) -> Unread | None:
    """What is *unread* and not demanded."""
    values = {id(value) for demand in demands for value in demand.members.values()}
    if unread is None or not values:
        return unread
    return Unread(unread.api, {name: value for name, value in unread.members.items() if id(value) not in values})


def _named(members: Mapping[str, Any], own: Mapping[str, Any]) -> Iterator[str]:
    """The names by which a service may refuse *members* that are written into *own*."""
    pending: list[tuple[Mapping[str, Any], Any]] = [(members, own)]
    while pending:
        given, into = pending.pop()
        for name, value in given.items():
            yield name
            if isinstance(value, Mapping) and isinstance(into, Mapping) and name in into:
                pending.append((value, into[name]))


def _is_rest(value: Any) -> bool:
    """Whether *value* is what is left of an object whose kind was understood."""
    return isinstance(value, Mapping) and "type" not in value


def unsent(withheld: Iterable[str]) -> Mapping[str, str]:
    """Names that the operator keeps back, each with its rule."""
    return dict.fromkeys(withheld, WITHHELD)
