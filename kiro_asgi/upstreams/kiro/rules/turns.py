"""The order of a conversation: the service answers "Improperly formed request." to a request that breaks a rule.

* The user and the assistant take turns, the user begins, and the last message is the user's.
* No message is empty: only results may stand in for a user's text, and only calls for the assistant's.
* Every call has one result, in the message just behind it, under an id of its own.

The call that a result answers is found by the client's ids.  A client may use an id again: then a result answers the
latest call that has it and no result yet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any, Final

from attrs import define, field

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Role
from kiro_asgi.rendering.names import plain, substitute
from kiro_asgi.upstreams.kiro.rules.drafts import MessageDraft
from kiro_asgi.upstreams.kiro.rules.texts import CALL_ID, LONGEST, is_blank, paragraphs
from kiro_asgi.wire.json import dumps

CANCELLED: Final = "The tool call was cancelled; there is no result."


def pair(drafts: list[MessageDraft], notes: Notes) -> list[MessageDraft]:
    """Give calls and their results ids that the service takes, and bring results behind their calls."""
    if not any(draft.calls or draft.results for draft in drafts):
        return drafts
    pairing = _ResultPairing(notes)
    for draft in drafts:
        pairing.take(draft)
    return [draft for draft in drafts if draft not in pairing.emptied or _has_content(draft)]


@define
class _SeenCalls:
    """Calls or results to compare others with; serialised only where there is one to compare."""

    _items: list[dict[str, Any]] = field(factory=list)
    _keys: set[bytes] | None = None

    def add(self, item: dict[str, Any]) -> None:
        self._items.append(item)
        if self._keys is not None:
            self._keys.add(_key(item))

    def has(self, item: dict[str, Any]) -> bool:
        """Whether one is the same in everything but its id."""
        if self._keys is None:
            self._keys = set(map(_key, self._items))
        return _key(item) in self._keys


def _key(item: dict[str, Any]) -> bytes:
    return dumps([value for name, value in item.items() if name != "toolUseId"])


@define
class _Known:
    """One of the client's ids."""

    message: int
    """Number of the latest message with a call that has it.  Neighbouring drafts of one side are one message."""

    latest: str
    """The id, as sent, of the latest call."""

    calls: _SeenCalls
    """The results of that message."""

    waiting: list[tuple[int, deque[str]]]
    """Messages, the latest last, with the ids, as sent, of calls that have no result yet."""

    results: _SeenCalls = field(factory=_SeenCalls)
    number: int = 1
    """How many calls had the id."""


@define
class _ResultPairing:
    _notes: Notes
    _known: dict[str, _Known] = field(init=False, factory=dict)
    _ids: set[str] = field(init=False, factory=set)
    _firsts: list[MessageDraft] = field(init=False, factory=list)
    """The first draft of each message."""

    emptied: set[MessageDraft] = field(init=False, factory=set)
    """Drafts whose results all moved to other messages."""

    def take(self, draft: MessageDraft) -> None:
        """Look at the next draft."""
        if not self._firsts or self._firsts[-1].role is not draft.role:
            self._firsts.append(draft)
        if draft.calls:
            draft.calls = [call for call in draft.calls if self._call(call, draft.place)]
        if draft.results:
            self._results(draft)

    def _call(self, call: dict[str, Any], place: str) -> bool:
        """Whether the call stays; its id becomes one that no other has."""
        client, message = call["toolUseId"], len(self._firsts)
        known = self._known.get(client)
        if known is None:
            call["toolUseId"] = sent = self._id(client, 0, place)
            self._known[client] = _Known(message, sent, _SeenCalls([call]), [(message, deque((sent,)))])
            return True
        if known.message != message:
            known.message, known.calls = message, _SeenCalls()
            known.waiting.append((message, deque()))
        elif known.calls.has(call) and self._notes.applies("calls.duplicate_dropped", place):
            return False
        call["toolUseId"] = known.latest = self._id(client, known.number, place)
        known.number += 1
        known.calls.add(call)
        known.waiting[-1][1].append(known.latest)
        return True

    def _id(self, value: str, number: int, place: str) -> str:
        """An id for the call which is the *number*-th, from 0, that the client calls *value*."""
        fits = CALL_ID.fullmatch(value) is not None
        rule = "calls.id_repeated" if fits else "calls.id_changed"
        if (not fits or value in self._ids) and self._notes.applies(rule, place):
            value = substitute(f"{value} {number}" if number else value, plain(value), LONGEST, self._ids)
        self._ids.add(value)
        return value

    def _results(self, draft: MessageDraft) -> None:
        results, lines = draft.results, []
        draft.results = []
        for result in results:
            known = self._known.get(result["toolUseId"])
            if known is None:
                lines += self._orphan(result, draft)
            elif not known.waiting:
                lines += self._again(result, known, draft)
            else:
                self._answer(result, known, draft)
        if lines:
            draft.text = paragraphs(*lines, draft.text)
        elif not draft.results:
            self.emptied.add(draft)

    def _orphan(self, result: dict[str, Any], draft: MessageDraft) -> list[str]:
        if self._notes.applies("results.orphan_to_text", draft.place):
            return [_as_text(result)]
        draft.results.append(result)
        return []

    def _again(self, result: dict[str, Any], known: _Known, draft: MessageDraft) -> list[str]:
        """One more result of a call that has one."""
        repeated = known.results.has(result)
        if repeated and self._notes.applies("results.duplicate_dropped", draft.place):
            return []
        if not repeated and self._notes.applies("results.duplicate_to_text", draft.place):
            return [_as_text(result)]
        draft.results.append({**result, "toolUseId": known.latest})
        return []

    def _answer(self, result: dict[str, Any], known: _Known, draft: MessageDraft) -> None:
        """A result for the first call that waits for one, of the latest message that has one that does."""
        message, waiting = known.waiting[-1]
        result["toolUseId"] = waiting.popleft()
        if not waiting:
            known.waiting.pop()
        known.results.add(result)
        late = message < len(self._firsts) - 1
        if late and self._notes.applies("results.relocated", draft.place):
            _bring(result, draft, self._firsts[message])
            draft = self._firsts[message]
        draft.results.append(result)


def _bring(result: dict[str, Any], source: MessageDraft, target: MessageDraft) -> None:
    """Move the attachments that were lifted out of *result* with it."""
    for lifted in source.lifted:
        if lifted.result is result:
            target.images = [*target.images, *lifted.images]
            target.documents = [*target.documents, *lifted.documents]
            source.images = [one for one in source.images if not _is_in(one, lifted.images)]
            source.documents = [one for one in source.documents if not _is_in(one, lifted.documents)]


def _is_in(one: dict[str, Any], several: Sequence[dict[str, Any]]) -> bool:
    return any(one is other for other in several)


def _has_content(draft: MessageDraft) -> bool:
    return bool(draft.results or draft.images or draft.documents or not is_blank(draft.text))


def _as_text(result: dict[str, Any]) -> str:
    kind = "Error of an earlier tool call" if result["status"] == "error" else "Result of an earlier tool call"
    return f"{kind}:\n{_text(result)}"


def _text(result: dict[str, Any]) -> str:
    return "\n".join(part["text"] for part in result["content"])


def answer_calls(drafts: list[MessageDraft], notes: Notes) -> list[MessageDraft]:
    """Give calls without a result one that states that; put results into the order of their calls."""
    for before, draft in pairwise(drafts):
        if before.calls:
            _answer_calls(before, draft, notes)
    return drafts


def _answer_calls(before: MessageDraft, draft: MessageDraft, notes: Notes) -> None:
    wanted = [call["toolUseId"] for call in before.calls]
    found = [result["toolUseId"] for result in draft.results]
    if wanted == found:
        return
    results = dict(zip(found, draft.results, strict=True))
    for call_id in wanted:
        if call_id not in results and notes.applies("calls.unanswered", before.place):
            content = [{"text": CANCELLED}]
            draft.results.append({"toolUseId": call_id, "status": "error", "content": content})
            found.append(call_id)
    rank = {call_id: index for index, call_id in enumerate(wanted)}
    ordered = sorted(draft.results, key=lambda result: rank.get(result["toolUseId"], len(wanted)))
    if ordered != draft.results and notes.applies("results.ordered", draft.place):
        draft.results = ordered


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


Step = Callable[[list[MessageDraft], Notes], list[MessageDraft]]

GO_ON: Final = "Continue."
"""Text of a user's message that has none."""

LOOK: Final = "Please look at what is attached."
UNDERSTOOD: Final = "OK."


def end_with_user(drafts: list[MessageDraft], notes: Notes) -> list[MessageDraft]:
    """Let the last message be the user's: behind one of the assistant's, it asks the model to go on."""
    if not drafts:
        return [MessageDraft(Role.USER, text=GO_ON if notes.applies("turns.empty") else "")]
    last = drafts[-1]
    if last.role is Role.USER or not notes.applies("turns.prefill", last.place):
        return drafts
    return [*drafts, MessageDraft(Role.USER, last.place, GO_ON)]


def begin_with_user(drafts: list[MessageDraft], notes: Notes) -> list[MessageDraft]:
    """Let the first message be the user's."""
    first = drafts[0]
    if first.role is Role.USER or not notes.applies("turns.user_first", first.place):
        return drafts
    return [MessageDraft(Role.USER, first.place, GO_ON), *drafts]


def merge_neighbours(drafts: list[MessageDraft], notes: Notes) -> list[MessageDraft]:
    """Neighbours with the same role become one message, a blank line between their texts."""
    if all(before.role is not draft.role for before, draft in pairwise(drafts)):
        return drafts
    merged: list[MessageDraft] = []
    for _, neighbours in groupby(drafts, attrgetter("role")):
        first, *others = neighbours
        merged.append(first)
        if others and notes.applies("turns.merged", others[0].place, len(others)):
            _join(first, others)
        else:
            merged += others
    return merged


def _join(first: MessageDraft, others: list[MessageDraft]) -> None:
    first.text = paragraphs(first.text, *(draft.text for draft in others))
    for name in ("images", "documents", "results", "calls", "thinking"):
        own = getattr(first, name)
        setattr(first, name, [*own, *(item for draft in others for item in getattr(draft, name))])


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


NATIVE: Final[tuple[Step, ...]] = (
    pair,
    end_with_user,
    begin_with_user,
    merge_neighbours,
    think_once,
    answer_calls,
    fill_empty,
)
"""In the order in which they run: each may rely on those before it.  Behind them there is a draft, and the last is the
user's."""

TEXT: Final[tuple[Step, ...]] = (*NATIVE[:-1], calls_as_text, fill_empty)
"""The same where earlier tool calls are sent as text."""
