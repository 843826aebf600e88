"""The official JavaScript SDKs: scripts ask and report, and here is what they should have seen.

Numbers are those of the project's list of conformance assertions.
"""

from __future__ import annotations

import fcntl
import json
import os
import pickle
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from attrs import asdict, frozen

from kiro_asgi.simulator import MODELS
from kiro_asgi.simulator.answers import UNICODE
from kiro_asgi.simulator.embeddings import vector as simulated_vector
from tests.conformance.asking import CHAT_TOOLS, MESSAGES_TOOLS, MODEL, NATIVE, RESPONSES_TOOLS, SENTENCE, THOUGHT
from tests.conformance.gateways import KEY, Gateway
from tests.conformance.node import Seen, install, run
from tests.conformance.troubles import TROUBLES, Trouble

pytestmark = pytest.mark.js

BROKEN = ("reset", "exception", "torn", "stall-mid")
EMBEDDING = {
    "openai/text-embedding-3-small": 1_536,
    "gemini/gemini-embedding-001": 3_072,
    "bedrock/amazon.titan-embed-text-v2:0": 1_024,
    "bedrock/cohere.embed-v4:0": 1_536,
}
"""Embedding model of each service to the length of its vectors."""

RETRIED = {api: f"sim:once-429-retry-after=1 in JavaScript for {api}" for api in ("chat", "messages")}
FINAL = {api: f"sim:quota in JavaScript for {api}" for api in ("chat", "messages")}

Reports = dict[str, Seen]


@frozen
class Ran:
    """What the scripts reported, and when the service was asked what they count."""

    chat: Reports
    messages: Reports
    responses: Reports
    asked: Mapping[str, list[float]]


@pytest.fixture(scope="session")
def packages() -> Path:
    return install()


@pytest.fixture(scope="session")
def given(gateway: Gateway, impatient: Gateway) -> dict[str, Any]:
    return {
        "gateway": gateway.base,
        "impatient": impatient.base,
        "key": KEY,
        "model": MODEL,
        "native": NATIVE,
        "chatTools": CHAT_TOOLS,
        "messagesTools": MESSAGES_TOOLS,
        "responsesTools": RESPONSES_TOOLS,
        "troubles": [asdict(trouble) for trouble in TROUBLES],
        "broken": BROKEN,
        "embeddingModels": [*EMBEDDING],
        "retried": RETRIED,
        "final": FINAL,
    }


def run_all(packages: Path, given: dict[str, Any], impatient: Gateway) -> Ran:
    """The scripts side by side, as they mostly wait."""
    with ThreadPoolExecutor() as threads:
        names = ("chat.mjs", "messages.mjs", "responses.mjs")
        reports = threads.map(lambda name: run(name, packages, given), names)
    counted = (*RETRIED.values(), *FINAL.values())
    return Ran(*reports, {it: [request.received_at for request in impatient.asked(it)] for it in counted})


@pytest.fixture(scope="session")
def ran(packages: Path, given: dict[str, Any], impatient: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Node.js works for seconds, so the first worker of pytest-xdist that needs this leaves it to the others."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with (folder / "javascript.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = folder / "javascript"
        if not kept.exists():
            kept.write_bytes(pickle.dumps(run_all(packages, given, impatient)))
        found: Ran = pickle.loads(kept.read_bytes())
    return found


@pytest.fixture(scope="session")
def chat_js(ran: Ran) -> Reports:
    return ran.chat


@pytest.fixture(scope="session")
def messages_js(ran: Ran) -> Reports:
    return ran.messages


@pytest.fixture(scope="session")
def responses_js(ran: Ran) -> Reports:
    return ran.responses


def value(reports: Reports, name: str) -> Any:
    seen = reports[name]
    assert seen.thrown is None, seen.thrown
    return seen.value


def test_2_create(chat_js: Reports) -> None:
    """An object, not a text; with a request id."""
    answer = value(chat_js, "create")

    assert answer["choices"][0]["message"]["content"] == SENTENCE
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert all(isinstance(answer["usage"][name], int) for name in ("prompt_tokens", "completion_tokens"))
    assert value(chat_js, "request-id").startswith("req_")


def test_3_7_stream(chat_js: Reports) -> None:
    """Raw iteration gets the text, and its loop, which waits for the end of the body, ends at once."""
    assert value(chat_js, "stream") == SENTENCE
    assert chat_js["stream"].seconds < 4


@pytest.mark.parametrize("content", ["sim:text", "sim:unicode", "sim:count=300", "sim:length", "sim:text sim:bytes"])
def test_5_helper(chat_js: Reports, content: str) -> None:
    """`.stream()` folds to the answer that is not streamed, and knows the usage."""
    seen = value(chat_js, f"helper {content}")
    streamed, whole = (seen[way]["choices"][0] for way in ("streamed", "whole"))

    assert streamed["message"]["content"] == whole["message"]["content"]
    assert streamed["message"]["content"] == UNICODE or "unicode" not in content
    assert streamed["finish_reason"] == whole["finish_reason"]
    assert seen["usage"]["prompt_tokens"] > 0
    assert seen["usage"]["total_tokens"] > seen["usage"]["completion_tokens"] > 0


@pytest.mark.parametrize(
    ("content", "calls"),
    [
        pytest.param("sim:interleaved=1", [("get_weather", {"city": "Oslo"})], id="10"),
        pytest.param("sim:parallel", [("get_weather", {"city": "Oslo"}), ("now", {})], id="11"),
        pytest.param("sim:tool=now", [("now", {})], id="12"),
    ],
)
def test_10_11_12_tools(chat_js: Reports, content: str, calls: list[Any]) -> None:
    """Calls keep apart, with ids that are not doubled."""
    (choice,) = value(chat_js, f"tools {content}")["choices"]
    made = choice["message"]["tool_calls"]

    assert [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in made] == calls
    assert {call["type"] for call in made} == {"function"}
    assert len({call["id"] for call in made}) == len(calls)
    assert all(call["id"].count("tooluse_") == 1 for call in made)
    assert choice["finish_reason"] == "tool_calls"
    assert (choice["message"]["content"] is None) == ("interleaved" in content)


def test_15_zod(chat_js: Reports) -> None:
    """The schema helper gets an object that fits."""
    seen = value(chat_js, "parse")

    assert set(seen["whole"]) == {"name", "population", "sights"}
    assert seen["streamed"] == seen["whole"]


@pytest.mark.parametrize("marker", BROKEN)
def test_24_broken_off(chat_js: Reports, marker: str) -> None:
    """Raw and in the helper: an error with words."""
    raw, folded = chat_js[f"broken {marker}"].thrown, chat_js[f"broken helper {marker}"].thrown

    assert raw is not None
    assert (raw["name"], raw["code"], bool(raw["message"])) == ("APIError", "stream_error", True)
    assert folded is not None


@pytest.mark.parametrize("way", ["create", "old version"])
def test_48_create(messages_js: Reports, way: str) -> None:
    """A message under both versions of the API."""
    answer = value(messages_js, way)

    assert answer["content"] == [{"type": "text", "text": SENTENCE}]
    assert (answer["stop_reason"], answer["stop_sequence"]) == ("end_turn", None)
    assert value(messages_js, "request-id").startswith("req_")


def test_49_stream(messages_js: Reports) -> None:
    """Raw iteration gets every event."""
    kinds = value(messages_js, "stream")

    assert (kinds[0], kinds[-2:]) == ("message_start", ["message_delta", "message_stop"])
    assert messages_js["stream"].seconds < 4


@pytest.mark.parametrize(
    ("content", "kinds"),
    [
        pytest.param("sim:text", ["text"], id="text"),
        pytest.param("sim:unicode", ["text"], id="unicode"),
        pytest.param("sim:parallel", ["text", "tool_use", "tool_use"], id="tools"),
        pytest.param("sim:tool=now", ["text", "tool_use"], id="no-arguments"),
        pytest.param("sim:thinking", ["thinking", "text"], id="thinking"),
        pytest.param("sim:redacted", ["redacted_thinking", "text"], id="sealed"),
        pytest.param("sim:text sim:bytes", ["text"], id="stop-sequence"),
    ],
)
def test_50_helpers(messages_js: Reports, content: str, kinds: list[str]) -> None:
    """Both `.stream()` helpers fold to what is answered without a stream; counts are not zeroed."""
    seen = value(messages_js, f"helper {content}")
    whole = seen["whole"]

    assert [block["type"] for block in whole["content"]] == kinds
    assert whole["content"][0].get("thinking", THOUGHT) == THOUGHT
    for way in ("streamed", "beta"):
        assert seen[way]["content"] == whole["content"]
        assert seen[way]["stop_reason"] == whole["stop_reason"]
        assert seen[way]["stop_sequence"] == whole["stop_sequence"]
        assert seen[way]["usage"]["input_tokens"] == whole["usage"]["input_tokens"] > 0
        assert seen[way]["usage"]["output_tokens"] > 0


def test_58_zod(messages_js: Reports) -> None:
    """The schema helper gets an object that fits."""
    assert set(value(messages_js, "parse")) == {"name", "population", "sights"}


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda each: each.name)
def test_61_chat(chat_js: Reports, trouble: Trouble) -> None:
    """Class, status, type, code and request id of every refusal."""
    thrown = chat_js[f"trouble {trouble.name}"].thrown
    name, kind, code = trouble.chat

    assert thrown is not None
    assert thrown["name"] == ("APIError" if name == "APIStatusError" else name)
    assert (thrown["status"], thrown["type"], thrown["code"]) == (trouble.status, kind, code)
    assert thrown["requestID"].startswith("req_")


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda each: each.name)
def test_61_messages(messages_js: Reports, trouble: Trouble) -> None:
    """Class, status, type and request id of every refusal."""
    thrown = messages_js[f"trouble {trouble.name}"].thrown
    name, kind = trouble.messages

    assert thrown is not None
    assert (thrown["name"], thrown["type"]) == (name, kind)
    assert thrown["status"] == trouble.status_of_messages
    assert thrown["requestID"].startswith("req_")


KINDS = {"reset": "overloaded_error", "exception": "api_error", "torn": "api_error", "stall-mid": "timeout_error"}


@pytest.mark.parametrize("marker", BROKEN)
def test_62_broken_off(messages_js: Reports, marker: str) -> None:
    """F087: raw and in the helper, an error of the right type."""
    raw, folded = messages_js[f"broken {marker}"].thrown, messages_js[f"broken helper {marker}"].thrown

    assert raw is not None
    assert (raw["name"], raw["type"]) == ("APIError", KINDS[marker])
    assert folded is not None
    assert folded["type"] == KINDS[marker]


def test_63_count(messages_js: Reports) -> None:
    """Plain and beta count alike."""
    counts = value(messages_js, "count")

    assert counts["plain"] == counts["beta"] > 0


def test_65_models(chat_js: Reports, messages_js: Reports) -> None:
    """Both page through the one list and come to its end."""
    ids = value(chat_js, "models")

    assert ids == value(messages_js, "models")
    assert ids[: len(MODELS)] == [model.id for model in MODELS]


@pytest.mark.parametrize("model", EMBEDDING)
def test_embeddings(chat_js: Reports, model: str) -> None:
    """In base64, which the client asks for by itself, and as numbers: of each service the vectors that it made."""
    made = chat_js[f"embeddings {model}"].value

    assert made["model"] == model
    for vector, text in zip((*made["vectors"], made["float"]), ("a cat", "a dog", "a cat"), strict=True):
        assert vector == pytest.approx(simulated_vector(text, EMBEDDING[model]), abs=1e-6)


@pytest.mark.parametrize("api", ["chat", "messages"])
def test_66_retries(ran: Ran, api: str) -> None:
    """A wait that was asked for is waited; what is final is tried once."""
    reports = {"chat": ran.chat, "messages": ran.messages}[api]
    passing, final = reports["retry passing"], reports["retry final"]
    first, second = ran.asked[RETRIED[api]]

    assert passing.thrown is None
    assert 0.95 < second - first < 4
    assert final.thrown is not None
    assert (final.thrown["status"], len(ran.asked[FINAL[api]])) == (402, 1)


def test_30_responses(responses_js: Reports) -> None:
    """An object, not a text, and a stream whose loop ends at once."""
    answer = value(responses_js, "create")

    assert (answer["status"], answer["output_text"]) == ("completed", SENTENCE)
    assert value(responses_js, "stream") == SENTENCE
    assert responses_js["stream"].seconds < 4


HELPED = (
    ("sim:text", ["message"]),
    ("sim:unicode", ["message"]),
    ("sim:count=300", ["message"]),
    ("sim:length", ["message"]),
    ("sim:filtered", ["message"]),
    ("sim:parallel", ["message", "function_call", "function_call"]),
    ("sim:tool=apply_patch", ["message", "custom_tool_call"]),
    ("sim:thinking", ["reasoning", "message"]),
    ("sim:thinking sim:bytes", ["reasoning", "message"]),
    ("sim:redacted", ["reasoning", "message"]),
    ("sim:tool=web_search", ["message", "web_search_call", "message"]),
)


@pytest.mark.parametrize(("content", "kinds"), HELPED, ids=[content for content, _ in HELPED])
def test_30_45_responses_helper(responses_js: Reports, content: str, kinds: list[str]) -> None:
    """What the helper folds is what is not streamed; it knows every event."""
    answers = value(responses_js, f"helper {content}")
    streamed, whole = ([{**item, "id": ""} for item in answers[mode]["output"]] for mode in ("streamed", "whole"))

    assert [item["type"] for item in whole] == kinds
    assert _without(streamed, "parsed", "parsed_arguments") == whole
    assert answers["streamed"]["status"] == answers["whole"]["status"]


def test_30_responses_over_websocket(responses_js: Reports) -> None:
    """A tool loop on what is not stored, an error that the connection survives, an answer that is cut; and a connection
    that is torn in the middle of one, and dialled again by the SDK."""
    seen = value(responses_js, "websocket")

    assert seen["second"]["output"][-1]["content"][0]["text"] == "The tool says: noon"
    assert seen["missing"]["code"] == "previous_response_not_found"
    assert [seen[turn]["output"][-1]["content"][0]["text"] for turn in ("last", "again")] == [SENTENCE, SENTENCE]


def _without(found: Any, *names: str) -> Any:
    if isinstance(found, dict):
        return {name: _without(item, *names) for name, item in found.items() if name not in names}
    return [_without(item, *names) for item in found] if isinstance(found, list) else found


def test_39_responses_parse(responses_js: Reports) -> None:
    """The helper for schemas gets an object of the schema."""
    parsed = value(responses_js, "parse")

    assert parsed["whole"] == parsed["streamed"]
    assert set(parsed["whole"]) == {"name", "population", "sights"}


@pytest.mark.parametrize("marker", BROKEN)
def test_38_responses_broken(responses_js: Reports, marker: str) -> None:
    """An error inside the stream is thrown."""
    thrown = responses_js[f"broken {marker}"].thrown

    assert thrown is not None
    assert (thrown["name"], thrown["code"]) == ("APIError", "stream_error")
