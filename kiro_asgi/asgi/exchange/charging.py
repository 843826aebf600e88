"""What an attempt is charged: the one decision, for limits of clients, groups and credentials, and for the ledger.

================================================  ==================================================================
the attempt                                       is charged
================================================  ==================================================================
never reached the service, or was refused by it   nothing
came to the end of its answer                     the service's count, and an estimate of what it did not count
broke off, or its answer was of no use            the same, of what had come; nothing, if nothing had
was left by the client, or given up by us         of each part the service's count, or the larger of reservation and
                                                  estimate
================================================  ==================================================================
"""

from __future__ import annotations

from typing import Any

from attrs import evolve

from kiro_asgi.asgi.exchange.facts import Exchange
from kiro_asgi.asgi.exchange.reading import AnswerReading
from kiro_asgi.asgi.exchange.record import CallRecord
from kiro_asgi.errors import AnswerTooLarge, KiroAsgiError, UpstreamTimeout
from kiro_asgi.model.charge import FREE, Charge, charge_for, larger
from kiro_asgi.model.events import Metering, Usage, UsageSource


def charge_of(
    call: CallRecord, exchange: Exchange, reading: AnswerReading[Any, Any], error: BaseException | None
) -> Charge:
    """The charge for one attempt of *call*, which *error* has ended, or which has come to its end."""
    usage = _usage(call, exchange, reading, error)
    if usage is None:
        return FREE
    return charge_for(_metered(usage, exchange), call.price, 0.0 if call.reserved is None else call.reserved.money)


def _usage(
    call: CallRecord, exchange: Exchange, reading: AnswerReading[Any, Any], error: BaseException | None
) -> Usage | None:
    """What the attempt took; ``None`` for nothing."""
    if not reading.asked or reading.refused:
        return None
    came = reading.used
    if error is None or not _is_left(error) or call.reserved is None or _is_counted(reading, came):
        return came
    return larger(exchange.expected, came)


def _is_left(error: BaseException) -> bool:
    """Whether the answer went on without us: the client left, or we gave the service up."""
    return not isinstance(error, KiroAsgiError) or (isinstance(error, UpstreamTimeout | AnswerTooLarge))


def _is_counted(reading: AnswerReading[Any, Any], came: Usage | None) -> bool:
    """Whether the answer had ended, with the service's count of it."""
    return reading.ended and came is not None and came.output_source is UsageSource.UPSTREAM


def _metered(usage: Usage, exchange: Exchange) -> Usage:
    """*usage* with an estimate of its credits, where the service counts in them and has not said how many."""
    rate = exchange.estimate.credits
    if usage.metering is not None or not rate:
        return usage
    tokens = usage.prompt_tokens + usage.output_tokens
    return evolve(usage, metering=Metering(rate * tokens, source=UsageSource.ESTIMATE))
