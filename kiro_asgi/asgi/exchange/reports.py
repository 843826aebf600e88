"""Reports about a request: to its client, in messages and in a header; and to the logs.

A log line holds names, counts and sizes, never a key, a prompt or an answer, unless the operator has switched that on.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from logging import DEBUG, getLogger
from types import MappingProxyType
from typing import Final

from kiro_asgi import errors
from kiro_asgi.asgi.exchange.facts import Exchange
from kiro_asgi.asgi.protocol import Scope, header_values
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.failures.texts import redacted
from kiro_asgi.model.events import MessageEnd, Notice
from kiro_asgi.model.notes import Note
from kiro_asgi.model.prices import Money
from kiro_asgi.net.transport import Headers

_log = getLogger("kiro_asgi")

RULES_HEADER: Final = b"x-kiro-asgi-rules"
"""In a request: anything but ``0`` or nothing asks for the rules that were applied to it."""

_MAX_NOTES: Final = 50
_FOREIGN: Final = re.compile(r"[^\w.\[\]-]", re.ASCII)


def wants_rules(scope: Scope) -> bool:
    """Whether the client asks for the rules that were applied."""
    return any(value.strip() not in (b"", b"0") for value in header_values(scope, RULES_HEADER))


def wants_notes(scope: Scope) -> bool:
    """Whether the notes on a request are read: by its client, or in the log."""
    return _log.isEnabledFor(DEBUG) or wants_rules(scope)


def log_notes(exchange: Exchange) -> None:
    """Log the adaptations of a request, without quoting it."""
    extra = {"request_id": exchange.request.request_id}
    _log.debug("request adapted: %s", _list(exchange.notes) or "nothing", extra=extra)


def log_body(exchange: Exchange) -> None:
    """Log the request to the upstream: no secrets, and nothing that is not text."""
    body = _BULK.sub('"[left out]"', exchange.rendered.request.body.decode("utf-8", "replace"))
    _log.debug("request body: %s", redacted(body), extra={"request_id": exchange.request.request_id})


def rules_header(notes: Iterable[Note], end: MessageEnd | None = None) -> tuple[bytes, bytes]:
    """The rules as a list of RFC 9651: ``turns.merged;n=2;at="messages[3]", system.exchange``.

    Where the answer has ended before its head is sent, the list has the codes of `notices_in`, too.
    """
    codes = () if end is None else notices_in(end).items()
    return RULES_HEADER, _list((*notes, *(Note(code, times) for code, times in codes))).encode("ascii")


COST_HEADERS: Final = (b"x-kiro-asgi-cost", b"x-kiro-asgi-estimated-cost")
"""Of what the service has counted, and of what was estimated."""


def cost_headers(money: Money | None) -> Headers:
    """What an answer has cost, in decimals; nothing where that is not known."""
    if money is None:
        return ()
    sums = (f"{cost:.12f}".rstrip("0").rstrip(".").encode() for cost in (money.counted, money.estimated))
    return tuple(zip(COST_HEADERS, sums, strict=True))


def _list(notes: Iterable[Note]) -> str:
    return ", ".join(map(_item, tuple(notes)[:_MAX_NOTES]))


def _item(note: Note) -> str:
    times = f";n={note.times}" if note.times > 1 else ""
    place = f';at="{_FOREIGN.sub("_", note.place)[:100]}"' if note.place else ""
    return ":".join(_FOREIGN.sub("_", part) for part in note.rule.split(":", 1)) + times + place


_DIAGNOSTIC: Final = (b"x-amzn-errortype", b"x-amzn-requestid", b"content-type")
"""Headers of a refusal that help to find out what it means."""

_MAX_HEADER: Final = 200
_BULK: Final = re.compile(r'"[A-Za-z0-9+/=_-]{1000,}"')
"""Images, documents, signatures: too long for a log."""


def log_refusal(exchange: Exchange, status: int, headers: Headers, error: KiroAsgiError) -> None:
    """Log a 400: the upstream's message, its diagnostic headers, what was adapted, and the request's sizes.

    *error* holds the upstream's message redacted and cut.
    """
    if status != HTTPStatus.BAD_REQUEST:
        return
    diagnostic = [
        f"{name.decode().lower()}={_header_text(value)}" for name, value in headers if name.lower() in _DIAGNOSTIC
    ]
    counts = [f"{name}={count}" for name, count in exchange.sizes().items()]
    rules = ",".join(note.rule for note in exchange.notes) or "none"
    _log.warning(
        "upstream answered %d %s: %r; %s; rules applied: %s",
        status,
        HTTPStatus(status).phrase,
        error,
        " ".join((*diagnostic, *counts)),
        rules,
        extra={"request_id": exchange.request.request_id},
    )


def _header_text(value: bytes) -> str:
    return value[:_MAX_HEADER].decode("latin-1").encode("unicode_escape").decode("ascii")


UNKNOWN: Final = "event.unknown"
"""Code of notices about events of an unknown kind."""

_NAMING: Final = frozenset(
    {UNKNOWN, *(f"{kind}.unknown" for kind in ("stop", "content", "block", "item", "members", "usage", "tier"))}
)
"""Codes of notices whose detail is a name of the service's own: without it, nobody could look for what it means."""

_NAME_CHARACTERS: Final = 64


def notices_in(end: MessageEnd) -> Counter[str]:
    """Codes of what was passed over, corrected or cut in an answer; with names, as ``event.unknown:fooEvent``."""
    codes = Counter(map(_code, end.notices))
    codes.update("call.cut" for _ in end.truncations)
    codes.update("call.malformed" for _ in end.malformed)
    return codes


def _code(notice: Notice) -> str:
    if notice.code not in _NAMING or not notice.detail:
        return notice.code
    return f"{notice.code}:{_FOREIGN.sub('_', notice.detail)[:_NAME_CHARACTERS]}"


_SENTENCES: Final[Mapping[str, Mapping[type[KiroAsgiError], str]]] = MappingProxyType(
    {
        "en": MappingProxyType({}),
        "zh": MappingProxyType(
            {
                errors.UpstreamTimeout: "上游服务未能及时响应,请稍后重试。",
                errors.UpstreamUnreachable: "网络连接不稳定,请检查您的网络或代理设置。",
                errors.UpstreamOverloaded: "上游服务当前负载过高,请稍后重试。",
                errors.UpstreamThrottled: "请求过于频繁,请稍后重试。",
                errors.UpstreamQuotaSpent: "账户额度已用完:{}",
                errors.UpstreamLimitSpent: "账户额度已用完:{}",
                errors.UpstreamSuspicious: "上游服务已限制该账户:{}",
                errors.UpstreamSuspended: "上游服务已限制该账户:{}",
                errors.UpstreamDenied: "上游服务拒绝了网关的凭据,请联系网关管理员。",
                errors.UpstreamProtocolError: "上游服务的回答已损坏,未能完整接收。",
                errors.AnswerTooLarge: "回答超出网关允许的大小。",
                errors.UpstreamError: "上游服务发生错误,请稍后重试。",
                errors.ContextTooLong: "对话内容过长,超出模型的上下文窗口。",
                errors.UnmetPromise: "模型的回答不符合所要求的格式,请重试。",
                errors.TooBusy: "网关正忙或正在停止,请稍后重试。",
                KiroAsgiError: "请求未能完成:{}",
            }
        ),
    }
)
"""Language to class of failure to sentence, of which the nearest class counts; ``{}`` stands for the failure's own
message, where that holds facts.  In English all keep their own."""


def localized(error: KiroAsgiError, language: str) -> KiroAsgiError:
    """*error* with a message in *language*, for the people who use the client."""
    sentences = _SENTENCES[language]
    sentence = next((sentences[kind] for kind in type(error).__mro__ if kind in sentences), None)
    if sentence is None:
        return error
    translated = copy.copy(error)
    translated.message = sentence.format(error.message)
    return translated
