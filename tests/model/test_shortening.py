"""Leaving out the oldest turns: never more than has to be, and never half of a call."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model.prompt import Prompt, Role, Text, ToolCallPart, ToolResult, Turn, beginnings, longest_that_fits

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
