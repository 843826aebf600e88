"""Input items as they are listed afterwards."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import ResponseItem
from pydantic import TypeAdapter

from kiro_asgi.dialects.openai_responses.kept import identified
from kiro_asgi.dialects.openai_responses.request import parse_value
from tests.dialects.openai_responses.bodies import any_item

ITEM: TypeAdapter[Any] = TypeAdapter(ResponseItem)


def listed(given_input: Any) -> list[dict[str, Any]]:
    return list(identified(parse_value({"model": "m", "input": given_input}).options.input_items, "t"))


def test_messages() -> None:
    """Texts and easy messages get their full form, which strict clients can read."""
    items = listed([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])
    assert items == [
        {
            "id": "msg_t0",
            "type": "message",
            "role": "user",
            "status": "completed",
            "content": [{"type": "input_text", "text": "a"}],
        },
        {
            "id": "msg_t1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "b", "annotations": []}],
        },
    ]
    assert [ITEM.validate_python(item).type for item in items] == ["message", "message"]
    assert listed("a") == items[:1]


def test_ids() -> None:
    """An id that was sent is kept; others tell the kind, the token and the position."""
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    items = [{**call, "id": "fc_1"}, {**call, "id": None}, {"type": "shell_call", "call_id": "d", "action": {}}]
    assert [item["id"] for item in listed(items)] == ["fc_1", "fc_t1", "item_t2"]


@given(st.lists(any_item.filter(lambda item: item.get("type") != "item_reference"), max_size=4))
def test_every_item_has_an_id_of_its_own(items: list[dict[str, Any]]) -> None:
    """Whatever the items are, each is listed, with an id; those that are made differ."""
    bare = [{name: value for name, value in item.items() if name != "id"} for item in items]
    ids = [item["id"] for item in identified(bare, "t")]
    assert len(set(ids)) == len(items) == len(list(identified(items, "t")))
