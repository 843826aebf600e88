"""The models of all upstreams together: whose a name is, and what clients are shown."""

from __future__ import annotations

from collections.abc import Mapping

import anyio
from attrs import evolve, field, frozen

from kiro_asgi.asgi.provider import Provider
from kiro_asgi.dialects.models import Listing
from kiro_asgi.errors import UnknownModel
from kiro_asgi.model.server_tools import WEB_SEARCH
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.registry import Registry, Target

__all__ = ["Models", "Route"]


@frozen
class Route:
    """Whom to ask, and for which model."""

    provider: Provider
    model: ModelCard
    name: str
    """By which that upstream's model was asked for."""

    rest: tuple[Target, ...] = ()
    """Where else the same may be asked, in order."""


@frozen
class Models:
    """The models of one app."""

    _registry: Registry
    _providers: Mapping[str, Provider] = field()
    """By name."""

    async def targets(self, name: str) -> tuple[Target, ...]:
        """Where *name* may be asked, best first; never nothing.

        The lists are asked for where more than one service might have meant it: one of them may have it letter by
        letter.
        """
        found = self._exactly(name)
        if not found and len(self._providers) > 1:
            await self._refresh()
            found = self._exactly(name)
        return found or self._roughly(name) or (self.otherwise(name),)

    def known(self, name: str) -> tuple[Target, ...]:
        """As `targets`, as far as it is known without asking for lists; nothing where that is not."""
        return self._exactly(name) or self._roughly(name)

    def _exactly(self, name: str) -> tuple[Target, ...]:
        """What the operator says about *name*, or whose list has it letter by letter.

        A name such as ``openai/gpt-oss-120b`` is another service's model where the upstream before the slash does not
        list what is behind it.
        """
        prefixed, named = self._registry.prefixed(name), self._registry.targets(name)
        if named and (prefixed is None or self._providers[prefixed.upstream].catalogue.lists(prefixed.model)):
            return named
        owner = next((provider for provider in self._ordered() if provider.catalogue.lists(name)), None)
        return () if owner is None else (Target(owner.name, name),)

    def _roughly(self, name: str) -> tuple[Target, ...]:
        """The upstream that *name* begins with, or one that has a model which is also spelled like that."""
        named = self._registry.targets(name)
        if named:
            return named
        owner = next((provider for provider in self._ordered() if provider.catalogue.knows(name)), None)
        return () if owner is None else (Target(owner.name, name),)

    def otherwise(self, name: str) -> Target:
        """Where a name is asked that nobody lists."""
        return Target(self._registry.last, name)

    async def route(self, target: Target, rest: tuple[Target, ...] = ()) -> Route:
        """The way to *target*.

        Raises:
            UnknownModel: The upstream lists its models, and this is not one of them.
        """
        provider = self._providers[target.upstream]
        try:
            model = await provider.catalogue.find(target.model)
        except UnknownModel as error:
            error.message += self._registry.hint(target.model)
            raise
        return Route(provider, model, target.model, rest)

    def without_service(self, route: Route) -> Route:
        """*route* without the other upstreams that are the same service."""
        service = route.provider.service
        rest = tuple(target for target in route.rest if self._providers[target.upstream].service != service)
        return evolve(route, rest=rest)

    async def listings(self) -> tuple[Listing, ...]:
        """The models of all upstreams, in the operator's order.

        Of several with one name only the first, which is the one that is asked, has it; the others have their
        upstream's before it.
        """
        await self._refresh()
        listed: dict[str, Listing] = {}
        for provider in self._ordered():
            for card in provider.catalogue.shown():
                listing = _listing(provider, card)
                if card.id in listed:
                    listing = evolve(listing, card=evolve(card, id=f"{provider.name}/{card.id}"))
                listed[listing.card.id] = listing
        return tuple(listed.values())

    async def listing(self, name: str) -> Listing:
        """The one that *name* means.

        Raises:
            UnknownModel: None of them.
        """
        for listing in await self.listings():
            if listing.card.id == name:
                return listing
        target = (await self.targets(name))[0]
        provider = self._providers[target.upstream]
        return _listing(provider, await provider.catalogue.card(target.model))

    def _ordered(self) -> list[Provider]:
        return [self._providers[name] for name in self._registry.upstreams]

    async def _refresh(self) -> None:
        """Ask for the lists that are out of date, side by side."""
        async with anyio.create_task_group() as group:
            for provider in self._providers.values():
                group.start_soon(provider.catalogue.refresh)


def _listing(provider: Provider, card: ModelCard) -> Listing:
    searches = WEB_SEARCH in provider.upstream.traits.runs or provider.toolbox.has(WEB_SEARCH)
    return Listing(card, provider.name, searches)
