"""An answer as ``text_completion`` objects, which a stream has one of for each piece, and a body one of in all.

There is room for text alone: thinking is left out, and a refusal is the text of the answer.

Source: https://platform.openai.com/docs/api-reference/completions/object
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import MappingProxyType
from typing import Final

from attrs import define, field

from kiro_asgi.dialects.base import Heading
from kiro_asgi.dialects.openai_completions.request import options_of
from kiro_asgi.dialects.openai_fields import ChunkStream, usage_object
from kiro_asgi.dialects.pieces import dump_text
from kiro_asgi.model.events import Event, MessageEnd, MessageStart, RefusalDelta, StopReason, TextDelta
from kiro_asgi.model.message import Message, RefusalBlock, TextBlock
from kiro_asgi.wire.json import dumps, quote_bytes

__all__ = ["CompletionEncoder", "render"]

_HEAD: Final = b'{"id":%b,"object":"text_completion","created":%d,"model":%b,"choices":['
_CHOICE: Final = b'{"index":0,"text":'
_REASON: Final = b',"logprobs":null,"finish_reason":%b}]'

_FINISH: Final = MappingProxyType(
    {
        StopReason.LENGTH: b'"length"',
        StopReason.CONTEXT_FULL: b'"length"',
        StopReason.PAUSED: b'"length"',
        StopReason.REFUSAL: b'"content_filter"',
        StopReason.CONTENT_FILTER: b'"content_filter"',
    }
)
"""Every other reason is ``stop``."""


def _reason(reason: StopReason) -> bytes:
    return _REASON % _FINISH.get(reason, b'"stop"')


def render(message: Message, heading: Heading) -> Iterator[bytes]:
    """The JSON body, in pieces."""
    texts = (block.text for block in message.blocks if isinstance(block, TextBlock | RefusalBlock))
    yield _HEAD % (quote_bytes(heading.id), heading.created, quote_bytes(heading.model)) + _CHOICE
    yield from dump_text(options_of(heading).echo + "".join(texts))
    yield b'%b,"usage":%b,"system_fingerprint":null}' % (
        _reason(message.stop_reason),
        dumps(usage_object(message.usage)),
    )


@define
class CompletionEncoder(ChunkStream):
    """The stage from events to the bytes of one streamed answer."""

    _heading: Heading
    _usage_in_finish_chunk: bool = False
    _before: bytes = field(init=False)
    _after: bytes = field(init=False)
    """What stands around the text of a chunk that is not the last."""

    _include_usage: bool = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._include_usage = options_of(self._heading).include_usage and not self._usage_in_finish_chunk
        super().__init__(self._heading, b"text_completion")
        self._before = self._common + b"["
        self._after = _REASON % b"null" + b',"usage":null' * self._include_usage + b"}\n\n"

    def feed(self, items: Iterable[Event], /) -> Iterator[bytes]:
        """Chunks for *items*; none for those that this API cannot express."""
        for item in items:
            if isinstance(item, TextDelta | RefusalDelta):
                yield self._chunk(item.text)
            elif isinstance(item, MessageStart) and (echo := options_of(self._heading).echo):
                yield self._chunk(echo)
            elif isinstance(item, MessageEnd):
                yield self._end(item)

    def _chunk(self, text: str) -> bytes:
        return self._before + _CHOICE + quote_bytes(text) + self._after

    def _end(self, event: MessageEnd) -> bytes:
        usage = dumps(usage_object(event.usage))
        told = b',"usage":' + usage if self._usage_in_finish_chunk else b',"usage":null' * self._include_usage
        last = b'%b%b""%b%b}\n\n' % (self._before, _CHOICE, _reason(event.stop_reason), told)
        return last + b'%b],"usage":%b}\n\n' % (self._before, usage) if self._include_usage else last
