"""Parts of a prompt as content blocks, with as many marks for the prompt cache as the service takes.

Sources: https://docs.anthropic.com/en/api/messages,
https://platform.claude.com/docs/en/build-with-claude/prompt-caching
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve, field, frozen

from kiro_asgi.model.media_types import essence
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import (
    REMEMBERED,
    Document,
    Image,
    Opaque,
    Part,
    Role,
    Text,
    ThinkingPart,
    ToolCallPart,
    ToolResult,
    Turn,
)
from kiro_asgi.model.signatures import read_mark
from kiro_asgi.rendering.attachments import Accepted, Attached, Attachments, every, same
from kiro_asgi.rendering.names import WireNames
from kiro_asgi.rendering.parts import Block, Blocks, BlockWriter
from kiro_asgi.rendering.turns import is_blank
from kiro_asgi.rendering.unread import WriteBack

MARK: Final = "cache_control"
MOST: Final = 4
"""Marks of one request; the mark of the whole request counts as one."""


def marked(block: dict[str, Any], mark: str) -> dict[str, Any]:
    """*block* with the *mark* that its part has in the prompt."""
    if not mark:
        return block
    own = {"type": "ephemeral", **({} if mark == REMEMBERED else {"ttl": mark})}
    return {**block, MARK: {**block.get(MARK, {}), **own}}


def bounded(body: Mapping[str, Any], blocks: Iterable[dict[str, Any]], notes: Notes) -> None:
    """Remove the first marks from *body* where there are too many: a later one covers more of the prompt.

    Args:
        body: All but the blocks of messages is searched for marks.
        blocks: Blocks of messages that have one, in their order.
        notes: Gets the rules that applied.
    """
    places = _marked(body, blocks)
    for part in places[: max(len(places) + (MARK in body) - MOST, 0)]:
        notes.applies("cache.limit")
        del part[MARK]


def unmarked(body: dict[str, Any], blocks: Iterable[dict[str, Any]], rule: str, notes: Notes) -> None:
    """Remove every mark from *body*, whose service does not take them; as of `bounded`."""
    for part in (body, *_marked(body, blocks)):
        if part.pop(MARK, None) is not None:
            notes.applies(rule)


def _marked(body: Mapping[str, Any], blocks: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Parts of a body that have a mark, in their order."""
    return [*(part for part in (*body.get("tools", ()), *body.get("system", ())) if MARK in part), *blocks]


PDF: Final = "application/pdf"
PLAIN: Final = "text/plain"

IMAGES: Final = Accepted(same("image/jpeg", "image/png", "image/gif", "image/webp"), reads=every)

TEXTS: Final = ("application/json", "application/xml", "application/yaml", "application/x-yaml")
"""Media types of texts that do not begin with ``text/``."""

DOCUMENTS: Final = Accepted(MappingProxyType({PDF: PDF, **dict.fromkeys(TEXTS, PLAIN)}), text=PLAIN, reads=every)


@frozen
class Sendable:
    """Tells which parts can be sent, and as what; a result loses its blank texts."""

    notes: Notes
    replay_thinking: bool

    def __call__(self, part: Part, turn: Turn, result: ToolResult | None) -> Part | None:
        """As of `kiro_asgi.rendering.turns.Kept`."""
        text_only = turn.role is Role.ASSISTANT if result is None else result.is_error
        match part:
            case ThinkingPart():
                return part if self._is_own(part, turn.place) else None
            case Document(data="", url="") if not part.text.strip():
                part = Text(part.title, part.cache)  # in place of an empty document its title
            case Text(block=block) if block is not None:
                if not text_only or block["type"] != "search_result":
                    return part
                part = evolve(part, block=None)
        return None if is_blank(part, turn.place, self.notes) else part

    def _is_own(self, part: ThinkingPart, place: str) -> bool:
        """Whether the service has sealed *part*."""
        if not self.replay_thinking:
            return not self.notes.applies("thinking.dropped", place)
        seal = part.redacted or part.signature
        if not seal or read_mark(seal).owner:
            self.notes.applies("thinking.unsigned_dropped", place)
            return False
        return True


@frozen
class MessageBlocks(BlockWriter):
    """Writes the content blocks of one request."""

    _names: WireNames
    """Of tools."""

    _attachments: Attachments
    _write: WriteBack
    marked: list[Block] = field(init=False, factory=list)
    """Those that were written with a mark for the cache, in the order in which the service reads them."""

    def mark(self, mark: str, into: Blocks) -> None:
        """Write the mark into the block."""
        into.written[-1] |= marked(into.written[-1], mark)
        self.marked.append(into.written[-1])

    def unread(self, part: Part, into: Blocks) -> None:
        """Write its members into the block."""
        self._write.into(into.written[-1], part.unread, place=into.place)

    def opaque(self, part: Opaque, into: Blocks) -> None:
        """The block as it came."""
        block = self._write.opaque(part)
        if block is None:
            super().opaque(part, into)
            return
        into.written.append(block)
        if MARK in block:
            self.marked.append(block)

    def text(self, part: Text, into: Blocks) -> None:
        """A text, or the block that it stands for."""
        into.written.append({"type": "text", "text": part.text} if part.block is None else dict(part.block))

    def image(self, part: Image, into: Blocks) -> None:
        """An image, by value or by address."""
        into.written.append({"type": "image", "source": _source(self._attachments.image(part))})

    def document(self, part: Document, into: Blocks) -> None:
        """A document; one that is text of any kind is plain text."""
        found = self._attachments.document(part)
        if found.url or found.format == PDF:
            source = _source(found)
        else:
            if essence(part.media_type) != PLAIN:
                self._attachments.notes.applies("documents.plain", part.place)
            text = b64decode(found.data).decode("utf-8", "replace") if found.data else part.text
            source = {"type": "text", "media_type": PLAIN, "data": text}
        title = {"title": part.title} if part.title.strip() else {}
        cited = {"citations": {"enabled": True}} if part.cited else {}
        into.written.append({"type": "document", "source": source, **title, **cited})

    def thinking(self, part: ThinkingPart, into: Blocks) -> None:
        """Thinking, as it was sealed."""
        if part.redacted:
            into.written.append({"type": "redacted_thinking", "data": part.redacted})
        else:
            into.written.append({"type": "thinking", "thinking": part.text, "signature": part.signature})

    def call(self, part: ToolCallPart, into: Blocks) -> None:
        """A call."""
        wire = self._names.wire(part.name, into.place)
        into.written.append({"type": "tool_use", "id": part.call_id, "name": wire, "input": dict(part.input)})

    def result(self, part: ToolResult, into: Blocks) -> None:
        """A result, with the blocks of what it holds."""
        content = {"content": self.blocks(part.parts, into.place)} if part.parts else {}
        failed = {"is_error": True} if part.is_error else {}
        into.written.append({"type": "tool_result", "tool_use_id": part.call_id, **content, **failed})


def _source(found: Attached) -> Mapping[str, str]:
    if found.url:
        return {"type": "url", "url": found.url}
    return {"type": "base64", "media_type": found.format, "data": found.data}
