"""Rules of a conversation that the service insists on, one function each, in the order in which they run.

The service answers "Improperly formed request." to a conversation that breaks one of them, without saying which:

* The user and the assistant take turns, the user begins, and the last word is the user's.
* Results answer calls of the message just before them, each once; and every call is answered.
* A message says something: only results may stand in for a user's text, and only calls for the assistant's.

Each rule takes the drafts and returns them as they should be.  Nothing that the client said is lost silently: what
has no place as a structure becomes text, and every repair is noted.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

from kiro_asgi.model.prompt import Role
from kiro_asgi.upstreams.kiro.drafts import Draft, Notes

__all__ = ["RULES", "repair"]

Rule = Callable[[list[Draft], Notes], list[Draft]]

GO_ON: Final = "Continue."
"""What a user says who says nothing."""

LOOK: Final = "Please look at what is attached."
UNDERSTOOD: Final = "OK."
CANCELLED: Final = "The tool call was cancelled; there is no result."


def repair(drafts: list[Draft], notes: Notes) -> list[Draft]:
    """The drafts as the service takes them; never empty, and the last is the user's."""
    for rule in RULES:
        drafts = rule(drafts, notes)
    return drafts


def end_with_user(drafts: list[Draft], notes: Notes) -> list[Draft]:
    """The last word is the user's; one who leaves it to the assistant wants it to go on from there."""
    if drafts and drafts[-1].role is Role.USER:
        return drafts
    notes.add("turns.prefill" if drafts else "turns.empty")
    return [*drafts, Draft(Role.USER, GO_ON)]


def begin_with_user(drafts: list[Draft], notes: Notes) -> list[Draft]:
    """The first word is the user's."""
    if drafts[0].role is Role.USER:
        return drafts
    notes.add("turns.user_first")
    return [Draft(Role.USER, GO_ON), *drafts]


def merge_neighbours(drafts: list[Draft], notes: Notes) -> list[Draft]:
    """Neighbours with the same role become one message, a blank line between their texts."""
    merged: list[Draft] = []
    for draft in drafts:
        if merged and merged[-1].role is draft.role:
            notes.add("turns.merged")
            merged[-1] = _joined(merged[-1], draft, notes)
        else:
            merged.append(draft)
    return merged


def _joined(first: Draft, second: Draft, notes: Notes) -> Draft:
    if first.reasoning and second.reasoning:
        notes.add("thinking.second_dropped")
    return Draft(
        first.role,
        _paragraphs(first.text, second.text),
        first.images + second.images,
        first.documents + second.documents,
        first.results + second.results,
        first.calls + second.calls,
        first.reasoning or second.reasoning,
    )


def calls_once(drafts: list[Draft], notes: Notes) -> list[Draft]:
    """Of calls with the same id in one message the first counts, and so it is with results."""
    for draft in drafts:
        calls, results = _first_of_each(draft.calls), _first_of_each(draft.results)
        if len(calls) < len(draft.calls):
            notes.add("calls.duplicate_dropped")
        if len(results) < len(draft.results):
            notes.add("results.duplicate_dropped")
        draft.calls, draft.results = calls, results
    return drafts


def _first_of_each(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    first: dict[str, dict[str, Any]] = {}
    for item in items:
        first.setdefault(item["toolUseId"], item)
    return list(first.values())


def results_answer_calls(drafts: list[Draft], notes: Notes) -> list[Draft]:
    """A result that answers no call of the message before becomes part of the user's text."""
    for before, draft in pairwise([Draft(Role.ASSISTANT), *drafts]):
        called = {call["toolUseId"] for call in before.calls}
        orphans = [result for result in draft.results if result["toolUseId"] not in called]
        if orphans:
            notes.add("results.orphan_to_text")
            draft.results = [result for result in draft.results if result["toolUseId"] in called]
            draft.text = _paragraphs(*map(_told, orphans), draft.text)
    return drafts


def _told(result: dict[str, Any]) -> str:
    kind = "Error of an earlier tool call" if result["status"] == "error" else "Result of an earlier tool call"
    return f"{kind}:\n" + "\n".join(part["text"] for part in result["content"])


def calls_are_answered(drafts: list[Draft], notes: Notes) -> list[Draft]:
    """A call without a result gets one that says so; results stand in the order of their calls."""
    for before, draft in pairwise(drafts):
        if before.calls:
            results = {result["toolUseId"]: result for result in draft.results}
            draft.results = [results.get(call["toolUseId"]) or _cancelled(call, notes) for call in before.calls]
    return drafts


def _cancelled(call: dict[str, Any], notes: Notes) -> dict[str, Any]:
    notes.add("calls.unanswered")
    return {"toolUseId": call["toolUseId"], "status": "error", "content": [{"text": CANCELLED}]}


def say_something(drafts: list[Draft], notes: Notes) -> list[Draft]:
    """No message is empty; what is put in is plain enough not to be imitated."""
    for draft in drafts:
        if not draft.text.strip():
            draft.text = _filler(draft)
            if draft.text:
                notes.add("content.filled")
    return drafts


def _filler(draft: Draft) -> str:
    if draft.results or draft.calls:
        return ""
    if draft.role is Role.ASSISTANT:
        return UNDERSTOOD
    return LOOK if draft.images or draft.documents else GO_ON


def _paragraphs(*texts: str) -> str:
    return "\n\n".join(text for text in texts if text.strip())


RULES: Final[tuple[Rule, ...]] = (
    end_with_user,
    begin_with_user,
    merge_neighbours,
    calls_once,
    results_answer_calls,
    calls_are_answered,
    say_something,
)
"""In the order in which they run: each may rely on those before it."""
