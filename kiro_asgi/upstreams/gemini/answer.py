"""Reading an answer: its bytes and parts to deltas, its end, its sources, and token counts.

The service streams server-sent events, or, where it was not asked for those, one JSON array in pieces; an answer that
is not streamed is one object.  All three hold the same objects, which some services wrap in a ``response``.
Parts that other client APIs have no field for become Markdown there: an image, code that the service ran, and its
output.

Sources: https://ai.google.dev/api/generate-content#GenerateContentResponse, https://ai.google.dev/api/caching#Part
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final

from attrs import define, field

from kiro_asgi.errors import UpstreamFault, UpstreamProtocolError, UpstreamRejected
from kiro_asgi.failures.meanings import UNEXPLAINED, error_of
from kiro_asgi.failures.report import failure, report_in
from kiro_asgi.failures.texts import clean
from kiro_asgi.limits import NOTICES
from kiro_asgi.model.budget import ITEM, AnswerBudget, size_of_value
from kiro_asgi.model.events import (
    BlockKind,
    BlockMembers,
    Delta,
    Grounding,
    MessageMembers,
    ModelName,
    Notice,
    OpaqueBlock,
    SearchHit,
    SignatureDelta,
    Stop,
    StopReason,
    TextBreak,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCallFragment,
)
from kiro_asgi.model.handling import Tier
from kiro_asgi.model.media_types import essence
from kiro_asgi.model.signatures import CALL, GEMINI, TEXT, THOUGHT, marked
from kiro_asgi.model.unread import Unread
from kiro_asgi.stages.base import Stage
from kiro_asgi.stages.counts import Reports, gemini_counts
from kiro_asgi.upstreams.declined import declined
from kiro_asgi.upstreams.ends import Meaning, end_of, meaning_of, outlasts, unknown, word_in
from kiro_asgi.upstreams.gemini.errors import MEANINGS
from kiro_asgi.upstreams.gemini.partial_calls import PartialCall
from kiro_asgi.upstreams.headers import EVENT_STREAM, JSON, require_media_type
from kiro_asgi.upstreams.json_events import HALF, JsonEvent, JsonEvents
from kiro_asgi.upstreams.media import embedded, fenced, linked
from kiro_asgi.upstreams.tiers import served
from kiro_asgi.upstreams.unread import ARGUMENTS, Repeated, arguments_in, others, parts_of, within
from kiro_asgi.wire.json import dumps, object_of, objects_of, text_of
from kiro_asgi.wire.json_pieces import JsonPieces
from kiro_asgi.wire.objects import ObjectScanner

API: Final = "gemini"
"""Name of the API, as of `kiro_asgi.model.unread.Unread`."""

Part = Mapping[str, Any]

_CALL_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The ids that every client API takes."""


_TEXT: Final = frozenset({"text", "thought", "thoughtSignature"})
"""Members of a part of text."""

_NEUTRAL: Final = _TEXT | {"partMetadata", "videoMetadata"}
"""Members that do not show the kind of a part."""

_CALL: Final = frozenset({"functionCall", "thoughtSignature", "thought"})
_FUNCTION: Final = frozenset({"id", "name", *ARGUMENTS})
_IN_PIECES_OF_CALL: Final = frozenset({"partialArgs", "willContinue"})
"""Members of a part that is a call, and of the call, that are read."""


@define
class PartReader:
    """Reads the parts of one answer.

    A signature goes out before the call that it came on, and behind everything else.

    Calls come whole.  Some services send the calls of earlier events once more, and those are skipped: a call whose
    content came before under the same id or signature.  Without either, equal calls are calls of their own.
    """

    _new_id: Callable[[], str]
    """Makes an id for a call that has none, or none that all clients take."""

    _budget: AnswerBudget
    """For a call that comes in pieces."""

    _partial: PartialCall | None = field(init=False, default=None)
    """Such a call, until its last piece."""

    produced: bool = field(init=False, default=False)
    """Whether any content came."""

    _ids: set[str] = field(init=False, factory=set)
    """Those that the service gave."""

    _called: set[bytes] = field(init=False, factory=set)
    """Digests of the calls so far, each with the id or signature that identifies it."""

    def read(self, part: Part) -> Iterable[Delta]:
        """The deltas of *part*."""
        if len(part) == 1 and type(text := part.get("text")) is str and text:
            self.produced = True
            return (TextDelta(text),)
        for kind, reader in _READERS.items():
            if part.get(kind) is not None:
                return reader(self, part)
        return self._text(part)

    def _text(self, part: Part) -> Iterator[Delta]:
        text = text_of(part, "text")
        members = {name: value for name, value in others(part, _TEXT).items() if value is not None}
        unknown = next((name for name in members if name not in _NEUTRAL), "")
        notices = (Notice("content.unknown", clean(unknown)),) if unknown else ()
        if unknown:
            self.produced = True  # the service would give the same once more
        if unknown and not text:
            yield OpaqueBlock(Unread(API, part), (), notices)
            yield from _signature(part, THOUGHT if part.get("thought") is True else TEXT)
        elif members:
            kind = BlockKind.THINKING if part.get("thought") is True else BlockKind.TEXT
            yield TextBreak()
            yield BlockMembers(kind, Unread(API, members), notices)
            yield from self._written(text, part)
            yield TextBreak()
        else:
            yield from self._written(text, part)

    def _written(self, text: str, part: Part) -> Iterator[Delta]:
        """*text* as thinking or text, whichever *part* is, and its signature."""
        thought = part.get("thought") is True
        if text:
            self.produced = True
            yield ThinkingDelta(text) if thought else TextDelta(text)
        yield from _signature(part, THOUGHT if thought else TEXT)

    def flush(self) -> Iterator[Delta]:
        """A call that was cut."""
        call, self._partial = self._partial, None
        if call is not None:
            yield ToolCallFragment(call.call_id, call.name)

    def _call(self, part: Part) -> Iterator[Delta]:
        call = object_of(part["functionCall"])
        if self._partial is not None or "partialArgs" in call or call.get("willContinue") is True:
            yield from self._piece(part, call)
            return
        name, written = text_of(call, "name"), arguments_in(call) or "{}"
        if not name:
            yield Notice("tool_call.unnamed")
            if written != "{}":
                yield ToolCallFragment("", input=written)
        elif call_id := self._identify(text_of(call, "id"), text_of(part, "thoughtSignature"), name, written):
            self.produced = True
            yield from _signature(part, CALL)
            members = {**others(part, _CALL), **within(functionCall=others(call, _FUNCTION))}
            yield ToolCallFragment(call_id, name, written, True, Unread(API, members) if members else None)

    def _piece(self, part: Part, call: Mapping[str, Any]) -> Iterator[Delta]:
        """A piece of a call, which goes out when it is whole."""
        name = text_of(call, "name")
        if self._partial is not None and name:  # another call, and the one before has no end
            yield from self.flush()
        if self._partial is None and not name:
            yield Notice("tool_call.unnamed")
            return
        if self._partial is None:
            self.produced = True
            yield from _signature(part, CALL)
            given = text_of(call, "id")
            self._partial = PartialCall(self._identify(given, "", name, "") or self._new_id(), name, self._budget)
        self._partial.take(call)
        if call.get("willContinue") is not True:
            whole, self._partial = self._partial, None
            members = {**others(part, _CALL), **within(functionCall=others(call, _FUNCTION | _IN_PIECES_OF_CALL))}
            unread = Unread(API, members) if members else None
            yield ToolCallFragment(whole.call_id, whole.name, whole.written(), True, unread)

    def _identify(self, given: str, signature: str, name: str, written: str) -> str:
        """An id that no other call has; none for a call that came before."""
        if given or signature:
            digest = sha256(dumps([given or signature, name, written])).digest()
            if digest in self._called:
                return ""
            self._called.add(digest)
        if given in self._ids or not _CALL_ID.fullmatch(given):
            return self._new_id()
        self._ids.add(given)
        return given

    def _media(self, part: Part) -> Iterator[Delta]:
        data = object_of(part["inlineData"])
        if part.get("thought") is True:  # it is not shown
            return self._as_sent(part, Notice("event.unknown", "inlineData of a thought"))
        markdown = embedded(text_of(data, "mimeType"), text_of(data, "data"))
        return self._as_sent(part, markdown or Notice("event.malformed", "inlineData"))

    def _file(self, part: Part) -> Iterator[Delta]:
        """A file that the service keeps."""
        data = object_of(part["fileData"])
        if part.get("thought") is True:
            return self._as_sent(part, Notice("event.unknown", "fileData of a thought"))
        self.produced = True
        markdown = linked(text_of(data, "fileUri"), text_of(data, "mimeType"))
        return self._as_sent(part, markdown or Notice("event.malformed", "fileData"))

    def _code(self, part: Part) -> Iterator[Delta]:
        code = object_of(part["executableCode"])
        return self._as_sent(part, fenced(text_of(code, "code"), text_of(code, "language")))

    def _run(self, part: Part) -> Iterator[Delta]:
        result = object_of(part["codeExecutionResult"])
        outcome, output = text_of(result, "outcome"), text_of(result, "output")
        return self._as_sent(part, fenced(output if outcome in ("", "OUTCOME_OK") else f"{outcome}\n{output}"))

    def _as_sent(self, part: Part, instead: str | Notice) -> Iterator[Delta]:
        """*part* as it is for clients of the API; for others *instead*, and the signature that it has."""
        thought = part.get("thought") is True
        self.produced = self.produced or isinstance(instead, str)
        text = ThinkingDelta if thought else TextDelta
        shown = instead if isinstance(instead, Notice) else text(instead)
        yield OpaqueBlock(Unread(API, part), (), (shown, *_signature(part, THOUGHT if thought else TEXT)))


def _signature(part: Part, kind: str) -> Iterator[SignatureDelta]:
    if signature := text_of(part, "thoughtSignature"):
        yield SignatureDelta(marked(GEMINI, kind, signature))


_READERS: Final = MappingProxyType[str, Callable[[PartReader, Part], Iterator[Delta]]](
    {
        "functionCall": PartReader._call,
        "inlineData": PartReader._media,
        "fileData": PartReader._file,
        "executableCode": PartReader._code,
        "codeExecutionResult": PartReader._run,
    }
)
"""Member that shows the kind of a part, unless it is text, to its reader."""


NOTHING: Final = "stream.empty"
"""Code of an empty answer."""


STOPS: Final[Mapping[str, Meaning]] = MappingProxyType(
    {
        "STOP": StopReason.END,
        "MAX_TOKENS": StopReason.LENGTH,
        **dict.fromkeys(
            (
                "SAFETY",
                "RECITATION",
                "BLOCKLIST",
                "PROHIBITED_CONTENT",
                "SPII",
                "LANGUAGE",
                "IMAGE_SAFETY",
                "IMAGE_PROHIBITED_CONTENT",
                "IMAGE_RECITATION",
            ),
            StopReason.CONTENT_FILTER,
        ),
        **dict.fromkeys(
            ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE"),
            UpstreamFault,
        ),
        "MISSING_THOUGHT_SIGNATURE": UpstreamRejected,
    }
)
"""``finishReason`` to its meaning.  The explanation that comes with an error may quote the answer: not passed on."""


_NUMBERED: Final[Mapping[int, str]] = MappingProxyType({1: "STOP", 2: "MAX_TOKENS", 3: "SAFETY", 4: "RECITATION"})
"""Reasons by number, as some libraries write them; the numbers above differ between the service's two APIs."""


def _graver(before: str, now: str) -> str:
    """The reason that holds of two: that an answer is not whole, whatever comes after, otherwise the last."""
    is_final = bool(before) and outlasts(meaning_of(before, STOPS))
    return before if is_final and not outlasts(meaning_of(now, STOPS)) else now


def _verdict(reason: str, block_reason: str, message: str, *, empty: bool) -> Iterator[Delta]:
    """How an answer ended.

    Args:
        reason: The last ``finishReason``; empty where there was none.
        block_reason: The last ``promptFeedback.blockReason``: the prompt was filtered, so that there is no answer.
        message: What the service says of it in words; passed on where a filter ended the answer.
        empty: Whether the answer has no content.

    Raises:
        UpstreamError: The answer is broken, or empty without a reason for it.
        UpstreamProtocolError: Code ``stream.cut``: neither reason was given.
    """
    found = end_of(reason, STOPS) if reason else None
    if block_reason and (found is None or (found is StopReason.END and empty)):
        end_of(block_reason)  # a failure is none of the prompt's
        found = StopReason.CONTENT_FILTER
    elif not reason:
        raise UpstreamProtocolError("the upstream's answer ends without a reason: it was cut", code="stream.cut")
    elif found is None:
        if empty:
            raise UpstreamFault(f"the model's answer is empty: {clean(reason)}", code=NOTHING)
        yield unknown(reason)
    why = declined({"explanation": message}) if found is StopReason.CONTENT_FILTER else None
    yield Stop(found or StopReason.END, declined=why)


_SOURCES: Final = ("web", "retrievedContext", "maps")
"""Kinds of sources; all three have a title and an address."""


def _grounding(metadata: Mapping[str, Any]) -> Grounding:
    """``groundingMetadata``.  A source of an unknown kind keeps its number, and has neither title nor address."""
    queries = metadata.get("webSearchQueries")
    asked = (query.strip() for query in (queries if type(queries) is list else ()) if type(query) is str)
    chunks = metadata.get("groundingChunks")
    return Grounding(tuple(filter(None, asked)), tuple(map(_hit, chunks if type(chunks) is list else ())))


def _cited(metadata: Mapping[str, Any]) -> Grounding:
    """``citationMetadata``: what the answer repeats, without any search."""
    sources = objects_of(metadata.get("citationSources")) or objects_of(metadata.get("citations"))
    return Grounding(hits=tuple(_page(source) for source in sources if text_of(source, "uri")))


def _hit(chunk: Any) -> SearchHit:
    sources = (chunk.get(name) for name in _SOURCES) if type(chunk) is dict else ()
    return _page(next((source for source in sources if type(source) is dict), {}))


def _page(source: Mapping[str, Any]) -> SearchHit:
    return SearchHit(text_of(source, "title"), text_of(source, "uri"))


_CANDIDATE: Final = frozenset({"content", "finishReason", "index"})
_CONTENT: Final = frozenset({"parts", "role"})
_TRAFFIC: Final[Mapping[str, Tier]] = MappingProxyType(
    {
        "ON_DEMAND": Tier.STANDARD,
        "ON_DEMAND_FLEX": Tier.FLEX,
        "ON_DEMAND_PRIORITY": Tier.PRIORITY,
        "PROVISIONED_THROUGHPUT": Tier.SCALE,
    }
)
"""``usageMetadata.trafficType`` to the service tier."""

_EVENT: Final = frozenset({"candidates", "usageMetadata", "modelVersion", "responseId", "error", "response"})
"""Members of an answer's objects that are read; sources are handed on, too, as others have them in another form."""

_COUNTS: Final = frozenset(
    {
        *("promptTokenCount", "candidatesTokenCount", "totalTokenCount", "cachedContentTokenCount"),
        *("thoughtsTokenCount", "toolUsePromptTokenCount"),
    }
)


@define
class UsageReader:
    """Reads every ``usageMetadata`` of an answer."""

    others: dict[str, Any] = field(init=False, factory=dict)
    """What else they hold."""

    _reports: Reports = field(init=False, factory=lambda: Reports(gemini_counts))

    def read(self, metadata: Mapping[str, Any]) -> None:
        """Record *metadata*."""
        self._reports.take(metadata)
        self.others |= others(metadata, _COUNTS)

    @property
    def usage(self) -> TokenUsage:
        """The counts; ``None`` for one that was never given."""
        return self._reports.counts


def stages(
    content_type: str, new_id: Callable[[], str], refused: frozenset[str] = frozenset()
) -> tuple[Stage[Any, Any], ...]:
    """Fresh stages, bytes to `Delta`.

    Args:
        content_type: Of the answer.
        new_id: Makes an id for a tool call; it is asked once for every call that came without one.
        refused: Reasons to end that are errors where the answer is empty.

    Raises:
        NotTheUpstream: The service does not answer in this media type.
    """
    require_media_type(content_type, (EVENT_STREAM, JSON))
    whole = essence(content_type) == JSON
    return (JsonObjects() if whole else JsonEvents(), ResponseDecoder(new_id, refused))


@define
class JsonObjects:
    """The stage from a JSON array, or a single object, to events: each is given as soon as it is whole.

    What is not UTF-8 is skipped with a notice, as of `JsonEvents`.
    """

    _json: JsonPieces = field(init=False, factory=JsonPieces)
    _scanner: ObjectScanner = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._scanner = ObjectScanner(prefixes=(b"{",), damaged="strict", loads=self._json.loads)

    def feed(self, items: Iterable[bytes], /) -> Iterator[JsonEvent | Notice]:
        """The objects that *items* complete."""
        skipped = self._scanner.skipped
        for value in self._scanner.feed(items):
            yield JsonEvent("", value)
        yield from [Notice("event.undecodable")] * (self._scanner.skipped - skipped)

    def flush(self) -> Iterator[JsonEvent | Notice]:
        """Half of a character, where one is left; a cut object shows by the missing reason to end."""
        if not self._json.is_whole:
            yield HALF


@define
class ResponseDecoder:
    """Turns events into deltas.  Token counts and the reason to end come last, once.

    Raises:
        KiroAsgiError: The service reports a failure, or one is its reason to end.
        UpstreamProtocolError: Code ``stream.cut``, from `flush`: it gave no reason to end.
    """

    _new_id: Callable[[], str]
    _refused: frozenset[str] = frozenset()
    """Reasons to end that are errors where the answer is empty."""

    _parts: PartReader = field(init=False)
    _usage: UsageReader = field(init=False, factory=UsageReader)
    _place: Any = field(init=False, default=None)
    """Index of the answer: the first that is named."""

    _reason: str = field(init=False, default="")
    _block_reason: str = field(init=False, default="")
    _message: str = field(init=False, default="")
    """What the service says of either in words."""

    _model: str = field(init=False, default="")
    _grounded: bool = field(init=False, default=False)
    """Whether a search was reported, which takes precedence over citations."""

    _notices: int = field(init=False, default=0)
    _budget: AnswerBudget = field(init=False, factory=AnswerBudget)
    """For members that are not read; clients may be given them at the end."""

    _of_answer: Repeated = field(init=False)
    _of_candidate: Repeated = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._parts = PartReader(self._new_id, self._budget)
        self._of_answer, self._of_candidate = Repeated(self._budget), Repeated(self._budget)

    def feed(self, items: Iterable[JsonEvent | Notice], /) -> Iterator[Delta]:
        """The deltas of the events."""
        for item in items:
            for delta in (item,) if isinstance(item, Notice) else self._event(item.value, item.name):
                if type(delta) is not Notice:
                    yield delta
                elif self._notices < NOTICES:
                    self._notices += 1
                    yield delta

    def flush(self) -> Iterator[Delta]:
        """The token counts, and why the answer ended."""
        if not self._parts.produced and self._reason in self._refused:
            raise UpstreamFault(f"the model's answer is empty: {self._reason}", code=NOTHING)
        yield from self._parts.flush()
        usage = self._usage.usage
        if usage != _NO_USAGE:
            yield usage
        if members := self._usage.others:
            yield MessageMembers(Unread(API, {"usageMetadata": members}))
        yield from _verdict(self._reason, self._block_reason, self._message, empty=not self._parts.produced)

    def _event(self, value: Mapping[str, Any], name: str) -> list[Delta]:
        event = object_of(value.get("response")) or value
        unread = others(event, _EVENT)
        if unread or name == "error" or "error" in value or "candidates" not in event or "error" in event:
            for each in (value, event):
                _refuse(report_in(each, name, _PIECE))
        deltas: list[Delta] = []
        if not self._model and (model := text_of(event, "modelVersion")):
            self._model = model
            deltas.append(ModelName(model))
        if members := self._of_answer.new(unread):
            deltas.append(MessageMembers(Unread(API, members)))
        for place, candidate in enumerate(objects_of(event.get("candidates"))):
            index = candidate.get("index", place)
            self._place = index if self._place is None else self._place
            if index in (self._place, None):
                self._candidate(candidate, deltas)
            else:
                deltas.append(Notice("event.unknown", "another candidate"))
        metadata = object_of(event.get("usageMetadata"))
        self._usage.read(metadata)
        deltas += served(metadata.get("trafficType"), _TRAFFIC)
        if feedback := object_of(event.get("promptFeedback")):
            self._block_reason = text_of(feedback, "blockReason") or self._block_reason
            self._message = text_of(feedback, "blockReasonMessage") or self._message
        return deltas

    def _candidate(self, candidate: Mapping[str, Any], deltas: list[Delta]) -> None:
        content = object_of(candidate.get("content"))
        if "parts" not in content:
            parts, content = _bare_parts(candidate.get("content")), {}
        else:
            parts = parts_of(content["parts"])
        for part in parts:
            deltas += self._parts.read(part)
        if "error" in candidate:
            _refuse(report_in(candidate))
        if said := candidate.get("finishReason") or word_in(candidate):
            self._reason = _graver(self._reason, str(_NUMBERED.get(said, said) if type(said) is int else said))
        self._message = text_of(candidate, "finishMessage") or self._message
        if not _REPORTS.isdisjoint(candidate):
            self._read(candidate, deltas)
        if not (candidate.keys() <= _CANDIDATE and content.keys() <= _CONTENT):
            self._keep(candidate, content, deltas)

    def _keep(self, candidate: Mapping[str, Any], content: Mapping[str, Any], deltas: list[Delta]) -> None:
        """What is not read, and sources as they came."""
        members = {**others(candidate, _CANDIDATE), **within(content=others(content, _CONTENT))}
        pieces = {name: members.pop(name) for name in _IN_PIECES if name in members}
        self._budget.take(ITEM * len(pieces) + size_of_value(pieces))
        if found := self._of_candidate.new(members) | pieces:
            unread = Unread(API, {"candidates": [found]})
            noted = "urlContextMetadata" in found
            deltas.append(MessageMembers(unread, (Notice("event.unknown", "urlContextMetadata"),) if noted else ()))

    def _read(self, candidate: Mapping[str, Any], deltas: list[Delta]) -> None:
        """The sources that the model read."""
        found = _grounding(object_of(candidate.get("groundingMetadata")))
        if found != _NO_SOURCES:
            self._grounded = True
        elif not self._grounded:
            found = _cited(object_of(candidate.get("citationMetadata")))
        if found != _NO_SOURCES:
            deltas.append(found)


def _bare_parts(content: Any) -> Iterator[Part]:
    """The parts of content that is none: a text, a part, or a list of contents or of parts."""
    for each in parts_of(content):
        yield from parts_of(each["parts"] if "parts" in each else others(each, {"role"}) or None)


_PIECE: Final = frozenset({"candidates", "usageMetadata", "promptFeedback", "response"})
"""Members of which a piece of an answer has one."""

_REPORTS: Final = frozenset({"groundingMetadata", "citationMetadata"})
"""Members of a candidate with the sources that the model read."""

_IN_PIECES: Final = ("logprobsResult",)
"""Members of a candidate that are of one event alone."""

_NO_USAGE: Final = UsageReader().usage
_NO_SOURCES: Final = Grounding()


def _refuse(report: Mapping[str, Any] | None) -> None:
    if report is not None:
        raise error_of(failure(report, message=UNEXPLAINED), MEANINGS)
