"""Asks in each format, and reads what comes back by a grammar of its own, not by the package's."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from attrs import define, field

from tests.simulator.asking import Answer, call

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FORMATS = ("gemini", "anthropic", "openai")


@define
class Heard:
    """An answer in no format."""

    text: str = ""
    thoughts: str = ""
    calls: list[tuple[str, str]] = field(factory=list)
    """Name and arguments as text."""

    ids: list[str] = field(factory=list)
    signatures: list[str] = field(factory=list)
    stop: str | None = None
    usage: dict[str, Any] = field(factory=dict)
    errors: list[Any] = field(factory=list)
    whole: bool = False
    """Whether the format's own end was there."""

    extra: list[Any] = field(factory=list)
    """What only this format says: citations, grounding, feedback, unknown events."""

    @property
    def arguments(self) -> list[Any]:
        return [json.loads(raw) for _, raw in self.calls]


def events(body: bytes) -> list[tuple[str, Any]]:
    """Name and data of every event; lines end in LF or CRLF, one ``data`` an event."""
    found = []
    for event in body.decode().replace("\r\n", "\n").split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in event.split("\n"))
        assert set(fields) <= {"event", "data"}, fields
        data = fields["data"]
        found.append((fields.get("event", ""), data if data == "[DONE]" else json.loads(data)))
    return found


def hear_gemini(documents: list[Any]) -> Heard:
    heard, before = Heard(), 0
    for document in documents:
        if "error" in document:
            heard.errors.append(document["error"])
            continue
        assert set(document) <= {
            "candidates", "usageMetadata", "modelVersion", "responseId", "promptFeedback", "foo"
        }  # fmt: skip
        heard.extra += [document[name] for name in ("promptFeedback", "foo") if name in document]
        heard.whole |= "promptFeedback" in document
        heard.usage = document.get("usageMetadata", {})
        total = heard.usage.get("totalTokenCount", before)
        assert total >= before, "usage is cumulative"
        before = total
        for candidate in document.get("candidates", ()):
            assert candidate["content"]["role"] == "model"
            assert candidate["index"] == 0
            for part in candidate["content"]["parts"]:
                _gemini_part(heard, part)
            heard.stop = candidate.get("finishReason", heard.stop)
            heard.whole |= "finishReason" in candidate
            heard.extra += [candidate["groundingMetadata"]] if "groundingMetadata" in candidate else []
    return heard


def _gemini_part(heard: Heard, part: dict[str, Any]) -> None:
    if "thoughtSignature" in part:
        heard.signatures.append(part["thoughtSignature"])
    if "functionCall" in part:
        heard.calls.append((part["functionCall"]["name"], json.dumps(part["functionCall"]["args"])))
        heard.ids += [part["functionCall"]["id"]] if "id" in part["functionCall"] else []
    elif "inlineData" in part:
        heard.extra.append(part["inlineData"])
    elif part.get("thought"):
        heard.thoughts += part["text"]
    else:
        heard.text += part["text"]


def hear_anthropic(found: list[tuple[str, Any]]) -> Heard:
    heard, kinds, open_blocks = Heard(), {}, set()
    for at, (name, data) in enumerate(found):
        assert name == data["type"]
        assert (at == 0) == (name == "message_start")
        match data:
            case {"type": "message_start", "message": message}:
                assert (message["content"], message["stop_reason"]) == ([], None)
                heard.usage = message["usage"]
            case {"type": "content_block_start", "index": index, "content_block": block}:
                assert index == len(kinds)
                kinds[index] = block["type"]
                open_blocks.add(index)
                _anthropic_start(heard, block)
            case {"type": "content_block_delta", "index": index, "delta": delta}:
                assert index in open_blocks
                _anthropic_delta(heard, kinds[index], [*kinds.values()][: index + 1].count("tool_use"), delta)
            case {"type": "content_block_stop", "index": index}:
                open_blocks.remove(index)
            case {"type": "message_delta", "delta": delta, "usage": usage}:
                assert not open_blocks
                heard.stop = delta["stop_reason"]
                heard.extra += [delta["stop_sequence"]] if delta["stop_sequence"] else []
                heard.usage = {**heard.usage, **usage}
            case {"type": "message_stop"}:
                assert at == len(found) - 1
                heard.whole = True
            case {"type": "error", "error": error}:
                heard.errors.append(error)
            case {"type": "ping"}:
                pass
            case _:
                heard.extra.append(data)
    return heard


def _anthropic_start(heard: Heard, block: dict[str, Any]) -> None:
    match block:
        case {"type": "tool_use", "id": identity, "name": name, "input": {}}:
            heard.calls.append((name, ""))
            heard.ids.append(identity)
        case {"type": "text", "text": ""} | {"type": "thinking", "thinking": "", "signature": ""}:
            pass
        case _:
            heard.extra.append(block)


def _anthropic_delta(heard: Heard, kind: str, call: int, delta: dict[str, Any]) -> None:
    match kind, delta:
        case "text", {"type": "text_delta", "text": text}:
            heard.text += text
        case "text", {"type": "citations_delta", "citation": citation}:
            heard.extra.append(citation)
        case "thinking", {"type": "thinking_delta", "thinking": text}:
            heard.thoughts += text
        case "thinking", {"type": "signature_delta", "signature": signature}:
            heard.signatures.append(signature)
        case "tool_use", {"type": "input_json_delta", "partial_json": text}:
            name, so_far = heard.calls[call - 1]
            heard.calls[call - 1] = name, so_far + text
        case "server_tool_use", {"type": "input_json_delta"}:
            pass
        case _:
            raise AssertionError((kind, delta))


def hear_openai(found: list[tuple[str, Any]]) -> Heard:
    heard, roles = Heard(), 0
    for at, (name, data) in enumerate(found):
        assert not name
        if data == "[DONE]":
            assert at == len(found) - 1
            heard.whole = True
            continue
        if "error" in data:
            heard.errors.append(data["error"])
            continue
        assert data["object"] == "chat.completion.chunk"
        heard.usage = data.get("usage") or heard.usage
        for choice in data["choices"]:
            assert choice["index"] == 0
            roles += "role" in choice["delta"]
            _openai_delta(heard, choice["delta"])
            heard.stop = choice["finish_reason"] or heard.stop
    assert roles == 1 or heard.errors
    return heard


def _openai_delta(heard: Heard, delta: dict[str, Any]) -> None:
    heard.text += delta.get("content") or ""
    heard.thoughts += delta.get("reasoning_content") or ""
    heard.extra += [delta[name] for name in ("refusal", "annotations", "foo") if delta.get(name)]
    for part in delta.get("tool_calls", ()):
        if "name" in part["function"]:
            assert part.get("index", len(heard.calls)) == len(heard.calls)
            heard.calls.append((part["function"]["name"], part["function"]["arguments"]))
            heard.ids += [part["id"]] if "id" in part else []
        else:
            assert "id" not in part
            index = part.get("index", -1)
            heard.calls[index] = heard.calls[index][0], heard.calls[index][1] + part["function"]["arguments"]


def hear(form: str, body: bytes) -> Heard:
    """A stream."""
    found = events(body)
    if form == "gemini":
        return hear_gemini([data for _, data in found])
    return hear_anthropic(found) if form == "anthropic" else hear_openai(found)


def hear_document(form: str, document: Any) -> Heard:
    """An answer that came whole."""
    if form == "gemini":
        return hear_gemini([document])
    if form == "openai":
        [choice] = document["choices"]
        heard, message = (
            Heard(stop=choice["finish_reason"], usage=document.get("usage", {}), whole=True),
            choice["message"],
        )
        heard.calls = [(it["function"]["name"], it["function"]["arguments"]) for it in message.pop("tool_calls", ())]
        _openai_delta(heard, message)
        return heard
    heard = Heard(stop=document["stop_reason"], usage=document["usage"], whole=True)
    for block in document["content"]:
        match block:
            case {"type": "text", "text": text}:
                heard.text += text
            case {"type": "thinking", "thinking": text, "signature": signature}:
                heard.thoughts += text
                heard.signatures += [signature]
            case {"type": "tool_use", "name": name, "input": arguments}:
                heard.calls.append((name, json.dumps(arguments)))
            case _:
                heard.extra.append(block)
    return heard


def gemini(text: Any, *, stream: bool = True, model: str = "gemini-3-pro-preview", **more: Any) -> tuple[str, Any]:
    """Target and document of a request; *text* is a question, or the contents."""
    contents = [{"role": "user", "parts": [{"text": text}]}] if isinstance(text, str) else text
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    declared = {"name": "get_weather", "description": "Look up current weather.", "parameters": SCHEMA}
    document = {"contents": contents, "tools": [{"functionDeclarations": [declared]}], **more}
    return f"/v1beta/models/{model}:{method}", {name: part for name, part in document.items() if part is not None}


def anthropic(text: Any, *, stream: bool = True, model: str = "claude-sonnet-4-5", **more: Any) -> tuple[str, Any]:
    """Target and document of a request; *text* is a question, or the messages."""
    messages = [{"role": "user", "content": text}] if isinstance(text, str) else text
    tools = [{"name": "get_weather", "description": "Look up current weather.", "input_schema": SCHEMA}]
    document = {"model": model, "max_tokens": 4096, "messages": messages, "stream": stream, "tools": tools, **more}
    return "/v1/messages", {name: part for name, part in document.items() if part is not None}


def openai(text: Any, *, stream: bool = True, model: str = "gpt-4o", **more: Any) -> tuple[str, Any]:
    """Target and document of a request; *text* is a question, or the messages."""
    messages = [{"role": "user", "content": text}] if isinstance(text, str) else text
    function = {"name": "get_weather", "description": "Look up current weather.", "parameters": SCHEMA}
    options = {"stream_options": {"include_usage": True}} if stream else {}
    tools = [{"type": "function", "function": function}]
    document = {"model": model, "messages": messages, "stream": stream, **options, "tools": tools, **more}
    return "/v1/chat/completions", {name: part for name, part in document.items() if part is not None}


REQUESTS: dict[str, Callable[..., tuple[str, Any]]] = {"gemini": gemini, "anthropic": anthropic, "openai": openai}
HEADERS = {
    "gemini": {"x-goog-api-key": "key"},
    "anthropic": {"x-api-key": "key", "anthropic-version": "2023-06-01"},
    "openai": {"authorization": "Bearer key"},
}


def ask(url: str, form: str, text: Any, *, timeout: float = 5.0, **options: Any) -> Answer:
    """Ask in the format *form*."""
    target, document = REQUESTS[form](text, **options)
    return call(url, target, document, headers=HEADERS[form], timeout=timeout)


def heard(url: str, form: str, text: Any, *, stream: bool = True, **options: Any) -> Heard:
    """Ask in the format *form*, and read the answer, which must be one."""
    answer = ask(url, form, text, stream=stream, **options)
    assert (answer.status, answer.ending) == (200, "complete"), answer.body
    return hear(form, answer.body) if stream else hear_document(form, answer.json)
