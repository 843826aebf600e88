"""Responses as they are kept: nothing is lost, items are found by their ids and listed in full, lists come in pages."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import ResponseItem
from pydantic import TypeAdapter

from kiro_asgi.apis.responses.conversations import Page
from kiro_asgi.dialects.openai_responses.kept import (
    Conversation,
    Kept,
    deleted,
    identified,
    page,
    references,
    response_of,
    responses_of,
)
from kiro_asgi.dialects.openai_responses.parsing import parse_value
from kiro_asgi.dialects.openai_responses.records import DamagedRecord, Entry
from kiro_asgi.dialects.openai_responses.response import item_id
from kiro_asgi.limits import JSON_VALUES
from kiro_asgi.wire.json import loads
from tests.dialects.openai_responses.bodies import any_item
from tests.dialects.openai_responses.records import record

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ITEMS = st.lists(st.fixed_dictionaries({"role": st.sampled_from(["user", "developer"]), "content": TEXT}), max_size=4)
REASONING = {"id": "rs_0123_0", "type": "reasoning", "summary": []}
MESSAGE = {"id": "msg_0123_1", "type": "message", "role": "assistant", "status": "completed", "content": []}


def stored(items=(), seals=None, **more) -> bytes:
    told = {"id": "resp_0123", "previous_response_id": None, "output": [REASONING, MESSAGE], **more}
    return record(told, items, seals)


@given(items=ITEMS, seal=TEXT, previous=st.none() | TEXT)
def test_what_is_kept_comes_back(items, seal, previous):
    """A store of bytes gives back what it was given: what was said, what was answered, the seals."""
    kept = Kept.decode(stored(items, {"rs_0123_0": seal}, previous_response_id=previous))

    assert kept.previous == previous
    assert kept.items == [*kept.input, {**REASONING, "encrypted_content": seal}, MESSAGE]
    assert [item["content"][0]["text"] for item in kept.input] == [item["content"] for item in items]


def test_the_object_stays_as_its_client_saw_it():
    """Seals that the client was not shown are not in the response object, and its own are not replaced by none."""
    kept = Kept.decode(stored(seals={"rs_0123_0": "seal"}))
    shown = Kept.decode(stored(output=[{**REASONING, "encrypted_content": "seal"}]))

    assert json.loads(b"".join(kept.response))["output"] == [REASONING, MESSAGE]
    assert shown.items == [{**REASONING, "encrypted_content": "seal"}]


@given(token=st.text("0123456789abcdef_-", min_size=1), index=st.integers(0, 99), items=ITEMS)
def test_the_id_of_an_item_tells_its_response(token, index, items):
    """F038: of items of the output and of the input alike, whatever the ids of responses are made of."""
    told = f"resp_{token}"

    assert response_of(item_id(told, "message", index)) == told
    assert {response_of(item["id"]) for item in Kept.decode(stored(items, id=told)).input} <= {told}


@given(TEXT)
def test_any_text_may_be_asked_for(item_id):
    """What is not an id of ours names a response that nobody has."""
    assert response_of(item_id).startswith("resp_")


@given(items=st.lists(any_item, max_size=4), added=st.lists(any_item, max_size=4), wanted=st.sets(st.integers(0, 3)))
def test_items_are_found_without_the_others(items, added, wanted):
    """Whatever a client says: each item is found by its id, and is what it is among all; so it is in a conversation."""
    kept = Kept.decode(stored(items))
    ids = {kept.inputs[place].id for place in wanted if place < len(items)}
    whole = {str(item["id"]): item for item in kept.input}
    conversation = Conversation("conv_1", 0, {}).with_items(items, "a").with_items(added, "b")
    again = Conversation.decode(conversation.encode())

    assert {name: entry.decoded() for name, entry in kept.find(ids).items()} == {name: whole[name] for name in ids}
    assert (again.items, again.values, again.size) == (conversation.items, conversation.values, conversation.size)
    assert len({entry.id for entry in again.entries}) == len(items) + len(added)
    for entry in again.entries:
        assert again.without(entry.id).find(entry.id) is None


def test_what_may_be_sent_can_be_read():
    """As many values as a request may have, whatever they become when they are listed; more are never forgotten."""
    short = [{"role": "user", "content": "x"}] * 20_000
    long = [{"role": "user", "content": [{"type": "input_text", "text": "x"}] * (JSON_VALUES // 3 - 10)}]
    many = [{**MESSAGE, "id": f"msg_0123_{place}"} for place in range(30_000)]

    for items in (short, long):
        kept = Kept.decode(stored(items))
        assert kept.values <= JSON_VALUES
        assert len(kept.items) == len(items) + 2
    assert Kept.decode(stored(output=many)).values > JSON_VALUES
    assert len(loads(b"".join(Kept.decode(stored(output=many)).response), max_values=10**7)["output"]) == 30_000


def test_no_damage_is_anything_else():
    """Bytes that are cut anywhere, or not ours, are damaged, and never an error of another kind."""
    whole, conversation = (
        stored([MESSAGE]),
        Conversation("conv_1", 0, {}, responses=["resp_1"]).with_items([MESSAGE], "a"),
    )
    for data in (whole, conversation.encode()):
        for end in range(len(data)):
            for read in (Kept.decode, Conversation.decode):
                with pytest.raises(DamagedRecord):
                    read(data[:end])
    assert responses_of(conversation.encode()) == ["resp_1"]
    assert responses_of(whole) == responses_of(b"") == ()


def test_what_refers_to_an_item():
    """An object that is nothing but an id, with or without its type; an item with an id is not one."""
    items = [
        {"type": "item_reference", "id": "a"},
        {"id": "b"},
        {"id": "c", "type": None},
        {"id": 7},
        {"type": "item_reference"},
        {"id": "d", "type": "message"},
        {"id": "e", "role": "user"},
        "f",
        None,
    ]

    assert list(references(items)) == [(0, "a"), (1, "b"), (2, "c")]


@given(count=st.integers(0, 8), limit=st.integers(1, 5))
def test_pages_join_to_the_list(count, limit):
    """Every item is on one page, in order, and only the last page says that there is no more."""
    items = [{"id": f"msg_{number}"} for number in range(count)]
    found, after, more = [], None, True
    while more:
        ids = [item["id"] for item in items]
        told = json.loads(b"".join(page(ids, after, limit, lambda at: json.dumps(items[at]).encode())))
        data, more = told["data"], told["has_more"]
        assert len(data) == limit or not more
        assert [told["first_id"], told["last_id"]] == ([data[0]["id"], data[-1]["id"]] if data else [None, None])
        after = told["last_id"]
        found += data

    assert found == items


@given(
    count=st.integers(0, 60), limit=st.integers(1, 100), order=st.sampled_from(["asc", "desc"]), start=st.integers(0)
)
def test_pages_are_those_of_the_query(count, limit, order, start):
    """A page has the items behind ``after``, in its order, as many as ``limit`` allows; none is told twice."""
    items = [{"id": f"msg_{number}"} for number in range(count)]
    whole = items if order == "asc" else items[::-1]
    after = f"&after={whole[start % count]['id']}" if count else ""
    entries = [Entry.of(item["id"], json.dumps(item).encode()) for item in items]
    asked = Page.read({"query_string": f"limit={limit}&order={order}{after}".encode()})
    told = json.loads(b"".join(asked.of(entries, lambda entry: entry.data)))
    rest = whole[start % count + 1 :] if count else []

    assert told["data"] == rest[:limit]
    assert told["has_more"] is (len(rest) > limit)


def test_no_page_begins_behind_an_unknown_item():
    """A place that is not in the list is not taken for its end, or its beginning."""
    assert page(["a"], "b", 5, lambda at: b"{}") is None


def test_how_a_deletion_is_told():
    """As the API does."""
    assert json.loads(deleted("resp_1")) == {"id": "resp_1", "object": "response", "deleted": True}


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
