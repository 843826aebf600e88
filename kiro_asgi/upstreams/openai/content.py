"""The conversation as messages, attachments among them.

The system text is one ``system`` message: OpenAI takes it for every model, and reads it as ``developer`` where that is
meant, while many other servers know no ``developer``, and take one such message, at the beginning.  Some of them insist
on turns that alternate, so there are no neighbours of one side.  A message of a tool holds nothing but text.

Source: https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any, Final

from attrs import define, evolve, field, frozen

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import (
    Document,
    Image,
    Opaque,
    Part,
    Prompt,
    Role,
    Text,
    ThinkingPart,
    ToolCallPart,
    ToolResult,
)
from kiro_asgi.model.signatures import CALL, GEMINI, read_mark
from kiro_asgi.model.unread import Unread
from kiro_asgi.rendering.attachments import Accepted, Attached, Attachments, document_text, every, same
from kiro_asgi.rendering.names import WireNames
from kiro_asgi.rendering.parts import Block, PartWriter
from kiro_asgi.rendering.strict_turns import Draft, strict_turns
from kiro_asgi.rendering.unread import WriteBack
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.openai.adapting import DETAILED, REPLAYED
from kiro_asgi.upstreams.openai.reasoning import ReasoningDetails, ThinkingSeal, read_details
from kiro_asgi.wire.json import dumps

IMAGES: Final = Accepted(same("image/png", "image/jpeg", "image/webp", "image/gif"), reads=every)
ANY_IMAGES: Final = Accepted(None, reads=every)
"""Of other servers, which may know any format."""

DOCUMENTS: Final = Accepted(None)


def attachments(model: ModelCard, notes: Notes, *, custom: bool) -> Attachments:
    """Those of one request; *custom*: whether the server is another than OpenAI's."""
    return Attachments(notes, ANY_IMAGES if custom else IMAGES, DOCUMENTS, blind="" if model.images else model.id)


def data_url(found: Attached) -> str:
    """An attachment in the form of an address."""
    return found.url or f"data:{found.format};base64,{found.data}"


def filename(part: Document) -> str:
    """The name of a file, which the service wants."""
    return part.title or "document"


MAX_CALL_ID: Final = 40
"""Characters."""

SHORT_CALL_ID: Final = 9
"""The same for Mistral, exactly."""

CALL_IDS: Final = ("auto", "any", "nine")
"""Which ids of calls a server is sent: by `wants_short_ids`, any that OpenAI takes, or nine letters and digits."""

_SHORT_HOST: Final = "mistral.ai"
_SHORT_MODELS: Final = (
    "codestral",
    "devstral",
    "magistral",
    "ministral",
    "mistral",
    "mixtral",
    "open-mistral",
    "open-mixtral",
    "pixtral",
    "voxtral",
)
"""Beginnings of the names of Mistral's models, wherever they run: the chat templates of most refuse other ids."""

FAILED: Final = "The tool call failed."
LIFTED: Final = "(An attachment of this result follows in the next message of the user.)"
LIFTED_FROM: Final = "Attachment of the result of the tool call {}:"

AS_SENT: Final = "auto"

BLANK: Final = " "
"""Thinking of an answer whose own is lost: services that demand some refuse an empty text."""

_SHORT_ID: Final = re.compile(rf"[a-zA-Z0-9]{{{SHORT_CALL_ID}}}")
_CALL_ID: Final = re.compile(rf"[a-zA-Z0-9_.:-]{{1,{MAX_CALL_ID}}}")


def wants_short_ids(call_ids: str, host: str, model: str) -> bool:
    """Whether ids of calls are to be nine letters and digits.

    Args:
        call_ids: One of `CALL_IDS`.
        host: Of the server.
        model: As the server calls it, with or without its owner: ``mistralai/mistral-large``.
    """
    if call_ids != "auto":
        return call_ids == "nine"
    by_host = host == _SHORT_HOST or host.endswith(f".{_SHORT_HOST}")
    return by_host or model.rpartition("/")[2].lower().startswith(_SHORT_MODELS)


@define
class MessageDraft:
    """The parts of a turn, sorted by the members of messages that they belong to."""

    place: str
    texts: list[str] = field(factory=list)
    """Of an answer."""

    refusals: list[str] = field(factory=list)
    thinking: list[str] = field(factory=list)
    member: str = ""
    """In which the client sent it."""

    seal: str = ""
    """Of the thinking: ``reasoning_opaque``."""

    details: ReasoningDetails = field(factory=ReasoningDetails)
    calls: list[Block] = field(factory=list)
    signature: str = ""
    """Of the next call."""

    results: list[Block] = field(factory=list)
    """Messages."""

    lifted: list[Block] = field(factory=list)
    """Attachments of results."""

    content: list[Block] = field(factory=list)
    """The user's own; of an answer, its texts and what is opaque."""

    members: dict[str, Any] = field(factory=dict)
    """Of an answer: what is opaque beside its content, as images are."""

    detailed: bool = False
    """Whether one of them is more than its text, so that they cannot be joined."""


@frozen(kw_only=True)
class MessageWriter(PartWriter[MessageDraft]):
    """Writes the messages of one request."""

    notes: Notes
    names: WireNames
    attachments: Attachments
    write_back: WriteBack
    service: str
    """As of `kiro_asgi.upstreams.openai.request.ChatRenderOptions`."""

    replay_thinking: bool = False
    """Hand thinking that is not sealed back."""

    demands_thinking: bool = False
    """Have some in each earlier answer."""

    thinking_field: str = AS_SENT
    """Member that holds it; `AS_SENT` for the one in which the client sent it."""

    sign_calls: bool = False
    """Hand signatures of calls back as ``extra_content``, as Google's own server of this API wants them."""

    refusals: bool = False
    """Hand refusals back as such, which only OpenAI's own service is known to take; else they are text."""

    short_ids: bool = False
    """Ids of calls are nine letters and digits."""

    def messages(self, prompt: Prompt) -> list[dict[str, Any]]:
        """The messages for *prompt*."""
        ids = WireNames(_CALL_ID, MAX_CALL_ID, "calls.id_changed", self.notes)
        if self.short_ids:
            ids = WireNames(_SHORT_ID, SHORT_CALL_ID, "calls.id_changed", self.notes, joint="0")
        messages = [*self._system(prompt)]
        drafts = strict_turns(prompt.turns, ids, self.notes, self.write_back.api)
        for draft in drafts:
            sorted_parts = MessageDraft(draft.place)
            self.write(draft.parts, sorted_parts)
            made = [*(self._answer(sorted_parts) if draft.role is Role.ASSISTANT else _question(sorted_parts))]
            for message in made:
                if message["role"] == draft.role.value:
                    self.write_back.into(message, self._kept(draft), place=draft.place)
            messages += made
        if not any(message["role"] != "system" for message in messages):
            self.notes.applies("turns.empty")
            messages.append({"role": "user", "content": ""})
        return messages

    def _kept(self, draft: Draft) -> Unread | None:
        """What was not read of a message, without another service's thinking, which OpenAI itself does not take."""
        unread = draft.unread
        if unread is None or DETAILED not in unread.members or self.sign_calls:
            return unread
        self.notes.applies("thinking.dropped", draft.place)
        return evolve(unread, members={name: it for name, it in unread.members.items() if name != DETAILED})

    def _system(self, prompt: Prompt) -> Iterator[dict[str, Any]]:
        """One message, and another for each text that has members of its own."""
        plain, others = self.write_back.system(prompt)
        if plain:
            yield {"role": "system", "content": "\n\n".join(plain)}
        for text, unread in others:
            part = {"type": "text", "text": text}
            message = {"role": "system", "content": part if "content" in unread.members else text}
            self.write_back.into(message, unread, place=prompt.system_place)
            content = message["content"]
            yield {**message, "content": content if isinstance(content, str) else [content]}

    def _answer(self, draft: MessageDraft) -> Iterator[dict[str, Any]]:
        """The assistant's message."""
        text, refusal, details = "\n".join(draft.texts), "\n".join(draft.refusals), draft.details.joined()
        thinking = "\n".join(draft.thinking)
        if not (text.strip() or refusal or draft.calls or draft.detailed or draft.members):
            # servers refuse a message without content, and take thinking for none
            self.notes.applies("thinking.alone_dropped" if thinking or details else "text.blank_dropped", draft.place)
            return
        if self.demands_thinking and not thinking.strip():
            self.notes.applies("thinking.blank", draft.place)
            thinking = BLANK
        members = {
            "refusal": refusal,
            "reasoning_details": details,
            "reasoning_opaque": draft.seal,
            (draft.member or REPLAYED) if self.thinking_field == AS_SENT else self.thinking_field: thinking,
            "tool_calls": draft.calls,
        }
        content: Any = text if text or not (draft.calls or refusal) else None
        if draft.detailed:
            content = draft.content
            del members["refusal"]
        members |= draft.members
        yield {"role": "assistant", "content": content, **{name: value for name, value in members.items() if value}}

    def unread(self, part: Part, into: MessageDraft) -> None:
        """Write its members into the part of a message, the call, or the result's message."""
        if isinstance(part, ThinkingPart) or part.unread is None or part.unread.api != self.write_back.api:
            return
        kept = _KEPT.get(type(part))
        self.write_back.into((into.content if kept is None else kept(into))[-1], part.unread, place=into.place)
        into.detailed = into.detailed or kept is None

    def opaque(self, part: Opaque, into: MessageDraft) -> None:
        """The part as it came."""
        block = self.write_back.opaque(part)
        if block is None:
            super().opaque(part, into)
            return
        if "type" in block:
            into.content.append(block)
            into.detailed = True
        else:  # of the message, not of its content
            into.members |= block

    def text(self, part: Text, into: MessageDraft) -> None:
        """A text."""
        refused = self.refusals and part.is_refusal
        kind = "refusal" if refused else "text"
        into.content.append({"type": kind, kind: part.text})
        (into.refusals if refused else into.texts).append(part.text)

    def image(self, part: Image, into: MessageDraft) -> None:
        """An image, by value or by address: the service fetches it."""
        into.content.append({"type": "image_url", "image_url": {"url": data_url(self.attachments.image(part))}})

    def document(self, part: Document, into: MessageDraft) -> None:
        """A document: one of plain text as text, any other as a file."""
        if part.data or part.url:
            url = data_url(self.attachments.document(part))
            into.content.append({"type": "file", "file": {"filename": filename(part), "file_data": url}})
        else:
            self.notes.applies("documents.inlined", part.place)
            into.content.append({"type": "text", "text": document_text(part)})

    def thinking(self, part: ThinkingPart, into: MessageDraft) -> None:
        """Thinking: the signature of a call, the service's own entries, or a text."""
        mark = read_mark(part.signature)
        if self.sign_calls and (mark.owner, mark.part) == (GEMINI, CALL):
            into.signature = mark.signature
        elif details := [*read_details(part.signature, self.service)]:
            for detail in details:
                into.details.take(detail)
        elif seal := ThinkingSeal.read(part.signature, self.service):
            into.seal = seal.data
            into.thinking += [part.text] if part.text else []
            into.member = seal.member
        elif self.replay_thinking and part.text and not part.signature:
            into.thinking.append(part.text)
            into.member = part.member
        else:
            self.notes.applies("thinking.dropped", into.place)

    def call(self, part: ToolCallPart, into: MessageDraft) -> None:
        """A call, with the signature that stands before it."""
        name, arguments = self.names.wire(part.name, into.place), dumps(dict(part.input)).decode()
        call: Block = {"id": part.call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        if into.signature:
            call["extra_content"] = {"google": {"thought_signature": into.signature}}
            into.signature = ""
        into.calls.append(call)

    def result(self, part: ToolResult, into: MessageDraft) -> None:
        """A result as text; whatever else it holds stands behind all results."""
        held = MessageDraft(into.place)
        self.write(part.parts, held)
        lines: list[str] = []
        texts: list[Block] = []
        for block in held.content:
            if block["type"] == "text":
                lines.append(block["text"])
                texts.append(block)
                continue
            self.notes.applies("results.attachment_lifted", into.place)
            lines.append(LIFTED)
            texts.append({"type": "text", "text": LIFTED})
            into.lifted += ({"type": "text", "text": LIFTED_FROM.format(part.call_id)}, block)
        if part.is_error:
            self.notes.applies("results.error_told", into.place)
            lines.insert(0, FAILED)
            texts.insert(0, {"type": "text", "text": FAILED})
        content = texts if held.detailed else "\n".join(lines)
        into.results.append({"role": "tool", "tool_call_id": part.call_id, "content": content})


_KEPT: Final = MappingProxyType[type, Callable[[MessageDraft], list[Block]]](
    {ToolCallPart: lambda into: into.calls, ToolResult: lambda into: into.results}
)
"""Kind of a part to where it was written, where that is not the content."""


def _question(draft: MessageDraft) -> Iterator[dict[str, Any]]:
    """Results of tools, then their attachments, then the user's own parts: one text where there is nothing else."""
    yield from draft.results
    content = [*draft.lifted, *draft.content]
    if content and not draft.detailed and all(part["type"] == "text" for part in content):  # some servers take no list
        yield {"role": "user", "content": "\n".join(part["text"] for part in content)}
    elif content:
        yield {"role": "user", "content": content}
