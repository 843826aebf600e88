"""An observer from outside: it counts what each client was answered, and how often a service had to be asked again."""

from __future__ import annotations

from collections import Counter
from threading import Lock

from attrs import define, field

from kiro_asgi import Observer, create_app
from kiro_asgi.observers import AttemptFacts, CallFacts, EndFacts, Outcome


@define(eq=False)
class Counting(Observer):
    """Sums that a page of the host's own may show."""

    tokens: Counter[str] = field(factory=Counter)
    """By client."""

    failures: Counter[tuple[str, str]] = field(factory=Counter)
    """By upstream and class of the error, those included after which another attempt was made."""

    _guard: Lock = field(factory=Lock)
    """One application may serve several event loops, each in a thread of its own."""

    def attempted(self, call: CallFacts, attempt: AttemptFacts) -> None:
        """An upstream has answered, or failed."""
        if attempt.error:
            with self._guard:
                self.failures[attempt.plan.upstream, attempt.error] += 1

    def ended(self, call: CallFacts, end: EndFacts) -> None:
        """The client has its answer, or nobody is there to take it."""
        if end.usage is not None and end.outcome is Outcome.COMPLETE:
            with self._guard:
                self.tokens[call.principal] += end.usage.prompt_tokens + end.usage.output_tokens


def application(counting: Counting) -> object:
    """The gateway, with settings from the environment, whose calls *counting* is told of."""
    return create_app(observers=[counting])
