"""What a client's tool schema can cost when a call's arguments are put right: no more than a constant times both."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from kiro_asgi.limits import ARGUMENT_SCHEMAS, ARGUMENT_STEPS
from kiro_asgi.model.events import Delta, ToolCallEnd, ToolCallStart, ToolInputDelta
from kiro_asgi.stages.arguments import ArgumentRepairs, ToolSchema
from tests.growth import assert_linear, steps

Shape = tuple[dict[str, Any], list[dict[str, Any]]]
"""A schema, and the arguments of each call."""


def chain(size: int) -> Shape:
    """Each definition is a choice of one: the next."""
    definitions: dict[str, Any] = {f"l{at}": {"anyOf": [{"$ref": f"#/$defs/l{at + 1}"}]} for at in range(size)}
    definitions[f"l{size}"] = {"type": "array"}
    return {"properties": {"a": {"$ref": "#/$defs/l0"}}, "$defs": definitions}, [{"a": "[1]"}]


def all_of_items(size: int) -> Shape:
    branch = {"properties": {"x": {"type": "integer"}}}
    return {"properties": {"a": {"items": {"allOf": [{**branch} for _ in range(size)]}}}}, [{"a": [{"x": "1"}] * size}]


def any_of_items(size: int) -> Shape:
    items = {"anyOf": [{"type": "string"} for _ in range(size)]}
    return {"properties": {"a": {"items": items}}}, [{"a": [{"x": "1"}] * size}]


def wide_items(size: int) -> Shape:
    items = {"properties": {f"p_{number}": {} for number in range(size)}}
    return {"properties": {"a": {"items": items}}}, [{"a": [{"p1": 1}] * size}]


def shared(size: int) -> Shape:
    """Many properties that all refer to one large definition."""
    big = {"properties": {f"q_{number}": {} for number in range(size)}}
    properties = {f"p{number}": {"allOf": [{"$ref": "#/$defs/big"}]} for number in range(size)}
    return {"properties": properties, "$defs": {"big": big}}, [{name: {"q1": 1} for name in properties}]


def any_of_root(size: int) -> Shape:
    branches = [{"properties": {f"p{number}": {"type": "integer"}}} for number in range(size)]
    return {"anyOf": branches}, [{f"p{number}": "1" for number in range(size)}]


def calls(size: int) -> Shape:
    return {"properties": {f"p{number}": {} for number in range(size)}}, [{}] * size


def repair(shape: Shape) -> Callable[[], list[Delta]]:
    schema, arguments = shape
    deltas = [
        delta
        for each in arguments
        for delta in (ToolCallStart("c", "t"), ToolInputDelta(json.dumps(each)), ToolCallEnd("c"))
    ]
    return lambda: [*ArgumentRepairs(schemas={"t": schema}).feed(deltas)]


def repaired(schema: dict[str, Any], arguments: dict[str, Any]) -> Any:
    return json.loads("".join(it.json for it in repair((schema, [arguments]))() if isinstance(it, ToolInputDelta)))


@pytest.mark.parametrize("shape", [chain, all_of_items, any_of_items, wide_items, any_of_root, calls])
def test_work_grows_with_schema_and_arguments(shape: Callable[[int], Shape]) -> None:
    """Neither branches, nor members, nor calls are multiplied with one another."""
    assert_linear(lambda size: repair(shape(size)), 2 * ARGUMENT_SCHEMAS)


def test_one_definition_in_many_places_has_an_end() -> None:
    """What is looked at in one place after another is looked at so often and no more."""
    assert steps(repair(shared(2_000))) < 20 * ARGUMENT_STEPS
    assert steps(repair(shared(4_000))) < 20 * ARGUMENT_STEPS


@pytest.mark.parametrize("size", [1, 200, 20_000])
def test_a_chain_of_references_is_followed_to_its_end(size: int) -> None:
    """Nothing recurses: 200 choices within one another once ended in a `RecursionError`."""
    schema, arguments = chain(size)

    assert repaired(schema, arguments[0]) == {"a": [1]}


def test_a_circle_of_choices_says_nothing() -> None:
    """A part that depends on itself admits what the rest of it admits."""
    circle: dict[str, Any] = {"$ref": "#/properties/b", "type": ["array", "string"]}
    schema = {"properties": {"a": circle, "b": {"anyOf": [{"$ref": "#/properties/a"}, {"type": "null"}]}}}

    assert ToolSchema(schema).admitted(circle) == {"array", "string"}
    assert repaired(schema, {"a": "[1]"}) == {"a": "[1]"}


def test_too_many_schemas_at_once_say_nothing() -> None:
    """Up to the limit every schema has a say; beyond it the arguments go out as they came."""
    schema, _ = all_of_items(ARGUMENT_SCHEMAS - 1)
    assert repaired(schema, {"a": [{"x": "1"}]}) == {"a": [{"x": 1}]}

    schema, _ = all_of_items(ARGUMENT_SCHEMAS)
    assert repaired(schema, {"a": [{"x": "1"}]}) == {"a": [{"x": "1"}]}
