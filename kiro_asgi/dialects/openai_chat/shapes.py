"""The body of a Chat Completions request: its fields, messages and their parts, as far as they are read.

What is not declared here is kept for services of the same API, so a field that the API gains tomorrow is not an error.
``Any`` stands where extensions of other vendors are read as far as they make sense and are never refused.

Some clients, Cursor's agent mode among them, send shapes of the Messages API here: tools with an ``input_schema``,
blocks such as ``tool_use``, ``tool_result`` and ``image``, or the system text beside the messages.  They are read as
what they are.

Source: https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from kiro_asgi.dialects.openai_common import HANDLED, AudioPart, ImageUrl, RefusalPart, StreamOptions, TextPart
from kiro_asgi.dialects.structure import Raw, Shape, Tagged, Whole, make_converter
from kiro_asgi.dialects.unread import Beside

API: Final = "openai_chat"
"""Name of the dialect."""


@frozen
class ImagePart(Shape):
    """``image_url``; some clients send the address bare."""

    image_url: ImageUrl | str


@frozen
class FileContent(Shape):
    """A file, by value or by the id of an upload."""

    file_data: str | None = None
    filename: str | None = None


@frozen
class FilePart(Whole):
    """``file``."""

    file: FileContent


@frozen
class ThinkingContent(Shape):
    """``thinking``: an extension of gateways that carry Anthropic's blocks through this API."""

    thinking: str
    signature: str | None = None


@frozen
class SealedThinking(Shape):
    """``redacted_thinking`` of the Messages API."""

    data: str


@frozen
class PictureBlock(Shape):
    """``image`` of the Messages API."""

    source: Mapping[str, Any]


@frozen
class DocumentBlock(Shape):
    """``document`` of the Messages API."""

    source: Mapping[str, Any]
    title: str | None = None


@frozen
class UseBlock(Shape):
    """``tool_use`` of the Messages API."""

    id: str
    name: str
    input: Mapping[str, Any] | None = None


@frozen
class ResultBlock(Shape):
    """``tool_result`` of the Messages API."""

    tool_use_id: str
    content: Any = None
    is_error: bool | None = None


ContentPart = (
    TextPart
    | RefusalPart
    | ImagePart
    | AudioPart
    | FilePart
    | ThinkingContent
    | SealedThinking
    | PictureBlock
    | DocumentBlock
    | UseBlock
    | ResultBlock
    | Raw
)

BLOCKS: Final = MappingProxyType(
    {
        "redacted_thinking": SealedThinking,
        "image": PictureBlock,
        "document": DocumentBlock,
        "tool_use": UseBlock,
        "tool_result": ResultBlock,
    }
)
"""Blocks of the Messages API."""

PARTS: Final = Tagged(
    ContentPart,
    MappingProxyType(
        {
            "text": TextPart,
            "input_text": TextPart,
            "output_text": TextPart,
            "refusal": RefusalPart,
            "image_url": ImagePart,
            "input_image": ImagePart,
            "input_audio": AudioPart,
            "file": FilePart,
            "thinking": ThinkingContent,
            **BLOCKS,
        }
    ),
)


# Messages.


@frozen
class Invocation(Shape):
    """A function name with its arguments: JSON text, or from some clients the object itself."""

    name: str
    arguments: str | Mapping[str, Any] | None = None


@frozen
class CustomInvocation(Shape):
    """A custom tool's name with its input, which is plain text."""

    name: str
    input: str


@frozen
class ChatCall(Shape):
    """An entry of ``tool_calls``."""

    id: str
    function: Invocation | None = None
    custom: CustomInvocation | None = None
    extra_content: Any = None


@frozen
class SystemMessage(Shape):
    """``system`` and ``developer``."""

    content: str | tuple[ContentPart, ...]


@frozen
class UserMessage(Shape):
    """``user``."""

    content: str | tuple[ContentPart, ...]


@frozen
class AssistantMessage(Shape):
    """``assistant``."""

    content: str | tuple[ContentPart, ...] | None = None
    refusal: str | None = None
    audio: Any = None
    images: Any = None
    tool_calls: tuple[ChatCall, ...] | None = None
    function_call: Invocation | None = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_details: Any = None


@frozen
class ToolMessage(Shape):
    """``tool``."""

    tool_call_id: str
    content: str | tuple[ContentPart, ...] | None = None


@frozen
class FunctionMessage(Shape):
    """``function``, the deprecated form of ``tool``."""

    name: str
    content: str | tuple[ContentPart, ...] | None = None


_OF_RESULTS: Final = frozenset({"name", "status"})
"""Members that some clients add to the messages of tools, and that OpenAI refuses there."""

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


# Tools.


@frozen
class ChatFunction(Shape):
    """A function the client can run."""

    name: str
    description: str | None = None
    parameters: Mapping[str, Any] | None = None
    input_schema: Mapping[str, Any] | None = None
    """The parameters, in the word of the Messages API."""

    strict: Any = None


@frozen
class ChatFunctionTool(Shape):
    """A function tool, nested as this API has it, or flat as the Responses API and the Messages API have it."""

    function: ChatFunction | None = None
    name: str | None = None
    description: str | None = None
    parameters: Mapping[str, Any] | None = None
    input_schema: Mapping[str, Any] | None = None
    strict: Any = None


@frozen
class ChatSearchFilters(Shape):
    """Where pages may come from."""

    allowed_domains: tuple[str, ...] | None = None


@frozen
class ChatSearchTool(Shape):
    """The web search, as the Responses API lists it among the tools."""

    filters: ChatSearchFilters | None = None


@frozen
class CustomTool(Shape):
    """What a custom tool is."""

    name: str
    description: str | None = None
    format: Mapping[str, Any] | None = None


@frozen
class ChatCustomTool(Shape):
    """A tool whose input is not JSON, nested as this API has it, or flat as the Responses API has it; with an
    ``input_schema`` it is a function of the Messages API."""

    custom: CustomTool | None = None
    name: str | None = None
    description: str | None = None
    input_schema: Mapping[str, Any] | None = None
    strict: Any = None
    format: Mapping[str, Any] | None = None


ToolBody = ChatFunctionTool | ChatCustomTool | ChatSearchTool | Raw

TOOLS: Final = Tagged(
    ToolBody,
    MappingProxyType(
        {
            "function": ChatFunctionTool,
            "custom": ChatCustomTool,
            "web_search": ChatSearchTool,
            "web_search_2025_08_26": ChatSearchTool,
            "web_search_preview": ChatSearchTool,
            "web_search_preview_2025_03_11": ChatSearchTool,
        }
    ),
    default="function",
)


CHOICES: Final = ("auto", "any", "tool", "none")
"""Types of a choice among tools in the Messages API."""


# Form of the answer.


@frozen
class ChatTextFormat(Shape):
    """``text``."""


@frozen
class ChatJsonObjectFormat(Shape):
    """``json_object``."""


@frozen
class JsonSchema(Shape):
    """The members of ``json_schema``."""

    schema: Mapping[str, Any] | None = None


@frozen
class ChatJsonSchemaFormat(Shape):
    """``json_schema``."""

    json_schema: JsonSchema


ResponseFormat = ChatTextFormat | ChatJsonObjectFormat | ChatJsonSchemaFormat | Raw

FORMATS: Final = Tagged(
    ResponseFormat,
    MappingProxyType(
        {"text": ChatTextFormat, "json_object": ChatJsonObjectFormat, "json_schema": ChatJsonSchemaFormat}
    ),
)


@frozen
class ChatRequestBody(Shape):
    """The whole request."""

    model: str
    messages: tuple[Message, ...] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    max_completion_tokens: int | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: str | tuple[str, ...] | None = None
    n: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None

    tools: tuple[ToolBody, ...] | None = None
    tool_choice: str | Mapping[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    functions: tuple[ChatFunction, ...] | None = None
    function_call: str | Mapping[str, Any] | None = None

    response_format: ResponseFormat | None = None
    reasoning_effort: str | None = None
    verbosity: str | None = None
    modalities: tuple[str, ...] | None = None
    audio: Any = None
    web_search_options: Mapping[str, Any] | None = None

    metadata: Any = None
    user: Any = None
    safety_identifier: Any = None
    prompt_cache_key: Any = None

    input: Any = None
    """Not of this API; a client that sends it means the Responses API."""

    system: Any = None
    stop_sequences: Any = None
    """Of the Messages API, and read as what they are there."""

    top_k: Any = None
    seed: Any = None
    presence_penalty: Any = None
    frequency_penalty: Any = None
    thinking: Any = None
    thinking_budget: Any = None
    enable_thinking: Any = None
    chat_template_kwargs: Any = None
    reasoning: Any = None


UNIONS: Final = (PARTS, MESSAGES, TOOLS, FORMATS)

CONVERTER: Final = make_converter(*UNIONS)

BESIDE: Final = Beside(
    API,
    lost=frozenset({"id", "index"}),  # which clients keep of answers
    lost_of=MappingProxyType({ToolMessage: _OF_RESULTS, FunctionMessage: _OF_RESULTS}),
    rules=MappingProxyType(
        {
            **{(ChatRequestBody, name): "" for name in HANDLED},
            (ChatRequestBody, "input"): "fields.ignored",
            (JsonSchema, "name"): "fields.no_effect",
            (JsonSchema, "strict"): "",
            **{(cls, "role"): "" for cls in MESSAGES.classes.values()},
        }
    ),
)
