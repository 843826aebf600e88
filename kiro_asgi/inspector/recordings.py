"""Recordings of calls, replayed when a viewer looks: steps, answer, requests, and runs with other settings.

All of it blocks, as a replay does: call it in a thread.  One replay is done at a time, so that viewers cost the gateway
no more than one core.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from hashlib import sha256
from time import monotonic
from typing import Any, Final

from attrs import define, field, frozen

from kiro_asgi.asgi.exchange.explain import explain
from kiro_asgi.asgi.kept.taping import is_replayed
from kiro_asgi.config import Settings
from kiro_asgi.config.leaves import leaves, members_of, values_of
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.inspector.calls import RecordedCall
from kiro_asgi.inspector.replays import (
    answer_of,
    as_value,
    attempts_of,
    one_recorded,
    one_step,
    partial_calls,
    recorded_steps,
    steps_of,
)
from kiro_asgi.inspector.texts import (
    BODY_BYTES,
    asked_in,
    documents,
    is_user,
    messages_of,
    shortened,
    tools_in,
    words_of,
)
from kiro_asgi.model.events import UsageSource
from kiro_asgi.observers.base import Outcome
from kiro_asgi.replay import Difference, Replay, derive, read_setting, same_start
from kiro_asgi.setting import Bounds, Choices
from kiro_asgi.tapes import Tape
from kiro_asgi.tapes.recorder import TapeMaker
from kiro_asgi.wire.json import JsonError, dumps, loads

_SEARCH: Final = 0.1
"""Seconds that one step of a search takes; the page goes on with what was not looked at."""

_EVENTS: Final = 400
"""Events around a difference that are shown of each run."""

_SYSTEM: Final = ("system", "instructions", "systemInstruction", "system_instruction")
_SYSTEM_ROLES: Final = ("system", "developer")
"""Members of a request, and roles of messages, that hold the system message, in any of the APIs."""

_MARK: Final = "cache_control"

_BRANCHES: Final = 50
"""Earlier calls of a conversation with which one is compared."""

_SENT_BYTES: Final = 16 * 1024
"""Bytes that are shown of what the client was sent where that cannot be read as an answer: one under way, a refusal."""

_REFUSED: Final = 400
"""The lowest status of an error."""

_TRANSLATED: Final = {"stream.relay": "never"}
"""Settings that decode an answer whose bytes went through unread."""


class Unseen(Exception):
    """The view cannot be shown; the message says why."""


@frozen
class Run:
    """Options of a replay."""

    rechunk: str = "recorded"
    """As of `derive`."""

    changed: tuple[tuple[str, str], ...] = ()
    """Settings by path, as TOML or as text."""


@define(eq=False)
class Recordings:
    """Shows recordings."""

    _maker: TapeMaker
    _content: str
    _settings: Settings
    _guard: threading.Lock = field(init=False, factory=threading.Lock, repr=False)
    _latest: tuple[RecordedCall, Run, Replay] | None = field(init=False, default=None, repr=False)
    """The last replay: a viewer asks for the steps, and then for one after the other."""

    def tape(self, call: RecordedCall, content: str = "") -> Tape:
        """The tape of *call*, as far as it has come; with *content* ``masked`` without a word of prose.

        Raises:
            Unseen: There is none.
        """
        if call.recording is None:
            raise Unseen("the recording of this call made room for newer ones; a larger inspector.bytes keeps more")
        return self._maker.make(call.recording, "masked" if content == "masked" else self._content)

    def steps(self, call: RecordedCall, run: Run) -> Mapping[str, Any]:
        """All steps; of a call that is under way, or cannot be replayed, what was read and sent.

        Raises:
            Unseen: Nothing is kept.
        """
        why = "the call is under way; the steps between are shown when it has ended"
        if call.end is not None:
            try:
                replay = self._replay(call, run)
            except Unseen as unseen:
                if call.recording is None or run != Run():
                    raise
                why = str(unseen)
            else:
                return {**steps_of(replay), "differs": _difference(replay.difference)}
        return {**recorded_steps(self.tape(call)), "why": why}

    def step(self, call: RecordedCall, run: Run, index: int) -> Mapping[str, Any]:
        """All of one step.

        Raises:
            Unseen: There is none.
        """
        try:
            found = one_step(self._replay(call, run), index) if call.end is not None else None
        except Unseen:
            found = None
        found = found or one_recorded(self.tape(call), index)
        if found is None:
            raise Unseen("there is no such step")
        return found

    def answer(self, call: RecordedCall, run: Run) -> Mapping[str, Any]:
        """The answer as the client sees it, and what the service sent in each attempt.

        Raises:
            Unseen: Nothing is kept.
        """
        why = "the call is under way"
        if call.end is not None:
            try:
                replay = self._replay(call, run)
                if replay.status < _REFUSED:
                    kinds = {step.kind for step in replay.steps}
                    passed = "read" in kinds and "item" not in kinds
                    decoded = self._derive(call, run, _TRANSLATED) if passed else replay
                    return {"attempts": attempts_of(replay.tape), "passed": passed, **answer_of(decoded)}
                why = ""
            except Unseen as unseen:
                why = str(unseen)
        tape = self.tape(call)
        sent = tape.sent[-_SENT_BYTES:].decode("utf-8", "replace")
        return {"attempts": attempts_of(tape), "passed": False, "blocks": [], "end": None, "why": why, "sent": sent}

    def glimpses(self, calls: Iterable[RecordedCall]) -> Mapping[str, Any]:
        """What was asked in each, and the tools that its answer calls, by its number; as many as there is time for."""
        found, end = {}, monotonic() + _SEARCH
        for call in calls:
            self._glimpse(call)
            found[str(call.number)] = {"asked": call.asked, "tools": call.tools or ()}
            if monotonic() > end:
                break
        return {"calls": found}

    def _glimpse(self, call: RecordedCall) -> None:
        if call.recording is not None and call.tools is None:
            request, answer = _documents(call)
            if self._content == "full" and not call.asked:
                call.asked = shortened(self._maker.cover(asked_in(request)))
            if call.end is not None:
                call.tools = tuple(map(self._maker.cover, tools_in(answer)))

    def search(self, text: str, calls: Iterable[RecordedCall]) -> Mapping[str, Any]:
        """Numbers of those in whose request or answer the text is, and of all that there was time to look at.

        Secrets are covered before anything is found, lest somebody find them letter by letter.

        Raises:
            Unseen: No prose is kept.
        """
        if self._content != "full":
            raise Unseen("only inspector.content = full keeps texts that can be searched")
        wanted, end = text.casefold(), monotonic() + _SEARCH
        found, looked = [], []
        with self._guard:
            for call in calls:
                looked.append(call.number)
                words = words_of(*_documents(call)) if call.recording is not None else ""
                if wanted in words.casefold() and wanted in self._maker.cover(words).casefold():
                    found.append(call.number)
                if monotonic() > end:
                    break
        return {"found": found, "looked": looked}

    def failure(self, call: RecordedCall) -> Mapping[str, Any]:
        """What services said in attempts that failed, and the tool calls that the client was not sent whole.

        Raises:
            Unseen: Nothing is kept.
        """
        failed = [each for each in attempts_of(self.tape(call)) if each.get("outcome") != Outcome.COMPLETE.value]
        try:
            replay = self._replay(call, Run())
            passed = not any(step.kind == "item" for step in replay.steps)
            partial = partial_calls(self._derive(call, Run(), _TRANSLATED) if passed else replay)
        except Unseen:
            partial = []
        return {"attempts": failed, "partial": partial}

    def request(self, call: RecordedCall) -> Mapping[str, Any]:
        """The client's request, the requests to services, and the rules by which one became the other.

        Raises:
            Unseen: Nothing is kept.
        """
        tape = self.tape(call)
        body = next((line.data for line in tape.of("client.request")), None)
        if body is None:
            raise Unseen("the request was refused before it was read")
        sent = [
            {
                "number": number,
                "upstream": attempt.plan.text("upstream"),
                "url": answer.request.text("url"),
                "payload": as_value(answer.request.data),
            }
            for number, attempt in enumerate(tape.attempts, 1)
            for answer in attempt.answers
        ]
        return {"client": as_value(body), "sent": sent, "explained": self._explained(call, tape, body)}

    def _explained(self, call: RecordedCall, tape: Tape, body: bytes) -> Mapping[str, Any]:
        plan = next(tape.of("plan"), None)
        upstream = None if plan is None else plan.text("upstream")
        window = None if plan is None else int(plan.number("context_window")) or None
        try:
            explanation = explain(body, self._settings, call.facts.api, upstream, window)
        except KiroAsgiError as error:
            return {"ok": False, "error": error.message, "param": getattr(error, "param", None)}
        return {name: value for name, value in explanation.items() if name != "payload"}

    def conversation(self, call: RecordedCall, calls: Iterable[RecordedCall]) -> Mapping[str, Any]:
        """The calls of the same conversation, each with what it has in common with the one that it goes on from.

        A conversation is known by what its user said first; the system message may change from call to call.  A call
        goes on from the earlier one with which it has most in common: a client may ask several times, or in branches.

        Raises:
            Unseen: The request is not kept, or is none of messages.
        """
        mine = _turns(call)
        if mine is None:
            raise Unseen("this request holds no conversation")
        turns: list[Mapping[str, Any]] = []
        before: list[_Turns] = []
        for each in calls:
            if (each.facts.principal, each.facts.api) != (call.facts.principal, call.facts.api):
                continue
            said = mine if each is call else _turns(each)
            if said is None or said.first != mine.first:
                continue
            latest = reversed(before[-_BRANCHES:])
            best = max(latest, key=lambda one: same_start(one.messages, said.messages), default=None)
            facts = {"id": each.facts.request_id, "time": each.facts.time, "messages": len(said.messages)}
            turns.append({**facts, **_compared(best, said), **_charged(each)})
            before.append(said)
        return {"turns": turns}

    def compare(self, other: RecordedCall, call: RecordedCall, run: Run) -> Mapping[str, Any]:
        """Compare what the client of *other* got with what that of *call* would be sent, from the first difference on.

        Raises:
            Unseen: *call* cannot be replayed, or not all is kept of what the client of *other* got.
        """
        replay, got = self._replay(call, run), self.tape(other)
        if got.cut or other.end is None:
            raise Unseen("not all of what that call's client got is kept, so nothing can be compared with it")
        difference = replay.difference_from(got)
        left, right = ([] if difference is None else sent.split(b"\n\n") for sent in (got.sent, replay.sent))
        first = same_start(left, right)
        last = same_start(reversed(left[first:]), reversed(right[first:]))
        seconds = replay.steps[-1].t if replay.steps else 0
        return {
            "same": difference is None and got.status in (0, replay.status),
            "difference": _difference(difference),
            "before": first,
            "after": last,
            "got": {
                "status": got.status,
                "bytes": len(got.sent),
                "seconds": round(other.end.seconds, 4),
                "events": _shown(left, first, last),
            },
            "replay": {
                "status": replay.status,
                "bytes": len(replay.sent),
                "seconds": round(seconds, 4),
                "events": _shown(right, first, last),
                "steps": len(replay.steps) + replay.dropped,
                "missing": replay.missing,
            },
        }

    def settings(self) -> list[Mapping[str, Any]]:
        """Settings that a run may change: switches, numbers and choices; no addresses, paths or names."""
        values = values_of(self._settings)
        known = leaves(type(self._settings), members_of(type(self._settings), values))
        found = ((path, leaf) for path, leaf in known.items() if path in values and is_replayed(leaf))
        return [
            {"path": path, "value": values[path], "rule": _rule(leaf.declared.rule)}
            for path, leaf in found
            if leaf.type in (bool, int, float) or isinstance(leaf.declared.rule, Choices)
        ]

    def _replay(self, call: RecordedCall, run: Run) -> Replay:
        latest = self._latest
        if latest is not None and latest[0] is call and latest[1] == run:
            return latest[2]
        replay = self._derive(call, run)
        if run == Run() and replay.difference is not None and not replay.tape.attempts:
            raise Unseen(
                "the call was refused because of other calls, by a limit for instance, and a tape does not record those"
            )
        self._latest = (call, run, replay)
        return replay

    def _derive(self, call: RecordedCall, run: Run, more: Mapping[str, Any] | None = None) -> Replay:
        if call.end is None:
            raise Unseen("the call is under way; it can be replayed when it has ended")
        changed = {path: read_setting(text) for path, text in run.changed}
        if changed and not {*changed} <= {each["path"] for each in self.settings()}:
            raise Unseen("only switches, numbers and choices can be changed, by their paths")
        with self._guard:
            try:
                return derive(self.tape(call), rechunk=run.rechunk, changed={**changed, **(more or {})})
            except KiroAsgiError as error:
                raise Unseen(error.message) from error


def _shown(events: list[bytes], first: int, last: int) -> list[Any]:
    """Those that differ: all but the *first* and the *last* ones."""
    return [as_value(each) for each in events[first : len(events) - last][:_EVENTS]]


def _documents(call: RecordedCall) -> tuple[Any, list[Any]]:
    """A call's request, and its answer as it was sent, as values; empty where they are none, or too large."""
    body, sent = b"", []
    for line in [] if call.recording is None else call.recording.lines:
        if line.kind == "client.request":
            body = line.data
        elif line.kind == "client.bytes":
            sent.append(line.data)
    try:
        request = loads(body) if 0 < len(body) <= BODY_BYTES else {}
    except JsonError:
        request = {}
    return request, documents(b"".join(sent))


@frozen
class _Turns:
    """Digests of what a request says."""

    first: str
    """What its user said first."""

    system: str
    messages: tuple[str, ...]
    """All but those of the system."""


def _turns(call: RecordedCall) -> _Turns | None:
    """``None`` where the request is not kept, or has no message of a user."""
    lines = [] if call.recording is None else call.recording.lines
    body = next((line.data for line in lines if line.kind == "client.request"), b"")
    try:
        request = loads(body)
    except JsonError:
        return None
    messages = messages_of(request)
    system = [request.get(name) for name in _SYSTEM] if isinstance(request, dict) else []
    said: list[Any] = []
    for message in messages:
        is_system = isinstance(message, dict) and message.get("role") in _SYSTEM_ROLES
        (system if is_system else said).append(message)
    first = next((message for message in said if is_user(message)), None)
    return None if first is None else _Turns(_digest(first), _digest(system), tuple(map(_digest, said)))


def _digest(value: Any) -> str:
    return sha256(dumps(_unmarked(value))).hexdigest()


def _unmarked(value: Any) -> Any:
    """Without marks for the cache, which clients move on from call to call."""
    if isinstance(value, list):
        return [_unmarked(each) for each in value]
    if isinstance(value, dict):
        return {name: _unmarked(each) for name, each in value.items() if name != _MARK}
    return value


def _charged(call: RecordedCall) -> Mapping[str, Any]:
    """Tokens that the service read from its cache, and the credits that it took, as far as it has said so."""
    usage = None if call.end is None else call.end.usage
    if usage is None:
        return {}
    read = {"cache_read": usage.cache_read_tokens} if usage.cache_source is UsageSource.UPSTREAM else {}
    took = usage.charged_by_service
    return read if took is None else {**read, "credits": round(took, 6)}


def _compared(before: _Turns | None, said: _Turns) -> Mapping[str, Any]:
    """How many messages are the same, whether an earlier one was changed, and whether the system message was.

    Another last message is no change of an earlier one: clients ask aside, for a title for instance.
    """
    if before is None:
        return {"same": 0, "changed": False, "system_changed": False}
    same = same_start(before.messages, said.messages)
    changed = same < min(len(before.messages) - 1, len(said.messages))
    return {"same": same, "changed": changed, "system_changed": before.system != said.system}


def _rule(rule: Any) -> str:
    match rule:
        case Choices():
            return " | ".join(rule.words)
        case Bounds():
            return f"{rule.lowest:.15g} to {rule.highest:.15g}"
    return ""


def _difference(difference: Difference | None) -> Mapping[str, Any] | None:
    if difference is None:
        return None
    expected, actual = (each.decode("utf-8", "backslashreplace") for each in (difference.expected, difference.actual))
    return {"offset": difference.offset, "event": difference.event, "expected": expected, "actual": actual}
