"""The lifespan protocol.  Nothing is started here: the application starts lazily, since a host may never send
lifespan."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from attrs import frozen

from kiro_asgi.asgi.typing import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Lifespan", "host_lifespan"]


@frozen
class Lifespan:
    """Says yes to everything, and releases what was taken at the end."""

    _close: Callable[[], Awaitable[None]]

    async def run(self, received: Iterable[Message], receive: Receive, send: Send) -> None:
        """Answer lifespan messages until shutdown.

        Args:
            received: Messages that somebody has read already and not answered.
            receive: Where more come from.
            send: Where answers go.
        """
        backlog = iter(received)
        while True:
            message = next(backlog, None) or await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self._close()
                await send({"type": "lifespan.shutdown.complete"})
                return


async def host_lifespan(
    host_app: ASGIApp, close: Callable[[], Awaitable[None]], scope: Scope, receive: Receive, send: Send
) -> None:
    """Let the host live its lifespan and close the gateway at its end; live it ourselves where the host cannot."""
    received: list[Message] = []
    answered = False

    async def listen() -> Message:
        message = await receive()
        received.append(message)
        return message

    async def answer(message: Message) -> None:
        nonlocal answered
        answered = True
        if message["type"].startswith("lifespan.shutdown"):
            await close()
        await send(message)

    try:
        await host_app(scope, listen, answer)
    except Exception:
        if answered:
            raise
    if not answered:
        await Lifespan(close).run(received, receive, send)
