"""Schemas cut down, and how hard to think."""

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import ConfigError
from kiro_asgi.model.prompt import Thinking, ThinkingMode
from kiro_asgi.upstreams.kiro.contract import ContractOptions
from kiro_asgi.upstreams.kiro.contract.request import (
    clean_json_schema_properties,
    effort_of,
    reasoning_effort_from_budget,
)

KEPT = {"type", "description", "properties", "required", "enum", "items"}

SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "description": "d",
    "required": ["format"],
    "additionalProperties": False,
    "properties": {
        "format": {"type": "string", "enum": ["a"], "format": "uri", "default": "a"},
        "list": {"type": "array", "minItems": 1, "items": {"type": "string", "maxLength": 3}},
        "deep": {"type": "object", "title": "t", "properties": {"anyOf": {"type": "null", "title": "t"}}},
    },
}


def test_six_keywords_are_kept():
    """At every level, in properties and in items; a property's name is none of them (F402, F403, F404, F406)."""
    before = deepcopy(SCHEMA)

    assert clean_json_schema_properties(SCHEMA) == {
        "type": "object",
        "description": "d",
        "required": ["format"],
        "properties": {
            "format": {"type": "string", "enum": ["a"]},
            "list": {"type": "array", "items": {"type": "string"}},
            "deep": {"type": "object", "properties": {"anyOf": {"type": "null"}}},
        },
    }
    assert before == SCHEMA


@pytest.mark.parametrize("schema", [True, None, "x", 1, [{"title": "t"}]])
def test_what_is_no_object_stays(schema):
    """Anything but an object is returned as it is (F405)."""
    assert clean_json_schema_properties(schema) is schema


VALUES = st.recursive(
    st.none() | st.booleans() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*sorted(KEPT), "title", "anyOf", "x"]), inner, max_size=5)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_cleaning_twice_is_cleaning_once(schema):
    """Whatever is given, nothing is left to remove, and the given one is as it was (F402, F406)."""
    before = deepcopy(schema)
    cleaned = clean_json_schema_properties(schema)

    assert clean_json_schema_properties(cleaned) == cleaned
    assert schema == before
    assert not isinstance(cleaned, dict) or cleaned.keys() <= KEPT


@pytest.mark.parametrize(
    ("budget", "effort"), [(None, "high"), (0, "low"), (50, "low"), (51, "medium"), (200, "medium"), (201, "high")]
)
def test_a_budget_is_an_effort(budget, effort):
    """Up to 50 tokens are low, up to 200 medium, more or nothing said high (F188, F189, F190)."""
    assert reasoning_effort_from_budget(budget) == effort


def test_the_thresholds_can_be_set():
    """Other budgets may mean low and medium (F191)."""
    assert [reasoning_effort_from_budget(budget, 1000, 2000) for budget in (1000, 1001, 2001)] == [
        "low",
        "medium",
        "high",
    ]


@pytest.mark.parametrize("budgets", [(), (1,), (2, 1), (1, 2, 3)])
def test_thresholds_are_two_and_in_order(budgets):
    """Anything else cannot work, and the setting is named."""
    with pytest.raises(ConfigError, match=r"kiro\.effort_budgets"):
        ContractOptions(effort_budgets=budgets)


@pytest.mark.parametrize(
    ("thinking", "effort"),
    [
        pytest.param(Thinking(), "", id="nothing-said"),
        pytest.param(Thinking(ThinkingMode.DISABLED, effort="max"), "none", id="declined"),
        pytest.param(Thinking(ThinkingMode.ENABLED, 100), "medium", id="budget"),
        pytest.param(Thinking(ThinkingMode.ADAPTIVE), "high", id="adaptive"),
        pytest.param(Thinking(ThinkingMode.ADAPTIVE, effort="low"), "low", id="in-so-many-words"),
        pytest.param(Thinking(effort="max"), "max", id="effort-alone"),
    ],
)
def test_what_the_client_asks_for(thinking, effort):
    """Words count before budgets, and declined thinking is none (F191, decisions on adaptive and disabled)."""
    assert effort_of(thinking, (50, 200)) == effort
