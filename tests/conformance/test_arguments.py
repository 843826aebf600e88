"""Arguments of tool calls through the official clients, in each API, streamed and collected."""

from __future__ import annotations

from typing import Any

import pytest

from kiro_asgi.simulator import answer, tool_call
from tests.conformance.asked import EACH_API, EACH_WAY, ask
from tests.conformance.clients import Clients
from tests.conformance.gateways import Gateway

FILE = {"type": "object", "properties": {"file_path": {"type": "string"}}, "required": ["file_path"]}
CAMEL = {"type": "object", "properties": {"filePath": {"type": "string"}}, "required": ["filePath"]}
CLOSED = {**FILE, "additionalProperties": False}
EDITS = {
    "type": "object",
    "properties": {"edits": {"type": "array", "items": {"type": "object", "properties": {"old_string": {}}}}},
}


@EACH_WAY
@EACH_API
@pytest.mark.parametrize(
    ("schema", "given", "expected"),
    [
        pytest.param(FILE, {"filePath": "a.py"}, {"file_path": "a.py"}, id="camel-for-snake"),
        pytest.param(CAMEL, {"file_path": "a.py"}, {"filePath": "a.py"}, id="snake-for-camel"),
        pytest.param(CLOSED, {"filePath": "a", "why": 1}, {"file_path": "a"}, id="renamed-before-dropped"),
        pytest.param(FILE, {"file_path": "a", "why": 1}, {"file_path": "a", "why": 1}, id="others-allowed"),
        pytest.param(CLOSED, {"path": "a"}, {"path": "a"}, id="never-nothing"),
        pytest.param(EDITS, {"edits": [{"oldString": "x"}]}, {"edits": [{"old_string": "x"}]}, id="within"),
    ],
)
def test_no_argument_vanishes(
    clients: Clients, scripted: Gateway, api: str, stream: bool, schema: Any, given: Any, expected: Any
) -> None:
    """Decision 5.50: an argument gets the name that the client's schema has for it before any is dropped, which
    happens only where the schema forbids others; never is ``{}`` in the place of arguments that were there."""
    assert scripted.service is not None
    scripted.service.enqueue(answer(*tool_call("edit", given)))

    assert ask(clients, scripted, api, "edit it", stream=stream, tools={"edit": schema}).calls == (("edit", expected),)
