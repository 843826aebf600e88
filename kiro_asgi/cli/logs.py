"""Logging of the process that serves: to standard error, without secrets, and bounded in what others can cause."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from time import monotonic
from typing import Final

from attrs import define, field

from kiro_asgi.failures.texts import redacted
from kiro_asgi.observers.logs import JsonFormatter, LineFormatter

LINES: Final = 16
"""Warnings and errors of one kind in each `PERIOD` that are written, all of them."""

PERIOD: Final = 60.0
"""Seconds after which they are counted anew."""

_KINDS: Final = 256
"""Kinds that are counted each on its own; further ones count as one."""

_OURS: Final = "kiro_asgi"

Kind = tuple[str, int, str, str]
"""Logger, level, message without arguments, class of the exception."""


def configure(level: str, form: str, access_log: bool) -> None:
    """Log to standard error; the package itself never configures logging.

    Args:
        level: The least one that is written, also of what libraries log.
        form: ``json`` or ``text``.
        access_log: Whether there is a line for each call.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(
        JsonFormatter() if form == "json" else LineFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    )
    handler.addFilter(Bounded())
    handler.addFilter(without_secrets)
    logging.basicConfig(handlers=[handler], level=level.upper())
    logging.getLogger("kiro_asgi.access").setLevel(logging.INFO if access_log else logging.WARNING)


_SECRET_HEADERS: Final = (
    "(?:proxy-)?authorization",
    "(?:set-)?cookie",
    "(?:x-(?:goog-)?)?api-key",
    "x-amz-security-token",
)

_HEADER: Final = re.compile(rf"""(b?['"](?:{"|".join(_SECRET_HEADERS)})['"], ?b?)(?:'[^']*'|"[^"]*")""", re.I | re.A)
"""Such a header as Python shows it in a list of headers: so does httpcore log those of an answer."""


def without_secrets(record: logging.LogRecord) -> bool:
    """Take secrets out of *record*, whoever logs it: those that an app holds, and what looks like one.

    Filters of a logger do not see what libraries log, so those of the package's own are asked here.
    """
    logging.getLogger(_OURS).filter(record)
    if record.name.partition(".")[0] != _OURS:
        message = record.getMessage()
        hidden = redacted(_HEADER.sub(r"\1'[redacted]'", message))
        if hidden != message:
            record.msg, record.args = hidden, ()
    return True


@define(eq=False)
class Bounded:
    """Lets the first `LINES` warnings of a kind through in each `PERIOD`, then those whose number is a power of two.

    So a flood of clients, of which each causes a line, causes few, and the last one tells how many there were.
    """

    _clock: Callable[[], float] = monotonic
    _counts: dict[Kind, int] = field(init=False, factory=dict)
    _until: float = field(init=False, default=0.0)
    _guard: threading.Lock = field(init=False, factory=threading.Lock)

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether *record* is written."""
        if record.levelno < logging.WARNING:
            return True
        count = self._counted(_kind(record))
        if count > LINES and count.bit_count() == 1:
            message = f"{record.getMessage()} (number {count} of its kind in a minute; most are left out)"
            record.msg, record.args = message, ()
        return count <= LINES or count.bit_count() == 1

    def _counted(self, kind: Kind) -> int:
        with self._guard:
            now = self._clock()
            if now >= self._until:
                self._counts.clear()
                self._until = now + PERIOD
            if len(self._counts) >= _KINDS and kind not in self._counts:
                kind = ("", 0, "", "")
            self._counts[kind] = self._counts.get(kind, 0) + 1
            return self._counts[kind]


def _kind(record: logging.LogRecord) -> Kind:
    failure = record.exc_info[0] if record.exc_info else None
    return record.name, record.levelno, str(record.msg), failure.__name__ if failure else ""
