"""The turns of a prompt, sorted into what the service can be told: a draft is one message before it is written down.

Parts go where they belong whichever turn they stand in: images, documents and results are the user's, calls and
thinking the assistant's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final

from attrs import define, field

from kiro_asgi.model.prompt import (
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
from kiro_asgi.upstreams.kiro.attachments import document, document_text, image
from kiro_asgi.upstreams.kiro.names import ToolNames, call_id

__all__ = ["Draft", "Notes", "draft"]


@define
class Notes:
    """What was adapted, as short rule names; each is noted once."""

    _said: dict[str, None] = field(init=False, factory=dict)

    def add(self, rule: str) -> None:
        """Note that *rule* had something to do."""
        self._said[rule] = None

    def __iter__(self) -> Iterator[str]:
        return iter(self._said)


@define
class Draft:
    """One message to be."""

    role: Role
    text: str = ""
    images: list[dict[str, Any]] = field(factory=list)
    documents: list[dict[str, Any]] = field(factory=list)
    results: list[dict[str, Any]] = field(factory=list)
    calls: list[dict[str, Any]] = field(factory=list)
    reasoning: dict[str, Any] | None = None


NO_OUTPUT: Final = "The tool gave no output."
ATTACHED: Final = "The {} is attached to this message."

OWNERS: Final[Mapping[type, Role]] = MappingProxyType(
    {
        Image: Role.USER,
        Document: Role.USER,
        ToolResult: Role.USER,
        ThinkingPart: Role.ASSISTANT,
        ToolCallPart: Role.ASSISTANT,
    }
)
"""Parts that only one side can have; text is whoever's turn it is."""


def draft(prompt: Prompt, names: ToolNames, notes: Notes, *, replay_thinking: bool = True) -> list[Draft]:
    """The prompt's turns as drafts, in order; neighbours may have the same role.

    Raises:
        RequestError: An image or document that the service cannot be given.
    """
    writer = _Writer(names, notes, replay_thinking)
    return [writer.write(role, parts) for turn in prompt.turns for role, parts in _by_owner(turn)]


def _by_owner(turn: Turn) -> Iterator[tuple[Role, list[Part]]]:
    for role, parts in groupby(turn.parts, lambda part: OWNERS.get(type(part), turn.role)):
        yield role, list(parts)


@define
class _Writer:
    """Writes parts into drafts, by the table at its end."""

    _names: ToolNames
    _notes: Notes
    _replay_thinking: bool
    _documents: int = field(init=False, default=0)

    def write(self, role: Role, parts: Iterable[Part]) -> Draft:
        into = Draft(role)
        texts = [text for part in parts if (text := WRITERS[type(part)](self, part, into)) is not None]
        into.text = "\n".join(texts)
        return into

    def _text(self, part: Text, into: Draft) -> str | None:
        return part.text

    def _image(self, part: Image, into: Draft) -> str | None:
        into.images.append(image(part))
        return None

    def _document(self, part: Document, into: Draft) -> str | None:
        if part.text and not part.data:
            return document_text(part)
        self._documents += 1
        into.documents.append(document(part, self._documents))
        return None

    def _thinking(self, part: ThinkingPart, into: Draft) -> str | None:
        if part.redacted:
            reasoning: dict[str, Any] = {"redactedContent": part.redacted}
        else:
            reasoning = {"reasoningText": {"text": part.text, "signature": part.signature}}
        if not self._replay_thinking or not (part.redacted or part.signature):
            self._notes.add("thinking.unsigned_dropped" if self._replay_thinking else "thinking.dropped")
        elif into.reasoning is None:
            into.reasoning = reasoning
        else:
            self._notes.add("thinking.second_dropped")
        return None

    def _call(self, part: ToolCallPart, into: Draft) -> str | None:
        arguments = {key: value for key, value in part.input.items() if key}
        into.calls.append(
            {"toolUseId": self._id(part.call_id), "name": self._names.wire(part.name), "input": arguments}
        )
        return None

    def _result(self, part: ToolResult, into: Draft) -> str | None:
        texts = [text for inner in part.parts if (text := self._result_text(inner, into))]
        content = [{"text": text} for text in texts or [NO_OUTPUT]]
        status = "error" if part.is_error else "success"
        into.results.append({"toolUseId": self._id(part.call_id), "status": status, "content": content})
        return None

    def _result_text(self, part: Text | Image | Document, into: Draft) -> str | None:
        """The text of one part of a result; what is none moves to the message, and a sentence stands in its place."""
        text = WRITERS[type(part)](self, part, into)
        if text is not None:
            return text
        self._notes.add("results.attachment_lifted")
        return ATTACHED.format("image" if type(part) is Image else "document")

    def _id(self, value: str) -> str:
        safe = call_id(value)
        if safe != value:
            self._notes.add("calls.id_changed")
        return safe


WRITERS: Final[Mapping[type, Callable[[_Writer, Any, Draft], str | None]]] = MappingProxyType(
    {
        Text: _Writer._text,
        Image: _Writer._image,
        Document: _Writer._document,
        ThinkingPart: _Writer._thinking,
        ToolCallPart: _Writer._call,
        ToolResult: _Writer._result,
    }
)
"""Part to its writer, which adds it to a draft and returns what belongs to the text."""
