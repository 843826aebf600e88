"""The Responses API of OpenAI, as clients speak it: ``POST /v1/responses``.

Source: https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from attrs import evolve, field, frozen

from kiro_asgi.dialects.base import DialectTraits, ErrorReply, ParsedRequest, RequestHeaders, ResponseMeta
from kiro_asgi.dialects.known import Recalled
from kiro_asgi.dialects.manifest import ANSWER, COUNT
from kiro_asgi.dialects.openai_common import TOO_LONG
from kiro_asgi.dialects.openai_responses.compaction_encoder import EncoderStyles
from kiro_asgi.dialects.openai_responses.encoder import ResponsesEncoder
from kiro_asgi.dialects.openai_responses.kept import ConversationBody
from kiro_asgi.dialects.openai_responses.parsing import (
    options_of,
    parse_request,
    parse_value,
    read_recalled,
    recalling_decoder,
)
from kiro_asgi.dialects.openai_responses.passthrough import RESPONSES, ResponsePassthrough, passed_options, passed_value
from kiro_asgi.dialects.openai_responses.response import refusal
from kiro_asgi.dialects.openai_responses.sealing import Sealer
from kiro_asgi.dialects.openai_responses.shapes import (
    API,
    UNIONS,
    ResponsesBody,
)
from kiro_asgi.dialects.passthrough import Fault, Passed, head_of, renamed
from kiro_asgi.dialects.schema import BodyShape, shaped
from kiro_asgi.dialects.structure import read_json
from kiro_asgi.errors import KiroAsgiError, RequestError
from kiro_asgi.model.message import Message, replay
from kiro_asgi.model.notes import UNHEARD, Note, Notes

_ASKING: Final = (ANSWER, COUNT, "compact")
_CONVERSING: Final = ("make_conversation", "change_conversation", "add_items")
"""Operations whose bodies are a request for an answer, and a conversation or a part of one."""


@frozen
class OpenAIResponses:
    """The dialect; see `kiro_asgi.dialects.base.Dialect`."""

    sealer: Sealer | None = None
    """Seals and opens ``encrypted_content``; without it answers have none, and clients' own are passed over."""

    clock: Callable[[], float] | None = None
    """Seconds since the epoch; without it answers are complete in the second in which they begin."""

    styles: EncoderStyles = field(factory=EncoderStyles)
    """Encoders of streamed answers, by their style of heartbeats."""

    name = API
    traits = DialectTraits(
        repeats_answers=True,
        cites_pages_only=True,
        transparent=True,
        recalls=True,
        too_long=TOO_LONG,
        self_contained=True,
    )

    @property
    def bodies(self) -> Mapping[str, BodyShape]:
        """The bodies of its requests."""
        conversing = dict.fromkeys(_CONVERSING, ConversationBody)
        return shaped({**dict.fromkeys(_ASKING, ResponsesBody), **conversing}, UNIONS)

    def parse(self, body: bytes, headers: RequestHeaders = (), /) -> ParsedRequest:
        """Read a request.

        Raises:
            RequestError: Not a legal request; ``param`` names the place.
        """
        return self._parse(body, UNHEARD)

    def _parse(self, body: bytes, notes: Notes) -> ParsedRequest:
        if self.sealer is None:
            return parse_request(body, notes=notes)
        thinking, summary = self.sealer.open, self.sealer.open_summary
        return parse_request(body, open_thinking=thinking, open_summary=summary, notes=notes)

    def parse_recalled(self, body: bytes, headers: RequestHeaders, recalled: Recalled, /) -> ParsedRequest:
        """As `parse`, where earlier requests of the client are known, all of them read by the same seal.

        Raises:
            RequestError: Not a legal request; ``param`` names the place.
        """
        decoder = recalling_decoder(recalled)
        value = read_recalled(body, decoder)
        if self.sealer is None:
            return parse_value(value, decoder=decoder)
        thinking, summary = self.sealer.open, self.sealer.open_summary
        return parse_value(value, open_thinking=thinking, open_summary=summary, decoder=decoder)

    def notes(self, body: bytes, parsed: ParsedRequest) -> tuple[Note, ...]:
        """Parts of a request that no service receives, whichever it is."""
        notes = Notes()
        self._parse(body, notes)
        return notes.found()

    def passed(self, body: bytes, /) -> Passed | None:
        """The request without what is for the gateway alone; ``None`` where that can do something about it."""
        return passed_value(read_json(body))

    def renamed(self, body: bytes, old: str, new: str, /) -> bytes:
        """The same but for the model's name."""
        return renamed(body, old, new)

    def head(self, body: bytes, refusal: RequestError, /) -> ParsedRequest:
        """What has to be known of a request that cannot be read.

        Raises:
            RequestError: It has no model.
        """
        value = read_json(body)
        return evolve(head_of(value, refusal), options=passed_options(value))

    def passthrough(self, fault: Fault, meta: ResponseMeta, name: str = "") -> ResponsePassthrough:
        """A fresh stage for an answer that a service of this API gives."""
        return ResponsePassthrough(RESPONSES, fault, meta, name)

    def meta(self, parsed: ParsedRequest, token: Callable[[], str], created: int) -> ResponseMeta:
        """Facts for one answer."""
        return ResponseMeta(f"resp_{token()}", parsed.prompt.model, created, parsed.options)

    def encoder(self, meta: ResponseMeta) -> ResponsesEncoder:
        """A fresh encoder for one streamed answer."""
        style = self.styles.compaction if options_of(meta).compacts else self.styles.answer
        return style(meta, self.sealer, self.clock)

    def render(self, message: Message, meta: ResponseMeta) -> Iterator[bytes]:
        """The JSON body of a collected answer: the response of the stream's last event.

        None of it is known before that event; the pieces until then are empty.
        """
        encoder = self.encoder(meta)
        for _ in encoder.feed(replay(message)):
            yield b""
        yield from encoder.response

    def error(self, error: KiroAsgiError, request_id: str) -> ErrorReply:
        """The HTTP answer to an error before the first byte; this API sends the request id in a header only."""
        return refusal(error)
