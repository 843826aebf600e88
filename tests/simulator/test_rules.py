"""What the service refuses, and with which reason (no socket involved)."""

from __future__ import annotations

import json
import time
import timeit
from collections.abc import Callable
from typing import Any

import pytest

from kiro_asgi.simulator import MODELS, Head, RawBytes, RecordedRequest
from kiro_asgi.simulator.kiro.checks import RULES
from kiro_asgi.simulator.kiro.document import KiroDocument
from kiro_asgi.simulator.kiro.message_checks import (
    KiroRequest,
    Refusal,
    api_key_announced,
    bearer_present,
    check,
    foreign_token_announced,
    no_thinking_request_in_history,
    result_length_allowed,
)
from kiro_asgi.simulator.scripts import SEALED, sign
from kiro_asgi.simulator.service import SimulatedService
from tests.simulator.asking import KEY, prompt, tool

IMPROPER = (400, None)
FORMAT = (400, "REQUEST_BODY_INVALID")


def refusal(
    document: Any, headers: dict[str, str] | None = None, service: SimulatedService | None = None
) -> tuple[int, Any] | None:
    """Status and reason of the refusal; ``None`` for an answer."""
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    request = RecordedRequest("POST", "/generateAssistantResponse", "", KEY if headers is None else headers, body)
    script = (service or SimulatedService()).script_for(request)
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

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
GIF = "R0lGODlhAQABAAAAACw="
WEBP = "UklGRiQAAABXRUJQ"
LARGE = "A" * 6_000_004
JPEG = "/9j/4AAQSkZJRgABAQEAYABgAAD/2Q=="


def image(kind: str = "png", data: str = PNG) -> Any:
    """One entry of ``images``."""
    return {"format": kind, "source": {"bytes": data}}


def paper(name: str = "Report", kind: str = "pdf", data: str = "JVBERi0xLjQ=") -> Any:
    """One entry of ``documents``."""
    return {"name": name, "format": kind, "source": {"bytes": data}}


def thought(text: str = "Hm.", **seal: str) -> Any:
    """``reasoningContent`` with a text."""
    return {"reasoningText": {"text": text, **seal}}


SCHEMA = f"{SPEC}.inputSchema.json"
CITY = f"{SCHEMA}.properties.city"
CONTEXT = f"{NOW}.userInputMessageContext"
FIRST = f"{STATE}.history.0.userInputMessage"
USE = f"{USED}.toolUses.0"
FIELDS = "additionalModelRequestFields"
CALL = {"toolUseId": "tooluse_A", "name": "get_weather", "input": {}}
SIGNATURE = (400, "THINKING_SIGNATURE_INVALID")
TOO_LONG = (400, "CONTENT_LENGTH_EXCEEDS_THRESHOLD")
SCHEMA_INVALID = (400, "TOOL_SCHEMA_INVALID")
CONFIG_MISSING = (400, "TOOL_CONFIG_MISSING")

REFUSED: list[Any] = [
    # The request as a whole.
    pytest.param(f"{FIRST}.content", "x" * 620_000, IMPROPER, id="body-large"),
    pytest.param(f"{STATE}.currentMessage", {}, FORMAT, id="no-current-message"),
    pytest.param(f"{STATE}.currentMessage", {"assistantResponseMessage": {"content": "x"}}, FORMAT, id="not-a-user"),
    pytest.param("conversationState", ..., FORMAT, id="no-state"),
    pytest.param(f"{STATE}.chatTriggerType", "AUTO", FORMAT, id="trigger-unknown"),
    pytest.param(f"{STATE}.chatTriggerType", ..., FORMAT, id="trigger-missing"),
    pytest.param(f"{NOW}.origin", "EDITOR", FORMAT, id="origin-unknown"),
    pytest.param(f"{FIRST}.origin", "EDITOR", FORMAT, id="origin-unknown-in-history"),
    pytest.param(f"{STATE}.agentTaskType", "chat", FORMAT, id="task-unknown"),
    pytest.param(f"{NOW}.userIntent", "CHAT", FORMAT, id="intent-unknown"),
    pytest.param(f"{STATE}.conversationId", "c1", (400, "INVALID_CONVERSATION_ID"), id="conversation-id"),
    pytest.param("profileArn", "", IMPROPER, id="profile-empty"),
    pytest.param("profileArn", "arn:aws:codewhisperer:us-east-1:1:profile/X", IMPROPER, id="profile-with-key"),
    pytest.param(f"{STATE}.history", None, IMPROPER, id="history-null"),
    pytest.param(f"{NOW}.userIntent", None, FORMAT, id="word-null"),
    pytest.param(f"{NOW}.images", [None], IMPROPER, id="entry-null"),
    pytest.param(f"{STATE}.history", [], IMPROPER, id="history-empty"),
    pytest.param(f"{FIRST}.userInputMessageContext", {}, IMPROPER, id="context-empty"),
    pytest.param(f"{FIRST}.images", [], IMPROPER, id="images-empty"),
    pytest.param(f"{STATE}.systemPrompt", "Be brief.", IMPROPER, id="system-field"),
    # The history.
    pytest.param(f"{STATE}.history.1", ..., IMPROPER, id="history-ends-with-user"),
    pytest.param(f"{STATE}.history.0", ..., IMPROPER, id="history-starts-with-assistant"),
    pytest.param(f"{STATE}.history.0", {"assistantResponseMessage": {"content": "x"}}, IMPROPER, id="two-assistants"),
    pytest.param(f"{STATE}.history.0", {"systemMessage": {"content": "x"}}, IMPROPER, id="other-message"),
    pytest.param(f"{FIRST}.userInputMessageContext", {"toolResults": [RESULT]}, IMPROPER, id="results-first"),
    pytest.param(f"{NOW}.content", None, IMPROPER, id="content-null"),
    pytest.param(f"{NOW}.content", ["x"], IMPROPER, id="content-list"),
    pytest.param(f"{FIRST}.content", "", IMPROPER, id="user-empty"),
    pytest.param(f"{FIRST}.content", " \n", IMPROPER, id="user-blank"),
    pytest.param(
        STATE + ".history.0", {"userInputMessage": {"content": "", "images": [image()]}}, IMPROPER, id="only-image"
    ),
    pytest.param(USED, {"content": ""}, IMPROPER, id="assistant-empty"),
    pytest.param(f"{FIRST}.userInputMessageContext", {"tools": [tool()]}, IMPROPER, id="tools-in-history"),
    # The model.
    pytest.param(f"{NOW}.modelId", "claude-tomorrow", (400, "INVALID_MODEL_ID"), id="model-unknown"),
    pytest.param(FIELDS, {"reasoning": {"effort": "low"}}, IMPROPER, id="effort-of-other-family"),
    pytest.param(FIELDS, {"output_config": {"effort": "xhigh"}}, IMPROPER, id="effort-not-listed"),
    pytest.param(FIELDS, {"output_config": "high"}, IMPROPER, id="effort-not-an-object"),
    pytest.param(FIELDS, {"max_tokens": 1023}, IMPROPER, id="max-tokens-low"),
    pytest.param(FIELDS, {"max_tokens": True}, IMPROPER, id="max-tokens-boolean"),
    pytest.param(FIELDS, {"temperature": 1}, IMPROPER, id="field-unknown"),
    # Lengths.
    pytest.param(f"{NOW}.content", "x" * 600_001, TOO_LONG, id="content-too-long"),
    pytest.param(f"{CONTEXT}.envState", {"currentWorkingDirectory": "/" * 257}, FORMAT, id="directory-too-long"),
    # Tools.
    pytest.param(f"{CONTEXT}.tools", [tool(), {"cachePoint": {"type": "default"}}], IMPROPER, id="cache-point"),
    pytest.param(f"{SPEC}.name", "1st", FORMAT, id="tool-name-digit"),
    pytest.param(f"{SPEC}.name", "a.b", FORMAT, id="tool-name-dot"),
    pytest.param(f"{SPEC}.name", "x" * 65, FORMAT, id="tool-name-long"),
    pytest.param(f"{CONTEXT}.tools", [tool("a"), tool("A")], (400, "TOOL_DUPLICATE"), id="tool-twice"),
    pytest.param(f"{SPEC}.description", "", FORMAT, id="description-empty"),
    pytest.param(f"{SPEC}.description", ..., FORMAT, id="description-missing"),
    pytest.param(f"{SPEC}.description", "x" * 10_001, FORMAT, id="description-long"),
    pytest.param(f"{SPEC}.description", "ä" * 5_121, FORMAT, id="description-too-many-bytes"),
    pytest.param(f"{SCHEMA}.type", "string", SCHEMA_INVALID, id="schema-not-object"),
    pytest.param(f"{SCHEMA}.anyOf", [{}], SCHEMA_INVALID, id="schema-root-alternatives"),
    pytest.param(f"{SCHEMA}.properties", [], IMPROPER, id="properties-list"),
    pytest.param(f"{SCHEMA}.properties", None, IMPROPER, id="properties-null"),
    pytest.param(CITY, True, IMPROPER, id="property-boolean"),
    pytest.param(f"{SCHEMA}.required", [], IMPROPER, id="required-empty"),
    pytest.param(f"{SCHEMA}.required", None, IMPROPER, id="required-null"),
    pytest.param(f"{CITY}.items", {"type": "object", "required": []}, IMPROPER, id="required-empty-within"),
    pytest.param(f"{SCHEMA}.additionalProperties", False, IMPROPER, id="additional-properties"),
    pytest.param(f"{CITY}.anyOf", [{"type": "string", "pattern": "x"}], IMPROPER, id="pattern-within"),
    pytest.param(f"{SCHEMA}.$defs", {"a": {"minimum": 1}}, IMPROPER, id="minimum-in-definition"),
    # Uses and results.
    pytest.param(f"{RESULTS}.0.toolUseId", "a b", FORMAT, id="id-with-space"),
    pytest.param(f"{USE}.toolUseId", "x" * 65, FORMAT, id="id-long"),
    pytest.param(f"{USE}.input", "{}", FORMAT, id="input-not-object"),
    pytest.param(f"{USE}.name", "a.b", FORMAT, id="use-name"),
    pytest.param(f"{USE}.input", {"": 1}, FORMAT, id="key-empty"),
    pytest.param(f"{USE}.input", {"a": [{"": 1}]}, FORMAT, id="key-empty-within"),
    pytest.param(f"{RESULTS}.0.status", "SUCCESS", FORMAT, id="status-unknown"),
    pytest.param(f"{RESULTS}.0.content", [], FORMAT, id="result-without-parts"),
    pytest.param(f"{RESULTS}.0.content", [{"image": "x"}], FORMAT, id="result-part-unknown"),
    pytest.param(RESULTS, [RESULT, RESULT], FORMAT, id="result-twice"),
    pytest.param(f"{USED}.toolUses", [CALL, CALL], FORMAT, id="use-twice"),
    pytest.param(f"{CONTEXT}.tools", ..., CONFIG_MISSING, id="tools-missing"),
    pytest.param(f"{SPEC}.name", "other", CONFIG_MISSING, id="used-tool-not-offered"),
    pytest.param(f"{SPEC}.name", "Get_Weather", CONFIG_MISSING, id="used-tool-in-other-case"),
    pytest.param(f"{RESULTS}.0.toolUseId", "tooluse_B", (400, "TOOL_USE_RESULT_MISMATCH"), id="result-of-nothing"),
    pytest.param(f"{USED}.toolUses", ..., (400, "TOOL_USE_RESULT_MISMATCH"), id="use-missing"),
    # Attachments.
    pytest.param(f"{NOW}.images", [image("jpg", JPEG)], (400, "IMAGE_FORMAT_UNSUPPORTED"), id="jpg"),
    pytest.param(f"{NOW}.images", [{"format": "png", "source": {}}], FORMAT, id="image-empty"),
    pytest.param(f"{FIRST}.images", [image(data="data:image/png;base64,")], FORMAT, id="image-not-base64"),
    pytest.param(f"{NOW}.images", [image("png", JPEG)], (400, "IMAGE_MIME_MISMATCH"), id="image-other-bytes"),
    pytest.param(f"{NOW}.images", [image()] * 21, (400, "IMAGE_COUNT_EXCEEDED"), id="images-many"),
    pytest.param(
        f"{NOW}.images", [image(data="iVBORw0KGgoA" + "A" * 13_333_336)], (400, "IMAGE_SIZE_EXCEEDED"), id="image-large"
    ),
    pytest.param(f"{NOW}.documents", [paper(kind="rtf")], FORMAT, id="document-format"),
    pytest.param(f"{NOW}.documents", [paper("")], FORMAT, id="document-name"),
    pytest.param(f"{NOW}.documents", [paper(), paper()], (400, "DOCUMENT_DUPLICATE_NAME"), id="document-twice"),
    # Thinking.
    pytest.param(f"{USED}.reasoningContent", {"redactedContent": "not base64!"}, FORMAT, id="sealed-not-base64"),
    pytest.param(f"{USED}.reasoningContent", {"reasoningText": {"signature": "x"}}, FORMAT, id="thinking-without-text"),
    pytest.param(f"{USED}.reasoningContent", {**thought(), "redactedContent": SEALED}, FORMAT, id="thinking-both"),
    pytest.param(f"{USED}.reasoningContent", thought(signature="made-up"), SIGNATURE, id="signature-foreign"),
    pytest.param(f"{USED}.reasoningContent", thought(signature=sign("Ah.")), SIGNATURE, id="signature-of-other-text"),
    pytest.param(f"{USED}.reasoningContent", thought(), SIGNATURE, id="signature-missing"),
    pytest.param(f"{USED}.reasoningContent", {"redactedContent": "Zm9yZWlnbg=="}, SIGNATURE, id="sealed-foreign"),
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


def test_a_result_may_be_long():
    """A tool result has more room than a user's words; a model with a large window takes both at once."""
    document = with_tools()
    change(f"{NOW}.modelId", "claude-opus-4.8")(document)
    change(f"{RESULTS}.0.content", [{"text": "x" * 800_000}])(document)
    longer = with_tools()
    change(f"{NOW}.modelId", "claude-opus-4.8")(longer)
    change(f"{RESULTS}.0.content", [{"text": "x" * 800_000}, {"json": 1}])(longer)

    assert (refusal(document), refusal(longer)) == (None, TOO_LONG)


def test_a_request_for_thinking_is_not_of_the_past():
    """Tags that ask for thinking are taken in the system text and in the current message, and nowhere between."""
    tags = "<thinking_mode>enabled</thinking_mode>"
    document = with_tools()
    state = document[STATE]
    state["history"] = [
        {"userInputMessage": {"content": f"{tags} Be brief."}},
        {"assistantResponseMessage": {"content": "OK."}},
        *state["history"],
    ]
    change(f"{NOW}.content", tags)(document)
    before = refusal(document)
    change(f"{STATE}.history.2.userInputMessage.content", f"{tags} Weather?")(document)

    assert (before, refusal(document)) == (None, SIGNATURE)


def test_ids_are_not_used_again():
    """An id stands for one use, however many turns lie between it and the next."""
    document = with_tools()
    state = document[STATE]
    turn = {"content": "", "userInputMessageContext": {"toolResults": [RESULT]}}
    state["history"] += [{"userInputMessage": turn}, {"assistantResponseMessage": {"content": "", "toolUses": [CALL]}}]

    assert refusal(document) == FORMAT


VALID: list[Any] = [
    pytest.param("agent", "unknown members are tolerated", id="as-it-is"),
    pytest.param(f"{STATE}.conversationId", "5f0c6a52-1111-4222-8333-444455556666", id="conversation-id"),
    pytest.param(f"{STATE}.agentTaskType", "vibe", id="task"),
    pytest.param(f"{NOW}.origin", "KIRO_CLI", id="origin"),
    pytest.param(f"{NOW}.content", "x" * 600_000, id="content-long"),
    pytest.param(f"{NOW}.content", " ", id="blank-beside-results"),
    pytest.param(f"{USED}.content", "", id="empty-beside-uses"),
    pytest.param(f"{CONTEXT}.envState", {"currentWorkingDirectory": "/" * 256}, id="directory"),
    pytest.param("profileArn", None, id="profile-null"),
    pytest.param(f"{USED}.reasoningContent", THOUGHT, id="own-signature"),
    pytest.param(f"{USED}.reasoningContent", {"redactedContent": SEALED}, id="own-seal"),
    pytest.param(f"{NOW}.modelId", ..., id="no-model"),
    pytest.param(f"{NOW}.images", [image(), image("jpeg", JPEG)] * 10, id="images"),
    pytest.param(f"{NOW}.images", [image("gif", GIF), image("webp", WEBP)], id="formats"),
    pytest.param(f"{NOW}.images", [image(data="iVBORw0KGgoA" + "A" * 1_300_000)], id="large-images-are-no-large-body"),
    pytest.param(f"{NOW}.documents", [*map(paper, "abcde")], id="documents"),
    pytest.param(f"{NOW}.documents", [paper(data=LARGE)], id="pdf-large"),
    pytest.param(FIELDS, {"output_config": {"effort": "high"}, "max_tokens": 1024}, id="effort"),
    pytest.param(FIELDS, {"thinking": {"type": "adaptive", "display": "summarized"}}, id="thinking"),
    pytest.param(f"{SPEC}.description", "x" * 10_000, id="description-long"),
    pytest.param(f"{SCHEMA}.required", ..., id="nothing-required"),
    pytest.param(f"{SCHEMA}.$defs", {"pattern": {"type": "string", "enum": ["x", None]}}, id="names-are-no-keywords"),
    pytest.param(f"{CITY}.default", {"pattern": "x", "required": []}, id="values-are-no-schemas"),
    pytest.param(f"{CITY}.anyOf", [{"type": "string"}, {"type": "null"}], id="alternatives-within"),
    pytest.param(f"{USE}.input", {"city": None, "a": []}, id="input-is-anybodys"),
    pytest.param(f"{RESULTS}.0.content", [{"text": ""}, {"json": {"a": None}}], id="result-parts"),
    pytest.param(f"{RESULTS}.0.status", ..., id="no-status"),
]


@pytest.mark.parametrize(("path", "value"), VALID)
def test_what_is_allowed(path, value):
    """Valid conversations, up to the very limits, are answered."""
    document = with_tools()
    change(path, value)(document)

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
    service = SimulatedService()
    service.accounts.revoked.add("revoked")

    assert refusal(prompt("hello"), headers, service) == expected


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"[" * 100_000, b'{"a": "\xff"}', b'{"a": NaN}', b'{"a": "\\ud800"}', b'{"a": "\xed\xa0\x80"}'],
)
def test_a_body_that_is_no_object(body):
    """What is not a JSON object in clean UTF-8 is refused, however deep or broken."""
    assert refusal(body) == (400, "REQUEST_BODY_INVALID_JSON")


def test_without_a_model_list_any_name_is_taken():
    """``models=None`` takes every model; ``strict=False`` takes every request."""
    unknown = prompt("hello", model="my-model", additionalModelRequestFields={"x": 1})

    assert refusal(unknown, service=SimulatedService(models=None)) is None
    assert refusal(prompt(""), {}, SimulatedService(strict=False)) is None


def test_a_pair_of_escaped_surrogates_is_a_character():
    """Only halves of surrogate pairs are refused."""
    body = json.dumps(prompt("hello \U0001f600")).encode()

    assert b"\\ud83d\\ude00" in body
    assert refusal(body) is None


def test_every_rule_has_a_case():
    """Each rule about the body is the one that refuses some case above; so none of them only repeats another."""
    elsewhere = {bearer_present, api_key_announced, foreign_token_announced, result_length_allowed}
    elsewhere.add(no_thinking_request_in_history)
    refusing = set()
    for case in REFUSED:
        path, value, _ = case.values
        document = with_tools()
        change(path, value)(document)
        asked = KiroRequest(KEY, KiroDocument(document), MODELS, len(json.dumps(document)))
        refusing.add(next(rule.kept for rule in RULES if not rule.kept(asked)))

    assert {rule.kept for rule in RULES} - refusing == elsewhere


def test_a_large_body_is_checked_in_time():
    """Rules look at every message a few times and never at every pair: 600 KB in 50 ms, most of it parsing."""
    document = with_tools()
    state = document[STATE]
    first, answer = state["history"]
    asking = {"userInputMessage": {"content": "word " * 550, "origin": "AI_EDITOR"}}
    telling = {"assistantResponseMessage": {"content": "word " * 550}}
    state["history"] = [asking, telling] * 100 + [first, answer]
    state["currentMessage"]["userInputMessage"]["userInputMessageContext"]["tools"] += [
        tool(f"t{number}", **{f"p{at}": {"type": "string"} for at in range(20)}) for number in range(40)
    ]
    body = json.dumps(document)

    def read_and_check() -> Refusal | None:
        return check(KiroRequest(KEY, KiroDocument(json.loads(body)), MODELS, len(body)), RULES)

    assert len(body) > 580_000
    assert read_and_check() is None
    assert min(timeit.repeat(read_and_check, timer=time.process_time, repeat=3, number=1)) < 0.05
