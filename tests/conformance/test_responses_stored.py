"""What a client of the Responses API leaves with us, and what it cannot: through the official Python client, strictly.

Numbers are those of the project's list of conformance assertions.
"""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from tests.conformance.asking import MODEL
from tests.conformance.clients import Clients
from tests.conformance.gateways import Gateway
from tests.conformance.test_one_loop import OTHERS
from tests.conformance.test_responses import events

SEARCH: Any = {"type": "web_search"}
FILES: Any = {"type": "file_search", "vector_store_ids": ["vs_1"]}


def create(client: openai.OpenAI, content: Any, **params: Any) -> Any:
    return client.responses.create(model=MODEL, input=content, **params)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_41_previous_response(chat: openai.OpenAI, stream: bool) -> None:
    """A stored answer can be gone on from, fetched, listed and deleted."""
    if stream:
        with chat.responses.stream(model=MODEL, input="What is 2 + 3?") as running:
            first = running.get_final_response()
    else:
        first = create(chat, "What is 2 + 3?")
    second = create(chat, "sim:echo and now?", previous_response_id=first.id)

    assert second.previous_response_id == first.id
    assert chat.responses.retrieve(first.id).output_text == first.output_text == "You said: What is 2 + 3?"
    assert [item.type for item in chat.responses.input_items.list(first.id)] == ["message"]
    chat.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        chat.responses.retrieve(first.id)


def test_41_conversation(chat: openai.OpenAI) -> None:
    """A conversation is made, spoken in, looked at, changed and deleted by the client's own classes, strictly read."""
    said: Any = [{"type": "message", "role": "user", "content": "My name is Ada."}]
    talk = chat.conversations.create(items=said, metadata={"a": "b"})
    first = create(chat, "sim:echo Who am I?", conversation=talk.id)
    with chat.responses.stream(model=MODEL, input="And now?", conversation={"id": talk.id}) as running:
        running.until_done()
    added = chat.conversations.items.create(talk.id, items=said)
    items = list(chat.conversations.items.list(talk.id, order="asc", limit=2))
    roles = ["user", "user", "assistant", "user", "assistant", "user"]

    assert first.conversation is not None and first.conversation.id == talk.id
    assert [item.role for item in items if item.type == "message"] == roles
    assert (added.data[0].id, len({item.id for item in items})) == (items[-1].id, 6)
    assert chat.conversations.items.retrieve(str(items[2].id), conversation_id=talk.id) == items[2]
    assert chat.conversations.items.delete(str(items[5].id), conversation_id=talk.id).id == talk.id
    assert chat.conversations.update(talk.id, metadata={"c": "d"}).metadata == {"c": "d"}
    assert chat.conversations.retrieve(talk.id).created_at == talk.created_at
    assert chat.conversations.delete(talk.id).deleted
    for gone in (lambda: chat.conversations.retrieve(talk.id), lambda: chat.responses.retrieve(first.id)):
        with pytest.raises(openai.NotFoundError):
            gone()


@pytest.mark.parametrize("model", [MODEL, *OTHERS])
def test_41_compaction(clients: Clients, scripted: Gateway, model: str) -> None:
    """At every service: a conversation with tools is compacted by the client's own method, be it stored or not, and
    the answer to a request that ends with a trigger is one compaction, strictly read."""
    client = clients.openai(scripted)
    called: Any = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    given: Any = {"type": "function_call_output", "call_id": "c1", "output": "a garden"}
    asked: Any = {"role": "user", "content": "What is there?"}
    tools: Any = [{"type": "function", "name": "look", "parameters": {"type": "object"}}]
    raw = client.responses.with_raw_response.compact(model=model, input=[asked, called, given])
    output = json.loads(raw.http_response.content)["output"]
    first = client.responses.create(model=model, input=[*output, asked], tools=tools)
    trigger: Any = {"type": "compaction_trigger"}
    with client.responses.stream(model=model, input=[trigger], previous_response_id=first.id) as running:
        kinds = [event.item.type for event in running if event.type == "response.output_item.done"]
        last = running.get_final_response()
    goes_on = client.responses.create(model=model, input="And now?", previous_response_id=last.id)

    assert [item["type"] for item in output] == ["message", "compaction"]
    assert kinds == ["compaction"] and last.usage is not None and last.usage.output_tokens > 0
    assert goes_on.output_text


def test_41_background(chat: openai.OpenAI) -> None:
    """Made without its client: polled, streamed from behind an event, cancelled, by the client's own methods, strictly
    read."""
    queued = create(chat, "sim:slow=0.1 What is 2 + 3?", background=True)
    told = list(chat.responses.retrieve(queued.id, stream=True))
    rest = list(chat.responses.retrieve(queued.id, stream=True, starting_after=2))
    done = chat.responses.retrieve(queued.id)
    slow = chat.responses.create(model=MODEL, input="sim:slow=5 A story.", background=True, stream=True)
    first = next(iter(slow))
    slow.close()
    assert first.type == "response.created"
    cancelled = chat.responses.cancel(first.response.id)

    assert (queued.status, done.status, "What is 2 + 3?" in done.output_text) == ("queued", "completed", True)
    assert [event.sequence_number for event in told] == [*range(len(told))]
    assert [event.to_dict() for event in rest] == [event.to_dict() for event in told[3:]]
    assert told[-1].type == "response.completed" and told[-1].response == done
    assert cancelled.status == "cancelled"


def test_41_unknown_previous_response(chat: openai.OpenAI) -> None:
    """Never a silent fresh start."""
    with pytest.raises(openai.BadRequestError) as refused:
        create(chat, "hi", previous_response_id="resp_unknown")

    assert (refused.value.code, refused.value.param) == ("previous_response_not_found", "previous_response_id")


@pytest.mark.parametrize(
    ("params", "place"),
    [
        pytest.param({"background": True, "store": False}, "background", id="background"),
        pytest.param({"input": [{"type": "item_reference", "id": "msg_unknown"}]}, "input[0]", id="item-reference"),
        pytest.param(
            {"tools": [FILES], "tool_choice": {"type": "file_search"}},
            "tools[0]",
            id="43-hosted-tool-that-is-forced",
        ),
    ],
)
def test_42_what_is_refused(chat: openai.OpenAI, params: dict[str, Any], place: str) -> None:
    """What would give another answer than the one asked for is an error that names the place."""
    with pytest.raises(openai.BadRequestError) as refused:
        chat.responses.create(**{"model": MODEL, "input": "hi", **params})

    assert (refused.value.param or "").startswith(place)


@pytest.mark.parametrize("tools", [[FILES], [FILES, SEARCH]], ids=["missing-here", "and-search"])
def test_43_hosted_tools_on_offer(chat: openai.OpenAI, tools: list[Any]) -> None:
    """A hosted tool that is merely on offer does not keep the model from answering."""
    assert create(chat, "What is 2 + 3?", tools=tools, store=False).output_text == "You said: What is 2 + 3?"


def test_46_input_tokens(chat: openai.OpenAI) -> None:
    """A longer input has more tokens; nothing is asked of the model."""
    short, long = (chat.responses.input_tokens.count(model=MODEL, input="word " * n) for n in (1, 500))

    assert short.object == "response.input_tokens"
    assert 0 < short.input_tokens < long.input_tokens


def test_69_what_codex_needs(chat: openai.OpenAI) -> None:
    """Every item is told as done, and the end has an id and whole counts."""
    received = events(chat, "sim:parallel", tools=[{"type": "function", "name": "look", "parameters": {}}])
    done = [event.item for event in received if event.type == "response.output_item.done"]
    (end,) = [event.response for event in received if event.type == "response.completed"]

    assert [item.to_dict() for item in done] == [item.to_dict() for item in end.output]
    assert end.id.startswith("resp_") and end.usage is not None
    assert type(end.usage.total_tokens) is int
