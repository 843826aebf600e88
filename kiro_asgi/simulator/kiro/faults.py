"""Markers for everything that goes wrong: refusals, broken connections, silence, foreign bodies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kiro_asgi.simulator.answers import SENTENCE, Marker, number
from kiro_asgi.simulator.conversation import Conversation
from kiro_asgi.simulator.pieces import ExceptionFrame, Words
from kiro_asgi.simulator.scripts import (
    CloseEarly,
    CorruptChecksum,
    HalfClose,
    Head,
    Pause,
    Reset,
    Script,
    Stall,
    Step,
    TornFrame,
    json_answer,
    plain_answer,
    refusal,
    text,
    words,
)

TOO_MANY: Final = "Too many requests, please wait before trying again."
HIGH_LOAD: Final = "Encountered unexpectedly high load when processing the request, please try again."
BAD_TOKEN: Final = "The bearer token included in the request is invalid."
SUSPICIOUS: Final = (
    "Due to suspicious activity, we are imposing temporary limits on how frequently your account (simulated) can "
    "send requests."
)
SUSPENDED: Final = "Your User ID (simulated) temporarily is suspended. We've locked it as a security precaution."
HTML: Final = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body>Please sign in.</body></html>"
HALF: Final = (*text(*words(SENTENCE)[:5]),)
"""The first half of an answer."""

UNSEEN: Final = Words("This never arrives as a whole.")

REFUSALS: Final[Mapping[str, tuple[int, str, str | None]]] = {
    "429": (429, TOO_MANY, "USER_REQUEST_RATE_EXCEEDED"),
    "suspicious": (429, SUSPICIOUS, None),
    "daily": (429, "You have reached the limit.", "DAILY_REQUEST_COUNT"),
    "quota": (402, "You have reached the limit.", "MONTHLY_REQUEST_COUNT"),
    "overage": (402, "You have reached the limit for overages.", "OVERAGE_REQUEST_LIMIT_EXCEEDED"),
    "overloaded": (429, "I am experiencing high traffic, please try again shortly.", "INSUFFICIENT_MODEL_CAPACITY"),
    "403": (403, "User is not authorized to make this call.", None),
    "token-invalid": (403, BAD_TOKEN, None),
    "suspended": (403, SUSPENDED, "TEMPORARILY_SUSPENDED"),
    "404": (404, "The requested resource was not found.", None),
    "500": (500, HIGH_LOAD, None),
    "503": (503, "The model is temporarily unavailable.", "MODEL_TEMPORARILY_UNAVAILABLE"),
    "too-long": (400, "Input is too long.", "CONTENT_LENGTH_EXCEEDS_THRESHOLD"),
    "bad-request": (400, "Improperly formed request.", None),
    "bad-model": (400, "Invalid model ID. Please select a different model to continue.", "INVALID_MODEL_ID"),
    "bad-signature": (400, "Invalid signature in thinking block", "THINKING_SIGNATURE_INVALID"),
}
"""Refusals before the stream: status, message, reason."""

EXCEPTIONS: Final[Mapping[str, tuple[str, str | None]]] = {
    "InternalServerException": ("Encountered an unexpected error when processing the request, please try again.", None),
    "ThrottlingException": (TOO_MANY, "USER_REQUEST_RATE_EXCEEDED"),
    "ValidationException": ("Improperly formed request.", None),
    "ServiceUnavailableException": ("The service is unavailable.", None),
    "ContentLengthExceededException": ("The answer is longer than the model can write.", None),
}
"""Exception frames: message and reason."""


def _refusing(name: str) -> Callable[[Conversation, str], Script]:
    status, message, reason = REFUSALS[name]
    return lambda conversation, parameter: refusal(status, message, reason)


def _throttled(_: Conversation, parameter: str) -> Script:
    return refusal(429, TOO_MANY, "USER_REQUEST_RATE_EXCEEDED", retry_after=parameter or "2")


def _exception(name: str) -> ExceptionFrame:
    known = name if name in EXCEPTIONS else "InternalServerException"
    return ExceptionFrame(known, *EXCEPTIONS[known])


def _always(*steps: Step) -> Callable[[Conversation, str], Script]:
    return lambda conversation, parameter: steps


def _bad_checksum(_: Conversation, parameter: str) -> Script:
    return (Head(), *HALF, CorruptChecksum(UNSEEN, "prelude" if parameter == "prelude" else "message"), *HALF)


def _torn(_: Conversation, parameter: str) -> Script:
    keep = int(number(parameter, 0, 1 << 20)) or None
    return (Head(), *HALF, TornFrame(UNSEEN, keep))


def _late(_: Conversation, parameter: str) -> Script:
    return (Pause(number(parameter, 1, 600)), Head(), *HALF)


def _redirect(_: Conversation, parameter: str) -> Script:
    status = int(number(parameter, 302, 399)) or 302
    return plain_answer(status, b"", "text/plain", (("location", "/redirected"),))


_IN_STREAM_REFUSAL: Final = {"message": "The service refused, with a friendly status.", "reason": "SIMULATED"}

FAULTS: Final[Mapping[str, Marker]] = {
    **{
        name: Marker(f"status {REFUSALS[name][0]}: {REFUSALS[name][2] or REFUSALS[name][1]}", _refusing(name))
        for name in REFUSALS
    },
    "429-retry-after": Marker("status 429 with Retry-After", _throttled, "seconds (2)"),
    "exception": Marker(
        "half an answer, then an exception frame",
        lambda conversation, parameter: (Head(), *HALF, _exception(parameter)),
        "exception type (InternalServerException)",
    ),
    "exception-first": Marker(
        "an exception frame and nothing else",
        lambda conversation, parameter: (Head(), _exception(parameter)),
        "exception type (InternalServerException)",
    ),
    "length-exception": Marker(
        "half an answer, then ContentLengthExceededException",
        _always(Head(), *HALF, _exception("ContentLengthExceededException")),
    ),
    "eof": Marker("half an answer, then a clean end without trailers", _always(Head(), *HALF)),
    "fin": Marker("half an answer, then FIN within the HTTP body", _always(Head(), *HALF, CloseEarly())),
    "half-close": Marker("half an answer, then FIN in one direction only", _always(Head(), *HALF, HalfClose())),
    "reset": Marker("half an answer, then RST", _always(Head(), *HALF, Reset())),
    "reset-first": Marker("RST before the first byte", _always(Reset())),
    "reset-headers": Marker("the head, then RST", _always(Head(), Reset())),
    "hang-up": Marker("FIN before the first byte", _always(CloseEarly())),
    "torn": Marker("half an answer, then the body ends within a frame", _torn, "bytes of the frame (half)"),
    "bad-crc": Marker("a frame with a wrong checksum in the middle", _bad_checksum, "message or prelude (message)"),
    "stall": Marker("silence before the first byte", _always(Stall())),
    "stall-headers": Marker("silence after the head", _always(Head(), Stall())),
    "stall-mid": Marker("half an answer, then silence", _always(Head(), *HALF, Stall())),
    "late": Marker("silence for a while, then half an answer", _late, "seconds (1)"),
    "empty": Marker("status 200 and no frame at all", _always(Head())),
    "html": Marker("an HTML page with status 200", lambda *_: plain_answer(200, HTML, "text/html; charset=utf-8")),
    "json-200-error": Marker("a JSON error with status 200", lambda *_: json_answer(200, _IN_STREAM_REFUSAL)),
    "redirect": Marker("a redirect to /redirected", _redirect, "status (302)"),
}
"""Marker to fault; each strikes every time."""
