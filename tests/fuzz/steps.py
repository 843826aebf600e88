"""Count steps fast enough to do it a thousand times a second.

A step is a call, of a Python function (each resumption of a generator is one) or of one that is built in.  The
profiler of the standard library counts them in C; `tests.growth.steps`, which counts lines, is twenty times slower.
"""

from __future__ import annotations

import cProfile
from collections.abc import Callable
from typing import Any, Final

__all__ = ["calls"]

INSTRUMENTS: Final = "atheris"
"""What atheris puts into the code that it watches is no step."""


def calls(work: Callable[[], Any]) -> tuple[int, Any]:
    """Steps that *work* takes, and its result."""
    profile = cProfile.Profile(builtins=True)
    profile.enable()
    try:
        result = work()
    finally:
        profile.disable()
    # getstats, which cProfile takes from _lsprof, gives what was counted without the reports' bookkeeping.
    entries: list[Any] = profile.getstats()  # type: ignore[attr-defined]
    return sum(entry.callcount for entry in entries if INSTRUMENTS not in str(entry.code)), result
