"""Responses over WebSocket, through the connection of the official Python client; every frame is validated.

The client itself validates none, so each goes through its types here, and through the schema.
"""

from __future__ import annotations

import json
import socket
from typing import Any

import openai
import pytest
from openai.resources.responses.responses import ResponsesConnection
from openai.types.responses import ResponsesServerEvent
from pydantic import TypeAdapter

from tests.conformance.asking import MODEL
from tests.conformance.clients import Clients
from tests.conformance.gateways import Gateway
from tests.conformance.responses_schema import SERVED
from tests.websocket import ENDS

pytestmark = pytest.mark.filterwarnings("ignore:connect\\(\\) must be used:DeprecationWarning")  # the client's own use

EVENT: Any = TypeAdapter(ResponsesServerEvent)

TOOL: Any = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False}


def received(connection: ResponsesConnection) -> Any:
    """The next event, which has to fit the client's types and the schema."""
    told = json.loads(connection.recv_bytes())
    assert SERVED.problems(told) == []
    return EVENT.validate_python(told)


def turn(connection: ResponsesConnection, content: Any, **more: Any) -> list[Any]:
    """The events of one answer."""
    connection.response.create(model=MODEL, input=content, **more)
    events = [received(connection)]
    while events[-1].type not in ENDS:
        events.append(received(connection))
    return events


def test_one_after_the_other(chat: openai.OpenAI) -> None:
    """A tool loop on what is not stored, a warm-up, and what is stored, which HTTP finds."""
    with chat.responses.connect() as connection:
        *_, asked = turn(connection, "sim:tool=f {}", tools=[TOOL], store=False)
        (call,) = [item for item in asked.response.output if item.type == "function_call"]
        output: Any = [{"type": "function_call_output", "call_id": call.call_id, "output": "forty-two"}]
        *_, told = turn(connection, output, tools=[TOOL], previous_response_id=asked.response.id, store=False)
        *_, warm = turn(connection, "What is 2 + 3?", generate=False)
        *_, kept = turn(connection, [], previous_response_id=warm.response.id)

    assert "forty-two" in told.response.output_text
    assert (warm.response.output, warm.response.usage.total_tokens) == ([], 0)
    assert (
        chat.responses.retrieve(kept.response.id).output_text
        == kept.response.output_text
        == ("You said: What is 2 + 3?")
    )


def test_an_error_is_an_event(chat: openai.OpenAI) -> None:
    """The connection goes on after it."""
    with chat.responses.connect() as connection:
        connection.response.create(model=MODEL, input="And now?", previous_response_id="resp_0")
        error: Any = connection.recv()
        *_, end = turn(connection, "sim:count=1")

    assert (error.type, error.status, error.error.code) == ("error", 400, "previous_response_not_found")
    assert end.response.output_text == "1 "


@pytest.mark.parametrize("tear", [False, True], ids=["closed", "torn"])
def test_leaving_ends_the_answer(clients: Clients, impatient: Gateway, tear: bool) -> None:
    """The service's connection is closed with the client's, whether that says farewell or breaks."""
    content = f"sim:count=400 sim:slow=0.05 over WebSocket, torn={tear}"
    with clients.openai(impatient).responses.connect() as connection:
        connection.response.create(model=MODEL, input=content)
        assert received(connection).type == "response.created"
        if tear:
            connection._connection.socket.shutdown(socket.SHUT_RDWR)

    assert impatient.observed(lambda _: impatient.asked(content)[0].peer_closed_at is not None)
    assert not impatient.asked(content)[0].complete
