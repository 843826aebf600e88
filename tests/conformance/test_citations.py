"""Sources of an answer through the official clients: what a service cites, each client has at its place in the text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kiro_asgi.simulator import Head, RawBytes
from kiro_asgi.simulator.anthropic.encoder import sealed
from tests.conformance.asked import EACH_API, EACH_WAY
from tests.conformance.asking import user
from tests.conformance.clients import Clients
from tests.conformance.gateways import Gateway

FACT, SHORE = "https://example.org/fact", "https://example.org/shore"
SEARCHED = {
    "type": "web_search_result_location",
    "url": FACT,
    "title": "Fjords",
    "cited_text": "They are deep.",
    "encrypted_index": "Eo8BCio",
}
FILED = {
    "type": "char_location",
    "document_index": 0,
    "document_title": "notes",
    "start_char_index": 0,
    "end_char_index": 4,
    "cited_text": "deep",
    "file_id": None,
}
TEXT = "Fjords are deep, and cold."


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def block(index: int, text: str, *citations: Any) -> bytes:
    """A block of text, the citations before the text as the service has them."""
    deltas = [{"type": "citations_delta", "citation": citation} for citation in citations]
    deltas += [{"type": "text_delta", "text": piece} for piece in (text[:3], text[3:])]
    return b"".join(
        (
            event("content_block_start", index=index, content_block={"type": "text", "text": "", "citations": []}),
            *(event("content_block_delta", index=index, delta=delta) for delta in deltas),
            event("content_block_stop", index=index),
        )
    )


MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-haiku-4-5", "content": []}
USAGE = {"input_tokens": 9, "output_tokens": 9}


def claude(*blocks: bytes) -> bytes:
    """A stream of Anthropic's with these blocks."""
    start = event("message_start", message={**MESSAGE, "stop_reason": None, "stop_sequence": None, "usage": USAGE})
    end = event("message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}, usage=USAGE)
    return b"".join((start, *blocks, end, event("message_stop")))


CLAUDE = claude(block(0, "Fjords are "), block(1, "deep", SEARCHED, FILED), block(2, ", and cold."))
ANNOTATION = {
    "type": "url_citation",
    "url_citation": {"start_index": 11, "end_index": 15, "title": "Fjords", "url": FACT, "content": "They are deep."},
}


def chunk(delta: Any, finish: Any = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"model": "gpt-4o", "choices": [choice]}).encode() + b"\n\n"


SEARCHING = b"".join(
    (
        *(chunk({"content": piece}) for piece in ("Fjords are ", "deep, and", " cold.")),
        chunk({"annotations": [ANNOTATION]}),
        chunk({}, "stop"),
        b"data: [DONE]\n\n",
    )
)
SERVICES = [
    pytest.param("anthropic.chat", "anthropic/claude-haiku-4-5", CLAUDE, id="anthropic"),
    pytest.param("openai.chat", "gpt-4o", SEARCHING, id="openai"),
]


def cited(clients: Clients, gateway: Gateway, api: str, stream: bool, model: str, **more: Any) -> tuple[str, list[Any]]:
    """The text, and of each source with an address what of the text it is for, title and address."""
    if api == "messages":
        content = _message(clients, gateway, stream, model, **more)
        pages = [
            (part.text, each.title, each.url)
            for part in content
            for each in part.citations or ()
            if each.type == "web_search_result_location"
        ]
        return "".join(part.text for part in content), pages
    client = clients.openai(gateway)
    params: dict[str, Any] = {"model": model, **more}
    if api == "chat":
        params |= {"messages": user("fjords")}
        if stream:
            with client.chat.completions.stream(**params) as events:
                message: Any = events.get_final_completion().choices[0].message
        else:
            message = client.chat.completions.create(**params).choices[0].message
        found = [each if isinstance(each, dict) else each.model_dump() for each in message.annotations or ()]
        return message.content, [_place(message.content, each["url_citation"]) for each in found]
    params |= {"input": "fjords"}
    if stream:
        with client.responses.stream(**params) as events:
            response: Any = events.get_final_response()
    else:
        response = client.responses.create(**params)
    (item,) = response.output
    (part,) = item.content
    return part.text, [_place(part.text, each.model_dump()) for each in part.annotations]


def _message(clients: Clients, gateway: Gateway, stream: bool, model: str, **more: Any) -> Any:
    messages = clients.anthropic(gateway).messages
    params: dict[str, Any] = {"model": model, "max_tokens": 999, "messages": user("fjords"), **more}
    if not stream:
        return messages.create(**params).content
    with messages.stream(**params) as events:
        return events.get_final_message().content


def _place(text: str, citation: Any) -> tuple[str, str, str]:
    return text[citation["start_index"] : citation["end_index"]], citation["title"], citation["url"]


@EACH_WAY
@EACH_API
@pytest.mark.parametrize(("operation", "model", "said"), SERVICES)
def test_a_source_stands_at_its_place(
    clients: Clients, scripted: Gateway, api: str, stream: bool, operation: str, model: str, said: bytes
) -> None:
    """In Messages a block of text has it: Anthropic's own block, or all of a text that another service cites for."""
    assert scripted.service is not None
    scripted.service.enqueue((Head(content_type="text/event-stream"), RawBytes(said)), operation=operation)
    text, sources = cited(clients, scripted, api, stream, model)
    whole = api == "messages" and operation == "openai.chat"

    assert text == TEXT
    assert sources == [(TEXT if whole else "deep", "Fjords", FACT)]


PLACES = {
    "page": {
        "type": "page_location",
        "document_index": 0,
        "document_title": "notes",
        "start_page_number": 2,
        "end_page_number": 3,
        "cited_text": "deep",
        "file_id": None,
    },
    "block": {
        "type": "content_block_location",
        "document_index": 0,
        "document_title": "notes",
        "start_block_index": 0,
        "end_block_index": 1,
        "cited_text": "deep",
        "file_id": None,
    },
    "found-page": {
        "type": "search_result_location",
        "search_result_index": 0,
        "source": FACT,
        "title": "Fjords",
        "start_block_index": 0,
        "end_block_index": 1,
        "cited_text": "deep",
    },
    "found-note": {
        "type": "search_result_location",
        "search_result_index": 0,
        "source": "note-7",
        "title": "Fjords",
        "start_block_index": 0,
        "end_block_index": 1,
        "cited_text": "deep",
    },
}


@EACH_WAY
@EACH_API
@pytest.mark.parametrize("place", PLACES)
def test_each_kind_of_place(clients: Clients, scripted: Gateway, api: str, stream: bool, place: str) -> None:
    """Messages has every one as it is; the others those of a page, which is what has an address."""
    assert scripted.service is not None
    said = claude(block(0, "Fjords are "), block(1, "deep", PLACES[place]), block(2, ", and cold."))
    scripted.service.enqueue((Head(content_type="text/event-stream"), RawBytes(said)), operation="anthropic.chat")
    if api == "messages":
        content = _message(clients, scripted, stream, "anthropic/claude-haiku-4-5")
        assert [each.model_dump() for each in content[1].citations] == [PLACES[place]]
    else:
        text, sources = cited(clients, scripted, api, stream, "anthropic/claude-haiku-4-5")
        assert text == TEXT
        assert sources == [("deep", "Fjords", FACT)] * (place == "found-page")


SCHEMA = {
    "type": "object",
    "properties": {"deep": {"type": "boolean"}},
    "required": ["deep"],
    "additionalProperties": False,
}
FORMATS: dict[str, dict[str, Any]] = {
    "messages": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    "chat": {
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA, "strict": True}}
    },
    "responses": {"text": {"format": {"type": "json_schema", "name": "a", "schema": SCHEMA, "strict": True}}},
}


@EACH_WAY
@EACH_API
def test_an_answer_that_is_to_be_json_is_told_without(
    clients: Clients, scripted: Gateway, api: str, stream: bool
) -> None:
    """It was held back, and the places are those of another text: here a fence stood around it."""
    assert scripted.service is not None
    said = claude(block(0, '```json\n{"deep": '), block(1, "true", SEARCHED, FILED), block(2, "}\n```"))
    scripted.service.enqueue((Head(content_type="text/event-stream"), RawBytes(said)), operation="anthropic.chat")
    text, sources = cited(clients, scripted, api, stream, "anthropic/claude-haiku-4-5", **FORMATS[api])

    assert (text, sources) == ('{"deep": true}', [])


@EACH_WAY
def test_messages_has_them_as_anthropic_says_them(clients: Clients, scripted: Gateway, stream: bool) -> None:
    """Those of documents, too, and in the same blocks."""
    assert scripted.service is not None
    script = Head(content_type="text/event-stream"), RawBytes(CLAUDE)
    scripted.service.enqueue(script, operation="anthropic.chat")
    content = _message(clients, scripted, stream, "anthropic/claude-haiku-4-5")

    assert [part.text for part in content] == ["Fjords are ", "deep", ", and cold."]
    assert [each.model_dump() for each in content[1].citations] == [SEARCHED, FILED]
    assert not content[0].citations and not content[2].citations


def whole(index: int, content: dict[str, Any]) -> bytes:
    """A block whose start says all of it."""
    return event("content_block_start", index=index, content_block=content) + event("content_block_stop", index=index)


SEALED = {**SEARCHED, "encrypted_index": sealed(FACT)}
SEARCH_ID = {"id": "srvtoolu_01Fjord"}
SEARCHES: list[dict[str, Any]] = [
    {"type": "text", "text": "I search."},
    {"type": "server_tool_use", **SEARCH_ID, "name": "web_search", "input": {"query": "fjords"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": SEARCH_ID["id"],
        "content": [
            {
                "type": "web_search_result",
                "url": url,
                "title": "Fjords",
                "encrypted_content": sealed(url),
                "page_age": age,
            }
            for url, age in ((FACT, "April 30, 2025"), (SHORE, None))
        ],
    },
    {"type": "text", "text": "They are "},
    {"type": "text", "text": "deep.", "citations": [SEALED]},
]
"""An answer of Anthropic's that has searched, as its blocks are in the history."""

HAS_SEARCHED = claude(
    block(0, "I search."),
    *(whole(index, SEARCHES[index]) for index in (1, 2)),
    block(3, "They are "),
    block(4, "deep.", SEALED),
)


@EACH_WAY
@pytest.mark.parametrize("offered", [True, False], ids=["with-search", "without"])
def test_what_anthropic_sealed_goes_back(clients: Clients, scripted: Gateway, stream: bool, offered: bool) -> None:
    """The second turn has the first as the service said it, in a request that is translated; the service takes it."""
    assert scripted.service is not None
    script = Head(content_type="text/event-stream"), RawBytes(HAS_SEARCHED)
    scripted.service.enqueue(script, operation="anthropic.chat")
    content = _message(clients, scripted, stream, "anthropic/claude-haiku-4-5")
    asked = f"Cold? {stream} {offered}"
    params: dict[str, Any] = {"model": "anthropic/claude-haiku-4-5", "max_tokens": 999}
    if offered:
        params["tools"] = [{"type": "web_search_20250305", "name": "web_search"}]
    history: Any = [*user("fjords"), {"role": "assistant", "content": content}, *user(asked)]
    clients.anthropic(scripted).messages.create(**params, messages=history)
    (told,) = (json.loads(request.body) for request in scripted.asked(asked))

    assert told["messages"][1] == {"role": "assistant", "content": SEARCHES}
    assert [tool["name"] for tool in told.get("tools", ())] == ["web_search"] * offered


@pytest.mark.parametrize("model", ["claude-sonnet-4.5", "gemini/gemini-2.5-flash", "gpt-4o"])
def test_other_services_read_what_is_not_sealed(clients: Clients, scripted: Gateway, model: str) -> None:
    """Titles and addresses; nothing of the seals."""
    asked = f"Is it cold, {model}?"
    history: Any = [*user("fjords"), {"role": "assistant", "content": SEARCHES}, *user(asked)]
    clients.anthropic(scripted).messages.create(model=model, max_tokens=999, messages=history)
    told = scripted.asked(asked)[-1].body.decode()

    assert FACT in told and "Fjords" in told
    assert sealed(FACT) not in told and "encrypted" not in told


def test_a_document_says_that_it_is_to_be_cited(clients: Clients, scripted: Gateway) -> None:
    """Without that no service would."""
    source = {"type": "text", "media_type": "text/plain", "data": "Fjords are deep."}
    document = {"type": "document", "source": source, "title": "notes", "citations": {"enabled": True}}
    params: Any = {"model": "anthropic/claude-haiku-4-5", "max_tokens": 999}
    clients.anthropic(scripted).messages.create(**params, messages=user([document, {"type": "text", "text": "Deep?"}]))

    assert document in json.loads(scripted.asked("Deep?")[-1].body)["messages"][0]["content"]


def test_a_search_result_stays_one(clients: Clients, scripted: Gateway) -> None:
    """In a message and in a tool's result, or no answer could cite it; in a result that is an error it is text."""
    found = {
        "type": "search_result",
        "source": "note-7",
        "title": "Fjords",
        "content": [{"type": "text", "text": "They are deep."}],
        "citations": {"enabled": True},
    }
    asked = "How deep are they?"
    calls = [{"type": "tool_use", "id": f"toolu_{number}", "name": "find", "input": {}} for number in (1, 2)]
    results: list[dict[str, Any]] = [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": [found]},
        {"type": "tool_result", "tool_use_id": "toolu_2", "content": [found], "is_error": True},
    ]
    params: Any = {"model": "anthropic/claude-haiku-4-5", "max_tokens": 999}
    params["tools"] = [{"name": "find", "description": "d", "input_schema": {"type": "object"}}]
    history: Any = [
        *user([found, {"type": "text", "text": "Look."}]),
        {"role": "assistant", "content": calls},
        *user([*results, {"type": "text", "text": asked}]),
    ]
    clients.anthropic(scripted).messages.create(**params, messages=history)
    first, _, last = json.loads(scripted.asked(asked)[-1].body)["messages"]

    assert first["content"][0] == found
    assert last["content"][0]["content"] == [found]
    assert last["content"][1]["content"] == [{"type": "text", "text": "Fjords (note-7)\nThey are deep."}]
