"""By what names people call models."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model.prompt import Thinking, ThinkingMode
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.kiro.models import FALLBACK, ModelSpelling, normalise, read_name, spelled_wishes, with_wishes


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4.5"),
        ("claude-sonnet-4-5", "claude-sonnet-4.5"),
        ("claude-sonnet-4.5", "claude-sonnet-4.5"),
        ("Claude-Sonnet-4.5 ", "claude-sonnet-4.5"),
        ("kiro/claude-sonnet-4-5", "claude-sonnet-4.5"),
        ("kr/kiro/claude-opus-4-6[1m]", "claude-opus-4.6"),
        ("claude-sonnet-4-20250514", "claude-sonnet-4"),
        ("claude-sonnet-4-0", "claude-sonnet-4"),
        ("claude-sonnet-4.0", "claude-sonnet-4"),
        ("claude-opus-4-1-20250805", "claude-opus-4.1"),
        ("claude-sonnet-4-5-2025-09-29", "claude-sonnet-4.5"),
        ("claude-opus-4-20250514", "claude-opus-4"),
        ("claude-4-opus-20250514", "claude-opus-4"),
        ("claude-3-5-haiku-20241022", "claude-3.5-haiku"),
        ("claude-3-opus-20240229", "claude-3-opus"),
        ("claude-opus-5-5", "claude-opus-5.5"),
        ("claude-fable-5", "claude-fable-5"),
        ("claude-mythos-5-2", "claude-mythos-5.2"),
        ("claude-5-2-nextkind", "claude-nextkind-5.2"),
        ("claude-opus-12-3", "claude-opus-12.3"),
        ("claude-4-high", "claude-4"),
        ("openai/gpt-5.6-sol-2026-07-13", "gpt-5.6-sol"),
        ("anthropic/claude-3.7-sonnet:thinking", "claude-3.7-sonnet"),
        ("anthropic.claude-sonnet-4-20250514-v1:0", "claude-sonnet-4"),
        ("claude-sonnet-4.5 [200k]", "claude-sonnet-4.5"),
        ("claude-sonnet-4-5-high-thinking[1m]", "claude-sonnet-4.5"),
        ("kimi-k2-thinking", "kimi-k2-thinking"),
        ("claude-opus-4-7-thinking", "claude-opus-4.7"),
        ("claude-opus-4-7-high", "claude-opus-4.7"),
        ("claude-haiku-4-5-latest", "claude-haiku-4.5"),
        ("claude-4.5-sonnet", "claude-sonnet-4.5"),
        ("claude-4-sonnet", "claude-sonnet-4"),
        ("claude-4-5-sonnet-20250929", "claude-sonnet-4.5"),
        ("claude-3-7-sonnet-20250219", "claude-3.7-sonnet"),
        ("CLAUDE_3_7_SONNET_20250219_V1_0", "claude-3.7-sonnet"),
        ("CLAUDE_SONNET_4_5_20250929_V1_0", "claude-sonnet-4.5"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4.5"),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4.5"),
        ("gpt-5.6-sol-xhigh", "gpt-5.6-sol"),
        ("auto", "auto"),
        ("qwen-max", "qwen-max"),
        ("MOONSHOT_KIMI_K2_THINKING", "MOONSHOT_KIMI_K2_THINKING"),
        ("some-model-2", "some-model-2"),
        ("", ""),
    ],
)
def test_normalise(name: str, expected: str) -> None:
    """Every usual spelling means one id; a date is no minor version; an unknown name passes."""
    assert normalise(name) == expected


PIECES = st.sampled_from(
    [
        "kiro/",
        "kr/",
        "anthropic.",
        "us.",
        "claude",
        "gpt-5.6",
        "-",
        "-4",
        "-5",
        ".",
        ".5",
        "-sonnet",
        "-opus",
        "-3-7",
        "[1m]",
        "-thinking",
        "-latest",
        "-20250929",
        "-high",
        "-max",
        "_V1_0",
        "-v1:0",
        "CLAUDE_",
        "@20250929",
        "-0",
    ]
)


@given(st.lists(PIECES | st.text(max_size=4), max_size=8).map("".join))
def test_normalise_is_idempotent(name: str) -> None:
    """What was normalised stays as it is."""
    assert normalise(normalise(name)) == normalise(name)


def test_normalise_is_quick_on_long_names() -> None:
    """R24: a name of a megabyte is not looked at."""
    assert normalise("kiro/" * 200_000) == "kiro/" * 200_000


FAMILIES = st.sampled_from(["sonnet", "opus", "haiku"])
MAJOR = st.integers(4, 9)
MINOR = st.none() | st.integers(1, 99)
DATES = st.dates().map(lambda day: f"-{day:%Y%m%d}" if day.year > 999 else "")
TAILS = st.lists(st.sampled_from(["[1m]", "-thinking", "-high", "-latest", "-v1:0"]), max_size=3).map("".join)


@given(st.sampled_from(["", "kiro/", "anthropic/", "us.anthropic."]), FAMILIES, MAJOR, MINOR, DATES, TAILS)
def test_a_date_is_never_a_version(
    before: str, family: str, major: int, minor: int | None, date: str, tail: str
) -> None:
    """Whatever stands around it, dotted or dashed, this way round or that, a version is the one that was meant."""
    id_ = f"claude-{family}-{major}" + ("" if minor is None else f".{minor}")
    dashed = f"{major}" + ("" if minor is None else f"-{minor}")

    assert normalise(f"{before}claude-{family}-{dashed}{date}{tail}") == id_
    assert normalise(f"{before}claude-{dashed}-{family}{date}{tail}") == id_


@pytest.mark.parametrize(
    ("name", "effort", "thinking"),
    [
        ("claude-opus-4.8-high", "high", False),
        ("kiro/claude-opus-4-8-max[1m]", "max", False),
        ("claude-sonnet-4-5-20250929-thinking", None, True),
        ("claude-opus-4-8-thinking-low", "low", True),
        ("claude-opus-4-8-xhigh-thinking", "xhigh", True),
        ("claude-opus-4-8-low-high", "high", False),
        ("gpt-5.6-sol-none", "none", False),
        ("claude-opus-4.8", None, False),
        ("kimi-k2-thinking", None, False),
        ("qwen-max", None, False),
        ("CLAUDE_SONNET_4_5_20250929_V1_0", None, False),
    ],
)
def test_what_a_name_asks_for(name: str, effort: str | None, thinking: bool) -> None:
    """An effort level, the last one said, and thinking, in the names of families that do not end so themselves."""
    assert spelled_wishes(name) == (effort, thinking)


def test_names_of_the_table_are_what_the_rules_make_of_them() -> None:
    """They are not rewritten, which would change nothing: in capitals they are."""
    assert [read_name(card.id.upper()) for card in FALLBACK] == [read_name(card.id) for card in FALLBACK]


def test_a_models_own_name_asks_for_nothing() -> None:
    """A model that is listed under such a name means nothing by it."""
    assert spelled_wishes("gpt-5.1-codex-Max", "gpt-5.1-codex-max") == (None, False)
    assert with_wishes(Thinking(), "gpt-5.1-codex-max", "gpt-5.1-codex-max") == Thinking()


SILENT = Thinking()
ON, OFF = ThinkingMode.ENABLED, ThinkingMode.DISABLED


@pytest.mark.parametrize(
    ("said", "name", "expected"),
    [
        pytest.param(SILENT, "claude-opus-4.8", SILENT, id="nothing"),
        pytest.param(SILENT, "claude-opus-4.8-high", Thinking(ON, effort="high"), id="as-reasoning-effort"),
        pytest.param(SILENT, "claude-opus-4.8-thinking", Thinking(ON), id="thinking"),
        pytest.param(SILENT, "gpt-5.6-sol-none", Thinking(OFF), id="none"),
        pytest.param(Thinking(OFF), "claude-opus-4.8-high-thinking", Thinking(OFF), id="declined"),
        pytest.param(Thinking(effort="low"), "claude-opus-4.8-high", Thinking(effort="low"), id="other-effort"),
        pytest.param(
            Thinking(effort="low"), "claude-opus-4.8-thinking", Thinking(ON, effort="low"), id="effort-and-thinking"
        ),
        pytest.param(Thinking(ON, 5_000), "claude-opus-4.8-max", Thinking(ON, 5_000), id="budget"),
        pytest.param(
            Thinking(ThinkingMode.ADAPTIVE),
            "claude-opus-4.8-max",
            Thinking(ThinkingMode.ADAPTIVE, effort="max"),
            id="mode-stays",
        ),
        pytest.param(Thinking(ON, effort="low"), "gpt-5.6-sol-none", Thinking(ON, effort="low"), id="none-comes-late"),
    ],
)
def test_the_request_counts_more_than_the_name(said: Thinking, name: str, expected: Thinking) -> None:
    """A name speaks only where the client said nothing."""
    assert with_wishes(said, name) == expected


@given(st.sampled_from(FALLBACK), st.sampled_from(["low", "medium", "high", "xhigh", "max", "none"]), st.booleans())
def test_wishes_and_name_come_apart(card: ModelCard, effort: str, thinking: bool) -> None:
    """For every known model that takes wishes, whatever is wished."""
    if card.id.startswith(("claude-", "gpt-")):
        assert read_name(f"{card.id}{'-thinking' * thinking}-{effort}") == ModelSpelling(card.id, effort, thinking)
