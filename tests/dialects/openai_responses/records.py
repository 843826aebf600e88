"""Responses as a store holds them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from kiro_asgi.dialects.openai_responses.kept import encode
from kiro_asgi.dialects.openai_responses.response import RenderedResponse

__all__ = ["record"]


def record(told: Mapping[str, Any], items: Iterable[Any] = (), seals: Mapping[str, str] | None = None) -> bytes:
    """The record of the response *told*, which was asked with *items*."""
    others = {name: value for name, value in told.items() if name != "output"}
    output = [(item["id"], [json.dumps(item).encode()]) for item in told["output"]]
    before = json.dumps(others)[:-1].encode() + b',"output":'
    return encode(RenderedResponse(before, output, b"}"), items, seals or {})
