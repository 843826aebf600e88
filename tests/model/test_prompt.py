"""A prompt, and leaving out its oldest turns: never more than has to be, and never half of a call."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model.history import beginnings, longest_that_fits
from kiro_asgi.model.prompt import Prompt, Role, Text, Thinking, ThinkingMode, ToolCallPart, ToolResult, Turn


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [
        pytest.param(ThinkingMode.DEFAULT, False, id="not-said"),
        pytest.param(ThinkingMode.DISABLED, False, id="disabled"),
        pytest.param(ThinkingMode.ENABLED, True, id="enabled"),
        pytest.param(ThinkingMode.ADAPTIVE, True, id="adaptive"),
    ],
)
def test_thinking_is_wanted_when_the_client_says_so(mode: ThinkingMode, wanted: bool) -> None:
    """F174: silence is no wish, and neither is an effort alone."""
    assert Thinking(mode, effort="high").wanted is wanted


SAID = Turn(Role.USER, (Text("q"),))
ANSWERED = Turn(Role.ASSISTANT, (Text("a"),))
CALL = Turn(Role.ASSISTANT, (ToolCallPart("c", "f", {}),))
RESULT = Turn(Role.USER, (ToolResult("c", (Text("r"),)),))

EXCHANGES = [(SAID, ANSWERED), (SAID, CALL, RESULT, ANSWERED), (SAID, CALL, RESULT)]


@given(st.lists(st.sampled_from(EXCHANGES), min_size=1, max_size=30), st.integers(1, 100))
def test_as_much_stays_as_fits(exchanges: list[tuple[Turn, ...]], room: int) -> None:
    """It begins with what the user says, and one more exchange would be too much; the work is a logarithm of it."""
    prompt = Prompt("m", tuple(turn for each in exchanges for turn in each), system=("s",))
    tries: list[int] = []

    def fits(shorter: Prompt) -> bool:
        tries.append(len(shorter.turns))
        return len(shorter.turns) <= room

    kept = longest_that_fits(prompt, fits)
    left_out = len(prompt.turns) - len(kept.turns)
    possible = [0, *beginnings(prompt)]

    assert (kept.system, kept.turns) == (("s",), prompt.turns[left_out:])
    assert left_out == next((at for at in possible if len(prompt.turns) - at <= room), possible[-1])
    assert len(tries) <= 2 + len(possible).bit_length()
