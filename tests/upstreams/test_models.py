"""Names of models: an operator's own, and those that resemble one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import ConfigError
from kiro_asgi.upstreams.models import read_aliases

SETTING = "kiro.model_aliases"


def test_an_alias_of_an_alias_means_the_model() -> None:
    """Chains end at a model, in whatever order they are written; the order of the setting stays."""
    pairs = ("a=b", "c = claude-haiku-4.5", "b=c", "a=b")

    assert [*read_aliases(pairs, SETTING).items()] == [(name, "claude-haiku-4.5") for name in ("a", "c", "b")]
    assert read_aliases((), SETTING) == {}


def test_an_alias_may_bear_the_name_of_a_model() -> None:
    """What is no alias is a model."""
    assert read_aliases(["auto=claude-opus-4.8-high"], SETTING) == {"auto": "claude-opus-4.8-high"}


@pytest.mark.parametrize(
    ("pairs", "why"),
    [
        (["a"], "name=model"),
        (["=b"], "name=model"),
        (["a= "], "name=model"),
        (["a=b", "a=c"], "a means two models"),
        (["a=a"], "a = a means no model"),
        (["x=a", "a=b", "b=a"], "x = a = b = a means no model"),
    ],
)
def test_what_means_nothing_is_refused(pairs: list[str], why: str) -> None:
    """At the start, with the reason."""
    with pytest.raises(ConfigError, match=why) as caught:
        read_aliases(pairs, SETTING)

    assert caught.value.code == SETTING


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from("abcdefghmn"), max_size=8))
def test_no_alias_means_an_alias(table: dict[str, str]) -> None:
    """Either every name leads out of the table, or the table is refused."""
    try:
        aliases = read_aliases((f"{name}={model}" for name, model in table.items()), SETTING)
    except ConfigError:
        return
    assert aliases.keys() == table.keys()
    assert not set(aliases.values()) & table.keys()
