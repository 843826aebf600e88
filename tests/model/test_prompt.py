from __future__ import annotations

import pytest

from kiro_asgi.model.prompt import Thinking, ThinkingMode


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
