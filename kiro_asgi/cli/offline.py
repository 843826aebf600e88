"""The upstreams as far as they are known without asking them: whose a model's name is, and what stands for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import anyio
from attrs import frozen

from kiro_asgi.asgi.models import Models, Provider
from kiro_asgi.asgi.providers import new_providers, new_registry
from kiro_asgi.cli.keyed import keyed
from kiro_asgi.config import Settings
from kiro_asgi.errors import ConfigError
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard
from kiro_asgi.upstreams.manifest import set_up
from kiro_asgi.upstreams.registry import Registry, Target

__all__ = ["PLACEHOLDER", "Choice", "Upstreams"]

PLACEHOLDER: Final = Credential(CredentialKind.API_KEY, "placeholder")
"""Stands in for every credential, of which nothing is shown."""


@frozen
class Choice:
    """Who is asked, and for what."""

    provider: Provider
    name: str
    """By which that upstream's model was asked for."""

    model: ModelCard
    built_in: bool
    """Whether the model is known without asking; if not, *model* is an ordinary one of its name."""


@frozen
class Upstreams:
    """All that can be asked with the settings, and the well-known ones without a credential, too."""

    _registry: Registry
    """Of those that are set up."""

    _providers: Mapping[str, Provider]

    @classmethod
    def create(cls, settings: Settings) -> Upstreams:
        """Build them from settings; reads no file, and opens no connection.

        Raises:
            ConfigError: One of them cannot be used.
        """
        registry = new_registry(settings, [each.name for each in set_up(settings)])
        return cls(registry, new_providers(keyed(settings, PLACEHOLDER.secret), Clocks(), ()))

    def hint(self, choice: Choice) -> str:
        """What somebody ought to be told who takes *choice* for what the gateway does; empty where it is."""
        if choice.provider.name not in self._registry.upstreams:
            return f"The upstream {choice.provider.name} is not set up: the gateway would not ask it."
        prefix = choice.name.partition("/")[0]
        if self._registry.hint(choice.name):
            return f"The upstream {prefix} is not set up. What it would be asked: --upstream {prefix}"
        return ""

    def choose(self, name: str, upstream: str | None) -> Choice:
        """Who is asked first for the model of this name: *upstream*, or whoever it means without asking for lists.

        Raises:
            ConfigError: There is no such upstream.
        """
        models = Models(self._registry, self._providers)
        meant = (*models.known(name), models.otherwise(name))[0]
        target = meant if upstream is None else Target(upstream, name.removeprefix(f"{upstream}/"))
        provider = self._providers.get(target.upstream)
        if provider is None:
            known = ", ".join(self._providers)
            raise ConfigError(f"there is no upstream by the name of {target.upstream}; there are {known}")
        return _choice(provider, target.model)


def _choice(provider: Provider, name: str) -> Choice:
    catalogue = provider.catalogue
    if catalogue.knows(name):
        return Choice(provider, name, anyio.run(catalogue.find, name), built_in=True)
    model = ModelCard(provider.upstream.normalise(catalogue.meant(name)))
    return Choice(provider, name, model, built_in=False)
