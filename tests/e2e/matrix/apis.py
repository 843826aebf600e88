"""One way to ask for all APIs: a question goes in, an answer comes out, and it can be handed back.

Everything goes through the official clients, which validate each body and each event.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

import anthropic
import httpx2
import openai
from attrs import frozen
from openai.lib.streaming.chat import ChatCompletionStreamState

__all__ = ["UNREAD", "Answer", "Api", "Call", "Chat", "Failure", "GenerateContent", "Messages", "Responses", "Wants"]

Json = dict[str, Any]

PNG: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""One pixel, 70 bytes, in base64."""

MAX_TOKENS: Final = 4096
RULES: Final = "x-kiro-asgi-rules"
HEADERS: Final = {RULES: "1"}

TOOLS: Final[Mapping[str, Json]] = {
    "get_weather": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "now": {"type": "object", "properties": {}},
}
"""Name to schema."""


SCHEMA: Final[Json] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "integer"}},
    "required": ["city", "degrees"],
    "additionalProperties": False,
}
"""Of an answer that has to have a form."""


UNREAD: Final[Mapping[str, Json]] = {
    "messages": {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}},
    "chat": {"logit_bias": {"50256": -100}},
    "responses": {"service_tier": "ultrafast"},
    "gemini": {"serviceTier": "later"},
}
"""API to a field that the gateway does not read, or whose word it does not know, and that services of the API take."""


@frozen
class Wants:
    """What a client asks for besides an answer."""

    thinking: bool = False
    tools: bool = False
    schema: bool = False
    unread: bool = False
    """What is in `UNREAD`."""


@frozen
class Call:
    """A call of a tool."""

    id: str
    name: str
    arguments: Json


@frozen(kw_only=True)
class Answer:
    """What a client made of an answer."""

    text: str
    refusal: str
    """What stands where the API has a place of its own for the words of a refusal."""

    thinking: str
    calls: tuple[Call, ...]
    stop: str
    """Why it ended, in the API's own word."""

    usage: tuple[int, int, int]
    """Tokens of the prompt, those from a cache among them; of these, the ones from a cache; and of the answer."""

    rules: str
    """What the gateway did to the request, in its own words."""

    echo: list[Any]
    """What the client keeps of it, to be handed back."""


@frozen
class Failure:
    """What a client made of an answer that broke off."""

    error: str
    """The client's class."""

    status: int
    """Of the response; 200 where it broke off in a stream."""

    kind: str
    """Its type, in the API's word."""

    text: str = ""
    """What came before."""


class Api(Protocol):
    """A client of one API."""

    def user(self, text: str, *, image: bool = False) -> list[Any]:
        """A message of the user's."""
        ...

    def results(self, results: Iterable[tuple[Call, str]]) -> list[Any]:
        """What tools gave."""
        ...

    def ask(self, model: str, conversation: list[Any], *, stream: bool, wants: Wants) -> Answer | Failure:
        """The answer to *conversation*."""
        ...


def _tools(parameters: str) -> list[Json]:
    """`TOOLS` with their schemas in a field of this name."""
    return [{"name": name, "description": f"Does {name}.", parameters: schema} for name, schema in TOOLS.items()]


@frozen
class Chat:
    """Chat Completions."""

    client: openai.OpenAI

    def user(self, text: str, *, image: bool = False) -> list[Any]:
        """A message of the user's."""
        picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
        return [{"role": "user", "content": [{"type": "text", "text": text}, picture] if image else text}]

    def results(self, results: Iterable[tuple[Call, str]]) -> list[Any]:
        """What tools gave."""
        return [{"role": "tool", "tool_call_id": call.id, "content": text} for call, text in results]

    def ask(self, model: str, conversation: list[Any], *, stream: bool, wants: Wants) -> Answer | Failure:
        """The answer to *conversation*."""
        create = self.client.chat.completions.with_raw_response.create
        functions = [{"type": "function", "function": tool} for tool in _tools("parameters")]
        question: Json = {"model": model, "messages": conversation, "extra_headers": HEADERS}
        question |= {"tools": functions} if wants.tools else {}
        question |= {"reasoning_effort": "high"} if wants.thinking else {}
        form = {"name": "weather", "strict": True, "schema": SCHEMA}
        question |= {"response_format": {"type": "json_schema", "json_schema": form}} if wants.schema else {}
        question |= {"extra_body": UNREAD["chat"]} if wants.unread else {}
        state: Any = ChatCompletionStreamState()
        text = ""
        try:
            if not stream:
                response = create(**question)
                return self._answer(response.parse(), response.headers)
            response = create(**question, stream=True, stream_options={"include_usage": True})
            with response.parse() as chunks:
                for chunk in chunks:
                    state.handle_chunk(chunk)
                    text += "".join(choice.delta.content or "" for choice in chunk.choices)
            return self._answer(state.current_completion_snapshot, response.headers)
        except openai.APIError as error:
            return _failure(error, text)

    def _answer(self, completion: Any, headers: Mapping[str, str]) -> Answer:
        (choice,) = completion.choices
        message = choice.message.to_dict(exclude_none=True)
        used = completion.usage
        return Answer(
            text=message.get("content") or "",
            refusal=message.get("refusal") or "",
            thinking=message.get("reasoning_content") or "",
            calls=tuple(_call(call["id"], call["function"]) for call in message.get("tool_calls") or ()),
            stop=choice.finish_reason,
            usage=(used.prompt_tokens, used.prompt_tokens_details.cached_tokens, used.completion_tokens),
            rules=headers.get(RULES, ""),
            echo=[message],
        )


@frozen
class Messages:
    """The Messages API."""

    client: anthropic.Anthropic

    def user(self, text: str, *, image: bool = False) -> list[Any]:
        """A message of the user's."""
        picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
        return [{"role": "user", "content": [{"type": "text", "text": text}, picture] if image else text}]

    def results(self, results: Iterable[tuple[Call, str]]) -> list[Any]:
        """What tools gave."""
        blocks = [{"type": "tool_result", "tool_use_id": call.id, "content": text} for call, text in results]
        return [{"role": "user", "content": blocks}]

    def ask(self, model: str, conversation: list[Any], *, stream: bool, wants: Wants) -> Answer | Failure:
        """The answer to *conversation*."""
        question: Json = {"model": model, "max_tokens": MAX_TOKENS, "messages": conversation, "extra_headers": HEADERS}
        question |= {"tools": _tools("input_schema")} if wants.tools else {}
        question |= {"thinking": {"type": "enabled", "budget_tokens": 1024}} if wants.thinking else {}
        form = {"type": "json_schema", "schema": SCHEMA}
        question |= {"output_config": {"format": form}} if wants.schema else {}
        question |= {"extra_body": UNREAD["messages"]} if wants.unread else {}
        text = ""
        try:
            if not stream:
                response = self.client.messages.with_raw_response.create(**question)
                return self._answer(response.parse(), response.headers)
            with self.client.messages.stream(**question) as answer:
                for event in answer:
                    text += event.text if event.type == "text" else ""
                return self._answer(answer.get_final_message(), answer.response.headers)
        except anthropic.APIError as error:
            return _failure(error, text)

    def _answer(self, message: Any, headers: Mapping[str, str]) -> Answer:
        blocks = [block.to_dict() for block in message.content]
        used, refused = message.usage, message.stop_details
        cached = used.cache_read_input_tokens or 0
        return Answer(
            text="".join(block["text"] for block in blocks if block["type"] == "text"),
            refusal=(refused.explanation or "") if refused else "",
            thinking="".join(block["thinking"] for block in blocks if block["type"] == "thinking"),
            calls=tuple(Call(it["id"], it["name"], it["input"]) for it in blocks if it["type"] == "tool_use"),
            stop=message.stop_reason,
            usage=(used.input_tokens + cached, cached, used.output_tokens),
            rules=headers.get(RULES, ""),
            echo=[{"role": "assistant", "content": blocks}],
        )


@frozen
class Responses:
    """The Responses API, by a client that keeps its conversations itself."""

    client: openai.OpenAI

    def user(self, text: str, *, image: bool = False) -> list[Any]:
        """A message of the user's."""
        parts: list[Json] = [{"type": "input_text", "text": text}]
        parts += [{"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"}] * image
        return [{"role": "user", "content": parts}]

    def results(self, results: Iterable[tuple[Call, str]]) -> list[Any]:
        """What tools gave."""
        return [{"type": "function_call_output", "call_id": call.id, "output": text} for call, text in results]

    def ask(self, model: str, conversation: list[Any], *, stream: bool, wants: Wants) -> Answer | Failure:
        """The answer to *conversation*."""
        create = self.client.responses.with_raw_response.create
        question: Json = {"model": model, "input": conversation, "store": False, "extra_headers": HEADERS}
        functions = [{"type": "function", "strict": False, **tool} for tool in _tools("parameters")]
        question |= {"tools": functions} if wants.tools else {}
        question |= {"reasoning": {"effort": "high", "summary": "auto"}} if wants.thinking else {}
        question |= {"include": ["reasoning.encrypted_content"]} if wants.thinking else {}
        form = {"type": "json_schema", "name": "weather", "strict": True, "schema": SCHEMA}
        question |= {"text": {"format": form}} if wants.schema else {}
        question |= {"extra_body": UNREAD["responses"]} if wants.unread else {}
        text = ""
        try:
            if not stream:
                response = create(**question)
                return self._answer(response.parse(), response.headers)
            response = create(**question, stream=True)
            with response.parse() as events:
                for event in events:
                    text += event.delta if event.type == "response.output_text.delta" else ""
            return self._answer(event.response, response.headers)
        except openai.APIError as error:
            return _failure(error, text)

    def _answer(self, response: Any, headers: Mapping[str, str]) -> Answer:
        items = [item.to_dict() for item in response.output]
        parts = [part for item in items if item["type"] == "message" for part in item["content"]]
        used = response.usage
        return Answer(
            text=response.output_text,
            refusal="".join(part["refusal"] for part in parts if part["type"] == "refusal"),
            thinking="".join(part["text"] for item in items if item["type"] == "reasoning" for part in item["summary"]),
            calls=tuple(_call(item["call_id"], item) for item in items if item["type"] == "function_call"),
            stop=response.incomplete_details.reason if response.status == "incomplete" else response.status,
            usage=(used.input_tokens, used.input_tokens_details.cached_tokens, used.output_tokens),
            rules=headers.get(RULES, ""),
            echo=items,
        )


@frozen
class GenerateContent:
    """The Gemini API, by plain HTTP: what Google's clients read is in the grammar of `tests.dialects.gemini`."""

    client: httpx2.Client
    base: str
    key: str

    def user(self, text: str, *, image: bool = False) -> list[Any]:
        """A message of the user's."""
        picture = {"inlineData": {"mimeType": "image/png", "data": PNG}}
        return [{"role": "user", "parts": [{"text": text}, *[picture] * image]}]

    def results(self, results: Iterable[tuple[Call, str]]) -> list[Any]:
        """What tools gave."""
        responses = [{"name": call.name, "response": {"output": text}} for call, text in results]
        return [{"role": "user", "parts": [{"functionResponse": response} for response in responses]}]

    def ask(self, model: str, conversation: list[Any], *, stream: bool, wants: Wants) -> Answer | Failure:
        """The answer to *conversation*."""
        config: Json = {"maxOutputTokens": MAX_TOKENS}
        config |= {"thinkingConfig": {"includeThoughts": True, "thinkingBudget": 1024}} if wants.thinking else {}
        config |= {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA} if wants.schema else {}
        question: Json = {"contents": conversation, "generationConfig": config}
        question |= {"tools": [{"functionDeclarations": _tools("parametersJsonSchema")}]} if wants.tools else {}
        question |= UNREAD["gemini"] if wants.unread else {}
        verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
        address = f"{self.base}/v1beta/models/{model}:{verb}"
        response = self.client.post(address, json=question, headers={**HEADERS, "x-goog-api-key": self.key})
        objects = _objects(response.text) if stream and response.is_success else [response.json()]
        parts = [part for it in objects for one in it.get("candidates", ()) for part in one["content"]["parts"]]
        error = next((it["error"] for it in objects if "error" in it), None)
        if error is not None:
            return Failure("", response.status_code, error["status"], _said(parts))
        return self._answer(objects[-1], parts, response.headers)

    def _answer(self, last: Json, parts: list[Json], headers: Mapping[str, str]) -> Answer:
        used = last["usageMetadata"]
        blocked = last.get("promptFeedback", {}).get("blockReason", "")
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        return Answer(
            text=_said(parts),
            refusal=blocked,
            thinking="".join(part["text"] for part in parts if part.get("thought")),
            calls=tuple(Call(call.get("id", str(at)), call["name"], call["args"]) for at, call in enumerate(calls)),
            stop=blocked or last["candidates"][0]["finishReason"],
            usage=(
                used["promptTokenCount"],
                used.get("cachedContentTokenCount", 0),
                used.get("candidatesTokenCount", 0) + used.get("thoughtsTokenCount", 0),
            ),
            rules=headers.get(RULES, ""),
            echo=[{"role": "model", "parts": parts}],
        )


def _objects(stream: str) -> list[Json]:
    """The objects of a stream; an error stands in it as an event, and as a bare object behind it."""
    events = (event for event in stream.replace("\r\n", "\n").split("\n\n") if event.startswith("data: {"))
    return [json.loads(event.removeprefix("data: ")) for event in events]


def _said(parts: list[Json]) -> str:
    return "".join(part.get("text", "") for part in parts if not part.get("thought"))


def _call(call_id: str, function: Json) -> Call:
    return Call(call_id, function["name"], json.loads(function["arguments"]))


def _failure(error: Any, text: str) -> Failure:
    """What breaks off within a stream has no status as an exception."""
    return Failure(type(error).__name__, getattr(error, "status_code", 200), error.type, text)
