"""From a request to an exchange with the first upstream where that is possible, whatever is asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, TypeVar

from attrs import define

from kiro_asgi.asgi.exchange.facts import Request
from kiro_asgi.asgi.exchange.model_routes import Models, Route
from kiro_asgi.asgi.exchange.reading import Readable
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.net.retry import RetryPolicy
from kiro_asgi.upstreams.registry import Target

Asked = TypeVar("Asked", bound=Request)
T = TypeVar("T")


@define(kw_only=True)
class Settler(ABC, Generic[Asked]):
    """Settles requests of one kind."""

    models: Models
    _policy: RetryPolicy

    async def settle(self, request: Asked) -> Readable:
        """Settle all facts about a request.

        Raises:
            RequestError: The upstream cannot be asked this, or not by this client.
            UpstreamError: There is no credential to ask with, or it cools down.
        """
        return await self._first(partial(self._settled, request), await self.models.targets(request.model))

    async def settle_next(self, request: Asked, rest: tuple[Target, ...], failure: KiroAsgiError) -> Readable:
        """The same for the first of *rest* where that is possible, after *failure* at the targets before it.

        Raises:
            KiroAsgiError: *failure*, where there is none, or it would not help.
        """
        return await self._first(partial(self._settled, request), rest, failure)

    @abstractmethod
    async def _settled(self, request: Asked, route: Route) -> Readable:
        """All facts about *request* to the upstream of *route*."""

    async def _first(
        self, settle: Callable[[Route], Awaitable[T]], targets: tuple[Target, ...], failure: KiroAsgiError | None = None
    ) -> T:
        """Result of *settle* for the first of *targets* where that is possible.

        Args:
            settle: Does what can be done without asking for an answer.
            targets: Where, in order.
            failure: Why it was not possible before them.

        Raises:
            KiroAsgiError: It is possible at none; the first failure.  It alone decides whether another upstream helps.
        """
        for at, target in enumerate(targets, 1):
            if failure is not None and not self._policy.other_upstream_helps(failure):
                break
            try:
                return await settle(await self.models.route(target, targets[at:]))
            except KiroAsgiError as error:
                failure = failure or error
        assert failure is not None, "a model that is nowhere"
        raise failure from None
