"""A turn that the service may give in several messages, because it runs tools on the way.

A message with ``stop_reason: "pause_turn"`` is a part of one.  The rest is asked for by the same request with what was
said so far as the last message of the assistant's: every block as it came, for the service checks signatures and finds
its own calls again.

Source: https://docs.claude.com/en/docs/build-with-claude/handling-stop-reasons
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import define, evolve, field

from kiro_asgi.model.budget import ITEM, AnswerBudget, size_of_value
from kiro_asgi.model.events import Notice
from kiro_asgi.stages.base import Stage
from kiro_asgi.upstreams.anthropic.answer import MessageEvents, reader
from kiro_asgi.upstreams.anthropic.blocks import index_of
from kiro_asgi.upstreams.base import UpstreamRequest
from kiro_asgi.upstreams.json_events import JsonEvent
from kiro_asgi.wire.json import JsonError, dumps, loads, object_of, objects_of, text_of


def may_pause(document: Mapping[str, Any]) -> bool:
    """Whether the request *document* has tools that the service runs: only those have a type."""
    return any("type" in tool for tool in document.get("tools", ()))


@define
class PausableTurn:
    """Reads all messages of a turn, for `kiro_asgi.upstreams.base.PausingTurn`."""

    _request: UpstreamRequest
    """The first one."""

    _document: Mapping[str, Any]
    """Its body."""

    _budget: AnswerBudget = field(init=False, factory=AnswerBudget)
    _said: KeptBlocks = field(init=False)
    _events: MessageEvents = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._said, self._events = KeptBlocks(self._budget), MessageEvents(self._budget)

    def decoder(self, content_type: str) -> tuple[Stage[Any, Any], ...]:
        """Stages, bytes to `Delta`, for the next message.

        Raises:
            NotTheUpstream: Code ``upstream.content_type``: no answer comes in this media type.
        """
        events = reader(content_type)
        self._events.resume()
        return events, self._said, self._events

    @property
    def paused(self) -> bool:
        """Whether the service goes on if it is handed back what it said."""
        return self._events.paused and self._said.whole

    def following(self) -> UpstreamRequest:
        """Ask for the next message."""
        messages, said = [*self._document["messages"]], self._said.blocks
        if messages[-1]["role"] == "assistant":
            said = [*messages.pop()["content"], *said]
        messages.append({"role": "assistant", "content": said})
        return evolve(self._request, body=dumps({**self._document, "messages": messages}))


@define
class _KeptBlock:
    """A block while it is open."""

    _start: Mapping[str, Any]
    pieces: dict[str, list[str]] = field(init=False, factory=dict)
    """By the member that they make up."""

    citations: list[Any] = field(init=False, factory=list)

    def written(self) -> dict[str, Any]:
        """All of it.

        Raises:
            JsonError: Its arguments are no JSON.
        """
        block = dict(self._start)
        for name, pieces in self.pieces.items():
            text = "".join(pieces)
            if name != "input":
                block[name] = text_of(block, name) + text
            elif text:
                block[name] = loads(text)
        if self.citations:
            block["citations"] = [*objects_of(block.get("citations")), *self.citations]
        return block


_MEMBERS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "text_delta": ("text", "text"),
        "thinking_delta": ("thinking", "thinking"),
        "signature_delta": ("signature", "signature"),
        "input_json_delta": ("input", "partial_json"),
    }
)
"""Kind of delta to the member of the block that it adds to, and its own member that has the piece."""


@define
class KeptBlocks:
    """The stage that passes events on, and keeps the blocks that they make up.

    Raises:
        AnswerTooLarge: They take more than `kiro_asgi.limits.ANSWER_BYTES`.
    """

    _budget: AnswerBudget
    blocks: list[dict[str, Any]] = field(init=False, factory=list)
    """Those that are complete."""

    _open: dict[int, _KeptBlock] = field(init=False, factory=dict)
    _lost: bool = field(init=False, default=False)
    """Whether there was something that cannot be handed back."""

    @property
    def whole(self) -> bool:
        """Whether the blocks are all that was said, and none is a call that the client has to answer."""
        return not (self._lost or self._open or any(block.get("type") == "tool_use" for block in self.blocks))

    def feed(self, items: Iterable[JsonEvent | Notice], /) -> Iterator[JsonEvent | Notice]:
        """The same items."""
        for item in items:
            if type(item) is JsonEvent:
                kind = item.value.get("type", item.name)
                if type(kind) is str and kind in _EVENTS:
                    _EVENTS[kind](self, item.value)
            yield item

    def flush(self) -> Iterator[JsonEvent | Notice]:
        """Nothing is held back."""
        yield from ()

    def _message(self, value: Mapping[str, Any]) -> None:
        """A message may begin with blocks, or be whole."""
        for block in objects_of(object_of(value.get("message")).get("content")):
            self._budget.take(ITEM + size_of_value(block))
            self.blocks.append(dict(block))

    def _start(self, value: Mapping[str, Any]) -> None:
        block, index = object_of(value.get("content_block")), index_of(value)
        self._budget.take(ITEM + size_of_value(block))
        self._lost |= index in self._open
        self._open[index] = _KeptBlock(block)

    def _delta(self, value: Mapping[str, Any]) -> None:
        delta, block = object_of(value.get("delta")), self._open.get(index_of(value))
        kind = text_of(delta, "type")
        if block is None or not (kind in _MEMBERS or kind == "citations_delta"):
            self._lost = True
        elif kind in _MEMBERS:
            name, source = _MEMBERS[kind]
            piece = text_of(delta, source)
            self._budget.take(size_of_value(piece))
            block.pieces.setdefault(name, []).append(piece)
        else:
            citation = object_of(delta.get("citation"))
            self._budget.take(size_of_value(citation))
            block.citations.append(citation)

    def _stop(self, value: Mapping[str, Any]) -> None:
        block = self._open.pop(index_of(value), None)
        try:
            if block is not None:
                self.blocks.append(block.written())
        except JsonError:
            self._lost = True


_EVENTS: Final[Mapping[str, Callable[[KeptBlocks, Mapping[str, Any]], None]]] = MappingProxyType(
    {
        "message_start": KeptBlocks._message,
        "content_block_start": KeptBlocks._start,
        "content_block_delta": KeptBlocks._delta,
        "content_block_stop": KeptBlocks._stop,
    }
)
