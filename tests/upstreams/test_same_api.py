"""One API on both sides of a translated answer: what its reader does not understand reaches the client.

Every object of an answer gets a member that nobody knows, and every place where a block, an item, a part or an event
may stand gets one of an unknown kind; each value is one of its own, and has to be in what the client receives, but
for those that a notice names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, cast

import openai
import pytest
from anthropic._models import construct_type_unchecked
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import RawMessageStreamEvent
from attrs import evolve, frozen
from openai._models import construct_type_unchecked as openai_construct
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent

from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.base import Dialect, ResponseMeta
from kiro_asgi.dialects.gemini.dialect import GeminiApi, GeminiStream
from kiro_asgi.dialects.gemini.parsing import GeminiOptions
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_chat.parsing import ChatOptions
from kiro_asgi.dialects.openai_completions.dialect import OpenAICompletions
from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses
from kiro_asgi.dialects.openai_responses.parsing import ResponsesOptions
from kiro_asgi.errors import AnswerTooLarge
from kiro_asgi.model.budget import AnswerBudget
from kiro_asgi.model.events import Event, MessageEnd, Notice
from kiro_asgi.model.message import fold, replay
from kiro_asgi.stages.answer import Plan, build_pipeline
from kiro_asgi.stages.base import Stage
from kiro_asgi.upstreams.anthropic.answer import MessageEvents
from kiro_asgi.upstreams.anthropic.upstream import AnthropicUpstream
from kiro_asgi.upstreams.bedrock.claude import messages
from kiro_asgi.upstreams.gemini.answer import stages as gemini_stages
from kiro_asgi.upstreams.json_events import JsonEvent, JsonEvents
from kiro_asgi.upstreams.openai.answer import stages as chat_stages
from kiro_asgi.upstreams.openai.responses_answer import EventDecoder
from kiro_asgi.upstreams.openai.responses_answer import stages as responses_stages
from tests.conformance.responses_schema import sse_events

Json = dict[str, Any]
Stages = tuple[Stage[Any, Any], ...]
SSE = "text/event-stream"


def ids() -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"new_{next(numbers)}"


@frozen
class Api:
    """An API, as a service's and as a client's."""

    name: str
    decoder: Callable[[], Stages]
    streaming: Dialect
    collecting: Dialect
    meta: ResponseMeta
    answers: Mapping[str, Sequence[Json]]
    """Events of answers, by what is in them."""

    sentinel: bytes = b""

    def stream(self, events: Iterable[Json]) -> list[bytes]:
        """The service's bytes."""
        named = (b"event: %b\n" % event["type"].encode() if "type" in event else b"" for event in events)
        data = (json.dumps(event).encode() for event in events)
        return [b"%bdata: %b\n\n" % each for each in zip(named, data, strict=True)] + [self.sentinel]


def placed(index: int, block: Json, *deltas: Json) -> list[Json]:
    """The events of a block of the Messages API."""
    about = {"index": index}
    return [
        {"type": "content_block_start", **about, "content_block": block},
        *({"type": "content_block_delta", **about, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", **about},
    ]


def message(*blocks: list[Json], reason: str = "end_turn") -> list[Json]:
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
    usage = {"input_tokens": 7, "output_tokens": 1, "cache_creation": {"ephemeral_5m_input_tokens": 0}}
    return [
        {"type": "message_start", "message": {**head, "stop_reason": None, "stop_sequence": None, "usage": usage}},
        *(event for block in blocks for event in block),
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": {"output_tokens": 5, "server_tool_use": {"web_search_requests": 3}},
            "context_management": {"applied_edits": []},
        },
        {"type": "message_stop"},
    ]


PAGE = {"type": "web_search_result", "url": "https://a/", "title": "A", "encrypted_content": "QQ==", "page_age": None}
CITED = {"type": "web_search_result_location", "url": "https://a/", "title": "A", "cited_text": "a"}
TEXT = ({"type": "text_delta", "text": "It "}, {"type": "text_delta", "text": "is so."})
SIGNED = ({"type": "thinking_delta", "thinking": "hm"}, {"type": "signature_delta", "signature": "c2ln"})
ARGUMENTS = ({"type": "input_json_delta", "partial_json": '{"a":'}, {"type": "input_json_delta", "partial_json": "1}"})

MESSAGES = {
    "text": message(placed(0, {"type": "text", "text": ""}, *TEXT)),
    "texts": message(placed(0, {"type": "text", "text": ""}, *TEXT), placed(1, {"type": "text", "text": ""}, *TEXT)),
    "thinking": message(
        placed(0, {"type": "thinking", "thinking": "", "signature": ""}, *SIGNED),
        placed(1, {"type": "redacted_thinking", "data": "QQ=="}),
        placed(2, {"type": "text", "text": ""}, *TEXT),
    ),
    "calls": message(
        placed(0, {"type": "text", "text": ""}, *TEXT),
        placed(1, {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}, *ARGUMENTS),
        placed(2, {"type": "tool_use", "id": "toolu_2", "name": "f", "input": {}}),
        reason="tool_use",
    ),
    "search": message(
        placed(0, {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}, *ARGUMENTS),
        placed(1, {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [PAGE]}),
        placed(2, {"type": "text", "text": "", "citations": []}, *TEXT, {"type": "citations_delta", "citation": CITED}),
    ),
    "code": message(
        placed(0, {"type": "server_tool_use", "id": "srvtoolu_1", "name": "bash_code_execution"}, *ARGUMENTS),
        placed(1, {"type": "bash_code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": {"stdout": "x"}}),
        placed(2, {"type": "text", "text": ""}, *TEXT),
    ),
    "mcp": message(
        placed(0, {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "f", "input": {}}, *ARGUMENTS),
        placed(1, {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "content": [{"type": "text", "text": "x"}]}),
        placed(2, {"type": "compaction", "content": None}, {"type": "compaction_delta", "content": "All of it."}),
    ),
}


def chunks(*choices: Json, **more: Any) -> list[Json]:
    common = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    usage = {
        "prompt_tokens": 7,
        "completion_tokens": 5,
        "total_tokens": 12,
        "prompt_tokens_details": {"cached_tokens": 1, "audio_tokens": 3},
        "completion_tokens_details": {"accepted_prediction_tokens": 2},
    }
    return [
        *({**common, "choices": [{"index": 0, "finish_reason": None, **choice}]} for choice in choices),
        {**common, "choices": [], "usage": usage},
    ]


def call(index: int, **fields: Any) -> Json:
    return {"delta": {"tool_calls": [{"index": index, **fields}]}}


LOGGED = {"content": [{"token": "so", "logprob": -0.5, "bytes": None, "top_logprobs": []}], "refusal": None}
STOPPED = {"delta": {}, "finish_reason": "stop"}
CHAT = {
    "text": chunks({"delta": {"role": "assistant", "content": ""}}, {"delta": {"content": "It "}}, {"delta": {
        "content": "is so."}, "logprobs": LOGGED}, STOPPED),
    "thinking": chunks({"delta": {"reasoning_content": "hm"}}, {"delta": {"content": "a"}}, STOPPED),
    "calls": chunks(
        call(0, id="call_1", type="function", function={"name": "f", "arguments": ""}),
        call(0, function={"arguments": '{"a":1}'}),
        call(1, id="call_2", type="function", function={"name": "f", "arguments": "{}"}),
        {"delta": {}, "finish_reason": "tool_calls"},
    ),
    "refusal": chunks({"delta": {"role": "assistant", "refusal": "No."}}, STOPPED),
}  # fmt: skip


def responded(*items: tuple[Json, list[Json]]) -> list[Json]:
    """Items as they begin, and the events between; each is done as it began, but for `DONE`."""
    response = {"id": "resp_9", "object": "response", "model": "m", "output": [], "status": "in_progress"}
    usage = {"input_tokens": 7, "output_tokens": 5, "total_tokens": 12}
    events: list[Json] = [{"type": "response.created", "response": response}]
    for place, (item, between) in enumerate(items):
        about = {"item_id": item["id"], "output_index": place}
        begun = {**item, **{name: [] for name in ("content", "summary") if name in item}}
        events += [
            {"type": "response.output_item.added", "output_index": place, "item": begun},
            *({**event, **about} for event in between),
            {"type": "response.output_item.done", "output_index": place, "item": item},
        ]
    done = {**response, "status": "completed", "usage": usage, "output": [item for item, _ in items]}
    return [*events, {"type": "response.completed", "response": done}]


def written(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": []}


SAID = (
    {"id": "msg_1", "type": "message", "role": "assistant", "content": [written("It is so.")], "status": "completed"},
    [{"type": "response.output_text.delta", "content_index": 0, "delta": "It is so."}],
)
CALLED = (
    {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"},
    [{"type": "response.function_call_arguments.delta", "delta": "{}"}],
)
THOUGHT = (
    {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
    [{"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": "hm"}],
)
SEARCHED = (
    {
        "id": "ws_1",
        "type": "web_search_call",
        "status": "completed",
        "action": {"type": "search", "query": "q", "queries": ["q"]},
    },
    [{"type": "response.web_search_call.searching"}],
)
CHANCE = {"token": "so", "logprob": -0.5, "bytes": [115]}
TOKEN = {**CHANCE, "top_logprobs": [CHANCE]}
SOURCE = {"type": "url_citation", "url": "https://a/", "title": "A", "start_index": 0, "end_index": 2}
PARTS = (
    {
        **SAID[0],
        "content": [{**written("It "), "annotations": [SOURCE]}, {**written("is so."), "logprobs": [TOKEN]}],
    },
    [
        {"type": "response.content_part.added", "content_index": 0, "part": written("")},
        {"type": "response.output_text.delta", "content_index": 0, "delta": "It "},
        {"type": "response.output_text.annotation.added", "content_index": 0, "annotation": SOURCE},
        {"type": "response.output_text.done", "content_index": 0, "text": "It "},
        {"type": "response.content_part.done", "content_index": 0, "part": written("It ")},
        {"type": "response.content_part.added", "content_index": 1, "part": written("")},
        {"type": "response.output_text.delta", "content_index": 1, "delta": "is so.", "logprobs": [TOKEN]},
        {"type": "response.output_text.done", "content_index": 1, "text": "is so.", "logprobs": [TOKEN]},
        {"type": "response.content_part.done", "content_index": 1, "part": written("is so.")},
    ],
)
WORDS = [{**TOKEN, "token": word} for word in ("It ", "is ", "so.")]
CHANCES = (
    {**SAID[0], "content": [written("It "), written("is so.")]},
    [
        {"type": "response.output_text.delta", "content_index": 0, "delta": "It ", "logprobs": WORDS[:1]},
        {"type": "response.output_text.done", "content_index": 0, "text": "It "},
        {"type": "response.output_text.delta", "content_index": 1, "delta": "is ", "logprobs": WORDS[1:2]},
        {"type": "response.output_text.delta", "content_index": 1, "delta": "so.", "logprobs": WORDS[2:]},
        {"type": "response.output_text.done", "content_index": 1, "text": "is so."},
    ],
)
SUMMARY = {"type": "summary_text", "text": "hm"}
SUMMARIES = (
    {"id": "rs_1", "type": "reasoning", "summary": [SUMMARY, SUMMARY]},
    [
        {**event, "summary_index": place}
        for place in (0, 1)
        for event in (
            {"type": "response.reasoning_summary_part.added", "part": {**SUMMARY, "text": ""}},
            {"type": "response.reasoning_summary_text.delta", "delta": "hm"},
            {"type": "response.reasoning_summary_text.done", "text": "hm"},
            {"type": "response.reasoning_summary_part.done", "part": SUMMARY},
        )
    ],
)
ARGUED = (CALLED[0], [*CALLED[1], {"type": "response.function_call_arguments.done", "arguments": "{}", "name": "f"}])
RESPONSES = {
    "repeated": responded(SUMMARIES, PARTS, ARGUED),
    "text": responded(SAID),
    "thinking": responded(THOUGHT, SAID),
    "calls": responded(SAID, CALLED),
    "search": responded(SEARCHED, SAID),
}


def generated(*parts: Json) -> list[Json]:
    said = [{"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]} for part in parts]
    usage = {"promptTokenCount": 7, "candidatesTokenCount": 5, "totalTokenCount": 12}
    details = {"promptTokensDetails": [{"modality": "TEXT", "tokenCount": 7}]}
    end = {"candidates": [{"finishReason": "STOP", "index": 0, "avgLogprobs": -0.25}]}
    return [*said, {**end, "usageMetadata": {**usage, **details}, "modelVersion": "m", "responseId": "r"}]


GEMINI = {
    "text": generated({"text": "It "}, {"text": "is so."}),
    "thinking": generated({"text": "hm", "thought": True}, {"text": "a", "thoughtSignature": "c2ln"}),
    "calls": generated({"functionCall": {"name": "f", "args": {"a": 1}}}),
}

API = {
    "anthropic": Api(
        "anthropic",
        lambda: AnthropicUpstream().decoder(SSE),
        AnthropicMessages(),
        AnthropicMessages(),
        ResponseMeta("msg_2", "m", 1),
        MESSAGES,
    ),
    "invoke-model": Api(
        "anthropic",
        lambda: (JsonEvents(), messages()),
        AnthropicMessages(),
        AnthropicMessages(),
        ResponseMeta("msg_2", "m", 1),
        MESSAGES,
    ),
    "openai_chat": Api(
        "openai_chat",
        lambda: chat_stages(SSE, ids(), "custom"),
        OpenAIChat(),
        OpenAIChat(),
        ResponseMeta("chatcmpl-2", "m", 1, ChatOptions(include_usage=True)),
        CHAT,
        sentinel=b"data: [DONE]\n\n",
    ),
    "openai_responses": Api(
        "openai_responses",
        lambda: responses_stages(SSE, ids(), "openai"),
        OpenAIResponses(),
        OpenAIResponses(),
        ResponseMeta("resp_1", "m", 1, ResponsesOptions()),
        RESPONSES,
    ),
    "gemini": Api(
        "gemini",
        lambda: gemini_stages(SSE, ids()),
        GeminiStream(),
        GeminiApi(),
        ResponseMeta("r", "m", 1, GeminiOptions()),
        GEMINI,
    ),
}
EVERY = [pytest.param(API[name], answer, id=f"{name}-{answer}") for name, api in API.items() for answer in api.answers]
EACH = [pytest.param(api, id=name) for name, api in API.items()]
WAYS = ("streamed", "collected", "synthetic")


def plan(api: Api, way: str) -> Plan:
    return Plan(
        api=api.name,
        streamed_api=api.name if way == "streamed" else "",
        drop_equal_tool_calls=False,
        tool_emission="incremental" if way == "streamed" else "complete",
    )


def events_of(api: Api, events: Iterable[Json], planned: Plan) -> list[Event]:
    """The events of the answer that *api*'s service gives."""
    answer = build_pipeline(api.decoder(), planned)
    found: list[Event] = []
    for piece in api.stream(list(events)):
        found += answer.feed([piece])
    return [*found, *answer.flush()]


def received(api: Api, events: Iterable[Json], way: str) -> tuple[bytes, tuple[Notice, ...]]:
    """What its client gets, and the notices."""
    found = events_of(api, events, plan(api, way))
    end = found[-1]
    assert isinstance(end, MessageEnd)
    if way == "collected":
        return b"".join(api.collecting.render(fold(found), api.meta)), end.notices
    encoder = api.streaming.encoder(api.meta)
    shown = replay(fold(found)) if way == "synthetic" else found
    return b"".join([*(piece for event in shown for piece in encoder.feed([event])), *encoder.flush()]), end.notices


def with_members(value: Any, numbers: Iterator[int]) -> Any:
    """*value* with a member of its own in every object."""
    if isinstance(value, list):
        return [with_members(each, numbers) for each in value]
    if not isinstance(value, dict):
        return value
    number = next(numbers)
    members = {name: each if name in CONTENT else with_members(each, numbers) for name, each in value.items()}
    return {**members, f"x_{number}": f"lost-{number}."}


CONTENT = ("input", "args", "format", "tools", "tool_choice", "metadata")
"""Members that are arguments of a call, or that the client has written: to those no service adds members."""


def lost(sent: bytes, received: bytes, notices: Iterable[Notice]) -> list[str]:
    """Values that were sent and have neither arrived nor been named."""
    named = " ".join(notice.detail for notice in notices)
    values = {part.partition(".")[0] for part in sent.decode().split('"lost-')[1:]}
    return sorted(
        number
        for number in values
        if f'"lost-{number}."'.encode() not in received and f"x_{number}" not in named.replace(",", " ").split()
    )


@pytest.fixture(autouse=True)
def _responses_are_legal(_responses_judged: list[str]) -> Iterator[None]:
    """Events of the Responses API are as its schema has them, but for the kinds that nobody knows."""
    _responses_judged.clear()
    yield
    assert not [problem for problem in _responses_judged if not any(word in problem for word in UNKNOWN)]


UNKNOWN = ("hologram", "new_thing")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("api", "answer"), EVERY)
def test_members_that_nobody_knows_reach_the_client(api: Api, answer: str, way: str) -> None:
    """One in every object of an answer, streamed, collected, and streamed when it is complete.

    Progress of an item that is not understood has no place in an answer that is sent whole.
    """
    numbers = count(1)
    events = [
        each if way == "collected" and "searching" in each.get("type", "") else with_members(each, numbers)
        for each in api.answers[answer]
    ]  # fmt: skip
    found, notices = received(api, events, way)

    assert lost(json.dumps(events).encode(), found, notices) == []


# Text that has members before its first word, or no word at all.


def text_with(api: Api, pieces: Sequence[str], numbers: Iterator[int]) -> list[Json]:
    """An answer of one text, each of whose *pieces* comes with a member."""

    def new() -> Json:
        number = next(numbers)
        return {f"x_{number}": f"lost-{number}."}

    if api.name == "anthropic":
        deltas = [{"type": "text_delta", "text": piece, **new()} for piece in pieces]
        return message(placed(0, {"type": "text", "text": "", **new()}, *deltas))
    if api.name == "openai_chat":
        return chunks(*({"delta": {"content": piece, **new()}} for piece in pieces), STOPPED)
    if api.name == "openai_responses":
        part = {"type": "output_text", "text": "".join(pieces), "annotations": [], **new()}
        deltas = [
            {"type": "response.output_text.delta", "content_index": 0, "delta": piece, **new()} for piece in pieces
        ]
        return responded(({**SAID[0], "content": [part]}, deltas))
    return generated(*({"text": piece, **new()} for piece in pieces))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("before", [0, 1, 63, 64, 65, 700])
@pytest.mark.parametrize("api", EACH)
def test_members_before_the_first_word_reach_the_client(api: Api, before: int, way: str) -> None:
    """However many objects of them there are, and blanks; and so do the blanks."""
    for blank in ("", "\n"):
        events = text_with(api, [*[blank] * before, "It", " is."], count(1))
        found, notices = received(api, events, way)

        assert lost(json.dumps(events).encode(), found, ()) == []
        assert not notices
        if way == "collected":
            assert found.count(json.dumps(blank)[1:-1].encode()) == before or not blank


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("pieces", [[], [""], [" "], ["", "\n"], ["\n"] * 3])
@pytest.mark.parametrize("api", EACH)
def test_members_of_a_text_without_a_word_are_delivered_or_named(api: Api, pieces: list[str], way: str) -> None:
    """No client of the Messages API gets such a text, so a notice has the names: an answer with nothing else is still
    an answer."""
    events = text_with(api, pieces, count(1))
    found, notices = received(api, events, way)

    assert lost(json.dumps(events).encode(), found, notices) == []
    assert {notice.code for notice in notices} <= {"members.unknown"}


def test_what_a_text_without_a_word_had_beside_members_is_named() -> None:
    """A piece of an unknown kind by its kind, sources as such."""
    empty = {"type": "text", "text": ""}
    for pieces, notice in (
        ([{"type": "hologram_delta", "of": 1}], Notice("delta.unknown", "hologram_delta")),
        ([{"type": "citations_delta", "citation": CITED}], Notice("members.unknown", "citations")),
    ):
        said = message(placed(0, empty, *pieces), placed(1, empty, *TEXT))
        for way in WAYS:
            found, notices = received(API["anthropic"], said, way)
            assert notices == (notice,)
            assert b"hologram" not in found and CITED["url"].encode() not in found


def test_members_of_what_is_not_there_are_named() -> None:
    """Of a piece without a block, and of sealed thinking without a seal."""
    stray = {"type": "content_block_delta", "index": 7, "delta": {"type": "text_delta", "text": "a", "x_1": 1}}
    [head, *rest] = message(placed(0, {"type": "redacted_thinking", "data": "", "x_2": 1}), placed(1, {
        "type": "text", "text": ""}, *TEXT))  # fmt: skip
    _, notices = received(API["anthropic"], [head, stray, *rest], "streamed")

    assert notices == (Notice("members.unknown", "x_1"), Notice("members.unknown", "x_2"))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("api", "answer"), EVERY)
def test_what_is_said_again_is_not_named(api: Api, answer: str, way: str) -> None:
    """A member that all objects have reaches the client: no notice says that another place of it was passed over."""
    events = [
        json.loads(re.sub('"x_[0-9]+": "lost-[0-9]+."', '"x": "lost-1."', json.dumps(with_members(each, count(1)))))
        for each in api.answers[answer]
    ]
    found, notices = received(api, events, way)

    assert lost(json.dumps(events).encode(), found, ()) == []
    assert not [notice for notice in notices if notice.code == "members.unknown"]


def test_what_the_request_has_is_not_looked_into() -> None:
    """A response repeats it: members of tools and schemas are the client's own."""
    [created, *rest] = RESPONSES["text"]
    tools = [{"type": "function", "name": "f", "parameters": {"properties": {"x": {"y": 1}}}}]
    echoed = {"tools": tools, "metadata": {"a": "b"}, "text": {"format": {"schema": {"z": 1}}}, "user": None}
    created = {**created, "response": {**created["response"], **echoed}}

    assert received(API["openai_responses"], [created, *rest], "streamed")[1] == ()


def unknown_block(api: Api, value: str) -> list[Json]:
    """The events of something whole, of a kind that nobody knows."""
    if api.name == "anthropic":
        pieces = {"type": "text_delta", "text": value}, {"type": "hologram_delta", "hologram": value}
        return placed(99, {"type": "hologram", "of": value}, *pieces)
    if api.name == "openai_responses":
        item, about = {"id": "ho_1", "type": "hologram", "of": value}, {"item_id": "ho_1", "output_index": 99}
        return [
            {"type": "response.output_item.added", "output_index": 99, "item": item},
            {"type": "response.hologram.delta", **about, "delta": value},
            {"type": "response.output_item.done", "output_index": 99, "item": item},
        ]
    if api.name == "gemini":
        return [{"candidates": [{"content": {"role": "model", "parts": [{"hologram": {"of": value}}]}, "index": 0}]}]
    return [{"choices": [{"index": 0, "delta": {"hologram": {"of": value}}, "finish_reason": None}]}]


def places(api: Api, events: Sequence[Json]) -> Iterator[int]:
    """Where something whole may stand: behind the first event, before the last, and outside of blocks."""
    is_open = 0
    for place, event in enumerate(events[:-1]):
        kind = event.get("type", "")
        is_open += kind in ("content_block_start", "response.output_item.added")
        is_open -= kind in ("content_block_stop", "response.output_item.done")
        if not is_open and kind != "message_delta":
            yield place + 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("api", "answer"), EVERY)
def test_a_block_that_nobody_knows_reaches_the_client(api: Api, answer: str, way: str) -> None:
    """Wherever it stands; and a notice that it was passed over would not be true."""
    events = api.answers[answer]
    for place in places(api, events):
        unknown = unknown_block(api, f"lost-{place}.")
        found, notices = received(api, [*events[:place], *unknown, *events[place:]], way)

        assert lost(json.dumps(unknown).encode(), found, ()) == []
        assert b"hologram" in found
        assert not [notice for notice in notices if "hologram" in notice.detail]


NEW_EVENT = {
    "anthropic": {"type": "new_thing", "of": {"deep": ["lost-1."]}},
    "openai_responses": {"type": "response.new_thing", "of": {"deep": ["lost-1."]}},
}


@pytest.mark.parametrize(("api", "answer"), [each for each in EVERY if each.values[0].name in NEW_EVENT])
def test_an_event_that_nobody_knows_reaches_who_streams(api: Api, answer: str) -> None:
    """At any place; who gets the answer whole gets a notice, as there is no place for it."""
    events = api.answers[answer]
    for place in range(1, len(events)):
        given = [*events[:place], NEW_EVENT[api.name], *events[place:]]
        found, notices = received(api, given, "streamed")
        assert b'{"deep":["lost-1."]}' in found
        assert notices == received(api, events, "streamed")[1]
        for way in ("collected", "synthetic"):
            assert Notice("event.unknown", NEW_EVENT[api.name]["type"]) in received(api, given, way)[1]


@pytest.mark.parametrize("api", EACH)
def test_another_api_gets_nothing_of_it(api: Api) -> None:
    """Neither members nor blocks; what was passed over is named there, as it always was."""
    numbers = count(1)
    for answer in api.answers.values():
        given = [*answer[:-1], *unknown_block(api, "unseen"), answer[-1]] if api.name != "anthropic" else [
            *answer[:-2], *unknown_block(api, "unseen"), *answer[-2:]
        ]  # fmt: skip
        events = [with_members(each, numbers) for each in given]
        found = events_of(api, events, evolve(plan(api, "streamed"), api="another", streamed_api="another"))
        assert isinstance(found[-1], MessageEnd)
        assert any("hologram" in notice.detail for notice in found[-1].notices)
        for dialect in (AnthropicMessages(), OpenAIChat(), OpenAIResponses(), GeminiStream(), OpenAICompletions()):
            if dialect.name != api.name:
                encoder = dialect.encoder(ResponseMeta("resp_1", "m", 1))
                written = b"".join(piece for event in found for piece in encoder.feed([event]))
                assert b'"lost-' not in written


# The official clients.


def whole_message(events: Iterable[Json]) -> Any:
    """What Anthropic's client makes of a stream."""
    known = {f"{name}_{end}" for name in ("message", "content_block") for end in ("start", "delta", "stop")}
    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    for event in events:
        if event["type"] in known:
            value: Any = construct_type_unchecked(value=event, type_=cast("Any", RawMessageStreamEvent))
            snapshot = accumulate_event(event=value, current_snapshot=snapshot, json_bufs=buffers)
    return snapshot.content


def whole_completion(events: Iterable[Json]) -> Any:
    """What OpenAI's client makes of chunks."""
    state: Any = ChatCompletionStreamState()
    for event in events:
        state.handle_chunk(ChatCompletionChunk.model_validate(event))
    return state.current_completion_snapshot.choices


def whole_response(events: Iterable[Json]) -> Any:
    """What OpenAI's client makes of the events of a response."""
    state: Any = ResponseStreamState(input_tools=openai.omit, text_format=openai.omit)
    last: Any = None
    for event in events:
        [*_, last] = state.handle_event(openai_construct(value=event, type_=cast("Any", ResponseStreamEvent)))
    return last.response.output


OFFICIAL = {
    "anthropic": (whole_message, "content"),
    "openai_chat": (whole_completion, "choices"),
    "openai_responses": (whole_response, "output"),
}
"""API to its client, and the member with what the model has made."""


@pytest.mark.parametrize(("api", "answer"), [each for each in EVERY if each.values[0].name in OFFICIAL])
def test_official_clients_read_it(api: Api, answer: str) -> None:
    """What they put together of a stream has blocks, choices and items of the kinds that a collected answer has."""
    numbers = count(1)
    [*begun, last] = api.answers[answer]
    if api.name == "anthropic":
        last = begun.pop()
    unknown = unknown_block(api, "unknown") if api.name != "openai_responses" else []  # of which its client warns
    given = [*begun, *unknown, last, *api.answers[answer][len(begun) + 1 :]]
    events = [with_members(each, numbers) for each in given]
    streamed, _ = received(api, events, "streamed")
    collected, _ = received(api, events, "collected")
    put_together, member = OFFICIAL[api.name]
    found = put_together(sse_events([streamed.replace(b"data: [DONE]\n\n", b"")]))

    assert [getattr(each, "type", None) for each in found] == [
        each.get("type") for each in json.loads(collected)[member]
    ]


# Attacks.


def test_a_flood_of_what_nobody_knows_is_passed_on_or_refused() -> None:
    """Streamed pieces are not kept; what waits for the end of the answer has a limit."""
    messages_api, chat_api = API["anthropic"], API["openai_chat"]
    head, *rest = MESSAGES["text"]
    new_events = [{"type": "new_thing", "of": "x" * 1000}] * 2000
    found, _ = received(messages_api, [head, *rest[:1], *new_events, *rest[1:]], "streamed")
    assert found.count(b"event: new_thing\n") == len(new_events)

    labels = [{**chunk, "x": f"{number}" + "y" * 1000} for number, chunk in enumerate(CHAT["text"][:1] * 2000)]
    found, _ = received(chat_api, [*labels, *CHAT["text"]], "streamed")
    assert found.count(b'"x":"') == len(labels)

    for flood in (
        [{"type": "message_delta", "delta": {f"x_{number}": "y" * 100}} for number in range(400)],
        placed(7, {"type": "hologram"}, *[{"type": "text_delta", "text": "y" * 100}] * 400),
    ):
        planned = evolve(plan(messages_api, "collected"), answer_bytes=100_000, kept_whole=True)
        with pytest.raises(AnswerTooLarge):
            events_of(messages_api, [head, *flood, *rest], planned)


def test_members_that_wait_for_a_word_have_a_limit() -> None:
    """They are kept until then."""
    numbers = count(1)
    decoder = MessageEvents(AnswerBudget(100_000))
    flood = text_with(API["anthropic"], [""] * 400, numbers)
    with pytest.raises(AnswerTooLarge):
        [*decoder.feed(JsonEvent(event["type"], event) for event in flood)]


def test_names_that_nobody_knows_have_a_limit() -> None:
    """They are remembered until the end."""
    decoder = EventDecoder(ids(), "openai")
    decoder._budget.limit = 100_000
    flood = [{"type": "response.content_part.done", "item_id": "i", "part": {f"x_{n}": [{}]}} for n in range(1000)]
    with pytest.raises(AnswerTooLarge):
        [*decoder.feed(JsonEvent(event["type"], event) for event in flood)]


def test_members_that_are_deep_are_handed_on() -> None:
    """As deep as an answer may be, in pieces that are put together."""
    deep: Any = "end"
    for _ in range(90):
        deep = {"x": deep}
    [head, opened, piece, *rest] = MESSAGES["text"]
    pieces = [{**piece, "delta": {**piece["delta"], "y": deep}}] * 2
    for way in WAYS:
        found, _ = received(API["anthropic"], [head, opened, *pieces, *rest], way)
        assert b'{"x":' * 90 in found


@pytest.mark.parametrize("way", WAYS)
def test_probabilities_that_came_with_pieces_alone_are_in_the_answer(way: str) -> None:
    """In the order of the tokens, each once, wherever the service's last event has none."""
    found, _ = received(API["openai_responses"], responded(CHANCES), way)
    response = json.loads(found) if way == "collected" else [*sse_events([found])][-1]["response"]

    assert [chance["token"] for chance in _chances(response)] == [chance["token"] for chance in WORDS]


def _chances(value: Any) -> Iterator[Json]:
    if isinstance(value, dict):
        yield from value.get("logprobs") or ()
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _chances(each)
