"""The rows about embeddings: requests that are large, and answers that are none."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from kiro_asgi.limits import EMBEDDING_INPUTS, EMBEDDING_TOKENS
from tests.attack.client import Client, Reply, reset
from tests.attack.hostile import EMBEDDINGS, RAW
from tests.attack.rows import HOSTILE, Attack, row
from tests.attack.shapes import MIB

PATH: Final = "/v1/embeddings"

RIGHT: Final = ("words", "many-numbers", "many-letters")
WRONG: Final = {*EMBEDDINGS} - {*RIGHT}
"""Answers of which nothing may reach a client."""


async def _embed(attack: Attack, given: Any, *statuses: int, model: str = HOSTILE, **more: Any) -> Reply:
    body = given if isinstance(given, bytes) else json.dumps({"model": model, "input": given, **more}).encode()
    return attack.typed(await attack.client.send(attack.client.request(PATH, body)), *statuses)


@row("answers with fewer, more, uneven, endless, torn and infinite vectors", "502, and no vector of them")
async def embedding_answers(attack: Attack) -> None:
    for name in sorted(WRONG):
        for form in ("float", "base64"):
            texts = [f"attack:{name}", "b", "c"]
            reply = await _embed(attack, texts, 502, 504, encoding_format=form)
            attack.want('"embedding"' not in reply.text, f"a vector of {name}")
    attack.want("Traceback" not in attack.gateway.log(), "a traceback in the log")


@row("requests with 2,049 texts, 10 MiB of one, 300,001 tokens, a million lists", "200, or 400 with the place")
async def embedding_inputs(attack: Attack) -> None:
    await _embed(attack, ["a"] * EMBEDDING_INPUTS, 200)
    await _embed(attack, ["a"] * (EMBEDDING_INPUTS + 1), 400)
    await _embed(attack, "a" * (10 * MIB), 200)
    await _embed(attack, list(range(EMBEDDING_TOKENS + 1)), 400)
    await _embed(attack, b'{"model":"hostile/m","input":' + b"[" * 1_000_000, 400)
    for odd in ({}, [[]], [["a"]], [{}], ["a", 1], [1, "a"], [1e300], [-1], [True], "", [""], None, 7):
        await _embed(attack, odd, 400)
    for odd in (0, -1, 1e300, "a", 10**30, [1], True):
        await _embed(attack, "a", 400, 502, dimensions=odd)


@row("100 requests at once with 2,048 texts each", "200, and others notice nothing", seconds=60.0)
async def embedding_floods(attack: Attack) -> None:
    await _flood(attack, 100, ["a word or two"] * EMBEDDING_INPUTS, 200)


@row(
    "50 requests at once for 256 vectors of 1,536 numbers, as decimals and as base64, in either form",
    "200, 503 where there is no room, or 504, and others notice nothing",
    gateway="small",
    seconds=60.0,
)
async def embedding_sizes(attack: Attack) -> None:
    for name in ("many-numbers", "many-letters"):
        for form in ("float", "base64"):
            await _flood(attack, 50, [f"attack:{name}", *["a"] * 255], 200, 503, 504, encoding_format=form)


@row("services that give no answer, or bytes without end", "502 or 504 in time", seconds=30.0)
async def embedding_silence(attack: Attack) -> None:
    async with asyncio.TaskGroup() as group:
        for name in RAW:
            for _ in range(10):
                group.create_task(_embed(attack, [f"attack:{name}"], 502, 504))


@row("one key's 50 requests for large vectors, and one that never reads them", "another's are made", gateway="small")
async def embedding_isolation(attack: Attack) -> None:
    texts = ["attack:many-numbers", *["a"] * 255]
    greedy = [asyncio.create_task(_embed(attack, texts, 200, 503, encoding_format="float")) for _ in range(50)]
    body = json.dumps({"model": HOSTILE, "input": texts, "encoding_format": "float"}).encode()
    _, writer = await attack.client.open(attack.client.request(PATH, body))
    other = Client(attack.gateway.port, "second")
    while not all(task.done() for task in greedy):
        modest = json.dumps({"model": HOSTILE, "input": ["a", "b"]}).encode()
        attack.typed(await other.send(other.request(PATH, modest)), 200)
    reset(writer)
    await asyncio.gather(*greedy)


async def _flood(attack: Attack, count: int, texts: list[str], *statuses: int, **more: Any) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(_embed(attack, texts, *statuses, **more))
