"""Requests to a service of the client's own API: they go on as they are, and answers come back as they are."""

from __future__ import annotations

import json
import logging
from typing import Any

import anyio
import pytest
from attrs import frozen

from kiro_asgi import App, create_app, simulator
from kiro_asgi.asgi.exchange.passthrough import REASONS
from kiro_asgi.asgi.kept.server_tools import Toolbox
from kiro_asgi.config import StreamSettings
from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses
from kiro_asgi.failures.remedies import Remedy
from kiro_asgi.model.events import ToolOutput
from kiro_asgi.simulator import CloseEarly, Head, Layout, Pause, RawBytes, Stall, Step
from kiro_asgi.stages.base import Pipeline
from kiro_asgi.upstreams.anthropic.upstream import AnthropicUpstream
from kiro_asgi.upstreams.base import Credential, CredentialKind
from kiro_asgi.upstreams.openai.codex import CODEX
from kiro_asgi.upstreams.openai.upstream import OpenAIUpstream, ResponsesUpstream
from kiro_asgi.upstreams.settings import AnswerOptions
from kiro_asgi.wire.sse import SseDecoder, encode_sse
from tests.asgi.answers import comes_true, text_of
from tests.asgi.conftest import settings_for
from tests.asgi.driver import PATHS, Exchange, post
from tests.dialects.test_passthrough import BODIES, ERRORS, HELLO, PIECE, START, WHOLE
from tests.ways import why_translated

UNKNOWN = b'event: novel\r\ndata: {"type": "novel", "x": 1.0}\r\n\r\n: a comment\n\n'
STREAMS = {name: begun + UNKNOWN + WHOLE[name] for name, begun in (("anthropic", START), ("openai_chat", PIECE))}
NAMES = {"anthropic": "anthropic", "openai": "openai_chat"}
MODELS = {"anthropic": "claude-haiku-4-5-20251001", "openai": "gpt-5"}
OPERATIONS = {"anthropic": "anthropic.chat", "openai": "openai.chat"}

DOCUMENTS = {
    "anthropic": {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "text", "text": "One, two."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 7, "output_tokens": 9},
    },
    "openai": {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "One, two."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 9},
    },
}
"""Whole answers."""

EACH_API = pytest.mark.parametrize("api", ["anthropic", "openai"])
EACH_MODE = pytest.mark.parametrize("stream", [True, False], ids=["stream", "collect"])
on_each_loop = pytest.mark.anyio


@pytest.fixture
async def direct(service, sim):
    """An app in front of the simulated services, for slices of settings."""
    apps: list[App] = []

    def make(**slices: Any) -> App:
        apps.append(create_app(settings_for(service.url, {**upstreams(service.url), **slices})))
        return apps[-1]

    yield make
    for app in apps:
        await app.aclose()


def upstreams(url: str) -> dict[str, Any]:
    """Both services, by the names of their own models and by names of ours."""
    rows = [f"{model}={name}/{model}" for name, model in MODELS.items()]
    ours = [f"mine-{name}={name}/{model}" for name, model in MODELS.items()]
    return {
        "anthropic": {"api_key": "sk-ant-up", "endpoint": url},
        "openai": {"api_key": "sk-up", "endpoint": f"{url}/v1"},
        "routing": {"models": [*rows, *ours, "either=openai/gpt-5>kiro/claude-sonnet-4.5"]},
    }


def asking(api: str, *, stream: bool, model: str = "", **more: Any) -> Exchange:
    """A request with white space, numbers and fields of the client's own."""
    length = {"anthropic": "max_tokens", "openai": "max_completion_tokens"}[api]
    document = {"model": model or MODELS[api], "stream": stream, length: 64, "novel": {"x": 1.0}}
    turns = [{"role": "user", "content": 'say "model": "x" \u4e16'}]
    body = json.dumps({**document, "messages": turns, **more}, indent=1)
    return post(PATHS[api], body.encode())


def saying(data: bytes, *more: Step, layout: Layout = Layout()) -> tuple[Step, ...]:  # noqa: B008 - frozen
    """A streamed answer of these very bytes."""
    return (Head(content_type="text/event-stream", layout=layout), RawBytes(data), *more)


def collected(data: bytes) -> tuple[Step, ...]:
    """A collected answer of these very bytes."""
    return (Head(content_type="application/json"), RawBytes(data))


def good(api: str, *, stream: bool) -> tuple[Step, ...]:
    """A whole answer."""
    return saying(STREAMS[NAMES[api]]) if stream else collected(BODIES[NAMES[api]])


def asked(sim: simulator.Simulator, api: str) -> list[simulator.RecordedRequest]:
    """What the service of this API was asked."""
    return [request for request in sim.requests if request.operation == OPERATIONS[api]]


def access_line(caplog: pytest.LogCaptureFixture) -> str:
    """The last line of the access log."""
    return [record.getMessage() for record in caplog.records if record.name == "kiro_asgi.access"][-1]


@on_each_loop
@EACH_API
@EACH_MODE
async def test_bytes_go_on_as_they_are(api, stream, direct, sim):
    """F427/F429: the service reads the client's very bytes, and the client the service's, unknown events included."""
    sim.enqueue(good(api, stream=stream), operation=OPERATIONS[api])
    exchange = asking(api, stream=stream)
    body = exchange.body[0]
    await exchange.run(direct())

    (request,) = asked(sim, api)
    assert request.body == body
    assert exchange.status == 200
    assert exchange.content == (STREAMS if stream else BODIES)[NAMES[api]]
    assert exchange.headers["content-type"] == ("text/event-stream" if stream else "application/json")
    secrets = {"anthropic": ("x-api-key", "sk-ant-up"), "openai": ("authorization", "Bearer sk-up")}
    name, value = secrets[api]
    assert request.headers[name] == value
    assert not any(each in ("k", "Bearer k") for each in request.headers.values())


@on_each_loop
@EACH_API
@pytest.mark.parametrize("chunk", [1, 50, 10_000])
async def test_bytes_arrive_however_they_are_cut(api, chunk, direct, sim):
    """The wire's cuts leave no trace."""
    sim.enqueue(saying(STREAMS[NAMES[api]], layout=Layout(chunk=chunk)), operation=OPERATIONS[api])
    exchange = await asking(api, stream=True).run(direct())
    assert exchange.content == STREAMS[NAMES[api]]


@EACH_API
async def test_an_answer_that_takes_long_and_is_over_ends(api, direct, sim, monkeypatch):
    """Work is cut into parts by the clock; what comes behind the end is not looked at, which must not be waited for."""
    monkeypatch.setattr("kiro_asgi.asgi.exchange.reading.PART", -1.0)
    sim.enqueue(saying(STREAMS[NAMES[api]], layout=Layout(chunk=100_000)), operation=OPERATIONS[api])
    with anyio.fail_after(10):
        exchange = await asking(api, stream=True).run(direct())
    assert exchange.content == STREAMS[NAMES[api]]


@on_each_loop
@EACH_API
async def test_a_whole_answer_where_a_stream_was_asked_for(api, direct, sim):
    """Some services do not stream all that they are asked to stream; the client gets a stream that says the same."""
    sim.enqueue(collected(json.dumps(DOCUMENTS[api]).encode()), operation=OPERATIONS[api])
    exchange = await asking(api, stream=True, model=f"mine-{api}").run(direct())

    assert exchange.headers["content-type"] == "text/event-stream"
    assert text_of(api, exchange) == "One, two."
    assert f'"mine-{api}"'.encode() in exchange.content


@on_each_loop
@EACH_API
async def test_an_error_where_a_stream_was_asked_for(api, direct, sim):
    """A report with a status of success is a refusal all the same."""
    sim.enqueue(collected(b'{"error": {"type": "invalid_request_error", "message": "no"}}'), operation=OPERATIONS[api])
    exchange = await asking(api, stream=True).run(direct(retry={"attempts": 1}))

    assert exchange.status >= 400
    assert exchange.json()["error"]["message"] == "no"


@on_each_loop
@EACH_API
@EACH_MODE
async def test_only_the_models_name_changes(api, stream, direct, sim):
    """F429: the service is asked by its name for the model, the client is answered by its own."""
    sim.enqueue(good(api, stream=stream), operation=OPERATIONS[api])
    exchange = asking(api, stream=stream, model=f"mine-{api}")
    body = exchange.body[0]
    await exchange.run(direct())

    said = (STREAMS if stream else BODIES)[NAMES[api]]
    assert asked(sim, api)[0].body == body.replace(f"mine-{api}".encode(), MODELS[api].encode())
    assert exchange.content == said.replace(b'"theirs"', f'"mine-{api}"'.encode())


@on_each_loop
@EACH_API
async def test_an_answer_that_begins_with_an_error_is_asked_for_again(api, direct, sim):
    """Nothing was sent, so the policy decides, and the client sees one answer."""
    sim.enqueue(saying(ERRORS[NAMES[api]]), good(api, stream=True), operation=OPERATIONS[api])
    exchange = await asking(api, stream=True).run(direct())

    assert exchange.content == STREAMS[NAMES[api]]
    assert len(asked(sim, api)) == 2


@on_each_loop
@EACH_API
@EACH_MODE
async def test_what_failed_before_the_commit_is_tried_again(api, stream, direct, sim):
    """A reset, an empty answer and a cut body are no answers."""
    media = "text/event-stream" if stream else "application/json"
    troubles = [(CloseEarly(),), (Head(content_type=media),), (Head(content_type=media), CloseEarly())]
    for trouble in troubles:
        sim.forget()
        sim.enqueue(trouble, good(api, stream=stream), operation=OPERATIONS[api])
        exchange = await asking(api, stream=stream).run(direct())

        assert exchange.content == (STREAMS if stream else BODIES)[NAMES[api]]
        assert len(asked(sim, api)) == 2


@on_each_loop
@EACH_API
@EACH_MODE
async def test_a_refusal_of_the_request_is_told_as_it_came(api, stream, direct, sim):
    """Byte for byte: Claude Code asks differently by the service's own words, and an envelope would hide them."""
    said = b'{"type": "error",  "error": {"type": "invalid_request_error", "message": "no such thing"}, "more": [1]}'
    sim.enqueue((Head(status=400, content_type="application/json"), RawBytes(said)), operation=OPERATIONS[api])
    exchange = await asking(api, stream=stream).run(direct())

    assert (exchange.status, len(asked(sim, api))) == (400, 1)
    assert exchange.content == said
    assert (exchange.headers["content-type"], exchange.headers["x-should-retry"]) == ("application/json", "false")
    assert exchange.headers["x-request-id"].startswith("req_")


WORDS = {"anthropic": "prompt is too long", "openai": "context_length_exceeded"}
"""By which clients of each API see that they have to send less."""


@on_each_loop
@EACH_API
@EACH_MODE
@pytest.mark.parametrize("is_known", [True, False], ids=["the API's words", "a proxy's words"])
async def test_a_prompt_that_is_too_long_is_told_in_words_that_clients_know(api, stream, is_known, direct, sim):
    """A proxy in between may have words of its own (``litellm.ContextWindowExceededError``), by which no agent sends
    less; those of the API go through as they are."""
    report = {"type": "invalid_request_error", "code": WORDS[api] if is_known else None}
    report["message"] = f"ContextWindowExceededError: context window exceeded {WORDS[api] if is_known else ''}"
    said = json.dumps({"type": "error", "error": report}).encode()
    sim.enqueue((Head(status=400, content_type="application/json"), RawBytes(said)), operation=OPERATIONS[api])
    exchange = await asking(api, stream=stream).run(direct())

    assert (exchange.status, len(asked(sim, api))) == (400, 1)
    assert WORDS[api] in exchange.content.decode()
    assert "ContextWindowExceededError" in exchange.json()["error"]["message"]
    assert (exchange.content == said) is is_known


@on_each_loop
@EACH_API
@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        pytest.param(401, "application/json", '{"error": {"message": "bad key KEPT"}}', id="a credential"),
        pytest.param(403, "application/json", '{"error": {"message": "KEPT"}}', id="a right"),
        pytest.param(400, "text/html", "<html>KEPT</html>", id="a page"),
        pytest.param(400, "application/json", "[1]  ", id="no report"),
        pytest.param(400, "application/json", '{"error": {"message": "k KEPT"}', id="no JSON"),
        pytest.param(400, "application/json", '{"error": {"message": "%s"}}' % ("x" * 70_000), id="too large"),
    ],
)
async def test_other_refusals_are_told_in_our_envelope(api, status, kind, body, direct, sim):
    """What is about the gateway's own credential is not the client's, and what is no answer of the API is none."""
    steps = (Head(status=status, content_type=kind), RawBytes(body.encode()))
    for _ in range(4):
        sim.enqueue(steps, operation=OPERATIONS[api])
    exchange = await asking(api, stream=False).run(direct())

    assert exchange.status >= 400
    assert exchange.content != body.encode()
    assert exchange.json()["error"]["message"]


@on_each_loop
@EACH_API
async def test_a_secret_in_a_refusal_is_not_told(api, direct, service, sim):
    """Some services quote the key that they were shown."""
    said = b'{"error": {"type": "invalid_request_error", "message": "not with the key secret-of-the-operator"}}'
    sim.enqueue((Head(status=400, content_type="application/json"), RawBytes(said)), operation=OPERATIONS[api])
    keyed = {**upstreams(service.url)[api], "api_key": "secret-of-the-operator"}
    exchange = await asking(api, stream=False).run(direct(**{api: keyed}))

    assert exchange.status == 400
    assert b"secret-of-the-operator" not in exchange.content


@on_each_loop
@EACH_API
@pytest.mark.parametrize("pause", [0.0, 0.05])
async def test_a_cut_answer_ends_in_an_error(api, pause, direct, sim, caplog):
    """R03: what was whole is delivered, half an event is not, then exactly one error, which Chat Completions tells in
    both forms; it is logged as cut."""
    half = WHOLE[NAMES[api]][: len(START + HELLO) // 2 * 2 - 9]
    sim.enqueue(
        (Head(content_type="text/event-stream", length=len(half)), RawBytes(half), Pause(pause)),
        operation=OPERATIONS[api],
    )
    with caplog.at_level(logging.INFO, "kiro_asgi.access"):
        exchange = await asking(api, stream=True).run(direct())

    events = list(SseDecoder().feed([exchange.content]))
    whole = list(SseDecoder().feed([half]))
    assert events[: len(whole)] == whole
    told = 2 if api == "openai" else 1
    assert [each for each in events if '"error"' in each.data] == events[len(whole) : len(whole) + told]
    assert exchange.complete
    assert " cut " in access_line(caplog)


@EACH_API
@pytest.mark.parametrize("error", [{"message": "Overloaded"}, "Overloaded"], ids=["object", "text"])
async def test_an_error_that_is_not_the_apis_own_ends_the_answer_as_any_error_does(api, error, direct, sim):
    """Servers that speak an API report in another's form; what follows is not the rest of a whole answer."""
    begun = START + HELLO if api == "anthropic" else PIECE
    report = encode_sse("", json.dumps({"error": error}).encode())
    sim.enqueue(saying(begun + report + WHOLE[NAMES[api]].removeprefix(begun)), operation=OPERATIONS[api])
    exchange = await asking(api, stream=True).run(direct())

    assert exchange.content.startswith(begun)
    reported, *behind = SseDecoder().feed([exchange.content.removeprefix(begun)])
    said = json.loads(reported.data)
    assert "Overloaded" in json.dumps(said)
    assert api != "anthropic" or (reported.event, said["type"]) == ("error", "error")
    assert not any(b'"delta"' in each.data.encode() for each in behind)


@on_each_loop
@EACH_API
@pytest.mark.parametrize("pause", [(), (Pause(0.05),)], ids=["at-once", "later"])
async def test_the_services_own_error_ends_the_answer_as_any_error_does(api, pause, direct, sim, caplog):
    """F014, F084, F085, F256: after the commit the client reads the service's words in a chunk of this stream, then
    the sentinel where the API has one, once; the log knows."""
    begun = START + HELLO if api == "anthropic" else PIECE
    data = begun + ERRORS[NAMES[api]]
    sim.enqueue(saying(data, *pause), operation=OPERATIONS[api])
    with caplog.at_level(logging.INFO, "kiro_asgi.access"):
        exchange = await asking(api, stream=True).run(direct())

    assert exchange.content.startswith(begun)
    assert exchange.complete
    assert " cut " in access_line(caplog)
    error, *done = SseDecoder().feed([exchange.content.removeprefix(begun)])
    said = json.loads(error.data)
    assert said["error"]["message"] == "Overloaded"
    if api == "openai":
        assert json.loads(done.pop(0).data) == {"error": said["error"]}
        assert [each.data for each in done] == ["[DONE]"]
        assert (said["id"], said["model"], said["choices"]) == ("chatcmpl-1", "theirs", [])
        assert said["error"]["code"] == "stream_error"
    else:
        assert not done


@on_each_loop
@EACH_API
@EACH_MODE
async def test_the_access_log_knows_what_it_took(api, stream, direct, sim, caplog):
    """Counts are the service's."""
    sim.enqueue(good(api, stream=stream), operation=OPERATIONS[api])
    with caplog.at_level(logging.INFO, "kiro_asgi.access"):
        await asking(api, stream=stream).run(direct())

    line = access_line(caplog)
    assert f"model={MODELS[api]}" in line and " complete " in line
    assert "tokens=7+9 input=upstream output=upstream" in line


@on_each_loop
@EACH_API
async def test_signs_of_life_stand_between_events(api, direct, sim):
    """A service that falls silent in the middle of an event does not get a heartbeat into it."""
    stream, half = STREAMS[NAMES[api]], len(STREAMS[NAMES[api]]) // 2
    sim.enqueue(saying(stream[:half], Pause(0.3), RawBytes(stream[half:])), operation=OPERATIONS[api])
    exchange = await asking(api, stream=True).run(direct(stream={"heartbeat": 0.1}))

    beat = b'event: ping\ndata: {"type":"ping"}\n\n' if api == "anthropic" else b": ping\n\n"
    assert exchange.content.count(beat) >= 2
    assert exchange.content.replace(beat, b"") == stream
    assert list(SseDecoder().feed([exchange.content.replace(beat, b"")])) == list(SseDecoder().feed([stream]))
    assert all(piece.endswith((b"\n\n", b"\n\r\n")) for piece in exchange.bodies)


@on_each_loop
@EACH_API
async def test_a_silent_service(api, direct, sim):
    """Before its first event the head goes out early with comments; then an error in the API's words."""
    sim.enqueue((Head(content_type="text/event-stream"), Stall()), operation=OPERATIONS[api])
    app = direct(
        stream={"heartbeat": 0.1, "early_commit_after": 0.1},
        retry={"attempts": 1, "timeout_attempts": 1},
        **{api: {**upstreams(sim.url)[api], "first_token_timeout": 0.4}},
    )
    exchange = await asking(api, stream=True).run(app)

    if exchange.status == 200:
        assert exchange.content.startswith(b": ping\n\n")
        assert b'"error"' in exchange.bodies[-1]
    else:
        assert exchange.status == 504


@on_each_loop
@EACH_API
async def test_a_client_that_leaves_ends_the_call(api, direct, sim):
    """R01/R02: the upstream connection is closed at once."""
    sim.enqueue(saying(WHOLE[NAMES[api]][:-60], Stall()), operation=OPERATIONS[api])
    exchange, shown = asking(api, stream=True), anyio.Event()

    async def note(message: Any) -> None:
        if message.get("body"):
            shown.set()

    exchange.on_send = note
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(exchange.run, direct())
            await shown.wait()
            exchange.leave.set()
    assert await comes_true(sim, lambda: asked(sim, api)[0].peer_closed_at is not None)


@on_each_loop
@EACH_API
async def test_never_means_never(api, direct, sim):
    """With the setting, answers of such a service are translated like all others."""
    sim.enqueue(saying(WHOLE[NAMES[api]]), operation=OPERATIONS[api])
    exchange = await asking(api, stream=True).run(direct(stream={"relay": "never"}))

    assert exchange.status == 200
    assert b'"msg_1"' not in exchange.content and b'"chatcmpl-1"' not in exchange.content
    assert b'say \\"model\\": \\"x\\"' in exchange.content


@on_each_loop
@EACH_MODE
async def test_another_upstream_answers_in_its_own_way(stream, direct, sim):
    """A request that was to go through is read and translated where the service that could take it so fails."""
    sim.enqueue((CloseEarly(),), operation=OPERATIONS["openai"])
    sim.enqueue(simulator.answer(*simulator.text("from Kiro")))
    app = direct(retry={"attempts": 1})
    exchange = post(
        PATHS["openai"], {"model": "either", "stream": stream, "messages": [{"role": "user", "content": "hi"}]}
    )
    await exchange.run(app)

    assert exchange.status == 200
    assert b"from Kiro" in exchange.content
    assert b'"model":"either"' in exchange.content.replace(b" ", b"")


# What may go through.


@frozen
class Search:
    """A tool of the gateway."""

    kind: str = "web_search"
    names: tuple[str, ...] = ("lookup",)

    async def call(self, arguments: Any, options: Any, /) -> ToolOutput:
        """Never called here."""
        raise AssertionError


SEARCHING = {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}
TOOLS = {"tools": [{"name": "f", "input_schema": {}}]}
FUNCTIONS = {"tools": [{"type": "function", "function": {"name": "f"}}]}


SCHEMA = {"type": "json_schema", "schema": {"type": "object"}}
PICTURE = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
THINKING: Any = (
    {"reasoning_effort": "low"},
    {"reasoning_effort": "minimal"},
    {"reasoning_effort": "none"},
    {"reasoning": {"effort": "high"}},
    {"reasoning": {"max_tokens": 2000}},
    {"thinking": {"type": "enabled"}},
    {"enable_thinking": True},
    {"chat_template_kwargs": {"enable_thinking": True}},
)
"""Ways in which clients say whether to think."""

LATER = ({"type": "text", "text": "Hi."},), {"role": "user", "content": "So?"}


def thought(signature: str, more: Any = (), *later: Any) -> dict[str, Any]:
    """A request that hands thinking back."""
    block = {"type": "thinking", "thinking": "Hm.", "signature": signature}
    return {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": [block, *more]}, *later]}


OWN = {"anthropic": AnthropicMessages(), "openai_chat": OpenAIChat(), "openai_responses": OpenAIResponses()}
COPY = AnthropicUpstream(endpoint="http://localhost:1")
ASKED = {"role": "user", "content": "Hi."}
REASONED = {"role": "assistant", "content": "Yes.", "reasoning_content": "x"}
OWN_LINE = "x-anthropic-billing-header: cch=1;\nBe brief."
MESSAGES = AnthropicUpstream()
SILENT = AnthropicUpstream(replay_thinking=False)
CHAT = OpenAIUpstream()
CUSTOM = OpenAIUpstream(name="local", endpoint="http://localhost/v1")
OLDER = OpenAIUpstream(max_tokens_field="max_tokens")
RESPONSES = ResponsesUpstream()
FINISHING = OpenAIChat(usage_in_finish_chunk=True)
COUNTLESS = OpenAIUpstream(include_usage=False)
SIGNED_IN = ResponsesUpstream(signed_in=CODEX)
FOR_CODEX = {"stream": True, "instructions": "Be brief.", "input": [{"role": "user", "content": "hi"}]}
REMOVING = AnswerOptions(first_event_timeout=1.0, thinking_first_event_timeout=1.0, thinking_handling="remove")
NO_TEMPERATURE = {"model": "claude-opus-4-7", "temperature": 1}
EVERY_WAY = {"temperature": 1, "top_p": 1}
EPHEMERAL = {"type": "ephemeral"}
MARKED = (
    {"system": [{"type": "text", "text": "x", "cache_control": EPHEMERAL}]},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "x", "cache_control": EPHEMERAL}]}]},
    {"tools": [{"name": "f", "input_schema": {}, "cache_control": EPHEMERAL}]},
)


SERVED: Any = (
    {"tools": [*TOOLS["tools"], {"type": "code_execution_20250825", "name": "code_execution"}]},
    {"tools": [*TOOLS["tools"], {"type": "web_fetch_20250910", "name": "web_fetch"}]},
    {"tools": [*TOOLS["tools"], {"type": "mcp_toolset", "mcp_server_name": "x"}]},
    {**TOOLS, "mcp_servers": [{"type": "url", "url": "https://mcp.example.org", "name": "x"}]},
)


REASONING = {"model": "gpt-5", "reasoning": {"effort": "low", "summary": "auto"}}
RESPONDED: Any = (
    {"tools": [{"type": "web_search"}]},
    REASONING,
    {
        "tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "apply_patch"}],
        "tool_choice": "required",
    },
    {"tools": [{"type": "mcp", "server_label": "x"}, {"type": "code_interpreter"}], "store": False},
    {
        "previous_response_id": "resp_1",
        "input": [{"type": "message", "role": "user", "content": "x"}],
        "background": False,
    },
)
"""Parts of requests that go through: the service has these tools, and nobody else has."""

KEPT_HERE: Any = (
    {"conversation": "conv_1"},
    {"input": [{"type": "item_reference", "id": "msg_1"}]},
    {"input": [{"type": "compaction", "encrypted_content": "x"}]},
    {"context_management": [{"type": "compaction", "compact_threshold": 9}]},
)


def reasoned(seal: str) -> dict[str, Any]:
    """A request that hands reasoning back."""
    return {"input": [{"type": "reasoning", "summary": [], "encrypted_content": seal}]}


@pytest.mark.parametrize(
    ("reason", "dialect", "upstream", "facts", "request_"),
    [
        ("", "anthropic", MESSAGES, {}, {}),
        ("", "anthropic", MESSAGES, {}, SEARCHING),
        ("", "anthropic", MESSAGES, {}, thought("c2ln", *LATER)),
        ("rules.applied", "anthropic", MESSAGES, {}, thought("c2ln")),
        ("", "anthropic", MESSAGES, {}, {"temperature": 1, "stop_sequences": ["x"], "tool_choice": {"type": "auto"}}),
        ("", "anthropic", MESSAGES, {"toolbox": Toolbox((Search(),), 60.0, {"web_search"})}, SEARCHING),
        ("", "anthropic", MESSAGES, {"stream": StreamSettings(synthetic=True)}, {}),
        ("", "anthropic", MESSAGES, {"stream": StreamSettings(relay="unrepaired")}, TOOLS),
        ("", "anthropic", MESSAGES, {}, {"cache_control": EPHEMERAL}),
        *(("", "anthropic", MESSAGES, {}, marked) for marked in MARKED[:2]),
        ("tools.calls", "anthropic", MESSAGES, {}, {**TOOLS, "cache_control": EPHEMERAL}),
        ("thinking.asked", "anthropic", MESSAGES, {}, {**MARKED[0], "thinking": {"type": "adaptive"}}),
        *(("tools.calls", "anthropic", MESSAGES, {}, {**TOOLS, **marked}) for marked in MARKED),
        *(("", "anthropic", MESSAGES, {}, {"thinking": {"type": "adaptive"}, **served}) for served in SERVED),
        ("", "anthropic", MESSAGES, {}, {**SERVED[0], "tool_choice": {"type": "tool", "name": "code_execution"}}),
        ("", "anthropic", MESSAGES, {}, {**SERVED[0], "output_config": {"format": {"type": "x"}}}),
        ("output.checked", "anthropic", MESSAGES, {}, {**SERVED[0], "output_config": {"format": SCHEMA}}),
        ("tools.choice", "anthropic", MESSAGES, {}, {**SEARCHING, **MARKED[0], "tool_choice": {"type": "any"}}),
        ("", "openai_chat", CHAT, {}, {"max_completion_tokens": 9, "stream_options": {"include_usage": True}}),
        ("", "openai_chat", CHAT, {}, {"stop": ["a", "b", "c", "d"], "response_format": {"type": "text"}}),
        ("", "openai_chat", OLDER, {}, {"max_tokens": 9}),
        *(("", "openai_responses", RESPONSES, {}, asked) for asked in RESPONDED),
        *(("state.kept_here", "openai_responses", RESPONSES, {}, asked) for asked in KEPT_HERE),
        ("state.kept_here", "openai_responses", RESPONSES, {}, reasoned("kas2.x")),
        ("fields.unknown", "openai_responses", ResponsesUpstream(replay_thinking=False), {}, reasoned("gAAA")),
        ("rules.applied", "openai_responses", RESPONSES, {}, {"model": "gpt-4o", "reasoning": {"effort": "low"}}),
        ("service.taught", "openai_responses", ResponsesUpstream(remedies=(Remedy("summary"),)), {}, REASONING),
        ("rules.applied", "openai_responses", RESPONSES, {}, {"model": "gpt-5", "top_p": 1}),
        ("tools.calls", "openai_responses", RESPONSES, {}, {"tools": [{"type": "function", "name": "f"}]}),
        ("tools.run_here", "openai_responses", RESPONSES, {"toolbox": Toolbox((Search(),))}, RESPONDED[0]),
        ("output.checked", "openai_responses", RESPONSES, {}, {"text": {"format": {"type": "json_object"}}}),
        ("service.other", "openai_responses", CHAT, {}, {}),
        ("service.taught", "anthropic", MESSAGES, {"remedies": (Remedy("form", "adapted.form"),)}, {}),
        ("relay.never", "anthropic", MESSAGES, {"stream": StreamSettings(relay="never")}, {}),
        ("fields.withheld", "anthropic", AnthropicUpstream(withheld=("speed",)), {}, {}),
        ("fields.withheld", "openai_chat", OpenAIUpstream(withheld=("service_tier",)), {}, {}),
        ("service.other", "openai_chat", MESSAGES, {}, {}),
        ("service.other", "openai_chat", OpenAIUpstream(forwards=False), {}, {}),
        ("stages.own", "anthropic", MESSAGES, {"stages": (lambda prompt: Pipeline(),)}, {}),
        ("stream.synthetic", "anthropic", MESSAGES, {"stream": StreamSettings(synthetic=True)}, {"stream": True}),
        ("stream.usage_chunk", "openai_chat", CHAT, {"dialect": FINISHING}, {"stream": True}),
        ("", "openai_chat", CHAT, {"dialect": FINISHING}, {}),
        ("", "anthropic", MESSAGES, {"stream": StreamSettings(usage_chunk="finish")}, {"stream": True}),
        ("rules.applied", "anthropic", MESSAGES, {}, thought("gemini.thought:c2ln")),
        ("tools.run_here", "anthropic", MESSAGES, {"toolbox": Toolbox((Search(),))}, SEARCHING),
        ("tools.run_here", "anthropic", MESSAGES, {"toolbox": Toolbox((Search("s", ("f",)),))}, TOOLS),
        ("rules.applied", "openai_chat", CHAT, {}, {"tools": [{"type": "web_search"}]}),
        ("shapes.foreign", "openai_chat", CHAT, {}, {"system": "Be brief."}),
        ("shapes.foreign", "openai_chat", CHAT, {}, {"messages": [{"role": "user", "content": [PICTURE]}]}),
        ("shapes.foreign", "openai_chat", CHAT, {}, {"tools": [{"name": "f", "input_schema": {"type": "object"}}]}),
        ("tools.calls", "anthropic", MESSAGES, {}, TOOLS),
        ("tools.calls", "anthropic", MESSAGES, {}, {"tools": [{"type": "bash_20250124", "name": "bash"}]}),
        ("tools.calls", "openai_chat", CHAT, {}, FUNCTIONS),
        ("", "openai_chat", CHAT, {}, {"tools": [*FUNCTIONS["tools"], {"type": "custom", "custom": {"name": "x"}}]}),
        ("tools.calls", "openai_chat", CHAT, {}, {"functions": [{"name": "f"}]}),
        ("tools.choice", "anthropic", MESSAGES, {}, {**SEARCHING, "tool_choice": {"type": "any"}}),
        ("tools.choice", "openai_chat", CHAT, {"stream": StreamSettings(relay="unrepaired")},
         {**FUNCTIONS, "tool_choice": "required"}),
        ("tools.choice", "openai_chat", CHAT, {"stream": StreamSettings(relay="unrepaired")},
         {**FUNCTIONS, "parallel_tool_calls": False}),
        ("output.checked", "anthropic", MESSAGES, {}, {"output_config": {"format": SCHEMA}}),
        ("", "anthropic", MESSAGES, {}, {"output_config": {"format": {"type": "json_schema"}}}),
        ("output.checked", "openai_chat", CHAT, {}, {"response_format": {"type": "json_object"}}),
        ("thinking.asked", "anthropic", MESSAGES, {}, {"thinking": {"type": "adaptive"}}),
        *(("thinking.asked", "openai_chat", CHAT, {}, asked) for asked in THINKING),
        ("thinking.handled", "anthropic", MESSAGES, {"answer_options": REMOVING}, {}),
        ("thinking.handled", "openai_chat", OpenAIUpstream(thinking_tags=("think",)), {}, {}),
        ("rules.applied", "anthropic", SILENT, {}, thought("c2ln")),
        ("rules.applied", "openai_chat", CHAT, {}, {"messages": [{"role": "assistant", "reasoning_content": "x"}]}),
        ("rules.applied", "anthropic", MESSAGES, {}, NO_TEMPERATURE),
        ("rules.applied", "anthropic", MESSAGES, {}, {"model": "claude-sonnet-4-5", **EVERY_WAY}),
        ("rules.applied", "openai_chat", CHAT, {}, {"model": "gpt-5", "temperature": 0}),
        ("stop.kept_here", "anthropic", MESSAGES, {}, {"stop_sequences": ["a", "\n"]}),
        ("", "anthropic", MESSAGES, {}, {"stop_sequences": ["a", "b\n"]}),
        ("", "anthropic", MESSAGES, {}, {"stop_sequences": 5}),
        ("rules.applied", "anthropic", COPY, {}, {"system": OWN_LINE}),
        ("rules.applied", "anthropic", COPY, {}, {"system": [{"type": "text", "text": OWN_LINE}]}),
        ("", "anthropic", MESSAGES, {}, {"system": OWN_LINE}),
        ("stop.kept_here", "openai_chat", CHAT, {}, {"model": "o3", "stop": "x"}),
        ("", "openai_chat", CHAT, {}, {"stop": ["a", "b", "c", "d", "e"]}),
        ("fields.renamed", "openai_chat", CHAT, {}, {"max_tokens": 9}),
        ("fields.renamed", "openai_chat", OLDER, {}, {"max_completion_tokens": 9}),
        ("fields.renamed", "openai_chat", COUNTLESS, {}, {"stream_options": {"include_usage": True}}),
        ("fields.misspelt", "openai_chat", CHAT, {}, {"Model": "x"}),
        ("fields.misspelt", "openai_chat", CHAT, {}, {"MAX_TOKENS": 9}),
        ("fields.unknown", "openai_responses", SIGNED_IN, {}, {**FOR_CODEX, "stream": False}),
        ("rules.applied", "openai_responses", SIGNED_IN, {}, {**FOR_CODEX, "instructions": ""}),
        ("fields.unknown", "openai_responses", SIGNED_IN, {}, {**FOR_CODEX, "input": "one text"}),
        ("rules.applied", "openai_responses", SIGNED_IN, {}, {**FOR_CODEX, "metadata": {"a": "b"}}),
        ("stop.kept_here", "openai_responses", SIGNED_IN, {}, {**FOR_CODEX, "max_output_tokens": 99}),
        ("", "openai_responses", SIGNED_IN, {}, FOR_CODEX),
        ("", "openai_chat", CUSTOM, {}, {"messages": [ASKED, REASONED, ASKED]}),
        ("", "openai_chat", CUSTOM, {}, {"stop": ["a", "b", "c", "d", "e"]}),
    ],
)  # fmt: skip
def test_what_may_go_through(reason, dialect, upstream, facts, request_):
    """The same API on both sides, and nothing in request or answer that the gateway has to do."""
    own = facts.get("dialect", OWN[dialect])
    body = json.dumps({"model": "m", **LEAST[dialect], **request_}).encode()
    account = Credential(CredentialKind.API_KEY, "k", account="a" if upstream is SIGNED_IN else "")
    assert why_translated(own, body, upstream, account, **facts) == reason


LEAST = {
    "anthropic": {"max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]},
    "openai_chat": {"messages": [{"role": "user", "content": "hi"}]},
    "openai_responses": {"input": [{"role": "user", "content": "hi"}]},
}


def test_every_reason_is_tried_above():
    """A reason that no test knows is none."""
    (mark,) = (mark for mark in test_what_may_go_through.pytestmark if mark.name == "parametrize")
    assert {row[0] for row in mark.args[1]} == {"", *(reason.name for reason in REASONS)} - {"attachments.fetched"}


FORM = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"], "additionalProperties": False}
TOOL = {
    "anthropic": {"name": "f", "input_schema": FORM},
    "openai": {"type": "function", "function": {"name": "f", "parameters": FORM}},
}
FORMED = {"type": "json_schema", "json_schema": {"name": "f", "schema": FORM}}
THINK = {"type": "enabled", "budget_tokens": 1024}
LONG = {"max_tokens": 2048}
"""Room for that budget."""

PROMISES = {
    "thinking, put and found as asked": (
        {"anthropic": {**LONG, "thinking": THINK}, "openai": {"reasoning_effort": "high"}},
        {},
    ),
    "no thinking": ({"anthropic": {"thinking": {"type": "disabled"}}, "openai": {"reasoning_effort": "none"}}, {}),
    "thinking without its text": ({"anthropic": {**LONG, "thinking": {**THINK, "display": "omitted"}}}, {}),
    "repaired, merged and whole calls": ({name: {"tools": [tool]} for name, tool in TOOL.items()}, {}),
    "calls of functions as of old": ({"openai": {"functions": [TOOL["openai"]["function"]]}}, {}),
    "no call": (
        {
            "anthropic": {"tools": [TOOL["anthropic"]], "tool_choice": {"type": "none"}},
            "openai": {"tools": [TOOL["openai"]], "tool_choice": "none"},
        },
        {},
    ),
    "a call, also where its arguments are not repaired": (
        {
            "anthropic": {"tools": [TOOL["anthropic"]], "tool_choice": {"type": "any"}},
            "openai": {"tools": [TOOL["openai"]], "tool_choice": "required"},
        },
        {"stream": {"relay": "unrepaired"}},
    ),
    "one call at a time, the same": (
        {
            "anthropic": {
                "tools": [TOOL["anthropic"]],
                "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
            },
            "openai": {"tools": [TOOL["openai"]], "parallel_tool_calls": False},
        },
        {"stream": {"relay": "unrepaired"}},
    ),
    "JSON by a schema": (
        {
            "anthropic": {"output_config": {"format": {"type": "json_schema", "schema": FORM}}},
            "openai": {"response_format": FORMED},
        },
        {},
    ),
    "JSON by a schema, where only the log is told": (
        {
            "anthropic": {"output_config": {"format": {"type": "json_schema", "schema": FORM}}},
            "openai": {"response_format": FORMED},
        },
        {"structured": {"streaming": "unchecked"}},
    ),
    "JSON": ({"openai": {"response_format": {"type": "json_object"}}}, {}),
    "a stop sequence for a model that takes none": ({"openai": {"stop": "a"}}, {}),
    "sampling of a model that has none": ({"openai": {"temperature": 0}}, {}),
    "a stream that is made of the whole": ({name: {} for name in MODELS}, {"stream": {"synthetic": True}}),
    "what the operator wants": ({name: {} for name in MODELS}, {"stream": {"relay": "never"}}),
}
"""What is promised, to the part of a request that asks for it in each API that can, and to settings."""

HARMLESS = {
    "nothing": {name: {} for name in MODELS},
    "a system prompt": {
        "anthropic": {"system": "Be brief."},
        "openai": {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]},
    },
    "a picture": {
        "anthropic": {
            "messages": [
                {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "https://x/y"}}]}
            ]
        },
        "openai": {
            "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/y"}}]}]
        },
    },
    "stop sequences": {
        "anthropic": {"stop_sequences": ["a"] * 9},
        "openai": {"model": "openai/gpt-4o", "stop": ["a", "b"]},
    },
    "sampling": {
        "anthropic": {"temperature": 0.5},
        "openai": {"model": "openai/gpt-4o", "temperature": 0.5, "top_p": 1},
    },
    "token counts": {"openai": {"stream_options": {"include_usage": True}}},
    "text as the form": {"openai": {"response_format": {"type": "text"}}},
    "a choice among nothing": {"anthropic": {"tool_choice": {"type": "auto"}}, "openai": {"tool_choice": "auto"}},
    "somebody's name": {"anthropic": {"metadata": {"user_id": "u"}}, "openai": {"user": "u", "metadata": {"a": "b"}}},
    "what nobody else has": {"anthropic": {"container": "c"}, "openai": {"n": 2, "logprobs": True, "seed": 1}},
}
"""Requests on which nothing bears."""


WRITTEN = b'"novel": {'
"""As only the client writes it: a service of its API is sent the field in any case."""


async def goes_through(sim: simulator.Simulator, app: App, api: str, **more: Any) -> bool:
    """Whether the service reads the client's own bytes."""
    sim.forget()
    await asking(api, stream=True, **more).run(app)
    return WRITTEN in asked(sim, api)[0].body


@on_each_loop
@pytest.mark.parametrize(
    ("api", "more", "slices"),
    [
        pytest.param(api, more, slices, id=f"{name}-{api}")
        for name, (parts, slices) in PROMISES.items()
        for api, more in parts.items()
    ],
)
async def test_a_request_on_which_a_promise_bears_is_translated(api, more, slices, direct, sim):
    """E20: what goes through otherwise does not where the gateway has promised something about it."""
    assert await goes_through(sim, direct(), api)
    assert not await goes_through(sim, direct(**slices), api, **more)


@on_each_loop
@pytest.mark.parametrize(("api", "more"), [(api, more) for row in HARMLESS.values() for api, more in row.items()])
async def test_a_request_on_which_nothing_bears_goes_through(api, more, direct, sim):
    """E20: nor does the gateway meddle with what is the service's business alone."""
    assert await goes_through(sim, direct(), api, **more)


@on_each_loop
@pytest.mark.parametrize("relay", ["auto", "allow", "never"])
async def test_only_the_service_itself_gets_the_clients_bytes(relay, direct, sim):
    """A server in ``custom`` that speaks the API gets them where the operator says so for that one, and OpenAI does not
    where the operator says so."""
    for name, goes in (("openai", relay != "never"), ("local", relay == "allow")):
        sim.forget()
        sim.enqueue(saying(STREAMS["openai_chat"]), operation=OPERATIONS["openai"])
        server = {"api_key": "sk-up", "endpoint": f"{sim.url}/v1", "relay": relay}
        app = direct(**({"openai": server} if name == "openai" else {"custom": {"local": server}}))
        exchange = await asking("openai", stream=True, model=f"{name}/gpt-5").run(app)

        assert exchange.status == 200
        body = asked(sim, "openai")[0].body
        assert b"novel" in body and (WRITTEN in body) is goes
        assert (b'"chatcmpl-1"' in exchange.content) is goes


@on_each_loop
@pytest.mark.parametrize("stream", [True, False])
async def test_a_model_of_the_other_api(stream, direct, sim):
    """A refusal that names OpenAI's other API has the request translated, at once and from then on; no other has."""
    app = direct()
    asked_at = []
    for _ in range(2):
        sim.forget()
        exchange = await asking("openai", stream=stream, model="openai/gpt-5-pro").run(app)
        assert exchange.status == 200
        assert text_of("openai", exchange)
        asked_at.append([request.path for request in sim.requests if request.method == "POST"])
    sim.enqueue(simulator.refusal(404, "This model does not exist."), operation=OPERATIONS["openai"])

    assert asked_at == [["/v1/chat/completions", "/v1/responses"], ["/v1/responses"]]
    assert (await asking("openai", stream=stream, model="openai/gpt-4o").run(app)).status == 404


@on_each_loop
@EACH_API
async def test_bytes_that_make_no_event_do_not_count(api, direct, sim):
    """R06: comments, and an event that comes byte by byte and never ends, are no life; the idle limit ends them."""
    begun = START if api == "anthropic" else PIECE
    drip = (RawBytes(b": comment\n\n"), Pause(0.03), RawBytes(b"dat"), Pause(0.03)) * 40
    sim.enqueue((Head(content_type="text/event-stream"), RawBytes(begun), *drip), operation=OPERATIONS[api])
    began = anyio.current_time()
    exchange = await asking(api, stream=True).run(direct(stream={"idle_timeout": 0.3}))

    assert 0.3 <= anyio.current_time() - began < 5
    assert b"timeout" in exchange.content.split(b"dat", 3)[-1]
    assert exchange.complete
