"""The request body: the conversation as items, tools, and everything else about the answer; and its tokens.

Nothing is stored at the service: everything that it could look up by an id is sent again, reasoning as well.

Source: https://platform.openai.com/docs/api-reference/responses/create
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from attrs import field, frozen

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import (
    TEXT_INPUT,
    Part,
    Prompt,
    Role,
    Sampling,
    Text,
    TextForm,
    ThinkingPart,
    ToolCallPart,
    ToolResult,
)
from kiro_asgi.stages.estimate import DOCUMENT_TOKENS, IMAGE_TOKENS, TURN_TOKENS, Estimator
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.openai.adapting import leave_out
from kiro_asgi.upstreams.openai.content import FAILED, AttachmentParts, text_or_attachment
from kiro_asgi.upstreams.openai.models import efforts_of
from kiro_asgi.upstreams.openai.reasoning import opened
from kiro_asgi.upstreams.openai.request import (
    ChatBody,
    form_of,
    max_tokens,
    reasoning_effort,
    sampling_options,
    tool_names,
    written_tools,
)
from kiro_asgi.upstreams.rendering import WireNames
from kiro_asgi.upstreams.strict_turns import Draft, strict_turns
from kiro_asgi.wire.json import dumps

MAX_CALL_ID: Final = 64
"""Characters."""

INCLUDE: Final = "include"
SEALED: Final = "reasoning.encrypted_content"
"""Of the field `INCLUDE`: reasoning comes in a form in which it can be handed back."""

LEAST_TOKENS: Final = 16
"""The least limit of an answer's length that the service takes."""

_CUSTOM: Final = "custom"
"""Type of a tool that takes a text."""

_CALL_ID: Final = re.compile(rf"[a-zA-Z0-9_-]{{1,{MAX_CALL_ID}}}")

_UNKNOWN: Final = ("seed", "presence_penalty", "frequency_penalty", "top_k")
"""Parts of `Sampling` for which the API has no field."""

_INPUT: Final[Mapping[str, str]] = {"text": "input_text", "image_url": "input_image", "file": "input_file"}
"""Kind of a part of Chat Completions to that of this API."""


def document(
    prompt: Prompt,
    model: ModelCard,
    *,
    service: str,
    custom: bool,
    takes_text: bool,
    conversation: str,
    without: Iterable[str],
) -> ChatBody:
    """The request body for *prompt*.

    Args:
        prompt: The request.
        model: The model that is asked.
        service: Name of the upstream, to which its reasoning is handed back; empty where it is not to be.
        custom: Whether the server is another than OpenAI's.
        takes_text: Whether it has tools that take a text.
        conversation: The same for all requests of a conversation; empty for none.
        without: Fields and parts that the service refused, see `kiro_asgi.upstreams.openai.adapting`.

    Raises:
        RequestError: The prompt holds something that the service cannot be asked; the message names the rule.
    """
    notes = Notes()
    for _ in without:
        notes.applies("adapted.field")
    names = tool_names(notes)
    fields = written_tools(prompt, names, notes)
    forms = {
        names.wire(tool.name): tool.text_form for tool in prompt.tools if tool.text_form is not None and takes_text
    }
    tools = _tools(fields, forms)
    items = Items(notes, names, AttachmentParts(notes, model.images, custom), service, frozenset(forms))
    body: dict[str, Any] = {"model": model.id, "input": items.write(prompt), "stream": True, "store": False}
    if system := "\n\n".join(filter(None, prompt.system)):
        body["instructions"] = system
    body["stream_options"] = {"include_obfuscation": False}
    if conversation:
        body["prompt_cache_key"] = conversation
    if efforts_of(model.id) != ():
        body[INCLUDE] = [SEALED]
    body |= _options(prompt, model, notes)
    body |= tools
    leave_out(body, without)
    return ChatBody(body, names.changed(), notes.found())


def _options(prompt: Prompt, model: ModelCard, notes: Notes) -> dict[str, Any]:
    sampling, effort = prompt.sampling, reasoning_effort(prompt, model, notes)
    fields: dict[str, Any] = {"max_output_tokens": _max_tokens(sampling, model, notes)}
    given = sampling_options(sampling, model, notes, thinks=effort != "none")
    fields |= {name: value for name, value in given.items() if name not in _UNKNOWN}
    for name in sampling.given(_UNKNOWN):
        notes.applies("sampling.unknown", name)
    if sampling.stop:
        notes.applies("stop.unavailable", "stop")
    if effort:
        summary = {} if effort == "none" or prompt.thinking.omitted else {"summary": "auto"}
        fields["reasoning"] = {"effort": effort, **summary}
    text: dict[str, Any] = {"verbosity": prompt.verbosity} if prompt.verbosity else {}
    if prompt.schema is not None:
        form = form_of(prompt.schema)
        text["format"] = {"type": form["type"], **form.get("json_schema", {})}
    if text:
        fields["text"] = text
    return {name: value for name, value in fields.items() if value is not None}


def _max_tokens(sampling: Sampling, model: ModelCard, notes: Notes) -> int | None:
    wanted = max_tokens(sampling, model, notes)
    if wanted is None or wanted >= LEAST_TOKENS:
        return wanted
    notes.applies("sampling.max_tokens", "max_tokens")
    return LEAST_TOKENS


def _tools(fields: Mapping[str, Any], forms: Mapping[str, TextForm]) -> dict[str, Any]:
    """The fields about tools of Chat Completions as those of this API, which has no object around a function.

    Those that *forms* name take a text.
    """
    if not fields:
        return {}
    tools = [_tool(tool["function"], forms.get(tool["function"]["name"])) for tool in fields["tools"]]
    choice = fields.get("tool_choice")
    if isinstance(choice, Mapping):
        name = choice["function"]["name"]
        choice = {"type": _CUSTOM if name in forms else "function", "name": name}
    return {**fields, "tools": tools, **({} if choice is None else {"tool_choice": choice})}


def _tool(function: Mapping[str, Any], form: TextForm | None) -> dict[str, Any]:
    if form is None:
        return {"type": "function", **function, "strict": False}
    members = {"description": form.description or None, "format": form.format}
    given = {name: value for name, value in members.items() if value is not None}
    return {"type": _CUSTOM, "name": function["name"], **given}


@frozen
class Items:
    """Writes the items of one request."""

    notes: Notes
    names: WireNames
    attachments: AttachmentParts
    service: str
    """As of `document`."""

    texts: frozenset[str] = frozenset()
    """Names of tools that take a text, as they are called here."""

    _of_texts: set[str] = field(init=False, factory=set)
    """Ids of calls of these."""

    def write(self, prompt: Prompt) -> list[dict[str, Any]]:
        """The items for *prompt*.

        Raises:
            RequestError: A part cannot be sent in this API.
        """
        ids = WireNames(_CALL_ID, MAX_CALL_ID, "calls.id_changed", self.notes)
        drafts = strict_turns(prompt.turns, ids, self.notes)
        if not drafts:
            self.notes.applies("turns.empty")
            return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": ""}]}]
        return [item for draft in drafts for item in self._items(draft)]

    def _items(self, draft: Draft) -> Iterator[dict[str, Any]]:
        if draft.role is Role.USER:
            yield from self._user(draft)
            return
        for kind, parts in groupby(draft.parts, type):
            if kind is Text:
                yield from self._messages(part for part in parts if isinstance(part, Text))
            else:
                for part in parts:
                    yield from self._assistant(part, draft.place)

    def _messages(self, texts: Iterable[Text]) -> Iterator[dict[str, Any]]:
        """Texts of an earlier answer; those of one phase are one message."""
        for phase, parts in groupby(texts, attrgetter("phase")):
            message = {"type": "message", "role": "assistant", "content": [*map(_output_part, parts)]}
            yield {**message, "phase": phase} if phase else message

    def _assistant(self, part: Part, place: str) -> Iterator[dict[str, Any]]:
        match part:
            case ToolCallPart(call_id, name, value):
                yield self._call(call_id, self.names.wire(name, place), value)
            case ThinkingPart(_, signature):
                item = opened(signature, self.service) if self.service else None
                if item is None:
                    self.notes.applies("thinking.dropped", place)
                else:
                    yield item

    def _call(self, call_id: str, name: str, value: Mapping[str, Any]) -> dict[str, Any]:
        about, text = {"call_id": call_id, "name": name}, value.get(TEXT_INPUT)
        if name in self.texts and type(text) is str:
            self._of_texts.add(call_id)
            return {"type": "custom_tool_call", **about, "input": text}
        return {"type": "function_call", **about, "arguments": dumps(dict(value)).decode()}

    def _user(self, draft: Draft) -> Iterator[dict[str, Any]]:
        """Results of tools, then the user's own parts."""
        for part in draft.parts:
            if isinstance(part, ToolResult):
                output = self._result(part, draft.place)
                kind = "custom_tool_call_output" if part.call_id in self._of_texts else "function_call_output"
                yield {"type": kind, "call_id": part.call_id, "output": output}
        content = [self._part(part) for part in draft.parts if not isinstance(part, ToolResult)]
        if content:
            yield {"type": "message", "role": "user", "content": content}

    def _result(self, result: ToolResult, place: str) -> Any:
        """The output of a tool: a text where it holds nothing else."""
        parts = [*map(self._part, result.parts)]
        if result.is_error:
            self.notes.applies("results.error_told", place)
            parts.insert(0, {"type": "input_text", "text": FAILED})
        if all(part["type"] == "input_text" for part in parts):
            return "\n".join(part["text"] for part in parts)
        return parts

    def _part(self, part: Part) -> dict[str, Any]:
        """A part of a user's message, flat where Chat Completions has an object in it."""
        written = text_or_attachment(part, self.attachments)
        kind = written["type"]
        match kind:
            case "image_url":
                return {"type": _INPUT[kind], "image_url": written["image_url"]["url"], "detail": "auto"}
            case "file":
                return {"type": _INPUT[kind], **written["file"]}
        return {"type": _INPUT[kind], "text": written["text"]}


def _output_part(part: Text) -> dict[str, Any]:
    if part.is_refusal:
        return {"type": "refusal", "refusal": part.text}
    return {"type": "output_text", "text": part.text, "annotations": []}


def estimate_tokens(body: Mapping[str, Any], estimator: Estimator) -> float:
    """Tokens that the model reads: texts, tools and calls as JSON, images and files at a fixed price each."""
    texts, tokens = [body.get("instructions", "")], float(TURN_TOKENS * (1 + len(body["input"])))
    for item in body["input"]:
        texts += (item.get("name", ""), item.get("arguments", ""))
    for part in _parts(body):
        match part["type"]:
            case "input_image":
                tokens += IMAGE_TOKENS
            case "input_file":
                tokens += DOCUMENT_TOKENS
            case _:
                texts.append(part.get("text") or part.get("refusal", ""))
    tools = dumps(body.get("tools", []))[1:-1].decode()
    return tokens + estimator.estimate_tokens("".join(texts)) + estimator.estimate_tokens(tools)


def statistics(body: Mapping[str, Any], size: int) -> dict[str, int]:
    """Counts of a *body* that is *size* bytes, and the characters of its system text; none of its texts."""
    items = body["input"]
    return {
        "bytes": size,
        "messages": len(items),
        "tools": len(body.get("tools", ())),
        "tool_results": sum(item["type"] == "function_call_output" for item in items),
        "images": sum(part["type"] == "input_image" for part in _parts(body)),
        "system": len(body.get("instructions", "")),
    }


def _parts(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The contents of all messages and results, and the summaries of reasoning, as parts."""
    for item in body["input"]:
        content = item.get("content") or item.get("output") or item.get("summary") or ()
        if isinstance(content, str):
            yield {"type": "input_text", "text": content}
        else:
            yield from content
