"""What an operator may know of a gateway at this moment, by what it has learnt; no service is asked."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Any

from attrs import frozen

from kiro_asgi._version import __version__
from kiro_asgi.asgi.door.readiness import Readiness, ReadinessCheck
from kiro_asgi.asgi.exchange.admission import CredentialLimits
from kiro_asgi.asgi.exchange.model_routes import Provider
from kiro_asgi.asgi.kept.taping import shown_settings
from kiro_asgi.config import Settings
from kiro_asgi.errors import KiroAsgiError


@frozen
class Situation:
    """Reads the parts that know it."""

    _settings: Settings
    _check: ReadinessCheck
    _providers: tuple[Provider, ...]
    _credential_limits: CredentialLimits

    def readiness(self) -> Readiness:
        """Whether requests should come here, and why not."""
        return self._check.readiness()

    def resting(self) -> Iterator[tuple[str, KiroAsgiError, float]]:
        """Credentials that cool down: name, cause, and the seconds until the next request may use it."""
        for provider in self._providers:
            yield from provider.credentials.cooldowns()

    def details(self, readiness: Readiness) -> dict[str, Any]:
        """Reasons, lists of models, and credentials that cool down or are at their limit: for clients with a key."""
        trouble = self._check.store_trouble()
        return {
            "reasons": readiness.reasons,
            "degraded": readiness.degraded,
            **({"store": trouble} if trouble else {}),
            "lists": {each.name: each.catalogue.state for each in self._providers},
            "resting": [
                {"credential": name, "reason": type(fault).__name__, "seconds": ceil(left)}
                for name, fault, left in self.resting()
            ],
            "adapted": [
                {"upstream": provider.name, **each} for provider in self._providers for each in provider.adaptations()
            ],
            "at_limit": [
                {"credential": name, "limit": limit, "seconds": ceil(left)}
                for name, limit, left in self._credential_limits.reached()
            ],
        }

    def accounts(self) -> dict[str, Any]:
        """The same with all credentials, models and settings that may be shown: for the inspector."""
        readiness = self.readiness()
        return {
            "ready": readiness.is_ready,
            **self.details(readiness),
            "upstreams": [{"name": each.name, "credentials": each.credentials.names} for each in self._providers],
            "models": {each.name: [card.id for card in each.catalogue.shown()] for each in self._providers},
            "settings": [[path, value] for path, value in shown_settings(self._settings)],
            "version": __version__,
        }
