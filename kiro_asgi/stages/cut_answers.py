"""Records of answers that were cut short, or of which a call could not be read, and notices to the model about them.

The service cuts long answers, tool calls above all, and the model never learns of it: in the conversation that the
client sends next, the call that was cut is simply not there, so the model makes the same call again and is cut again.
What is known of the cut is therefore kept, as a `CutAnswer` under the keys of `records_of`, and when `candidates`
finds one of them in a later prompt, `recover` puts a notice where the model reads it: into the result of a call of
which the client was shown a part, else into the user's next turn.

===============================================================  =====================================================
what the client was shown                                        key
===============================================================  =====================================================
part of the call                                                the call's id
text or whole calls, but not that call                           fingerprint of the answer
nothing                                                          fingerprint of the user's turn before it
===============================================================  =====================================================

What survives a client's re-encoding of an answer is the text without its white space, and the tool calls by id and
name: these make the fingerprint.  A key that is not exactly the same is another answer; nothing is guessed.  Another
conversation may have the same id, or an equal answer, so a record has the digest of the turns before its answer, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, Final, TypeVar

from attrs import asdict, define, evolve, field, frozen

from kiro_asgi.limits import LOOKUPS
from kiro_asgi.model.events import (
    BlockKind,
    BlockStart,
    Event,
    MalformedCall,
    MessageEnd,
    StopReason,
    TextDelta,
    TruncationInfo,
)
from kiro_asgi.model.message import Message, TextBlock, ToolCallBlock
from kiro_asgi.model.prompt import Part, Prompt, Role, Text, ToolCallPart, ToolResult, Turn
from kiro_asgi.stages.parts.conversation import PLACEHOLDERS, before_next_answer, visible
from kiro_asgi.wire.json import JsonError, dumps, loads

_BATCH: Final = 16 * 1024
"""Characters of text that are hashed at once: one call for many small deltas."""


@define
class Fingerprint:
    """Digest of the text and the tool calls of an answer; text may come in pieces cut anywhere."""

    size_bytes: int = field(init=False, default=0)
    """UTF-8 bytes of text."""

    calls: list[tuple[str, str]] = field(init=False, factory=list)
    """Id and name of every tool call."""

    _text: Any = field(init=False, factory=sha256)
    _blank: bool = field(init=False, default=True)

    def write(self, text: str) -> None:
        """Take in a piece of the text."""
        self.size_bytes += len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        if shown := visible(text):
            self._blank = False
            self._text.update(shown)

    def digest(self, *, without: Container[str] = ()) -> str:
        """Equal for equal answers, of fixed size; empty for an answer without text and calls.

        Args:
            without: Ids of calls that do not count.
        """
        calls = [call for call in self.calls if call[0] not in without]
        if self._blank and not calls:
            return ""
        return sha256(self._text.digest() + json.dumps(calls).encode()).hexdigest()


@define
class Fingerprinter:
    """Pass events on, and take the fingerprint of what they show."""

    _fingerprint: Fingerprint = field(init=False, factory=Fingerprint)
    _pieces: list[str] = field(init=False, factory=list)
    """Text that is not in the fingerprint yet."""

    _length: int = field(init=False, default=0)

    def feed(self, items: Iterable[Event], /) -> Iterator[Event]:
        """*items*, unchanged."""
        pieces = self._pieces
        for item in items:
            if type(item) is TextDelta:
                pieces.append(item.text)
                self._length += len(item.text)
                if self._length > _BATCH:
                    self._hash_pieces()
            elif type(item) is BlockStart and item.kind is BlockKind.TOOL_CALL:
                self._fingerprint.calls.append((item.call_id, item.name))
            yield item

    def flush(self) -> Iterator[Event]:
        """Nothing: it has all been passed on."""
        return iter(())

    @property
    def fingerprint(self) -> Fingerprint:
        """Fingerprint of everything so far."""
        if self._pieces:
            self._hash_pieces()
        return self._fingerprint

    def _hash_pieces(self) -> None:
        self._fingerprint.write("".join(self._pieces))
        self._pieces.clear()
        self._length = 0


_DIGEST: Final = re.compile("[0-9a-f]{64}")

_CALLS: Final = 8
"""Cut calls of one answer that are remembered."""

_NAME: Final = 100
"""Characters of a tool's name that are remembered."""

_Info = TypeVar("_Info", TruncationInfo, MalformedCall)


@frozen
class CutAnswer:
    """The record of an answer that was cut, or of which a call could not be read."""

    calls: tuple[TruncationInfo, ...] = ()
    """The tool calls that were cut; none where it was the text."""

    size_bytes: int = 0
    """UTF-8 bytes of text that reached the client."""

    malformed: tuple[MalformedCall, ...] = ()
    """The tool calls that were complete and could not be read."""

    behind: str = ""
    """Digest of the turns that were answered; empty where they are not known, so that any may be."""

    def encode(self) -> bytes:
        """As a store keeps it."""
        return dumps(asdict(self))

    @classmethod
    def decode(cls, data: bytes) -> CutAnswer | None:
        """The inverse of `encode`; ``None`` for bytes that it cannot have written."""
        try:
            value = loads(data)
            calls = tuple(TruncationInfo(**call) for call in value["calls"])
            malformed = tuple(MalformedCall(**call) for call in value.get("malformed", ()))
            size, behind = value["size_bytes"], value.get("behind", "")
        except (AttributeError, JsonError, KeyError, TypeError):
            return None
        infos: list[TruncationInfo | MalformedCall] = [*calls, *malformed]
        texts = (text for info in infos for text in (info.call_id, info.name, info.reason, info.digest))
        sizes = (size, *(info.size_bytes for info in infos))
        valid = all(type(text) is str for text in (behind, *texts)) and all(type(size) is int for size in sizes)
        if not valid:
            return None
        return cls(calls, size, malformed, behind if _DIGEST.fullmatch(behind) else "")  # on a tape it is masked


def records_of(
    shown: Fingerprint, end: MessageEnd | Message, *, asked: Sequence[Turn] = (), limited: bool = False
) -> Mapping[str, CutAnswer]:
    """Records to keep of an answer, by key; none for one that was not cut, and of which every call could be read.

    Only an answer that ends with the stop reason ``LENGTH`` was cut, and its client got that reason.

    Args:
        shown: What the client was shown.
        end: How the answer ended.
        asked: All turns that it answers; without them it is known again behind any.
        limited: Whether it ended at a limit that the client had set.  Then text is as long as it should be, and only
            a call that was cut is worth a record.
    """
    was_cut = end.stop_reason is StopReason.LENGTH and (bool(end.truncations) or not limited)
    cut, malformed = end.truncations[:_CALLS] if was_cut else (), end.malformed[:_CALLS]
    if not (was_cut or malformed):
        return {}
    begun = {call_id for call_id, _ in shown.calls}
    hidden = CutAnswer(tuple(_hidden(cut, begun)), malformed=tuple(_hidden(malformed, begun)))
    records = {}
    for info in cut:
        if info.call_id in begun:
            records[_call_key(info.call_id)] = _record(shown, evolve(hidden, calls=(info, *hidden.calls)))
    for other in malformed:
        if other.call_id in begun:
            records[_call_key(other.call_id)] = _record(shown, evolve(hidden, malformed=(other, *hidden.malformed)))
    withheld = {info.call_id for info in end.truncations} | {info.call_id for info in end.malformed}
    digest = shown.digest(without=withheld)
    if key := _answer_key(digest) if digest else _after_key(asked[-1]) if asked else "":
        records[key] = _record(shown, CutAnswer(cut, malformed=malformed))
    behind = before_next_answer(asked) if asked and records else ""
    return {key: evolve(record, behind=behind) for key, record in records.items()}


def _hidden(infos: Iterable[_Info], begun: Container[str]) -> Iterator[_Info]:
    """Those of which the client was shown nothing."""
    return (info for info in infos if info.call_id not in begun)


def truncation_records(message: Message, *, asked: Sequence[Turn] = ()) -> Mapping[str, CutAnswer]:
    """Records to keep of a whole answer, by key, for `recover`; none for one that was not cut.

    Args:
        message: The answer.
        asked: All turns that it answers; without them an answer that has no content is not found again, and any other
            behind any turns.
    """
    shown = Fingerprint()
    for block in message.blocks:
        if isinstance(block, TextBlock):
            shown.write(block.text)
        elif isinstance(block, ToolCallBlock):
            shown.calls.append((block.call_id, block.name))
    return records_of(shown, message, asked=asked)


def _record(shown: Fingerprint, record: CutAnswer) -> CutAnswer:
    """*record* without what may be of any size and is of no use to the model."""
    return CutAnswer(tuple(map(_brief, record.calls)), shown.size_bytes, tuple(map(_brief, record.malformed)))


def _brief(info: _Info) -> _Info:
    return evolve(info, call_id="", name=info.name[:_NAME])


def _fingerprint_of(*turns: Turn) -> Fingerprint:
    """Fingerprint of an answer that a client has sent back, or of a user's turn."""
    shown = Fingerprint()
    for part in chain.from_iterable(turn.parts for turn in turns):
        match part:
            case Text(text) if text.strip() not in PLACEHOLDERS:
                shown.write(text)
            case ToolCallPart(call_id, name):
                shown.calls.append((call_id, name))
            case ToolResult(call_id):
                shown.calls.append((call_id, ""))
    return shown


def _call_key(call_id: str) -> str:
    """The key of a call that the client was shown a part of."""
    return f"call:{call_id}"


def _answer_key(digest: str) -> str:
    """The key of an answer with that fingerprint."""
    return f"answer:{digest}"


def _after_key(turn: Turn) -> str:
    """The key of an answer without content to that turn; empty where the turn has none either."""
    digest = _fingerprint_of(turn).digest() if turn.role is Role.USER else ""
    return f"after:{digest}" if digest else ""


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
        part_shown: Whether the client was shown a part of the call.
    """
    text = " ".join(_sentences(record, _FATES[part_shown]))
    return f"[Notice from the gateway] {text}"


def _sentences(record: CutAnswer, fate: str) -> Iterator[str]:
    if record.calls:
        yield _CALL_CUT.format(calls=" ".join(map(_cut_call, record.calls)), fate=fate)
    if record.malformed:
        yield _CALL_MALFORMED.format(calls=" ".join(map(_malformed_call, record.malformed)), fate=fate)
    if not (record.calls or record.malformed):
        yield (_TEXT_CUT if record.size_bytes else _ALL_CUT).format(size=record.size_bytes)


def _cut_call(info: TruncationInfo) -> str:
    size = f"{info.size_bytes:,} bytes of arguments"
    return f"Its call of the {_tool(info.name)} arrived incomplete, {size} ({info.reason})."


def _malformed_call(info: MalformedCall) -> str:
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
    answered: int
    """Number of turns before the answer."""

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
    key: str = ""
    """The key of the record that it is about."""


def candidates(turns: Sequence[Turn]) -> tuple[Candidate, ...]:
    """The keys to look up for a conversation, those of the newest answer first; of equal answers only the newest."""
    answers = islice(_answers(turns), _ANSWERS)
    found = chain(_unanswered(turns), *(_of_answer(turns, start, reply) for start, reply in answers))
    by_key: dict[str, Candidate] = {}
    for each in islice(found, LOOKUPS):
        by_key.setdefault(each.key, each)
    return tuple(by_key.values())


def _answers(turns: Sequence[Turn]) -> Iterator[tuple[int, int]]:
    """Start of each answer that the user replied to, and of that reply, newest first.

    Neighbouring turns of the assistant are one answer that a client has cut apart.
    """
    end = len(turns)
    while end:
        reply = _back(turns, end, Role.USER)
        start = _back(turns, reply, Role.ASSISTANT)
        if start < reply < end:
            yield start, reply
        end = min(start, end - 1)  # what has neither role is passed over


def _back(turns: Sequence[Turn], end: int, role: Role) -> int:
    while end and turns[end - 1].role is role:
        end -= 1
    return end


def _of_answer(turns: Sequence[Turn], start: int, reply: int) -> Iterator[Candidate]:
    shown = _fingerprint_of(*turns[start:reply])
    digest = shown.digest()
    key = _answer_key(digest) if digest else _after_key(turns[start - 1]) if start else ""
    if key:
        yield Candidate(key, start, reply)
    for call_id, _ in shown.calls:
        yield Candidate(_call_key(call_id), start, reply, call_id)


def _unanswered(turns: Sequence[Turn]) -> Iterator[Candidate]:
    """Turns of the user at the end that another one follows: the answer between them may have been dropped."""
    first = max(_back(turns, len(turns), Role.USER), len(turns) - _ANSWERS)
    for index in range(len(turns) - 2, first - 1, -1):
        if key := _after_key(turns[index]):
            yield Candidate(key, index + 1, index + 1)


def reminders(turns: Sequence[Turn], records: Mapping[str, CutAnswer]) -> tuple[Reminder, ...]:
    """The notices that a conversation needs, those about the newest answer first."""
    found = ((each, records[each.key]) for each in candidates(turns) if each.key in records)
    return tuple(
        Reminder(reminder_text(record, part_shown=bool(each.call_id)), each.reply, each.call_id, each.key)
        for each, record in found
        if not record.behind or record.behind == before_next_answer(turns[: each.answered])
    )


def recover(prompt: Prompt, records: Mapping[str, CutAnswer]) -> tuple[Prompt, tuple[Reminder, ...]]:
    """*prompt* with the notices that it needs, and these; the very same prompt where there are none.

    Args:
        prompt: As the client sent it.
        records: What is remembered, at least under those keys of `candidates` under which there is anything.
    """
    notices = reminders(prompt.turns, records) if records else ()
    if not notices:
        return prompt, ()
    turns = list(prompt.turns)
    for reminder in notices:
        if reminder.call_id:
            _put_in_result(turns, reminder)
        else:
            _put_in_turn(turns, reminder)
    return evolve(prompt, turns=tuple(turns)), notices


def _put_in_result(turns: list[Turn], reminder: Reminder) -> None:
    """Put the notice into the call's result, before what the client put there; a call without a result gets one."""
    note = Text(reminder.text)
    for index in _reply(turns, reminder.reply):
        for at, part in enumerate(turns[index].parts):
            if isinstance(part, ToolResult) and part.call_id == reminder.call_id:
                _put(turns, index, at, evolve(part, parts=(note, *part.parts), is_error=True), replace=True)
                return
    _put(turns, reminder.reply, 0, ToolResult(reminder.call_id, (note,), is_error=True))


def _put_in_turn(turns: list[Turn], reminder: Reminder) -> None:
    """Put the notice after the reply's last tool result, for results must follow their calls; else at its beginning."""
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
