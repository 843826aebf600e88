from __future__ import annotations

import pytest

from kiro_asgi.model.events import Delta, TextDelta, ThinkingDelta, ToolCallFragment
from kiro_asgi.stages.filters import RepeatFilter
from tests.helpers import run, run_apart

A, B = TextDelta("a"), TextDelta("b")
THOUGHT, FRAGMENT = ThinkingDelta("a"), ToolCallFragment("c", "f", "1")


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        pytest.param([A, A], [A], id="F137-twice"),
        pytest.param([A, A, A, B], [A, B], id="F137-three-times"),
        pytest.param([A, B, A], [A, B, A], id="F137-not-adjacent"),
        pytest.param([THOUGHT, THOUGHT], [THOUGHT, THOUGHT], id="F138-thinking"),
        pytest.param([FRAGMENT, FRAGMENT], [FRAGMENT, FRAGMENT], id="F138-fragments"),
        pytest.param([A, FRAGMENT, A], [A, FRAGMENT, A], id="something-between"),
        pytest.param([A, THOUGHT], [A, THOUGHT], id="same-text-other-kind"),
    ],
)
def test_drops_text_that_repeats_its_neighbour(deltas: list[Delta], expected: list[Delta]) -> None:
    """Only text is compared, and only with its direct neighbour, also over calls of `feed`."""
    assert run(RepeatFilter(), deltas) == expected
    assert run_apart(RepeatFilter(), deltas) == expected
