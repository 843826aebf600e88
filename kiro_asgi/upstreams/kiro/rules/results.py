"""Tool calls and their results: every call has one result, in the message just behind it, under an id of its own.

What a result answers is found by the client's ids.  A client may use an id again: then a result answers the latest call
that has it and no result yet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from attrs import define, field

from kiro_asgi.model.notes import Notes
from kiro_asgi.upstreams.kiro.rules.drafts import Draft
from kiro_asgi.upstreams.kiro.rules.names import CALL_ID, LONGEST
from kiro_asgi.upstreams.kiro.rules.texts import is_blank, paragraphs
from kiro_asgi.upstreams.rendering import plain, substitute
from kiro_asgi.wire.json import dumps

__all__ = ["answer_calls", "pair", "tell_as_text"]

CANCELLED: Final = "The tool call was cancelled; there is no result."


def pair(drafts: list[Draft], notes: Notes) -> list[Draft]:
    """Give calls and their results ids that the service takes, and bring results behind their calls."""
    if not any(draft.calls or draft.results for draft in drafts):
        return drafts
    pairing = _Pairing(notes)
    for draft in drafts:
        pairing.take(draft)
    return [draft for draft in drafts if draft not in pairing.emptied or _says(draft)]


@define
class _Seen:
    """Calls or results to compare others with; written down only where there is one."""

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

    calls: _Seen
    """Those of that message."""

    waiting: list[tuple[int, deque[str]]]
    """Messages, the latest last, with the ids, as sent, of calls that have no result yet."""

    results: _Seen = field(factory=_Seen)
    number: int = 1
    """How many calls had the id."""


@define
class _Pairing:
    _notes: Notes
    _known: dict[str, _Known] = field(init=False, factory=dict)
    _ids: set[str] = field(init=False, factory=set)
    _firsts: list[Draft] = field(init=False, factory=list)
    """The first draft of each message."""

    emptied: set[Draft] = field(init=False, factory=set)
    """Drafts whose results all went elsewhere."""

    def take(self, draft: Draft) -> None:
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
            self._known[client] = _Known(message, sent, _Seen([call]), [(message, deque((sent,)))])
            return True
        if known.message != message:
            known.message, known.calls = message, _Seen()
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

    def _results(self, draft: Draft) -> None:
        results, told = draft.results, []
        draft.results = []
        for result in results:
            known = self._known.get(result["toolUseId"])
            if known is None:
                told += self._orphan(result, draft)
            elif not known.waiting:
                told += self._again(result, known, draft)
            else:
                self._answer(result, known, draft)
        if told:
            draft.text = paragraphs(*told, draft.text)
        elif not draft.results:
            self.emptied.add(draft)

    def _orphan(self, result: dict[str, Any], draft: Draft) -> list[str]:
        if self._notes.applies("results.orphan_to_text", draft.place):
            return [_told(result)]
        draft.results.append(result)
        return []

    def _again(self, result: dict[str, Any], known: _Known, draft: Draft) -> list[str]:
        """One more result of a call that has one."""
        repeated = known.results.has(result)
        if repeated and self._notes.applies("results.duplicate_dropped", draft.place):
            return []
        if not repeated and self._notes.applies("results.duplicate_to_text", draft.place):
            return [_told(result)]
        draft.results.append({**result, "toolUseId": known.latest})
        return []

    def _answer(self, result: dict[str, Any], known: _Known, draft: Draft) -> None:
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


def _bring(result: dict[str, Any], source: Draft, target: Draft) -> None:
    """Let what was lifted out of *result* follow it."""
    for lifted in source.lifted:
        if lifted.result is result:
            target.images = [*target.images, *lifted.images]
            target.documents = [*target.documents, *lifted.documents]
            source.images = [one for one in source.images if not _is_in(one, lifted.images)]
            source.documents = [one for one in source.documents if not _is_in(one, lifted.documents)]


def _is_in(one: dict[str, Any], several: Sequence[dict[str, Any]]) -> bool:
    return any(one is other for other in several)


def _says(draft: Draft) -> bool:
    return bool(draft.results or draft.images or draft.documents or not is_blank(draft.text))


def _told(result: dict[str, Any]) -> str:
    kind = "Error of an earlier tool call" if result["status"] == "error" else "Result of an earlier tool call"
    return f"{kind}:\n{_text(result)}"


def _text(result: dict[str, Any]) -> str:
    return "\n".join(part["text"] for part in result["content"])


def answer_calls(drafts: list[Draft], notes: Notes) -> list[Draft]:
    """A call without a result gets one that says so; results stand in the order of their calls."""
    for before, draft in pairwise(drafts):
        if before.calls:
            _answer_calls(before, draft, notes)
    return drafts


def _answer_calls(before: Draft, draft: Draft, notes: Notes) -> None:
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


def tell_as_text(drafts: list[Draft], notes: Notes) -> list[Draft]:
    """Calls and their results as text of the user who hands the results over.

    An assistant's message never shows a call in words: models take that for the way to make one.
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
