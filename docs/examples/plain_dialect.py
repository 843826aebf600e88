"""A client API from outside: text in, text out, for scripts.

curl -H "authorization: Bearer $KEY" -H "x-model: claude-sonnet-4.5" --data "Say hello." http://localhost:8000/plain
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from kiro_asgi import KiroAsgiError, create_app
from kiro_asgi.dialects import (
    AnswerWriter,
    DialectManifest,
    DialectSettings,
    Endpoint,
    Framing,
    ParsedRequest,
    RequestHeaders,
    ResponseMeta,
    SimpleDialect,
    invalid,
    message_of,
    missing,
    setting,
)
from kiro_asgi.model.events import MessageEnd
from kiro_asgi.model.message import Message
from kiro_asgi.model.prompt import Prompt, Role, Text, Turn

PLAIN_TEXT = b"text/plain; charset=utf-8"


@frozen(kw_only=True)
class PlainSettings(DialectSettings):
    """What can be set below the API's name."""

    model: str = setting("")
    """Model of requests that name none."""


class PlainWriter(AnswerWriter):
    """A streamed answer: bytes, which go out as they are."""

    def text(self, text: str) -> Iterable[bytes]:
        return [text.encode()]

    def end(self, end: MessageEnd) -> Iterable[bytes]:
        return [b"\n"]


class PlainText(SimpleDialect):
    """The dialect."""

    name = "plain"
    framing = Framing(PLAIN_TEXT)
    body_type = PLAIN_TEXT

    def parse(self, body: bytes, headers: RequestHeaders = (), /) -> ParsedRequest:
        """The body is the prompt; ``x-model`` names the model, ``x-stream: yes`` asks for the answer as it comes."""
        sent = {name.lower(): value.decode("latin-1") for name, value in headers}
        if not (model := sent.get(b"x-model") or self.options.settings.model):
            raise missing("x-model", "name a model in this header; GET /v1/models lists them")
        try:
            text = body.decode()
        except UnicodeDecodeError:
            raise invalid("body", "send text in UTF-8") from None
        if not text.strip():
            raise missing("body", "send a prompt")
        turns = (Turn(Role.USER, (Text(text),), "body"),)
        return ParsedRequest(Prompt(model, turns), sent.get(b"x-stream") == "yes", None)

    def writer(self, meta: ResponseMeta) -> PlainWriter:
        return PlainWriter(meta)

    def whole(self, message: Message, meta: ResponseMeta) -> bytes:
        return f"{message.shown}\n".encode()

    def envelope(self, error: KiroAsgiError) -> bytes:
        return f"{message_of(error)}\n".encode()

    def broken(self, error: KiroAsgiError) -> Iterable[bytes]:
        return [f"\n[the answer broke off: {message_of(error)}]\n".encode()]


PLAIN = DialectManifest(
    name="plain", title="Plain text", endpoints=(Endpoint("POST", "/plain"),), make=PlainText, settings=PlainSettings
)


def application() -> object:
    """The gateway, with settings from the environment, and this API beside those that it has."""
    return create_app(dialects=[PLAIN])
