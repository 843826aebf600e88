"""Simulated Bedrock: AWS's own client reads every event and exception of it, and signs what it checks.

``boto3.client`` is ``botocore``'s client by another name, so what stands here holds for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from urllib.parse import quote

import pytest
from attrs import define, field
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError, EventStreamError
from botocore.session import Session
from botocore.validate import ParamValidator
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.simulator import Event, ExceptionFrame, RecordedRequest, answer, text
from kiro_asgi.simulator.answers import SENTENCE, THOUGHT
from kiro_asgi.simulator.bedrock import read
from kiro_asgi.simulator.bedrock.checks import MODELS, RULES
from kiro_asgi.simulator.bedrock.embeddings import LENGTHS
from kiro_asgi.simulator.bedrock.encoder import FAILURES, REFUSALS
from kiro_asgi.simulator.request import SECRET_ACCESS_KEY, signature_fault
from kiro_asgi.simulator.scripts import SEALED, Head, RawBytes, sign
from kiro_asgi.simulator.service import SimulatedService
from kiro_asgi.wire.eventstream import FrameDecoder
from tests.simulator.asking import call
from tests.simulator.speaking import hear_anthropic

CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
OPUS = "global.anthropic.claude-opus-4-7"
LLAMA = "us.meta.llama3-3-70b-instruct-v1:0"
BEARER = {"authorization": "Bearer key"}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"toolSpec": {"name": "get_weather", "description": "Look up weather.", "inputSchema": {"json": SCHEMA}}}
TOOLS = {"tools": [TOOL]}
THINKS = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
HALF = "This is a simulated answer,"

both_ways = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "collected"])


@cache
def session() -> Session:
    return Session()


def client(url: str, service: str = "bedrock-runtime", secret: str = SECRET_ACCESS_KEY) -> Any:
    """AWS's client, which asks once."""
    return session().create_client(
        service,
        region_name="us-east-1",
        endpoint_url=url,
        aws_access_key_id="AKIDSIMULATED",
        aws_secret_access_key=secret,
        aws_session_token="session",
        config=Config(retries={"total_max_attempts": 1}),
    )


@pytest.fixture(scope="module")
def runtime(simulator) -> Iterator[Any]:
    made = client(simulator.url)
    yield made
    made.close()


def messages(words: str) -> list[Any]:
    return [{"role": "user", "content": [{"text": words}]}]


@define
class Told:
    """An answer as AWS's client has read it."""

    text: str = ""
    thoughts: str = ""
    signatures: list[str] = field(factory=list)
    sealed: bytes = b""
    calls: list[tuple[str, str, Any]] = field(factory=list)
    """Id, name, and arguments."""

    citations: list[Any] = field(factory=list)
    stop: str = ""
    usage: dict[str, int] = field(factory=dict)
    more: Any = None
    indices: list[int] = field(factory=list)

    def delta(self, index: int, delta: dict[str, Any], open_calls: dict[int, list[str]]) -> None:
        match delta:
            case {"text": words}:
                self.text += words
            case {"toolUse": {"input": part}}:
                open_calls[index][2] += part
            case {"reasoningContent": {"text": words}}:
                self.thoughts += words
            case {"reasoningContent": {"signature": signature}}:
                self.signatures.append(signature)
            case {"reasoningContent": {"redactedContent": data}}:
                self.sealed += data
            case {"citation": citation}:
                self.citations.append(citation)
            case _:
                raise AssertionError(delta)


def told(stream: Any) -> Told:
    """A stream by its grammar: a message, blocks of which only calls have a start, the reason, and what it took."""
    found, calls, seen = Told(), dict[int, list[str]](), list[str]()
    for event in stream:
        [(name, payload)] = event.items()
        seen.append(name)
        match name:
            case "contentBlockStart":
                use = payload["start"]["toolUse"]
                calls[payload["contentBlockIndex"]] = [use["toolUseId"], use["name"], ""]
            case "contentBlockDelta":
                found.delta(payload["contentBlockIndex"], payload["delta"], calls)
            case "contentBlockStop":
                found.indices.append(payload["contentBlockIndex"])
            case "messageStop":
                found.stop, found.more = payload["stopReason"], payload.get("additionalModelResponseFields")
            case "metadata":
                found.usage = payload["usage"]
    assert seen[0] == "messageStart"
    assert "metadata" not in seen or seen[-2:] == ["messageStop", "metadata"]
    found.calls = [(one, name, json.loads(raw or "{}")) for one, name, raw in calls.values()]
    return found


def told_whole(document: dict[str, Any]) -> Told:
    found = Told(stop=document["stopReason"], usage=document["usage"])
    found.more = document.get("additionalModelResponseFields")
    for block in document["output"]["message"]["content"]:
        match block:
            case {"text": words}:
                found.text += words
            case {"toolUse": {"toolUseId": one, "name": name, "input": arguments}}:
                found.calls.append((one, name, arguments))
            case {"reasoningContent": {"reasoningText": {"text": words, "signature": signature}}}:
                found.thoughts += words
                found.signatures.append(signature)
            case {"reasoningContent": {"redactedContent": data}}:
                found.sealed += data
            case {"citationsContent": {"content": [{"text": words}], "citations": citations}}:
                found.text += words
                found.citations += citations
            case _:
                raise AssertionError(block)
    return found


def ask(runtime: Any, words: str, *, stream: bool, model: str = CLAUDE, **more: Any) -> Told:
    question = {"modelId": model, "messages": messages(words), **more}
    return told(runtime.converse_stream(**question)["stream"]) if stream else told_whole(runtime.converse(**question))


@both_ways
def test_text_and_thinking(runtime, stream):
    """Thinking is signed, and comes before the text."""
    found = ask(runtime, "sim:thinking", stream=stream, additionalModelRequestFields=THINKS)

    assert (found.thoughts, found.text, found.stop) == (THOUGHT, SENTENCE, "end_turn")
    assert found.signatures == [sign(THOUGHT)]


@both_ways
def test_sealed_thinking(runtime, stream):
    """It comes in two deltas, each of which is base64 by itself."""
    assert ask(runtime, "sim:redacted", stream=stream).sealed == b"sealed"


@both_ways
def test_calls(runtime, stream):
    """Calls have ids of their own, also those without arguments."""
    now = {"toolSpec": {"name": "now", "inputSchema": {"json": {"type": "object"}}}}
    found = ask(runtime, "sim:parallel", stream=stream, toolConfig={"tools": [TOOL, now]})

    assert [it[1:] for it in found.calls] == [("get_weather", {"city": "Oslo"}), ("now", {})]
    assert len({it[0] for it in found.calls}) == 2
    assert found.stop == "tool_use"


@both_ways
def test_citations(runtime, stream):
    """What the service has looked up by itself is cited."""
    grounded = {"tools": [{"systemTool": {"name": "nova_grounding"}}]}
    found = ask(runtime, "hello", stream=stream, model="us.amazon.nova-2-lite-v1:0", toolConfig=grounded)

    assert [it["location"]["web"]["domain"] for it in found.citations] == ["example.org", "example.com"]


@both_ways
@pytest.mark.parametrize(
    ("marker", "stop"),
    [
        ("length", "max_tokens"),
        ("filtered", "content_filtered"),
        ("refused", "content_filtered"),
        ("context-full", "model_context_window_exceeded"),
        ("finish=guardrail_intervened", "guardrail_intervened"),
    ],
)
def test_stop_reasons(runtime, marker, stop, stream):
    """Each has the word of Converse."""
    assert ask(runtime, f"sim:{marker}", stream=stream).stop == stop


@both_ways
def test_limits_are_kept(runtime, stream):
    """The stop sequence that was met is told to who asks for it."""
    paths = ["/delta/stop_sequence", "/stop_sequence"]
    config = {"stopSequences": ["lated an"]}
    found = ask(runtime, "sim:text", stream=stream, inferenceConfig=config, additionalModelResponseFieldPaths=paths)

    assert (found.text, found.stop) == ("This is a simu", "stop_sequence")
    assert found.more == ({"delta": {"stop_sequence": "lated an"}} if stream else {"stop_sequence": "lated an"})
    assert ask(runtime, "sim:text", stream=stream, inferenceConfig={"maxTokens": 3}).text == "This is a"


@both_ways
def test_what_it_took(runtime, stream):
    """Cached tokens are not among those of the prompt, and are in the total."""
    used = ask(runtime, "sim:text sim:cached=7", stream=stream).usage

    assert used["cacheReadInputTokens"] == 7
    assert used["totalTokens"] == used["inputTokens"] + 7 + used["outputTokens"]


def test_gaps_and_missing_metadata(runtime):
    """Indices may skip, and a stream may end without what it took."""
    found = ask(runtime, "sim:thinking sim:gaps sim:no-metadata", stream=True)

    assert (found.indices, found.usage, found.text) == ([0, 2], {}, SENTENCE)


def test_frames_are_padded(simulator):
    """Every event has padding, which AWS's client passes over."""
    target = f"/model/{quote(CLAUDE, safe='')}/converse-stream"
    body = call(simulator.url, target, {"messages": messages("hello")}, headers=BEARER).body
    frames = [*FrameDecoder().feed([body])]

    assert len({len(json.loads(frame.payload)["p"]) for frame in frames}) > 5
    assert {frame.headers[":message-type"] for frame in frames} == {"event"}


@pytest.mark.parametrize("name", FAILURES)
def test_exceptions_within_a_stream(simulator, runtime, name):
    """An exception is the last frame; collected, it is a status; both have the message, and what the model said."""
    known = FAILURES[name]
    broken = (Head(), *text(HALF), ExceptionFrame(name, ""))
    simulator.enqueue(broken, broken, operation="bedrock.chat")
    found = Told()
    stream = runtime.converse_stream(modelId=CLAUDE, messages=messages("x"))["stream"]
    with closing(stream), pytest.raises(EventStreamError) as streamed:
        for event in stream:
            found.text += event.get("contentBlockDelta", {}).get("delta", {}).get("text", "")
    with pytest.raises(ClientError) as collected:
        runtime.converse(modelId=CLAUDE, messages=messages("x"))

    assert found.text == HALF
    assert streamed.value.response["Error"] == {"Code": known.name, "Message": known.message}
    assert collected.value.response["Error"]["Code"] == known.kind
    assert collected.value.response["ResponseMetadata"]["HTTPStatusCode"] == known.status


@pytest.mark.parametrize("marker", REFUSALS)
def test_refusals(runtime, marker):
    """Each has the status and the exception of the service, and a message."""
    with pytest.raises(ClientError) as refused:
        runtime.converse_stream(modelId=CLAUDE, messages=messages(f"sim:{marker}"))

    error = refused.value.response["Error"]
    status = refused.value.response["ResponseMetadata"]["HTTPStatusCode"]
    assert (status, error["Code"], error["Message"]) == REFUSALS[marker]


def test_every_exception_is_known_to_aws():
    """Statuses and names are those of AWS's own model of the service; what its model lacks, its sign-in has."""
    model = session().get_service_model("bedrock-runtime")
    known = {shape.name: shape.metadata["error"]["httpStatusCode"] for shape in model.error_shapes}
    streamed = model.operation_model("ConverseStream").get_event_stream_output().members

    assert all(known.get(kind, status) == status for status, kind, _ in REFUSALS.values())
    assert {kind for _, kind, _ in REFUSALS.values()} - known.keys() == {"UnrecognizedClientException"}
    assert {failure.name for failure in FAILURES.values()} <= streamed.keys()
    assert all(known[failure.kind] == failure.status for failure in FAILURES.values())


def test_invoke(runtime):
    """InvokeModel's answers are Anthropic's own, in frames or whole."""
    asked = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 4096, **THINKS}
    body = json.dumps({**asked, "messages": [{"role": "user", "content": "sim:thinking"}]})
    events = [
        json.loads(event["chunk"]["bytes"])
        for event in runtime.invoke_model_with_response_stream(modelId=CLAUDE, body=body)["body"]
    ]
    whole = json.loads(runtime.invoke_model(modelId=CLAUDE, body=body)["body"].read())
    counts = events[-1].pop("amazon-bedrock-invocationMetrics")
    found = hear_anthropic([(event["type"], event) for event in events])

    assert (found.thoughts, found.text, found.signatures) == (THOUGHT, SENTENCE, [sign(THOUGHT)])
    assert found.whole
    assert counts["outputTokenCount"] == found.usage["output_tokens"]
    assert [block["type"] for block in whole["content"]] == ["thinking", "text"]
    assert whole["model"] == "claude-sonnet-4-5-20250929"


def test_invoke_breaks_off_by_an_exception(runtime):
    """Not by an event of Anthropic's."""
    body = json.dumps(
        {
            "anthropic_version": "bedrock-2023-05-31",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": "sim:exception=ThrottlingException"}],
        }
    )
    stream = runtime.invoke_model_with_response_stream(modelId=CLAUDE, body=body)["body"]
    with closing(stream), pytest.raises(EventStreamError, match="throttlingException"):
        for _ in stream:
            pass


def test_counts(runtime):
    """Both bodies are counted."""
    body = {"anthropic_version": "x", "max_tokens": 1, "messages": [{"role": "user", "content": "x" * 40}]}
    by_converse = runtime.count_tokens(modelId=CLAUDE, input={"converse": {"messages": messages("x" * 40)}})
    by_invoke = runtime.count_tokens(modelId=CLAUDE, input={"invokeModel": {"body": json.dumps(body)}})

    assert by_converse["inputTokens"] == by_invoke["inputTokens"] == 11


def test_lists(simulator):
    """Models are listed by what they can be asked by, profiles in pages."""
    control = client(simulator.url, "bedrock")
    on_demand = control.list_foundation_models(byInferenceType="ON_DEMAND")["modelSummaries"]
    everything = control.list_foundation_models()["modelSummaries"]
    pages = control.get_paginator("list_inference_profiles").paginate(typeEquals="SYSTEM_DEFINED", maxResults=2)
    profiles = [profile["inferenceProfileId"] for page in pages for profile in page["inferenceProfileSummaries"]]
    control.close()

    assert {one["modelId"] for one in on_demand} | {*profiles} == {model.id for model in MODELS} | {*LENGTHS}
    assert {one["modelId"] for one in on_demand if one["outputModalities"] == ["EMBEDDING"]} == {*LENGTHS}
    assert {one["modelId"] for one in everything} > {one["modelId"] for one in on_demand}
    assert "anthropic.claude-opus-4-7" in {one["modelId"] for one in everything}


@pytest.mark.parametrize(
    "model",
    [
        "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/simulated001",
        f"arn:aws:bedrock:us-east-1:123456789012:inference-profile/{CLAUDE}",
        "amazon.nova-pro-v1:0",
    ],
)
def test_ids(runtime, model):
    """ARNs, profiles and base ids are percent-encoded, and name a model."""
    assert ask(runtime, "sim:text", stream=True, model=model).text == SENTENCE


@pytest.mark.parametrize(
    ("model", "message"),
    [("none.such", "The provided model identifier is invalid."), (CLAUDE[3:], "on-demand throughput isn’t supported")],
)
def test_models_that_are_not_there(runtime, model, message):
    """A model that is only in profiles is not there by its base id, and the refusal says so."""
    with pytest.raises(ClientError, match="ValidationException") as refused:
        ask(runtime, "hello", stream=True, model=model)

    assert message in refused.value.response["Error"]["Message"]


def test_who_may_ask(simulator):
    """A bearer's key, or a signature by the right secret; nothing else."""
    target, document = f"/model/{quote(CLAUDE, safe='')}/converse", {"messages": messages("hello")}
    wrong = client(simulator.url, secret="wrong")
    with pytest.raises(ClientError, match="InvalidSignatureException"):
        wrong.converse(modelId=CLAUDE, messages=messages("hello"))
    wrong.close()

    assert call(simulator.url, target, document, headers=BEARER).status == 200
    assert call(simulator.url, target, document, headers={}).status == 403
    assert call(simulator.url, target, document, headers={"authorization": "AWS4-HMAC-SHA256 x"}).status == 403


NAMES = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=1, max_size=9)


@given(
    model=NAMES,
    query=st.dictionaries(NAMES, NAMES, max_size=3),
    body=st.binary(max_size=20),
    token=st.one_of(st.none(), st.just("session")),
    port=st.integers(1, 65535),
)
def test_signatures_are_those_of_botocore(model, query, body, token, port):
    """Whatever is in path, query and body; any change of them, and any other time, is seen."""
    path = f"/model/{quote(model, safe='')}/converse"
    asked = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in query.items())
    sent = AWSRequest("POST", f"http://127.0.0.1:{port}{path}?{asked}", {"content-type": "application/json"}, body)
    SigV4Auth(Credentials("AKID", SECRET_ACCESS_KEY, token), "bedrock", "eu-north-1").add_auth(sent)
    headers = {name.lower(): value for name, value in sent.headers.items()} | {"host": f"127.0.0.1:{port}"}

    def fault(path: str = path, body: bytes = body, later: int = 0, **other: str) -> str:
        request = RecordedRequest("POST", path, asked, {**headers, **other}, body)
        return signature_fault(request, "bedrock", datetime.now(UTC) + timedelta(seconds=later))

    assert fault() == ""
    assert "does not match" in fault(path=f"{path}x")
    assert "does not match" in fault(body=body + b"x")
    assert "does not match" in fault(host="elsewhere")
    assert "expired" in fault(later=301)


def refused(document: Any, model: str = CLAUDE, operation: str = "converse") -> str:
    """The message of the refusal; empty for an answer."""
    path = f"/model/{quote(model, safe='')}/{operation}"
    head, body = SimulatedService().script_for(
        RecordedRequest("POST", path, "", BEARER, json.dumps(document).encode())
    )[:2]
    assert isinstance(head, Head)
    if head.status == 200:
        return ""
    assert isinstance(body, RawBytes)
    assert head.status == 400
    message = json.loads(body.data)["message"]
    assert message
    return str(message)


USE = {"toolUse": {"toolUseId": "tooluse_1", "name": "get_weather", "input": {"city": "Oslo"}}}
RESULT = {"toolResult": {"toolUseId": "tooluse_1", "content": [{"text": "4 C"}]}}
THINKING = {"reasoningContent": {"reasoningText": {"text": THOUGHT, "signature": sign(THOUGHT)}}}
PIXEL = {"image": {"format": "png", "source": {"bytes": "aGVsbG8="}}}


def report(name: str = "report") -> dict[str, Any]:
    return {"document": {"format": "txt", "name": name, "source": {"bytes": "aGVsbG8="}}}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def turns(*said: Any, results: tuple[Any, ...] = (RESULT,)) -> list[Any]:
    """A question, a call, and its result."""
    return [
        user({"text": "weather?"}),
        {"role": "assistant", "content": list(said or (USE,))},
        user(*results),
    ]


def thinks(kind: str = "enabled", **more: Any) -> dict[str, Any]:
    budget = {"budget_tokens": 1024} if kind == "enabled" else {}
    return {"messages": messages("x"), "additionalModelRequestFields": {"thinking": {"type": kind, **budget, **more}}}


def spec(**fields: Any) -> dict[str, Any]:
    return {"messages": messages("x"), "toolConfig": {"tools": [{"toolSpec": {**TOOL["toolSpec"], **fields}}]}}


def form(schema: Any) -> dict[str, Any]:
    structure = {"jsonSchema": {"schema": schema if isinstance(schema, str) else json.dumps(schema)}}
    return {
        "messages": messages("x"),
        "outputConfig": {"textFormat": {"type": "json_schema", "structure": structure}},
    }


def plain(**more: Any) -> dict[str, Any]:
    return {"messages": messages("x"), **more}


CLOSED = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}
POINT = {"cachePoint": {"type": "default"}}
CHOOSES = {"tools": [TOOL], "toolChoice": {"any": {}}}

KEPT: dict[str, tuple[Any, str]] = {
    "everything": (
        {
            "messages": turns(THINKING, {"text": "I look."}, USE, results=(RESULT, PIXEL, {"text": "And?"}, POINT)),
            "system": [{"text": "Be brief."}, POINT],
            "inferenceConfig": {"maxTokens": 4096, "stopSequences": ["x"]},
            "toolConfig": {"tools": [TOOL, POINT], "toolChoice": {"auto": {}}},
            "additionalModelRequestFields": {**THINKS, "anthropic_beta": ["interleaved-thinking-2025-05-14"]},
            "additionalModelResponseFieldPaths": ["/delta/stop_sequence"],
        },
        CLAUDE,
    ),
    "sealed": (
        {"messages": turns({"reasoningContent": {"redactedContent": SEALED}}, USE), "toolConfig": TOOLS},
        CLAUDE,
    ),
    "document": (plain(messages=[user(report("a report (2)"), {"text": "x"})]), CLAUDE),
    "form": (form(CLOSED), CLAUDE),
    "adaptive": (thinks("adaptive"), OPUS),
    "tools-whole": ({"messages": turns(), "toolConfig": TOOLS}, LLAMA),
}

BROKEN: dict[str, tuple[Any, str, str]] = {
    "field": (plain(seed=1), CLAUDE, "extraneous key [seed]"),
    "inference-field": (plain(inferenceConfig={"topK": 1}), CLAUDE, "extraneous key [topK]"),
    "temperature": (plain(inferenceConfig={"temperature": 1.5}), CLAUDE, "inferenceConfig.temperature"),
    "no-tokens": (plain(inferenceConfig={"maxTokens": 0}), CLAUDE, "inferenceConfig.maxTokens"),
    "many-tokens": (plain(inferenceConfig={"maxTokens": 64_001}), CLAUDE, "exceeds the model limit of 64000"),
    "stop": (plain(inferenceConfig={"stopSequences": [""]}), CLAUDE, "stopSequences"),
    "path": (plain(additionalModelResponseFieldPaths=["x"]), CLAUDE, "invalid JSON pointer"),
    "no-messages": (plain(messages=[]), CLAUDE, "must start with a user message"),
    "assistant-first": (plain(messages=turns()[1:]), CLAUDE, "must start with a user message"),
    "same-role": (plain(messages=messages("x") * 2), CLAUDE, "roles must alternate"),
    "empty": (plain(messages=[user()]), CLAUDE, "is empty"),
    "prefill": (plain(messages=[*messages("x"), {"role": "assistant", "content": [{"text": "x"}]}]), OPUS, "prefill"),
    "union": (plain(messages=[user({"text": "x", **PIXEL})]), CLAUDE, "several members"),
    "side": (plain(messages=[user(USE)]), CLAUDE, "toolUse is not permitted"),
    "blank": (plain(messages=messages(" ")), CLAUDE, "messages.0.content.0 is blank"),
    "blank-system": (plain(system=[{"text": ""}]), CLAUDE, "system.0 is blank"),
    "no-system": (plain(system=[{"text": "x"}]), "mistral.mistral-7b-instruct-v0:2", "system messages"),
    "no-eyes": (plain(messages=[user(PIXEL)]), LLAMA, "doesn't support the image"),
    "image": (plain(messages=[user({"image": {"format": "bmp", "source": {"bytes": ""}}})]), CLAUDE, "format must be"),
    "images": (plain(messages=[user(*[PIXEL] * 21)]), CLAUDE, "number of images is 21"),
    "document": (plain(messages=[user(report())]), CLAUDE, "text block must be included"),
    "document-name": (plain(messages=[user(report("a.txt"), {"text": "x"})]), CLAUDE, "file name can only"),
    "document-names": (plain(messages=[user(report(), report(), {"text": "x"})]), CLAUDE, "duplicate document names"),
    "no-tools": (plain(toolConfig={"tools": []}), CLAUDE, "at least one tool"),
    "unable": (plain(toolConfig=TOOLS), "us.deepseek.r1-v1:0", "doesn't support tool use."),
    "name": (spec(name="a b"), CLAUDE, "toolSpec.name"),
    "description": (spec(description=""), CLAUDE, "toolSpec.description"),
    "schema": (spec(inputSchema={"json": {}}), CLAUDE, "one of the following: object"),
    "names": (plain(toolConfig={"tools": [TOOL, TOOL]}), CLAUDE, "must be unique"),
    "choice": (plain(toolConfig=CHOOSES), LLAMA, "toolConfig.toolChoice.any"),
    "choices": (
        plain(toolConfig=CHOOSES, additionalModelRequestFields={"tool_choice": {"type": "any"}}),
        CLAUDE,
        "can't both be set",
    ),
    "chosen": (plain(toolConfig={"tools": [TOOL], "toolChoice": {"tool": {"name": "x"}}}), CLAUDE, "is not in"),
    "undeclared": ({"messages": turns()}, CLAUDE, "toolConfig field must be defined"),
    "use-id": (
        {"messages": turns({"toolUse": {**USE["toolUse"], "toolUseId": "a b"}}), "toolConfig": TOOLS},
        CLAUDE,
        "[a-zA-Z",
    ),
    "use-input": (
        {"messages": turns({"toolUse": {**USE["toolUse"], "input": 1}}), "toolConfig": TOOLS},
        CLAUDE,
        "json object",
    ),
    "use-twice": ({"messages": turns(USE, USE), "toolConfig": TOOLS}, CLAUDE, "ids must be unique"),
    "unanswered": (
        {"messages": turns(results=({"text": "x"},)), "toolConfig": TOOLS},
        CLAUDE,
        "Expected toolResult blocks",
    ),
    "unasked": ({"messages": [user(RESULT)], "toolConfig": TOOLS}, CLAUDE, "exceeds the number of toolUse"),
    "text-behind": ({"messages": turns(USE, {"text": "x"}), "toolConfig": TOOLS}, CLAUDE, "prefill"),
    "mixed": ({"messages": turns(results=(RESULT, {"text": "x"})), "toolConfig": TOOLS}, LLAMA, "in the same turn"),
    "failed": (
        {
            "messages": turns(results=({"toolResult": {"toolUseId": "tooluse_1", "content": [], "status": "error"}},)),
            "toolConfig": TOOLS,
        },
        CLAUDE,
        "cannot be empty when status",
    ),
    "points": (plain(messages=[user({"text": "x"}, *[POINT] * 5)]), CLAUDE, "Found 5"),
    "no-cache": (plain(messages=[user({"text": "x"}, POINT)]), LLAMA, "doesn't support the cachePoint"),
    "option": (plain(additionalModelRequestFields={"top_k": 1}), LLAMA, "top_k: Extra inputs"),
    "beta": (plain(additionalModelRequestFields={"anthropic_beta": ["mcp-client-1"]}), CLAUDE, "invalid beta flag"),
    "thinking": (thinks("adaptive"), CLAUDE, "thinking.type.adaptive is not supported"),
    "budgets": (thinks(), OPUS, "thinking.type.enabled is not supported"),
    "budget": (thinks(budget_tokens=9), CLAUDE, "at least 1024"),
    "budget-most": (thinks(budget_tokens=4096), CLAUDE, "`max_tokens` must be greater"),
    "cool": ({**thinks(), "inferenceConfig": {"temperature": 0.5}}, CLAUDE, "may only be set to 1"),
    "forced": ({**thinks(), "toolConfig": CHOOSES}, CLAUDE, "forces tool use"),
    "altered": (
        {
            "messages": turns({"reasoningContent": {"reasoningText": {"text": "x", "signature": sign(THOUGHT)}}}, USE),
            "toolConfig": TOOLS,
        },
        CLAUDE,
        "Invalid `signature`",
    ),
    "foreign": ({"messages": turns(THINKING, USE), "toolConfig": TOOLS}, LLAMA, "reasoningContent field"),
    "thoughtless": ({**thinks(), "messages": turns(), "toolConfig": TOOLS}, CLAUDE, "found `tool_use`"),
    "no-form": (form(CLOSED), LLAMA, "extraneous key [outputConfig]"),
    "form": (form("x"), CLAUDE, "a JSON schema as a string"),
    "open-form": (form(SCHEMA), CLAUDE, "'additionalProperties' must be"),
    "limited-form": (form({**CLOSED, "properties": {"n": {"type": "integer", "minimum": 1}}}), CLAUDE, "minimum"),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_is_taken(name):
    """These keep all rules, and AWS's client would send them."""
    document, model = KEPT[name]
    shape = session().get_service_model("bedrock-runtime").operation_model("Converse").input_shape

    assert refused(document, model) == ""
    assert not ParamValidator().validate({"modelId": model, **document}, shape).has_errors()


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_refused(name):
    """Each rule is broken alone, and the message says which."""
    document, model, message = BROKEN[name]

    assert message in refused(document, model)


def test_what_is_refused_of_a_stream():
    """Some families have tools only in whole answers."""
    document, model = KEPT["tools-whole"]

    assert "in streaming mode" in refused(document, model, "converse-stream")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"max_tokens": 9, "messages": []}, "anthropic_version: Field required"),
        ({"anthropic_version": "x", "model": "x"}, "model: Extra inputs are not permitted"),
        ({"anthropic_version": "x", "max_tokens": 9, "messages": []}, "at least one message is required"),
        ({"anthropic_version": "x", "anthropic_beta": ["y"]}, "invalid beta flag"),
    ],
)
def test_what_invoke_refuses(body, message):
    """The rules of the Messages API, and those of its place in Bedrock."""
    assert message in refused(body, operation="invoke")


STRANGE = st.sampled_from((None, True, -1, 2.5, "", "x", [], {}, [1], ["x"], {"x": 1}, [{}], [[]], {"text": "x"}))


def places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    within = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, part in within for place in places(part, (*path, key)))]


@given(name=st.sampled_from([*KEPT]), data=st.data())
def test_anything_gets_an_answer(name, data):
    """Whatever stands anywhere in a request, it is answered or refused."""
    document = json.loads(json.dumps(KEPT[name][0]))
    *way, last = data.draw(st.sampled_from([place for place in places(document) if place]))
    holder = document
    for key in way:
        holder = holder[key]
    holder[last] = data.draw(STRANGE)

    refused(document, KEPT[name][1], data.draw(st.sampled_from(("converse", "converse-stream", "invoke"))))


def test_every_rule_is_broken_once():
    """No rule stands here that no test breaks."""
    seen = set()
    for document, model, _ in BROKEN.values():
        request = RecordedRequest("POST", f"/model/{quote(model, safe='')}/converse", "", BEARER)
        question = read(request, document)
        seen |= {next(rule for rule in RULES if rule(document, question))}
    assert [rule.__name__ for rule in RULES if rule not in seen] == ["invoked_fields_known", "invoked_messages_valid"]


def test_scripts_of_unknown_events(simulator, runtime):
    """An event that nobody knows goes out, and AWS's client passes over it."""
    simulator.enqueue(answer(*text("a"), Event("fooEvent", {"x": 1}), *text("b")), operation="bedrock.chat")

    assert ask(runtime, "x", stream=True).text == "ab"
