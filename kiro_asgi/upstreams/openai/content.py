"""The conversation as messages, attachments among them.

The system text is one ``system`` message: OpenAI takes it for every model, and reads it as ``developer`` where that is
meant, while many other servers know no ``developer``, and take one such message, at the beginning.  Some of them insist
on turns that alternate, so there are no neighbours of one side.  A message of a tool holds nothing but text.

Source: https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from attrs import frozen

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Document, Image, Part, Prompt, Role, Text, ThinkingPart, ToolCallPart, ToolResult
from kiro_asgi.model.signatures import CALL, GEMINI, read_mark
from kiro_asgi.upstreams.errors import refusal
from kiro_asgi.upstreams.headers import essence
from kiro_asgi.upstreams.openai.reasoning import ReasoningDetails, read_details
from kiro_asgi.upstreams.rendering import WireNames, document_text, image_type, instead_of_address, plain_base64
from kiro_asgi.upstreams.strict_turns import Draft, strict_turns
from kiro_asgi.wire.json import dumps

FORMATS: Final = ("image/png", "image/jpeg", "image/webp", "image/gif")
"""Of images, as OpenAI knows them."""


def _is_known(part: Image) -> bool:
    """Whether OpenAI can read an image, by its declared type or by its bytes."""
    kind = essence(part.media_type or FORMATS[0]).replace("image/jpg", "image/jpeg")
    return kind in FORMATS or bool(image_type(part.data))


@frozen
class AttachmentParts:
    """Writes the attachments of one request."""

    notes: Notes
    images: bool
    """Whether the model takes any."""

    custom: bool = False
    """Whether the server is another than OpenAI's, and may know any format."""

    def image(self, part: Image) -> dict[str, Any]:
        """An image, by value or by address: the service fetches it.

        Raises:
            RequestError: The model takes none, or it is not base64, or in a format that OpenAI does not know.
        """
        if not self.images:
            raise refusal("images.model", "this model takes no images", part.place)
        if not (part.url or self.custom or _is_known(part)):
            what = f"image format {part.media_type[:40]!r}; the service takes {', '.join(FORMATS)}"
            raise refusal("images.format", what, part.place)
        url = part.url or self._data_url(image_type(part.data) or part.media_type or FORMATS[0], part)
        return {"type": "image_url", "image_url": {"url": url}}

    def document(self, part: Document) -> dict[str, Any]:
        """A document: one of plain text as text, any other as a file.

        Raises:
            RequestError: It is only known by its address, or it is not base64.
        """
        if part.url:
            what = f"a document by address; {instead_of_address(part.url)}"
            raise refusal("documents.address", what, part.place)
        if not part.data:
            self.notes.applies("documents.inlined", part.place)
            return {"type": "text", "text": document_text(part)}
        data = self._data_url(part.media_type, part)
        return {"type": "file", "file": {"filename": part.title or "document", "file_data": data}}

    def _data_url(self, media_type: str, part: Image | Document) -> str:
        plain = plain_base64(part.data)
        if not plain:
            raise refusal("attachments.base64", "data that is not base64", part.place)
        if plain != part.data:
            self.notes.applies("attachments.base64", part.place)
        return f"data:{media_type};base64,{plain}"


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


@frozen
class Messages:
    """Writes the messages of one request."""

    notes: Notes
    names: WireNames
    attachments: AttachmentParts
    service: str
    """As of `kiro_asgi.upstreams.openai.request.ChatRenderOptions`."""

    replay_thinking: bool = False
    """Hand thinking that is not sealed back as ``reasoning_content``."""

    sign_calls: bool = False
    """Hand signatures of calls back as ``extra_content``, as Google's own server of this API wants them."""

    refusals: bool = False
    """Hand refusals back as such, which only OpenAI's own service is known to take; else they are text."""

    short_ids: bool = False
    """Ids of calls are nine letters and digits."""

    def write(self, prompt: Prompt) -> list[dict[str, Any]]:
        """The messages for *prompt*.

        Raises:
            RequestError: A part cannot be sent in this API.
        """
        ids = WireNames(_CALL_ID, MAX_CALL_ID, "calls.id_changed", self.notes)
        if self.short_ids:
            ids = WireNames(_SHORT_ID, SHORT_CALL_ID, "calls.id_changed", self.notes, joint="0")
        system = "\n\n".join(filter(None, prompt.system))
        messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
        drafts = strict_turns(prompt.turns, ids, self.notes)
        for draft in drafts:
            messages += self._assistant(draft) if draft.role is Role.ASSISTANT else self._user(draft)
        if not drafts:
            self.notes.applies("turns.empty")
            messages.append({"role": "user", "content": ""})
        return messages

    def _assistant(self, draft: Draft) -> Iterator[dict[str, Any]]:
        calls = [*self._calls(draft)]
        texts = [part for part in draft.parts if isinstance(part, Text)]
        refusal = "\n".join(part.text for part in texts if self.refusals and part.is_refusal)
        text = "\n".join(part.text for part in texts if not (self.refusals and part.is_refusal))
        message: dict[str, Any] = {"role": "assistant", "content": text if text or not (calls or refusal) else None}
        if refusal:
            message["refusal"] = refusal
        thinking, details = [*self._thinking(draft)], self._details(draft)
        if details:
            message["reasoning_details"] = details
        if thinking:
            message["reasoning_content"] = "\n".join(thinking)
        if calls:
            message["tool_calls"] = calls
        yield message

    def _calls(self, draft: Draft) -> Iterator[dict[str, Any]]:
        """The calls, each with the signature that stands before it."""
        signature = ""
        for part in draft.parts:
            if isinstance(part, ThinkingPart):
                signature = self._of_call(part) or signature
            elif isinstance(part, ToolCallPart):
                call = self._call(part, draft.place)
                yield {**call, "extra_content": {"google": {"thought_signature": signature}}} if signature else call
                signature = ""

    def _of_call(self, part: ThinkingPart) -> str:
        """The signature of a call in *part*; empty where it holds none, or the service wants none."""
        mark = read_mark(part.signature)
        return mark.signature if self.sign_calls and (mark.owner, mark.part) == (GEMINI, CALL) else ""

    def _details(self, draft: Draft) -> list[dict[str, Any]]:
        """The service's own entries about its thinking, as they came."""
        found = ReasoningDetails()
        for part in draft.parts:
            for detail in read_details(part.signature, self.service) if isinstance(part, ThinkingPart) else ():
                found.take(detail)
        return found.joined()

    def _thinking(self, draft: Draft) -> Iterator[str]:
        for part in draft.parts:
            if not isinstance(part, ThinkingPart) or self._of_call(part) or read_details(part.signature, self.service):
                continue
            if self.replay_thinking and part.text and not part.signature:
                yield part.text
            else:
                self.notes.applies("thinking.dropped", draft.place)

    def _call(self, part: ToolCallPart, place: str) -> dict[str, Any]:
        function = {"name": self.names.wire(part.name, place), "arguments": dumps(dict(part.input)).decode()}
        return {"id": part.call_id, "type": "function", "function": function}

    def _user(self, draft: Draft) -> Iterator[dict[str, Any]]:
        """Results of tools, then their attachments, then the user's own parts."""
        content: list[dict[str, Any]] = []
        for part in draft.parts:
            if isinstance(part, ToolResult):
                output = self._result(part, content, draft.place)
                yield {"role": "tool", "tool_call_id": part.call_id, "content": output}
        content += [
            text_or_attachment(part, self.attachments) for part in draft.parts if not isinstance(part, ToolResult)
        ]
        if content:
            yield {"role": "user", "content": _content(content)}

    def _result(self, result: ToolResult, lifted: list[dict[str, Any]], place: str) -> str:
        """A result as text; other parts go to *lifted*."""
        lines = [*self._lines(result, lifted, place)]
        if result.is_error:
            self.notes.applies("results.error_told", place)
            lines.insert(0, FAILED)
        return "\n".join(lines)

    def _lines(self, result: ToolResult, lifted: list[dict[str, Any]], place: str) -> Iterator[str]:
        for part in result.parts:
            written = text_or_attachment(part, self.attachments)
            if written["type"] == "text":
                yield written["text"]
                continue
            self.notes.applies("results.attachment_lifted", place)
            lifted += [{"type": "text", "text": LIFTED_FROM.format(result.call_id)}, written]
            yield LIFTED


def text_or_attachment(part: Part, attachments: AttachmentParts) -> dict[str, Any]:
    """A part of a user's message, or of a tool's result.

    Raises:
        RequestError: It is an attachment that the service cannot be sent.
    """
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Image():
            return attachments.image(part)
        case Document():
            return attachments.document(part)
    raise AssertionError(f"not a part of a user's message: {type(part).__name__}")


def _content(parts: Iterable[dict[str, Any]]) -> Any:
    """One text where there is nothing else, as not every server takes a list."""
    parts = [*parts]
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts
