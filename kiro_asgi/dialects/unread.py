"""Parts of a request that its dialect does not read: members that no class declares, objects of unknown kinds.

A request is walked beside the classes that read it, so what is added to a class is not reported any more.  That takes
longer than reading it did, so it is done only where notes are wanted.  `RULES` names every finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, Final, get_args, get_origin

from attrs import define, evolve, field, frozen, has

from kiro_asgi.dialects.structure import Raw, Shape, Tagged, members_of
from kiro_asgi.model.notes import Note, Notes
from kiro_asgi.model.prompt import Text, Tool
from kiro_asgi.model.rules import Loss, Rule, listed
from kiro_asgi.model.unread import Unread

Finding = tuple[str, str] | tuple[str, str, str]
"""A rule of `kiro_asgi.dialects.unread`, the place where it applies, and the API whose services are sent it all the
same; none where no service is."""

View = Callable[[Any], Any]
"""A value that is read by hand to the type that says which of its members are read; ``None`` for all."""

_NO_EFFECT: Final = frozenset(
    {
        "annotations",
        "cache_control",
        "client_metadata",
        "created_by",
        "defer_loading",
        "id",
        "include_obfuscation",
        "index",
        "internal_chat_message_metadata_passthrough",
        "metadata",
        "phase",
        "prediction",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "speed",
        "status",
        "store",
        "user",
    }
)
"""Members that have no bearing on a prompt, wherever they stand."""

_KEPT: Final = frozenset({"blocks.unknown", "items.unknown", "items.summarised"})
"""Rules about objects of unknown kinds that are kept for services of the API, as opaque parts."""

_EMPTY: Final[tuple[Any, ...]] = (None, "", [], {})


@frozen
class Beside:
    """Makes what the readers of one API keep for services of it."""

    api: str
    """Name of the dialect."""

    lost: frozenset[str] = frozenset()
    """Members that no service is sent back: ids of what another answer was called, and what is about the connection."""

    lost_of: Mapping[type, frozenset[str]] = field(default=MappingProxyType({}), hash=False)
    """Further ones of single classes."""

    def __call__(self, shape: Shape | None = None, /, **more: Any) -> Unread | None:
        """What the reader of *shape* did not understand, and *more* members; ``None`` for nothing."""
        unread = {} if shape is None else shape.unread
        if not (unread or more):
            return None
        members = {name: value for name, value in unread.items() if self.keeps(type(shape), name)}
        members |= {name: value for name, value in more.items() if value is not None}
        return Unread(self.api, members) if members else None

    def keeps(self, cls: type, name: str) -> bool:
        """Whether the member *name* of an object that *cls* reads in part is kept."""
        return name not in self.lost and name not in self.lost_of.get(cls, ())

    def within(self, message: Shape, texts: Iterable[Text]) -> Iterator[Text]:
        """The *texts* of a *message* that are to stand by themselves: what was not read of each is that of the message,
        and as ``content`` that of its part."""
        for text in texts:
            yield evolve(text, unread=self(message, content=text.unread and text.unread.members))


@frozen(kw_only=True)
class Reading:
    """How the body of a request is read."""

    beside: Beside
    """What of it is kept for services of its API."""

    body: type
    """The attrs class of the whole."""

    unions: Sequence[tuple[Tagged, str]]
    """Every union of objects, and the rule that leaves objects of unknown kinds out; empty where another note covers
    them, or the request is refused."""

    views: Mapping[tuple[type, str], View] = MappingProxyType({})
    """Class and member, where the class takes any value."""

    members: Mapping[tuple[type, str], str] = MappingProxyType({})
    """Class and member to the rule, where it is not the one that its name has: a member that is read and leads to
    nothing; empty for one that is not read and has its effect."""

    partly: frozenset[str] = frozenset()
    """Kinds of objects that no class reads, and that are summarised."""


def noted(findings: Iterable[Finding]) -> tuple[Note, ...]:
    """A note for every rule; two where some of what it leaves out is kept for services of the API."""
    notes: dict[str, Notes] = {}
    for rule, place, *kept_for in findings:
        notes.setdefault("".join(kept_for), Notes()).applies(rule, place)
    return tuple(evolve(note, kept_for=api) for api, some in notes.items() for note in some.found())


def unread(value: Mapping[str, Any], reading: Reading) -> Iterator[Finding]:
    """Parts of a legal request that are not read, in the request's order."""
    return _Walk(reading).walk(value)


def words(value: Any, place: str, known: Iterable[str]) -> Iterator[tuple[str, str]]:
    """A finding where the *value* at *place* is not ``None``, and not one of the *known* words."""
    if value is not None and value not in known:
        yield "values.unknown", place


def unread_tools(listed: Any, offered: Iterable[Tool], place: str = "tools") -> Iterator[Finding]:
    """The tools listed at *place* that are not among those *offered*: second ones of a name, and those left out."""
    taken = {_entry(tool.place, place) for tool in offered}
    named: set[str] = set()
    for index, tool in enumerate(listed if isinstance(listed, list) else ()):
        name, at = _name(tool), f"{place}[{index}]"
        if at not in taken:
            yield ("tools.duplicate_dropped" if name in named else "tools.left_out"), at
        elif name:
            named.add(name)


def _entry(place: str, within: str) -> str:
    """The entry of the list *within* that *place* is a part of."""
    return place[: place.find("]", len(within)) + 1] if place.startswith(f"{within}[") else ""


def _name(tool: Any) -> str:
    function = tool.get("function", tool) if isinstance(tool, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    return name if isinstance(name, str) else ""


@define
class _Walk:
    """One walk, without recursion: sources hold blocks, which hold sources."""

    _reading: Reading

    def walk(self, body: Mapping[str, Any]) -> Iterator[Finding]:
        pending: list[tuple[Any, Any, str]] = [(body, self._reading.body, "")]
        while pending:
            value, kind, place = pending.pop()
            if kind is None:
                continue
            if type(value) is list:
                pending += reversed([(it, _item(kind), f"{place}[{at}]") for at, it in enumerate(value)])
            elif type(value) is dict:
                cls, tag, rule = self._class(value, kind)
                if cls is Raw:
                    yield from self._unknown(value, rule, place)
                elif cls is not None:
                    yield from self._left_out(value, cls, {tag, "type"}, place)
                    pending += reversed([*self._parts(value, cls, place)])

    def _class(self, value: Mapping[str, Any], kind: Any) -> tuple[Any, str, str]:
        """The class that reads an object where one of *kind* is wanted, the member that names it, and the rule for one
        of an unknown kind; ``None`` where the object is data."""
        objects = _objects(kind)
        if len(objects) <= 1:
            return next(iter(objects), None), "type", ""
        for union, rule in self._reading.unions:
            if union.members == objects:
                word = value.get(union.tag)
                return union.class_of(union.default or "" if word is None else word), union.tag, rule
        raise AssertionError(f"a union that is not in the table: {sorted(map(str, objects))}")

    def _unknown(self, value: Mapping[str, Any], rule: str, place: str) -> Iterator[Finding]:
        if rule:
            rule = "items.summarised" if value.get("type") in self._reading.partly else rule
            yield rule, place, self._reading.beside.api if rule in _KEPT else ""

    def _left_out(self, value: Mapping[str, Any], cls: type, tags: set[str], place: str) -> Iterator[Finding]:
        declared, rules, beside = members_of(cls), self._reading.members, self._reading.beside
        for name, part in value.items():  # in the client's order: the first place is the one that is reported
            usual = "" if name in declared or name in tags else _usual(name)
            if part not in _EMPTY and (rule := rules.get((cls, name), usual)):
                yield rule, _member(place, name), beside.api if beside.keeps(cls, name) else ""

    def _parts(self, value: Mapping[str, Any], cls: type, place: str) -> Iterator[tuple[Any, Any, str]]:
        for name, kind in members_of(cls).items():
            if type(part := value.get(name)) in (dict, list):
                view = self._reading.views.get((cls, name))
                yield part, kind if view is None else view(part), _member(place, name)


def _usual(name: str) -> str:
    return "fields.no_effect" if name in _NO_EFFECT else "fields.ignored"


def _member(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


@cache
def _objects(kind: Any) -> frozenset[type]:
    """The classes that read an object where one of *kind* is wanted."""
    return frozenset(member for member in (get_args(kind) or (kind,)) if has(member))


@cache
def _item(kind: Any) -> Any:
    """The type of the items of an array where one of *kind* is wanted; ``None`` where they are data."""
    arrays = [it for it in (kind, *get_args(kind)) if get_origin(it) is tuple]
    return get_args(arrays[0])[0] if arrays else None


_NONE, _FORM, _CONTENT = Loss.NONE, Loss.FORM, Loss.CONTENT

RULES: Final = listed(
    Rule("fields.ignored", "A field that only services of the client's own API take is left out.", _CONTENT),
    Rule(
        "fields.no_effect",
        "A field about price, caches, storage, or what an earlier answer was called has no effect.",
        _NONE,
    ),
    Rule("fields.echoed", "A field is repeated in the answer and has no other effect.", _CONTENT),
    Rule("shapes.messages", "Tools and blocks in the form of the Messages API are read as what they are.", _NONE),
    Rule("values.unknown", "A value that has no meaning here counts as absent.", _CONTENT),
    Rule("turns.unknown", "A message of an unknown role is left out.", _CONTENT),
    Rule("items.unknown", "An input item of a kind that only its own server can read is left out.", _CONTENT),
    Rule(
        "items.summarised",
        "Of a call of a tool that ran on another server, the model gets the call and its result, and not the rest.",
        _CONTENT,
    ),
    Rule("thinking.sealed_dropped", "Earlier thinking that another server sealed is not handed back.", _CONTENT),
    Rule(
        "blocks.unknown",
        "A content block of an unknown kind is left out, and so is a call of which it is the result.",
        _CONTENT,
    ),
    Rule(
        "turns.compacted",
        "What a compaction stands for is left out, as the API itself leaves it out.",
        _NONE,
    ),
    Rule("blocks.unreadable", "A part of a message that its role cannot hold is left out.", _CONTENT),
    Rule("tools.left_out", "A tool that the choice of tools excludes is not offered.", _CONTENT),
    "tools.duplicate_dropped",
    Rule(
        "system.attribution",
        "The line about billing that Claude Code puts first is left out; services of its own API get it.",
        _NONE,
    ),
)
