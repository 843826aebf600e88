"""The rules of the Kiro service about access, bodies, history, models and thinking.

A rule is a predicate on a request, with the refusal of one that breaks it.  Where the
sources disagree about what the service takes, the strict side is the rule here: what gets past these gets past the
service.  `kiro_asgi.simulator.kiro.checks` has all of them, in order.
"""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve, frozen

from kiro_asgi.simulator.conversation import as_list, as_map
from kiro_asgi.simulator.kiro.document import KiroDocument, Message, context_of, results_of
from kiro_asgi.simulator.kiro.faults import BAD_TOKEN
from kiro_asgi.simulator.kiro.models import options_schema
from kiro_asgi.simulator.models import Model
from kiro_asgi.simulator.scripts import SEALED, sign


@frozen
class Refusal:
    """Why a request is not answered."""

    status: int
    message: str
    reason: str | None = None


IMPROPER: Final = Refusal(400, "Improperly formed request.")
"""The service's answer to nearly every invalid request, without a reason."""

INVALID: Final = Refusal(400, "Improperly formed request.", "REQUEST_BODY_INVALID")
TOO_LONG: Final = Refusal(400, "Input is too long.", "CONTENT_LENGTH_EXCEEDS_THRESHOLD")


@frozen
class KiroRequest:
    """A chat request, as far as rules need it."""

    headers: Mapping[str, str]
    """Names in lower case."""

    conversation: KiroDocument
    models: tuple[Model, ...] | None
    """``None``: any name is accepted."""

    body_size: int = 0
    """Bytes of the body."""

    @property
    def token(self) -> str:
        """The bearer token; empty if there is none."""
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""

    @property
    def token_type(self) -> str:
        """The ``tokentype`` header."""
        return self.headers.get("tokentype", "").upper()

    @property
    def model(self) -> Model | None:
        """The model asked for, if it is in the list."""
        return next((model for model in self.models or () if model.id == self.conversation.model), None)


@frozen
class RequestRule:
    """One rule; its name and its summary are those of *kept*."""

    kept: Callable[[KiroRequest], bool]
    """Whether a request keeps the rule."""

    refusal: Refusal
    detail: Callable[[KiroRequest], str] | None = None
    """Makes an addition to the refusal's message."""

    def refuse(self, request: KiroRequest) -> Refusal | None:
        """The refusal of a request that breaks the rule."""
        if self.kept(request):
            return None
        if self.detail is None:
            return self.refusal
        return evolve(self.refusal, message=f"{self.refusal.message}: {self.detail(request)}")


def check(request: KiroRequest, rules: Iterable[RequestRule]) -> Refusal | None:
    """The first refusal, if any."""
    return next((refusal for rule in rules if (refusal := rule.refuse(request)) is not None), None)


def bearer_present(request: KiroRequest) -> bool:
    """There is a bearer token."""
    return bool(request.token)


def api_key_announced(request: KiroRequest) -> bool:
    """An API key is announced as one (header ``tokentype: API_KEY``)."""
    return not request.token.startswith("ksk_") or request.token_type == "API_KEY"


def foreign_token_announced(request: KiroRequest) -> bool:
    """The token of a foreign identity provider is announced as one (header ``tokentype: EXTERNAL_IDP``)."""
    return not request.token.startswith("eyJ") or request.token_type == "EXTERNAL_IDP"


ACCESS: Final = (
    RequestRule(bearer_present, Refusal(401, "Missing Authentication Token")),
    RequestRule(api_key_announced, Refusal(400, "profileArn is required for this request.")),
    RequestRule(foreign_token_announced, Refusal(403, BAD_TOKEN)),
)


MAX_BODY: Final = 615_000
"""Bytes of a body without its attachments, for a window of 200,000 tokens; in proportion for other windows."""

WINDOW: Final = 200_000

MAX_CONTENT: Final = 600_000
"""Characters of one user message."""

MAX_RESULT: Final = 800_000
"""Characters of one tool result."""

MAX_DIRECTORY: Final = 256
"""Characters of a working directory."""

UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

TRIGGERS: Final = frozenset(("MANUAL", "DIAGNOSTIC", "INLINE_CHAT"))

WORDS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "agentTaskType": frozenset(("vibe", "spectask")),
        "origin": frozenset(
            (
                "AI_EDITOR", "CHATBOT", "CLI", "CONSOLE", "DOCUMENTATION", "GITLAB", "IDE", "INLINE_CHAT", "KIRO_CLI",
                "KIRO_WEB", "MARKETING", "MD", "MD_CE", "MD_IDE", "MOBILE", "OPENSEARCH_DASHBOARD", "Q_DEV_BEXT",
                "SAGE_MAKER", "SERVICE_INTERNAL", "SM_AI_STUDIO_IDE", "UNIFIED_SEARCH", "UNKNOWN",
            )
        ),
        "userIntent": frozenset(
            (
                "APPLY_COMMON_BEST_PRACTICES", "CITE_SOURCES", "CODE_GENERATION", "EXPLAIN_CODE_SELECTION",
                "EXPLAIN_LINE_BY_LINE", "GENERATE_CLOUDFORMATION_TEMPLATE", "GENERATE_UNIT_TESTS", "IMPROVE_CODE",
                "SHOW_EXAMPLES", "SUGGEST_ALTERNATE_IMPLEMENTATION",
            )
        ),
    }
)  # fmt: skip
"""Members with a closed list of values, wherever they stand."""

OMITTED: Final = frozenset(
    ("history", "userInputMessageContext", "toolUses", "toolResults", "tools", "images", "documents")
)
"""Members that are left out rather than empty."""

SYSTEM_FIELDS: Final = frozenset(("systemPrompt", "system", "systemMessage"))


def body_size_allowed(request: KiroRequest) -> bool:
    """A body is not larger than 615 KB for a window of 200,000 tokens, attachments not counted.

    Larger ones fail as if they were malformed; with windows of a million tokens, 772 KB and more pass.
    """
    window = request.model.window if request.model else WINDOW
    attached = sum(
        len(str(as_map(as_map(part).get("source")).get("bytes", "")))
        for message in request.conversation.users
        for part in (*as_list(message.get("images")), *as_list(message.get("documents")))
    )
    return request.body_size - attached <= MAX_BODY * window // WINDOW


def current_message_present(request: KiroRequest) -> bool:
    """The current message is a user message."""
    return bool(request.conversation.current) and len(as_map(request.conversation.state.get("currentMessage"))) == 1


def trigger_known(request: KiroRequest) -> bool:
    """``chatTriggerType`` is ``MANUAL``, ``DIAGNOSTIC`` or ``INLINE_CHAT``; at least one client sends ``AUTO``."""
    return request.conversation.state.get("chatTriggerType") in TRIGGERS


def words_known(request: KiroRequest) -> bool:
    """``origin``, ``agentTaskType`` and ``userIntent``, where they are sent, have a value of the service's model."""
    return all(value in WORDS[name] for name, value in request.conversation.members if name in WORDS)


def conversation_id_valid(request: KiroRequest) -> bool:
    """``conversationId``, where it is sent, is a UUID."""
    value = request.conversation.state.get("conversationId", "0" * 8 + "-0000" * 3 + "-" + "0" * 12)
    return isinstance(value, str) and UUID.fullmatch(value) is not None


def profile_valid(request: KiroRequest) -> bool:
    """``profileArn`` is an ARN or absent, never empty."""
    profile = request.conversation.document.get("profileArn")
    return profile is None or (isinstance(profile, str) and profile.startswith("arn:"))


def no_profile_with_key(request: KiroRequest) -> bool:
    """``profileArn`` is not sent along with an API key."""
    return request.token_type != "API_KEY" or request.conversation.document.get("profileArn") is None


def nothing_null(request: KiroRequest) -> bool:
    """No member is null: it is left out instead.

    Some clients send null without harm; those who found it refused outnumber them.
    """
    return all(value is not None or name == "profileArn" for name, value in request.conversation.members)


def nothing_empty(request: KiroRequest) -> bool:
    """``history``, ``userInputMessageContext``, ``toolUses``, ``toolResults``, ``tools``, ``images`` and ``documents``
    are left out where they are empty.

    One client sends ``images: []`` without harm; an empty ``history`` is refused.
    """
    return all(value or name not in OMITTED for name, value in request.conversation.members)


def no_system_field(request: KiroRequest) -> bool:
    """There is no field for a system text; unknown members are passed over, but this one was seen refused."""
    state = request.conversation.state
    return not SYSTEM_FIELDS & {*request.conversation.document, *state, *request.conversation.current}


def content_length_allowed(request: KiroRequest) -> bool:
    """A user message is not longer than 600,000 characters."""
    return all(len(str(message.get("content", ""))) <= MAX_CONTENT for message in request.conversation.users)


def result_length_allowed(request: KiroRequest) -> bool:
    """A tool result is not longer than 800,000 characters."""
    return all(
        sum(map(_length, as_list(result.get("content")))) <= MAX_RESULT
        for message in request.conversation.users
        for result in results_of(message)
    )


def _length(part: Any) -> int:
    text = as_map(part).get("text")
    return len(text) if isinstance(text, str) else len(json.dumps(as_map(part).get("json", "")))


def directory_length_allowed(request: KiroRequest) -> bool:
    """The working directory of ``envState`` is not longer than 256 characters."""
    return all(
        len(str(as_map(context_of(message).get("envState")).get("currentWorkingDirectory", ""))) <= MAX_DIRECTORY
        for message in request.conversation.users
    )


BODY: Final = (
    RequestRule(body_size_allowed, IMPROPER),
    RequestRule(current_message_present, INVALID),
    RequestRule(trigger_known, INVALID),
    RequestRule(words_known, INVALID),
    RequestRule(conversation_id_valid, Refusal(400, "Invalid conversation ID.", "INVALID_CONVERSATION_ID")),
    RequestRule(profile_valid, IMPROPER),
    RequestRule(no_profile_with_key, Refusal(400, "profileArn must not be sent with an API key.")),
    RequestRule(nothing_null, IMPROPER),
    RequestRule(nothing_empty, IMPROPER),
    RequestRule(no_system_field, IMPROPER),
)

LENGTHS: Final = (
    RequestRule(content_length_allowed, TOO_LONG),
    RequestRule(result_length_allowed, TOO_LONG),
    RequestRule(directory_length_allowed, INVALID),
)


MODE_TAGS: Final = re.compile(r"\s*<(?:thinking_mode|max_thinking_length|thinking_effort)>")


def history_alternates(request: KiroRequest) -> bool:
    """History is user, assistant, user … assistant: it starts with the user and ends with the assistant."""
    sides = [side for side, _ in request.conversation.history]
    return sides == ["user", "assistant"] * (len(sides) // 2)


def history_starts_without_results(request: KiroRequest) -> bool:
    """The first message of history has no tool results."""
    return not request.conversation.history or not results_of(request.conversation.history[0][1])


def user_content_present(request: KiroRequest) -> bool:
    """A user message has content that is not blank; only tool results may stand in for it, never attachments.

    Some gateways put a filler beside tool results too.  The AWS client sends an empty string there, which passes.
    """
    return all(_says(message, context_of(message).get("toolResults")) for message in request.conversation.users)


def assistant_content_present(request: KiroRequest) -> bool:
    """An assistant message has content that is not blank; only tool uses may stand in for it."""
    return all(_says(message, message.get("toolUses")) for message in request.conversation.assistants)


def _says(message: Message, instead: Any) -> bool:
    content = message.get("content")
    return isinstance(content, str) and bool(instead or (content and not content.isspace()))


def tools_only_now(request: KiroRequest) -> bool:
    """Tools are listed with the current message, never in history."""
    return not any("tools" in context_of(message) for message in request.conversation.users[:-1])


def thinking_well_formed(request: KiroRequest) -> bool:
    """``reasoningContent`` is either text with its signature, or bytes in base64."""
    return all(map(_well_formed, request.conversation.assistants))


def _well_formed(message: Message) -> bool:
    match message.get("reasoningContent", {"redactedContent": ""}):
        case {"reasoningText": {"text": str(text)}, **rest}:
            return not rest and bool(text)
        case {"redactedContent": str(sealed), **rest}:
            return not rest and _is_base64(sealed)
    return False


def _is_base64(text: str) -> bool:
    try:
        binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        return False
    return True


def signatures_valid(request: KiroRequest) -> bool:
    """Thinking that comes back bears the seal that this service put on it: none that is foreign, altered or missing."""
    return all(map(_is_ours, request.conversation.assistants))


def _is_ours(message: Message) -> bool:
    thought = as_map(message.get("reasoningContent"))
    if not thought:
        return True
    signed = as_map(thought.get("reasoningText"))
    return signed.get("signature") == sign(str(signed["text"])) if signed else thought.get("redactedContent") == SEALED


def no_thinking_request_in_history(request: KiroRequest) -> bool:
    """No message of history but the first, where the system text may be, begins with tags that ask for thinking.

    Its answer would have to hold signed thinking.  There is one report of this; tags further within a message are
    taken for a quotation.
    """
    return not any(MODE_TAGS.match(str(message.get("content"))) for message in request.conversation.users[1:-1])


HISTORY: Final = (
    RequestRule(history_alternates, IMPROPER),
    RequestRule(history_starts_without_results, IMPROPER),
    RequestRule(user_content_present, IMPROPER),
    RequestRule(assistant_content_present, IMPROPER),
    RequestRule(tools_only_now, IMPROPER),
)

UNSIGNED: Final = Refusal(400, "Invalid signature in thinking block", "THINKING_SIGNATURE_INVALID")

THINKING: Final = (
    RequestRule(thinking_well_formed, INVALID),
    RequestRule(signatures_valid, UNSIGNED),
    RequestRule(no_thinking_request_in_history, UNSIGNED),
)


TYPES: Final[Mapping[str, type]] = MappingProxyType({"string": str, "integer": int, "object": dict})


def model_known(request: KiroRequest) -> bool:
    """The model is in the list."""
    return request.models is None or request.model is not None


def options_fit_model(request: KiroRequest) -> bool:
    """``additionalModelRequestFields`` has nothing that the model's own schema does not list.

    Effort of one family is refused by the other, and a model without a schema takes no field at all.
    """
    return not _problem(request)


def _problem(request: KiroRequest) -> str:
    fields = request.conversation.document.get("additionalModelRequestFields", {})
    if request.models is None or fields == {}:
        return ""
    schema = options_schema(request.model) if request.model else None
    return _misfit("additionalModelRequestFields", fields, schema or {"type": "object"})


def _misfit(name: str, value: Any, schema: Mapping[str, Any]) -> str:
    if not isinstance(value, TYPES[schema["type"]]) or isinstance(value, bool):
        return f"property '{name}' must be of type {schema['type']}"
    if value not in schema.get("enum", [value]):
        return f"property '{name}' must be one of {schema['enum']}"
    if isinstance(value, int) and not schema["minimum"] <= value <= schema["maximum"]:
        return f"property '{name}' must be between {schema['minimum']} and {schema['maximum']}"
    return _misfit_within(value, schema.get("properties", {})) if isinstance(value, dict) else ""


def _misfit_within(value: Mapping[str, Any], properties: Mapping[str, Any]) -> str:
    for name, part in value.items():
        if name not in properties:
            return f"property '{name}' is not defined in the schema"
        if problem := _misfit(name, part, properties[name]):
            return problem
    return ""


MODEL: Final = (
    RequestRule(
        model_known,
        Refusal(400, "Invalid model ID. Please select a different model to continue.", "INVALID_MODEL_ID"),
    ),
    RequestRule(options_fit_model, Refusal(400, "Invalid additionalModelRequestFields"), _problem),
)
