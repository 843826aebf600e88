"""A Completions request to a `ParsedRequest`: its prompt is the one thing that a user says.

As in Chat Completions, a field is refused where ignoring it would give another answer than the one asked for.

Source: https://platform.openai.com/docs/api-reference/completions/create
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from kiro_asgi.dialects.base import ParsedRequest, ResponseMeta
from kiro_asgi.dialects.errors import NO_MODEL, invalid, missing, unsupported
from kiro_asgi.dialects.openai_fields import StreamOptions, read_sampling
from kiro_asgi.dialects.structure import structure
from kiro_asgi.dialects.unread import Finding, Reading, unread
from kiro_asgi.model.prompt import Prompt, Role, Text, Turn


@frozen
class CompletionsBody:
    """The whole request."""

    model: str
    prompt: str | tuple[Any, ...] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: str | tuple[str, ...] | None = None
    echo: bool | None = None
    suffix: str | None = None
    n: int | None = None
    best_of: int | None = None
    logprobs: int | None = None
    user: Any = None
    messages: Any = None
    """Not of this API; whoever sends them means Chat Completions."""

    top_k: Any = None
    seed: Any = None
    presence_penalty: Any = None
    frequency_penalty: Any = None


_READING: Final = Reading(
    body=CompletionsBody, unions=(), members=MappingProxyType({(CompletionsBody, "user"): "fields.no_effect"})
)


@frozen
class CompletionOptions:
    """The part of a request that only this dialect understands."""

    include_usage: bool = False
    """Whether the stream ends with a usage chunk (``stream_options.include_usage``)."""

    echo: str = ""
    """The prompt, where the answer is to begin with it."""


def options_of(meta: ResponseMeta) -> CompletionOptions:
    """The options that travel with *meta*, or the defaults where nobody set any."""
    return meta.options if isinstance(meta.options, CompletionOptions) else CompletionOptions()


def parse(body: bytes) -> ParsedRequest:
    """Read a request body.

    Raises:
        RequestError: Not a legal request, or one that we cannot honour; ``param`` names the place.
    """
    request = structure(body, CompletionsBody)
    _refuse(request)
    text = _text(request)
    prompt = Prompt(
        model=request.model,
        turns=(Turn(Role.USER, (Text(text),), "prompt"),),
        sampling=read_sampling(request, {"max_tokens": request.max_tokens}, least=0),
        metadata={"user_id": request.user} if isinstance(request.user, str) and request.user else {},
    )
    usage = request.stream_options is not None and request.stream_options.include_usage is True
    return ParsedRequest(prompt, request.stream is True, CompletionOptions(usage, text if request.echo else ""))


def _refuse(request: CompletionsBody) -> None:
    if not request.model:
        raise missing("model", NO_MODEL)
    for name in ("n", "best_of"):
        if getattr(request, name) not in (None, 1):
            raise unsupported(name, "only one choice can be made")
    if request.logprobs is not None:
        raise unsupported("logprobs", "log probabilities are not available")
    if request.suffix:
        raise unsupported("suffix", "no service here can be held to a text that comes after the answer")


def _text(request: CompletionsBody) -> str:
    """The prompt."""
    given = request.prompt if isinstance(request.prompt, tuple) else (request.prompt,)
    if given in ((), (None,)):
        hint = "this request has messages instead: POST it to /v1/chat/completions" if request.messages else "send text"
        raise missing("prompt", hint)
    if not all(isinstance(text, str) for text in given):
        raise unsupported("prompt", "tokens cannot be read; send text")
    if len(given) > 1:
        raise unsupported("prompt", f"only one prompt can be answered, got {len(given)}; send a request for each")
    if not given[0]:
        raise invalid("prompt", "is empty")
    return str(given[0])


def unread_fields(value: Mapping[str, Any], prompt: Prompt) -> Iterator[Finding]:
    """Rules and places of a request's body, which became *prompt*."""
    yield from unread(value, _READING)
    for name in ("top_k", "seed", "presence_penalty", "frequency_penalty"):
        if value.get(name) and getattr(prompt.sampling, name) is None:
            yield "values.unknown", name
