"""A transport for the HTTP clients of the official SDKs that leads to an application in the same event loop.

The transport that httpx itself has for ASGI gives an answer when it is complete.  This one gives it as it comes, and
the application notices a client that leaves.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from attrs import define, field

from kiro_asgi.asgi.protocol import AnyASGIApp, Message
from kiro_asgi.testing.asking import http_scope


@define(eq=False)
class _Exchange:
    """One request, and its answer as it comes."""

    _app: AnyASGIApp
    _body: bytes
    _sending: MemoryObjectSendStream[bytes] = field(init=False)
    _pieces: MemoryObjectReceiveStream[bytes] = field(init=False)
    _begun: anyio.Event = field(init=False, factory=anyio.Event)
    _left: anyio.Event = field(init=False, factory=anyio.Event)
    _asked: bool = field(init=False, default=False)
    _failure: Exception | None = field(init=False, default=None)
    start: Message = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        self._sending, self._pieces = anyio.create_memory_object_stream[bytes]()

    async def run(self, scope: Any) -> None:
        """Have the application answer; what it raises is raised where the answer is awaited, or read."""
        try:
            await self._app(scope, self._receive, self._send)
        except Exception as error:  # noqa: BLE001 - raised by `begun`, or by `pieces`
            self._failure = error
        finally:
            self._begun.set()
            self._sending.close()

    async def begun(self) -> None:
        """Wait for the head of the answer."""
        await self._begun.wait()
        if not self.start:
            self.leave()
            raise self._failure or RuntimeError("the application sent no answer")

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body, as it comes."""
        async for piece in self._pieces:
            yield piece
        if self._failure is not None:
            raise self._failure

    def leave(self) -> None:
        """Leave: the application is told that the client is gone."""
        self._left.set()
        self._pieces.close()

    async def _receive(self) -> Message:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.start = message
            self._begun.set()
        elif message["type"] == "http.response.body" and message.get("body"):
            await self._sending.send(message["body"])  # one that is taken by nobody raises as a broken connection does


@define(eq=False)
class AsgiTransport:
    """Has an application answer the requests of an asynchronous client of httpx; see `asgi_transport`."""

    _app: AnyASGIApp
    _tasks: TaskGroup
    _exchanges: list[_Exchange] = field(init=False, factory=list)

    async def handle_async_request(self, request: Any) -> Any:
        """Answer *request*, as soon as the head of the answer is there."""
        url = request.url
        headers = [(name.lower(), value) for name, value in request.headers.raw]
        place = {"scheme": url.scheme, "server": (url.host, url.port or 80)}
        exchange = _Exchange(self._app, await request.aread())
        self._exchanges.append(exchange)
        self._tasks.start_soon(exchange.run, http_scope(request.method, url.path, url.query, headers, **place))
        await exchange.begun()
        client = import_module(type(request).__module__.partition(".")[0])  # there are several clients of this shape
        return client.Response(
            exchange.start["status"],
            headers=[*exchange.start.get("headers", ())],
            stream=_stream_of(client.AsyncByteStream, exchange),
        )

    async def aclose(self) -> None:
        """Leave all answers that are still under way."""
        for exchange in self._exchanges:
            exchange.leave()

    async def __aenter__(self) -> AsgiTransport:
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.aclose()


def _stream_of(base: Any, exchange: _Exchange) -> Any:
    """The body of the answer, as a stream of the client's own kind."""

    class Stream(base):  # type: ignore[misc]
        def __aiter__(self) -> AsyncIterator[bytes]:
            return exchange.pieces()

        async def aclose(self) -> None:
            exchange.leave()

    return Stream()


@asynccontextmanager
async def asgi_transport(app: AnyASGIApp) -> AsyncIterator[AsgiTransport]:
    """Give a transport for ``httpx.AsyncClient`` whose requests *app* answers, as they come, within the block.

    For example ``openai.AsyncOpenAI(http_client=openai.DefaultAsyncHttpxClient(transport=transport), …)``.  It runs on
    asyncio and on trio.  Answers that are still under way at the end of the block are broken off.
    """
    async with anyio.create_task_group() as tasks:
        async with AsgiTransport(app, tasks) as transport:
            yield transport
        tasks.cancel_scope.cancel()
