"""More rows of the attack: what can be done to a connection, from its first byte on."""

from __future__ import annotations

import asyncio
import contextlib
import time
import zlib
from typing import Final

import h2.config
import h2.connection
import h2.settings

from tests.attack.client import Client, Reply, read, reset
from tests.attack.rows import HOSTILE, KIRO, Attack, create_event, row
from tests.attack.shapes import BEGINNINGS, MIB, WEBSOCKET, frame

HEAD: Final = 20.0
"""Seconds after which a connection without a request ends."""

FLOOD: Final = 3.0
"""Seconds for which frames are sent as fast as they are taken."""


@row(
    "300 connections that begin in each way and go no further, where there are 96 descriptors",
    "each ends within 20 s, and then new ones are answered; the process goes on",
    gateway="few-files",
    refuses=True,
    seconds=60,
)
async def silent_connections(attack: Attack) -> None:
    beginnings = [*BEGINNINGS.values()] * (300 // len(BEGINNINGS))
    opened = await asyncio.gather(*(attack.client.open(data) for data in beginnings), return_exceptions=True)
    pairs = [pair for pair in opened if not isinstance(pair, BaseException)]
    began = time.monotonic()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(2 * HEAD + 10):  # those that waited to be accepted have a head's limit of their own
            await asyncio.gather(*(read(reader, Reply()) for reader, _ in pairs))
            attack.note(f"all ended after {time.monotonic() - began:.0f} s")
            attack.typed(await attack.client.get("/health"), 200)
            for _, writer in pairs:
                reset(writer)
            return
    attack.want(False, "connections stay open")


def _http2(attack: Attack, streams: int) -> bytes:
    """What a client of HTTP/2 sends that never opens its window, and asks as many questions."""
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    connection.local_settings[h2.settings.SettingCodes.INITIAL_WINDOW_SIZE] = 0
    connection.initiate_connection()
    head, _, body = attack.client.asking("chat", "attack:endless", model=HOSTILE, stream=True).partition(b"\r\n\r\n")
    lines = [line.split(": ", 1) for line in head.decode().splitlines()[1:]]
    kept = [(name, value) for name, value in lines if name not in ("host", "connection")]
    path = head.split()[1].decode()
    for number in range(1, 2 * streams, 2):
        top = [(":method", "POST"), (":path", path), (":scheme", "http"), (":authority", "x")]
        connection.send_headers(number, [*top, *kept])
        connection.send_data(number, body, end_stream=True)
    return connection.data_to_send()


@row("HTTP/2, a window that stays closed, 2 x 90 endless answers", "bounded memory")
async def closed_windows(attack: Attack) -> None:
    opened = [await attack.client.open(_http2(attack, 90), 4096) for _ in range(2)]
    await asyncio.sleep(6)
    for _, writer in opened:
        reset(writer)
    await attack.ask("chat", "attack:words", 200, model=HOSTILE)


async def _websocket(attack: Attack, more: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
    reader, writer = await attack.client.open(WEBSOCKET + more + b"\r\n")
    return reader, writer, await reader.readuntil(b"\r\n\r\n")


@row("frames over WebSocket of 65 and 260 kB that inflate to 64 and 256 MiB", "they are not inflated", seconds=60)
async def inflating_frames(attack: Attack) -> None:
    for size in (64 * MIB, 256 * MIB):
        packed = zlib.compressobj(9, zlib.DEFLATED, -15)
        data = b"".join(packed.compress(bytes(MIB)) for _ in range(size // MIB)) + packed.flush(zlib.Z_SYNC_FLUSH)
        offer = b"sec-websocket-extensions: permessage-deflate; client_max_window_bits\r\n"
        reader, writer, head = await _websocket(attack, offer)
        attack.want(b"deflate" not in head, "compression is agreed upon")
        writer.write(frame(1, data[:-4], reserved=0x40))
        reply = Reply()
        await read(reader, reply)
        attack.note(f"{len(data)} bytes: closed")
        writer.close()


@row("a frame over WebSocket without an end, 300 MiB of it", "1009, and what comes further is dropped", seconds=60)
async def endless_frame(attack: Attack) -> None:
    reader, writer, _ = await _websocket(attack)
    writer.write(b"\x81\xff" + (1 << 40).to_bytes(8, "big") + bytes(4))
    piece, sent = b"x" * MIB, 0
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(20):
            for _ in range(300):
                writer.write(piece)
                await writer.drain()
                sent += 1
    told = await reader.read(4)
    attack.note(f"{sent} MiB taken")
    attack.want(told == b"\x88\x02" + (1009).to_bytes(2, "big"), f"{told!r} instead of 1009")
    reset(writer)


@row(
    "40 WebSockets with 7.9 MiB of a message of 8 MiB each, and then as much in whole messages behind a silent answer",
    "those for which there is no room are closed with 1013; another is answered meanwhile, over WebSocket too",
    gateway="small",
    seconds=60,
)
async def messages_left(attack: Attack) -> None:
    half = frame(1, b" " * (8 * MIB - 1024))[: -100 * 1024]
    silent = frame(1, create_event("attack:comments").encode())
    for data, before in ((half, b""), (frame(1, b" " * (MIB - 1024)) * 8, silent)):
        opened, busy = [], 0
        for _ in range(40):
            reader, writer, _ = await _websocket(attack)
            opened.append((reader, writer))
            writer.write(before + data)
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(0.1):
                    await writer.drain()
                    busy += (1013).to_bytes(2, "big") in await reader.read(1 << 16)
        attack.note(f"{busy} closed with 1013")
        await attack.ask("responses", "attack:words", 200, model=HOSTILE)
        reader, writer, _ = await _websocket(attack)
        writer.write(frame(1, create_event("attack:words").encode()))
        told = b""
        async with asyncio.timeout(5):
            while b"response.completed" not in told:
                told += await reader.read(1 << 16)
        for _, each in (*opened, (reader, writer)):
            reset(each)


async def _flood(attack: Attack, data: bytes, *, before: bytes = b"", reads: bool = True) -> None:
    """Send *data* again and again on one WebSocket."""
    reader, writer, _ = await _websocket(attack)
    reply = Reply()
    reading = asyncio.create_task(read(reader, reply) if reads else asyncio.sleep(0))
    writer.write(before)
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(FLOOD):
            while not writer.is_closing():
                writer.write(data)
                await writer.drain()
    reset(writer)
    reading.cancel()


@row(
    "floods of pings, of empty fragments and of messages that are none, on two WebSockets each; pings also unread",
    "others have their turns; nothing is kept; one client takes one core, in which a short request waits ten turns",
    seconds=40,
    health=0.2,
)
async def small_frames(attack: Attack) -> None:
    logged = len(attack.gateway.log())
    for data, more in (
        (frame(9) * 5_000, {}),
        (frame(9, bytes(125)) * 500, {"reads": False}),
        (frame(0, final=False) * 5_000, {"before": frame(1, b"{", final=False)}),
        (frame(1, b"a") * 5_000, {}),
    ):
        await asyncio.gather(*(_flood(attack, data, **more) for _ in range(2)))
    attack.want(not attack.gateway.log()[logged:].strip(), "the log complains")


async def _leave(port: int, data: bytes, seconds: float) -> int:
    client, count, end = Client(port), 0, time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            _, writer = await client.open(data)
            reset(writer)
        count += 1
    return count


@row("clients that send a part of a body that is too large, and leave, for 4 s", "few lines in the log", seconds=25)
async def large_bodies_left(attack: Attack) -> None:
    logged = len(attack.gateway.log())
    data = attack.client.request("/v1/chat/completions", bytes(300_000), length=999_999_999)
    counts = await asyncio.gather(*(_leave(attack.client.port, data, 4) for _ in range(4)))
    await asyncio.sleep(0.5)
    lines = attack.gateway.log()[logged:].count("\n")
    attack.note(f"{sum(counts)} clients, {lines} lines")
    attack.want(lines <= 60, f"{lines} lines in the log")


@row(
    "a middleware that gives the body again and again", "answers, and a client that leaves", gateway="again", seconds=30
)
async def body_again(attack: Attack) -> None:
    data = attack.client.asking("chat", "attack:endless", model=HOSTILE, stream=True)
    for _ in range(20):
        _, writer = await attack.client.open(data)
        await asyncio.sleep(0.05)
        reset(writer)
    for api in ("chat", "messages", "responses"):
        for stream in (True, False):
            await attack.ask(api, "attack:words", 200, model=HOSTILE, stream=stream)


@row(
    "requests that name 16 hosts each whose names take 30 s",
    "names of services are found meanwhile",
    gateway="slow-names",
    seconds=70,
)
async def slow_names(attack: Attack) -> None:
    images = [
        {"type": "image", "source": {"type": "url", "url": f"https://{number}.slow.test/a.png"}} for number in range(16)
    ]
    other = Client(attack.gateway.port, "second")
    asked = other.asking("messages", "", model=KIRO, messages=[{"role": "user", "content": images}])
    for _ in range(2):  # they are given up after 10 s, their threads go on: 48 are more than a loop has
        for reply in await asyncio.gather(*(other.send(asked) for _ in range(2))):
            attack.typed(reply, 400)
    last = asyncio.create_task(other.send(asked))
    await asyncio.sleep(1)
    began = time.monotonic()
    await attack.ask("chat", "attack:words", 200, model="named/m")
    taken = time.monotonic() - began
    attack.note(f"after {taken:.1f} s")
    attack.want(taken < 5, f"a service's name took {taken:.1f} s")
    attack.typed(await last, 400)
