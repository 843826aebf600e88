"""Where an answer goes that goes through as it is: out as it comes, or as one body at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from attrs import define, field

from kiro_asgi.asgi.exchange import Passed
from kiro_asgi.asgi.http import Headers
from kiro_asgi.asgi.output import Output, Sending, Whole
from kiro_asgi.asgi.typing import Send
from kiro_asgi.dialects.passage import Passage
from kiro_asgi.errors import AnswerTooLarge, KiroAsgiError

__all__ = ["PassedOutput", "PassedStream", "PassedWhole", "passed_output"]


def passed_output(
    send: Send,
    request: Passed,
    headers: Callable[[], Headers],
    clock: Callable[[], float],
    max_bytes: int,
) -> PassedStream | PassedWhole:
    """The way out for the answer to *request*, of which at most *max_bytes* are kept."""
    if request.glance.stream:
        return PassedStream(send, headers, clock)
    return PassedWhole(send, headers, max_bytes)


class PassedOutput(Output[bytes], Protocol):
    """Takes the bytes of one answer."""

    def through(self, passage: Passage) -> None:
        """Watch the answer of the next try by *passage*."""
        ...


@define
class PassedStream(Sending[bytes]):
    """Sends whole events as they come."""

    def through(self, passage: Passage) -> None:
        """Watch the answer of the next try by *passage*."""
        self._encoder = passage


@define
class PassedWhole(Whole[bytes]):
    """Sends one body."""

    _max_bytes: int
    _passage: Passage = field(init=False)
    _body: bytearray = field(init=False, factory=bytearray)

    def through(self, passage: Passage) -> None:
        """Watch the answer of the next try by *passage*."""
        self._passage = passage

    def restart(self) -> None:
        """Forget what has come."""
        self._body.clear()

    def put(self, items: Iterable[bytes], /) -> KiroAsgiError | None:
        """Add to the body."""
        for item in items:
            self._body += item
            if len(self._body) > self._max_bytes:
                message = f"the answer has more than {self._max_bytes} bytes (limits.answer_bytes)"
                return AnswerTooLarge(message, code="answer_too_large")
        return None

    async def finish(self) -> None:
        """Send the body."""
        await self._respond(self._passage.whole(bytes(self._body)))
