"""Parts of a prompt as content blocks of Converse.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ContentBlock.html
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve, field, frozen

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Document, Image, Part, Prompt, Text, ThinkingPart, ToolCallPart, ToolResult, Turn
from kiro_asgi.model.signatures import read_mark
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.bedrock.models import Family, is_claude
from kiro_asgi.upstreams.errors import refusal
from kiro_asgi.upstreams.headers import essence
from kiro_asgi.upstreams.rendering import WireNames, image_type, instead_of_address, is_base64, plain_base64

NOTHING: Final = "(no output)"
"""Text of a result without content: the service refuses a blank one."""

IMAGES: Final[Mapping[str, str]] = MappingProxyType(
    {"image/png": "png", "image/jpeg": "jpeg", "image/jpg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
)
"""Media type to the service's name of the format."""

DOCUMENTS: Final[Mapping[str, str]] = MappingProxyType(
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
)
"""The same for documents; any other text is ``txt``."""

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


def sendable(prompt: Prompt, model: ModelCard, family: Family, notes: Notes, *, replay: bool) -> Iterator[Turn]:
    """The turns with those of their parts that can be sent to *model*; a turn may be left empty.

    Args:
        prompt: The conversation.
        model: The model that is asked.
        family: Its family.
        notes: Gets the rules that applied.
        replay: Whether thinking of earlier answers is handed back.
    """
    for turn in prompt.turns:
        parts: list[Part] = []
        for part in turn.parts:
            if type(part) is ToolResult:
                shown = (each for each in part.parts if not _is_blank(each, turn.place, notes))
                parts.append(evolve(part, parts=tuple(shown)))
            elif type(part) is ThinkingPart:
                parts += [part] if _is_own(part, model, family, turn.place, notes, replay=replay) else []
            elif not _is_blank(part, turn.place, notes):
                parts.append(part)
        yield evolve(turn, parts=tuple(parts))


def _is_blank(part: Part, place: str, notes: Notes) -> bool:
    return type(part) is Text and not part.text.strip() and notes.applies("text.blank_dropped", place)


def _is_own(part: ThinkingPart, model: ModelCard, family: Family, place: str, notes: Notes, *, replay: bool) -> bool:
    """Whether *model* has signed *part*, or takes unsigned thinking."""
    if not replay:
        return not notes.applies("thinking.dropped", place)
    seal = part.redacted or part.signature
    signed = is_claude(model) and bool(seal) and not read_mark(seal).owner
    unsigned = family.reasoning_text and bool(part.text)
    return signed or unsigned or not notes.applies("thinking.unsigned_dropped", place)


@frozen
class ConverseBlocks:
    """Writes the content blocks of one request.

    Raises:
        RequestError: An image or a document of a kind, or at a place, that the service does not take.
    """

    _notes: Notes
    _names: WireNames
    """Of tools."""

    _model: ModelCard
    _family: Family
    _titles: set[str] = field(init=False, factory=set)
    """Names of documents: each wants one of its own."""

    def content(self, parts: Iterable[Part], place: str) -> list[dict[str, Any]]:
        """All blocks of a message; *place* is where its turn stands."""
        blocks: list[dict[str, Any]] = []
        for part in parts:
            blocks.append(self._block(part, place))
            if part.cache and "messages" in self._family.cached:
                blocks.append(cache_point(part.cache))
        if any("document" in block for block in blocks) and not any("text" in block for block in blocks):
            self._notes.applies("documents.alone", place)
            blocks.insert(0, {"text": "."})
        held = [*blocks, *(each for block in blocks for each in block.get("toolResult", {}).get("content", ()))]
        for kind, most in MOST:
            if sum(kind in block for block in held) > most:
                raise refusal(f"{kind}s.count", f"more than {most} {kind}s in one message", place)
        return blocks

    def _block(self, part: Part, place: str) -> dict[str, Any]:
        match part:
            case Text(text, block=block):
                if block is not None:
                    self._notes.applies("text.block_told", place)
                return {"text": text}
            case ToolCallPart(call_id, name, arguments):
                wire = self._names.wire(name, place)
                return {"toolUse": {"toolUseId": call_id, "name": wire, "input": dict(arguments)}}
            case ToolResult():
                return {"toolResult": self._result(part, place)}
            case ThinkingPart(text, signature, redacted):
                if redacted:
                    return {"reasoningContent": {"redactedContent": redacted}}
                signed = {"signature": signature} if is_claude(self._model) else {}
                return {"reasoningContent": {"reasoningText": {"text": text, **signed}}}
            case Image():
                return {"image": self._image(part)}
            case Document():
                return {"document": self._document(part)}

    def _result(self, part: ToolResult, place: str) -> dict[str, Any]:
        content = [self._block(each, place) for each in part.parts]
        if not content:
            self._notes.applies("results.nothing", place)
            content = [{"text": NOTHING}]
        result: dict[str, Any] = {"toolUseId": part.call_id, "content": content}
        if part.is_error and self._family.status:
            result["status"] = "error"
        elif part.is_error:
            self._notes.applies("results.status_told", place)
            content.insert(0, {"text": "Error:"})
        return result

    def _image(self, part: Image) -> dict[str, Any]:
        if not self._model.images:
            raise refusal("images.model", f"{self._model.id} takes no images", part.place)
        self._refuse_address(part, "images.address")
        declared = essence(part.media_type)
        found = image_type(part.data) or declared
        if found not in IMAGES:
            what = f"image format {found[:40]!r}; the service takes {', '.join(dict.fromkeys(IMAGES))}"
            raise refusal("images.format", what, part.place)
        if IMAGES[found] != IMAGES.get(declared):
            self._notes.applies("images.mismatch", part.place)
        return {"format": IMAGES[found], "source": {"bytes": self._base64(part)}}

    def _document(self, part: Document) -> dict[str, Any]:
        self._refuse_address(part, "documents.address")
        kind = essence(part.media_type)
        form = DOCUMENTS.get(kind, "txt" if kind.startswith("text/") or not part.data else "")
        if not form:
            what = f"document format {kind[:40]!r}; the service takes {', '.join(DOCUMENTS)} and texts"
            raise refusal("documents.format", what, part.place)
        data = self._base64(part) if part.data else b64encode((part.text or ".").encode("utf-8", "replace")).decode()
        block: dict[str, Any] = {"format": form, "name": self._title(part), "source": {"bytes": data}}
        if not part.cited:
            return block
        if not is_claude(self._model):
            self._notes.applies("documents.uncited", part.place)
            return block
        return {**block, "citations": {"enabled": True}}

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

    def _refuse_address(self, part: Image | Document, rule: str) -> None:
        if part.url:
            raise refusal(rule, f"an address; {instead_of_address(part.url)}", part.place)

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


def lifted(parts: Iterable[Part], family: Family, place: str, notes: Notes) -> Iterator[Part]:
    """The parts of a user's turn; media that a result cannot hold for this family stand behind all results."""
    media: list[Part] = []
    others: list[Part] = []
    for part in parts:
        if type(part) is not ToolResult:
            others.append(part)
            continue
        kept = tuple(each for each in part.parts if _kind(each) in ("text", *family.result_media))
        if kept != part.parts:
            notes.applies("results.attachment_lifted", place)
            media += [each for each in part.parts if each not in kept]
            part = evolve(part, parts=kept)
        yield part
    yield from media
    yield from others


def _kind(part: Text | Image | Document) -> str:
    return "text" if type(part) is Text else "image" if type(part) is Image else "document"
