"""The Responses API of OpenAI, as clients speak it: ``POST /v1/responses``.

Source: https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import field, frozen

from kiro_asgi.dialects.base import DialectTraits, ErrorReply, ParsedRequest, RequestHeaders, ResponseMeta
from kiro_asgi.dialects.known import Recalled
from kiro_asgi.dialects.manifest import ANSWER, COUNT
from kiro_asgi.dialects.openai_common import HANDLED, TOO_LONG, unread_words
from kiro_asgi.dialects.openai_responses.compaction_encoder import EncoderStyles
from kiro_asgi.dialects.openai_responses.encoder import ResponsesEncoder
from kiro_asgi.dialects.openai_responses.fields import FIELDS, Fate
from kiro_asgi.dialects.openai_responses.items import SUMMARISED
from kiro_asgi.dialects.openai_responses.kept import ConversationBody
from kiro_asgi.dialects.openai_responses.parsing import (
    REASONING,
    SEALED,
    TRUNCATIONS,
    options_of,
    parse_request,
    parse_value,
    read_recalled,
    recalling_decoder,
)
from kiro_asgi.dialects.openai_responses.passthrough import RESPONSES, ResponsePassthrough, peek
from kiro_asgi.dialects.openai_responses.response import refusal
from kiro_asgi.dialects.openai_responses.sealing import Sealer
from kiro_asgi.dialects.openai_responses.shapes import (
    API,
    BESIDE,
    FORMATS,
    ITEMS,
    MEMBERS,
    PARTS,
    TOOLS,
    UNIONS,
    ResponsesBody,
    ResponsesJsonSchemaFormat,
)
from kiro_asgi.dialects.passthrough import Fault, RequestPeek
from kiro_asgi.dialects.schema import BodyShape, shaped
from kiro_asgi.dialects.structure import Raw, read_json
from kiro_asgi.dialects.unread import Finding, Reading, noted, unread, unread_tools, words
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.message import Message, replay
from kiro_asgi.model.notes import Note
from kiro_asgi.model.prompt import Opaque, Prompt
from kiro_asgi.wire.json import object_of, objects_of, text_of

_READING: Final = Reading(
    beside=BESIDE,
    body=ResponsesBody,
    unions=((PARTS, ""), (ITEMS, "items.unknown"), (TOOLS, ""), (MEMBERS, "tools.left_out"), (FORMATS, "")),
    members=MappingProxyType(
        {
            **{(ResponsesBody, name): "fields.echoed" for name, it in FIELDS.items() if it.fate is Fate.ECHOED},
            **{(ResponsesBody, name): "" for name in HANDLED},
            (ResponsesBody, "stream_options"): "fields.no_effect",
            (ResponsesJsonSchemaFormat, "name"): "fields.no_effect",
            (ResponsesJsonSchemaFormat, "strict"): "",
        }
    ),
    partly=frozenset(SUMMARISED),
)


def unread_fields(value: Mapping[str, Any], prompt: Prompt, earlier: int = 0) -> Iterator[Finding]:
    """Rules and places of a request's body, which became *prompt* with so many *earlier* items before its own."""
    yield from unread(value, _READING)
    yield from unread_words(value, API)
    yield from ((rule, place, API) for rule, place in words(value.get("truncation"), "truncation", TRUNCATIONS))
    for name, known in REASONING.items():
        said = object_of(value.get("reasoning")).get(name)
        yield from ((rule, place, API) for rule, place in words(said, f"reasoning.{name}", known))
    yield from unread_tools(value.get("tools"), prompt.tools)
    for index, name in enumerate(value.get("include") or ()):
        if name != SEALED:
            yield "values.unknown", f"include[{index}]", API
    for index, entry in enumerate(objects_of(value.get("context_management"))):
        yield from words(entry.get("type"), f"context_management[{index}]", ("compaction",))
    read = {turn.place for turn in prompt.turns if type(turn.parts[0]) is not Opaque or turn.parts[0].instead}
    items = value.get("input")
    for index, item in enumerate(items if isinstance(items, list) else ()):
        yield from _passed_over(item, f"input[{index}].content")
        if _seals(item) and f"input[{index + earlier}]" not in read:
            yield "thinking.sealed_dropped", f"input[{index}]", API


def _passed_over(item: Any, place: str) -> Iterator[Finding]:
    """Parts of what one agent tells another that only their service can read."""
    content = item.get("content") if isinstance(item, dict) and item.get("type") == "agent_message" else ()
    for index, part in enumerate(objects_of(content)):
        if PARTS.class_of(text_of(part, "type")) is Raw:
            yield "blocks.unknown", f"{place}[{index}]"


def _seals(item: Any) -> bool:
    return any(each.get("type") == "reasoning" and each.get("encrypted_content") for each in objects_of([item]))


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
        repeats_answers=True, cites_pages_only=True, transparent=True, recalls=True, too_long=TOO_LONG
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
        if self.sealer is None:
            return parse_request(body)
        return parse_request(body, open_thinking=self.sealer.open, open_summary=self.sealer.open_summary)

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
        return noted(unread_fields(read_json(body), parsed.prompt))

    def peek(self, body: bytes) -> RequestPeek:
        """Look at a request."""
        return peek(body)

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
