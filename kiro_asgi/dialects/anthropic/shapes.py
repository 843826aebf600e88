"""The body of ``POST /v1/messages`` as attrs classes, with the fields that are read and no others.

Fields that are not named here (``service_tier``, ``speed``, ``inference_geo``, ``diagnostics``, ``context_management``,
``fallbacks``, ``safeguards`` and whatever comes next) are kept for services of the same API, and so are blocks of a
kind that is not named; messages of a role that is not lead to nothing.

Sources: https://docs.anthropic.com/en/api/messages;
https://platform.claude.com/docs/en/build-with-claude/prompt-caching
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import field, frozen

from kiro_asgi.dialects.structure import Raw, Shape, Tagged, Whole, make_converter
from kiro_asgi.dialects.unread import EVERY, Beside

API: Final = "anthropic"
"""Name of the dialect."""

FIELD_REQUIRED: Final = "Field required"
"""The text that clients look for, after the name of the field, when one is missing."""


@frozen
class Base64Source(Shape):
    """An image or a document by value."""

    media_type: str
    data: str


@frozen
class TextSource(Shape):
    """A plain-text document by value."""

    data: str
    media_type: str = "text/plain"


@frozen
class UrlSource(Shape):
    """An image or a document by address."""

    url: str


@frozen
class MessagesTextBlock(Shape):
    """Text."""

    text: str
    cache_control: Any = None
    citations: Any = None


@frozen
class ImageBlock(Whole):
    """An image."""

    source: Source
    cache_control: Any = None


@frozen
class ContentSource(Shape):
    """A document made of blocks."""

    content: str | tuple[MessagesTextBlock | ImageBlock | Raw, ...]


@frozen
class DocumentBlock(Whole):
    """A document."""

    source: Source
    title: str | None = None
    context: str | None = None
    cache_control: Any = None
    citations: Any = None


@frozen
class SearchResultBlock(Whole):
    """One hit of a search that the client made."""

    source: str
    title: str
    content: tuple[MessagesTextBlock, ...]
    cache_control: Any = None
    citations: Any = None


@frozen
class MessagesThinkingBlock(Shape):
    """Thinking of an earlier answer; that of other providers may come without a signature."""

    thinking: str
    signature: str | None = None


@frozen
class MessagesRedactedThinkingBlock(Shape):
    """Sealed thinking of an earlier answer."""

    data: str


@frozen
class ToolUseBlock(Whole):
    """A tool call of an earlier answer."""

    id: str
    name: str
    input: Mapping[str, Any] | None = None
    cache_control: Any = None
    toolset_name: Any = None


@frozen
class ServerResultBlock(Shape):
    """The result of a tool that ran on a server, this one or another."""

    tool_use_id: str
    content: Any = None
    is_error: bool | None = None
    cache_control: Any = None


@frozen
class ToolResultBlock(Shape):
    """The result of a tool: text, blocks, or any JSON."""

    tool_use_id: str
    content: Any = None
    is_error: bool | None = None
    cache_control: Any = None
    toolset_name: Any = None


@frozen
class BrowserStateBlock(Whole):
    """The tabs of the client's browser, in the result of a member of a toolset; the service puts it into words."""

    tabs: Any = None
    state_changes: Any = None
    cache_control: Any = None


@frozen
class CompactionBlock(Whole):
    """A summary of all before it, which a service made; without content it could make none."""

    content: str | None = None
    encrypted_content: Any = None
    signature: Any = None
    tool_changes: Any = None
    cache_control: Any = None


@frozen
class ContainerUploadBlock(Whole):
    """A file that Anthropic holds, for a container."""

    file_id: str


Source = Base64Source | TextSource | UrlSource | ContentSource | Raw

Block = (
    MessagesTextBlock
    | ImageBlock
    | DocumentBlock
    | SearchResultBlock
    | MessagesThinkingBlock
    | MessagesRedactedThinkingBlock
    | ToolUseBlock
    | ToolResultBlock
    | ServerResultBlock
    | CompactionBlock
    | ContainerUploadBlock
    | Raw
)


@frozen
class MessageBody(Shape):
    """One turn."""

    role: str
    content: str | tuple[Block, ...]


@frozen
class SystemBody(MessageBody):
    """System text in mid-conversation, which becomes part of the user's turn: another message."""


@frozen
class MessagesTool(Whole):
    """One tool: the client's own, one that Anthropic defined, or one that runs on a server."""

    type: str | None = None
    name: str | None = None
    description: str | None = None
    input_schema: Mapping[str, Any] | None = None
    display_width_px: int | None = None
    display_height_px: int | None = None
    max_uses: int | None = None
    allowed_domains: tuple[str, ...] | None = None
    blocked_domains: tuple[str, ...] | None = None
    cache_control: Any = None
    strict: Any = None
    configs: Any = None


@frozen
class ToolChoiceBody(Shape):
    """Whether a tool must be called."""

    type: str
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


@frozen
class ThinkingBody(Shape):
    """Whether to think."""

    type: str
    budget_tokens: int | None = None
    display: str | None = None


@frozen
class OutputFormat(Shape):
    """The form that the answer's text must have."""

    type: str
    schema: Mapping[str, Any] | None = None


@frozen
class OutputConfigBody(Shape):
    """The effort, and the form of the answer."""

    effort: str | None = None
    format: OutputFormat | None = None


@frozen
class MessagesCountBody(Shape):
    """The part of a request that is counted."""

    model: str
    messages: tuple[MessageBody | SystemBody | Raw, ...]
    system: str | tuple[MessagesTextBlock | Raw, ...] | None = None
    tools: tuple[MessagesTool, ...] | None = None
    tool_choice: Mapping[str, Any] | None = None
    thinking: ThinkingBody | None = None
    output_config: OutputConfigBody | None = None
    output_format: OutputFormat | None = None
    metadata: Mapping[str, Any] | None = None
    cache_control: Any = None


@frozen
class MessagesRequestBody(MessagesCountBody):
    """A whole request."""

    max_tokens: int = field(kw_only=True)
    stream: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: tuple[str, ...] | None = None


_SOURCES: Final = MappingProxyType(
    {"base64": Base64Source, "text": TextSource, "url": UrlSource, "content": ContentSource}
)

_BLOCKS: Final = MappingProxyType(
    {
        "text": MessagesTextBlock,
        "image": ImageBlock,
        "document": DocumentBlock,
        "search_result": SearchResultBlock,
        "thinking": MessagesThinkingBlock,
        "redacted_thinking": MessagesRedactedThinkingBlock,
        "tool_use": ToolUseBlock,
        "tool_result": ToolResultBlock,
        "server_tool_use": ToolUseBlock,
        "mcp_tool_use": ToolUseBlock,
        "compaction": CompactionBlock,
        "container_upload": ContainerUploadBlock,
    }
)

_MESSAGES: Final = MappingProxyType({"user": MessageBody, "assistant": MessageBody, "system": SystemBody})

MESSAGES: Final = Tagged(MessageBody | SystemBody | Raw, _MESSAGES, tag="role")

BLOCKS: Final = Tagged(Block, _BLOCKS, endings=MappingProxyType({"_tool_result": ServerResultBlock}))

SOURCES: Final = Tagged(Source, _SOURCES)

TEXTS: Final = Tagged(MessagesTextBlock | Raw, MappingProxyType({"text": MessagesTextBlock}))

TEXTS_AND_IMAGES: Final = Tagged(
    MessagesTextBlock | ImageBlock | Raw, MappingProxyType({"text": MessagesTextBlock, "image": ImageBlock})
)

UNIONS: Final = (MESSAGES, BLOCKS, SOURCES, TEXTS, TEXTS_AND_IMAGES)

CONVERTER: Final = make_converter(*UNIONS)

BESIDE: Final = Beside(
    API,
    lost_of=MappingProxyType({SystemBody: EVERY}),
    rules=MappingProxyType({(MessagesRequestBody, "service_tier"): "", (ToolUseBlock, "caller"): "fields.no_effect"}),
)
