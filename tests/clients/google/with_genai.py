"""google-genai: streamed and collected, with and without asyncio, and chats with a function of the program's own."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

from google import genai
from google.genai import errors, types

GIVEN = json.load(sys.stdin)
MODEL = GIVEN["model"]
EMBEDDER = "gemini-embedding-001"


def report(name: str, ask: Callable[[], Any]) -> None:
    try:
        seen = {"value": ask()}
    except errors.APIError as error:
        seen = {"thrown": [type(error).__name__, error.code, error.status], "message": error.message}
    print(json.dumps({"name": name, **seen}))


def client(version: str | None) -> genai.Client:
    options = types.HttpOptions(base_url=GIVEN["base"], api_version=version)
    return genai.Client(api_key=GIVEN["key"], http_options=options)


def now() -> str:
    """Tell the time."""
    return "noon"


def streamed(google: genai.Client, contents: str) -> list[Any]:
    pieces = list(google.models.generate_content_stream(model=MODEL, contents=contents))
    last = pieces[-1]
    text = "".join(piece.text or "" for piece in pieces)
    return [text, last.candidates[0].finish_reason, last.usage_metadata.total_token_count > 0]


async def awaited(google: genai.Client) -> list[str]:
    whole = await google.aio.models.generate_content(model=MODEL, contents=GIVEN["text"])
    pieces = await google.aio.models.generate_content_stream(model=MODEL, contents=GIVEN["text"])
    return [whole.text, "".join([piece.text or "" async for piece in pieces])]


def chat(google: genai.Client, *, stream: bool) -> list[Any]:
    """The last text, and how much of the conversation the client keeps for its next request."""
    talk = google.chats.create(model=MODEL, config=types.GenerateContentConfig(tools=[now]))
    if stream:
        text = "".join(piece.text or "" for piece in talk.send_message_stream(GIVEN["call"]))
    else:
        text = talk.send_message(GIVEN["call"]).text
    return [text, len(talk.get_history(curated=True)) == len(talk.get_history())]


def ask(label: str, google: genai.Client) -> None:
    report(f"{label} collected", lambda: google.models.generate_content(model=MODEL, contents=GIVEN["text"]).text)
    report(f"{label} streamed", lambda: streamed(google, GIVEN["text"]))
    report(f"{label} awaited", lambda: asyncio.run(awaited(google)))
    report(f"{label} counted", lambda: google.models.count_tokens(model=MODEL, contents="hello").total_tokens > 0)
    report(f"{label} listed", lambda: f"models/{MODEL}" in [each.name for each in google.models.list()])
    report(f"{label} chat", lambda: chat(google, stream=False))
    report(f"{label} streamed chat", lambda: chat(google, stream=True))
    report(f"{label} broken", lambda: streamed(google, GIVEN["broken"]))
    report(f"{label} embedded", lambda: len(google.models.embed_content(model=EMBEDDER, contents="a cat").embeddings))
    report(f"{label} unknown", lambda: google.models.get(model="nonesuch").name)


ask("v1beta", client("v1beta"))
ask("default", client(None))
