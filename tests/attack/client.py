"""The attacker's requests: raw HTTP/1.1 over asyncio, cheap enough not to be what is slow."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import struct
from typing import Any, Final

from attrs import define, field, frozen

__all__ = ["PATHS", "Client", "Reply", "conversation"]

PATHS: Final = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
"""API to where it is asked."""

KEPT: Final = 1 << 20
"""Bytes of a reply that are kept, from its beginning; of its end only the last `TAIL` are."""

TAIL: Final = 64 * 1024

FAILED: Final = b"event: response.failed"


@define
class Reply:
    """What came back on a connection until it was closed."""

    head: bytes = b""
    tail: bytes = b""
    size: int = 0
    broken: str = ""
    """How the connection broke; empty for an ordinary end."""

    failed: bool = False
    """Whether it has the event with which an answer of the Responses API fails, which repeats all of that."""

    def add(self, data: bytes) -> None:
        self.size += len(data)
        self.failed = self.failed or FAILED in self.tail[-len(FAILED) :] + data
        self.head += data[: max(0, KEPT - len(self.head))]
        self.tail = (self.tail + data)[-TAIL:]

    @property
    def status(self) -> int:
        """0 where there was none."""
        return int(self.head[9:12] or 0)

    @property
    def text(self) -> str:
        return self.head.decode("utf-8", "replace")

    @property
    def ended(self) -> bool:
        """Whether the body has its proper end."""
        head = self.head.partition(b"\r\n\r\n")[0]
        length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
        return self.size == len(head) + 4 + int(length[1]) if length else self.tail.endswith(b"0\r\n\r\n")

    @property
    def error(self) -> str:
        """The code or type of the error in it; empty where there is none."""
        words = self.tail.decode("utf-8", "replace")
        found = re.search(r'"error": ?\{.*', words, re.DOTALL)
        if not found:
            return "response.failed" if self.failed else ""
        code = re.search(r'"code": ?"([^"]+)"', found[0]) or re.search(r'"type": ?"(?!error")([^"]+)"', found[0])
        return code[1] if code else "error"

    @property
    def param(self) -> str:
        """The place that an error names."""
        found = re.search(r'"param": ?"([^"]+)"', self.text)
        return found[1] if found else ""

    def __str__(self) -> str:
        size = f"{self.size / 2**20:.0f} MiB" if self.size > 2**20 else f"{self.size} bytes"
        words = [str(self.status) if self.status else "nothing", self.error or size]
        if not self.ended:
            words.append(self.broken or "cut off")
        return ", ".join(words)


def conversation(api: str, prompt: str) -> dict[str, Any]:
    """The part of a body that asks *prompt*."""
    turns = [{"role": "user", "content": prompt}]
    return {"input": turns} if api == "responses" else {"messages": turns, "max_tokens": 10**6}


@frozen
class Client:
    """Asks one gateway."""

    port: int
    key: str = "first"
    tag: int = field(default=0)

    def request(self, path: str, body: bytes, length: int | None = None, method: str = "POST") -> bytes:
        """A whole request, or, with a greater *length*, the beginning of one."""
        return (
            f"{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {self.key}\r\n"
            f"anthropic-version: 2023-06-01\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body) if length is None else length}\r\n\r\n"
        ).encode() + body

    async def open(self, data: bytes, receive_buffer: int = 0) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection on which *data* has been sent."""
        sock = socket.socket()
        sock.setblocking(False)
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        reader, writer = await asyncio.open_connection(sock=sock, limit=256 * 1024)
        writer.write(data)
        with contextlib.suppress(OSError):
            await writer.drain()
        return reader, writer

    async def send(self, data: bytes) -> Reply:
        """Send *data* and read to the end."""
        reply = Reply()
        reader, writer = await self.open(data)
        await read(reader, reply)
        writer.close()
        return reply

    async def ask(self, api: str, prompt: str, *, model: str = "kiro/claude-sonnet-4.5", **more: Any) -> Reply:
        """Ask *prompt* of one API, *more* being fields of the body."""
        return await self.send(self.asking(api, prompt, model=model, **more))

    def asking(self, api: str, prompt: str, *, model: str = "kiro/claude-sonnet-4.5", **more: Any) -> bytes:
        """The bytes of that."""
        body = {"model": model, **conversation(api, prompt), **more}
        return self.request(PATHS[api], json.dumps(body).encode())

    async def get(self, path: str) -> Reply:
        """GET *path*."""
        return await self.send(self.request(path, b"", method="GET"))


async def read(reader: asyncio.StreamReader, reply: Reply) -> None:
    """Read to the end of a connection, whatever that is."""
    try:
        while data := await reader.read(256 * 1024):
            reply.add(data)
    except OSError as error:
        reply.broken = type(error).__name__


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST."""
    sock: Any = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
