"""Answers that come whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kiro_asgi.errors import UpstreamProtocolError
from kiro_asgi.failures.meanings import error_of
from kiro_asgi.failures.report import failure, report_in
from kiro_asgi.upstreams.openai.errors import MEANINGS
from kiro_asgi.wire.json import JsonError, loads_answer


def answer_in(body: bytes, member: str, what: str) -> Mapping[str, Any]:
    """The answer that *body* is: an object with a list as its *member*; *what* it is, a message says where it is not.

    Raises:
        UpstreamProtocolError: Code ``stream.cut``, it is no JSON, or ``answer.unreadable``, it is something else.
        KiroAsgiError: The error that it reports.
    """
    try:
        value = loads_answer(body)
    except JsonError as error:
        raise UpstreamProtocolError(f"the upstream's answer is unreadable: {error}", code="stream.cut") from None
    if type(value) is dict and (report := report_in(value, content={member})):
        raise error_of(failure(report), MEANINGS)
    if type(value) is dict and type(value.get(member)) is list:
        return value
    raise UpstreamProtocolError(f"the upstream's answer is not a {what}", code="answer.unreadable")
