from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model.prompt import (
    Document,
    Image,
    Part,
    Prompt,
    Role,
    Text,
    ThinkingPart,
    Tool,
    ToolCallPart,
    ToolResult,
    Turn,
)
from kiro_asgi.stages.estimate import DOCUMENT_TOKENS, IMAGE_TOKENS, TURN_TOKENS, TokenEstimator, count_prompt

COUNT = TokenEstimator().count


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        pytest.param("", 0, 0, id="nothing"),
        pytest.param("a", 1, 1, id="one-letter"),
        pytest.param("The quick brown fox jumps over the lazy dog.", 9, 13, id="english"),
        pytest.param('{"path": "src/main.py", "line": 120}', 10, 16, id="json"),
        pytest.param("314159265358979", 5, 15, id="digits"),
        pytest.param("今日は良い天気ですね", 8, 14, id="japanese"),
        pytest.param("Съешь же ещё этих мягких булок", 10, 22, id="russian"),
        pytest.param("🙂🙂🙂", 3, 9, id="emoji"),
        pytest.param("\ud800", 1, 2, id="lone-surrogate"),
    ],
)
def test_guesses_the_order_of_magnitude(text: str, low: int, high: int) -> None:
    """F414: no download, and near what public tokenizers say of text in many scripts."""
    assert low <= COUNT(text) <= high


@given(st.lists(st.text()))
def test_pieces_weigh_what_the_whole_weighs(pieces: list[str]) -> None:
    """F413: however an answer is cut, its weight is exactly the same."""
    weigh = TokenEstimator().weigh

    assert sum(map(weigh, pieces)) == weigh("".join(pieces))


LONG = "word " * 40


@pytest.mark.parametrize(
    ("part", "tokens"),
    [
        pytest.param(Text(LONG), COUNT(LONG), id="text"),
        pytest.param(ThinkingPart(LONG, "seal"), COUNT(LONG), id="thinking"),
        pytest.param(Image("image/png", "A" * 100_000), IMAGE_TOKENS, id="image"),
        pytest.param(Document("application/pdf", "A" * 100_000), DOCUMENT_TOKENS, id="pdf"),
        pytest.param(Document("text/plain", text=LONG), COUNT(LONG), id="plain-text-document"),
        pytest.param(ToolCallPart("c", "ffff", {"a": 1}), COUNT('ffff{"a":1}'), id="tool-call"),
        pytest.param(
            ToolResult("c", (Text(LONG), Image(url="http://x/"))), COUNT(LONG) + IMAGE_TOKENS, id="tool-result"
        ),
    ],
)
def test_every_part_of_a_turn_counts(part: Part, tokens: int) -> None:
    """F415: what the model reads is in the estimate, and images do not count by their bytes."""
    assert count_prompt(Prompt("m", (Turn(Role.USER, (part,)),)), TokenEstimator()) == TURN_TOKENS + tokens


def test_system_and_tools_count() -> None:
    """F415: so do system texts and tool definitions."""
    prompt = Prompt("m", system=(LONG,), tools=(Tool("ffff", LONG, {"a": 1}),))

    assert count_prompt(prompt, TokenEstimator()) == COUNT(LONG + "ffff" + LONG + '{"a":1}')
