"""A small blocking client: one request, and exactly how its answer came and ended."""

from __future__ import annotations

import json
import socket
from typing import Any
from urllib.parse import urlsplit

import h11
from attrs import define, field

from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.wire.eventstream import FrameDecoder

KEY = {"authorization": "Bearer ksk_test", "tokentype": "API_KEY"}


@define
class Answer:
    """What came back."""

    status: int = 0
    headers: dict[str, str] = field(factory=dict)
    body: bytes = b""
    chunks: list[bytes] = field(factory=list)
    ending: str = "complete"
    """``complete``, ``reset``, ``cut`` (FIN too early) or ``silence``."""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def frames(self) -> list[tuple[str, Any]]:
        """Type and payload of every whole frame; an undecodable stream ends with ``("broken", code)``."""
        decoder, found = FrameDecoder(), []
        try:
            for frame in decoder.feed([self.body]):
                kind = frame.headers.get(":event-type") or frame.headers[":exception-type"]
                found.append((str(kind), json.loads(frame.payload)))
            list(decoder.flush())
        except KiroAsgiError as exc:
            found.append(("broken", exc.code))
        return found

    @property
    def types(self) -> list[str]:
        """Frame types, neighbours of one type counted once."""
        names = [name for name, _ in self.frames]
        return [name for at, name in enumerate(names) if at == 0 or names[at - 1] != name]

    @property
    def text(self) -> str:
        return "".join(payload["content"] for name, payload in self.frames if name == "assistantResponseEvent")

    @property
    def thoughts(self) -> str:
        return "".join(payload.get("text", "") for name, payload in self.frames if name == "reasoningContentEvent")

    @property
    def calls(self) -> dict[str, tuple[str, str, bool]]:
        """Tool calls by id: name, joined input, whether it was stopped."""
        calls: dict[str, tuple[str, str, bool]] = {}
        for kind, payload in self.frames:
            if kind == "toolUseEvent":
                name, so_far, stopped = calls.get(payload["toolUseId"], (payload["name"], "", False))
                calls[payload["toolUseId"]] = (name, so_far + payload.get("input", ""), stopped or "stop" in payload)
        return calls

    @property
    def stop_reason(self) -> str | None:
        return next((payload.get("stopReason") for name, payload in self.frames if name == "metadataEvent"), None)


def connect(url: str, timeout: float = 5.0) -> socket.socket:
    parts = urlsplit(url)
    assert parts.hostname and parts.port
    return socket.create_connection((parts.hostname, parts.port), timeout)


def read_answer(sock: socket.socket, wire: h11.Connection) -> Answer:
    answer = Answer()
    try:
        while not isinstance(event := wire.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                wire.receive_data(sock.recv(65536))
            elif isinstance(event, h11.Response):
                answer.status = event.status_code
                answer.headers = {name.decode(): value.decode() for name, value in event.headers}
            elif isinstance(event, h11.Data):
                answer.body += event.data
                if event.chunk_start or not answer.chunks:
                    answer.chunks.append(b"")
                answer.chunks[-1] += event.data
            elif isinstance(event, h11.ConnectionClosed):
                answer.ending = "cut"
                break
    except h11.RemoteProtocolError:
        answer.ending = "cut"
    except ConnectionResetError:
        answer.ending = "reset"
    except TimeoutError:
        answer.ending = "silence"
    return answer


def send(sock: socket.socket, request: tuple[str, str, dict[str, str], bytes]) -> Answer:
    """One request over an open connection."""
    method, target, headers, body = request
    wire = h11.Connection(h11.CLIENT)
    fields = [("host", "test"), ("content-length", str(len(body))), *headers.items()]
    data = wire.send(h11.Request(method=method, target=target, headers=fields))
    sock.sendall((data or b"") + (wire.send(h11.Data(body)) or b"") + (wire.send(h11.EndOfMessage()) or b""))
    return read_answer(sock, wire)


def call(
    url: str,
    target: str,
    document: Any = None,
    *,
    method: str = "POST",
    headers: dict[str, str] | None = None,
    timeout: float = 5.0,
) -> Answer:
    """One request over a connection of its own."""
    body = b"" if document is None else document if isinstance(document, bytes) else json.dumps(document).encode()
    with connect(url, timeout) as sock:
        return send(sock, (method, target, KEY if headers is None else headers, body))


def prompt(content: str, *, tools: list[Any] | None = None, model: str = "claude-sonnet-4.5", **more: Any) -> Any:
    """A chat request's document."""
    context = {"userInputMessageContext": {"tools": tools}} if tools else {}
    message = {"content": content, "modelId": model, "origin": "AI_EDITOR", **context}
    return {"conversationState": {"chatTriggerType": "MANUAL", "currentMessage": {"userInputMessage": message}}, **more}


def tool(name: str = "get_weather", description: str = "Look up current weather.", **properties: Any) -> Any:
    """A tool as the wire has it; every property is required, and without any there is a ``city``."""
    properties = properties or {"city": {"type": "string"}}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"toolSpecification": {"name": name, "description": description, "inputSchema": {"json": schema}}}


def ask(url: str, content: str, *, timeout: float = 5.0, **options: Any) -> Answer:
    """Ask the chat operation in the REST style."""
    return call(url, "/generateAssistantResponse", prompt(content, **options), timeout=timeout)
