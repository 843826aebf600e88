"""What a process of ours does with memory that it no longer needs."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import anyio

__all__ = ["give_back_blocks", "keep_what_is_there", "tidy_up"]

_LARGE_BLOCK: Final = 1024 * 1024
"""Bytes of memory that go back to the system as soon as they are free."""

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
"""Parameters of glibc's ``mallopt``."""

_FULL_PASS: Final = 60
"""Collections of young objects, of 7,000 each, between two of all objects; Python's own 10 are 70,000, as many as some
hundred requests hold."""


def _c_library(function: str, *arguments: int) -> None:
    """Call a function that glibc has, and others have not."""
    if sys.platform == "linux":
        with suppress(AttributeError):
            getattr(ctypes.CDLL(None), function)(*arguments)


def give_back_blocks() -> None:
    """Have large blocks of memory given back to the system when they are free, where the C library is glibc.

    By itself it takes the largest block that was ever freed for one that will be wanted again, up to 32 MiB: after a
    few large requests, 200 MiB would stay.  Source: mallopt(3), on the dynamic threshold.
    """
    _c_library("mallopt", _M_MMAP_THRESHOLD, _LARGE_BLOCK)
    _c_library("mallopt", _M_TRIM_THRESHOLD, 2 * _LARGE_BLOCK)


def keep_what_is_there() -> None:
    """Let the garbage collector leave alone what is there now, and look at all the rest less often.

    70,000 objects stay to the end, and to look at them again and again takes 20 to 50 ms each time; so it does for the
    objects of 500 requests.
    """
    gc.collect()
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, _FULL_PASS)


async def tidy_up(is_busy: Callable[[], bool], *, every: float = 1.0) -> None:
    """Collect garbage and give back free memory when a crowd has gone, as long as this is not cancelled.

    Then there is little to look at.  The C library by itself gives back only what is free at the end of its memory:
    after 500 clients that stayed for a while, 40 MiB would stay.  Source: malloc_trim(3).

    Args:
        is_busy: Whether much is going on.
        every: Seconds between two looks at that.
    """
    was_busy = False
    while True:
        await anyio.sleep(every)
        if is_busy():
            was_busy = True
        elif was_busy:
            was_busy = False
            gc.collect()
            _c_library("malloc_trim", 0)
