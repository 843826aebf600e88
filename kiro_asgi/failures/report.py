"""What a service says in place of an answer, read into one form, however it says it.

A failure comes as an HTTP status, an event, a frame, a line, a piece of a stream or a whole document, and in many
forms: an ``error`` that is an object, a text, a list or a number; ``errors``; a list around it; JSON within a text; an
event of that name; a status of its own beside nothing (``success``, MiniMax's ``base_resp``); a message and nothing
else; a page of somebody who stands before the service.

Sources: https://openrouter.ai/docs/api/reference/errors-and-debugging, https://www.rfc-editor.org/rfc/rfc9457,
https://smithy.io/2.0/aws/protocols/aws-json-1_0-protocol.html (operation error serialization),
https://google.aip.dev/193, https://platform.minimax.io/docs/api-reference/errorcode,
https://docs.z.ai/api-reference/api-code
"""

from __future__ import annotations

import html
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, Final

from attrs import evolve, frozen

from kiro_asgi.failures.texts import clean
from kiro_asgi.failures.waits import fields_of, renewal_in, wait_in
from kiro_asgi.limits import REFUSAL_BYTES
from kiro_asgi.wire.json import JsonError, loads, loads_answer, object_of, objects_of, text_of

Object = Mapping[str, Any]

_NOTHING: Final[Object] = {}


@frozen
class Report:
    """What a service says of a failure."""

    status: int
    """The HTTP status, or the one that the report names in the middle of an answer; 500 where it names none."""

    words: tuple[str, ...] = ()
    """Codes, reasons, names of exceptions and types, as the service spells them, the most specific first."""

    message: str = ""
    """In one line, short, without secrets; empty where there is none."""

    member: str = ""
    """The member of the request that it names in a field of its own, e.g. ``messages.0.content``."""

    wait: float | None = None
    """Seconds until it may be asked again."""

    renewal: float | None = None
    """Seconds until there is a new quota."""

    provider: str = ""
    """Whose words these are, where another service stands behind it."""

    quotas: tuple[tuple[str, str], ...] = ()
    """Names and values of the quotas that are used up."""

    flagged: bool = False
    """Whether what the client wrote was flagged."""

    is_page: bool = False
    """Whether it is a web page, which no service of this kind sends."""

    is_challenge: bool = False
    """Whether whoever stands before the service wants to see a browser."""

    ending: str = ""
    """What messages have behind the service's words."""


def refusal(status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> Report:
    """The report that an answer with a *status* other than 200 is, or a whole document that reports a failure.

    Args:
        status: The HTTP status.
        headers: Of the answer.
        body: Its body; what is packed is unpacked up to `kiro_asgi.limits.REFUSAL_BYTES`.
    """
    fields = fields_of(headers)
    body = _unpacked(body, fields.get("content-encoding", ""))
    value = _value(body)
    names = (fields.get("x-amzn-errortype", ""),)
    challenged = fields.get("cf-mitigated", "").strip().lower() == "challenge"
    ending = f" (HTTP {status})"
    if isinstance(value, dict | list):
        return _read(value, fields, status, names, ending)
    text = body.decode("utf-8", "replace")
    if _PAGE.search(text[:_LOOKED_AT]) or "html" in fields.get("content-type", ""):
        page = text[:_PAGE_LOOKED_AT]
        found = _TITLE.search(page)
        words = clean(html.unescape(found[1] if found else _TAG.sub(" ", page)))[:_TITLE_LENGTH]
        said = f"a web page: {words}" if words else "a web page"
        is_challenge = challenged or _CHALLENGE.search(page) is not None
        return Report(status, (), said, is_page=True, is_challenge=is_challenge, ending=ending)
    said = value if type(value) is str else text if _is_text(text) else "an answer that is no text"
    if not said.strip():
        return Report(status, (*filter(None, names),), ending=ending, is_challenge=challenged)
    return evolve(_read({"message": said}, fields, status, names, ending), is_challenge=challenged)


def failure(value: Object, *names: str, status: int = 0, message: str = "") -> Report:
    """The report that stands in the middle of an answer, as `report_in` has found it.

    Args:
        value: The object that it is.
        names: Of the exception or event.
        status: That it stands for; 0 for the one that it names.
        message: Where it has none.
    """
    return _read(value, {}, status, names, "", message)


def document_of(body: bytes) -> Object:
    """*body* as a JSON object; empty where it is anything else."""
    try:
        value = loads_answer(body)
    except JsonError:
        return {}
    return value if type(value) is dict else {}


def report_in(value: Object, name: str = "", content: Set[str] = frozenset()) -> Object | None:
    """The report in *value*; ``None`` where it holds none.

    Args:
        value: Where a piece of an answer is due: an event, a document, a choice.
        name: Name of the event.
        content: Members of which a piece of an answer has one; a message without any of them is a report.
    """
    for holder in (value, object_of(value.get("Response"))):  # that of Tencent's services
        if any(_error(holder.get(member)) for member in ("error", "errors", "Error")):
            return value
    if object_of(value.get("base_resp")).get("status_code") or (value.get("error_code") and _message(value)):
        return value
    is_named = names_failure(name) or names_failure(text_of(value, "type")) or value.get("object") == "error"
    if is_named or _says_failed(value) or (content and content.isdisjoint(value) and _message(value)):
        return value
    return None


def names_failure(name: str) -> bool:
    """Whether an event, or an object, is called an error."""
    return bool(name) and _FAILURE.search(name) is not None


def is_told(text: str) -> bool:
    """Whether a *text* in the place of JSON tells of a failure, and is no sign of life."""
    return _TOLD.search(text[:_LOOKED_AT]) is not None


def described(value: Any) -> str:
    """A document that is no answer, for a message: its members' names, and none of its values."""
    if type(value) is dict:
        return f"a JSON object with {', '.join(clean(str(name))[:40] for name in list(value)[:6]) or 'no members'}"
    return "a JSON list" if type(value) is list else "no JSON"


# Reading.


def _read(
    value: Any, fields: Mapping[str, str], status: int, names: Iterable[str], ending: str, otherwise: str = ""
) -> Report:
    outer = [*_levels(value)]
    behind = next((found for level in outer if (found := _behind(level))), [])
    levels = [*behind[::-1], *outer[::-1]]
    words = (word for level in levels for word in _words(level) if word and not word.isdecimal())
    message = clean(next(filter(None, map(_message, levels)), ""))
    member = clean(next(filter(None, map(_member, levels)), ""))[:200]
    if member and member not in message:
        message = f"{member}: {message}" if message else member
    provider = next(filter(None, (text_of(object_of(each.get("metadata")), "provider_name") for each in levels)), "")
    if provider and behind:
        message = f"{clean(provider)[:60]}: {message}"
    original = next((code for level in levels if type(code := level.get("originalStatusCode")) is int), 0)
    violations = [
        each for level in levels for detail in _details(level) for each in objects_of(detail.get("violations"))
    ]
    return Report(
        original or status or _status(levels),
        () if original else (*dict.fromkeys(words), *filter(None, names)),  # a model's own error counts by its status
        message or otherwise or (described(value) if value else ""),
        member,
        next((wait for level in levels if (wait := wait_in(fields, level, message)) is not None), None),
        next((wait for level in levels if (wait := renewal_in(fields, level, message)) is not None), None),
        provider,
        tuple((text_of(each, "quotaId"), str(each.get("quotaValue", ""))[:20]) for each in violations),
        any("flagged_input" in object_of(level.get("metadata")) for level in levels),
        ending=ending,
    )


def _levels(value: Any) -> Iterator[Object]:
    """The objects that report the error, from the outermost to the innermost."""
    for _ in range(_DEEPEST):
        value = _object(value)
        if not value:
            return
        yield value
        inner = next((value[name] for name in _HOLDERS if _is_report(value.get(name))), None)
        if inner is None:
            return
        value = inner


def _object(value: Any) -> Object:
    if type(value) is str:
        value = _value(_up_to_end(value).encode("utf-8", "replace")) if _is_json(value) else {"message": value}
    if type(value) is list:
        texts = [each for each in value if type(each) is str]
        objects = objects_of(value)
        value = objects[0] if objects else {"message": "; ".join(texts)} if texts else {}
    if type(value) is int and value:
        return {"code": value}
    return value if type(value) is dict else {}


def _is_report(value: Any) -> bool:
    """Whether a member holds the report itself, and is not a word of it."""
    if type(value) is dict:
        return bool(value)
    if type(value) is list:
        return bool(value) and "loc" not in object_of(value[0])  # FastAPI's complaints are the message
    return type(value) is str and _is_json(value) and bool(_object(value))


def _is_json(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[")


def _up_to_end(text: str) -> str:
    """JSON without what a service says behind it."""
    return text[: max(text.rfind("}"), text.rfind("]")) + 1]


def _behind(level: Object) -> list[Object]:
    """The report of the service behind this one."""
    raw = object_of(level.get("metadata")).get("raw") or level.get("upstream_error") or level.get("provider_error")
    return [*_levels(raw)] if raw else []


def _words(level: Object) -> Iterator[str]:
    """Words of one object, the most specific first."""
    yield from (text_of(detail, "reason") for detail in _details(level))
    yield text_of(level, "reason")
    yield from (text_of(object_of(level.get(name)), "code") for name in ("innererror", "inner_error"))
    yield text_of(object_of(level.get("metadata")), "error_type")
    yield text_of(object_of(level.get("details")), "error_code")
    for name in ("code", "Code", "error_code", "errorCode", "err_code", "type", "__type", "status", "name", "error"):
        value = text_of(level, name).strip()
        yield value if _WORD.fullmatch(value) else ""
    base = object_of(level.get("base_resp"))
    yield text_of(base, "status_msg") if _WORD.fullmatch(text_of(base, "status_msg")) else ""


def _message(level: Object) -> str:
    """The message of one object; for a list of complaints (FastAPI's 422) that of each, with its place."""
    for name in _MESSAGES:
        value = level.get(name)
        if type(value) is str and value and not _is_report(value):
            return value
        if type(value) is list and value:
            texts = [_complaint(each) if type(each) is dict else each if type(each) is str else "" for each in value]
            if joined := "; ".join(filter(None, texts)):
                return joined
    error = level.get("error")
    if type(error) is str and error and not _is_report(error):
        return error
    return text_of(object_of(level.get("base_resp")), "status_msg")


def _complaint(entry: Object) -> str:
    place = entry.get("loc")
    named = ".".join(map(str, place)) if type(place) is list else ""
    text = text_of(entry, "msg") or text_of(entry, "message")
    return f"{named}: {text}" if named else text


def _member(level: Object) -> str:
    """The place in the request that one object names in a field of its own."""
    if param := text_of(level, "param"):
        return param
    for detail in _details(level):
        for violation in objects_of(detail.get("fieldViolations")):
            if place := text_of(violation, "field"):
                return place
    return ""


def _details(level: Object) -> list[Object]:
    return objects_of(level.get("details"))[:_MANY]


def _status(levels: list[Object]) -> int:
    """The status that a report in the middle of an answer names, as a number or (LiteLLM) in digits; else 500."""
    for level in levels:
        for name in ("status", "code", "status_code", "http_status", "http_code"):
            value = level.get(name)
            if type(value) is str and _STATUS.fullmatch(value):
                return int(value)
            if type(value) is int and 400 <= value < 600:
                return value
    return 500


def _error(value: Any) -> bool:
    """Whether *value*, in the place of an error, is one."""
    if type(value) is list and value:
        value = value[0]
    if type(value) is dict:
        return any(value.values())
    return (type(value) is str and bool(value)) or (type(value) is int and value != 0) or value is True


def _says_failed(value: Object) -> bool:
    return any(value.get(name) is False for name in ("success", "ok")) or value.get("status") in _FAILED


def _value(body: bytes) -> Any:
    try:
        return loads(body)
    except JsonError:
        return None


def _is_text(text: str) -> bool:
    """Whether *text* is something to read: no program's bytes."""
    start = text[:_LOOKED_AT]
    return start.count("\ufffd") * 8 <= len(start) and "\x00" not in start


def _unpacked(body: bytes, encoding: str) -> bytes:
    """*body* without the packing that it should not have, as far as it is a refusal's size."""
    kind = encoding.strip().lower()
    if kind in ("gzip", "x-gzip") or body[:2] == b"\x1f\x8b":
        bits = 31
    elif kind == "deflate":
        bits = 15 if body[:1] == b"\x78" else -15
    else:
        return body
    try:
        return zlib.decompressobj(bits).decompress(body, REFUSAL_BYTES)
    except zlib.error:
        return b""


_DEEPEST: Final = 5
"""Objects within objects, and JSON within texts, that are looked into."""

_MANY: Final = 20
"""Details of a report that are looked at."""

_LOOKED_AT: Final = 500
"""Characters of a text that are looked at."""

_PAGE_LOOKED_AT: Final = 8_000
"""Characters of a page in which its title is looked for."""

_HOLDERS: Final = ("error", "errors", "Error", "message", "detail", "response", "Response", "data", "cause")
"""Members that may hold the report itself."""

_MESSAGES: Final = (
    *("originalMessage", "message", "msg", "Message", "error_message", "error_msg", "errorMessage", "errorMsg"),
    *("detail", "error_description", "description", "title", "reason_phrase"),
)
_FAILED: Final = ("error", "failed", "failure")
_WORD: Final = re.compile(r"[\w.#:/-]{1,120}", re.ASCII)
_STATUS: Final = re.compile(r"[45][0-9]{2}")
_PAGE: Final = re.compile(r"^\s*(?:<!doctype html|<html|<head|<title|<center|<\?xml)", re.I)
_TITLE: Final = re.compile(r"<(?:title|h1)[^>]{0,200}>([^<]{1,300})<", re.I)
_TAG: Final = re.compile(r"<(?:script|style)\b.*?(?:</(?:script|style)>|$)|<[^>]*>?|\s+", re.I | re.S)
_TITLE_LENGTH: Final = 200
_CHALLENGE: Final = re.compile(r"_cf_chl_opt|challenge-platform|just a moment|attention required|captcha", re.I)
_FAILURE: Final = re.compile(r"(?:error|exception|fault)(?:[ _.-]?event)?$", re.IGNORECASE)
_TOLD: Final = re.compile(
    r"error|exception|fail|fault|abort|unavailable|overloaded|timed? ?-?out|too many requests|bad gateway|denied"
    r"|unauthori[sz]ed|forbidden|quota|rate.?limit|refused|reset by|out of memory|traceback",
    re.IGNORECASE,
)
