"""The record of a call: what those who serve it find out, for the log, observers and limits."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.charge import FREE, Charge, total_cost
from kiro_asgi.model.conversion import is_model
from kiro_asgi.model.events import MessageEnd, Usage
from kiro_asgi.model.notes import Note
from kiro_asgi.model.prices import Money, Price
from kiro_asgi.observers.base import Outcome
from kiro_asgi.quota.claims import Cost
from kiro_asgi.quota.clients import NOBODY, Client


def _not_yet() -> None:
    """No answer has ended."""


@define(eq=False)
class CallRecord:
    """What is known of one call so far."""

    principal: str = field(init=False, default="")
    client: Client = field(init=False, default=NOBODY)
    """Who asks, with the limits that hold."""

    status: int = field(init=False, default=0)
    """Status of the response; 0 as long as none has begun."""

    model: str = field(init=False, default="", validator=is_model)
    """The model asked for, where the request got so far."""

    upstream: str = field(init=False, default="")
    """The upstream that was asked last, where one was to be asked."""

    price: Price | None = field(init=False, default=None)
    """The price of the model that was asked last; ``None`` where it has none."""

    notes: tuple[Note, ...] = field(init=False, default=())
    """Adaptations of the request for the upstream of the last attempt."""

    counted: Callable[[], Usage | None] = field(init=False, default=_not_yet)
    """Tokens of the latest answer, as far as they are known; ``None`` until then."""

    end: Callable[[], MessageEnd | None] = field(init=False, default=_not_yet)
    """How the latest answer ended; ``None`` until it has."""

    def let_go(self) -> None:
        """Let go of what holds the call, and with it prompt and answer."""
        self.end = self.counted = _not_yet

    outcome: Outcome | None = field(init=False, default=None)
    """How a relayed answer ended."""

    failure: KiroAsgiError | None = field(init=False, default=None)
    """Error that replaced the answer, or the remainder of it."""

    charges: list[Charge] = field(init=False, factory=list)
    """What each attempt is charged, once it has ended, in order."""

    reserved: Cost | None = field(init=False, default=None)
    """What is reserved for the call, and for its attempt under way; ``None`` where no limit holds."""

    span: tuple[float, float] | None = field(init=False, default=None)
    """When the first content came from the service, and its last event, by the clock."""

    @property
    def charge(self) -> Charge:
        """What the latest attempt is charged."""
        return self.charges[-1] if self.charges else FREE

    def cost_with(self, usage: Usage | None) -> Money | None:
        """Cost of the attempts so far and of an answer of *usage*; ``None`` where it is not known."""
        cost = None if usage is None or self.price is None else self.price.cost(usage)
        return None if cost is None else total_cost((*self.charges, Charge(usage, cost)))
