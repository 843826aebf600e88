"""A chat request to the simulated Kiro service, read forgivingly: the rules judge it.

`conversation_of` puts a request of another format into this shape, which answers are made from, so the same question
has the same answer in every format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from attrs import define, frozen

Message = Mapping[str, Any]

THINKING_TAGS: Final = re.compile(r"<(thinking_mode|max_thinking_length|thinking_effort)>[^<]*</\1>|</?thinking>")
THINKING_WANTED: Final = re.compile(
    r"<thinking_mode>\s*(enabled|adaptive)\s*</thinking_mode>|<thinking>", re.IGNORECASE
)
FREE: Final = frozenset(("input", "json", "additionalModelRequestFields"))
"""Members whose value is arbitrary JSON."""

_IMAGE_FORMATS: Final[Mapping[str, str]] = {"jpg": "jpeg"}
"""Subtypes of images that have another name."""

LONG: Final = 400
"""Characters after which only the last paragraph counts as the user's own text."""


def as_map(value: Any) -> Mapping[str, Any]:
    """*value* if it is a JSON object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: Any) -> Sequence[Any]:
    """*value* if it is a JSON array, else an empty one."""
    return value if isinstance(value, list) else ()


def context_of(message: Message) -> Mapping[str, Any]:
    """``userInputMessageContext`` of a user message."""
    return as_map(message.get("userInputMessageContext"))


def results_of(message: Message) -> list[Mapping[str, Any]]:
    """Tool results of a user message."""
    return [as_map(result) for result in as_list(context_of(message).get("toolResults"))]


def uses_of(message: Message) -> list[Mapping[str, Any]]:
    """Tool uses of an assistant message."""
    return [as_map(use) for use in as_list(message.get("toolUses"))]


@frozen
class OfferedTool:
    """One tool of a request."""

    name: str
    description: str
    schema: Mapping[str, Any]


def _result_text(result: Mapping[str, Any]) -> str:
    parts = (as_map(part) for part in as_list(result.get("content")))
    return "\n".join(str(part["text"]) if "text" in part else str(part.get("json", "")) for part in parts)


@define(eq=False, slots=False)
class KiroConversation:
    """One request's document, with names for the parts that matter."""

    document: Mapping[str, Any]
    rpc: bool = False
    """Whether the request is in the RPC style, whose answers begin with an ``initial-response``."""

    @cached_property
    def state(self) -> Mapping[str, Any]:
        """``conversationState``."""
        return as_map(self.document.get("conversationState"))

    @cached_property
    def current(self) -> Mapping[str, Any]:
        """The user message to be answered."""
        return as_map(as_map(self.state.get("currentMessage")).get("userInputMessage"))

    @cached_property
    def history(self) -> tuple[tuple[str, Message], ...]:
        """Earlier messages as (``user`` or ``assistant`` or ``""``, message)."""
        return tuple(self._history())

    def _history(self) -> Iterator[tuple[str, Message]]:
        for item in map(as_map, as_list(self.state.get("history"))):
            if "userInputMessage" in item:
                yield "user", as_map(item["userInputMessage"])
            elif "assistantResponseMessage" in item:
                yield "assistant", as_map(item["assistantResponseMessage"])
            else:
                yield "", {}

    @cached_property
    def messages(self) -> tuple[tuple[str, Message], ...]:
        """The history and the current message, as `history` has them."""
        return (*self.history, ("user", self.current))

    @cached_property
    def users(self) -> tuple[Message, ...]:
        """The user's messages, the current one last."""
        return tuple(message for side, message in self.messages if side == "user")

    @cached_property
    def assistants(self) -> tuple[Message, ...]:
        """The assistant's messages."""
        return tuple(message for side, message in self.messages if side == "assistant")

    @cached_property
    def members(self) -> tuple[tuple[str, Any], ...]:
        """Every member of every object of the document, in no order, but for arbitrary JSON; entries of lists
        have no name."""
        found: list[tuple[str, Any]] = []
        rest: list[Any] = [self.document]
        while rest:
            value = rest.pop()
            within = list(value.items()) if isinstance(value, Mapping) else [("", part) for part in value]
            found += within
            rest += [part for name, part in within if isinstance(part, dict | list) and name not in FREE]
        return tuple(found)

    @cached_property
    def content(self) -> str:
        """The current message's text, as sent."""
        content = self.current.get("content")
        return content if isinstance(content, str) else ""

    @cached_property
    def instructions(self) -> str:
        """Text of the first message, where system prompts are put."""
        return str(self.history[0][1].get("content", "")) if self.history else ""

    @cached_property
    def user_text(self) -> str:
        """The user's own text, as far as it shows: without requests for thinking; if long, the last paragraph."""
        paragraphs = self.content.split("\n\n")
        plain = [part for part in paragraphs if "<thinking>" not in part] or paragraphs
        text = THINKING_TAGS.sub("", "\n\n".join(plain)).strip()
        return text if len(text) <= LONG else text.rsplit("\n\n", 1)[-1].strip()[-LONG:]

    @cached_property
    def model(self) -> str:
        """The model asked for; ``auto`` where none is named."""
        return str(self.current.get("modelId") or "auto")

    @cached_property
    def context(self) -> Mapping[str, Any]:
        """``userInputMessageContext`` of the current message."""
        return context_of(self.current)

    @cached_property
    def tools(self) -> tuple[OfferedTool, ...]:
        """The tools on offer."""
        specs = (as_map(as_map(item).get("toolSpecification")) for item in as_list(self.context.get("tools")))
        return tuple(
            OfferedTool(
                str(spec.get("name", "")),
                str(spec.get("description", "")),
                as_map(as_map(spec.get("inputSchema")).get("json")),
            )
            for spec in specs
            if spec
        )

    @cached_property
    def results(self) -> tuple[tuple[str, str, bool], ...]:
        """Tool results in the current message: id, text, whether it is an error."""
        return tuple(
            (str(result.get("toolUseId", "")), _result_text(result), result.get("status") == "error")
            for result in results_of(self.current)
        )

    @cached_property
    def options(self) -> Mapping[str, Any]:
        """``additionalModelRequestFields``."""
        return as_map(self.document.get("additionalModelRequestFields"))

    @property
    def wants_native_thinking(self) -> bool:
        """Whether reasoning was asked for in the request's fields, and is not to be left out of the answer."""
        asked = as_map(self.options.get("thinking"))
        if asked:
            return asked.get("type") != "disabled" and asked.get("display") != "omitted"
        effort = as_map(self.options.get("output_config")).get("effort")
        reasoning = as_map(self.options.get("reasoning")).get("effort")
        return effort is not None or reasoning not in (None, "none")

    @property
    def wants_tagged_thinking(self) -> bool:
        """Whether the prompt asks for thinking between tags."""
        return bool(THINKING_WANTED.search(self.content) or THINKING_WANTED.search(self.instructions))

    @property
    def size(self) -> int:
        """Prompt tokens, at four characters a token."""
        texts = [self.content, *(str(message.get("content", "")) for _, message in self.history)]
        return 1 + sum(map(len, texts)) // 4


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
    return {"format": _IMAGE_FORMATS.get(subtype, subtype), "source": {"bytes": data}}
