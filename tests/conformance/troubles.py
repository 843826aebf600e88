"""Everything that can go wrong before the first byte, and the class that each official client makes of it.

One table for the clients of both languages, which name their classes alike.
"""

from __future__ import annotations

from typing import Any, Final

from attrs import field, frozen

from tests.conformance.asking import MODEL
from tests.conformance.gateways import KEY

__all__ = ["TROUBLES", "Trouble"]


@frozen(kw_only=True)
class Trouble:
    """One refusal."""

    name: str
    status: int
    chat: tuple[str, str, str]
    """Of the OpenAI clients: class, then ``type`` and ``code`` of the body."""

    messages: tuple[str, str]
    """Of the Anthropic clients: class and ``type``."""

    messages_status: int = 0
    """Where it differs from *status*: one family has a status of its own for an overloaded service."""

    retry: str = ""
    """``x-should-retry``."""

    content: str
    """What is asked."""

    model: str = MODEL
    key: str = field(default=KEY, repr=False)
    impatient: bool = False
    """Whether the gateway with short timeouts is asked."""

    @property
    def status_of_messages(self) -> int:
        return self.messages_status or self.status


INVALID: Final = "invalid_request_error"


def _service(marker: str, status: int, chat: Any, messages: Any, **more: Any) -> Trouble:
    return Trouble(name=marker, content=f"sim:{marker}", status=status, chat=chat, messages=messages, **more)


_OVERLOADED: Final[dict[str, Any]] = {
    "status": 503,
    "chat": ("InternalServerError", "server_error", "server_is_overloaded"),
    "messages": ("OverloadedError", "overloaded_error"),
    "messages_status": 529,
    "retry": "false",
}


_BROKEN: Final[dict[str, Any]] = {
    "chat": ("InternalServerError", "server_error", "connection_broken"),
    "messages": ("ServiceUnavailableError", "overloaded_error"),
    "retry": "false",
}


def _fault(marker: str, code: str, retry: str = "false") -> Trouble:
    """Tried again by the gateway, so that the client need not, unless *retry* is empty."""
    chat, messages = ("InternalServerError", "server_error", code), ("InternalServerError", "api_error")
    return _service(marker, 502, chat, messages, retry=retry)


def _quota(marker: str) -> Trouble:
    chat = ("APIStatusError", "insufficient_quota", "insufficient_quota")
    return _service(marker, 402, chat, ("PaymentRequiredError", "billing_error"), retry="false")


def _denied(marker: str, code: str = "upstream_credential_refused") -> Trouble:
    """The gateway's credential, not the client's key: a gateway's trouble."""
    return _fault(marker, code)


def _bad(marker: str, code: str) -> Trouble:
    return _service(marker, 400, ("BadRequestError", INVALID, code), ("BadRequestError", INVALID), retry="false")


_MISSING: Final[dict[str, Any]] = {
    "status": 404,
    "chat": ("NotFoundError", INVALID, "model_not_found"),
    "messages": ("NotFoundError", "not_found_error"),
    "retry": "false",
}

TROUBLES: Final = (
    _bad("too-long", "context_length_exceeded"),
    _bad("bad-request", "improperly_formed"),
    _bad("bad-signature", "THINKING_SIGNATURE_INVALID"),
    Trouble(
        name="bad-key",
        content="sim:text",
        key="wrong",
        status=401,
        chat=("AuthenticationError", INVALID, "invalid_api_key"),
        messages=("AuthenticationError", "authentication_error"),
        retry="false",
    ),
    _denied("403", "upstream_refused"),
    _denied("token-invalid"),
    _denied("suspended", "upstream_account_suspended"),
    _denied("suspicious", "upstream_account_limited"),
    Trouble(name="unknown-model", content="sim:text", model="no-such-model", **_MISSING),
    Trouble(name="bad-model", content="sim:bad-model", **_MISSING),
    Trouble(
        name="too-large",
        content="x" * 100_001,
        impatient=True,
        status=413,
        chat=("APIStatusError", INVALID, "body_too_large"),
        messages=("ContentTooLargeError", "request_too_large"),
        retry="false",
    ),
    _service(
        "429",
        429,
        ("RateLimitError", "rate_limit_error", "rate_limit_exceeded"),
        ("RateLimitError", "rate_limit_error"),
        retry="false",
    ),
    _quota("quota"),
    _quota("overage"),
    _quota("daily"),
    *(Trouble(name=name, content=f"sim:{name}", **_OVERLOADED) for name in ("overloaded", "500", "503")),
    _fault("exception", "internal"),
    _fault("torn", "frame.truncated"),
    _fault("bad-crc", "frame.checksum"),
    _fault("html", "upstream.content_type", retry=""),
    _fault("redirect", "upstream.redirect", retry=""),
    _service("reset-first", 503, **_BROKEN),
    _service("hang-up", 503, **_BROKEN),
    _fault("empty", "stream.empty"),
    *(
        _service(
            marker,
            504,
            ("InternalServerError", "server_error", "timeout"),
            ("GatewayTimeoutError", "timeout_error"),
            impatient=True,
        )
        for marker in ("stall", "stall-headers", "stall-mid")
    ),
)
"""In the order of their statuses."""
