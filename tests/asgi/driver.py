"""Calls an ASGI application in the test's own event loop, and keeps what it sends.

asgiref's communicator runs on asyncio only; this one runs wherever the test runs, and plays the client that is
slow, leaves, or breaks.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import anyio
from attrs import define, field

from kiro_asgi.asgi.protocol import ASGIApp, Message, Scope


def http_scope(method: str = "GET", path: str = "/", headers: Iterable[tuple[str, str]] = (), **more: Any) -> Scope:
    """A scope as hypercorn makes it."""
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.1"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(errors="surrogatepass"),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers],
        "client": ("127.0.0.1", 1234),
        "server": ("127.0.0.1", 80),
        **more,
    }


@define
class Exchange:
    """One request and what came back."""

    scope: Scope
    body: list[bytes] = field(factory=lambda: [b""])
    """Body messages to deliver; afterwards the client waits, or leaves when `leave` is set."""

    on_send: Callable[[Message], Awaitable[None]] | None = None
    """Runs before every message is accepted: may wait, raise, or count."""

    leave: anyio.Event = field(factory=anyio.Event)
    messages: list[Message] = field(factory=list)

    async def receive(self) -> Message:
        if self.body:
            chunk = self.body.pop(0)
            return {"type": "http.request", "body": chunk, "more_body": bool(self.body)}
        if not self.leave.is_set():  # like uvicorn, which says it again and again, without a turn for others
            await self.leave.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if self.on_send is not None:
            await self.on_send(message)
        self.messages.append(message)

    async def run(self, app: ASGIApp) -> Exchange:
        await app(self.scope, self.receive, self.send)
        return self

    @property
    def status(self) -> int:
        return next(m["status"] for m in self.messages if m["type"] == "http.response.start")

    @property
    def starts(self) -> int:
        return sum(m["type"] == "http.response.start" for m in self.messages)

    @property
    def headers(self) -> dict[str, str]:
        start = next(m for m in self.messages if m["type"] == "http.response.start")
        return {name.decode(): value.decode() for name, value in start["headers"]}

    @property
    def content(self) -> bytes:
        return b"".join(m.get("body", b"") for m in self.messages if m["type"] == "http.response.body")

    @property
    def bodies(self) -> list[bytes]:
        return [m["body"] for m in self.messages if m["type"] == "http.response.body" and m["body"]]

    @property
    def unanswered(self) -> bool:
        """Whether the client left before there was an answer: then the host gets a status that nobody reads."""
        return (self.starts, self.status, self.content, self.complete) == (1, 499, b"", True)

    @property
    def complete(self) -> bool:
        return bool(self.messages) and not self.messages[-1].get("more_body", False)

    def json(self) -> Any:
        return json.loads(self.content)


def post(path: str, body: Any, *, key: str | None = "k", **more: Any) -> Exchange:
    """A POST request with a JSON body, authorised with *key*."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = [("content-type", "application/json"), ("content-length", str(len(data)))]
    headers += [("authorization", f"Bearer {key}")] if key else []
    return Exchange(http_scope("POST", path, headers, **more), [data])


def get(path: str, *, key: str | None = "k", **more: Any) -> Exchange:
    """A GET request, authorised with *key*."""
    return Exchange(http_scope("GET", path, [("authorization", f"Bearer {key}")] if key else [], **more))


PATHS = {"anthropic": "/v1/messages", "openai": "/v1/chat/completions", "responses": "/v1/responses"}
"""Where each dialect lives."""


def ask(dialect: str, prompt: str, *, stream: bool, **more: Any) -> Exchange:
    """A question in one dialect."""
    conversation = [{"role": "user", "content": prompt}]
    said = "input" if dialect == "responses" else "messages"
    body = {"model": "claude-sonnet-4.5", "stream": stream, said: conversation, **more}
    if dialect == "anthropic":
        body.setdefault("max_tokens", 4096)
    return post(PATHS[dialect], body)
