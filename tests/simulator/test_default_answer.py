"""Prompts without a marker are answered sensibly, and always the same."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.simulator.answers import WEATHER
from kiro_asgi.simulator.conversation import REMINDERS, Conversation, OfferedTool
from kiro_asgi.simulator.default_answer import default_answer, value_for, wanted_tool
from kiro_asgi.simulator.kiro.document import KiroDocument
from kiro_asgi.simulator.kiro.encoder import event_of
from kiro_asgi.simulator.markers import find_markers
from kiro_asgi.simulator.pieces import Piece
from kiro_asgi.simulator.scripts import sign, words
from tests.simulator.asking import prompt, tool
from tests.simulator.test_rules import with_tools


def events(document: Any, kind: str = "assistantResponseEvent") -> list[Any]:
    frames = (event_of(step) for step in default_answer(KiroDocument(document).conversation) if isinstance(step, Piece))
    return [event.payload for event in frames if event.type == kind]


def said(document: Any) -> str:
    return "".join(payload["content"] for payload in events(document))


def called(document: Any) -> tuple[str, Any] | None:
    frames = events(document, "toolUseEvent")
    return (frames[0]["name"], json.loads("".join(frame.get("input", "") for frame in frames))) if frames else None


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param("Name three primes.", "You said: Name three primes.", id="echo"),
        pytest.param("<thinking_mode>off</thinking_mode>Sing.", "You said: Sing.", id="tags-are-not-speech"),
        pytest.param("s" * 500 + "\n\nSing.", "You said: Sing.", id="long-prompts-end-with-the-question"),
    ],
)
def test_says(content, expected):
    """A question that asks for nothing else is repeated, without tags, and without what stands before it."""
    assert said(prompt(content)) == expected


def test_results_are_quoted():
    """A turn with tool results is answered in text that quotes them."""
    document = with_tools()

    assert said(document) == "The tool says: 4 C, rain"
    assert called(document) is None


SEARCH = tool("search_files", "Find files whose content matches.", pattern={"type": "string"}, path={"type": "string"})


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param("What's the weather in New York?", ("get_weather", {"city": "New York"}), id="word-of-the-name"),
        pytest.param("Use get_weather now", ("get_weather", {"city": "Oslo"}), id="name"),
        pytest.param("Please get weather for Łódź", ("get_weather", {"city": "Łódź"}), id="name-with-spaces"),
        pytest.param(
            'search files in src/app.py for "TODO"',
            ("search_files", {"pattern": "TODO", "path": "src/app.py"}),
            id="path-and-quoted-word",
        ),
        pytest.param(
            "Hi.\n\nYou must call the tool search_files.", ("search_files", {"path": "example.txt"}), id="demanded"
        ),
        pytest.param("Sing. You must use one of the tools.", ("get_weather", {"city": "Oslo"}), id="any-demanded"),
        pytest.param("Hello, how are you?", None, id="no-tool-meant"),
        pytest.param("Do not use any tools. Weather in Oslo?", None, id="forbidden"),
    ],
)
def test_calls_the_tool_that_is_meant(content, expected):
    """A tool is called when the prompt names it, demands one, or shares telling words with it."""
    call = called(prompt(content, tools=[tool(), SEARCH]))

    assert (call and call[0]) == (expected and expected[0])
    assert not expected or expected[1].items() <= call[1].items()


@pytest.mark.parametrize("place", ["content", "instructions"])
def test_answers_in_json_where_a_schema_is_given(place):
    """A demand for JSON with a schema, in the message or in the instructions, is obeyed."""
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "tags": {"type": "array", "items": {"enum": ["x", "y"]}, "minItems": 2},
            "age": {"anyOf": [{"type": "integer", "minimum": 18}, {"type": "null"}]},
            "home": {"$ref": "#/$defs/place"},
        },
        "required": ["name"],
        "$defs": {"place": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}},
    }
    demand = f"Answer with JSON that fits this JSON Schema:\n```json\n{json.dumps(schema)}\n```"
    document = prompt(demand) if place == "content" else demanding("Who lives in Bergen?", demand)

    value = json.loads(said(document))

    assert {key: type(part) for key, part in value.items()} == {"name": str, "tags": list, "age": int, "home": dict}
    assert value["tags"] == ["x", "x"]
    assert value["age"] >= 18
    assert list(value["home"]) == ["city"]


def test_a_schema_that_is_only_quoted_counts_for_nothing():
    """gemini-cli shows its model the form in Google's spelling; what is held against the answer is JSON Schema."""
    quoted = {"type": "OBJECT", "properties": {"score": {"type": "INTEGER"}}}
    meant = {"type": "object", "properties": {"score": {"type": "integer"}}}
    demand = f"Respond in JSON by this: {json.dumps(quoted)}. It must be valid against {json.dumps(meant)}"

    assert type(json.loads(said(prompt(demand)))["score"]) is int


def test_answers_in_json_without_a_schema():
    """A demand for any JSON gets an object."""
    assert json.loads(said(prompt("Respond with a JSON object. Hi?"))) == {"answer": "Respond with a JSON object. Hi?"}


@pytest.mark.parametrize(
    ("options", "thinks"),
    [
        pytest.param({"thinking": {"type": "adaptive", "display": "summarized"}}, True, id="summarized"),
        pytest.param({"thinking": {"type": "adaptive", "display": "omitted"}}, False, id="omitted"),
        pytest.param({"thinking": {"type": "disabled"}, "output_config": {"effort": "low"}}, False, id="disabled"),
        pytest.param({"output_config": {"effort": "low"}}, True, id="effort"),
        pytest.param({"reasoning": {"effort": "none"}}, False, id="gpt-none"),
        pytest.param({"reasoning": {"effort": "high"}}, True, id="gpt"),
        pytest.param({}, False, id="nothing"),
    ],
)
def test_native_thinking(options, thinks):
    """Thinking that was asked for in the request's fields comes first, sealed with a signature that fits."""
    frames = events(prompt("Sing.", additionalModelRequestFields=options), "reasoningContentEvent")

    assert bool(frames) is thinks
    if thinks:
        *thoughts, seal = frames
        assert seal == {"signature": sign("".join(frame["text"] for frame in thoughts))}


def demanding(content: str, instructions: str, **options: Any) -> Any:
    """A prompt with instructions in front, as a system prompt is put."""
    document = prompt(content, **options)
    document["conversationState"]["history"] = [
        {"userInputMessage": {"content": instructions}},
        {"assistantResponseMessage": {"content": "OK"}},
    ]
    return document


@pytest.mark.parametrize(
    ("instructions", "expected"),
    [
        pytest.param("You must call the tool search_files in this answer.", "search_files", id="named"),
        pytest.param("You must call at least one of the tools in this answer.", "get_weather", id="required"),
        pytest.param("You must use the search_files tool before you write to a file.", None, id="advice"),
        pytest.param("You must not call any tool in this answer.", None, id="forbidden"),
    ],
)
def test_instructions_about_tools(instructions, expected):
    """Instructions in front of the conversation can demand or forbid a call; advice does neither."""
    call = called(demanding("Sing.", instructions, tools=[tool(), SEARCH]))

    assert (call and call[0]) == expected


@pytest.mark.parametrize(
    ("instructions", "expected"),
    [
        ("You must call the tool get_weather in this answer.", "get_weather"),
        ("You must call at least one of the tools in this answer.", "search_files"),
        ("Be brief.", None),
    ],
)
def test_a_call_behind_a_result(instructions, expected):
    """A result is talked about, unless another call is demanded: of the tool that is named, or of the last."""
    document = with_tools()
    state = document["conversationState"]
    state["history"][0]["userInputMessage"]["content"] = instructions
    state["currentMessage"]["userInputMessage"]["userInputMessageContext"]["tools"] = [tool(), SEARCH]
    call = called(document)

    assert (call and call[0]) == expected


def test_tool_then_json():
    """With tools and a demand for JSON, a tool is called first, and its result leads to JSON."""
    demand = "Answer with one JSON object and nothing else."
    result = with_tools()
    result["conversationState"]["history"][0]["userInputMessage"]["content"] = demand

    assert called(demanding("Weather in Oslo?", demand, tools=[tool()])) == ("get_weather", {"city": "Oslo"})
    assert list(json.loads(said(result))) == ["answer"]


def test_a_request_for_thinking_is_not_speech():
    """The paragraph that asks for tags makes the model think, and is not repeated."""
    answer = said(prompt("Sing.\n\nBegin your reply with <thinking>, close it with </thinking>."))

    assert answer == "<thinking>The user says: Sing. I should answer that.</thinking>\n\nYou said: Sing."


def test_tagged_thinking():
    """Thinking that was asked for by tags comes in tags, in front of the answer."""
    answer = said(prompt("<thinking_mode>enabled</thinking_mode>\nSing."))

    assert answer == "<thinking>The user says: Sing. I should answer that.</thinking>\n\nYou said: Sing."


@given(st.text())
def test_words_join_to_the_sentence(sentence):
    """Nothing is lost between pieces."""
    assert "".join(words(sentence)) == sentence


WORDS = re.findall(
    r"\S+",
    "type properties required items enum const default $ref anyOf oneOf allOf minimum maximum multipleOf minItems "
    "maxItems minLength maxLength format exclusiveMinimum exclusiveMaximum a",
)
ATOMS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(["object", "array", "#"])
)
JSONISH = st.recursive(
    ATOMS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=20,
)


@given(
    st.dictionaries(st.sampled_from(["type", "properties", "allOf", "$ref", "items", "enum", "a"]), JSONISH), st.text()
)
def test_any_schema_gets_some_value(schema, text):
    """However odd a schema is, making up a value for it ends, and gives JSON."""
    json.dumps(value_for(schema, text, everything=True))


def test_a_recursive_schema_ends():
    """A schema that contains itself gets a finite value."""
    node = {"type": "object", "properties": {"next": {"$ref": "#"}, "all": {"type": "array", "items": {"$ref": "#"}}}}

    assert value_for({**node, "required": ["next"]}, everything=True)


AGENT = OfferedTool(
    "agent", "Start an agent for a task there is to do.", {"properties": {"prompt": {"type": "string"}}}
)
REMINDER = "<system-reminder>\nUse the agent tool: agent() there. sim:tool=agent\n</system-reminder>\n"


@pytest.mark.parametrize("tag", REMINDERS)
def test_reminders_of_clients_are_no_question(tag: str) -> None:
    """What a client adds to its user's words names tools, and asks for nothing."""
    said = REMINDER.replace("system-reminder", tag)
    asked = Conversation(content=f"{said}Hello there", tools=(AGENT, WEATHER))

    assert asked.user_text == "Hello there"
    assert wanted_tool(asked) is None
    assert find_markers(asked.question) == []
    assert Conversation(content=said).question == said


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Start a task there, do it now", None),
        ("You must call a tool to start the task", "get_weather"),
        ("Use the agent tool", "agent"),
    ],
)
def test_agents_are_started_by_name_alone(question: str, expected: str | None) -> None:
    """An agent would ask the simulator again, and so for ever."""
    tool = wanted_tool(Conversation(content=question, tools=(AGENT, WEATHER)))
    assert (tool and tool.name) == expected
    assert wanted_tool(Conversation(content="You must call a tool", tools=(AGENT,))) is None
