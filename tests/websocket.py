"""A client of the Responses API over WebSocket, of one library only: what the frames are is for the tests to judge."""

from __future__ import annotations

import json
from typing import Any, Final

from websockets.sync.client import ClientConnection, connect

__all__ = ["ENDS", "answer", "connected", "text_of", "turn"]

ENDS: Final = ("response.completed", "response.incomplete", "response.failed", "error")
"""Types of the last frame of an answer."""

Frame = dict[str, Any]


def connected(base: str, key: str = "k", path: str = "/v1/responses", **headers: str) -> ClientConnection:
    """A connection to the gateway at *base*; an empty *key* shows none."""
    shown = {"authorization": f"Bearer {key}"} if key else {}
    return connect(base.replace("http", "ws", 1) + path, additional_headers={**shown, **headers}, proxy=None)


def answer(connection: ClientConnection) -> list[Frame]:
    """The frames up to the end of one answer."""
    frames: list[Frame] = []
    while not frames or frames[-1]["type"] not in ENDS:
        frames.append(json.loads(connection.recv(timeout=30)))
    return frames


def turn(connection: ClientConnection, content: Any, **more: Any) -> list[Frame]:
    """Ask, and take the frames of the answer."""
    connection.send(json.dumps({"type": "response.create", "model": "claude-sonnet-4.5", "input": content, **more}))
    return answer(connection)


def text_of(frames: list[Frame]) -> str:
    """The text of an answer that has come to its end."""
    assert frames[-1]["type"] == "response.completed", frames[-1]
    return "".join(frame["delta"] for frame in frames if frame["type"] == "response.output_text.delta")
