"""Operations at paths of no single API: the models of all upstreams, and what balancers and supervisors ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from attrs import frozen

from kiro_asgi.asgi.address import base_url
from kiro_asgi.asgi.door.auth import Authenticator
from kiro_asgi.asgi.door.readiness import Readiness
from kiro_asgi.asgi.door.situation import Situation
from kiro_asgi.asgi.exchange.call import Call
from kiro_asgi.asgi.exchange.model_routes import Models
from kiro_asgi.asgi.protocol import JSON, Scope, response_body, response_start
from kiro_asgi.dialects.model_list import render_model, render_models
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.wire.json import dumps

_ALIVE: Final = dumps({"status": "ok"})


@frozen
class GatewayOperations:
    """The operations of one app, by the names that `kiro_asgi.asgi.routing.GATEWAY` has for them."""

    _models: Models
    _auth: Authenticator
    _situation: Situation
    _describe: Callable[[str], Any]
    """From the base URL of a client to the description of everything."""

    async def description(self, call: Call, argument: str) -> None:
        """Describe all of this."""
        document = self._describe(base_url(call.scope))
        await call.respond(200, dumps(document), [JSON, (b"cache-control", b"no-store")])

    async def models(self, call: Call, argument: str) -> None:
        """List the models that the client may ask for."""
        listings = await self._models.listings(call.client.permits)
        await call.respond(200, render_models(listings), [JSON])

    async def model(self, call: Call, argument: str) -> None:
        """Describe the model that the path names."""
        call.model = argument
        listing = await self._models.listing(argument, call.client.permits)
        await call.respond(200, render_model(listing), [JSON])

    async def greeting(self, call: Call, argument: str) -> None:
        """Say that somebody is here."""
        await _answer_probe(call, 200, b"")

    async def health(self, call: Call, argument: str) -> None:
        """Say that the process lives."""
        await _answer_probe(call, 200, _ALIVE)

    async def ready(self, call: Call, argument: str) -> None:
        """Say whether requests should come here, and to clients with a key why not."""
        readiness = self._situation.readiness()
        answer = {"ready": readiness.is_ready, **await self._details(call.scope, readiness)}
        await _answer_probe(call, 200 if readiness.is_ready else 503, dumps(answer))

    async def _details(self, scope: Scope, readiness: Readiness) -> dict[str, Any]:
        try:
            await self._auth.identify(scope)
        except KiroAsgiError:
            return {}
        return self._situation.details(readiness)


async def _answer_probe(call: Call, status: int, body: bytes) -> None:
    """Answer; with the head alone where that is what was asked for."""
    if call.scope["method"] != "HEAD":
        await call.respond(status, body, [JSON])
        return
    await call.send(response_start(status, [JSON, *call.headers, (b"content-length", b"%d" % len(body))]))
    await call.send(response_body(b""))
