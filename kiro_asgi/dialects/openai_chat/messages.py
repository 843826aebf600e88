"""The conversation: messages to turns and system texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import MappingProxyType
from typing import Any, Final

from attrs import define, field

from kiro_asgi.dialects.arguments import read_arguments
from kiro_asgi.dialects.openai_chat.parts import assistant_content, texts, user_content
from kiro_asgi.dialects.openai_chat.shapes import (
    AssistantMessage,
    Call,
    FunctionMessage,
    Invocation,
    Message,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from kiro_asgi.dialects.openai_chat.signatures import read_extra_content, read_reasoning_details
from kiro_asgi.dialects.refusals import invalid
from kiro_asgi.dialects.structure import Raw
from kiro_asgi.model.prompt import Part, Role, Text, ThinkingPart, ToolCallPart, ToolResult, Turn

__all__ = ["Conversation"]


@define
class Conversation:
    """Reads messages in order, and remembers the calls that results must answer.

    Raises:
        RequestError: From `read`: a message that has no place where it stands.
    """

    system: list[str] = field(init=False, factory=list)
    """The texts before the conversation begins."""

    system_place: str = field(init=False, default="")
    """Where the first of them stands."""

    turns: list[Turn] = field(init=False, factory=list)
    _calls: set[str] = field(init=False, factory=set)
    _functions: dict[str, str] = field(init=False, factory=dict)
    """Name of a function called in the deprecated form, to the id that we gave its last call."""

    def read(self, messages: Iterable[Message]) -> None:
        """Take the messages.

        System text in mid-conversation is said by the user where it stands: the beginning of the conversation, which
        upstreams cache, stays as it was.  Without a conversation it is what the user asks.
        """
        for index, message in enumerate(messages):
            _READERS[type(message)](self, message, f"messages[{index}]")
        if not self.turns and self.system:
            self._tell(self.system, self.system_place)
            self.system = []

    def _system(self, message: SystemMessage, place: str) -> None:
        said = texts(message.content, f"{place}.content")
        if self.turns:
            self._tell(said, place)
        else:
            self.system += said
            self.system_place = self.system_place or place

    def _tell(self, said: Iterable[str], place: str) -> None:
        if parts := tuple(map(Text, said)):
            self.turns.append(Turn(Role.USER, parts, place))

    def _user(self, message: UserMessage, place: str) -> None:
        self.turns.append(Turn(Role.USER, user_content(message.content, f"{place}.content"), place))

    def _assistant(self, message: AssistantMessage, place: str) -> None:
        parts = (
            *_thinking(message),
            *assistant_content(message.content, f"{place}.content"),
            *([Text(message.refusal, is_refusal=True)] if message.refusal else []),
            *self._tool_calls(message.tool_calls or (), place),
            *self._function_call(message.function_call, place),
        )
        self.turns.append(Turn(Role.ASSISTANT, parts, place))

    def _tool_calls(self, calls: Iterable[Call], place: str) -> Iterator[Part]:
        for index, call in enumerate(calls):
            self._calls.add(call.id)
            if signature := read_extra_content(call.extra_content):
                yield ThinkingPart(signature=signature)
            yield _tool_call(call, f"{place}.tool_calls[{index}]")

    def _function_call(self, call: Invocation | None, place: str) -> Iterator[ToolCallPart]:
        if call is not None:
            call_id = f"call_{len(self.turns)}"
            self._functions[call.name] = call_id
            yield ToolCallPart(call_id, call.name, read_arguments(call.arguments, f"{place}.function_call.arguments"))

    def _tool(self, message: ToolMessage, place: str) -> None:
        if message.tool_call_id not in self._calls:
            raise invalid(f"{place}.tool_call_id", "no earlier assistant message made a call with this id")
        self._result(message.tool_call_id, message, place)

    def _function(self, message: FunctionMessage, place: str) -> None:
        call_id = self._functions.get(message.name)
        if call_id is None:
            raise invalid(f"{place}.name", "no earlier assistant message called this function")
        self._result(call_id, message, place)

    def _result(self, call_id: str, message: ToolMessage | FunctionMessage, place: str) -> None:
        result = ToolResult(call_id, user_content(message.content, f"{place}.content"))
        self.turns.append(Turn(Role.USER, (result,), place))

    def _unknown(self, message: Raw, place: str) -> None:
        raise invalid(f"{place}.role", f"unknown role: {str(message.value.get('role'))[:60]}")


_READERS: Final = MappingProxyType[type, Any](
    {
        SystemMessage: Conversation._system,
        UserMessage: Conversation._user,
        AssistantMessage: Conversation._assistant,
        ToolMessage: Conversation._tool,
        FunctionMessage: Conversation._function,
        Raw: Conversation._unknown,
    }
)


def _thinking(message: AssistantMessage) -> Iterator[Part]:
    """Thinking that the client echoes, under either of the names in use, and its signatures."""
    texts = (value for value in (message.reasoning_content, message.reasoning) if isinstance(value, str) and value)
    text = next(texts, "")
    for signature in read_reasoning_details(message.reasoning_details):
        yield ThinkingPart(text, signature)
        text = ""
    if text:
        yield ThinkingPart(text)


def _tool_call(call: Call, place: str) -> ToolCallPart:
    if call.function is not None:
        arguments = read_arguments(call.function.arguments, f"{place}.function.arguments")
        return ToolCallPart(call.id, call.function.name, arguments)
    if call.custom is not None:
        return ToolCallPart(call.id, call.custom.name, {"input": call.custom.input})
    raise invalid(place, "a tool call has a function")
