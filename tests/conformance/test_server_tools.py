"""Web search through the official Python clients, which validate every body, event and chunk."""

from __future__ import annotations

from typing import Any

import anthropic
import openai
import pytest

from tests.conformance.asking import MESSAGES_TOOLS, MODEL, user
from tests.conformance.test_messages import ask, helper

SEARCH: list[Any] = [{"type": "web_search_20250305", "name": "web_search", "max_uses": 2}]
URL = "https://example.org/simulated"

BOTH = pytest.mark.parametrize("way", [ask, helper], ids=["whole", "helper"])


@BOTH
def test_a_search_is_answered(messages: anthropic.Anthropic, way: Any) -> None:
    """F214-F216: the call, what was found, the same as text; nothing is left for the client to do."""
    answer = way(messages, "sim:tool=web_search", tools=SEARCH)
    before, call, result, text = answer.content

    assert before.text == "Let me check."
    assert (call.type, call.name, list(call.input)) == ("server_tool_use", "web_search", ["query"])
    assert (result.type, result.tool_use_id) == ("web_search_tool_result", call.id)
    assert [hit.url for hit in result.content] == [URL]
    assert URL in text.text
    assert answer.stop_reason == "end_turn"
    assert answer.usage.server_tool_use.web_search_requests == 1


def test_the_call_is_streamed(messages: anthropic.Anthropic) -> None:
    """A call opens empty, and its input comes as text; a result is there at once."""
    with messages.messages.create(
        model=MODEL, max_tokens=99, messages=user("sim:tool=web_search"), tools=SEARCH, stream=True
    ) as stream:
        events: list[Any] = list(stream)
    opened = {each.content_block.type: each for each in events if each.type == "content_block_start"}
    pieces = [each.delta for each in events if each.type == "content_block_delta" and each.index == 1]

    assert opened["server_tool_use"].content_block.input == {}
    assert [piece.type for piece in pieces] == ["input_json_delta"]
    assert [hit.url for hit in opened["web_search_tool_result"].content_block.content] == [URL]


@BOTH
def test_a_call_of_the_clients_own_beside_it(messages: anthropic.Anthropic, way: Any) -> None:
    """The client runs its own, and the conversation goes on with both answered."""
    tools = [*SEARCH, MESSAGES_TOOLS[0]]
    first = way(messages, "sim:parallel", tools=tools)
    (use,) = (block for block in first.content if block.type == "tool_use")
    result = {"type": "tool_result", "tool_use_id": use.id, "content": "sunny"}
    history: list[Any] = [
        *user("sim:parallel"),
        {"role": "assistant", "content": first.content},
        *user([result]),
    ]
    second = messages.messages.create(model=MODEL, max_tokens=999, messages=history, tools=tools)

    assert (first.stop_reason, second.stop_reason) == ("tool_use", "end_turn")
    assert "The tool says: sunny" in second.content[0].text  # type: ignore[union-attr]


@pytest.mark.parametrize("params", [{"web_search_options": {}}, {"tools": [{"type": "web_search"}]}], ids=["o", "t"])
def test_a_search_in_chat(chat: openai.OpenAI, params: dict[str, Any]) -> None:
    """What was found is content, with citations that name its place; whole and streamed say the same."""
    asked: dict[str, Any] = {"model": MODEL, "messages": user("sim:tool=web_search"), **params}
    whole = chat.chat.completions.create(**asked).choices[0]
    with chat.chat.completions.create(**asked, stream=True) as stream:
        deltas: list[Any] = [choice.delta for chunk in stream for choice in chunk.choices]
    content = whole.message.content or ""
    (citation,) = (each.url_citation for each in whole.message.annotations or ())

    assert (citation.url, whole.finish_reason, whole.message.tool_calls) == (URL, "stop", None)
    assert URL in content[citation.start_index : citation.end_index]
    assert "".join(delta.content or "" for delta in deltas) == content
    assert [each for delta in deltas for each in getattr(delta, "annotations", None) or ()] == [
        each.to_dict() for each in whole.message.annotations or ()
    ]
