"""Every secret that an app holds, kept out of what leaves it: errors that clients see, and log lines."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterable, Iterator
from logging import Formatter, Logger, LogRecord, getLogger
from typing import Final
from urllib.parse import unquote

from attrs import define, field, frozen

from kiro_asgi.config import Settings
from kiro_asgi.config.leaves import leaves, stated_in, tables_in
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.net.credentials.pool import Credentials
from kiro_asgi.observers.logs import FIELDS_ATTRIBUTE
from kiro_asgi.redaction import Redactor

LOGGERS: Final = ("kiro_asgi", "kiro_asgi.access")
"""Names of the loggers that the package writes to."""


@define(eq=False)
class Secrets:
    """Secrets that must not leave the app, as they are now: tokens are renewed.  Used where something has failed."""

    _held: Callable[[], Iterable[str]] = field(repr=False)
    """All secrets there are now."""

    _known: tuple[tuple[str, ...], Redactor] = field(init=False, repr=False, factory=lambda: ((), Redactor.of(())))
    """The secrets that the redactor was made for, and the redactor."""

    @property
    def redactor(self) -> Redactor:
        """The redactor of all current secrets."""
        held, (known, redactor) = tuple(self._held()), self._known
        if held != known:
            redactor = Redactor.of(held)
            self._known = held, redactor
        return redactor

    def hide(self, text: str) -> str:
        """*text* without secrets."""
        return self.redactor.hide(text)

    def hide_in(self, data: bytes) -> bytes:
        """The same for bytes."""
        return self.redactor.hide_in(data)

    def shown(self, error: KiroAsgiError) -> KiroAsgiError:
        """*error* as it may be shown."""
        words = tuple(map(self.hide, (error.message, error.code, error.param)))
        if words == (error.message, error.code, error.param):
            return error
        shown = copy.copy(error)
        shown.message, shown.code, shown.param = words
        return shown


def secrets_in(settings: Settings) -> Iterator[str]:
    """The secrets that stand in settings and that others could quote: of a URL its user and password, of a header its
    value; no hash."""
    known = leaves(type(settings), tables_in(settings))
    for path, value in stated_in(settings).items():
        if known[path].secret:
            for text in value if isinstance(value, tuple) else (value,):
                yield from _parts(known[path].name, text)


def held_in(given: tuple[str, ...], credentials: Iterable[Credentials]) -> Iterator[str]:
    """All secrets: those of the settings, and the tokens that there are now."""
    yield from given
    for each in credentials:
        yield from each.secrets


def _parts(name: str, text: str) -> Iterator[str]:
    match name:
        case "proxy" | "url":
            user = text.partition("://")[2].rpartition("@")[0]
            yield from (unquote(user), user, unquote(user.partition(":")[2]))
        case "hash":  # of a client's key: it opens nothing, nobody is sent it, and there may be very many
            return
        case "headers":
            yield text.partition("=")[2]
        case _:
            yield text


@frozen(eq=False)
class _Filter:
    """Removes an app's secrets from log records, for as long as the app exists."""

    _secrets: weakref.ref[Secrets]

    def filter(self, record: LogRecord) -> bool:
        """Change what must be changed; no record is lost."""
        secrets = self._secrets()
        if secrets is None:
            return True
        message = record.getMessage()
        if (hidden := secrets.hide(message)) != message:
            record.msg, record.args = hidden, ()
            if (fields := getattr(record, FIELDS_ATTRIBUTE, None)) is not None:  # the same texts, as separate fields
                shown = {name: secrets.hide(it) if isinstance(it, str) else it for name, it in fields.items()}
                setattr(record, FIELDS_ATTRIBUTE, shown)
        if record.exc_info and record.exc_info[0] is not None:
            text = Formatter().formatException(record.exc_info)
            if (hidden := secrets.hide(text)) != text:
                record.exc_text, record.exc_info = hidden, None
        return True


def hide_in_logs(secrets: Secrets) -> None:
    """Keep *secrets* out of what the package logs, until they are gone themselves."""
    keeper = _Filter(weakref.ref(secrets))
    for logger in map(getLogger, LOGGERS):
        logger.addFilter(keeper)
        weakref.finalize(secrets, _forget, logger, keeper).atexit = False


def _forget(logger: Logger, keeper: _Filter) -> None:
    logger.removeFilter(keeper)
