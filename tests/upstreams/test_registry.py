"""Which upstream a name for a model means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import ConfigError
from kiro_asgi.upstreams.registry import Registry, Target, read_rows

ROWS = read_rows(
    [
        "claude-*=kiro > anthropic/claude-sonnet-4-5",
        "claude-opus-*=anthropic",
        "claude-opus-4-1=kiro/claude-opus-4",
        "best=gemini/models/x",
    ]
)
REGISTRY = Registry(("kiro", "anthropic", "gemini", "local"), ROWS, known=frozenset({"kiro", "openai"}))

MEANINGS = [
    ("gemini/gemini-2.5-flash", [Target("gemini", "gemini-2.5-flash")]),
    ("local/meta/llama-3", [Target("local", "meta/llama-3")]),
    ("claude-haiku-4", [Target("kiro", "claude-haiku-4"), Target("anthropic", "claude-sonnet-4-5")]),
    ("claude-opus-5", [Target("anthropic", "claude-opus-5")]),
    ("claude-opus-4-1", [Target("kiro", "claude-opus-4")]),
    ("kiro/claude-opus-4-1", [Target("kiro", "claude-opus-4-1")]),
    ("best", [Target("gemini", "models/x")]),
    ("openai/gpt-5", []),
    ("kiro/", []),
    ("/x", []),
    ("gpt-5", []),
    ("CLAUDE-x", []),
]


@pytest.mark.parametrize(("name", "targets"), MEANINGS)
def test_what_a_name_means(name: str, targets: list[Target]) -> None:
    """A prefix is binding, the most particular row decides, and everything else is left to the lists (F419)."""
    assert list(REGISTRY.targets(name)) == targets


@given(st.text(max_size=30))
def test_any_name_has_a_meaning_or_none(name: str) -> None:
    """No name, whatever is in it, leads to an upstream that is not set up."""
    assert all(target.upstream in REGISTRY.upstreams for target in REGISTRY.targets(name))


@pytest.mark.parametrize("entry", ["claude", "=kiro", "claude=", "claude=/x", "claude=kiro>", ""])
def test_a_row_of_another_form(entry: str) -> None:
    """A row that says nothing is a mistake at start-up, and is shown."""
    with pytest.raises(ConfigError, match="name=upstream/model"):
        read_rows([entry])


@pytest.mark.parametrize(
    "parts", [{"rows": read_rows(["x=openai/gpt-5"])}, {"default": "openai"}, {"rows": read_rows(["x=kiro>openai"])}]
)
def test_an_upstream_that_is_not_set_up(parts: dict[str, str]) -> None:
    """A table that leads nowhere is found out at start-up, not when somebody asks."""
    with pytest.raises(ConfigError, match="openai"):
        Registry(("kiro",), **parts)


def test_what_is_said_about_a_prefix_of_an_upstream_that_is_not_set_up() -> None:
    """Who writes ``openai/…`` where there is no such upstream is told so."""
    assert "openai is not set up" in REGISTRY.hint("openai/gpt-5")
    assert REGISTRY.hint("mistral/x") == REGISTRY.hint("gpt-5") == REGISTRY.hint("kiro/nothing") == ""
