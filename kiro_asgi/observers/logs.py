"""Access lines: one for each call, on the logger ``kiro_asgi.access``.

A line holds names, counts and times, never a key, a prompt or an answer.
"""

from __future__ import annotations

from codecs import getencoder
from collections.abc import Callable, Iterable
from itertools import islice
from logging import INFO, getLogger
from typing import Final

from attrs import frozen

from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.events import Usage
from kiro_asgi.observers.base import CallFacts, EndFacts, Observer
from kiro_asgi.stages.usage import provenance

__all__ = ["AccessLog", "Rest"]

_log = getLogger("kiro_asgi.access")

_MAX_FIELD: Final = 200
_MAX_RESTS: Final = 8

_escaped = getencoder("unicode_escape")
"""Found now: the first look-up opens a file, for which there may be no descriptor later."""

Rest = tuple[str, KiroAsgiError, float]
"""Name of a credential, what it rests for, and the seconds until somebody may ask with it."""


@frozen
class AccessLog(Observer):
    """Writes down what was asked, what became of it, what it took, and which credentials rest."""

    _rests: Callable[[], Iterable[Rest]]

    @property
    def is_read(self) -> bool:
        """Whether a line would go anywhere."""
        return _log.isEnabledFor(INFO)

    def ended(self, call: CallFacts, end: EndFacts) -> None:
        """Write the line."""
        _log.info(
            "%s %s %s %s model=%s upstream=%s principal=%s error=%s %s%s%s %.0f ms %s",
            _one_line(call.method),
            _one_line(call.path),
            end.status or "-",
            end.outcome.value,
            _one_line(end.model) or "-",
            end.upstream or "-",
            _one_line(call.principal) or "-",
            f"{end.error}:{_one_line(end.code) or '-'}" if end.error else "-",
            _tokens(end.usage),
            _pace(end),
            _resting(self._rests()),
            end.seconds * 1000,
            call.request_id,
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
    """Field of the line with each cooldown, its cause and the time left; empty where there is none."""
    told = ",".join(
        f"{_one_line(name)}:{type(fault).__name__}:{left:.0f}s" for name, fault, left in islice(rests, _MAX_RESTS)
    )
    return f" resting={told}" if told else ""


def _one_line(text: str) -> str:
    """*text* on one line, without control characters, of bounded length."""
    return _escaped(text[:_MAX_FIELD])[0].decode("ascii")
