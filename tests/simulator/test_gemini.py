"""The simulated service in Gemini's format: what only this one has, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from kiro_asgi.simulator import RecordedRequest
from kiro_asgi.simulator.answers import SENTENCE
from kiro_asgi.simulator.gemini import PIXEL
from kiro_asgi.simulator.scripts import Head, RawBytes
from kiro_asgi.simulator.service import SimulatedService
from tests.simulator.asking import call
from tests.simulator.speaking import HEADERS, ask, events, gemini, hear_gemini, heard

MISSING = "Function call is missing a thought_signature in functionCall parts"


def refused(contents: Any, *, model: str = "gemini-2.5-flash", **more: Any) -> str:
    """The message of the refusal; empty for an answer."""
    target, document = gemini(contents, model=model, **more)
    path, _, query = target.partition("?")
    script = SimulatedService().script_for(
        RecordedRequest("POST", path, query, HEADERS["gemini"], json.dumps(document).encode())
    )
    head, body = script[:2]
    assert isinstance(head, Head)
    if head.status == 200:
        return ""
    assert isinstance(body, RawBytes)
    error = json.loads(body.data)["error"]
    assert (head.status, error["code"], error["status"]) == (400, 400, "INVALID_ARGUMENT")
    return error["message"]


def declared(*schemas: Any, name: str = "f") -> Any:
    return [{"functionDeclarations": [{"name": name, "parameters": schema} for schema in schemas]}]


def turns(*, call_part: Any = None, answer: Any = None) -> list[Any]:
    """A question, a call, and its answer."""
    part = {"functionCall": {"name": "get_weather", "args": {"city": "Oslo"}}}
    response = {"functionResponse": {"name": "get_weather", "response": {"result": "4 C"}}}
    return [
        {"role": "user", "parts": [{"text": "weather?"}]},
        {"role": "model", "parts": [call_part or part]},
        {"role": "user", "parts": [answer or response]},
    ]


def test_grounding(simulator):
    """A search that the request asks for, or a marker, has its queries, its places, and what rests on them."""
    asked = heard(simulator.url, "gemini", "hello – you", tools=[{"googleSearch": {}}])
    marked = heard(simulator.url, "gemini", "sim:search", stream=False)

    [grounding] = asked.extra
    [support] = grounding["groundingSupports"]
    assert grounding["webSearchQueries"] == ["hello – you"]
    assert support["segment"]["endIndex"] == len(asked.text.encode())
    assert len(grounding["groundingChunks"]) == len(support["groundingChunkIndices"]) == 2
    assert len(marked.extra) == 1


def test_a_blocked_prompt(simulator):
    """A prompt that is blocked has feedback and no candidate."""
    told = heard(simulator.url, "gemini", "sim:refused")

    assert told.extra == [{"blockReason": "SAFETY", "safetyRatings": []}]
    assert (told.text, told.stop) == ("", None)


def test_an_image(simulator):
    """An image comes whole."""
    assert heard(simulator.url, "gemini", "sim:image").extra == [{"mimeType": "image/png", "data": PIXEL}]


def test_an_array(simulator):
    """Without ``alt=sse``, or with a marker, a stream is one JSON array; an error is one of its entries."""
    target, document = gemini("sim:text")
    plain = call(simulator.url, target.partition("?")[0], document, headers=HEADERS["gemini"])
    failing = ask(simulator.url, "gemini", "sim:exception sim:array")

    assert plain.headers["content-type"] == "application/json"
    assert hear_gemini(plain.json).text == SENTENCE
    assert len(plain.chunks) > 5
    assert json.loads(failing.body + b"]")[-1]["error"]["code"] == 500


def test_the_private_envelope(simulator):
    """On demand every document is within ``response``."""
    found = events(ask(simulator.url, "gemini", "sim:text sim:envelope").body)

    assert {tuple(data) for _, data in found} == {("response",)}
    assert hear_gemini([data["response"] for _, data in found]).text == SENTENCE


@pytest.mark.parametrize(
    ("model", "change", "ids"),
    [
        ("gemini-3-pro-preview", "", 1),
        ("gemini-2.5-flash", "", 0),
        ("gemini-3-pro-preview", "no-ids", 0),
        ("gemini-2.5-flash", "with-ids", 1),
    ],
)
def test_ids_of_calls(simulator, model, change, ids):
    """Newer models name their calls, older ones do not, and either can be changed."""
    told = heard(simulator.url, "gemini", f"sim:tool {change and f'sim:{change}'}", model=model)

    assert (len(told.calls), len(told.ids)) == (1, ids)


@pytest.mark.parametrize(
    ("question", "place"),
    [
        ("sim:thinking", {"text": ""}),
        ("sim:thinking sim:signed-at=text", {"text": "This"}),
        ("sim:thinking sim:signed-at=thought", {"text": "", "thought": True}),
    ],
)
def test_where_an_answer_is_signed(simulator, question, place):
    """The signature of an answer without calls is on a last empty part, or where a marker puts it."""
    found = events(ask(simulator.url, "gemini", question).body)
    parts = [part for _, data in found for part in data["candidates"][0]["content"]["parts"]]
    [signed] = [part for part in parts if part.pop("thoughtSignature", "")]

    assert signed == place


def test_the_first_of_parallel_calls_is_signed(simulator):
    """Of calls side by side, the first has the signature."""
    document = ask(simulator.url, "gemini", "sim:parallel=3", stream=False).json
    parts = document["candidates"][0]["content"]["parts"][1:]

    assert ["thoughtSignature" in part for part in parts] == [True, False, False]


def test_signatures_are_enforced(simulator):
    """In the current turn a first call goes back with its own signature, unchanged, or with the documented word."""
    given = ask(simulator.url, "gemini", "sim:tool", stream=False).json["candidates"][0]["content"]["parts"]
    [part] = [one for one in given if "functionCall" in one]
    identity = part["functionCall"]["id"]
    answer = {"functionResponse": {"id": identity, "name": "get_weather", "response": {"result": "4 C"}}}

    def second(changed: Any, *more: Any) -> str:
        return refused([*turns(call_part=changed, answer=answer), *more], model="gemini-3-pro-preview")

    signature = part["thoughtSignature"]
    later = ({"role": "model", "parts": [{"text": "4 C"}]}, {"role": "user", "parts": [{"text": "thanks"}]})
    unsigned = {"functionCall": part["functionCall"]}
    assert second(part) == ""
    assert second({**part, "thoughtSignature": "skip_thought_signature_validator"}) == ""
    assert second(unsigned).startswith(f"{MISSING}.")
    assert "`default_api:get_weather` , position 2" in second(unsigned)
    assert second(unsigned, *later) == ""
    assert second({**part, "thoughtSignature": signature[:-4] + "AAA="}) == "Corrupted thought signature."
    other = {**part["functionCall"], "args": {"city": "Bergen"}}
    assert second({"functionCall": other, "thoughtSignature": signature}) == "Corrupted thought signature."
    assert second({"functionCall": unsigned["functionCall"], "thought_signature": signature}) == ""


def test_every_step_of_a_turn_is_signed(simulator):
    """The first call of each step needs a signature, not only that of the last."""
    signed = {
        "functionCall": {"name": "get_weather", "args": {}},
        "thoughtSignature": "skip_thought_signature_validator",
    }
    unsigned = {"functionCall": {"name": "get_weather", "args": {}}}
    answer = {"role": "user", "parts": [{"functionResponse": {"name": "get_weather", "response": {}}}]}
    steps = [
        {"role": "user", "parts": [{"text": "weather?"}]},
        {"role": "model", "parts": [unsigned]},
        answer,
        {"role": "model", "parts": [signed]},
        answer,
    ]

    assert "position 2" in refused(steps, model="gemini-3-pro-preview")
    assert refused(steps, model="gemini-2.5-pro") == ""


def test_results_are_quoted(simulator):
    """The result of a tool is what the second answer is about."""
    assert heard(simulator.url, "gemini", turns(), model="gemini-2.5-flash").text == "The tool says: 4 C"


def test_pages_of_models(simulator):
    """The list of models comes in pages where the request wants some."""
    names: list[str] = []
    token = "0"
    while token:
        target = f"/v1beta/models?pageSize=2&pageToken={token}"
        page = call(simulator.url, target, method="GET", headers=HEADERS["gemini"]).json
        names += [model["name"] for model in page["models"]]
        token = page.get("nextPageToken", "")

    assert names[:2] == ["models/gemini-2.5-flash", "models/gemini-2.5-flash-lite"]
    assert len(names) == len(set(names)) == 5


def test_tokens_are_counted(simulator):
    """The size of a prompt is told."""
    target = "/v1beta/models/gemini-2.5-pro:countTokens"
    counted = call(simulator.url, target, {"contents": [{"parts": [{"text": "x" * 40}]}]}, headers=HEADERS["gemini"])

    assert counted.json == {"totalTokens": 11}


def _contents(change: Callable[[list[Any]], Any]) -> Any:
    contents = turns()
    change(contents)
    return contents


UNKNOWN = 'Invalid JSON payload received. Unknown name "{}"{}: Cannot find field.'
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "unknown-top": ({"messages": []}, UNKNOWN.format("messages", "")),
    "unknown-option": (
        {"generationConfig": {"max_tokens": 1}},
        UNKNOWN.format("max_tokens", " at 'generationConfig'"),
    ),
    "unknown-part": (
        {"contents": [{"parts": [{"text": "x", "cache_control": {}}]}]},
        UNKNOWN.format("cache_control", " at 'contents[0].parts[0]'"),
    ),
    "schema-keyword": (
        {"tools": declared({"type": "object", "additionalProperties": False})},
        UNKNOWN.format("additionalProperties", " at 'tools[0].functionDeclarations[0].parameters'"),
    ),
    "schema-keyword-deep": (
        {"tools": declared({"type": "OBJECT", "properties": {"a": {"type": "STRING", "const": 1}}})},
        UNKNOWN.format("const", " at 'tools[0].functionDeclarations[0].parameters.properties.a'"),
    ),
    "schema-type": ({"tools": declared({"type": "tuple"})}, "parameters.type: must be specified"),
    "schema-array": ({"tools": declared({"type": "ARRAY"})}, "items: missing field."),
    "schema-enum": ({"tools": declared({"type": "INTEGER", "enum": ["1"]})}, "only allowed for STRING type"),
    "schema-properties": (
        {"tools": declared({"anyOf": [{"type": "OBJECT"}], "properties": {}})},
        "properties: only allowed for OBJECT type",
    ),
    "schema-items": (
        {"tools": declared({"type": "STRING", "items": {"type": "STRING"}})},
        "items: only allowed for ARRAY type",
    ),
    "schema-empty": ({"tools": declared({"type": "OBJECT", "properties": {"a": {}}})}, "[a].type: must be specified"),
    "schema-of-the-answer": (
        {"generationConfig": {"responseMimeType": "application/json", "responseSchema": {"type": "ARRAY"}}},
        "generation_config.response_schema.items: missing field.",
    ),
    "schema-enum-numbers": ({"tools": declared({"type": "STRING", "enum": [1]})}, "only strings are allowed"),
    "schema-required": ({"tools": declared({"type": "OBJECT", "required": ["a"]})}, "property is not defined"),
    "schema-false": ({"tools": declared({"type": "OBJECT", "properties": {"a": False}})}, "must be an object"),
    "name": ({"tools": declared({"type": "OBJECT"}, name="1st")}, "Invalid function name."),
    "name-long": ({"tools": declared({"type": "OBJECT"}, name="a" * 65)}, "Invalid function name."),
    "name-twice": ({"tools": declared({"type": "OBJECT"}, {"type": "OBJECT"})}, "Duplicate function declaration"),
    "search-and-functions": (
        {"tools": [*declared({"type": "OBJECT"}), {"googleSearch": {}}]},
        "Tool use with function calling is unsupported",
    ),
    "no-contents": ({"contents": []}, "contents is not specified"),
    "role": ({"contents": [{"role": "system", "parts": [{"text": "x"}]}]}, "valid role: user, model."),
    "no-turns": ({"contents": [{"role": "user", "parts": [{"text": "x"}]}] * 2}, "alternate between user and model"),
    "model-last": ({"contents": turns()[:2]}, "alternate between user and model"),
    "no-parts": ({"contents": [{"role": "user", "parts": []}]}, "contents.parts must not be empty"),
    "empty-text": ({"contents": [{"role": "user", "parts": [{"text": ""}]}]}, "must have one initialized field"),
    "two-things": (
        {"contents": [{"parts": [{"text": "x", "inlineData": {"mimeType": "image/png", "data": "QQ=="}}]}]},
        "must have one initialized field",
    ),
    "base64": ({"contents": [{"parts": [{"inlineData": {"mimeType": "image/png", "data": "?"}}]}]}, "Base64 decoding"),
    "response-text": (
        {"contents": turns(answer={"functionResponse": {"name": "get_weather", "response": "4 C"}})},
        "google.protobuf.Struct",
    ),
    "args-text": (
        {"contents": turns(call_part={"functionCall": {"name": "f", "args": "{}"}})},
        "google.protobuf.Struct",
    ),
    "response-name": (
        {"contents": turns(answer={"functionResponse": {"name": "other", "response": {}}})},
        "names and ids of the function call parts",
    ),
    "response-missing": (
        {"contents": turns(answer={"text": "4 C"})},
        "equal to the number of function call parts",
    ),
    "response-alone": (
        {"contents": [{"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}]}]},
        "immediately after a function call turn",
    ),
    "signature": (
        {"contents": _contents(lambda it: it[1]["parts"][0].update(thoughtSignature="QUJD"))},
        "Corrupted thought signature.",
    ),
    "temperature": ({"generationConfig": {"temperature": 2.1}}, "must be in the range"),
    "stops": ({"generationConfig": {"stopSequences": list("abcdef")}}, "at most 5 stop sequences"),
    "budget": (
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": 24_577}}},
        "thinking budget 24577 is invalid",
    ),
    "level": ({"generationConfig": {"thinkingConfig": {"thinkingLevel": "low"}}}, "Thinking level is not supported"),
    "level-and-budget": (
        {"generationConfig": {"thinkingConfig": {"thinkingLevel": "low", "thinkingBudget": 1}}},
        "only set only one",
    ),
    "no-room": (
        {"generationConfig": {"maxOutputTokens": 512, "thinkingConfig": {"thinkingBudget": 512}}},
        "less than max_output_tokens",
    ),
    "mode": ({"toolConfig": {"functionCallingConfig": {"mode": "REQUIRED"}}}, "function_calling_config.mode"),
    "mode-without-functions": (
        {"tools": None, "toolConfig": {"functionCallingConfig": {"mode": "ANY"}}},
        "without function_declarations",
    ),
    "allowed-auto": (
        {"toolConfig": {"functionCallingConfig": {"mode": "AUTO", "allowedFunctionNames": ["get_weather"]}}},
        "only supported with the modes ANY",
    ),
    "allowed-unknown": (
        {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["other"]}}},
        "is not a declared function",
    ),
    "safety": ({"safetySettings": [{"category": "VIOLENCE", "threshold": "OFF"}]}, "safety_settings"),
}


@pytest.mark.parametrize(("change", "message"), [pytest.param(*row, id=name) for name, row in REFUSED.items()])
def test_what_is_refused(change, message):
    """A request that breaks a rule is refused with 400 and Google's words."""
    told = refused(change.pop("contents", turns()), **change)

    assert message in told


@pytest.mark.parametrize(
    ("change", "model"),
    [
        pytest.param({}, "gemini-2.5-flash", id="plain"),
        pytest.param({"system_instruction": {"parts": [{"text": "x"}]}}, "gemini-2.5-flash", id="snake-case"),
        pytest.param({"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}}, "gemini-2.5-flash", id="off"),
        pytest.param({"generationConfig": {"thinkingConfig": {"thinkingBudget": -1}}}, "gemini-2.5-pro", id="dynamic"),
        pytest.param({"tools": [{"googleSearch": {}}]}, "gemini-2.5-pro", id="search"),
        pytest.param(
            {"tools": declared({"type": "object", "properties": {"const": {"type": "string"}}, "required": ["const"]})},
            "gemini-2.5-pro",
            id="property-named-like-a-keyword",
        ),
    ],
)
def test_what_is_taken(change, model):
    """What the service takes is taken."""
    assert refused(turns(), model=model, **change) == ""


def test_nothing_is_checked_on_demand():
    """A lenient service answers what a strict one refuses."""
    target, document = gemini(turns(), model="none", unknown=1)
    path, _, query = target.partition("?")
    request = RecordedRequest("POST", path, query, HEADERS["gemini"], json.dumps(document).encode())

    head = SimulatedService(strict=False).script_for(request)[0]

    assert isinstance(head, Head)
    assert head.status == 200
