"""Which models an upstream offers: asked once, believed for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic

import anyio
from anyio.lowlevel import RunVar
from attrs import define, field

from kiro_asgi.errors import KiroAsgiError, UnknownModel
from kiro_asgi.net.transport import Headers, Transport
from kiro_asgi.upstreams.base import ModelCard, UpstreamRequest

__all__ = ["Catalogue", "ModelSource"]

_LIST_TIMEOUT = 10.0
_MAX_LIST_BYTES = 4 * 1024 * 1024
_DOUBT = 60.0
"""Seconds before a service that did not list its models is asked again."""


@define(kw_only=True)
class ModelSource:
    """What a catalogue must know about one upstream."""

    request: Callable[[], UpstreamRequest]
    """Asks for the list."""

    parse: Callable[[bytes], tuple[ModelCard, ...]]
    normalise: Callable[[str], str]
    """One spelling for every known way to write a name."""

    suggest: Callable[[str, Iterable[ModelCard]], tuple[str, ...]]
    """Ids that resemble a name, best first."""

    builtin: tuple[ModelCard, ...]
    """Models known without asking."""


class _WholeBody:
    """A reader that wants all of a small answer."""

    def __init__(self) -> None:
        self.status = 0
        self.body = bytearray()

    def begin(self, status: int, headers: Headers) -> None:
        self.status = status

    def take(self, chunk: bytes, /) -> None:
        self.body += chunk

    async def turn(self) -> float:
        if len(self.body) > _MAX_LIST_BYTES:
            self.status = 0
        return _LIST_TIMEOUT


@define
class Catalogue:
    """The models of one upstream.

    A name that is built in or listed is found without a call.  Any other name makes the service be asked; where it does
    not answer, the name is passed on as it is, and the service decides.
    """

    _transport: Transport
    _source: ModelSource
    _ttl: float = 3600.0
    _clock: Callable[[], float] = monotonic
    _listed: tuple[ModelCard, ...] = field(init=False, default=())
    _index: dict[str, ModelCard] = field(init=False)
    """By id and by its one spelling; what is listed hides what is built in."""

    _stale_at: float = field(init=False, default=float("-inf"))
    _locks: RunVar[anyio.Lock] = field(init=False, factory=lambda: RunVar("kiro_asgi.net.catalogue"))
    """One for each event loop: a lock belongs to the first that uses it."""

    def __attrs_post_init__(self) -> None:
        self._learn(())

    async def cards(self) -> tuple[ModelCard, ...]:
        """What the service lists, or what is built in where it lists nothing."""
        await self._refresh()
        return self._listed or self._source.builtin

    async def find(self, name: str) -> ModelCard:
        """The model that *name* means.

        Raises:
            UnknownModel: The service lists its models, and this is not one of them.
        """
        card = self._known(name)
        if card is None:
            await self._refresh()
            card = self._known(name)
        if card is not None:
            return card
        if not self._listed:
            return ModelCard(id=self._source.normalise(name))
        raise self.unknown(name)

    def unknown(self, name: str) -> UnknownModel:
        """The error for a name that means no model."""
        near = self._source.suggest(name, self._listed or self._source.builtin)
        hint = f" (did you mean {' or '.join(near)}?)" if near else ""
        return UnknownModel(f"model: {name[:100]}{hint}", code="model_not_found", param="model")

    def _known(self, name: str) -> ModelCard | None:
        return self._index.get(name) or self._index.get(self._source.normalise(name))

    def _learn(self, listed: tuple[ModelCard, ...]) -> None:
        self._listed = listed
        cards = (*self._source.builtin, *listed)
        self._index = {self._source.normalise(card.id): card for card in cards} | {card.id: card for card in cards}

    async def _refresh(self) -> None:
        if self._clock() < self._stale_at:
            return
        async with self._lock():
            if self._clock() < self._stale_at:
                return
            listed = await self._ask()
            self._stale_at = self._clock() + (self._ttl if listed else _DOUBT)
            if listed:
                self._learn(listed)

    def _lock(self) -> anyio.Lock:
        lock = self._locks.get(None)
        if lock is None:
            lock = anyio.Lock()
            self._locks.set(lock)
        return lock

    async def _ask(self) -> tuple[ModelCard, ...]:
        reader = _WholeBody()
        try:
            await self._transport.fetch(self._source.request(), reader, head_timeout=_LIST_TIMEOUT)
            return self._source.parse(bytes(reader.body)) if reader.status == 200 else ()
        except KiroAsgiError:
            return ()
