"""Parts of a prompt as content blocks, with as many marks for the prompt cache as the service takes.

Sources: https://docs.anthropic.com/en/api/messages,
https://platform.claude.com/docs/en/build-with-claude/prompt-caching
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve, field, frozen

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import (
    REMEMBERED,
    Document,
    Image,
    Part,
    Prompt,
    Role,
    Text,
    ThinkingPart,
    ToolCallPart,
    ToolResult,
    Turn,
)
from kiro_asgi.model.signatures import read_mark
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.errors import refusal
from kiro_asgi.upstreams.headers import essence
from kiro_asgi.upstreams.rendering import WireNames, image_type, is_base64, plain_base64

MARK: Final = "cache_control"
MOST: Final = 4
"""Marks of one request; the mark of the whole request counts as one."""


def marked(block: dict[str, Any], mark: str) -> dict[str, Any]:
    """*block* with the *mark* that its part has in the prompt."""
    if not mark:
        return block
    return {**block, MARK: {"type": "ephemeral", **({} if mark == REMEMBERED else {"ttl": mark})}}


def bounded(body: Mapping[str, Any], blocks: Iterable[dict[str, Any]], notes: Notes) -> None:
    """Remove the first marks from *body* where there are too many: a later one covers more of the prompt.

    Args:
        body: All but the blocks of messages is searched for marks.
        blocks: Blocks of messages that have one, in their order.
        notes: Gets the rules that applied.
    """
    places = [part for part in (*body.get("tools", ()), *body.get("system", ())) if MARK in part]
    places += blocks
    for part in places[: max(len(places) + (MARK in body) - MOST, 0)]:
        notes.applies("cache.limit")
        del part[MARK]


IMAGE_TYPES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")

PDF: Final = "application/pdf"

_Inner = Text | Image | Document

TEXTS: Final = ("application/json", "application/xml", "application/yaml", "application/x-yaml")
"""Media types of texts that do not begin with ``text/``."""


def sendable(prompt: Prompt, notes: Notes, *, replay_thinking: bool) -> Iterator[Turn]:
    """The turns with those of their parts that can be sent to the service; a turn may be left empty."""
    for turn in prompt.turns:
        parts = (_prepared(part, turn, notes) for part in turn.parts)
        kept = (part for part in parts if _is_sendable(part, turn.place, notes, replay_thinking))
        yield evolve(turn, parts=tuple(kept))


def _prepared(part: Part, turn: Turn, notes: Notes) -> Part:
    """*part*, in place of an empty document its title; a result loses its blank texts."""
    if type(part) is ToolResult:
        inner = (_without_search_block(_titled(each), part.is_error) for each in part.parts)
        return evolve(part, parts=tuple(each for each in inner if _is_sendable(each, turn.place, notes)))
    if type(part) is Text:
        return _without_search_block(part, turn.role is Role.ASSISTANT)
    return _titled(part) if type(part) is Document else part


def _without_search_block(part: _Inner, text_only: bool) -> _Inner:
    """*part*, in place of a search result its text where such blocks are not allowed: in errors and answers."""
    if text_only and type(part) is Text and part.block is not None and part.block["type"] == "search_result":
        return evolve(part, block=None)
    return part


def _titled(part: Text | Image | Document) -> Text | Image | Document:
    if type(part) is Document and not (part.data or part.url or part.text.strip()):
        return Text(part.title, part.cache)
    return part


def _is_sendable(part: Part, place: str, notes: Notes, replay_thinking: bool = True) -> bool:
    match part:
        case Text(text, block=None):
            return not _is_blank(text, place, notes)
        case ThinkingPart() if not replay_thinking:
            notes.applies("thinking.dropped", place)
            return False
        case ThinkingPart(redacted="", signature=signature):
            if not signature or read_mark(signature).owner:
                notes.applies("thinking.unsigned_dropped", place)
                return False
        case ThinkingPart(redacted=redacted):
            if read_mark(redacted).owner:
                notes.applies("thinking.unsigned_dropped", place)
                return False
    return True


def _is_blank(text: str, place: str, notes: Notes) -> bool:
    return (not text or text.isspace()) and notes.applies("text.blank_dropped", place)


@frozen
class Blocks:
    """Writes the content blocks of one request.

    Raises:
        RequestError: An image or a document of a kind that the service does not take.
    """

    _notes: Notes
    _names: WireNames
    """Of tools."""

    _model: ModelCard
    marked: list[dict[str, Any]] = field(init=False, factory=list)
    """Those that were written with a mark for the cache, in the order in which the service reads them."""

    def write(self, part: Part, place: str) -> dict[str, Any]:
        """One block; *place* is where the turn stands."""
        block = self._block(part, place)
        if not part.cache:
            return block
        self.marked.append(marked(block, part.cache))
        return self.marked[-1]

    def _block(self, part: Part, place: str) -> dict[str, Any]:
        match part:
            case Text(text, block=block):
                return {"type": "text", "text": text} if block is None else dict(block)
            case ToolCallPart(call_id, name, arguments):
                wire = self._names.wire(name, place)
                return {"type": "tool_use", "id": call_id, "name": wire, "input": dict(arguments)}
            case ToolResult():
                return self._result(part, place)
            case ThinkingPart(text, signature, redacted):
                if redacted:
                    return {"type": "redacted_thinking", "data": redacted}
                return {"type": "thinking", "thinking": text, "signature": signature}
            case Image():
                return {"type": "image", "source": self._image(part)}
            case Document():
                return self._document(part)

    def _result(self, part: ToolResult, place: str) -> dict[str, Any]:
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": part.call_id}
        if part.parts:
            block["content"] = [self.write(each, place) for each in part.parts]
        return {**block, "is_error": True} if part.is_error else block

    def _image(self, part: Image) -> dict[str, Any]:
        if not self._model.images:
            raise refusal("images.model", f"{self._model.id} takes no images", part.place)
        if part.url:
            return {"type": "url", "url": part.url}
        data = self._base64(part)
        declared = {"image/jpg": "image/jpeg"}.get(essence(part.media_type), essence(part.media_type))
        found = image_type(data) or declared
        if found not in IMAGE_TYPES:
            known = ", ".join(IMAGE_TYPES)
            raise refusal(
                "images.format", f"image format {part.media_type[:40]!r}; the service takes {known}", part.place
            )
        if found != declared:
            self._notes.applies("images.mismatch", part.place)
        return {"type": "base64", "media_type": found, "data": data}

    def _document(self, part: Document) -> dict[str, Any]:
        block: dict[str, Any] = {"type": "document", "source": self._source(part)}
        if part.title.strip():
            block["title"] = part.title
        return {**block, "citations": {"enabled": True}} if part.cited else block

    def _source(self, part: Document) -> Mapping[str, Any]:
        kind = essence(part.media_type)
        if part.url:
            return {"type": "url", "url": part.url}
        if kind == PDF:
            return {"type": "base64", "media_type": PDF, "data": self._base64(part)}
        if part.data and not (kind.startswith("text/") or kind in TEXTS):
            what = f"document format {part.media_type[:40]!r}; the service takes {PDF} and texts"
            raise refusal("documents.format", what, part.place)
        if kind != _PLAIN["media_type"]:
            self._notes.applies("documents.plain", part.place)
        text = b64decode(self._base64(part)).decode("utf-8", "replace") if part.data else part.text
        return {**_PLAIN, "data": text}

    def _base64(self, part: Image | Document) -> str:
        """The data in the one form that every decoder reads."""
        rule = "attachments.base64"
        if is_base64(part.data):
            return part.data
        plain = plain_base64(part.data)
        if not plain:
            raise refusal(rule, "data that is not base64", part.place)
        self._notes.applies(rule, part.place)
        return plain


_PLAIN: Final[Mapping[str, str]] = MappingProxyType({"type": "text", "media_type": "text/plain"})
