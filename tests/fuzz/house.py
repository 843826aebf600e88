"""An application, and a service in the same event loop that says whatever an input has it say."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from tempfile import mkdtemp
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeVar

from attrs import define, field

from kiro_asgi import App, Settings, create_app
from kiro_asgi.asgi.exchange.call import Bodies
from kiro_asgi.asgi.protocol import ASGIApp
from tests.parts import part_of

__all__ = ["HEAD", "MODELS", "House", "chunks", "house", "watched_house"]

MODELS: Final[Mapping[str, str]] = {
    "kiro": "kiro/claude-sonnet-4.5",
    "gemini": "gemini/gemini-2.5-flash",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "openai": "openai/gpt-5",
}

HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ntransfer-encoding: chunked\r\n\r\n"

WITHIN: Final = 60.0
"""Seconds after which an exchange hangs; there is nothing to wait for in one."""


class Client(Protocol):
    """Calls an application, as `tests.asgi.driver.Exchange` does."""

    async def run(self, app: ASGIApp, /) -> Any: ...


Caller = TypeVar("Caller", bound=Client)


@define
class House:
    """An application, and a service that says what it is told to."""

    more: Mapping[str, Any] = MappingProxyType({})
    """Settings beside those that every house has."""

    loop: asyncio.AbstractEventLoop = field(init=False, factory=asyncio.new_event_loop)
    script: list[bytes] = field(init=False, factory=list)
    """What the service writes on the next request, write by write, before it closes the connection."""

    app: App = field(init=False)
    _bodies: Bodies = field(init=False)

    def open(self) -> None:
        """Start the service, and make the application in front of it."""
        server = self.loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        direct = {"api_key": "key_fuzz", "endpoint": url}
        settings: dict[str, Any] = {
            "client": {"api_keys": ["k", "other"]},
            "kiro": {"api_key": "ksk_fuzz", "endpoint": url},
            "gemini": direct,
            "anthropic": direct,
            "openai": {**direct, "endpoint": f"{url}/v1"},
            "retry": {"attempts": 1, "refused_base": 0, "refused_cap": 0, "suspicion": 0},
            "stream": {"heartbeat": 0},
            "raise_unexpected": True,
            **self.more,
        }
        self.app = create_app(Settings.from_mapping(settings))
        self._bodies = part_of(self.app, Bodies)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(length or 0))
            if b" /v1/models" in head or b"listavailable" in head or head.startswith(b"get "):
                writer.write(b"HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n")
            else:
                for data in self.script:
                    writer.write(data)
                    await asyncio.sleep(0)
            await writer.drain()
        writer.close()

    def run(self, client: Caller) -> Caller:
        """Run *client* to its end, and what it has begun in the background; then nothing may be held any more."""

        async def bounded() -> None:
            async with asyncio.timeout(WITHIN):
                await client.run(self.app)
                await self.app.idle()

        self.loop.run_until_complete(bounded())
        assert not self._bodies.held, f"{self._bodies.held} bytes are held for nobody"
        return client


@cache
def house() -> House:
    """One for this process: to begin anew for each input would cost more than the input."""
    found = House()
    found.open()
    return found


@cache
def watched_house(secret: str) -> House:
    """The same, with the inspector, which *secret* opens, and with a ledger of what is used."""
    inspector = {"enabled": True, "secret": secret, "content": "full"}
    state = {"engine": "sqlite", "path": f"{mkdtemp(prefix='kiro-asgi-fuzz-')}/state.db", "usage": True}
    found = House({"inspector": inspector, "state": state})
    found.open()
    return found


def chunks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """A body as HTTP/1.1 cuts it, without its end."""
    for data in filter(None, pieces):
        yield b"%x\r\n%b\r\n" % (len(data), data)
