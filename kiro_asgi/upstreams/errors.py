"""Errors of services: reading their answers, classifying them, redacting their messages.

Each upstream has tables of its own; here is what all of them agree about.

Source: https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.errors import (
    ContextTooLong,
    KiroAsgiError,
    NotTheUpstream,
    UpstreamFault,
    UpstreamProtocolError,
    UpstreamRejected,
    UpstreamUnavailable,
)
from kiro_asgi.model.events import Declined, Notice
from kiro_asgi.rendering.unread import EVERY
from kiro_asgi.wire.json import JsonError, loads, text_of

MAX_MESSAGE: Final = 500
"""Characters of the service's message that are passed on."""

MAX_RETRY_AFTER: Final = 3600.0
"""Seconds; a service that asks for more gets this."""


def fields_of(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by name, in lower case; of several of one name, the last."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}


def report_of(body: bytes) -> Mapping[str, Any]:
    """Parse *body* as a JSON object; empty where it is anything else."""
    try:
        report = loads(body)
    except JsonError:
        return {}
    return report if type(report) is dict else {}


_NOT: Final = r"(?:not|n[\u2019']t)(?: yet| currently| be| been)? "

_NOT_TAKEN: Final = re.compile(
    r"unknown|unsupported|unrecogni[sz]ed|unpermitted|unexpected|disallow|forbidden|prohibited|incompatible|deprecated"
    rf"|{_NOT}(?:support|permit|allow|accept|recogni[sz]|implement|defined|known|available|compatible"
    r"|(?:a )?valid (?:param|field|arg|prop|key|option|input|member|name)|valid (?:for|with|in)\b)"
    r"|no longer (?:supported|available|accepted)|extra (?:input|field|param|key|prop)|additional propert"
    r"|must not|(?:cannot|can[\u2019']t) (?:find field|be (?:used|set|specified))|does not exist|no such "
    r"|must be (?:null|omitted|absent|removed|unset)|\b(?:remove|omit|drop) "
    r"|invalid (?:request )?(?:param(?:eter)?|field|argument|key|property|option|member)\b"
    # Chinese, Japanese and Korean; German, French, Spanish, Portuguese, Italian and Russian.
    r"|不支持|不支援|未知|未定义|无法识别|不允许|不允許|不接受|不被接受|多余|无效的?(?:参数|字段)|非法(?:参数|字段)"
    r"|サポートされて|サポートして|対応していま|不明な|認識でき|認識され|許可され|使用できませ|無効なパラメ"
    r"|지원되지|지원하지|알 수 없|허용되지|인식할 수 없|유효하지 않은 (?:매개|파라|필드)"
    r"|nicht (?:unterst|erlaubt|zul|bekannt|erkannt|verf)|unbekannte|unzul"
    r"|pas (?:pris|support|autoris|reconn|permis|accept)|non (?:pris|support|autoris|reconn|consentit|riconosci)"
    r"|inconnu|no (?:se admit|está (?:soport|permit|admit)|(?:es )?(?:compat|soport|permit|admit|reconoc))|desconocid"
    r"|não (?:é |está )?(?:suport|permit|reconhec|aceit)|desconhecid|sconosciut"
    r"|не поддерж|неизвестн|не разреш|недопуст",
    re.I,
)
"""Phrases of messages that blame a member itself, not its value; some services write to their own country."""

_VALUE: Final = re.compile(
    r"invalid (?:request )?(?:param\w*|field|argument|key|property|option|member)\b(?=.{0,200}(?:between|range|at least"
    r"|at most|greater|less than|one of|of type|should be|expected|too (?:large|small|long|high|low|many)|minimum"
    r"|maximum|exceed|must be (?!null|omitted|absent|removed|unset)))",
    re.I | re.S,
)
"""Phrases that are about a value all the same."""

_CODE: Final = re.compile(
    r"(?:unsupported|unknown|extra|unexpected|unrecogni[sz]ed|invalid)_(?:param|field|arg|prop|name|key|forbidden)",
    re.I,
)
"""Codes that say the same."""


def blames_member(error: KiroAsgiError) -> bool:
    """Whether *error* blames a member of the request itself, and not its value, in its message or its code."""
    return bool(_CODE.search(error.code) or _NOT_TAKEN.search(_VALUE.sub("", error.message)))


_MEMBER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*+")


def refused_members(
    error: KiroAsgiError, sent: Collection[str], refused: tuple[str, ...], crossed: Collection[str] = ()
) -> tuple[str, ...]:
    """*refused*, and that of the members *sent* as the client sent them which *error* refuses; the same for none.

    Of those that *crossed* from another API the client's words are not the service's: it has only to name one.
    A service names one at a time, and each costs a request: after the first none of them is sent any more.
    """
    if EVERY in refused or not isinstance(error, UpstreamRejected):
        return refused
    blamed = {*sent, *crossed} if blames_member(error) else crossed
    found = next((name for name in _MEMBER.findall(error.message) if name in blamed), "")
    return (*refused, EVERY if refused else found) if found else refused


def clean(text: str) -> str:
    """*text* fit for a log line or an error body: one line, short, without secrets."""
    # Redacted before it is cut to its final length: a part of a secret may match no pattern.
    text = redacted(_UNPRINTABLE.sub(" ", text[: 4 * MAX_MESSAGE]).strip())
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…"


def declined(record: Mapping[str, Any]) -> Declined | None:
    """What a service says of why it declined; ``None`` where it says nothing."""
    model = text_of(record, "recommended_model") or text_of(record, "recommendedModel")
    found = Declined(*map(clean, (text_of(record, "category"), text_of(record, "explanation"), model)))
    return None if found == Declined() else found


def recommended(why: Declined | None) -> tuple[Notice, ...]:
    """The model that a service recommends in its place, for clients whose API has no place for it."""
    model = why.recommended_model if why is not None else ""
    return (Notice("declined.recommended_model", model),) if model else ()


def redacted(text: str) -> str:
    """*text* without secrets."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


def status_of(report: Mapping[str, Any]) -> int:
    """The HTTP status that ``code`` is in the middle of an answer, as a number or (LiteLLM) in digits; else 500."""
    code = report.get("code")
    if type(code) is str and _STATUS.fullmatch(code):
        return int(code)
    return code if type(code) is int and 400 <= code < 600 else 500


def retry_after(fields: Mapping[str, str]) -> float | None:
    """Seconds to wait.  A date is compared with the answer's own, so no clock is asked, ours or a wrong one."""
    value = fields.get("retry-after", "").strip()
    if re.fullmatch(r"[0-9]{1,18}(?:\.[0-9]{1,9})?", value):
        return min(float(value), MAX_RETRY_AFTER)
    then, now = date_of(value), date_of(fields.get("date", ""))
    if then is None or now is None:
        return None
    return min(max((then - now).total_seconds(), 0.0), MAX_RETRY_AFTER)


def date_of(value: str) -> datetime | None:
    """The moment that a header names; ``None`` where it names none."""
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


_STATUS: Final = re.compile(r"[45][0-9]{2}")
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")

_SECRETS: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"\b(bearer\s+)[\w.~+/=:-]{16,}", re.I | re.A), r"\1[redacted]"),
    (re.compile(r"\bksk_[\w-]+", re.A), "[redacted]"),
    (re.compile(r"\b(?:sk-|xai-|gsk_)[\w-]{8,}", re.A), "[redacted]"),
    (re.compile(r"\bAIza[\w-]{16,}", re.A), "[redacted]"),
    (re.compile(r"\bao[ar][\w+/=:-]{20,}", re.A), "[redacted]"),
    (re.compile(r"\beyJ[\w-]{8,}+(?:\.[\w-]++){0,2}", re.A), "[redacted]"),
    (re.compile(r"(\barn:[\w-]*:[\w-]*:[\w-]*:)[0-9]{12}", re.A), r"\1[redacted]"),
)
"""Secrets that must not be passed on: bearer tokens, API keys, access and refresh tokens, JWTs, account numbers."""


Class = type[KiroAsgiError]

Meaning = tuple[Class, str]
"""Class of an error, and its code where none is given."""

_NOT_IMPLEMENTED: Final = 501
"""The service lacks what the request asks for, and will the next time: the one of its failures that says so."""

_HUNDREDS: Final[Mapping[int, Meaning]] = MappingProxyType(
    {
        3: (NotTheUpstream, "upstream.redirect"),
        4: (UpstreamRejected, "rejected"),
        5: (UpstreamFault, "internal"),
    }
)
"""Of statuses that no table has.  A redirect is never followed: it would take our credential along."""

_OTHERWISE: Final[Meaning] = (UpstreamProtocolError, "upstream.status")


def by_status(status: int, known: Mapping[int, Meaning]) -> Meaning:
    """Classify *status* where nothing else is known; *known* is the upstream's own table."""
    if status == _NOT_IMPLEMENTED:
        return UpstreamRejected, "not_implemented"
    return known.get(status) or _HUNDREDS.get(status // 100) or _OTHERWISE


def unavailable(error: KiroAsgiError, status: int) -> KiroAsgiError:
    """*error*, but where a service that answers 503 says no more than that it failed: then it is not available."""
    if status != 503 or type(error) is not UpstreamFault:
        return error
    return UpstreamUnavailable(error.message, code=error.code, retry_after=error.retry_after)


def worded(error: Class, message: str) -> str:
    """*message*, with the words by which clients recognise a `ContextTooLong`, where *error* is one."""
    if error is ContextTooLong and "prompt is too long" not in message.lower():
        return f"prompt is too long: {message}"
    return message
