"""Requests of the Gemini API as attrs classes, in the spelling of `kiro_asgi.dialects.gemini.parsing`.

Source: https://ai.google.dev/api/generate-content and https://ai.google.dev/api/caching
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from kiro_asgi.dialects.structure import Shape
from kiro_asgi.dialects.unread import Beside
from kiro_asgi.model.unread import Unread

API: Final = "gemini"
"""Name of the dialect."""

Object = Mapping[str, Any]
"""Data of the client's, or a field of which no part has a name here."""


def camel_case(name: str) -> str:
    """*name*, which `kiro_asgi.dialects.gemini.parsing.snake_case` has made, as the service spells it."""
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def beside(shape: Shape, **more: Any) -> Unread | None:
    """What was not read of *shape* and of the objects in it, and *more* members, for a service of the API; ``None``
    for nothing."""
    members = {**_spelled(shape), **{name: value for name, value in more.items() if value is not None}}
    return Unread(BESIDE.api, members) if members else None


def _spelled(shape: Shape) -> dict[str, Any]:
    """A shape is spelled anew; what it does not know is data, as far as can be told."""
    found: dict[str, Any] = {}
    for name, value in shape.unread.items():
        inner = getattr(shape, name, None)
        if BESIDE.keeps(type(shape), name):
            found[camel_case(name)] = _spelled(inner) if isinstance(inner, Shape) else value
    return found


@frozen
class Blob(Shape):
    """A file by value."""

    data: str
    """Base64, in either alphabet."""

    mime_type: str = ""
    display_name: str | None = None


@frozen
class FileData(Shape):
    """A file by its address."""

    file_uri: str
    mime_type: str = ""
    display_name: str | None = None


@frozen
class FunctionCall(Shape):
    """A call of an earlier answer."""

    name: str
    id: str | None = None
    args: Object | None = None


@frozen
class ResponsePart(Shape):
    """A file in a function's result."""

    inline_data: Blob | None = None
    file_data: FileData | None = None


@frozen
class FunctionResponse(Shape):
    """The result of a call."""

    name: str = ""
    id: str | None = None
    response: Object | None = None
    parts: tuple[ResponsePart, ...] | None = None


@frozen
class Part(Shape):
    """A part of a content: one of its members is the data, `thought` and `thought_signature` are about it."""

    text: str | None = None
    inline_data: Blob | None = None
    file_data: FileData | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None
    executable_code: Object | None = None
    code_execution_result: Object | None = None
    tool_call: Object | None = None
    tool_response: Object | None = None
    thought: bool | None = None
    thought_signature: str | None = None


@frozen
class Content(Shape):
    """A message of one side."""

    parts: tuple[Part, ...] = ()
    role: str | None = None


@frozen
class FunctionDeclaration(Shape):
    """A function that the model may call; its schema in one of two languages."""

    name: str
    description: str | None = None
    parameters: Object | None = None
    parameters_json_schema: Any = None


@frozen
class GoogleSearch(Shape):
    """The service's own search."""

    exclude_domains: tuple[str, ...] | None = None


@frozen
class ToolBody(Shape):
    """An entry of ``tools``: functions, or a tool of the service's own."""

    function_declarations: tuple[FunctionDeclaration, ...] | None = None
    google_search: GoogleSearch | None = None
    google_search_retrieval: GoogleSearch | None = None
    url_context: Object | None = None
    code_execution: Object | None = None
    computer_use: Object | None = None
    file_search: Object | None = None
    google_maps: Object | None = None
    enterprise_web_search: Object | None = None
    retrieval: Object | None = None
    mcp_servers: Any = None


@frozen
class FunctionCallingConfig(Shape):
    """Whether, and which, functions are to be called."""

    mode: str | None = None
    allowed_function_names: tuple[str, ...] | None = None


@frozen
class ToolConfig(Shape):
    """Demands on calls of tools."""

    function_calling_config: FunctionCallingConfig | None = None


@frozen
class ThinkingConfig(Shape):
    """How much to think, and whether thoughts are shown."""

    include_thoughts: bool | None = None
    thinking_budget: int | None = None
    thinking_level: str | None = None


@frozen
class GenerationConfig(Shape):
    """How to draw tokens, and the form of the answer."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_output_tokens: int | None = None
    stop_sequences: tuple[str, ...] | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    candidate_count: int | None = None
    response_mime_type: str | None = None
    response_schema: Object | None = None
    response_json_schema: Object | None = None
    response_format: Any = None
    response_modalities: tuple[str, ...] | None = None
    response_logprobs: bool | None = None
    logprobs: int | None = None
    speech_config: Any = None
    image_config: Any = None
    thinking_config: ThinkingConfig | None = None


@frozen
class GenerateBody(Shape):
    """A request to generate content."""

    contents: tuple[Content, ...] = ()
    system_instruction: Content | str | None = None
    tools: tuple[ToolBody, ...] | None = None
    tool_config: ToolConfig | None = None
    generation_config: GenerationConfig | None = None
    safety_settings: Any = None


@frozen
class CountBody(Shape):
    """A request to count tokens: contents, or a whole request."""

    contents: tuple[Content, ...] = ()
    generate_content_request: GenerateBody | None = None


BESIDE: Final = Beside(
    API,
    frozenset({"model"}),  # the address names the model
    rules=MappingProxyType(
        {
            (GenerateBody, "model"): "fields.no_effect",
            (GenerateBody, "labels"): "",
            (GenerateBody, "service_tier"): "",
            (GenerateBody, "safety_settings"): "fields.ignored",
        }
    ),
)
