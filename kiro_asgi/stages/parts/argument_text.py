"""The JSON text of a call's arguments: read, mended where it is lexically beyond doubt what was meant, or found cut.

======================  =============================================================================================
name                    what is mended
======================  =============================================================================================
``control_characters``  A control character inside a string that stands for itself gets its escape, ``\\n`` or the like.
``trailing_commas``     A comma after the last member of an object, or the last item of an array, is removed.
``repetitions``         An object that comes several times counts once, and an empty one before it not at all.
``byte_order_mark``     A byte order mark before or after the text is removed.
======================  =============================================================================================

Nothing else is: of single quotes, missing quotes or words without any, more than one reading is possible.

Output and time limits cut the text anywhere, and the service then ends the call, or the stream, as if nothing had
happened.  The tests for that are cheap and name a reason; whether a call may be delivered is decided by the strict
parser alone (`kiro_asgi.stages.parts.open_calls`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from kiro_asgi.model.events import MalformedCall, TruncationInfo
from kiro_asgi.wire.json import DECODER, Extent, JsonError, dumps, extent, loads

_BLANK: Final = " \t\n\r"
_BOM: Final = "\ufeff"
_MARK: Final = "byte_order_mark"

_STRING: Final = r'"(?:[^"\\]++|\\.)*+"?'
"""A JSON string, closed or not.  Possessive, so that a string of many MiB costs no backtracking memory."""

_STRINGS: Final = re.compile(_STRING, re.DOTALL)
_CONTROL: Final = re.compile(r"\\.|[\x00-\x1f]", re.DOTALL)
_ESCAPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{chr(code): f"\\u{code:04x}" for code in range(0x20)},
        "\b": "\\b",
        "\t": "\\t",
        "\n": "\\n",
        "\f": "\\f",
        "\r": "\\r",
    }
)

_COMMAS: Final = re.compile(_STRING + r"|(?P<empty>[\[{,:][ \t\n\r]*+,)|(?P<comma>,)(?=[ \t\n\r]*+[\]}])", re.DOTALL)


@frozen
class Arguments:
    """Arguments that could be read."""

    text: str
    """JSON that any parser takes."""

    value: Any
    mended: tuple[str, ...] = ()
    """Names from `MENDINGS`."""


def parse_arguments(text: str, mendings: Collection[str] = ()) -> Arguments:
    """Read *text*; where it is no JSON as it stands, mend what *mendings* allow.

    Raises:
        JsonError: It is none, mended or not.
    """
    mended: tuple[str, ...] = ()
    if _has_mark(text):
        if _MARK not in mendings:
            raise JsonError("invalid JSON: there is a byte order mark", code="json.invalid")
        text, mended = text.strip(_BLANK + _BOM), (_MARK,)
    with suppress(JsonError):
        return _read(text, mended)
    for name, mend in _MENDERS.items():
        if name in mendings and (changed := mend(text)) != text:
            text, mended = changed, (*mended, name)
    return _read(text, mended)


def _mended_text(text: str) -> str:
    """*text* with everything mended that can be, whether that makes JSON of it or not."""
    for mend in _MENDERS.values():
        text = mend(text)
    return text.strip(_BLANK + _BOM)


def _read(text: str, mended: tuple[str, ...]) -> Arguments:
    value = loads(text)
    forgiven = "\\ud" in text or "\\uD" in text
    return Arguments(dumps(value).decode() if forgiven else text, value, mended)


def _has_mark(text: str) -> bool:
    """Whether there is a byte order mark around the value, which our own parser accepts."""
    bare = text.strip(_BLANK)
    return bare.startswith(_BOM) or bare.endswith(_BOM)


def _escape(text: str) -> str:
    return _STRINGS.sub(lambda string: _CONTROL.sub(_escaped, string[0]), text)


def _escaped(match: re.Match[str]) -> str:
    return match[0] if match[0][0] == "\\" else _ESCAPES[match[0]]


def _without_commas(text: str) -> str:
    """*text* without commas before a closing bracket; itself where a value is missing before one."""
    kept, at = [], 0
    for match in _COMMAS.finditer(text):
        if match["empty"]:
            return text
        if match["comma"]:
            kept.append(text[at : match.start()])
            at = match.end()
    return "".join((*kept, text[at:]))


def canonical(text: str) -> str:
    """The one spelling of all texts that are the same JSON value; empty where *text* is none."""
    try:
        return json.dumps(loads(text), sort_keys=True)
    except JsonError:
        return ""


def _once(text: str) -> str:
    """The object that *text* is several times over, however spelt, and that has a member; itself where it is not."""
    bare = _EMPTY.sub("", text.strip(_BLANK))
    if not bare.startswith("{"):
        return text
    first, end = _first(bare, 0)
    at = end
    while at < len(bare):
        again, at = _first(bare, at)
        if not again or again != first:
            return bare
    return bare[:end] if first not in ("", "{}") else bare


def _first(text: str, at: int) -> tuple[str, int]:
    """The value at *at* as `canonical` spells it, empty where there is none; and where the next one begins."""
    try:
        _, end = DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return "", len(text)
    return canonical(text[at:end]), _BLANKS.match(text, end).end()  # type: ignore[union-attr]  # matches ""


_BLANKS: Final = re.compile(r"[ \t\n\r]*+")
_EMPTY: Final = re.compile(r"\A(?:\{[ \t\n\r]*+\}[ \t\n\r]*+)++(?=\{)")
"""Empty objects before another one."""

_MENDERS: Final = MappingProxyType[str, Callable[[str], str]](
    {"control_characters": _escape, "trailing_commas": _without_commas, "repetitions": _once}
)

MENDINGS: Final = (*_MENDERS, _MARK)
"""Names of all that can be mended."""


_CLOSERS: Final = (("{", "}", "mismatched delimiters"), ("[", "]", "mismatched brackets"))


@frozen
class TruncationDiagnosis:
    """Whether some JSON text looks cut short."""

    is_truncated: bool
    reason: str = ""
    """The evidence of a cut; empty where there is none."""

    size_bytes: int = 0
    """Length of the text in UTF-8 bytes."""


def diagnose_json_truncation(raw: str) -> TruncationDiagnosis:
    """Judge by delimiters whether *raw* was cut short; brackets inside strings do not count.

    Text that is balanced but malformed is not called truncated, and neither is empty text.
    """
    reason = _reason(raw.strip())
    return TruncationDiagnosis(bool(reason), reason, len(_utf8(raw)))


def truncation_info(call_id: str, name: str, raw: str, *, reason: str = "") -> TruncationInfo:
    """The record of a tool call that cannot be delivered.

    Args:
        call_id: The call's id.
        name: The tool's name, as far as it is known.
        raw: The arguments that did arrive.
        reason: Why it cannot be delivered, where that is not a matter of its text.
    """
    data = _utf8(raw)
    reason = reason or _reason(raw.strip()) or ("malformed JSON" if raw.strip() else "no arguments arrived")
    return TruncationInfo(call_id, name, reason, len(data), sha256(data).hexdigest())


def malformed_call(call_id: str, name: str, raw: str, *, reason: str) -> MalformedCall:
    """The record of a tool call that has come to its end and cannot be read; arguments as of `truncation_info`."""
    data = _utf8(raw)
    return MalformedCall(call_id, name, reason, len(data), sha256(data).hexdigest())


def is_cut(raw: str, *, stopped: bool) -> bool:
    """Whether arguments that do not parse were cut short; otherwise they are complete, and malformed.

    They were if more text could complete them, or if they neither hold a whole value nor end like one.

    Args:
        raw: What arrived.
        stopped: Whether the upstream called the arguments complete.  It does so where it cut them, too, but a bare
            word that it calls complete has no closing bracket to miss.
    """
    text = _mended_text(raw)
    match extent(text):
        case Extent.BEGUN:
            return True
        case Extent.WHOLE:
            return False
    return not text.endswith(("}", "]")) and (not stopped or text.startswith(("{", "[", '"')))


def _reason(text: str) -> str:
    for opener, closer, reason in _CLOSERS:
        if text.startswith(opener) and not text.endswith(closer):
            return reason
    bare = _STRINGS.sub("", text)
    if any(bare.count(opener) != bare.count(closer) for opener, closer, _ in _CLOSERS):
        return "unbalanced delimiters"
    return ""


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
