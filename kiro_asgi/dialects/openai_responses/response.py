"""The response object, its output items and their parts, collected or as they grow.

An item is shown twice, when it opens and when it is done, and once more in the response object: with the same id, which
names its response and its place in the output.

A stream that breaks off ends with an ``error`` event, then ``response.failed``; clients differ in which of the two they
read.  The official SDKs raise at an ``error`` event that has an object under ``error``; Codex knows ``response.failed``
alone, and of that the code, and how long to wait from the message.

Sources: https://platform.openai.com/docs/api-reference/responses/object;
https://platform.openai.com/docs/api-reference/responses-streaming,
https://platform.openai.com/docs/api-reference/responses-streaming/error
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from types import MappingProxyType
from typing import Any, Final

from attrs import define, evolve, field, frozen

from kiro_asgi.dialects.base import ErrorReply, ResponseMeta
from kiro_asgi.dialects.errors import SPENT, is_final
from kiro_asgi.dialects.openai_common import error_reply, openai_message
from kiro_asgi.dialects.openai_responses.parsing import ResponsesOptions, options_of
from kiro_asgi.dialects.openai_responses.tools import item_fields
from kiro_asgi.dialects.pieces import Pieces, closing, compact, dump_array, dump_object, dump_text
from kiro_asgi.dialects.tools import text_given
from kiro_asgi.errors import (
    ContextTooLong,
    KiroAsgiError,
    LimitReached,
    RequestError,
    UpstreamRejected,
    UpstreamThrottled,
)
from kiro_asgi.model.events import BlockStart, StopReason, Usage
from kiro_asgi.model.unread import restore
from kiro_asgi.wire.json import dumps

INCOMPLETE: Final = MappingProxyType(
    {
        StopReason.LENGTH: "max_output_tokens",
        StopReason.CONTEXT_FULL: "max_output_tokens",
        StopReason.PAUSED: "max_output_tokens",
        StopReason.COMPACTED: "max_output_tokens",
        StopReason.CONTENT_FILTER: "content_filter",
    }
)
"""Why an answer is not complete; after any other stop it is."""


_NONE: Final = MappingProxyType[str, Any]({})

UNFINISHED: Final = ("queued", "in_progress")
"""Statuses of a response that is still to be made."""


@frozen
class ResponseOutcome:
    """The state of an answer."""

    status: str = "in_progress"
    error: dict[str, Any] | None = None
    incomplete_details: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    tier: str = ""
    """Word for the service tier that answered; empty where that is not known."""

    completed_at: int | None = None
    """Seconds since the epoch; only of one that is complete."""


@frozen
class RenderedResponse:
    """The JSON of one response, apart at its output."""

    before: bytes
    """All that stands before the output, its name included."""

    items: Sequence[tuple[str, Sequence[bytes]]]
    """Ids of the items of the output, and their JSON."""

    after: bytes


class ResponseObject:
    """Renders one response, again and again; what does not change is rendered once.

    Args:
        meta: Facts of the answer, with the `ResponsesOptions` of its request.
    """

    __slots__ = ("_after_tier", "_before_tier", "_own", "id")

    def __init__(self, meta: ResponseMeta) -> None:
        self.id = meta.id
        facts = {
            "id": meta.id,
            "object": "response",
            "created_at": meta.created,
            "model": meta.model,
        }
        before, after = _echo(options_of(meta))
        self._own = {*facts, *before, *after, "output"}
        self._before_tier = dumps({**facts, **before})[:-1]
        self._after_tier = dumps(after)[1:-1]

    def render(self, outcome: ResponseOutcome, items: Iterable[Pieces], others: Mapping[str, Any] = _NONE) -> Pieces:
        """The object with *items* for its output; the first piece ends where that begins, the last follows it.

        Args:
            outcome: The state of the answer.
            items: JSON of each.
            others: Members that are not understood; where it has a member of the same name, that counts, and objects
                are merged.
        """
        state: dict[str, Any] = {
            "status": outcome.status,
            "completed_at": outcome.completed_at,
            "error": outcome.error,
            "incomplete_details": outcome.incomplete_details,
        }
        end: dict[str, Any] = {"usage": outcome.usage}
        if others:
            restore(state, {name: others[name] for name in state if name in others})
            own = {*self._own, *state, "service_tier"}
            restore(end, {name: value for name, value in others.items() if name not in own})
        tier = dumps(others.get("service_tier", outcome.tier or "default"))
        facts = b'%b,"service_tier":%b,%b' % (self._before_tier, tier, self._after_tier)
        before = b'%b,%b,"output":' % (facts, dumps(state)[1:-1])
        return Pieces((before, *dump_array(items), closing(end)))


def usage_object(usage: Usage) -> dict[str, Any]:
    """Token counts; here, unlike in `Usage`, the input includes what was read from or written to a cache."""
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.thinking_tokens},
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
    }


def _echo(options: ResponsesOptions) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fields of the request that the object repeats, before and behind ``service_tier``, which the service sets."""
    before = {
        "background": options.background,
        **({} if options.conversation is None else {"conversation": {"id": options.conversation}}),
        "frequency_penalty": options.frequency_penalty,
        "instructions": options.instructions,
        "max_output_tokens": options.max_output_tokens,
        "max_tool_calls": options.max_tool_calls,
        "metadata": dict(options.metadata),
        "parallel_tool_calls": options.parallel_tool_calls,
        "presence_penalty": options.presence_penalty,
        "previous_response_id": options.previous_response_id,
        "prompt_cache_key": options.prompt_cache_key,
        "reasoning": {name: options.reasoning.get(name) for name in ("effort", "summary")},
        "safety_identifier": options.safety_identifier,
    }
    after = {
        "store": options.store,
        "temperature": options.temperature,
        "text": {**options.text, "format": dict(options.text["format"])},
        "tool_choice": options.tool_choice,
        "tools": list(options.tools),
        "top_logprobs": options.top_logprobs,
        "top_p": options.top_p,
        "truncation": options.truncation,
        "user": options.user,
    }
    return before, after


_PREFIXES: Final = MappingProxyType(
    {
        "message": "msg",
        "reasoning": "rs",
        "function_call": "fc",
        "custom_tool_call": "ctc",
        "local_shell_call": "lsh",
        "shell_call": "sh",
        "apply_patch_call": "apc",
        "tool_search_call": "tsc",
        "web_search_call": "ws",
        "compaction": "cmp",
        "computer_call": "cu",
        "code_interpreter_call": "ci",
        "file_search_call": "fs",
        "image_generation_call": "ig",
        "mcp_approval_request": "mcpr",
        "mcp_call": "mcp",
        "mcp_list_tools": "mcpl",
    }
)
"""Kind of item to how its ids begin."""


_NO_CALLS: Final = ("message", "reasoning", "compaction")
"""Kinds of item that are no calls."""


def item_id(response_id: str, kind: str, index: int) -> str:
    """The id of the item of a *kind* that stands at *index* in the output of a response, ``resp_…``.

    ``msg_0123abcd_2`` is a message, the third item of ``resp_0123abcd``.
    """
    return f"{_PREFIXES.get(kind, 'item')}_{response_id.removeprefix('resp_')}_{index}"


# Items that are made of parts.


@frozen
class PartShape:
    """A kind of part, and the names of its events, without the ``response.`` before them."""

    kind: str
    member: str
    """Name of its only text."""

    events: str
    """``<events>.delta`` and ``<events>.done`` bring the text."""

    added: str = "content_part"
    """``<added>.added`` and ``<added>.done`` stand around those."""

    place: Mapping[str, Any] = MappingProxyType({"content_index": 0})
    """Which part of the item an event is about."""

    also: bytes = b""
    """Further members of events with text: JSON, from the comma on."""

    def part(self, text: Pieces, annotations: Sequence[Any] = (), others: Mapping[str, Any] = _NONE) -> Pieces:
        """The part, with *others*, members that are not understood."""
        also = self.also if "logprobs" not in others else b""
        marks = b',"annotations":%b%b' % (dumps(annotations), also) if self.also else b""
        own = ("type", self.member, "annotations")
        given = {name: value for name, value in others.items() if name not in own}
        end = marks + closing(given)
        return Pieces((b'{"type":"%b","%b":' % (self.kind.encode(), self.member.encode()), *text, end))


TEXT: Final = PartShape("output_text", "text", "output_text", also=b',"logprobs":[]')

REFUSAL: Final = PartShape("refusal", "refusal", "refusal")

REASONING: Final = PartShape("reasoning_text", "text", "reasoning_text")

SUMMARY: Final = PartShape(
    "summary_text",
    "text",
    "reasoning_summary_text",
    "reasoning_summary_part",
    MappingProxyType({"summary_index": 0}),
)


def message(parts: Sequence[Pieces], status: str, phase: str = "") -> dict[str, Any]:
    """Fields of the model's message, of at most one of *parts*, with a *phase* where the service names it."""
    fields = {"type": "message", "status": status, "role": "assistant", "content": _listed(parts)}
    return {**fields, "phase": phase} if phase else fields


def reasoning(shape: PartShape, parts: Sequence[Pieces], sealed: str = "") -> dict[str, Any]:
    """Fields of the model's thinking.

    Args:
        shape: Whether *parts* are its summary or the thinking itself.
        parts: At most one.
        sealed: Its ``encrypted_content``; empty where there is none, or the client did not ask for it.
    """
    shown = _listed(parts)
    fields: dict[str, Any] = {"type": "reasoning", "summary": shown if shape is SUMMARY else []}
    if shape is REASONING and parts:
        fields["content"] = shown
    if sealed:
        fields["encrypted_content"] = sealed
    return fields


def _listed(parts: Sequence[Pieces]) -> Pieces | list[Any]:
    return Pieces(dump_array(parts)) if parts else []


# Calls.


def function_fields(
    start: BlockStart, options: ResponsesOptions, arguments: Pieces, status: str = "in_progress"
) -> dict[str, Any]:
    """Fields of a call of a function.

    Args:
        start: Names it.
        options: Say which tools have another name for the client.
        arguments: What there is of them, as JSON of their text.
        status: Of the call, not of its result.
    """
    return {"type": "function_call", "status": status, **_named(start, options), "arguments": arguments}


def call_fields(start: BlockStart, options: ResponsesOptions, arguments: str) -> dict[str, Any]:
    """Fields of a complete call of a tool that is no function; *options* name the kind of its items."""
    if kind := options.client_tools.get(start.name):
        return {"type": kind, "status": "completed", "call_id": start.call_id, **item_fields(kind, arguments)}
    text = Pieces(dump_text(text_given(arguments)))
    return {"type": "custom_tool_call", "status": "completed", **_named(start, options), "input": text}


def _named(start: BlockStart, options: ResponsesOptions) -> dict[str, Any]:
    namespace, name = options.namespaces.get(start.name, ("", start.name))
    return {"call_id": start.call_id, **({"namespace": namespace} if namespace else {}), "name": name}


@frozen
class Place:
    """Where an item is."""

    index: int
    id: str

    @property
    def fields(self) -> dict[str, Any]:
        """Fields of every event about the item."""
        return {"item_id": self.id, "output_index": self.index}


@define
class OutputItems:
    """Makes the events of one response."""

    _object: ResponseObject
    response: Pieces = field(init=False, factory=Pieces)
    """The response object as it was sent last."""

    _shown: list[tuple[str, Pieces]] = field(init=False, factory=list)
    """The items in it, by their ids."""

    numbers: Iterator[int] = field(factory=count)
    """Of events, without gaps; from 0, unless this goes on with an answer."""

    _kinds: list[str] = field(init=False, factory=list)
    """Of the items that have begun, in their order."""

    _items: dict[int, Pieces] = field(init=False, factory=dict)
    """Those that are done, by their places."""

    _open: dict[int, Pieces] = field(init=False, factory=dict)
    """Those that are not, as they were sent last."""

    _held: tuple[Place, dict[str, Any]] | None = field(init=False, default=None)
    members: dict[str, Any] = field(init=False, factory=dict)
    """Of the response, that are not understood."""

    @property
    def rendered(self) -> RenderedResponse:
        """The response object as it was sent last."""
        return RenderedResponse(self.response[0], self._shown, self.response[-1])

    def has(self, kind: str) -> bool:
        """Whether an item of this *kind* has begun."""
        return kind in self._kinds

    @property
    def has_answer(self) -> bool:
        """Whether an item has begun, apart from a compaction."""
        return any(kind != "compaction" for kind in self._kinds)

    @property
    def awaits_client(self) -> bool:
        """Whether there is a call for the client to run; the web search is run on the way."""
        return not {*_NO_CALLS, "web_search_call"}.issuperset(self._kinds)

    def event(self, name: str, fields: Mapping[str, Any]) -> list[bytes]:
        """One event."""
        first, *rest = dump_object(fields)
        return self.frame(name, first[1:], *rest)

    def frame(self, name: str, *rest: bytes) -> list[bytes]:
        """One event, in one piece unless it is long; *rest* is JSON of its fields, from behind the opening brace on."""
        word = name.encode()
        head = b'event: %b\ndata: {"type":"%b","sequence_number":%d,' % (word, word, next(self.numbers))
        return compact([head, *rest, b"\n\n"])

    def add(self, kind: str, fields: Mapping[str, Any]) -> tuple[Place, list[bytes]]:
        """Begin an item, which is sent with *fields*; a message that was held is done before it."""
        released = self.release("completed", "" if kind in _NO_CALLS else "commentary")
        index = len(self._kinds)
        self._kinds.append(kind)
        place = Place(index, item_id(self._object.id, kind, index))
        item = self._open[index] = dump_object({"id": place.id, **fields})
        return place, released + self._item_event("added", place, item)

    def done(self, place: Place, fields: Mapping[str, Any]) -> list[bytes]:
        """End an item; *fields* are all of it, its id apart."""
        item = self._items[place.index] = dump_object({"id": place.id, **fields})
        self._open.pop(place.index, None)
        return self._item_event("done", place, item)

    def _item_event(self, name: str, place: Place, item: Pieces) -> list[bytes]:
        return self.frame(f"response.output_item.{name}", b'"output_index":%d,"item":' % place.index, *item, b"}")

    def hold(self, place: Place, message: dict[str, Any]) -> None:
        """End a message later: only the last one can be incomplete, and which is the last shows later."""
        self._held = place, message
        self._open[place.index] = dump_object({"id": place.id, **message, "status": "in_progress"})

    def release(self, status: str, phase: str = "") -> list[bytes]:
        """End the message that was held, if there is one.

        Args:
            status: Of the message.
            phase: Where the service has not named one: ``commentary`` before a call, ``final_answer`` where no call is
                open; empty where neither is certain.
        """
        if self._held is None:
            return []
        (place, message), self._held = self._held, None
        if phase:
            message.setdefault("phase", phase)
        return self.done(place, {**message, "status": status})

    def snapshot(self, outcome: ResponseOutcome, *names: str) -> list[bytes]:
        """The whole response as it stands, in an event of each name."""
        self._shown = [
            (item_id(self._object.id, self._kinds[index], index), self._items[index]) for index in sorted(self._items)
        ]
        self.response = self._object.render(outcome, [item for _, item in self._shown], self.members)
        events: list[bytes] = []
        for name in names:
            events += self.frame(f"response.{name}", b'"response":', *self.response, b"}")
        return events

    def progress(self) -> bytes:
        """One more event that the response is in progress, with all of its items as they stand.

        Clients may take it for the whole of what has come: https://github.com/openai/openai-node, ``ResponseStream``.
        """
        items = {**self._items, **self._open}
        response = self._object.render(ResponseOutcome(), [items[index] for index in sorted(items)], self.members)
        return b"".join(self.frame("response.in_progress", b'"response":', *response, b"}"))


_CODES: Final = MappingProxyType[type[KiroAsgiError], str](
    {
        KiroAsgiError: "server_error",
        RequestError: "invalid_prompt",
        ContextTooLong: "context_length_exceeded",
        UpstreamRejected: "invalid_prompt",
        LimitReached: "rate_limit_exceeded",
        UpstreamThrottled: "rate_limit_exceeded",
        **dict.fromkeys(SPENT, "insufficient_quota"),
    }
)
"""The nearest class along an error's method resolution order decides.  Clients try a ``server_error`` again."""


def refusal(error: KiroAsgiError) -> ErrorReply:
    """The HTTP answer to *error* before the first byte, which a WebSocket repeats in a frame.

    A spent quota is 429 in this API, as in OpenAI's own: Codex stops there at once, and asks again after a 402.
    """
    reply = error_reply(error)
    return evolve(reply, status=429) if isinstance(error, SPENT) else reply


def failure(error: KiroAsgiError) -> dict[str, Any]:
    """The ``error`` of a response that has failed."""
    code = next(_CODES[cls] for cls in type(error).__mro__ if cls in _CODES)
    waits = error.retry_after is not None and not is_final(error)
    wait = f" Please try again in {error.retry_after:g}s." if waits else ""
    return {"code": code, "message": openai_message(error) + wait}


def error_fields(error: KiroAsgiError) -> dict[str, Any]:
    """The fields of the ``error`` event: flat, as documented, and the object that makes SDKs raise."""
    common = {"message": openai_message(error), "param": error.param or None}
    return {
        "code": failure(error)["code"],
        **common,
        "error": {**common, "type": "server_error", "code": "stream_error"},
    }
