"""Errors in every API: how a request is refused, whose fault an error is, and headers about trying again.

The official SDKs try 408, 409, 429 and everything from 500 on again, unless ``x-should-retry`` says otherwise.  They
prefer ``retry-after-ms`` to ``retry-after``, and those in Python ignore more than 120 seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import ceil
from typing import Final

from kiro_asgi.errors import (
    BodyTimeout,
    ConfigError,
    ContextTooLong,
    KiroAsgiError,
    LimitSpent,
    MethodNotAllowed,
    Reach,
    RequestError,
    UnknownModel,
    UnmetPromise,
    UnsupportedEncoding,
    UpstreamDenied,
    UpstreamLimitSpent,
    UpstreamQuotaSpent,
    UpstreamRejected,
)
from kiro_asgi.wire.json import JsonError

RETRY_HEADERS: Final = (b"retry-after", b"retry-after-ms", b"x-should-retry")
"""Response headers about trying again that `error_headers` may write."""

REFUSED: Final = "Your key is fine; the gateway's own credential for the service behind it was refused: "
"""Stands before a service's refusal of our credential, lest it read like one of the client's key."""

_LONGEST_NAME: Final = 100
"""Characters of a model's name that messages repeat."""

_NUMBER: Final = r"([0-9][0-9,]{0,14})"
_SIZES: Final = re.compile(
    rf"{_NUMBER} tokens > {_NUMBER}|input token count \({_NUMBER}\) exceeds the maximum number of tokens allowed "
    rf"\({_NUMBER}\)|maximum context length is {_NUMBER} tokens.{{0,80}}? {_NUMBER} tokens",
    re.I | re.S,
)
"""Sizes in the messages of the well-known services.  The prompt's is the larger one, or it would fit."""

SPENT: Final = (LimitSpent, UpstreamLimitSpent, UpstreamQuotaSpent)
"""Errors that there is nothing left to use, be it by a service's count or by the operator's."""

_FINAL: Final = (
    ConfigError,
    JsonError,
    RequestError,
    UnmetPromise,
    UpstreamDenied,
    UpstreamRejected,
    *SPENT,
)
"""Errors that the same request meets again, however often it is sent; or that are too dear to be met again."""

_WAITABLE: Final = frozenset({429, 503, 529})
"""Statuses that come with ``retry-after``, be the time known or not, where another try may help."""

LONGEST_SLEEP: Final = 120.0
"""Seconds.  Some clients obey a longer ``retry-after``, and sleep through it without a word."""

_SOON: Final = 1.0
"""Seconds to wait where no time is known."""


def message_of(error: KiroAsgiError) -> str:
    """The message of *error*; where the gateway's credential is at fault, and not the client's key, it says so."""
    is_ours = isinstance(error, UpstreamDenied) and error.reach in (Reach.CREDENTIAL, Reach.SERVICE)
    return REFUSED + error.message if is_ours else error.message


def explanation(error: UnknownModel) -> str:
    """Details of an unknown model, apart from its name: a hint, or the service's words."""
    return error.message.removeprefix("model: ").removeprefix(error.model[:_LONGEST_NAME]).strip()


def tokens_in(error: ContextTooLong) -> tuple[int, int] | None:
    """Tokens of the prompt, and most that there may be, where the service's message has both."""
    found = _SIZES.search(error.message)
    if found is None:
        return None
    sizes = [int(number.replace(",", "")) for number in found.groups() if number is not None]
    return max(sizes), min(sizes)


def is_final(error: KiroAsgiError) -> bool:
    """Whether the same request cannot succeed within the time that a client may sleep by itself."""
    lasting = isinstance(error, _FINAL) and not isinstance(error, BodyTimeout)
    return lasting or (error.retry_after or 0.0) > LONGEST_SLEEP


def error_headers(error: KiroAsgiError, status: int) -> Iterator[tuple[bytes, bytes]]:
    """Headers about trying again, and about what there is instead; *status* is the one that the client sees.

    A final error has no ``retry-after``: clients such as Codex obey it before they look at anything else.
    """
    final = is_final(error)
    if final or error.retried:
        yield b"x-should-retry", b"false"
    if not final and (wait := _wait(error, status)) > 0:
        yield b"retry-after", b"%d" % ceil(wait)
        yield b"retry-after-ms", b"%d" % ceil(wait * 1000)
    if isinstance(error, MethodNotAllowed):
        yield b"allow", ", ".join(error.allow).encode("ascii")
    if isinstance(error, UnsupportedEncoding):
        yield b"accept-encoding", ", ".join(error.accepted).encode("ascii")


def _wait(error: KiroAsgiError, status: int) -> float:
    """Seconds until another try may help; 0 where no time is to be sent."""
    wait = error.retry_after or 0.0
    if status in _WAITABLE:
        return wait if wait > 0 else _SOON
    return wait if error.retried else 0.0


NO_MODEL: Final = "is empty; name a model, GET /v1/models lists them"


def invalid(param: str, message: str) -> RequestError:
    """A value that makes no sense at *param*."""
    return RequestError(f"{param}: {message}", code="invalid_value", param=param)


def unsupported(param: str, message: str) -> RequestError:
    """A legal value that we cannot honour, where ignoring it would be a lie."""
    return RequestError(f"{param}: {message}", code="unsupported_value", param=param)


def missing(param: str, message: str) -> RequestError:
    """Something that must be there is not."""
    return RequestError(f"{param}: {message}", code="missing_required_parameter", param=param)
