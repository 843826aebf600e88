"""The upstreams, each with everything that it takes to ask it, and the models of all of them together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Set
from datetime import UTC, datetime
from typing import Any, Final

import anyio
from attrs import define, evolve, field, frozen

from kiro_asgi.asgi.kept.server_tools import Toolbox
from kiro_asgi.dialects.model_list import Listing
from kiro_asgi.dialects.named_models import NO_MODELS
from kiro_asgi.errors import KiroAsgiError, RequestError, UnknownModel, UpstreamQuotaSpent
from kiro_asgi.failures.memory import Memory
from kiro_asgi.failures.remedies import Remedy
from kiro_asgi.limits import MODEL_CHARACTERS, NAMED_MODELS
from kiro_asgi.model.events import WEB_SEARCH
from kiro_asgi.model.handling import crossed
from kiro_asgi.model.notes import Note, Notes
from kiro_asgi.model.own_lines import RULE as OWN_LINE
from kiro_asgi.model.own_lines import own_line, without_own_line
from kiro_asgi.model.prices import Prices
from kiro_asgi.model.prompt import Demand, Document, Part, Prompt, Text
from kiro_asgi.model.rules import CATALOGUE, Loss, Rule
from kiro_asgi.model.understood import understood
from kiro_asgi.net.catalogue import LIST_PATIENCE, NAME_PATIENCE, Catalogue
from kiro_asgi.net.credentials.pool import Credentials
from kiro_asgi.net.transport import Transport
from kiro_asgi.upstreams.base import (
    Credential,
    Embedder,
    ModelCard,
    Rendered,
    Traits,
    Upstream,
    remedies_of,
    remembering,
)
from kiro_asgi.upstreams.registry import Registry, Target
from kiro_asgi.upstreams.settings import Setup

UNCITED: Final = Rule(
    "citations.unavailable",
    "That the answer shall cite documents or search results is left out where the service cites none.",
    Loss.CONTENT,
)
PHASE: Final = Rule(
    "phase.unavailable",
    "That an earlier text was commentary, or the final answer, is left out where the service cannot be told.",
    Loss.FORM,
)
VERBOSITY: Final = Rule(
    "verbosity.unavailable",
    "How long the answer shall be is left out where the service cannot be told.",
    Loss.CONTENT,
)

STRICT: Final = Rule(
    "strict.unavailable",
    "That calls must obey a tool's schema to the letter is left out where the service cannot be told.",
    Loss.CONTENT,
)

AS_FUNCTION: Final = CATALOGUE["tools.as_function"]

_CITED_BLOCK: Final = {"type": "search_result", "citations": {"enabled": True}}.items()

Permit = Callable[[str], bool]
"""Whether a client may ask for a model, given as ``upstream/model``."""

AskReset = Callable[[Credential], Awaitable[float | None]]
"""Returns when there is a new quota, in seconds since the epoch; ``None`` where the service does not report it."""


async def _unknown(credential: Credential) -> float | None:
    return None


_NO_MEMBERS: Final[Set[str]] = frozenset()


def _serves(upstream: Upstream, demands: Iterable[Demand]) -> bool:
    return all(demand.api == upstream.traits.api for demand in demands)


@define(kw_only=True)
class Provider:
    """An upstream that can be asked: how it is set up, with its connections, its credentials and its models."""

    setup: Setup
    transport: Transport
    credentials: Credentials
    catalogue: Catalogue
    toolbox: Toolbox
    ask_reset: AskReset = _unknown
    _clock: Callable[[], float] = lambda: 0.0
    memory: Memory = field(init=False, factory=Memory)
    """What the service has refused."""

    @property
    def dialects(self) -> Iterator[str]:
        """Client APIs in which it may be sent a client's own bytes."""
        forwardings = (upstream.forwarding for upstream in (self.setup.upstream, *self.setup.others))
        return (each.dialect for each in forwardings if each is not None)

    def asking(
        self,
        model: ModelCard,
        demands: tuple[Demand, ...] = (),
        principal: str = "",
        *,
        members: Set[str] = _NO_MEMBERS,
    ) -> Upstream:
        """The upstream as it asks *model* for *principal*, by all that is known of refusals.

        Where the service has several APIs, and that which is usual for the model has no place for what a request
        *demands*, the one that has.

        Args:
            model: The model.
            demands: What only services of one API can be asked.
            principal: Whose request it is.
            members: What the request has, by which some refusals are limited: ``tools``.
        """
        usual = self.setup.upstream if self.setup.choose is None else self.setup.choose(model)
        if known := self.known(model, principal):
            elsewhere = (each for each in known if each.upstream is not None and each.condition <= members)
            usual = remembering(next((each.upstream for each in elsewhere), usual), known)
        if not demands or _serves(usual, demands):
            return usual
        return next((each for each in (self.setup.upstream, *self.setup.others) if _serves(each, demands)), usual)

    def known(self, model: ModelCard, principal: str = "") -> tuple[Remedy, ...]:
        """What is known of refusals of requests of *principal* for *model*."""
        return self.memory.of(model.id, principal, self._clock())

    def learn_embedding(self, model: ModelCard, embedder: Embedder) -> None:
        """Ask *model* the way that *embedder* does for a while: the gateway writes all that a service can refuse."""
        if remedies := getattr(embedder, "remedies", ()):
            self.memory.learn(model.id, "", remedies, frozenset(), self._clock())

    def forget(self, model: ModelCard, upstream: Any) -> None:
        """Forget what *upstream* did otherwise for *model*: it was refused all the same."""
        if remedies := remedies_of(upstream):
            self.memory.forget(model.id, remedies)

    def adaptations(self) -> Iterator[Mapping[str, Any]]:
        """What is remembered of refusals now, for people."""
        return self.memory.shown(self._clock())

    def learn(
        self,
        model: ModelCard,
        upstream: Upstream,
        principal: str = "",
        rendered: Rendered | None = None,
        demands: tuple[Demand, ...] = (),
    ) -> None:
        """Ask *model* the way that *upstream* does for a while: it has just got an answer.

        What was asked in another API for what the request *demands* says nothing of other requests.

        Args:
            model: The model.
            upstream: Who asked.
            principal: Whose request it was.
            rendered: What was answered; ``None`` where all of it is as the client wrote it.
            demands: As for `asking`.
        """
        remedies = remedies_of(upstream)
        if remedies and not (demands and upstream is self.asking(model, demands)):
            unread = None if rendered is None else rendered.unread
            self.memory.learn(model.id, principal, remedies, unread, self._clock())
        if rendered is not None:
            self.memory.took(model.id, rendered.document)

    @property
    def name(self) -> str:
        """Name of the upstream in the settings."""
        return self.setup.upstream.name

    def adapted(
        self, prompt: Prompt, name: str, model: ModelCard, upstream: Upstream
    ) -> tuple[Prompt, tuple[Note, ...]]:
        """*prompt* with the wishes that the model's name spells out, without tools that neither side has, and notes.

        Args:
            prompt: The request.
            name: The model's, as the client has it.
            model: The model.
            upstream: The one that asks it.

        Raises:
            RequestError: A tool must be called that neither side has.
        """
        traits, api = upstream.traits, upstream.traits.api
        functions = _notes_on_functions(prompt, api) if prompt.tools else ()
        prompt = self.setup.adapt(understood(prompt, api), self.catalogue.meant(name), model)
        prompt, notes = self.toolbox.offered(prompt) if prompt.tools else (prompt, ())
        prompt, own = _without_own_line(prompt)
        return prompt, (
            *own,
            *functions,
            *notes,
            *_notes_on_lost(prompt, traits),
            *_unsaid(prompt, traits),
        )

    async def with_reset(self, error: UpstreamQuotaSpent, credential: Credential, now: float) -> UpstreamQuotaSpent:
        """*error* with the time of the next quota, if the upstream can be asked for it; *now* is since the epoch."""
        try:
            reset = await self.ask_reset(credential)
        except KiroAsgiError:
            return error
        if reset is None:
            return error
        moment = datetime.fromtimestamp(reset, UTC).strftime("%Y-%m-%d %H:%M UTC")
        return type(error)(f"{error.message}; resets at {moment}", code=error.code, retry_after=max(reset - now, 0.0))


def _notes_on_functions(prompt: Prompt, api: str) -> tuple[Note, ...]:
    """Notes on tools for which functions stand at a service of this *api*."""
    notes = Notes()
    for tool in prompt.tools:
        if tool.instead and tool.opaque is not None and tool.opaque.api != api:
            notes.applies(AS_FUNCTION.name, tool.place)
    return notes.found()


def _unsaid(prompt: Prompt, traits: Traits) -> tuple[Note, ...]:
    """Notes on what *prompt* says of its handling, for which a service of these *traits* has no words."""
    notes = Notes()
    if prompt.unread is None or prompt.unread.api != traits.api:
        crossed(prompt.handling, traits.words, notes)
    return notes.found()


def _without_own_line(prompt: Prompt) -> tuple[Prompt, tuple[Note, ...]]:
    """*prompt* without a line for the vendor of a client that speaks another API than that one's."""
    if not prompt.system or not own_line(prompt.system[0]):
        return prompt, ()
    notes = Notes()
    notes.applies(OWN_LINE, prompt.system_place)
    return evolve(prompt, system=(without_own_line(prompt.system[0]), *prompt.system[1:])), notes.found()


def _notes_on_lost(prompt: Prompt, traits: Traits) -> tuple[Note, ...]:
    """Notes on what is left out because a service of these *traits* has no field for it."""
    notes = Notes()
    if prompt.verbosity and not traits.verbose:
        notes.applies(VERBOSITY.name, "verbosity")
    for tool in prompt.tools if not traits.strict else ():
        if tool.strict:
            notes.applies(STRICT.name, tool.place)
    for turn in prompt.turns:
        for part in turn.content():
            if not traits.cites and _is_to_cite(part):
                notes.applies(UNCITED.name, getattr(part, "place", "") or turn.place)
            if not traits.phases and type(part) is Text and part.phase:
                notes.applies(PHASE.name, turn.place)
    return notes.found()


def _is_to_cite(part: Part) -> bool:
    """Whether the answer shall cite *part*."""
    if type(part) is Text:
        return part.block is not None and part.block.items() >= _CITED_BLOCK
    return type(part) is Document and part.cited


@frozen
class Route:
    """The upstream to ask, and the model."""

    provider: Provider
    model: ModelCard
    name: str
    """By which that upstream's model was asked for."""

    rest: tuple[Target, ...] = ()
    """Further targets for the same request, in order."""


@frozen
class Models:
    """The models of one app."""

    _registry: Registry
    _providers: Mapping[str, Provider] = field()
    """By name."""

    _prices: Prices = field(factory=Prices)

    async def targets(self, name: str) -> tuple[Target, ...]:
        """The targets of *name*, best first; never empty.

        The lists are fetched where more than one service may have the model: one of them may have it letter by
        letter.  One that does not come in time counts as if it did not have it.
        """
        found = self._exactly(name)
        if not found and len(self._providers) > 1:
            await self._refresh(NAME_PATIENCE)
            found = self._exactly(name)
        return found or self._roughly(name) or (self.otherwise(name),)

    def known(self, name: str) -> tuple[Target, ...]:
        """As `targets`, as far as they are known without fetching lists; empty where none is."""
        return self._exactly(name) or self._roughly(name)

    def _exactly(self, name: str) -> tuple[Target, ...]:
        """Targets of *name* in the operator's table, else in the lists that have it letter by letter.

        A name such as ``openai/gpt-oss-120b`` is another service's model where the upstream before the slash does not
        list the name after it.
        """
        prefixed, named = self._registry.prefixed(name), self._registry.targets(name)
        if named and (prefixed is None or self._providers[prefixed.upstream].catalogue.lists(prefixed.model)):
            return named
        owner = next((provider for provider in self._ordered() if provider.catalogue.lists(name)), None)
        return () if owner is None else (Target(owner.name, name),)

    def _roughly(self, name: str) -> tuple[Target, ...]:
        """The upstream that *name* begins with, or one with a model that can be spelled like that."""
        named = self._registry.targets(name)
        if named:
            return named
        owner = next((provider for provider in self._ordered() if provider.catalogue.knows(name)), None)
        return () if owner is None else (Target(owner.name, name),)

    def otherwise(self, name: str) -> Target:
        """The target of a name that is in no list."""
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

    def embedder(self, route: Route) -> Embedder:
        """The embeddings of the upstream of *route*.

        Raises:
            RequestError: It has none, or its model is known to make none.
        """
        embedder, name = route.provider.setup.embedder, route.provider.name
        if embedder is not None and route.model.embeds is not False:
            return remembering(embedder, route.provider.known(route.model))
        what = f"{route.model.id[:100]} of {name} makes no embeddings" if embedder else f"{name} has no embeddings"
        able = " or ".join(each.name for each in self._ordered() if each.setup.embedder is not None)
        hint = f"name an embedding model of {able}" if able else "no service that is set up here has any"
        raise RequestError(f"model: {what}; {hint}", code="unsupported_value", param="model")

    def without_service(self, route: Route) -> Route:
        """*route* without the other upstreams that are the same service."""
        account = route.provider.setup.account
        rest = tuple(target for target in route.rest if self._providers[target.upstream].setup.account != account)
        return evolve(route, rest=rest)

    async def listings(self, permit: Permit) -> tuple[Listing, ...]:
        """The models of all upstreams that *permit* allows, in the operator's order, as far as they are known soon."""
        await self._refresh(LIST_PATIENCE)
        return self.shown(permit)

    def shown(self, permit: Permit) -> tuple[Listing, ...]:
        """The same, as far as they are known without asking.

        Of several with one name the first keeps it, as it is the one that is asked; the others have their upstream's
        name before it.
        """
        listed: dict[str, tuple[str, Listing]] = {}
        for provider in self._ordered():
            for card in provider.catalogue.shown():
                listing = self._listing(provider, card)
                if card.id in listed:
                    listing = evolve(listing, card=evolve(card, id=f"{provider.name}/{card.id}"))
                listed[listing.card.id] = f"{provider.name}/{card.id}", listing
        return tuple(listing for model, listing in listed.values() if permit(model))

    async def listing(self, name: str, permit: Permit) -> Listing:
        """The one that *name* means.

        Raises:
            UnknownModel: There is none, or *permit* does not allow it.
        """
        for listing in await self.listings(permit):
            if listing.card.id == name:
                return listing
        target = (self.known(name) or (self.otherwise(name),))[0]  # the lists were asked for, and had their time
        provider = self._providers[target.upstream]
        card = await provider.catalogue.card(target.model)
        require_permit(permit, provider, card)
        return self._listing(provider, card)

    def _listing(self, provider: Provider, card: ModelCard) -> Listing:
        searches = WEB_SEARCH in provider.setup.upstream.traits.runs or provider.toolbox.has(WEB_SEARCH)
        price, cites = self._prices.of(provider.name, card.id), provider.setup.upstream.traits.cites
        return Listing(card, provider.name, searches, price=price, currency=self._prices.currency, cites=cites)

    def _ordered(self) -> list[Provider]:
        return [self._providers[name] for name in self._registry.upstreams]

    async def _refresh(self, patience: float) -> None:
        """Ask for the lists that are out of date, side by side; wait *patience* seconds for them at most."""
        async with anyio.create_task_group() as group:
            for provider in self._providers.values():
                group.start_soon(provider.catalogue.refresh, patience)


def require_permit(
    permit: Permit, provider: Provider, model: ModelCard, named: Iterable[tuple[str, str]] = NO_MODELS
) -> None:
    """Refuse *model* of *provider*, and those that the request names beside it, where *permit* does not allow them.

    Args:
        permit: Of the client.
        provider: The service.
        model: Which is asked.
        named: Places and names of further models.

    Raises:
        UnknownModel: The same as for a model that does not exist, as in the APIs; ``param`` is the place.
        RequestError: More are named than `NAMED_MODELS`.
    """
    if not permit(f"{provider.name}/{model.id}"):
        raise UnknownModel("this key may not ask for this model", code="model_not_allowed")
    further = tuple(named)
    if len(further) > NAMED_MODELS:
        raise RequestError(f"the request names more than {NAMED_MODELS} models beside its own", code="invalid_value")
    for place, name in further:
        if len(name) > MODEL_CHARACTERS or not permit(f"{provider.name}/{name}"):
            shown = place[:100]
            words = f"{shown}: this key may not ask for this model"
            raise UnknownModel(words, code="model_not_allowed", param=shown)


def require_answers(model: ModelCard) -> None:
    """Refuse to ask *model* for an answer where it is known to make embeddings alone.

    Raises:
        RequestError: It is.
    """
    if model.embeds:
        raise RequestError(
            f"model: {model.id[:100]} makes embeddings, and no answers; name another model, or ask it for embeddings",
            code="unsupported_value",
            param="model",
        )
