"""Fields of the newest SDKs' requests that refer to something: each has its place in a table, which says what becomes
of it.

A field that says "the rest is with you" is supplied, passed on or refused, and never dropped: the model would answer
without it, and nobody would see that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any, Final, get_args

import pytest
import typing_extensions
from anthropic.types.beta import message_count_tokens_params, message_create_params
from google.genai import types as genai
from openai.types import completion_create_params
from openai.types.chat import completion_create_params as chat_params
from openai.types.responses import response_compact_params, response_create_params

from kiro_asgi import RequestError
from kiro_asgi.dialects.anthropic.parsing import parse_count, parse_messages
from kiro_asgi.dialects.gemini import parsing as gemini
from kiro_asgi.dialects.openai_chat.parsing import parse as parse_chat
from kiro_asgi.dialects.openai_responses.compaction import compaction_request
from kiro_asgi.dialects.openai_responses.parsing import parse_request, parse_value
from kiro_asgi.model.understood import understood
from kiro_asgi.wire.json import dumps, loads

LOOKS: Final = re.compile(
    r"(?:^|_)(?:id|ids|uri|refs?|references?|handle|token|names|corpus|corpora|datastore|store)$"
    r"|previous|continu|thread|container|conversation|cached|resume",
    re.IGNORECASE,
)
"""Names of fields that may refer to something."""


class Fate(Enum):
    """What becomes of a field."""

    REFUSED = "refused where it does not reach the service whose API it is, see `REFUSED`"
    SUPPLIED = "the gateway has it, or says that it has not"
    WITHIN = "the request itself has what it names, or it is the name of what stands there by value"
    TOOL = "of a tool that the vendor runs, which is left out with a note, or refused where a call is demanded"
    ADDRESS = "where anybody finds it, so that it is fetched or passed on"
    ASIDE = "about costs, caches, priority, or who asks: the prompt is whole without it"


FATES: Final[Mapping[str, Fate]] = {
    # Messages
    "MessageCreateParamsBase.thread": Fate.REFUSED,
    "MessageCreateParamsBase.container": Fate.REFUSED,
    "BetaThreadContinueParams.previous_message_id": Fate.REFUSED,
    "BetaContainerParams.id": Fate.REFUSED,
    "BetaSkillParams.skill_id": Fate.REFUSED,
    "BetaContainerUploadBlockParam.file_id": Fate.REFUSED,
    "BetaFileImageSourceParam.file_id": Fate.REFUSED,
    "BetaFileDocumentSourceParam.file_id": Fate.REFUSED,
    "BetaDiagnosticsParam.previous_message_id": Fate.ASIDE,
    "MessageCreateParamsBase.fallback_credit_token": Fate.ASIDE,
    "BetaFallbackCreditTokenParam.token": Fate.ASIDE,
    "*.user_profile_id": Fate.ASIDE,
    "*.workspace_id": Fate.ASIDE,
    "BetaMetadataParam.user_id": Fate.ASIDE,
    "BetaRequestMCPServerURLDefinitionParam.authorization_token": Fate.TOOL,
    "BetaMCPToolUseBlockParam.id": Fate.WITHIN,
    "*CodeExecutionOutputBlockParam.file_id": Fate.WITHIN,
    "Beta*ToolUseBlockParam.id": Fate.WITHIN,
    "BetaServerToolCaller*.tool_id": Fate.WITHIN,
    "*.tool_use_id": Fate.WITHIN,
    "*.tool_references": Fate.WITHIN,
    "BetaBrowserState*.download_id": Fate.WITHIN,
    "BetaBrowserState*.tab_id": Fate.WITHIN,
    # Chat Completions
    "Audio.id": Fate.REFUSED,
    "FileFile.file_id": Fate.REFUSED,
    "VoiceID.id": Fate.REFUSED,
    "ChatCompletionMessage*ToolCallParam.id": Fate.WITHIN,
    "ChatCompletionToolMessageParam.tool_call_id": Fate.WITHIN,
    "CompletionCreateParamsBase.store": Fate.ASIDE,
    # Responses
    "ResponseCreateParamsBase.previous_response_id": Fate.SUPPLIED,
    "ResponseCompactParams.previous_response_id": Fate.SUPPLIED,
    "ResponseCreateParamsBase.conversation": Fate.SUPPLIED,
    "ResponseConversationParamParam.id": Fate.SUPPLIED,
    "ItemReference.id": Fate.SUPPLIED,
    "ResponsePromptParam.id": Fate.REFUSED,
    "ResponseInput*.file_id": Fate.REFUSED,
    "ResponseComputerToolCallOutputScreenshotParam.file_id": Fate.REFUSED,
    "ResponseCreateParamsBase.store": Fate.ASIDE,
    "PromptCacheOptions.comparison_response_id": Fate.ASIDE,
    "BackgroundOptions.continuation_id": Fate.ASIDE,
    "*.vector_store_ids": Fate.TOOL,
    "*CodeInterpreter.container": Fate.TOOL,
    "*Container*Auto*.file_ids": Fate.TOOL,
    "ContainerReferenceParam.container_id": Fate.TOOL,
    "SkillReferenceParam.skill_id": Fate.TOOL,
    "*ImageMask.file_id": Fate.TOOL,
    "*Mcp.connector_id": Fate.TOOL,
    "*Mcp.tunnel_id": Fate.TOOL,
    "*Mcp*.tool_names": Fate.TOOL,
    "McpApprovalResponse.approval_request_id": Fate.TOOL,
    "McpCall.approval_request_id": Fate.WITHIN,
    "ResponseCodeInterpreterToolCallParam.container_id": Fate.WITHIN,
    "Annotation*.container_id": Fate.WITHIN,
    "Annotation*.file_id": Fate.WITHIN,
    "Result.file_id": Fate.WITHIN,
    "*Logprob*.token": Fate.WITHIN,
    "*.call_id": Fate.WITHIN,
    "*.caller_id": Fate.WITHIN,
    "*SafetyCheck.id": Fate.WITHIN,
    "*Call.id": Fate.WITHIN,
    "*CallParam.id": Fate.WITHIN,
    "*Output.id": Fate.WITHIN,
    "*OutputParam.id": Fate.WITHIN,
    "*ItemParam.id": Fate.WITHIN,
    "*ItemParamParam.id": Fate.WITHIN,
    "ResponseFunctionWebSearchParam.id": Fate.WITHIN,
    "ResponseOutputMessageParam.id": Fate.WITHIN,
    "AdditionalTools.id": Fate.WITHIN,
    "CompactionTrigger.id": Fate.WITHIN,
    "Mcp*.id": Fate.WITHIN,
    "Program.id": Fate.WITHIN,
    # Gemini
    "GenerateContentConfig.cached_content": Fate.REFUSED,
    "GenerateContentConfig.continuation_token": Fate.REFUSED,
    "GenerateContentConfig.automatic_continuation": Fate.ASIDE,
    "GenerateContentConfig.store": Fate.ASIDE,
    "File.*uri": Fate.ADDRESS,
    "*FileData.file_uri": Fate.ADDRESS,
    "AuthConfig*": Fate.TOOL,
    "FileSearch.file_search_store_names": Fate.TOOL,
    "Retrieval.vertex_rag_store": Fate.TOOL,
    "VertexAISearch*": Fate.TOOL,
    "VertexRagStore*": Fate.TOOL,
    "VideoResponseFormat.gcs_uri": Fate.TOOL,
    "FunctionCallingConfig.allowed_function_names": Fate.WITHIN,
    "Function*.will_continue": Fate.WITHIN,
    "PartialArg.will_continue": Fate.WITHIN,
    "Function*.id": Fate.WITHIN,
    "Tool*.id": Fate.WITHIN,
    "CodeExecutionResult.id": Fate.WITHIN,
    "ExecutableCode.id": Fate.WITHIN,
    "Schema.ref": Fate.WITHIN,
}
"""Class and field, or a pattern for several; of the patterns that fit, the first counts."""

ROOTS: Final = {
    "messages": message_create_params.MessageCreateParamsBase,
    "count_tokens": message_count_tokens_params.MessageCountTokensParams,
    "chat": chat_params.CompletionCreateParamsBase,
    "completions": completion_create_params.CompletionCreateParamsBase,
    "responses": response_create_params.ResponseCreateParamsBase,
    "compact": response_compact_params.ResponseCompactParams,
    "gemini-config": genai.GenerateContentConfig,
    "gemini-contents": genai.Content,
    "gemini-count": genai.CountTokensConfig,
}


def _members(cls: type) -> Mapping[str, Any]:
    """Field to its type; of a class of no request: none.  Google's requests are models, those of the others are not."""
    if typing_extensions.is_typeddict(cls):
        return typing_extensions.get_type_hints(cls)
    models = getattr(cls, "model_fields", {}) if cls.__module__ == genai.__name__ else {}
    return {name: it.annotation for name, it in models.items()}


def _classes(kind: Any) -> Iterator[type]:
    if isinstance(kind, type) and _members(kind):
        yield kind
    for part in get_args(kind):
        yield from _classes(part)


def fields(root: type) -> Iterator[str]:
    """Class and name of every field of a request."""
    seen, pending = set[type](), [root]
    while pending:
        cls = pending.pop()
        if cls in seen:
            continue
        seen.add(cls)
        for name, kind in _members(cls).items():
            yield f"{cls.__name__}.{name}"
            pending += _classes(kind)


def fate(field: str) -> Fate | None:
    return next((found for pattern, found in FATES.items() if fnmatchcase(field, pattern)), None)


@pytest.mark.parametrize("root", ROOTS.values(), ids=ROOTS)
def test_every_field_that_refers_to_something_has_its_fate(root: type) -> None:
    """Where a newer SDK has another, decide what becomes of it, and write that into the table."""
    looking = {field for field in fields(root) if LOOKS.search(field.partition(".")[2])}

    assert {field for field in looking if fate(field) is None} == set()


def test_every_row_is_of_a_field_that_there_is() -> None:
    """A row that fits nothing says nothing, and a pattern with a slip is one of those."""
    known = {field for root in ROOTS.values() for field in fields(root)}

    assert [row for row in FATES if not any(fnmatchcase(field, row) for field in known)] == []


def _messages(*blocks: Any, **more: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": "Hi"}, *blocks]
    return {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": content}], **more}


def _said(*blocks: Any) -> dict[str, Any]:
    return {"model": "m", "input": [{"role": "user", "content": [*blocks]}]}


def _computer(output: Any) -> dict[str, Any]:
    call = {"type": "computer_call", "id": "x", "call_id": "c", "action": {"type": "screenshot"}}
    return {"model": "m", "input": [call, {"type": "computer_call_output", "call_id": "c", "output": output}]}


CHAT: Final = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
CONTENTS: Final = {"contents": [{"parts": [{"text": "Hi"}]}]}
OUTPUT: Final = {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_file", "file_id": "f"}]}
CALL: Final = {"type": "function_call", "call_id": "c", "name": "n", "arguments": "{}"}


def _gemini(body: bytes) -> Any:
    return gemini.parse_request(body, "m", stream=False)


def _gemini_count(body: bytes) -> Any:
    return gemini.parse_count(body, "m")


def _compact(body: bytes) -> Any:
    return parse_value(compaction_request(loads(body)))


_THREAD: Final = {"type": "continue", "previous_message_id": "msg_1"}

Parse = Callable[[bytes], Any]

REFUSED: Final[tuple[tuple[str, Parse, Any, str], ...]] = (
    ("MessageCreateParamsBase.thread", parse_messages, _messages(thread={"type": "create"}), "thread"),
    ("BetaThreadContinueParams.previous_message_id", parse_messages, _messages(thread=_THREAD), "thread"),
    ("BetaThreadContinueParams.previous_message_id", parse_count, _messages(thread=_THREAD), "thread"),
    ("MessageCreateParamsBase.container", parse_messages, _messages(container="c"), "container"),
    ("BetaContainerParams.id", parse_messages, _messages(container={"id": "c"}), "container"),
    ("BetaSkillParams.skill_id", parse_messages, _messages(container={"skills": [{"skill_id": "s"}]}), "container"),
    (
        "BetaContainerUploadBlockParam.file_id",
        parse_messages,
        _messages({"type": "container_upload", "file_id": "f"}),
        "messages[0].content[1].file_id",
    ),
    (
        "BetaFileImageSourceParam.file_id",
        parse_messages,
        _messages({"type": "image", "source": {"type": "file", "file_id": "f"}}),
        "messages[0].content[1].source.type",
    ),
    (
        "BetaFileDocumentSourceParam.file_id",
        parse_messages,
        _messages({"type": "document", "source": {"type": "file", "file_id": "f"}}),
        "messages[0].content[1].source.type",
    ),
    (
        "Audio.id",
        parse_chat,
        {**CHAT, "messages": [*CHAT["messages"], {"role": "assistant", "audio": {"id": "a"}}]},
        "messages[1].audio",
    ),
    (
        "FileFile.file_id",
        parse_chat,
        {**CHAT, "messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]}]},
        "messages[0].content[0].file",
    ),
    ("VoiceID.id", parse_chat, {**CHAT, "audio": {"voice": {"id": "v"}, "format": "mp3"}}, "audio"),
    ("ResponsePromptParam.id", parse_request, {"model": "m", "input": "Hi", "prompt": {"id": "p"}}, "prompt"),
    ("ResponsePromptParam.id", _compact, {"model": "m", "input": "Hi", "prompt": {"id": "p"}}, "prompt"),
    (
        "ResponseInputImageParam.file_id",
        parse_request,
        _said({"type": "input_image", "file_id": "f"}),
        "input[0].content[0].file_id",
    ),
    (
        "ResponseInputFileParam.file_id",
        parse_request,
        _said({"type": "input_file", "file_id": "f"}),
        "input[0].content[0].file_id",
    ),
    (
        "ResponseInputFileContentParam.file_id",
        parse_request,
        {"model": "m", "input": [CALL, OUTPUT]},
        "input[1].output[0].file_id",
    ),
    (
        "ResponseInputImageContentParam.file_id",
        parse_request,
        {"model": "m", "input": [CALL, {**OUTPUT, "output": [{"type": "input_image", "file_id": "f"}]}]},
        "input[1].output[0].file_id",
    ),
    (
        "ResponseComputerToolCallOutputScreenshotParam.file_id",
        parse_request,
        _computer({"type": "computer_screenshot", "file_id": "f"}),
        "input[1].output.file_id",
    ),
    (
        "GenerateContentConfig.cached_content",
        _gemini,
        {**CONTENTS, "cachedContent": "cachedContents/c"},
        "cached_content",
    ),
    (
        "GenerateContentConfig.cached_content",
        _gemini_count,
        {"generateContentRequest": {**CONTENTS, "cachedContent": "cachedContents/c"}},
        "cached_content",
    ),
    (
        "GenerateContentConfig.continuation_token",
        _gemini,
        {**CONTENTS, "continuationToken": "eA=="},
        "continuation_token",
    ),
)
"""Field, reader, a request that has it, and the place that the error names."""


@pytest.mark.parametrize(
    ("parse", "request_", "place"), [pytest.param(*row[1:], id=f"{row[0]}-{row[3]}") for row in REFUSED]
)
def test_what_is_refused_is_refused_by_its_place(parse: Parse, request_: Any, place: str) -> None:
    """With what to do instead."""
    with pytest.raises(RequestError) as caught:
        found = parse(dumps(request_))
        understood(getattr(found, "prompt", found), "")  # by a service of another API

    assert caught.value.param == place
    assert re.search(r"\bsend\b|not supported|only json", caught.value.message)


def test_every_field_that_is_refused_is_tried() -> None:
    """So that the table is no mere claim."""
    known = {field for root in ROOTS.values() for field in fields(root) if fate(field) is Fate.REFUSED}

    assert known - {row[0] for row in REFUSED} == set()


@pytest.mark.parametrize("empty", [None, "", {}, [], False], ids=repr)
@pytest.mark.parametrize("name", ["thread", "container", "previous_response_id", "conversation"])
def test_an_empty_one_refers_to_nothing(name: str, empty: Any) -> None:
    """Clients send these; they ask for nothing."""
    assert parse_messages(dumps(_messages(**{name: empty}))) == parse_messages(dumps(_messages()))
    assert parse_messages(dumps(_messages(container={"id": None, "skills": []}))) == parse_messages(dumps(_messages()))
