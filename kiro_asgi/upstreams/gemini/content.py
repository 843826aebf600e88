"""The conversation as contents, attachments among them.

Turns alternate; the user's are first and last, and none is without a part.

A part that came with a signature goes back with it, and parts are never joined: a signature is of one part.

Source: https://ai.google.dev/api/caching#Content and https://ai.google.dev/gemini-api/docs/thought-signatures
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import define, field, frozen

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
from kiro_asgi.model.signatures import CALL, GEMINI, TEXT, THOUGHT, read_mark
from kiro_asgi.rendering.attachments import Accepted, Attached, Attachments, document_text, same
from kiro_asgi.rendering.names import WireNames
from kiro_asgi.rendering.parts import Block, PartWriter
from kiro_asgi.rendering.strict_turns import Draft, strict_turns
from kiro_asgi.rendering.turns import GO_ON
from kiro_asgi.rendering.unread import WriteBack
from kiro_asgi.wire.json import as_object

_READABLE: Final = re.compile(
    r"https://generativelanguage\.googleapis\.com/[\w./-]+|https://(?:www\.youtube\.com/watch\?|youtu\.be/)\S+"
)
"""Addresses that the service reads: files that were uploaded to it, and videos."""


def is_readable(url: str) -> bool:
    """Whether the service reads what is at *url*."""
    return bool(_READABLE.fullmatch(url))


IMAGES: Final = Accepted(same("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"), reads=is_readable)
DOCUMENTS: Final = Accepted(
    same(
        *("application/pdf", "application/json", "application/xml", "application/rtf"),
        *("text/plain", "text/html", "text/css", "text/csv", "text/markdown", "text/md", "text/xml", "text/rtf"),
    ),
    reads=is_readable,
)


Content = dict[str, Any]

MINTED: Final = "gemini_call_"
"""Beginning of the ids that we give to calls without one; they must not be sent to the service."""

SKIP: Final = "skip_thought_signature_validator"
"""Stands for the signature of a call that has none, as the service did not make it."""

_RESULT: Final = "functionResponse"

ATTACHED: Final = "Attached to the result of {}:"

MAX_CALL_ID: Final = 1_000
_CALL_ID: Final = re.compile(rf".{{1,{MAX_CALL_ID}}}", re.DOTALL)
_SIGNATURE: Final = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")


@define
class ContentDraft:
    """One content while it is written."""

    place: str
    parts: list[Block] = field(factory=list)
    lifted: list[Block] = field(factory=list)
    """Attachments of results, moved out of them; all of it stands behind all of them."""

    behind: int = 0
    """How many of the parts stand before the end of the last result."""

    text: Block | None = None
    """The latest text that a signature may belong to."""

    signature: str = ""
    """Of the next call."""

    own: bool = False
    """Whether the service itself made this content, as its signature shows."""


@frozen
class ContentWriter(PartWriter[ContentDraft]):
    """Writes the contents of one request."""

    notes: Notes
    names: WireNames
    attachments: Attachments
    write_back: WriteBack
    replay_thinking: bool = True
    _called: dict[str, Block] = field(init=False, factory=dict)
    """Call id to the members that call and result share: the name, and the id, where the service has given one."""

    def contents(self, prompt: Prompt) -> list[Content]:
        """The contents for *prompt*."""
        ids = WireNames(_CALL_ID, MAX_CALL_ID, "calls.id_changed", self.notes)
        drafts = strict_turns(prompt.turns, ids, self.notes, self.write_back.api)
        contents: list[Content] = []
        for draft in drafts:
            role = "user" if draft.role is Role.USER else "model"
            parts = self._parts(draft)
            if parts and contents and contents[-1]["role"] == role and draft.unread is None:
                contents[-1]["parts"] += parts
            elif parts:
                content = {"role": role, "parts": parts}
                self.write_back.into(content, draft.unread, place=draft.place)
                contents.append(content)
        places = [draft.place for draft in drafts]
        return [*self._first(contents, places), *contents, *self._last(contents, places)]

    def _parts(self, draft: Draft) -> list[Block]:
        content = ContentDraft(draft.place)
        self.write(draft.parts, content)
        if content.signature:
            self.notes.applies("thinking.stray_dropped", draft.place)
        content.parts[content.behind : content.behind] = content.lifted
        return content.parts

    def _first(self, contents: list[Content], places: list[str]) -> Iterator[Content]:
        if not contents:
            self.notes.applies("turns.empty")
        elif contents[0]["role"] == "model":
            self.notes.applies("turns.user_first", places[0])
        else:
            return
        yield {"role": "user", "parts": [{"text": GO_ON}]}

    def _last(self, contents: list[Content], places: list[str]) -> Iterator[Content]:
        if contents and contents[-1]["role"] == "model":
            self.notes.applies("turns.prefill", places[-1])
            yield {"role": "user", "parts": [{"text": GO_ON}]}

    def unread(self, part: Part, into: ContentDraft) -> None:
        """Write its members into the part."""
        if part.unread is None or part.unread.api != self.write_back.api or isinstance(part, ThinkingPart):
            return
        if (isinstance(part, Text) and not part.text) or not into.parts:
            return
        own = into.parts[-1]
        if "response" in part.unread.members.get(_RESULT, {}) and _RESULT in own:
            own[_RESULT] = {name: value for name, value in own[_RESULT].items() if name != "response"}
        self.write_back.into(own, part.unread, place=into.place)

    def opaque(self, part: Opaque, into: ContentDraft) -> None:
        """The part as it came."""
        block = self.write_back.opaque(part)
        if block is None:
            super().opaque(part, into)
        else:
            into.parts.append(block)

    def text(self, part: Text, into: ContentDraft) -> None:
        """A text; the service refuses an empty one."""
        if part.text:
            into.text = {"text": part.text}
            into.parts.append(into.text)

    def image(self, part: Image, into: ContentDraft) -> None:
        """An image."""
        into.parts.append(_file(self.attachments.image(part)))

    def document(self, part: Document, into: ContentDraft) -> None:
        """A document, its title before it; one of plain text is text."""
        if not (part.data or part.url):
            self.notes.applies("documents.inlined", part.place)
            into.parts.append({"text": document_text(part)})
            return
        if part.title:
            self.notes.applies("documents.titled", part.place)
            into.parts.append({"text": f"{part.title}:"})
        into.parts.append(_file(self.attachments.document(part)))

    def thinking(self, part: ThinkingPart, into: ContentDraft) -> None:
        """Thinking, or a signature alone, which is of the text before it or of the next call."""
        mark = read_mark(part.signature)
        rule = self._unfit(part)
        if rule:
            self.notes.applies(rule, into.place)
            return
        into.own = True
        if mark.part == THOUGHT:
            into.parts.append({"text": part.text, "thought": True, "thoughtSignature": mark.signature})
            return
        if part.text:
            self.notes.applies("thinking.unsigned_dropped", into.place)
        if mark.part == TEXT:
            self._sign_text(mark.signature, into)
            return
        if into.signature:
            self.notes.applies("thinking.stray_dropped", into.place)
        into.signature = mark.signature

    def _unfit(self, part: ThinkingPart) -> str:
        """The rule by which earlier thinking is not handed back; empty if it is."""
        mark = read_mark(part.signature)
        if not self.replay_thinking:
            return "thinking.dropped"
        if mark.owner != GEMINI:
            return "thinking.unsigned_dropped"
        return "" if mark.part in (CALL, TEXT, THOUGHT) and _SIGNATURE.fullmatch(mark.signature) else _MALFORMED

    def _sign_text(self, signature: str, into: ContentDraft) -> None:
        """Put *signature* on the text before it; where that is missing, or signed, on an empty text."""
        if into.text is None:
            into.text = {"text": ""}
            into.parts.append(into.text)
        into.text["thoughtSignature"] = signature
        into.text = None

    def call(self, part: ToolCallPart, into: ContentDraft) -> None:
        """A call, with its signature."""
        shared = {"name": self.names.wire(part.name, into.place)}
        if into.own and not part.call_id.startswith(MINTED):
            shared["id"] = part.call_id
        self._called[part.call_id] = shared
        arguments: Any = part.input
        if not isinstance(arguments, Mapping):
            self.notes.applies("calls.input_wrapped", into.place)
            arguments = as_object(arguments)
        call: Block = {"functionCall": {**shared, "args": dict(arguments)}}
        if into.signature:
            call["thoughtSignature"], into.signature = into.signature, ""
        into.parts.append(call)

    def result(self, part: ToolResult, into: ContentDraft) -> None:
        """A result, which is a text; what else it holds stands behind all results."""
        shared = self._called[part.call_id]
        texts: list[str] = []
        lifted: list[Block] = []
        for inner in part.parts:
            held = ContentDraft(into.place)
            self.write((inner,), held)
            if all("text" in each for each in held.parts):
                texts += (each["text"] for each in held.parts)
            else:
                self.notes.applies("results.attachment_lifted", getattr(inner, "place", ""))
                lifted += held.parts
        if lifted:
            into.lifted += ({"text": ATTACHED.format(shared["name"])}, *lifted)
        response = {"error" if part.is_error else "result": "\n".join(texts)}
        into.parts.append({_RESULT: {**shared, "response": response}})
        into.behind = len(into.parts)


def _file(found: Attached) -> Block:
    if found.url:
        return {"fileData": {**({"mimeType": found.format} if found.format else {}), "fileUri": found.url}}
    return {"inlineData": {"mimeType": found.format, "data": found.data}}


_MALFORMED: Final = "thinking.malformed_dropped"


def skip_missing_signatures(contents: list[Content], notes: Notes) -> None:
    """Mark the first call of each content of the current turn where it has no signature.

    The current turn begins behind the user's last content without results.
    """
    begins = max(index for index, content in enumerate(contents) if _is_question(content))
    for content in contents[begins:]:
        first = next((part for part in content["parts"] if "functionCall" in part), None)
        if first is not None and "thoughtSignature" not in first:
            notes.applies("thinking.signature_skipped")
            first["thoughtSignature"] = SKIP


def _is_question(content: Content) -> bool:
    return content["role"] == "user" and not any("functionResponse" in part for part in content["parts"])


def signable(contents: list[Content]) -> bool:
    """Whether there is a part that has a signature, or may have to have one."""
    return any(
        "functionCall" in part or "thoughtSignature" in part for content in contents for part in content["parts"]
    )
