"""A request of any format, as far as the answer depends on it.

Readers put a request into the shape of a Kiro request, which answers are made from, so the same question has the same
answer in every format.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from attrs import field, frozen

from kiro_asgi.simulator.conversation import KiroConversation, OfferedTool
from kiro_asgi.simulator.markers import find_markers

FORMATS: Final[Mapping[str, str]] = {"jpg": "jpeg"}
"""Subtypes of images that have another name."""


@frozen
class Result:
    """The result of a tool call."""

    call_id: str
    text: str
    failed: bool = False


@frozen
class ChatTurn:
    """One message."""

    side: str
    """``user`` or ``assistant``."""

    text: str = ""
    images: tuple[tuple[str, str], ...] = ()
    """Media type and base64 of each."""

    results: tuple[Result, ...] = ()

    def __add__(self, other: ChatTurn) -> ChatTurn:
        text = "\n".join(part for part in (self.text, other.text) if part)
        return ChatTurn(self.side, text, self.images + other.images, self.results + other.results)


@frozen
class Question:
    """One request."""

    conversation: KiroConversation
    model: str
    stream: bool
    max_tokens: int | None = None
    stops: tuple[str, ...] = ()
    must_call: str | None = None
    """A tool that has to be called; ``""``: any; ``None``: none has to be."""

    searches: bool = False
    """Whether the service may search the web by itself."""

    operation: str = ""
    """The one that was asked, where a service answers in more than one."""

    fields_wanted: tuple[str, ...] = ()
    """Paths of fields of the model's own answer that are to be passed on."""

    texts: frozenset[str] = frozenset()
    """Names of tools that take a text, which is the ``input`` of the arguments."""

    with_usage: bool = True
    """Whether a stream reports usage."""

    habits: Mapping[str, str] = field(init=False)
    """Markers of the current message, with their parameters."""

    @habits.default
    def _marked(self) -> Mapping[str, str]:
        return dict(find_markers(self.conversation.content))


def conversation_of(
    model: str,
    turns: Iterable[ChatTurn],
    *,
    system: str = "",
    tools: Iterable[OfferedTool] = (),
    thinks: bool = False,
    schema: Any = None,
) -> KiroConversation:
    """The same as a Kiro request; neighbours of one side are one message, and the system text is the first.

    A *schema* for the answer becomes an instruction in words.
    """
    merged: list[ChatTurn] = []
    for turn in turns:
        if merged and merged[-1].side == turn.side:
            merged[-1] += turn
        else:
            merged.append(turn)
    current = merged.pop() if merged and merged[-1].side == "user" else ChatTurn("user", "Go on.")
    context = {"tools": [_tool(tool) for tool in tools], "toolResults": [_result(one) for one in current.results]}
    message = {
        "content": current.text,
        "modelId": model,
        "images": [_image(media_type, data) for media_type, data in current.images],
        "userInputMessageContext": context,
    }
    wanted = "" if schema is None else f"\nAnswer in this JSON schema: {json.dumps(schema)}"
    history = [{"userInputMessage": {"content": system + wanted}}, *map(_history, merged)]
    options = {"additionalModelRequestFields": {"thinking": {"type": "adaptive"}}} if thinks else {}
    state = {"currentMessage": {"userInputMessage": message}, "history": history}
    return KiroConversation({"conversationState": state, **options})


def _history(turn: ChatTurn) -> dict[str, Any]:
    kind = "userInputMessage" if turn.side == "user" else "assistantResponseMessage"
    return {kind: {"content": turn.text}}


def _tool(tool: OfferedTool) -> dict[str, Any]:
    spec = {"name": tool.name, "description": tool.description, "inputSchema": {"json": tool.schema}}
    return {"toolSpecification": spec}


def _result(result: Result) -> dict[str, Any]:
    status = "error" if result.failed else "success"
    return {"toolUseId": result.call_id, "status": status, "content": [{"text": result.text}]}


def _image(media_type: str, data: str) -> dict[str, Any]:
    subtype = media_type.rpartition("/")[2]
    return {"format": FORMATS.get(subtype, subtype), "source": {"bytes": data}}
