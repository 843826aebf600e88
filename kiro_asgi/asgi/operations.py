"""What is done at the paths of a client API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import cast

from attrs import define, evolve, frozen

from kiro_asgi.asgi.call import Call
from kiro_asgi.asgi.exchange import Asked
from kiro_asgi.asgi.service import Service
from kiro_asgi.asgi.typing import Send
from kiro_asgi.config import Settings
from kiro_asgi.dialects.base import CountingDialect, Dialect, ListingDialect
from kiro_asgi.dialects.builtin import BUILTIN
from kiro_asgi.dialects.manifest import DialectManifest, DialectOptions, Endpoint, served
from kiro_asgi.errors import ConfigError

__all__ = ["Gateway", "Handler", "Operations", "handlers_of", "new_dialects"]

Handler = Callable[[Call, str], Awaitable[None]]
"""Answers a call; the text is what its path names."""


@frozen
class Gateway:
    """What operations use of the application."""

    settings: Settings
    service: Service
    reply: Callable[[Call, Asked, Send], Awaitable[None]]
    """Ask an upstream, and answer by way of the last."""


@define
class Operations:
    """The operations of an API that has none of its own."""

    _gateway: Gateway
    _dialect: Dialect

    async def answer(self, call: Call, argument: str) -> None:
        """Answer."""
        gateway = self._gateway
        body = await call.body(gateway.settings.limits)
        asked = await gateway.service.asked(call, self._dialect, body)
        del body  # only the request keeps it, as long as it needs it
        await gateway.reply(call, asked, call.send)

    async def count(self, call: Call, argument: str) -> None:
        """Tell how many tokens a prompt has."""
        dialect, service = cast(CountingDialect, self._dialect), self._gateway.service
        body = await call.body(self._gateway.settings.limits)
        prompt = await service.offload.run(len(body), partial(dialect.parse_count, body))
        tokens = await service.count(call, prompt, len(body))
        await call.respond(200, dialect.render_count(tokens), [(b"content-type", dialect.traits.body_type)])

    async def models(self, call: Call, argument: str) -> None:
        """List the models of all upstreams."""
        dialect = cast(ListingDialect, self._dialect)
        body = dialect.render_models(await self._gateway.service.models.listings())
        await call.respond(200, body, [(b"content-type", dialect.traits.body_type)])

    async def model(self, call: Call, argument: str) -> None:
        """Describe the model that the path names."""
        call.model, dialect = argument, cast(ListingDialect, self._dialect)
        body = dialect.render_model(await self._gateway.service.models.listing(argument))
        await call.respond(200, body, [(b"content-type", dialect.traits.body_type)])


def new_dialects(settings: Settings) -> dict[DialectManifest, Dialect]:
    """The client APIs that are served: those that come with the package, then those that *settings* have a table for.

    Raises:
        ConfigError: A setting of one of them cannot work.
    """
    usual = DialectOptions(emit_code_references=settings.emit_code_references, usage_chunk=settings.stream.usage_chunk)
    made = {api: api.make(usual) for api in BUILTIN}
    return made | {api: api.make(evolve(usual, settings=own)) for api, own in served(settings)}


def handlers_of(api: DialectManifest, dialect: Dialect, gateway: Gateway) -> dict[Endpoint, Handler]:
    """What is done at each path of *api*.

    Raises:
        ConfigError: It has an operation that there is not.
    """
    made = (Operations if api.operations is None else api.operations())(gateway, dialect)
    handlers = {endpoint: getattr(made, endpoint.operation, None) for endpoint in api.endpoints}
    if unknown := [endpoint for endpoint, handler in handlers.items() if handler is None]:
        raise ConfigError(
            f"dialects: {api.name} has no operation {unknown[0].operation!r} for {unknown[0].path}", code="dialects"
        )
    return cast(dict[Endpoint, Handler], handlers)
