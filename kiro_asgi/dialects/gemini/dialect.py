"""The Gemini API, as clients speak it.

The path of a request, and not its body, names the model and how it is to be answered.  So a request has a dialect of
its own, which knows both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from kiro_asgi.dialects.base import DialectTraits, Encoder, ErrorReply, ParsedRequest, RequestHeaders, ResponseMeta
from kiro_asgi.dialects.gemini.encoder import ArrayEncoder, SseEncoder, render
from kiro_asgi.dialects.gemini.errors import error_reply
from kiro_asgi.dialects.gemini.parsing import parse_count, parse_request, read_body
from kiro_asgi.dialects.gemini.passthrough import GENERATED
from kiro_asgi.dialects.gemini.shapes import API, CountBody, GenerateBody, camel_case
from kiro_asgi.dialects.model_list import Listing
from kiro_asgi.dialects.passthrough import Fault, Passed, PassthroughStage, unread_request
from kiro_asgi.dialects.schema import BodyShape
from kiro_asgi.errors import KiroAsgiError, RequestError
from kiro_asgi.model.message import Message
from kiro_asgi.model.notes import Note, Notes
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.wire.json import dumps


def render_models(listings: Iterable[Listing]) -> bytes:
    """The JSON body of the list: all that answer, on one page; this API asks for no embeddings.

    Source: https://ai.google.dev/api/models
    """
    return dumps({"models": [_object(listing) for listing in listings if not listing.card.embeds]})


def render_model(listing: Listing) -> bytes:
    """The JSON body of one."""
    return dumps(_object(listing))


def _object(listing: Listing) -> dict[str, Any]:
    card = listing.card
    sizes = {"inputTokenLimit": card.context_window, "outputTokenLimit": card.max_output_tokens}
    return {
        "name": f"models/{card.id}",
        "version": "001",
        "displayName": card.name or card.id,
        "description": f"Served by {listing.owner}.",
        **{name: size for name, size in sizes.items() if size},
        "supportedGenerationMethods": ["generateContent", "countTokens"],
        "thinking": card.thinks,
    }


_JSON = b"application/json; charset=UTF-8"
_EVENTS = b"text/event-stream"

_BODIES: Final[Mapping[str, BodyShape]] = MappingProxyType(
    {
        "generateContent": BodyShape(GenerateBody, spelled=camel_case),
        "streamGenerateContent": BodyShape(GenerateBody, spelled=camel_case, streamed=(_JSON, _EVENTS)),
        "countTokens": BodyShape(CountBody, spelled=camel_case),
    }
)


@frozen
class GeminiApi:
    """The dialect; see `kiro_asgi.dialects.base.Dialect`.  As it stands, answers are collected."""

    model: str = ""
    """Of the path."""

    name = API
    traits = DialectTraits(
        body_type=_JSON,
        cites_pages_only=True,
        transparent=True,
        runs_tools=True,
        too_long=b"exceeds the maximum number of tokens",
    )
    _stream = False

    @property
    def bodies(self) -> Mapping[str, BodyShape]:
        """The bodies of its requests."""
        return _BODIES

    def parse(self, body: bytes, headers: RequestHeaders = (), /) -> ParsedRequest:
        """Read a request to generate content.

        Raises:
            RequestError: Not a legal request; ``param`` names the place.
        """
        return parse_request(body, self.model, stream=self._stream)

    def passed(self, body: bytes, /) -> Passed:
        """The client's very bytes."""
        return Passed.of(body, read_body(body), GenerateBody)

    def renamed(self, body: bytes, old: str, new: str, /) -> bytes:
        """The same: the address names the model."""
        return body

    def head(self, body: bytes, refusal: RequestError, /) -> ParsedRequest:
        """What the path says, where the body is an object.

        Raises:
            RequestError: It is none.
        """
        return unread_request(self.model, self._stream, read_body(body))

    def passthrough(self, fault: Fault, meta: ResponseMeta, name: str = "") -> PassthroughStage:
        """A fresh stage for an answer that Google gives; it names the version that answered, whatever was asked."""
        return PassthroughStage(GENERATED, fault, meta)

    def notes(self, body: bytes, parsed: ParsedRequest) -> tuple[Note, ...]:
        """Parts of a request that no service receives, whichever it is."""
        notes = Notes()
        parse_request(body, self.model, stream=self._stream, notes=notes)
        return notes.found()

    def parse_count(self, body: bytes, /) -> Prompt:
        """Read a request to count tokens.

        Raises:
            RequestError: Not a legal request; ``param`` names the place.
        """
        return parse_count(body, self.model)

    def render_count(self, tokens: int, /) -> bytes:
        """The JSON body of a token count."""
        return dumps({"totalTokens": tokens, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens}]})

    def meta(self, parsed: ParsedRequest, token: Callable[[], str], created: int) -> ResponseMeta:
        """Facts for one answer; *token* makes 24 random characters that are legal in ids."""
        return ResponseMeta(token(), parsed.prompt.model, created, parsed.options)

    def encoder(self, meta: ResponseMeta) -> Encoder:
        """A fresh encoder for one streamed answer."""
        return SseEncoder(meta)

    def render(self, message: Message, meta: ResponseMeta) -> Iterator[bytes]:
        """The JSON body of a collected answer, in pieces.

        Raises:
            UpstreamProtocolError: The arguments of a call are not a JSON object.
        """
        return render(message, meta)

    def render_models(self, listings: Iterable[Listing]) -> bytes:
        """The JSON body of the list of models."""
        return render_models(listings)

    def render_model(self, listing: Listing) -> bytes:
        """The JSON body of one model."""
        return render_model(listing)

    def error(self, error: KiroAsgiError, request_id: str) -> ErrorReply:
        """The HTTP answer to an error before the first byte; this API sends the request id in a header only."""
        return error_reply(error)


@frozen
class GeminiStream(GeminiApi):
    """The same for a request whose answer is streamed as events."""

    _stream = True


@frozen
class GeminiArray(GeminiStream):
    """The same for a request whose answer is streamed as one array."""

    traits = DialectTraits(stream_type=_JSON, body_type=_JSON, cites_pages_only=True, alters_streams=True)

    def encoder(self, meta: ResponseMeta) -> Encoder:
        """A fresh encoder for one streamed answer."""
        return ArrayEncoder(meta)
