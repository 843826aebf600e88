"""Which members of a request a refusal names, and where they stand in what was sent.

What a message quotes of the client is not the service's word: values in quotation marks are taken out of it before
anything in it is taken for a refusal, but for those that are the name of a member.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from attrs import frozen

from kiro_asgi.errors import KiroAsgiError

_NOT: Final = r"(?:not|n[\u2019']t)(?: yet| currently| be| been)? "

_OF_THE_SERVICE: Final = (
    r"(?:internal |server |runtime )?(?:error|exception|failure|problem|issue|condition|reason|status|end)\b"
)
"""What is unexpected, or unknown, about a service, and not about a member."""

_NOT_TAKEN: Final = re.compile(
    rf"(?:unknown|unexpected)(?! {_OF_THE_SERVICE})"
    r"|unsupported|unrecogni[sz]ed|unpermitted|disallow|forbidden|prohibited|incompatible|deprecated"
    rf"|{_NOT}(?:support|permit|allow|accept|recogni[sz]|implement|defined|known|available|compatible"
    r"|(?:a )?valid (?:param|field|arg|prop|key|option|input|member|name)|valid (?:for|with|in)\b)"
    r"|no longer (?:supported|available|accepted)|array too long|at most [0-9]+ items|may not be used"
    r"|extra (?:input|field|param|key|prop)|additional propert|extraneous key"
    r"|must not|(?:cannot|can[\u2019']t) (?:find field|be (?:used|set|specified))|does not exist|no such "
    r"|cannot both|(?:not|n[\u2019']t) .{0,30}\bboth\b|mutually exclusive|only one of"
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

_VALUE_ERROR: Final = re.compile(
    r"\binvalid value\b|supported values are|(?:is|are) not (?:one of|a valid (?:enum|value))"
    r"|expected one of|range of .{0,60}should be|is too (?:short|small|large|high|low)\b|\binput should be\b"
    r"|valid values",
    re.I,
)
"""Phrases that say of a value that the service takes others."""

_CODE: Final = re.compile(
    r"(?:unsupported|unknown|extra|unexpected|unrecogni[sz]ed)_(?:param|field|arg|prop|name|key|forbidden)"
    r"|invalid_(?:param|field|prop)",
    re.I,
)
"""Codes that say the same."""

_QUOTED: Final = re.compile(
    r"""(?<!\w)"([^"]{0,400})"|(?<!\w)'([^']{0,400})'(?!\w)|`([^`]{0,400})`|\u201c([^\u201d]{0,400})\u201d"""
)
"""Texts in quotation marks; an apostrophe within a word is none."""

_NAME: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_.$\[\]-]*+")
_NAMED: Final = re.compile(r"[`'\"\u201c]\w|\w[_.]\w|[a-z][A-Z]")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*+")
_STEP: Final = re.compile(r"[^.\[\]/]+")

_DATA: Final = frozenset(
    {
        *("input_schema", "parameters", "inputSchema", "parametersJsonSchema", "schema", "json_schema", "json"),
        *("arguments", "args", "responseSchema", "responseJsonSchema", "data", "bytes", "input_json"),
    }
)
"""Members with data of clients, in which no name is one of the API's."""

_SEARCHED: Final = 200_000
"""Values of a request that are looked at for a name."""


@frozen
class Place:
    """A member, wherever it stands within members of one name: ``scope`` within each ``cache_control``."""

    name: str
    within: str = ""
    """Name of the member that holds it; empty for one of the request itself."""

    def __str__(self) -> str:
        return f"{self.within}.{self.name}" if self.within else self.name


def unquoted(message: str) -> str:
    """*message* without what stands in quotation marks, but for single names."""
    return _QUOTED.sub(lambda found: found[0] if _NAME.fullmatch(found[found.lastindex or 0]) else "…", message)


def blames_member(error: KiroAsgiError) -> bool:
    """Whether *error* blames a member of the request itself, and not its value, in its message or its code."""
    message = unquoted(error.message)
    if _CODE.search(error.code):
        return _VALUE_ERROR.search(message) is None
    return _VALUE_ERROR.search(message) is None and _NOT_TAKEN.search(_VALUE.sub("", message)) is not None


def names_something(message: str) -> bool:
    """Whether *message* has a word that is a name, and none of a language."""
    return _NAMED.search(message) is not None


def named_members(error: KiroAsgiError, document: Mapping[str, Any], gone: Collection[str] = ()) -> Iterator[Place]:
    """The members of *document*, which was sent, that *error* names; the one of its own field first, then by words.

    Where what is named has *gone* already, and is refused all the same, it is what held it that is refused.
    """
    seen: set[Place] = set()
    paths = _paths(error.message)
    for path in (error.member, *paths):
        place = _resolved(path, document, gone)
        if place is not None and place not in seen:
            seen.add(place)
            yield place
    steps = {step for path in paths for step in _STEP.findall(path)[:-1]}  # a path names its end, none on the way
    names = [name for name in _PLAIN_NAME.findall(unquoted(error.message)) if name not in _DATA and name not in steps]
    found = places_of({*names}, document)
    for name in names:
        if (place := found.get(name)) is not None and place not in seen:
            seen.add(place)
            yield place


def _paths(message: str) -> list[str]:
    """Words that are paths: with a dot or a bracket within them."""
    return [word.strip(".") for word in _NAME.findall(message) if len(_STEP.findall(word)) > 1]


def _resolved(path: str, document: Mapping[str, Any], gone: Collection[str]) -> Place | None:
    """The member at *path*; steps that are not in the document, such as the kind of an object, are passed over."""
    value: Any = document
    holder, last, steps = "", "", _STEP.findall(path)[:_STEPS]
    for step in steps:
        if isinstance(value, list):
            if step.isdecimal() and int(step) < len(value):
                value = value[int(step)]
        elif isinstance(value, Mapping) and step in value:
            holder, last, value = last, step, value[step]
    if not last or (last != steps[-1] and str(Place(steps[-1], last)) not in gone):
        return None
    return Place(last, holder)


_STEPS: Final = 20
"""Steps of a path that are followed."""


def places_of(names: Collection[str], document: Mapping[str, Any]) -> dict[str, Place]:
    """Where each of *names* stands first, the outermost of several; members with data of clients are not searched."""
    found: dict[str, Place] = {}
    level: list[tuple[str, Any]] = [("", document)]
    looked = 0
    while level and len(found) < len(names) and looked < _SEARCHED:
        following: list[tuple[str, Any]] = []
        for holder, value in level:
            looked += 1
            if isinstance(value, Mapping):
                for name, inner in value.items():
                    if name in names:
                        found.setdefault(name, Place(name, holder))
                    if isinstance(inner, Mapping | list) and name not in _DATA:
                        following.append((name, inner))
            else:
                following += ((holder, each) for each in value if isinstance(each, Mapping | list))
        level = following
    return found


def without(document: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """*document* without the member at *place*; objects of lists that have nothing else go with it."""
    if not place.within:
        return {name: value for name, value in document.items() if name != place.name}
    return {name: _without(value, place, name) for name, value in document.items()}


def _without(value: Any, place: Place, holder: str) -> Any:
    if isinstance(value, list):
        changed = [_without(each, place, holder) for each in value]
        if all(new is old for new, old in zip(changed, value, strict=True)):
            return value
        return [new for new, old in zip(changed, value, strict=True) if new or not old]
    if not isinstance(value, Mapping) or holder in _DATA:
        return value
    changed_members = {
        name: _without(inner, place, name) if isinstance(inner, Mapping | list) else inner
        for name, inner in value.items()
        if not (name == place.name and holder == place.within)
    }
    if len(changed_members) == len(value) and all(changed_members[name] is value[name] for name in value):
        return value
    return changed_members
