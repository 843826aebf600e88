"""The OpenAI Chat Completions API, as clients speak it: ``POST /v1/chat/completions``."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attrs import field, frozen

from kiro_asgi.dialects.base import DialectTraits, ErrorReply, Glance, Heading, Inquiry, RequestHeaders
from kiro_asgi.dialects.openai_chat.encoder import ChatEncoder
from kiro_asgi.dialects.openai_chat.passthrough import COMPLETIONS, glance
from kiro_asgi.dialects.openai_chat.request import ChatOptions, parse
from kiro_asgi.dialects.openai_chat.response import render
from kiro_asgi.dialects.openai_chat.unread import unread_fields
from kiro_asgi.dialects.openai_errors import error_reply
from kiro_asgi.dialects.passthrough import Fault, Passage
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

    def parse(self, body: bytes, headers: RequestHeaders = (), /) -> Inquiry:
        """Read a request."""
        return parse(body)

    def notes(self, body: bytes, inquiry: Inquiry) -> tuple[Note, ...]:
        """What of a request no service is told, whichever it is."""
        return noted(unread_fields(read_json(body), inquiry.prompt))

    def glance(self, body: bytes) -> Glance:
        """Look at a request."""
        return glance(body)

    def passage(self, fault: Fault, heading: Heading, name: str = "") -> Passage:
        """A fresh stage for an answer that a service of this API gives."""
        return Passage(COMPLETIONS, fault, heading, name)

    def heading(self, inquiry: Inquiry, token: Callable[[], str], created: int) -> Heading:
        """Facts for one answer."""
        return Heading(f"chatcmpl-{token()}", inquiry.prompt.model, created, inquiry.options)

    def encoder(self, heading: Heading) -> ChatEncoder:
        """A fresh encoder for one streamed answer."""
        return ChatEncoder(heading, usage_in_finish_chunk=self.usage_in_finish_chunk)

    def render(self, message: Message, heading: Heading) -> Iterator[bytes]:
        """The JSON body of a collected answer."""
        return render(message, heading)

    def error(self, error: KiroAsgiError, request_id: str) -> ErrorReply:
        """The HTTP answer to an error before the first byte; this API tells the request id in a header only."""
        return error_reply(error)
