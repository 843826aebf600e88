"""The simulated service in the place of the network, for an application that is tried without an account.

No socket listens and no thread runs, so there is nothing to start or stop: it works in hosts that send no lifespan
events, in every event loop, and in workers that are forked later.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from attrs import define, field

from kiro_asgi.errors import UpstreamTimeout, UpstreamUnreachable
from kiro_asgi.net.transport import OfflineTransport, Reader, StopReading
from kiro_asgi.simulator.request import RecordedRequest
from kiro_asgi.simulator.scripts import Action, Head, Pause, Script, Stall, lay_out
from kiro_asgi.simulator.server import response_headers
from kiro_asgi.simulator.service import SimulatedService
from kiro_asgi.upstreams.base import UpstreamRequest

FOREVER: Final = 86_400.0
"""Seconds for which a service that stalls is waited for, by a reader without a time limit."""

Timed = tuple[float, Action | None]
"""Seconds of silence, and what follows; ``None``: the end of a complete answer."""


@define(eq=False)
class SimulatedTransport(OfflineTransport):
    """Answers as a simulator behind a socket would, faults included."""

    _service: SimulatedService = field(factory=SimulatedService)

    async def fetch(self, request: UpstreamRequest, reader: Reader, *, patience: float | None) -> None:
        """As of `Transport`; there is always a connection."""
        if request.finish is not None:
            request = await anyio.to_thread.run_sync(request.finish, request, abandon_on_cancel=True)
        actions = _timed(self._service.script_for(_recorded(request)))
        limit = reader.start()
        silence, head = next(actions)
        await _wait(silence, limit)
        if not isinstance(head, Head):
            raise _broken("no answer came")
        reader.begin(head.status, response_headers(head))
        try:
            await _read(actions, reader)
        except StopReading:
            return


async def _read(actions: Iterator[Timed], reader: Reader) -> None:
    """Give *reader* the body; before each piece it acts upon the one before, as at each read from a network."""
    for silence, action in actions:
        await _wait(silence, await reader.process())
        if action is None:
            return
        if not isinstance(action, bytes):
            raise _broken("its answer is not whole")
        reader.take(action)


async def _wait(seconds: float, patience: float | None) -> None:
    """Be silent.

    Raises:
        UpstreamTimeout: That is longer than *patience* seconds.
    """
    if patience is not None and patience < seconds:
        await anyio.sleep(max(0.0, patience))
        raise UpstreamTimeout("the upstream did not answer in time", code="timeout")
    await anyio.sleep(seconds)


def _broken(words: str) -> UpstreamUnreachable:
    return UpstreamUnreachable(
        f"Stream connection failed: the connection broke off ({words})", code="connection_broken"
    )


def _timed(script: Script) -> Iterator[Timed]:
    """The actions of *script* with the silence before each; the head first, unless the connection ends before it."""
    silence, has_head = 0.0, False
    for action in lay_out(script):
        if isinstance(action, Pause | Stall):
            silence += action.seconds if isinstance(action, Pause) else FOREVER
            continue
        if isinstance(action, bytes) and not has_head:
            yield silence, Head()
            silence = 0.0
        has_head = has_head or isinstance(action, bytes | Head)
        yield silence, action
        silence = 0.0
    if not has_head:
        yield silence, Head()
        silence = 0.0
    yield silence, None


def _recorded(request: UpstreamRequest) -> RecordedRequest:
    """*request* as it would arrive."""
    url = urlsplit(request.url)
    headers = {name.decode("ascii").lower(): value.decode("latin-1") for name, value in request.headers}
    headers |= {"host": url.netloc, "content-length": str(len(request.body))}
    return RecordedRequest(request.method, url.path or "/", url.query, headers, request.body)
