"""Answers that a client wants for nothing: each is begun, and none reaches its end."""

from __future__ import annotations

import asyncio
import json
import secrets
from typing import Any, Final

from attrs import evolve

from tests.attack.client import Client, Reply
from tests.attack.gateway import EVICTING
from tests.attack.rows import HOSTILE, KIRO, Attack, row
from tests.valkey_server import program, running

SPENDER: Final = "spender"
"""The key of a client that may have 50,000 tokens a day; each answer here has more."""

TRIES: Final = 4
NOT_JSON: Final = {
    "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}
}
_FUNCTION: Final = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
NO_CALL: Final = {"tools": [_FUNCTION], "tool_choice": "required"}


def _spender(attack: Attack, key: str) -> Client:
    return evolve(attack.client, key=key)


async def _asked(attack: Attack, key: str, **more: Any) -> None:
    """Ask until the budget is spent, which has to be soon."""
    client = _spender(attack, key)
    statuses = [(await client.ask("chat", "attack:text=1", model=HOSTILE, **more)).status for _ in range(TRIES)]
    attack.note(" ".join(map(str, statuses)))
    attack.want(statuses[1:] == [402] * (TRIES - 1), f"statuses {statuses}: the budget was not spent by the first")


@row("json_schema that no answer fits, 256,000 tokens each", "402 from the second on", gateway="paid", seconds=30)
async def missed_schema(attack: Attack) -> None:
    await _asked(attack, f"{SPENDER}1", **NOT_JSON)


@row("tool_choice that no answer keeps, 256,000 tokens each", "402 from the second on", gateway="paid", seconds=30)
async def missed_call(attack: Attack) -> None:
    await _asked(attack, f"{SPENDER}2", **NO_CALL)


async def _left(attack: Attack, key: str, prompt: str, model: str, size: int, **more: Any) -> None:
    """Leave each answer after *size* bytes."""
    client, statuses = _spender(attack, key), []
    for _ in range(TRIES):
        reply = Reply()
        asking = client.asking("chat", prompt, model=model, stream=True, **more)
        reader, writer = await client.open(asking)
        while reply.size < size and (data := await reader.read(65_536)):
            reply.add(data)
        writer.close()
        statuses.append(reply.status)
    attack.note(" ".join(map(str, statuses)))
    attack.want(statuses[-2:] == [402] * 2, f"statuses {statuses}: whoever leaves pays too little")


@row("clients that leave after 200,000 tokens, before the end", "402 in the end", gateway="paid", seconds=30)
async def left_before_the_end(attack: Attack) -> None:
    await _left(attack, f"{SPENDER}3", "attack:text=16", HOSTILE, 900_000)
    await _left(attack, f"{SPENDER}4", "attack:text=16", KIRO, 900_000)


EXPENSIVE: Final = "expensive"


@row(
    "names of other models beside the one that a key may ask for", "404 or 400, or not sent", gateway="paid", seconds=20
)
async def other_models(attack: Attack) -> None:
    client = _spender(attack, "narrow")
    named: dict[str, Any] = {
        "fallbacks": [EXPENSIVE],
        "models": [EXPENSIVE],
        "route": EXPENSIVE,
        "extra_body": {"model": EXPENSIVE},
        "plugins": [{"id": "x", "model": EXPENSIVE}],
    }
    for name, value in named.items():
        reply = await client.ask("chat", "attack:words", model="hostile/cheap", **{name: value})
        attack.typed(reply, 404)
    said = '"messages":[{"role":"user","content":"attack:words"}]'
    twice = client.request("/v1/chat/completions", f'{{"model":"{EXPENSIVE}","model":"hostile/cheap",{said}}}'.encode())
    attack.typed(await client.send(twice), 400)


@row(
    "60 conversations of 400 kB on a Valkey server of 12 MB, behind a spent budget",
    "402 as before",
    gateway="evicting",
    seconds=90,
)
async def stored_over_budgets(attack: Attack) -> None:
    if program() is None:
        attack.note("no valkey-server and no redis-server is installed")
        return
    with running(EVICTING, "--maxmemory", "12mb", "--maxmemory-policy", "volatile-ttl"):
        client = _spender(attack, f"{SPENDER}5")
        text = secrets.token_urlsafe(300_000)  # what repeats itself is stored as little
        items = json.dumps({"items": [{"role": "user", "content": text}]}).encode()
        storing = client.request("/v1/conversations", items)
        while (await client.send(storing)).status != 200:  # noqa: ASYNC110 - it leaves a server alone that was away
            await asyncio.sleep(0.5)
        spent: list[int] = []
        for _ in range(4):
            spent += [(await client.ask("chat", "attack:text=1", model=HOSTILE)).status for _ in range(3)]
            for _ in range(60):
                await client.send(storing)
        attack.note(" ".join(map(str, spent)))
    again = spent[1:]
    attack.want(again == [402] * len(again), f"statuses {spent}: what was stored has made the budget whole again")
