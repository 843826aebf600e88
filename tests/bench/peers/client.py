"""The one client in front of every gateway, which looks at bytes: what came, when, and how it ended."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Any, Final

import h11
from attrs import define, field, frozen

from tests.bench.peers.scenarios import ASKED

__all__ = ["PATHS", "Answer", "Asked", "Client", "Told", "told"]

PATHS: Final = {"chat": "/v1/chat/completions", "messages": "/v1/messages"}
"""API to where it is asked."""

ASKED_AGAIN: Final = 2
"""Tries on a connection that the gateway closes without a word, as it may between two requests."""


@frozen
class Asked:
    """Whom to ask, and how."""

    port: int
    api: str
    model: str
    headers: Mapping[str, str]

    def body(self, scenario: str) -> bytes:
        turns = [{"role": "user", "content": f"{ASKED}{scenario}"}]
        return json.dumps({"model": self.model, "max_tokens": 1_000, "stream": True, "messages": turns}).encode()


@define
class Answer:
    """What came."""

    status: int = 0
    """0 where there was none."""

    lines: list[tuple[float, bytes]] = field(factory=list)
    """Lines with data, and the seconds from the request to the read that brought the end of each."""

    rest: bytes = b""
    """What has no line's end yet."""

    ended: str = "waiting"
    """``whole`` for the proper end of a body, ``cut`` for another, ``waiting`` where the client gave up."""

    seconds: float = 0.0
    """From the request to the end."""

    def add(self, data: bytes, now: float) -> None:
        *lines, self.rest = (self.rest + data).split(b"\n")
        self.lines.extend((now, line) for line in lines if line.startswith(b"data:"))


@frozen
class Told:
    """What an answer says to who reads its events as its API demands."""

    text: str
    times: tuple[float, ...]
    """Seconds from the request to each event with text."""

    error: str = ""
    """Words of an error; empty where none is told of."""

    finish: str = ""
    """The reason it ended for; empty where none is said."""

    over: bool = False
    """Whether the event that ends every answer has come: ``[DONE]``, ``message_stop``."""

    @property
    def gap(self) -> float:
        """Seconds, the longest between two events with text."""
        return max((later - earlier for earlier, later in pairwise(self.times)), default=0.0)


def told(api: str, answer: Answer) -> Told:
    """Read *answer*; what is no JSON is an error as well, as no client can read it."""
    texts: list[str] = []
    times: list[float] = []
    error = finish = ""
    over = False
    for seconds, line in answer.lines:
        data = line.removeprefix(b"data:").strip()
        if data == b"[DONE]":
            over = True
            continue
        try:
            event = json.loads(data.decode("utf-8", "replace"))
        except ValueError:
            event = {"error": {"message": "no JSON"}}
        error = error or _error(event)
        over = over or event.get("type") == "message_stop"
        text, reason = _chat(event) if api == "chat" else _messages(event)
        finish = finish or reason
        if text:
            texts.append(text)
            times.append(seconds)
    return Told("".join(texts), tuple(times), error, finish, over)


def _error(event: Mapping[str, Any]) -> str:
    found = event.get("error")
    return json.dumps(found) if found else ""


def _chat(event: Mapping[str, Any]) -> tuple[str, str]:
    """Text and reason of a chunk."""
    choices = event.get("choices") or [{}]
    return (choices[0].get("delta") or {}).get("content") or "", choices[0].get("finish_reason") or ""


def _messages(event: Mapping[str, Any]) -> tuple[str, str]:
    delta = event.get("delta") or {}
    return delta.get("text") or "", delta.get("stop_reason") or ""


@define
class Client:
    """One connection that is kept as long as the gateway keeps it."""

    asked: Asked
    answer: Answer = field(init=False, factory=Answer)
    """What has come of the last question so far."""

    _streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
    _state: h11.Connection = field(factory=lambda: h11.Connection(h11.CLIENT))

    async def ask(self, scenario: str, patience: float = 60.0) -> Answer:
        """Ask for *scenario*; what came within *patience* seconds."""
        for _ in range(ASKED_AGAIN):
            kept = self._streams is not None
            answer = await self._ask(scenario, patience)
            if not (kept and answer.ended == "cut" and not answer.status):
                break
        return answer

    async def _ask(self, scenario: str, patience: float) -> Answer:
        answer = self.answer = Answer()
        start = time.perf_counter()
        try:
            async with asyncio.timeout(patience):
                await self._send(self.asked.body(scenario))
                await self._receive(answer, start)
        except TimeoutError:
            pass
        except (OSError, h11.RemoteProtocolError):
            answer.ended = "cut"
        answer.seconds = time.perf_counter() - start
        if answer.ended != "whole" or self._state.our_state is not h11.IDLE:
            await self.close()
        return answer

    async def _send(self, body: bytes) -> None:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self.asked.port, limit=1 << 20)
            self._state = h11.Connection(h11.CLIENT)
        headers = {
            "host": f"127.0.0.1:{self.asked.port}",
            "content-type": "application/json",
            "content-length": str(len(body)),
            **self.asked.headers,
        }
        request = h11.Request(method="POST", target=PATHS[self.asked.api], headers=[*headers.items()])
        events = (request, h11.Data(body), h11.EndOfMessage())
        self._streams[1].write(b"".join(self._state.send(event) or b"" for event in events))

    async def _receive(self, answer: Answer, start: float) -> None:
        assert self._streams is not None
        reader, _ = self._streams
        now = 0.0
        while True:
            event = self._state.next_event()
            if event is h11.NEED_DATA:
                data = await reader.read(1 << 16)
                now = time.perf_counter() - start
                self._state.receive_data(data)
            elif isinstance(event, h11.Response):
                answer.status = event.status_code
            elif isinstance(event, h11.Data):
                answer.add(bytes(event.data), now)
            elif isinstance(event, h11.EndOfMessage):
                answer.ended = "whole"
                if self._state.their_state is h11.DONE and self._state.our_state is h11.DONE:
                    self._state.start_next_cycle()
                return
            elif isinstance(event, h11.ConnectionClosed):
                answer.ended = "cut"
                return

    async def close(self) -> None:
        if self._streams is not None:
            _, writer = self._streams
            self._streams = None
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
