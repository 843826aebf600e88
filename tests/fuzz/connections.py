"""A target that speaks the Responses API over WebSocket: frames as a client sends them, and others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

from attrs import define, field

import tests.dialects.openai_responses.grammar as responses_grammar
from kiro_asgi.asgi.protocol import ASGIApp, Message
from kiro_asgi.dialects.openai_responses.frames import Aside, read_frame
from kiro_asgi.errors import RequestError
from tests.asgi.driver import http_scope
from tests.fuzz.answered import answer_of
from tests.fuzz.house import HEAD, MODELS, chunks, house
from tests.fuzz.seeds import requests
from tests.fuzz.source import REPEATS, Source, dumped
from tests.fuzz.target import refuse

__all__ = ["connection"]

LATEST: Final = "resp_latest"
"""In a frame: the id of the response that was given last."""

ENDS: Final = ("response.completed", "response.incomplete", "response.failed", "error")
"""Types of the last frame of an answer."""

LARGEST_ANSWER: Final = 20_000
SHORT: Final = 3_000
"""Bytes: what is sent again and again would be slow only because it is long."""

CHECKED: Final = 3
"""Answers of one connection that are judged event by event, which takes longer than to make them."""

ASIDES: Final[tuple[dict[str, Any], ...]] = (
    {"type": "response.steer", "previous_response_id": LATEST, "input": "Stop."},
    {"type": "response.interrupt", "response_id": LATEST},
    {"type": "response.inject", "response_id": LATEST, "input": []},
    {"type": "response.processed", "response_id": LATEST},
)

ODD_KINDS: Final = ("response.create", "response.steer", "response.append", "", None, [], {"type": "response.create"})

OWN: Final[tuple[tuple[str, tuple[Any, ...]], ...]] = (
    ("previous_response_id", (LATEST, "resp_none", None, "", 1)),
    ("generate", (False, True, None, "no", 0)),
    ("stream_id", ("a", None, "")),
    ("background", (True, False, "x")),
    ("prompt_cache_options", ({"prewarm": True}, {"prewarm": 1}, None, [])),
    ("store", (True, False, None, "x")),
)
"""Fields that mean something else over WebSocket than over HTTP, or are found there only, and values of theirs."""


def _frame(source: Source) -> bytes:
    """One frame, as its bytes."""
    match source.below(8):
        case 0:
            return source.take(60) * source.pick(REPEATS[:5])
        case 1:
            return dumped(source.mutated(source.pick(ASIDES)))
        case 2:
            return dumped({"type": source.pick(ODD_KINDS), "input": source.value()})
        case 3:
            return source.edited(dumped(_create(source)))
    return dumped(_create(source))


def _create(source: Source) -> dict[str, Any]:
    """A request whose input is odd; the rest of a body is the matter of ``responses``."""
    known = source.pick(requests("responses"))["input"]
    body: dict[str, Any] = {"type": "response.create", "model": MODELS["kiro"]}
    body["input"] = source.mutated(known) if source.below(2) else "Hi."
    body |= {name: source.pick(values) for name, values in OWN if source.below(4) == 3}
    if source.below(16) == 15:
        del body["model"]
    return body


@define
class Socket:
    """A client's end of a connection, which leaves when it has all of its answers."""

    frames: list[bytes]
    as_bytes: bool
    patient: bool
    """Whether each answer is awaited before the next request."""

    asked: int = field(init=False, default=0)
    told: list[dict[str, Any]] = field(init=False, factory=list)
    texts: list[str] = field(init=False, factory=list)
    closed: bool = field(init=False, default=False)
    _latest: str = field(init=False, default="resp_none")
    _changed: asyncio.Event = field(init=False, factory=asyncio.Event)
    _connected: bool = field(init=False, default=False)

    @property
    def ended(self) -> int:
        """Answers that have ended."""
        return sum(frame["type"] in ENDS for frame in self.told)

    async def run(self, app: ASGIApp) -> Socket:
        scope = http_scope("GET", "/v1/responses", [("authorization", "Bearer k")])
        await app({**scope, "type": "websocket", "scheme": "ws", "subprotocols": []}, self.receive, self.send)
        return self

    async def receive(self) -> Message:
        if not self._connected:
            self._connected = True
            return {"type": "websocket.connect"}
        if self.patient or not self.frames:
            await self._answered()
        if self.closed or not self.frames:
            return {"type": "websocket.disconnect", "code": 1005}
        data = self.frames.pop(0).replace(LATEST.encode(), self._latest.encode())
        self.asked += _is_answered(data)
        text = None if self.as_bytes else data.decode("utf-8", "replace")
        return {"type": "websocket.receive", "text": text, "bytes": data if text is None else None}

    async def _answered(self) -> None:
        while not self.closed and self.ended < self.asked:
            self._changed.clear()
            await self._changed.wait()

    async def send(self, message: Message) -> None:
        assert not self.closed, "a frame after the end of the connection"
        if message["type"] == "websocket.close":
            self.closed = True
        elif message["type"] == "websocket.send":
            self.texts.append(message["text"])
            self.told.append(json.loads(message["text"], parse_constant=refuse))
            self._latest = self.told[-1].get("response", {}).get("id") or self._latest
        self._changed.set()

    def check(self) -> None:
        """Each request has one end, and each answer is a legal stream."""
        assert self.closed or self.ended == self.asked, f"{self.ended} ends of {self.asked} answers"
        stream, checked = b"", 0
        for frame, text in zip(self.told, self.texts, strict=True):
            if frame["type"] == "error":
                assert 400 <= frame["status"] < 600 and frame["status"] != 500, text
            elif not frame["type"].endswith((".steer.failed", ".interrupt.failed", ".inject.failed")):
                stream += _left_out(frame, stream) + f"event: {frame['type']}\ndata: {text}\n\n".encode()
                if frame["type"] in ENDS:
                    if checked < CHECKED:
                        responses_grammar.check(stream)
                    stream, checked = b"", checked + 1


def _left_out(frame: Mapping[str, Any], before: bytes) -> bytes:
    """The ``error`` event that no client of a WebSocket is sent, where there was one before *frame*."""
    number = before.count(b"\n\n")
    if frame["type"] != "response.failed" or frame["sequence_number"] == number:
        return b""
    error = {"type": "error", "code": None, "message": "", "param": None, "sequence_number": number}
    return b"event: error\ndata: " + dumped(error) + b"\n\n"


def _is_answered(data: bytes) -> bool:
    try:
        return not isinstance(read_frame(data), Aside)
    except RequestError:
        return True


def connection(data: bytes) -> int:
    """Answer the frames of one connection; the bytes of these and of the service's answer."""
    source = Source(data)
    wire = answer_of("kiro", source)[:LARGEST_ANSWER] if source.below(2) else b""
    frames = [_frame(source) for _ in range(1 + source.below(6))]
    frames = frames[:2] * 20 if sum(map(len, frames)) < SHORT and not source.below(4) else frames  # more than may wait
    place = house()
    head = HEAD.replace(b"%s", b"application/vnd.amazon.eventstream")
    place.script = (
        [head, *chunks([wire]), b"0\r\n\r\n"] if wire else [b"HTTP/1.1 400 No\r\ncontent-length: 2\r\n\r\n{}"]
    )
    size = len(wire) * len(frames) + sum(map(len, frames))
    place.run(Socket(frames, as_bytes=source.below(4) == 3, patient=source.below(4) != 3)).check()
    return size
