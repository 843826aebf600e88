"""The contract's request as the service is sent it."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given

from kiro_asgi.errors import UpstreamRejected
from kiro_asgi.model.prompt import Prompt, Thinking, ThinkingMode, ThinkingPart, Tool, ToolChoice, ToolChoiceMode
from kiro_asgi.simulator.kiro.checks import RULES
from kiro_asgi.simulator.kiro.document import KiroDocument
from kiro_asgi.simulator.kiro.message_checks import KiroRequest, check
from kiro_asgi.simulator.scripts import sign
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard, Rendered
from kiro_asgi.upstreams.kiro.contract import ContractOptions
from kiro_asgi.upstreams.kiro.rules import TABLE
from kiro_asgi.upstreams.kiro.settings import KiroSettings
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream
from tests.upstreams.kiro.contract.prompts import (
    LONG,
    LOOP,
    PNG,
    PROMPTS,
    STRUCTURES,
    assistant,
    call,
    keys,
    prompt,
    result,
    user,
)

MODEL = ModelCard("claude-sonnet-4.5", efforts=("low", "medium", "high", "max"))
KEY = Credential(CredentialKind.API_KEY, "ksk_x")


def upstream(tool_history: str = "text", **options: Any) -> KiroUpstream:
    """As the preset sets it."""
    return KiroUpstream(
        contract=ContractOptions(**options),
        settings=KiroSettings(tool_history=tool_history, description_limit=256, strip_system_reminders=True),
        new_id=lambda: "4f1c2a7e-0000-4000-8000-000000000000",
    )


def rendered(asked: Prompt, tool_history: str = "text", **options: Any) -> Rendered:
    return upstream(tool_history, **options).render(asked, MODEL, KEY)


def current(asked: Prompt, tool_history: str = "text", **options: Any) -> Any:
    document = rendered(asked, tool_history, **options).document
    return document["conversationState"]["currentMessage"]["userInputMessage"]


def accepted(request: Rendered) -> bool:
    """Whether the enforcing service has nothing against it."""
    headers = {name.decode(): value.decode() for name, value in request.request.headers}
    asked = KiroRequest(headers, KiroDocument(request.document), None, len(request.request.body))
    return check(asked, RULES) is None


def test_the_wire_has_the_services_shape():
    """Context inside the message, tools as specifications, history as alternating messages (5.4)."""
    asked = evolve(LOOP, system=("S",), tools=(Tool("f", "d", {"type": "object", "title": "t"}),))

    assert rendered(asked).document["conversationState"] == {
        "chatTriggerType": "MANUAL",
        "agentTaskType": "vibe",
        "conversationId": "4f1c2a7e-0000-4000-8000-000000000000",
        "history": [
            {"userInputMessage": {"content": "What is it?", "modelId": MODEL.id, "origin": "AI_EDITOR"}},
            {"assistantResponseMessage": {"content": "Let me look.\n\nIt is 42."}},
        ],
        "currentMessage": {
            "userInputMessage": {
                "content": "S\n\nTool result context:\nTool invoked (t1): f\nTool result (t1): 42\n\nSure?",
                "modelId": MODEL.id,
                "origin": "AI_EDITOR",
                "userInputMessageContext": {
                    "tools": [
                        {
                            "toolSpecification": {
                                "name": "f",
                                "description": "d",
                                "inputSchema": {"json": {"type": "object", "properties": {}}},
                            }
                        }
                    ]
                },
            }
        },
    }


def test_the_current_message_is_never_merged():
    """Where the user had the last word of the history, the assistant says one in between (F366, F368)."""
    request = rendered(prompt(user("q"), assistant(call()), user(result("42")))).document["conversationState"]

    assert [next(iter(message)) for message in request["history"]] == ["userInputMessage", "assistantResponseMessage"]
    assert request["currentMessage"]["userInputMessage"]["content"].startswith("Tool result context:\n")


def test_native_history_is_sent_as_structures():
    """Calls, results and signed thinking are the service's own, and no lines are told (F371, 5.54)."""
    asked = prompt(
        user("q"), assistant(ThinkingPart("hm", sign("hm")), "Look.", call()), user(result("42")), system=("S",)
    )
    request = rendered(asked, "native")
    state = request.document["conversationState"]

    assert state["currentMessage"]["userInputMessage"]["content"] == "S"
    assert {"toolUses", "toolResults", "reasoningContent"} <= keys(state)
    assert accepted(request)


def test_images_travel_with_their_messages():
    """What text cannot hold is not lost (5.3)."""
    state = rendered(prompt(user("a", PNG), assistant("b"), user(result(PNG)))).document["conversationState"]

    assert len(state["history"][0]["userInputMessage"]["images"]) == 1
    assert len(state["currentMessage"]["userInputMessage"]["images"]) == 1


def test_sidecar_fields_are_sent_on_demand():
    """Manifest, tool choice, plan mode and metadata stay at home unless they are wanted (F375, 5.4)."""
    choice = ToolChoice(ToolChoiceMode.NAMED, "f", raw={"type": "tool", "name": "f"})
    asked = prompt(user("q"), tools=(Tool("f", "d"),), tool_choice=choice, metadata={"plan_mode": True})

    assert set(current(asked)["userInputMessageContext"]) == {"tools"}
    sent = current(asked, send_sidecar_fields=True)["userInputMessageContext"]
    assert set(sent) == {"tools", "toolContextManifest", "claudeToolChoice", "planMode", "metadata"}
    assert sent["claudeToolChoice"] == {"mode": "tool", "toolName": "f", "rawPayload": choice.raw}


@pytest.mark.parametrize(("budget", "effort"), [(50, "low"), (200, "medium"), (1024, "high")])
def test_a_budget_becomes_an_effort(budget, effort):
    """The contract's thresholds count where the model takes efforts (F188 to F190)."""
    request = rendered(prompt(user("q"), thinking=Thinking(ThinkingMode.ENABLED, budget)))

    assert request.document["additionalModelRequestFields"]["output_config"] == {"effort": effort}


def test_what_was_changed_is_noted():
    """Every rule of the contract's that did something, and all are in the table of rules."""
    asked = evolve(LOOP, system=("S",), tools=(Tool("f", LONG),))
    found = {note.rule: note.times for note in rendered(asked).notes}

    assert found["contract.system_told"] == 1
    assert found["contract.description_moved"] == 1
    assert found["contract.call_told"] == found["contract.result_told"] == 1
    assert found.keys() <= TABLE.keys()


def adapt(asking: KiroUpstream, error: UpstreamRejected) -> KiroUpstream | None:
    return asking.adapt_after_error(error, asking.render(LOOP, MODEL, KEY))


def test_after_an_improperly_formed_request_text_is_tried():
    """Once, and not where it is text already (F073, F074)."""
    error = UpstreamRejected("Improperly formed request.", code="improperly_formed")
    adapted, text = adapt(upstream("auto"), error), upstream("text")

    assert adapted is not None
    assert not STRUCTURES & keys(adapted.render(LOOP, MODEL, KEY).document)
    assert adapt(adapted, error) is adapt(text, error) is None


@given(PROMPTS)
def test_any_prompt_is_accepted(asked):
    """Whatever is asked, the service has nothing against the request, and it holds no structure (F345, F370)."""
    request = rendered(asked)

    assert accepted(request)
    assert not STRUCTURES & keys(request.document)
    for tool in (
        request.document["conversationState"]["currentMessage"]["userInputMessage"]
        .get("userInputMessageContext", {})
        .get("tools", ())
    ):
        assert len(tool["toolSpecification"]["description"]) <= 256


@given(PROMPTS)
def test_any_prompt_is_accepted_with_native_history(asked):
    """The same with structures in it (F371)."""
    assert accepted(rendered(asked, "native"))
