"""Prompts as requests of Bedrock."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from functools import cache
from typing import Any

import pytest
from botocore.session import Session
from botocore.validate import ParamValidator
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import RequestError
from kiro_asgi.model.prompt import (
    Document,
    Image,
    Prompt,
    Role,
    Sampling,
    Text,
    Thinking,
    ThinkingMode,
    ThinkingPart,
    Tool,
    ToolCallPart,
    ToolChoice,
    ToolChoiceMode,
    ToolResult,
    Turn,
)
from kiro_asgi.upstreams.base import Credential, CredentialKind, Rendered
from kiro_asgi.upstreams.bedrock.models import base_model, card_of
from kiro_asgi.upstreams.bedrock.upstream import BedrockUpstream, host

CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
NOVA = "amazon.nova-pro-v1:0"
LLAMA = "us.meta.llama3-3-70b-instruct-v1:0"
MISTRAL_7B = "mistral.mistral-7b-instruct-v0:2"
MODELS = (CLAUDE, NOVA, LLAMA, MISTRAL_7B, "us.deepseek.r1-v1:0", "openai.gpt-oss-120b-1:0", "writer.palmyra-x5-v1:0")

KEY = Credential(CredentialKind.API_KEY, "key")
PIXEL = b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
LOOK = Tool("look", "Look around.", {"type": "object", "properties": {"way": {"type": "string"}}})


def rendered(prompt: Prompt, model: str = NOVA, **more: Any) -> Rendered:
    upstream = BedrockUpstream(endpoint=host("bedrock-runtime", "us-east-1"), **{"invokes": False, **more})
    return upstream.render(prompt, card_of(model), KEY)


def body(prompt: Prompt, model: str = NOVA, **more: Any) -> Any:
    return rendered(prompt, model, **more).document


def asked(*turns: Turn, **more: Any) -> Prompt:
    return Prompt("m", turns or (user(Text("hi")),), **more)


def user(*parts: Any) -> Turn:
    return Turn(Role.USER, parts, "messages[0]")


def assistant(*parts: Any) -> Turn:
    return Turn(Role.ASSISTANT, parts, "messages[1]")


def rules(prompt: Prompt, model: str = NOVA, **more: Any) -> set[str]:
    return {note.rule for note in rendered(prompt, model, **more).notes}


# Where it goes.


@pytest.mark.parametrize(
    ("model", "path"),
    [
        (NOVA, "/model/amazon.nova-pro-v1%3A0/converse-stream"),
        (
            "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc",
            "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Aapplication-inference-profile%2Fabc/converse-stream",
        ),
    ],
)
def test_nothing_of_an_id_stands_as_it_is(model: str, path: str) -> None:
    """Colons and slashes of ids are encoded: a slash would be another path."""
    assert rendered(asked(), model).request.url == f"https://bedrock-runtime.us-east-1.amazonaws.com{path}"


@pytest.mark.parametrize(
    ("region", "url"),
    [
        ("eu-west-1", "https://bedrock.eu-west-1.amazonaws.com"),
        ("cn-north-1", "https://bedrock.cn-north-1.amazonaws.com.cn"),
        ("us-isob-east-1", "https://bedrock.us-isob-east-1.sc2s.sgov.gov"),
    ],
)
def test_hosts_of_partitions(region: str, url: str) -> None:
    """Each partition of AWS has a domain of its own."""
    assert host("bedrock", region) == url


@pytest.mark.parametrize(
    ("name", "base"),
    [
        (CLAUDE, "anthropic.claude-sonnet-4-5-20250929-v1:0"),
        ("us-gov.anthropic.claude-x", "anthropic.claude-x"),
        ("arn:aws:bedrock:us-east-1:1:inference-profile/eu.amazon.nova-lite-v1:0", "amazon.nova-lite-v1:0"),
        ("arn:aws:bedrock:us-east-1:1:application-inference-profile/abc", "abc"),
        (NOVA, NOVA),
    ],
)
def test_the_model_behind_an_id(name: str, base: str) -> None:
    """Geography and ARN are not the model."""
    assert base_model(name) == base


def test_a_geography_is_put_before_bare_ids() -> None:
    """Where that is set; an ARN, and an id that has one, stay."""
    upstream = BedrockUpstream(geography="eu")

    assert [upstream.normalise(name) for name in (NOVA, CLAUDE, "arn:aws:bedrock:x:1:y/Z")] == [
        f"eu.{NOVA}",
        CLAUDE,
        "arn:aws:bedrock:x:1:y/Z",
    ]


# What is said.


def test_a_conversation_with_everything() -> None:
    """Every part has its block, every number its place."""
    prompt = asked(
        user(
            Text("What?", cache="5m"), Image("image/png", PIXEL), Document("text/plain", text="abc", title="a.b?.txt")
        ),
        assistant(ThinkingPart("Hm", "EqoB"), Text("This."), ToolCallPart("tooluse_1", "look", {"way": "n"})),
        user(ToolResult("tooluse_1", (Text("a door"),), is_error=True), Text("And?")),
        system=("Be brief.",),
        tools=(LOOK,),
        tool_choice=ToolChoice(ToolChoiceMode.NAMED, "look"),
        sampling=Sampling(max_tokens=99, temperature=0.5, top_k=7, stop=("###",)),
    )

    assert body(prompt, CLAUDE) == {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"text": "What?"},
                    {"cachePoint": {"type": "default"}},
                    {"image": {"format": "png", "source": {"bytes": PIXEL}}},
                    {"document": {"format": "txt", "name": "a b", "source": {"bytes": b64encode(b"abc").decode()}}},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"reasoningContent": {"reasoningText": {"text": "Hm", "signature": "EqoB"}}},
                    {"text": "This."},
                    {"toolUse": {"toolUseId": "tooluse_1", "name": "look", "input": {"way": "n"}}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"toolResult": {"toolUseId": "tooluse_1", "content": [{"text": "a door"}], "status": "error"}},
                    {"text": "And?"},
                ],
            },
        ],
        "system": [{"text": "Be brief."}],
        "toolConfig": {
            "tools": [
                {
                    "toolSpec": {
                        "name": "look",
                        "description": "Look around.",
                        "inputSchema": {"json": dict(LOOK.schema)},
                    }
                }
            ],
            "toolChoice": {"tool": {"name": "look"}},
        },
        "inferenceConfig": {"maxTokens": 99, "temperature": 0.5, "stopSequences": ["###"]},
        "additionalModelRequestFields": {"top_k": 7},
        "additionalModelResponseFieldPaths": ["/delta/stop_sequence"],
    }


def test_claude_by_invoke() -> None:
    """The Messages API's body without what the address says, with the version and the betas that the service has."""
    prompt = asked(
        betas=("interleaved-thinking-2025-05-14", "files-api-2025-04-14"),
        thinking=Thinking(ThinkingMode.ENABLED, budget_tokens=2000),
        sampling=Sampling(max_tokens=4000),
    )
    found = rendered(prompt, CLAUDE, invokes=True)

    assert found.request.url.endswith("/invoke-with-response-stream")
    assert found.document == {
        "anthropic_version": "bedrock-2023-05-31",
        "anthropic_beta": ["interleaved-thinking-2025-05-14"],
        "max_tokens": 4000,
        "thinking": {"type": "enabled", "budget_tokens": 2000},
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    }
    assert {note.rule for note in found.notes} == {"betas.unknown"}


def test_thinking_of_claude_by_converse() -> None:
    """Budgets go into the model's own fields."""
    prompt = asked(thinking=Thinking(ThinkingMode.ENABLED, budget_tokens=2000), sampling=Sampling(max_tokens=4000))

    assert body(prompt, CLAUDE)["additionalModelRequestFields"] == {
        "thinking": {"type": "enabled", "budget_tokens": 2000}
    }


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        ("us.amazon.nova-2-lite-v1:0", {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "low"}}),
        ("openai.gpt-oss-120b-1:0", {"reasoning_effort": "low"}),
        ("openai.gpt-6-sol", {"reasoning": {"effort": "low"}}),
        ("deepseek.v3-v1:0", {"reasoning_effort": "high"}),
        ("qwen.qwen3-32b-v1:0", {"reasoning_config": "low"}),
        (NOVA, None),
    ],
)
def test_effort_by_family(model: str, fields: Any) -> None:
    """Each family is told in its own way; one that has none is told nothing, and that is noted."""
    prompt = asked(thinking=Thinking(ThinkingMode.ENABLED, effort="low"))

    assert body(prompt, model).get("additionalModelRequestFields") == fields
    assert ("thinking.unavailable" in rules(prompt, model)) == (fields is None)


def test_no_call_and_no_two_calls() -> None:
    """Converse has no word for either; Claude is told in the Messages API's."""
    history = (user(Text("a")), assistant(ToolCallPart("1", "look", {})), user(ToolResult("1", (Text("b"),))))
    none = asked(*history, tools=(LOOK,), tool_choice=ToolChoice(ToolChoiceMode.NONE))
    alone = asked(tools=(LOOK,), tool_choice=ToolChoice(ToolChoiceMode.REQUIRED, parallel=False))

    assert body(none, CLAUDE)["additionalModelRequestFields"]["tool_choice"] == {"type": "none"}
    assert "toolChoice" not in body(alone, CLAUDE)["toolConfig"]
    choice = body(alone, CLAUDE)["additionalModelRequestFields"]["tool_choice"]
    assert choice == {"type": "any", "disable_parallel_tool_use": True}
    assert "toolConfig" not in body(asked(tools=(LOOK,), tool_choice=ToolChoice(ToolChoiceMode.NONE)))


def test_what_is_not_streamed() -> None:
    """Families that stream no answers where tools are offered are asked for whole ones, then only."""
    assert rendered(asked(tools=(LOOK,)), LLAMA).request.url.endswith("/converse")
    assert rendered(asked(), LLAMA).request.url.endswith("/converse-stream")


def test_a_choice_that_a_family_does_not_have() -> None:
    """It is left to the model, and noted."""
    prompt = asked(tools=(LOOK,), tool_choice=ToolChoice(ToolChoiceMode.REQUIRED))

    assert "toolChoice" not in body(prompt, LLAMA)["toolConfig"]
    assert "tools.choice" in rules(prompt, LLAMA)


def test_what_is_cited() -> None:
    """Claude is asked to; of any other model it is noted that it is not."""
    prompt = asked(user(Text("a"), Document("text/plain", text="abc", cited=True)))

    assert body(prompt, CLAUDE)["messages"][0]["content"][1]["document"]["citations"] == {"enabled": True}
    assert "documents.uncited" not in rules(prompt, CLAUDE)
    assert "documents.uncited" in rules(prompt, NOVA)


def test_system_texts_of_a_family_without() -> None:
    """They stand before the user's first words."""
    found = body(asked(system=("Be brief.",)), MISTRAL_7B)

    assert "system" not in found
    assert found["messages"][0]["content"] == [{"text": "Be brief."}, {"text": "hi"}]


def test_documents_have_names_of_their_own() -> None:
    """Two of one name would be refused; so would a name with a dot, and one beside no text."""
    documents = [Document("application/pdf", b64encode(b"%PDF-").decode(), title="Plan.v2.pdf") for _ in range(2)]
    content = body(asked(user(*documents)))["messages"][0]["content"]

    assert [each["document"]["name"] for each in content[1:]] == ["Plan v2", "Plan v2 2"]
    assert content[0] == {"text": "."}


@pytest.mark.parametrize(
    "part", [Image(url="https://example.com/a.png"), Document("application/pdf", url="https://x/y")]
)
@pytest.mark.parametrize("invokes", [True, False])
def test_addresses_are_refused(part: Any, invokes: bool) -> None:
    """The service fetches nothing; the message says what may be done."""
    with pytest.raises(RequestError, match=r"fetch\.allow"):
        rendered(asked(user(Text("a"), part)), CLAUDE, invokes=invokes)


# Whatever is asked.

_TEXTS = st.builds(Text, st.sampled_from(["", " ", "a", "ünï\n"]), st.sampled_from(["", "5m", "1h"]))
_MEDIA = st.sampled_from([Image("image/png", PIXEL), Document("text/plain", text="abc", title="Ä.b ")])
_IDS = st.sampled_from(["a", "b", "c d", "e" * 80])
_NAMES = st.sampled_from(["look", "lo ok", "x" * 90])
_CALLS = st.builds(ToolCallPart, _IDS, _NAMES, st.just({"way": 1}))
_RESULTS = st.builds(
    ToolResult, _IDS, st.lists(_TEXTS | _MEDIA, max_size=2).map(tuple), st.booleans(), st.sampled_from(["", "5m"])
)
_THOUGHTS = st.builds(ThinkingPart, st.just("Hm"), st.sampled_from(["", "EqoB", "gemini.thought:x"]))
_TURNS = st.builds(
    Turn, st.sampled_from(Role), st.lists(_TEXTS | _MEDIA | _CALLS | _RESULTS | _THOUGHTS, max_size=4).map(tuple)
)
_PROMPTS = st.builds(
    Prompt,
    st.just("m"),
    st.lists(_TURNS, max_size=6).map(tuple),
    st.lists(st.sampled_from(["", "Be brief."]), max_size=2).map(tuple),
    st.sampled_from([(), (LOOK,), (LOOK, Tool("lo ok"))]),
    st.builds(ToolChoice, st.sampled_from([ToolChoiceMode.AUTO, ToolChoiceMode.REQUIRED, ToolChoiceMode.NONE])),
    st.builds(Thinking, st.sampled_from(ThinkingMode), st.sampled_from([None, 2000]), st.sampled_from(["", "high"])),
    st.builds(
        Sampling, st.sampled_from([None, 1, 5000]), st.sampled_from([None, 0.5, 2.0]), top_k=st.sampled_from([None, 5])
    ),
    cache=st.sampled_from(["", "5m"]),
    schema=st.sampled_from([None, {"type": "object", "properties": {"a": {"type": "string"}}}]),
)


@cache
def shape() -> Any:
    return Session().get_service_model("bedrock-runtime").operation_model("ConverseStream").input_shape


def decoded(value: Any) -> Any:
    """A body with bytes in the place of base64, as botocore takes it."""
    if isinstance(value, dict):
        blobs = {"bytes", "redactedContent"}
        return {
            key: b64decode(it) if key in blobs and isinstance(it, str) else decoded(it) for key, it in value.items()
        }
    return [*map(decoded, value)] if isinstance(value, list) else value


@given(_PROMPTS, st.sampled_from(MODELS))
def test_any_conversation_becomes_one_that_the_service_takes(prompt: Prompt, model: str) -> None:
    """The shapes are those of AWS's own model, and the rules that it does not have hold as well."""
    card = card_of(model)
    parts = [part for turn in prompt.turns for part in turn.content()]
    if not card.images and any(isinstance(part, Image) for part in parts):
        return
    found = body(prompt, model)

    report = ParamValidator().validate({"modelId": model, **decoded(found)}, shape())
    assert not report.has_errors(), report.generate_report()
    _check_conversation(found["messages"], bool(found.get("toolConfig")))


def _check_conversation(messages: list[Any], tools: bool) -> None:
    """The service's rules for conversations that are in no shape."""
    assert [message["role"] for message in messages] == [["user", "assistant"][at % 2] for at in range(len(messages))]
    assert messages[-1]["role"] == "user" or "text" in messages[-1]["content"][-1]
    waiting: list[str] = []
    names: set[str] = set()
    points = 0
    for message in messages:
        content = message["content"]
        assert content
        assert all(block["text"].strip() for block in content if "text" in block)
        points += sum("cachePoint" in block for block in content)
        results = [block["toolResult"] for block in content if "toolResult" in block]
        assert [result["toolUseId"] for result in results] == waiting
        assert all(result["content"] for result in results)
        waiting = [block["toolUse"]["toolUseId"] for block in content if "toolUse" in block]
        assert len({*waiting}) == len(waiting)
        assert all(re.fullmatch(r"[a-zA-Z0-9_.:-]{1,64}", call) for call in waiting)
        assert tools or not waiting
        for block in [*content, *(each for result in results for each in result["content"])]:
            if name := block.get("document", {}).get("name"):
                assert name not in names and re.fullmatch(r"[a-zA-Z0-9()\[\]-]+( [a-zA-Z0-9()\[\]-]+)*", name)
                names.add(name)
        if any("document" in block for block in content):
            assert any("text" in block for block in content)
    assert not waiting and points <= 4


@pytest.mark.parametrize(
    ("part", "most", "rule"),
    [(Image("image/png", PIXEL), 20, "images.count"), (Document("text/plain", text="a"), 5, "documents.count")],
)
def test_what_one_message_may_hold(part: Any, most: int, rule: str) -> None:
    """One more is refused by its rule, results of tools counted; a turn that goes before has its own."""
    earlier = (user(*[part] * most), assistant(ToolCallPart("a", "look", {})))
    body(asked(*earlier, user(ToolResult("a", (Text("x"),)), *[part] * most)), CLAUDE)

    with pytest.raises(RequestError, match=rule):
        body(asked(*earlier, user(ToolResult("a", (part,)), *[part] * most)), CLAUDE)
