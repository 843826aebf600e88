"""The older Completions API of OpenAI, as clients speak it: ``POST /v1/completions``.

The prompt of a request is the one message of a user.  As in Chat Completions, a field is refused where ignoring it
would give another answer than the one asked for.

An answer is made of ``text_completion`` objects: a stream has one for each piece, a body one for all.  There is room
for text alone: thinking is left out, and a refusal is the text of the answer.

Sources: https://platform.openai.com/docs/api-reference/completions/create,
https://platform.openai.com/docs/api-reference/completions/object
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import define, field, frozen

from kiro_asgi.dialects.base import DialectTraits, ErrorReply, ParsedRequest, RequestHeaders, ResponseMeta
from kiro_asgi.dialects.errors import NO_MODEL, invalid, missing, unsupported
from kiro_asgi.dialects.manifest import ANSWER
from kiro_asgi.dialects.openai_common import ChunkStream, StreamOptions, error_reply, read_sampling, usage_object
from kiro_asgi.dialects.pieces import dump_text
from kiro_asgi.dialects.references import refuse_references
from kiro_asgi.dialects.schema import BodyShape, shaped
from kiro_asgi.dialects.structure import read_json, structure_value
from kiro_asgi.dialects.unread import Beside
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.events import Event, MessageEnd, MessageStart, RefusalDelta, StopReason, TextDelta
from kiro_asgi.model.message import Message, RefusalBlock, TextBlock
from kiro_asgi.model.notes import UNHEARD, Note, Notes
from kiro_asgi.model.prompt import Prompt, Role, Text, Turn
from kiro_asgi.wire.json import dumps, quote_bytes

# The request.


@frozen
class CompletionsBody:
    """The whole request."""

    model: str
    prompt: str | tuple[Any, ...] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: str | tuple[str, ...] | None = None
    echo: bool | None = None
    suffix: str | None = None
    n: int | None = None
    best_of: int | None = None
    logprobs: int | None = None
    user: Any = None
    messages: Any = None
    """Not of this API; a client that sends them means Chat Completions."""

    top_k: Any = None
    seed: Any = None
    presence_penalty: Any = None
    frequency_penalty: Any = None


_BESIDE: Final = Beside("openai_completions", rules=MappingProxyType({(CompletionsBody, "user"): "fields.no_effect"}))


@frozen
class CompletionOptions:
    """The part of a request that only this dialect understands."""

    include_usage: bool = False
    """Whether the stream ends with a usage chunk (``stream_options.include_usage``)."""

    echo: str = ""
    """The prompt, where the answer is to begin with it."""


def _options_of(meta: ResponseMeta) -> CompletionOptions:
    """The options that travel with *meta*, or the defaults where there are none."""
    return meta.options if isinstance(meta.options, CompletionOptions) else CompletionOptions()


def _parse(body: bytes, notes: Notes = UNHEARD) -> ParsedRequest:
    """Read a request body.

    Raises:
        RequestError: Not a legal request, or one that we cannot honour; ``param`` names the place.
    """
    value = read_json(body)
    refuse_references(value)
    request = structure_value(value, CompletionsBody)
    _BESIDE.note(notes, request, value)
    _refuse(request)
    text = _text(request)
    prompt = Prompt(
        model=request.model,
        turns=(Turn(Role.USER, (Text(text),), "prompt"),),
        sampling=read_sampling(request, {"max_tokens": request.max_tokens}, notes, least=0),
        metadata={"user_id": request.user} if isinstance(request.user, str) and request.user else {},
    )
    usage = request.stream_options is not None and request.stream_options.include_usage is True
    return ParsedRequest(prompt, request.stream is True, CompletionOptions(usage, text if request.echo else ""))


def _refuse(request: CompletionsBody) -> None:
    if not request.model:
        raise missing("model", NO_MODEL)
    for name in ("n", "best_of"):
        if getattr(request, name) not in (None, 1):
            raise unsupported(name, "only one choice can be made")
    if request.logprobs is not None:
        raise unsupported("logprobs", "log probabilities are not available")
    if request.suffix:
        raise unsupported("suffix", "no service here can fit an answer to a text that comes after it; leave this out")


def _text(request: CompletionsBody) -> str:
    """The prompt."""
    given = request.prompt if isinstance(request.prompt, tuple) else (request.prompt,)
    if given in ((), (None,)):
        hint = "this request has messages instead: POST it to /v1/chat/completions" if request.messages else "send text"
        raise missing("prompt", hint)
    if not all(isinstance(text, str) for text in given):
        raise unsupported("prompt", "tokens cannot be read; send text")
    if len(given) > 1:
        raise unsupported("prompt", f"only one prompt can be answered, got {len(given)}; send a request for each")
    if not given[0]:
        raise invalid("prompt", "is empty")
    return str(given[0])


# The answer.


_HEAD: Final = b'{"id":%b,"object":"text_completion","created":%d,"model":%b,"choices":['
_CHOICE: Final = b'{"index":0,"text":'
_REASON: Final = b',"logprobs":null,"finish_reason":%b}]'

_FINISH: Final = MappingProxyType(
    {
        StopReason.LENGTH: b'"length"',
        StopReason.CONTEXT_FULL: b'"length"',
        StopReason.PAUSED: b'"length"',
        StopReason.COMPACTED: b'"length"',
        StopReason.REFUSAL: b'"content_filter"',
        StopReason.CONTENT_FILTER: b'"content_filter"',
    }
)
"""Every other reason is ``stop``."""


def _reason(reason: StopReason) -> bytes:
    return _REASON % _FINISH.get(reason, b'"stop"')


def _render(message: Message, meta: ResponseMeta) -> Iterator[bytes]:
    """The JSON body, in pieces."""
    texts = (block.text for block in message.blocks if isinstance(block, TextBlock | RefusalBlock))
    yield _HEAD % (quote_bytes(meta.id), meta.created, quote_bytes(meta.model)) + _CHOICE
    yield from dump_text(_options_of(meta).echo + "".join(texts))
    yield b'%b,"usage":%b,"system_fingerprint":null}' % (
        _reason(message.stop_reason),
        dumps(usage_object(message.usage)),
    )


@define
class CompletionEncoder(ChunkStream):
    """The stage from events to the bytes of one streamed answer."""

    _meta: ResponseMeta
    _usage_in_finish_chunk: bool = False
    _before: bytes = field(init=False)
    _after: bytes = field(init=False)
    """JSON around the text of every chunk but the last."""

    _include_usage: bool = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._include_usage = _options_of(self._meta).include_usage and not self._usage_in_finish_chunk
        super().__init__(self._meta, b"text_completion")
        self._before = self._common + b"["
        self._after = _REASON % b"null" + b',"usage":null' * self._include_usage + b"}\n\n"

    def feed(self, items: Iterable[Event], /) -> Iterator[bytes]:
        """Chunks for *items*; none for those that this API cannot express."""
        for item in items:
            if isinstance(item, TextDelta | RefusalDelta):
                yield self._chunk(item.text)
            elif isinstance(item, MessageStart) and (echo := _options_of(self._meta).echo):
                yield self._chunk(echo)
            elif isinstance(item, MessageEnd):
                yield self._end(item)

    def _chunk(self, text: str) -> bytes:
        return self._before + _CHOICE + quote_bytes(text) + self._after

    def _end(self, event: MessageEnd) -> bytes:
        usage = dumps(usage_object(event.usage))
        counts = b',"usage":' + usage if self._usage_in_finish_chunk else b',"usage":null' * self._include_usage
        last = b'%b%b""%b%b}\n\n' % (self._before, _CHOICE, _reason(event.stop_reason), counts)
        return last + b'%b],"usage":%b}\n\n' % (self._before, usage) if self._include_usage else last


@frozen
class OpenAICompletions:
    """The dialect; see `kiro_asgi.dialects.base.Dialect`."""

    usage_in_finish_chunk: bool = False
    """Put token counts into the finish chunk instead of a chunk of their own."""

    name = "openai_completions"
    traits = DialectTraits()

    @property
    def bodies(self) -> Mapping[str, BodyShape]:
        """The bodies of its requests."""
        return shaped({ANSWER: CompletionsBody})

    def parse(self, body: bytes, headers: RequestHeaders = (), /) -> ParsedRequest:
        """Read a request.

        Raises:
            RequestError: Not a legal request; ``param`` names the place.
        """
        return _parse(body)

    def notes(self, body: bytes, parsed: ParsedRequest) -> tuple[Note, ...]:
        """Parts of a request that no service receives, whichever it is."""
        notes = Notes()
        _parse(body, notes)
        return notes.found()

    def meta(self, parsed: ParsedRequest, token: Callable[[], str], created: int) -> ResponseMeta:
        """Facts for one answer."""
        return ResponseMeta(f"cmpl-{token()}", parsed.prompt.model, created, parsed.options)

    def encoder(self, meta: ResponseMeta) -> CompletionEncoder:
        """A fresh encoder for one streamed answer."""
        return CompletionEncoder(meta, self.usage_in_finish_chunk)

    def render(self, message: Message, meta: ResponseMeta) -> Iterator[bytes]:
        """The JSON body of a collected answer."""
        return _render(message, meta)

    def error(self, error: KiroAsgiError, request_id: str) -> ErrorReply:
        """The HTTP answer to an error before the first byte; this API sends the request id in a header only."""
        return error_reply(error)
