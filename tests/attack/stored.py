"""Rows that attack with what a client has stored earlier: little to send, and as much as the store has to take up."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import Sequence
from typing import Any, Final

from tests.attack.client import PATHS, Client, Reply, reset
from tests.attack.rows import HOSTILE, Attack, row
from tests.attack.shapes import MIB

STORED: Final = 25 * MIB
"""Bytes of a record that is as large as one request makes it."""

CONVERSATIONS: Final = "/v1/conversations"
PARTS: Final = [{"type": "input_text", "text": "x"}] * 32_000
READERS: Final = 40
LINES: Final = 60
"""Lines of the log for clients that leave, however often."""

LOOPS: Final = 4


def _body(reply: Reply) -> Any:
    return json.loads(reply.text.partition("\r\n\r\n")[2])


async def _post(attack: Attack, client: Client, path: str, body: Any, *statuses: int) -> Reply:
    return attack.typed(await client.send(client.request(path, json.dumps(body).encode())), *statuses)


async def _send(attack: Attack, client: Client, method: str, path: str, *statuses: int) -> Reply:
    return attack.typed(await client.send(client.request(path, b"", method=method)), *statuses)


async def _settled(attack: Attack) -> None:
    """Begin to measure: what it takes to store that much is another row's."""
    await asyncio.sleep(1.0)
    attack.gateway.noticed()
    attack.gateway.forget_peak()


async def _hang_up(client: Client, path: str, until: float) -> int:
    """Ask and hang up, again and again."""
    asked = 0
    while time.monotonic() < until:
        reader, writer = await client.open(client.request(path, b"", method="GET"))
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(0.05):
                await reader.read(1)
        reset(writer)
        asked += 1
    return asked


async def _read_by_crowds(attack: Attack, other: Client, path: str) -> None:
    """*other* reads *path* in loops, and never; meanwhile the first key builds on a response of its own."""
    mine = _body(await attack.ask("responses", "attack:words", 200))["id"]
    await _settled(attack)
    logged = len(attack.gateway.log())
    until, asking = time.monotonic() + 8, other.request(path, b"", method="GET")
    loops = [asyncio.create_task(_hang_up(other, path, until)) for _ in range(LOOPS)]
    opened = [await other.open(asking, 4096) for _ in range(READERS)]
    try:
        while time.monotonic() < until:
            await attack.ask("responses", "attack:words", 200, previous_response_id=mine, store=False)
            await asyncio.sleep(0.1)
    finally:
        for _, writer in opened:
            reset(writer)
    attack.note(f"{sum(await asyncio.gather(*loops))} times asked for and left")
    lines = attack.gateway.log()[logged:].count("\n")
    attack.want(lines <= LINES, f"{lines} lines in the log")


@row(
    "a stored response of 25 MiB: four loops that ask for it and hang up, 40 clients that never read it",
    "others build on theirs; a client that is refused gets 503; twice 64 MiB",
    gateway="stored",
    seconds=60,
    growth=128 * MIB,
)
async def stored_response_read(attack: Attack) -> None:
    other = Client(attack.gateway.port, "second")
    body = {"model": HOSTILE, "input": "attack:words", "instructions": "x" * STORED, "stream": True}
    stored = await _post(attack, other, PATHS["responses"], body, 200)
    found = re.search(rb"resp_\w+", stored.head)
    path = f"{PATHS['responses']}/{found[0].decode() if found else ''}"
    await _read_by_crowds(attack, other, path)
    whole = await _send(attack, other, "GET", path, 200)
    attack.want(whole.size > STORED, f"{whole.size} bytes of it came back")


@row(
    "the input of a stored response, 25 MiB, read by the same crowd",
    "others build on theirs; a client that is refused gets 503; twice 64 MiB",
    gateway="stored",
    seconds=60,
    growth=128 * MIB,
)
async def stored_input_read(attack: Attack) -> None:
    other = Client(attack.gateway.port, "second")
    body = {"model": HOSTILE, "input": "attack:words " + "x" * STORED}
    stored = _body(await _post(attack, other, PATHS["responses"], body, 200))
    await _read_by_crowds(attack, other, f"{PATHS['responses']}/{stored['id']}/input_items")


@row(
    "a conversation of 25 MiB, read by the same crowd",
    "others build on theirs; a client that is refused gets 503; twice 64 MiB",
    gateway="stored",
    seconds=60,
    growth=128 * MIB,
)
async def stored_conversation_read(attack: Attack) -> None:
    other = Client(attack.gateway.port, "second")
    body = {"items": [{"role": "user", "content": "x" * STORED}]}
    path = f"{CONVERSATIONS}/{_body(await _post(attack, other, CONVERSATIONS, body, 200))['id']}"
    await _read_by_crowds(attack, other, f"{path}/items")
    await _send(attack, other, "DELETE", path, 200)


@row(
    "20 stored responses of 32,000 parts in a chain, and 16 requests of 120 bytes at once that build on it",
    "what has more values than a request may have is refused; the rest costs as much as a request that sends it",
    gateway="chained",
    seconds=90,
)
async def stored_chain(attack: Attack) -> None:
    other, previous = Client(attack.gateway.port, "second"), None
    for _ in range(20):
        turn = {"role": "user", "content": [{"type": "input_text", "text": "attack:words"}, *PARTS]}
        body = {"model": HOSTILE, "input": [turn], "previous_response_id": previous}
        reply = await _post(attack, other, PATHS["responses"], body, 200, 400)
        previous = _body(reply)["id"] if reply.status == 200 else previous
    await _settled(attack)
    began = time.monotonic()
    asked = {"model": HOSTILE, "input": "attack:words", "previous_response_id": previous, "store": False}
    await asyncio.gather(*(_post(attack, other, PATHS["responses"], asked, 200, 400, 503) for _ in range(16)))
    attack.note(f"after {time.monotonic() - began:.1f} s")


@row(
    "20,000 short messages, and a conversation of three adds of 32,000 parts each",
    "what is accepted can be read, listed and deleted; the rest is refused with 400",
    gateway="chained",
    seconds=60,
)
async def stored_values(attack: Attack) -> None:
    turns = [{"role": "user", "content": "attack:words"}] * 20_000
    reply = await attack.ask("responses", "", 200, model=HOSTILE, input=turns)
    path = f"{PATHS['responses']}/{_body(reply)['id']}"
    for each in (path, f"{path}/input_items"):
        await _send(attack, attack.client, "GET", each, 200)
    await _send(attack, attack.client, "DELETE", path, 200)
    path = f"{CONVERSATIONS}/{_body(await _post(attack, attack.client, CONVERSATIONS, {}, 200))['id']}"
    adds = {"items": [{"role": "user", "content": PARTS[:1_600]}] * 20}
    statuses = [(await _post(attack, attack.client, f"{path}/items", adds, 200, 400)).status for _ in range(3)]
    attack.want(statuses[-1] == 400, f"{statuses[-1]} for what cannot be read again")
    await _send(attack, attack.client, "GET", f"{path}/items?limit=1", 200)
    await _send(attack, attack.client, "DELETE", path, 200)


@row("40 background responses of one client", "another client's is made, too", gateway="stored", seconds=30)
async def background_share(attack: Attack) -> None:
    other = Client(attack.gateway.port, "second")
    body = {"model": HOSTILE, "input": "attack:slow", "background": True}
    made = [await _post(attack, other, PATHS["responses"], body, 200, 429) for _ in range(40)]
    mine = await _post(attack, attack.client, PATHS["responses"], body, 200)
    for client, reply in (*((other, each) for each in made), (attack.client, mine)):
        if reply.status == 200:
            await _post(attack, client, f"{PATHS['responses']}/{_body(reply)['id']}/cancel", {}, 200)


@row("500 references to items that are not there; 1,001 of them", "400 at once", gateway="stored")
async def stale_references(attack: Attack) -> None:
    for count in (500, 1_001):
        began = time.monotonic()
        items = [{"type": "item_reference", "id": f"msg_{number:024}_0"} for number in range(count)]
        await attack.ask("responses", "", 400, input=[*items, {"role": "user", "content": "attack:words"}])
        taken = time.monotonic() - began
        attack.note(f"after {taken:.1f} s")
        attack.want(taken < 3, f"an answer took {taken:.1f} s")


NEEDING: Final = (
    ("POST", CONVERSATIONS),
    ("GET", f"{PATHS['responses']}/resp_1"),
    ("DELETE", f"{CONVERSATIONS}/conv_1"),
)


async def _without_state(attack: Attack, hidden: Sequence[str], earlier: Sequence[Reply] = ()) -> None:
    """What needs state is 503 in time, the rest goes on; no client reads where the state is, or what is wrong."""
    replies = [await attack.ask(api, "attack:words", 200) for api in ("chat", "responses")] + [*earlier]
    for method, path in NEEDING:
        began = time.monotonic()
        replies.append(await _send(attack, attack.client, method, path, 503))
        taken = time.monotonic() - began
        attack.want(taken < 3, f"{method} {path} took {taken:.1f} s")
    replies.append(await attack.ask("responses", "attack:words", 503, previous_response_id="resp_1"))
    for words in hidden:
        attack.want(not any(words in reply.text for reply in replies), f"a client reads {words}")
    ready = await attack.client.get("/ready")
    attack.want(ready.status == 200 and _body(ready)["degraded"] == ["store"], f"/ready says {ready.text[-80:]}")
    attack.want("answered with 503" in attack.gateway.log(), "the start does not say it")


@row("the state file is damaged", "503 in time for what needs it; said at the start and in /ready", gateway="damaged")
async def damaged_state(attack: Attack) -> None:
    await _without_state(attack, ("damaged.db", "database", str(attack.gateway.folder)))


@row("the state server is away", "503 in time, without its address; the rest goes on", gateway="lost")
async def lost_state_server(attack: Attack) -> None:
    path = f"{PATHS['responses']}/resp_1"  # until it counts as an outage
    earlier = [await _send(attack, attack.client, "GET", path, 503) for _ in range(5)]
    await _without_state(attack, ("127.0.0.1:1", "ConnectionError", "Error 111"), earlier)
