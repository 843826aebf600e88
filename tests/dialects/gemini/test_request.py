"""Requests: both spellings, every part, pairs of calls and results, and what is refused with its place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.dialects.gemini.content import sealed
from kiro_asgi.dialects.gemini.dialect import GeminiApi, GeminiStream
from kiro_asgi.dialects.gemini.parsing import snake_case
from kiro_asgi.errors import KiroAsgiError, RequestError
from kiro_asgi.model.prompt import (
    Document,
    Image,
    Prompt,
    Role,
    Text,
    Thinking,
    ThinkingMode,
    ThinkingPart,
    ToolCallPart,
    ToolChoiceMode,
    ToolResult,
    Turn,
)
from kiro_asgi.model.signatures import CALL, GEMINI, TEXT, THOUGHT, marked
from kiro_asgi.model.understood import understood
from tests.growth import assert_linear

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
HELLO = {"contents": [{"parts": [{"text": "hello"}]}]}


def parse(request: Any, model: str = "m") -> Prompt:
    return GeminiApi(model).parse(json.dumps(request).encode()).prompt


def configured(**config: Any) -> Prompt:
    return parse({**HELLO, "generationConfig": config})


def answered(*parts: dict[str, Any], then: list[dict[str, Any]] | None = None) -> Prompt:
    """A conversation in which the model has said *parts*."""
    last = then or [{"text": "go on"}]
    contents = [{"parts": [{"text": "hello"}]}, {"role": "model", "parts": list(parts)}, {"parts": last}]
    return parse({"contents": contents})


def said(*parts: dict[str, Any]) -> tuple[Any, ...]:
    return answered(*parts).turns[1].parts


def call(name: str, **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {}, **more}}


def result(name: str, **more: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {"output": name}, **more}}


EVERYTHING = {
    "contents": [
        {"role": "user", "parts": [{"text": "a"}, {"inlineData": {"mimeType": "image/png", "data": PIXEL}}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"camelKey": {"snake_key": 1}}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"camelKey": 1, "snake_key": 2}}}]},
    ],
    "systemInstruction": {"parts": [{"text": "s"}]},
    "tools": [
        {
            "functionDeclarations": [
                {"name": "f", "parametersJsonSchema": {"type": "object", "properties": {"camelKey": {}}}},
                {"name": "g", "parameters": {"type": "OBJECT", "properties": {"aB": {"type": "STRING"}}}},
            ]
        },
    ],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
    "generationConfig": {
        "temperature": 1,
        "topP": 0.5,
        "topK": 40,
        "maxOutputTokens": 100,
        "stopSequences": ["x"],
        "responseMimeType": "application/json",
        "responseJsonSchema": {"type": "object", "properties": {"camelKey": {}}},
        "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 2048},
    },
}
DATA = {"args", "response", "parametersJsonSchema", "parameters", "responseJsonSchema"}


def respelled(value: Any, choose: Any) -> Any:
    """*value* with each name in either spelling, and whole numbers as integers, floats or texts; not what is data."""
    if isinstance(value, list):
        return [respelled(each, choose) for each in value]
    if isinstance(value, dict):
        return {
            snake_case(name) if choose() else name: part if name in DATA else respelled(part, choose)
            for name, part in value.items()
        }
    if isinstance(value, int) and not isinstance(value, bool) and value > 1:
        return float(value) if choose() else str(value) if choose() else value
    return value


@given(st.data())
def test_either_spelling_means_the_same(data: st.DataObject) -> None:
    """Clients mix both in one body, and write integers as floats; the client's own data stays as it is."""
    assert parse(respelled(EVERYTHING, lambda: data.draw(st.booleans()))) == parse(EVERYTHING)


def test_a_whole_request() -> None:
    """Everything arrives at its place."""
    prompt = parse(EVERYTHING)
    assert prompt.turns == (
        Turn(Role.USER, (Text("a"), Image("image/png", PIXEL))),
        Turn(Role.ASSISTANT, (ToolCallPart("call_1", "f", {"camelKey": {"snake_key": 1}}),)),
        Turn(Role.USER, (ToolResult("call_1", (Text('{"camelKey":1,"snake_key":2}'),)),)),
    )
    assert (prompt.model, prompt.system) == ("m", ("s",))
    assert [(tool.name, tool.schema) for tool in prompt.tools] == [
        ("f", {"type": "object", "properties": {"camelKey": {}}}),
        ("g", {"type": "object", "properties": {"aB": {"type": "string"}}}),
    ]
    assert (prompt.tool_choice.mode, prompt.tool_choice.name) == (ToolChoiceMode.NAMED, "f")
    assert (prompt.sampling.top_k, prompt.sampling.max_tokens, prompt.sampling.stop) == (40, 100, ("x",))
    assert prompt.schema == {"type": "object", "properties": {"camelKey": {}}}
    assert prompt.thinking == Thinking(ThinkingMode.ENABLED, 2048)


def test_one_object_stands_for_a_list() -> None:
    """As it does at Google; a bare text is a whole instruction."""
    assert parse({"contents": {"parts": {"text": "hello"}}, "systemInstruction": "s"}).system == ("s",)


@pytest.mark.parametrize(
    ("config", "thinking"),
    [
        ({}, Thinking(omitted=True)),
        ({"thinkingBudget": 0}, Thinking(ThinkingMode.DISABLED, omitted=True)),
        ({"thinkingBudget": -1}, Thinking(ThinkingMode.ADAPTIVE, omitted=True)),
        ({"thinkingBudget": 512}, Thinking(ThinkingMode.ENABLED, 512, omitted=True)),
        ({"includeThoughts": True}, Thinking(ThinkingMode.ADAPTIVE)),
        ({"thinkingLevel": "HIGH", "includeThoughts": True}, Thinking(ThinkingMode.ADAPTIVE, effort="high")),
        ({"thinkingLevel": "low", "thinkingBudget": 9}, Thinking(ThinkingMode.ADAPTIVE, effort="low", omitted=True)),
    ],
)
def test_thinking(config: dict[str, Any], thinking: Thinking) -> None:
    """Thoughts are shown only to those who want to see them, however much thinking there is."""
    assert configured(thinkingConfig=config).thinking == thinking


def test_pieces_of_an_answer_are_one_turn() -> None:
    """The chats of the official client keep each piece as a content of its own."""
    contents = [{"role": "model", "parts": [{"text": piece}]} for piece in ("a", "", "b")]
    prompt = parse({"contents": [*HELLO["contents"], *contents, *HELLO["contents"]]})
    assert [turn.parts for turn in prompt.turns] == [(Text("hello"),), (Text("ab"),), (Text("hello"),)]


@pytest.mark.parametrize(
    ("results", "ids"),
    [
        ([result("g", id="b"), result("f", id="a")], ["b", "a"]),
        ([result("g"), result("f")], ["b", "a"]),
        ([result("f"), result("f")], ["a", "c"]),
        ([result("?"), result("f")], ["a", "c"]),
        ([result("f", id="f__c")], ["c"]),
        ([result("f", id="z")], ["z"]),
    ],
    ids=["by id", "by name", "by order of a name", "by order", "by an id with a name before it", "of no call"],
)
def test_results_find_their_calls(results: list[dict[str, Any]], ids: list[str]) -> None:
    """By the id, else the first of the name that has none, else the first that has none."""
    prompt = answered(call("f", id="a"), call("g", id="b"), call("f", id="c"), then=results)
    assert [part.call_id for part in prompt.turns[2].parts if isinstance(part, ToolResult)] == ids


def test_calls_without_ids_get_the_same_in_every_request() -> None:
    """What a service has cached of the conversation stays the same, byte for byte."""
    prompt = answered(call("f"), call("f"), then=[result("f"), result("f")])
    assert [part.call_id for turn in prompt.turns[1:] for part in turn.parts if not isinstance(part, Text)] == [
        "call_1",
        "call_2",
    ] * 2


@pytest.mark.parametrize(
    ("response", "text", "failed"),
    [
        ({"output": "x"}, "x", False),
        ({"result": {"a": 1}}, '{"a":1}', False),
        ({"error": "no"}, "no", True),
        ({"output": 1, "more": 2}, '{"output":1,"more":2}', False),
    ],
)
def test_what_a_function_gave(response: dict[str, Any], text: str, failed: bool) -> None:
    """A text that stands alone under a known name is itself; anything else is JSON."""
    (part,) = answered(call("f"), then=[result("f", response=response)]).turns[2].parts
    assert part == ToolResult("call_1", (Text(text),), failed)


def test_a_function_gives_files() -> None:
    """They follow the text."""
    files = [{"inlineData": {"mimeType": "image/png", "data": PIXEL}}]
    (part,) = answered(call("f"), then=[result("f", parts=files)]).turns[2].parts
    assert isinstance(part, ToolResult)
    assert [type(each) for each in part.parts] == [Text, Image]


def test_files_by_value_and_by_address() -> None:
    """In either alphabet of base64, with a type or with bytes that prove one."""
    parts = [
        {"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0xLjQK"}},
        {"inlineData": {"mimeType": "text/plain", "data": "aGk_"}},
        {"fileData": {"mimeType": "image/png", "fileUri": "https://host/a.png"}},
        {"fileData": {"mimeType": "application/pdf", "fileUri": "https://host/a.pdf"}},
    ]
    (turn,) = parse({"contents": [{"parts": parts}]}).turns
    assert turn.parts == (
        Document("application/pdf", "JVBERi0xLjQK"),
        Document("text/plain", text="hi?"),
        Image(url="https://host/a.png"),
        Document("application/pdf", url="https://host/a.pdf"),
    )


def test_signatures_of_gemini_go_back_on_their_parts() -> None:
    """Each with the mark of the kind of part; also where the client writes base64 anew."""
    assert said({"text": "a", "thoughtSignature": "AA-_"}, {**call("f"), "thoughtSignature": "BBBB"}) == (
        Text("a"),
        ThinkingPart(signature=marked(GEMINI, TEXT, "AA-_")),
        ThinkingPart(signature=marked(GEMINI, CALL, "BBBB")),
        ToolCallPart("call_1", "f", {}),
    )
    assert said({"text": "why", "thought": True}, {"text": "", "thought": True, "thoughtSignature": "CCCC"}) == (
        ThinkingPart("why", marked(GEMINI, THOUGHT, "CCCC")),
    )


@pytest.mark.parametrize("sentinel", ["skip_thought_signature_validator", "context_engineering_is_the_way_to_go"])
def test_what_stands_for_a_signature_is_none(sentinel: str) -> None:
    """Clients write it on calls that they have no signature for."""
    assert said({**call("f"), "thoughtSignature": sentinel}) == (ToolCallPart("call_1", "f", {}),)


@pytest.mark.parametrize("kept", [[], [{"text": "wh", "thought": True}, {"text": "y", "thought": True}]])
@pytest.mark.parametrize("recode", [str, lambda text: text.replace("+", "-").replace("/", "_").rstrip("=")])
def test_thinking_of_others_comes_back(kept: list[dict[str, Any]], recode: Any) -> None:
    """Before the text that it led to, once, whether the client kept its text or not."""
    thoughts = (ThinkingPart("why?>", "sig"), ThinkingPart(redacted="hidden"))
    envelope = recode(sealed(thoughts))
    signed = {**call("f"), "thoughtSignature": envelope}
    assert said(*kept, {"text": "a"}, signed) == (*thoughts, Text("a"), ToolCallPart("call_1", "f", {}))
    assert said(*kept, {"text": "a"}, {"text": "", "thoughtSignature": envelope}) == (*thoughts, Text("a"))


def test_several_tools_and_choices() -> None:
    """Only those that are allowed are offered; a single one that must be called is named."""
    tools = [{"googleSearch": {}}, {"functionDeclarations": [{"name": "f"}, {"name": "g"}, {"name": "h"}]}]

    def chosen(**config: Any) -> Prompt:
        return parse({**HELLO, "tools": tools, "toolConfig": {"functionCallingConfig": config}})

    assert [tool.hosted for tool in chosen(mode="AUTO").tools] == ["web_search", "", "", ""]
    some = chosen(mode="any", allowedFunctionNames=["f", "h"])
    assert ([tool.name for tool in some.tools], some.tool_choice.mode) == (["f", "h"], ToolChoiceMode.REQUIRED)
    assert chosen(mode="NONE").tool_choice.mode is ToolChoiceMode.NONE
    assert chosen(mode="VALIDATED", allowedFunctionNames=["f"]).tool_choice.allowed == {"f"}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"type": "STRING", "nullable": True}, {"type": ["string", "null"]}),
        (
            {"type": "STRING", "enum": ["a"], "format": "enum", "nullable": True},
            {"type": ["string", "null"], "enum": ["a", None]},
        ),
        (
            {"any_of": [{"type": "INTEGER"}], "nullable": True},
            {"anyOf": [{"anyOf": [{"type": "integer"}]}, {"type": "null"}]},
        ),
        (
            {"type": "ARRAY", "items": {"type": "NUMBER"}, "min_items": "2"},
            {"type": "array", "items": {"type": "number"}, "minItems": 2},
        ),
        (
            {"type": "OBJECT", "properties": {"type": {"type": "OBJECT"}}, "propertyOrdering": ["type"]},
            {"type": "object", "properties": {"type": {"type": "object"}}},
        ),
    ],
)
def test_googles_schemas(given: dict[str, Any], wanted: dict[str, Any]) -> None:
    """As JSON Schema; the names of properties are the client's own."""
    assert configured(responseSchema=given).schema == wanted


def test_json_without_a_schema() -> None:
    """Any object; text is demanded by nothing."""
    assert configured(responseMimeType="application/json").schema == {}
    assert configured(responseMimeType="text/plain").schema is None


@pytest.mark.parametrize(
    ("request_", "param"),
    [
        ({}, "contents"),
        ({"contents": [{"role": "narrator", "parts": [{"text": "a"}]}]}, "contents[0].role"),
        ({"contents": [{"parts": [{"text": "a", "functionCall": {"name": "f"}}]}]}, "contents[0].parts[0]"),
        ({"contents": [{"parts": [{"text": 1}]}]}, "contents[0].parts[0].text"),
        ({**HELLO, "cachedContent": "cachedContents/1"}, "cached_content"),
        ({**HELLO, "generationConfig": {"candidateCount": 2}}, "generation_config.candidate_count"),
        ({**HELLO, "generationConfig": {"responseModalities": ["IMAGE"]}}, "generation_config.response_modalities"),
        ({**HELLO, "generationConfig": {"speechConfig": {}}}, "generation_config.speech_config"),
        ({**HELLO, "generationConfig": {"responseMimeType": "text/x.enum"}}, "generation_config.response_mime_type"),
        ({**HELLO, "generationConfig": {"maxOutputTokens": 0}}, "generation_config.max_output_tokens"),
        (
            {**HELLO, "toolConfig": {"functionCallingConfig": {"mode": "ANY"}}},
            "tool_config.function_calling_config.mode",
        ),
        (
            {"contents": [{"parts": [{"fileData": {"fileUri": "files/1"}}]}]},
            "contents[0].parts[0].file_data.file_uri",
        ),
        (
            {"contents": [{"parts": [{"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}}]}]},
            "contents[0].parts[0].inline_data.mime_type",
        ),
    ],
)
def test_what_is_refused(request_: dict[str, Any], param: str) -> None:
    """With the place, in the spelling that Google's own errors have."""
    with pytest.raises(RequestError) as refused:
        understood(parse(request_), "")
    assert refused.value.param == param


NAMES = [
    "contents",
    "parts",
    "text",
    "role",
    "functionCall",
    "function_response",
    "name",
    "response",
    "args",
    "thought",
    "thoughtSignature",
    "inlineData",
    "data",
    "mimeType",
    "tools",
    "functionDeclarations",
    "generationConfig",
    "thinkingConfig",
    "responseSchema",
    "type",
    "nullable",
    "toolConfig",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
)
CONTENTS = st.lists(st.fixed_dictionaries({"parts": JSON}))


@given(JSON | st.fixed_dictionaries({"contents": JSON | CONTENTS}))
def test_garbage_gives_only_errors_of_ours(value: Any) -> None:
    """Whatever is sent."""
    body = json.dumps(value).encode()
    for read in (GeminiApi("m").parse, GeminiApi("m").parse_count):
        try:
            read(body)
        except KiroAsgiError as error:
            assert error.status == 400


def test_counting_takes_contents_or_a_whole_request() -> None:
    """The latter counts what stands beside the contents, too."""
    api = GeminiApi("m")
    assert api.parse_count(json.dumps(HELLO).encode()) == parse(HELLO)
    assert api.parse_count(json.dumps({"generateContentRequest": EVERYTHING}).encode()) == parse(EVERYTHING)
    assert json.loads(api.render_count(7)) == {
        "totalTokens": 7,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 7}],
    }


def test_the_path_says_how_to_answer() -> None:
    """The body does not."""
    assert GeminiStream("m").parse(json.dumps(HELLO).encode()).stream
    assert not GeminiApi("m").parse(json.dumps(HELLO).encode()).stream


def test_what_no_service_is_told() -> None:
    """In the words of every API."""
    request = {
        **EVERYTHING,
        "labels": {"a": "b"},
        "safetySettings": [{"category": "X"}],
        "somethingNew": 1,
        "toolConfig": {"functionCallingConfig": {"allowedFunctionNames": ["f"]}},
    }
    body = json.dumps(request).encode()
    notes = GeminiApi("m").notes(body, GeminiApi("m").parse(body))
    assert {(note.rule, note.place) for note in notes} == {
        ("fields.ignored", "safety_settings"),
        ("tools.left_out", "tools[0].function_declarations[1]"),
    }


def test_work_grows_with_the_request() -> None:
    """R24: many parts, calls and results without ids, envelopes, tools, and both spellings."""

    def calls(count: int) -> dict[str, Any]:
        asked = {"role": "model", "parts": [call("f") for _ in range(count)]}
        return {"contents": [*HELLO["contents"], asked, {"parts": [result("f") for _ in range(count)]}]}

    def envelopes(count: int) -> dict[str, Any]:
        part = {**call("f"), "thoughtSignature": sealed([ThinkingPart("t", "s")])}
        return {
            "contents": [*HELLO["contents"], {"role": "model", "parts": [part] * count}, {"parts": [{"text": "x"}]}]
        }

    def turns(count: int) -> dict[str, Any]:
        return {"contents": [{"role": role, "parts": [{"text": "x"}]} for role in ("user", "model") * count]}

    def tools(count: int) -> dict[str, Any]:
        return {**HELLO, "tools": [{"functionDeclarations": [{"name": f"f{n}"} for n in range(count)]}]}

    for request in (calls, envelopes, turns, tools):

        def make(count: int, request: Any = request) -> Any:
            body = json.dumps(request(count)).encode()
            return lambda: GeminiApi("m").parse(body)

        assert_linear(make, 40)


CITY = {"type": "object", "properties": {"cityName": {"type": "string"}}}


@pytest.mark.parametrize(
    "given",
    [
        [{"text": {"mimeType": "APPLICATION_JSON", "schema": CITY}}],
        {"text": {"mime_type": "application/json", "schema": CITY}},
        [{"text": {"mimeType": "application/json", "schema": CITY}}, {"text": {"mimeType": "TEXT_PLAIN"}}],
    ],
)
def test_the_newer_field_for_the_form_of_an_answer(given: Any) -> None:
    """The newest SDKs recommend it; a schema is a promise whichever field has it."""
    assert configured(responseFormat=given).schema == CITY
    assert configured(responseFormat=[{"text": {"mimeType": "APPLICATION_JSON"}}]).schema == {}
    assert configured(responseFormat=[{"text": {"mimeType": "TEXT_PLAIN"}}]).schema is None


@pytest.mark.parametrize("kind", ["audio", "image", "video"])
def test_another_form_is_the_service_s_alone(kind: str) -> None:
    [demand] = configured(responseFormat=[{kind: {}}]).demands

    assert demand.members == {"generationConfig": {"responseFormat": [{kind: {}}]}}
    assert kind in demand.refusal.message and demand.refusal.param == "generation_config.response_format"


@pytest.mark.parametrize("given", [None, [], 5, "x", [5], [{}], {"text": 5}])
def test_a_form_without_one_is_none(given: Any) -> None:
    assert configured(responseFormat=given).schema is None
