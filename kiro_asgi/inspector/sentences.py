"""What went wrong, in plain sentences: a few words, the cause, and what to do about it.

One table of errors by their classes and codes, and one of notices.  What no table has is shown as what it is, with a
general sentence: it is never taken for good.  The page of errors in the documentation is made from the first table.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from attrs import frozen

from kiro_asgi import errors
from kiro_asgi.errors import KiroAsgiError


@frozen
class Sentences:
    """What is said of one error, or one kind of notice."""

    short: str
    """A few words, for a row of the list."""

    cause: str
    advice: str
    """What to do; empty where there is nothing to do."""


_PROVIDE: Final = "Check the credential of that service in the settings; kiro-asgi doctor tests each."
_LATER: Final = (
    "Try again later; the fault is the service's. A second service in routing.models would answer meanwhile."
)
_CLIENT: Final = "Correct what the client sends; Request shows it where content is kept, and the error names the place."

ERRORS: Final[Mapping[type[KiroAsgiError], Sentences]] = MappingProxyType(
    {
        KiroAsgiError: Sentences(
            "failed", "The call ended in an error.", "The gateway's log has its message, under this call's id."
        ),
        errors.ConfigError: Sentences(
            "wrong settings", "The settings cannot work as they are.", "kiro-asgi check names each problem."
        ),
        errors.InternalError: Sentences(
            "bug in the gateway",
            "The gateway, or code that was added to it, failed in an unforeseen way.",
            "The log has the traceback under this call's id; report it, with the masked tape.",
        ),
        errors.TooBusy: Sentences(
            "gateway too busy",
            "The gateway was at a limit of its own, or was being stopped; no service was asked.",
            "Try again later. If it happens often, raise the limits in the settings, or start more processes.",
        ),
        errors.KeysUnavailable: Sentences(
            "keys cannot be looked up",
            "The application around the gateway could not say whose the key is; the client was not let in.",
            "The log has what its table raised. See whether its database can be reached.",
        ),
        errors.LimitReached: Sentences(
            "client's limit reached",
            "This client has used up what the operator allows it for now; no service was asked.",
            "Wait as long as retry-after says, or raise the limit in quotas.",
        ),
        errors.LimitSpent: Sentences(
            "client's budget spent",
            "This client has used up what the operator allows it in a day or a month; no service was asked.",
            "Wait until the budget is renewed, or raise it in quotas. Usage shows what it was spent on.",
        ),
        errors.StoreUnavailable: Sentences(
            "state unavailable",
            "The gateway could not read or write the state that it keeps between requests.",
            "Check the file or the server that the state settings name; the log has the details.",
        ),
        errors.RequestError: Sentences("request refused", "The request cannot be answered as it stands.", _CLIENT),
        errors.Unauthorized: Sentences(
            "client's key refused",
            "The client showed no key, or one that this gateway does not know.",
            "Give the client one of the gateway's own keys, not one of a service: see client.api_keys and keys.",
        ),
        errors.KeyExpired: Sentences(
            "client's key not valid now",
            "The client's key, or its user's access, is one of this gateway, and is not valid now.",
            "Key, below, names it. Give it a new key if it may have one.",
        ),
        errors.ForeignOrigin: Sentences(
            "origin not allowed",
            "A browser sent this for a page of an origin that may not use the gateway.",
            "Add the origin to cors.origins if it may.",
        ),
        errors.RouteNotFound: Sentences(
            "no such path",
            "The gateway has nothing at this path.",
            "Compare the client's base URL with the paths of the API; often /v1 is missing, or there twice.",
        ),
        errors.ResponseNotFound: Sentences(
            "response not kept",
            "The request refers to a response that is not kept for this client.",
            "It has expired, was deleted, belongs to another key, or was made by a process that shares no state.",
        ),
        errors.ConversationNotFound: Sentences(
            "conversation not kept",
            "The request refers to a conversation that is not kept for this client.",
            "It has expired, was deleted, belongs to another key, or was made by a process that shares no state.",
        ),
        errors.UnknownModel: Sentences(
            "unknown model",
            "No service knows the model by that name.",
            "Use one of the names that State lists, or add an alias in routing.models.",
        ),
        errors.MethodNotAllowed: Sentences("wrong method", "The path exists, but not with this method.", _CLIENT),
        errors.NoWebSocket: Sentences(
            "no WebSocket",
            "There is no WebSocket at this path, or it is switched off.",
            "Clients that can go on over HTTP do so by themselves.",
        ),
        errors.BodyTimeout: Sentences(
            "request too slow",
            "The request's body did not arrive in time.",
            "Check the connection of the client; limits.body_timeout is how long the gateway waits.",
        ),
        errors.BodyTooLarge: Sentences(
            "request too large",
            "The request is larger than the gateway takes.",
            "limits.body_bytes is the largest size.",
        ),
        errors.UnsupportedEncoding: Sentences(
            "encoding not known", "The request is compressed in a way that the gateway does not decode.", _CLIENT
        ),
        errors.UnsupportedMediaType: Sentences("not declared as JSON", "The request is not declared as JSON.", _CLIENT),
        errors.ContextTooLong: Sentences(
            "conversation too long",
            "The conversation does not fit into the model's context window.",
            "Shorten or summarize the conversation, or use a model with a larger window.",
        ),
        errors.UnmetPromise: Sentences(
            "promise not kept",
            "The model's answer lacked what the request demands, also when it was asked once more; nothing was sent.",
            "Try another model, or demand less.",
        ),
        errors.UpstreamError: Sentences("service failed", "The service failed, or refused the request.", _LATER),
        errors.UpstreamFault: Sentences("service failed", "The service reports an internal failure.", _LATER),
        errors.UpstreamUnavailable: Sentences(
            "service unavailable", "The service says that it is out of service for now.", _LATER
        ),
        errors.UpstreamProtocolError: Sentences(
            "broken answer",
            "The service's answer broke off, or cannot be read: what came is not what its protocol says.",
            "Try again. Stream shows the last byte that came; if it happens often, look for a proxy on the way.",
        ),
        errors.NotTheUpstream: Sentences(
            "not the service",
            "Something else answers at the service's address: a redirect, a web page, another program.",
            "Check the endpoint in the settings, and look for a proxy or a captive portal on the way.",
        ),
        errors.AnswerTooLarge: Sentences(
            "answer too large",
            "The answer needs more memory than the gateway allows for one.",
            "Ask for less, or raise limits.answer_bytes.",
        ),
        errors.UpstreamUnreachable: Sentences(
            "service unreachable",
            "There was no connection to the service, or it broke.",
            "Check the network, the proxy and the endpoint in the settings; kiro-asgi doctor tests them.",
        ),
        errors.UpstreamTimeout: Sentences(
            "service silent",
            "The service sent nothing for longer than the gateway waits.",
            "Try again; for a slow model, raise the timeouts in the settings.",
        ),
        errors.UpstreamThrottled: Sentences(
            "service's rate limit",
            "The service asked to send fewer requests.",
            "Wait a minute or two, send fewer requests at once, or add a second credential.",
        ),
        errors.UpstreamRateExceeded: Sentences(
            "account's rate limit",
            "This account has sent the service too many requests.",
            "Wait; each request that comes too soon counts as one more.",
        ),
        errors.UpstreamLimitReached: Sentences(
            "credential's limit reached",
            "The credential has used up what the operator allows it for now; the service was not asked.",
            "Wait until the limit is renewed, raise it, or add a second credential.",
        ),
        errors.UpstreamLimitSpent: Sentences(
            "credential's budget spent",
            "The credential has used up what the operator allows it in a day or a month; the service was not asked.",
            "Wait until the budget is renewed, raise it, or add a second credential.",
        ),
        errors.UpstreamOverloaded: Sentences(
            "service overloaded", "The service has no capacity for this model now.", "Try later, or another model."
        ),
        errors.UpstreamQuotaSpent: Sentences(
            "account's quota spent",
            "The account's quota at the service is used up.",
            "Wait for the reset, change the plan, or add a second credential; waiting a little does not help.",
        ),
        errors.UpstreamModelQuotaSpent: Sentences(
            "model's quota spent",
            "The account's quota for this model is used up, or it has none.",
            "Use another model, or wait for the reset.",
        ),
        errors.UpstreamRequestTooCostly: Sentences(
            "too costly",
            "This one request asks for more than the account has left.",
            "Ask for fewer tokens, or shorten the conversation.",
        ),
        errors.UpstreamDenied: Sentences(
            "service refuses the key",
            "The service refuses the gateway's credential, or what it asks for with it.",
            _PROVIDE + " The account may also lack this model or feature.",
        ),
        errors.UpstreamTokenInvalid: Sentences(
            "service refuses the key",
            "The service does not take the gateway's credential, or not any more. The client's own key is in order.",
            _PROVIDE + " Sign in again, or set a new key.",
        ),
        errors.UpstreamUnauthorized: Sentences(
            "service says 401",
            "The service answers 401, and says nothing of why.",
            _PROVIDE + " A key that works there is missing or wrong, or the address is another server's.",
        ),
        errors.UpstreamForbidden: Sentences(
            "service forbids it",
            "The service forbids this request, and says neither that the credential nor that the model is the reason.",
            "Read its words below; other requests are not held up.",
        ),
        errors.UpstreamModelDenied: Sentences(
            "model not permitted",
            "The gateway's credential may not ask for this model; other models go on.",
            "Ask for another model, or have the account permitted to use this one.",
        ),
        errors.UpstreamSuspicious: Sentences(
            "account limited",
            "The service limits the account because of suspicious activity.",
            "Leave this account unused for some hours; more requests may get it suspended.",
        ),
        errors.UpstreamSuspended: Sentences(
            "account suspended",
            "The service has locked the account.",
            "Send no more requests with this account; its owner must ask the service's support.",
        ),
        errors.UpstreamRejected: Sentences(
            "service refuses the request",
            "The service calls the request that the gateway made of the client's invalid.",
            "Request shows both side by side where content is kept; the service's own words name the place.",
        ),
    }
)
"""Class of an error to what is said of it; the nearest class counts."""

CODES: Final[Mapping[str, Sentences]] = MappingProxyType(
    {
        "disabled_api_key": Sentences(
            "client's key disabled",
            "The operator has disabled the client's key, or its user's access.",
            "Key, below, names it. If it may be used again: kiro-asgi keys enable NAME, or do so in your table.",
        ),
        "expired_api_key": Sentences(
            "client's key expired",
            "The time of the client's key, or of its user's access, is over.",
            "Key, below, names it. kiro-asgi keys rotate NAME makes a new key.",
        ),
        "unknown_user": Sentences(
            "user not admitted",
            "The host has signed in a user who may not use the gateway.",
            "Add the user to the table of clients that you gave the gateway, if the user may.",
        ),
        "tool_choice_failed": Sentences(
            "no tool called",
            "The request demands a call of a tool, and the model made none, also when it was asked once more.",
            "Try another model, name one tool in tool_choice, or let the model choose.",
        ),
        "structured_output_failed": Sentences(
            "not the demanded JSON",
            "The answer had to be JSON of the request's schema, and was not, also when the model was asked once more."
            " Nothing of it was sent.",
            "Make the schema simpler, say in the prompt what each field is, or try another model.",
        ),
        "frame.truncated": Sentences(
            "broken stream",
            "The service's stream broke off in the middle of a frame. What had come until then was sent.",
            "Try again. Stream shows the last bytes that came; if it happens often, look for a proxy on the way.",
        ),
        "frame.checksum": Sentences(
            "damaged stream",
            "A frame of the service's stream has a wrong checksum: its bytes changed on the way.",
            "Try again. Stream shows the frame; if it happens often, look for a proxy on the way.",
        ),
        "stream.empty": Sentences(
            "empty answer",
            "The service's answer has nothing in it.",
            "Try again, or another model; Request shows what the service was asked where content is kept.",
        ),
        "stream.cut": Sentences(
            "broken stream",
            "The service's stream ended before the answer did. What had come until then was sent.",
            "Try again; if it happens often, look for a proxy on the way that limits the time of a connection.",
        ),
        "connection_broken": Sentences(
            "connection broke",
            "The connection to the service broke off before its answer was whole. What had come until then was sent.",
            "Try again; if it happens often, look for a proxy on the way that limits the time of a connection.",
        ),
    }
)
"""Code of an error to what is said of it, where that is more than its class says."""

_CUT: Final = Sentences(
    "tool call cut",
    "The service stopped in the middle of a tool call. The gateway left the call out: half a call must reach no tool.",
    "On the next request the gateway tells the model. If it happens again and again, let the tool take less at once.",
)
_REPAIRED: Final = Sentences(
    "arguments repaired", "The arguments of a tool call were repaired before they were sent.", ""
)
_UNCLEAR_END: Final = Sentences(
    "unclear end",
    "The service gave no reason for the end of its answer, or one that the gateway does not know.",
    "The answer may be incomplete; compare its last words, and try again if so.",
)
_WITHHELD: Final = Sentences(
    "promise enforced",
    "Some of the answer was held back, because the request does not allow it.",
    "Answer shows what was sent.",
)
_UNREADABLE: Final = Sentences(
    "part unreadable",
    "A part of the service's answer could not be read, and was left out.",
    "Stream shows it. If it happens often, report it, with the masked tape.",
)
_UNKNOWN_PART: Final = Sentences(
    "part left out",
    "The service sent something that this version of the gateway does not know, and the client was not sent it.",
    "See whether a newer version of the gateway knows it; otherwise report its name.",
)
_STRAY: Final = Sentences(
    "part left out",
    "A part of the service's answer belongs to nothing that came before it, and was left out.",
    "Stream shows it. If it happens often, report it, with the masked tape.",
)

NOTICES: Final[Mapping[str, Sentences]] = MappingProxyType(
    {
        "call.cut": _CUT,
        "call.malformed": Sentences(
            "tool call withheld",
            "The arguments of a tool call are complete, but no JSON. The gateway left the call out.",
            "On the next request the gateway tells the model, which usually repeats the call.",
        ),
        "stream.no_terminal_signal": _UNCLEAR_END,
        "stop.unknown": _UNCLEAR_END,
        "stop.silent": _UNCLEAR_END,
        "tool_choice.unmet": Sentences(
            "no call, though demanded",
            "The request demands a tool call, and the model made none. The client got the answer.",
            "Set promises.tool_choice to enforce, if the client cannot use an answer without a call.",
        ),
        "stop.details_unknown": _UNCLEAR_END,
        "tier.unknown": Sentences(
            "unknown tier",
            "The service names a tier that this version of the gateway does not know. Costs are by the usual prices.",
            "See whether a newer version of the gateway knows it; otherwise report its name.",
        ),
        "usage.unknown": Sentences(
            "unknown count",
            "The service counts tokens of a step of a kind that this version of the gateway does not know. They were "
            "added to the answer's.",
            "See whether a newer version of the gateway knows it; otherwise report its name.",
        ),
        "stop.missing": _UNCLEAR_END,
        "stop.no_call": Sentences(
            "tool call lost",
            "The service said that its answer calls a tool, and sent no call.",
            "Ask again. If it happens often, look at how that server parses its model's calls.",
        ),
        "text.half": Sentences(
            "character lost",
            "Half of a character came from the service, and its other half never did.",
            "Ask again. If it happens often, report it to the service.",
        ),
        "tool_call.name_corrected": Sentences(
            "tool name corrected", "The model spelt a tool's name wrong; the client got the name of its own tool.", ""
        ),
        "tool_call.written": Sentences(
            "call found in text", "The model wrote a tool call as text; the client got it as a call.", ""
        ),
        "tool_call.equal": Sentences("repeated call left out", "The model made the same call twice; one was sent.", ""),
        "tool_call.not_parallel": Sentences(
            "second call withheld",
            "The request allows one tool call at a time, and the model made more; the first was sent.",
            "Allow parallel calls in the request if the client can take them.",
        ),
        "tool_call.forbidden": Sentences(
            "forbidden call withheld",
            "The model called a tool that the request does not allow; the call was not sent.",
            "Look at tool_choice in the request if the call was wanted.",
        ),
        "text.before_demanded_call": _WITHHELD,
        "output.not_json": Sentences(
            "not the demanded JSON",
            "The answer had to be JSON, and was not; it had been sent before that was known.",
            "Collect the answer instead of streaming it, so that it is checked before it is sent.",
        ),
        "output.schema_mismatch": Sentences(
            "does not match the schema",
            "The answer is JSON, but not of the request's schema; it had been sent before that was known.",
            "Collect the answer instead of streaming it, so that it is checked before it is sent.",
        ),
        "output.unchecked": Sentences(
            "JSON not checked", "Whether the answer matches the request's schema was not checked.", ""
        ),
        "output.unwrapped": Sentences("text around JSON left out", "Text around the demanded JSON was left out.", ""),
        "tool_call.no_id": Sentences("call given an id", "A tool call came without an id, and was given one.", ""),
        "tool_call.unnamed": Sentences("call without a name", "A tool call came without a name.", ""),
        "tool_call.wrapped": _REPAIRED,
        "arguments.dropped": Sentences(
            "arguments left out", "Arguments that the tool's schema does not allow were left out of a call.", ""
        ),
        "citation.without_address": Sentences(
            "sources left out", "Sources without an address were left out: the client's API has no place for them.", ""
        ),
        "declined.recommended_model": Sentences(
            "another model recommended", "The service declined, and recommends another model.", "Try that model."
        ),
    }
)
"""Code of a notice to what is said of it."""

_FAMILIES: Final = (
    ("arguments.", "", _REPAIRED),
    ("", ".unknown", _UNKNOWN_PART),
    ("", ".surplus", _UNKNOWN_PART),
    ("", ".stray", _STRAY),
    *(("", f".{word}", _UNREADABLE) for word in ("unreadable", "undecodable", "malformed", "checksum", "arguments")),
)
"""Beginnings and ends of other codes of notices."""

_NEW: Final = Sentences(
    "changed on the way",
    "The gateway changed something in the answer, or left it out, for a reason that this page has no words for.",
    "Look for this code in the documentation, or in the gateway's log under this call's id.",
)

FINISHES: Final[Mapping[str, Sentences | None]] = MappingProxyType(
    {
        "end": None,
        "tool_call": None,
        "stop_sequence": None,
        "length": Sentences(
            "stopped at the limit",
            "The answer stopped because it reached the number of tokens that it may have.",
            "Raise the limit in the request (max_tokens, or as its API calls it), or ask for less.",
        ),
        "context_full": Sentences(
            "context full",
            "The answer stopped because the model's context window is full.",
            "Shorten or summarize the conversation, or use a model with a larger window.",
        ),
        "content_filter": Sentences(
            "filtered", "A filter of the service took the answer, or the rest of it.", "Ask in other words."
        ),
        "paused": Sentences(
            "paused",
            "The service stopped before the end, and goes on when it is asked to.",
            "Clients go on by themselves.",
        ),
        "compacted": Sentences(
            "conversation summed up",
            "The service summed the conversation up instead of answering, as the request wanted.",
            "Clients send the summary back by themselves.",
        ),
        "refusal": Sentences(
            "declined", "The model declined to answer.", "Answer shows why, where the service says so."
        ),
    }
)
"""Why a model stopped, a value of `StopReason`, to what is said of it; ``None`` where that is as it should be."""


def of_error(name: str, code: str) -> Sentences:
    """What is said of the error of class *name* with that code; a general sentence where neither is known."""
    kind = getattr(errors, name, None)
    known = kind if isinstance(kind, type) and issubclass(kind, KiroAsgiError) else KiroAsgiError
    return CODES.get(code) or next(ERRORS[each] for each in known.__mro__ if each in ERRORS)


def of_notice(code: str) -> Sentences:
    """What is said of a notice with that code, which may have a name behind a colon."""
    kind = code.partition(":")[0]
    families = (said for begin, end, said in _FAMILIES if kind.startswith(begin) and kind.endswith(end))
    return NOTICES.get(kind) or next(families, _NEW)
