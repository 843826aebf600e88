"""Common parts of OpenAI's APIs: fields of requests, parts of messages, errors, the end of a stream.

An error before the first byte is an HTTP status with ``{"error": {message, type, param, code}}``, all four keys there.

Source of the errors: https://platform.openai.com/docs/guides/error-codes
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

from attrs import frozen

from kiro_asgi.dialects.base import ErrorReply, ResponseMeta
from kiro_asgi.dialects.errors import error_headers, explanation, invalid, message_of, tokens_in, unsupported
from kiro_asgi.dialects.structure import Raw, Shape, Whole
from kiro_asgi.dialects.unread import Beside
from kiro_asgi.errors import (
    BodyTimeout,
    ContextTooLong,
    KiroAsgiError,
    LimitReached,
    LimitSpent,
    RequestError,
    TooBusy,
    Unauthorized,
    UnknownModel,
    UpstreamDenied,
    UpstreamError,
    UpstreamForbidden,
    UpstreamLimitSpent,
    UpstreamModelDenied,
    UpstreamOverloaded,
    UpstreamQuotaSpent,
    UpstreamRejected,
    UpstreamSuspended,
    UpstreamSuspicious,
    UpstreamThrottled,
    UpstreamTimeout,
    UpstreamUnauthorized,
    UpstreamUnavailable,
    UpstreamUnreachable,
)
from kiro_asgi.limits import LARGEST_INTEGER
from kiro_asgi.model.events import Usage
from kiro_asgi.model.handling import Handling, Tier
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Opaque, Sampling, Text, Thinking, ThinkingMode
from kiro_asgi.stages.limits import check_stop
from kiro_asgi.wire.json import JsonError, count, dumps, quote_bytes

# Requests.


_MOST_STOPS: Final = 4


@frozen
class StreamOptions(Shape):
    """How to stream."""

    include_usage: bool | None = None


class _Sampled(Protocol):
    """The fields about sampling of a request's body; the last four may hold anything."""

    @property
    def temperature(self) -> float | None: ...

    @property
    def top_p(self) -> float | None: ...

    @property
    def stop(self) -> str | tuple[str, ...] | None: ...

    @property
    def top_k(self) -> Any: ...

    @property
    def seed(self) -> Any: ...

    @property
    def presence_penalty(self) -> Any: ...

    @property
    def frequency_penalty(self) -> Any: ...


VERBOSITIES: Final = ("low", "medium", "high")


def read_verbosity(word: str | None, place: str) -> str:
    """The verbosity of answers; empty where the request has none.

    Raises:
        RequestError: The API has no such *word*; ``param`` is its *place*.
    """
    if word is not None and word not in VERBOSITIES:
        raise invalid(place, f"expected one of {', '.join(VERBOSITIES)}, got {word[:60]!r}")
    return word or ""


_TIERS: Final[Mapping[str, Tier]] = MappingProxyType(
    {
        "auto": Tier.AUTO,
        "default": Tier.STANDARD,
        "flex": Tier.FLEX,
        "priority": Tier.PRIORITY,
        "fast": Tier.PRIORITY,
        "scale": Tier.SCALE,
    }
)

SERVED: Final[Mapping[Tier | None, str]] = MappingProxyType(
    {Tier.STANDARD: "default", Tier.FLEX: "flex", Tier.PRIORITY: "priority", Tier.SCALE: "scale"}
)
"""The tier that answered, to the word of ``service_tier``."""


def served_tier(document: Mapping[str, Any]) -> Tier | None:
    """The tier that a relayed answer names; ``None`` where it has no word for one."""
    word = document.get("service_tier")
    tier = _TIERS.get(word) if type(word) is str else None
    return None if tier is Tier.AUTO else tier


UNKNOWN_EFFORT: Final = Thinking(ThinkingMode.ADAPTIVE)
"""What is meant by an effort of which it is not known how much that is: to think, as much as the service does by
itself.  Services of the API are sent the word."""

_RETENTIONS: Final[Mapping[str, str]] = MappingProxyType({"in_memory": "", "24h": "24h"})
"""Value of ``prompt_cache_retention`` to the neutral word."""

LONGEST: Final = "1h"
"""The longest mark that a prompt can have."""

HANDLED: Final = ("service_tier", "metadata", "safety_identifier", "user", "prompt_cache_retention")
"""Fields of a body that `handling_of` reads."""


def handling_of(request: Shape, beside: Beside, notes: Notes) -> Handling:
    """What the body of a *request* says of its handling."""
    fields = {name: request.unread.get(name, getattr(request, name, None)) for name in HANDLED}
    for name, known in (("service_tier", _TIERS), ("prompt_cache_retention", _RETENTIONS)):
        beside.note_word(notes, fields[name], known, name)
    return read_handling(fields)


def read_handling(fields: Mapping[str, Any]) -> Handling:
    """What the *fields* of a request say of its handling; a word that the API has not counts as absent.

    Source: https://platform.openai.com/docs/api-reference/chat/create
    """
    tier, labels, kept = (fields.get(name) for name in ("service_tier", "metadata", "prompt_cache_retention"))
    users = {name: fields.get(name) for name in ("safety_identifier", "user")}
    named = next((name for name, user in users.items() if user and isinstance(user, str)), "")
    pairs = labels.items() if isinstance(labels, Mapping) else ()
    return Handling(
        _TIERS.get(tier) if isinstance(tier, str) else None,
        {name: text for name, text in pairs if isinstance(text, str)},
        users.get(named) or "",
        _RETENTIONS.get(kept, "") if isinstance(kept, str) else "",
        {"tier": "service_tier", "labels": "metadata", "user": named, "retention": "prompt_cache_retention"},
    )


_NUMBERS: Final = ("top_k", "seed", "presence_penalty", "frequency_penalty")
"""Extensions, which are never refused."""


def read_sampling(request: _Sampled, limits: Mapping[str, int | None], notes: Notes, *, least: int = 1) -> Sampling:
    """How to sample.

    Args:
        request: The body.
        limits: Most tokens of the answer, by the names of the fields that may set it; the first that does counts.
        notes: Takes numbers that make no sense and are never refused.
        least: The least value of each.

    Raises:
        RequestError: A number that makes no sense, or too many stop sequences.
    """
    max_tokens = None
    for name, value in limits.items():
        _within(name, value, least, None)
        max_tokens = value if max_tokens is None else max_tokens
    _within("temperature", request.temperature, 0, 2)
    _within("top_p", request.top_p, 0, 1)
    sampling = Sampling(
        max_tokens,
        request.temperature,
        request.top_p,
        count(request.top_k) or None,
        _stop(request.stop),
        request.seed if type(request.seed) is int and abs(request.seed) < LARGEST_INTEGER else None,
        _penalty(request.presence_penalty),
        _penalty(request.frequency_penalty),
    )
    for name in _NUMBERS:
        if getattr(request, name) and getattr(sampling, name) is None:
            notes.applies("values.unknown", name)
    return sampling


def _penalty(value: Any) -> float | None:
    """A penalty; 0, which clients send by default, is none."""
    return value if type(value) in (int, float) and value and abs(value) < LARGEST_INTEGER else None


def _within(name: str, value: float | None, least: int, most: int | None) -> None:
    """Refuse a number that is not from *least* to *most*."""
    if value is not None and (value < least or (most is not None and value > most)):
        wanted = f"at least {least}" if most is None else f"between {least} and {most}"
        raise invalid(name, f"expected a number {wanted}, got {value}")


def _stop(stop: str | tuple[str, ...] | None) -> tuple[str, ...]:
    given = (stop,) if isinstance(stop, str) else stop or ()
    if len(given) > _MOST_STOPS:
        raise invalid("stop", f"at most {_MOST_STOPS} sequences, got {len(given)}")
    check_stop(stop or ())
    return tuple(sequence for sequence in given if sequence)


@frozen
class TextPart(Shape):
    """``text`` in the words of Chat Completions, ``input_text`` and ``output_text`` in those of Responses."""

    text: str


@frozen
class RefusalPart(Shape):
    """``refusal``."""

    refusal: str


@frozen
class ImageUrl(Shape):
    """Address of an image, in the form of Chat Completions, which Responses takes, too."""

    url: str


@frozen
class AudioPart(Whole):
    """``input_audio``."""


@frozen
class PartReader:
    """Reads the parts of messages that both APIs have."""

    _beside: Beside

    def text(self, part: TextPart, _: str) -> Text:
        """A text."""
        return Text(part.text, unread=self._beside(part))

    def refusal(self, part: RefusalPart, _: str) -> Text:
        """A refusal, which a model gets like any text of its own."""
        return Text(part.refusal, is_refusal=True, unread=self._beside(part))

    def audio(self, part: AudioPart, place: str) -> Opaque:
        """Audio, for services of the API alone."""
        refusal = unsupported(place, "audio input is not supported")
        return Opaque(self._beside.api, part.given, place, refusal=refusal)

    def unknown(self, part: Raw, place: str) -> Opaque:
        """A part of an unknown kind, for services of the API alone."""
        return Opaque(self._beside.api, part.value, place, refusal=refuse_unknown(part, place))


def refuse_unknown(part: Raw, place: str) -> RequestError:
    """Make the error for a part of an unknown kind; ``param`` is the kind at *place*."""
    return invalid(f"{place}.type", f"unknown kind of content: {str(part.value.get('type'))[:60]}")


# Errors.


@frozen
class Wording:
    """The form of one class of errors."""

    type: str
    """In a body."""

    code: str = ""
    """In a body; empty leaves it to the error."""

    streamed: str = "api_error"
    """The type in a chunk of Chat Completions."""

    status: int = 0
    """Instead of the error's own, where clients do not know that one."""


TOO_LONG: Final = b"context_length_exceeded"
"""The code by which clients see that the context window is exceeded."""

_INVALID: Final = "invalid_request_error"
_SPENT: Final = "insufficient_quota"

_WORDINGS: Final = MappingProxyType[type[KiroAsgiError], Wording](
    {
        KiroAsgiError: Wording("server_error"),
        TooBusy: Wording("server_error", "server_is_overloaded", "overloaded_error"),
        JsonError: Wording(_INVALID, streamed=_INVALID),
        RequestError: Wording(_INVALID, streamed=_INVALID),
        Unauthorized: Wording(_INVALID, "invalid_api_key", "authentication_error"),
        UnknownModel: Wording(_INVALID, "model_not_found", "not_found_error"),
        BodyTimeout: Wording(_INVALID, "", "timeout_error"),
        ContextTooLong: Wording(_INVALID, TOO_LONG.decode(), _INVALID),
        UpstreamError: Wording("server_error"),
        UpstreamUnavailable: Wording("server_error", streamed="overloaded_error"),
        UpstreamUnreachable: Wording("server_error", streamed="overloaded_error"),
        UpstreamTimeout: Wording("server_error", streamed="timeout_error"),
        LimitReached: Wording("rate_limit_error", "rate_limit_exceeded", "rate_limit_error"),
        UpstreamThrottled: Wording("rate_limit_error", "rate_limit_exceeded", "rate_limit_error"),
        UpstreamOverloaded: Wording("server_error", "server_is_overloaded", "overloaded_error", status=503),
        LimitSpent: Wording(_SPENT, _SPENT, _SPENT),
        UpstreamLimitSpent: Wording(_SPENT, _SPENT, _SPENT),
        UpstreamQuotaSpent: Wording(_SPENT, _SPENT, _SPENT),
        UpstreamDenied: Wording("server_error", "upstream_credential_refused"),
        UpstreamForbidden: Wording("server_error", "upstream_refused"),
        UpstreamModelDenied: Wording(_INVALID, "model_not_found", "not_found_error"),
        UpstreamUnauthorized: Wording("server_error", "upstream_refused"),
        UpstreamSuspicious: Wording("server_error", "upstream_account_limited"),
        UpstreamSuspended: Wording("server_error", "upstream_account_suspended"),
        UpstreamRejected: Wording(_INVALID, "", _INVALID),
    }
)
"""The nearest class along an error's method resolution order decides."""


def _wording_of(error: KiroAsgiError) -> Wording:
    """The form of *error*."""
    return next(_WORDINGS[cls] for cls in type(error).__mro__ if cls in _WORDINGS)


def openai_message(error: KiroAsgiError) -> str:
    """The message of *error*, with the phrases of OpenAI's that clients look for."""
    match error:
        case UnknownModel(model=model) if model:
            hint = explanation(error)
            return f"The model '{model[:100]}' does not exist or you do not have access to it.{hint and f' {hint}'}"
        case ContextTooLong() if "maximum context length" not in error.message:
            return _overflow(error)
    return message_of(error)


def _overflow(error: ContextTooLong) -> str:
    sizes = tokens_in(error)
    if sizes is None:
        text = f"This model's maximum context length is exceeded: {error.message.removeprefix(_PREFIX)}"
    else:
        tokens, most = sizes
        text = (
            f"This model's maximum context length is {most} tokens. However, your messages resulted in {tokens} tokens."
        )
    return f"{text} Please reduce the length of the messages."


_PREFIX: Final = "prompt is too long: "
"""The beginning of the message by which clients of the Messages API recognise the error; this API has none."""


def error_reply(error: KiroAsgiError) -> ErrorReply:
    """The HTTP answer to *error* before the first byte."""
    wording = _wording_of(error)
    status = wording.status or error.status
    body = {
        "message": openai_message(error),
        "type": wording.type,
        "param": error.param or None,
        "code": wording.code or error.code or None,
    }
    return ErrorReply(status, dumps({"error": body}), tuple(error_headers(error, status)))


# Answers.


_DONE: Final = b"data: [DONE]\n\n"


def usage_object(usage: Usage) -> dict[str, Any]:
    """Token counts; here, unlike in `Usage`, the prompt includes what was read from or written to a cache."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
            "audio_tokens": 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": usage.thinking_tokens,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def stream_error_object(error: KiroAsgiError) -> dict[str, Any]:
    """The ``error`` member of the chunk that ends a broken stream.

    It is the same object that an HTTP answer would hold, but ``type`` names the kind of trouble and ``code`` is
    ``stream_error``.

    Source: https://platform.openai.com/docs/guides/error-codes
    """
    return {
        "message": openai_message(error),
        "type": _wording_of(error).streamed,
        "param": error.param or None,
        "code": "stream_error",
    }


class ChunkStream:
    """The base of encoders whose streams are chunks of one kind and end with a sentinel.

    Args:
        meta: Facts that every chunk repeats.
        kind: The chunks' ``object``.
    """

    heartbeat = b": ping\n\n"

    __slots__ = ("_closed", "_common")

    def __init__(self, meta: ResponseMeta, kind: bytes) -> None:
        self._common = b'data: {"id":%b,"object":"%b","created":%d,"model":%b,"choices":' % (
            quote_bytes(meta.id),
            kind,
            meta.created,
            quote_bytes(meta.model),
        )
        self._closed = False

    def flush(self) -> Iterator[bytes]:
        """The sentinel, unless `error` has sent it."""
        if not self._closed:
            self._closed = True
            yield _DONE

    def error(self, error: KiroAsgiError) -> list[bytes]:
        """The error in a chunk without choices, then by itself, and the sentinel; nothing when the stream has ended.

        Of the two forms each client knows one: some read nothing that is no chunk, and the AI SDK overlooks the error
        in one.  The official SDKs raise the first, and read no further.
        """
        if self._closed:
            return []
        self._closed = True
        told = dumps(stream_error_object(error))
        return [b'%b[],"error":%b}\n\ndata: {"error":%b}\n\n%b' % (self._common, told, told, _DONE)]
