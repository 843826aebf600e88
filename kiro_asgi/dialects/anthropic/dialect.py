"""The Messages API of Anthropic.

Source: https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attrs import evolve, frozen

from kiro_asgi.dialects.anthropic.encoder import AnthropicEncoder
from kiro_asgi.dialects.anthropic.errors import error_reply
from kiro_asgi.dialects.anthropic.passthrough import MESSAGES, glance
from kiro_asgi.dialects.anthropic.request import Options, parse_count, parse_messages
from kiro_asgi.dialects.anthropic.response import render_count, render_message
from kiro_asgi.dialects.anthropic.unread import unread_fields
from kiro_asgi.dialects.base import DialectTraits, ErrorReply, Glance, Heading, Inquiry, RequestHeaders
from kiro_asgi.dialects.passthrough import Fault, Passage
from kiro_asgi.dialects.structure import read_json
from kiro_asgi.dialects.unread import noted
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.features import betas_in
from kiro_asgi.model.message import Message
from kiro_asgi.model.notes import Note
from kiro_asgi.model.prompt import Prompt

__all__ = ["AnthropicEncoder", "AnthropicMessages", "Options"]


@frozen
class AnthropicMessages:
    """The dialect; see `kiro_asgi.dialects.base.Dialect`."""

    emit_code_references: bool = False
    """Whether streams name licensed sources, in an event that the official SDKs do not know."""

    name = "anthropic"
    traits = DialectTraits(transparent=True)

    def parse(self, body: bytes, headers: RequestHeaders = (), /) -> Inquiry:
        """Read the body of ``POST /v1/messages``, and the beta features that *headers* ask for.

        Raises:
            RequestError: Not a legal request; ``param`` names the place.
        """
        inquiry = parse_messages(body)
        betas = betas_in(headers) if headers else ()
        return evolve(inquiry, prompt=evolve(inquiry.prompt, betas=betas)) if betas else inquiry

    def notes(self, body: bytes, inquiry: Inquiry) -> tuple[Note, ...]:
        """What of a request no service is told, whichever it is."""
        return noted(unread_fields(read_json(body), inquiry.prompt))

    def glance(self, body: bytes) -> Glance:
        """Look at the body of ``POST /v1/messages``.

        Raises:
            RequestError: No JSON object, or one without a model.
        """
        return glance(body)

    def passage(self, fault: Fault, heading: Heading, name: str = "") -> Passage:
        """A fresh stage for an answer that a service of this API gives."""
        return Passage(MESSAGES, fault, heading, name)

    def parse_count(self, body: bytes, /) -> Prompt:
        """Read the body of ``POST /v1/messages/count_tokens``.

        Raises:
            RequestError: Not a legal request; ``param`` names the place.
        """
        return parse_count(body)

    def heading(self, inquiry: Inquiry, token: Callable[[], str], created: int) -> Heading:
        """Facts for one answer; *token* makes 24 random characters that are legal in ids."""
        return Heading(f"msg_{token()}", inquiry.prompt.model, created, inquiry.options)

    def encoder(self, heading: Heading) -> AnthropicEncoder:
        """A fresh encoder for one streamed answer."""
        return AnthropicEncoder(
            heading, emit_code_references=self.emit_code_references, may_be_empty=_is_warm_up(heading)
        )

    def render(self, message: Message, heading: Heading) -> Iterator[bytes]:
        """The JSON body of a collected answer, in pieces.

        Raises:
            UpstreamProtocolError: The arguments of a tool call are not a JSON object.
        """
        return render_message(message, heading, may_be_empty=_is_warm_up(heading))

    def render_count(self, tokens: int, /) -> bytes:
        """The JSON body of a token count."""
        return render_count(tokens)

    def error(self, error: KiroAsgiError, request_id: str) -> ErrorReply:
        """The HTTP answer to an error before the first byte."""
        return error_reply(error, request_id)


def _is_warm_up(heading: Heading) -> bool:
    return isinstance(heading.options, Options) and heading.options.warm_up
