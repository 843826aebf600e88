"""The hosts that one simulator stands for."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

import pytest

from kiro_asgi.simulator import Simulator
from kiro_asgi.simulator.kiro.accounts import PROFILE_ARN

RUNTIME, MANAGEMENT, Q = "runtime.us-east-1.kiro.dev", "management.us-east-1.kiro.dev", "q.us-east-1.amazonaws.com"
PLAIN: dict[str, Any] = {
    "conversationState": {
        "chatTriggerType": "MANUAL",
        "currentMessage": {
            "userInputMessage": {"content": "sim:text", "modelId": "claude-sonnet-4.5", "origin": "AI_EDITOR"}
        },
    }
}
NAMED = {**PLAIN, "profileArn": PROFILE_ARN}
MODELS = {"origin": "AI_EDITOR", "profileArn": PROFILE_ARN}


def ask(
    sim: Simulator, host: str, target: str, body: Any, *, path: str = "/", token: str = "aoa", method: str = "POST"
) -> tuple[int, str]:
    """Status and body of an answer."""
    connection = http.client.HTTPConnection(urlsplit(sim.url).netloc, timeout=10)
    headers = {"host": host, "authorization": f"Bearer {token}", "content-type": "application/x-amz-json-1.0"}
    if target:
        headers["x-amz-target"] = target
    connection.request(method, path, json.dumps(body), headers)
    response = connection.getresponse()
    found = response.status, response.read().decode("utf-8", "replace")
    connection.close()
    return found


CHAT, STREAMING = "KiroRuntimeService.GenerateAssistantResponse", "AmazonCodeWhispererStreamingService"
LIST = "KiroControlPlaneBearerService.ListAvailableModels"


@pytest.mark.parametrize(
    ("host", "target", "path", "body", "status"),
    [
        pytest.param(RUNTIME, CHAT, "/", NAMED, 200, id="runtime"),
        pytest.param(RUNTIME, f"{STREAMING}.GenerateAssistantResponse", "/", NAMED, 200, id="runtime-older-target"),
        pytest.param(RUNTIME, CHAT, "/", PLAIN, 400, id="runtime-without-profile"),
        pytest.param(RUNTIME, "", "/generateAssistantResponse", NAMED, 404, id="runtime-path"),
        pytest.param(RUNTIME, LIST, "/", MODELS, 404, id="runtime-lists-nothing"),
        pytest.param(MANAGEMENT, LIST, "/", MODELS, 200, id="management"),
        pytest.param(MANAGEMENT, CHAT, "/", NAMED, 404, id="management-answers-nothing"),
        pytest.param(Q, "", "/generateAssistantResponse", PLAIN, 200, id="q-path"),
        pytest.param(Q, f"{STREAMING}.GenerateAssistantResponse", "/", PLAIN, 200, id="q-target"),
        pytest.param(Q, CHAT, "/", NAMED, 404, id="q-newer-target"),
        pytest.param("localhost", CHAT, "/", PLAIN, 200, id="any-other"),
    ],
)
def test_each_host_has_its_operations_and_forms(
    simulator: Simulator, host: str, target: str, path: str, body: Any, status: int
) -> None:
    """What is asked at the wrong host is unknown there; the new one demands a profile."""
    found, said = ask(simulator, host, target, body, path=path)

    assert found == status
    assert ("profileArn is required" in said) is (status == 400)


def test_a_host_that_does_not_take_a_token(simulator: Simulator) -> None:
    """Each family takes the tokens that it is told to, and refuses the others as the service does."""
    hosts, simulator.accounts.hosts = simulator.accounts.hosts, {"": ("amazonaws",), "aoaNew": ("kiro.dev",)}
    try:
        assert ask(simulator, RUNTIME, CHAT, NAMED)[0] == 403
        assert ask(simulator, RUNTIME, CHAT, NAMED, token="aoaNew")[0] == 200
        status, said = ask(simulator, Q, "", PLAIN, path="/generateAssistantResponse", token="aoaNew")
        assert (status, "bearer token" in said) == (403, True)
    finally:
        simulator.accounts.hosts = hosts


def test_an_organisations_lists_demand_a_profile(simulator: Simulator) -> None:
    """Without one they are refused, at every host and in both forms."""
    simulator.accounts.profile_required = True
    try:
        for host, target, path, method in (
            (MANAGEMENT, LIST, "/", "POST"),
            (Q, "", "/ListAvailableModels?origin=AI_EDITOR", "GET"),
        ):
            assert ask(simulator, host, target, {}, path=path, method=method)[0] == 403
        assert ask(simulator, MANAGEMENT, LIST, MODELS)[0] == 200
    finally:
        simulator.accounts.profile_required = False
