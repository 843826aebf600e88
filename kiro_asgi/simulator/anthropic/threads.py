"""Threads: conversations that the simulated service holds, so that a request may send its new messages alone.

``{"type": "create"}`` has the service hold the conversation under the id of its answer.  ``{"type": "continue"}`` names
that id, once; what is held stands before the request's own messages, with its system text and its tools.

Source: ``BetaMessageThreadParam`` of anthropic 2.14.0.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import define, field

from kiro_asgi.simulator.anthropic.encoder import REQUEST_ID, envelope
from kiro_asgi.simulator.conversation import as_list, as_map
from kiro_asgi.simulator.format import Refused
from kiro_asgi.simulator.scripts import RawBytes, Script, json_answer

Json = Mapping[str, Any]

MOST: Final = 1_000
"""Conversations held at once; the oldest goes first."""

CREATE_ONLY: Final = ("system", "tools")
"""Fields that the first request of a thread alone may have."""


def _refused(status: int, kind: str, code: str, message: str) -> Refused:
    body = envelope(kind, message)
    body["error"]["details"] = {"error_code": code}
    return Refused(json_answer(status, body, (("request-id", REQUEST_ID),)))


@define
class Threads:
    """The conversations that are held, for `kiro_asgi.simulator.format.Holder`."""

    _held: dict[str, Json] = field(init=False, factory=dict)
    _continued: dict[str, None] = field(init=False, factory=dict)

    def whole(self, document: Json, /) -> Json:
        """*document* with what is held for it.

        Raises:
            Refused: Nothing is, or not any more.
        """
        thread = as_map(document.get("thread"))
        if thread.get("type") != "continue":
            return document
        held = self._taken(str(thread.get("previous_message_id")))
        if repeated := [name for name in CREATE_ONLY if name in document]:
            message = f"{repeated[0]}: differs from the thread's"
            raise _refused(400, "invalid_request_error", "thread_fingerprint_mismatch", message)
        messages = [*as_list(held.get("messages")), *as_list(document.get("messages"))]
        return {**{name: held[name] for name in CREATE_ONLY if name in held}, **document, "messages": messages}

    def hold(self, document: Json, answer: Callable[[], Script], /) -> None:
        """Hold *document*, a whole conversation, with its *answer*, where that is a message."""
        if not as_map(document.get("thread")):
            return
        message = _message(answer())
        if message.get("type") != "message":
            return
        said, name = {"role": "assistant", "content": message["content"]}, str(message["id"])
        self._held[name] = {**document, "messages": [*as_list(document.get("messages")), said]}
        self._continued.pop(name, None)  # the same question has the same id here
        for table in (self._held, self._continued):
            if len(table) > MOST:
                del table[next(iter(table))]

    def _taken(self, name: str) -> Json:
        if name in self._continued:
            message = "this response has already been continued"
            raise _refused(400, "invalid_request_error", "thread_already_continued", message)
        held = self._held.pop(name, None)
        if held is None:
            raise _refused(404, "not_found_error", "thread_not_found", f"no thread was found for {name}")
        self._continued[name] = None
        return held


def _message(script: Script) -> Json:
    """The message that *script* sends; empty where it sends another thing, or breaks off."""
    try:
        return as_map(json.loads(b"".join(step.data for step in script if isinstance(step, RawBytes))))
    except ValueError:
        return {}
