"""What a service has read on the web, as each API tells it, streamed and collected."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic._models import validate_type
from anthropic.types import Message as AnthropicMessage
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.base import Dialect
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses
from kiro_asgi.model.message import Message, fold
from kiro_asgi.model.prompt import Part, Text, ToolCallPart, ToolResult
from kiro_asgi.stages.answer import Plan, build_pipeline
from kiro_asgi.stages.citations import Citing
from kiro_asgi.testing.grammar import messages as anthropic_grammar
from kiro_asgi.upstreams.gemini.answer import stages
from tests.dialects.echoes import given_answer, messages
from tests.dialects.openai_chat import grammar as chat_grammar
from tests.dialects.openai_responses import grammar as responses_grammar

READ = {
    "webSearchQueries": ["fjords", "ice"],
    "groundingChunks": [{"web": {"uri": "https://a.example/f", "title": "Fjords"}}, {"web": {"title": "Ice"}}],
}
MARKDOWN = (
    "\n\n---\n**Searched the web for:** fjords, ice\n\n**Sources:**\n[1] [Fjords](https://a.example/f)\n[2] [Ice](#)"
)
TOLD = "Fjords\nhttps://a.example/f"
HI = {"role": "user", "content": "hi"}


def answer(tool: str = "") -> Message:
    """An answer of the service that has searched; *tool* is the search that the client asked for."""
    candidate = {"content": {"parts": [{"text": "Deep."}]}, "finishReason": "STOP", "groundingMetadata": READ}
    stream = b"data: " + json.dumps({"candidates": [candidate]}).encode() + b"\n\n"
    pipeline = build_pipeline(stages("", lambda: "c"), Plan(citing=Citing("en", tool, "msg_1")))
    return fold([*pipeline.feed([stream]), *pipeline.flush()])


def whole(dialect: Dialect, request: Any, message: Message) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(given_answer(dialect, request, message, streamed=False))
    return body


def test_messages() -> None:
    """F318-F323: a text block of its own behind the answer."""
    request = {"messages": [HI], "max_tokens": 9}
    body = whole(AnthropicMessages(), request, answer())

    assert body["content"] == [{"type": "text", "text": "Deep."}, {"type": "text", "text": MARKDOWN}]
    assert anthropic_grammar.check(given_answer(AnthropicMessages(), request, answer(), streamed=True)) == body


def test_chat() -> None:
    """F324: the same Markdown, as content before the finish."""
    request = {"messages": [HI]}
    body = whole(OpenAIChat(), request, answer())

    assert body["choices"][0]["message"]["content"] == "Deep." + MARKDOWN
    *_, last, finish = chat_grammar.check(given_answer(OpenAIChat(), request, answer(), streamed=True))
    assert last["choices"][0]["delta"] == {"content": MARKDOWN}
    assert finish["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("streamed", [True, False])
def test_responses(streamed: bool) -> None:
    """F318: a message of its own."""
    request = {"input": [HI], "store": False}
    told = given_answer(OpenAIResponses(), request, answer(), streamed)
    output = (responses_grammar.check(told)[-1]["response"] if streamed else json.loads(told))["output"]

    assert [part["text"] for item in output for part in item["content"]] == ["Deep.", MARKDOWN]


def test_messages_with_a_search() -> None:
    """A call and its result, as of the API's own search, which the official SDK takes."""
    request = {"messages": [HI], "max_tokens": 9}
    body = whole(AnthropicMessages(), request, answer("web_search"))

    _, call, result, text = body["content"]
    assert call == {
        "type": "server_tool_use",
        "id": "srvtoolu_msg_1",
        "name": "web_search",
        "input": {"query": "fjords, ice", "queries": ["fjords", "ice"]},
    }
    assert (result["type"], result["tool_use_id"]) == ("web_search_tool_result", "srvtoolu_msg_1")
    assert [(page["title"], page["url"]) for page in result["content"]] == [("Fjords", "https://a.example/f")]
    assert text == {"type": "text", "text": TOLD}
    assert body["stop_reason"] == "end_turn"
    assert body["usage"]["server_tool_use"]["web_search_requests"] == 1
    assert isinstance(validate_type(type_=AnthropicMessage, value=body), AnthropicMessage)
    stream = given_answer(AnthropicMessages(), request, answer("web_search"), streamed=True)
    assert anthropic_grammar.check(stream) == body


@pytest.mark.parametrize("streamed", [True, False])
def test_messages_with_a_search_come_back(streamed: bool) -> None:
    """In the history a search is a call and its result, and is told once."""
    _, said, *_ = messages(answer("web_search"), streamed).turns
    expected: list[Part] = [
        Text("Deep."),
        ToolCallPart("srvtoolu_msg_1", "web_search", {"query": "fjords, ice", "queries": ["fjords", "ice"]}),
        ToolResult("srvtoolu_msg_1", (Text(TOLD),)),
    ]

    assert list(said.parts) == expected


def test_chat_with_a_search() -> None:
    """Citations name the text that tells of their pages."""
    request = {"messages": [HI]}
    body = whole(OpenAIChat(), request, answer("web_search"))

    message = body["choices"][0]["message"]
    (annotation,) = message["annotations"]
    cited = annotation["url_citation"]
    assert (cited["title"], cited["url"]) == ("Fjords", "https://a.example/f")
    assert message["content"][cited["start_index"] : cited["end_index"]] == TOLD
    assert ChatCompletion.model_validate(body, strict=True).choices[0].message.annotations
    chunks = chat_grammar.check(given_answer(OpenAIChat(), request, answer("web_search"), streamed=True))
    assert [chunk["choices"][0]["delta"].get("annotations") for chunk in chunks][-2] == [annotation]


@pytest.mark.parametrize("streamed", [True, False])
def test_responses_with_a_search(streamed: bool) -> None:
    """An item for the search, and citations in the message behind it."""
    request = {"input": [HI], "store": False}
    told = given_answer(OpenAIResponses(), request, answer("web_search"), streamed)
    response = responses_grammar.check(told)[-1]["response"] if streamed else json.loads(told)

    _, search, message = response["output"]
    assert (search["type"], search["status"], search["action"]["query"]) == (
        "web_search_call",
        "completed",
        "fjords, ice",
    )
    (part,) = message["content"]
    (cited,) = part["annotations"]
    assert part["text"][cited["start_index"] : cited["end_index"]] == TOLD
    assert Response.model_validate(response, strict=True).output_text == "Deep." + TOLD
