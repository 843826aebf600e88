"""Prompts in Gemini's words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve

from kiro_asgi.errors import ConfigError, RequestError
from kiro_asgi.failures.remedies import Remedy
from kiro_asgi.model.prompt import (
    Document,
    Image,
    Prompt,
    Sampling,
    Thinking,
    ThinkingMode,
    ThinkingPart,
    Tool,
    ToolCallPart,
    ToolChoice,
    ToolChoiceMode,
    ToolResult,
)
from kiro_asgi.model.signatures import CALL, GEMINI, TEXT, THOUGHT, marked
from kiro_asgi.stages.estimate import IMAGE_TOKENS, TokenEstimator
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard
from kiro_asgi.upstreams.gemini.content import MINTED, SKIP
from kiro_asgi.upstreams.gemini.upstream import GeminiUpstream
from tests.upstreams.gemini.asked import FLASH, KEY, PRO, THREE, THREE_FLASH, TWO, body, contents, rendered, rules
from tests.upstreams.kiro.prompts import PNG, ask, assistant, call, result, user

OBJECT = {"type": "object", "properties": {"x": {"type": "string"}}}
F = Tool("f", "Does f.", OBJECT, place="tools[0]")
SEARCH = Tool("web_search", hosted="web_search", place="tools[1]")
IMAGE = Image("image/png", PNG, place="messages[0].content[1]")


def sign(kind: str, signature: str = "QUJD", text: str = "") -> ThinkingPart:
    return ThinkingPart(text, marked(GEMINI, kind, signature))


# The request.


def test_a_request_is_addressed_to_the_model() -> None:
    """The key is in a header, never in the address, and the answer is asked for as a stream of events."""
    request = GeminiUpstream(headers=((b"x-team", b"red"),)).render(ask(user("Hi")), FLASH, KEY).request

    assert request.url == (
        "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
    )
    assert request.method == "POST"
    assert dict(request.headers) == {
        b"accept": b"text/event-stream",
        b"content-type": b"application/json",
        b"x-goog-api-key": b"secret-key",
        b"accept-encoding": b"identity",
        b"user-agent": b"kiro-asgi",
        b"x-team": b"red",
    }
    assert json.loads(request.body) == {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
    assert "secret" not in repr(request)


def test_a_token_is_a_bearers() -> None:
    """A signed-in account has a token instead of a key; a credential may have an address of its own."""
    token = Credential(CredentialKind.ACCESS_TOKEN, "t", endpoint="https://example.org/g/")
    request = GeminiUpstream(endpoint="https://example.com").render(ask(user("Hi")), FLASH, token).request

    assert (b"authorization", b"Bearer t") in request.headers
    assert b"x-goog-api-key" not in dict(request.headers)
    assert request.url.startswith("https://example.org/g/v1beta/models/")


@pytest.mark.parametrize("name", ["../../../x", "a?b=c#d", "a/b:c", "ü\ud800"])
def test_a_models_name_stays_in_its_place(name: str) -> None:
    """Whatever a client calls a model, it is one segment of the path."""
    url = GeminiUpstream().render(ask(user("Hi")), ModelCard(name), KEY).request.url
    path = url.removeprefix("https://generativelanguage.googleapis.com/v1beta/models/")

    assert path.count("/") == path.count("#") == 0
    assert path.endswith(":streamGenerateContent?alt=sse")
    assert path.count("?") == path.count(":") == 1


@pytest.mark.parametrize("setting", [{"user_agent": "a\nb"}, {"user_agent": ""}, {"safety_threshold": "BLOCK_SOME"}])
def test_settings_that_cannot_work_are_refused(setting: dict[str, str]) -> None:
    """At start, not at the first request."""
    with pytest.raises(ConfigError, match=next(iter(setting))):
        GeminiUpstream(**setting)  # type: ignore[arg-type]


def test_the_system_text_has_its_own_place() -> None:
    """Each text is a part; empty ones are none."""
    found = body(ask(user("Hi"), system=("Be brief.", "", "Be kind.")))

    assert found["systemInstruction"] == {"parts": [{"text": "Be brief."}, {"text": "Be kind."}]}


# Turns.


def test_turns_alternate() -> None:
    """Neighbours become one content, but their parts stay apart; a turn that says nothing is none."""
    prompt = ask(user("a"), user("b", ""), assistant(""), user("c"), assistant("d"), assistant("e"), user("f"))

    assert contents(prompt) == [
        ("user", [{"text": "a"}, {"text": "b"}, {"text": "c"}]),
        ("model", [{"text": "d"}, {"text": "e"}]),
        ("user", [{"text": "f"}]),
    ]


def test_the_user_begins_and_ends() -> None:
    """The service refuses a conversation that the model begins or ends; nobody's message is dropped for it."""
    go_on = ("user", [{"text": "Continue."}])

    assert contents(ask(assistant("a"))) == [go_on, ("model", [{"text": "a"}]), go_on]
    assert contents(ask()) == [go_on]
    assert rules(ask(assistant("a"))) == ["turns.user_first", "turns.prefill"]
    assert rules(ask()) == ["turns.empty"]


def test_calls_without_results_keep_the_message() -> None:
    """Regression: two neighbouring turns of the assistant, the first with calls, are both sent, and calls answered."""
    prompt = ask(user("a"), assistant(call("c1"), "said"), user("never mind"), assistant("b"), user("c"))
    found = contents(prompt)

    assert found[1][1] == [{"functionCall": {"name": "f", "args": {}}}, {"text": "said"}]
    assert found[2][1][0]["functionResponse"]["response"].keys() == {"error"}
    assert found[2][1][1:] == [{"text": "never mind"}]
    assert [role for role, _ in found] == ["user", "model", "user", "model", "user"]
    assert rules(prompt) == ["calls.unanswered"]


def test_results_of_parallel_calls_have_their_order() -> None:
    """Calls without ids of the service's own are paired by name and order; results stand before everything else."""
    prompt = ask(
        user("a"),
        assistant(call("c1"), call("c2", "g", x=1)),
        user("look", result("c2", "two"), result("c1", "one", is_error=True)),
    )

    assert contents(prompt)[1:] == [
        ("model", [{"functionCall": {"name": "f", "args": {}}}, {"functionCall": {"name": "g", "args": {"x": 1}}}]),
        (
            "user",
            [
                {"functionResponse": {"name": "f", "response": {"error": "one"}}},
                {"functionResponse": {"name": "g", "response": {"result": "two"}}},
                {"text": "look"},
            ],
        ),
    ]


def test_a_result_that_nobody_waits_for_is_told() -> None:
    """An answer to no call would be refused; its text is not lost."""
    prompt = ask(user("a"), assistant("b"), user(result("c9", "late"), "so?"))

    assert "late" in json.dumps(contents(prompt)[2])
    assert "functionResponse" not in json.dumps(contents(prompt))
    assert rules(prompt) == ["results.orphan_to_text"]


def test_attachments_of_a_result_stand_behind_the_results() -> None:
    """A response is text; what is none follows all of them, under the name of its tool."""
    answers = user(result("c1", "see", IMAGE), result("c2", "x"), "and?")
    prompt = ask(user("a"), assistant(call("c1"), call("c2", "g")), answers)

    assert contents(prompt)[2][1] == [
        {"functionResponse": {"name": "f", "response": {"result": "see"}}},
        {"functionResponse": {"name": "g", "response": {"result": "x"}}},
        {"text": "Attached to the result of f:"},
        {"inlineData": {"mimeType": "image/png", "data": PNG}},
        {"text": "and?"},
    ]
    assert rules(prompt) == ["results.attachment_lifted"]


def test_arguments_are_the_clients() -> None:
    """Regression: no schema rule touches the arguments of a call, whatever they look like."""
    arguments = {"$ref": "x", "type": ["a"], "allOf": [], "properties": {"const": None}, "required": []}
    found = contents(ask(user("a"), assistant(ToolCallPart("c1", "f", arguments)), user(result())))

    assert found[1][1][0]["functionCall"]["args"] == arguments
    wrapped = ask(user("a"), assistant(ToolCallPart("c1", "f", [1])), user(result()))  # type: ignore[arg-type]
    assert contents(wrapped)[1][1][0]["functionCall"]["args"] == {"input": [1]}
    assert rules(wrapped) == ["calls.input_wrapped"]


# Attachments.


def test_attachments_go_by_value() -> None:
    """Images, PDFs and texts; the bytes decide the format of an image."""
    pdf = Document("application/pdf", "JVBERi0=", title="Offer")
    note = Document("text/plain", text="words", title="Title")
    prompt = ask(user("x", evolve(IMAGE, media_type="image/gif"), pdf, note))

    assert contents(prompt)[0][1][1:] == [
        {"inlineData": {"mimeType": "image/png", "data": PNG}},
        {"text": "Offer:"},
        {"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0="}},
        {"text": "Title\n\nwords"},
    ]
    assert rules(prompt) == ["images.mismatch", "documents.titled", "documents.inlined"]
    assert rules(ask(user(evolve(IMAGE, data="iVBORw0K\nGgoAAAAN")))) == ["attachments.base64"]


def test_addresses_that_the_service_reads_go_as_they_are() -> None:
    """Uploaded files and videos; everything else would have to be fetched."""
    file = "https://generativelanguage.googleapis.com/v1beta/files/abc-123"
    found = contents(ask(user(Image("image/png", url=file), Document("", url="https://youtu.be/x"))))

    assert found[0][1] == [
        {"fileData": {"mimeType": "image/png", "fileUri": file}},
        {"fileData": {"fileUri": "https://youtu.be/x"}},
    ]


@pytest.mark.parametrize(
    ("part", "rule"),
    [
        (Image(url="http://169.254.169.254/"), "images.address"),
        (Image(url="https://generativelanguage.googleapis.com.evil.org/x"), "images.address"),
        (Image("image/gif", "R0lGODdh"), "images.format"),
        (Image("image/png", "no base64!"), "attachments.base64"),
        (Document("application/pdf", url="https://example.org/a.pdf"), "documents.address"),
        (Document("application/zip", "QQ=="), "documents.format"),
    ],
)
def test_what_cannot_be_carried_is_refused(part: Image | Document, rule: str) -> None:
    """With the rule and the place, so that the client can do something about it."""
    place = "messages[0].content[0]"
    with pytest.raises(RequestError, match=rf"rule {rule}\)") as caught:
        rendered(ask(user(evolve(part, place=place))))

    assert (caught.value.param, caught.value.code) == (place, "unsupported_value")


# Tools.


def test_tools_are_declared() -> None:
    """Names in the service's alphabet, with a way back; no parameters where a function has none."""
    tools = (F, Tool("1 long/name" * 9, "", {}, place="tools[1]"), Tool("mcp.a:b-c"))
    found = rendered(ask(user("x"), tools=tools))
    declared = json.loads(found.request.body)["tools"][0]["functionDeclarations"]

    assert declared[0] == {"name": "f", "description": "Does f.", "parameters": OBJECT}
    assert found.tool_names == {declared[1]["name"]: "1 long/name" * 9}
    assert declared[1].keys() == {"name"}
    assert declared[2]["name"] == "mcp.a:b-c"
    assert [(note.rule, note.place) for note in found.notes] == [("tools.renamed", "tools[1]")]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (ToolChoice(), None),
        (ToolChoice(ToolChoiceMode.NONE), {"mode": "NONE"}),
        (ToolChoice(ToolChoiceMode.REQUIRED), {"mode": "ANY"}),
        (ToolChoice(ToolChoiceMode.NAMED, "f"), {"mode": "ANY", "allowedFunctionNames": ["f"]}),
    ],
)
def test_the_choice_of_tools(choice: ToolChoice, expected: dict[str, Any] | None) -> None:
    """A named tool keeps its name; nothing is said where nothing was chosen."""
    found = body(ask(user("x"), tools=(F,), tool_choice=choice))

    assert found.get("toolConfig", {}).get("functionCallingConfig") == expected


def test_one_call_at_a_time_cannot_be_said() -> None:
    """A demand that the service has no field for is noted."""
    assert rules(ask(user("x"), tools=(F,), tool_choice=ToolChoice(parallel=False))) == ["tools.parallel"]
    with pytest.raises(RequestError, match="no tool is named 'g'"):
        rendered(ask(user("x"), tools=(F,), tool_choice=ToolChoice(ToolChoiceMode.NAMED, "g")))


def test_the_service_searches_by_itself() -> None:
    """Its own search stands for the hosted tool; beside functions it is refused, so functions win."""
    alone = ask(user("x"), tools=(evolve(SEARCH, options={"max_uses": 1}),))

    assert body(alone)["tools"] == [{"googleSearch": {}}]
    assert rules(alone) == ["tools.search_options"] == rules(ask(user("x"), tools=(SEARCH,), max_tool_calls=1))
    assert "tools" not in body(evolve(alone, tool_choice=ToolChoice(ToolChoiceMode.NONE)))
    assert rules(ask(user("x"), tools=(F, SEARCH)), THREE) == ["tools.search_dropped"]
    named = ask(user("x"), tools=(F, SEARCH), tool_choice=ToolChoice(ToolChoiceMode.NAMED, "web_search"))
    assert rules(named) == ["tools.search_alone", "tools.search_demanded"]
    assert body(named)["tools"] == [{"googleSearch": {}}]
    demanded = evolve(alone, tool_choice=ToolChoice(ToolChoiceMode.REQUIRED))
    assert rules(demanded) == ["tools.search_options", "tools.search_demanded"]


# Signatures.


def test_a_signature_goes_back_on_its_part() -> None:
    """A call's stands before it, a thought's with its text, a text's behind it; parts are never joined."""
    prompt = ask(
        user("a"),
        assistant(
            sign(THOUGHT, "QQ==", "hm"), "one", "two", sign(TEXT, "Qg=="), sign(CALL, "Qw=="), call("up1"), call("up2")
        ),
        user(result("up1", "r"), result("up2", "r")),
    )

    assert contents(prompt, THREE)[1][1] == [
        {"text": "hm", "thought": True, "thoughtSignature": "QQ=="},
        {"text": "one"},
        {"text": "two", "thoughtSignature": "Qg=="},
        {"functionCall": {"name": "f", "id": "up1", "args": {}}, "thoughtSignature": "Qw=="},
        {"functionCall": {"name": "f", "id": "up2", "args": {}}},
    ]
    assert rules(prompt, THREE) == []


def test_a_signature_without_a_text_has_an_empty_one() -> None:
    """As it came; a second signature never replaces the first."""
    prompt = ask(user("a"), assistant(sign(TEXT, "QQ=="), "b", sign(TEXT, "Qg=="), sign(TEXT, "Qw==")), user("c"))

    assert contents(prompt)[1][1] == [
        {"text": "", "thoughtSignature": "QQ=="},
        {"text": "b", "thoughtSignature": "Qg=="},
        {"text": "", "thoughtSignature": "Qw=="},
    ]


def test_ids_go_back_only_where_the_service_gave_them() -> None:
    """In what the service signed, ids are its own, but for those that we gave; others it has never seen."""
    own, minted = call("up1"), call(f"{MINTED}7")
    turns = (assistant(sign(CALL), own, minted), user(result("up1"), result(f"{MINTED}7")))
    foreign = (assistant(call("toolu_1")), user(result("toolu_1")))
    found = contents(ask(user("a"), *turns, *foreign))

    assert [part["functionCall"].get("id") for part in found[1][1] + found[3][1]] == ["up1", None, None]
    assert [part["functionResponse"].get("id") for part in found[2][1] + found[4][1]] == ["up1", None, None]


@pytest.mark.parametrize(
    ("part", "rule"),
    [
        (ThinkingPart("hm"), "thinking.unsigned_dropped"),
        (ThinkingPart("hm", "c2ln"), "thinking.unsigned_dropped"),
        (ThinkingPart("hm", "other.call:c2ln"), "thinking.unsigned_dropped"),
        (ThinkingPart(redacted="QQ=="), "thinking.unsigned_dropped"),
        (ThinkingPart("hm", "gemini.thought:no base64"), "thinking.malformed_dropped"),
        (ThinkingPart("hm", "gemini.other:QQ=="), "thinking.malformed_dropped"),
        (sign(CALL), "thinking.stray_dropped"),
    ],
)
def test_thinking_of_others_is_not_handed_back(part: ThinkingPart, rule: str) -> None:
    """Regression: it never becomes visible text; what the service cannot check it would refuse."""
    prompt = ask(user("a"), assistant(part, "b"), user("c"))

    assert contents(prompt)[1] == ("model", [{"text": "b"}])
    assert rules(prompt) == [rule]


def test_calls_of_the_current_turn_are_signed() -> None:
    """Gemini 3 refuses a step whose first call has no signature; earlier turns it does not look at."""
    step = (assistant(call("c1"), call("c2")), user(result("c1"), result("c2")))
    again = (
        assistant(call("c3")),
        user(result("c3"), "and a word"),
        assistant(sign(CALL), call("c4")),
        user(result("c4")),
    )
    prompt = ask(user("a"), *step, assistant("b"), user("now"), *step, *again)

    def signatures(model: ModelCard, **settings: Any) -> list[Any]:
        parts = [part for _, parts in contents(prompt, model, **settings) for part in parts if "functionCall" in part]
        return [part.get("thoughtSignature") for part in parts]

    assert signatures(THREE) == [None, None, SKIP, None, SKIP, "QUJD"]
    assert signatures(FLASH) == [None, None, None, None, None, "QUJD"]
    assert signatures(THREE, replay_thinking=False) == [None, None, SKIP, None, SKIP, SKIP]
    assert signatures(FLASH, remedies=(Remedy("adapted.signatures"),)) == [None, None, SKIP, None, SKIP, SKIP]
    assert "thinking.signature_skipped" in rules(prompt, THREE)


# Generation.


def test_nothing_is_said_where_the_client_says_nothing() -> None:
    """No configuration, no thresholds, no thinking: the service has its own defaults."""
    assert body(ask(user("x")), THREE).keys() == {"contents"}


def test_sampling_stays_within_bounds() -> None:
    """A number out of bounds would be refused; what was changed is noted with its name."""
    fine = Sampling(100, 0.2, 0.9, 40, ("", "END"), 7)
    wild = Sampling(1 << 20, 9.0, 1.5, 500, tuple("abcde"), 1 << 40, 2.0, -9.0)

    assert body(ask(user("x"), sampling=fine))["generationConfig"] == {
        "temperature": 0.2,
        "topP": 0.9,
        "topK": 40,
        "seed": 7,
        "stopSequences": ["END"],
        "maxOutputTokens": 100,
    }
    assert rules(ask(user("x"), sampling=fine)) == []
    assert body(ask(user("x"), sampling=wild), TWO)["generationConfig"] == {
        "temperature": 2.0,
        "topP": 1.0,
        "topK": 64,
        "presencePenalty": 1.99,
        "frequencyPenalty": -2.0,
        "seed": 0,
        "stopSequences": ["a", "b", "c", "d", "e"],
        "maxOutputTokens": 8_192,
    }
    assert rules(ask(user("x"), sampling=wild), TWO) == ["sampling.bounds", "sampling.max_tokens"]
    assert rules(ask(user("x"), sampling=Sampling(presence_penalty=1.0))) == ["sampling.penalties"]
    many = rendered(ask(user("x"), sampling=Sampling(stop=("", *"abcdefg"))))
    assert many.stop == ("f", "g")
    assert [note.rule for note in many.notes] == ["sampling.stops"]


OFF = Thinking(ThinkingMode.DISABLED)
ADAPTIVE = Thinking(ThinkingMode.ADAPTIVE)


@pytest.mark.parametrize(
    ("model", "thinking", "expected", "rule"),
    [
        (PRO, Thinking(), None, ""),
        (PRO, OFF, {"thinkingBudget": 128}, "thinking.not_off"),
        (FLASH, OFF, {"thinkingBudget": 0}, ""),
        (THREE, OFF, {"thinkingLevel": "low"}, "thinking.not_off"),
        (THREE_FLASH, Thinking(effort="none"), {"thinkingLevel": "minimal"}, "thinking.not_off"),
        (TWO, OFF, None, ""),
        (TWO, ADAPTIVE, None, "thinking.unavailable"),
        (FLASH, ADAPTIVE, {"includeThoughts": True, "thinkingBudget": -1}, ""),
        (THREE, ADAPTIVE, {"includeThoughts": True}, ""),
        (FLASH, Thinking(effort="high"), {"thinkingBudget": 20_000}, ""),
        (FLASH, Thinking(effort="max"), {"thinkingBudget": 24_576}, ""),
        (PRO, Thinking(ThinkingMode.ENABLED, 9_000), {"includeThoughts": True, "thinkingBudget": 9_000}, ""),
        (
            FLASH,
            Thinking(ThinkingMode.ENABLED, 99_000),
            {"includeThoughts": True, "thinkingBudget": 24_576},
            "thinking.budget",
        ),
        (THREE, Thinking(effort="medium"), {"thinkingLevel": "low"}, "thinking.effort"),
        (THREE_FLASH, Thinking(effort="medium"), {"thinkingLevel": "medium"}, ""),
        (
            THREE,
            Thinking(ThinkingMode.ENABLED, 30_000),
            {"includeThoughts": True, "thinkingLevel": "high"},
            "thinking.budget_as_level",
        ),
        (
            ModelCard("gemini-2.5-flash-lite"),
            Thinking(ThinkingMode.ENABLED, 1),
            {"includeThoughts": True, "thinkingBudget": 512},
            "thinking.budget",
        ),
        (ModelCard("gemini-2.5-flash-image"), ADAPTIVE, None, "thinking.unavailable"),
    ],
)
def test_thinking(model: ModelCard, thinking: Thinking, expected: dict[str, Any] | None, rule: str) -> None:
    """A budget for 2.5, a level for 3, never both; thoughts are shown to those who asked for thinking."""
    prompt = ask(user("x"), thinking=thinking)

    assert body(prompt, model).get("generationConfig", {}).get("thinkingConfig") == expected
    assert rules(prompt, model) == ([rule] if rule else [])


@pytest.mark.parametrize(
    ("model", "thinking", "limit", "budget", "sent"),
    [
        (FLASH, Thinking(ThinkingMode.ENABLED, 2_000), 5_000, 2_000, 5_000),
        (FLASH, Thinking(effort="high"), 4_000, 2_000, 4_000),
        (PRO, OFF, 100, 128, 228),
        (PRO, Thinking(ThinkingMode.ENABLED, 1_024), 64, 128, 192),
    ],
)
def test_thinking_leaves_room_for_the_answer(
    model: ModelCard, thinking: Thinking, limit: int, budget: int, sent: int
) -> None:
    """Thoughts share the greatest length, which must exceed their budget."""
    config = body(ask(user("x"), thinking=thinking, sampling=Sampling(limit)), model)["generationConfig"]

    assert (config["thinkingConfig"]["thinkingBudget"], config["maxOutputTokens"]) == (budget, sent)


def test_answers_with_a_schema() -> None:
    """The schema is sent where the model takes it, to older ones as their own; it is told where it is refused beside
    tools."""
    schema = {"type": "object", "properties": {"a": {"const": "x"}}}
    kind = {"responseMimeType": "application/json"}
    sent = kind | {"responseJsonSchema": {"type": "object", "properties": {"a": {"type": "string", "enum": ["x"]}}}}
    own = kind | {"responseSchema": {"type": "object", "properties": {"a": {"type": "string", "enum": ["x"]}}}}
    prompt = ask(user("x"), schema=schema)

    assert body(prompt)["generationConfig"] == sent
    assert body(evolve(prompt, schema={}))["generationConfig"] == {"responseMimeType": "application/json"}
    assert body(prompt, ModelCard("gemini-2.0-flash"))["generationConfig"] == own
    with_tools = evolve(prompt, tools=(F,))
    assert body(with_tools, THREE)["generationConfig"] == sent
    assert "generationConfig" not in body(with_tools)
    assert '"const":"x"' in body(with_tools)["systemInstruction"]["parts"][-1]["text"]
    assert rules(with_tools) == ["output.schema_instruction"]


def test_safety_is_said_only_if_it_is_set() -> None:
    """All four categories have the operator's threshold."""
    settings = body(ask(user("x")), safety_threshold="BLOCK_ONLY_HIGH")["safetySettings"]

    assert [entry["category"] for entry in settings] == [
        "HARM_CATEGORY_HARASSMENT",
        "HARM_CATEGORY_HATE_SPEECH",
        "HARM_CATEGORY_SEXUALLY_EXPLICIT",
        "HARM_CATEGORY_DANGEROUS_CONTENT",
    ]
    assert {entry["threshold"] for entry in settings} == {"BLOCK_ONLY_HIGH"}


# What is said about it.


def test_weight_and_statistics() -> None:
    """What is sent is counted, images at a fixed price; not a word is told."""
    prompt = ask(
        user("hello", IMAGE), assistant(call("c1", x="secret")), user(result("c1", "r")), system=("Be.",), tools=(F,)
    )
    upstream, found = GeminiUpstream(), rendered(prompt)

    assert upstream.statistics(found) == {
        "bytes": len(found.request.body),
        "messages": 3,
        "tools": 1,
        "tool_results": 1,
        "images": 1,
        "system": 3,
    }
    more = rendered(evolve(prompt, turns=(*prompt.turns[:-1], user(result("c1", "r" * 400)))))
    weight = upstream.estimate_tokens(found, TokenEstimator())
    assert IMAGE_TOKENS < weight < IMAGE_TOKENS + 150
    assert 90 < upstream.estimate_tokens(more, TokenEstimator()) - weight < 110


def test_an_unknown_prompt_is_not_changed() -> None:
    """The prompt's turns need no place, and results may be empty."""
    prompt = Prompt("m", (user("a"), assistant(call()), user(ToolResult("c1"))))

    assert contents(prompt)[2][1] == [{"functionResponse": {"name": "f", "response": {"result": ""}}}]
