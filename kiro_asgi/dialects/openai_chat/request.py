"""A Chat Completions request to an `Inquiry`.

A field is honoured, mapped, ignored or refused.  It is refused when ignoring it would give an answer other than the one
asked for (several choices, log probabilities, audio), and only then.

Source: https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kiro_asgi.dialects.base import Inquiry
from kiro_asgi.dialects.openai_chat.body import CONVERTER, Body, JsonObjectFormat, JsonSchemaFormat
from kiro_asgi.dialects.openai_chat.messages import Conversation
from kiro_asgi.dialects.openai_chat.options import ChatOptions
from kiro_asgi.dialects.openai_chat.thinking import read_thinking
from kiro_asgi.dialects.openai_chat.tools import read_tools
from kiro_asgi.dialects.openai_fields import read_sampling
from kiro_asgi.dialects.refusals import NO_MODEL, invalid, missing, unsupported
from kiro_asgi.dialects.structure import Raw, structure
from kiro_asgi.model.depth import require_depths
from kiro_asgi.model.prompt import Prompt

__all__ = ["parse"]


def parse(body: bytes) -> Inquiry:
    """Read a request body.

    Raises:
        RequestError: Not a legal request, or one that we cannot honour; ``param`` names the place.
    """
    request = structure(body, Body, converter=CONVERTER)
    _refuse(request)
    conversation = Conversation()
    conversation.read(request.messages or ())
    tools, tool_choice = read_tools(request)
    prompt = Prompt(
        model=request.model,
        turns=tuple(conversation.turns),
        system=tuple(conversation.system),
        system_place=conversation.system_place,
        tools=tools,
        tool_choice=tool_choice,
        thinking=read_thinking(request),
        sampling=read_sampling(
            request, {"max_completion_tokens": request.max_completion_tokens, "max_tokens": request.max_tokens}
        ),
        metadata=_metadata(request),
        session=_session(request),
        schema=_schema(request),
    )
    require_depths(prompt)
    stream_options = request.stream_options
    options = ChatOptions(
        include_usage=stream_options is not None and stream_options.include_usage is True,
        legacy_functions=bool(request.functions) and not request.tools,
    )
    return Inquiry(prompt, request.stream is True, options)


def _refuse(request: Body) -> None:
    """Stop at what cannot be honoured."""
    if not request.model:
        raise missing("model", NO_MODEL)
    if not request.messages:
        raise _no_messages(request)
    if request.n is not None and request.n != 1:
        raise unsupported("n", "only one choice can be made")
    if request.logprobs or request.top_logprobs:
        raise unsupported("logprobs" if request.logprobs else "top_logprobs", "log probabilities are not available")
    if any(modality != "text" for modality in request.modalities or ()):
        raise unsupported("modalities", "only text can be answered")
    if request.audio is not None:
        raise unsupported("audio", "audio output is not supported")


def _no_messages(request: Body) -> Exception:
    if request.input is not None:
        return missing("messages", "this request has an input instead, as the Responses API: POST it to /v1/responses")
    return missing("messages", "at least one message is needed")


def _schema(request: Body) -> Mapping[str, Any] | None:
    match request.response_format:
        case JsonObjectFormat():
            return {}
        case JsonSchemaFormat(json_schema):
            return json_schema.schema or {}
        case Raw(value):
            raise invalid("response_format.type", f"unknown format: {str(value.get('type'))[:60]}")
        case _:
            return None


def _session(request: Body) -> str:
    """The cache key, which clients keep for a conversation; ``user`` names a person, who may have several."""
    key = request.prompt_cache_key
    return key if isinstance(key, str) else ""


def _metadata(request: Body) -> dict[str, Any]:
    """What may serve routing and cache affinity: the client's own map, who the end user is, and the cache key."""
    metadata = dict(request.metadata) if isinstance(request.metadata, Mapping) else {}
    user = request.safety_identifier or request.user
    for key, value in (("user_id", user), ("prompt_cache_key", request.prompt_cache_key)):
        if isinstance(value, str) and value:
            metadata[key] = value
    return metadata
