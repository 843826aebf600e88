"""What a rule of the service is, and the rules about who asks.

A rule is a function that says whether a request keeps it, and the refusal that answers one that does not.  Where the
sources disagree about what the service takes, the strict side is the rule here: what gets past these gets past the
service.  `kiro_asgi.simulator.rulebook` has all of them, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from attrs import evolve, frozen

from kiro_asgi.simulator.catalogue import Model
from kiro_asgi.simulator.conversation import Conversation
from kiro_asgi.simulator.faults import BAD_TOKEN

__all__ = ["ACCESS", "IMPROPER", "INVALID", "TOO_LONG", "Asked", "Refusal", "Rule", "check"]


@frozen
class Refusal:
    """Why a request is not answered."""

    status: int
    message: str
    reason: str | None = None


IMPROPER: Final = Refusal(400, "Improperly formed request.")
"""What the service says to nearly everything, without a reason."""

INVALID: Final = Refusal(400, "Improperly formed request.", "REQUEST_BODY_INVALID")
TOO_LONG: Final = Refusal(400, "Input is too long.", "CONTENT_LENGTH_EXCEEDS_THRESHOLD")


@frozen
class Asked:
    """A chat request, as far as rules look at it."""

    headers: Mapping[str, str]
    """Names in lower case."""

    conversation: Conversation
    models: tuple[Model, ...] | None
    """``None``: any name will do."""

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
class Rule:
    """One rule; its name and its summary are those of *kept*."""

    kept: Callable[[Asked], bool]
    """Whether a request keeps the rule."""

    refusal: Refusal
    detail: Callable[[Asked], str] | None = None
    """What to add to the refusal's message."""

    def refuse(self, asked: Asked) -> Refusal | None:
        """The refusal of a request that breaks the rule."""
        if self.kept(asked):
            return None
        if self.detail is None:
            return self.refusal
        return evolve(self.refusal, message=f"{self.refusal.message}: {self.detail(asked)}")


def check(asked: Asked, rules: Iterable[Rule]) -> Refusal | None:
    """The first refusal, if any."""
    return next((refusal for rule in rules if (refusal := rule.refuse(asked)) is not None), None)


def bearer_present(asked: Asked) -> bool:
    """There is a bearer token."""
    return bool(asked.token)


def api_key_announced(asked: Asked) -> bool:
    """An API key is announced as one (header ``tokentype: API_KEY``)."""
    return not asked.token.startswith("ksk_") or asked.token_type == "API_KEY"


def foreign_token_announced(asked: Asked) -> bool:
    """The token of a foreign identity provider is announced as one (header ``tokentype: EXTERNAL_IDP``)."""
    return not asked.token.startswith("eyJ") or asked.token_type == "EXTERNAL_IDP"


ACCESS: Final = (
    Rule(bearer_present, Refusal(401, "Missing Authentication Token")),
    Rule(api_key_announced, Refusal(400, "profileArn is required for this request.")),
    Rule(foreign_token_announced, Refusal(403, BAD_TOKEN)),
)
