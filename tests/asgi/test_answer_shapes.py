"""Answers whose pieces have another shape than they should: the one answer that is certain reaches every client.

Servers that copy an API write an object, or its text, where a list of one belongs, arguments as an object where their
JSON belongs, and the other way round; a reader that passes over them gives an empty answer, or calls a tool with
nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from tests.asgi.test_unknown_answers import (
    CLIENTS,
    FORMS,
    MODES,
    answering,
    asking,
    body,
    chat,
    frames,
    generated,
    in_chunks,
    responded,
    said,
    slices,
    sse,
    streamed,
)

pytestmark = pytest.mark.anyio

TEXT: Final = {"type": "text", "text": "Hello."}
OUTPUT: Final = {"type": "output_text", "text": "Hello."}


def message(content: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": content}


def blocks(content: Any, stop: str = "end_turn") -> bytes:
    return body({"type": "message", "content": content, "stop_reason": stop})


def whole(chat_message: Mapping[str, Any]) -> bytes:
    return body({"choices": [{"index": 0, "message": chat_message, "finish_reason": "stop"}]})


def candidate(content: Any, **more: Any) -> dict[str, Any]:
    return {"candidates": [{"content": content, "finishReason": "STOP", **more}]}


def converse(content: Any, stop: str = "end_turn") -> bytes:
    return body({"output": {"message": {"role": "assistant", "content": content}}, "stopReason": stop})


def choices(**choice: Any) -> bytes:
    return sse({"choices": [choice]}, {"choices": [{**choice, "delta": {}, "text": "", "finish_reason": "stop"}]})


TEXTS: Final[Mapping[str, Mapping[str, bytes]]] = {
    "chat": {
        "an object": chat({"content": TEXT}),
        "texts": chat({"content": ["Hel", "lo."]}),
        "text in an object": chat({"content": [{"type": "text", "text": {"value": "Hello.", "annotations": []}}]}),
        "no type": chat({"content": [{"text": "Hello."}]}),
        "counted from 1": choices(index=1, delta={"content": "Hello."}),
        "numbered by a text": choices(index="0", delta={"content": "Hello."}),
        "one choice": sse(
            {"choices": {"delta": {"content": "Hello."}}}, {"choices": {"delta": {}, "finish_reason": "stop"}}
        ),
        "older Completions": sse(
            {"choices": [{"index": 0, "text": "Hello."}]},
            {"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]},
        ),
    },
    "chat.whole": {"an object": whole({"content": TEXT}), "texts": whole({"content": ["Hello."]})},
    "responses": {
        "a text": streamed(responded(message("Hello."))),
        "a part": streamed(responded(message(OUTPUT))),
    },
    "responses.whole": {
        "a text": body(responded(message("Hello."))),
        "a part": body(responded(message(OUTPUT))),
        "texts": body(responded(message(["Hello."]))),
        "output_text": body({"status": "completed", "output": [], "output_text": "Hello."}),
    },
    "messages": {"a text": sse({"type": "message_start", "message": {"content": "Hello."}}, *said()[1:])},
    "messages.whole": {"a text": blocks("Hello."), "a block": blocks(TEXT), "texts": blocks(["Hello."])},
    "gemini": {
        "a part": sse(candidate({"parts": {"text": "Hello."}})),
        "a text": sse(candidate("Hello.")),
        "contents": sse(candidate([{"parts": [{"text": "Hello."}]}])),
        "a part as content": sse(candidate({"role": "model", "text": "Hello."})),
    },
    "gemini.whole": {"texts": body(candidate({"parts": ["Hello."]})), "a text": body(candidate("Hello."))},
    "converse.whole": {
        "a text": converse("Hello."),
        "a block": converse({"text": "Hello."}),
        "texts": converse(["Hello."]),
    },
    "invoke": {"a text": in_chunks({"type": "message_start", "message": {"content": "Hello."}}, *said()[1:])},
}  # fmt: skip
"""Form of a service to answers that say hello."""

CALLS: Final[Mapping[str, Mapping[str, bytes]]] = {
    "chat": {
        "an object": chat({"tool_calls": [{"id": "c", "function": {"name": "look", "arguments": {"at": 1}}}]}),
        "a block": chat({"content": [{"type": "tool_use", "id": "c", "name": "look", "input": {"at": 1}}]}),
    },
    "responses.whole": {
        "an object": body(responded({"type": "function_call", "call_id": "c", "name": "look", "arguments": {"at": 1}}))
    },
    "messages.whole": {
        "a text": blocks([{"type": "tool_use", "id": "c", "name": "look", "input": '{"at": 1}'}], "tool_use")
    },
    "messages": {"a text": sse(*said({"type": "tool_use", "id": "c", "name": "look", "input": '{"at": 1}'}))},
    "gemini": {
        "a text": sse(generated({"functionCall": {"name": "look", "args": '{"at": 1}'}})),
        "pieces": sse(
            {"candidates": [{"content": {"parts": [{"functionCall": {"name": "look", "willContinue": True}}]}}]},
            generated({"functionCall": {"partialArgs": [{"jsonPath": "$.at", "numberValue": 1}]}}),
        ),
    },
    "converse.whole": {
        "a text": converse([{"toolUse": {"toolUseId": "c", "name": "look", "input": '{"at": 1}'}}], "tool_use")
    },
}  # fmt: skip
"""Form of a service to answers that call ``look`` with ``{"at": 1}``."""


def cases(table: Mapping[str, Mapping[str, bytes]]) -> list[Any]:
    return [pytest.param(form, data, id=f"{form}-{of}") for form, each in table.items() for of, data in each.items()]


@MODES
@pytest.mark.parametrize(("form", "data"), cases(TEXTS))
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_text_in_another_shape_is_text(client, form, data, stream, gateway, service, sim):
    sim.answer_with(answering(FORMS[form], data))
    exchange = await asking(client, FORMS[form].model, stream).run(gateway(**slices(service, FORMS[form])))
    sim.answer_with(None)

    assert exchange.status == 200
    assert b"Hello." in exchange.content or (b'"Hel' in exchange.content and b"lo." in exchange.content)


@MODES
@pytest.mark.parametrize(("form", "data"), cases(CALLS))
@pytest.mark.parametrize("client", ["anthropic", "openai_chat", "openai_responses", "gemini"])
async def test_arguments_in_another_shape_are_the_arguments(client, form, data, stream, gateway, service, sim):
    """As an object or as its text, whole or in pieces: no tool is called with nothing."""
    sim.answer_with(answering(FORMS[form], data))
    exchange = await asking(client, FORMS[form].model, stream).run(gateway(**slices(service, FORMS[form])))
    sim.answer_with(None)

    assert exchange.status == 200
    assert arguments(client, exchange.content) == {"at": 1}


def arguments(client: str, content: bytes) -> Any:
    """Arguments of the one call of an answer, streamed or whole."""
    text = content.decode()
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")] or [json.loads(text)]
    pieces: list[str] = []
    for event in events:
        if client == "anthropic":
            pieces += (json.dumps(block["input"]) for block in event.get("content", ()))
            pieces.append(event.get("delta", {}).get("partial_json", ""))
        elif client == "openai_responses":
            items = event.get("output", [event["item"]] if event.get("type") == "response.output_item.done" else [])
            pieces += (item["arguments"] for item in items)
        elif client == "gemini":
            parts = (part for each in event["candidates"] for part in each.get("content", {}).get("parts", ()))
            pieces += (json.dumps(part["functionCall"]["args"]) for part in parts if "functionCall" in part)
        else:
            turns = (choice.get("message", choice.get("delta")) for choice in event["choices"])
            pieces += (call["function"]["arguments"] for turn in turns for call in turn.get("tool_calls", ()))
    return json.loads("".join(pieces))


@MODES
@pytest.mark.parametrize("client", ["anthropic", "openai_chat", "openai_responses", "gemini"])
async def test_a_tool_that_bedrock_runs_is_not_the_client_s(client, stream, gateway, service, sim):
    """A notice names it, and the answer is no call."""
    place, start = {"contentBlockIndex": 0}, {"toolUseId": "t", "name": "nova_grounding", "type": "server_tool_use"}
    data = frames(
        ("contentBlockStart", {**place, "start": {"toolUse": start}}),
        ("contentBlockDelta", {**place, "delta": {"toolUse": {"input": '{"query": "x"}'}}}),
        ("contentBlockStop", place),
        ("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"text": "Hello."}}),
        ("messageStop", {"stopReason": "end_turn"}),
    )
    sim.answer_with(answering(FORMS["converse"], data))
    app = gateway(**slices(service, FORMS["converse"]))
    exchange = await asking(client, FORMS["converse"].model, stream).run(app)
    sim.answer_with(None)

    assert b"Hello." in exchange.content
    assert b"nova_grounding" not in exchange.content
    assert stream or "block.unknown:server_tool_use_nova_grounding" in exchange.headers["x-kiro-asgi-rules"]


NOWAY: Final = "It would do harm."
FILTERED: Final[Mapping[str, bytes]] = {
    "gemini": sse(
        {"candidates": [{"content": {"parts": [{"text": "Hello."}]}}]},
        {"candidates": [{"finishReason": "SAFETY", "finishMessage": NOWAY}]},
    ),
    "gemini.whole": body({"promptFeedback": {"blockReason": "OTHER", "blockReasonMessage": NOWAY}}),
    "converse": frames(
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "Hello."}}),
        ("messageStop", {"stopReason": "guardrail_intervened"}),
        ("metadata", {"trace": {"guardrail": {"actionReason": NOWAY}}}),
    ),
    "messages.whole": body(
        {"type": "message", "content": [], "stop_reason": "refusal", "stop_details": {"explanation": NOWAY}}
    ),
    "chat.whole": whole({"content": [{"type": "refusal", "refusal": NOWAY}]}),
}


@MODES
@pytest.mark.parametrize("form", FILTERED)
@pytest.mark.parametrize("client", ["anthropic", "openai_chat", "openai_responses", "gemini"])
async def test_why_a_service_refused_crosses(client, form, stream, gateway, service, sim):
    """In its own words, wherever it has a place for them."""
    sim.answer_with(answering(FORMS[form], FILTERED[form]))
    exchange = await asking(client, FORMS[form].model, stream).run(gateway(**slices(service, FORMS[form])))
    sim.answer_with(None)

    assert exchange.status == 200
    assert NOWAY.encode() in exchange.content


@MODES
async def test_the_model_that_anthropic_recommends_arrives(stream, gateway, service, sim):
    """In the Messages API's own member, and a notice for others."""
    details = {"type": "refusal", "category": "bio", "explanation": NOWAY, "recommended_model": "claude-x"}
    data = body({"type": "message", "content": [], "stop_reason": "refusal", "stop_details": details})
    app = gateway(**slices(service, FORMS["messages.whole"]))
    for client in ("anthropic", "openai_chat"):
        sim.answer_with(answering(FORMS["messages.whole"], data))
        exchange = await asking(client, FORMS["messages.whole"].model, stream).run(app)
        sim.answer_with(None)
        if client == "anthropic":
            assert b'"recommended_model":"claude-x"' in exchange.content
        assert stream or "declined.recommended_model" in exchange.headers["x-kiro-asgi-rules"]


async def test_what_the_service_ran_is_no_answer(gateway, service, sim):
    """An answer of nothing but a call of its own and a result that nobody can show is an error."""
    call = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_fetch", "input": {"url": "https://a"}}
    result = {"type": "web_fetch_tool_result", "tool_use_id": "srvtoolu_1", "content": {"url": "https://a"}}
    sim.answer_with(answering(FORMS["messages.whole"], blocks([call, result])))
    app = gateway(**slices(service, FORMS["messages.whole"]))
    exchange = await asking("openai_chat", FORMS["messages.whole"].model, False).run(app)
    same = await asking("anthropic", FORMS["messages.whole"].model, False).run(app)
    sim.answer_with(None)

    assert exchange.status == 502 and b"web_fetch" in exchange.content
    assert same.json()["content"] == [call, result]


ITEMS: Final = {
    "message": message([OUTPUT]),
    "function_call": {"type": "function_call", "call_id": "c", "name": "look", "arguments": '{"at": 1}'},
}


@MODES
@pytest.mark.parametrize("kind", ITEMS)
async def test_an_item_that_is_not_complete_is_no_end(kind, stream, gateway, service, sim):
    """Whatever the whole answer says of itself."""
    data = body(responded({**ITEMS[kind], "status": "incomplete"}))
    sim.answer_with(answering(FORMS["responses.whole"], data))
    app = gateway(**slices(service, FORMS["responses.whole"]))
    exchange = await asking("openai_chat", FORMS["responses.whole"].model, stream).run(app)
    sim.answer_with(None)

    assert b'"finish_reason":"length"' in exchange.content


FILE: Final = {"type": "file", "file": {"hash": "abc", "name": "a.pdf"}, "new": 1}
PLACE: Final = {"start_index": 0, "end_index": 6}
PAGE: Final = {"url": "https://example.org/", "title": "T", **PLACE}
FILES: Final = (
    {"type": "file_citation", "file_id": "f", "filename": "abc", "index": 3},
    {"type": "container_file_citation", "container_id": "abc", "file_id": "f", "filename": "a", **PLACE},
    {"type": "file_path", "file_id": "abc", "index": 3},
    {"type": "invented", "new": "abc"},
)
ANNOTATED: Final[Mapping[str, tuple[str, bytes]]] = {
    "openai_chat": ("chat", chat({"content": "Hello."}, {"annotations": [FILE]})),
    "openai_chat page": (
        "chat",
        chat({"content": "Hello."}, {"annotations": [{"type": "url_citation", "url_citation": PAGE | {"new": "abc"}}]}),
    ),
    "openai_responses page": (
        "responses.whole",
        body(responded(message([{**OUTPUT, "annotations": [{"type": "url_citation", **PAGE, "new": "abc"}]}]))),
    ),
    **{
        f"openai_responses {file['type']}": (
            "responses.whole",
            body(responded(message([{**OUTPUT, "annotations": [file]}]))),
        )
        for file in FILES
    },
}
"""A client's API, and what is annotated, to a service's form and an answer with a mark."""


@pytest.fixture(autouse=True)
def _responses_are_legal(_responses_judged: list[str]) -> Iterator[None]:
    """But for annotations of kinds that Open Responses does not have, and members that nobody has."""
    _responses_judged.clear()
    yield
    assert not [problem for problem in _responses_judged if not ("annotation" in problem or "'new'" in problem)]


@MODES
@pytest.mark.parametrize("case", ANNOTATED)
async def test_annotations_reach_clients_of_the_api(case, stream, gateway, service, sim):
    """Of every kind, with every member; to others a notice names what has no address."""
    form, data = ANNOTATED[case]
    app = gateway(**slices(service, FORMS[form]))
    sim.answer_with(answering(FORMS[form], data))
    exchange = await asking(case.partition(" ")[0], FORMS[form].model, stream).run(app)
    other = await asking("anthropic", FORMS[form].model, False).run(app)
    sim.answer_with(None)

    assert b'"abc"' in exchange.content
    noted = other.headers["x-kiro-asgi-rules"].split(", ")
    assert (noted == ["annotation.unknown"]) == ("page" not in case)
    assert ("citations" in other.json()["content"][0]) == ("page" in case)


PAGES: Final[Mapping[str, dict[str, Any]]] = {
    "addresses": {"citations": ["https://example.org/"]},
    "links": {"web_search": [{"title": "T", "link": "https://example.org/", "content": "Q"}]},
    "Azure": {"context": {"citations": [{"title": "T", "url": "https://example.org/", "content": "Q"}]}},
    "Alibaba": {"search_info": {"search_results": [{"title": "T", "url": "https://example.org/"}]}},
    "another name": {"sources": [{"uri": "https://example.org/"}]},
}


@MODES
@pytest.mark.parametrize("place", ["chunk", "choice", "delta"])
@pytest.mark.parametrize("case", PAGES)
async def test_pages_are_citations_wherever_they_stand(case, place, stream, gateway, service, sim):
    """Under whatever name a server lists them."""
    chunk: dict[str, Any] = {"choices": [{"index": 0, "delta": {"content": "Hello."}}]}
    into = {"chunk": chunk, "choice": chunk["choices"][0], "delta": chunk["choices"][0]["delta"]}[place]
    into |= PAGES[case]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    sim.answer_with(answering(FORMS["chat"], sse(chunk, end)))
    app = gateway(**slices(service, FORMS["chat"]))
    for client in ("anthropic", "openai_chat", "openai_responses"):
        exchange = await asking(client, FORMS["chat"].model, stream).run(app)
        assert b'"url":"https://example.org/"' in exchange.content
    sim.answer_with(None)


@pytest.mark.parametrize("name", ["thinking", "thought", "reasoning_summary", "thinking_content"])
@pytest.mark.parametrize(
    "value", ["Hm.", {"text": "Hm."}, [{"type": "text", "text": "Hm."}]], ids=["text", "object", "parts"]
)
async def test_thinking_is_known_by_any_name_that_says_so(name, value, gateway, service, sim):
    """It is thinking once, for every client, and not a member beside it."""
    sim.answer_with(answering(FORMS["chat"], chat({name: value}, {"content": "Hello."})))
    app = gateway(**slices(service, FORMS["chat"]))
    turn = (await asking("openai_chat", FORMS["chat"].model, False).run(app)).json()["choices"][0]["message"]
    blocks_of = (await asking("anthropic", FORMS["chat"].model, False).run(app)).json()["content"]
    sim.answer_with(None)

    assert turn["reasoning_content"] == "Hm." and name not in turn
    assert [block["type"] for block in blocks_of] == ["thinking", "text"]


@pytest.mark.parametrize("fact", [{"thinking_signature": "abc"}, {"reasoning_tokens": 3}, {"thought_status": "done"}])
async def test_facts_about_thinking_are_none(fact, gateway, service, sim):
    """They are members like others."""
    sim.answer_with(answering(FORMS["chat"], chat({"content": "Hello.", **fact})))
    app = gateway(**slices(service, FORMS["chat"]))
    turn = (await asking("openai_chat", FORMS["chat"].model, False).run(app)).json()["choices"][0]["message"]
    sim.answer_with(None)

    assert "reasoning_content" not in turn and turn.items() >= fact.items()


CALLED: Final = ({"at": 1},)
TWO: Final = ({"at": 1}, {"at": 2})
BEGUN: Final = {"index": 0, "id": "c", "function": {"name": "look", "arguments": '{"at": '}}
REST: Final = {"arguments": "1}"}
ONCE: Final = '{"at": 1}'


def pieces(*calls: Any) -> bytes:
    return chat(*({"tool_calls": [call]} for call in calls))


def block(index: Any, **more: Any) -> dict[str, Any]:
    start = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
    return {"type": "content_block_start", "index": index, "content_block": {**start, **more}}


def input_json(index: Any, piece: Any) -> dict[str, Any]:
    return {
        "type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": piece}
    }  # fmt: skip


def calling(*events: dict[str, Any]) -> bytes:
    begin, *_, end, last = said()
    return sse(begin, *events, {**end, "delta": {"stop_reason": "tool_use"}}, last)


def used(call: Mapping[str, Any], place: int = 0) -> tuple[str, dict[str, Any]]:
    return ("contentBlockDelta", {"contentBlockIndex": place, "delta": {"toolUse": call}})


def uses(*events: tuple[str, dict[str, Any]]) -> bytes:
    return frames(*events, ("messageStop", {"stopReason": "tool_use"}))


BEGIN_USE: Final = (
    "contentBlockStart", {"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": "c", "name": "look"}}},
)  # fmt: skip


def kiro_calls(*calls: dict[str, Any]) -> bytes:
    return frames(*(("toolUseEvent", call) for call in calls), ("metadataEvent", {"stopReason": "TOOL_USE"}))


def item(arguments: Any, **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "id": "f", "call_id": "c", "name": "look", "arguments": arguments, **more}


def added(kind: str, place: int, value: dict[str, Any]) -> dict[str, Any]:
    return {"type": f"response.output_item.{kind}", "output_index": place, "item": value}


def argued(kind: str, text: str, name: str) -> dict[str, Any]:
    return {
        "type": f"response.function_call_arguments.{kind}", "item_id": "f", "output_index": 0, name: text
    }  # fmt: skip


COMPLETED: Final = {"type": "response.completed", "response": {"status": "completed", "output": []}}

IDENTITIES: Final[Mapping[str, tuple[str, bytes, tuple[Any, ...]]]] = {
    "chat-another id for each piece": ("chat", pieces(BEGUN, {"index": 0, "id": "d", "function": REST}), CALLED),
    "chat-and the name again": (
        "chat",
        pieces(BEGUN, {"index": 0, "id": "d", "function": {"name": "look", **REST}}),
        CALLED,
    ),
    "chat-numbers as texts": (
        "chat",
        pieces(
            {**BEGUN, "index": "0"},
            {"index": "1", "id": "d", "function": {"name": "look", "arguments": '{"at": '}},
            {"index": "0", "function": REST},
            {"index": "1", "function": {"arguments": "2}"}},
        ),
        TWO,
    ),
    "chat-counted anew": ("chat", pieces({**BEGUN, "index": 1}, {"index": 0, "id": "c", "function": REST}), CALLED),
    "chat-the name at the end": (
        "chat",
        pieces(
            {"index": 0, "id": "c", "function": {"arguments": '{"at": '}},
            {"index": 0, "function": REST},
            {"index": 0, "function": {"name": "look"}},
        ),
        CALLED,
    ),
    "chat-without an object around it": ("chat", pieces({"id": "c", "name": "look", "arguments": ONCE}), CALLED),
    "chat-a name in its place": ("chat", pieces({"id": "c", "function": "look", "arguments": ONCE}), CALLED),
    "chat-without a list": (
        "chat",
        chat({"tool_calls": {**BEGUN, "function": {"name": "look", "arguments": ONCE}}}),
        CALLED,
    ),
    **{
        f"chat-{name}": ("chat", pieces({"id": "c", "function": {"name": "look", name: {"at": 1}}}), CALLED)
        for name in ("args", "input", "parameters")
    },
    "messages-another place": ("messages", calling(block(0), input_json(7, '{"at": '), input_json(None, "1}")), CALLED),
    "messages-an object": ("messages", calling(block(0), input_json(0, {"at": 1})), CALLED),
    "messages-another name": ("messages", calling(block(0, arguments=ONCE)), CALLED),
    "messages-twice": ("messages", calling(block(0), input_json(0, ONCE), input_json(0, ONCE)), CALLED),
    "converse-an object": ("converse", uses(BEGIN_USE, used({"input": {"at": 1}})), CALLED),
    "converse-without a start": (
        "converse",
        uses(used({"toolUseId": "c", "name": "look", "input": '{"at": '}), used({"input": "1}"})),
        CALLED,
    ),
    "kiro-twice": (
        "kiro",
        kiro_calls(
            {"toolUseId": "c", "name": "look", "input": ONCE},
            {"toolUseId": "c", "name": "look", "input": ONCE, "stop": True},
        ),
        CALLED,
    ),
    "kiro-an object twice": (
        "kiro",
        kiro_calls(
            {"toolUseId": "c", "name": "look", "input": {"at": 1}},
            {"toolUseId": "c", "name": "look", "input": {"at": 1}, "stop": True},
        ),
        CALLED,
    ),
    "gemini-another name": (
        "gemini",
        sse(generated({"functionCall": {"name": "look", "arguments": {"at": 1}}})),
        CALLED,
    ),
    "responses-one id for two": (
        "responses.whole",
        body(responded(item(ONCE, id="f"), item('{"at": 2}', id="g"))),
        TWO,
    ),
    "responses-one id for two items": (
        "responses",
        sse(
            added("added", 0, item("")),
            added("done", 0, item(ONCE)),
            added("added", 1, item("", call_id="d")),
            added("done", 1, item('{"at": 2}', call_id="d")),
            COMPLETED,
        ),
        TWO,
    ),
    "responses-in another spelling": (
        "responses",
        sse(
            added("added", 0, item("")),
            argued("delta", '{"at":1}', "delta"),
            argued("done", ONCE, "arguments"),
            added("done", 0, item(ONCE)),
            COMPLETED,
        ),
        CALLED,
    ),
    "responses-the name at the end": (
        "responses",
        sse(
            added("added", 0, item("", name="")),
            argued("delta", ONCE, "delta"),
            added("done", 0, item(ONCE)),
            COMPLETED,
        ),
        CALLED,
    ),
}
"""Form of a service, and an answer with calls of ``look``, to their arguments."""


@MODES
@pytest.mark.parametrize("case", IDENTITIES)
@pytest.mark.parametrize("client", ["anthropic", "openai_chat", "openai_responses", "gemini"])
async def test_what_is_certain_of_calls_is_what_is_called(client, case, stream, gateway, service, sim):
    """Whatever a server does with ids, numbers and names: no call is lost, doubled, or made with nothing."""
    form, data, expected = IDENTITIES[case]
    sim.answer_with(answering(FORMS[form], data))
    exchange = await asking(client, FORMS[form].model, stream).run(gateway(**slices(service, FORMS[form])))
    sim.answer_with(None)

    assert exchange.status == 200
    assert len(names_of(client, exchange.content)) == len(expected)
    if expected == CALLED:
        assert arguments(client, exchange.content) == {"at": 1}
    else:
        told = exchange.content.replace(b"\\", b"").replace(b" ", b"")
        assert all(b'"at":%d' % each["at"] in told for each in expected)


def names_of(client: str, content: bytes) -> list[str]:
    """The names of the calls of an answer, streamed or whole."""
    text = content.decode()
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")] or [json.loads(text)]
    found: list[str] = []
    for event in events:
        if client == "anthropic":
            blocks_of = [*event.get("content", ()), event.get("content_block", {})]
            found += (each["name"] for each in blocks_of if each.get("type") == "tool_use")
        elif client == "openai_responses":
            items = event.get("output", [event["item"]] if event.get("type") == "response.output_item.done" else [])
            found += (each["name"] for each in items if each["type"] == "function_call")
        elif client == "gemini":
            parts = (part for each in event["candidates"] for part in each.get("content", {}).get("parts", ()))
            found += (part["functionCall"]["name"] for part in parts if "functionCall" in part)
        else:
            turns = [choice.get("message", choice.get("delta")) for choice in event["choices"]]
            calls = (call for turn in turns for call in turn.get("tool_calls", ()))
            found += (call["function"]["name"] for call in calls if call["function"].get("name"))
    return found


async def test_a_message_behind_its_deltas_repeats_them(gateway, service, sim):
    """Only what they have not brought of it is new."""
    whole = {"role": "assistant", "reasoning_content": "Hm.", "content": "Hello."}
    deltas = ({"reasoning_content": "Hm."}, {"content": "Hel"}, {"content": "lo"})
    chunks = (*({"delta": delta} for delta in deltas), {"message": whole, "finish_reason": "stop"})
    sim.answer_with(answering(FORMS["chat"], sse(*({"choices": [{"index": 0, **each}]} for each in chunks))))
    exchange = await asking("openai_chat", FORMS["chat"].model, False).run(gateway(**slices(service, FORMS["chat"])))
    sim.answer_with(None)

    assert exchange.json()["choices"][0]["message"].items() >= whole.items()
