"""The service behind every gateway: Chat Completions in real bytes of server-sent events.

``python -m tests.bench.peers.service`` prints the port it listens on.  The prompt names the answer (`SCENARIOS`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import struct
import sys
from collections.abc import Iterator
from typing import Any, Final

from tests.bench.peers.scenarios import ASKED, SCENARIOS, Scenario

__all__: list[str] = []

SILENT: Final = 60.0
"""Seconds that a silence lasts."""

HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
REFUSED: Final = b"HTTP/1.1 500 Oh\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
NAMED: Final = re.compile(rb"%s([a-z0-9-]+)" % ASKED.encode())
ERROR: Final = {"error": {"message": "the service broke", "type": "server_error", "code": "broken"}}


def _event(value: Any, line_end: bytes) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + 2 * line_end


def _chunk(delta: dict[str, str], finish: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_760_000_000, "model": "bench"}
    return {**head, "choices": [choice], **more}


def _events(scenario: Scenario) -> Iterator[bytes]:
    """All of an answer but the end of its body."""
    first = {"role": "assistant"}
    for piece in scenario.pieces:
        yield _event(_chunk({**first, "content": piece}), scenario.line_end)
        first = {}
    if scenario.fault == "error":
        yield _event(ERROR, scenario.line_end)
    if not scenario.fault:
        usage = {"prompt_tokens": 10, "completion_tokens": len(scenario.pieces), "total_tokens": 10}
        yield _event(_chunk({}, scenario.finish, usage=usage), scenario.line_end)
        yield b"data: [DONE]" + 2 * scenario.line_end


def _writes(scenario: Scenario) -> Iterator[bytes]:
    """The same, as it is written."""
    if not scenario.cut:
        yield from _events(scenario)
        return
    whole = b"".join(_events(scenario))
    for start in range(0, len(whole), scenario.cut):
        yield whole[start : start + scenario.cut]


async def _answer(scenario: Scenario, writer: asyncio.StreamWriter) -> bool:
    """Write an answer; whether the connection can be used again."""
    if scenario.fault == "refused":
        body = json.dumps(ERROR).encode()
        writer.write(REFUSED % len(body) + body)
        return True
    writer.write(HEAD)
    for index, data in enumerate(_writes(scenario)):
        if scenario.pause and index:
            await asyncio.sleep(scenario.pause)
        if scenario.cut:
            await asyncio.sleep(0.0002)  # else what was cut arrives in one read after all
        writer.write(b"%x\r\n%b\r\n" % (len(data), data))
        await writer.drain()
    if scenario.fault == "reset":
        await asyncio.sleep(0.05)  # what was said before it arrives
        sock: Any = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        return False
    if scenario.fault == "silence":
        await asyncio.sleep(SILENT)
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True


async def _request(reader: asyncio.StreamReader) -> bytes:
    """The body of the next request."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if b"transfer-encoding: chunked" not in head:
        found = re.search(rb"content-length: (\d+)", head)
        return await reader.readexactly(int(found[1]) if found else 0)
    body = b""
    while size := int(await reader.readline(), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readline()
    return body


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, EOFError):
        while named := NAMED.search(await _request(reader)):
            if not await _answer(SCENARIOS[named[1].decode()], writer):
                return
    writer.close()


async def _main() -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(asyncio.run(_main()))
