"""A conversation may go on with another model: what one service answered, every other one takes."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model.message import fold
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard
from tests.dialects import echoes
from tests.regressions.crossing import UPSTREAMS, events
from tests.regressions.speech import Call, Say, Think, spoken, stream
from tests.upstreams.anthropic.checker import check_body as check_anthropic
from tests.upstreams.gemini.invariants import breaches
from tests.upstreams.openai.invariants import check_body as check_openai

KEY = Credential(CredentialKind.API_KEY, "k")


def check_gemini(body: dict[str, Any]) -> None:
    assert breaches(body) == []


NEXT = (
    ("gemini", ModelCard("gemini-2.5-pro"), check_gemini),
    ("gemini", ModelCard("gemini-3-pro-preview"), check_gemini),
    ("anthropic", ModelCard("claude-sonnet-4-5"), check_anthropic),
    ("openai", ModelCard("gpt-4o"), check_openai),
)

WORDS = st.text("ab \n<>é", min_size=1, max_size=4)
CALLS = st.builds(
    Call,
    st.text("ab-_.:é ", min_size=1, max_size=70),
    st.sampled_from(["f", "mcp__s__t", "a.b", "ä b"]),
    st.dictionaries(WORDS, st.none() | WORDS | st.integers(), max_size=2),
)
ANSWERS = st.lists(WORDS.map(Say) | WORDS.map(Think) | CALLS, min_size=1, max_size=5)


@given(
    st.sampled_from([*UPSTREAMS]),
    st.sampled_from([echoes.messages, echoes.chat, echoes.responses]),
    st.booleans(),
    ANSWERS,
)
def test_every_answer_can_be_handed_on(upstream: str, client: echoes.Client, streamed: bool, pieces: list[Any]) -> None:
    """Whatever ids, names, blanks and orders an answer has, the next request that holds it is legal everywhere."""
    message = fold(events(upstream, [stream(spoken(upstream, *pieces))]))
    prompt = client(message, streamed)

    for name, model, check in NEXT:
        check(json.loads(UPSTREAMS[name]().render(prompt, model, KEY).request.body))
