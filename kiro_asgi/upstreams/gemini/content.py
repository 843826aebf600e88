"""The conversation as contents, attachments among them.

Turns alternate; the user's are first and last, and none is without a part.

A part that came with a signature goes back with it, and parts are never joined: a signature is of one part.

Source: https://ai.google.dev/api/caching#Content and https://ai.google.dev/gemini-api/docs/thought-signatures
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import define, field, frozen

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Document, Image, Prompt, Role, Text, ThinkingPart, ToolCallPart, ToolResult
from kiro_asgi.model.signatures import CALL, GEMINI, TEXT, THOUGHT, read_mark
from kiro_asgi.upstreams.errors import refusal
from kiro_asgi.upstreams.headers import essence
from kiro_asgi.upstreams.rendering import (
    WireNames,
    document_text,
    image_type,
    instead_of_address,
    is_base64,
    plain_base64,
)
from kiro_asgi.upstreams.strict_turns import Draft, strict_turns

IMAGES: Final = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")

DOCUMENTS: Final = (
    *("application/pdf", "application/json", "application/xml", "application/rtf"),
    *("text/plain", "text/html", "text/css", "text/csv", "text/markdown", "text/md", "text/xml", "text/rtf"),
)

_READABLE: Final = re.compile(
    r"https://generativelanguage\.googleapis\.com/[\w./-]+|https://(?:www\.youtube\.com/watch\?|youtu\.be/)\S+"
)
"""Addresses that the service reads: files that were uploaded to it, and videos."""


def is_readable(url: str) -> bool:
    """Whether the service reads what is at *url*."""
    return bool(_READABLE.fullmatch(url))


@frozen
class FileParts:
    """Writes the attachments of one request.

    Raises:
        RequestError: An address that the service cannot read (what `fetch.allow` names is fetched before), data
            that is not base64, or an unknown format.
    """

    _notes: Notes

    def image(self, part: Image) -> dict[str, Any]:
        """A part with an image."""
        if part.url:
            return self._by_address("images.address", part)
        kind = essence(part.media_type).replace("image/jpg", "image/jpeg")
        found = image_type(part.data) or kind
        if found not in IMAGES:
            raise refusal(
                "images.format", f"image format {found[:40]!r}; the service takes {', '.join(IMAGES)}", part.place
            )
        return self._by_value(found, part)

    def document(self, part: Document) -> Iterator[dict[str, Any]]:
        """Parts with a document, its title before it; one of plain text is text."""
        if part.text and not part.data:
            self._notes.applies("documents.inlined", part.place)
            yield {"text": document_text(part)}
            return
        if part.title:
            self._notes.applies("documents.titled", part.place)
            yield {"text": f"{part.title}:"}
        yield self._file(part)

    def _file(self, part: Document) -> dict[str, Any]:
        if part.url:
            return self._by_address("documents.address", part)
        kind = essence(part.media_type)
        if kind not in DOCUMENTS:
            what = f"document format {kind[:40]!r}; the service takes {', '.join(DOCUMENTS)}"
            raise refusal("documents.format", what, part.place)
        return self._by_value(kind, part)

    def _by_value(self, kind: str, part: Image | Document) -> dict[str, Any]:
        data = part.data
        if not is_base64(data):
            data = plain_base64(data)
            if not data:
                raise refusal("attachments.base64", "data that is not base64", part.place)
            self._notes.applies("attachments.base64", part.place)
        return {"inlineData": {"mimeType": kind, "data": data}}

    def _by_address(self, rule: str, part: Image | Document) -> dict[str, Any]:
        if not is_readable(part.url):
            what = f"an address other than of a file that was uploaded to the service; {instead_of_address(part.url)}"
            raise refusal(rule, what, part.place)
        kind = essence(part.media_type)
        return {"fileData": {**({"mimeType": kind} if kind else {}), "fileUri": part.url}}


Part = dict[str, Any]
Content = dict[str, Any]

MINTED: Final = "gemini_call_"
"""Beginning of the ids that we give to calls without one; they must not be sent to the service."""

SKIP: Final = "skip_thought_signature_validator"
"""Stands for the signature of a call that has none, as the service did not make it."""

GO_ON: Final = "Continue."
ATTACHED: Final = "Attached to the result of {}:"

MAX_CALL_ID: Final = 1_000
_CALL_ID: Final = re.compile(rf".{{1,{MAX_CALL_ID}}}", re.DOTALL)
_SIGNATURE: Final = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")


@define
class _ContentDraft:
    """One content while it is written."""

    place: str
    parts: list[Part] = field(factory=list)
    lifted: list[Part] = field(factory=list)
    """Attachments of results, moved out of them; all of it stands behind all of them."""

    text: Part | None = None
    """The latest text that a signature may belong to."""

    signature: str = ""
    """Of the next call."""

    own: bool = False
    """Whether the service itself made this content, as its signature shows."""


@define
class Contents:
    """Writes the contents of one request.

    Raises:
        RequestError: An image or a document that the service does not take.
    """

    notes: Notes
    names: WireNames
    replay_thinking: bool = True
    _attachments: FileParts = field(init=False)
    _called: dict[str, Part] = field(init=False, factory=dict)
    """Call id to the members that call and result share: the name, and the id, where the service has given one."""

    def __attrs_post_init__(self) -> None:
        self._attachments = FileParts(self.notes)

    def write(self, prompt: Prompt) -> list[Content]:
        """The contents for *prompt*."""
        ids = WireNames(_CALL_ID, MAX_CALL_ID, "calls.id_changed", self.notes)
        drafts = strict_turns(prompt.turns, ids, self.notes)
        contents: list[Content] = []
        for draft in drafts:
            role = "user" if draft.role is Role.USER else "model"
            parts = self._parts(draft)
            if parts and contents and contents[-1]["role"] == role:
                contents[-1]["parts"] += parts
            elif parts:
                contents.append({"role": role, "parts": parts})
        places = [draft.place for draft in drafts]
        return [*self._first(contents, places), *contents, *self._last(contents, places)]

    def _parts(self, draft: Draft) -> list[Part]:
        content = _ContentDraft(draft.place)
        behind = 0
        for part in draft.parts:
            _WRITERS[type(part)](self, part, content)
            behind = len(content.parts) if type(part) is ToolResult else behind
        if content.signature:
            self.notes.applies("thinking.stray_dropped", draft.place)
        content.parts[behind:behind] = content.lifted
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

    def _text(self, part: Text, content: _ContentDraft) -> None:
        if part.text:
            content.text = {"text": part.text}
            content.parts.append(content.text)

    def _image(self, part: Image, content: _ContentDraft) -> None:
        content.parts.append(self._attachments.image(part))

    def _document(self, part: Document, content: _ContentDraft) -> None:
        content.parts += self._attachments.document(part)

    def _thinking(self, part: ThinkingPart, content: _ContentDraft) -> None:
        mark = read_mark(part.signature)
        rule = self._unfit(part)
        if rule:
            self.notes.applies(rule, content.place)
            return
        content.own = True
        if mark.part == THOUGHT:
            content.parts.append({"text": part.text, "thought": True, "thoughtSignature": mark.signature})
            return
        if part.text:
            self.notes.applies("thinking.unsigned_dropped", content.place)
        if mark.part == TEXT:
            self._sign_text(mark.signature, content)
            return
        if content.signature:
            self.notes.applies("thinking.stray_dropped", content.place)
        content.signature = mark.signature

    def _unfit(self, part: ThinkingPart) -> str:
        """The rule by which earlier thinking is not handed back; empty if it is."""
        mark = read_mark(part.signature)
        if not self.replay_thinking:
            return "thinking.dropped"
        if mark.owner != GEMINI:
            return "thinking.unsigned_dropped"
        return "" if mark.part in (CALL, TEXT, THOUGHT) and _SIGNATURE.fullmatch(mark.signature) else _MALFORMED

    def _sign_text(self, signature: str, content: _ContentDraft) -> None:
        """Put *signature* on the text before it; where that is missing, or signed, on an empty text."""
        if content.text is None:
            content.text = {"text": ""}
            content.parts.append(content.text)
        content.text["thoughtSignature"] = signature
        content.text = None

    def _call(self, part: ToolCallPart, content: _ContentDraft) -> None:
        shared = {"name": self.names.wire(part.name, content.place)}
        if content.own and not part.call_id.startswith(MINTED):
            shared["id"] = part.call_id
        self._called[part.call_id] = shared
        arguments: Any = part.input
        if not isinstance(arguments, Mapping):
            self.notes.applies("calls.input_wrapped", content.place)
            arguments = {"input": arguments}
        call: Part = {"functionCall": {**shared, "args": dict(arguments)}}
        if content.signature:
            call["thoughtSignature"], content.signature = content.signature, ""
        content.parts.append(call)

    def _result(self, part: ToolResult, content: _ContentDraft) -> None:
        shared = self._called[part.call_id]
        texts: list[str] = []
        lifted: list[Part] = []
        for inner in part.parts:
            written = _ContentDraft(content.place)
            _WRITERS[type(inner)](self, inner, written)
            if all("text" in each for each in written.parts):
                texts += (each["text"] for each in written.parts)
            else:
                self.notes.applies("results.attachment_lifted", getattr(inner, "place", ""))
                lifted += written.parts
        if lifted:
            content.lifted += ({"text": ATTACHED.format(shared["name"])}, *lifted)
        response = {"error" if part.is_error else "result": "\n".join(texts)}
        content.parts.append({"functionResponse": {**shared, "response": response}})


_MALFORMED: Final = "thinking.malformed_dropped"

_WRITERS: Final[Mapping[type, Callable[[Contents, Any, _ContentDraft], None]]] = MappingProxyType(
    {
        Text: Contents._text,
        Image: Contents._image,
        Document: Contents._document,
        ThinkingPart: Contents._thinking,
        ToolCallPart: Contents._call,
        ToolResult: Contents._result,
    }
)


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
