"""The simulator's record for tests: requests, the course of their answers, connections."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from attrs import define, field

POLL: Final = 0.002
"""Seconds between two looks of `Journal.wait_until`."""


@define(eq=False)
class RecordedRequest:
    """One request and, as it goes on, what became of its answer.  Times are those of `time.monotonic`."""

    method: str
    path: str
    """Without the query."""

    query: str
    headers: dict[str, str] = field(repr=False)
    """Names in lower case; of a repeated header, the last."""

    body: bytes = field(default=b"", repr=False)
    connection: int = 0
    """Number of the connection it came on, from 1."""

    received_at: float = field(factory=time.monotonic)
    operation: str = ""
    """Operation, e.g. ``GenerateAssistantResponse``; empty for an unknown path."""

    status: int = 0
    """Of the answer; 0 while no head was sent."""

    bytes_accepted: int = 0
    """Bytes of the answer, HTTP framing included, that the operating system took: what the peer has read, plus what
    socket buffers hold."""

    complete: bool = False
    """Whether the whole script was played and its end sent."""

    finished_at: float | None = None
    """When playing ended, either way."""

    peer_closed_at: float | None = None
    """When the peer was seen to have closed, if that was before the answer was complete."""

    def json(self) -> Any:
        """The body, parsed.

        Raises:
            ValueError: It is not JSON.
        """
        return json.loads(self.body)


class Journal:
    """A bounded, thread-safe list of requests, and connection counts.

    Args:
        keep: How many requests are kept; older ones are dropped.
    """

    def __init__(self, keep: int = 1000) -> None:
        self._lock = threading.Lock()
        self._requests: deque[RecordedRequest] = deque(maxlen=keep)
        self.connections_opened = 0
        self.connections_closed = 0

    @property
    def requests(self) -> tuple[RecordedRequest, ...]:
        """The requests, in order of arrival."""
        with self._lock:
            return tuple(self._requests)

    @property
    def last_request(self) -> RecordedRequest:
        """The latest request.

        Raises:
            IndexError: There was none.
        """
        return self.requests[-1]

    @property
    def connections_open(self) -> int:
        """Connections at this moment."""
        return self.connections_opened - self.connections_closed

    def add(self, request: RecordedRequest) -> None:
        """Remember *request*."""
        with self._lock:
            self._requests.append(request)

    def forget(self) -> None:
        """Drop all requests; connections keep being counted."""
        with self._lock:
            self._requests.clear()

    def wait_until(self, condition: Callable[[], object], timeout: float = 5.0) -> bool:
        """Block this thread until *condition* holds; return whether it does.

        For code outside the simulator's event loop; inside, await ``anyio.to_thread.run_sync`` of it.
        """
        end = time.monotonic() + timeout
        while not condition():
            if time.monotonic() >= end:
                return False
            time.sleep(POLL)
        return True
