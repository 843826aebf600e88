"""What the service refuses, and with which reason (no socket involved)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from kiro_asgi.simulator import MODELS, Head, RawBytes, RecordedRequest
from kiro_asgi.simulator.builders import sign
from kiro_asgi.simulator.conversation import Conversation
from kiro_asgi.simulator.rules import GENERAL, Asked, bearer_present, token_type_fits
from kiro_asgi.simulator.service import Service
from kiro_asgi.simulator.tool_rules import TOOLS
from tests.simulator.asking import KEY, prompt, tool

IMPROPER = (400, None)
FORMAT = (400, "REQUEST_BODY_INVALID")


def refusal(
    document: Any, headers: dict[str, str] | None = None, service: Service | None = None
) -> tuple[int, Any] | None:
    """Status and reason of the refusal; ``None`` for an answer."""
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    request = RecordedRequest("POST", "/generateAssistantResponse", "", KEY if headers is None else headers, body)
    script = (service or Service()).script_for(request)
    head = script[0]
    assert isinstance(head, Head)
    if head.status == 200:
        return None
    assert isinstance(script[1], RawBytes)
    return head.status, json.loads(script[1].data)["reason"]


def with_tools() -> Any:
    """A conversation whose last turn called a tool; the current message has the result."""
    document = prompt("", tools=[tool()])
    state = document["conversationState"]
    state["history"] = [
        {"userInputMessage": {"content": "Weather in Oslo?"}},
        {
            "assistantResponseMessage": {
                "content": "Let me check.",
                "toolUses": [{"toolUseId": "tooluse_A", "name": "get_weather", "input": {"city": "Oslo"}}],
            }
        },
    ]
    context = state["currentMessage"]["userInputMessage"]["userInputMessageContext"]
    context["toolResults"] = [{"toolUseId": "tooluse_A", "status": "success", "content": [{"text": "4 C, rain"}]}]
    return document


def change(path: str, value: Any) -> Callable[[Any], None]:
    """Set the place *path* (keys joined by dots, numbers for lists); ``...`` deletes it."""
    *way, last = [int(key) if key.isdigit() else key for key in path.split(".")]

    def apply(document: Any) -> None:
        for key in way:
            document = document[key]
        if value is ...:
            del document[last]
        else:
            document[last] = value

    return apply


STATE = "conversationState"
NOW = f"{STATE}.currentMessage.userInputMessage"
SPEC = f"{NOW}.userInputMessageContext.tools.0.toolSpecification"
RESULTS = f"{NOW}.userInputMessageContext.toolResults"
USED = f"{STATE}.history.1.assistantResponseMessage"
RESULT = {"toolUseId": "tooluse_A", "status": "success", "content": [{"text": "again"}]}
THOUGHT = {"reasoningText": {"text": "Hm.", "signature": sign("Hm.")}}

REFUSED = [
    pytest.param(f"{NOW}.content", "x" * 600_001, (400, "CONTENT_LENGTH_EXCEEDS_THRESHOLD"), id="content-too-long"),
    pytest.param(f"{NOW}.content", None, IMPROPER, id="content-null"),
    pytest.param(f"{STATE}.currentMessage", {}, FORMAT, id="no-current-message"),
    pytest.param(
        f"{STATE}.currentMessage", {"assistantResponseMessage": {"content": "x"}}, FORMAT, id="current-assistant"
    ),
    pytest.param(f"{STATE}.chatTriggerType", "AUTO", FORMAT, id="trigger-unknown"),
    pytest.param("conversationState", ..., FORMAT, id="no-state"),
    pytest.param("profileArn", "", IMPROPER, id="profile-empty"),
    pytest.param("profileArn", "arn:aws:codewhisperer:us-east-1:1:profile/X", IMPROPER, id="profile-with-key"),
    pytest.param(f"{STATE}.history", [], IMPROPER, id="history-empty"),
    pytest.param(f"{STATE}.history", None, IMPROPER, id="history-null"),
    pytest.param(f"{STATE}.history.1", ..., IMPROPER, id="history-ends-with-user"),
    pytest.param(f"{STATE}.history.0", ..., IMPROPER, id="history-starts-with-assistant"),
    pytest.param(f"{STATE}.history.0", {"assistantResponseMessage": {"content": "x"}}, IMPROPER, id="two-assistants"),
    pytest.param(f"{STATE}.history.0.userInputMessage.content", "", IMPROPER, id="history-user-empty"),
    pytest.param(f"{NOW}.modelId", "claude-tomorrow", (400, "INVALID_MODEL_ID"), id="model-unknown"),
    pytest.param(
        f"{NOW}.images", [{"format": "jpg", "source": {"bytes": "AA=="}}], (400, "IMAGE_FORMAT_UNSUPPORTED"), id="jpg"
    ),
    pytest.param(f"{NOW}.images", [{"format": "png", "source": {}}], FORMAT, id="image-empty"),
    pytest.param(
        "additionalModelRequestFields", {"reasoning": {"effort": "low"}}, IMPROPER, id="effort-of-other-family"
    ),
    pytest.param(
        "additionalModelRequestFields", {"output_config": {"effort": "xhigh"}}, IMPROPER, id="effort-not-listed"
    ),
    pytest.param(f"{SPEC}.name", "1st", FORMAT, id="tool-name-digit"),
    pytest.param(f"{SPEC}.name", "x" * 65, FORMAT, id="tool-name-long"),
    pytest.param(f"{SPEC}.description", "", FORMAT, id="description-empty"),
    pytest.param(f"{SPEC}.description", "ä" * 5121, FORMAT, id="description-too-many-bytes"),
    pytest.param(f"{SPEC}.inputSchema.json.type", "string", (400, "TOOL_SCHEMA_INVALID"), id="schema-not-object"),
    pytest.param(f"{SPEC}.inputSchema.json.oneOf", [{}], (400, "TOOL_SCHEMA_INVALID"), id="schema-root-combinator"),
    pytest.param(f"{SPEC}.inputSchema.json.required", [], IMPROPER, id="required-empty"),
    pytest.param(
        f"{NOW}.userInputMessageContext.tools", [tool("a"), tool("A")], (400, "TOOL_DUPLICATE"), id="tool-twice"
    ),
    pytest.param(f"{NOW}.userInputMessageContext.tools", ..., (400, "TOOL_CONFIG_MISSING"), id="tools-missing"),
    pytest.param(f"{SPEC}.name", "other", (400, "TOOL_CONFIG_MISSING"), id="used-tool-not-offered"),
    pytest.param(f"{RESULTS}.0.toolUseId", "tooluse_B", (400, "TOOL_USE_RESULT_MISMATCH"), id="result-of-nothing"),
    pytest.param(RESULTS, [RESULT, RESULT], FORMAT, id="result-twice"),
    pytest.param(f"{RESULTS}.0.toolUseId", "a b", FORMAT, id="id-with-space"),
    pytest.param(f"{USED}.toolUses.0.input", "{}", FORMAT, id="input-not-object"),
    pytest.param(f"{USED}.toolUses", ..., (400, "TOOL_USE_RESULT_MISMATCH"), id="use-missing"),
    pytest.param(
        f"{STATE}.history.0.userInputMessage.userInputMessageContext", {"tools": []}, IMPROPER, id="tools-in-history"
    ),
    pytest.param(
        f"{USED}.reasoningContent",
        {"reasoningText": {"text": "Hm.", "signature": "made-up"}},
        (400, "THINKING_SIGNATURE_INVALID"),
        id="signature-foreign",
    ),
]


@pytest.mark.parametrize(("path", "value", "expected"), REFUSED)
def test_one_thing_wrong(path, value, expected):
    """A valid conversation with one thing changed is refused for that thing (§2.5 to 2.8 of the service's rules)."""
    document = with_tools()
    change(path, value)(document)

    assert refusal(document) == expected


def test_an_unanswered_use_is_a_mismatch():
    """A tool use must be answered in the very next message."""
    document = with_tools()
    change(RESULTS, ...)(document)
    change(f"{NOW}.content", "never mind")(document)

    assert refusal(document) == (400, "TOOL_USE_RESULT_MISMATCH")


VALID: list[Any] = [
    pytest.param(change("agent", "unknown members are tolerated"), id="as-it-is"),
    pytest.param(change(f"{USED}.reasoningContent", THOUGHT), id="own-signature"),
    pytest.param(change(f"{NOW}.modelId", ...), id="no-model"),
    pytest.param(change(f"{NOW}.images", [{"format": "jpeg", "source": {"bytes": "AA=="}}]), id="image"),
    pytest.param(change("additionalModelRequestFields", {"output_config": {"effort": "high"}}), id="effort"),
    pytest.param(
        change("additionalModelRequestFields", {"thinking": {"type": "adaptive", "display": "summarized"}}),
        id="thinking",
    ),
]


@pytest.mark.parametrize("apply", VALID)
def test_what_is_allowed(apply):
    """Valid conversations are answered."""
    document = with_tools()
    apply(document)

    assert refusal(document) is None


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param({}, (401, None), id="none"),
        pytest.param({"authorization": "Basic eDp5"}, (401, None), id="other-scheme"),
        pytest.param({"authorization": "Bearer "}, (401, None), id="empty"),
        pytest.param({"authorization": "Bearer ksk_test"}, IMPROPER, id="key-without-tokentype"),
        pytest.param({"authorization": "Bearer eyJh.eyJi.c"}, (403, None), id="jwt-without-tokentype"),
        pytest.param({"authorization": "Bearer eyJh.eyJi.c", "tokentype": "EXTERNAL_IDP"}, None, id="jwt"),
        pytest.param({"authorization": "Bearer ksk_test", "tokentype": "API_KEY"}, None, id="key"),
        pytest.param({"authorization": "Bearer aoaToken"}, None, id="access-token"),
        pytest.param({"authorization": "Bearer revoked"}, (403, None), id="revoked"),
    ],
)
def test_credentials(headers, expected):
    """A bearer token must be there, be announced as what it is, and not be revoked."""
    service = Service()
    service.accounts.revoked.add("revoked")

    assert refusal(prompt("hello"), headers, service) == expected


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"[" * 100_000, b"\xff"])
def test_a_body_that_is_no_object(body):
    """What is not a JSON object is refused, however deep or broken."""
    assert refusal(body) == (400, "REQUEST_BODY_INVALID_JSON")


def test_without_a_model_list_any_name_is_taken():
    """``models=None`` takes every model; ``strict=False`` takes every request."""
    unknown = prompt("hello", model="my-model", additionalModelRequestFields={"x": 1})

    assert refusal(unknown, service=Service(models=None)) is None
    assert refusal(prompt(""), {}, Service(strict=False)) is None


def test_every_rule_has_a_case():
    """Each rule about the body is the one that refuses some case above."""
    refusing = set()
    for case in REFUSED:
        path, value, _ = case.values
        document = with_tools()
        change(path, value)(document)
        asked = Asked(KEY, Conversation(document), MODELS)
        refusing.add(next(rule for rule in GENERAL + TOOLS if rule(asked)))

    assert set(GENERAL + TOOLS) - refusing == {bearer_present, token_type_fits}
