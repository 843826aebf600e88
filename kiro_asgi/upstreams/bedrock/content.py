"""Parts of a prompt as content blocks of Converse.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ContentBlock.html
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable
from itertools import count
from types import MappingProxyType
from typing import Any, Final

from attrs import field, frozen

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Document, Image, Part, Text, ThinkingPart, ToolCallPart, ToolResult, Turn
from kiro_asgi.model.signatures import read_mark
from kiro_asgi.rendering.attachments import Accepted, Attachments, by_subtype
from kiro_asgi.rendering.names import WireNames
from kiro_asgi.rendering.parts import Block, Blocks, BlockWriter
from kiro_asgi.rendering.refusal import refusal
from kiro_asgi.rendering.turns import is_blank
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.bedrock.models import Family, is_claude

NOTHING: Final = "(no output)"
"""Text of a result without content: the service refuses a blank one."""

IMAGES: Final = Accepted(by_subtype("image/png", "image/jpeg", "image/gif", "image/webp"))

DOCUMENTS: Final = Accepted(
    MappingProxyType(
        {
            "application/pdf": "pdf",
            "text/csv": "csv",
            "application/msword": "doc",
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
            "application/vnd.ms-excel": "xls",
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
            "text/html": "html",
            "text/markdown": "md",
            "text/md": "md",
            "application/json": "txt",
            "application/xml": "txt",
            "application/yaml": "txt",
        }
    ),
    text="txt",
)

MOST: Final = (("image", 20), ("document", 5))
"""How many of a kind one message may hold, results of tools counted."""

_FOREIGN: Final = re.compile(r"[^a-zA-Z0-9()\[\] -]+")
"""Characters that a document's name may not have."""

_LONGEST: Final = 190
"""Characters of a document's name, a number behind it not counted."""

_EXTENSION: Final = re.compile(r"(?<=.)\.[A-Za-z0-9]{1,5}$")


def cache_point(mark: str) -> dict[str, Any]:
    """The block that asks the service to remember the prompt up to it; *mark* as of `kiro_asgi.model.prompt.Text`."""
    lasting = {"ttl": mark} if mark == "1h" else {}
    return {"cachePoint": {"type": "default", **lasting}}


@frozen
class Sendable:
    """Tells which parts can be sent to a model, and as what."""

    model: ModelCard
    family: Family
    notes: Notes
    replay_thinking: bool

    def __call__(self, part: Part, turn: Turn, result: ToolResult | None) -> Part | None:
        """As of `kiro_asgi.rendering.turns.Kept`."""
        if type(part) is ThinkingPart:
            return part if self._is_own(part, turn.place) else None
        return None if is_blank(part, turn.place, self.notes) else part

    def _is_own(self, part: ThinkingPart, place: str) -> bool:
        """Whether the model has signed *part*, or takes unsigned thinking."""
        if not self.replay_thinking:
            return not self.notes.applies("thinking.dropped", place)
        seal = part.redacted or part.signature
        signed = is_claude(self.model) and bool(seal) and not read_mark(seal).owner
        unsigned = self.family.reasoning_text and bool(part.text)
        return signed or unsigned or not self.notes.applies("thinking.unsigned_dropped", place)


@frozen
class ConverseBlocks(BlockWriter):
    """Writes the content blocks of one request."""

    _notes: Notes
    _names: WireNames
    """Of tools."""

    _attachments: Attachments
    _model: ModelCard
    _family: Family
    _titles: set[str] = field(init=False, factory=set)
    """Names of documents: each wants one of its own."""

    def content(self, parts: Iterable[Part], place: str) -> list[Block]:
        """All blocks of a message; *place* is where its turn stands.

        Raises:
            RequestError: The service does not take as many attachments in one message.
        """
        blocks = self.blocks(parts, place)
        if any("document" in block for block in blocks) and not any("text" in block for block in blocks):
            self._notes.applies("documents.alone", place)
            blocks.insert(0, {"text": "."})
        held = [*blocks, *(each for block in blocks for each in block.get("toolResult", {}).get("content", ()))]
        for kind, most in MOST:
            if sum(kind in block for block in held) > most:
                raise refusal(f"{kind}s.count", f"more than {most} {kind}s in one message", place)
        return blocks

    def mark(self, mark: str, into: Blocks) -> None:
        """A block of its own behind what is to be remembered, in a message, for a family that has such blocks."""
        if "messages" in self._family.cached and not into.nested:
            into.written.append(cache_point(mark))

    def text(self, part: Text, into: Blocks) -> None:
        """A text."""
        if part.block is not None:
            self._notes.applies("text.block_told", into.place)
        into.written.append({"text": part.text})

    def call(self, part: ToolCallPart, into: Blocks) -> None:
        """A call."""
        wire = self._names.wire(part.name, into.place)
        into.written.append({"toolUse": {"toolUseId": part.call_id, "name": wire, "input": dict(part.input)}})

    def thinking(self, part: ThinkingPart, into: Blocks) -> None:
        """Thinking, as it was sealed."""
        if part.redacted:
            into.written.append({"reasoningContent": {"redactedContent": part.redacted}})
            return
        signed = {"signature": part.signature} if is_claude(self._model) else {}
        into.written.append({"reasoningContent": {"reasoningText": {"text": part.text, **signed}}})

    def result(self, part: ToolResult, into: Blocks) -> None:
        """A result, with the blocks of what it holds."""
        content = self.blocks(part.parts, into.place, nested=True)
        if not content:
            self._notes.applies("results.nothing", into.place)
            content = [{"text": NOTHING}]
        result: dict[str, Any] = {"toolUseId": part.call_id, "content": content}
        if part.is_error and self._family.status:
            result["status"] = "error"
        elif part.is_error:
            self._notes.applies("results.status_told", into.place)
            content.insert(0, {"text": "Error:"})
        into.written.append({"toolResult": result})

    def image(self, part: Image, into: Blocks) -> None:
        """An image, by value."""
        found = self._attachments.image(part)
        into.written.append({"image": {"format": found.format, "source": {"bytes": found.data}}})

    def document(self, part: Document, into: Blocks) -> None:
        """A document, by value, under a name that no other has."""
        found = self._attachments.document(part)
        data = found.data or b64encode((part.text or ".").encode("utf-8", "replace")).decode()
        block: Block = {"format": found.format, "name": self._title(part), "source": {"bytes": data}}
        if part.cited and is_claude(self._model):
            block["citations"] = {"enabled": True}
        elif part.cited:
            self._notes.applies("documents.uncited", part.place)
        into.written.append({"document": block})

    def _title(self, part: Document) -> str:
        """A name that the service takes and no other document has; the same for the same conversation."""
        stem = " ".join(_FOREIGN.sub(" ", _EXTENSION.sub("", part.title.strip())).split())[:_LONGEST].strip()
        name = stem or "document-1"
        for number in count(2):
            if name not in self._titles:
                break
            name = f"{stem} {number}" if stem else f"document-{number}"
        self._titles.add(name)
        if part.title and name != part.title:
            self._notes.applies("documents.renamed", part.place)
        return name
