"""A first look at a request that may go on as it is: whose model, how it is answered, and who runs the tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import frozen

from kiro_asgi.dialects.base import RequestPeek
from kiro_asgi.dialects.errors import NO_MODEL
from kiro_asgi.dialects.errors import missing as no_value
from kiro_asgi.dialects.structure import read_json, structure_value
from kiro_asgi.model.features import Ask
from kiro_asgi.model.prompt import Tool


@frozen
class _Asked:
    model: str
    stream: bool | None = None


def peek_at(
    body: bytes,
    missing: str,
    *,
    tools: Callable[[Mapping[str, Any]], tuple[Tool, ...]],
    asks: Callable[[Mapping[str, Any]], Iterable[Ask]],
) -> RequestPeek:
    """Look at *body*.  Only what decides where it goes is checked; the rest is for the service to judge.

    Raises:
        RequestError: No JSON object, or one without a model; ``param`` names the place.
    """
    return peek_in(read_json(body), body, missing, tools=tools, asks=asks)


def peek_in(
    document: Any,
    body: bytes,
    missing: str,
    *,
    tools: Callable[[Mapping[str, Any]], tuple[Tool, ...]],
    asks: Callable[[Mapping[str, Any]], Iterable[Ask]],
) -> RequestPeek:
    """Look at a request that was read, which goes on as *body*.

    Raises:
        RequestError: As from `peek_at`.
    """
    asked = structure_value(document, _Asked, missing=missing)
    if not asked.model:
        raise no_value("model", NO_MODEL)
    return RequestPeek(body, asked.model, bool(asked.stream), tools(document), frozenset(asks(document)))
