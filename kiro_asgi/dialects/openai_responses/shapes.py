"""Input items and their content, as clients send them.

What is not declared here is ignored, so a field that the API gains tomorrow is not an error.  Items of kinds that are
not declared are told in words, see `kiro_asgi.dialects.openai_responses.history`.

Source: https://platform.openai.com/docs/api-reference/responses/create
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from kiro_asgi.dialects.openai_responses.tool_shapes import ToolBody
from kiro_asgi.dialects.structure import Raw, Tagged

__all__ = [
    "ITEMS",
    "PARTS",
    "AudioPart",
    "CallOutput",
    "ClientCall",
    "Content",
    "CustomCall",
    "FilePart",
    "FunctionCall",
    "ImagePart",
    "ImageUrl",
    "Item",
    "LocalShellOutput",
    "MessageItem",
    "Part",
    "PatchOutput",
    "ReasoningItem",
    "ReasoningText",
    "Reference",
    "RefusalPart",
    "ShellOutput",
    "ShellResult",
    "TextPart",
    "ToolsItem",
]


# Content of a message, and of what a tool gave.


@frozen
class TextPart:
    """``input_text`` and ``output_text``, and what the Chat Completions API calls ``text``."""

    text: str


@frozen
class RefusalPart:
    """``refusal``."""

    refusal: str


@frozen
class ImageUrl:
    """Where an image is, in the form of the Chat Completions API."""

    url: str


@frozen
class ImagePart:
    """``input_image``; ``detail`` says nothing to us."""

    image_url: str | ImageUrl | None = None
    file_id: str | None = None


@frozen
class FilePart:
    """``input_file``: by value, by address, or by the id of an upload."""

    file_data: str | None = None
    file_url: str | None = None
    file_id: str | None = None
    filename: str | None = None


@frozen
class AudioPart:
    """``input_audio``."""


Part = TextPart | RefusalPart | ImagePart | FilePart | AudioPart | Raw

Content = str | tuple[Part, ...]

PARTS: Final = Tagged(
    Part,
    MappingProxyType(
        {
            "input_text": TextPart,
            "output_text": TextPart,
            "text": TextPart,
            "refusal": RefusalPart,
            "input_image": ImagePart,
            "input_file": FilePart,
            "input_audio": AudioPart,
        }
    ),
)


# Items.


@frozen
class MessageItem:
    """``message``, and every item without a ``type``; one that has only an id is a reference."""

    role: str | None = None
    content: Content | None = None
    id: Any = None


@frozen
class FunctionCall:
    """``function_call``."""

    call_id: str
    name: str
    arguments: str | Mapping[str, Any] | None = None
    namespace: str | None = None


@frozen
class CustomCall:
    """``custom_tool_call``."""

    call_id: str
    name: str
    input: str
    namespace: str | None = None


@frozen
class CallOutput:
    """``function_call_output`` and ``custom_tool_call_output``; without a call id, something a tool says unasked."""

    output: Content
    call_id: str | None = None
    name: str | None = None


@frozen
class ClientCall:
    """``local_shell_call``, ``shell_call``, ``apply_patch_call`` and ``tool_search_call``."""

    type: str
    call_id: str | None = None
    id: str | None = None
    action: Mapping[str, Any] | None = None
    operation: Mapping[str, Any] | None = None
    arguments: Any = None


@frozen
class LocalShellOutput:
    """``local_shell_call_output``, whose id is that of the call."""

    output: str
    call_id: str | None = None
    id: str | None = None


@frozen
class ShellResult:
    """What one command gave."""

    stdout: str = ""
    stderr: str = ""
    outcome: Mapping[str, Any] | None = None


@frozen
class ShellOutput:
    """``shell_call_output``."""

    call_id: str
    output: tuple[ShellResult, ...]


@frozen
class PatchOutput:
    """``apply_patch_call_output``."""

    call_id: str
    status: str
    output: str | None = None


@frozen
class ToolsItem:
    """``additional_tools`` and ``tool_search_output``: more tools from here on."""

    tools: tuple[ToolBody, ...]
    call_id: str | None = None


@frozen
class ReasoningText:
    """A piece of thinking, or of its summary."""

    text: str


@frozen
class ReasoningItem:
    """``reasoning``."""

    summary: tuple[ReasoningText, ...] | None = None
    content: tuple[ReasoningText, ...] | None = None
    encrypted_content: str | None = None


@frozen
class Reference:
    """``item_reference``."""

    id: str


Item = (
    MessageItem
    | FunctionCall
    | CustomCall
    | CallOutput
    | ClientCall
    | LocalShellOutput
    | ShellOutput
    | PatchOutput
    | ToolsItem
    | ReasoningItem
    | Reference
    | Raw
)

ITEMS: Final = Tagged(
    Item,
    MappingProxyType(
        {
            "message": MessageItem,
            "function_call": FunctionCall,
            "function_call_output": CallOutput,
            "custom_tool_call": CustomCall,
            "custom_tool_call_output": CallOutput,
            "local_shell_call": ClientCall,
            "local_shell_call_output": LocalShellOutput,
            "shell_call": ClientCall,
            "shell_call_output": ShellOutput,
            "apply_patch_call": ClientCall,
            "apply_patch_call_output": PatchOutput,
            "tool_search_call": ClientCall,
            "tool_search_output": ToolsItem,
            "additional_tools": ToolsItem,
            "reasoning": ReasoningItem,
            "item_reference": Reference,
        }
    ),
    default="message",
)
