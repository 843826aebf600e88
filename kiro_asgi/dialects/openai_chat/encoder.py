"""An answer as ``chat.completion.chunk`` objects, or collected as one ``chat.completion``.

Of a stream every event is one bare ``data:`` line and a blank line; clients take an event name for something else.
The order is::

    role-chunk delta-chunk* [annotations-chunk] finish-chunk [usage-chunk] "[DONE]"
    or at any place  error-chunk "[DONE]"

All that the chunks of one answer share is written once, when the encoder is made; what remains for an event is to quote
its text.  Some signatures have a place (`kiro_asgi.dialects.openai_chat.content`); all others, and sealed thinking,
are left out.

Sources: https://platform.openai.com/docs/api-reference/chat/streaming,
https://platform.openai.com/docs/api-reference/chat/object
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.dialects.opaque import joined, members_of, with_others
from kiro_asgi.dialects.openai_chat.content import call_signature, extra_content, reasoning_details
from kiro_asgi.dialects.openai_chat.parsing import ChatOptions, options_of
from kiro_asgi.dialects.openai_chat.shapes import API
from kiro_asgi.dialects.openai_common import SERVED, ChunkStream, usage_object
from kiro_asgi.dialects.pieces import closing, dump_array, dump_text
from kiro_asgi.dialects.tools import text_given
from kiro_asgi.model.events import (
    BlockEnd,
    BlockKind,
    BlockMembers,
    BlockStart,
    Citation,
    Event,
    MessageEnd,
    MessageMembers,
    MessageStart,
    OpaqueBlock,
    OpaqueEvent,
    RefusalDelta,
    ServerResult,
    SignatureDelta,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolInputDelta,
    ToolOutput,
    Usage,
)
from kiro_asgi.model.message import Message, RefusalBlock, TextBlock, ThinkingBlock, ToolCallBlock
from kiro_asgi.model.unread import Unread, accumulated, restore
from kiro_asgi.wire.json import dumps, object_of, objects_of, quote_bytes

_NO_MEMBERS: Final = MappingProxyType[str, Any]({})

GAP: Final = "\n\n"
"""Stands before the result of a server tool, as this API has no blocks of text."""

_BEFORE: Final = b'{"id":%b,"object":"chat.completion","created":%d,"model":%b,"choices":[{"index":0,"message":'
"""The JSON before the assistant's turn."""

_MESSAGE_CALL: Final = b'{"id":%b,"type":"%b","%b":'

_FINISH: Final = MappingProxyType(
    {
        StopReason.END: "stop",
        StopReason.STOP_SEQUENCE: "stop",
        StopReason.REFUSAL: "stop",
        StopReason.TOOL_CALL: "tool_calls",
        StopReason.LENGTH: "length",
        StopReason.CONTEXT_FULL: "length",
        StopReason.PAUSED: "length",
        StopReason.COMPACTED: "length",
        StopReason.CONTENT_FILTER: "content_filter",
    }
)


def finish_reason(reason: StopReason, legacy_functions: bool) -> str:
    """One of the five words that clients know."""
    if legacy_functions and reason is StopReason.TOOL_CALL:
        return "function_call"
    return _FINISH[reason]


def render(message: Message, meta: ResponseMeta) -> Iterator[bytes]:
    """The JSON body, in pieces."""
    options = options_of(meta)
    legacy = options.legacy_functions
    yield _BEFORE % (quote_bytes(meta.id), meta.created, quote_bytes(meta.model))
    found = _Members.of(message.unread)
    yield from _turn(message, options, found.delta)
    choice = {"finish_reason": finish_reason(message.stop_reason, legacy), "logprobs": None, **found.choice}
    counted = found.counted(message.usage)
    tier = SERVED.get(message.usage.tier, "default")  # which OpenAI says where nothing else is asked for
    rest = {"usage": counted, "service_tier": tier, "system_fingerprint": None, **found.top}
    yield closing(choice) + b"]" + closing(rest)


@frozen
class _Members:
    """Members of a completion that are not understood; none has a name that is ours."""

    top: Mapping[str, Any]
    """Of the whole."""

    choice: Mapping[str, Any]
    delta: Mapping[str, Any]
    """Of the assistant's turn."""

    usage: Mapping[str, Any]

    @classmethod
    def of(cls, unread: Iterable[Unread]) -> _Members:
        """Those of chunks, put together: turns and probabilities come in pieces, and of all else the last counts."""
        top: dict[str, Any] = {}
        choice: dict[str, Any] = {}
        deltas: list[Mapping[str, Any]] = []
        logprobs: list[Mapping[str, Any]] = []
        for members in members_of(API, unread):
            top |= members
            for each in objects_of(members.get("choices")):
                choice |= each
                deltas.append(object_of(each.get("delta")))
                if "logprobs" in each:
                    logprobs.append({"logprobs": each["logprobs"]})
        return cls(
            {name: value for name, value in top.items() if name not in _OWN},
            {name: value for name, value in (choice | accumulated(logprobs)).items() if name not in _OWN_CHOICE},
            {name: value for name, value in accumulated(deltas).items() if name not in _OWN_TURN},
            object_of(top.get("usage")),
        )

    def counted(self, usage: Usage) -> dict[str, Any]:
        """Token counts; where the service counts what is not counted here, which is 0 in ours, its own."""
        counts = usage_object(usage)
        for name in ("prompt_tokens_details", "completion_tokens_details"):
            given = object_of(self.usage.get(name))
            counts[name] = {each: count for each, count in counts[name].items() if count or each not in given}
        restore(counts, self.usage)
        return counts


_OWN: Final = frozenset({"id", "object", "created", "model", "choices", "usage"})
_OWN_CHOICE: Final = frozenset({"index", "delta", "message", "finish_reason"})
_OWN_TURN: Final = frozenset(
    {
        *("role", "content", "refusal", "annotations", "reasoning_content", "reasoning_details"),
        *("function_call", "tool_calls"),
    }
)
"""Members that are always ours."""


def _turn(message: Message, options: ChatOptions, others: Mapping[str, Any]) -> Iterator[bytes]:
    """The assistant's turn; absent, not empty, is what clients expect of ``tool_calls``."""
    calls = [block for block in message.blocks if isinstance(block, ToolCallBlock)]
    thoughts = [block for block in message.blocks if isinstance(block, ThinkingBlock)]
    thinking = "".join(block.text for block in thoughts)
    details = reasoning_details(block.signature for block in thoughts)
    text, annotations = _content(message)
    refusals = [block.text for block in message.blocks if isinstance(block, RefusalBlock)]
    refusal = "".join((*refusals, _explanation(message))) or None
    yield b'{"role":"assistant","content":'
    yield from _text_or_null(text or (None if calls or refusal else ""))
    yield b',"refusal":'
    yield from _text_or_null(refusal)
    if annotations:
        yield b',"annotations":' + dumps(annotations)
    if thinking:
        yield b',"reasoning_content":'
        yield from dump_text(thinking)
    if details:
        yield b',"reasoning_details":' + dumps(details)
    if calls and options.legacy_functions:
        yield b',"function_call":'
        yield from _function(calls[0])
    elif calls:
        yield b',"tool_calls":'
        yield from dump_array(_tool_calls(message, options.text_tools))
    thought = joined(API, (each for block in thoughts for each in block.unread), _OWN_TURN)
    opaque = joined(API, (each.unread for each in message.blocks if isinstance(each, OpaqueBlock)), _OWN_TURN)
    if more := {**others, **thought, **opaque}:
        yield b"," + dumps(more)[1:-1]
    yield b"}"


def _explanation(end: Message | MessageEnd) -> str:
    """Why the service declined, in its words."""
    return end.declined.explanation if end.declined is not None else ""


def _text_or_null(text: str | None) -> Iterator[bytes]:
    return iter((b"null",)) if text is None else dump_text(text)


def _tool_calls(message: Message, text_tools: Mapping[str, str]) -> Iterator[Iterable[bytes]]:
    """The calls, each with the signature that stands before it."""
    signature = ""
    for block in message.blocks:
        if isinstance(block, ThinkingBlock):
            signature = call_signature(block.signature) or signature
        elif isinstance(block, ToolCallBlock):
            extra: dict[str, Any] = {"extra_content": extra_content(signature)} if signature else {}
            members = joined(API, block.unread, {"id", "type", "index"})
            function = object_of(members.pop("function", None))
            restore(extra, members)
            kind = text_tools.get(block.name, "")
            named = (kind or "function").encode()
            body = _text_call(block, kind) if kind else _function(block, function)
            yield (_MESSAGE_CALL % (quote_bytes(block.call_id), named, named), *body, closing(extra))
            signature = ""


def _content(message: Message) -> tuple[str, list[dict[str, Any]]]:
    """The text, which is one here, and the pages that it cites."""
    text, annotations = "", []
    for block in message.blocks:
        if isinstance(block, TextBlock):
            text += block.text
            annotations += [citation(each, len(text)) for each in block.citations if each.url or each.origin]
        elif isinstance(block, ServerResult):
            text += GAP * bool(text)
            annotations += citations(block.output, len(text))
    return text, annotations


def citations(output: ToolOutput, offset: int) -> list[dict[str, Any]]:
    """Where the content names the pages that a tool found; *offset* is where it begins to."""
    return [_annotation(offset + start, offset + end, hit.url, hit.title) for start, end, hit in output.spans()]


def citation(source: Citation, end: int) -> dict[str, Any]:
    """Where the content relies on a page; the source stands behind its first *end* characters."""
    own: dict[str, Any] = {}
    if source.url:
        own = _annotation(max(end - source.begins, 0), max(end - source.ends, 0), source.url, source.title)
    return with_others(own, API, (source.origin,))


def _annotation(start: int, end: int, url: str, title: str) -> dict[str, Any]:
    places = {"start_index": start, "end_index": end, "url": url, "title": title}
    return {"type": "url_citation", "url_citation": places}


_TEXTS: Final = MappingProxyType({"function": "arguments", "custom": "input"})
"""Where the text of a call stands, by what holds it."""


def _text_call(call: ToolCallBlock, kind: str) -> Iterable[bytes]:
    """A call whose only argument is a text, as it stands in *kind*."""
    text = dump_text(text_given(call.input))
    return (b'{"name":%b,"%b":' % (quote_bytes(call.name), _TEXTS[kind].encode()), *text, b"}")


def _function(call: ToolCallBlock, others: Mapping[str, Any] = _NO_MEMBERS) -> Iterable[bytes]:
    rest = {name: value for name, value in others.items() if name not in ("name", "arguments")}
    return (b'{"name":%b,"arguments":' % quote_bytes(call.name), *dump_text(call.input), closing(rest))


_CALL: Final = b'{"tool_calls":[{"index":%d,"id":%b,"type":"function","function":{"name":%b,"arguments":""%b}%b}]}'
_CUSTOM_CALL: Final = b'{"tool_calls":[{"index":%d,"id":%b,"type":"custom","custom":{"name":%b,"input":""%b}%b}]}'
_ARGUMENTS: Final = b'{"tool_calls":[{"index":%d,"function":{"arguments":'
_CUSTOM_INPUT: Final = b'{"tool_calls":[{"index":%d,"custom":{"input":'
_ARGUMENTS_END: Final = b"}}]}"

_FUNCTION: Final = b'{"function_call":{"name":%b,"arguments":""}}'
_FUNCTION_ARGUMENTS: Final = b'{"function_call":{"arguments":'
_FUNCTION_ARGUMENTS_END: Final = b"}}"


class ChatEncoder(ChunkStream):
    """The stage from events to the bytes of one streamed answer.

    Args:
        meta: Facts that every chunk repeats.
        usage_in_finish_chunk: Put the token counts into the finish chunk, asked for or not, and send no usage chunk.
    """

    __slots__ = (
        "_after",
        "_after_content",
        "_arguments",
        "_before",
        "_before_content",
        "_begun",
        "_calls",
        "_citations",
        "_details",
        "_held",
        "_include_usage",
        "_input_seen",
        "_legacy",
        "_length",
        "_members",
        "_signature",
        "_text",
        "_text_tools",
        "_usage_in_finish_chunk",
    )

    def __init__(self, meta: ResponseMeta, *, usage_in_finish_chunk: bool = False) -> None:
        super().__init__(meta, b"chat.completion.chunk")
        options = options_of(meta)
        self._legacy = options.legacy_functions
        self._text_tools = options.text_tools
        self._text: list[str] | None = None
        """Arguments of a call whose only argument is a text; ``None`` for another call."""
        self._include_usage = options.include_usage and not usage_in_finish_chunk
        self._usage_in_finish_chunk = usage_in_finish_chunk
        self._before = self._common + b'[{"index":0,"delta":'
        self._after = b',"finish_reason":null,"logprobs":null}]%b}\n\n' % (b',"usage":null' * self._include_usage)
        self._before_content = self._before + b'{"content":'
        self._after_content = b"}" + self._after
        self._begun = False
        self._held: list[bytes] = []
        """Chunks of members that wait for the role chunk."""
        self._members = _Members.of(())
        """The latest that have a place at the end."""
        self._calls = 0
        self._details = 0
        """Entries of ``reasoning_details`` so far."""
        self._input_seen = False
        self._length = 0
        """Characters of content so far."""
        self._signature = ""
        """Of the next call."""
        self._citations: list[dict[str, Any]] = []
        self._arguments: tuple[bytes, bytes] | None = None
        """Bytes around a fragment of the open call's arguments; ``None`` where the call cannot be sent."""

    def feed(self, items: Iterable[Event], /) -> Iterator[bytes]:
        """Chunks for *items*; none for those that this API cannot express."""
        before, after = self._before_content, self._after_content
        for item in items:
            if type(item) is TextDelta:
                self._length += len(item.text)
                yield before + quote_bytes(item.text) + after
            elif chunk := _STEPS[type(item)](self, item):
                yield chunk

    def _begin(self, kind: BlockKind) -> bytes:
        """The role chunk, once.

        It waits for the first block, because clients keep its ``content``, and an answer of tool calls alone has none.
        """
        if self._begun:
            return b""
        self._begun = True
        content = b'""' if kind is BlockKind.TEXT else b"null"
        held, self._held = self._held, []
        role = b'%b{"role":"assistant","content":%b}%b' % (self._before, content, self._after)
        return role + b"".join(held)

    def _start(self, event: MessageStart) -> bytes:
        self._held += map(self._more, members_of(API, event.unread))
        return b""

    def _of_message(self, event: MessageMembers) -> bytes:
        members = members_of(API, (event.unread,))
        if self._begun:
            return b"".join(map(self._more, members))
        self._held += map(self._more, members)
        return b""

    def _more(self, members: Mapping[str, Any]) -> bytes:
        """A chunk with *members* and no content; counts wait for the end."""
        found = _Members.of((Unread(API, members),))
        if found.usage:
            self._members = found
        if not (found.top or found.choice or found.delta):
            return b""
        choice = {"logprobs": None, **found.choice, "index": 0, "delta": found.delta, "finish_reason": None}
        top = b"," + dumps(dict(found.top))[1:-1] if found.top else b""
        return b"%b[%b]%b%b}\n\n" % (self._common, dumps(choice), b',"usage":null' * self._include_usage, top)

    def _of_block(self, event: BlockMembers) -> bytes:
        members = members_of(API, (event.unread,))
        if event.kind is not BlockKind.TOOL_CALL:
            return b"".join(self._more({"choices": [{"delta": each}]}) for each in members)
        calls = ({"tool_calls": [{**each, "index": self._calls - 1}]} for each in members)
        return b"".join(self._before + dumps(call) + self._after for call in calls)

    def _start_block(self, event: BlockStart) -> bytes:
        head = self._begin(event.kind)
        if event.kind is BlockKind.TOOL_CALL:
            return head + self._start_call(event)
        if isinstance(event.value, ServerResult):
            return head + self._start_result(event.value)
        if isinstance(event.value, OpaqueBlock):
            return head + b"".join(
                self._more({"choices": [{"delta": each}]}) for each in members_of(API, (event.value.unread,))
            )
        if event.unread is not None:
            return head + self._of_block(BlockMembers(event.kind, event.unread))
        return head

    def _start_result(self, result: ServerResult) -> bytes:
        """Its text comes as a block of text; here it is set apart from the text before it."""
        gap = GAP if self._length else ""
        self._length += len(gap)
        self._citations += citations(result.output, self._length)
        return self._before_content + quote_bytes(gap) + self._after_content if gap else b""

    def _start_call(self, event: BlockStart) -> bytes:
        index = self._calls
        self._calls += 1
        self._input_seen = False
        if self._legacy:
            return self._start_function(event, index)
        kind = self._text_tools.get(event.name, "")
        self._text = [] if kind else None
        places = (_CUSTOM_CALL, _CUSTOM_INPUT) if kind == "custom" else (_CALL, _ARGUMENTS)
        self._arguments = self._before + places[1] % index, _ARGUMENTS_END + self._after
        signature, self._signature = self._signature, ""
        extra: dict[str, Any] = {"extra_content": extra_content(signature)} if signature else {}
        members = joined(API, (event.unread,), {"id", "type", "index"})
        function = joined(API, (Unread(API, object_of(members.pop("function", None))),), {"name", "arguments"})
        restore(extra, members)
        rest = (b"," + dumps(each)[1:-1] if each else b"" for each in (function, extra))
        call = places[0] % (index, quote_bytes(event.call_id), quote_bytes(event.name), *rest)
        return self._before + call + self._after

    def _start_function(self, event: BlockStart, index: int) -> bytes:
        """The deprecated form, which has room for one call."""
        if index:
            self._arguments = None
            return b""
        self._arguments = self._before + _FUNCTION_ARGUMENTS, _FUNCTION_ARGUMENTS_END + self._after
        return self._before + _FUNCTION % quote_bytes(event.name) + self._after

    def _cite(self, event: Citation) -> bytes:
        """At the end, all of them: clients cannot join lists whose entries have no index."""
        if event.url or event.origin:
            self._citations.append(citation(event, self._length))
        return b""

    def _refusal(self, event: RefusalDelta) -> bytes:
        return b'%b{"refusal":%b}%b' % (self._before, quote_bytes(event.text), self._after)

    def _thinking(self, event: ThinkingDelta) -> bytes:
        return b'%b{"reasoning_content":%b}%b' % (self._before, quote_bytes(event.text), self._after)

    def _sign(self, event: SignatureDelta) -> bytes:
        self._signature = call_signature(event.signature) or self._signature
        details = reasoning_details((event.signature,), self._details)
        self._details += len(details)
        return b'%b{"reasoning_details":%b}%b' % (self._before, dumps(details), self._after) if details else b""

    def _input(self, event: ToolInputDelta) -> bytes:
        if self._arguments is None or not event.json:
            return b""
        if self._text is not None:
            self._text.append(event.json)
            return b""
        self._input_seen = True
        before, after = self._arguments
        return before + quote_bytes(event.json) + after

    def _end_block(self, event: BlockEnd) -> bytes:
        """Arguments of a call without any are an empty object, never an empty string."""
        if self._text is not None:
            given, self._text, self._input_seen = text_given("".join(self._text)), None, True
            said = self._input(ToolInputDelta(given))
            self._arguments = None
            return said
        rest = b"" if self._input_seen else self._input(_NO_ARGUMENTS)
        self._arguments = None
        return rest

    def _end(self, event: MessageEnd) -> bytes:
        begun = self._begin(BlockKind.TEXT)
        usage = dumps(self._members.counted(event.usage))
        word = SERVED.get(event.usage.tier)
        tier = b',"service_tier":%b' % quote_bytes(word) if word else b""
        finish = b'%b{},"finish_reason":%b,"logprobs":null}]%b%b}\n\n' % (
            self._before,
            quote_bytes(finish_reason(event.stop_reason, self._legacy)),
            b',"usage":' + usage if self._usage_in_finish_chunk else b',"usage":null' * self._include_usage,
            tier,
        )
        explanation = _explanation(event)
        refusal = self._refusal(RefusalDelta(explanation)) if explanation else b""
        chunks = begun + self._annotations() + refusal + finish
        if self._include_usage:
            chunks += b'%b[],"usage":%b%b}\n\n' % (self._common, usage, tier)
        return chunks

    def _annotations(self) -> bytes:
        if not self._citations:
            return b""
        return b'%b{"annotations":%b}%b' % (self._before, dumps(self._citations), self._after)

    def _nothing(self, event: Event) -> bytes:
        return b""


_NO_ARGUMENTS: Final = ToolInputDelta("{}")

_STEPS: Final = MappingProxyType[type[Event], Callable[[ChatEncoder, Any], bytes]](
    {
        MessageStart: ChatEncoder._start,
        MessageMembers: ChatEncoder._of_message,
        BlockMembers: ChatEncoder._of_block,
        OpaqueEvent: ChatEncoder._nothing,
        BlockStart: ChatEncoder._start_block,
        Citation: ChatEncoder._cite,
        RefusalDelta: ChatEncoder._refusal,
        ThinkingDelta: ChatEncoder._thinking,
        SignatureDelta: ChatEncoder._sign,
        ToolInputDelta: ChatEncoder._input,
        BlockEnd: ChatEncoder._end_block,
        MessageEnd: ChatEncoder._end,
    }
)
