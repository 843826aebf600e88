"""Parts of a request that its dialect does not read, and the rules by which readers leave something out.

A reader says so to `Notes` where it decides.  Members that no class declares are found by a walk over what was read,
beside the JSON that it was read from.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve, field, frozen, has

from kiro_asgi.dialects.structure import Raw, Shape, is_misspelt, members_of
from kiro_asgi.model.notes import UNHEARD, Notes
from kiro_asgi.model.prompt import Text
from kiro_asgi.model.rules import Loss, Rule, listed
from kiro_asgi.model.unread import Unread

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

_EMPTY: Final[tuple[Any, ...]] = (None, "", [], {})


@frozen
class _Every:
    """Has every name in it."""

    def __contains__(self, name: object) -> bool:
        return True


EVERY: Final[Container[str]] = _Every()


@frozen
class Beside:
    """Makes what the readers of one API keep for services of it."""

    api: str
    """Name of the dialect."""

    lost: frozenset[str] = frozenset()
    """Members that no service is sent back: ids of what another answer was called, and what is about the connection."""

    lost_of: Mapping[type, Container[str]] = field(default=MappingProxyType({}), hash=False)
    """Further ones of single classes."""

    rules: Mapping[tuple[type, str], str] = field(default=MappingProxyType({}), hash=False, kw_only=True)
    """Class and member to the rule, where it is not the one that its name has: a member that is read and leads to
    nothing; empty for one that is not read and has its effect."""

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
        return name not in self.lost and name not in self.lost_of.get(cls, ()) and not is_misspelt(cls, name)

    def within(self, message: Shape, texts: Iterable[Text]) -> Iterator[Text]:
        """The *texts* of a *message* that are to stand by themselves: what was not read of each is that of the message,
        and as ``content`` that of its part."""
        for text in texts:
            yield evolve(text, unread=self(message, content=text.unread and text.unread.members))

    def note(self, notes: Notes, shape: Any, given: Any, place: str = "") -> None:
        """Note the members that are not read of *shape*, and of all within it, which was read from *given* at *place*.

        Without recursion: sources hold blocks, which hold sources.
        """
        if notes is UNHEARD:
            return
        pending = [(shape, given, place)]
        while pending:
            value, given, place = pending.pop()
            if type(value) is tuple and type(given) is list:
                each = enumerate(zip(value, given, strict=True))
                pending += reversed([(it, own, f"{place}[{at}]") for at, (it, own) in each])
            elif type(value) is Raw and value.rule:
                notes.applies(value.rule, place)
            elif type(value) is not Raw and type(given) is dict and has(cls := type(value)):
                known = members_of(cls)
                self._note_members(notes, cls, given, {*known, "type"}, place)
                pending += reversed([(getattr(value, name), given.get(name), _member(place, name)) for name in known])

    def note_others(self, notes: Notes, given: Any, known: Container[str], place: str) -> None:
        """Note the members of *given*, an object that is read by hand, that are not *known*."""
        if notes is not UNHEARD and type(given) is dict:
            self._note_members(notes, dict, given, known, place)

    def note_word(self, notes: Notes, word: Any, known: Iterable[str], place: str) -> None:
        """Note a *word* at *place* that is not among the *known* ones; services of the API are sent it all the same."""
        if word is not None and word not in tuple(known):
            notes.applies("values.unknown", place, kept_for=self.api)

    def _note_members(
        self, notes: Notes, cls: type, given: Mapping[str, Any], known: Container[str], place: str
    ) -> None:
        for name, part in given.items():  # in the client's order: the first place is the one that is reported
            usual = "" if name in known else "fields.no_effect" if name in _NO_EFFECT else "fields.ignored"
            if part not in _EMPTY and (rule := self.rules.get((cls, name), usual)):
                notes.applies(rule, _member(place, name), kept_for=self.api if self.keeps(cls, name) else "")


def _member(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


_NONE, _FORM, _CONTENT = Loss.NONE, Loss.FORM, Loss.CONTENT

RULES: Final = listed(
    Rule("fields.ignored", "A field that only services of the client's own API take is left out.", _CONTENT),
    Rule(
        "fields.no_effect",
        "A field about price, caches, storage, or what an earlier answer was called has no effect.",
        _NONE,
    ),
    Rule("fields.echoed", "A field is repeated in the answer and has no other effect.", _CONTENT),
    Rule(
        "shapes.messages",
        "Tools, blocks and items in the form of the Messages API or the Responses API are read as what they are.",
        _NONE,
    ),
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
    "system.attribution",
)
