"""Writes turns that are in order as messages, each a draft until it is put into the request.

Images and documents are sent by value, in a handful of formats.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from attrs import define, field

from kiro_asgi.model.notes import Note, Notes
from kiro_asgi.model.prompt import Document, Image, Opaque, Part, Role, Text, ThinkingPart, ToolCallPart, ToolResult
from kiro_asgi.model.signatures import read_mark
from kiro_asgi.rendering.attachments import Accepted, Attachments, by_subtype, document_text
from kiro_asgi.rendering.names import WireNames
from kiro_asgi.rendering.parts import Block, PartWriter
from kiro_asgi.rendering.refusal import refusal
from kiro_asgi.rendering.strict_turns import Draft
from kiro_asgi.upstreams.kiro.rules.kept import Message, are_same
from kiro_asgi.upstreams.kiro.rules.texts import Texts, is_blank
from kiro_asgi.wire.json import as_object

IMAGES: Final = Accepted(by_subtype("image/png", "image/jpeg", "image/gif", "image/webp"))

DOCUMENTS: Final = Accepted(
    MappingProxyType(
        {
            "application/pdf": "pdf",
            "application/msword": "doc",
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
            "application/vnd.ms-excel": "xls",
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
            "text/csv": "csv",
            "text/html": "html",
            "text/markdown": "md",
            "text/plain": "txt",
        }
    )
)

MAX_IMAGE: Final = 10_000_000
"""Bytes; the number that the service's own open-source client stops at."""

MAX_NAME: Final = 100
"""Characters of a document's title that become part of its name."""

_NOT_IN_TITLE: Final = re.compile(r"[^a-zA-Z0-9 ()\[\]-]+")


@define(eq=False)
class MessageDraft:
    """One message to be."""

    role: Role
    place: str = ""
    """Where the turn stands in the client's request; of several that became one, the first."""

    text: str = ""
    lines: list[str] = field(factory=list)
    """Texts while they are gathered."""

    images: list[Block] = field(factory=list)
    documents: list[Block] = field(factory=list)
    results: list[Block] = field(factory=list)
    calls: list[Block] = field(factory=list)
    thinking: list[Block] = field(factory=list)
    written: Written | None = None
    """What is kept of it for later prompts; `None` where nothing is."""


@define(eq=False)
class Written:
    """A message of the history as it was written for an earlier prompt."""

    draft: MessageDraft
    """Nobody changes it, or its lists."""

    item: Message | None = None
    """What it is in the history, once it was there."""

    _before: Sequence[Written] = ()
    _joined: Written | None = None
    """What became of these and it together.  It refers to what stands before it, which is kept as long as it is."""

    def again(self) -> MessageDraft:
        """A draft as it was."""
        own = self.draft
        return MessageDraft(
            own.role, own.place, own.text, results=own.results, calls=own.calls, thinking=own.thinking, written=self
        )

    def is_still(self, draft: MessageDraft) -> bool:
        """Whether nothing was done to *draft*, which began as this."""
        own = self.draft
        return (
            draft.text is own.text
            and draft.results is own.results
            and draft.calls is own.calls
            and draft.thinking is own.thinking
            and not (draft.images or draft.documents)
        )

    def joined(self, before: Sequence[Written]) -> MessageDraft | None:
        """What `join` was told of *before* and it; ``None`` where that is not known."""
        return self._joined.again() if self._joined is not None and are_same(before, self._before) else None

    def join(self, before: Sequence[Written], draft: MessageDraft) -> MessageDraft:
        """Keep *draft*, which became of *before* and it, in place of what became of those; returns one like it."""
        for each in before:
            each._before, each._joined = (), None
        self._before, self._joined = before, Written(draft)
        return self._joined.again()


@define(eq=False)
class WrittenTurn(Written):
    """A message as it was written of one turn."""

    purpose: tuple[object, ...] = field(kw_only=True)
    """As of `MessageWriter`."""

    parts: tuple[Part, ...] = field(kw_only=True)
    names: Sequence[str] = field(kw_only=True)
    """Of the tools that it calls, the client's and the wire's."""

    notes: Sequence[Note] = field(kw_only=True)

    def is_of(self, parts: Sequence[Part], purpose: tuple[object, ...]) -> bool:
        """Whether it was written of the very same *parts* for the same *purpose*."""
        return are_same(parts, self.parts) and purpose == self.purpose


NO_OUTPUT: Final = "The tool gave no output."
IMAGE_ATTACHED: Final = "Image {} of this conversation is attached to this message."
DOCUMENT_ATTACHED: Final = 'The document "{}" is attached to this message.'
PLACED: Final = "(Here stands image {} of this conversation.)"
LEFT_OUT: Final = "An image that stood here was left out: there are newer ones, and too many."

BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


@define
class MessageWriter(PartWriter[MessageDraft]):
    """Writes the turns of one request.

    Raises:
        RequestError: An image or a document that the service does not take.
    """

    notes: Notes
    names: WireNames
    texts: Texts
    attachments: Attachments
    surplus: int = 0
    """How many images to leave out, from the oldest on."""

    replay_thinking: bool = True
    purpose: tuple[object, ...] = ()
    """All that a message depends on beside its parts, and the names and images of others."""

    _images: int = field(init=False, default=0)
    """Images so far.  Texts number them from the beginning, so that earlier texts stay the same in every request."""

    _documents: int = field(init=False, default=0)
    _apart: bool = field(init=False, default=False)
    """Whether text stands between the images of the turn."""

    def messages(self, drafts: Iterable[Draft]) -> list[MessageDraft]:
        """One message for each turn, in order; neighbours may have the same role."""
        return [*map(self._message, drafts)]

    def _message(self, draft: Draft) -> MessageDraft:
        if draft.turn is None or not draft.turn.kept.lasts:
            return self._new(draft)
        if (written := self._known(draft)) is not None:
            self.notes.again(written.notes)
            return written.again()
        attached = self._images, self._documents
        with self.notes.logged() as notes:
            message = self._new(draft)
        names = [part.name for part in draft.parts if type(part) is ToolCallPart]
        if attached != (self._images, self._documents) or not self._are_plain(names, draft.place):
            return message  # it depends on what stands before it
        if not {*map(id, draft.parts)} <= {*map(id, draft.turn.parts)}:
            return message  # it holds a result of another turn, which may be forgotten before this one
        written = WrittenTurn(message, purpose=self.purpose, parts=tuple(draft.parts), names=names, notes=notes)
        draft.turn.kept.made = written
        return written.again()

    def _known(self, draft: Draft) -> WrittenTurn | None:
        """What *draft* became in an earlier request, where it becomes the same now."""
        kept = None if draft.turn is None else draft.turn.kept.made
        if not isinstance(kept, WrittenTurn) or not kept.is_of(draft.parts, self.purpose):
            return None
        return kept if self._are_plain(kept.names, draft.place) else None

    def _are_plain(self, names: Iterable[str], place: str) -> bool:
        """Whether tools that are called at *place* have these *names* on the wire, too."""
        return all(self.names.wire(name, place) == name for name in names)

    def _new(self, draft: Draft) -> MessageDraft:
        message = MessageDraft(draft.role, draft.place)
        self._apart = len(draft.parts) > 2 and _apart(draft.parts)
        self.write(draft.parts, message)
        message.text = "\n".join(message.lines)
        if message.role is Role.ASSISTANT:
            message.text = self.texts.without_thinking(message.text, message.place)
        return message

    def text(self, part: Text, into: MessageDraft) -> None:
        """A text."""
        _say(self.texts.clean(part.text, into.place), into)

    def image(self, part: Image, into: MessageDraft) -> None:
        """An image of the user's own; a remark stands in its place where text stands between it and another."""
        text = self._attach_image(part, into)
        if not text and self._apart and self.notes.applies("images.placed", part.place):
            text = PLACED.format(self._images)
        _say(text, into)

    def _attach_image(self, part: Image, into: MessageDraft) -> str:
        """Attach the image; returns what stands in its place if there are too many.

        The service refuses one whose bytes are of another format.
        """
        self._images += 1
        if self.surplus > 0:
            self.surplus -= 1
            if self.notes.applies("images.limit", part.place):
                return LEFT_OUT
        found = self.attachments.image(part)
        size = len(found.data) * 3 // 4
        if size > MAX_IMAGE and "images.size" not in self.notes.off:
            raise refusal("images.size", f"{size:,} bytes where {MAX_IMAGE:,} are taken", part.place)
        into.images.append({"format": found.format, "source": {"bytes": found.data}})
        return ""

    def document(self, part: Document, into: MessageDraft) -> None:
        """A document; one of plain text is text."""
        _say(self._attach_document(part, into), into)

    def _attach_document(self, part: Document, into: MessageDraft) -> str:
        """Attach the document; returns the text that one of plain text becomes."""
        if part.text and not part.data and self.notes.applies("documents.inlined", part.place):
            return self.texts.clean(document_text(part), part.place)
        found = self.attachments.document(part)
        data = found.data or b64encode(part.text.encode("utf-8", "replace")).decode()
        into.documents.append({"name": self._name(part), "format": found.format, "source": {"bytes": data}})
        return ""

    def _name(self, part: Document) -> str:
        """The title as far as the service takes it, and a number that keeps names apart."""
        self._documents += 1
        if not self.notes.applies("documents.renamed", part.place):
            return part.title
        title = " ".join(_NOT_IN_TITLE.sub(" ", part.title).split())[:MAX_NAME]
        return f"{title or 'document'} {self._documents}"

    def thinking(self, part: ThinkingPart, into: MessageDraft) -> None:
        """Thinking that the service has signed."""
        rule = self._unfit(part)
        if not rule or not self.notes.applies(rule, into.place):
            into.thinking.append(_thought(part))

    def _unfit(self, part: ThinkingPart) -> str:
        """The rule by which earlier thinking is not handed back; empty if it is."""
        if not self.replay_thinking:
            return "thinking.dropped"
        if part.redacted:
            return "" if BASE64.fullmatch(part.redacted) else "thinking.malformed_dropped"
        if not part.signature or read_mark(part.signature).owner:
            return "thinking.unsigned_dropped"
        return "" if part.text else "thinking.malformed_dropped"

    def call(self, part: ToolCallPart, into: MessageDraft) -> None:
        """A call."""
        arguments: Any = part.input
        if type(arguments) is not dict and isinstance(arguments, Mapping):
            arguments = {**arguments}
        if type(arguments) is not dict and self.notes.applies("calls.input_wrapped", into.place):
            arguments = as_object(arguments)
        if _has_empty_key(arguments) and self.notes.applies("calls.empty_keys", into.place):
            arguments = _without_empty_keys(arguments)
        name = self.names.wire(part.name, into.place)
        into.calls.append({"toolUseId": part.call_id, "name": name, "input": arguments})

    def result(self, part: ToolResult, into: MessageDraft) -> None:
        """A result, which is text; whatever else it holds moves to the message, and a sentence replaces it."""
        content = [{"text": text} for inner in part.parts if (text := self._held(inner, into))]
        if not content and self.notes.applies("results.no_output", into.place):
            content = [{"text": NO_OUTPUT}]
        status = "error" if part.is_error else "success"
        into.results.append({"toolUseId": part.call_id, "status": status, "content": content})

    def _held(self, part: Text | Image | Document | Opaque, into: MessageDraft) -> str:
        """The text of one part of a result."""
        match part:
            case Text():
                return self.texts.clean(part.text, into.place)
            case Image():
                text = self._attach_image(part, into)
                attached = IMAGE_ATTACHED.format(self._images)
            case Document():
                text = self._attach_document(part, into)
                attached = "" if text else DOCUMENT_ATTACHED.format(into.documents[-1]["name"])
            case Opaque():
                return ""
        return text or (attached if self.notes.applies("results.attachment_lifted", part.place) else "")


def _say(text: str, into: MessageDraft) -> None:
    if text:
        into.lines.append(text)


def _apart(parts: Sequence[Part]) -> bool:
    """Whether there is text between two images of a turn."""
    images = [index for index, part in enumerate(parts) if type(part) is Image]
    between = parts[images[0] : images[-1]] if images else ()
    return any(type(part) is Text and not is_blank(part.text) for part in between)


def _thought(part: ThinkingPart) -> dict[str, Any]:
    if part.redacted:
        return {"redactedContent": part.redacted}
    signature = {"signature": part.signature} if part.signature else {}
    return {"reasoningText": {"text": part.text, **signature}}


def _has_empty_key(value: Any) -> bool:
    if type(value) is dict:
        return "" in value or any(type(part) in (dict, list) and _has_empty_key(part) for part in value.values())
    return type(value) is list and any(map(_has_empty_key, value))


def _without_empty_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_empty_keys(part) for key, part in value.items() if key}
    return [*map(_without_empty_keys, value)] if isinstance(value, list) else value
