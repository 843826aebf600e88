"""One API's stream as another's, for code that brings its own network and has an answer of OpenAI's at hand.

The opposite direction is `kiro_asgi.upstreams.anthropic` in front of `kiro_asgi.dialects.openai_chat`, and every other
pair is put together likewise: an upstream's decoder, `kiro_asgi.stages.answer.build_pipeline`, a dialect's encoder.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import define, field

from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.base import Encoder, ResponseMeta
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.stages.answer import Answer, Plan, build_pipeline
from kiro_asgi.upstreams.openai.upstream import OpenAIUpstream
from kiro_asgi.wire.json import dumps
from kiro_asgi.wire.sse import ServerSentEvent, encode_sse


def _new_id() -> str:
    return f"toolu_{secrets.token_hex(12)}"


@define
class OpenAIToAnthropicState:
    """OpenAI's Chat Completions events in, Anthropic's Messages events out; does no I/O.

    What comes out is always one legal stream: it begins with ``message_start``, blocks never overlap, thinking
    (``reasoning_content``) is a block of its own, a tool call is sent when its arguments are whole, and the end is
    ``message_delta`` with the stop reason and all counts, then ``message_stop``; or one ``error`` event, and nothing
    behind it.

    Args:
        model: The name that ``message_start`` repeats.
        input_tokens: The prompt's size in tokens, where it is known before the service counts it.
        thinking_tags: Names of the tags between which the text holds thinking.
        new_id: Makes the id of a call that came without one.

    Source: https://docs.anthropic.com/en/docs/build-with-claude/streaming
    """

    model: str
    input_tokens: int = field(default=0, kw_only=True)
    thinking_tags: tuple[str, ...] = field(default=(), kw_only=True)
    new_id: Callable[[], str] = field(default=_new_id, kw_only=True)

    failure: KiroAsgiError | None = field(init=False, default=None)
    """The error that ended the stream with an ``error`` event; ``None`` as long as there is none."""

    _answer: Answer = field(init=False)
    _encoder: Encoder = field(init=False)
    _ended: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        thinking = "as_reasoning_content" if self.thinking_tags else ""
        plan = Plan(
            thinking=thinking,
            thinking_tags=self.thinking_tags,
            drop_equal_tool_calls=False,
            input_tokens=self.input_tokens,
        )
        self._answer = build_pipeline(OpenAIUpstream(new_id=self.new_id).decoder(""), plan)
        meta = ResponseMeta(f"msg_{secrets.token_hex(12)}", self.model, int(time.time()))
        self._encoder = AnthropicMessages().encoder(meta)

    def feed(self, event: ServerSentEvent | bytes | Mapping[str, Any], /) -> bytes:
        """Translate the next bytes of the upstream's answer: to whole server-sent events, or to nothing yet.

        Args:
            event: One event, as decoded or as the object that is its data; or bytes of the stream, cut anywhere.
                A stream is fed in one of these ways.

        An error that the upstream reports, or that its answer is, becomes the stream's end and `failure`; nothing is
        raised.
        """
        return self._encoded(self._encoder.feed(self._answer.feed([_bytes_of(event)])))

    def finish(self) -> bytes:
        """The rest, when the upstream's answer has ended; an answer that was cut ends with an ``error`` event."""
        rest = self._encoded(self._encoder.feed(self._answer.flush())) + self._encoded(self._encoder.flush())
        self._ended = True
        return rest

    def error(self, error: KiroAsgiError) -> bytes:
        """End the stream with an ``error`` event, for a failure of the caller's own: a connection that broke."""
        if self._ended:
            return b""
        self._ended, self.failure = True, error
        return b"".join(self._encoder.error(error))

    def _encoded(self, pieces: Iterable[bytes]) -> bytes:
        if self._ended:
            return b""
        encoded = bytearray()
        try:
            for piece in pieces:
                encoded += piece
        except KiroAsgiError as error:
            encoded += self.error(error)
        return bytes(encoded)


def _bytes_of(event: ServerSentEvent | bytes | Mapping[str, Any]) -> bytes:
    if isinstance(event, bytes):
        return event
    if isinstance(event, ServerSentEvent):
        return encode_sse("" if event.event == "message" else event.event, event.data)
    return encode_sse("", dumps(dict(event)))
