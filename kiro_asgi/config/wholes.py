"""What several settings must be together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kiro_asgi.config.gateway import LimitSettings
from kiro_asgi.config.shapes import UPSTREAM

__all__ = ["conflicts", "misnamed", "unnameable"]

_TAKEN: Final = ("kiro", "gemini", "anthropic", "openai")
"""Upstreams with a slice of their own."""


def misnamed(name: str) -> str:
    """What is wrong with the name of a custom upstream, in words that follow it; empty when nothing is."""
    fits, words = UPSTREAM
    if not fits(name):
        return f"the name must be {words}"
    return "the name is taken; it has settings of its own" if name in _TAKEN else ""


def unnameable(names: Iterable[str]) -> tuple[str, ...]:
    """One line for every name that no custom upstream can have."""
    return tuple(f"custom.{name}: {words}" for name in names if (words := misnamed(name)))


def conflicts(members: Iterable[str], values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Path and complaint for values that are good one by one, but not together.

    *members* are the tables of custom upstreams, e.g. ``custom.ollama``.
    """
    named = tuple(members)
    for table in named:
        if not values.get(f"{table}.endpoint"):
            yield f"{table}.endpoint", "must be set"
    for table in ("openai", *named):
        if values.get(f"{table}.token_url") and not values.get(f"{table}.api_key"):
            yield f"{table}.token_url", "nothing to exchange there: api_key must be set"
    if "*" in values.get("cors.origins", ()) and values.get("client.trust_host"):
        yield "cors.origins", "* lets every page act for users of the host (client.trust_host); name the origins"
    yield from _body_conflicts(values)


def _body_conflicts(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """A body of the largest size must find room; told of the setting that somebody changed."""
    usual = LimitSettings()
    body = values.get("limits.body_bytes", usual.body_bytes)
    room = values.get("limits.body_bytes_in_flight", usual.body_bytes_in_flight)
    if type(body) is not int or type(room) is not int or 2 * body <= room:
        return
    if room == usual.body_bytes_in_flight:
        yield "limits.body_bytes", f"must be at most half of limits.body_bytes_in_flight, which is {room}"
    else:
        yield "limits.body_bytes_in_flight", f"must be at least twice limits.body_bytes, which is {body}"
