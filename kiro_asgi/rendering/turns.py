"""Which turns, and which of their parts, are sent: what services with strict turns have in common."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import Final

from attrs import evolve

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Document, Image, Opaque, Part, Role, Text, ThinkingPart, ToolResult, Turn
from kiro_asgi.rendering.strict_turns import Draft

GO_ON: Final = "Continue."
"""Text of a user's turn that has to be there, and has none."""

_IN_RESULTS: Final = (Text, Image, Document, Opaque)
"""Kinds of parts that a result may hold."""

Kept = Callable[[Part, Turn, ToolResult | None], Part | None]
"""What of a part of a turn, or of a result in it, is sent; ``None`` for nothing."""


def sendable(turns: Iterable[Turn], kept: Kept) -> Iterator[Turn]:
    """The turns with what is *kept* of each part; a turn may be left empty."""
    for turn in turns:
        parts: list[Part] = []
        for part in turn.parts:
            if type(part) is ToolResult:
                inner = (kept(each, turn, part) for each in part.parts)
                parts.append(evolve(part, parts=tuple(each for each in inner if isinstance(each, _IN_RESULTS))))
            elif (one := kept(part, turn, None)) is not None:
                parts.append(one)
        yield evolve(turn, parts=tuple(parts))


def is_blank(part: Part, place: str, notes: Notes) -> bool:
    """Whether *part* is a text that shows nothing, for a service that refuses those."""
    return type(part) is Text and not part.text.strip() and notes.applies("text.blank_dropped", place)


def lifted(
    parts: Iterable[Part], holds: Callable[[ToolResult], Container[type]], place: str, notes: Notes
) -> Iterator[Part]:
    """The parts of a user's turn; what a result does not hold stands behind all results.

    Args:
        parts: Of one turn.
        holds: Kinds of parts that a result may have.
        place: Of the turn.
        notes: Gets the rules that applied.
    """
    moved: list[Part] = []
    others: list[Part] = []
    for part in parts:
        if type(part) is not ToolResult:
            others.append(part)
            continue
        kinds = holds(part)
        kept = tuple(each for each in part.parts if type(each) in kinds)
        if kept != part.parts:
            notes.applies("results.attachment_lifted", place)
            moved += [each for each in part.parts if type(each) not in kinds]
            part = evolve(part, parts=kept)
        yield part
    yield from moved
    yield from others


def begun(drafts: list[Draft], notes: Notes) -> list[Draft]:
    """The turns, the first of which is the user's."""
    if not drafts:
        return [Draft(Role.USER, [Text(GO_ON if notes.applies("turns.empty") else "")])]
    first = drafts[0]
    if first.role is Role.USER or not notes.applies("turns.user_first", first.place):
        return drafts
    return [Draft(Role.USER, [Text(GO_ON)], first.place), *drafts]


def ended(drafts: list[Draft], prefilled: bool, notes: Notes) -> list[Draft]:
    """The turns, the last of which is the user's, or one of the assistant's that a *prefilled* model goes on from."""
    last = drafts[-1]
    if last.role is Role.USER:
        return drafts
    final = last.parts[-1] if last.parts else None
    if not prefilled or type(final) is not Text:
        asked = notes.applies("turns.prefill", last.place)
        return [*drafts, Draft(Role.USER, [Text(GO_ON)], last.place)] if asked else drafts
    if final.text != final.text.rstrip():
        notes.applies("turns.trimmed", last.place)
        last.parts[-1] = Text(final.text.rstrip(), final.cache)
    return drafts


def is_resumed(drafts: list[Draft]) -> bool:
    """Whether the model is in the middle of a turn that does not begin with thinking: it cannot begin to think now."""
    *before, last = drafts
    resumed = bool(before) and last.role is Role.USER and type(last.parts[0]) is ToolResult
    return resumed and type(before[-1].parts[0]) is not ThinkingPart
