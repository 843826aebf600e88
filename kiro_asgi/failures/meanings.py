"""What a report means: one table for all services, and what follows from its words.

The most specific fact decides.  First words that mean one thing wherever they stand (``context_length_exceeded``), then
phrases of the message, then general words (``permission_error``, ``ThrottlingException``), then what a word says by its
parts (``account_overdue_error``), and only then the status.  A service's own rows stand before those of all, and only
where it means something else by them.

A refusal of permission is read once more: of the credential it speaks only where its words do, of a model where they
name one, and otherwise of this one request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from attrs import field, frozen

from kiro_asgi.errors import (
    ContextTooLong,
    KiroAsgiError,
    NotTheUpstream,
    Reach,
    UnknownModel,
    UpstreamDenied,
    UpstreamError,
    UpstreamFault,
    UpstreamForbidden,
    UpstreamModelDenied,
    UpstreamModelQuotaSpent,
    UpstreamOverloaded,
    UpstreamProtocolError,
    UpstreamQuotaSpent,
    UpstreamRateExceeded,
    UpstreamRejected,
    UpstreamSuspended,
    UpstreamThrottled,
    UpstreamTimeout,
    UpstreamTokenInvalid,
    UpstreamUnauthorized,
    UpstreamUnavailable,
)
from kiro_asgi.failures.members import blames_member, names_something
from kiro_asgi.failures.phrases import (
    ASKED_OF,
    BARRING,
    CONTENT,
    MODEL_DENIED,
    NOT_HERE,
    OF_A_CREDENTIAL,
    OF_A_DAY,
    OF_A_MINUTE,
    OF_A_MODEL,
    OF_ACCESS,
    PHRASES,
    SPENT,
    TOO_LARGE,
    TOO_LONG,
    ZERO,
    Phrase,
)
from kiro_asgi.failures.report import Report

Class = type[KiroAsgiError]

Meaning = tuple[Class, str]
"""Class of an error, and its code where the service has no word of its own."""


def _words(kind: Class, *words: str) -> dict[str, Meaning]:
    return {key_of(word): (kind, word) for word in words}


def key_of(word: str) -> str:
    """One spelling of a word: ``aws.api#ThrottlingException:http://…``, ``throttling_error`` are ``throttling``."""
    bare = word.partition(":")[0].rpartition("#")[2].strip()
    bare = bare.rpartition(".")[2] if _NAMESPACE.match(bare) else bare
    key = _NOT_LETTER.sub("", bare.lower())
    return key.removesuffix("exception").removesuffix("error") or key


_NOT_LETTER: Final = re.compile(r"[^a-z0-9]")
_NAMESPACE: Final = re.compile(r"(?:com|aws|google|io|org)\.")

ADDRESS: Final = "upstream.address"
"""Code of an answer of a server that does not know the address."""

UNEXPLAINED: Final = "the answer ended with an error that was not explained"

WORDS: Final[Mapping[str, Meaning]] = MappingProxyType(
    {
        **_words(
            UpstreamTokenInvalid,
            *("invalid_api_key", "API_KEY_INVALID", "api_key_expired", "expired_api_key", "token_expired"),
            *("ACCESS_TOKEN_EXPIRED", "ACCESS_TOKEN_TYPE_UNSUPPORTED", "ACCOUNT_STATE_INVALID"),
            *("API_KEY_ANDROID_APP_BLOCKED", "API_KEY_HTTP_REFERRER_BLOCKED", "API_KEY_IOS_APP_BLOCKED"),
            *("API_KEY_IP_ADDRESS_BLOCKED", "API_KEY_SERVICE_BLOCKED", "CREDENTIALS_MISSING", "token_not_found_in_db"),
        ),
        **_words(UpstreamSuspended, "account_deactivated", "CONSUMER_SUSPENDED", "TEMPORARILY_SUSPENDED"),
        **_words(
            UpstreamDenied,
            *("unsupported_country_region_territory", "CONSUMER_INVALID", "SERVICE_DISABLED", "BILLING_DISABLED"),
            *("FEATURE_NOT_SUPPORTED", "UNAUTHORIZED_CUSTOMIZATION_RESOURCE_ACCESS"),
            *("UNAUTHORIZED_WORKSPACE_CONTEXT_FEATURE_ACCESS",),
        ),
        **_words(
            UpstreamQuotaSpent,
            *("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "credit_balance_exhausted"),
            *("organization_spend_limit_exceeded", "organization_usage_limit_exceeded", "usage_limit_reached"),
            *("project_spend_limit_exceeded", "usage_not_included", "MONTHLY_REQUEST_COUNT", "DAILY_REQUEST_COUNT"),
            *("OVERAGE_REQUEST_LIMIT_EXCEEDED", "CONVERSATION_LIMIT_EXCEEDED", "Arrearage", "AccountOverdueError"),
            *("NOT_ENOUGH_BALANCE", "insufficient_user_quota", "insufficient_balance", "insufficient_credits"),
            *("insufficient_funds", "budget_exceeded", "payment_required", "PrepaidBillOverdue", "PostpaidBillOverdue"),
            *("AllocationQuota.FreeTierOnly", "free_quota_exhausted", "quota_exhausted"),
        ),
        **_words(UpstreamThrottled, "rate_limit_exceeded", "slow_down", "SERVICE_REQUEST_RATE_EXCEEDED"),
        **_words(UpstreamRateExceeded, "USER_REQUEST_RATE_EXCEEDED", "CREDIT_CONSUMPTION_RATE_EXCEEDED"),
        **_words(
            UpstreamOverloaded,
            *("server_is_overloaded", "MODEL_CAPACITY_EXHAUSTED", "INSUFFICIENT_MODEL_CAPACITY"),
            *("INSUFFICIENT_THROUGHPUT", "MODEL_TEMPORARILY_UNAVAILABLE", "engine_overloaded", "ServerOverloaded"),
        ),
        **_words(
            ContextTooLong,
            *("context_length_exceeded", "model_max_prompt_tokens_exceeded", "exceed_context_size_error"),
            *("CONTENT_LENGTH_EXCEEDS_THRESHOLD", "PROMPT_TOO_LONG", "ContextWindowExceededError"),
            *("max_prompt_tokens_exceeded", "ContentLengthExceededException", "context_window_exceeded"),
        ),
        **_words(
            UnknownModel,
            *("model_not_found", "model_permission_blocked_org", "model_permission_blocked_project"),
            *(
                "INVALID_MODEL_ID",
                "invalid_model",
                "model_decommissioned",
                "DeploymentNotFound",
                "unknown_model",
                "model_not_exist",
            ),
            *(
                "ModelNotExist",
                "no_available_model",
                "model_not_supported",
                "model_not_available",
                "model_not_available_in_region",
            ),
        ),
        **_words(
            UpstreamModelDenied,
            *("key_model_access_denied", "team_model_access_denied", "user_model_access_denied"),
            *("project_model_access_denied", "org_model_access_denied", "model_access_denied", "model_not_allowed"),
            *("model_terms_required", "ModelNotOpen", "Model.AccessDenied", "AccessDenied.Unpurchased"),
        ),
        **_words(
            UpstreamRejected,
            *("content_filter", CONTENT, "invalid_prompt", "bio_policy", "misalignment_policy_violation"),
            *("data_residency_mismatch", "invalid_encrypted_content", "unsupported_parameter", "unsupported_value"),
            *(
                "policy_error",
                "hooks_failed",
                "ResponsibleAIPolicyViolation",
                "DataInspectionFailed",
                "data_inspection_failed",
            ),
            *("DOCUMENT_COUNT_EXCEEDED", "DOCUMENT_DUPLICATE_NAME", "DOCUMENT_MAXIMUM_PAGES_EXCEEDED"),
            *("DOCUMENT_MODEL_NOT_SUPPORTED", "DOCUMENT_PASSWORD_PROTECTED", "DOCUMENT_SIZE_EXCEEDED"),
            *("IMAGE_COUNT_EXCEEDED", "IMAGE_DIMENSION_EXCEEDED", "IMAGE_FORMAT_UNSUPPORTED", "IMAGE_MIME_MISMATCH"),
            *("IMAGE_SIZE_EXCEEDED", "INVALID_CONVERSATION_ID", "INVALID_KMS_GRANT", "REQUEST_BODY_INVALID"),
            *("REQUEST_BODY_INVALID_JSON", "THINKING_SIGNATURE_INVALID", "TOOL_CONFIG_MISSING", "TOOL_DUPLICATE"),
            *("TOOL_SCHEMA_INVALID", "TOOL_USE_RESULT_MISMATCH", "CUSTOMER_KMS_KEY_DISABLED", "MISMATCHED_KMS_KEY"),
            "CUSTOMER_KMS_KEY_INVALID_KEY_POLICY",
        ),
        **_words(UpstreamFault, "INVALID_TASK_ASSIST_PLAN", "vector_store_timeout"),
    }
)
"""Words that mean one thing wherever they stand, by `key_of`; how the service spells one is its code."""

GENERAL: Final[Mapping[str, Meaning]] = MappingProxyType(
    {
        **dict.fromkeys(("validation", "invalidrequest", "serialization"), (UpstreamRejected, "validation")),
        "invalidargument": (UpstreamRejected, "INVALID_ARGUMENT"),
        "failedprecondition": (UpstreamRejected, "FAILED_PRECONDITION"),
        "outofrange": (UpstreamRejected, "OUT_OF_RANGE"),
        "unimplemented": (UpstreamRejected, "UNIMPLEMENTED"),
        "conflict": (UpstreamRejected, "conflict"),
        **dict.fromkeys(("notfound", "resourcenotfound", "unknownoperation"), (UpstreamRejected, "not_found")),
        **dict.fromkeys(
            (
                *("authentication", "unauthenticated", "unauthorized", "unrecognizedclient", "invalidsignature"),
                *("signaturedoesnotmatch", "expiredtoken", "invalidtoken", "invalidclienttokenid"),
                *("missingauthenticationtoken", "incompletesignature", "requestexpired", "invalidclient"),
            ),
            (UpstreamTokenInvalid, "token_invalid"),
        ),
        **dict.fromkeys(
            ("permission", "permissiondenied", "accessdenied", "forbidden", "optinrequired", "notauthorized"),
            (UpstreamForbidden, "access_denied"),
        ),
        **dict.fromkeys(("billing", "servicequotaexceeded"), (UpstreamQuotaSpent, "quota_spent")),
        "requesttoolarge": (ContextTooLong, "request_too_large"),
        **dict.fromkeys(
            ("ratelimit", "requests", "tokens", "throttling", "toomanyrequests", "resourceexhausted"),
            (UpstreamThrottled, "throttled"),
        ),
        **dict.fromkeys(
            ("timeout", "modeltimeout", "requesttimeout", "deadlineexceeded", "cancelled", "gatewaytimeout"),
            (UpstreamTimeout, "timeout"),
        ),
        **dict.fromkeys(("overloaded", "modelnotready"), (UpstreamOverloaded, "overloaded")),
        **dict.fromkeys(("unavailable", "serviceunavailable"), (UpstreamUnavailable, "unavailable")),
        **dict.fromkeys(("modelerror", "model", "modelstream"), (UpstreamFault, "model_error")),
        **dict.fromkeys(
            ("api", "internalserver", "internalfailure", "internal", "aborted", "dataloss", "unknown"),
            (UpstreamFault, "internal"),
        ),
        "server": (UpstreamFault, "server_error"),
        "invalidstate": (UpstreamFault, "invalid_state"),
        "dryrunoperation": (UpstreamProtocolError, "dry_run"),
    }
)
"""Words that say no more than a status does, by `key_of`."""

STATUSES: Final[Mapping[int, Meaning]] = MappingProxyType(
    {
        401: (UpstreamTokenInvalid, "token_invalid"),
        402: (UpstreamQuotaSpent, "quota_spent"),
        403: (UpstreamForbidden, "access_denied"),
        404: (UpstreamRejected, "not_found"),
        408: (UpstreamTimeout, "timeout"),
        413: (ContextTooLong, "request_too_large"),
        429: (UpstreamThrottled, "throttled"),
        499: (UpstreamTimeout, "timeout"),
        501: (UpstreamRejected, "not_implemented"),
        503: (UpstreamUnavailable, "unavailable"),
        504: (UpstreamTimeout, "timeout"),
        **dict.fromkeys((520, 521, 523, 525, 526, 530), (UpstreamUnavailable, "unavailable")),
        **dict.fromkeys((522, 524), (UpstreamTimeout, "timeout")),
        529: (UpstreamOverloaded, "overloaded"),
    }
)
"""Status to its meaning, where nothing else is known; 520 to 530 are those of Cloudflare's proxies.

Source: https://developers.cloudflare.com/support/troubleshooting/http-status-codes/cloudflare-5xx-errors/"""

_HUNDREDS: Final[Mapping[int, Meaning]] = MappingProxyType(
    {
        3: (NotTheUpstream, "upstream.redirect"),
        4: (UpstreamRejected, "rejected"),
        5: (UpstreamFault, "internal"),
    }
)
"""Of statuses that no table has.  A redirect is never followed: it would take our credential along."""

_OTHERWISE: Final[Meaning] = (UpstreamProtocolError, "upstream.status")


_LONG_WAIT: Final = 600.0
"""Seconds; who is to come back sooner than that has met a limit, and spent nothing."""

LIMITING: Final = re.compile(r"_rate_|_rate_?limit|_throttl|_too_many_requests")
"""Parts of a word that speak of a limit on rates."""

_PARTS: Final[tuple[tuple[re.Pattern[str], Class], ...]] = (
    (re.compile(r"_auth_failure"), UpstreamTokenInvalid),
    (LIMITING, UpstreamThrottled),
    (re.compile(r"_quota|_credit|_billing|_balance|_payment|_spend|_usage_limit|_overdue|_arrear"), UpstreamQuotaSpent),
    (re.compile(r"overload|_capacity|_busy_|_resource_exhaust"), UpstreamOverloaded),
    (
        re.compile(r"context_(?:length|window|size)|_model_length|_(?:prompt|input)_(?:too_long|tokens?_exceed)"),
        ContextTooLong,
    ),
    (
        re.compile(
            r"content_(?:filter|policy|block)|moderation|safety|policy_violation|data_inspection|sensitive|guard_?rail"
        ),
        UpstreamRejected,
    ),
    (re.compile(r"_limit_exceeded"), UpstreamThrottled),
    (re.compile(r"_time_?out"), UpstreamTimeout),
)
"""What stands in a word, of which each part is between underscores, to its meaning; the first that fits."""

_PIECE: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def parts_of_word(word: str) -> str:
    """A word in small letters with underscores around its parts: ``AccountOverdue`` is ``_account_overdue_``."""
    return f"_{'_'.join(_PIECE.findall(word))}_".lower()


def _by_key(rows: Mapping[str, Meaning]) -> Mapping[str, Meaning]:
    return {key_of(word): meaning for word, meaning in rows.items()}


@frozen
class Own:
    """Rows of one service, which mean something else there than everywhere; each has its source beside it."""

    words: Mapping[str, Meaning] = field(factory=dict, converter=_by_key)
    phrases: tuple[Phrase, ...] = ()
    statuses: Mapping[int, Meaning] = field(factory=dict)
    hints: Mapping[str, str] = field(factory=dict)
    """Code to advice, which follows the service's message."""


COMMON: Final = Own()
"""No rows of its own."""


def error_of(report: Report, own: Own = COMMON) -> KiroAsgiError:
    """The error that *report* means, by the tables, of which those of its service come first."""
    kind, code = _meaning(report, own)
    error = kind(
        worded(kind, report.message or "no explanation") + own.hints.get(code, "") + report.ending,
        code=code,
        retry_after=None if issubclass(kind, UpstreamDenied) else report.wait,
    )
    if issubclass(kind, UpstreamQuotaSpent):
        error.retry_after = report.renewal
    is_vague = not report.ending and type(error) in (UpstreamFault, UpstreamError)
    if is_vague and blames_member(error) and names_something(report.message):
        # A server that reports everything with the status of a success says by its words what it refuses.
        error = UpstreamRejected(error.message, code=error.code)
    error.member = report.member
    if type(error) is UpstreamRejected and blames_member(error):
        error.reach = Reach.MEMBER
    return error


def worded(kind: Class, message: str) -> str:
    """*message*, with the words by which clients recognise a `ContextTooLong`, where *kind* is one."""
    if kind is ContextTooLong and "prompt is too long" not in message.lower():
        return f"prompt is too long: {message}"
    return message


def _meaning(report: Report, own: Own) -> Meaning:
    if report.is_challenge or (
        report.is_page
        and report.status < 500
        and report.status not in _ABSENT
        and report.status != _TOO_LARGE
        and not (report.status == _UNAUTHORIZED and OF_A_CREDENTIAL.search(report.message))
        and not blames_member(UpstreamRejected(report.message))
    ):
        return NotTheUpstream, "upstream.page"
    if _is_elsewhere(report):
        return NotTheUpstream, ADDRESS
    found = _certain(report, own)
    kind, code = found or _permitted(report, *_general(report, own))
    if kind is UnknownModel and report.status in _FORBIDDEN and OF_ACCESS.search(f"{report.message} {code}"):
        return UpstreamModelDenied, code
    return _limited(report, kind, code) if kind in _LIMITS else (kind, code)


def _is_elsewhere(report: Report) -> bool:
    """Whether whoever answers does not know the address."""
    if report.status in _ABSENT:
        return report.is_page or not report.message or NOT_HERE.search(report.message) is not None
    return not report.ending and "endpoint or method" in report.message


def _certain(report: Report, own: Own) -> Meaning | None:
    """What words and phrases say that mean one thing; ``None`` where there is none."""
    if report.flagged:
        return UpstreamRejected, CONTENT
    if report.status == _TOO_LARGE:  # Groq sends it with the code of a rate limit, for what no wait makes smaller
        return STATUSES[_TOO_LARGE]
    for pattern, kind, code in BARRING:
        if pattern.search(report.message):
            return kind, code
    for word in report.words:
        key = key_of(word)
        if found := own.words.get(key) or WORDS.get(key):
            return found
    for pattern, kind, code in (*own.phrases, *PHRASES):
        if pattern.search(report.message):
            return kind, code
    return None


def _general(report: Report, own: Own) -> Meaning:
    """What general words say, or the status."""
    for word in report.words:
        if key_of(word) in GENERAL:
            continue
        parts = parts_of_word(word)
        for pattern, kind in _PARTS:
            if pattern.search(parts):
                return kind, word[:_LONGEST_CODE]
    general = [(at, GENERAL[key_of(word)]) for at, word in enumerate(report.words) if key_of(word) in GENERAL]
    status = by_status(report.status, own.statuses)
    # A word for any bad request says less than another word, and less than a status that has a meaning of its own.
    at, (kind, code) = next(
        (row for row in general if row[1][0] is not UpstreamRejected),
        general[0] if general and (status[0] in _VAGUE or not report.ending) else (len(report.words), status),
    )
    if kind in (UpstreamFault, UpstreamUnavailable) and report.status == _UNAVAILABLE:
        kind, code = status
    if code == "not_found" and (OF_A_MODEL.search(report.message) or "not available" in report.message):
        return UnknownModel, "model_not_found"
    named = next(filter(_CODE.fullmatch, report.words[:at]), "")
    return kind, named if named and kind in (UpstreamRejected, UpstreamForbidden) else code


def _permitted(report: Report, kind: Class, code: str) -> Meaning:
    """The same of a refusal of permission, by whom its words speak of."""
    if kind not in (UpstreamForbidden, UpstreamTokenInvalid):
        return kind, code
    if OF_A_MODEL.search(report.message):
        return UpstreamModelDenied, MODEL_DENIED
    said = f"{report.message} {' '.join(report.words)}"
    is_named = any(GENERAL.get(key_of(word), _OTHERWISE)[0] is UpstreamTokenInvalid for word in report.words)
    if is_named or OF_A_CREDENTIAL.search(said):
        return UpstreamDenied if kind is UpstreamForbidden else kind, code
    return UpstreamForbidden if kind is UpstreamForbidden else UpstreamUnauthorized, code


def by_status(status: int, known: Mapping[int, Meaning] = STATUSES) -> Meaning:
    """Classify *status* where nothing else is known; *known* are the service's own rows."""
    return known.get(status) or STATUSES.get(status) or _HUNDREDS.get(status // 100) or _OTHERWISE


def _limited(report: Report, kind: Class, code: str) -> Meaning:
    """A limit or a spent quota: by the quota's name, what it is of, and how soon there is more.

    One of a day, or of nothing, is not waited for; some are one model's alone.
    """
    quotas = [name for name, _ in report.quotas]
    daily = [name for name in quotas if "PerDay" in name]
    if any("PerModel" not in name for name in daily):
        return UpstreamQuotaSpent, SPENT
    if daily or any(value == "0" for _, value in report.quotas) or ZERO.search(report.message):
        return UpstreamModelQuotaSpent, "model_quota_spent"
    if quotas:
        return UpstreamRateExceeded, "rate_exceeded"
    if OF_A_DAY.search(report.message):
        return UpstreamQuotaSpent, SPENT
    if kind is not UpstreamQuotaSpent:
        is_too_large = TOO_LARGE.search(report.message) or _exceeds_alone(report.message)
        return (ContextTooLong, TOO_LONG) if is_too_large else (kind, code)
    if report.status != _TOO_MANY or key_of(code) in WORDS:
        return kind, code
    if OF_A_MINUTE.search(report.message):
        return UpstreamRateExceeded, "rate_exceeded"
    is_soon = report.wait is not None and report.wait <= _LONG_WAIT
    return (UpstreamThrottled, "throttled") if is_soon else (kind, code)


def _exceeds_alone(message: str) -> bool:
    """Whether one request asks for more than a whole minute's limit."""
    found = ASKED_OF.search(message)
    return found is not None and int(found[2]) > int(found[1])


_TOO_LARGE: Final = 413
_TOO_MANY: Final = 429
_UNAUTHORIZED: Final = 401
_LIMITS: Final = (UpstreamThrottled, UpstreamRateExceeded, UpstreamQuotaSpent)
_FORBIDDEN: Final = frozenset({401, 403})
_VAGUE: Final = (UpstreamRejected, UpstreamFault, UpstreamProtocolError)
"""Meanings of statuses that say no more than a general word does."""

_ABSENT: Final = frozenset({404, 405})
_UNAVAILABLE: Final = 503
_LONGEST_CODE: Final = 64
_CODE: Final = re.compile(r"[\w.-]{1,64}", re.ASCII)
