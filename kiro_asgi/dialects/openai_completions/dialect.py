"""The older Completions API of OpenAI, as clients speak it: ``POST /v1/completions``."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attrs import frozen

from kiro_asgi.dialects.base import DialectTraits, ErrorReply, Heading, Inquiry, RequestHeaders
from kiro_asgi.dialects.openai_completions.answer import CompletionEncoder, render
from kiro_asgi.dialects.openai_completions.request import parse, unread_fields
from kiro_asgi.dialects.openai_errors import error_reply
from kiro_asgi.dialects.structure import read_json
from kiro_asgi.dialects.unread import noted
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.message import Message
from kiro_asgi.model.notes import Note

__all__ = ["OpenAICompletions"]


@frozen
class OpenAICompletions:
    """The dialect; see `kiro_asgi.dialects.base.Dialect`."""

    usage_in_finish_chunk: bool = False
    """Put token counts into the finish chunk instead of a chunk of their own."""

    name = "openai_completions"
    traits = DialectTraits()

    def parse(self, body: bytes, headers: RequestHeaders = (), /) -> Inquiry:
        """Read a request.

        Raises:
            RequestError: Not a legal request; ``param`` names the place.
        """
        return parse(body)

    def notes(self, body: bytes, inquiry: Inquiry) -> tuple[Note, ...]:
        """What of a request no service is told, whichever it is."""
        return noted(unread_fields(read_json(body), inquiry.prompt))

    def heading(self, inquiry: Inquiry, token: Callable[[], str], created: int) -> Heading:
        """Facts for one answer."""
        return Heading(f"cmpl-{token()}", inquiry.prompt.model, created, inquiry.options)

    def encoder(self, heading: Heading) -> CompletionEncoder:
        """A fresh encoder for one streamed answer."""
        return CompletionEncoder(heading, self.usage_in_finish_chunk)

    def render(self, message: Message, heading: Heading) -> Iterator[bytes]:
        """The JSON body of a collected answer."""
        return render(message, heading)

    def error(self, error: KiroAsgiError, request_id: str) -> ErrorReply:
        """The HTTP answer to an error before the first byte; this API tells the request id in a header only."""
        return error_reply(error)
