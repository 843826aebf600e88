"""Whatever a client sends, the service gets what breaks none of its rules, and the client's words are in it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.errors import RequestError
from kiro_asgi.model.prompt import Document, Prompt, Text, ThinkingPart, ToolResult
from kiro_asgi.model.rules import Loss
from kiro_asgi.simulator.kiro.checks import RULES
from kiro_asgi.simulator.kiro.document import KiroDocument
from kiro_asgi.simulator.kiro.message_checks import KiroRequest, Refusal, check
from kiro_asgi.simulator.kiro.models import MODELS
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.kiro.rules import TABLE
from tests.upstreams.kiro.invariants import breaches
from tests.upstreams.kiro.prompts import GPT, NATIVE, PLAIN, PNG, PROMPTS, SCHEMA, rendered, texts

MODES = st.sampled_from(["native", "text"])
MODEL_CARDS = st.sampled_from([PLAIN, NATIVE, GPT])
JUDGES = tuple(rule for rule in RULES if rule.kept.__name__ != "signatures_valid")
"""The simulator's rules, but for the one that wants signatures of its own."""


def verdict(body: dict[str, Any]) -> Refusal | None:
    return check(KiroRequest({"authorization": "Bearer t"}, KiroDocument(body), MODELS), JUDGES)


def assert_well_formed(prompt: Prompt, model: ModelCard, **settings: Any) -> None:
    body = json.loads(rendered(prompt, model, **settings).request.body)

    assert breaches(body) == []
    assert verdict(body) is None


@given(PROMPTS, MODEL_CARDS, MODES, st.booleans())
def test_any_conversation_is_well_formed(prompt: Prompt, model: ModelCard, mode: str, careful: bool) -> None:
    """However turns, parts, ids, names and tools are mixed, none of the service's rules is broken."""
    settings = {"sanitize_text": careful, "strip_system_reminders": careful, "max_images": 1, "description_limit": 10}

    assert_well_formed(prompt, model, tool_history=mode, **settings)


def marked(prompt: Prompt) -> Prompt:
    """*prompt* with a number in each of its texts, so that none can stand for another."""
    numbers = iter(range(10_000))

    def mark(part: Any) -> Any:
        if isinstance(part, ToolResult):
            return evolve(part, parts=tuple(map(mark, part.parts)))
        if isinstance(part, ThinkingPart) or (isinstance(part, Document) and part.data):
            return part
        return evolve(part, text=f"«{next(numbers)}»") if isinstance(part, Text | Document) else part

    turns = tuple(evolve(turn, parts=tuple(map(mark, turn.parts))) for turn in prompt.turns)
    return evolve(prompt, turns=turns, system=tuple(f"«{next(numbers)}»" for _ in prompt.system))


@given(PROMPTS.map(marked), MODES)
def test_no_text_is_lost_silently(prompt: Prompt, mode: str) -> None:
    """A text is sent once, or a note says that content was lost; thinking is the only one that may be."""
    found = rendered(prompt, tool_history=mode)
    sent = found.request.body.decode()
    marks = [text for text in texts(prompt) if text.startswith("«")]
    thoughts = [text for text in texts(prompt) if text == "hm"]
    dropped = [note for note in found.notes if note.rule.startswith("thinking.") and _loses(note.rule)]

    assert [mark for mark in marks if sent.count(mark) != 1] == []
    assert sent.count('"hm"') + sum(note.times for note in dropped) >= len(thoughts)


def _loses(rule: str) -> bool:
    return TABLE[rule].loss is Loss.CONTENT


@given(PROMPTS)
def test_rendering_changes_nothing(prompt: Prompt) -> None:
    """F406: the prompt is the same before and after, and the same prompt gives the same request."""
    before = copy.deepcopy(prompt)
    first = rendered(prompt)

    assert prompt == before
    assert rendered(prompt) == first
    assert json.loads(first.request.body) == first.document or "\ud800" in str(first.document)


@given(PROMPTS, st.sets(st.sampled_from(sorted(TABLE))))
def test_any_rule_may_be_switched_off(prompt: Prompt, off: set[str]) -> None:
    """Without a rule there still is a request, none of them is noted, and none of the others needs it."""
    found = rendered(prompt, rules_off=off)

    assert off.isdisjoint(note.rule for note in found.notes)
    assert json.loads(found.request.body)["conversationState"]["currentMessage"]


# Through the dialects' parsers.

WORDS = st.sampled_from(["", " ", "hello", "<system-reminder>x</system-reminder>"])
IDS = st.sampled_from(["toolu_1", "toolu_2", "functions.f:0", "x" * 80])
NAMES = st.sampled_from(["Read", "read", "mcp__server__" + "y" * 70, "a.b"])
INPUTS = st.sampled_from([{}, {"x": 1}, {"": 2}])


def block(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"type": st.just(kind), **fields})


ANTHROPIC_IMAGES = block("image", source=st.just({"type": "base64", "media_type": "image/jpeg", "data": PNG}))
SAID = block("text", text=WORDS)
USERS = (
    SAID
    | ANTHROPIC_IMAGES
    | block("tool_result", tool_use_id=IDS, content=WORDS | st.lists(SAID | ANTHROPIC_IMAGES, max_size=2))
)
ANSWERS = (
    SAID
    | block("thinking", thinking=WORDS, signature=st.sampled_from(["", "sig"]))
    | block("redacted_thinking", data=st.just("QQ=="))
    | block("tool_use", id=IDS, name=NAMES, input=INPUTS)
)


def message(role: str, blocks: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    content = WORDS | st.lists(blocks, max_size=3)
    return st.fixed_dictionaries({"role": st.just(role), "content": content})


ANTHROPIC_BODIES = st.fixed_dictionaries(
    {
        "model": st.just("m"),
        "max_tokens": st.just(5000),
        "messages": st.lists(message("user", USERS) | message("assistant", ANSWERS), min_size=1, max_size=6),
        "tools": st.lists(
            st.fixed_dictionaries({"name": NAMES, "input_schema": st.sampled_from([SCHEMA, {"type": "object"}])}),
            max_size=3,
        ),
    },
    optional={
        "system": st.just([{"type": "text", "text": "Be brief."}]),
        "thinking": st.sampled_from([{"type": "enabled", "budget_tokens": 2000}, {"type": "disabled"}]),
        "tool_choice": st.sampled_from([{"type": "auto"}, {"type": "none"}]),
    },
)

CALLS = st.lists(
    st.fixed_dictionaries(
        {
            "id": IDS,
            "type": st.just("function"),
            "function": st.fixed_dictionaries(
                {"name": NAMES, "arguments": st.sampled_from(["", "{}", "[1]", '{"x":', '{"":1}'])}
            ),
        }
    ),
    min_size=1,
    max_size=2,
)
CHAT_USERS = message(
    "user", block("text", text=WORDS) | block("image_url", image_url=st.just({"url": f"data:image/png;base64,{PNG}"}))
)
CHAT_MESSAGES = (
    CHAT_USERS
    | message("system", block("text", text=WORDS))
    | st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": WORDS}, optional={"tool_calls": CALLS, "reasoning_content": WORDS}
    )
    | st.fixed_dictionaries({"role": st.just("tool"), "tool_call_id": IDS, "content": WORDS})
)
CHAT_BODIES = st.fixed_dictionaries(
    {"model": st.just("m"), "messages": st.lists(CHAT_MESSAGES, min_size=1, max_size=7)},
    optional={
        "tools": st.lists(
            st.fixed_dictionaries(
                {
                    "type": st.just("function"),
                    "function": st.fixed_dictionaries({"name": NAMES, "parameters": st.just(SCHEMA)}),
                }
            ),
            max_size=3,
        ),
        "reasoning_effort": st.sampled_from(["minimal", "high", "xhigh"]),
        "parallel_tool_calls": st.booleans(),
    },
)


@pytest.mark.parametrize(
    ("dialect", "bodies"),
    [
        pytest.param(AnthropicMessages(), ANTHROPIC_BODIES, id="anthropic"),
        pytest.param(OpenAIChat(), CHAT_BODIES, id="openai"),
    ],
)
@given(st.data())
def test_any_body_of_a_dialect_is_well_formed(dialect: Any, bodies: Any, data: st.DataObject) -> None:
    """What a parser lets through, the service takes; every note of a conversation knows where it comes from."""
    try:
        prompt = dialect.parse(json.dumps(data.draw(bodies)).encode()).prompt
    except RequestError:
        return
    found = rendered(prompt, data.draw(MODEL_CARDS))
    body = json.loads(found.request.body)

    assert breaches(body) == []
    assert verdict(body) is None
    placeless = ("thinking.", "sampling.", "output.", "turns.empty", "system.")
    assert [note for note in found.notes if not note.place and not note.rule.startswith(placeless)] == []
