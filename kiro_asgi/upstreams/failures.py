"""Reports of failures that stand where a piece of an answer is due.

Services, and whatever stands before them, write one in many forms: an ``error`` that is an object, a text, a list or a
number; ``errors``; an event of that name; a status of their own beside nothing (``success``, MiniMax's ``base_resp``);
a message and nothing else.  Whoever reads an answer asks here first, so that no form of them is taken for nothing, and
what came before for a whole answer.

Sources: https://openrouter.ai/docs/api-reference/errors, https://platform.minimax.io/docs/api-reference/errorcode,
https://docs.z.ai/api-reference/api-code, https://www.rfc-editor.org/rfc/rfc9457
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.errors import ContextTooLong, KiroAsgiError, UpstreamRejected
from kiro_asgi.model.events import StopReason
from kiro_asgi.upstreams.ends import meaning_of
from kiro_asgi.wire.json import object_of, text_of

Object = Mapping[str, Any]


def report_in(value: Object, name: str = "", content: Set[str] = frozenset()) -> Object | None:
    """The report in *value*, as an object with an object ``error``; ``None`` where it holds none.

    Args:
        value: Where a piece of an answer is due: an event, a document, a choice.
        name: Name of the event.
        content: Members of which a piece of an answer has one; a message without any of them is a report.
    """
    for member in ("error", "errors"):
        if found := _error(value.get(member)):
            return value if found is value.get("error") else {"error": {**_beside(value, member), **found}}
    base = object_of(value.get("base_resp"))
    if base.get("status_code"):
        said = text_of(base, "status_msg")
        return {"error": {"message": said, "type": said, "code": str(base["status_code"])}}
    is_named = names_failure(name) or names_failure(text_of(value, "type")) or value.get("object") == "error"
    if is_named or _says_failed(value) or (content and content.isdisjoint(value) and _message(value)):
        return {"error": _beside(value, "")}
    return None


def names_failure(name: str) -> bool:
    """Whether an event, or an object, is called an error."""
    return bool(name) and _FAILURE.search(name) is not None


def kind_of(*words: str) -> type[KiroAsgiError] | None:
    """What a report means by the first of its *words* that says so: codes and types that no table has."""
    for word in filter(None, words):
        meaning = meaning_of(word)
        if isinstance(meaning, type):
            return meaning
        if meaning in _OF_REQUEST:
            return _OF_REQUEST[meaning]
    return None


def is_told(text: str) -> bool:
    """Whether a *text* in the place of JSON tells of a failure, and is no sign of life."""
    return _TOLD.search(text[:_LOOKED_AT]) is not None


def _error(value: Any) -> Object:
    """An error as an object, whatever it came as; empty for none."""
    if type(value) is list and value:
        value = value[0]
    if type(value) is dict:
        return value if any(value.values()) else {}
    if type(value) is str and value:
        return {"message": value}
    if type(value) is int and value:
        return {"code": value}
    return {"code": None} if value is True else {}


def _beside(value: Object, member: str) -> dict[str, Any]:
    """What stands beside an error, as members of it."""
    rest = {name: each for name, each in value.items() if name != member and type(each) in _PLAIN}
    return {**rest, "message": text} if (text := _message(value)) else rest


def _message(value: Object) -> str:
    return next(filter(None, (text_of(value, name) for name in _MESSAGES)), "")


def _says_failed(value: Object) -> bool:
    return any(value.get(name) is False for name in ("success", "ok")) or value.get("status") in _FAILED


_FAILURE: Final = re.compile(r"(?:error|exception|fault)(?:[ _.-]?event)?$", re.IGNORECASE)
_TOLD: Final = re.compile(
    r"error|exception|fail|fault|abort|unavailable|overloaded|timed? ?-?out|too many requests|bad gateway|denied"
    r"|unauthori[sz]ed|forbidden|quota|rate.?limit|refused|reset by|out of memory|traceback",
    re.IGNORECASE,
)
_LOOKED_AT: Final = 500
"""Characters of a text that are looked at."""

_PLAIN: Final = (str, int, list)
"""Kinds of values that say something of an error; lists are those of FastAPI."""

_MESSAGES: Final = ("message", "msg", "Message", "error_message", "error_msg", "errorMessage", "detail", "title")
_FAILED: Final = ("error", "failed", "failure")
_OF_REQUEST: Final[Mapping[Any, type[KiroAsgiError]]] = MappingProxyType(
    {StopReason.CONTENT_FILTER: UpstreamRejected, StopReason.CONTEXT_FULL: ContextTooLong}
)
"""What is no failure of the service's: asked again, it would say the same."""
