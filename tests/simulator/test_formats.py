"""The same scripts in the formats of Gemini, Anthropic and OpenAI: what all three have in common."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kiro_asgi.simulator import Layout, Repeat, Reset, answer, json_answer, refusal, text, thinking, tool_call
from kiro_asgi.simulator.answers import CUT_INPUT, SENTENCE, THOUGHT, UNICODE
from kiro_asgi.simulator.formats import FORMATS
from kiro_asgi.simulator.pieces import CallPart
from kiro_asgi.simulator.request import RecordedRequest
from kiro_asgi.simulator.scripts import Head, RawBytes, Script
from kiro_asgi.simulator.service import SimulatedService
from tests.simulator import test_anthropic, test_gemini, test_openai
from tests.simulator.asking import call
from tests.simulator.speaking import HEADERS, REQUESTS, ask, hear, hear_document, heard

HALF = "This is a simulated answer,"
NAMES = [*REQUESTS]
STOPS = {
    "text": ("STOP", "end_turn", "stop"),
    "length": ("MAX_TOKENS", "max_tokens", "length"),
    "stop-sequence": ("STOP", "stop_sequence", "stop"),
    "filtered": ("SAFETY", "refusal", "content_filter"),
    "context-full": ("MAX_TOKENS", "model_context_window_exceeded", "length"),
    "finish=strange": ("strange", "strange", "strange"),
    "tool": ("STOP", "tool_use", "tool_calls"),
}
STATUSES = {
    "429": (429, 429, 429),
    "quota": (429, 400, 429),
    "overloaded": (503, 529, 503),
    "403": (403, 403, 403),
    "token-invalid": (400, 401, 401),
    "404": (404, 404, 404),
    "500": (500, 500, 500),
    "503": (503, 503, 503),
    "bad-model": (404, 404, 404),
    "too-long": (400, 400, 400),
}

each_format = pytest.mark.parametrize("form", NAMES)
both_ways = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "collected"])


@each_format
@both_ways
@pytest.mark.parametrize("marker", STOPS)
def test_stop_reasons(simulator, form, stream, marker):
    """Each reason to end has the format's word, streamed and collected."""
    told = heard(simulator.url, form, f"sim:{marker}", stream=stream)

    assert told.stop == STOPS[marker][NAMES.index(form)]
    assert told.whole
    assert SENTENCE.startswith(told.text) or marker == "tool"


@each_format
@both_ways
def test_thinking_comes_before_text(simulator, form, stream):
    """Thinking is told apart from the text, and is signed where the format knows signatures."""
    told = heard(simulator.url, form, "sim:thinking", stream=stream)

    assert (told.thoughts, told.text) == (THOUGHT, SENTENCE)
    assert len(told.signatures) == (form != "openai")


@each_format
@both_ways
@pytest.mark.parametrize(
    ("marker", "calls"),
    [
        ("tool", [{"city": "Oslo"}]),
        ('tool=get_weather {"city": "Bergen"}', [{"city": "Bergen"}]),
        ("thinking-tool", [{"city": "Oslo"}]),
        ("parallel=3", [{"city": "Oslo"}, {"city": "Oslo 2"}, {"city": "Oslo 3"}]),
        ("interleaved", [{"city": "Oslo"}, {"city": "Oslo 2"}]),
    ],
)
def test_calls(simulator, form, stream, marker, calls):
    """Calls have the arguments that the marker gives, and ids of their own."""
    told = heard(simulator.url, form, f"sim:{marker}", stream=stream)

    assert told.arguments == calls
    assert {name for name, _ in told.calls} == {"get_weather"}
    assert not stream or len(set(told.ids)) == len(calls)


@each_format
@both_ways
def test_tools_without_a_schema_are_called_with_nothing(simulator, form, stream):
    """Several calls need no arguments, and a tool need not say what it takes."""
    bare = {
        "gemini": [{"functionDeclarations": [{"name": "now"}, {"name": "today"}]}],
        "anthropic": [{"name": name, "input_schema": {"type": "object"}} for name in ("now", "today")],
        "openai": [{"type": "function", "function": {"name": name}} for name in ("now", "today")],
    }
    told = heard(simulator.url, form, "sim:parallel", stream=stream, tools=bare[form])

    assert [name for name, _ in told.calls] == ["now", "today"]
    assert told.arguments == [{}, {}]


@each_format
def test_an_image_is_described(simulator, form):
    """The model tells the media type and the size of an image it is given."""
    data = "aGVsbG8gd29ybGQ="
    words = "look"
    contents = {
        "gemini": [
            {"role": "user", "parts": [{"text": words}, {"inlineData": {"mimeType": "image/png", "data": data}}]}
        ],
        "anthropic": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": words},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}},
                ],
            }
        ],
        "openai": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": words},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
                ],
            }
        ],
    }

    assert (
        heard(simulator.url, form, contents[form]).text == "You said: look I also see 1 image: image/png of 11 bytes."
    )


@each_format
@both_ways
def test_what_it_took(simulator, form, stream):
    """Usage tells input, cached input and output; thinking is told apart where the format can."""
    told = heard(simulator.url, form, "sim:thinking sim:cached=7", stream=stream).usage

    match form:
        case "gemini":
            assert told["cachedContentTokenCount"] == 7
            assert told["thoughtsTokenCount"] == len(THOUGHT.split())
            assert told["totalTokenCount"] == sum(
                told[f"{part}TokenCount"] for part in ("prompt", "candidates", "thoughts")
            )
        case "anthropic":
            assert (told["cache_read_input_tokens"], told["output_tokens"]) == (7, 19)
        case _:
            assert told["prompt_tokens_details"]["cached_tokens"] == 7
            assert told["completion_tokens_details"]["reasoning_tokens"] == len(THOUGHT.split())
            assert told["total_tokens"] == told["prompt_tokens"] + told["completion_tokens"]


@each_format
@pytest.mark.parametrize("marker", STATUSES)
def test_refusals(simulator, form, marker):
    """A refusal has the format's status and envelope, the status repeated where the envelope has one."""
    answered = ask(simulator.url, form, f"sim:{marker}")

    assert answered.status == STATUSES[marker][NAMES.index(form)]
    error = answered.json["error"]
    assert error["message"]
    assert error.get("code", answered.status) == answered.status if form == "gemini" else error["type"]
    assert answered.headers["content-type"] == "application/json"


@each_format
def test_throttled_with_a_time(simulator, form):
    """The time to wait is in a header, or in Google's details."""
    answered = ask(simulator.url, form, "sim:429-retry-after=7")

    details = answered.json["error"].get("details", [])
    delays = [detail["retryDelay"] for detail in details if "retryDelay" in detail]
    assert answered.headers.get("retry-after", *(delay.rstrip("s") for delay in delays)) == "7"


@each_format
def test_a_fault_strikes_once(simulator, form):
    """Once-only faults strike the first request with a text, in every format by itself."""
    question = f"sim:once-500 please, {simulator.url} {form}"

    assert [ask(simulator.url, form, question).status for _ in range(2)] == [500, 200]


@each_format
@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("ServiceUnavailableException", ("UNAVAILABLE", "overloaded_error", "server_error")),
        ("ThrottlingException", ("RESOURCE_EXHAUSTED", "rate_limit_error", "requests")),
    ],
)
def test_an_error_in_the_middle(simulator, form, name, word):
    """An error after the answer began is an event of the format, and no end follows; collected, it is a status."""
    streamed = heard(simulator.url, form, f"sim:exception={name}")
    collected = ask(simulator.url, form, f"sim:exception={name}", stream=False)

    [error] = streamed.errors
    assert error.get("status", error.get("type")) == word[NAMES.index(form)]
    assert (streamed.text, streamed.stop, streamed.whole) == (HALF, None, False)
    assert collected.status >= 429


@each_format
@pytest.mark.parametrize(
    ("marker", "ending"),
    [("eof", "complete"), ("fin", "cut"), ("half-close", "cut"), ("no-trailers sim:text", "complete")],
)
def test_a_cut_stream_has_no_end(simulator, form, marker, ending):
    """What is cut has no reason to end and no last event."""
    answered = ask(simulator.url, form, f"sim:{marker}")
    told = hear(form, answered.body)

    assert (answered.status, answered.ending) == (200, ending)
    assert (told.stop, told.whole, told.errors) == (None, False, [])
    assert told.text.startswith(HALF)


@each_format
def test_broken_events(simulator, form):
    """A torn event is no whole event, and a damaged one is no JSON."""
    torn = ask(simulator.url, form, "sim:torn").body
    damaged = ask(simulator.url, form, "sim:bad-crc").body

    assert torn.split(b"\n")[-1].startswith((b"data: {", b"event: "))
    assert not torn.endswith(b"\n")
    with pytest.raises(json.JSONDecodeError):
        hear(form, damaged)


@each_format
def test_a_collected_answer_breaks_too(simulator, form):
    """What breaks a stream breaks a document in its middle; what ends a stream cleanly ends half a document so."""
    for marker, ending in (("eof", "complete"), ("fin", "cut"), ("reset", "reset")):
        answered = ask(simulator.url, form, f"sim:{marker}", stream=False)
        assert answered.ending == ending
        assert b"This is" in answered.body or ending == "reset"


@each_format
def test_cut_and_broken_calls(simulator, form):
    """A call that never ends, and one whose arguments are no JSON, look as they do in the format."""
    cut = heard(simulator.url, form, "sim:cut-tool")
    broken = heard(simulator.url, form, "sim:bad-tool-json")

    whole = [] if form == "gemini" else [("get_weather", CUT_INPUT)]
    assert (cut.calls, cut.stop) == (whole, None)
    assert broken.calls == whole
    assert broken.stop == {"gemini": "MALFORMED_FUNCTION_CALL", "anthropic": "tool_use", "openai": "tool_calls"}[form]


@each_format
def test_writes_are_cut_as_asked(simulator, form):
    """Layouts cut the bytes of these formats as they do Kiro's, within characters too."""
    assert heard(simulator.url, form, "sim:unicode sim:whole").text == UNICODE
    assert heard(simulator.url, form, "Sing. sim:bytes").text == "You said: Sing. sim:bytes"
    chunks = ask(simulator.url, form, "sim:unicode sim:chunks=3").chunks
    assert hear(form, b"".join(chunks)).text == UNICODE
    assert {len(chunk) for chunk in chunks[:-1]} == {3}


@each_format
def test_limits_are_kept(simulator, form):
    """The answer ends at the most tokens asked for, and before a stop sequence."""
    most = {
        "gemini": {"generationConfig": {"maxOutputTokens": 3}},
        "anthropic": {"max_tokens": 3},
        "openai": {"max_tokens": 3},
    }
    stops = {
        "gemini": {"generationConfig": {"stopSequences": ["lated an"]}},
        "anthropic": {"stop_sequences": ["lated an"]},
        "openai": {"stop": "lated an"},
    }

    short = heard(simulator.url, form, "sim:text", **most[form])
    stopped = heard(simulator.url, form, "sim:text", **stops[form])

    assert (short.text, short.stop) == ("This is a", STOPS["length"][NAMES.index(form)])
    assert (stopped.text, stopped.stop) == ("This is a simu", STOPS["stop-sequence"][NAMES.index(form)])
    assert form != "anthropic" or stopped.extra == ["lated an"]


@each_format
def test_a_tool_can_be_demanded_and_forbidden(simulator, form):
    """Where a tool must be called it is called; where none may be, none is."""
    demanded = {
        "gemini": {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}},
        "anthropic": {"tool_choice": {"type": "any"}},
        "openai": {"tool_choice": "required"},
    }
    forbidden = {
        "gemini": {"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}},
        "anthropic": {"tool_choice": {"type": "none"}},
        "openai": {"tool_choice": "none"},
    }

    assert heard(simulator.url, form, "hello", **demanded[form]).arguments == [{"city": "Oslo"}]
    assert heard(simulator.url, form, "get_weather in Oslo", **forbidden[form]).calls == []


@each_format
@both_ways
def test_who_asks_for_thinking_gets_it(simulator, form, stream):
    """Where thinking is asked for, default answers and calls alike begin with it."""
    asked = {
        "gemini": {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}},
        "anthropic": {"thinking": {"type": "enabled", "budget_tokens": 1024}},
        "openai": {"model": "gpt-5", "reasoning_effort": "low"},
    }
    for question in ("hello", "sim:parallel", "Please call get_weather."):
        assert heard(simulator.url, form, question, stream=stream, **asked[form]).thoughts.startswith("The user says:")


@each_format
def test_json_can_be_demanded(simulator, form):
    """An answer fits the schema that the request asks for."""
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    closed = {**schema, "additionalProperties": False}
    upper = {"type": "OBJECT", "properties": {"name": {"type": "STRING"}}, "required": ["name"]}
    asked = {
        "gemini": {"generationConfig": {"responseMimeType": "application/json", "responseSchema": upper}},
        "anthropic": {"output_config": {"format": {"type": "json_schema", "schema": closed}}},
        "openai": {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}},
    }

    assert list(json.loads(heard(simulator.url, form, "hello", tools=None, **asked[form]).text)) == ["name"]


@each_format
def test_a_whole_document_for_a_stream(simulator, form):
    """Some servers answer with a document although a stream was asked for."""
    answered = ask(simulator.url, form, "sim:text sim:unstreamed")

    assert answered.headers["content-type"] == "application/json"
    assert hear_document(form, answered.json).text == SENTENCE


@each_format
def test_unknown_events_and_empty_deltas(simulator, form):
    """Unknown data, and deltas of nothing, are put between the others."""
    told = heard(simulator.url, form, "sim:text sim:unknown-event sim:empty-frames")

    assert told.text == SENTENCE
    assert any("foo" in str(extra) for extra in told.extra)


@each_format
def test_tests_choose_answers(simulator, form):
    """A script of Kiro's events is spoken in the format that is asked in; bytes and documents go out as they are."""
    operation = f"{form}.chat"
    spoken = answer(*thinking("Hm."), *text("Hel", "lo"), head=Head(layout=Layout(write=1)))
    simulator.enqueue(spoken, json_answer(418, {"mine": 1}), (Head(), *text("Hel"), Reset()), operation=operation)

    told = heard(simulator.url, form, "anything")
    teapot = ask(simulator.url, form, "anything")
    broken = ask(simulator.url, form, "anything")

    assert (told.thoughts, told.text, told.whole) == ("Hm.", "Hello", True)
    assert (teapot.status, teapot.json) == (418, {"mine": 1})
    assert broken.ending == "reset"
    assert simulator.last_request.operation == operation
    assert simulator.calls[operation] >= 3


@each_format
def test_answers_to_questions_of_a_test(simulator, form):
    """An answerer is asked first, and its script is spoken too."""
    simulator.answer_with(lambda request: answer(*text(request.operation)))
    try:
        assert heard(simulator.url, form, "anything").text == f"{form}.chat"
    finally:
        simulator.answer_with(None)


@each_format
def test_keys(simulator, form):
    """A revoked key is refused, and a missing one where the service needs one."""
    target, document = REQUESTS[form]("hello")
    simulator.revoke("stale")
    stale = {name: value.replace("key", "stale") for name, value in HEADERS[form].items()}

    refused = call(simulator.url, target, document, headers=stale)
    anonymous = call(simulator.url, target, document, headers={"anthropic-version": "2023-06-01"})

    assert refused.status == STATUSES["token-invalid"][NAMES.index(form)]
    assert anonymous.status == {"gemini": 403, "anthropic": 401, "openai": 200}[form]


@each_format
def test_unknown_models_and_foreign_bodies(simulator, form):
    """A model that is not there is 404, also where another format has it; what is no JSON object is 400."""
    others = {"gemini": "gpt-4o", "anthropic": "claude-sonnet-4.5", "openai": "gemini-2.5-pro"}
    target, _ = REQUESTS[form]("hello")

    assert ask(simulator.url, form, "hello", model=others[form]).status == 404
    assert call(simulator.url, target, b"[1", headers=HEADERS[form]).status == 400
    assert call(simulator.url, target, method="GET", headers=HEADERS[form]).status == 404


def test_catalogues_are_disjoint():
    """No model is on offer at two services; OpenAI has three formats for its own, of which one has all of them."""
    ids = {form.name: {model.id for model in form.models} for form in FORMATS}
    assert ids.pop("openai") < ids["responses"]
    assert ids.pop("codex") < ids["responses"]
    offered = [*ids.values(), {model.id for model in SimulatedService().models or ()}]

    assert len(set().union(*offered)) == sum(map(len, offered))


def _script_bytes(script: Script) -> bytes:
    steps = [step for part in script for step in ([part.frame] * part.times if isinstance(part, Repeat) else [part])]
    return b"".join(step.data for step in steps if isinstance(step, RawBytes))


PIECES = st.lists(
    st.one_of(
        st.text(max_size=5).map(lambda piece: text(piece)),
        st.text(min_size=1, max_size=5).map(lambda piece: thinking(piece)),
        st.tuples(st.sampled_from("ab"), st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)).map(
            lambda it: tool_call(*it, fragment=3)
        ),
    ),
    max_size=6,
)


@each_format
@given(pieces=PIECES, times=st.integers(1, 3))
def test_streamed_and_collected_say_the_same(form, pieces, times):
    """Whatever an answer is made of, a stream adds up to the document, and both are in the format's grammar."""
    unique = {part[0].call_id: part for part in pieces if isinstance(part[0], CallPart)}
    steps = [step for part in pieces if not isinstance(part[0], CallPart) for step in part]
    script = answer(*steps, Repeat(text("x")[0], times), *(step for part in unique.values() for step in part))

    told = []
    for stream in (True, False):
        service = SimulatedService()
        service.enqueue(script, operation=f"{form}.chat")
        target, document = REQUESTS[form]("hello", stream=stream)
        path, _, query = target.partition("?")
        request = RecordedRequest("POST", path, query, HEADERS[form], json.dumps(document).encode())
        data = _script_bytes(service.script_for(request))
        told.append(hear(form, data) if stream else hear_document(form, json.loads(data)))

    streamed, collected = told
    assert (streamed.text, streamed.thoughts, streamed.stop) == (collected.text, collected.thoughts, collected.stop)
    assert (
        streamed.arguments
        == collected.arguments
        == [json.loads("".join(step.input for step in part)) for part in unique.values()]
    )
    assert streamed.whole


def _places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    within = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, part in within for place in _places(part, (*path, key)))]


STRANGE = st.sampled_from((None, True, -1, 2.5, "", "x", [], {}, [1], ["x"], {"x": 1}, [{}], [[]], {"type": "text"}))


FULL = {
    "gemini": (
        test_gemini.turns(),
        {
            "systemInstruction": {"parts": [{"text": "x"}]},
            "generationConfig": {"stopSequences": ["x"], "thinkingConfig": {"thinkingBudget": 512}},
            "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["get_weather"]}},
        },
    ),
    "anthropic": (
        test_anthropic.turns(test_anthropic.THINKING, test_anthropic.USE),
        {
            "system": [{"type": "text", "text": "x"}],
            "thinking": {"type": "enabled", "budget_tokens": 1024},
            "tool_choice": {"type": "auto"},
            "stop_sequences": ["x"],
        },
    ),
    "openai": (
        [{"role": "system", "content": "x"}, *test_openai.turns()],
        {"tool_choice": "auto", "stop": ["x"], "response_format": {"type": "json_object"}},
    ),
}
"""A request that uses much, by format."""


@settings(max_examples=150)
@each_format
@given(data=st.data())
def test_strange_requests_are_answered_or_refused(form, data):
    """Whatever stands in any place of a request, the service says something; it never breaks."""
    target, document = deepcopy(REQUESTS[form](FULL[form][0], **FULL[form][1]))
    place = data.draw(st.sampled_from(_places(document)[1:]))
    holder = document
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = data.draw(STRANGE)
    path, _, query = target.partition("?")
    request = RecordedRequest("POST", path, query, HEADERS[form], json.dumps(document).encode())

    for strict in (True, False):
        head = SimulatedService(strict=strict).script_for(request)[0]
        assert isinstance(head, Head)
        assert head.status in (200, 400, 404)


def test_kiros_refusals_pass_unspoken():
    """A refusal that a test makes in Kiro's words is sent as it is."""
    service = SimulatedService()
    service.enqueue(refusal(429, "slow", "REASON"), operation="openai.chat")
    script = service.script_for(RecordedRequest("POST", "/chat/completions", "", {}, b"{}"))

    assert isinstance(script[1], RawBytes)
    assert json.loads(script[1].data) == {"message": "slow", "reason": "REASON"}
