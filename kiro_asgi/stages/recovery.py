"""Reminders to the model that an answer of its own was cut short, or that a call could not be read.

The service cuts long answers, tool calls above all, and the model never learns of it: in the conversation that the
client sends next, the call that was cut is simply not there, so the model makes the same call again and is cut again.
What is known of the cut is therefore kept, as a `CutAnswer` under the keys of `records_of`, and when `candidates`
finds one of them in a later prompt, `recover` puts a notice where the model reads it: into the result of a call of
which the client was shown a part, else into the user's next turn.

A key that is not exactly the same is another answer; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from types import MappingProxyType
from typing import Final

from attrs import evolve, frozen

from kiro_asgi.limits import LOOKUPS
from kiro_asgi.model.events import MalformedCall, TruncationInfo
from kiro_asgi.model.prompt import Part, Prompt, Role, Text, ToolResult, Turn
from kiro_asgi.stages.cut_answers import CutAnswer, after_key, answer_key, call_key, fingerprint_of

_CALL_CUT: Final = (
    "The previous answer was cut off by an output limit. {calls} {fate} Do not send the same call again as it was: it "
    "would be cut off again. Send its content again in several smaller calls, one part at a time."
)
_TEXT_CUT: Final = (
    "The previous answer was cut off by an output limit after {size:,} bytes of text. Do not repeat it as a whole: it "
    "would be cut off again. Send what is missing again in smaller parts, going on from where the text ends."
)
_ALL_CUT: Final = (
    "The previous answer was cut off by an output limit before any of it arrived. Do not give the same answer again: "
    "it would be cut off again. Send it again in smaller parts, with less deliberation before each."
)
_CALL_MALFORMED: Final = (
    "{calls} {fate} Make the call again with arguments that are exactly one JSON object: double quotes around every "
    "name and every string, and a backslash before each double quote and backslash within a string."
)
_FATES: Final = MappingProxyType(
    {
        False: "Nothing of this was delivered, and it was NOT executed.",
        True: "Only a part of this was delivered, and it was NOT executed as intended.",
    }
)


def reminder_text(record: CutAnswer, *, part_shown: bool = False) -> str:
    """The reminder as prompt text.

    Args:
        record: What was cut.
        part_shown: Whether the client has seen a part of the call.
    """
    said = " ".join(_sentences(record, _FATES[part_shown]))
    return f"[Notice from the gateway] {said}"


def _sentences(record: CutAnswer, fate: str) -> Iterator[str]:
    if record.calls:
        yield _CALL_CUT.format(calls=" ".join(map(_told, record.calls)), fate=fate)
    if record.malformed:
        yield _CALL_MALFORMED.format(calls=" ".join(map(_told_malformed, record.malformed)), fate=fate)
    if not (record.calls or record.malformed):
        yield (_TEXT_CUT if record.size_bytes else _ALL_CUT).format(size=record.size_bytes)


def _told(info: TruncationInfo) -> str:
    size = f"{info.size_bytes:,} bytes of arguments"
    return f"Its call of the {_tool(info.name)} arrived incomplete, {size} ({info.reason})."


def _told_malformed(info: MalformedCall) -> str:
    call = f"the call of the {_tool(info.name)}"
    return f"In the previous answer, {call} arrived complete, but its arguments could not be read ({info.reason})."


def _tool(name: str) -> str:
    return f'tool "{name}"' if name else "tool that it did not name"


_ANSWERS: Final = 4
"""Newest answers of a conversation that are looked up."""


@frozen
class Candidate:
    """A key that an answer in a conversation would be remembered under, had it been cut."""

    key: str
    reply: int
    """Index of the turn after the answer, where a notice would go."""

    call_id: str = ""
    """The call whose result a notice would go into; empty for none."""


@frozen
class Reminder:
    """A notice and its place."""

    text: str
    reply: int
    call_id: str = ""


def candidates(turns: Sequence[Turn]) -> tuple[Candidate, ...]:
    """The keys to look up for a conversation, those of the newest answer first; of equal answers only the newest."""
    answers = islice(_answers(turns), _ANSWERS)
    found = chain(_unanswered(turns), *(_of_answer(turns, start, reply) for start, reply in answers))
    by_key: dict[str, Candidate] = {}
    for each in islice(found, LOOKUPS):
        by_key.setdefault(each.key, each)
    return tuple(by_key.values())


def _answers(turns: Sequence[Turn]) -> Iterator[tuple[int, int]]:
    """Where each answer that the user replied to starts, and where its reply does, newest first.

    Neighbouring turns of the assistant are one answer that a client has cut apart.
    """
    end = len(turns)
    while end:
        reply = _back(turns, end, Role.USER)
        start = _back(turns, reply, Role.ASSISTANT)
        if start < reply < end:
            yield start, reply
        end = start


def _back(turns: Sequence[Turn], end: int, role: Role) -> int:
    while end and turns[end - 1].role is role:
        end -= 1
    return end


def _of_answer(turns: Sequence[Turn], start: int, reply: int) -> Iterator[Candidate]:
    shown = fingerprint_of(*turns[start:reply])
    digest = shown.digest()
    key = answer_key(digest) if digest else after_key(turns[start - 1]) if start else ""
    if key:
        yield Candidate(key, reply)
    for call_id, _ in shown.calls:
        yield Candidate(call_key(call_id), reply, call_id)


def _unanswered(turns: Sequence[Turn]) -> Iterator[Candidate]:
    """Turns of the user at the end that another one follows: the answer between them may have been dropped."""
    first = max(_back(turns, len(turns), Role.USER), len(turns) - _ANSWERS)
    for index in range(len(turns) - 2, first - 1, -1):
        if key := after_key(turns[index]):
            yield Candidate(key, index + 1)


def reminders(turns: Sequence[Turn], records: Mapping[str, CutAnswer]) -> tuple[Reminder, ...]:
    """The notices that a conversation needs, those about the newest answer first."""
    return tuple(
        Reminder(reminder_text(records[each.key], part_shown=bool(each.call_id)), each.reply, each.call_id)
        for each in candidates(turns)
        if each.key in records
    )


def recover(prompt: Prompt, records: Mapping[str, CutAnswer]) -> tuple[Prompt, tuple[Reminder, ...]]:
    """*prompt* with the notices that it needs, and these; the very same prompt where there are none.

    Args:
        prompt: As the client sent it.
        records: What is remembered, at least under those keys of `candidates` under which there is anything.
    """
    told = reminders(prompt.turns, records)
    if not told:
        return prompt, ()
    turns = list(prompt.turns)
    for reminder in told:
        if reminder.call_id:
            _tell_in_result(turns, reminder)
        else:
            _tell_in_turn(turns, reminder)
    return evolve(prompt, turns=tuple(turns)), told


def _tell_in_result(turns: list[Turn], reminder: Reminder) -> None:
    """Into the call's result, in front of what the client put there; a call without a result gets one."""
    note = Text(reminder.text)
    for index in _reply(turns, reminder.reply):
        for at, part in enumerate(turns[index].parts):
            if isinstance(part, ToolResult) and part.call_id == reminder.call_id:
                _put(turns, index, at, evolve(part, parts=(note, *part.parts), is_error=True), replace=True)
                return
    _put(turns, reminder.reply, 0, ToolResult(reminder.call_id, (note,), is_error=True))


def _tell_in_turn(turns: list[Turn], reminder: Reminder) -> None:
    """Behind the last tool result of the reply, for results must follow their calls; else at its beginning."""
    place = reminder.reply, 0
    for index in _reply(turns, reminder.reply):
        for at, part in enumerate(turns[index].parts):
            if isinstance(part, ToolResult):
                place = index, at + 1
    _put(turns, *place, Text(reminder.text))


def _reply(turns: Sequence[Turn], start: int) -> Iterator[int]:
    """Indexes of the turns with which the user replies."""
    for index in range(start, len(turns)):
        if turns[index].role is not Role.USER:
            return
        yield index


def _put(turns: list[Turn], index: int, at: int, part: Part, *, replace: bool = False) -> None:
    parts = turns[index].parts
    turns[index] = evolve(turns[index], parts=(*parts[:at], part, *parts[at + replace :]))
