"""Signing in, and the operations beside the chat."""

from __future__ import annotations

import json

import pytest

from kiro_asgi import simulator as simulators
from kiro_asgi.simulator import MODELS, PROFILE_ARN
from kiro_asgi.simulator.kiro.message_checks import MAX_CONTENT
from tests.simulator.asking import ask, call

CLIENT = {"clientId": "c", "clientSecret": "s"}
DEVICE = {**CLIENT, "grantType": "urn:ietf:params:oauth:grant-type:device_code"}


@pytest.fixture
def fresh():
    with simulators.running() as simulator:
        yield simulator


@pytest.mark.parametrize(
    ("target", "extra"),
    [
        pytest.param("/refreshToken", {}, id="social"),
        pytest.param("/token", {**CLIENT, "grantType": "refresh_token"}, id="oidc"),
    ],
)
def test_refresh_tokens_rotate(fresh, target, extra):
    """R35: each refresh token works once; what it gives works next, and the access token is accepted."""
    first = call(fresh.url, target, {**extra, "refreshToken": "aorMine"}, headers={})
    again = call(fresh.url, target, {**extra, "refreshToken": "aorMine"}, headers={})
    second = call(fresh.url, target, {**extra, "refreshToken": first.json["refreshToken"]}, headers={})

    assert (first.status, again.status, second.status) == (200, 400, 200)
    assert again.json["error"] == "invalid_grant"
    assert first.json["expiresIn"] == 3600
    assert first.json["accessToken"] != second.json["accessToken"]
    assert fresh.accounts.refreshes == 2
    headers = {"authorization": f"Bearer {first.json['accessToken']}"}
    assert call(fresh.url, "/ListAvailableModels", method="GET", headers=headers).status == 200


def test_refresh_without_rotation(fresh):
    """Without rotation no new refresh token is sent and the old one keeps working."""
    fresh.accounts.rotate = False

    answers = [call(fresh.url, "/refreshToken", {"refreshToken": "aorMine"}, headers={}) for _ in range(2)]

    assert [answer.status for answer in answers] == [200, 200]
    assert "refreshToken" not in answers[0].json
    assert answers[0].json["profileArn"] == PROFILE_ARN


def test_slow_refresh(fresh):
    """R32: a refresh takes as long as it is told to, so that a second one would be seen."""
    fresh.accounts.delay = 0.3

    assert call(fresh.url, "/refreshToken", {"refreshToken": "a"}, headers={}, timeout=0.1).ending == "silence"
    assert call(fresh.url, "/refreshToken", {"refreshToken": "b"}, headers={}).status == 200


@pytest.mark.parametrize(
    ("target", "document", "error"),
    [
        pytest.param("/refreshToken", {}, "invalid_grant", id="no-token"),
        pytest.param("/refreshToken", b"nonsense", "invalid_grant", id="no-json"),
        pytest.param("/token", {"grantType": "refresh_token", "refreshToken": "x"}, "invalid_client", id="no-client"),
        pytest.param("/token", {**CLIENT, "grantType": "password"}, "unsupported_grant_type", id="other-grant"),
        pytest.param("/token", {**DEVICE, "deviceCode": "x"}, "expired_token", id="unknown-device"),
        pytest.param("/client/register", {}, "invalid_request", id="no-name"),
    ],
)
def test_sign_in_errors(fresh, target, document, error):
    """Errors are OAuth's."""
    answered = call(fresh.url, target, document, headers={})

    assert (answered.status, answered.json["error"]) == (400, error)


def test_device_flow(fresh):
    """Register, ask for a code, poll until the user has finished, which is at the second poll."""
    client = call(fresh.url, "/client/register", {"clientName": "test", "clientType": "public"}, headers={}).json
    credentials = {key: client[key] for key in CLIENT}
    device = call(fresh.url, "/device_authorization", {**credentials, "startUrl": "https://x"}, headers={}).json
    poll = {**DEVICE, **credentials, "deviceCode": device["deviceCode"]}

    pending = call(fresh.url, "/token", poll, headers={})
    tokens = call(fresh.url, "/token", poll, headers={})

    assert pending.json["error"] == "authorization_pending"
    assert {"accessToken", "refreshToken", "expiresIn", "tokenType"} <= set(tokens.json)


@pytest.mark.parametrize(
    ("method", "target", "operation"),
    [
        pytest.param("GET", "/ListAvailableModels?origin=AI_EDITOR", "", id="rest"),
        pytest.param("POST", "/", "AmazonCodeWhispererService.ListAvailableModels", id="rpc"),
        pytest.param("POST", "/List-Available-Models", "", id="management"),
    ],
)
def test_models(fresh, method, target, operation):
    """The list has every model, with its window and the schema of its extra fields; each of them answers."""
    headers = {"authorization": "Bearer x", **({"x-amz-target": operation} if operation else {})}

    models = {
        model["modelId"]: model for model in call(fresh.url, target, {}, method=method, headers=headers).json["models"]
    }

    assert set(models) == {model.id for model in MODELS} >= {"auto", "claude-sonnet-4.5"}
    efforts = models["claude-opus-4.8"]["additionalModelRequestFieldsSchema"]["properties"]["output_config"][
        "properties"
    ]
    assert efforts["effort"]["enum"] == ["low", "medium", "high", "xhigh", "max"]
    assert "additionalModelRequestFieldsSchema" not in models["claude-haiku-4.5"]
    assert all(ask(fresh.url, "hello", model=name).status == 200 for name in models)


def test_without_a_model_list():
    """With ``models=None`` the list is a 404, and any model answers."""
    with simulators.running(models=None) as simulator:
        assert call(simulator.url, "/ListAvailableModels", method="GET").status == 404
        assert ask(simulator.url, "hello", model="any").status == 200


@pytest.mark.parametrize(
    ("method", "target", "key"),
    [
        pytest.param("POST", "/ListAvailableProfiles", "profiles", id="profiles"),
        pytest.param("GET", "/getUsageLimits?origin=AI_EDITOR", "usageBreakdownList", id="usage"),
    ],
)
def test_other_operations_need_a_token(fresh, method, target, key):
    """They answer to a bearer token, and only to one."""
    assert key in call(fresh.url, target, {}, method=method).json
    assert call(fresh.url, target, {}, method=method, headers={}).status == 401


def test_web_search(fresh):
    """``/mcp`` lists and runs the service's own search, and knows no other tool."""
    frame = {"jsonrpc": "2.0", "id": "1"}
    search = {**frame, "method": "tools/call", "params": {"name": "web_search", "arguments": {"query": "fjords"}}}

    found = json.loads(call(fresh.url, "/mcp", search).json["result"]["content"][0]["text"])
    listed = call(fresh.url, "/mcp", {**frame, "method": "tools/list"}).json["result"]["tools"]
    unknown = call(fresh.url, "/mcp", {**search, "params": {"name": "x"}}).json

    assert found["results"][0]["title"] == "About fjords"
    assert [tool["name"] for tool in listed] == ["web_search"]
    assert unknown["error"]["code"] == -32601


def test_overflow_over_the_wire(fresh):
    """A prompt beyond the limit travels whole and is refused for its length."""
    assert ask(fresh.url, "x" * (MAX_CONTENT + 1)).json["reason"] == "CONTENT_LENGTH_EXCEEDS_THRESHOLD"
