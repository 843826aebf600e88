"""From a prompt to the contract's request."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest
from attrs import evolve
from hypothesis import given

from kiro_asgi.errors import UnknownModel
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Image, Thinking, ThinkingMode, Tool, ToolChoice, ToolChoiceMode
from kiro_asgi.streaming import ContractOptions, translate_kiro_request
from kiro_asgi.upstreams.base import Credential, CredentialKind
from kiro_asgi.upstreams.kiro.contract import ClaudeToolChoice, ManifestEntry, Request
from kiro_asgi.upstreams.kiro.contract.request import translate
from kiro_asgi.upstreams.kiro.models import FALLBACK, find
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream
from tests.upstreams.kiro.contract.prompts import (
    LONG,
    LOOP,
    PNG,
    PROMPTS,
    STRUCTURES,
    assistant,
    call,
    keys,
    prompt,
    result,
    user,
)

REMINDER = "<system-reminder>hush</system-reminder>"
NATIVE = ContractOptions(drop_tool_events=False)
INLINE = ContractOptions(inline_tool_context=True)


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


def current(request: Request) -> str:
    return request.current_message.content


def history(request: Request) -> list[tuple[str, str]]:
    return [(message.role.value, message.content) for message in request.history]


# The model, and the shape.


@pytest.mark.parametrize("name", ["claude-sonnet-4.5", "claude-sonnet-4-5", "claude-sonnet-4-5-20250929"])
def test_models_are_mapped(name):
    """Every spelling of a model means the service's own name (F341)."""
    assert translate_kiro_request(evolve(prompt(), model=name)).current_message.model_id == "claude-sonnet-4.5"


def test_an_unknown_model_is_an_error():
    """A name that means no model is refused, with what is near (F341)."""
    with pytest.raises(UnknownModel, match="did you mean claude-sonnet-4"):
        translate_kiro_request(evolve(prompt(), model="claude-sonnet-4.55"))


def test_the_shape_is_the_contracts():
    """Message and context stand side by side, history is role and content, schemas are cleaned (F342, F343, F347)."""
    tool = Tool("f", " d ", {"type": "object", "title": "t"})
    asked = prompt(user("a"), assistant("b"), user("c"), tools=(tool,))

    assert translate_kiro_request(asked).document() == {
        "conversationState": {
            "currentMessage": {
                "userInputMessage": {"content": "c", "modelId": "claude-sonnet-4.5", "origin": "AI_EDITOR"},
                "userInputMessageContext": {
                    "tools": [{"name": "f", "description": "d", "jsonSchema": {"type": "object"}}],
                    "toolContextManifest": [{"name": "f", "hash": digest("d"), "length": 1, "description": "d"}],
                },
            },
            "history": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
        }
    }


def test_without_history_there_is_no_member_for_it():
    """One turn has no history (F342)."""
    assert "history" not in translate_kiro_request(prompt(user("a"))).document()["conversationState"]


def test_the_origin_is_a_choice():
    """``AI_EDITOR`` unless something else is set (F344)."""
    assert translate_kiro_request(prompt()).current_message.origin == "AI_EDITOR"
    assert translate_kiro_request(prompt(), ContractOptions(origin="CLI")).current_message.origin == "CLI"


# Tools.


def test_descriptions_are_cut_by_characters():
    """257 characters of several bytes each become 256, white space around them does not count (F349, F355)."""
    request = translate_kiro_request(prompt(tools=(Tool("f", " " + "🗼" * 257 + "\n"),)))

    assert request.context.tools[0].description == "🗼" * 256
    assert request.context.tool_context_manifest[0].length == 257


def test_the_limit_is_a_choice():
    """Another length is a setting (F349)."""
    request = translate_kiro_request(prompt(tools=(Tool("f", "abc"),)), ContractOptions(description_limit=2))

    assert request.context.tools[0].description == "ab"


def test_a_manifest_tells_what_was_cut():
    """Heading, and name, hash, length and all of the text; behind the system text and a blank line (F350 to F354)."""
    asked = prompt(user("q"), system=("S",), tools=(Tool("short", "s"), Tool("f", LONG), Tool("g", LONG + "c")))

    assert current(translate_kiro_request(asked)) == (
        "S\n\nTool reference manifest (hash → tool)\n"
        f"- f [{digest(LONG)}, 300 chars]: {LONG}\n- g [{digest(LONG + 'c')}, 301 chars]: {LONG}c\n\nq"
    )
    assert current(translate_kiro_request(evolve(asked, system=()))).startswith("Tool reference manifest")


def test_the_hash_is_half_of_sha_256():
    """The first 64 bits in hexadecimal; a known value (F354)."""
    request = translate_kiro_request(prompt(tools=(Tool("f", "abc"),)))

    assert request.context.tool_context_manifest == (ManifestEntry("f", "ba7816bf8f01cfea", 3, "abc"),)


def test_without_a_cut_there_is_no_manifest():
    """Short descriptions leave the system text alone (F350)."""
    asked = prompt(user("q"), system=(" S ",), tools=(Tool("f", "d" * 256),))

    assert current(translate_kiro_request(asked)) == " S \n\nq"


def test_the_sidecar_lists_every_description():
    """Short ones too, empty ones not (F356, F357)."""
    tools = (Tool("f", LONG), Tool("g", "short"), Tool("h", "  "))
    entries = translate_kiro_request(prompt(tools=tools)).context.tool_context_manifest

    assert [(it.name, it.length, it.description) for it in entries] == [("f", 300, LONG), ("g", 5, "short")]


@pytest.mark.parametrize(
    ("choice", "noted", "sentence"),
    [
        pytest.param(
            ToolChoice(ToolChoiceMode.NAMED, "f", raw={"type": "tool", "name": "f"}),
            ClaudeToolChoice("tool", "f", {"type": "tool", "name": "f"}),
            "Tool directive: you must use the tool f in this answer.",
            id="tool",
        ),
        pytest.param(
            ToolChoice(ToolChoiceMode.REQUIRED, raw={"type": "any"}),
            ClaudeToolChoice("any", "", {"type": "any"}),
            "Tool directive: you must use at least one of the tools in this answer.",
            id="any",
        ),
        pytest.param(
            ToolChoice(ToolChoiceMode.NONE, raw={"type": "none"}),
            ClaudeToolChoice("none", "", {"type": "none"}),
            "Tool directive: you must not use any tool in this answer.",
            id="none",
        ),
        pytest.param(ToolChoice(raw={"type": "auto"}), ClaudeToolChoice("auto", "", {"type": "auto"}), "", id="auto"),
        pytest.param(ToolChoice(), None, "", id="absent"),
    ],
)
def test_the_choice_of_tools(choice, noted, sentence):
    """It is kept beside the messages, and told at the end of the system text (F358, F359, F360)."""
    request = translate_kiro_request(prompt(user("q"), system=("S",), tool_choice=choice))

    assert request.context.claude_tool_choice == noted
    assert current(request) == "\n\n".join(filter(None, ("S", sentence, "q")))


# The conversation.


@pytest.mark.parametrize(
    "change",
    [
        {"turns": (user("other"),)},
        {"model": "claude-opus-4.5"},
        {"tools": (Tool("other"),)},
        {"system": ("other",)},
        {"thinking": Thinking(ThinkingMode.ENABLED, 9000)},
    ],
    ids=lambda change: next(iter(change)),
)
@pytest.mark.parametrize("contract", [None, ContractOptions()], ids=["native", "contract"])
def test_the_five_inputs_of_a_request(change, contract):
    """Messages, model, tools, system text and the wish for thinking each show in what the service is asked (F377)."""
    upstream = KiroUpstream(contract=contract, new_id=lambda: "00000000-0000-4000-8000-000000000000")
    asked = prompt(user("q"), system=("S",), tools=(Tool("f"),))

    def body(of):
        return upstream.render(of, find(of.model, FALLBACK), Credential(CredentialKind.API_KEY, "k")).request.body

    assert body(evolve(asked, **change)) != body(asked)


def test_system_texts_are_joined_by_a_blank_line():
    """Two texts are two paragraphs (F348)."""
    assert current(translate_kiro_request(prompt(user("q"), system=("a", "b")))) == "a\n\nb\n\nq"


def test_text_blocks_are_lines():
    """Blocks of one message are joined by a line feed, empty ones left out (F365)."""
    assert current(translate_kiro_request(prompt(user("a", "", "b")))) == "a\nb"


def test_the_last_message_is_current():
    """What is before it is history (F366)."""
    request = translate_kiro_request(prompt(user("a"), assistant("b"), user("c")))

    assert (current(request), history(request)) == ("c", [("user", "a"), ("assistant", "b")])


def test_an_empty_conversation_is_an_empty_message():
    """Nothing fails where nothing was said (F367)."""
    assert (current(translate_kiro_request(prompt())), history(translate_kiro_request(prompt()))) == ("", [])


def test_after_the_assistants_last_word_the_user_says_continue():
    """All turns are history then; the word is a choice (F366, 5.37)."""
    asked = prompt(user("a"), assistant("b"))

    assert history(translate_kiro_request(asked)) == [("user", "a"), ("assistant", "b")]
    assert current(translate_kiro_request(asked)) == "Continue"
    assert current(translate_kiro_request(asked, ContractOptions(continue_text="Go on"))) == "Go on"


def test_tool_events_are_told_before_the_text():
    """System text, one section with every line of the conversation, the user's text (F361 to F364, F368)."""
    request = translate_kiro_request(evolve(LOOP, system=("S",)))

    assert current(request) == ("S\n\nTool result context:\nTool invoked (t1): f\nTool result (t1): 42\n\nSure?")
    assert history(request) == [("user", "What is it?"), ("assistant", "Let me look."), ("assistant", "It is 42.")]


def test_a_message_of_results_is_current():
    """In the ordinary loop of an agent the section is the current message, not the assistant's text (5.37)."""
    request = translate_kiro_request(prompt(user("q"), assistant("Let me look.", call()), user(result("42"))))

    assert current(request) == "Tool result context:\nTool invoked (t1): f\nTool result (t1): 42"
    assert history(request) == [("user", "q"), ("assistant", "Let me look.")]


@pytest.mark.parametrize(
    ("parts", "value"),
    [
        pytest.param(["sunny"], "sunny", id="text"),
        pytest.param(['{"a": 1'], '{"a": 1', id="broken-json"),
        pytest.param([], "", id="nothing"),
        pytest.param(["a", "b"], '[{"type":"text","text":"a"},{"type":"text","text":"b"}]', id="several"),
        pytest.param(["a", PNG], '[{"type":"text","text":"a"},{"type":"image"}]', id="image"),
    ],
)
def test_a_result_is_one_line(parts, value):
    """A text as it stands, anything else as JSON; images travel with the message (F363, F401)."""
    request = translate_kiro_request(prompt(user(result(*parts))))

    assert current(request) == f"Tool result context:\nTool result (t1): {value}"
    assert request.current_message.parts == tuple(part for part in parts if isinstance(part, Image))


def test_lines_may_stand_in_their_turns():
    """Earlier calls and results are told where they happened, those of the last turn before its text (5.53)."""
    request = translate_kiro_request(LOOP, INLINE)

    assert current(request) == "Sure?"
    assert history(request) == [
        ("user", "What is it?"),
        ("assistant", "Let me look.\n\nTool invoked (t1): f"),
        ("user", "Tool result (t1): 42"),
        ("assistant", "It is 42."),
    ]


def test_native_history_has_no_lines():
    """Calls and results stay what they are, beside the text (F371)."""
    request = translate_kiro_request(LOOP, NATIVE)

    assert current(request) == "Sure?"
    assert [message.parts for message in request.history] == [(), (call(),), (result("42"),), ()]


@pytest.mark.parametrize("options", [ContractOptions(), INLINE, NATIVE], ids=["text", "inline", "native"])
def test_every_text_is_sanitised(options):
    """System, user, assistant and results; reminders only where that is set (F369, 5.53)."""
    noisy = f"\x1b[1m{REMINDER}x\x00"
    asked = prompt(user(noisy), assistant(noisy, call()), user(result(noisy), noisy), user(noisy), system=(noisy,))
    spared = evolve(options, strip_system_reminders=False)

    def said(request: Request) -> str:
        return repr((request.current_message, request.history))

    assert "\\x1b" not in said(translate_kiro_request(asked, options))
    assert "hush" not in said(translate_kiro_request(asked, options))
    assert said(translate_kiro_request(asked, spared)).count("hush") == 6
    assert "\\x1b" not in said(translate_kiro_request(asked, spared))


@pytest.mark.parametrize(
    ("metadata", "planned"),
    [({}, False), ({"plan_mode": True}, True), ({"plan_mode": "true"}, True), ({"plan_mode": False}, False)],
)
def test_plan_mode_comes_in_the_metadata(metadata, planned):
    """A member that is set switches it on; all metadata is kept beside the messages (F051, F375)."""
    context = translate_kiro_request(prompt(metadata=metadata)).context

    assert (context.plan_mode, context.metadata) == (planned, metadata)
    assert translate_kiro_request(prompt(metadata={"p": True}), ContractOptions(plan_mode_key="p")).context.plan_mode


# Laws.


@given(PROMPTS)
def test_any_prompt_is_translated(asked):
    """Texts only, no structure of tools anywhere, descriptions within the limit and whole in the manifest (F345, F346,
    F370, F372, F373, F374)."""
    request = translate(asked, "m", ContractOptions(), Notes())
    document = request.document()

    json.dumps(document)
    assert keys(document["conversationState"].get("history", [])) <= {"role", "content"}
    assert not STRUCTURES & keys(document)
    assert all(isinstance(part, Image) for it in (*request.history, request.current_message) for part in it.parts)
    for tool, specification in zip(asked.tools, request.context.tools, strict=True):
        assert len(specification.description) <= 256
        full = tool.description.strip()
        assert not full or full in [entry.description for entry in request.context.tool_context_manifest]
