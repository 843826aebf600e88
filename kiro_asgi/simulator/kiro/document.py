"""A chat request to the simulated Kiro service, read forgivingly: the rules judge it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

from attrs import define

from kiro_asgi.simulator.conversation import Conversation, OfferedTool, Result, as_list, as_map, size_of
from kiro_asgi.simulator.kiro.models import MODELS

Message = Mapping[str, Any]

FREE: Final = frozenset(("input", "json", "additionalModelRequestFields"))
"""Members whose value is arbitrary JSON."""


def context_of(message: Message) -> Mapping[str, Any]:
    """``userInputMessageContext`` of a user message."""
    return as_map(message.get("userInputMessageContext"))


def results_of(message: Message) -> list[Mapping[str, Any]]:
    """Tool results of a user message."""
    return [as_map(result) for result in as_list(context_of(message).get("toolResults"))]


def uses_of(message: Message) -> list[Mapping[str, Any]]:
    """Tool uses of an assistant message."""
    return [as_map(use) for use in as_list(message.get("toolUses"))]


def _result_text(result: Mapping[str, Any]) -> str:
    parts = (as_map(part) for part in as_list(result.get("content")))
    return "\n".join(str(part["text"]) if "text" in part else str(part.get("json", "")) for part in parts)


@define(eq=False, slots=False)
class KiroDocument:
    """One request's document, with names for the parts that matter to rules."""

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
    def options(self) -> Mapping[str, Any]:
        """``additionalModelRequestFields``."""
        return as_map(self.document.get("additionalModelRequestFields"))

    @cached_property
    def conversation(self) -> Conversation:
        """As its answer depends on it."""
        content = self.current.get("content")
        images = map(as_map, as_list(self.current.get("images")))
        return Conversation(
            model=self.model,
            content=content if isinstance(content, str) else "",
            earlier=tuple(str(message.get("content", "")) for _, message in self.history),
            images=tuple((str(each.get("format")), size_of(_bytes(each))) for each in images),
            tools=self.tools,
            results=tuple(
                Result(str(each.get("toolUseId", "")), _result_text(each), each.get("status") == "error")
                for each in results_of(self.current)
            ),
            wants_native_thinking=self._wants_thinking(),
            id=str(self.state.get("conversationId") or ""),
            window=next((model.window for model in MODELS if model.id == self.model), 200_000),
            opens=self.rpc,
        )

    def _wants_thinking(self) -> bool:
        asked = as_map(self.options.get("thinking"))
        if asked:
            return asked.get("type") != "disabled" and asked.get("display") != "omitted"
        effort = as_map(self.options.get("output_config")).get("effort")
        reasoning = as_map(self.options.get("reasoning")).get("effort")
        return effort is not None or reasoning not in (None, "none")


def _bytes(picture: Mapping[str, Any]) -> str:
    return str(as_map(picture.get("source")).get("bytes", ""))
