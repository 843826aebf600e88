"""What is to be said of a call that has ended: an error, or anything that its client did not get as it was.

A call of which nothing is to be said is good; no other one is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from kiro_asgi.inspector.sentences import FINISHES, Sentences, of_error, of_notice
from kiro_asgi.model.rules import CATALOGUE, Loss
from kiro_asgi.observers.base import AttemptFacts, EndFacts, Outcome

_MOST: Final = 20
"""Remarks that are kept of a call."""

_CODE: Final = 100
"""Characters of a code, which may be a service's."""

_REFUSED: Final = 400
"""The lowest status of an error."""


class Kind(StrEnum):
    """How bad it is, the worst first."""

    ERROR = "error"
    """There was no answer, or not all of it."""

    LEFT = "left"
    """The client did not wait for all of it."""

    NOTICE = "notice"
    """Something was lost, changed or tried again on the way."""


@frozen
class Remark:
    """One thing to be said."""

    kind: Kind
    code: str
    """The code of an error or a notice, or one of this module's."""

    said: Sentences
    mark: str
    times: int = 1

    @property
    def short(self) -> Mapping[str, Any]:
        """For a row of the list."""
        return {"kind": self.kind, "code": self.code, "mark": self.mark, "words": self.said.short, "times": self.times}

    @property
    def whole(self) -> Mapping[str, Any]:
        """With the cause, and what to do."""
        return {**self.short, "cause": self.said.cause, "advice": self.said.advice}


_MARKS: Final[Mapping[str, str]] = MappingProxyType(
    {"call.cut": "✂", "call.malformed": "✂", "tool_call.name_corrected": "✎", "length": "✂"}
)
"""Marks of their own, by code; others have one of their kind."""

_OUTCOMES: Final[Mapping[Outcome, tuple[Kind, str, Sentences]]] = MappingProxyType(
    {
        Outcome.DISCONNECTED: (
            Kind.LEFT,
            "↩",
            Sentences(
                "client left",
                "The client closed the connection before it had all of the answer.",
                "If nobody stopped it, look for a time limit of the client, or of a proxy between it and the gateway.",
            ),
        ),
        Outcome.STALLED: (
            Kind.ERROR,
            "⏸",
            Sentences(
                "client too slow",
                "The client took nothing of the answer for too long, so the gateway dropped it.",
                "Look at what the client does while it should read.",
            ),
        ),
        Outcome.CUT: (
            Kind.ERROR,
            "✂",
            Sentences(
                "answer cut", "The answer broke off after its beginning was sent.", "Stream shows what came last."
            ),
        ),
        Outcome.REFUSED: (
            Kind.ERROR,
            "✗",
            Sentences("refused", "The call was refused.", "The gateway's log has its message, under this call's id."),
        ),
    }
)
"""Outcomes that are not good, where no error says more."""

_NO_ANSWER: Final = Sentences("no good status", "The response has the status of an error, or none.", "")
_UNKNOWN_END: Final = Sentences("unknown end", "The model stopped for a reason that this page has no words for.", "")
_LOST: Final = Sentences(
    "left out of the request",
    "Some of the client's request was not sent to the service, which has no place for it.",
    "Request shows what, with the rules that applied.",
)


def remarks_on(end: EndFacts, attempts: Sequence[AttemptFacts]) -> tuple[Remark, ...]:
    """All remarks on a call, the worst first."""
    order = list(Kind)
    found = sorted(_all(end, attempts), key=lambda remark: order.index(remark.kind))
    return tuple(islice(found, _MOST))


def _all(end: EndFacts, attempts: Sequence[AttemptFacts]) -> Iterator[Remark]:
    if end.error:
        code, mark = f"{end.error} {end.code}".strip()[:_CODE], "✂" if end.outcome is Outcome.CUT else "✗"
        yield Remark(Kind.ERROR, code, of_error(end.error, end.code), mark)
    if end.outcome in _OUTCOMES and not (end.error and end.outcome in (Outcome.CUT, Outcome.REFUSED)):
        kind, mark, said = _OUTCOMES[end.outcome]
        yield Remark(kind, end.outcome.value, said, mark)
    if end.outcome is Outcome.COMPLETE and not end.error and not 0 < end.status < _REFUSED:
        yield Remark(Kind.ERROR, f"status {end.status}", _NO_ANSWER, "✗")
    # What was withheld comes first: it is why somebody looks.
    for code, times in sorted(end.notices.items(), key=lambda notice: not notice[0].startswith("call.")):
        yield Remark(Kind.NOTICE, code[:_CODE], of_notice(code), _MARKS.get(code, "⚠"), times)
    # The gateway calls an answer of which a call was cut one that reached its limit, so that clients go on.
    is_told = end.finish == "length" and "call.cut" in end.notices
    if end.finish and not is_told and (why := FINISHES.get(end.finish, _UNKNOWN_END)) is not None:
        yield Remark(Kind.NOTICE, end.finish[:_CODE], why, _MARKS.get(end.finish, "⚠"))
    yield from _tries(end, attempts)
    rules = () if end.plan is None else end.plan.rules
    for rule in dict.fromkeys(rules):
        if rule in CATALOGUE and CATALOGUE[rule].loss is Loss.CONTENT:
            cause = f"{_LOST.cause} {CATALOGUE[rule].what}"
            yield Remark(Kind.NOTICE, rule, Sentences(_LOST.short, cause, _LOST.advice), "⚠")


def _tries(end: EndFacts, attempts: Sequence[AttemptFacts]) -> Iterator[Remark]:
    """That the first attempt failed; by the last one, another service was asked."""
    if end.plan is None or end.plan.number == 1:
        return
    causes = dict.fromkeys(
        f"At {each.plan.upstream}: {of_error(each.error, each.code).short}." for each in attempts if each.error
    )
    upstreams = {each.plan.upstream for each in attempts}
    fell = len({*upstreams, end.plan.upstream}) > 1
    said = Sentences(
        "another service asked" if fell else "tried again",
        f"{end.plan.number} requests were sent to services. {' '.join(causes)}".strip(),
        "Attempts, below, has each of them.",
    )
    again = end.plan.number - 1
    yield Remark(Kind.NOTICE, "call.fell_over" if fell else "call.retried", said, "⇄" if fell else "↻", again)
