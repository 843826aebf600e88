"""Whether an answer that was to be a JSON object is one.

Where it can still be asked for again, the answer waits until that is known (`StructuredAnswer`); where it is sent as it
comes, it is only watched (`StructuredCheck`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from io import StringIO
from types import MappingProxyType
from typing import Any, Final

from attrs import define, field, frozen

from kiro_asgi.errors import UnmetPromise
from kiro_asgi.limits import STRUCTURED_CHARACTERS, VALIDATION_STEPS
from kiro_asgi.model.budget import AnswerBudget
from kiro_asgi.model.events import (
    Citation,
    Delta,
    Notice,
    Stop,
    StopReason,
    TextBreak,
    TextDelta,
    ToolCallStart,
)
from kiro_asgi.stages.base import Filter
from kiro_asgi.stages.kept import SHOWN, KeptDeltas
from kiro_asgi.stages.parts.json_assertions import Mismatch, Open, Undecided
from kiro_asgi.stages.parts.json_schema import check
from kiro_asgi.wire.json import JsonError, has_lone_surrogates, loads

NOT_JSON: Final = "output.not_json"
"""The answer's text is not one JSON object, or what else the schema wants."""

SCHEMA_MISMATCH: Final = "output.schema_mismatch"
"""It is one, but not as the schema says; the detail is the place."""

UNCHECKED: Final = "output.unchecked"
"""Whether it is one was not found out; the detail is ``length``, or ``budget`` where that takes too many steps."""

UNWRAPPED: Final = "output.unwrapped"
"""Text around the document, such as a code fence, was left out."""

_CODE: Final = "structured_output_failed"

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

    Nothing is taken from within, so a text of two objects has no reading that is JSON.  A brace that opens behind a
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
    # Arrays and objects are counted before there are any: the garbage collector makes very many of them dear.
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
        UnmetPromise: The text is not what was asked for, or too long to be found out.
        AnswerTooLarge: There is no room for it.
    """

    _schema: Mapping[str, Any]
    """JSON Schema of the answer."""

    budget: AnswerBudget = field(factory=AnswerBudget)
    _kept: KeptDeltas = field(init=False)
    _open: bool = field(init=False, default=False)
    """Whether everything goes on."""

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
        told = False
        for item in kept:
            if type(item) is TextBreak or type(item) is Citation:
                continue  # places in the text before it was unwrapped
            if type(item) is not TextDelta:
                yield item
            elif not told:
                told = True
                yield TextDelta(read.text)


def _unmet(notice: Notice) -> UnmetPromise:
    """The error for an answer about which *notice* was found; the client is told no word of it."""
    why = _COMPLAINTS[notice.code]
    return UnmetPromise(
        f"the model's answer is not the JSON that was asked for ({notice.code})",
        code=_CODE,
        complaint=f"[Notice from the gateway] Your answer was withheld, because {why.format(notice.detail)}. "
        "Answer again, with the JSON as it was asked for, and nothing around it.",
    )
