"""A prompt in the service's words."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest
from attrs import evolve

from kiro_asgi.errors import ConfigError, RequestError
from kiro_asgi.model.notes import Note
from kiro_asgi.model.prompt import (
    Document,
    Image,
    Prompt,
    Sampling,
    Thinking,
    ThinkingMode,
    ThinkingPart,
    Tool,
    ToolChoice,
    ToolChoiceMode,
    ToolResult,
    Turn,
)
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard, Rendered
from kiro_asgi.upstreams.kiro.hosts import KiroHosts
from kiro_asgi.upstreams.kiro.settings import KiroSettings
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream
from tests.upstreams.kiro.prompts import (
    ARN,
    GPT,
    NATIVE,
    PLAIN,
    PNG,
    SCHEMA,
    TOKEN,
    ask,
    assistant,
    body,
    call,
    current,
    rendered,
    result,
    rules,
    state,
    user,
)

KEY = Credential(CredentialKind.API_KEY, "ksk_secret", ARN)


def system(*args: Any, **kwargs: Any) -> str:
    return str(state(*args, **kwargs)["history"][0]["userInputMessage"]["content"])


TOOL = Tool("f", "Does f.", {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]})


def test_plain_question() -> None:
    """F342, F343, F344: the whole body of a question with a system text, and what it was adapted by."""
    found = rendered(ask(user("Name three primes."), system=("You answer", "tersely.")))
    said = {"modelId": "claude-sonnet-4", "origin": "AI_EDITOR"}
    assert json.loads(found.request.body) == {
        "conversationState": {
            "chatTriggerType": "MANUAL",
            "agentTaskType": "vibe",
            "conversationId": "00000000-0000-0000-0000-000000000000",
            "history": [
                {"userInputMessage": {"content": "You answer\n\ntersely.", **said}},
                {"assistantResponseMessage": {"content": "I will follow these instructions."}},
            ],
            "currentMessage": {"userInputMessage": {"content": "Name three primes.", **said}},
        },
        "profileArn": ARN,
    }
    assert (found.tool_names, found.thinking_tags, found.notes) == ({}, False, (Note("system.exchange", 1, "system"),))


def test_nothing_is_adapted_without_need() -> None:
    """An ordinary question needs no adaptation and has no history."""
    found = rendered(ask(user("Hi")))
    assert found.notes == ()
    assert "history" not in json.loads(found.request.body)["conversationState"]


def test_tool_round() -> None:
    """A call and its result go over as structures; tools are defined in the current message only."""
    prompt = ask(
        user("Weather?"), assistant("Let me check.", call(x="Oslo")), user(result("c1", "4 C, rain")), tools=(TOOL,)
    )
    found = state(prompt)
    assert found["history"][1] == {
        "assistantResponseMessage": {
            "content": "Let me check.",
            "toolUses": [{"toolUseId": "c1", "name": "f", "input": {"x": "Oslo"}}],
        }
    }
    assert found["currentMessage"]["userInputMessage"] == {
        "content": "",
        "modelId": "claude-sonnet-4",
        "origin": "AI_EDITOR",
        "userInputMessageContext": {
            "toolResults": [{"toolUseId": "c1", "status": "success", "content": [{"text": "4 C, rain"}]}],
            "tools": [
                {
                    "toolSpecification": {
                        "name": "f",
                        "description": "Does f.",
                        "inputSchema": {
                            "json": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
                        },
                    }
                }
            ],
        },
    }


def turns_of(prompt: Prompt) -> list[tuple[str, str]]:
    found = state(prompt)
    messages = [*found.get("history", ()), found["currentMessage"]]
    return [(next(iter(each))[:4], next(iter(each.values()))["content"]) for each in messages]


@pytest.mark.parametrize(
    ("turns", "expected", "note"),
    [
        pytest.param([user("a", "b")], [("user", "a\nb")], "", id="F365-parts"),
        pytest.param([user("a"), user("b")], [("user", "a\n\nb")], "turns.merged", id="merged"),
        pytest.param(
            [user("a"), assistant("b"), assistant("c"), user("d")],
            [("user", "a"), ("assi", "b\n\nc"), ("user", "d")],
            "turns.merged",
            id="merged-assistant",
        ),
        pytest.param(
            [assistant("a"), user("b")],
            [("user", "Continue."), ("assi", "a"), ("user", "b")],
            "turns.user_first",
            id="assistant-first",
        ),
        pytest.param(
            [user("a"), assistant("b")],
            [("user", "a"), ("assi", "b"), ("user", "Continue.")],
            "turns.prefill",
            id="prefill",
        ),
        pytest.param([], [("user", "Continue.")], "turns.empty", id="F367-empty"),
        pytest.param(
            [user(" "), assistant(""), user("c")],
            [("user", "Continue."), ("assi", "OK."), ("user", "c")],
            "content.filled",
            id="empty-texts",
        ),
        pytest.param(
            [user(Image("image/png", PNG))],
            [("user", "Please look at what is attached.")],
            "content.filled",
            id="image-only",
        ),
        pytest.param(
            [user("a"), assistant(call()), user(result("c1", "r"), "b")],
            [("user", "a"), ("assi", ""), ("user", "b")],
            "tools.stubbed",
            id="calls-need-no-text",
        ),
        pytest.param(
            [user(result("c9", "r", "s"), "b")],
            [("user", "Result of an earlier tool call:\nr\ns\nb")],
            "results.orphan_to_text",
            id="orphan-result",
        ),
        pytest.param(
            [user("a"), assistant("b"), user(result("c9", "r", is_error=True))],
            [("user", "a"), ("assi", "b"), ("user", "Error of an earlier tool call:\nr")],
            "results.orphan_to_text",
            id="orphan-error",
        ),
    ],
)
def test_turns(turns: list[Turn], expected: list[tuple[str, str]], note: str) -> None:
    """The user and the assistant take turns, the user first and last, and every message says something."""
    assert turns_of(ask(*turns)) == expected
    assert not note or note in rules(ask(*turns))


def results_of(*turns: Turn) -> list[tuple[str, str, str]]:
    context = current(ask(*turns)).get("userInputMessageContext", {})
    return [(each["toolUseId"], each["status"], each["content"][0]["text"]) for each in context.get("toolResults", ())]


CANCELLED = "The tool call was cancelled; there is no result."


@pytest.mark.parametrize(
    ("results", "expected", "note"),
    [
        pytest.param(
            [result("a", "1"), result("b", "2")], [("a", "success", "1"), ("b", "success", "2")], "", id="both"
        ),
        pytest.param(
            [result("b", "2"), result("a", "1")], [("a", "success", "1"), ("b", "success", "2")], "", id="order"
        ),
        pytest.param(
            [result("b", "2", is_error=True)],
            [("a", "error", CANCELLED), ("b", "error", "2")],
            "calls.unanswered",
            id="unanswered",
        ),
        pytest.param(["go on"], [("a", "error", CANCELLED), ("b", "error", CANCELLED)], "calls.unanswered", id="none"),
        pytest.param(
            [result("a", "1"), result("a", "other"), result("b", "2")],
            [("a", "success", "1"), ("b", "success", "2")],
            "results.duplicate_to_text",
            id="first-wins",
        ),
        pytest.param(
            [result("a", "1"), result("a", "1"), result("b", "2")],
            [("a", "success", "1"), ("b", "success", "2")],
            "results.duplicate_dropped",
            id="repeated",
        ),
        pytest.param(
            [result("a"), result("b", "")],
            [("a", "success", "The tool gave no output."), ("b", "success", "The tool gave no output.")],
            "",
            id="no-output",
        ),
    ],
)
def test_every_call_is_answered_once(results: list[Any], expected: list[Any], note: str) -> None:
    """Each call has one result, the first; one without gets an error that says so."""
    turns = (user("x"), assistant(call("a"), call("b")), user(*results))
    assert results_of(*turns) == expected
    assert not note or note in rules(ask(*turns))


def test_ids_are_changed_alike_on_both_sides() -> None:
    """A call id outside the service's alphabet is replaced, for the call and its result, the same in every request."""
    turns = (user("x"), assistant(call("functions.f:0")), user(result("functions.f:0", "r")))
    found = state(ask(*turns))
    call_id = found["history"][1]["assistantResponseMessage"]["toolUses"][0]["toolUseId"]
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call_id)
    assert results_of(*turns) == [(call_id, "success", "r")]
    assert "calls.id_changed" in rules(ask(*turns))


def test_attachments_of_results_are_lifted() -> None:
    """An image in a tool result moves to the message, and a sentence stands in its place."""
    turns = (user("x"), assistant(call()), user(result("c1", "before", Image("image/png", PNG))))
    found = current(ask(*turns))
    assert found["images"] == [{"format": "png", "source": {"bytes": PNG}}]
    assert found["userInputMessageContext"]["toolResults"][0]["content"] == [
        {"text": "before"},
        {"text": "Image 1 of this conversation is attached to this message."},
    ]


@pytest.mark.parametrize(
    ("media_type", "data", "expected"),
    [
        ("image/jpg", "AAAA", "jpeg"),
        ("image/jpeg", "/9j/4AAQ", "jpeg"),
        ("IMAGE/WEBP; q=1", "UklGRg==", "webp"),
        ("image/gif", "R0lGODlh", "gif"),
        ("image/jpeg", PNG, "png"),
        ("", PNG, "png"),
    ],
)
def test_image_formats(media_type: str, data: str, expected: str) -> None:
    """The format is what the bytes say, else what the client says; ``jpg`` is ``jpeg``."""
    assert current(ask(user("x", Image(media_type, data))))["images"] == [
        {"format": expected, "source": {"bytes": data}}
    ]


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(Image(url="http://169.254.169.254/"), id="image-url"),
        pytest.param(Image("image/tiff", "SUkqAA=="), id="image-format"),
        pytest.param(Document("application/pdf", url="http://127.0.0.1/"), id="document-url"),
        pytest.param(Document("application/zip", "UEsDBA=="), id="document-format"),
        pytest.param(ToolResult("c", (Image(url="https://example.com/x.png"),)), id="url-in-result"),
    ],
)
def test_what_cannot_be_given_is_refused(part: Any) -> None:
    """R40: nothing that a client names is fetched; what the service cannot read is refused."""
    with pytest.raises(RequestError) as caught:
        rendered(ask(user(part)))
    assert (caught.value.code, caught.value.param) == ("unsupported_value", "messages")


def test_documents() -> None:
    """Documents go beside the text under names that never repeat; plain text goes into it."""
    pdf = Document("application/pdf", "JVBERi0=", title="My/paper.pdf")
    found = current(ask(user("Read", pdf, pdf, Document("text/plain", text="Some text.", title="Notes"))))
    assert [(each["name"], each["format"]) for each in found["documents"]] == [
        ("My paper pdf 1", "pdf"),
        ("My paper pdf 2", "pdf"),
    ]
    assert found["content"] == "Read\nNotes\n\nSome text."


# Tools.


def specs(prompt: Prompt, **settings: Any) -> dict[str, Any]:
    found = current(prompt, **settings).get("userInputMessageContext", {}).get("tools", ())
    return {each["toolSpecification"]["name"]: each["toolSpecification"] for each in found}


def test_tools_of_history_are_always_defined() -> None:
    """A tool that was called and is no longer offered gets a stub; without it the service refuses the request."""
    turns = (user("x"), assistant(call(name="gone")), user(result("c1", "r")))
    found = specs(ask(*turns, tools=(TOOL,)))
    assert list(found) == ["f", "gone"]
    assert found["gone"]["inputSchema"] == {"json": {"type": "object", "properties": {}}}


@pytest.mark.parametrize("name", ["x" * 65, "mcp.server/tool", "1st", "", "läuft", "_private"])
def test_names_are_replaced_and_remembered(name: str) -> None:
    """A name that the service refuses is replaced, the same in every request, and the client's can be found again."""
    prompt = ask(user("x"), assistant(call(name=name)), user(result("c1", "r")), tools=(Tool(name),))
    found = rendered(prompt)
    (wire,) = specs(prompt)
    assert re.fullmatch(r"[a-zA-Z][a-zA-Z0-9_-]{0,63}", wire)
    assert found.tool_names == {wire: name}
    assert state(prompt)["history"][1]["assistantResponseMessage"]["toolUses"][0]["name"] == wire
    assert rendered(prompt).tool_names == found.tool_names


def test_names_never_collide() -> None:
    """Names that differ in case only, or in what is replaced only, stay apart."""
    names = ["Read", "read", "a.b", "a/b", "x" * 70 + "1", "x" * 70 + "2"]
    prompt = ask(user("x"), tools=tuple(Tool(name) for name in names))
    wires = list(specs(prompt))
    assert len({wire.lower() for wire in wires}) == len(names)
    assert [rendered(prompt).tool_names.get(wire, wire) for wire in wires] == names


def test_first_of_equal_tools_counts() -> None:
    """A name is defined once."""
    assert specs(ask(user("x"), tools=(Tool("f", "one"), Tool("f", "two"))))["f"]["description"] == "one"


def test_descriptions() -> None:
    """F350, F351, F352, F372, F373: a long description is cut, and stands in full in the system text."""
    tools = (Tool("long", " " + "ä" * 12 + " "), Tool("short", "fits"), Tool("none"))
    prompt = ask(user("x"), tools=tools, system=("Be brief.",))
    found = specs(prompt, description_limit=10)
    assert {name: spec["description"] for name, spec in found.items()} == {
        "long": "ä" * 10,
        "short": "fits",
        "none": "Tool: none",
    }
    assert system(prompt, description_limit=10) == (
        "Be brief.\n\nTool reference manifest (hash → tool)\n- long [f018b5b19d5cd755, 12 chars]: " + "ä" * 12
    )
    assert system(prompt) == "Be brief."


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (ToolChoice(ToolChoiceMode.NAMED, "f"), "You must call the tool f in this answer."),
        (ToolChoice(ToolChoiceMode.REQUIRED), "You must call at least one of the tools in this answer."),
        (ToolChoice(ToolChoiceMode.NONE), "You must not call any tool in this answer."),
        (ToolChoice(parallel=False), "Call no more than one tool in this answer."),
    ],
)
def test_tool_choice_becomes_a_sentence(choice: ToolChoice, words: str) -> None:
    """F360: what the service has no field for is said in the system text."""
    assert system(ask(user("x"), tools=(TOOL,), tool_choice=choice)) == words


def test_no_tools_without_choice() -> None:
    """With the choice "none" only tools that history needs are defined."""
    none = ToolChoice(ToolChoiceMode.NONE)
    tools = (TOOL, Tool("g"))
    assert specs(ask(user("x"), tools=tools, tool_choice=none)) == {}
    turns = (user("x"), assistant(call()), user(result("c1", "r")))
    assert specs(ask(*turns, tools=tools, tool_choice=none))["f"]["description"] == "Does f."


def test_structured_output_becomes_an_instruction() -> None:
    """A schema for the answer is handed over in words; an empty one means any object."""
    assert 'JSON Schema: {"type":"object"}' in system(ask(user("x"), schema={"type": "object"}))
    assert "Schema" not in system(ask(user("x"), schema={}))


def test_schema_is_cleaned() -> None:
    """Unsafe keywords go at every level, the client's names and values never do, the root is an object (F404, F406)."""
    before = copy.deepcopy(SCHEMA)
    assert specs(ask(user("x"), tools=(Tool("f", "d", SCHEMA),)))["f"]["inputSchema"]["json"] == {
        "type": "object",
        "properties": {
            "extra": {"type": "string"},
            "any": {},
            "format": {"type": "string", "enum": ["a", None]},
            "pattern": {"type": "array", "items": {"type": "integer"}},
            "additionalProperties": {"$ref": "#/$defs/format"},
            "either": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "deep": {"type": "object", "properties": {"maximum": {"type": "number"}}, "required": ["maximum"]},
        },
        "$defs": {"format": {"type": "string", "const": {"format": 1}}},
    }
    assert before == SCHEMA


@pytest.mark.parametrize(
    "schema", [{}, {"type": "string"}, {"properties": None, "required": None}, {"anyOf": None}, {"allOf": [True, 3]}]
)
def test_root_of_a_schema_is_an_object(schema: dict[str, Any]) -> None:
    """Whatever the client sent, the root is an object with properties."""
    found = specs(ask(user("x"), tools=(Tool("f", "d", schema),)))["f"]["inputSchema"]["json"]
    assert found == {"type": "object", "properties": {}}


# Thinking.

ON = Thinking(ThinkingMode.ENABLED, 12_000)
SCHEMA_FOR_EFFORT_ONLY = {"properties": {"output_config": {}}}


def switch(**members: Any) -> ModelCard:
    """A model whose schema has a ``thinking`` with these members and nothing else."""
    return evolve(NATIVE, options_schema={"properties": {"thinking": {"properties": members}}})


@pytest.mark.parametrize(
    ("model", "thinking", "expected"),
    [
        pytest.param(
            NATIVE,
            ON,
            {"output_config": {"effort": "medium"}, "thinking": {"type": "adaptive", "display": "summarized"}},
            id="claude",
        ),
        pytest.param(GPT, ON, {"reasoning": {"effort": "medium"}}, id="gpt"),
        pytest.param(GPT, Thinking(effort="minimal"), {"reasoning": {"effort": "low"}}, id="gpt-nearest"),
        pytest.param(GPT, Thinking(ThinkingMode.DISABLED), {"reasoning": {"effort": "none"}}, id="gpt-off"),
        pytest.param(NATIVE, Thinking(effort="xhigh"), {"output_config": {"effort": "xhigh"}}, id="effort-only"),
        pytest.param(
            NATIVE,
            Thinking(ThinkingMode.ADAPTIVE),
            {"thinking": {"type": "adaptive", "display": "summarized"}},
            id="adaptive",
        ),
        pytest.param(
            evolve(NATIVE, efforts=("low", "medium", "high", "max")),
            Thinking(effort="xhigh"),
            {"output_config": {"effort": "high"}},
            id="weaker-of-two",
        ),
        pytest.param(NATIVE, Thinking(ThinkingMode.DISABLED), {}, id="claude-off-uncertain"),
        pytest.param(NATIVE, Thinking(), {}, id="default"),
        pytest.param(
            evolve(NATIVE, options_schema=SCHEMA_FOR_EFFORT_ONLY),
            ON,
            {"output_config": {"effort": "medium"}},
            id="schema-decides",
        ),
        pytest.param(
            evolve(NATIVE, options_schema={"properties": {"thinking": {}}}),
            Thinking(ThinkingMode.DISABLED),
            {"thinking": {"type": "disabled"}},
            id="claude-off",
        ),
        pytest.param(switch(type={"enum": ["adaptive"]}), ON, {"thinking": {"type": "adaptive"}}, id="no-display"),
        pytest.param(switch(type={"enum": ["enabled"]}, display={}), ON, {}, id="another-switch"),
        pytest.param(
            switch(type={"enum": ["adaptive"]}), Thinking(ThinkingMode.DISABLED), {}, id="cannot-be-switched-off"
        ),
        pytest.param(evolve(NATIVE, options_schema={"properties": {}}), ON, {}, id="schema-without-fields"),
        pytest.param(PLAIN, ON, {}, id="none"),
    ],
)
def test_native_thinking(model: ModelCard, thinking: Thinking, expected: dict[str, Any]) -> None:
    """Request fields are those of the model's family, and never one that its schema does not list."""
    assert body(ask(user("x"), thinking=thinking), model).get("additionalModelRequestFields", {}) == expected


@pytest.mark.parametrize(
    ("budget", "effort"),
    [(1, "low"), (10_000, "low"), (10_001, "medium"), (20_000, "medium"), (28_000, "high"), (28_001, "max")],
)
def test_budget_to_effort(budget: int, effort: str) -> None:
    """A budget in tokens stands for a level."""
    found = body(ask(user("x"), thinking=Thinking(ThinkingMode.ENABLED, budget)), NATIVE)
    assert found["additionalModelRequestFields"]["output_config"] == {"effort": effort}


def test_max_tokens_where_the_schema_has_it() -> None:
    """``max_tokens`` is passed on where the model takes it, within the service's bounds, and nowhere else."""
    model = evolve(PLAIN, options_schema={"properties": {"max_tokens": {}}})
    for asked, sent in ((1, 1024), (5_000, 5_000), (10**9, 64_000)):
        assert body(ask(user("x"), sampling=Sampling(asked)), model)["additionalModelRequestFields"] == {
            "max_tokens": sent
        }
    assert "additionalModelRequestFields" not in body(ask(user("x"), sampling=Sampling(5_000)))


@pytest.mark.parametrize(
    ("thinking", "budget"),
    [
        (ON, 12_000),
        (Thinking(ThinkingMode.ENABLED, 5), 1_024),
        (Thinking(ThinkingMode.ENABLED, 10**6), 24_576),
        (Thinking(ThinkingMode.ADAPTIVE, effort="low"), 4_000),
        (Thinking(ThinkingMode.ADAPTIVE), 10_000),
    ],
)
def test_thinking_in_tags(thinking: Thinking, budget: int) -> None:
    """Without native thinking the current message, and no other, asks for tags, naming the budget."""
    prompt = ask(user("a"), assistant("b"), user("c"), thinking=thinking, system=("s",))
    found = rendered(prompt)
    content = current(prompt)["content"]
    assert found.thinking_tags
    assert "<thinking>" in content and f" {budget} tokens" in content and content.endswith("\n\nc")
    assert "<thinking>" not in json.dumps(state(prompt)["history"])


def test_no_tags_where_they_are_not_wanted() -> None:
    """Tags are asked for only if thinking was asked for, the setting allows it, and the model has nothing better."""
    asked = ask(user("x"), thinking=ON)
    assert not rendered(ask(user("x"))).thinking_tags
    assert not rendered(asked, NATIVE).thinking_tags
    assert not rendered(asked, fake_reasoning_enabled=False).thinking_tags
    assert current(asked, fake_reasoning_enabled=False)["content"] == "x"


@pytest.mark.parametrize(
    ("parts", "expected", "note"),
    [
        pytest.param(
            [ThinkingPart("t", "sig")], {"reasoningText": {"text": "t", "signature": "sig"}}, "", id="F187-signed"
        ),
        pytest.param([ThinkingPart("t")], None, "thinking.unsigned_dropped", id="unsigned"),
        pytest.param([ThinkingPart(redacted="QQ==")], {"redactedContent": "QQ=="}, "", id="redacted"),
        pytest.param(
            [ThinkingPart("t", "sig"), ThinkingPart("u", "gis")],
            {"reasoningText": {"text": "t", "signature": "sig"}},
            "thinking.second_dropped",
            id="two",
        ),
    ],
)
def test_thinking_is_replayed_when_signed(parts: list[Any], expected: Any, note: str) -> None:
    """Earlier thinking goes back only under its seal; unsealed, the service refuses it."""
    prompt = ask(user("a"), assistant(*parts, "b"), user("c"))
    message = state(prompt)["history"][1]["assistantResponseMessage"]
    assert (message["content"], message.get("reasoningContent")) == ("b", expected)
    assert not note or note in rules(prompt)
    assert "reasoningContent" not in str(state(prompt, replay_thinking=False))


# The request around the body.


def headers_of(found: Rendered) -> dict[str, str]:
    headers = {name.decode(): value.decode() for name, value in found.request.headers}
    assert len(headers) == len(found.request.headers)
    return headers


def test_rest_request() -> None:
    """F433: the REST door, a path and plain JSON, at the region's host or at any other."""
    elsewhere = rendered(ask(user("x")), endpoint="http://127.0.0.1:9999/")
    assert elsewhere.request.url == "http://127.0.0.1:9999/generateAssistantResponse"
    found = rendered(ask(user("x")), user_agent="kiro-asgi/1.2", hosts="amazonaws")
    assert (found.request.method, found.request.url) == (
        "POST",
        "https://q.us-east-1.amazonaws.com/generateAssistantResponse",
    )
    assert headers_of(found) == {
        "content-type": "application/json",
        "accept": "application/vnd.amazon.eventstream",
        "x-amzn-codewhisperer-optout": "true",
        "x-amzn-kiro-agent-mode": "vibe",
        "amz-sdk-invocation-id": "00000000-0000-0000-0000-000000000001",
        "authorization": "Bearer secret-token",
        "accept-encoding": "identity",
        "user-agent": "kiro-asgi/1.2",
    }


def test_rpc_request() -> None:
    """The RPC door: no path, and the operation in a header; the same body."""
    found = rendered(ask(user("x")), wire_style="rpc", endpoint="http://127.0.0.1:9999/")
    headers = headers_of(found)
    assert found.request.url == "http://127.0.0.1:9999/"
    assert headers["content-type"] == "application/x-amz-json-1.0"
    assert headers["x-amz-target"] == "AmazonCodeWhispererStreamingService.GenerateAssistantResponse"
    assert found.request.body == rendered(ask(user("x"))).request.body


@pytest.mark.parametrize(
    ("credential", "token_type", "profile"),
    [
        pytest.param(KEY, "API_KEY", None, id="key"),
        pytest.param(TOKEN, None, ARN, id="token"),
        pytest.param(evolve(TOKEN, profile_arn=""), None, None, id="no-profile"),
        pytest.param(evolve(TOKEN, kind=CredentialKind.EXTERNAL_IDP), "EXTERNAL_IDP", ARN, id="external"),
    ],
)
def test_credentials(credential: Credential, token_type: str | None, profile: str | None) -> None:
    """Keys and foreign tokens are announced; a profile is never sent with a key, and never empty."""
    found = rendered(ask(user("x")), credential=credential)
    headers = headers_of(found)
    assert (headers["authorization"], headers.get("tokentype")) == (f"Bearer {credential.secret}", token_type)
    assert body(ask(user("x")), credential=credential).get("profileArn") == profile
    assert credential.secret not in repr(found)


@pytest.mark.parametrize(
    ("region", "arn", "host"),
    [
        ("eu-central-1", "", "q.eu-central-1.amazonaws.com"),
        ("eu-central-1", ARN, "runtime.us-east-1.kiro.dev"),
        ("us-gov-west-1", "arn:aws:codewhisperer:x.evil.test/#:1:profile/X", "runtime.us-gov-west-1.kiro.dev"),
        ("us-east-1", "not an arn", "runtime.us-east-1.kiro.dev"),
    ],
)
def test_host_comes_from_the_region(region: str, arn: str, host: str) -> None:
    """R40: calls go to the profile's region, else to the configured one, never to a host that a value smuggles in."""
    credential = evolve(TOKEN, profile_arn=arn)
    assert KiroHosts(KiroSettings(region=region)).generation(credential).base == f"https://{host}"


@pytest.mark.parametrize(
    "settings",
    [
        {"region": "x.evil.test/#"},
        {"region": ""},
        {"region": "us-east-1\n"},
        {"wire_style": "soap"},
        {"user_agent": "a\r\nb: c"},
        {"agent_mode": "ä"},
    ],
)
def test_settings_that_cannot_work(settings: dict[str, str]) -> None:
    """R27, R40: a setting that would bend a host name or split a header is refused at once."""
    with pytest.raises(ConfigError):
        KiroUpstream(settings=KiroSettings(**settings))


def test_descriptions_are_limited_in_bytes() -> None:
    """F372, F373: the service counts bytes, too; a character is never cut in two."""
    text = "€" * 5_000
    prompt = ask(user("x"), tools=(Tool("f", text),))
    assert specs(prompt)["f"]["description"] == "€" * 3_400
    assert system(prompt).endswith(text)


@pytest.mark.parametrize(
    ("turns", "marked"),
    [
        pytest.param((user("a"),), [0, 2], id="system-and-newest"),
        pytest.param((user("a"), assistant("b"), user("c")), [0, 2, 4], id="one-turn-before"),
        pytest.param(
            (user("a"), assistant("b"), user("c"), assistant("d"), user("e")), [0, 4, 6], id="beginning-and-last-two"
        ),
    ],
)
def test_points_of_the_cache_are_an_experiment(turns: tuple[Turn, ...], marked: list[int]) -> None:
    """At most three, in messages of the user's alone, and none unless they are asked for; nothing else is different."""
    prompt = ask(*turns, system=("Be brief.",), tools=(TOOL,))
    off, on = (state(prompt, **more) for more in ({}, {"cache_points": "prefix"}))

    def points(told: Any) -> list[int]:
        messages = [*told["history"], told["currentMessage"]]
        return [at for at, it in enumerate(messages) if "cachePoint" in next(iter(it.values()))]

    assert (points(off), points(on)) == ([], marked)
    bare = json.loads(json.dumps(on).replace(', "cachePoint": {"type": "default"}', ""))
    assert {**bare, "conversationId": ""} == {**off, "conversationId": ""}
    assert "cachePoint" not in json.dumps(on["currentMessage"]["userInputMessage"]["userInputMessageContext"])
