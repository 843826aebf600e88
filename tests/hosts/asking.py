"""The three APIs by their official clients: whole answers, and pieces of streamed ones with the times of arrival."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import anthropic
import openai

from tests.hosts.running import KEY, Running

__all__ = ["APIS", "collect", "converse", "pieces"]

MODEL: Final = "claude-sonnet-4.5"
_TURNS: Final[Any] = [{"role": "user", "content": "sim:text"}]


def _openai(server: Running, http: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.base}/v1", api_key=KEY, max_retries=0, http_client=http)


def _anthropic(server: Running, http: Any) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=server.base, api_key=KEY, max_retries=0, http_client=http)


def _chat(server: Running, http: Any, stream: bool) -> Iterator[str]:
    completions = _openai(server, http).chat.completions
    if not stream:
        yield completions.create(model=MODEL, messages=_TURNS).choices[0].message.content or ""
        return
    finish = None
    for chunk in completions.create(model=MODEL, messages=_TURNS, stream=True):
        for choice in chunk.choices:
            finish = choice.finish_reason or finish
            if choice.delta.content:
                yield choice.delta.content
    assert finish == "stop", finish


def _responses(server: Running, http: Any, stream: bool) -> Iterator[str]:
    responses = _openai(server, http).responses
    if not stream:
        yield responses.create(model=MODEL, input=_TURNS).output_text
        return
    last = ""
    for event in responses.create(model=MODEL, input=_TURNS, stream=True):
        last = event.type
        if event.type == "response.output_text.delta":
            yield event.delta
    assert last == "response.completed", last


def _messages(server: Running, http: Any, stream: bool) -> Iterator[str]:
    messages = _anthropic(server, http).messages
    if not stream:
        yield "".join(
            block.text
            for block in messages.create(model=MODEL, max_tokens=99, messages=_TURNS).content
            if block.type == "text"
        )
        return
    last = ""
    for event in messages.create(model=MODEL, max_tokens=99, messages=_TURNS, stream=True):
        last = event.type
        if event.type == "content_block_delta" and event.delta.type == "text_delta":
            yield event.delta.text
    assert last == "message_stop", last


APIS: Final[dict[str, Callable[[Running, Any, bool], Iterator[str]]]] = {
    "chat": _chat,
    "responses": _responses,
    "messages": _messages,
}


def collect(server: Running, api: str) -> str:
    """The text of an answer that comes in one piece."""
    with server.client() as http:
        return "".join(APIS[api](server, http, False))


def pieces(server: Running, api: str) -> Iterator[tuple[str, float]]:
    """Texts of a streamed answer, and when they came; at the end the stream was whole."""
    with server.client() as http:
        for text in APIS[api](server, http, True):
            yield text, time.monotonic()


def converse(server: Running, turns: int) -> list[str]:
    """The answers of so many requests over one WebSocket, each of which goes on with the one before."""
    told, previous = [], None
    with server.client() as http, _openai(server, http).responses.connect() as connection:
        for _ in range(turns):
            more = {} if previous is None else {"previous_response_id": previous}
            connection.response.create(model=MODEL, input=_TURNS, store=False, **more)
            last = next(event for event in connection if event.type in ("response.completed", "error"))
            assert last.type == "response.completed", last
            told.append(last.response.output_text)
            previous = last.response.id
    return told
