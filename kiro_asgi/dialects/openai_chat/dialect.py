"""The OpenAI Chat Completions API, as clients speak it: ``POST /v1/chat/completions``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

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
from kiro_asgi.dialects.openai_chat.encoder import ChatEncoder, render
from kiro_asgi.dialects.openai_chat.parsing import parse, parse_recalled
from kiro_asgi.dialects.openai_chat.passthrough import COMPLETIONS
from kiro_asgi.dialects.openai_chat.shapes import API, UNIONS, ChatRequestBody
from kiro_asgi.dialects.openai_common import TOO_LONG, error_reply
from kiro_asgi.dialects.passthrough import Fault, Passed, PassthroughStage, head_of, renamed
from kiro_asgi.dialects.schema import BodyShape, shaped
from kiro_asgi.dialects.structure import read_json
from kiro_asgi.errors import KiroAsgiError, RequestError
from kiro_asgi.model.embeddings import Embeddings
from kiro_asgi.model.message import Message
from kiro_asgi.model.notes import Note, Notes


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
        notes = Notes()
        parse(body, notes)
        return notes.found()

    def passed(self, body: bytes, /) -> Passed:
        """The client's very bytes."""
        return Passed.of(body, read_json(body), ChatRequestBody)

    def renamed(self, body: bytes, old: str, new: str, /) -> bytes:
        """The same but for the model's name."""
        return renamed(body, old, new)

    def head(self, body: bytes, refusal: RequestError, /) -> ParsedRequest:
        """What has to be known of a request that cannot be read.

        Raises:
            RequestError: It has no model.
        """
        return head_of(read_json(body), refusal)

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
