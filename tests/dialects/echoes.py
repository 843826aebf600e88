"""Clients that are given an answer and hand it back with their next question, as the official ones do."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.base import Dialect
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses
from kiro_asgi.dialects.openai_responses.sealing import Sealer
from kiro_asgi.model.message import Message, replay
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.testing.grammar import messages as anthropic_grammar
from tests.dialects.openai_chat import grammar as chat_grammar
from tests.dialects.openai_responses import grammar as responses_grammar
from tests.helpers import run

SEALER = Sealer.create(b"key", "me")

Client = Callable[[Message, bool], Prompt]
"""What a client asks next, after it was given an answer, streamed or not."""


def given_answer(dialect: Dialect, request: Any, message: Message, streamed: bool) -> bytes:
    parsed = dialect.parse(json.dumps({"model": "m", **request, "stream": streamed}).encode())
    meta = dialect.meta(parsed, lambda: "x" * 24, 12)
    if streamed:
        return b"".join(run(dialect.encoder(meta), replay(message)))
    return b"".join(dialect.render(message, meta))


def handed_back(dialect: Dialect, request: Any) -> Prompt:
    return dialect.parse(json.dumps({"model": "m", **request}).encode()).prompt


def messages(message: Message, streamed: bool) -> Prompt:
    """A client of the Messages API."""
    user = {"role": "user", "content": "hi"}
    request = {"messages": [user], "max_tokens": 9}
    answer = given_answer(AnthropicMessages(), request, message, streamed)
    body = anthropic_grammar.check(answer) if streamed else json.loads(answer)
    echo = {"role": "assistant", "content": body["content"]}
    results = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": "1"}
        for block in body["content"]
        if block["type"] == "tool_use"
    ]
    following = {"role": "user", "content": [*results, {"type": "text", "text": "go on"}]}
    return handed_back(AnthropicMessages(), {**request, "messages": [user, echo, following]})


def chat(message: Message, streamed: bool) -> Prompt:
    """A client of the Chat Completions API, which keeps answers as the official one does."""
    user = {"role": "user", "content": "hi"}
    answer = given_answer(OpenAIChat(), {"messages": [user]}, message, streamed)
    if streamed:
        state = ChatCompletionStreamState()
        for chunk in chat_grammar.check(answer):
            state.handle_chunk(ChatCompletionChunk.model_validate(chunk))
        echo = state.get_final_completion().choices[0].message.to_dict()
    else:
        echo = json.loads(answer)["choices"][0]["message"]
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "1"} for call in echo.get("tool_calls") or ()]
    return handed_back(OpenAIChat(), {"messages": [user, echo, *results]})


def responses(message: Message, streamed: bool) -> Prompt:
    """A client of the Responses API that keeps its conversations itself."""
    dialect = OpenAIResponses(SEALER)
    user = {"role": "user", "content": "hi"}
    request = {"store": False, "include": ["reasoning.encrypted_content"]}
    answer = given_answer(dialect, {**request, "input": [user]}, message, streamed)
    output = (responses_grammar.check(answer)[-1]["response"] if streamed else json.loads(answer))["output"]
    results = [
        {"type": "function_call_output", "call_id": item["call_id"], "output": "1"}
        for item in output
        if item["type"] == "function_call"
    ]
    return handed_back(dialect, {**request, "input": [user, *output, *results]})
