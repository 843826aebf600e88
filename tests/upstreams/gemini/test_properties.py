"""Whatever a client sends, the service gets what breaks none of its rules, and the client's words are in it."""

from __future__ import annotations

import copy
import json
from itertools import cycle
from typing import Any

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.failures.remedies import Remedy
from kiro_asgi.model.prompt import (
    Document,
    Prompt,
    Sampling,
    Text,
    Thinking,
    ThinkingMode,
    ThinkingPart,
    Tool,
    ToolResult,
)
from kiro_asgi.model.signatures import marked
from kiro_asgi.upstreams.gemini.rules import RULES
from tests.upstreams.gemini.asked import FLASH, PRO, THREE, THREE_FLASH, TWO, rendered
from tests.upstreams.gemini.invariants import breaches
from tests.upstreams.kiro.prompts import PROMPTS, texts

MODELS = st.sampled_from([PRO, FLASH, THREE, THREE_FLASH, TWO])
MARKS = [marked("gemini", kind, "QUJDRA==") for kind in ("call", "text", "thought", "else")]
SEARCH = Tool("web_search", hosted="web_search", options={"max_uses": 1})
SAMPLINGS = st.builds(
    Sampling,
    st.sampled_from([None, 0, 1, 200, 100_000]),
    st.sampled_from([None, -1.0, 3.0]),
    st.sampled_from([None, 2.0]),
    st.sampled_from([None, 500]),
    st.sampled_from([(), ("", "a"), tuple("abcde")]),
    st.sampled_from([None, -1, 1 << 40]),
    st.sampled_from([None, 0.0, 2.0]),
    st.sampled_from([None, -9.0]),
)
THINKING = st.builds(
    Thinking,
    st.sampled_from(ThinkingMode),
    st.sampled_from([None, 1, 5_000, 100_000]),
    st.sampled_from(["", "none", "minimal", "high", "max", "?"]),
)

REFUSED = (Remedy("adapted.signatures"),)


def signed(prompt: Prompt, first: int) -> Prompt:
    """*prompt* with the service's own signatures, of all kinds, in place of others."""
    marks = cycle(MARKS[first:] + MARKS[:first])

    def sign(part: Any) -> Any:
        if isinstance(part, ThinkingPart) and part.signature:
            return evolve(part, signature=next(marks))
        return part

    return evolve(prompt, turns=tuple(evolve(turn, parts=tuple(map(sign, turn.parts))) for turn in prompt.turns))


ASKED = st.builds(
    lambda prompt, first, sampling, thinking, search, schema: evolve(
        signed(prompt, first),
        sampling=sampling,
        thinking=thinking,
        schema=schema,
        tools=(*prompt.tools, SEARCH) if search else prompt.tools,
    ),
    PROMPTS,
    st.integers(0, 3),
    SAMPLINGS,
    THINKING,
    st.booleans(),
    st.sampled_from([None, {}, {"type": "object", "properties": {"a": {"const": 1}}}]),
)


@given(ASKED, MODELS, st.booleans(), st.booleans())
def test_any_conversation_is_well_formed(prompt: Prompt, model: Any, adapted: bool, replay: bool) -> None:
    """However turns, parts, ids, names, signatures and tools are mixed, none of the service's rules is broken."""
    found = rendered(
        prompt, model, remedies=REFUSED if adapted else (), replay_thinking=replay, safety_threshold="BLOCK_NONE"
    )

    assert breaches(json.loads(found.request.body)) == []
    assert {note.rule for note in found.notes} <= {rule.name for rule in RULES}


@given(ASKED)
def test_signatures_of_a_turn_are_there(prompt: Prompt) -> None:
    """The first call of every step of the current turn has a signature, where the model insists on it."""
    contents = json.loads(rendered(prompt, THREE).request.body)["contents"]
    for content in reversed(contents):
        kinds = [next(iter(part)) for part in content["parts"]]
        if content["role"] == "user" and "functionResponse" not in kinds:
            break
        calls = [part for part in content["parts"] if "functionCall" in part]
        assert not calls or "thoughtSignature" in calls[0]


def numbered(prompt: Prompt) -> Prompt:
    """*prompt* with a number in each of its texts, so that none can stand for another."""
    numbers = iter(range(10_000))

    def number(part: Any) -> Any:
        if isinstance(part, ToolResult):
            return evolve(part, parts=tuple(map(number, part.parts)))
        if isinstance(part, Document) and part.data:
            return part
        return evolve(part, text=f"«{next(numbers)}»") if isinstance(part, Text | Document) else part

    turns = tuple(evolve(turn, parts=tuple(map(number, turn.parts))) for turn in prompt.turns)
    return evolve(prompt, turns=turns, system=tuple(f"«{next(numbers)}»" for _ in prompt.system))


@given(PROMPTS.map(numbered), MODELS)
def test_no_text_is_lost(prompt: Prompt, model: Any) -> None:
    """A text is sent once; only a result that repeats another may be left out."""
    sent = rendered(prompt, model).request.body.decode()

    assert [text for text in texts(prompt) if text.startswith("«") and sent.count(text) != 1] == []


@given(ASKED, MODELS)
def test_rendering_changes_nothing(prompt: Prompt, model: Any) -> None:
    """F406: the prompt is the same before and after, and the same prompt gives the same request."""
    before = copy.deepcopy(prompt)
    first = rendered(prompt, model)

    assert rendered(prompt, model).request == first.request
    assert prompt == before
