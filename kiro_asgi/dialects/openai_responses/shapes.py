"""The body of a Responses request: its fields, tools, input items and their content, as far as they are read.

What is not declared here is kept for services of the same API, so a field that the API gains tomorrow is not an error.
Items of kinds that are not declared become text for others, see `kiro_asgi.dialects.openai_responses.items`; tools of
such kinds run at the vendor's, see `kiro_asgi.dialects.tools`.

Source: https://platform.openai.com/docs/api-reference/responses/create
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from kiro_asgi.dialects.openai_common import HANDLED, AudioPart, ImageUrl, RefusalPart, TextPart
from kiro_asgi.dialects.openai_responses.compaction import COMPACTIONS, TRIGGER
from kiro_asgi.dialects.openai_responses.fields import FIELDS, Fate
from kiro_asgi.dialects.structure import Raw, Shape, Tagged, Whole, make_converter
from kiro_asgi.dialects.unread import Beside

API: Final = "openai_responses"
"""Name of the dialect."""

_LOST: Final = frozenset({"id", "created_by", "internal_chat_message_metadata_passthrough", "stream_options"})
"""Members that no service is sent back: what an earlier answer was called, which no service has stored, and how a
stream is padded."""

# Tools, as clients list them.


@frozen
class NestedFunction(Shape):
    """A function, in the form of the Chat Completions API."""

    name: str
    description: str | None = None
    parameters: Mapping[str, Any] | None = None
    strict: Any = None


@frozen
class ResponsesFunctionTool(Shape):
    """``function``: flat as this API has it, or nested as the Chat Completions API has it."""

    name: str | None = None
    description: str | None = None
    parameters: Mapping[str, Any] | None = None
    strict: Any = None
    function: NestedFunction | None = None


@frozen
class ResponsesCustomTool(Shape):
    """``custom``: a tool whose input is text instead of JSON."""

    name: str
    description: str | None = None
    format: Mapping[str, Any] | None = None
    """The form of its input: any text, or what a grammar allows."""


Member = ResponsesFunctionTool | ResponsesCustomTool | Raw

_MEMBERS: Final = {"function": ResponsesFunctionTool, "custom": ResponsesCustomTool}

MEMBERS: Final = Tagged(Member, MappingProxyType(_MEMBERS), default="function", rule="tools.left_out")


@frozen
class Namespace(Shape):
    """``namespace``: several tools under one name."""

    name: str
    tools: tuple[Member, ...]
    description: str | None = None


@frozen
class ResponsesSearchFilters(Shape):
    """Where pages may come from."""

    allowed_domains: tuple[str, ...] | None = None


@frozen
class ResponsesSearchTool(Whole):
    """``web_search``, and its former names."""

    filters: ResponsesSearchFilters | None = None


@frozen
class ToolSearch(Whole):
    """``tool_search``, for tools that are listed but are to be looked for."""

    execution: str | None = None
    description: str | None = None
    parameters: Mapping[str, Any] | None = None


@frozen
class ShellTool(Whole):
    """``shell``, on the client's machine or in a container of the vendor's."""

    environment: Mapping[str, Any] | None = None


@frozen
class KindTool(Whole):
    """``local_shell`` and ``apply_patch``, which have no options."""

    type: str


ToolBody = (
    ResponsesFunctionTool
    | ResponsesCustomTool
    | Namespace
    | ResponsesSearchTool
    | ToolSearch
    | ShellTool
    | KindTool
    | Raw
)

TOOLS: Final = Tagged(
    ToolBody,
    MappingProxyType(
        {
            **_MEMBERS,
            "namespace": Namespace,
            "web_search": ResponsesSearchTool,
            "web_search_2025_08_26": ResponsesSearchTool,
            "web_search_preview": ResponsesSearchTool,
            "web_search_preview_2025_03_11": ResponsesSearchTool,
            "tool_search": ToolSearch,
            "shell": ShellTool,
            "local_shell": KindTool,
            "apply_patch": KindTool,
        }
    ),
    default="function",
)


# Content of a message, and of a tool's result.


@frozen
class InputImage(Whole):
    """``input_image``; ``detail`` is ignored."""

    image_url: str | ImageUrl | None = None
    file_id: str | None = None


@frozen
class InputFile(Whole):
    """``input_file``: by value, by address, or by the id of an upload."""

    file_data: str | None = None
    file_url: str | None = None
    file_id: str | None = None
    filename: str | None = None


ContentPart = TextPart | RefusalPart | InputImage | InputFile | AudioPart | Raw

Content = str | tuple[ContentPart, ...]

PARTS: Final = Tagged(
    ContentPart,
    MappingProxyType(
        {
            "input_text": TextPart,
            "output_text": TextPart,
            "text": TextPart,
            "refusal": RefusalPart,
            "input_image": InputImage,
            "input_file": InputFile,
            "input_audio": AudioPart,
        }
    ),
)


# Items.


@frozen
class MessageItem(Shape):
    """``message``, and every item without a ``type``; one that has only an id is a reference."""

    role: str | None = None
    content: Content | None = None
    id: Any = None
    phase: Any = None
    """Of one of the assistant's."""


@frozen
class FunctionCallItem(Shape):
    """``function_call``."""

    call_id: str
    name: str
    arguments: str | Mapping[str, Any] | None = None
    namespace: str | None = None


@frozen
class CustomCall(Shape):
    """``custom_tool_call``."""

    call_id: str
    name: str
    input: str
    namespace: str | None = None


@frozen
class CallOutput(Shape):
    """``function_call_output`` and ``custom_tool_call_output``; without a call id, output that no call asked for."""

    output: Content
    call_id: str | None = None
    name: str | None = None


@frozen
class ClientCall(Shape):
    """``local_shell_call``, ``shell_call``, ``apply_patch_call`` and ``tool_search_call``."""

    type: str
    call_id: str | None = None
    id: str | None = None
    action: Mapping[str, Any] | None = None
    operation: Mapping[str, Any] | None = None
    arguments: Any = None


@frozen
class LocalShellOutput(Shape):
    """``local_shell_call_output``, whose id is that of the call."""

    output: str
    call_id: str | None = None
    id: str | None = None


@frozen
class ShellResult(Shape):
    """The output and the outcome of one command."""

    stdout: str = ""
    stderr: str = ""
    outcome: Mapping[str, Any] | None = None


@frozen
class ShellOutput(Shape):
    """``shell_call_output``."""

    call_id: str
    output: tuple[ShellResult, ...]


@frozen
class PatchOutput(Shape):
    """``apply_patch_call_output``."""

    call_id: str
    status: str
    output: str | None = None


@frozen
class ToolsItem(Shape):
    """``additional_tools`` and ``tool_search_output``: more tools from here on."""

    tools: tuple[ToolBody, ...]
    call_id: str | None = None


@frozen
class ReasoningText(Shape):
    """A piece of thinking, or of its summary."""

    text: str


@frozen
class ReasoningItem(Whole):
    """``reasoning``."""

    summary: tuple[ReasoningText, ...] | None = None
    content: tuple[ReasoningText, ...] | None = None
    encrypted_content: str | None = None


@frozen
class AgentMessageItem(Whole):
    """``agent_message``: what one agent of Codex tells another; parts that are sealed are passed over."""

    content: Content | None = None


@frozen
class CompactionItem(Whole):
    """``compaction``, and its other names: a summary of all before it, sealed."""

    encrypted_content: str | None = None


@frozen
class CompactionTrigger(Shape):
    """``compaction_trigger``."""


@frozen
class Reference(Shape):
    """``item_reference``."""

    id: str


Item = (
    MessageItem
    | FunctionCallItem
    | CustomCall
    | CallOutput
    | ClientCall
    | LocalShellOutput
    | ShellOutput
    | PatchOutput
    | ToolsItem
    | ReasoningItem
    | AgentMessageItem
    | CompactionItem
    | CompactionTrigger
    | Reference
    | Raw
)

ITEMS: Final = Tagged(
    Item,
    MappingProxyType(
        {
            "message": MessageItem,
            "function_call": FunctionCallItem,
            "function_call_output": CallOutput,
            "custom_tool_call": CustomCall,
            "custom_tool_call_output": CallOutput,
            "agent_message": AgentMessageItem,
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
            **dict.fromkeys(COMPACTIONS, CompactionItem),
            TRIGGER: CompactionTrigger,
            "item_reference": Reference,
        }
    ),
    default="message",
)


# The request.


@frozen
class ResponsesTextFormat(Shape):
    """``text``."""


@frozen
class ResponsesJsonObjectFormat(Shape):
    """``json_object``."""


@frozen
class ResponsesJsonSchemaFormat(Shape):
    """``json_schema``."""

    schema: Mapping[str, Any]


Format = ResponsesTextFormat | ResponsesJsonObjectFormat | ResponsesJsonSchemaFormat | Raw

FORMATS: Final = Tagged(
    Format,
    MappingProxyType(
        {
            "text": ResponsesTextFormat,
            "json_object": ResponsesJsonObjectFormat,
            "json_schema": ResponsesJsonSchemaFormat,
        }
    ),
)


@frozen
class TextConfig(Shape):
    """The form of the answer's text."""

    format: Format | None = None
    verbosity: str | None = None


@frozen
class ReasoningConfig(Shape):
    """How much to think, and whether to show it."""

    effort: str | None = None
    summary: str | None = None
    generate_summary: str | None = None
    """The former name of ``summary``."""

    @property
    def shown(self) -> str | None:
        """The summary that is asked for, under whichever name; ``None`` for none."""
        word = self.summary or self.generate_summary
        return None if word == "none" else word


@frozen
class ContextManagement(Shape):
    """Handling of a long input; kinds other than ``compaction`` are ignored."""

    type: str = ""
    compact_threshold: int | None = None
    """Tokens."""


@frozen
class ResponsesBody(Shape):
    """The whole request."""

    model: str
    input: str | tuple[Item, ...] | None = None
    instructions: str | None = None
    stream: bool | None = None

    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    top_logprobs: int | None = None

    tools: tuple[ToolBody, ...] | None = None
    tool_choice: str | Mapping[str, Any] | None = None
    parallel_tool_calls: bool | None = None

    text: TextConfig | None = None
    reasoning: ReasoningConfig | None = None
    include: tuple[str, ...] | None = None

    store: bool | None = None
    previous_response_id: str | None = None
    background: bool | None = None
    conversation: str | Mapping[str, Any] | None = None
    prompt: Any = None

    context_management: tuple[ContextManagement, ...] | None = None
    truncation: str | None = None
    metadata: Mapping[str, str] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None

    messages: Any = None
    """Not of this API; a client that sends it means the Chat Completions API."""


UNIONS: Final = (PARTS, ITEMS, TOOLS, MEMBERS, FORMATS)

CONVERTER: Final = make_converter(*UNIONS)

BESIDE: Final = Beside(
    API,
    _LOST,
    rules=MappingProxyType(
        {
            **{(ResponsesBody, name): "fields.echoed" for name, it in FIELDS.items() if it.fate is Fate.ECHOED},
            **{(ResponsesBody, name): "" for name in HANDLED},
            (ResponsesBody, "stream_options"): "fields.no_effect",
            (ResponsesJsonSchemaFormat, "name"): "fields.no_effect",
            (ResponsesJsonSchemaFormat, "strict"): "",
        }
    ),
)
