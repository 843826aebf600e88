"""Calls of tools that only this API has, from the model's arguments to the item and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai._models import construct_type
from openai.types.responses import ResponseOutputItem
from pydantic import TypeAdapter

from kiro_asgi.dialects.openai_responses.calls import CLIENT_TOOLS, custom_input, item_fields
from kiro_asgi.dialects.openai_responses.request import parse_value
from kiro_asgi.model.prompt import ToolCallPart
from kiro_asgi.wire.json import dumps

ITEM: TypeAdapter[Any] = TypeAdapter(ResponseOutputItem)

PAIRS = [
    (
        "local_shell",
        {"command": ["ls"], "env": {"A": "b"}, "working_directory": "/", "timeout_ms": 5},
        {
            "action": {
                "type": "exec",
                "command": ["ls"],
                "env": {"A": "b"},
                "working_directory": "/",
                "timeout_ms": 5,
            }
        },
    ),
    (
        "shell",
        {"commands": ["ls", "pwd"], "timeout_ms": 5},
        {
            "action": {"commands": ["ls", "pwd"], "timeout_ms": 5, "max_output_length": None},
            "environment": {"type": "local"},
        },
    ),
    (
        "apply_patch",
        {"type": "update_file", "path": "p", "diff": "@@"},
        {"operation": {"type": "update_file", "path": "p", "diff": "@@"}},
    ),
    ("apply_patch", {"type": "delete_file", "path": "p"}, {"operation": {"type": "delete_file", "path": "p"}}),
    ("tool_search", {"query": "q"}, {"arguments": {"query": "q"}, "execution": "client"}),
]


@pytest.mark.parametrize(("name", "arguments", "fields"), PAIRS)
def test_there_and_back(name: str, arguments: Any, fields: Any) -> None:
    """A call becomes an item, and the item, when it comes back, the same call."""
    kind = CLIENT_TOOLS[name].item
    assert item_fields(kind, dumps(arguments).decode()) == fields
    item = {"type": kind, "call_id": "c1", "status": "completed", **fields}
    (turn,) = parse_value({"model": "m", "input": [item]}).prompt.turns
    assert turn.parts == (ToolCallPart("c1", name, arguments),)


NAMES = st.sampled_from(
    ["command", "commands", "env", "type", "path", "diff", "timeout_ms", "user", "max_output_length", "x"]
)

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=8,
)


@given(st.sampled_from(sorted(CLIENT_TOOLS)), ANY.map(dumps) | st.binary(max_size=4))
def test_items_are_well_formed(name: str, arguments: bytes) -> None:
    """Whatever the model wrote, strict clients can read the item."""
    fields = item_fields(CLIENT_TOOLS[name].item, arguments.decode("utf-8", "replace"))
    item = {"type": CLIENT_TOOLS[name].item, "id": "i", "call_id": "c", "status": "completed", **fields}
    assert ITEM.validate_python(item).type == CLIENT_TOOLS[name].item
    assert construct_type(value=item, type_=ResponseOutputItem) is not None


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("local_shell", {"command": "ls -l"}, {"command": ["bash", "-lc", "ls -l"]}),
        ("shell", {"commands": "ls -l"}, {"commands": ["ls -l"]}),
    ],
)
def test_a_command_as_text(name: str, arguments: Any, expected: Any) -> None:
    """A model that writes a text where a list is wanted is understood."""
    action = item_fields(CLIENT_TOOLS[name].item, dumps(arguments).decode())["action"]
    assert expected.items() <= action.items()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"input": "*** Begin Patch\\n"}', "*** Begin Patch\n"),
        ('{"input": ""}', ""),
        ('{"input": 5}', '{"input": 5}'),
        ('{"patch": "x"}', '{"patch": "x"}'),
        ("[1]", "[1]"),
        ("5", "5"),
        ("*** Begin", "*** Begin"),
    ],
)
def test_custom_input(arguments: str, text: str) -> None:
    """The one string, exactly; what has another form is given as it is."""
    assert custom_input(arguments) == text
