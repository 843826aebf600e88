"""Readers that note what a transport does with them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from attrs import define, field

from kiro_asgi.net.transport import Headers, StopReading
from kiro_asgi.upstreams.base import UpstreamRequest


def request_to(url: str, path: str = "/generateAssistantResponse", method: str = "POST") -> UpstreamRequest:
    return UpstreamRequest(
        method, url + path, ((b"content-type", b"application/json"),), b"{}" if method == "POST" else b""
    )


@define
class Noting:
    """Keeps everything, and what was new at each turn."""

    patience: float | None = 5.0
    head_patience: float | None = 5.0
    on_turn: Callable[[Noting], Awaitable[None]] | None = None
    enough_after: int | None = None
    status: int = 0
    headers: Headers = ()
    chunks: list[bytes] = field(factory=list)
    turns: list[int] = field(factory=list)
    """Chunks that were there at each turn."""

    def start(self) -> float | None:
        return self.head_patience

    def begin(self, status: int, headers: Headers) -> None:
        self.status, self.headers = status, headers

    def take(self, chunk: bytes, /) -> None:
        self.chunks.append(chunk)

    async def process(self) -> float | None:
        self.turns.append(len(self.chunks))
        if self.on_turn is not None:
            await self.on_turn(self)
        if self.enough_after is not None and len(self.chunks) >= self.enough_after:
            raise StopReading
        return self.patience

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)
