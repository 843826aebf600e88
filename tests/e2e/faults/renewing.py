"""Processes that use one token file: until they are killed, or for a while."""

from __future__ import annotations

import os
import sys
import time

import anyio

from kiro_asgi.config import KiroSettings
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.net.credentials.pool import Clocks, Credentials
from kiro_asgi.net.transport import Transport
from kiro_asgi.upstreams.access import SignIns
from kiro_asgi.upstreams.kiro.tokens import KiroVendor

SECONDS = 2.5

TRANSPORT = Transport()
"""Made once, before the children are forked: it reads the system's certificates."""


def credentials(path: str, url: str, clocks: Clocks) -> Credentials:
    return Credentials.create(
        SignIns(KiroVendor(KiroSettings(auth_endpoint=url)), KiroSettings(credentials_file=path)), TRANSPORT, clocks
    )


def renew_for_ever(path: str, url: str) -> None:
    """Live in a time of its own, in which two hours pass between two looks: each look is a renewal."""
    ahead = 0.0

    async def work() -> None:
        nonlocal ahead
        shared = credentials(path, url, Clocks(lambda: ahead, lambda: time.time() + ahead))
        while True:
            ahead += 7200
            await shared.get()

    anyio.run(work)


def die_again_and_again(path: str, url: str) -> None:
    """For every line that is read, fork a child that renews for ever, and tell its number; then wait for its end."""
    anyio.run(credentials(path, url, Clocks()).get)  # so that what is imported late is there before the first fork
    for _ in sys.stdin:
        child = os.fork()
        if not child:
            renew_for_ever(path, url)
        print(child, flush=True)
        os.waitpid(child, 0)


def use_for_a_while(path: str, url: str) -> None:
    """Take the token every few milliseconds; tell how often there was one and how often not."""

    async def work() -> tuple[int, int]:
        shared, served, refused = credentials(path, url, Clocks()), 0, 0
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            try:
                await shared.get()
                served += 1
            except KiroAsgiError:
                refused += 1
            await anyio.sleep(0.005)
        return served, refused

    print(*anyio.run(work))


if __name__ == "__main__":
    {"die": die_again_and_again, "use": use_for_a_while}[sys.argv[1]](*sys.argv[2:])
