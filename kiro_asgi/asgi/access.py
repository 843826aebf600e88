"""The access log: one line a request, and the only place where it is written."""

from __future__ import annotations

from codecs import getencoder
from collections.abc import Iterable
from itertools import islice
from logging import INFO, getLogger

from kiro_asgi.asgi.call import Call
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.stages.usage import provenance

__all__ = ["log_access"]

_log = getLogger("kiro_asgi.access")

_MAX_FIELD = 200
_MAX_RESTS = 8

_escaped = getencoder("unicode_escape")
"""Found now: the first look-up opens a file, for which there may be no descriptor later."""


Rest = tuple[str, KiroAsgiError, float]
"""Name of a credential, what it rests for, and the seconds until somebody may ask with it."""


def log_access(call: Call, started: float, now: float, rests: Iterable[Rest]) -> None:
    """Write down what was asked, what became of it, what it took, and which credentials rest; never a key, a prompt
    or an answer.  *started* and *now* are by the clock of `Call.span`."""
    if not _log.isEnabledFor(INFO):
        return
    _log.info(
        "%s %s %s %s model=%s upstream=%s principal=%s error=%s %s%s%s %.0f ms %s",
        _plain(call.scope["method"]),
        _plain(call.scope["path"]),
        call.status or "-",
        call.outcome or "-",
        _plain(call.model) or "-",
        call.upstream or "-",
        _plain(call.principal) or "-",
        _error(call),
        _usage(call),
        _pace(call, started),
        _resting(rests),
        (now - started) * 1000,
        call.request_id,
    )


def _error(call: Call) -> str:
    if call.failure is None:
        return "-"
    return f"{type(call.failure).__name__}:{_plain(call.failure.code) or '-'}"


def _usage(call: Call) -> str:
    """Counts, and where each comes from."""
    usage = call.usage
    return "tokens=-" if usage is None else f"tokens={usage.input_tokens}+{usage.output_tokens} {provenance(usage)}"


def _pace(call: Call, started: float) -> str:
    """Time to the first content, and on average from one token to the next; nothing where there was no content."""
    if call.span is None:
        return ""
    first, last = call.span
    tokens = call.usage.output_tokens if call.usage is not None else 0
    between = f" per_token={(last - first) / (tokens - 1) * 1000:.1f}ms" if tokens > 1 and last > first else ""
    return f" first={(first - started) * 1000:.0f}ms{between}"


def _resting(rests: Iterable[Rest]) -> str:
    """What rests, why and for how long; nothing where nothing does."""
    told = ",".join(
        f"{_plain(name)}:{type(fault).__name__}:{left:.0f}s" for name, fault, left in islice(rests, _MAX_RESTS)
    )
    return f" resting={told}" if told else ""


def _plain(text: str) -> str:
    """*text* on one line, without control characters, of bounded length."""
    return _escaped(text[:_MAX_FIELD])[0].decode("ascii")
