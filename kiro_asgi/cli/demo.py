"""Ask a simulated service one question through each API, and show the answers as they arrive.

Needs no account and touches nothing but two free ports of this machine.
"""

from __future__ import annotations

import argparse
import json
import logging
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from time import monotonic
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import h11
from attrs import define, field, frozen

from kiro_asgi.asgi.exchange.providers import opened, simulated
from kiro_asgi.cli.standalone import LOOPS, Server, bind
from kiro_asgi.cli.terminal import Part, Printer, Tone, printer_on
from kiro_asgi.config import Settings
from kiro_asgi.create import create_app
from kiro_asgi.wire.sse import SseDecoder

TOOL: Final = "get_weather"
RESULT: Final = "9 degrees and rain"
"""The tool's result for every call."""

ABOUT: Final = "The weather of a city, now."
PARAMETERS: Final[Mapping[str, Any]] = MappingProxyType(
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
)
BUDGET: Final = 1024
"""Tokens for thinking, where an API wants a number; the least that it takes."""


class PieceKind(Enum):
    """Kind of a piece of an answer; the value is its name on the screen."""

    THINKING = "thinking"
    TEXT = "text"
    CALL = "tool call"
    ARGUMENTS = "arguments"
    END = "end"
    ERROR = "error"
    CALL_ID = "call id"
    SIGNATURE = "signature"
    RESPONSE_ID = "response id"


Answer = Mapping[PieceKind, str]
"""All pieces of a kind in a row."""

Document = Mapping[str, Any]
Piece = tuple[PieceKind, str | None]


@frozen
class Api:
    """One client API: how to ask a question, read an answer and return a tool's result."""

    title: str
    path: str
    ask: Callable[[str], Document]
    """The request for a question, without model and streaming."""

    answer_call: Callable[[Document, Answer, str], Document]
    """The request that follows one that was answered with a call: that request, its answer, the tool's result."""

    read: Callable[[Document], Iterator[Piece]]
    """The pieces in the data of one server-sent event; those without text do not count."""

    headers: Mapping[str, str] = field(factory=dict)


def _ask_chat(question: str) -> Document:
    function = {"name": TOOL, "description": ABOUT, "parameters": {**PARAMETERS}}
    return {
        "messages": [{"role": "user", "content": question}],
        "tools": [{"type": "function", "function": function}],
        "reasoning_effort": "low",
    }


def _answer_chat_call(request: Document, answer: Answer, result: str) -> Document:
    function = {"name": answer[PieceKind.CALL], "arguments": answer[PieceKind.ARGUMENTS]}
    call = {"id": answer[PieceKind.CALL_ID], "type": "function", "function": function}
    called = {"role": "assistant", "content": answer.get(PieceKind.TEXT), "tool_calls": [call]}
    tool_result = {"role": "tool", "tool_call_id": call["id"], "content": result}
    return {**request, "messages": [*request["messages"], called, tool_result]}


def _read_chat(data: Document) -> Iterator[Piece]:
    for choice in data["choices"]:
        delta = choice["delta"]
        yield PieceKind.THINKING, delta.get("reasoning_content")
        yield PieceKind.TEXT, delta.get("content")
        for call in delta.get("tool_calls", ()):
            yield PieceKind.CALL_ID, call.get("id")
            yield PieceKind.CALL, call["function"].get("name")
            yield PieceKind.ARGUMENTS, call["function"].get("arguments")
        yield PieceKind.END, choice.get("finish_reason")


def _ask_responses(question: str) -> Document:
    return {
        "input": question,
        "tools": [{"type": "function", "name": TOOL, "description": ABOUT, "parameters": {**PARAMETERS}}],
        "reasoning": {"effort": "low", "summary": "auto"},
    }


def _answer_responses_call(request: Document, answer: Answer, result: str) -> Document:
    tool_result = {"type": "function_call_output", "call_id": answer[PieceKind.CALL_ID], "output": result}
    return {**request, "previous_response_id": answer[PieceKind.RESPONSE_ID], "input": [tool_result]}


RESPONSES_DELTAS: Final[Mapping[str, PieceKind]] = {
    "response.reasoning_summary_text.delta": PieceKind.THINKING,
    "response.output_text.delta": PieceKind.TEXT,
    "response.function_call_arguments.delta": PieceKind.ARGUMENTS,
}


def _read_responses(data: Document) -> Iterator[Piece]:
    match data:
        case {"type": "response.created", "response": {"id": identity}}:
            yield PieceKind.RESPONSE_ID, identity
        case {
            "type": "response.output_item.added",
            "item": {"type": "function_call", "call_id": identity, "name": name},
        }:
            yield PieceKind.CALL_ID, identity
            yield PieceKind.CALL, name
        case {"type": "response.completed" | "response.incomplete", "response": {"status": status}}:
            yield PieceKind.END, status
        case {"type": name, "delta": delta} if name in RESPONSES_DELTAS:
            yield RESPONSES_DELTAS[name], delta


def _ask_messages(question: str) -> Document:
    return {
        "max_tokens": 4 * BUDGET,
        "messages": [{"role": "user", "content": question}],
        "tools": [{"name": TOOL, "description": ABOUT, "input_schema": {**PARAMETERS}}],
        "thinking": {"type": "enabled", "budget_tokens": BUDGET},
    }


def _answer_messages_call(request: Document, answer: Answer, result: str) -> Document:
    called: list[Document] = []
    if PieceKind.SIGNATURE in answer:  # thinking may only come back with it
        thinking = answer.get(PieceKind.THINKING, "")
        called.append({"type": "thinking", "thinking": thinking, "signature": answer[PieceKind.SIGNATURE]})
    if PieceKind.TEXT in answer:
        called.append({"type": "text", "text": answer[PieceKind.TEXT]})
    call = {
        "id": answer[PieceKind.CALL_ID],
        "name": answer[PieceKind.CALL],
        "input": json.loads(answer[PieceKind.ARGUMENTS]),
    }
    called.append({"type": "tool_use", **call})
    tool_result = {"type": "tool_result", "tool_use_id": call["id"], "content": result}
    turns = ({"role": "assistant", "content": called}, {"role": "user", "content": [tool_result]})
    return {**request, "messages": [*request["messages"], *turns]}


def _read_messages(data: Document) -> Iterator[Piece]:
    match data:
        case {"type": "content_block_start", "content_block": {"type": "tool_use", "id": identity, "name": name}}:
            yield PieceKind.CALL_ID, identity
            yield PieceKind.CALL, name
        case {"type": "content_block_delta", "delta": delta}:
            yield PieceKind.THINKING, delta.get("thinking")
            yield PieceKind.SIGNATURE, delta.get("signature")
            yield PieceKind.TEXT, delta.get("text")
            yield PieceKind.ARGUMENTS, delta.get("partial_json")
        case {"type": "message_delta", "delta": {"stop_reason": reason}}:
            yield PieceKind.END, reason


APIS: Final = (
    Api("OpenAI Chat Completions", "/v1/chat/completions", _ask_chat, _answer_chat_call, _read_chat),
    Api("OpenAI Responses", "/v1/responses", _ask_responses, _answer_responses_call, _read_responses),
    Api(
        "Anthropic Messages",
        "/v1/messages",
        _ask_messages,
        _answer_messages_call,
        _read_messages,
        {"anthropic-version": "2023-06-01"},
    ),
)


CHUNK = 65_536


async def post(url: str, headers: Mapping[str, str], body: bytes, take: Callable[[int, bytes], None]) -> None:
    """Send *body* and hand over the answer piece by piece, each with the status.

    Raises:
        OSError: No connection, or it broke.
        h11.RemoteProtocolError: The answer is not HTTP, or is torn.
    """
    parts = urlsplit(url)
    lines = [("host", parts.netloc), ("content-length", str(len(body))), ("connection", "close"), *headers.items()]
    http = h11.Connection(h11.CLIENT)
    async with await anyio.connect_tcp(parts.hostname or "", parts.port or 80) as stream:
        head = http.send(h11.Request(method="POST", target=parts.path or "/", headers=lines)) or b""
        await stream.send(head + (http.send(h11.Data(data=body)) or b"") + (http.send(h11.EndOfMessage()) or b""))
        await _receive(http, stream, take)


async def _receive(http: h11.Connection, stream: anyio.abc.ByteStream, take: Callable[[int, bytes], None]) -> None:
    status = 0
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            try:
                http.receive_data(await stream.receive(CHUNK))
            except anyio.EndOfStream:
                http.receive_data(b"")
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            take(status, bytes(event.data))
        elif isinstance(event, h11.EndOfMessage):
            return


HOST: Final = "127.0.0.1"
MODEL: Final = "claude-sonnet-4.5"
QUESTION: Final = "What is the weather in Bergen?"

TONES: Final[Mapping[PieceKind, Tone]] = {
    PieceKind.THINKING: Tone.THINKING,
    PieceKind.TEXT: Tone.TEXT,
    PieceKind.CALL: Tone.WARNING,
    PieceKind.END: Tone.GOOD,
    PieceKind.ERROR: Tone.BAD,
}
"""The kinds that have a line of their own; arguments follow their call."""

HANG: Final = 21
"""Columns before the text of a part: when it began, and its kind."""

TITLES: Final = max(len(api.title) for api in APIS)
UNNAMED: Final[Mapping[str, str]] = {"message": "chunk"}
"""Names for events without one, as their API calls them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--loop", choices=LOOPS, default="asyncio", help="event loop (default: %(default)s)")
    parser.add_argument("--question", default=QUESTION, help="what to ask; a marker word changes the answer")
    parser.add_argument("--model", default=MODEL, help="model to ask; UPSTREAM/MODEL names another upstream's")


def run(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Show the answer of each API; 0 when there are three."""
    output = printer_on(sys.stdout, environ)
    return demonstrate(output, arguments.question, arguments.model, arguments.loop)


def demonstrate(output: Printer, question: str = QUESTION, model: str = MODEL, loop: str = "asyncio") -> int:
    """Show it on *output*; the exit status.

    Raises:
        ConfigError: The server for this event loop is not installed.
    """
    logging.getLogger("kiro_asgi").addHandler(logging.NullHandler())  # what goes wrong is on the screen
    server = Server(loop=loop, graceful_timeout=1.0)
    server.ready()
    return anyio.run(partial(_show_until_signalled, server, output, question, model), backend=loop)


async def _show_until_signalled(server: Server, output: Printer, question: str, model: str) -> int:
    # trio would raise KeyboardInterrupt wherever it is, e.g. in the gateway, which would answer with an error.
    status: int | None = None
    with anyio.open_signal_receiver(signal.SIGINT) as signals:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_cancel_at, signals, tasks.cancel_scope)
            status = await _show(server, output, question, model)
            tasks.cancel_scope.cancel()
    if status is None:
        raise KeyboardInterrupt
    return status


async def _cancel_at(signals: AsyncIterator[signal.Signals], scope: anyio.CancelScope) -> None:
    await anext(signals)
    scope.cancel()


async def _show(server: Server, output: Printer, question: str, model: str) -> int:
    from kiro_asgi import simulator  # every command imports this module

    async with simulator.serve(port=0) as service, anyio.create_task_group() as tasks:
        listener = bind(HOST, 0)
        base = f"http://{HOST}:{listener.getsockname()[1]}"
        stop = anyio.Event()
        tasks.start_soon(server.serve, create_app(opened(simulated(Settings(), service.url))), listener, stop.wait)
        facts = {
            "Gateway": base,
            "Service": f"simulated at {service.url}",
            "Model": model,
            "Question": question,
            "Tool": f'{TOOL}, which answers "{RESULT}"',
        }
        for name, words in facts.items():
            output.line((f"{name + ':':<10}", Tone.NAME), words, hang=10)
        # A first request loads modules, whose time would count against the API that is asked first.
        for api in APIS:
            await Dialogue(api, MODEL, base, NullPrinter()).hold("Hello")
        dialogues = [Dialogue(api, model, base, output) for api in APIS]
        for dialogue in dialogues:
            await dialogue.hold(question)
        _compare(output, dialogues)
        stop.set()
    return 0 if all(dialogue.answered for dialogue in dialogues) else 1


@frozen
class NullPrinter:
    """A printer that prints nothing."""

    def line(self, *parts: Part, hang: int = 0) -> None:
        """Print nothing."""

    def text(self, text: str) -> None:
        """Print nothing."""

    json = text


@define
class Dialogue:
    """A question and its answer in one API, with the tool's result where it is called."""

    api: Api
    _model: str
    _base: str
    _output: Printer
    answered: bool = field(init=False, default=False)
    """Whether the last answer came to its end."""

    events: int = field(init=False, default=0)
    first: float = field(init=False, default=0.0)
    """Seconds to the first of them."""

    seconds: float = field(init=False, default=0.0)
    """Seconds that all answers took."""

    async def hold(self, question: str) -> None:
        """Ask, and go on once where the tool is called."""
        self._output.line()
        self._output.line((self.api.title, Tone.TITLE), ("  POST ", Tone.ASIDE), (self.api.path, Tone.ASIDE))
        request = {"model": self._model, "stream": True, **self.api.ask(question)}
        answer, calls = await self._ask(request)
        if calls == 1 and PieceKind.END in answer:
            self._output.line((f"{'sent':>8} ", Tone.ASIDE), (f" {'result':<10} ", Tone.NAME), RESULT, hang=HANG)
            answer, _ = await self._ask(self.api.answer_call(request, answer, RESULT))
        self.answered = PieceKind.END in answer and PieceKind.ERROR not in answer

    async def _ask(self, request: Mapping[str, Any]) -> tuple[Answer, int]:
        """The answer, and the number of calls in it."""
        screen = AnswerScreen(self.api, self._output)
        headers = {"content-type": "application/json", **self.api.headers}
        await post(self._base + self.api.path, headers, json.dumps(request).encode(), screen.take)
        screen.finish()
        self.first = self.first or screen.first
        self.seconds += monotonic() - screen.started
        self.events += screen.events
        return screen.answer, screen.calls


@frozen
class AnswerPart:
    """A part of an answer that is coming in: a line on the screen."""

    kind: PieceKind
    after: float
    """Seconds from the request to its first event."""

    pieces: list[str] = field(factory=list)
    events: Counter[str] = field(factory=Counter)
    """Numbers of its events by name."""


@define
class AnswerScreen:
    """Prints an answer as it comes in: a line for each part, as soon as that is complete."""

    _api: Api
    _output: Printer
    started: float = field(init=False, factory=monotonic)
    first: float = field(init=False, default=0.0)
    """Seconds to the first event."""

    events: int = field(init=False, default=0)
    calls: int = field(init=False, default=0)
    answer: dict[PieceKind, str] = field(init=False, factory=dict)
    _decoder: SseDecoder = field(init=False, factory=SseDecoder)
    _status: int = field(init=False, default=0)
    _refusal: bytes = field(init=False, default=b"")
    _part: AnswerPart | None = field(init=False, default=None)

    def take(self, status: int, chunk: bytes) -> None:
        """Show what *chunk* completes."""
        self._status = status
        if status != 200:
            self._refusal += chunk
            return
        for event in self._decoder.feed([chunk]):
            self.events += 1
            self.first = self.first or monotonic() - self.started
            if event.data != "[DONE]":
                self._read(json.loads(event.data), event.event)

    def finish(self) -> None:
        """Show the last part, or why there is no answer."""
        if self._refusal:
            self._put(PieceKind.ERROR, f"status {self._status}: {_error_in(json.loads(self._refusal))}", "")
        self._print_part()

    def _read(self, data: Mapping[str, Any], event: str) -> None:
        if error := _error_in(data):
            if PieceKind.ERROR not in self.answer:  # one API reports it twice
                self._put(PieceKind.ERROR, error, event)
            return
        for kind, text in self._api.read(data):
            if text:
                self._put(kind, text, event)

    def _put(self, kind: PieceKind, text: str, event: str) -> None:
        self.answer[kind] = self.answer.get(kind, "") + text
        if kind is PieceKind.ARGUMENTS and self._part is not None:
            text = text if len(self._part.pieces) > 1 else f" {text}"
        elif kind in TONES:
            if self._part is None or self._part.kind is not kind or kind is PieceKind.CALL:
                self._print_part()
                self._part = AnswerPart(kind, monotonic() - self.started)
            self.calls += kind is PieceKind.CALL
        else:
            return
        assert self._part is not None
        self._part.pieces.append(text)
        self._part.events[event] += 1

    def _print_part(self) -> None:
        if (part := self._part) is None:
            return
        events = ", ".join(f"{count}×{UNNAMED.get(name, name)}" for name, count in part.events.items() if name)
        self._output.line(
            (f"{part.after * 1000:>5.0f} ms ", Tone.ASIDE),
            (f" {part.kind.value:<10} ", Tone.NAME),
            ("".join(part.pieces), TONES[part.kind]),
            (f"  {events}", Tone.ASIDE),
            hang=HANG,
        )
        self._part = None


def _error_in(data: Mapping[str, Any]) -> str:
    """The message of an error, in the place that an API has for it; empty where *data* is none."""
    found = data.get("error") or data.get("response", {}).get("error") or (data if data.get("type") == "error" else {})
    return str(found.get("message") or "")


def _compare(output: Printer, dialogues: Sequence[Dialogue]) -> None:
    output.line()
    output.line((f"{'':<{TITLES}}  first event  all answers  events", Tone.TITLE))
    for it in dialogues:
        words = f"{it.first * 1000:>8.0f} ms  {it.seconds * 1000:>8.0f} ms  {it.events:>6}"
        output.line((f"{it.api.title:<{TITLES}}", Tone.NAME), "  ", words)
    output.line()
    output.line("For clients of your own: ", ("kiro-asgi serve --simulate", Tone.TITLE))
