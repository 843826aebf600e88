"""Messages and their parts, as clients send them.

What is not declared here is ignored, so a field that the API gains tomorrow is not an error.  ``Any`` stands where
extensions of other vendors are read as far as they make sense and are never refused.

Source: https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from kiro_asgi.dialects.structure import Raw, Tagged

__all__ = [
    "MESSAGES",
    "PARTS",
    "AssistantMessage",
    "AudioPart",
    "Call",
    "CustomInvocation",
    "FileContent",
    "FilePart",
    "FunctionMessage",
    "ImagePart",
    "ImageUrl",
    "Invocation",
    "Message",
    "Part",
    "RefusalPart",
    "SystemMessage",
    "TextPart",
    "ThinkingContent",
    "ToolMessage",
    "UserMessage",
]


# Parts of a message.


@frozen
class TextPart:
    """``text``, and what the Responses API calls ``input_text`` and ``output_text``."""

    text: str


@frozen
class RefusalPart:
    """``refusal``."""

    refusal: str


@frozen
class ImageUrl:
    """Where an image is."""

    url: str


@frozen
class ImagePart:
    """``image_url``; some clients send the address bare."""

    image_url: ImageUrl | str


@frozen
class AudioPart:
    """``input_audio``."""


@frozen
class FileContent:
    """A file, by value or by the id of an upload."""

    file_data: str | None = None
    filename: str | None = None


@frozen
class FilePart:
    """``file``."""

    file: FileContent


@frozen
class ThinkingContent:
    """``thinking``: an extension of gateways that carry Anthropic's blocks through this API."""

    thinking: str
    signature: str | None = None


Part = TextPart | RefusalPart | ImagePart | AudioPart | FilePart | ThinkingContent | Raw

PARTS: Final = Tagged(
    Part,
    MappingProxyType(
        {
            "text": TextPart,
            "input_text": TextPart,
            "output_text": TextPart,
            "refusal": RefusalPart,
            "image_url": ImagePart,
            "input_audio": AudioPart,
            "file": FilePart,
            "thinking": ThinkingContent,
        }
    ),
)


# Messages.


@frozen
class Invocation:
    """A function name with its arguments: JSON text, or from some clients the object itself."""

    name: str
    arguments: str | Mapping[str, Any] | None = None


@frozen
class CustomInvocation:
    """A custom tool's name with its input, which is plain text."""

    name: str
    input: str


@frozen
class Call:
    """An entry of ``tool_calls``."""

    id: str
    function: Invocation | None = None
    custom: CustomInvocation | None = None
    extra_content: Any = None


@frozen
class SystemMessage:
    """``system`` and ``developer``."""

    content: str | tuple[Part, ...]


@frozen
class UserMessage:
    """``user``."""

    content: str | tuple[Part, ...]


@frozen
class AssistantMessage:
    """``assistant``."""

    content: str | tuple[Part, ...] | None = None
    refusal: str | None = None
    tool_calls: tuple[Call, ...] | None = None
    function_call: Invocation | None = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_details: Any = None


@frozen
class ToolMessage:
    """``tool``."""

    tool_call_id: str
    content: str | tuple[Part, ...] | None = None


@frozen
class FunctionMessage:
    """``function``, the deprecated form of ``tool``."""

    name: str
    content: str | tuple[Part, ...] | None = None


Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage | FunctionMessage | Raw

MESSAGES: Final = Tagged(
    Message,
    MappingProxyType(
        {
            "developer": SystemMessage,
            "system": SystemMessage,
            "user": UserMessage,
            "assistant": AssistantMessage,
            "tool": ToolMessage,
            "function": FunctionMessage,
        }
    ),
    tag="role",
)
