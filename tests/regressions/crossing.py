"""Any upstream's bytes in front of any client API, and what the client makes of them, in no format.

A stream is read by the grammar of its API, which is a checker: an illegal stream fails wherever it is heard.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from types import MappingProxyType
from typing import Any

import pytest
from attrs import define, field, frozen

from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.base import Dialect, ResponseMeta
from kiro_asgi.dialects.gemini.dialect import GeminiStream
from kiro_asgi.dialects.gemini.parsing import GeminiOptions
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_chat.parsing import ChatOptions
from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses
from kiro_asgi.dialects.openai_responses.parsing import ResponsesOptions
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.events import Event
from kiro_asgi.model.message import fold
from kiro_asgi.model.signatures import UNSIGNED
from kiro_asgi.stages.answer import Plan, build_pipeline
from kiro_asgi.testing.grammar import gemini as gemini_grammar
from kiro_asgi.testing.grammar import messages as anthropic_grammar
from kiro_asgi.upstreams.anthropic.upstream import AnthropicUpstream
from kiro_asgi.upstreams.base import Upstream
from kiro_asgi.upstreams.bedrock.answer import FRAMES
from kiro_asgi.upstreams.bedrock.upstream import BedrockUpstream
from kiro_asgi.upstreams.gemini.upstream import GeminiUpstream
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream
from kiro_asgi.upstreams.openai.upstream import OpenAIUpstream, ResponsesUpstream
from tests.dialects.openai_chat import grammar as chat_grammar
from tests.dialects.openai_responses import grammar as responses_grammar

SSE = "text/event-stream"
PLAN = Plan(drop_equal_tool_calls=False)
"""As the gateway's for services whose every call is meant."""


def ids() -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"new_{next(numbers)}"


UPSTREAMS: Mapping[str, Callable[[], Upstream]] = MappingProxyType(
    {
        "gemini": lambda: GeminiUpstream(new_id=ids()),
        "anthropic": lambda: AnthropicUpstream(),
        "openai": lambda: OpenAIUpstream(new_id=ids()),
    }
)


SERVICES: Mapping[str, Callable[[], Upstream]] = MappingProxyType(
    {
        **UPSTREAMS,
        "responses": lambda: ResponsesUpstream(new_id=ids()),
        "bedrock": lambda: BedrockUpstream(),
        "kiro": lambda: KiroUpstream(),
    }
)
"""All of them; `tests.regressions.speech.written` gives their bytes."""

_TYPES = MappingProxyType(dict.fromkeys(("bedrock", "kiro"), FRAMES))


@define
class Heard:
    """What a client has in the end."""

    text: str = ""
    thinking: str = ""
    calls: list[tuple[str, Any]] = field(factory=list)
    """Name and arguments."""

    ids: list[str] = field(factory=list)
    signatures: list[str] = field(factory=list)
    order: list[str] = field(factory=list)
    """``text``, ``thinking`` and ``call`` as they came, neighbours of a kind once; a body of Chat has no order."""

    end: str = ""
    """``end``, ``call``, ``length``, ``filter`` or ``error``."""

    usage: tuple[int, int, int] | None = None
    """Prompt with what was cached, what was cached, output; ``None`` where the client is told of none."""

    def show(self, kind: str) -> None:
        """Something of *kind* came."""
        if self.order[-1:] != [kind]:
            self.order.append(kind)


ENDS = {
    "end_turn": "end", "tool_use": "call", "max_tokens": "length", "refusal": "filter", "stop_sequence": "end",
    "STOP": "end", "MAX_TOKENS": "length", "SAFETY": "filter",
    "stop": "end", "tool_calls": "call", "length": "length", "content_filter": "filter",
    "model_context_window_exceeded": "length",
}  # fmt: skip
"""The words of the APIs that have one word for it."""


def _hear_messages(body: dict[str, Any]) -> Heard:
    heard, usage = Heard(end=ENDS[body["stop_reason"]]), body["usage"]
    for block in body["content"]:
        if block["type"] == "text" and block["text"]:
            heard.text += block["text"]
            heard.show("text")
        elif block["type"] == "thinking":
            heard.thinking += block["thinking"]
            heard.signatures += [block["signature"]] if block["signature"] not in ("", UNSIGNED) else []
            heard.show("thinking")
        elif block["type"] == "tool_use":
            heard.calls.append((block["name"], block["input"]))
            heard.ids.append(block["id"])
            heard.show("call")
    cached = usage.get("cache_read_input_tokens") or 0
    read = usage["input_tokens"] + cached + (usage.get("cache_creation_input_tokens") or 0)
    heard.usage = read, cached, usage["output_tokens"]
    return heard


def _hear_message(message: dict[str, Any], finish: str, usage: dict[str, Any]) -> Heard:
    heard = Heard(message.get("content") or "", message.get("reasoning_content") or "", end=ENDS[finish])
    for call in message.get("tool_calls") or ():
        heard.calls.append((call["function"]["name"], json.loads(call["function"]["arguments"])))
        heard.ids.append(call["id"])
        signature = call.get("extra_content", {}).get("google", {}).get("thought_signature")
        heard.signatures += [signature] if signature else []
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    heard.usage = usage["prompt_tokens"], cached, usage["completion_tokens"]
    return heard


def _hear_chunks(stream: bytes) -> Heard:
    chunks = chat_grammar.check(stream)
    if chunks and "error" in chunks[-1]:
        return Heard(end="error")
    folded = chat_grammar.fold(chunks)
    extras = {
        call["id"]: {"extra_content": call["extra_content"]}
        for chunk in chunks
        for choice in chunk["choices"]
        for call in choice["delta"].get("tool_calls", ())
        if "extra_content" in call
    }
    for call in folded["message"].get("tool_calls", ()):
        call |= extras.get(call["id"], {})
    heard = _hear_message(folded["message"], folded["finish_reason"], folded["usage"])
    for delta in (choice["delta"] for chunk in chunks for choice in chunk["choices"]):
        for name, kind in (("reasoning_content", "thinking"), ("content", "text"), ("tool_calls", "call")):
            if delta.get(name):
                heard.show(kind)
    return heard


def _hear_response(response: dict[str, Any]) -> Heard:
    if response["status"] == "failed":
        return Heard(end="error")
    heard = Heard()
    for item in response["output"]:
        match item["type"]:
            case "message":
                heard.text += "".join(part.get("text", "") for part in item["content"])
                heard.show("text")
            case "reasoning":
                heard.thinking += "".join(part["text"] for part in [*item["summary"], *(item.get("content") or ())])
                heard.show("thinking")
            case "function_call":
                heard.calls.append((item["name"], json.loads(item["arguments"])))
                heard.ids.append(item["call_id"])
                heard.show("call")
    incomplete = response["incomplete_details"]
    reasons = {"max_output_tokens": "length", "content_filter": "filter"}
    heard.end = reasons[incomplete["reason"]] if incomplete else "call" if heard.calls else "end"
    usage = response["usage"]
    heard.usage = usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"], usage["output_tokens"]
    return heard


def _hear_events(stream: bytes) -> Heard:
    if anthropic_grammar.parse_sse(stream)[-1]["type"] == "error":
        anthropic_grammar.check_cut(stream)
        return Heard(end="error")
    return _hear_messages(anthropic_grammar.check(stream))


def _hear_completion(body: dict[str, Any]) -> Heard:
    [choice] = body["choices"]
    return _hear_message(choice["message"], choice["finish_reason"], body["usage"])


def _hear_candidate(body: dict[str, Any]) -> Heard:
    [candidate] = body["candidates"]
    heard, usage = Heard(), body["usageMetadata"]
    for part in candidate["content"]["parts"]:
        signature = part.get("thoughtSignature", "")
        heard.signatures += [signature] if signature else []
        if "functionCall" in part:
            heard.calls.append((part["functionCall"]["name"], part["functionCall"]["args"]))
            heard.ids.append(part["functionCall"]["id"])
            heard.show("call")
        elif part.get("thought"):
            heard.thinking += part["text"]
            heard.show("thinking")
        elif part["text"]:
            heard.text += part["text"]
            heard.show("text")
    heard.end = ENDS[candidate["finishReason"]]
    heard.end = "call" if heard.calls and heard.end == "end" else heard.end
    output = usage["candidatesTokenCount"] + usage.get("thoughtsTokenCount", 0)
    heard.usage = usage["promptTokenCount"], usage.get("cachedContentTokenCount", 0), output
    return heard


def _hear_objects(stream: bytes) -> Heard:
    if b'"error"' in stream.rpartition(b"\n\n")[2]:
        gemini_grammar.check_cut(stream)
        return Heard(end="error")
    return _hear_candidate(gemini_grammar.check(gemini_grammar.events(stream)))


@frozen
class Client:
    """One API as its clients see it."""

    name: str
    dialect: Dialect
    options: Any
    of_stream: Callable[[bytes], Heard]
    of_body: Callable[[dict[str, Any]], Heard]

    @property
    def meta(self) -> ResponseMeta:
        return ResponseMeta("resp_1", "m", 12, self.options)


MESSAGES = Client("messages", AnthropicMessages(), None, _hear_events, _hear_messages)
CHAT = Client("chat", OpenAIChat(), ChatOptions(include_usage=True), _hear_chunks, _hear_completion)
RESPONSES = Client(
    "responses",
    OpenAIResponses(),
    ResponsesOptions(),
    lambda stream: _hear_response(responses_grammar.check(stream)[-1]["response"]),
    _hear_response,
)
GEMINI = Client("gemini", GeminiStream(), GeminiOptions(), _hear_objects, _hear_candidate)
CLIENTS = (MESSAGES, CHAT, RESPONSES, GEMINI)

each_client = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
each_service = pytest.mark.parametrize("service", SERVICES)
each_upstream = pytest.mark.parametrize("upstream", UPSTREAMS)
both_ways = pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "collected"])


def events(upstream: str, chunks: Iterable[bytes], plan: Plan = PLAN, content_type: str = "") -> Iterator[Event]:
    """The events of an answer, as long as it goes well; without a *content_type*, of a stream."""
    decoder = SERVICES[upstream]().decoder(content_type or _TYPES.get(upstream, SSE))
    answer = build_pipeline(decoder, plan)
    for chunk in chunks:
        yield from answer.feed([chunk])
    yield from answer.flush()


def told(client: Client, upstream: str, chunks: Iterable[bytes], plan: Plan = PLAN, content_type: str = "") -> bytes:
    """The stream that a client is sent.

    An answer that fails ends in band; one that fails before there is anything has no stream, but a status.
    """
    encoder = client.dialect.encoder(client.meta)
    sent: list[bytes] = []
    try:
        for event in events(upstream, chunks, plan, content_type):
            sent += encoder.feed([event])
        sent += encoder.flush()
    except KiroAsgiError as error:
        sent += [b"".join(encoder.error(error))] if sent else []
    return b"".join(sent)


def heard(
    client: Client,
    streamed: bool,
    upstream: str,
    chunks: Iterable[bytes],
    plan: Plan = PLAN,
    content_type: str = "",
) -> Heard:
    """What *client* has at the end of an answer that came as *chunks*."""
    if streamed:
        stream = told(client, upstream, chunks, plan, content_type)
        return client.of_stream(stream) if stream else Heard(end="error")
    try:
        message = fold(events(upstream, chunks, plan, content_type))
    except KiroAsgiError:
        return Heard(end="error")
    return client.of_body(json.loads(b"".join(client.dialect.render(message, client.meta))))
