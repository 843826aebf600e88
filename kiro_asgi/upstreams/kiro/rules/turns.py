"""Who speaks when: the service insists on it, and says "Improperly formed request." to what breaks a rule.

* The user and the assistant take turns, the user begins, and the last word is the user's.
* A message says something: only results may stand in for a user's text, and only calls for the assistant's.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Final

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Role
from kiro_asgi.upstreams.kiro.rules.drafts import Draft
from kiro_asgi.upstreams.kiro.rules.results import answer_calls, pair, tell_as_text
from kiro_asgi.upstreams.kiro.rules.texts import is_blank, paragraphs

__all__ = ["NATIVE", "TEXT", "Step", "arrange"]

Step = Callable[[list[Draft], Notes], list[Draft]]

GO_ON: Final = "Continue."
"""What a user says who says nothing."""

LOOK: Final = "Please look at what is attached."
UNDERSTOOD: Final = "OK."


def arrange(drafts: list[Draft], notes: Notes, steps: tuple[Step, ...]) -> list[Draft]:
    """The drafts as the service takes them; never empty, and the last is the user's."""
    for step in steps:
        drafts = step(drafts, notes)
    return drafts


def end_with_user(drafts: list[Draft], notes: Notes) -> list[Draft]:
    """The last word is the user's; one who leaves it to the assistant wants it to go on from there."""
    if not drafts:
        return [Draft(Role.USER, text=GO_ON if notes.applies("turns.empty") else "")]
    last = drafts[-1]
    if last.role is Role.USER or not notes.applies("turns.prefill", last.place):
        return drafts
    return [*drafts, Draft(Role.USER, last.place, GO_ON)]


def begin_with_user(drafts: list[Draft], notes: Notes) -> list[Draft]:
    """The first word is the user's."""
    first = drafts[0]
    if first.role is Role.USER or not notes.applies("turns.user_first", first.place):
        return drafts
    return [Draft(Role.USER, first.place, GO_ON), *drafts]


def merge_neighbours(drafts: list[Draft], notes: Notes) -> list[Draft]:
    """Neighbours with the same role become one message, a blank line between their texts."""
    if all(before.role is not draft.role for before, draft in pairwise(drafts)):
        return drafts
    merged: list[Draft] = []
    for _, neighbours in groupby(drafts, attrgetter("role")):
        first, *others = neighbours
        merged.append(first)
        if others and notes.applies("turns.merged", others[0].place, len(others)):
            _join(first, others)
        else:
            merged += others
    return merged


def _join(first: Draft, others: list[Draft]) -> None:
    first.text = paragraphs(first.text, *(draft.text for draft in others))
    for name in ("images", "documents", "results", "calls", "thinking"):
        own = getattr(first, name)
        setattr(first, name, [*own, *(item for draft in others for item in getattr(draft, name))])


def think_once(drafts: list[Draft], notes: Notes) -> list[Draft]:
    """A message has room for one piece of thinking."""
    for draft in drafts:
        surplus = len(draft.thinking) - 1
        if surplus > 0 and notes.applies("thinking.second_dropped", draft.place, surplus):
            draft.thinking = draft.thinking[:1]
    return drafts


def say_something(drafts: list[Draft], notes: Notes) -> list[Draft]:
    """No message is empty; what is put in is plain enough not to be imitated."""
    for draft in drafts:
        if is_blank(draft.text) and not (draft.results or draft.calls) and notes.applies("content.filled", draft.place):
            draft.text = _filler(draft)
    return drafts


def _filler(draft: Draft) -> str:
    if draft.role is Role.ASSISTANT:
        return UNDERSTOOD
    return LOOK if draft.images or draft.documents else GO_ON


NATIVE: Final[tuple[Step, ...]] = (
    pair,
    end_with_user,
    begin_with_user,
    merge_neighbours,
    think_once,
    answer_calls,
    say_something,
)
"""In the order in which they run: each may rely on those before it."""

TEXT: Final[tuple[Step, ...]] = (*NATIVE[:-1], tell_as_text, say_something)
"""The same where earlier tool calls are told as text."""
