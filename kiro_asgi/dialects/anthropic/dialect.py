"""The Messages API of Anthropic.

Source: https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from attrs import evolve, frozen

from kiro_asgi.dialects.anthropic.encoder import AnthropicEncoder, render_count, render_message
from kiro_asgi.dialects.anthropic.errors import error_reply
from kiro_asgi.dialects.anthropic.parsing import parse_count, parse_messages, parse_recalled
from kiro_asgi.dialects.anthropic.passthrough import MESSAGES_FORMAT
from kiro_asgi.dialects.anthropic.shapes import API, UNIONS, MessagesCountBody, MessagesRequestBody
from kiro_asgi.dialects.base import DialectTraits, ErrorReply, ParsedRequest, RequestHeaders, ResponseMeta
from kiro_asgi.dialects.known import Recalled
from kiro_asgi.dialects.manifest import ANSWER, COUNT
from kiro_asgi.dialects.passthrough import Fault, Passed, PassthroughStage, head_of, renamed
from kiro_asgi.dialects.schema import BodyShape, shaped
from kiro_asgi.dialects.structure import read_json
from kiro_asgi.errors import KiroAsgiError, RequestError
from kiro_asgi.model.features import betas_in
from kiro_asgi.model.message import Message
from kiro_asgi.model.notes import Note, Notes
from kiro_asgi.model.prompt import Prompt


def _with_betas(parsed: ParsedRequest, headers: RequestHeaders) -> ParsedRequest:
    betas = betas_in(headers) if headers else ()
    return evolve(parsed, prompt=evolve(parsed.prompt, betas=betas)) if betas else parsed


@frozen
class AnthropicMessages:
    """The dialect; see `kiro_asgi.dialects.base.Dialect`."""

    emit_code_references: bool = False
    """Whether streams name licensed sources, in an event that the official SDKs do not know."""

    name = API
    traits = DialectTraits(transparent=True, recalls=True, runs_tools=True, too_long=b"prompt is too long")

    @property
    def bodies(self) -> Mapping[str, BodyShape]:
        """The bodies of its requests."""
        return shaped({ANSWER: MessagesRequestBody, COUNT: MessagesCountBody}, UNIONS)

    def parse(self, body: bytes, headers: RequestHeaders = (), /) -> ParsedRequest:
        """Read the body of ``POST /v1/messages``, and the beta features that *headers* ask for.

        Raises:
            RequestError: Not a legal request; ``param`` names the place.
        """
        return _with_betas(parse_messages(body), headers)

    def parse_recalled(self, body: bytes, headers: RequestHeaders, recalled: Recalled, /) -> ParsedRequest:
        """As `parse`, where earlier requests of the client are known.

        Raises:
            RequestError: Not a legal request; ``param`` names the place.
        """
        return _with_betas(parse_recalled(body, recalled), headers)

    def notes(self, body: bytes, parsed: ParsedRequest) -> tuple[Note, ...]:
        """Parts of a request that no service receives, whichever it is."""
        notes = Notes()
        parse_messages(body, notes)
        return notes.found()

    def passed(self, body: bytes, /) -> Passed:
        """The client's very bytes."""
        return Passed.of(body, read_json(body), MessagesRequestBody)

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
        return PassthroughStage(MESSAGES_FORMAT, fault, meta, name)

    def parse_count(self, body: bytes, /) -> Prompt:
        """Read the body of ``POST /v1/messages/count_tokens``.

        Raises:
            RequestError: Not a legal request; ``param`` names the place.
        """
        return parse_count(body)

    def meta(self, parsed: ParsedRequest, token: Callable[[], str], created: int) -> ResponseMeta:
        """Facts for one answer; *token* makes 24 random characters that are legal in ids."""
        return ResponseMeta(f"msg_{token()}", parsed.prompt.model, created, parsed.options)

    def encoder(self, meta: ResponseMeta) -> AnthropicEncoder:
        """A fresh encoder for one streamed answer."""
        return AnthropicEncoder(meta, emit_code_references=self.emit_code_references)

    def render(self, message: Message, meta: ResponseMeta) -> Iterator[bytes]:
        """The JSON body of a collected answer, in pieces.

        Raises:
            UpstreamProtocolError: The arguments of a tool call are not a JSON object.
        """
        return render_message(message, meta)

    def render_count(self, tokens: int, /) -> bytes:
        """The JSON body of a token count."""
        return render_count(tokens)

    def error(self, error: KiroAsgiError, request_id: str) -> ErrorReply:
        """The HTTP answer to an error before the first byte."""
        return error_reply(error, request_id)
