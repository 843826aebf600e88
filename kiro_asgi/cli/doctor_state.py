"""Check of the place where gateways keep what outlives a request: a file, or a server that several of them share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from secrets import token_hex
from time import perf_counter, time
from typing import Any, Final
from urllib.parse import urlsplit

import anyio

from kiro_asgi.asgi.providers import new_store
from kiro_asgi.cli.doctor_checks import SKEW, Finding, Verdict, failed, span
from kiro_asgi.config import Settings
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.state.base import Store, scoped

_NAME: Final = "state"

_PATIENCE: Final = 5.0
"""Seconds for all of it."""

_LOOK: Final = 0.02
"""Seconds between two looks for what was written."""

_TTL: Final = 60.0
"""Seconds that a trial value is kept if nobody takes it away."""

_ADVICE: Final[Mapping[str, str]] = {
    "sqlite": "see that this user may write the file and its folder, and that the disk has room",
    "valkey": "see that the server runs, and that state.url has its address, name and password",
}


async def state(settings: Settings) -> Finding | None:
    """Write a value as one gateway and read it as another, and lock it twice; ``None`` where all is kept in memory."""
    engine, place = settings.state.engine, _place(settings)
    if not settings.state.is_shared:
        return None
    try:
        one, other = new_store(settings, Clocks()), new_store(settings, Clocks())
        with anyio.fail_after(_PATIENCE):
            started = perf_counter()
            await _try(one, other)
            taken = perf_counter() - started
            odd = [] if engine == "sqlite" else await _oddities(settings)
    except TimeoutError:
        words = f"{place}: what one gateway writes, another does not find within {_PATIENCE:g} s"
        return Finding(_NAME, Verdict.FAIL, words, _ADVICE[engine])
    except KiroAsgiError as error:
        found = failed(_NAME, error)
        return Finding(_NAME, Verdict.FAIL, f"{place}: {found.detail}", _ADVICE[engine])
    words = f"{place}: written, locked, and read by another in {taken * 1000:.0f} ms"
    if not odd:
        return Finding(_NAME, Verdict.OK, words)
    return Finding(_NAME, Verdict.WARN, "; ".join((words, *(what for what, _ in odd))), "; ".join(do for _, do in odd))


def _place(settings: Settings) -> str:
    """The file, or the server without what its address holds of secrets."""
    if settings.state.engine == "sqlite":
        return settings.state.path
    url = urlsplit(settings.state.url)
    return url.netloc.rpartition("@")[2] or url.path


async def _try(one: Store, other: Store) -> None:
    key, value = scoped("", "doctor", token_hex(16)), token_hex(16).encode()
    try:
        async with one.lock(key):
            await one.set(key, value, _TTL)
        async with other.lock(key):
            while await other.get(key) != value:  # noqa: ASYNC110 - nobody tells
                await anyio.sleep(_LOOK)
            await other.delete(key)
    finally:
        await one.aclose()
        await other.aclose()


async def _oddities(settings: Settings) -> list[tuple[str, str]]:
    """What is to be said of a server, and what to do about it."""
    from kiro_asgi.state.valkey_server import ValkeyServer

    server = ValkeyServer(settings.state.url)
    try:
        if server.is_cluster:  # has a clock and a policy for each of its servers
            return []
        (seconds, _), memory = await server.ask(lambda client: (client.time(), client.info("memory")))
        return [*_odd(seconds - time(), memory)]
    finally:
        await server.aclose()


def _odd(ahead: float, memory: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if abs(ahead) > SKEW:
        yield (
            f"its clock is {span(ahead)} {'ahead of' if ahead > 0 else 'behind'} ours",
            "set the clocks, by which days and months of limits begin",
        )
    policy = str(memory.get("maxmemory_policy", ""))
    if policy.startswith("allkeys"):
        yield (
            f"its policy {policy} drops limits and usage where its memory is full",
            "set maxmemory-policy to volatile-ttl",
        )
