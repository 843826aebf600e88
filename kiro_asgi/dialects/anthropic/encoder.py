"""An answer as the server-sent events of the Messages API, or collected as one message.

Of a stream every event names itself twice, in the ``event:`` line, which the official SDKs go by, and in ``type``.
The pieces of a block differ in one string only, so the bytes around it are made once, when the block opens.  Foreign
text stands inside JSON strings and nowhere else; there it cannot end a line.

Sources: https://docs.anthropic.com/en/docs/build-with-claude/streaming, https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.dialects.anthropic.errors import stream_error_body
from kiro_asgi.dialects.anthropic.server_tools import has_shape, render_server_block, tally
from kiro_asgi.dialects.anthropic.shapes import API
from kiro_asgi.dialects.anthropic.toolsets import Member, MessagesOptions
from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.dialects.opaque import joined, members_of
from kiro_asgi.dialects.pieces import closing, dump_array, dump_text
from kiro_asgi.errors import KiroAsgiError, UpstreamProtocolError
from kiro_asgi.model.budget import AnswerBudget
from kiro_asgi.model.events import (
    BlockEnd,
    BlockKind,
    BlockMembers,
    BlockStart,
    Citation,
    Declined,
    Event,
    MessageEnd,
    MessageMembers,
    MessageStart,
    OpaqueBlock,
    OpaqueEvent,
    RefusalDelta,
    ServerCall,
    ServerResult,
    SignatureDelta,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolInputDelta,
    Usage,
)
from kiro_asgi.model.handling import Tier
from kiro_asgi.model.message import (
    Block,
    Message,
    RedactedThinkingBlock,
    RefusalBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from kiro_asgi.model.signatures import UNSIGNED
from kiro_asgi.model.unread import Unread, restore
from kiro_asgi.wire.json import JsonError, dumps, loads, quote_bytes

_BEFORE: Final = b'{"id":%b,"type":"message","role":"assistant","model":%b,"content":'
_TEXT: Final = b'{"type":"text","text":'
_THINKING: Final = b'{"type":"thinking","thinking":'
_REDACTED: Final = b'{"type":"redacted_thinking","data":'

STOP_REASONS: Final = MappingProxyType(
    {
        StopReason.END: "end_turn",
        StopReason.TOOL_CALL: "tool_use",
        StopReason.LENGTH: "max_tokens",
        StopReason.CONTEXT_FULL: "model_context_window_exceeded",
        StopReason.STOP_SEQUENCE: "stop_sequence",
        StopReason.CONTENT_FILTER: "refusal",
        StopReason.REFUSAL: "refusal",
        StopReason.PAUSED: "pause_turn",
        StopReason.COMPACTED: "compaction",
    }
)


def render_message(message: Message, meta: ResponseMeta) -> Iterator[bytes]:
    """The JSON body of a collected answer, in pieces.

    Args:
        message: The answer.
        meta: Its id and model.

    Raises:
        UpstreamProtocolError: The arguments of a tool call are not a JSON object.
    """
    blocks = [block for block in message.blocks if has_shape(block) and not _is_blank(block)]
    yield _BEFORE % (quote_bytes(meta.id), quote_bytes(meta.model))
    yield from dump_array(map(partial(_render_block, members=_members(meta)), blocks))
    end = {**render_stop(message), "usage": render_usage(message.usage)}
    for members in reversed(members_of(API, message.unread)):
        for part in _of_message(members):
            restore(end, {name: value for name, value in part.items() if name not in _HEAD})
    yield closing({**end, "usage": _with_tally(end["usage"], message.blocks)})


_HEAD: Final = frozenset({"id", "type", "role", "model", "content"})
"""Members of a message before the reason for its end."""


def _with_tally(usage: Mapping[str, Any], blocks: Iterable[object]) -> dict[str, Any]:
    """*usage* with the uses of server tools, unless the service has counted them."""
    return {**usage, **{name: count for name, count in tally(blocks).items() if name not in usage}}


def _of_message(members: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Members of a message, from those of an event about it."""
    yield {name: value for name, value in members.items() if name not in ("message", "delta")}
    yield from (members[name] for name in ("message", "delta") if name in members)


def _is_blank(block: Block) -> bool:
    """Whether it is text without a word, which the API refuses as input: clients send back what they got."""
    return isinstance(block, TextBlock | RefusalBlock) and not block.text.strip()


def _members(meta: ResponseMeta) -> Mapping[str, Member]:
    """The members of toolsets, by the functions that stand for them."""
    return meta.options.members if isinstance(meta.options, MessagesOptions) else _NO_MEMBERS


_NO_MEMBERS: Final = MappingProxyType[str, Member]({})


def _render_call(call_id: str, name: str, given: Mapping[str, Any], members: Mapping[str, Member]) -> dict[str, Any]:
    """A call of the client's own tool, or of a member of a toolset, which has to say who called it."""
    member = members.get(name)
    if member is None:
        return {"type": "tool_use", "id": call_id, "name": name, "input": given}
    beside = {"toolset_name": member.toolset, "caller": {"type": "direct"}}
    return {"type": "tool_use", "id": call_id, "name": member.name, "input": given, **beside}


def _render_block(block: Block, members: Mapping[str, Member]) -> Iterable[bytes]:
    match block:
        case TextBlock(text, citations):
            cited = {"citations": [*map(render_citation, citations)]} if citations else {}
            return chain((_TEXT,), dump_text(text), _rest(cited, block.unread, "text"))
        case RefusalBlock(text, unread):
            return chain((_TEXT,), dump_text(text), _rest({}, unread, "text"))
        case ThinkingBlock(text, signature, unread):
            return chain((_THINKING,), dump_text(text), _rest({"signature": signature or UNSIGNED}, unread, "thinking"))
        case RedactedThinkingBlock(data, unread):
            return chain((_REDACTED,), dump_text(data), _rest({}, unread, "data"))
        case ToolCallBlock(call_id, name, arguments, unread):
            call = _render_call(call_id, name, _arguments(arguments), members)
            return (dumps({**call, **joined(API, unread, call.keys())}),)
        case ServerCall() | ServerResult():
            return (dumps(render_server_block(block)),)
        case OpaqueBlock(unread):
            return (dumps(dict(unread.members)),)


def _rest(own: Mapping[str, Any], unread: Iterable[Unread], text: str) -> tuple[bytes]:
    """The end of a block behind its type and its *text*: further members of its *own*, and others."""
    return (closing({**own, **joined(API, unread, {"type", text, *own})}),)


def render_citation(citation: Citation) -> dict[str, Any]:
    """A source of a block of text: as the service names it, or a page as a web search's."""
    return dict(citation.location) or {
        "type": "web_search_result_location",
        "url": citation.url,
        "title": citation.title or None,
        "cited_text": citation.quote,
        "encrypted_index": "",
    }


def _arguments(text: str) -> dict[str, Any]:
    try:
        value = loads(text)
    except JsonError as exc:
        raise UpstreamProtocolError("the arguments of a tool call are not JSON", code="tool_call.arguments") from exc
    if not isinstance(value, dict):
        raise UpstreamProtocolError("the arguments of a tool call are not a JSON object", code="tool_call.arguments")
    return value


def render_stop(end: Message | MessageEnd) -> dict[str, Any]:
    """Why the answer ended."""
    word = STOP_REASONS[end.stop_reason]
    stop: dict[str, Any] = {"stop_reason": word, "stop_sequence": end.stop_sequence}
    if word == "refusal":
        stop["stop_details"] = _stop_details(end.declined or Declined())
    return stop


def _stop_details(why: Declined) -> dict[str, Any]:
    """What the service says of a refusal; the API knows no recommended model, so that is there only if there is one."""
    details = {"type": "refusal", "category": why.category or None, "explanation": why.explanation or None}
    return details | ({"recommended_model": why.recommended_model} if why.recommended_model else {})


def render_usage(usage: Usage) -> dict[str, Any]:
    """Token counts, which in this API are those of the answer itself: other runs stand in ``iterations`` alone."""
    usage = usage.of_answer
    counts: dict[str, Any] = {
        "input_tokens": usage.input_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "output_tokens": usage.output_tokens,
    }
    if usage.thinking_tokens:
        counts["output_tokens_details"] = {"thinking_tokens": usage.thinking_tokens}
    if usage.tier in SERVED:
        counts["service_tier"] = SERVED[usage.tier]
    return counts


SERVED: Final[Mapping[Tier | None, str]] = MappingProxyType({Tier.STANDARD: "standard", Tier.PRIORITY: "priority"})
"""The tier that answered, to the word of ``usage.service_tier``; for the others the API has none."""


def render_count(tokens: int) -> bytes:
    """The JSON body of a token count."""
    return dumps({"input_tokens": tokens})


_DELTA: Final = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":'
_DELTA_END: Final = b"}}\n\n"

_DELTA_KINDS: Final = MappingProxyType(
    {
        BlockKind.TEXT: (b"text_delta", b"text"),
        BlockKind.REFUSAL: (b"text_delta", b"text"),
        BlockKind.THINKING: (b"thinking_delta", b"thinking"),
        BlockKind.REDACTED_THINKING: (b"", b""),
        BlockKind.TOOL_CALL: (b"input_json_delta", b"partial_json"),
        BlockKind.SERVER_CALL: (b"input_json_delta", b"partial_json"),
        BlockKind.SERVER_RESULT: (b"", b""),
        BlockKind.OPAQUE: (b"", b""),
    }
)
"""Kind of block to the type of its pieces and the name of their only field; a sealed block and a result have none."""

_TEXTS: Final = (BlockKind.TEXT, BlockKind.REFUSAL)

_SIGNATURE: Final = (b"signature_delta", b"signature")
_STOP: Final = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n'
_END: Final = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
_PING: Final = b'event: ping\ndata: {"type":"ping"}\n\n'


def _event(name: str, /, **fields: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), dumps({"type": name, **fields}))


def _content_block(start: BlockStart, members: Mapping[str, Member]) -> dict[str, Any]:
    """A block as it opens: empty, because clients take nothing but pieces into account."""
    match start.kind:
        case BlockKind.TEXT | BlockKind.REFUSAL:
            return {"type": "text", "text": ""}
        case BlockKind.THINKING:
            return {"type": "thinking", "thinking": "", "signature": ""}
        case BlockKind.REDACTED_THINKING:
            return {"type": "redacted_thinking", "data": start.data}
        case BlockKind.TOOL_CALL:
            return _render_call(start.call_id, start.name, {}, members)
        case BlockKind.SERVER_CALL:
            assert isinstance(start.value, ServerCall), "a call without its value"
            return {**render_server_block(start.value), "input": {}}
        case BlockKind.SERVER_RESULT:
            assert isinstance(start.value, ServerResult), "a result without its value"
            return render_server_block(start.value)
        case BlockKind.OPAQUE:
            assert isinstance(start.value, OpaqueBlock), "an opaque block without its value"
            return dict(next(iter(start.value.pieces), start.value.unread.members))


class AnthropicEncoder:
    """Events in, server-sent events out; one for each answer.

    Args:
        meta: The answer's id and model.
        emit_code_references: Whether licensed sources get an event of their own, which the official SDKs do not know.

    A block of text opens with its first word: one without any is left out, as the API refuses it as input.

    Raises:
        AnswerTooLarge: From `feed`: what came before a text's first word takes more than
            `kiro_asgi.limits.ANSWER_BYTES`.
    """

    __slots__ = (
        "_emit_code_references",
        "_ended",
        "_index",
        "_kind",
        "_last",
        "_late",
        "_leading",
        "_members",
        "_meta",
        "_prefix",
        "_results",
        "_room",
        "_tier",
        "_unopened",
        "heartbeat",
    )

    def __init__(self, meta: ResponseMeta, *, emit_code_references: bool = False) -> None:
        self.heartbeat = _PING
        self._meta = meta
        self._emit_code_references = emit_code_references
        self._tier: Tier | None = None
        """The service tier that the start of the message names."""
        self._index = -1
        """Of the last block; those that this API has no form for do not count."""
        self._results: list[ServerResult] = []
        self._unopened: BlockStart | None = None
        """A block of text that has no word yet."""
        self._leading: list[str] = []
        """The blanks that came for it."""
        self._members: list[Unread] = []
        """Members that did."""
        self._room = AnswerBudget()
        """For both."""
        self._late: list[Mapping[str, Any]] = []
        """Members of the message that its end will have."""
        self._kind: BlockKind | None = None
        """Kind of the open block."""
        self._last = b""
        """The piece that the open block must have and has not had."""
        self._prefix = b""
        """Bytes before the text of a piece of the open block."""
        self._ended = False

    def feed(self, items: Iterable[Event], /) -> Iterator[bytes]:
        """The server-sent events of *items*; none after the end."""
        if self._ended:
            return
        for item in items:
            if self._unopened is not None and type(item) is not BlockEnd:
                yield from self._hold(item)
            elif type(item) is TextDelta or type(item) is ThinkingDelta:
                yield self._prefix + quote_bytes(item.text) + _DELTA_END
            elif type(item) is ToolInputDelta:
                if item.json:
                    self._last = b""
                    yield self._prefix + quote_bytes(item.json) + _DELTA_END
            else:
                step = _STEPS.get(type(item))
                assert step is not None, f"not an event of an answer: {item!r}"
                yield from step(self, item)
                if self._ended:
                    return

    def flush(self) -> Iterator[bytes]:
        """Nothing: the end is an event."""
        yield from ()

    def error(self, error: KiroAsgiError) -> list[bytes]:
        """Close the open block and report the error; no ``message_stop`` may follow."""
        stop = b"" if self._kind is None else _STOP % self._index
        self._kind, self._ended = None, True
        return [stop + b"event: error\ndata: " + stream_error_body(error) + b"\n\n"]

    def _start(self, item: MessageStart) -> tuple[bytes, ...]:
        self._tier = item.usage.tier
        message: dict[str, Any] = {
            "id": self._meta.id,
            "type": "message",
            "role": "assistant",
            "model": self._meta.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": render_usage(item.usage),
        }
        for members in members_of(API, item.unread):
            restore(message, members.get("message", {}))
            self._late.append({name: value for name, value in members.items() if name != "message"})
        return (_event("message_start", message=message),)

    def _start_block(self, item: BlockStart) -> tuple[bytes, ...]:
        if item.kind in _TEXTS:
            self._unopened, self._leading, self._members, self._room = item, [], [], AnswerBudget()
            return ()
        return (self._open(item),) if item.value is None or has_shape(item.value) else ()

    def _hold(self, item: Event) -> Iterable[bytes]:
        """Open the block at the first word; a source of blanks is none."""
        if isinstance(item, BlockMembers):
            self._room.keep(item)
            self._members.append(item.unread)
            return ()
        if not isinstance(item, TextDelta | RefusalDelta):
            return () if isinstance(item, Citation) else _STEPS[type(item)](self, item)
        start = self._unopened
        if start is None or not item.text.strip():
            self._room.keep(item)
            self._leading.append(item.text)
            return ()
        text, self._leading, self._unopened = "".join([*self._leading, item.text]), [], None
        opened = self._open(start)
        before = [self._more(members) for members in members_of(API, self._members)]
        return (opened + b"".join(before) + self._prefix + quote_bytes(text) + _DELTA_END,)

    def _open(self, item: BlockStart) -> bytes:
        self._index += 1
        self._kind = item.kind
        self._prefix = _DELTA % (self._index, *_DELTA_KINDS[item.kind])
        self._last = self._owed(item)
        if isinstance(item.value, ServerResult):
            self._results.append(item.value)
        block, pieces = _content_block(item, _members(self._meta)), self._pieces(item)
        for members in members_of(API, (item.unread,)):
            if "type" in members:
                pieces.append(self._more(members))
            else:
                restore(block, members)
        return _event("content_block_start", index=self._index, content_block=block) + b"".join(pieces)

    def _pieces(self, item: BlockStart) -> list[bytes]:
        """What follows the start of a block that is known whole."""
        return [*map(self._piece, item.value.pieces[1:])] if isinstance(item.value, OpaqueBlock) else []

    def _piece(self, delta: Mapping[str, Any]) -> bytes:
        return _event("content_block_delta", index=self._index, delta=dict(delta))

    def _more(self, members: Mapping[str, Any]) -> bytes:
        """Members of the open block, in a piece without content; or a piece of another kind, as it came."""
        if "type" in members or self._kind is None:
            return self._piece(members)
        kind, text = (word.decode() for word in _DELTA_KINDS[self._kind])
        return self._piece({**members, "type": kind, text: ""})

    def _add_members(self, item: BlockMembers) -> tuple[bytes, ...]:
        return tuple(map(self._more, members_of(API, (item.unread,))))

    def _keep_members(self, item: MessageMembers) -> tuple[bytes, ...]:
        self._late += members_of(API, (item.unread,))
        return ()

    def _pass_event(self, item: OpaqueEvent) -> tuple[bytes, ...]:
        members = dict(item.unread.members)
        return (_event(members.pop("type"), **members),) if item.unread.api == API else ()

    def _owed(self, item: BlockStart) -> bytes:
        """The piece without which clients take the block for incomplete."""
        match item.kind:
            case BlockKind.TOOL_CALL:
                return self._prefix + b'"{}"' + _DELTA_END
            case BlockKind.THINKING:
                return _DELTA % (self._index, *_SIGNATURE) + quote_bytes(UNSIGNED) + _DELTA_END
        if isinstance(item.value, ServerCall):
            return self._prefix + quote_bytes(dumps(dict(item.value.input)).decode()) + _DELTA_END
        return b""

    def _refusal(self, item: RefusalDelta) -> tuple[bytes, ...]:
        return (self._prefix + quote_bytes(item.text) + _DELTA_END,)

    def _cite(self, item: Citation) -> tuple[bytes, ...]:
        delta = {"type": "citations_delta", "citation": render_citation(item)}
        return (_event("content_block_delta", index=self._index, delta=delta),)

    def _sign(self, item: SignatureDelta) -> tuple[bytes, ...]:
        self._last = _DELTA % (self._index, *_SIGNATURE) + quote_bytes(item.signature or UNSIGNED) + _DELTA_END
        return ()

    def _end_block(self, _: BlockEnd) -> tuple[bytes, ...]:
        self._unopened = None
        return () if self._kind is None else (self._close(),)

    def _close(self) -> bytes:
        last, self._last, self._kind = self._last, b"", None
        return last + _STOP % self._index

    def _end(self, item: MessageEnd) -> list[bytes]:
        self._ended = True
        events: list[bytes] = []
        if item.references and self._emit_code_references:
            events.append(_event("code_references", references=list(item.references)))
        usage = render_usage(item.usage)
        if item.usage.tier is self._tier:  # it stands in the start, as the API has it
            usage.pop("service_tier", None)
        if not item.usage.prompt_tokens:
            usage = {name: count for name, count in usage.items() if name.startswith("output")}
        end: dict[str, Any] = {"delta": render_stop(item), "usage": usage}
        for members in reversed(self._late):
            restore(end, {name: value for name, value in members.items() if name not in ("type", "message")})
            restore(end, {"delta": members.get("message", {})})
        end["usage"] = _with_tally(end["usage"], self._results)
        return [*events, _event("message_delta", **end), _END]


_STEPS: Final = MappingProxyType[type[Event], Callable[[AnthropicEncoder, Any], Iterable[bytes]]](
    {
        MessageStart: AnthropicEncoder._start,
        BlockStart: AnthropicEncoder._start_block,
        RefusalDelta: AnthropicEncoder._refusal,
        Citation: AnthropicEncoder._cite,
        MessageMembers: AnthropicEncoder._keep_members,
        BlockMembers: AnthropicEncoder._add_members,
        OpaqueEvent: AnthropicEncoder._pass_event,
        SignatureDelta: AnthropicEncoder._sign,
        BlockEnd: AnthropicEncoder._end_block,
        MessageEnd: AnthropicEncoder._end,
    }
)
"""The events that are no pieces."""
