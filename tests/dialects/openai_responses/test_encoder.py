"""Streams: their grammar, their content, and that a collected answer is the same one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses
from kiro_asgi.dialects.openai_responses.encoder import CommentingEncoder, ResponsesEncoder
from kiro_asgi.dialects.openai_responses.parsing import ResponsesOptions
from kiro_asgi.dialects.openai_responses.sealing import Sealer
from kiro_asgi.errors import UpstreamTimeout
from kiro_asgi.model.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    Event,
    MalformedCall,
    MessageEnd,
    MessageStart,
    SearchHit,
    ServerCall,
    ServerResult,
    SignatureDelta,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolInputDelta,
    ToolOutput,
    TruncationInfo,
    Usage,
)
from kiro_asgi.model.message import TextBlock
from kiro_asgi.model.message import fold as fold_events
from kiro_asgi.model.prompt import ThinkingPart
from tests.dialects.openai_responses import grammar
from tests.dialects.openai_responses.strategies import requests, streams
from tests.dialects.strategies import HOSTILE
from tests.helpers import run, run_apart

USAGE = Usage(7, 5, 2, 1, 3)

TEXT = [BlockStart(0, BlockKind.TEXT), TextDelta("a"), TextDelta("b"), BlockEnd(0)]
CALL = [BlockStart(0, BlockKind.TOOL_CALL, "call_1", "f"), ToolInputDelta('{"x"'), ToolInputDelta(":1}"), BlockEnd(0)]
THINKING = [BlockStart(0, BlockKind.THINKING), ThinkingDelta("h"), ThinkingDelta("m"), SignatureDelta("s"), BlockEnd(0)]
SEALED = [BlockStart(0, BlockKind.REDACTED_THINKING, data="AAAA"), BlockEnd(0)]

SEALER = Sealer.create(b"key", "me")


def meta(options: ResponsesOptions | None = None) -> ResponseMeta:
    return ResponseMeta("resp_1", "m", 12, options or ResponsesOptions())


def answer(*events: Event, stop: StopReason = StopReason.END) -> list[Event]:
    return [MessageStart(), *events, MessageEnd(stop, usage=USAGE)]


def told(events: list[Event], options: ResponsesOptions | None = None) -> list[dict[str, Any]]:
    return grammar.check(b"".join(run(OpenAIResponses(SEALER).encoder(meta(options)), events)))


def output(events: list[Event], options: ResponsesOptions | None = None) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = told(events, options)[-1]["response"]["output"]
    return items


def types(events: list[dict[str, Any]]) -> list[str]:
    """Of what stands between the lifecycle events."""
    return [event["type"].removeprefix("response.") for event in events[2:-1]]


def test_a_stream_of_text() -> None:
    """F293-F300, F303, F308-F310, F313: every event is whole, numbered, and says which item and part it is about."""
    events = told(answer(*TEXT))
    where = {"item_id": "msg_1_0", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": "ab", "annotations": [], "logprobs": []}
    item = {"id": "msg_1_0", "type": "message", "status": "completed", "role": "assistant", "content": [part]}
    done = {**item, "phase": "final_answer"}
    bodies = [
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**item, "status": "in_progress", "content": []},
        },
        {"type": "response.content_part.added", **where, "part": {**part, "text": ""}},
        {"type": "response.output_text.delta", **where, "delta": "a", "logprobs": []},
        {"type": "response.output_text.delta", **where, "delta": "b", "logprobs": []},
        {"type": "response.output_text.done", **where, "text": "ab", "logprobs": []},
        {"type": "response.content_part.done", **where, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
    ]

    assert events[2:-1] == [{**body, "sequence_number": number} for number, body in enumerate(bodies, 2)]
    assert events[-1]["type"] == "response.completed"
    assert events[-1]["response"]["output"] == [done]


PHASES = [
    (answer(*TEXT), ["final_answer"]),
    (answer(*TEXT, *CALL, stop=StopReason.TOOL_CALL), ["commentary", None]),
    (answer(*CALL, *TEXT, stop=StopReason.TOOL_CALL), [None, None]),
    (answer(*TEXT, *THINKING, *TEXT), [None, None, "final_answer"]),
    (answer(*TEXT, stop=StopReason.LENGTH), [None]),
    ([*answer(*TEXT)[:-1], MessageEnd(StopReason.END, malformed=(MalformedCall("c", "f", "no JSON", 3),))], [None]),
]


@pytest.mark.parametrize(("events", "phases"), PHASES)
def test_the_phase_of_a_message_is_told_where_it_is_certain(events: list[Event], phases: list[str | None]) -> None:
    """Before a call it is commentary; last, with no call for the client, the final answer; else nobody says."""
    assert [item.get("phase") for item in output(events)] == phases


def test_the_phase_that_the_service_tells_counts_more() -> None:
    """Each of its messages is one here, even where no call stands between them."""
    said = [*TEXT[:-1], BlockEnd(0, "commentary"), *TEXT[:-1], BlockEnd(1, "final_answer")]
    events = answer(*said, *CALL, stop=StopReason.TOOL_CALL)
    phases = ["commentary", "final_answer"]

    assert [item.get("phase") for item in output(events)] == [*phases, None]
    assert [block.phase for block in fold_events(events).blocks if isinstance(block, TextBlock)] == phases


def test_the_bytes_of_an_event() -> None:
    """F013, F015: a name line and a data line; what a client sends or a model says cannot end either."""
    encoder = ResponsesEncoder(meta())
    list(encoder.feed([MessageStart(), BlockStart(0, BlockKind.TEXT), TextDelta("a")]))
    (data,) = encoder.feed([TextDelta('\r\n\u2028"')])

    assert data.decode() == (
        "event: response.output_text.delta\n"
        'data: {"type":"response.output_text.delta","sequence_number":5,"item_id":"msg_1_0","output_index":0,'
        '"content_index":0,"logprobs":[],"delta":"\\r\\n\u2028\\""}\n\n'
    )
    assert b"[DONE]" not in b"".join(run(ResponsesEncoder(meta()), answer(*TEXT)))


def test_a_function_call() -> None:
    """F301, F302, F311: arguments as they come, then whole, with the name; the call id is the model's."""
    events = told(answer(*CALL, stop=StopReason.TOOL_CALL))

    assert types(events) == [
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
    ]
    call = {"type": "function_call", "status": "completed", "call_id": "call_1", "name": "f", "arguments": '{"x":1}'}
    assert events[-1]["response"]["output"] == [{"id": "fc_1_0", **call}]
    assert events[-1]["type"] == "response.completed"


def test_a_call_without_arguments_has_an_empty_object() -> None:
    """An empty text is no JSON: clients parse the arguments."""
    (call,) = output(answer(BlockStart(0, BlockKind.TOOL_CALL, "c", "f"), ToolInputDelta(""), BlockEnd(0)))

    assert call["arguments"] == "{}"


def test_calls_and_text_have_places_of_their_own() -> None:
    """F310, R31: every item has its own id and index, in the order in which they came."""
    events = answer(*CALL, *TEXT, *CALL, *TEXT, stop=StopReason.TOOL_CALL)

    assert [item["id"] for item in output(events)] == ["fc_1_0", "msg_1_1", "fc_1_2", "msg_1_3"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(
            ResponsesOptions(reasoning={"summary": "auto"}),
            {"summary": [{"type": "summary_text", "text": "hm"}]},
            id="summary",
        ),
        pytest.param(
            ResponsesOptions(), {"summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}, id="text"
        ),
        pytest.param(
            ResponsesOptions(include=("reasoning.encrypted_content",)),
            {
                "summary": [],
                "content": [{"type": "reasoning_text", "text": "hm"}],
                "encrypted_content": SEALER.seal(ThinkingPart("hm", "s")),
            },
            id="sealed",
        ),
    ],
)
def test_thinking(options: ResponsesOptions, expected: dict[str, Any]) -> None:
    """F315: thinking is a reasoning item, in the form that the request asked for; sealed only where it did."""
    events = told(answer(*THINKING, *TEXT), options)

    assert events[-1]["response"]["output"][0] == {"id": "rs_1_0", "type": "reasoning", **expected}
    assert [
        event["delta"] for event in events if event["type"].startswith("response.reasoning") and "delta" in event
    ] == [
        "h",
        "m",
    ]


def test_a_summary_is_told_with_its_own_events() -> None:
    """The events of summaries differ from those of parts by name and index."""
    assert types(told(answer(*THINKING), ResponsesOptions(reasoning={"summary": "auto"}))) == [
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
    ]


def test_thinking_that_nobody_can_read() -> None:
    """It is an item without text, and its data comes back only under our seal."""
    (plain,) = output(answer(*SEALED))
    (sealed,) = output(answer(*SEALED), ResponsesOptions(include=("reasoning.encrypted_content",)))

    assert plain == {"id": "rs_1_0", "type": "reasoning", "summary": []}
    assert SEALER.open(sealed["encrypted_content"]) == ThinkingPart(redacted="AAAA")


def test_nothing_is_sealed_without_a_key() -> None:
    """Where there is no sealer, a request for sealed content gets an item without it."""
    encoder = ResponsesEncoder(meta(ResponsesOptions(include=("reasoning.encrypted_content",))))
    events = grammar.check(b"".join(run(encoder, answer(*THINKING))))

    assert "encrypted_content" not in events[-1]["response"]["output"][0]


def test_a_custom_tool() -> None:
    """Its call is an item of its own kind, and its input the bare text, not the JSON around it."""
    patch = "*** Begin Patch\n+é\n*** End Patch"
    arguments = json.dumps({"input": patch})
    call = [
        BlockStart(0, BlockKind.TOOL_CALL, "call_1", "apply_patch"),
        *(ToolInputDelta(arguments[i : i + 9]) for i in range(0, len(arguments), 9)),
        BlockEnd(0),
    ]
    events = told(answer(*call), ResponsesOptions(custom_tools=frozenset({"apply_patch"})))

    assert types(events) == [
        "output_item.added",
        "custom_tool_call_input.delta",
        "custom_tool_call_input.done",
        "output_item.done",
    ]
    assert events[-1]["response"]["output"] == [
        {
            "id": "ctc_1_0",
            "type": "custom_tool_call",
            "status": "completed",
            "call_id": "call_1",
            "name": "apply_patch",
            "input": patch,
        }
    ]


@pytest.mark.parametrize(
    ("kind", "arguments", "fields"),
    [
        pytest.param(
            "local_shell_call",
            {"command": ["ls"]},
            {"id": "lsh_1_0", "action": {"type": "exec", "command": ["ls"], "env": {}}},
            id="local_shell",
        ),
        pytest.param(
            "shell_call",
            {"commands": ["ls"], "timeout_ms": 5},
            {
                "id": "sh_1_0",
                "action": {"commands": ["ls"], "timeout_ms": 5, "max_output_length": None},
                "environment": {"type": "local"},
            },
            id="shell",
        ),
        pytest.param(
            "apply_patch_call",
            {"type": "delete_file", "path": "a"},
            {"id": "apc_1_0", "operation": {"type": "delete_file", "path": "a"}},
            id="apply_patch",
        ),
        pytest.param(
            "tool_search_call",
            {"query": "q"},
            {"id": "tsc_1_0", "arguments": {"query": "q"}, "execution": "client"},
            id="tool_search",
        ),
    ],
)
def test_tools_that_the_client_knows_by_their_kind(kind: str, arguments: Any, fields: dict[str, Any]) -> None:
    """Their calls are items of that kind, told when they are complete."""
    call = [
        BlockStart(0, BlockKind.TOOL_CALL, "call_1", "t"),
        ToolInputDelta(json.dumps(arguments)),
        BlockEnd(0),
    ]
    events = told(answer(*call), ResponsesOptions(client_tools={"t": kind}))

    assert types(events) == ["output_item.added", "output_item.done"]
    assert events[-1]["response"]["output"] == [{"type": kind, "status": "completed", "call_id": "call_1", **fields}]


def test_a_tool_of_a_namespace() -> None:
    """Its call names both, as the client wrote them."""
    options = ResponsesOptions(namespaces={"f": ("crm", "find")})
    events = told(answer(*CALL), options)
    (call,) = events[-1]["response"]["output"]

    assert (call["namespace"], call["name"]) == ("crm", "find")
    assert next(event["name"] for event in events if event["type"].endswith("arguments.done")) == "find"


def test_a_web_search() -> None:
    """The search is an item that is done when its result has come; the text that tells of it cites the pages."""
    call = ServerCall("tooluse_1", "web_search", "web_search", {"query": "fjords"})
    found = ToolOutput((SearchHit("Fjords", "https://a/", "Deep."),))
    events = told(
        answer(
            BlockStart(0, BlockKind.SERVER_CALL, value=call),
            BlockEnd(0),
            *CALL,
            BlockStart(2, BlockKind.SERVER_RESULT, value=ServerResult(call, found)),
            BlockEnd(2),
            BlockStart(3, BlockKind.TEXT),
            TextDelta(found.told),
            BlockEnd(3),
            *TEXT,
        )
    )
    search, between, told_text, after = events[-1]["response"]["output"]

    assert types(events)[:3] == ["output_item.added", "web_search_call.in_progress", "web_search_call.searching"]
    assert (search["id"], search["status"]) == ("ws_1_0", "completed")
    assert between["type"] == "function_call"
    assert [each["url"] for each in told_text["content"][0]["annotations"]] == ["https://a/"]
    assert after["content"][0]["annotations"] == []
    assert types(events).count("output_text.annotation.added") == 1


def test_server_tools_without_an_item() -> None:
    """What other tools gave is text alone."""
    call = ServerCall("tooluse_1", "dice", "dice")
    events = answer(
        BlockStart(0, BlockKind.SERVER_CALL, value=call),
        BlockEnd(0),
        BlockStart(1, BlockKind.SERVER_RESULT, value=ServerResult(call, ToolOutput(text="6"))),
        BlockEnd(1),
        *TEXT,
    )

    assert [item["type"] for item in output(events)] == ["message"]


@pytest.mark.parametrize(
    ("stop", "status", "reason"),
    [
        (StopReason.END, "completed", None),
        (StopReason.STOP_SEQUENCE, "completed", None),
        (StopReason.TOOL_CALL, "completed", None),
        (StopReason.REFUSAL, "completed", None),
        (StopReason.LENGTH, "incomplete", "max_output_tokens"),
        (StopReason.CONTEXT_FULL, "incomplete", "max_output_tokens"),
        (StopReason.CONTENT_FILTER, "incomplete", "content_filter"),
    ],
)
def test_how_answers_end(stop: StopReason, status: str, reason: str | None) -> None:
    """F314: an answer that was stopped is incomplete, and of its messages the last one."""
    events = told(answer(*TEXT, *CALL, *TEXT, stop=stop))
    response = events[-1]["response"]

    assert events[-1]["type"] == f"response.{status}"
    assert response["status"] == status
    assert response["incomplete_details"] == (reason and {"reason": reason})
    assert [item["status"] for item in response["output"]] == ["completed", "completed", status]


@pytest.mark.parametrize(
    ("stop", "part"),
    [
        pytest.param(StopReason.END, {"type": "output_text", "text": ""}, id="empty"),
        pytest.param(StopReason.CONTENT_FILTER, {"type": "refusal"}, id="filtered"),
    ],
)
def test_answers_without_a_word(stop: StopReason, part: dict[str, Any]) -> None:
    """There is a message all the same; of an answer that the filter took it is a refusal."""
    empty = [BlockStart(0, BlockKind.TEXT), TextDelta(""), BlockEnd(0)]
    for events in answer(*empty, stop=stop), answer(stop=stop):
        (message,) = output(events)
        assert part.items() <= message["content"][0].items()


def test_a_filter_that_left_thinking() -> None:
    """Thinking is no answer either."""
    events = told(answer(*THINKING, stop=StopReason.CONTENT_FILTER))

    assert [item["type"] for item in events[-1]["response"]["output"]] == ["reasoning", "message"]
    assert "refusal.delta" in types(events) and "refusal.done" in types(events)


@pytest.mark.parametrize("custom", [False, True])
def test_a_call_that_was_cut(custom: bool) -> None:
    """What has been told of a function's call is incomplete; a call of another kind is left out."""
    events = [
        MessageStart(),
        *CALL[:2],
        BlockEnd(0),
        MessageEnd(StopReason.LENGTH, truncations=(TruncationInfo("call_1", "f", "cut", 4),)),
    ]
    told_events = told(events, ResponsesOptions(custom_tools=frozenset({"f"} if custom else ())))
    calls = [item for item in told_events[-1]["response"]["output"] if item["type"] != "message"]

    assert told_events[-1]["type"] == "response.incomplete"
    assert [(call["arguments"], call["status"]) for call in calls] == ([] if custom else [('{"x"', "incomplete")])


def test_usage() -> None:
    """All the details that clients require; the input includes what came from a cache, or went into one."""
    assert told(answer(*TEXT))[-1]["response"]["usage"] == {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 1},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 15,
    }


@pytest.mark.parametrize("sent", range(1, 12))
def test_a_stream_that_breaks(sent: int) -> None:
    """F304-F307: wherever that is, an error and the failed response follow, and then nothing."""
    encoder = ResponsesEncoder(meta())
    begun = b"".join(encoder.feed(answer(*THINKING, *TEXT, *CALL)[:sent]))
    events = grammar.check(begun + b"".join(encoder.error(UpstreamTimeout("Too slow."))))

    assert events[-2]["error"] == {
        "message": "Too slow.",
        "param": None,
        "type": "server_error",
        "code": "stream_error",
    }
    assert (events[-2]["message"], events[-2]["code"], events[-2]["param"]) == ("Too slow.", "server_error", None)
    assert events[-1]["response"]["error"] == {"code": "server_error", "message": "Too slow."}
    assert b"".join(encoder.error(UpstreamTimeout("Again."))) == b""


def test_what_is_known_of_the_answer_afterwards() -> None:
    """Whoever keeps responses finds the last object, whether the answer is complete, and the seals nobody asked for."""
    encoder = OpenAIResponses(SEALER).encoder(meta())
    begun, rest = answer(*THINKING, *TEXT)[:3], answer(*THINKING, *TEXT)[3:]
    list(encoder.feed(begun))
    assert (json.loads(b"".join(encoder.response))["status"], encoder.complete) == ("in_progress", False)

    list(encoder.feed(rest))
    assert (json.loads(b"".join(encoder.response))["status"], encoder.complete) == ("completed", True)
    assert encoder.seals == {"rs_1_0": SEALER.seal(ThinkingPart("hm", "s"))}

    broken = OpenAIResponses(SEALER).encoder(meta())
    list(broken.feed(begun))
    broken.error(UpstreamTimeout("Too slow."))
    assert (json.loads(b"".join(broken.response))["status"], broken.complete) == ("failed", False)


def test_nothing_follows_the_end() -> None:
    """An error after the last event is nobody's any more."""
    encoder = ResponsesEncoder(meta())
    list(run(encoder, answer(*TEXT)))

    assert b"".join(encoder.error(UpstreamTimeout("Too late."))) == b""


@settings(settings.get_profile("brief"))
@given(st.data())
def test_heartbeats_change_nothing(data: st.DataObject) -> None:
    """Each is a numbered event; one that tells the response so far tells just what the events before it have built."""
    events = data.draw(streams())
    options = data.draw(requests(events))
    encoder, stream = OpenAIResponses(SEALER).encoder(meta(options)), b""
    for event in events[:-1]:
        stream += b"".join(encoder.feed([event])) + encoder.heartbeat
    beaten = grammar.events_of(stream + b"".join(encoder.feed(events[-1:])))

    assert [event["sequence_number"] for event in beaten] == [*range(len(beaten))]
    assert grammar.fold(beaten) == beaten[-1]["response"]["output"]
    assert len(beaten) >= len(events) + len(told(events, options)) - 1
    assert _without_heartbeats(beaten) == _without_heartbeats(told(events, options))


def _without_heartbeats(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rest = [event for event in events[2:] if event.get("delta") != "" and event["type"] != "response.in_progress"]
    return [{**event, "sequence_number": 0} for event in rest]


def test_heartbeats_may_be_comments() -> None:
    """For a client to which an event that says nothing new is too much."""
    assert CommentingEncoder(meta()).heartbeat == b": ping\n\n"


@given(st.data())
def test_any_answer(data: st.DataObject) -> None:
    """F299, F303, F312: every stream obeys the grammar, and a collected answer is the response that it ends with."""
    events = data.draw(streams())
    options = data.draw(requests(events))
    dialect = OpenAIResponses(SEALER)
    stream = b"".join(run(dialect.encoder(meta(options)), events))
    response = grammar.check(stream)[-1]["response"]

    assert json.loads(b"".join(dialect.render(fold_events(events), meta(options)))) == response
    assert _text(response) == fold_events(events).text
    assert stream == b"".join(run_apart(dialect.encoder(meta(options)), events))


@given(streams(), HOSTILE, HOSTILE)
def test_nothing_breaks_out_of_its_string(events: list[Event], token: str, model: str) -> None:
    """R26: line ends and separators in the model, ids, names and text add no event and no line."""
    head = ResponseMeta(f"resp_{token}", f"x\n\ndata: {{}}{model}", 1, ResponsesOptions())
    stream = b"".join(run(ResponsesEncoder(head), events))
    all_told = grammar.check(stream)

    assert stream.count(b"\n") == 3 * len(all_told)
    assert b"\r" not in stream and b"\x00" not in stream
    assert (all_told[0]["response"]["id"], all_told[0]["response"]["model"]) == (head.id, head.model)


@pytest.mark.parametrize("text", ["\ud83d", "a\udc00b", "\ud83d\ude00", "\x00\x1f\x7f", "\uffff"])
def test_the_output_is_always_utf8(text: str) -> None:
    """R21: half a surrogate pair from upstream is replaced, everything else is kept."""
    (message,) = output(answer(BlockStart(0, BlockKind.TEXT), TextDelta(text), BlockEnd(0)))

    expected = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert message["content"][0]["text"] == expected


def _text(response: dict[str, Any]) -> str:
    parts = [part for item in response["output"] if item["type"] == "message" for part in item["content"]]
    return "".join(part.get("text", "") for part in parts)
