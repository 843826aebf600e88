"""Reading an answer: from its media type and bytes to chunks, and from chunks to deltas.

A stream is asked for.  Some servers answer with the whole message as one JSON document all the same, or give a
stream another type; so the first byte decides, and no line of a stream begins with a brace.

An answer is complete when the service has given a reason for its end (``finish_reason``) or has sent ``[DONE]``; with
neither, it was cut.  Counts may come with any chunk; the last ones are emitted, at the end.

Source: https://platform.openai.com/docs/api-reference/chat/streaming
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from attrs import define, field

from kiro_asgi.errors import UpstreamFault, UpstreamOverloaded, UpstreamProtocolError
from kiro_asgi.failures.meanings import UNEXPLAINED, error_of
from kiro_asgi.failures.report import failure, report_in
from kiro_asgi.failures.texts import clean
from kiro_asgi.limits import NOTICES
from kiro_asgi.model.budget import AnswerBudget
from kiro_asgi.model.events import (
    BlockKind,
    BlockMembers,
    Citation,
    Delta,
    MessageMembers,
    ModelName,
    Notice,
    OpaqueBlock,
    RefusalDelta,
    SignatureDelta,
    Stop,
    StopReason,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
)
from kiro_asgi.model.unread import Unread
from kiro_asgi.stages.base import Stage
from kiro_asgi.stages.counts import Reports, chat_counts
from kiro_asgi.stages.ending import MISSING
from kiro_asgi.upstreams.ends import CUT, NAMES, Meaning, end_of, kept, unknown, word_in
from kiro_asgi.upstreams.headers import EVENT_STREAM, JSON, require_media_type
from kiro_asgi.upstreams.json_events import JsonEvent, JsonEvents, StreamOrDocument, WholeBody
from kiro_asgi.upstreams.media import image
from kiro_asgi.upstreams.openai.calls import API, StreamedCalls
from kiro_asgi.upstreams.openai.documents import answer_in
from kiro_asgi.upstreams.openai.errors import MEANINGS
from kiro_asgi.upstreams.openai.reasoning import ReasoningDetails, ThinkingSeal
from kiro_asgi.upstreams.openai.request import SERVED
from kiro_asgi.upstreams.tiers import served
from kiro_asgi.upstreams.unread import Repeated, others, parts_of, within
from kiro_asgi.wire.json import count_of, object_of, objects_of, text_of

Object = Mapping[str, Any]

_USAGE: Final = frozenset(
    {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details", "completion_tokens_details"}
)
_PROMPT_DETAILS: Final = frozenset({"cached_tokens", "cache_write_tokens"})
_ANSWER_DETAILS: Final = frozenset({"reasoning_tokens"})


def _unread_usage(usage: Object) -> dict[str, Any]:
    prompt = others(object_of(usage.get("prompt_tokens_details")), _PROMPT_DETAILS)
    answer = others(object_of(usage.get("completion_tokens_details")), _ANSWER_DETAILS)
    return {**others(usage, _USAGE), **within(prompt_tokens_details=prompt, completion_tokens_details=answer)}


REASONS: Final[Mapping[str, Meaning]] = MappingProxyType(
    {
        "stop": StopReason.END,
        "eos": StopReason.END,
        "eos_token": StopReason.END,
        "end_turn": StopReason.END,
        "stop_sequence": StopReason.STOP_SEQUENCE,
        "tool_calls": StopReason.TOOL_CALL,
        "tool_call": StopReason.TOOL_CALL,
        "tool_use": StopReason.TOOL_CALL,
        "function_call": StopReason.TOOL_CALL,
        "length": StopReason.LENGTH,
        "max_tokens": StopReason.LENGTH,
        "model_length": StopReason.CONTEXT_FULL,
        "content_filter": StopReason.CONTENT_FILTER,
        "safety": StopReason.CONTENT_FILTER,
        "recitation": StopReason.CONTENT_FILTER,
        "error": UpstreamFault,
        "insufficient_system_resource": UpstreamOverloaded,
    }
)
"""``finish_reason`` to its meaning: OpenAI's values, and those that other servers pass on."""


@define
class ChunkDecoder:
    """The stage from JSON events to deltas.

    Raises:
        KiroAsgiError: The error that stands in the place of a chunk, see `kiro_asgi.upstreams.openai.errors`.
        UpstreamProtocolError: Code ``stream.cut``, from `flush`: the answer is incomplete.
    """

    new_id: Callable[[], str]
    """Makes ids of calls that have none."""

    service: str = ""
    """Name of the upstream, to which alone its reasoning is handed back."""

    _calls: StreamedCalls = field(init=False)
    _reasoning: ReasoningDetails = field(init=False)
    _member: str = field(init=False, default="")
    """In which thinking came."""

    _model: str | None = field(init=False, default=None)
    _reports: Reports = field(init=False, factory=lambda: Reports(chat_counts))
    _usage: Object = field(init=False, factory=dict)
    """The latest report that is not empty."""

    _stop: Stop | None = field(init=False, default=None)
    _length: int = field(init=False, default=0)
    """Characters of text so far."""

    _pages: list[Any] = field(init=False, factory=list)
    """Pages that the answer rests on, as every chunk of Perplexity's repeats them."""

    _place: Any = field(init=False, default=None)
    """Index of the answer: the first that is named, for some servers count from 1, or write a text."""

    _labels: Repeated = field(init=False, factory=lambda: Repeated(AnswerBudget()))
    """Members of chunks that are not read."""

    _tier: Any = field(init=False, default=None)
    """The last service tier that a chunk had."""

    _in_messages: bool = field(init=False, default=False)
    """Whether its pieces are called messages."""

    _refused: bool = field(init=False, default=False)
    _done: bool = field(init=False, default=False)
    _noticed: set[Notice] = field(init=False, factory=set)

    def __attrs_post_init__(self) -> None:
        self._calls = StreamedCalls(self.new_id)
        self._reasoning = ReasoningDetails(self.service)

    def feed(self, items: Iterable[JsonEvent | Notice], /) -> Iterator[Delta]:
        """The deltas of the chunks."""
        for item in items:
            if isinstance(item, Notice):
                yield from self._notice(item)
            elif item.done:
                self._done = True
            elif text := self._plain(item.value):
                yield from self._reasoning.release()
                self._length += len(text)
                yield TextDelta(text)
            else:
                yield from self._chunk(item)

    def flush(self) -> Iterator[Delta]:
        """How the answer ended."""
        if self._stop is None and not self._done:
            raise UpstreamProtocolError("the upstream's answer ended in the middle", code="stream.cut")
        yield from self._reasoning.release()
        cut = self._stop is not None and self._stop.reason in CUT
        yield from self._calls.release() if cut else self._calls.close()
        yield from self._cited_pages()
        if (counts := self._reports.counts) != TokenUsage():
            yield counts
        if members := within(usage=_unread_usage(self._usage)):
            yield MessageMembers(Unread(API, members))
        stop = self._stop
        if self._refused and not self._calls.any and (stop is None or stop.reason is StopReason.END):
            stop = Stop(StopReason.REFUSAL)
        if stop is None:
            yield MISSING
        else:
            yield stop

    def _plain(self, value: Object) -> str:
        """The text of a chunk that holds nothing else, as nearly every chunk does; empty for any other."""
        choices = value.get("choices")
        if type(choices) is not list or len(choices) != 1 or value.get("model") != self._model or value.get("usage"):
            return ""
        choice = choices[0]
        if type(choice) is not dict or choice.get("finish_reason") or choice.get("index") or value.get("error"):
            return ""
        if not (_PLAIN_CHUNK.issuperset(value) and _PLAIN_CHOICE.issuperset(choice)) and not self._is_known(
            value, choice
        ):
            return ""
        if choice.get("logprobs") or self._place not in (0, None):
            return ""
        delta = choice.get("delta")
        if type(delta) is not dict or len(delta) > 1 + ("role" in delta):
            return ""
        text = delta.get("content")
        if type(text) is not str:
            return ""
        self._place = 0 if self._place is None else self._place
        return text

    def _is_known(self, value: Object, choice: Object) -> bool:
        """Whether what else a chunk holds is empty, or repeats the chunk before."""
        return all(choice[name] is None for name in choice.keys() - _PLAIN_CHOICE) and all(
            self._labels.knows(name, value[name]) for name in value.keys() - _PLAIN_CHUNK
        )

    def _chunk(self, event: JsonEvent) -> Iterator[Delta]:
        value, unread = event.value, others(event.value, _CHUNK)
        if "error" in value or "choices" not in value or unread or event.name == "error":
            _refuse(report_in(value, event.name, _CONTENT))
        self._pages = _pages_in(unread) or self._pages
        if (model := value.get("model")) != self._model and type(model) is str and model:
            self._model = model
            yield ModelName(model)
        if usage := object_of(value.get("usage")) or object_of(object_of(value.get("x_groq")).get("usage")):
            self._count(usage)
        if (tier := value.get("service_tier")) != self._tier:
            self._tier = tier
            yield from served(tier, SERVED)
        if members := self._labels.new(unread):
            yield MessageMembers(Unread(API, members))
        choices = value.get("choices")
        choices = [choices] if type(choices) is dict else choices
        if type(choices) is not list:
            if choices is not None:
                yield from self._notice(Notice("chunk.unreadable"))
            return
        for choice in choices:
            yield from self._choice(choice, value)
        if not choices and (reason := word_in(value)):
            yield from self._finish(reason, value)

    def _count(self, usage: Object) -> None:
        self._reports.take(usage)
        if not self._usage or chat_counts(usage) != TokenUsage():
            self._usage = usage

    def _choice(self, choice: Any, chunk: Object) -> Iterator[Delta]:
        if type(choice) is not dict or not self._is_ours(choice):
            yield from self._notice(Notice("choice.unreadable" if type(choice) is not dict else "choice.surplus"))
            return
        delta = choice.get("delta")
        if delta is None:
            delta = self._rest(choice.get("message"))
        if delta is None and "text" in choice:  # of the older Completions
            delta = {"content": choice["text"]}
        if type(delta) is dict:
            yield from self._turn(choice, delta)
        elif delta is not None:
            yield from self._notice(Notice("chunk.unreadable"))
        for place in (choice, object_of(delta)):
            if "error" in place:
                _refuse(report_in(place))
        if reason := choice.get("finish_reason") or word_in(choice, object_of(delta), chunk):
            if type(usage := choice.get("usage")) is dict:
                self._count(usage)
            yield from self._finish(reason, choice)

    def _rest(self, message: Any) -> Any:
        """A *message* in place of a delta: a piece where all are, else what the deltas have not brought of it."""
        if type(message) is dict and self._length and not self._in_messages:
            known = {name: value for name, value in message.items() if name not in _THINKING and name != "content"}
            content = message.get("content")
            return {**known, "content": content[self._length :]} if type(content) is str else known
        self._in_messages = self._in_messages or message is not None
        return message

    def _turn(self, choice: Object, delta: Object) -> Iterator[Delta]:
        """What a choice holds."""
        name, text = _unlisted_thinking(delta)
        if text:
            self._member = name
            yield ThinkingDelta(text, member=name)
        yield from self._delta(delta)
        yield from self._members(others(choice, _CHOICE), others(delta, _DELTA), name)

    def _is_ours(self, choice: Object) -> bool:
        """Whether a choice is of the answer that was asked for, of which there is one."""
        place = choice.get("index")
        self._place = place if self._place is None else self._place
        return place is None or place == self._place

    def _members(self, choice: Object, delta: Object, read: str) -> Iterator[Delta]:
        """What is not read of a choice and its delta, but for the thinking that was *read* under a name of its own."""
        self._pages = _pages_in(delta) or _pages_in(choice) or self._pages
        of_choice = {name: value for name, value in choice.items() if value is not None}
        thinking: dict[str, Any] = {}
        of_delta: dict[str, Any] = {}
        for name, value in delta.items():
            if value is not None and name != read:
                (thinking if name in _OF_THINKING or _is_thinking(name, value) else of_delta)[name] = value
        if thinking:
            yield BlockMembers(BlockKind.THINKING, Unread(API, thinking))
        if of_choice or of_delta:
            members = {"choices": [{**of_choice, **within(delta=of_delta)}]}
            unknown = (name for name, value in of_delta.items() if value and name not in _SILENT)
            shown = (name for name in unknown if not _lists_pages(of_delta[name]))
            notices = tuple(self._new(Notice("content.unknown", clean(name)[:60]) for name in shown))
            yield MessageMembers(Unread(API, members), notices)

    def _delta(self, delta: Object) -> Iterator[Delta]:
        for name, read in _READERS.items():
            if value := delta.get(name):
                if name not in _THINKING:
                    yield from self._reasoning.release()
                yield from read(self, value, delta)

    def _cited_pages(self) -> Iterator[Delta]:
        for page in self._pages:
            fields = object_of(page)
            quote = text_of(fields, "snippet") or text_of(fields, "content")
            yield Citation(self._length, 0, text_of(fields, "title"), _address(page), quote)

    def _images(self, value: Any, delta: Object) -> Iterator[Delta]:
        """Beside the text: as they are for clients of the API, for others as Markdown."""
        for each in value if type(value) is list else (value,):
            shown = image(each)
            instead = (TextDelta(shown),) if shown else tuple(self._notice(Notice("content.unreadable", "image")))
            yield OpaqueBlock(Unread(API, {"images": [each]}), (), instead)

    def _image(self, value: Any) -> Iterator[Delta]:
        if shown := image(value):
            yield from self._emit_text(shown)
        else:
            yield from self._notice(Notice("content.unreadable", "image"))

    def _audio(self, value: Any, delta: Object) -> Iterator[Delta]:
        """As it is for clients of the API; for others its words, as none of them takes the sound of a stream."""
        audio = object_of(value)
        words = (TextDelta(text),) if (text := text_of(audio, "transcript")) else ()
        sound = self._notice(Notice("content.unknown", "audio")) if audio.get("data") else ()
        yield OpaqueBlock(Unread(API, {"audio": value}), (), (*words, *sound))

    def _thinking(self, value: Any, delta: Object, name: str = "reasoning_content") -> Iterator[Delta]:
        if text := _thought(value):
            self._member = name
            yield ThinkingDelta(text, member=name)
        elif type(value) is str:
            return
        else:
            yield from self._notice(Notice("thinking.unreadable"))

    def _seal(self, value: Any, delta: Object) -> Iterator[Delta]:
        """What the server wants back with the thinking: as it is for clients of its API, as a signature for others."""
        yield BlockMembers(BlockKind.THINKING, Unread(API, {"reasoning_opaque": value}))
        if type(value) is str:
            yield SignatureDelta(ThinkingSeal(value, self._member).pack(self.service))

    def _other_thinking(self, value: Any, delta: Object) -> Iterator[Delta]:
        """The deltas of thinking under another name: some servers send the same text under several."""
        if not delta.get("reasoning_content") and not (delta.get("reasoning") and delta["reasoning"] is not value):
            name = "reasoning" if delta.get("reasoning") is value else "reasoning_text"
            yield from self._thinking(value, delta, name)

    def _details(self, value: Any, delta: Object) -> Iterator[Delta]:
        """OpenRouter's form of thinking, which as a rule repeats the text of ``reasoning``."""
        has_text = any(delta.get(name) for name in ("reasoning_content", "reasoning", "reasoning_text"))
        for detail in objects_of(value):
            self._reasoning.take(detail)
            text = text_of(detail, "text") or text_of(detail, "summary")
            if text and not has_text:
                yield ThinkingDelta(text)

    def _emit_text(self, text: str) -> Iterator[Delta]:
        self._length += len(text)
        yield TextDelta(text)

    def _content(self, value: Any, delta: Object) -> Iterator[Delta]:
        if type(value) is str:
            yield from self._emit_text(value)
        elif type(value) in (list, dict):
            for part in parts_of(value, type="text"):
                yield from self._part(part)
        else:
            yield from self._notice(Notice("content.unreadable"))

    def _part(self, part: Object) -> Iterator[Delta]:
        """Content as a list of parts, of which thinking, a refusal and a call may be some."""
        kind = part.get("type")
        if kind in ("text", "output_text", None) and (text := _text_in(part)):
            yield from self._emit_text(text)
        elif kind in ("text", "output_text") and part.get("text") in ("", None):
            return
        elif kind in ("thinking", "reasoning", "reasoning_text") and (text := _thought(part)):
            yield ThinkingDelta(text)
        elif kind in ("image", "image_url", "output_image"):
            yield from self._image(part)
        elif kind == "refusal":
            yield from self._refusal(part.get("refusal"), part)
        elif kind == "tool_use":
            function = {"name": part.get("name"), "arguments": part.get("input")}
            yield from self._once(self._calls.read([{"id": part.get("id"), "function": function}]))
        else:
            yield from self._notice(Notice("content.unreadable", clean(str(kind or ""))[:60]))

    def _refusal(self, value: Any, delta: Object) -> Iterator[Delta]:
        if type(value) is str:
            self._refused = True
            yield RefusalDelta(value)
        else:
            yield from self._notice(Notice("refusal.unreadable"))

    def _tool_calls(self, value: Any, delta: Object) -> Iterator[Delta]:
        yield from self._once(self._calls.read(value))

    def _function_call(self, value: Any, delta: Object) -> Iterator[Delta]:
        yield from self._once(self._calls.read_function(value))

    def _annotations(self, value: Any, delta: Object) -> Iterator[Delta]:
        """Pages that the text relies on; one without a place is for all of it."""
        for annotation in objects_of(value):
            page = object_of(annotation.get("url_citation"))
            if url := text_of(page, "url"):
                start, end = count_of(page, "start_index") or 0, count_of(page, "end_index") or self._length
                begins, ends = max(self._length - start, 0), max(self._length - end, 0)
                title, quote = text_of(page, "title"), text_of(page, "content")
                yield Citation(max(begins, ends), ends, title, url, quote, origin=Unread(API, annotation))
            else:
                notices = tuple(self._notice(Notice("annotation.unknown", clean(text_of(annotation, "type"))[:60])))
                yield Citation(self._length, origin=Unread(API, annotation), instead=notices)

    def _finish(self, reason: Any, choice: Object) -> Iterator[Delta]:
        found = end_of(reason, REASONS)
        if found not in CUT and (native := text_of(choice, "native_finish_reason")):
            # OpenRouter's own word is the nearest of a few; the service's may say that the answer is not whole.
            within = end_of(native, REASONS)
            found = within if within in CUT else found
        if found is None:
            yield from self._notice(unknown(reason))
        met = _met(choice) if found is StopReason.END else None
        self._stop = kept(self._stop, met or Stop(found or StopReason.END))

    def _once(self, deltas: Iterable[Delta]) -> Iterator[Delta]:
        for delta in deltas:
            if isinstance(delta, Notice):
                yield from self._notice(delta)
            else:
                yield delta

    def _notice(self, notice: Notice) -> Iterator[Notice]:
        """Emit each notice once."""
        if notice not in self._noticed and len(self._noticed) < NOTICES:
            self._noticed.add(notice)
            yield notice

    def _new(self, notices: Iterable[Notice]) -> Iterator[Notice]:
        return (new for notice in notices for new in self._notice(notice))


def _refuse(report: Object | None) -> None:
    if report is not None:
        raise error_of(failure(report, message=UNEXPLAINED), MEANINGS)


def _met(choice: Object) -> Stop | None:
    """The stop sequence that ended the answer, where vLLM or SGLang names it."""
    met = choice.get("stop_reason") or choice.get("matched_stop")
    return Stop(StopReason.STOP_SEQUENCE, met) if type(met) is str and met.lower() not in REASONS else None


def _text_in(part: Object) -> str:
    """The text of a part; some servers have it in an object, as the Assistants API has."""
    return text_of(part, "text") or text_of(object_of(part.get("text")), "value")


def _unlisted_thinking(delta: Object) -> tuple[str, str]:
    """Name and text of thinking under a name that no table has; empty where there is thinking under one that has."""
    if delta.keys() <= _DELTA or any(delta.get(name) for name in _THINKING):
        return "", ""
    found = (name for name, value in delta.items() if name not in _DELTA and _is_thinking(name, value))
    name = next(found, "")
    return name, _thought(delta[name]) if name else ""


def _is_thinking(name: str, value: Any) -> bool:
    return bool(_THINKS.search(name) and not _ABOUT_THINKING.search(name) and _thought(value))


_THINKS: Final = re.compile("reason|think|thought", re.IGNORECASE)
_ABOUT_THINKING: Final = re.compile(
    "signature|opaque|encrypt|effort|level|format|mode|type|status|time|token|finish|stop|refus|_id$", re.IGNORECASE
)
"""What the name of thinking says, and those of facts about it."""


def _pages_in(fields: Object) -> list[Any]:
    """Pages that an answer rests on, under any name among *fields* that are not read; ``search_results`` says more of
    each than other lists."""
    if not fields:  # as nearly always
        return []
    nested = (value for name in _AROUND_PAGES for value in object_of(fields.get(name)).values())
    rest = (value for name, value in fields.items() if name not in _READERS)
    lists = filter(_lists_pages, (fields.get("search_results"), *rest, *nested))
    return next(lists, [])


def _lists_pages(value: Any) -> bool:
    return type(value) is list and bool(value) and all(map(_address, value))


def _address(page: Any) -> str:
    """The address of a page, in whatever form a server lists it; empty for anything else."""
    fields = {"url": page} if type(page) is str else object_of(page)
    found = next((text for name in ("url", "link", "uri") if (text := text_of(fields, name))), "")
    return found if found.startswith(("https://", "http://")) else ""


_AROUND_PAGES: Final = ("context", "search_info")
"""Members of servers (Azure's, Alibaba's) whose value is an object with a list of pages."""


def _thought(value: Any) -> str:
    """The text of thinking, wherever an object or a list of parts has it; empty where it is not found.

    The depth is bounded by that of JSON.
    """
    if type(value) is str:
        return value
    if type(value) is list:
        return "".join(map(_thought, value))
    fields = object_of(value)
    return next((text for name in _THOUGHTS if name in fields and (text := _thought(fields[name]))), "")


_THOUGHTS: Final = ("text", "thinking", "reasoning", "reasoning_text", "summary", "content")
"""Members of an object that is thinking, which may hold its text."""

_THINKING: Final = frozenset(
    {"reasoning_content", "reasoning", "reasoning_text", "reasoning_details", "reasoning_opaque"}
)

_READERS: Final[Mapping[str, Callable[[ChunkDecoder, Any, Object], Iterator[Delta]]]] = MappingProxyType(
    {
        "reasoning_content": ChunkDecoder._thinking,
        "reasoning": ChunkDecoder._other_thinking,
        "reasoning_text": ChunkDecoder._other_thinking,
        "reasoning_details": ChunkDecoder._details,
        "reasoning_opaque": ChunkDecoder._seal,
        "content": ChunkDecoder._content,
        "images": ChunkDecoder._images,
        "audio": ChunkDecoder._audio,
        "refusal": ChunkDecoder._refusal,
        "tool_calls": ChunkDecoder._tool_calls,
        "function_call": ChunkDecoder._function_call,
        "annotations": ChunkDecoder._annotations,
    }
)
"""Member of a delta to its reader, in the order of the deltas."""

_DELTA: Final = _READERS.keys() | {"role", "obfuscation", "padding"}
"""Members of a delta that are read, or only fill it."""

_OF_THINKING: Final = frozenset({"provider_specific_fields", "thinking_blocks"})
"""Members that may hold thinking once more, and are withheld with it."""

_SILENT: Final = NAMES | frozenset(
    {"error", "name", "id", "type", "index", "tool_call_id", "extra_content", "parsed", "logprobs", "token_ids"}
)
"""Members that hold nothing to show; any other that is left out gets a notice."""

_CHOICE: Final = frozenset({"index", "delta", "message", "finish_reason", "error", "usage"})
_CHUNK: Final = frozenset({"id", "object", "created", "model", "choices", "usage", "error", "obfuscation"})
"""Members of a choice and of a chunk that are read."""

_CONTENT: Final = frozenset({"choices", "usage"})
"""Members of which a chunk has one."""

_PLAIN_CHOICE: Final = frozenset({"index", "delta", "finish_reason", "logprobs"})
_PLAIN_CHUNK: Final = _CHUNK | {"system_fingerprint", "service_tier"}
"""Members of those that hold text alone; OpenAI's first and last chunk, which do not, have the last two as well."""


ERRORS: Final = frozenset({b"error"})
"""Fields whose value is read as an event's data: llama.cpp breaks an answer off with a line ``error: {…}``."""

ACCEPTED: Final = (EVENT_STREAM, JSON, "text/plain", "application/octet-stream")


def stages(content_type: str, new_id: Callable[[], str], service: str) -> tuple[Stage[Any, Any], ...]:
    """Fresh stages, bytes to `Delta`, for an answer of the upstream named *service*.

    Raises:
        NotTheUpstream: Code ``upstream.content_type``: no answer comes in this media type.
    """
    require_media_type(content_type, ACCEPTED)
    return (StreamOrDocument(WholeCompletion, partial(JsonEvents, ERRORS), partial(ChunkDecoder, new_id, service)),)


@define
class WholeCompletion(WholeBody):
    """Read a document as the only event of a stream.

    Raises:
        AnswerTooLarge: From `feed`: there is too much of it.
        UpstreamProtocolError: From `flush`: it is not an answer.
        KiroAsgiError: From `flush`: the error that it reports.
    """

    def flush(self) -> Iterator[JsonEvent | Notice]:
        """The event, and the end."""
        value = answer_in(bytes(self._body), "choices", "chat completion")
        for choice in value["choices"]:
            _number(object_of(object_of(choice).get("message")).get("tool_calls"))
        yield JsonEvent("message", value)
        yield JsonEvent("message", {}, done=True)


def _number(calls: Any) -> None:
    """Number *calls*, as a stream does: in a document each is complete, also where two have the same id."""
    for number, call in enumerate(calls if type(calls) is list else ()):
        if type(call) is dict:
            call["index"] = number
