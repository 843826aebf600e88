"""The Messages API of Anthropic.

Source: https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve, frozen

from kiro_asgi.dialects.anthropic.content import RESULT_BLOCKS, is_result_block
from kiro_asgi.dialects.anthropic.encoder import AnthropicEncoder, render_count, render_message
from kiro_asgi.dialects.anthropic.errors import error_reply
from kiro_asgi.dialects.anthropic.parsing import (
    ATTRIBUTION,
    CHOICES,
    DISPLAYS,
    EFFORTS,
    MODES,
    TIERS,
    known_tool,
    parse_count,
    parse_messages,
    parse_recalled,
)
from kiro_asgi.dialects.anthropic.passthrough import MESSAGES_FORMAT, peek
from kiro_asgi.dialects.anthropic.shapes import (
    API,
    BESIDE,
    BLOCKS,
    MESSAGES,
    SOURCES,
    TEXTS,
    TEXTS_AND_IMAGES,
    UNIONS,
    BrowserStateBlock,
    DocumentBlock,
    ImageBlock,
    MessagesCountBody,
    MessagesRequestBody,
    MessagesTextBlock,
    SearchResultBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from kiro_asgi.dialects.anthropic.toolsets import toolset_of
from kiro_asgi.dialects.base import DialectTraits, ErrorReply, ParsedRequest, RequestHeaders, ResponseMeta
from kiro_asgi.dialects.known import Recalled
from kiro_asgi.dialects.manifest import ANSWER, COUNT
from kiro_asgi.dialects.passthrough import Fault, PassthroughStage, RequestPeek
from kiro_asgi.dialects.schema import BodyShape, shaped
from kiro_asgi.dialects.structure import Raw, Tagged, read_json
from kiro_asgi.dialects.unread import Finding, Reading, noted, unread, unread_tools, words
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.features import betas_in
from kiro_asgi.model.message import Message
from kiro_asgi.model.notes import Note
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.wire.json import object_of, objects_of, text_of

_TEXTS: Final = frozenset({"text", "search_result"})
"""Blocks that are read as text."""


@frozen
class _Metadata:
    """Members of ``metadata`` that are read."""

    user_id: Any = None


_ResultBlock = MessagesTextBlock | ImageBlock | DocumentBlock | SearchResultBlock | BrowserStateBlock | Raw

_RESULTS: Final = Tagged(_ResultBlock, RESULT_BLOCKS)


def _result(content: Any) -> Any:
    """JSON without a block is passed on as it is."""
    blocks = isinstance(content, list) and any(map(is_result_block, content))
    return tuple[_ResultBlock, ...] if blocks else None


_READING: Final = Reading(
    beside=BESIDE,
    body=MessagesRequestBody,
    unions=(
        (MESSAGES, "turns.unknown"),
        (BLOCKS, "blocks.unknown"),
        (TEXTS, "blocks.unreadable"),
        (TEXTS_AND_IMAGES, "blocks.unknown"),
        (_RESULTS, "blocks.unknown"),
        (SOURCES, ""),
    ),
    views=MappingProxyType(
        {(MessagesRequestBody, "metadata"): lambda _: _Metadata, (ToolResultBlock, "content"): _result},
    ),
    members=MappingProxyType({(MessagesRequestBody, "service_tier"): "", (ToolUseBlock, "caller"): "fields.no_effect"}),
)


def unread_fields(value: Mapping[str, Any], prompt: Prompt) -> Iterator[Finding]:
    """Rules and places of a request's body, which became *prompt*."""
    messages = objects_of(value.get("messages"))
    spoken = {f"messages[{at}]" for at, message in enumerate(messages) if message.get("role") == "system"}
    for finding in unread(value, _READING):
        # System text in mid-conversation becomes part of the user's turn, which is another message.
        yield finding[:2] if finding[1].rpartition(".")[0] in spoken else finding
    yield from _attribution(value.get("system"))
    yield from _uncited(objects_of(value.get("system")), "system")
    for index, message in enumerate(messages):
        place = f"messages[{index}].content"
        if message.get("role") == "system":
            yield from _no_texts(message.get("content"), place)
        yield from _calls_left_out(_blocks(message), place)
        yield from _uncited(_blocks(message), place)
    yield from _superseded(messages)
    yield from unread_tools(value.get("tools"), prompt.tools)
    for index, tool in enumerate(objects_of(value.get("tools"))):
        if known_tool(text_of(tool, "type")) is not None:
            for name in tool.keys() & {"description", "input_schema"}:
                yield "fields.ignored", f"tools[{index}].{name}"
        yield from _configs(tool, f"tools[{index}].configs")
    yield from ((rule, place, API) for rule, place in words(value.get("service_tier"), "service_tier", tuple(TIERS)))
    thinking, choice = object_of(value.get("thinking")), object_of(value.get("tool_choice"))
    yield from words(thinking.get("type"), "thinking.type", MODES)
    if thinking.get("display") not in (None, *DISPLAYS):
        yield "values.unknown", "thinking.display", API
    if thinking.get("budget_tokens") is not None and thinking.get("type") != "enabled":
        yield "fields.ignored", "thinking.budget_tokens"
    yield from words(object_of(value.get("output_config")).get("effort"), "output_config.effort", EFFORTS)
    yield from words(choice.get("type"), "tool_choice.type", CHOICES)


def _configs(tool: Mapping[str, Any], place: str) -> Iterator[Finding]:
    """What is said of the members of a toolset, beside whether they are offered; of other tools nothing is read."""
    toolset, configs = toolset_of(text_of(tool, "type")), tool.get("configs")
    if toolset is None:
        if configs:
            yield "fields.ignored", place, API
        return
    for name, config in object_of(configs).items():
        if name not in toolset.functions:
            yield "fields.ignored", f"{place}.{name}", API
        elif object_of(config).get("defer_loading") is not None:
            yield "fields.no_effect", f"{place}.{name}.defer_loading", API


def _attribution(system: Any) -> Iterator[Finding]:
    first, place = (system[:1], "system[0].text") if isinstance(system, list) else ([{"text": system}], "system")
    for block in objects_of(first):
        if str(block.get("text")).startswith(ATTRIBUTION):
            yield "system.attribution", place, API


def _no_texts(content: Any, place: str) -> Iterator[Finding]:
    """Blocks that system text in mid-conversation cannot hold."""
    for index, block in enumerate(objects_of(content)):
        kind = block.get("type")
        if isinstance(kind, str) and kind in BLOCKS.classes.keys() - _TEXTS:
            yield "blocks.unreadable", f"{place}[{index}]"


def _uncited(blocks: Sequence[Mapping[str, Any]], place: str) -> Iterator[Finding]:
    """Citations of an earlier answer: texts are handed back without them, to services of the API with those that one of
    them has made."""
    for index, block in enumerate(blocks):
        cited = objects_of(block.get("citations")) if block.get("type") == "text" else ()
        for at, each in enumerate(cited):
            where = f"{place}[{index}].citations[{at}]"
            if text_of(each, "type") == "web_search_result_location" and not text_of(each, "encrypted_index"):
                yield "fields.ignored", where
            else:
                yield "fields.ignored", where, API


def _calls_left_out(blocks: Sequence[Mapping[str, Any]], place: str) -> Iterator[Finding]:
    """Calls whose results are blocks of an unknown kind."""
    unknown = (block for block in blocks if BLOCKS.class_of(text_of(block, "type")) is Raw)
    answered = {text_of(block, "tool_use_id") for block in unknown} - {""}
    for index, block in enumerate(blocks if answered else ()):
        if BLOCKS.class_of(text_of(block, "type")) is ToolUseBlock and text_of(block, "id") in answered:
            yield "blocks.unknown", f"{place}[{index}]", API


def _superseded(messages: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Messages, and blocks, that the newest compaction stands for."""
    holders = [index for index, message in enumerate(messages) if any(map(_sums_up, _blocks(message)))]
    if holders:
        last = holders[-1]
        yield from (("turns.compacted", f"messages[{index}]") for index in range(last))
        newest = max(at for at, block in enumerate(_blocks(messages[last])) if _sums_up(block))
        yield from (("turns.compacted", f"messages[{last}].content[{at}]") for at in range(newest))


def _blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return objects_of(message.get("content"))


def _sums_up(block: Mapping[str, Any]) -> bool:
    return block.get("type") == "compaction" and bool(text_of(block, "content").strip())


def _with_betas(parsed: ParsedRequest, headers: RequestHeaders) -> ParsedRequest:
    betas = betas_in(headers) if headers else ()
    return evolve(parsed, prompt=evolve(parsed.prompt, betas=betas)) if betas else parsed


@frozen
class AnthropicMessages:
    """The dialect; see `kiro_asgi.dialects.base.Dialect`."""

    emit_code_references: bool = False
    """Whether streams name licensed sources, in an event that the official SDKs do not know."""

    name = API
    traits = DialectTraits(transparent=True, recalls=True, too_long=b"prompt is too long")

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
        return noted(unread_fields(read_json(body), parsed.prompt))

    def peek(self, body: bytes) -> RequestPeek:
        """Look at the body of ``POST /v1/messages``.

        Raises:
            RequestError: No JSON object, or one without a model.
        """
        return peek(body)

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
