"""The order of messages, once they are written: the service answers "Improperly formed request." to any other.

* The user and the assistant take turns, the user begins, and the last message is the user's.
* No message is empty: only results may stand in for a user's text, and only calls for the assistant's.

`kiro_asgi.rendering.strict_turns` has put calls and results in order before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, groupby, pairwise
from operator import attrgetter
from typing import Any, Final

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Role
from kiro_asgi.rendering.strict_turns import CANCELLED
from kiro_asgi.rendering.turns import GO_ON
from kiro_asgi.upstreams.kiro.rules.drafts import MessageDraft
from kiro_asgi.upstreams.kiro.rules.texts import is_blank, paragraphs
from kiro_asgi.wire.json import dumps

Step = Callable[[list[MessageDraft], Notes], list[MessageDraft]]

LOOK: Final = "Please look at what is attached."
UNDERSTOOD: Final = "OK."


def merge_neighbours(drafts: list[MessageDraft], notes: Notes) -> list[MessageDraft]:
    """Neighbours with the same role become one message, a blank line between their texts."""
    if all(before.role is not draft.role for before, draft in pairwise(drafts)):
        return drafts
    merged: list[MessageDraft] = []
    for _, neighbours in groupby(drafts, attrgetter("role")):
        first, *others = neighbours
        if others and notes.applies("turns.merged", others[0].place, len(others)):
            merged.append(_joined(first, others))
        else:
            merged += first, *others
    return merged


def _joined(first: MessageDraft, others: Sequence[MessageDraft]) -> MessageDraft:
    """One message of all."""
    written = [draft.written for draft in (first, *others) if draft.written is not None]
    if len(written) <= len(others):
        _join(first, others)
        return first
    *before, last = written
    joined = last.joined(before)
    if joined is None:
        _join(first, others)
        joined = last.join(before, first)
    return joined


def _join(first: MessageDraft, others: Sequence[MessageDraft]) -> None:
    first.text = paragraphs(first.text, *(draft.text for draft in others))
    for name in ("images", "documents", "results", "calls", "thinking"):
        setattr(first, name, [*chain.from_iterable(getattr(draft, name) for draft in (first, *others))])


def think_once(drafts: list[MessageDraft], notes: Notes) -> list[MessageDraft]:
    """Keep one piece of thinking in a message, which has room for no more."""
    for draft in drafts:
        surplus = len(draft.thinking) - 1
        if surplus > 0 and notes.applies("thinking.second_dropped", draft.place, surplus):
            draft.thinking = draft.thinking[:1]
    return drafts


def fill_empty(drafts: list[MessageDraft], notes: Notes) -> list[MessageDraft]:
    """Fill empty messages; the text is plain enough not to be imitated."""
    for draft in drafts:
        if is_blank(draft.text) and not (draft.results or draft.calls) and notes.applies("content.filled", draft.place):
            draft.text = _filler(draft)
    return drafts


def _filler(draft: MessageDraft) -> str:
    if draft.role is Role.ASSISTANT:
        return UNDERSTOOD
    return LOOK if draft.images or draft.documents else GO_ON


def calls_as_text(drafts: list[MessageDraft], notes: Notes) -> list[MessageDraft]:
    """Calls and their results as text of the user who hands the results over.

    An assistant's message never shows a call as text: models take that for the way to make one.
    """
    for before, draft in pairwise(drafts):
        if before.calls and notes.applies("history.as_text", before.place):
            results = {result["toolUseId"]: result for result in draft.results}
            draft.text = paragraphs(*(_reported(call, results) for call in before.calls), draft.text)
            before.calls, draft.results = [], []
    return drafts


def _reported(call: dict[str, Any], results: dict[str, dict[str, Any]]) -> str:
    result = results.get(call["toolUseId"])
    outcome = "an error" if result and result["status"] == "error" else "this output"
    output = _text(result) if result else CANCELLED
    return f"The tool {call['name']} was run with {dumps(call['input']).decode()} and gave {outcome}:\n{output}"


def _text(result: dict[str, Any]) -> str:
    return "\n".join(part["text"] for part in result["content"])


NATIVE: Final[tuple[Step, ...]] = (merge_neighbours, think_once, fill_empty)
"""In the order in which they run: each may rely on those before it."""

TEXT: Final[tuple[Step, ...]] = (merge_neighbours, think_once, calls_as_text, fill_empty)
"""The same where earlier tool calls are sent as text."""
