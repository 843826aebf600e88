"""The whole error tree: whose fault it is, and the facts a caller acts on.

The class says whose fault an error is; attributes carry the facts.  Nothing else in the package is raised on purpose,
so ``except KiroAsgiError`` is complete: whatever escapes it is a bug.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar, NamedTuple

__all__ = [
    "AnswerTooLarge",
    "BodyTimeout",
    "BodyTooLarge",
    "ConfigError",
    "ContextTooLong",
    "ConversationNotFound",
    "ForeignOrigin",
    "InternalError",
    "KeyExpired",
    "KeysUnavailable",
    "KiroAsgiError",
    "LimitReached",
    "LimitSpent",
    "MethodNotAllowed",
    "NoWebSocket",
    "NotTheUpstream",
    "RequestError",
    "ResponseNotFound",
    "RouteNotFound",
    "StoreUnavailable",
    "TooBusy",
    "Unauthorized",
    "UnknownModel",
    "UnmetPromise",
    "UnsupportedEncoding",
    "UnsupportedMediaType",
    "UpstreamDenied",
    "UpstreamError",
    "UpstreamFault",
    "UpstreamForbidden",
    "UpstreamLimitReached",
    "UpstreamLimitSpent",
    "UpstreamModelDenied",
    "UpstreamModelQuotaSpent",
    "UpstreamOverloaded",
    "UpstreamProtocolError",
    "UpstreamQuotaSpent",
    "UpstreamRateExceeded",
    "UpstreamRejected",
    "UpstreamRequestTooCostly",
    "UpstreamSuspended",
    "UpstreamSuspicious",
    "UpstreamThrottled",
    "UpstreamTimeout",
    "UpstreamTokenInvalid",
    "UpstreamUnauthorized",
    "UpstreamUnavailable",
    "UpstreamUnreachable",
]


class ServiceReply(NamedTuple):
    """A service's own answer to a request, which is an error."""

    status: int
    content_type: str
    body: bytes


class Reach(Enum):
    """What a failure says something about, from the least to the most; nothing beyond that is treated otherwise."""

    REQUEST = "request"
    """This one request."""

    MEMBER = "member"
    """Requests with this member."""

    MODEL = "model"
    """Every request for the model."""

    PAIR = "pair"
    """Every request for the model with this credential."""

    CREDENTIAL = "credential"
    """Every request with this credential."""

    SERVICE = "service"
    """Every request to the service."""


class KiroAsgiError(Exception):
    """Base of every deliberate error.

    Args:
        message: One sentence for a human.  Never holds a secret or prompt text.
        code: Stable word for a machine, e.g. ``frame.truncated`` or an upstream's own reason.
        retry_after: Seconds to wait before trying again, where they are known.
        param: Place in the client's request, e.g. ``messages[0].content[1].text``.

    Attributes:
        retried: Whether the gateway has tried more than once before it gave up, so that its client need not.
        asked: Whether the upstream was asked at all; false where an earlier fault stands in for its answer.
        given: The service's own words, where its client speaks the same API and may act on them; else ``None``.
        member: The member of the request that the service names in a field of its own; empty for none.
    """

    status: ClassVar[int] = 500
    """HTTP status when nothing has been sent to the client yet."""

    retry_safe: ClassVar[bool] = False
    """Whether the same request may be sent again: the failure proves that nothing was answered."""

    reach: Reach = Reach.REQUEST
    """What it says something about."""

    def __init__(self, message: str, *, code: str = "", retry_after: float | None = None, param: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.retry_after = retry_after
        self.param = param
        self.retried = False
        self.asked = True
        self.given: ServiceReply | None = None
        self.member = ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.message!r}, code={self.code!r})"


class ConfigError(KiroAsgiError):
    """The settings cannot work; the message lists every bad path.  Raised at start-up only."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """The lines of the message, without the heading that several have."""
        first, *lines = self.message.split("\n  ")
        return tuple(lines) or (first,)


class InternalError(KiroAsgiError):
    """The gateway failed in an unforeseen way.

    The message holds nothing of the exception, which may quote a prompt or a secret; the log has the traceback.
    """

    def __init__(self, request_id: str) -> None:
        super().__init__(f"internal error; the gateway's log has it under {request_id}", code="internal_error")


class TooBusy(KiroAsgiError):
    """This gateway is at its own limit and nothing was asked of an upstream, or it is being stopped."""

    status = 503


class LimitReached(KiroAsgiError):
    """This client has used up the operator's limit for now; no upstream was asked."""

    status = 429
    retry_safe = True


class LimitSpent(LimitReached):
    """This client has used up what the operator allows in a day or a month; waiting a little does not help."""

    status = 402
    retry_safe = False


class KeysUnavailable(KiroAsgiError):
    """The application that this gateway is part of could not say whose a key is; the client is not let in."""

    status = 503
    retry_safe = True


class StoreUnavailable(KiroAsgiError):
    """The store of state between requests cannot be used now.

    Clients see the message, so a store names neither its place nor what went wrong in it.

    Args:
        message: For clients.
        detail: For the operator: what is wrong, with addresses, paths and words of other programs as need be.
        code: As for `KiroAsgiError`, like *retry_after*.
        retry_after: Seconds.

    Attributes:
        detail: The message where there is none of its own.
    """

    status = 503

    def __init__(
        self,
        message: str = "the state of this gateway cannot be used now; try again later",
        *,
        detail: str = "",
        code: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, code=code, retry_after=retry_after)
        self.detail = detail or message

    def __str__(self) -> str:
        return self.detail

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.detail!r}, code={self.code!r})"


# The client's fault.


class RequestError(KiroAsgiError):
    """The client sent something that cannot be answered as it stands."""

    status = 400


class Unauthorized(RequestError):
    """No key, or one that this gateway does not know."""

    status = 401


class KeyExpired(Unauthorized):
    """A key of this gateway that is not valid now: it is disabled, or has expired.

    Args:
        principal: Whose key it is, for the operator.
    """

    def __init__(self, message: str, code: str = "", principal: str = "", **facts: Any) -> None:
        super().__init__(message, code=code, **facts)
        self.principal = principal


class ForeignOrigin(RequestError):
    """A browser sent this for a page of an origin that may not use the gateway."""

    status = 403


class RouteNotFound(RequestError):
    """No such path."""

    status = 404


class ResponseNotFound(RequestError):
    """No such response is kept for this client."""

    status = 404


class ConversationNotFound(RequestError):
    """No such conversation, or no such item in it, is kept for this client."""

    status = 404


class UnknownModel(RequestError):
    """No upstream knows the model name.

    Attributes:
        model: The name as the client wrote it; empty until it is set.
    """

    status = 404
    reach = Reach.MODEL
    model = ""


class MethodNotAllowed(RequestError):
    """The path exists, the method does not.

    Attributes:
        allow: The methods that do, for the ``Allow`` header.
    """

    status = 405

    def __init__(self, message: str, *, allow: tuple[str, ...] = (), code: str = "") -> None:
        super().__init__(message, code=code)
        self.allow = allow


class NoWebSocket(RequestError):
    """There is no WebSocket at this path, or it is switched off; clients that can go on over HTTP do so at once."""

    status = 426


class BodyTimeout(RequestError):
    """The request body did not arrive in time."""

    status = 408


class BodyTooLarge(RequestError):
    """The request body is larger than the configured cap."""

    status = 413


class UnsupportedEncoding(RequestError):
    """The request body has a content encoding that the gateway does not decode.

    Attributes:
        accepted: The encodings that it does, for the ``Accept-Encoding`` header.
    """

    status = 415

    def __init__(self, message: str, *, accepted: tuple[str, ...] = (), code: str = "") -> None:
        super().__init__(message, code=code)
        self.accepted = accepted


class UnsupportedMediaType(RequestError):
    """The request body is not declared as JSON, where it has to be."""

    status = 415


class ContextTooLong(RequestError):
    """The conversation does not fit the model's context window."""


class UnmetPromise(KiroAsgiError):
    """The model's answer lacks what the client was promised: a tool call, or text of a form.

    Nothing of it was sent.  The model is asked once more, with the complaint; then the client gets this error.

    Attributes:
        complaint: Text for the model when it is asked once more.
    """

    status = 502

    def __init__(self, message: str, *, code: str = "", complaint: str = "") -> None:
        super().__init__(message, code=code)
        self.complaint = complaint


# The upstream's fault.


class UpstreamError(KiroAsgiError):
    """The service behind us failed or refused."""

    status = 502


class UpstreamFault(UpstreamError):
    """The upstream reports an internal failure (5xx, or an exception frame of that kind)."""

    retry_safe = True
    reach = Reach.SERVICE


class UpstreamUnavailable(UpstreamFault):
    """The upstream says that it is out of service for now (503), and not that it lacks capacity."""

    status = 503


class UpstreamProtocolError(UpstreamError):
    """The upstream broke its protocol: torn frame, bad checksum, foreign content type."""

    retry_safe = True
    reach = Reach.SERVICE


class NotTheUpstream(UpstreamProtocolError):
    """Something else answers at the upstream's address: a redirect, a web page, a media type that is not its own."""

    retry_safe = False


class AnswerTooLarge(UpstreamError):
    """The upstream's answer needs more memory than ``limits.answer_bytes`` allows; so would the next one."""


class UpstreamUnreachable(UpstreamError):
    """No connection, or the connection broke."""

    status = 503
    retry_safe = True
    reach = Reach.SERVICE


class UpstreamTimeout(UpstreamUnreachable):
    """The upstream was silent for longer than a timeout allows."""

    status = 504


class UpstreamThrottled(UpstreamError):
    """The upstream asked us to slow down."""

    status = 429
    retry_safe = True
    reach = Reach.CREDENTIAL


class UpstreamRateExceeded(UpstreamThrottled):
    """This account sent too many requests.  Another one soon only counts as one more."""


class UpstreamLimitReached(UpstreamThrottled):
    """Our credential has used up the operator's limit for now; the upstream was not asked."""


class UpstreamLimitSpent(UpstreamLimitReached):
    """Our credential has used up what the operator allows in a day or a month; the upstream was not asked."""

    status = 402
    retry_safe = False


class UpstreamOverloaded(UpstreamError):
    """The upstream has no capacity for this model right now."""

    status = 529
    retry_safe = True
    reach = Reach.MODEL


class UpstreamQuotaSpent(UpstreamError):
    """The account's quota is used up; waiting a little does not help.

    `retry_after` is the time until there is a new one, where the upstream could be asked.
    """

    status = 402
    reach = Reach.CREDENTIAL


class UpstreamModelQuotaSpent(UpstreamQuotaSpent):
    """The account's quota for this one model is used up, or there is none; other models may be asked."""

    reach = Reach.PAIR


class UpstreamRequestTooCostly(UpstreamQuotaSpent):
    """This one request asks for more than the account has left; a smaller one may be answered."""

    reach = Reach.REQUEST


class UpstreamDenied(UpstreamError):
    """The upstream refuses our credential, or its account.

    The status is that of a gateway's trouble: 401 or 403 would say that the client's own key is at fault.
    """

    reach = Reach.CREDENTIAL


class UpstreamForbidden(UpstreamDenied):
    """The upstream forbids this request, and says neither that the credential nor that the model is the reason."""

    reach = Reach.REQUEST


class UpstreamModelDenied(UpstreamDenied):
    """Our credential may not ask for this model; other models may be asked.

    The status is the one with which clients know a model that they cannot have.
    """

    status = 404
    reach = Reach.PAIR


class UpstreamTokenInvalid(UpstreamDenied):
    """The upstream does not take our token, or not any more."""


class UpstreamUnauthorized(UpstreamTokenInvalid):
    """The upstream answers 401 without a word that says why."""

    reach = Reach.REQUEST


class UpstreamSuspicious(UpstreamDenied):
    """The upstream limits the account because of suspicious activity.  Further requests make it a suspension."""

    reach = Reach.SERVICE


class UpstreamSuspended(UpstreamDenied):
    """The upstream has locked the account; only its owner can change that, with the upstream."""

    reach = Reach.SERVICE


class UpstreamRejected(UpstreamError):
    """The upstream calls the request we built invalid."""

    status = 400
