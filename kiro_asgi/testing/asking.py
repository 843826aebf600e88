"""A request to an ASGI application in the test's own event loop, and the whole answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import anyio
from attrs import frozen

from kiro_asgi.asgi.protocol import AnyASGIApp, Message, Scope
from kiro_asgi.wire.json import dumps, loads
from kiro_asgi.wire.sse import ServerSentEvent, SseDecoder


@frozen
class Answer:
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    """By names in lower case; the last one where a name comes several times."""

    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()

    def json(self) -> Any:
        """The value of the body.

        Raises:
            JsonError: It is not JSON.
        """
        return loads(self.body)

    def events(self) -> list[ServerSentEvent]:
        """The server-sent events of the body."""
        decoder = SseDecoder()
        return [*decoder.feed([self.body]), *decoder.flush()]


def http_scope(method: str, path: str, query: bytes, headers: list[tuple[bytes, bytes]], **more: Any) -> Scope:
    """The scope of a request; *path* is decoded."""
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": quote(path).encode(),
        "query_string": query,
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 1234),
        "server": ("127.0.0.1", 80),
        **more,
    }


async def ask(
    app: AnyASGIApp,
    path: str,
    body: Any = None,
    *,
    method: str = "",
    key: str = "",
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Ask an ASGI application in this event loop, on asyncio or on trio, and wait for the whole answer.

    Args:
        app: The gateway, or an application that has it mounted.
        path: With the query, if there is one.
        body: Bytes, or a value that is sent as JSON; ``None`` for no body.
        method: By default ``GET`` without a body, and ``POST`` with one.
        key: The client's key, which is sent as ``authorization: Bearer``; empty for none.
        headers: Further ones.

    Raises:
        AssertionError: The application sent no answer, or did not end it.
    """
    place, _, query = path.partition("?")
    shown = {"authorization": f"Bearer {key}"} if key else {}
    sent = {"content-type": "application/json", **shown, **(headers or {})}
    lines = [(name.lower().encode(), value.encode("latin-1")) for name, value in sent.items()]
    data = b"" if body is None else body if isinstance(body, bytes) else dumps(body)
    pending = [data]
    messages: list[Message] = []

    async def receive() -> Message:
        if not pending:
            await anyio.sleep_forever()
        return {"type": "http.request", "body": pending.pop(), "more_body": False}

    async def send(message: Message) -> None:
        messages.append(message)

    scope = http_scope(method or ("GET" if body is None else "POST"), place, query.encode(), lines)
    await app(scope, receive, send)
    starts = [each for each in messages if each["type"] == "http.response.start"]
    assert len(starts) == 1, f"the application began {len(starts)} answers to {scope['method']} {path}"
    assert not messages[-1].get("more_body", False), f"the answer to {scope['method']} {path} has no end"
    got = {name.decode().lower(): value.decode("latin-1") for name, value in starts[0].get("headers", ())}
    return Answer(starts[0]["status"], got, b"".join(each.get("body", b"") for each in messages))
