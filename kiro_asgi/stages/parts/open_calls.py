"""Tool calls while they arrive: fragments in, a verdict or a record out."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from hashlib import sha256
from io import StringIO
from sys import getsizeof
from typing import Any, Final, Generic, TypeVar

from attrs import define, field, frozen

from kiro_asgi.model.budget import ITEM, AnswerBudget, of_unread
from kiro_asgi.model.events import ToolCallCut, ToolCallFragment, ToolCallMalformed, TruncationInfo
from kiro_asgi.model.prompt import TEXT_INPUT
from kiro_asgi.model.unread import Unread, accumulated
from kiro_asgi.stages.parts.argument_text import MENDINGS, is_cut, malformed_call, parse_arguments, truncation_info
from kiro_asgi.stages.parts.call_ids import CallIds
from kiro_asgi.wire.json import Extent, JsonError, as_object, dumps, extent

_EMPTY: Final = getsizeof("")

_VALUE: Final = 72
"""Bytes of a value within parsed arguments, of which there is one for each comma and each opening bracket."""


def fingerprint(name: str, arguments: Any) -> bytes:
    """Equal for calls of one tool with equal arguments, whatever the order of keys and the white space were."""
    return sha256(json.dumps([name, arguments], sort_keys=True).encode()).digest()


def has_arguments(text: str) -> bool:
    """Whether *text*, or a piece of one, is more than no arguments."""
    return text.strip() not in ("", "{}")


@frozen
class CompleteCall:
    """A call that may be delivered."""

    call_id: str
    name: str
    input: str
    """JSON text of one object, as the upstream wrote it where that was one."""

    arguments: Any = field(repr=False)
    """*input*, parsed."""

    wrapped: bool = False
    """Whether the upstream's arguments were no object and are now the only member, ``input``, of one."""

    mended: tuple[str, ...] = ()
    """Names of the repairs made in *input*, see `kiro_asgi.stages.parts.argument_text`."""

    unread: Unread | None = None
    """Members of the call that are not understood."""

    @property
    def room(self) -> int:
        """Bytes that it takes, its parsed arguments included."""
        values = self.input.count(",") + self.input.count("[") + self.input.count("{")
        return getsizeof(self.name) + getsizeof(self.input) + _VALUE * values + of_unread(self.unread)

    @property
    def is_provisional(self) -> bool:
        """Whether it has no arguments: some services send a call like that, and then once more with them."""
        return not self.arguments


Verdict = CompleteCall | ToolCallCut | ToolCallMalformed


@frozen
class ArgumentReading:
    """What is read of arguments that are no JSON object."""

    mendings: Collection[str] = MENDINGS
    """Names of repairs, see `kiro_asgi.stages.parts.argument_text`."""

    texts: Collection[str] = ()
    """Names of tools that take a text: whatever form a model gives it, that is the member `TEXT_INPUT`."""


SENT: Final = ArgumentReading(mendings=())
"""Of a call whose beginning has gone out, as it came."""


@define
class OpenCall:
    """A call whose arguments are still arriving."""

    call_id: str
    """The id that its client is shown."""

    name: str = ""
    size: int = 0
    """UTF-8 bytes so far."""

    key: str = field(default="", kw_only=True)
    """The id that its fragments have."""

    _budget: AnswerBudget = field(factory=AnswerBudget, kw_only=True)
    _room: int = field(init=False, default=0)
    _text: StringIO = field(init=False, factory=StringIO)
    _unread: list[Unread] = field(init=False, factory=list)

    def restart(self) -> None:
        """Forget the arguments: they come once more."""
        self.release()
        self._text = StringIO()
        self.size = 0

    def take_name(self, name: str) -> None:
        """Learn the tool's name; the first one counts."""
        if name and not self.name:
            self._budget.take(getsizeof(name))
            self._room += getsizeof(name)
            self.name = name

    def take_unread(self, unread: Unread | None) -> None:
        """Keep members that are not understood.

        Raises:
            AnswerTooLarge: There is no room for them.
        """
        if unread is not None:
            room = of_unread(unread)
            self._budget.take(room)
            self._room += room
            self._unread.append(unread)

    def give_unread(self) -> Unread | None:
        """Such members since the last time, as one object."""
        unread, self._unread = self._unread, []
        return Unread(unread[0].api, accumulated(each.members for each in unread)) if unread else None

    def release(self) -> None:
        """Give back the room of the name and the arguments: they are kept no longer, or their new keeper pays."""
        self._budget.give_back(self._room)
        self._room = 0

    def write(self, fragment: str) -> int:
        """Take in a fragment; the new size in bytes.

        Raises:
            AnswerTooLarge: There is no room for it.
        """
        room = getsizeof(fragment) - _EMPTY
        self._budget.take(room)
        self._room += room
        self._text.write(fragment)
        self.size += len(fragment) if fragment.isascii() else len(fragment.encode("utf-8", "surrogatepass"))
        return self.size

    @property
    def text(self) -> str:
        """The arguments so far."""
        return self._text.getvalue()

    @property
    def is_orphan(self) -> bool:
        """Whether it has arguments, and no name."""
        return not self.name and has_arguments(self.text)

    def close(self, *, stopped: bool, reading: ArgumentReading) -> Verdict:
        """The verdict, now that nothing more will come.

        Args:
            stopped: Whether the upstream reported the call as complete.  Only then do absent arguments mean "none".
            reading: Of the arguments.
        """
        takes_text = stopped and self.name in reading.texts
        text = self.text
        if not self.name:
            return self.malformed("no tool name") if stopped else self.cut("no tool name")
        if not text.strip():
            return CompleteCall(self.call_id, self.name, "{}", {}) if stopped else self.cut()
        try:
            read = parse_arguments(text, reading.mendings)
        except JsonError as error:
            if takes_text and extent(text.lstrip()) is not Extent.BEGUN:
                return self._with_text(text)
            return self.cut() if is_cut(text, stopped=stopped) else self.malformed(error.message)
        if takes_text and (given := _text_in(read.value, text)) is not None:
            return self._with_text(given, read.mended)
        if isinstance(read.value, dict):
            return CompleteCall(self.call_id, self.name, read.text, read.value, mended=read.mended)
        if not stopped:
            return self.cut("no arguments object")
        value = as_object(read.value)
        written = dumps(value).decode()
        return CompleteCall(self.call_id, self.name, written, value, wrapped=bool(value), mended=read.mended)

    def _with_text(self, text: str, mended: tuple[str, ...] = ()) -> CompleteCall:
        """The call of a tool that takes *text*."""
        value = {TEXT_INPUT: text}
        return CompleteCall(self.call_id, self.name, dumps(value).decode(), value, mended=mended)

    def malformed(self, reason: str) -> ToolCallMalformed:
        """Give the call up, although it is complete."""
        return ToolCallMalformed(malformed_call(self.call_id, self.name, self.text, reason=reason))

    def cut(self, reason: str = "") -> ToolCallCut:
        """Give the call up; without a *reason*, one is found from its text."""
        return ToolCallCut(truncation_info(self.call_id, self.name, self.text, reason=reason))


def _text_in(value: Any, written: str) -> str | None:
    """The text for a tool that takes one, of arguments with this *value*, *written* so: the one text of an object, by
    whatever name; ``None`` where an object has none, or several."""
    if not isinstance(value, dict | None):
        return value if isinstance(value, str) else written
    value = value or {}
    texts = [text for text in value.values() if isinstance(text, str)]
    given = value.get(TEXT_INPUT)
    return given if isinstance(given, str) else texts[0] if len(texts) == 1 else None


Call = TypeVar("Call", bound=OpenCall)


@define
class OpenCalls(Generic[Call]):
    """The calls that are open, in the order of their opening."""

    factory: Callable[..., Call]
    """Makes a call from its id, a *key* and a *budget*."""

    budget: AnswerBudget

    id_stem: str = "call"
    """The prefix of ids for calls that come without one."""

    ids: CallIds = field(factory=CallIds)
    """Has the id that is shown for the one that fragments have."""

    by_id: dict[str, Call] = field(init=False, factory=dict)
    """By the id that fragments have; read-only for others."""

    _latest: Call | None = field(init=False, default=None)
    _given_ids: int = field(init=False, default=0)

    def find(self, call_id: str, name: str = "") -> Call | None:
        """The open call of that id; no id at all means the one opened last, unless that is of another tool."""
        if call_id:
            return self.by_id.get(call_id)
        latest = self._latest
        return None if latest is None or (name and latest.name and name != latest.name) else latest

    def new_id(self) -> str:
        """An id for a call that has none: the stem and a number."""
        self._given_ids += 1
        return f"{self.id_stem}_{self._given_ids}"

    def open(self, call_id: str) -> Call:
        """Open a new call.  The room for it is never given back, since its id is remembered in many places.

        Raises:
            AnswerTooLarge: There is no room for it.
        """
        self.budget.take(ITEM + 3 * getsizeof(call_id))
        call = self.factory(self.ids.shown(call_id), key=call_id, budget=self.budget)
        self.by_id[call_id] = self._latest = call
        return call

    def reopen(self, call: Call) -> None:
        """Open *call* once more, from the beginning."""
        call.restart()
        self.by_id[call.key] = self._latest = call

    def take(self, call: Call) -> None:
        """Forget *call*: it has ended."""
        del self.by_id[call.key]
        if call is self._latest:
            self._latest = next(reversed(self.by_id.values()), None)

    def take_all(self) -> list[Call]:
        """Forget every call: the answer has ended."""
        calls = list(self.by_id.values())
        self.by_id.clear()
        self._latest = None
        return calls


@frozen
class ToolCall:
    """One tool call as the upstream made it, whole or not."""

    id: str
    name: str
    input: Any
    """The parsed arguments; the raw text where they do not parse."""

    truncation_info: TruncationInfo | None = None
    """Why *input* is raw text, where it was cut short."""

    malformed: str = ""
    """Why it is, where it is complete; empty where it is not raw text, or was cut."""


@define
class ToolCallAccumulator:
    """Gather fragments into calls.

    Nothing is dropped: a call that the upstream repeats comes out twice, see `deduplicate_tool_calls`.

    Raises:
        AnswerTooLarge: From `feed`: the open calls, or the number of all calls, take more than the budget.
    """

    budget: AnswerBudget = field(factory=AnswerBudget)
    """The answer's."""

    _calls: OpenCalls[OpenCall] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._calls = OpenCalls(OpenCall, self.budget)

    def feed(self, fragments: Iterable[ToolCallFragment]) -> list[ToolCall]:
        """The calls that end with *fragments*.

        One without an id belongs to the call opened last, or opens one, which gets an id.
        """
        done = []
        for fragment in fragments:
            call = self._calls.find(fragment.call_id, fragment.name)
            if call is None:
                call = self._calls.open(fragment.call_id or self._calls.new_id())
            call.take_name(fragment.name)
            call.write(fragment.input)
            if fragment.stop:
                self._calls.take(call)
                call.release()
                done.append(_record(call, stopped=True))
        return done

    def finalize(self) -> list[ToolCall]:
        """The calls that never ended."""
        return [_record(call, stopped=False) for call in self._calls.take_all()]


def deduplicate_tool_calls(calls: Iterable[ToolCall]) -> list[ToolCall]:
    """Keep one call an id, with the most complete arguments, and of calls with equal name and arguments the first.

    The order is that of first appearance.  Calls without an id are only compared by name and arguments.
    """
    best: dict[object, ToolCall] = {}
    for number, call in enumerate(calls):
        key = call.id or number
        if key not in best or _merit(call) > _merit(best[key]):
            best[key] = call
    unique: dict[bytes, ToolCall] = {}
    for call in best.values():
        unique.setdefault(fingerprint(call.name, call.input), call)
    return list(unique.values())


def _record(call: OpenCall, *, stopped: bool) -> ToolCall:
    text = call.text
    if stopped and not text.strip():
        return ToolCall(call.call_id, call.name, {})
    try:
        value = parse_arguments(text, MENDINGS).value
        return ToolCall(call.call_id, call.name, value if as_object(value) else {})
    except JsonError as error:
        if not is_cut(text, stopped=stopped):
            return ToolCall(call.call_id, call.name, text, malformed=error.message)
        return ToolCall(call.call_id, call.name, text, truncation_info(call.call_id, call.name, text))


def _merit(call: ToolCall) -> tuple[bool, int]:
    """Sort key: readable calls above others, then by the length of the arguments; no arguments rank lowest."""
    return bool(call.input) and call.truncation_info is None and not call.malformed, len(json.dumps(call.input))
