"""What the service refuses before it answers, one rule a function.

Rules run in the order of the table; the first refusal is the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import frozen

from kiro_asgi.simulator.catalogue import Model
from kiro_asgi.simulator.conversation import Conversation, as_list, as_map
from kiro_asgi.simulator.faults import BAD_TOKEN

__all__ = ["GENERAL", "Asked", "Refusal", "Rule", "check"]

IMPROPER: Final = "Improperly formed request."
MAX_CONTENT: Final = 600_000
"""Characters of one user message."""

IMAGE_FORMATS: Final = ("gif", "jpeg", "png", "webp")
TRIGGERS: Final = ("MANUAL", "DIAGNOSTIC", "INLINE_CHAT")


@frozen
class Refusal:
    """Why a request is not answered."""

    status: int
    message: str
    reason: str | None = None


@frozen
class Asked:
    """A chat request, as far as rules look at it."""

    headers: Mapping[str, str]
    """Names in lower case."""

    conversation: Conversation
    models: tuple[Model, ...] | None
    """``None``: any name will do."""

    @property
    def token(self) -> str:
        """The bearer token; empty if there is none."""
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""

    @property
    def token_type(self) -> str:
        """The ``tokentype`` header."""
        return self.headers.get("tokentype", "").upper()


Rule = Callable[[Asked], Refusal | None]


def bearer_present(asked: Asked) -> Refusal | None:
    """There is a bearer token."""
    return None if asked.token else Refusal(401, "Missing Authentication Token")


def token_type_fits(asked: Asked) -> Refusal | None:
    """An API key is announced as one, and so is the token of a foreign identity provider."""
    if asked.token.startswith("ksk_") and asked.token_type != "API_KEY":
        return Refusal(400, "profileArn is required for this request.")
    if asked.token.startswith("eyJ") and asked.token_type != "EXTERNAL_IDP":
        return Refusal(403, BAD_TOKEN)
    return None


def profile_fits(asked: Asked) -> Refusal | None:
    """A profile is never empty, and never sent along with an API key."""
    profile = asked.conversation.document.get("profileArn")
    if profile is None:
        return None
    if not isinstance(profile, str) or not profile.startswith("arn:"):
        return Refusal(400, IMPROPER)
    return Refusal(400, "profileArn must not be sent with an API key.") if asked.token_type == "API_KEY" else None


def current_message_present(asked: Asked) -> Refusal | None:
    """The current message is a user message, and there is a valid trigger."""
    present = asked.conversation.current and asked.conversation.state.get("chatTriggerType") in TRIGGERS
    return None if present else Refusal(400, IMPROPER, "REQUEST_BODY_INVALID")


def content_not_empty(asked: Asked) -> Refusal | None:
    """Every user message has content, or tool results instead; every assistant message content, or tool uses."""
    conversation = asked.conversation
    for side, message in (*conversation.history, ("user", conversation.current)):
        content = message.get("content")
        instead = (
            as_map(message.get("userInputMessageContext")).get("toolResults")
            if side == "user"
            else message.get("toolUses")
        )
        if not isinstance(content, str) or not (content or instead):
            return Refusal(400, IMPROPER)
    return None


def history_alternates(asked: Asked) -> Refusal | None:
    """History is user, assistant, user … assistant; absent rather than empty or null."""
    if asked.conversation.state.get("history", [{}]) in (None, []):
        return Refusal(400, IMPROPER)
    sides = [side for side, _ in asked.conversation.history]
    expected = ["user", "assistant"] * (len(sides) // 2)
    return None if sides == expected else Refusal(400, IMPROPER)


def size_allowed(asked: Asked) -> Refusal | None:
    """The current message is not longer than the service reads."""
    if len(asked.conversation.content) <= MAX_CONTENT:
        return None
    return Refusal(400, "Input is too long.", "CONTENT_LENGTH_EXCEEDS_THRESHOLD")


def model_known(asked: Asked) -> Refusal | None:
    """The model is in the list."""
    if asked.models is None or asked.conversation.model in {model.id for model in asked.models}:
        return None
    return Refusal(400, "Invalid model ID. Please select a different model to continue.", "INVALID_MODEL_ID")


def options_fit_model(asked: Asked) -> Refusal | None:
    """``additionalModelRequestFields`` has nothing that the model's schema does not list."""
    model = next((model for model in asked.models or () if model.id == asked.conversation.model), None)
    if asked.models is None or not asked.conversation.options:
        return None
    problem = _misfit(asked.conversation.options, model.options_schema if model else None)
    return Refusal(400, f"Invalid additionalModelRequestFields: {problem}") if problem else None


def _misfit(value: Any, schema: Mapping[str, Any] | None) -> str:
    properties = (schema or {}).get("properties", {})
    for name, part in value.items():
        if name not in properties:
            return f"property '{name}' is not defined in the schema"
        wanted = properties[name]
        if wanted["type"] == "object":
            problem = _misfit(part, wanted) if isinstance(part, Mapping) else f"property '{name}' is not an object"
            if problem:
                return problem
        elif part not in wanted.get("enum", [part]):
            return f"property '{name}' must be one of {wanted['enum']}"
    return ""


def image_formats_known(asked: Asked) -> Refusal | None:
    """Images are of a known format and have bytes."""
    for image in map(as_map, as_list(asked.conversation.current.get("images"))):
        if image.get("format") not in IMAGE_FORMATS:
            return Refusal(400, "Unsupported image format.", "IMAGE_FORMAT_UNSUPPORTED")
        if not as_map(image.get("source")).get("bytes"):
            return Refusal(400, IMPROPER, "REQUEST_BODY_INVALID")
    return None


GENERAL: Final[tuple[Rule, ...]] = (
    bearer_present,
    token_type_fits,
    current_message_present,
    profile_fits,
    history_alternates,
    content_not_empty,
    size_allowed,
    model_known,
    options_fit_model,
    image_formats_known,
)


def check(asked: Asked, rules: tuple[Rule, ...]) -> Refusal | None:
    """The first refusal, if any."""
    return next((refusal for rule in rules if (refusal := rule(asked)) is not None), None)
