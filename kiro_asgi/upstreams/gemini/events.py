"""The answer's bytes to deltas.

The service streams server-sent events, or, where it was not asked for those, one JSON array in pieces; an answer in one
go is one object.  All three hold the same objects, which some services wrap in a ``response``.

Source: https://ai.google.dev/api/generate-content#GenerateContentResponse
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from attrs import define, field

from kiro_asgi.errors import KiroAsgiError, UpstreamFault
from kiro_asgi.limits import NOTICES
from kiro_asgi.model.events import Delta, Grounding, ModelName, Notice
from kiro_asgi.stages.base import Stage
from kiro_asgi.upstreams.errors import status_of
from kiro_asgi.upstreams.gemini.answer import PartReader
from kiro_asgi.upstreams.gemini.faults import report_fault
from kiro_asgi.upstreams.gemini.finish import NOTHING, verdict
from kiro_asgi.upstreams.gemini.grounding import cited, grounding
from kiro_asgi.upstreams.gemini.usage import UsageReader
from kiro_asgi.upstreams.headers import EVENT_STREAM, JSON, essence, require_media_type
from kiro_asgi.upstreams.json_events import JsonEvent, JsonEvents
from kiro_asgi.wire.members import object_of, objects_of, text_of
from kiro_asgi.wire.objects import ObjectScanner

__all__ = ["EventDecoder", "JsonObjects", "stages"]


def stages(
    content_type: str, new_id: Callable[[], str], refused: frozenset[str] = frozenset()
) -> tuple[Stage[Any, Any], ...]:
    """Fresh stages, bytes to `Delta`.

    Args:
        content_type: Of the answer.
        new_id: Makes an id for a tool call; it is asked once for every call that came without one.
        refused: Reasons to end that are no good for an answer without a word.

    Raises:
        NotTheUpstream: The service does not answer in this media type.
    """
    require_media_type(content_type, (EVENT_STREAM, JSON))
    whole = essence(content_type) == JSON
    return (JsonObjects() if whole else JsonEvents(), EventDecoder(new_id, refused))


@define
class JsonObjects:
    """The stage from a JSON array, or a single object, to events: each is given as soon as it is whole."""

    _scanner: ObjectScanner = field(init=False, factory=lambda: ObjectScanner(prefixes=(b"{",)))

    def feed(self, items: Iterable[bytes], /) -> Iterator[JsonEvent | Notice]:
        """The objects that *items* complete."""
        skipped = self._scanner.skipped
        for value in self._scanner.feed(items):
            yield JsonEvent("", value)
        yield from [Notice("event.undecodable")] * (self._scanner.skipped - skipped)

    def flush(self) -> Iterator[JsonEvent | Notice]:
        """Nothing: that an object was cut, the missing reason tells."""
        yield from ()


@define
class EventDecoder:
    """Turns events into deltas.  Token counts and why the answer ended come last, once.

    Raises:
        KiroAsgiError: The service reports a failure, or one is its reason to end.
        UpstreamProtocolError: Code ``stream.cut``, from `flush`: it gave no reason to end.
    """

    _new_id: Callable[[], str]
    _refused: frozenset[str] = frozenset()
    """Reasons to end that are no good for an answer without a word."""

    _parts: PartReader = field(init=False)
    _usage: UsageReader = field(init=False, factory=UsageReader)
    _reason: str = field(init=False, default="")
    _block_reason: str = field(init=False, default="")
    _model: str = field(init=False, default="")
    _grounded: bool = field(init=False, default=False)
    """Whether a search was reported, which says more than citations do."""

    _notices: int = field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        self._parts = PartReader(self._new_id)

    def feed(self, items: Iterable[JsonEvent | Notice], /) -> Iterator[Delta]:
        """What the events say."""
        for item in items:
            for delta in (item,) if isinstance(item, Notice) else self._event(item.value):
                if type(delta) is not Notice:
                    yield delta
                elif self._notices < NOTICES:
                    self._notices += 1
                    yield delta

    def flush(self) -> Iterator[Delta]:
        """The token counts, and why the answer ended."""
        if not self._parts.produced and self._reason in self._refused:
            raise UpstreamFault(f"the model answered nothing: {self._reason}", code=NOTHING)
        usage = self._usage.usage
        if usage != _NOTHING_SAID:
            yield usage
        yield verdict(self._reason, self._block_reason, empty=not self._parts.produced)

    def _event(self, value: Mapping[str, Any]) -> list[Delta]:
        event = object_of(value.get("response")) or value
        for report in (value, event):
            if report.get("error"):
                raise _fault(report)
        deltas: list[Delta] = []
        if not self._model and (model := text_of(event, "modelVersion")):
            self._model = model
            deltas.append(ModelName(model))
        for place, candidate in enumerate(objects_of(event.get("candidates"))):
            if candidate.get("index", place) in (0, None):
                self._candidate(candidate, deltas)
            else:
                deltas.append(Notice("event.unknown", "another candidate"))
        self._usage.read(object_of(event.get("usageMetadata")))
        if feedback := object_of(event.get("promptFeedback")):
            self._block_reason = text_of(feedback, "blockReason") or self._block_reason
        return deltas

    def _candidate(self, candidate: Mapping[str, Any], deltas: list[Delta]) -> None:
        for part in objects_of(object_of(candidate.get("content")).get("parts")):
            deltas += self._parts.read(part)
        self._reason = text_of(candidate, "finishReason") or self._reason
        if not _REPORTS.isdisjoint(candidate):
            self._read(candidate, deltas)

    def _read(self, candidate: Mapping[str, Any], deltas: list[Delta]) -> None:
        """What the model read."""
        found = grounding(object_of(candidate.get("groundingMetadata")))
        if found != _NOTHING_READ:
            self._grounded = True
        elif not self._grounded:
            found = cited(object_of(candidate.get("citationMetadata")))
        if found != _NOTHING_READ:
            deltas.append(found)
        if "urlContextMetadata" in candidate:
            deltas.append(Notice("event.unknown", "urlContextMetadata"))


_REPORTS: Final = frozenset({"groundingMetadata", "citationMetadata", "urlContextMetadata"})
"""Members of a candidate that tell what the model read."""

_NOTHING_SAID: Final = UsageReader().usage
_NOTHING_READ: Final = Grounding()


def _fault(report: Mapping[str, Any]) -> KiroAsgiError:
    return report_fault(status_of(object_of(report["error"])), report)
