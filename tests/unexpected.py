"""Bugs that a test meets, though all that it compares is right: exceptions in a log.

An exception after a complete answer changes no status and no byte.  It is logged, by the gateway, the event loop or the
server, and no client sees it.  So every test is watched: a record of an error with a traceback fails it, and so does a
traceback in what a process wrote that a test has started.

A test that causes one on purpose says so, with words of each: ``@pytest.mark.unexpected("LookupError")``.
"""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from attrs import frozen

__all__ = ["MARKER", "Bugs", "first_bug", "look_for_bugs", "watched"]

MARKER: Final = "unexpected"

_HINT: Final = (
    "The test before may have left it behind, where that ended early. If it is caused on purpose, mark the test: "
    '@pytest.mark.unexpected("words of it")'
)

_SHOWN: Final = 4000
"""Characters at the end of a traceback that are shown."""

_WITHOUT_TRACEBACK: Final = "work in the background failed"
"""A bug's record that has none, as it may quote a request."""

_LOGGER: Final = "tests.unexpected"

_BUG: Final = re.compile(
    r"Traceback \(most recent call last\)|Exception ignored in|exception was never retrieved|was never awaited"
    rf"|{_WITHOUT_TRACEBACK}"
)
"""Beginnings of what an interpreter and a log write of a bug, also within a line of JSON."""

_AROUND: Final = (200, 3000)
"""Characters before and after that are shown."""


@frozen
class Bugs:
    """Records of bugs, as text."""

    found: list[str]

    def take(self) -> list[str]:
        """Those since the last time."""
        taken = self.found[:]
        self.found.clear()
        return taken

    def check(self, allowed: Sequence[str]) -> None:
        """Fail for each one that has none of the *allowed* words, and for words that none has."""
        taken = self.take()
        bugs = [bug for bug in taken if not any(words in bug for words in allowed)]
        if bugs:
            raise AssertionError("\n\n".join(["a bug was logged, whatever the test has compared:", *bugs, _HINT]))
        idle = [words for words in allowed if not any(words in bug for bug in taken)]
        assert not idle, f"marked with {MARKER}, but nothing unexpected was logged with the words {idle}"


class _Watch(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.bugs = Bugs([])

    def emit(self, record: logging.LogRecord) -> None:
        # What has hidden a secret in a traceback leaves its text alone.
        if (
            record.exc_info
            or record.exc_text
            or record.name == _LOGGER
            or record.getMessage().startswith(_WITHOUT_TRACEBACK)
        ):
            self.bugs.found.append("\n".join(_lines(record)))


def _lines(record: logging.LogRecord) -> Iterator[str]:
    request = getattr(record, "request_id", "")
    yield f"{record.name} {record.levelname}: {record.getMessage()}" + (f" (request {request})" if request else "")
    if isinstance(record.exc_info, tuple) and record.exc_info[0] is not None:
        yield "".join(traceback.format_exception(*record.exc_info))[-_SHOWN:].rstrip()


@contextmanager
def watched() -> Iterator[Bugs]:
    """What is logged in this process until the end of the block, by whatever logger."""
    watch = _Watch()
    root = logging.getLogger()
    root.addHandler(watch)
    try:
        yield watch.bugs
    finally:
        root.removeHandler(watch)


def first_bug(text: str) -> str:
    """The first bug that a process has written of in *text*, with what stands around it; empty where there is none."""
    found = _BUG.search(text)
    before, after = _AROUND
    return "" if found is None else text[max(0, found.start() - before) : found.start() + after]


def look_for_bugs(text: str, process: str) -> None:
    """Have the test that is watched fail where *process* has written of a bug in *text*."""
    if bug := first_bug(text):
        logging.getLogger(_LOGGER).error("%s wrote:\n%s", process, bug)
