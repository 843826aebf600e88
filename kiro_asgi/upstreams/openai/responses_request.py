"""The request body: the conversation as items, tools, and everything else about the answer; and its tokens.

Nothing is stored at the service: everything that it could look up by an id is sent again, reasoning as well.

Source: https://platform.openai.com/docs/api-reference/responses/create
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from attrs import define, field, frozen

from kiro_asgi.model.handling import NO_WORDS
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import (
    TEXT_INPUT,
    Document,
    Image,
    Opaque,
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
from kiro_asgi.model.unread import Unread
from kiro_asgi.rendering.attachments import Attachments, document_text
from kiro_asgi.rendering.content import BodyContent
from kiro_asgi.rendering.names import WireNames
from kiro_asgi.rendering.options import ignored
from kiro_asgi.rendering.parts import Block, PartWriter
from kiro_asgi.rendering.strict_turns import strict_turns
from kiro_asgi.rendering.unread import WriteBack
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.openai.adapting import leave_out
from kiro_asgi.upstreams.openai.content import FAILED, attachments, data_url, filename
from kiro_asgi.upstreams.openai.models import efforts_of
from kiro_asgi.upstreams.openai.reasoning import opened
from kiro_asgi.upstreams.openai.request import (
    WORDS,
    ChatBody,
    as_named,
    form_of,
    max_tokens,
    sampling_options,
    tool_names,
    written_tools,
)
from kiro_asgi.upstreams.openai.service_facts import ServiceFacts, fit
from kiro_asgi.upstreams.openai.thinking import goes_as_sent, reasoning_effort
from kiro_asgi.wire.json import dumps

MAX_CALL_ID: Final = 64
"""Characters."""

API: Final = "openai_responses"
"""Name of the client API that the service speaks."""

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


def document(
    prompt: Prompt,
    model: ModelCard,
    *,
    service: str,
    custom: bool,
    takes_text: bool,
    conversation: str,
    without: Iterable[str],
    unsent: Mapping[str, str],
    facts: ServiceFacts,
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
        unsent: As `kiro_asgi.rendering.unread.WriteBack.without`.
        facts: The service that is asked.

    Raises:
        RequestError: The prompt holds something that the service cannot be asked; the message names the rule.
    """
    notes = Notes()
    for _ in without:
        notes.applies("adapted.field")
    names = tool_names(notes)
    write = WriteBack(API, notes, unsent)
    fields = written_tools(prompt, names, write)
    forms = {
        names.wire(tool.name): tool.text_form for tool in prompt.tools if tool.text_form is not None and takes_text
    }
    tools = _tools(fields, forms)
    items = ItemWriter(
        notes=notes,
        names=names,
        attachments=attachments(model, notes, custom=custom),
        write_back=write,
        service=service,
        texts=frozenset(forms),
    )
    body: dict[str, Any] = {"model": model.id, "input": items.items(prompt), "stream": True, "store": False}
    plain, others = write.system(prompt)
    if plain:
        body["instructions"] = "\n\n".join(plain)
    body["input"][:0] = [_system_message(text, unread, prompt.system_place, write) for text, unread in others]
    given = prompt.unread.members if prompt.unread is not None and prompt.unread.api == API else {}
    body["stream_options"] = {"include_obfuscation": False}
    if conversation and _KEY not in given:
        body[_KEY] = conversation
    if efforts_of(model.id) != ():
        body[INCLUDE] = [*dict.fromkeys((SEALED, *given.get(INCLUDE, ())))]
    body |= _options(prompt, model, notes)
    body |= tools
    if "format" in body.get("text", {}):
        body["text"]["format"] = as_named(body["text"]["format"], prompt.unread, "text", "format")
    said = write.whole(body, prompt, NO_WORDS if custom else WORDS, _BEGUN)
    leave_out(body, without)
    fit(body, facts, notes)
    return ChatBody(body, names.changed(), notes.found(), frozenset(write.written), said)


_KEY: Final = "prompt_cache_key"

_BEGUN: Final = frozenset({"tool_choice"})
"""Members that mean nothing without their type."""


def _system_message(text: str, unread: Unread, place: str, write: WriteBack) -> Block:
    """A message for a system text that has members of its own."""
    message: Block = {"type": "message", "role": "developer", "content": {"type": "input_text", "text": text}}
    write.into(message, unread, place=place)
    return {**message, "content": [message["content"]]}


def _options(prompt: Prompt, model: ModelCard, notes: Notes) -> dict[str, Any]:
    sampling, effort = prompt.sampling, reasoning_effort(prompt, model, notes)
    fields: dict[str, Any] = {"max_output_tokens": _max_tokens(sampling, model, notes)}
    given = sampling_options(sampling, model, notes, thinks=effort != "none")
    fields |= {name: value for name, value in given.items() if name not in _UNKNOWN}
    ignored(sampling, _UNKNOWN, "sampling.unknown", notes)
    if sampling.stop:
        notes.applies("stop.unavailable", "stop")
    if effort:
        shown = effort != "none" and not prompt.thinking.omitted
        said = {"effort": effort, **({"summary": "auto"} if shown else {})}
        own = {name: word for name, word in said.items() if not goes_as_sent(prompt, API, "reasoning", name)}
        fields["reasoning"] = own
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
    tools = [
        _tool(tool, forms) if tool.get("type") == "function" and "function" in tool else tool
        for tool in fields["tools"]
    ]
    choice = fields.get("tool_choice")
    if isinstance(choice, Mapping):
        name = choice["function"]["name"]
        choice = {"type": _CUSTOM if name in forms else "function", "name": name}
    return {**fields, "tools": tools, **({} if choice is None else {"tool_choice": choice})}


def _tool(tool: Mapping[str, Any], forms: Mapping[str, TextForm]) -> dict[str, Any]:
    function = tool["function"]
    more = {name: value for name, value in tool.items() if name not in ("type", "function")}
    form = forms.get(function["name"])
    if form is None:
        return {"type": "function", "strict": False, **function, **more}
    members = {"description": form.description or None, "format": form.format}
    given = {name: value for name, value in members.items() if value is not None}
    return {"type": _CUSTOM, "name": function["name"], **given, **more}


def _nothing_more(message: Block) -> None:
    """Leave *message* as it is."""


@define
class ItemsDraft:
    """The items of a turn, and what is to become the message behind them."""

    role: Role
    place: str
    items: list[Block] = field(factory=list)
    content: list[Block] = field(factory=list)
    """Of a message that has not begun or goes on."""

    phase: str = ""
    """Of that message."""

    more: Callable[[Block], None] = _nothing_more
    """Writes what was not read of the turn into a message of its."""

    def close(self) -> None:
        """Make the message an item."""
        if self.content:
            phase = {"phase": self.phase} if self.phase else {}
            message = {"type": "message", "role": self.role.value, "content": self.content, **phase}
            self.more(message)
            self.items.append(message)
            self.content = []


@frozen(kw_only=True)
class ItemWriter(PartWriter[ItemsDraft]):
    """Writes the items of one request."""

    notes: Notes
    names: WireNames
    attachments: Attachments
    write_back: WriteBack
    service: str
    """As of `document`."""

    texts: frozenset[str] = frozenset()
    """Names of tools that take a text, as they are called here."""

    _of_texts: set[str] = field(init=False, factory=set)
    """Ids of calls of these."""

    def items(self, prompt: Prompt) -> list[Block]:
        """The items for *prompt*."""
        ids = WireNames(_CALL_ID, MAX_CALL_ID, "calls.id_changed", self.notes)
        items: list[Block] = []
        for draft in strict_turns(prompt.turns, ids, self.notes, self.write_back.api):
            more = partial(self.write_back.into, unread=draft.unread, place=draft.place)
            turn = ItemsDraft(draft.role, draft.place, more=more)
            self.write(draft.parts, turn)
            turn.close()
            items += turn.items
        if not items:
            self.notes.applies("turns.empty")
            return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": ""}]}]
        return items

    def unread(self, part: Part, into: ItemsDraft) -> None:
        """Write its members into the part of a message, or the item."""
        if not isinstance(part, ThinkingPart):
            written = into.items if isinstance(part, ToolCallPart | ToolResult) else into.content
            self.write_back.into(written[-1], part.unread, place=into.place)

    def opaque(self, part: Opaque, into: ItemsDraft) -> None:
        """The part of a message, or the item, as it came."""
        block = self.write_back.opaque(part)
        if block is None:
            super().opaque(part, into)
            return
        if part.place.count("[") > 1:
            into.content.append(block)
        else:
            into.close()
            into.items.append(block)

    def text(self, part: Text, into: ItemsDraft) -> None:
        """A text; those of an earlier answer are messages, one for each phase."""
        if into.role is Role.USER:
            into.content.append({"type": "input_text", "text": part.text})
            return
        if not part.text.strip() and part.unread is None:
            self.notes.applies("text.blank_dropped", into.place)
            return
        if part.phase != into.phase:
            into.close()
            into.phase = part.phase
        if part.is_refusal:
            into.content.append({"type": "refusal", "refusal": part.text})
        else:
            given = part.unread.members if part.unread is not None and part.unread.api == API else _NOTHING
            none: dict[str, Any] = {} if "annotations" in given else {"annotations": []}
            into.content.append({"type": "output_text", "text": part.text, **none})

    def image(self, part: Image, into: ItemsDraft) -> None:
        """An image, by value or by address: the service fetches it."""
        url = data_url(self.attachments.image(part))
        into.content.append({"type": "input_image", "image_url": url, "detail": "auto"})

    def document(self, part: Document, into: ItemsDraft) -> None:
        """A document: one of plain text as text, any other as a file."""
        if part.data or part.url:
            url = data_url(self.attachments.document(part))
            into.content.append({"type": "input_file", "filename": filename(part), "file_data": url})
        else:
            self.notes.applies("documents.inlined", part.place)
            into.content.append({"type": "input_text", "text": document_text(part)})

    def thinking(self, part: ThinkingPart, into: ItemsDraft) -> None:
        """Reasoning that the service itself has sealed."""
        item = opened(part.signature, self.service) if self.service else None
        if item is None:
            self.notes.applies("thinking.dropped", into.place)
        else:
            into.close()
            into.items.append(item)

    def call(self, part: ToolCallPart, into: ItemsDraft) -> None:
        """A call; of a tool that takes a text, with its text."""
        into.close()
        name, text = self.names.wire(part.name, into.place), part.input.get(TEXT_INPUT)
        about = {"call_id": part.call_id, "name": name}
        if name in self.texts and type(text) is str:
            self._of_texts.add(part.call_id)
            into.items.append({"type": "custom_tool_call", **about, "input": text})
        else:
            into.items.append({"type": "function_call", **about, "arguments": dumps(dict(part.input)).decode()})

    def result(self, part: ToolResult, into: ItemsDraft) -> None:
        """A result: a text where it holds nothing else."""
        held = ItemsDraft(Role.USER, into.place)
        self.write(part.parts, held)
        if part.is_error:
            self.notes.applies("results.error_told", into.place)
            held.content.insert(0, {"type": "input_text", "text": FAILED})
        output: Any = held.content
        if all(block.keys() == _PLAIN and block["type"] == "input_text" for block in output):
            output = "\n".join(block["text"] for block in output)
        kind = "custom_tool_call_output" if part.call_id in self._of_texts else "function_call_output"
        into.items.append({"type": kind, "call_id": part.call_id, "output": output})


_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})

_PLAIN: Final = frozenset({"type", "text"})
"""Members of a part that can be joined with others."""


def content_of(body: Mapping[str, Any]) -> BodyContent:
    """What *body* holds."""
    found = BodyContent(messages=len(body["input"]), tools=len(body.get("tools", ())))
    found.values += body.get("tools", ())
    found.system += (body["instructions"],) if "instructions" in body else ()
    for item in body["input"]:
        if item.get("type", "message") in _READ_ITEMS:
            _collect_item(item, found)
        else:
            _collect_part(item, found)
    return found


_READ_ITEMS: Final = frozenset(
    {"message", "reasoning", *("function_call", "custom_tool_call", "function_call_output", "custom_tool_call_output")}
)
"""Kinds of items that are written here; any other is the client's own, and may have any members."""

_PICTURES: Final = ("image_url", "result", "output")
"""Members of an item or a part that may be a picture."""


def _collect_item(item: Mapping[str, Any], found: BodyContent) -> None:
    found.results += item.get("type") in ("function_call_output", "custom_tool_call_output")
    found.texts += (item.get("name", ""), item.get("arguments", ""), item.get("input", ""))
    held = item.get("content") or item.get("output") or item.get("summary") or ()
    if isinstance(held, str):
        found.texts.append(held)
        return
    for part in held:
        _collect_part(part, found)


def _collect_part(part: Mapping[str, Any], found: BodyContent) -> None:
    """A part of a message, or an item that is not read, whose members are the client's own."""
    match part.get("type"):
        case "input_image":
            found.images += 1
        case "input_file":
            found.documents += 1
        case "input_text" | "output_text" | "refusal" | "summary_text" | "reasoning_text":
            found.texts.append(part.get("text") or part.get("refusal", ""))
        case _:
            pictures = [name for name in _PICTURES if _is_picture(part.get(name))]
            found.images += len(pictures)
            found.values.append({name: value for name, value in part.items() if name not in pictures})


def _is_picture(value: Any) -> bool:
    """Whether a member of the client's own is a picture: its size says nothing of its tokens."""
    if isinstance(value, Mapping):
        return "image_url" in value
    return isinstance(value, str) and value.startswith(("data:image/", "iVBOR", "/9j/"))
