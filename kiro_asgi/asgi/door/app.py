"""The ASGI 3 application, made of finished parts: it hands scopes on, and ends what it has begun."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from attrs import define

from kiro_asgi.asgi.door.layers import Answers
from kiro_asgi.asgi.door.readiness import Readiness, ReadinessCheck
from kiro_asgi.asgi.exchange.call import CallsUnderWay
from kiro_asgi.asgi.protocol import AnyASGIApp, Receive, Scope, Send, host_lifespan
from kiro_asgi.asgi.scheduling import Background, Pace
from kiro_asgi.loops import PerLoop


@define(eq=False, repr=False, kw_only=True)
class App:
    """The gateway as an ASGI 3 application, as `kiro_asgi.create_app` makes it.

    It opens nothing until the first request that needs an upstream, so a host need not send lifespan events.
    """

    _http: Answers
    _websocket: Answers
    _host: AnyASGIApp | None
    """Another application that gets every request whose path is not ours, and the lifespan."""

    trusts_host: bool
    """Whether it takes the users whom the host names for its clients (``client.trust_host``)."""

    _readiness: ReadinessCheck
    _calls: CallsUnderWay
    _background: Background
    _pace: PerLoop[Pace]
    _draining: tuple[Callable[[], None], ...]
    """What else ends, or begins to end, when no more requests are to come."""

    _closing: tuple[Callable[[], Awaitable[None]], ...]
    """Ends each part, in this order."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one connection scope; hosts hand over scope, receive and send with types of their own.

        Raises:
            ValueError: A scope type that ASGI does not define for us.
        """
        match scope["type"]:
            case "http":
                await self._http(scope, receive, send)
            case "lifespan":
                host = self._host or _no_lifespan
                await host_lifespan(host, self.check_state, self._shut_down, scope, receive, send)
            case "websocket":
                await self._websocket(scope, receive, send)
            case other:
                raise ValueError(f"unknown scope type {other!r}")

    def drain(self) -> None:
        """Have load balancers send no more requests: ``/ready`` is 503 from now on.

        Requests that come all the same are served, each with ``connection: close`` where the client speaks HTTP/1, so
        that its next one may go to another process.  WebSockets of the running event loop are closed with 1012, each
        after the answer under way, and a new one is refused with 503.  Called again, it does nothing more.
        """
        self._readiness.drain()
        self._calls.retire()
        for end in self._draining:
            end()

    async def idle(self) -> None:
        """Wait until no call is under way in the running event loop, and no response is made in the background.

        A host that ends calls `drain`, waits for as long as its balancers take to notice, then for this, within a time
        limit of its own, and calls `interrupt` where that is over.
        """
        await self._calls.all_gone()
        await self._background.idle()

    def readiness(self) -> Readiness:
        """Whether requests should come here, and why not, by what is known; no service is asked."""
        return self._readiness.readiness()

    async def check_state(self) -> None:
        """Look whether what is kept between requests can be used, for `readiness` and the log; the lifespan does it."""
        await self._readiness.check_store()

    async def _shut_down(self) -> None:
        self.drain()
        await self.aclose()

    async def aclose(self) -> None:
        """Write what is still to be stored, and close the idle upstream connections of the running event loop."""
        for close in self._closing:
            await close()

    @property
    def is_busy(self) -> bool:
        """Whether many answers are under way in the running event loop."""
        return self._pace.here().is_busy

    def interrupt(self) -> None:
        """End every call under way in the running event loop, for a process that must end: returns at once.

        Responses that are made in the background fail.

        A stream ends with its API's own error event and a proper end of the body, a response that has not begun is 503
        with ``retry-after``, and one that is sent whole is sent to its end.  Give them a moment before the loop ends.
        Calls that come later are served.
        """
        self._calls.interrupt()
        self._background.interrupt()


async def _no_lifespan(scope: Scope, receive: Receive, send: Send) -> None:
    """Leaves the answer to us."""
