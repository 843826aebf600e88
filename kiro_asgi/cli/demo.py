"""Start a simulated service and a gateway, ask through each API, and show the streams as they arrive.

Needs no account and touches nothing but two free ports of this machine.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import anyio
from attrs import define, field, frozen

from kiro_asgi import create_app, simulator
from kiro_asgi.cli.client import post
from kiro_asgi.cli.serve import simulated
from kiro_asgi.cli.standalone import LOOPS, Server, bind
from kiro_asgi.config import Settings
from kiro_asgi.wire.sse import SseDecoder

__all__ = ["add_arguments", "run"]

HOST: Final = "127.0.0.1"
MODEL: Final = "claude-sonnet-4.5"
QUESTION: Final = "Say hello, and tell in one sentence what you are."


def _chat_text(chunk: Mapping[str, Any]) -> str:
    return "".join(choice["delta"].get("content") or "" for choice in chunk["choices"])


def _chat_end(chunk: Mapping[str, Any]) -> str:
    return "".join(choice.get("finish_reason") or "" for choice in chunk["choices"])


def _message_text(event: Mapping[str, Any]) -> str:
    return str(event.get("delta", {}).get("text") or "")


def _message_end(event: Mapping[str, Any]) -> str:
    return str(event.get("delta", {}).get("stop_reason") or "")


@frozen
class Api:
    """One way to ask the same question."""

    title: str
    path: str
    text: Callable[[Mapping[str, Any]], str]
    """The answer text in the data of one server-sent event."""

    end: Callable[[Mapping[str, Any]], str]
    """Why the answer ended, where the event tells."""

    headers: Mapping[str, str] = field(factory=dict)


APIS: Final = (
    Api("OpenAI Chat Completions", "/v1/chat/completions", _chat_text, _chat_end),
    Api("Anthropic Messages", "/v1/messages", _message_text, _message_end, {"anthropic-version": "2023-06-01"}),
)


@define
class Screen:
    """Prints a stream of server-sent events, one line each, as it comes in."""

    api: Api
    text: str = ""
    _events: SseDecoder = field(init=False, factory=SseDecoder)

    def take(self, chunk: bytes) -> None:
        """Show what *chunk* completes."""
        for event in self._events.feed([chunk]):
            if event.data == "[DONE]":
                print(f"  {event.data}", flush=True)
                continue
            data = json.loads(event.data)
            text, end = self.api.text(data), self.api.end(data)
            self.text += text
            shown = repr(text) if text else f"({end})" * bool(end)
            print(f"  {event.event:<20} {shown}".rstrip(), flush=True)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--loop", choices=LOOPS, default="asyncio", help="event loop (default: %(default)s)")
    parser.add_argument("--question", default=QUESTION, help="what to ask; a marker word changes the answer")
    parser.add_argument("--model", default=MODEL, help="whom; UPSTREAM/MODEL names another upstream's")


def run(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Show both streams; 0 when every API gave an answer."""
    server = Server(loop=arguments.loop, graceful_timeout=1.0, log_level="error")
    server.ready()
    return anyio.run(partial(_show, server, arguments.question, arguments.model), backend=arguments.loop)


async def _show(server: Server, question: str, model: str) -> int:
    async with simulator.serve(port=0) as service, anyio.create_task_group() as tasks:
        listener = bind(HOST, 0)
        base = f"http://{HOST}:{listener.getsockname()[1]}"
        stop = anyio.Event()
        tasks.start_soon(server.serve, create_app(simulated(Settings(), service.url, HOST)), listener, stop.wait)
        print(f"gateway {base}, simulated service {service.url}\nquestion: {question}")
        answers = [await _ask(base, api, question, model) for api in APIS]
        stop.set()
    return 0 if all(answers) else 1


async def _ask(base: str, api: Api, question: str, model: str) -> bool:
    print(f"\n{api.title}: POST {api.path}")
    asked = {
        "model": model,
        "max_tokens": 1024,
        "stream": True,
        "messages": [{"role": "user", "content": question}],
    }
    screen = Screen(api)
    headers = {"content-type": "application/json", **api.headers}
    status = await post(base + api.path, headers, json.dumps(asked).encode(), screen.take)
    print(f"  = {screen.text}" if screen.text else f"  status {status}, no answer text")
    return status == 200 and bool(screen.text)
