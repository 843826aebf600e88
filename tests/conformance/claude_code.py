"""How Claude Code reads a stream of Messages events, as an automaton; whatever it would stumble over is an error here.

It differs from the SDKs: it keeps blocks by index, drops what a block has when it opens, takes a delta for an open
block of its own kind only, and wants a stop reason, or else the end of the message, with no block open.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import define, field

__all__ = ["ClaudeCode", "Dropped", "Malformed", "Reported"]


class Malformed(Exception):
    """An event that does not fit where it stands."""


class Dropped(Exception):
    """The stream is over and the message is not."""


class Reported(Exception):
    """An error event; its arguments are its type and its message."""


DELTAS: Final = MappingProxyType(
    {
        "text_delta": ("text", "text"),
        "input_json_delta": ("tool_use", "partial_json"),
        "thinking_delta": ("thinking", "thinking"),
        "signature_delta": ("thinking", "signature"),
    }
)
"""Type of a delta to the type of block that it is for, and its only field."""

BLOCKS: Final = MappingProxyType(
    {
        "text": {"text": ""},
        "tool_use": {"input": ""},
        "thinking": {"thinking": "", "signature": ""},
        "redacted_thinking": {},
    }
)
"""Type of a block to what is forgotten of it when it opens."""


@define
class ClaudeCode:
    """Reads one answer."""

    tools: tuple[str, ...] = ()
    """Names of the tools that the request declared."""

    message: dict[str, Any] | None = field(init=False, default=None)
    blocks: dict[int, dict[str, Any]] = field(init=False, factory=dict)
    _open: set[int] = field(init=False, factory=set)
    _stopped: bool = field(init=False, default=False)

    def read(self, events: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
        """The message that *events*, names and data, are.

        Raises:
            Malformed: An event does not fit.
            Dropped: The end is missing.
            Reported: There is an error event.
        """
        for name, data in events:
            if name != data.get("type"):
                raise Malformed(f"event {name} holds {data.get('type')}")
            if self._stopped:
                raise Malformed(f"{name} after the end")
            self._step(name, data)
        return self._finish()

    def _step(self, name: str, data: Mapping[str, Any]) -> None:
        match name:
            case "ping":
                pass
            case "error":
                raise Reported(data["error"]["type"], data["error"]["message"])
            case "message_start":
                self._start(data["message"])
            case _ if self.message is None:
                raise Malformed(f"{name} before the start")
            case "content_block_start":
                self._start_block(data["index"], data["content_block"])
            case "content_block_delta":
                self._delta(data["index"], data["delta"])
            case "content_block_stop":
                self._stop_block(data["index"])
            case "message_delta":
                self._change(self.message, data)
            case "message_stop":
                self._stopped = True
            case _:
                raise Malformed(f"unknown event {name}")

    def _start(self, message: Mapping[str, Any]) -> None:
        if self.message is not None:
            raise Malformed("a second start")
        self.message = {**message, "usage": dict(message["usage"])}

    def _start_block(self, index: int, block: Mapping[str, Any]) -> None:
        if index in self.blocks:
            raise Malformed(f"block {index} starts again")
        if self._open:
            raise Malformed(f"block {index} starts while another is open")
        if block["type"] == "tool_use" and self.tools and block["name"] not in self.tools:
            raise Malformed(f"tool {block['name']} was not declared")
        self.blocks[index] = {**block, **BLOCKS[block["type"]]}
        self._open.add(index)

    def _delta(self, index: int, delta: Mapping[str, Any]) -> None:
        if index not in self._open:
            raise Malformed(f"delta for block {index}, which is not open")
        kind, name = DELTAS[delta["type"]]
        block, piece = self.blocks[index], delta.get(name)
        if block["type"] != kind or not isinstance(piece, str):
            raise Malformed(f"{delta['type']} does not fit a block of {block['type']}")
        place = "input" if kind == "tool_use" else name
        block[place] = piece if name == "signature" else block[place] + piece

    def _stop_block(self, index: int) -> None:
        if index not in self._open:
            raise Malformed(f"stop of block {index}, which is not open")
        self._open.remove(index)
        block = self.blocks[index]
        if block["type"] == "tool_use":
            block["input"] = json.loads(block["input"] or "{}")

    def _change(self, message: dict[str, Any], data: Mapping[str, Any]) -> None:
        message |= {name: value for name, value in data["delta"].items() if value is not None}
        message["usage"] |= {name: count for name, count in data["usage"].items() if count}

    def _finish(self) -> dict[str, Any]:
        if self.message is None:
            raise Dropped("nothing came")
        if self._open or not (self._stopped or self.message["stop_reason"]):
            raise Dropped("the connection was dropped")
        return {**self.message, "content": [self.blocks[index] for index in sorted(self.blocks)]}
