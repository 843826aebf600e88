"""The contract of the first gateways for code that brings its own network: translate, ask, translate back."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.errors import KiroAsgiError, UnknownModel
from kiro_asgi.model.depth import require_depths
from kiro_asgi.model.message import Message, MessageBuilder, replay, split_sentences, unsplit
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Prompt, ToolChoice
from kiro_asgi.stages.answer import Answer, Plan, build_pipeline
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard, Rendered
from kiro_asgi.upstreams.kiro.contract import ContractOptions, Request, Response
from kiro_asgi.upstreams.kiro.contract.answer import as_message, as_response
from kiro_asgi.upstreams.kiro.contract.request import translate
from kiro_asgi.upstreams.kiro.models import FALLBACK, did_you_mean, find
from kiro_asgi.upstreams.kiro.settings import KiroSettings
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream

Call = Callable[[bytes], AsyncIterable[bytes]]
"""The network: the body of a request to the body of the answer."""

_NO_CREDENTIAL: Final = Credential(CredentialKind.API_KEY, "")
"""The caller's network brings its own."""


def translate_kiro_request(
    prompt: Prompt, options: ContractOptions | None = None, *, models: Iterable[ModelCard] | None = None
) -> Request:
    """*prompt* as the contract has it; `Request.document` gives it ready for JSON.

    Args:
        prompt: Messages, model, tools, system text and the wish for thinking.
        options: How to translate.
        models: Models to choose from; ``None`` for those that this package knows.

    Raises:
        UnknownModel: The prompt names none of *models*.
        RequestError: A schema, or the input of a call, is nested too deep.
    """
    require_depths(prompt)
    return translate(prompt, _card(prompt.model, models).id, options or ContractOptions(), Notes())


async def collect_kiro_response(chunks: AsyncIterable[bytes], options: ContractOptions | None = None) -> Response:
    """A whole Kiro answer as the contract has it.

    Raises:
        UpstreamError: A broken stream, or a failure that the service reports in band.
    """
    decoder = _upstream(options or ContractOptions()).decoder("")
    return as_response(await _collected(chunks, build_pipeline(decoder, Plan(tool_emission="end", kept_whole=True))))


def translate_kiro_response(
    response: Response, *, model: str, options: ContractOptions | None = None
) -> dict[str, Any]:
    """*response* as a ``message`` object of the Anthropic API, ready for JSON.

    Its ``usage`` is ``None`` where the response has none.
    """
    body = _rendered(_for_client(response, options or ContractOptions()), model)
    return body if response.usage is not None else {**body, "usage": None}


async def execute_kiro(
    prompt: Prompt,
    call: Call,
    *,
    options: ContractOptions | None = None,
    models: Iterable[ModelCard] | None = None,
) -> dict[str, Any]:
    """Translate, call and translate back; the result is a ``message`` object of the Anthropic API, ready for JSON.

    A request with native tool history that the service finds improperly formed is made once more with text.

    Args:
        prompt: As for `translate_kiro_request`, and so are *options* and *models*.
        call: The network: the body of a request to the body of the answer.  It raises for a refusal what
            `kiro_asgi.upstreams.kiro.errors.fault` makes of that.

    Raises:
        UnknownModel: As for `translate_kiro_request`, and so is `RequestError`.
        KiroAsgiError: The error of the last call.
    """
    return _rendered(await _executed(prompt, call, options or ContractOptions(), models), prompt.model)


async def stream_kiro(
    prompt: Prompt,
    call: Call,
    *,
    options: ContractOptions | None = None,
    models: Iterable[ModelCard] | None = None,
    by_sentence: bool = False,
) -> AsyncGenerator[bytes, None]:
    """As `execute_kiro`, with the result as the events of the Anthropic API; none of them where there is no result.

    Args:
        prompt: As for `execute_kiro`, and so are *call*, *options* and *models*.
        by_sentence: Whether text comes sentence by sentence, and not block by block.
    """
    message = await _executed(prompt, call, options or ContractOptions(), models)
    encoder = AnthropicMessages().encoder(_new_meta(prompt.model))
    for data in encoder.feed(replay(message, split_sentences if by_sentence else unsplit)):
        yield data


async def _executed(
    prompt: Prompt, call: Call, options: ContractOptions, models: Iterable[ModelCard] | None
) -> Message:
    require_depths(prompt)
    card, upstream = _card(prompt.model, models), _upstream(options)
    while True:
        rendered = upstream.render(prompt, card, _NO_CREDENTIAL)
        answer = build_pipeline(upstream.decoder(""), _plan(prompt, rendered))
        try:
            message = await _collected(call(rendered.request.body), answer)
        except KiroAsgiError as error:
            adapted = upstream.adapt_after_error(error, rendered)
            if adapted is None:
                raise
            upstream = adapted
        else:
            return _for_client(as_response(message), options)


def _upstream(options: ContractOptions) -> KiroUpstream:
    return KiroUpstream(
        contract=options,
        settings=KiroSettings(
            tool_history="text" if options.drop_tool_events else "auto",
            description_limit=options.description_limit,
            strip_system_reminders=options.strip_system_reminders,
            origin=options.origin,
        ),
    )


def _plan(prompt: Prompt, rendered: Rendered) -> Plan:
    return Plan(
        thinking="as_reasoning_content" if rendered.thinking_tags else "",
        stop=prompt.sampling.stop,
        max_tokens=prompt.sampling.max_tokens,
        tool_emission="end",
        kept_whole=True,
        tool_names=rendered.tool_names,
        tool_choice=ToolChoice(parallel=prompt.tool_choice.parallel),  # the caller decides about another try
    )


@asynccontextmanager
async def closing(chunks: AsyncIterable[bytes]) -> AsyncIterator[AsyncIterator[bytes]]:
    """Close the source, if it can be closed, when reading stops before its end: on trio nothing else would."""
    source = aiter(chunks)
    try:
        yield source
    finally:
        if isinstance(source, AsyncGenerator):
            await source.aclose()


async def _collected(chunks: AsyncIterable[bytes], answer: Answer) -> Message:
    builder = MessageBuilder()
    async with closing(chunks) as source:
        async for chunk in source:
            builder.feed(answer.feed([chunk]))
            if answer.enough:
                break
    builder.feed(answer.flush())
    assert builder.message is not None, "the stages ended without a MessageEnd"
    return builder.message


def _for_client(response: Response, options: ContractOptions) -> Message:
    return as_message(response, legacy_stop_map=options.legacy_stop_map, reminders=options.strip_system_reminders)


def _card(name: str, models: Iterable[ModelCard] | None) -> ModelCard:
    cards = FALLBACK if models is None else tuple(models)
    card = find(name, cards)
    if card is None:
        near = did_you_mean(name, cards)
        hint = f" (did you mean {' or '.join(near)}?)" if near else ""
        raise UnknownModel(f"unsupported model: {name[:100]}{hint}", code="model_not_found", param="model")
    return card


def _new_meta(model: str) -> ResponseMeta:
    return ResponseMeta(f"msg_{secrets.token_hex(12)}", model, 0)


def _rendered(message: Message, model: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(b"".join(AnthropicMessages().render(message, _new_meta(model))))
    return body
