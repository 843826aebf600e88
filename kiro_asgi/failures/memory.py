"""What services have refused, and what is therefore done about later requests: for a while, and for whom it holds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from attrs import define, field, frozen

from kiro_asgi.failures.remedies import Remedy
from kiro_asgi.limits import ADAPTED_MODELS

LASTS: Final = 3_600.0
"""Seconds for which a refusal is remembered: services learn new members, and new models."""

_FEATURES: Final = 32
"""Remedies that one model may have, for one client and for all."""

_TAKEN: Final = 256
"""Names of members that a model's service is known to take."""


@frozen
class Entry:
    """One thing that was learnt."""

    remedy: Remedy
    until: float


@define
class Memory:
    """What was learnt of one service, by model: the model that was learnt of last is at the end.

    What the gateway itself writes into requests is remembered for all of them.  What a client writes, and nobody here
    reads, is remembered for that client: its word never changes another's request.  Neither is remembered of a member
    that the service has taken for the model before.
    """

    _models: OrderedDict[str, dict[tuple[str, str], Entry]] = field(init=False, factory=OrderedDict)
    _taken: OrderedDict[str, set[str]] = field(init=False, factory=OrderedDict)

    def of(self, model: str, principal: str, now: float) -> tuple[Remedy, ...]:
        """What holds for a request of *principal* for *model*."""
        entries = self._models.get(model)
        if entries is None:
            return ()
        for key in [key for key, entry in entries.items() if entry.until <= now]:
            del entries[key]
        if not entries:
            del self._models[model]
        return tuple(entry.remedy for (owner, _), entry in entries.items() if owner in ("", principal))

    def learn(
        self, model: str, principal: str, remedies: Iterable[Remedy], unread: Collection[str] | None, now: float
    ) -> None:
        """Remember *remedies*, with which a request for *model* has just been answered.

        Args:
            model: The model.
            principal: Whose request it was.
            remedies: What was changed.
            unread: Names of members that are as the client wrote them; ``None`` for all.
            now: By a steady clock.
        """
        taken = self._taken.get(model, frozenset[str]())
        for remedy in remedies:
            place = remedy.place
            if not remedy.lasting or (place is not None and place.name in taken and not place.within):
                continue
            is_clients = place is not None and (unread is None or place.name in unread or place.within in unread)
            entries = self._models.setdefault(model, {})
            key = (principal if is_clients else "", remedy.feature)
            if key not in entries and len(entries) < _FEATURES:
                entries[key] = Entry(remedy, now + LASTS)
                self._models.move_to_end(model)
            if not entries:
                del self._models[model]
        while len(self._models) > ADAPTED_MODELS:
            self._models.popitem(last=False)

    def took(self, model: str, members: Iterable[str]) -> None:
        """Note that the service has answered a request for *model* with these *members*."""
        taken = self._taken.get(model)
        if taken is None:
            taken = self._taken[model] = set()
            if len(self._taken) > ADAPTED_MODELS:
                self._taken.popitem(last=False)
        if len(taken) < _TAKEN:
            taken.update(members)

    def forget(self, model: str, remedies: Iterable[Remedy]) -> None:
        """Forget *remedies* for *model*: a request was refused all the same."""
        entries, features = self._models.get(model, {}), {remedy.feature for remedy in remedies}
        for key in [key for key in entries if key[1] in features]:
            del entries[key]
        if not entries:
            self._models.pop(model, None)

    def shown(self, now: float) -> Iterator[Mapping[str, Any]]:
        """Model, feature, condition and seconds left of each thing that is remembered now."""
        for model, entries in self._models.items():
            for (owner, feature), entry in entries.items():
                if entry.until > now:
                    yield {
                        "model": model,
                        "refused": feature,
                        "with": sorted(entry.remedy.condition),
                        "for": "one client" if owner else "all clients",
                        "seconds_left": round(entry.until - now),
                    }
