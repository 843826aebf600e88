"""Checks that an answer keeps what the client was promised of it: a call of certain tools, or JSON of a certain schema.

Some services get such a promise as prompt text only, so their models may break it.  As long as nothing was sent, the
model can be asked again: an answer waits, within its budget, until it is known whether the promise is kept.
Where it is sent as it comes, it is only watched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from io import StringIO
from types import MappingProxyType
from typing import Any, Final

from attrs import define, evolve, field, frozen

from kiro_asgi.errors import UnmetPromise
from kiro_asgi.limits import STRUCTURED_CHARACTERS, VALIDATION_STEPS
from kiro_asgi.model.budget import AnswerBudget, size_of
from kiro_asgi.model.events import (
    Appendix,
    BlockKind,
    BlockMembers,
    Citation,
    Delta,
    Notice,
    OpaqueBlock,
    RedactedThinking,
    RefusalDelta,
    ServerCall,
    ServerResult,
    SignatureDelta,
    Stop,
    StopReason,
    TextBreak,
    TextDelta,
    ThinkingDelta,
    ToolCallCut,
    ToolCallEnd,
    ToolCallMalformed,
    ToolCallStart,
    ToolInputDelta,
)
from kiro_asgi.stages.base import Filter
from kiro_asgi.stages.parts.json_schema import Mismatch, Open, Undecided, check
from kiro_asgi.wire.json import JsonError, has_lone_surrogates, loads

SHOWN: Final = frozenset(
    {
        TextDelta,
        TextBreak,
        Citation,
        RefusalDelta,
        ThinkingDelta,
        SignatureDelta,
        RedactedThinking,
        Appendix,
        ServerCall,
        ServerResult,
        BlockMembers,
        OpaqueBlock,
    }
)
"""Deltas of which the client is sent something, but for those of a call."""


@define
class KeptDeltas:
    """Deltas that are held back until it is known what becomes of them."""

    _budget: AnswerBudget
    _items: list[Delta] = field(init=False, factory=list)
    _size: int = field(init=False, default=0)

    def keep(self, item: Delta) -> None:
        """Hold *item* back.

        Raises:
            AnswerTooLarge: There is no room for it.
        """
        size = size_of(item)
        self._budget.take(size)
        self._size += size
        self._items.append(item)

    def release(self) -> list[Delta]:
        """Everything, in order; its room is given back."""
        items, self._items = self._items, []
        self._budget.give_back(self._size)
        self._size = 0
        return items


FORBIDDEN: Final = "tool_call.forbidden"
"""A call of a tool that the client's ``tool_choice`` forbids is withheld; the detail is the tool's name."""

TEXT_WITHHELD: Final = "text.before_demanded_call"
"""Text before a call that the client demanded is withheld."""

_NOT_CALLED: Final = "tool_choice_failed"

_CALL_COMPLAINT: Final = (
    "[Notice from the gateway] Your answer was withheld, because it calls none of the tools that it has to call. "
    "Answer again, with such a call and without text before it."
)


def _is_of_text(item: Delta) -> bool:
    """Whether it is members of a text."""
    return type(item) is BlockMembers and item.kind is BlockKind.TEXT


_OF_A_CALL: Final = frozenset({ToolCallStart, ToolInputDelta, ToolCallEnd})

_UNFORCED: Final = frozenset({StopReason.END, StopReason.STOP_SEQUENCE})
"""Ends that are the model's own: where an answer was broken off, the call may still have been to come."""


@define
class ForbiddenCalls(Filter[Delta]):
    """Leave out whole calls of tools that may not be called, and note each.

    One that is cut or malformed is still reported, since that is a fact about the answer.
    """

    _permitted: frozenset[str]
    """Names of the others, as the client knows them."""

    _withholding: bool = field(init=False, default=False)

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """The same deltas, without those calls."""
        for item in items:
            if type(item) is ToolCallStart:
                self._withholding = item.name not in self._permitted
                if self._withholding:
                    yield Notice(FORBIDDEN, item.name)
            if not (self._withholding and type(item) in _OF_A_CALL):
                yield item


@define
class DemandedCall(Filter[Delta]):
    """Show nothing of an answer before its first call, and then no text from before it.

    The client's API has no text there.  An answer that was broken off (its length, a filter, a call that is cut or
    malformed) is shown as it is.

    Raises:
        UnmetPromise: The model ended its answer without a call.
        AnswerTooLarge: There is no room for what comes before it.
    """

    _permitted: frozenset[str] | None
    """Names of the tools of which one has to be called; ``None`` for any."""

    budget: AnswerBudget = field(factory=AnswerBudget)
    _kept: KeptDeltas = field(init=False)
    _open: bool = field(init=False, default=False)
    """Whether everything is passed on."""

    _broken: bool = field(init=False, default=False)
    """Whether there was a call that could not be read."""

    _withheld: int = field(init=False, default=0)
    """Characters of text before the call, which the client does not have."""

    _length: int = field(init=False, default=0)
    """Characters of text after it."""

    def __attrs_post_init__(self) -> None:
        self._kept = KeptDeltas(self.budget)

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """The same deltas, held back to the first call."""
        for item in items:
            if self._open:
                yield from self._after_call(item) if self._withheld else (item,)
            elif self._is_demanded(item):
                yield from self._without_text()
                yield item
            elif type(item) is Stop:
                yield from self._judge(item)
                yield item
            elif type(item) in SHOWN:
                self._kept.keep(item)
            else:
                self._broken = self._broken or type(item) in (ToolCallCut, ToolCallMalformed)
                yield item

    def _is_demanded(self, item: Delta) -> bool:
        if type(item) is not ToolCallStart and type(item) is not ServerCall:
            return False
        return self._permitted is None or item.name in self._permitted

    def _without_text(self) -> Iterator[Delta]:
        self._open, withheld = True, False
        for item in self._kept.release():
            if isinstance(item, TextDelta | Appendix):
                self._withheld += len(item.text)
                withheld = withheld or not item.text.isspace()
            elif not (isinstance(item, TextBreak | Citation) or _is_of_text(item)):
                yield item
        if withheld:
            yield Notice(TEXT_WITHHELD)

    def _after_call(self, item: Delta) -> Iterator[Delta]:
        """*item*, which comes after the call; a source only for text that the client has."""
        if type(item) is TextDelta:
            self._length += len(item.text)
        if type(item) is not Citation:
            yield item
        elif item.ends < self._length:
            yield evolve(item, begins=min(item.begins, self._length))

    def _judge(self, stop: Stop) -> Iterator[Delta]:
        if stop.reason in _UNFORCED and not self._broken:
            raise UnmetPromise(
                "the model called no tool, although tool_choice demands a call",
                code=_NOT_CALLED,
                complaint=_CALL_COMPLAINT,
            )
        self._open = True
        yield from self._kept.release()


UNMET: Final = "tool_choice.unmet"
"""The answer holds none of the calls that the client demanded, and goes out all the same."""

_UNMET: Final[Mapping[str, str]] = MappingProxyType(
    {
        "en": "[Notice from the gateway] The model called no tool, although tool_choice demands a call.",
        "zh": "[网关提示] tool_choice 要求调用工具，但模型没有调用任何工具。",
    }
)


@define
class AskedCall(Filter[Delta]):
    """Say behind an answer without a call that one was demanded; everything passes as it comes.

    Of an answer that was broken off, it is not known whether a call was to come.
    """

    _permitted: frozenset[str] | None
    """As of `DemandedCall`."""

    _language: str = ""
    """Language of the notice to the client, ``en`` or ``zh``; empty for none."""

    _called: bool = field(init=False, default=False)

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """The same deltas, and the notice."""
        for item in items:
            if isinstance(item, ToolCallStart | ServerCall):
                self._called |= self._permitted is None or item.name in self._permitted
            elif isinstance(item, ToolCallCut | ToolCallMalformed):
                self._called = True
            elif type(item) is Stop and item.reason in _UNFORCED and not self._called:
                yield Notice(UNMET)
                yield from (Appendix(f"\n\n{text}") for name, text in _UNMET.items() if name == self._language)
            yield item


@define
class DemandedSearch(DemandedCall):
    """The same for a search that the service reports after the answer: all text rests on it, and stays."""

    def _without_text(self) -> Iterator[Delta]:
        self._open = True
        yield from self._kept.release()


NOT_JSON: Final = "output.not_json"
"""The answer's text is not one JSON object, or what else the schema wants."""

SCHEMA_MISMATCH: Final = "output.schema_mismatch"
"""The text is one, but does not match the schema; the detail is the place."""

UNCHECKED: Final = "output.unchecked"
"""The text was not checked; the detail is ``length``, or ``budget`` where that takes too many steps."""

UNWRAPPED: Final = "output.unwrapped"
"""Text around the document, such as a code fence, was left out."""

_NOT_STRUCTURED: Final = "structured_output_failed"

_FENCE: Final = "```"

_COMPLAINTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        NOT_JSON: "its text is not one JSON document",
        SCHEMA_MISMATCH: "its JSON does not match the schema at {}",
        UNCHECKED: "it is too long",
    }
)


@frozen
class _Read:
    """The reading of a text."""

    text: str
    """The JSON value's own; the whole where there is none."""

    notice: Notice | None
    """The mismatch, or why there is no verdict; ``None`` where the value satisfies the schema."""

    is_json: bool


def unwrapped(text: str) -> Iterator[str]:
    """The readings of *text*, the likeliest first: all of it, what is fenced, what is between the outermost braces.

    Nothing is taken from within, so a text of two objects has no reading that is JSON.  A brace that opens after a
    bracket or a quote is within something else.
    """
    whole = text.strip().removeprefix("\ufeff")
    yield whole
    fence, last_fence = whole.find(_FENCE), whole.rfind(_FENCE)
    line = whole.find("\n", fence) if fence >= 0 else -1
    if 0 <= line < last_fence:
        yield whole[line:last_fence].strip()
    first, last = whole.find("{"), whole.rfind("}")
    if 0 <= first < last and not whole[:first].rstrip().endswith(("[", '"')):
        yield whole[first : last + 1]


def _read(schema: Mapping[str, Any], text: str) -> _Read:
    # Counted before they are parsed: the garbage collector makes very many arrays and objects expensive.
    if len(text) > STRUCTURED_CHARACTERS or text.count("{") + text.count("[") > VALIDATION_STEPS:
        return _Read(text, Notice(UNCHECKED, "length"), is_json=False)
    wants_object = _wants_object(schema)
    for reading in unwrapped(text):
        try:
            value = loads(reading)
        except JsonError:
            continue
        if has_lone_surrogates(reading) or (wants_object and not isinstance(value, dict)):
            break
        return _Read(reading, _judged(schema, value), is_json=True)
    return _Read(text, Notice(NOT_JSON), is_json=False)


def _wants_object(schema: Mapping[str, Any]) -> bool:
    """Whether an answer has to be an object: always, but where the schema itself names other types only."""
    types = schema.get("type", "object")
    return types == "object" or not isinstance(types, str | list) or "object" in types


def _judged(schema: Mapping[str, Any], value: Any) -> Notice | None:
    verdict = check(schema, value)
    if isinstance(verdict, Mismatch):
        return Notice(SCHEMA_MISMATCH, verdict.place)
    if isinstance(verdict, Undecided) and verdict.why is Open.BUDGET:
        return Notice(UNCHECKED, verdict.why.value)
    return None


@define
class StructuredCheck:
    """Pass everything on, and add a `Notice` before a `Stop` if the answer's text is not what was asked for.

    Only an answer that came to its own end is checked.  Text around the document makes it none, as it is sent, too.
    """

    _schema: Mapping[str, Any]
    """JSON Schema of the answer."""

    _text: StringIO = field(init=False, factory=StringIO)
    _size: int = field(init=False, default=0)

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """Pass *items* on."""
        for item in items:
            if type(item) is TextDelta:
                self._keep(item.text)
            elif type(item) is Stop and item.reason is StopReason.END:
                yield from self._check()
            yield item

    def flush(self) -> Iterator[Delta]:
        """Nothing: the check was made at the `Stop`."""
        return iter(())

    def _keep(self, text: str) -> None:
        self._size += len(text)
        if self._size <= STRUCTURED_CHARACTERS:
            self._text.write(text)
        else:
            self._text = StringIO()

    def _check(self) -> Iterator[Notice]:
        text = self._text.getvalue()
        if self._size > STRUCTURED_CHARACTERS:
            yield Notice(UNCHECKED, "length")
            return
        read = _read(self._schema, text)
        if read.is_json and read.text != text.strip():
            yield Notice(NOT_JSON)
        elif read.notice is not None:
            yield read.notice


@define
class StructuredAnswer(Filter[Delta]):
    """Hold an answer back until it ends, and let it go if its text is one JSON document that the schema takes.

    What stands around it is left out.  Thinking waits as well, as an answer of which the client has nothing can
    be asked for again.  An answer with a tool call, and one that was broken off, go on as they are.

    Raises:
        UnmetPromise: The text is not what was asked for, or too long to be checked.
        AnswerTooLarge: There is no room for it.
    """

    _schema: Mapping[str, Any]
    """JSON Schema of the answer."""

    budget: AnswerBudget = field(factory=AnswerBudget)
    _kept: KeptDeltas = field(init=False)
    _open: bool = field(init=False, default=False)
    """Whether everything is passed on."""

    def __attrs_post_init__(self) -> None:
        self._kept = KeptDeltas(self.budget)

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """The same deltas, held back to the end or to a tool call."""
        for item in items:
            if not self._open and type(item) in SHOWN:
                self._kept.keep(item)
                continue
            if not self._open and type(item) in (ToolCallStart, Stop):
                self._open, kept = True, self._kept.release()
                ended = type(item) is Stop and item.reason is StopReason.END
                yield from self._checked(kept) if ended else kept
            yield item

    def _checked(self, kept: list[Delta]) -> Iterator[Delta]:
        """*kept* with nothing but the document for its text."""
        text = "".join(item.text for item in kept if type(item) is TextDelta)
        read = _read(self._schema, text)
        if read.notice is not None and not (read.is_json and read.notice.code == UNCHECKED):
            raise _unmet(read.notice)
        if read.notice is not None:
            yield read.notice
        if read.text != text.strip():
            yield Notice(UNWRAPPED)
        replaced = False
        for item in kept:
            if type(item) is TextBreak or type(item) is Citation:
                continue  # places in the text before it was unwrapped
            if type(item) is not TextDelta:
                yield item
            elif not replaced:
                replaced = True
                yield TextDelta(read.text)


def _unmet(notice: Notice) -> UnmetPromise:
    """The error for an answer about which *notice* was found; its detail goes to the model only."""
    why = _COMPLAINTS[notice.code]
    return UnmetPromise(
        f"the model's answer is not the JSON that was asked for ({notice.code})",
        code=_NOT_STRUCTURED,
        complaint=f"[Notice from the gateway] Your answer was withheld, because {why.format(notice.detail)}. "
        "Answer again, with the JSON as it was asked for, and nothing around it.",
    )
