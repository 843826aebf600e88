"""Access lines: one for each call, on the logger ``kiro_asgi.access``; and any record as one object of JSON.

A line holds names, counts and times, never a key, a prompt or an answer.
"""

from __future__ import annotations

import json
from codecs import getencoder
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from itertools import islice
from logging import INFO, Formatter, LogRecord, getLogger
from typing import Any, Final

from attrs import frozen

from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.events import Usage, UsageSource
from kiro_asgi.observers.base import CallFacts, EndFacts, Observer
from kiro_asgi.stages.usage import provenance
from kiro_asgi.visible import visible

_log = getLogger("kiro_asgi.access")

_MAX_FIELD: Final = 200
_MAX_LIST: Final = 1000
_MAX_MESSAGE: Final = 32_768
"""Characters of one value of a client's, of a list, and of a message or a traceback."""

_MAX_RESTS: Final = 8

_escaped = getencoder("unicode_escape")
"""Looked up at import: the first look-up opens a file, for which there may be no descriptor later."""

Rest = tuple[str, KiroAsgiError, float]
"""Name of a credential, the error for which it rests, and the seconds until it may be used."""


SERVED: Final = ContextVar("kiro_asgi.served", default="")
"""Id of the call that the running task serves, for records that do not name it; empty where it serves none."""

FIELDS_ATTRIBUTE: Final = "kiro_asgi_access"
"""Name of the attribute of an access line's record that has its fields."""


@frozen
class AccessLog(Observer):
    """Logs each call: its request, outcome, tokens and times, and which credentials rest."""

    _rests: Callable[[], Iterable[Rest]]

    @property
    def is_read(self) -> bool:
        """Whether the logger takes access lines."""
        return _log.isEnabledFor(INFO)

    def ended(self, call: CallFacts, end: EndFacts) -> None:
        """Write the line."""
        rests = tuple(islice(self._rests(), _MAX_RESTS))
        _log.info(
            "%s %s %s %s model=%s upstream=%s principal=%s error=%s%s %s%s%s %.0f ms %s",
            _one_line(call.method),
            _one_line(call.path),
            end.status or "-",
            end.outcome.value,
            _one_line(end.model) or "-",
            end.upstream or "-",
            _one_line(call.principal) or "-",
            f"{end.error}:{_one_line(end.code) or '-'}" if end.error else "-",
            f" notices={_one_line(','.join(end.notices))}" if end.notices else "",
            _tokens(end.usage),
            _pace(end),
            f" resting={_resting(rests)}" if rests else "",
            end.seconds * 1000,
            call.request_id,
            extra={"request_id": call.request_id, FIELDS_ATTRIBUTE: access_fields(call, end, rests)},
        )


def _tokens(usage: Usage | None) -> str:
    """Counts, and where each comes from."""
    return "tokens=-" if usage is None else f"tokens={usage.input_tokens}+{usage.output_tokens} {provenance(usage)}"


def _pace(end: EndFacts) -> str:
    """Time to the first content, and on average from one token to the next; nothing where there was no content."""
    if end.first_content is None:
        return ""
    each = end.seconds_per_token
    between = "" if each is None else f" per_token={each * 1000:.1f}ms"
    return f" first={end.first_content * 1000:.0f}ms{between}"


def _resting(rests: Iterable[Rest]) -> str:
    """Each cooldown, its cause and the time left."""
    return ",".join(f"{_one_line(name)}:{type(fault).__name__}:{left:.0f}s" for name, fault, left in rests)


def _one_line(text: str) -> str:
    """*text* as one word, without blanks and control characters, of bounded length: it can end no field of the line."""
    return _escaped(text[:_MAX_FIELD])[0].decode("ascii").replace(" ", r"\x20")


def access_fields(call: CallFacts, end: EndFacts, rests: Iterable[Rest] = ()) -> Mapping[str, Any]:
    """The facts of an access line by name; what is not known, or does not apply, is left out."""
    return {name: value for name, value in _fields(call, end, rests) if value is not None and value != ""}


def _fields(call: CallFacts, end: EndFacts, rests: Iterable[Rest]) -> Iterator[tuple[str, Any]]:
    yield "method", call.method[:_MAX_FIELD]
    yield "path", call.path[:_MAX_FIELD]
    yield "route", call.route
    yield "api", call.api
    yield "status", end.status or None
    yield "outcome", end.outcome.value
    yield "error", end.error
    yield "code", end.code[:_MAX_FIELD]
    yield "principal", call.principal[:_MAX_FIELD]
    yield "model", end.model[:_MAX_FIELD]
    yield "upstream", end.upstream
    yield "attempts", end.attempts
    if end.plan is not None:
        yield "upstream_model", end.plan.model[:_MAX_FIELD]
        yield "credential", end.plan.credential[:_MAX_FIELD]
        yield "streamed", end.plan.streamed
        yield "rules", ",".join(dict.fromkeys(end.plan.rules))[:_MAX_LIST]
    if (usage := end.usage) is not None:
        yield "input_tokens", usage.input_tokens
        yield "input_source", usage.input_source.value
        yield "output_tokens", usage.output_tokens
        yield "output_source", usage.output_source.value
        yield "thinking_tokens", usage.thinking_tokens
        if usage.cache_source is not None:
            yield "cache_read_tokens", usage.cache_read_tokens
            yield "cache_write_tokens", usage.cache_write_tokens
        if usage.metering is not None:
            counted = usage.metering.source is UsageSource.UPSTREAM
            yield "credits" if counted else "estimated_credits", round(usage.metering.amount, 6)
    yield "finish", end.finish
    yield "notices", ",".join(f"{code}:{times}" for code, times in end.notices.items())[:_MAX_LIST]
    yield "preparation_ms", _milliseconds(end.preparation)
    yield "first_ms", _milliseconds(end.first_content)
    yield "per_token_ms", _milliseconds(end.seconds_per_token)
    yield "duration_ms", _milliseconds(end.seconds)
    yield "resting", _resting(rests)


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)


def _call_of(record: LogRecord) -> str:
    """Id of the call that *record* is about; empty where it is about none."""
    return str(getattr(record, "request_id", "")) or SERVED.get()


class LineFormatter(Formatter):
    """Formats records as lines of text for people; a line of a traceback is indented, so that none looks like a record.

    No character reaches the log that cannot be seen: see `kiro_asgi.visible`.
    """

    def formatMessage(self, record: LogRecord) -> str:  # noqa: N802 - the name that logging calls
        """The line of a record without its traceback, with the id of the call that it is about at its end."""
        line, call = super().formatMessage(record), _call_of(record)
        return visible(line if call in line else f"{line} {call}")

    def format(self, record: LogRecord) -> str:
        """All lines of a record."""
        line, *traceback = super().format(record).split("\n")
        return "\n".join([line, *(f"    {visible(it)}" for it in traceback)])


class JsonFormatter(Formatter):
    """Formats each record as one line of JSON: ``time``, ``level``, ``logger``, and its content.

    An access line has `access_fields`; another record has its ``message``, and the ``exception`` with its traceback.
    Both have the ``request_id`` of the call that they are about.
    """

    def format(self, record: LogRecord) -> str:
        """Format *record*; no character of it but printable ASCII reaches the log."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        values = {"time": moment.replace("+00:00", "Z"), "level": record.levelname.lower(), "logger": record.name}
        values |= {"request_id": call} if (call := _call_of(record)) else {}
        values |= getattr(record, FIELDS_ATTRIBUTE, None) or self._words(record)
        return json.dumps(values, default=str)

    def _words(self, record: LogRecord) -> dict[str, str]:
        words = {"message": record.getMessage()[:_MAX_MESSAGE]}
        traceback = record.exc_text  # without secrets, where there were any
        if not traceback and record.exc_info and record.exc_info[0] is not None:
            traceback = self.formatException(record.exc_info)
        if traceback:
            words["exception"] = traceback[-_MAX_MESSAGE:]
        return words
