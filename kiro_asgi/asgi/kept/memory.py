"""Memory from one request of a client to its next: answers that were cut, and signatures of tool calls."""

from __future__ import annotations

from collections.abc import Mapping
from logging import getLogger
from typing import Final

from attrs import frozen

from kiro_asgi.errors import StoreUnavailable
from kiro_asgi.limits import SIGNATURE_BYTES
from kiro_asgi.model.notes import Note
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.model.rules import Loss, Rule
from kiro_asgi.model.signatures import CALL, KEPT, read_mark
from kiro_asgi.stages.answer import Answer
from kiro_asgi.stages.call_signatures import Place, signed, with_thinking
from kiro_asgi.stages.cut_answers import CutAnswer, Reminder, candidates, records_of, recover
from kiro_asgi.state.base import Store, scoped, stored_values

_log = getLogger("kiro_asgi")

CUT_ANSWER: Final = Rule(
    "recovery.cut_answer",
    "The model is told that an earlier answer of its own was cut.",
    Loss.NONE,
)

_CUT_ANSWER: Final = "cut-answer"


@frozen
class Recovered:
    """A prompt for an upstream, with the notices that it needs."""

    prompt: Prompt
    """With the notices."""

    asked: Prompt
    """As the client sent it."""

    principal: str
    notes: tuple[Note, ...] = ()
    used: tuple[str, ...] = ()
    """Keys in the store of the answers that the notices are about."""


@frozen
class Recovery:
    """Remembers for *ttl* seconds, each client's answers for that client only.

    A record is used up by the first whole answer to a prompt that held its notice.  Until then it stays, so that a
    request that failed, or was broken off, holds the same notice when it is tried again.
    """

    _store: Store
    _ttl: float = 3600.0
    enabled: bool = True

    async def prepare(self, prompt: Prompt, principal: str) -> Recovered:
        """Add the notices about earlier answers."""
        records: dict[str, CutAnswer] = {}
        places: dict[str, str] = {}
        try:
            keys = [each.key for each in candidates(prompt.turns)] if self.enabled else []
            places = {key: scoped(principal, _CUT_ANSWER, key) for key in keys}
            found = await stored_values(self._store, [*places.values()])
            for key, place in places.items():
                if place not in found:
                    continue
                if (record := CutAnswer.decode(found[place])) is None:
                    _log.error("the record of an answer that was cut is damaged, and counts as missing")
                    continue
                records[key] = record
        except StoreUnavailable as error:
            _log.warning("the store cannot be used, so answers that were cut are not remembered: %r", error)
        reminded, reminders = recover(prompt, records)
        used = tuple(places[reminder.key] for reminder in reminders)
        return Recovered(reminded, prompt, principal, _notes(prompt, reminders), used)

    async def remember(self, recovered: Recovered, answer: Answer) -> None:
        """Keep the records of an answer that has ended, if it was cut."""
        if not self.enabled:
            return
        try:
            await self._remember(recovered, answer)
        except StoreUnavailable as error:
            _log.warning("the store cannot be used, so answers that were cut are not remembered: %r", error)

    async def _remember(self, recovered: Recovered, answer: Answer) -> None:
        for place in recovered.used:
            await self._store.delete(place)
        assert answer.end is not None and answer.fingerprint is not None, (
            "the answer has not ended, or has no fingerprint"
        )
        records = records_of(answer.fingerprint, answer.end, asked=recovered.asked.turns, limited=answer.enough)
        for key, record in records.items():
            await self._store.set(scoped(recovered.principal, _CUT_ANSWER, key), record.encode(), self._ttl)


def _notes(prompt: Prompt, reminders: tuple[Reminder, ...]) -> tuple[Note, ...]:
    """One note, at the place of the first notice in the conversation."""
    if not reminders:
        return ()
    first = min(reminder.reply for reminder in reminders)
    return (Note(CUT_ANSWER.name, len(reminders), prompt.turns[first].place),)


_CALL_SIGNATURE: Final = "call-signature"


@frozen
class Signatures:
    """Remembers for *ttl* seconds, each client's for that client only."""

    _store: Store
    _ttl: float

    async def restored(self, prompt: Prompt, unsigned: Mapping[Place, str], principal: str, owner: str = "") -> Prompt:
        """*prompt* with the signatures that the client left out, as far as they are known.

        Args:
            prompt: The request.
            unsigned: Calls of it without one, as of `unsigned_calls`.
            principal: Whose it is.
            owner: The upstream that wants thinking back that it has not signed; empty for none.
        """
        keys = {place: scoped(principal, _CALL_SIGNATURE, key) for place, key in unsigned.items()}
        known: dict[Place, str] = {}
        try:
            found = await stored_values(self._store, [*dict.fromkeys(keys.values())])
            known = {place: found[key].decode(errors="replace") for place, key in keys.items() if key in found}
        except StoreUnavailable as error:
            _log.warning("the store cannot be used, so signatures of tool calls are not remembered: %r", error)
        intact = {place: it for place, it in known.items() if read_mark(it).part in (CALL, KEPT)}
        if len(intact) < len(known):
            _log.error("signatures of tool calls are damaged, and count as missing: %d", len(known) - len(intact))
        signatures = {place: it for place, it in intact.items() if read_mark(it).part == CALL}
        return with_thinking(signed(prompt, signatures), intact, owner) if intact else prompt

    async def remember(self, found: Mapping[str, str], principal: str) -> None:
        """Keep signatures by the keys of their calls, as of `signature_keys`."""
        try:
            for key, signature in found.items():
                if len(signature) <= SIGNATURE_BYTES:
                    await self._store.set(scoped(principal, _CALL_SIGNATURE, key), signature.encode(), self._ttl)
        except StoreUnavailable as error:
            _log.warning("the store cannot be used, so signatures of tool calls are not remembered: %r", error)
