"""What is in the body of a request."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

from kiro_asgi.simulator.record import RecordedRequest

__all__ = ["document_of", "form_of"]

SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
"""How the escape of a half of a surrogate pair begins."""


def document_of(request: RecordedRequest) -> Mapping[str, Any] | None:
    """The body; ``None`` unless it is an object in UTF-8, without ``NaN`` and without halves of surrogate pairs."""
    try:
        document = json.loads(request.body.decode(), parse_constant=_refuse_constant)
        if SURROGATE.search(request.body):
            json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def form_of(request: RecordedRequest) -> dict[str, str]:
    """The fields of a form; empty unless the body is announced as one."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/x-www-form-urlencoded":
        return {}
    return dict(parse_qsl(request.body.decode("latin-1")))
