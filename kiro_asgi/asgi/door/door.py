"""The way of one call: it is let in, answered by an operation, refused where that fails, and accounted for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from logging import getLogger
from typing import Final

from attrs import define, evolve

from kiro_asgi.asgi.door.auth import Authenticator
from kiro_asgi.asgi.door.readiness import ReadinessCheck
from kiro_asgi.asgi.exchange.call import Bodies, Call, CallsUnderWay, Share, stopping
from kiro_asgi.asgi.exchange.observation import Observers
from kiro_asgi.asgi.kept.secrets import Secrets
from kiro_asgi.asgi.protocol import Disconnected, Listener, Receive, Scope, Send, Stalled, handshake_send
from kiro_asgi.asgi.routing import PROBES, Routes
from kiro_asgi.dialects.base import Dialect
from kiro_asgi.dialects.manifest import WEBSOCKET, Endpoint
from kiro_asgi.errors import InternalError, KeyExpired, KiroAsgiError, StoreUnavailable, UnknownModel
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.net.lookups import OWNER
from kiro_asgi.observers.base import Outcome
from kiro_asgi.observers.logs import SERVED

_log = getLogger("kiro_asgi")

_DEBUG_EXTENSION: Final = "http.response.debug"
"""Of hosts under test: Starlette's test client has it in its scopes."""

Handler = Callable[[Call, str], Awaitable[None]]
"""Answers a call; the text is the name in its path."""


@define(eq=False, kw_only=True)
class Door:
    """Lets calls in, each with an id and a share of what may be held, and accounts for them."""

    _routes: Routes
    _dialects: Mapping[str, Dialect]
    """By the name of the API, for its errors."""

    _auth: Authenticator
    _calls: CallsUnderWay
    _bodies: Bodies
    _observers: Observers
    _readiness: ReadinessCheck
    _secrets: Secrets
    _clocks: Clocks
    _token: Callable[[], str]
    """Makes 24 characters for an id."""

    _write_timeout: float
    _raise_unexpected: bool

    async def answer_within(self, scope: Scope, receive: Receive, send: Send, handler: Handler) -> Call:
        """Answer a request of a connection, whose scope names its client, as if it had come on its own."""

        async def handle(call: Call) -> None:
            await self.begin(call, self._routes.find(call.scope).endpoint)
            await handler(call, "")

        return await self.answer(scope, receive, send, handle)

    async def answer(
        self, scope: Scope, receive: Receive, send: Send, handle: Callable[[Call], Awaitable[None]]
    ) -> Call:
        """Answer one call by *handle*, and account for it."""
        request_id = f"req_{self._token()}"
        served = SERVED.set(request_id)
        try:
            return await self._account(request_id, scope, receive, send, handle)
        finally:
            SERVED.reset(served)

    async def _account(
        self,
        request_id: str,
        scope: Scope,
        receive: Receive,
        send: Send,
        handle: Callable[[Call], Awaitable[None]],
    ) -> Call:
        observation = self._observers.observation(scope, request_id)
        with self._calls.counting(), Share(self._bodies) as share:
            names, clocks = self._routes.request_id_headers, self._clocks
            call = Call(scope, receive, send, request_id, names, share, self._write_timeout, clocks.steady, clocks.draw)
            call.observation, call.parting_headers = observation, self._readiness.headers(scope)
            unexpected = await self._caught(call, self._serve(call, handle))
            if unexpected is not None and not call.status:
                await self._caught(call, self._refuse(call, InternalError(call.request_id)))
            if unexpected is not None and not call.status:  # nor can the client's API tell it
                await self._caught(call, _tell_plainly(call))
            if call.observation is not None:
                call.observation.end(call)
            call.let_go()
            _forget_frames(call.failure)
            if unexpected is not None and self._raises(scope):
                raise unexpected
        return call

    async def begin(self, call: Call, endpoint: Endpoint) -> None:
        """Identify the client, and report the call to observers."""
        if call.observation is not None:
            call.observation.route = endpoint.path
        if endpoint not in PROBES:
            try:
                identified = await self._auth.identify(call.scope)
            except KeyExpired as refusal:
                call.principal = refusal.principal  # so that the operator sees whose key it is
                raise
            call.principal, call.client = identified.principal, identified.client
            OWNER.set(call.principal)
        if call.observation is not None:
            call.observation.begin(call)

    async def _caught(self, call: Call, serving: Awaitable[None]) -> Exception | None:
        """Serve; an unexpected exception goes into the log, and no further.  A client that has left is sent nothing.

        The traceback is the one record that may quote a request: without it the fault could not be found.
        """
        try:
            try:
                await serving
            except Stalled:
                call.outcome = Outcome.STALLED
            except Disconnected:
                call.outcome = Outcome.DISCONNECTED
            if call.outcome is Outcome.DISCONNECTED and not call.status:
                await call.leave_unanswered()
        except Exception as error:  # noqa: BLE001 - the log has it, and the host that wants it
            call.failure = InternalError(call.request_id)
            call.outcome = Outcome.CUT if call.status else None
            _log.exception("unexpected %s", type(error).__name__, extra={"request_id": call.request_id})
            return error
        return None

    def _raises(self, scope: Scope) -> bool:
        """Whether the host wants to see unexpected exceptions."""
        return self._raise_unexpected or _DEBUG_EXTENSION in (scope.get("extensions") or ())

    async def _serve(self, call: Call, handle: Callable[[Call], Awaitable[None]]) -> None:
        try:
            with self._calls.doing(call):
                await handle(call)
            if call.work.cancelled_caught:
                await self._calls.end(call)
        except KiroAsgiError as error:
            await self._refuse(call, error)

    async def _refuse(self, call: Call, error: KiroAsgiError) -> None:
        call.failure = error
        _forget_frames(error)
        call.release_all()  # before anything is awaited, or others are refused for want of the room that it gives back
        if call.observation is not None:
            call.observation.begin(call)
        if isinstance(error, UnknownModel):
            error.model = error.model or call.model
        if isinstance(error, StoreUnavailable):  # the client is not told what is wrong there
            _log.warning("the store cannot be used: %s", error.detail, extra={"request_id": call.request_id})
        dialect = self._dialects[self._routes.api(call.scope).name]
        reply = dialect.error(self._secrets.shown(error), call.request_id)
        if error.given is not None:
            status, kind, body = error.given
            reply = evolve(reply, status=status, content_type=kind.encode("latin-1"), body=self._secrets.hide_in(body))
        await call.respond(reply.status, reply.body, [(b"content-type", reply.content_type), *reply.headers])


async def _tell_plainly(call: Call) -> None:
    """The last resort of a call, whatever it was given: a status, and the words that the log has it."""
    body = f"{InternalError(call.request_id).message}\n".encode()
    await call.respond(InternalError.status, body, [(b"content-type", b"text/plain; charset=utf-8")])


@define(eq=False, kw_only=True)
class Router:
    """Hands each call, once it is let in, to the operation that its method and path ask for."""

    _door: Door
    _routes: Routes
    _handlers: Mapping[Endpoint, Handler]
    _readiness: ReadinessCheck

    def http(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[object]:
        """Answer a request."""
        return self._door.answer(scope, Listener(receive), send, self._route)

    async def websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a handshake, and what comes after it."""
        if (await receive())["type"] == "websocket.connect":
            scope = {**scope, "method": WEBSOCKET}
            await self._door.answer(scope, Listener(receive), handshake_send(scope, send), self._route)

    async def _route(self, call: Call) -> None:
        match = self._routes.find(call.scope)
        await self._door.begin(call, match.endpoint)
        if match.endpoint.method == WEBSOCKET and self._readiness.is_draining:
            raise stopping()
        await self._handlers[match.endpoint](call, match.argument)


def _forget_frames(error: BaseException | None) -> None:
    """Let go of the frames in which *error*, and what led to it, was raised.

    They hold the error, and with it prompt and answer, in a circle, which only the garbage collector would break.  It
    comes by when many objects have been made, not when large ones have.  An error with a cause has a context, too, and
    it need not be the same: anyio raises what broke a connection from where it found nothing to read.
    """
    rest = [error]
    while rest:
        if (error := rest.pop()) is not None and error.__traceback__ is not None:
            error.__traceback__ = None
            rest += (error.__cause__, error.__context__)
