"""The OpenAI Chat Completions API, as clients speak it: ``POST /v1/chat/completions``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import field, frozen

from kiro_asgi.dialects.base import (
    DialectTraits,
    ErrorReply,
    ParsedEmbeddings,
    ParsedRequest,
    RequestHeaders,
    ResponseMeta,
)
from kiro_asgi.dialects.known import Recalled
from kiro_asgi.dialects.manifest import ANSWER, EMBED
from kiro_asgi.dialects.openai_chat import embeddings
from kiro_asgi.dialects.openai_chat.blocks import stops_beside, texts_beside
from kiro_asgi.dialects.openai_chat.content import is_part
from kiro_asgi.dialects.openai_chat.encoder import ChatEncoder, render
from kiro_asgi.dialects.openai_chat.parsing import KNOWN_EFFORTS, parse, parse_recalled
from kiro_asgi.dialects.openai_chat.passthrough import COMPLETIONS, foreign_shapes, peek
from kiro_asgi.dialects.openai_chat.shapes import (
    API,
    BESIDE,
    FORMATS,
    MESSAGES,
    PARTS,
    TOOLS,
    UNIONS,
    ChatCall,
    ChatRequestBody,
    ContentPart,
    JsonSchema,
    ResultBlock,
)
from kiro_asgi.dialects.openai_common import HANDLED, TOO_LONG, error_reply, unread_words
from kiro_asgi.dialects.passthrough import Fault, PassthroughStage, RequestPeek
from kiro_asgi.dialects.schema import BodyShape, shaped
from kiro_asgi.dialects.structure import read_json
from kiro_asgi.dialects.unread import Finding, Reading, noted, unread, unread_tools, words
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.embeddings import Embeddings
from kiro_asgi.model.message import Message
from kiro_asgi.model.notes import Note
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.wire.json import object_of, objects_of


@frozen
class _Google:
    """Members of ``extra_content.google`` that are read."""

    thought_signature: Any = None


@frozen
class _ExtraContent:
    """Members of ``extra_content`` that are read."""

    google: _Google | None = None


@frozen
class _SearchOptions:
    """``web_search_options``, of which only the presence is read."""


@frozen
class _Thinking:
    """Members of ``thinking`` that are read."""

    budget_tokens: Any = None
    display: Any = None


@frozen
class _Reasoning:
    """Members of ``reasoning`` that are read."""

    effort: Any = None
    max_tokens: Any = None
    exclude: Any = None
    enabled: Any = None


@frozen
class _TemplateArguments:
    """Members of ``chat_template_kwargs`` that are read."""

    enable_thinking: Any = None


def _result(content: Any) -> Any:
    """JSON without a part is passed on as it is."""
    return tuple[ContentPart, ...] if isinstance(content, list) and any(map(is_part, content)) else None


_READING: Final = Reading(
    beside=BESIDE,
    body=ChatRequestBody,
    unions=((PARTS, ""), (MESSAGES, ""), (TOOLS, ""), (FORMATS, "")),
    views=MappingProxyType(
        {
            (ChatCall, "extra_content"): lambda _: _ExtraContent,
            (ChatRequestBody, "web_search_options"): lambda _: _SearchOptions,
            (ChatRequestBody, "thinking"): lambda _: _Thinking,
            (ChatRequestBody, "reasoning"): lambda _: _Reasoning,
            (ChatRequestBody, "chat_template_kwargs"): lambda _: _TemplateArguments,
            (ResultBlock, "content"): _result,
        }
    ),
    members=MappingProxyType(
        {
            **{(ChatRequestBody, name): "" for name in HANDLED},
            (ChatRequestBody, "input"): "fields.ignored",
            **{(ChatRequestBody, name): "" for name in ("system", "stop_sequences")},
            (JsonSchema, "name"): "fields.no_effect",
            (JsonSchema, "strict"): "",
        }
    ),
)

_NUMBERS: Final = ("top_k", "seed", "presence_penalty", "frequency_penalty")
"""Extensions, which are never refused."""

_SUPERSEDED: Final = (("max_completion_tokens", "max_tokens"), ("tools", "functions"), ("tools", "function_call"))
"""A field, and the older one that does not count beside it."""


def _unread_beside(value: Mapping[str, Any]) -> Iterator[Finding]:
    """What is not read of the Messages API's own fields."""
    for at, block in enumerate(objects_of(value.get("system"))):
        yield from (("fields.ignored", f"system[{at}].{name}") for name in block if name not in ("type", "text"))
    if value.get("system") and not texts_beside(value["system"]):
        yield "fields.ignored", "system"
    if (stops := value.get("stop_sequences")) and (value.get("stop") or not stops_beside(stops)):
        yield "fields.ignored", "stop_sequences"


def unread_fields(value: Mapping[str, Any], prompt: Prompt) -> Iterator[Finding]:
    """Rules and places of a request's body, which became *prompt*."""
    yield from unread(value, _READING)
    yield from unread_words(value, API)
    for place, word in (
        ("reasoning_effort", value.get("reasoning_effort")),
        ("reasoning.effort", object_of(value.get("reasoning")).get("effort")),
    ):
        yield from ((rule, at, API) for rule, at in words(word, place, KNOWN_EFFORTS))
    yield from (("shapes.messages", place) for place in foreign_shapes(value))
    yield from _unread_beside(value)
    for name in _NUMBERS:
        if value.get(name) and getattr(prompt.sampling, name) is None:
            yield "values.unknown", name
    for name, older in _SUPERSEDED:
        if value.get(name) and value.get(older):
            yield "fields.ignored", older
    for place in ("tools",) if value.get("tools") else ("functions",):
        yield from unread_tools(value.get(place), prompt.tools, place)
    for index, message in enumerate(objects_of(value.get("messages"))):
        if message.get("role") == "assistant":
            yield from _second_thoughts(message, f"messages[{index}]")


def _second_thoughts(message: Mapping[str, Any], place: str) -> Iterator[Finding]:
    """Earlier thinking under two names, or in a form that is no text."""
    found = [name for name in ("reasoning_content", "reasoning") if message.get(name)]
    read = next((name for name in found if isinstance(message[name], str)), "")
    for name in found:
        if name != read and message[name] != message.get(read):
            yield "values.unknown", f"{place}.{name}"


@frozen
class OpenAIChat:
    """The dialect."""

    usage_in_finish_chunk: bool = False
    """Put token counts into the finish chunk instead of a chunk of their own, for clients that look for them there."""

    name = API

    traits: DialectTraits = field(init=False)

    @traits.default
    def _traits(self) -> DialectTraits:
        return DialectTraits(
            cites_pages_only=True,
            transparent=True,
            recalls=True,
            too_long=TOO_LONG,
            alters_streams=self.usage_in_finish_chunk,
        )

    @property
    def bodies(self) -> Mapping[str, BodyShape]:
        """The bodies of its requests."""
        return shaped({ANSWER: ChatRequestBody, EMBED: embeddings.EmbeddingsBody}, UNIONS)

    def parse(self, body: bytes, headers: RequestHeaders = (), /) -> ParsedRequest:
        """Read a request."""
        return parse(body)

    def parse_recalled(self, body: bytes, headers: RequestHeaders, recalled: Recalled, /) -> ParsedRequest:
        """As `parse`, where earlier requests of the client are known.

        Raises:
            RequestError: Not a legal request; ``param`` names the place.
        """
        return parse_recalled(body, recalled)

    def notes(self, body: bytes, parsed: ParsedRequest) -> tuple[Note, ...]:
        """Parts of a request that no service receives, whichever it is."""
        return noted(unread_fields(read_json(body), parsed.prompt))

    def peek(self, body: bytes) -> RequestPeek:
        """Look at a request."""
        return peek(body)

    def passthrough(self, fault: Fault, meta: ResponseMeta, name: str = "") -> PassthroughStage:
        """A fresh stage for an answer that a service of this API gives."""
        return PassthroughStage(COMPLETIONS, fault, meta, name)

    def meta(self, parsed: ParsedRequest, token: Callable[[], str], created: int) -> ResponseMeta:
        """Facts for one answer."""
        return ResponseMeta(f"chatcmpl-{token()}", parsed.prompt.model, created, parsed.options)

    def encoder(self, meta: ResponseMeta) -> ChatEncoder:
        """A fresh encoder for one streamed answer."""
        return ChatEncoder(meta, usage_in_finish_chunk=self.usage_in_finish_chunk)

    def render(self, message: Message, meta: ResponseMeta) -> Iterator[bytes]:
        """The JSON body of a collected answer."""
        return render(message, meta)

    def parse_embeddings(self, body: bytes, /) -> ParsedEmbeddings:
        """Read a request for embeddings."""
        return embeddings.parse(body)

    def render_embeddings(self, made: Embeddings, asked: ParsedEmbeddings, /) -> Iterator[bytes]:
        """The body of the answer to *asked*."""
        return embeddings.render(made, asked)

    def error(self, error: KiroAsgiError, request_id: str) -> ErrorReply:
        """The HTTP answer to an error before the first byte; this API sends the request id in a header only."""
        return error_reply(error)
