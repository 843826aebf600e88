"""A client API from outside: text in, text out, for scripts.

curl -H "authorization: Bearer $KEY" -H "x-model: claude-sonnet-4.5" --data "Say hello." http://localhost:8000/plain
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from attrs import frozen

from kiro_asgi import KiroAsgiError, create_app
from kiro_asgi.dialects import (
    Dialect,
    DialectManifest,
    DialectOptions,
    DialectSettings,
    DialectTraits,
    Endpoint,
    ErrorReply,
    ParsedRequest,
    RequestHeaders,
    ResponseMeta,
    error_headers,
    invalid,
    message_of,
    missing,
    setting,
)
from kiro_asgi.model.events import Event, RefusalDelta, TextDelta
from kiro_asgi.model.message import Message, RefusalBlock, TextBlock
from kiro_asgi.model.prompt import Prompt, Role, Text, Turn

PLAIN_TEXT = b"text/plain; charset=utf-8"


@frozen(kw_only=True)
class PlainSettings(DialectSettings):
    """What can be set below the API's name."""

    model: str = setting("")
    """Model of requests that name none."""


@frozen
class PlainEncoder:
    """The stage from events to the bytes of one streamed answer."""

    heartbeat = b""
    """There is nothing that a reader of text would not take for a part of it."""

    def feed(self, items: Iterable[Event], /) -> Iterator[bytes]:
        for item in items:
            if isinstance(item, TextDelta | RefusalDelta):
                yield item.text.encode()

    def flush(self) -> Iterator[bytes]:
        yield b"\n"

    def error(self, error: KiroAsgiError) -> list[bytes]:
        return [f"\n[the answer broke off: {message_of(error)}]\n".encode()]


@frozen
class PlainText:
    """The dialect."""

    settings: PlainSettings
    name = "plain"
    traits = DialectTraits(stream_type=PLAIN_TEXT, body_type=PLAIN_TEXT)

    def parse(self, body: bytes, headers: RequestHeaders = (), /) -> ParsedRequest:
        """The body is the prompt; ``x-model`` names the model, ``x-stream: yes`` asks for the answer as it comes."""
        sent = {name.lower(): value.decode("latin-1") for name, value in headers}
        if not (model := sent.get(b"x-model") or self.settings.model):
            raise missing("x-model", "name a model in this header; GET /v1/models lists them")
        try:
            text = body.decode()
        except UnicodeDecodeError:
            raise invalid("body", "send text in UTF-8") from None
        if not text.strip():
            raise missing("body", "send a prompt")
        turns = (Turn(Role.USER, (Text(text),), "body"),)
        return ParsedRequest(Prompt(model, turns), sent.get(b"x-stream") == "yes", None)

    def notes(self, body: bytes, parsed: ParsedRequest) -> tuple[()]:
        """Nothing of such a request is left out."""
        return ()

    def meta(self, parsed: ParsedRequest, token: Callable[[], str], created: int) -> ResponseMeta:
        return ResponseMeta(f"plain_{token()}", parsed.prompt.model, created)

    def encoder(self, meta: ResponseMeta) -> PlainEncoder:
        return PlainEncoder()

    def render(self, message: Message, meta: ResponseMeta) -> Iterator[bytes]:
        for block in message.blocks:
            if isinstance(block, TextBlock | RefusalBlock):
                yield block.text.encode()
        yield b"\n"

    def error(self, error: KiroAsgiError, request_id: str) -> ErrorReply:
        body = f"{message_of(error)}\n".encode()
        return ErrorReply(error.status, body, tuple(error_headers(error, error.status)), PLAIN_TEXT)


def make(options: DialectOptions) -> Dialect:
    """The dialect; a larger one is imported here, so that it costs nothing where nobody serves it."""
    return PlainText(options.settings)


PLAIN = DialectManifest(
    name="plain", title="Plain text", endpoints=(Endpoint("POST", "/plain"),), make=make, settings=PlainSettings
)


def application() -> object:
    """The gateway, with settings from the environment, and this API beside those that it has."""
    return create_app(dialects=[PLAIN])
