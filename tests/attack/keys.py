"""The rows about keys of clients: very many of them, and files that are changed while a gateway runs."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time

from attrs import evolve

from tests.attack.client import Reply, read
from tests.attack.rows import Attack, row


async def _refused_after(attack: Attack, key: str, seconds: float) -> float:
    """Seconds until *key* is refused; as many as may be where it still is not."""
    client, began = evolve(attack.client, key=key), time.monotonic()
    while (taken := time.monotonic() - began) < seconds:
        if (await client.get("/v1/models")).status == 401:
            return taken
        await asyncio.sleep(0.05)
    return seconds


@row(
    "the file with 20,000 keys without one of them, and SIGHUP",
    "that key is refused within eight seconds, on a busy machine too, and the others are not",
    gateway="many-keys",
    seconds=30,
)
async def many_keys(attack: Attack) -> None:
    path = attack.gateway.folder / "gateway.toml"
    there = re.findall(r"\[keys\.many(\d+)\]", path.read_text())
    gone, kept = there[-1], there[7]
    key, other = evolve(attack.client, key=f"many-{gone}"), evolve(attack.client, key=f"many-{kept}")
    attack.typed(await key.get("/v1/models"), 200)
    head, _, rest = path.read_text().partition(f"[keys.many{gone}]")
    path.write_text(head + rest.partition("\n\n")[2])
    attack.gateway.process.send_signal(signal.SIGHUP)
    taken = await _refused_after(attack, key.key, 10)
    attack.note(f"refused after {taken:.1f} s")
    attack.want(taken < 8, f"the key is taken for {taken:.1f} s")
    attack.typed(await other.get("/v1/models"), 200)


@row(
    "a pipe in the place of the settings, SIGHUP three times, then SIGTERM",
    "refused at once, served meanwhile, and an end in time",
    gateway="piped",
    beside=False,
)
async def settings_in_a_pipe(attack: Attack) -> None:
    path = attack.gateway.folder / "gateway.toml"
    path.unlink()
    os.mkfifo(path)
    for count in (1, 2, 3):
        attack.gateway.process.send_signal(signal.SIGHUP)
        began = time.monotonic()
        for _ in range(60):
            if attack.gateway.log().count("is not an ordinary file") >= count:
                break
            await asyncio.sleep(0.05)
        attack.want(time.monotonic() - began < 3, "the log does not say that it was refused")
        attack.typed(await attack.client.get("/v1/models"), 200)
    began = time.monotonic()
    attack.gateway.terminate()
    while attack.gateway.process.poll() is None and time.monotonic() - began < 10:  # noqa: ASYNC110 - a process
        await asyncio.sleep(0.05)
    attack.want(attack.gateway.process.poll() == 0, f"exit status {attack.gateway.process.poll()}")


@row(
    "150 clients with invented keys at a host's function that takes 0.2 s, again and again",
    "a new client from another address is let in within 1.5 s",
    gateway="asked",
    seconds=30,
    beside=False,
)
async def invented_keys(attack: Attack) -> None:
    over = asyncio.Event()

    async def invent(number: int) -> None:
        while not over.is_set():
            await evolve(attack.client, key=f"invented-{number}-{time.monotonic_ns()}").get("/v1/models")

    crowd = [asyncio.create_task(invent(number)) for number in range(150)]
    await asyncio.sleep(2)
    for number in range(3):
        began = time.monotonic()
        reader, writer = await asyncio.open_connection("127.0.0.1", attack.client.port, local_addr=("127.0.0.2", 0))
        writer.write(evolve(attack.client, key=f"known-{number}").request("/v1/models", b"", method="GET"))
        reply = Reply()
        await read(reader, reply)
        writer.close()
        taken = time.monotonic() - began
        attack.typed(reply, 200)
        attack.note(f"let in after {taken:.1f} s")
        attack.want(taken < 1.5, f"let in after {taken:.1f} s")
    over.set()
    await asyncio.gather(*crowd)
