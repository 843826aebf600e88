"""What `kiro-asgi serve` asks of the system, so that large requests and slow clients leave no memory taken."""

from __future__ import annotations

import gc
import platform
import socket
import subprocess
import sys
import weakref

import anyio
import pytest

from kiro_asgi.cli.standalone import UNSENT, bind, collect_after_load, limit_unsent

MIB = 1024 * 1024

HELD = f"""
import sys
from pathlib import Path
from kiro_asgi.cli.standalone import return_large_blocks

def resident():
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmRSS"))

if sys.argv[1] == "given-back":
    return_large_blocks()
before = resident()
for _ in range(3):
    block = b"x" * (30 * {MIB})
    above = b"x" * 100_000  # what comes after a large block, and stays when that is free
    del block
print(resident() - before)
"""
"""Prints what stays of three large blocks."""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
@pytest.mark.parametrize(("how", "stays"), [("given-back", False), ("as-usual", True)])
def test_large_blocks_go_back_to_the_system(how, stays):
    """The C library alone keeps one, for it takes it for the usual size."""
    found = subprocess.run([sys.executable, "-c", HELD, how], capture_output=True, text=True, check=True)

    assert (int(found.stdout) > 16 * MIB) is stays


@pytest.mark.skipif(not hasattr(socket, "TCP_NOTSENT_LOWAT"), reason="the system has no such limit")
def test_little_is_held_for_a_client_that_never_reads():
    """A connection that is accepted takes no more than that limit, beside what the client's own system takes."""
    listener = bind("127.0.0.1", 0)
    limit_unsent(listener)
    with listener, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(listener.getsockname())
        accepted, _ = listener.accept()
        with accepted:
            accepted.setblocking(False)
            taken = 0
            with pytest.raises(BlockingIOError):
                while taken < 4 * MIB:
                    taken += accepted.send(bytes(16 * 1024))

    assert taken < 2 * UNSENT


class Circle:
    """Holds itself."""

    def __init__(self) -> None:
        self.me = self


@pytest.mark.anyio
@pytest.mark.parametrize("crowd", [True, False], ids=["crowd", "calm"])
async def test_what_a_crowd_leaves_is_collected_when_it_has_gone(crowd):
    """Not while it is there, when a look at all objects takes long, and not again and again."""
    busy, looks = crowd, 0
    gc.collect()
    gc.disable()
    left = weakref.ref(Circle())

    def is_busy() -> bool:
        nonlocal looks
        looks += 1
        return busy

    async def looked(times: int) -> None:
        while looks < times:  # noqa: ASYNC110 - what looks knows nothing of us
            await anyio.sleep(0.001)

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: collect_after_load(is_busy, every=0.001))
            with anyio.fail_after(5):
                await looked(3)
                assert left() is not None
                busy = False
                await looked(looks + 3)
            assert (left() is None) is crowd
            group.cancel_scope.cancel()
    finally:
        gc.enable()
