"""Sort the parts of a prompt into drafts; a draft is one message before it is written.

Parts go where they belong whichever turn they stand in: images, documents and results are the user's, calls and
thinking the assistant's.  Images and documents are sent by value, in a handful of formats.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from attrs import define, field, frozen

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import (
    Document,
    Image,
    Prompt,
    Role,
    Text,
    ThinkingPart,
    ToolCallPart,
    ToolResult,
    Turn,
    essence,
)
from kiro_asgi.model.signatures import read_mark
from kiro_asgi.rendering.attachments import document_text, image_type, instead_of_address, is_base64, plain_base64
from kiro_asgi.rendering.names import WireNames
from kiro_asgi.rendering.refusal import refusal
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.kiro.rules.texts import Texts, is_blank

IMAGE_FORMATS: Final[Mapping[str, str]] = MappingProxyType(
    {"image/png": "png", "image/jpeg": "jpeg", "image/jpg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
)

DOCUMENT_FORMATS: Final[Mapping[str, str]] = MappingProxyType(
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

MAX_IMAGE: Final = 10_000_000
"""Bytes; the number that the service's own open-source client stops at."""

MAX_NAME: Final = 100
"""Characters of a document's title that become part of its name."""

_NOT_IN_TITLE: Final = re.compile(r"[^a-zA-Z0-9 ()\[\]-]+")


def require_images(model: ModelCard, images: list[Image], notes: Notes) -> None:
    """Stop where there are images for a model that takes none.

    Raises:
        RequestError: There are.
    """
    if images and not model.images and "images.model" not in notes.off:
        raise refusal("images.model", f"{model.id} takes no images", images[0].place)


@define
class AttachmentWriter:
    """Writes the images and documents of one request.

    Raises:
        RequestError: An address instead of bytes (what `fetch.allow` names is fetched before), data that is not base64,
            an unknown format, or an image that is too large.
    """

    _notes: Notes
    _documents: int = field(init=False, default=0)

    def image(self, part: Image) -> dict[str, Any]:
        """One entry of ``images``.  The service refuses one whose bytes are of another format."""
        if part.url and "images.address" not in self._notes.off:
            what = f"images by address are not fetched; {instead_of_address(part.url)}"
            raise refusal("images.address", what, part.place)
        data = self._base64(part, part.data)
        self._require_size(part, data)
        declared = IMAGE_FORMATS.get(essence(part.media_type), "")
        found = IMAGE_FORMATS.get(image_type(data), declared)
        if declared and found != declared and not self._notes.applies("images.mismatch", part.place):
            found = declared
        if not found and "images.format" not in self._notes.off:
            known = ", ".join(dict.fromkeys(IMAGE_FORMATS.values()))
            raise refusal(
                "images.format", f"image format {part.media_type[:40]!r}; the service takes {known}", part.place
            )
        return {"format": found or essence(part.media_type), "source": {"bytes": data}}

    def document(self, part: Document) -> dict[str, Any]:
        """One entry of ``documents``."""
        if part.url and "documents.address" not in self._notes.off:
            what = f"documents by address are not fetched; {instead_of_address(part.url)}"
            raise refusal("documents.address", what, part.place)
        data = part.data or b64encode(part.text.encode("utf-8", "replace")).decode()
        kind = DOCUMENT_FORMATS.get(essence(part.media_type), "")
        if not kind and "documents.format" not in self._notes.off:
            known = ", ".join(DOCUMENT_FORMATS.values())
            raise refusal(
                "documents.format", f"document format {part.media_type[:40]!r}; the service takes {known}", part.place
            )
        return {
            "name": self._name(part),
            "format": kind or essence(part.media_type),
            "source": {"bytes": self._base64(part, data)},
        }

    def _base64(self, part: Image | Document, data: str) -> str:
        """*data* in the one form that every decoder reads."""
        rule = "attachments.base64"
        if part.url or is_base64(data) or rule in self._notes.off:
            return data
        plain = plain_base64(data)
        if not plain:
            raise refusal(rule, "data that is not base64", part.place)
        self._notes.applies(rule, part.place)
        return plain

    def _require_size(self, part: Image, data: str) -> None:
        size = len(data) * 3 // 4
        if size > MAX_IMAGE and "images.size" not in self._notes.off:
            raise refusal("images.size", f"{size:,} bytes where {MAX_IMAGE:,} are taken", part.place)

    def _name(self, part: Document) -> str:
        """The title as far as the service takes it, and a number that keeps names apart."""
        self._documents += 1
        if not self._notes.applies("documents.renamed", part.place):
            return part.title
        title = " ".join(_NOT_IN_TITLE.sub(" ", part.title).split())[:MAX_NAME]
        return f"{title or 'document'} {self._documents}"


@frozen(eq=False)
class Lifted:
    """Parts that were moved from a tool's result to the message."""

    result: dict[str, Any]
    images: Sequence[dict[str, Any]]
    documents: Sequence[dict[str, Any]]


@define(eq=False)
class MessageDraft:
    """One message to be."""

    role: Role
    place: str = ""
    """Where the turn stands in the client's request; of several that became one, the first."""

    text: str = ""
    images: Sequence[dict[str, Any]] = ()
    documents: Sequence[dict[str, Any]] = ()
    lifted: Sequence[Lifted] = ()
    """The images and documents that come from results."""

    results: list[dict[str, Any]] = field(factory=list)
    calls: list[dict[str, Any]] = field(factory=list)
    thinking: list[dict[str, Any]] = field(factory=list)


NO_OUTPUT: Final = "The tool gave no output."
IMAGE_ATTACHED: Final = "Image {} of this conversation is attached to this message."
DOCUMENT_ATTACHED: Final = 'The document "{}" is attached to this message.'
PLACED: Final = "(Here stands image {} of this conversation.)"
LEFT_OUT: Final = "An image that stood here was left out: there are newer ones, and too many."

BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")

OWNERS: Final[Mapping[type, Role]] = MappingProxyType(
    {
        Image: Role.USER,
        Document: Role.USER,
        ToolResult: Role.USER,
        ThinkingPart: Role.ASSISTANT,
        ToolCallPart: Role.ASSISTANT,
    }
)
"""Parts that only one side can have; text belongs to the role of its turn."""


@define
class Drafting:
    """Writes the turns of one request, parts by the table at the end.

    Raises:
        RequestError: An image or a document that the service does not take.
    """

    notes: Notes
    names: WireNames
    texts: Texts
    attachments: AttachmentWriter
    surplus: int = 0
    """How many images to leave out, from the oldest on."""

    replay_thinking: bool = True
    _place: str = field(init=False, default="")
    _images: int = field(init=False, default=0)
    """Images so far.  Texts number them from the beginning, so that earlier texts stay the same in every request."""

    _apart: bool = field(init=False, default=False)
    """Whether text stands between the images of the turn."""

    def write(self, prompt: Prompt) -> list[MessageDraft]:
        """The prompt's turns as drafts, in order; neighbours may have the same role."""
        drafts: list[MessageDraft] = []
        for turn in prompt.turns:
            self._place = turn.place
            self._turn(turn, drafts)
        return drafts

    def _turn(self, turn: Turn, drafts: list[MessageDraft]) -> None:
        draft: MessageDraft | None = None
        texts: list[str] = []
        self._apart = len(turn.parts) > 2 and _apart(turn)
        for part in turn.parts:
            kind = type(part)
            role = OWNERS.get(kind, turn.role)
            if role is not turn.role and not self.notes.applies("turns.part_moved", turn.place):
                role = turn.role
            if draft is None or role is not draft.role:
                self._close(draft, texts)
                draft, texts = MessageDraft(role, turn.place), []
                drafts.append(draft)
            if text := WRITERS[kind](self, part, draft):
                texts.append(text)
        self._close(draft, texts)

    def _close(self, draft: MessageDraft | None, texts: list[str]) -> None:
        if draft is None or not texts:
            return
        draft.text = texts[0] if len(texts) == 1 else "\n".join(texts)
        if draft.role is Role.ASSISTANT:
            draft.text = self.texts.without_thinking(draft.text, draft.place)

    def _text(self, part: Text, into: MessageDraft) -> str:
        return self.texts.clean(part.text, self._place)

    def _image(self, part: Image, into: MessageDraft) -> str:
        self._images += 1
        if self.surplus > 0:
            self.surplus -= 1
            if self.notes.applies("images.limit", part.place):
                return LEFT_OUT
        into.images = [*into.images, self.attachments.image(part)]
        return ""

    def _placed_image(self, part: Image, into: MessageDraft) -> str:
        """An image of the user's own; a remark stands in its place where text stands between it and another."""
        text = self._image(part, into)
        if text or not (self._apart and self.notes.applies("images.placed", part.place)):
            return text
        return PLACED.format(self._images)

    def _document(self, part: Document, into: MessageDraft) -> str:
        if part.text and not part.data and self.notes.applies("documents.inlined", part.place):
            return self.texts.clean(document_text(part), part.place)
        into.documents = [*into.documents, self.attachments.document(part)]
        return ""

    def _thinking(self, part: ThinkingPart, into: MessageDraft) -> str:
        rule = self._unfit(part)
        if not rule or not self.notes.applies(rule, self._place):
            into.thinking.append(_thought(part))
        return ""

    def _unfit(self, part: ThinkingPart) -> str:
        """The rule by which earlier thinking is not handed back; empty if it is."""
        if not self.replay_thinking:
            return "thinking.dropped"
        if part.redacted:
            return "" if BASE64.fullmatch(part.redacted) else "thinking.malformed_dropped"
        if not part.signature or read_mark(part.signature).owner:
            return "thinking.unsigned_dropped"
        return "" if part.text else "thinking.malformed_dropped"

    def _call(self, part: ToolCallPart, into: MessageDraft) -> str:
        arguments: Any = part.input
        if type(arguments) is not dict and isinstance(arguments, Mapping):
            arguments = {**arguments}
        if type(arguments) is not dict and self.notes.applies("calls.input_wrapped", self._place):
            arguments = {"input": arguments}
        if _has_empty_key(arguments) and self.notes.applies("calls.empty_keys", self._place):
            arguments = _without_empty_keys(arguments)
        name = self.names.wire(part.name, self._place)
        into.calls.append({"toolUseId": part.call_id, "name": name, "input": arguments})
        return ""

    def _result(self, part: ToolResult, into: MessageDraft) -> str:
        images, documents = len(into.images), len(into.documents)
        content = [{"text": text} for inner in part.parts if (text := self._result_text(inner, into))]
        if not content and self.notes.applies("results.no_output", self._place):
            content = [{"text": NO_OUTPUT}]
        result = {"toolUseId": part.call_id, "status": "error" if part.is_error else "success", "content": content}
        into.results.append(result)
        if len(into.images) > images or len(into.documents) > documents:
            into.lifted = [*into.lifted, Lifted(result, into.images[images:], into.documents[documents:])]
        return ""

    def _result_text(self, part: Text | Image | Document, into: MessageDraft) -> str:
        """The text of one part of a result; any other part moves to the message, and a sentence replaces it."""
        text = self._image(part, into) if isinstance(part, Image) else WRITERS[type(part)](self, part, into)
        if text or isinstance(part, Text) or not self.notes.applies("results.attachment_lifted", part.place):
            return text
        if isinstance(part, Image):
            return IMAGE_ATTACHED.format(self._images)
        return DOCUMENT_ATTACHED.format(into.documents[-1]["name"])


def _apart(turn: Turn) -> bool:
    """Whether there is text between two images of *turn*."""
    images = [index for index, part in enumerate(turn.parts) if type(part) is Image]
    between = turn.parts[images[0] : images[-1]] if images else ()
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


WRITERS: Final[Mapping[type, Callable[[Drafting, Any, MessageDraft], str]]] = MappingProxyType(
    {
        Text: Drafting._text,
        Image: Drafting._placed_image,
        Document: Drafting._document,
        ThinkingPart: Drafting._thinking,
        ToolCallPart: Drafting._call,
        ToolResult: Drafting._result,
    }
)
"""Part to its writer, which adds it to a draft and returns what belongs to the text."""
