"""A tool conversation under the preset ``contract`` through the official client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kiro_asgi.simulator import answer, tool_call
from tests.conformance.asking import MESSAGES_TOOLS, MODEL, SENTENCE
from tests.conformance.clients import Clients
from tests.conformance.gateways import Gateway, watched

STRUCTURES = {"toolUses", "toolResults", "toolContextManifest", "claudeToolChoice"}
SYSTEM = "Be brief.<system-reminder>Never mind.</system-reminder>"
LONG = "Look up current weather. " * 20
TOOLS = [{**MESSAGES_TOOLS[0], "description": LONG}, *MESSAGES_TOOLS[1:]]


@pytest.fixture(scope="module", params=["", "true"], ids=["streaming", "synthetic"])
def contract(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway with the preset, and a service that keeps what it was asked."""
    synthetic = {"KIRO_ASGI__STREAM__SYNTHETIC": request.param} if request.param else {}
    with watched(tmp_path_factory.mktemp("contract"), KIRO_ASGI__PRESET="contract", **synthetic) as running:
        yield running


def answered(client: Any, messages: list[Any], *, stream: bool) -> Any:
    asked: dict[str, Any] = {"model": MODEL, "max_tokens": 999, "system": SYSTEM, "tools": TOOLS, "messages": messages}
    if not stream:
        return client.messages.create(**asked)
    with client.messages.stream(**asked) as events:
        return events.get_final_message()


@pytest.mark.parametrize("stream", [False, True], ids=["collected", "streamed"])
def test_a_tool_conversation(clients: Clients, contract: Gateway, stream: bool) -> None:
    """A call comes back, and the service reads of it in words (F217, F345, F350, F361 to F364, F369, F370)."""
    client = clients.anthropic(contract)
    question = {"role": "user", "content": "How warm is it?"}
    assert contract.service is not None
    contract.service.enqueue(answer(*tool_call("get_weather", '{"city": "Oslo"}')))
    first = answered(client, [question], stream=stream)
    call = first.content[-1]
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "\x1b[1msim:text 7 degrees"}
    second = answered(
        client,
        [question, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}],
        stream=stream,
    )

    assert [block.type for block in first.content] == ["text", "tool_use"]
    assert first.content[0].text == "I will call a tool to help with this:"
    assert (call.name, call.input, first.stop_reason) == ("get_weather", {"city": "Oslo"}, "tool_use")
    assert (second.content[0].text, second.stop_reason) == (SENTENCE, "end_turn")
    *_, asked = contract.asked(call.id)
    state = json.loads(asked.body)["conversationState"]
    told = state["currentMessage"]["userInputMessage"]["content"]
    assert told.startswith("Be brief.\n\nTool reference manifest (hash → tool)\n- get_weather [")
    assert told.endswith(
        f"\n\nTool result context:\nTool invoked ({call.id}): get_weather\nTool result ({call.id}): sim:text 7 degrees"
    )
    assert not any(name in asked.body.decode() for name in STRUCTURES)
    tools = state["currentMessage"]["userInputMessage"]["userInputMessageContext"]["tools"]
    assert tools[0]["toolSpecification"]["description"] == LONG[:256]
