"""The OpenAI Chat Completions API, as clients speak it: ``POST /v1/chat/completions``."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attrs import field, frozen

from kiro_asgi.dialects.base import DialectTraits, ErrorReply, ParsedRequest, RequestHeaders, RequestPeek, ResponseMeta
from kiro_asgi.dialects.openai_chat.encoder import ChatEncoder, render
from kiro_asgi.dialects.openai_chat.passthrough import COMPLETIONS, peek
from kiro_asgi.dialects.openai_chat.request import ChatOptions, parse
from kiro_asgi.dialects.openai_chat.unread import unread_fields
from kiro_asgi.dialects.openai_errors import error_reply
from kiro_asgi.dialects.passthrough import Fault, PassthroughStage
from kiro_asgi.dialects.structure import read_json
from kiro_asgi.dialects.unread import noted
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.message import Message
from kiro_asgi.model.notes import Note

__all__ = ["ChatEncoder", "ChatOptions", "OpenAIChat"]


@frozen
class OpenAIChat:
    """The dialect."""

    usage_in_finish_chunk: bool = False
    """Put token counts into the finish chunk instead of a chunk of their own, for clients that look for them there."""

    name = "openai_chat"

    traits: DialectTraits = field(init=False)

    @traits.default
    def _traits(self) -> DialectTraits:
        return DialectTraits(cites_pages_only=True, transparent=True, alters_streams=self.usage_in_finish_chunk)

    def parse(self, body: bytes, headers: RequestHeaders = (), /) -> ParsedRequest:
        """Read a request."""
        return parse(body)

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

    def error(self, error: KiroAsgiError, request_id: str) -> ErrorReply:
        """The HTTP answer to an error before the first byte; this API tells the request id in a header only."""
        return error_reply(error)
