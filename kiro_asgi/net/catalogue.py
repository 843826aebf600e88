"""The models of an upstream and their properties: listed by the service, cached for a while."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from time import monotonic

import anyio
from attrs import define, evolve, field

from kiro_asgi.errors import KiroAsgiError, UnknownModel, UpstreamTimeout
from kiro_asgi.limits import MODEL_CHARACTERS, MODEL_PAGES
from kiro_asgi.loops import PerLoop
from kiro_asgi.net.single_flight import SingleFlight
from kiro_asgi.upstreams.base import ModelCard, ModelPage
from kiro_asgi.upstreams.models import without_window

LIST_TIMEOUT = 15.0
"""Seconds for all pages together."""

LIST_PATIENCE = 2.0
"""Seconds that a client who wants the models waits for lists.  Claude Code gives up after three."""

NAME_PATIENCE = 5.0
"""Seconds that a request waits where the lists decide who is asked.  Longer, since it may otherwise be sent to a
service that does not have the model, and fail; a list that is answered too soon only lacks some models."""

_DOUBT = 60.0
"""Seconds before a service that did not list its models is asked again."""


@define(kw_only=True)
class ModelSource:
    """The functions and facts of one upstream that its catalogue needs."""

    ask: Callable[[str], Awaitable[bytes]]
    """Fetches the page that `ModelPage.following` names; the empty text for the first.  May raise a `KiroAsgiError`."""

    parse: Callable[[bytes], ModelPage]
    normalise: Callable[[str], str]
    """One spelling for every known way to write a name."""

    suggest: Callable[[str, Iterable[ModelCard]], tuple[str, ...]]
    """Ids that resemble a name, best first."""

    builtin: tuple[ModelCard, ...]
    """Models known without asking."""

    named: Callable[[str], ModelCard] = ModelCard
    """The card of a model that is not known, as far as its name shows it."""

    unlisted: tuple[str, ...] = ()
    """Prefixes of names that are valid without being listed."""

    aliases: Mapping[str, str] = field(factory=dict)
    """The operator's own names to those of models; they count before any other."""


@define
class Catalogue:
    """The models of one upstream.

    A name that is built in or listed is found without waiting; a list that is missing, or old, is asked for meanwhile,
    and its entry for the model counts from then on.  Any other name waits for the list, though not for long: what comes
    later counts for later requests.  Where there is no list, the name is passed on as it is, and the service decides.
    A list that cannot be renewed stays.
    """

    _source: ModelSource
    _flights: SingleFlight
    _ttl: float = 3600.0
    """Seconds that a list is cached.  0: each request that needs it asks for it, and never in the background."""

    _clock: Callable[[], float] = monotonic
    _listed: tuple[ModelCard, ...] = field(init=False, default=())
    _index: dict[str, ModelCard] = field(init=False)
    """By id and by its one spelling; what is listed hides what is built in."""

    _aliases: dict[str, str] = field(init=False)
    """By alias and by its one spelling."""

    _failure: str = field(init=False, default="")
    """The class of the error for which the service gave no list when it was asked last."""

    _stale_at: float = field(init=False, default=float("-inf"))
    _asked_at: float = field(init=False, default=float("-inf"))
    """When the list was asked for last."""

    _turn: PerLoop[anyio.Lock] = field(init=False, factory=lambda: PerLoop(anyio.Lock))

    def __attrs_post_init__(self) -> None:
        aliases = self._source.aliases
        self._aliases = {self._source.normalise(alias): model for alias, model in aliases.items()} | dict(aliases)
        self._learn(())

    async def cards(self) -> tuple[ModelCard, ...]:
        """Return the listed models, or the built-in ones where none are listed; then the aliases, each as a model."""
        await self.refresh()
        return self.shown()

    def shown(self) -> tuple[ModelCard, ...]:
        """The same, as far as it is known without asking.

        An alias hides the model that has its name; one that means no listed model is left out.
        """
        models = {card.id: card for card in self._listed or self._source.builtin}
        for alias, meant in self._source.aliases.items():
            card = self._known(meant)
            if card is not None or not self._listed:
                models[alias] = evolve(card or ModelCard(meant), id=alias, name=alias)
        return tuple(models.values())

    async def card(self, name: str) -> ModelCard:
        """The one of `cards` that *name* means.

        Raises:
            UnknownModel: None of them.
        """
        shown = {card.id: card for card in await self.cards()}
        if name not in shown:
            name = (await self.find(name)).id
        if name not in shown:
            raise self.unknown(name)
        return shown[name]

    async def find(self, name: str) -> ModelCard:
        """The model that *name* means.

        Raises:
            UnknownModel: The service lists its models, and this is not one of them.
        """
        meant = self.meant(name)
        card = self._known(meant)
        if card is None:
            await self.refresh(NAME_PATIENCE)
            card = self._known(meant)
        elif self._ttl and self._is_stale():
            self._start()
        if card is not None:
            return card
        if not self._listed or meant.startswith(self._source.unlisted):
            return self._source.named(self._normalise(meant))
        raise self.unknown(meant)

    async def refresh(self, patience: float = LIST_PATIENCE) -> None:
        """Have the list fetched, unless the cached one is still fresh; wait *patience* seconds for it at most."""
        if self._is_stale():
            in_background = self._ttl and self._start()
            await (self._landing(patience) if in_background else self._ask_here(patience))

    async def aclose(self) -> None:
        """Wait a moment for the list that is asked for in the background, then end that."""
        await self._landing(LIST_PATIENCE)
        self._flights.cancel()
        await self._flights.join()

    @property
    def state(self) -> str:
        """The list's: ``listed``, ``asking``, ``unasked``, or the class of the error for which there is no new one."""
        if self._failure or self._listed:
            return self._failure or "listed"
        return "asking" if self._flights.is_under_way else "unasked"

    def lists(self, name: str) -> bool:
        """As `knows`, letter by letter: no other spelling counts."""
        cards = self._listed or self._source.builtin
        return name in self._source.aliases or (name in self._index and self._index[name] in cards)

    def known(self, name: str) -> ModelCard | None:
        """The model that *name* means, by what is known without asking the service; ``None`` where there is none.

        It is one that the service lists, or, as long as it has listed none, one built in.
        """
        card = self._known(self.meant(name))
        return None if card is None or (self._listed and card not in self._listed) else card

    def knows(self, name: str) -> bool:
        """Whether *name* means such a model."""
        return self.known(name) is not None

    def meant(self, name: str) -> str:
        """The model that the alias *name* stands for; *name* itself where it is none, as a model's exact id is."""
        exact = self._source.aliases.get(name)
        if exact is not None or name in self._index:
            return exact or name
        return self._aliases.get(self._normalise(name), name)

    def unknown(self, name: str) -> UnknownModel:
        """The error for a name that means no model."""
        near = self._source.suggest(name, self.shown())
        hint = f" (did you mean {' or '.join(near)}?)" if near else ""
        return UnknownModel(f"model: {name[:100]}{hint}", code="model_not_found", param="model")

    def _known(self, name: str) -> ModelCard | None:
        return self._index.get(name) or self._index.get(self._normalise(name))

    def _normalise(self, name: str) -> str:
        """The spelling of the service for a client's *name*, which may have a mark that is for the client alone."""
        return self._source.normalise(without_window(name))

    def _is_stale(self) -> bool:
        return self._clock() >= self._stale_at

    def _learn(self, listed: tuple[ModelCard, ...]) -> None:
        self._listed = listed
        cards = (*self._source.builtin, *listed)
        self._index = {self._source.normalise(card.id): card for card in cards} | {card.id: card for card in cards}

    def _start(self) -> bool:
        """Ask for the list in the background, if nobody does; false where no thread is left for that."""
        if not self._flights.is_under_way:
            self._asked_at = self._clock()
        try:
            self._flights.start(self._renew)
        except RuntimeError:
            return False
        return True

    async def _landing(self, patience: float) -> None:
        """Wait for the list until *patience* seconds after it was asked for.

        They do not begin anew for each request: a service that hangs holds up those that come first, and no others.
        """
        with anyio.move_on_after(max(self._asked_at + patience - self._clock(), 0.0)):
            await self._flights.join()

    async def _ask_here(self, patience: float) -> None:
        """Ask for the list within the request that needs it."""
        with anyio.move_on_after(patience) as scope:
            async with self._turn.here():
                await self._renew()
        if scope.cancelled_caught:
            self._miss(UpstreamTimeout.__name__)

    async def _renew(self) -> None:
        """Fetch all pages; where one is missing none counts, since half a list would deny models that exist."""
        if not self._is_stale():
            return
        try:
            with anyio.fail_after(LIST_TIMEOUT):
                listed = await self._pages()
        except TimeoutError:
            self._miss(UpstreamTimeout.__name__)
        except KiroAsgiError as error:
            self._miss(type(error).__name__)
        else:
            self._take(listed)

    def _take(self, listed: tuple[ModelCard, ...]) -> None:
        if not listed:
            self._miss("empty")
            return
        self._learn(listed)
        self._failure, self._stale_at = "", self._clock() + self._ttl

    def _miss(self, failure: str) -> None:
        self._failure, self._stale_at = failure, self._clock() + _DOUBT

    async def _pages(self) -> tuple[ModelCard, ...]:
        listed = await pages(self._source.ask, self._source.parse)
        cards = {card.id: card for page in listed for card in page.cards if len(card.id) <= MODEL_CHARACTERS}
        return tuple(cards.values())


async def pages(ask: Callable[[str], Awaitable[bytes]], parse: Callable[[bytes], ModelPage]) -> list[ModelPage]:
    """All pages of a list of models, `kiro_asgi.limits.MODEL_PAGES` of them at most; *ask* and *parse* as for
    `ModelSource`.

    Raises:
        KiroAsgiError: One cannot be fetched, or parsed.
    """
    asked: dict[str, ModelPage] = {}
    following = ""  # the last page is followed by the first again, or by any other that was fetched already
    while following not in asked and len(asked) < MODEL_PAGES:
        page = asked[following] = parse(await ask(following))
        following = page.following
    return list(asked.values())
