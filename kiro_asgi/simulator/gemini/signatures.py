"""Thought signatures: which the simulated service gives, and how it knows them again.

A signature says by itself that it is one of ours, and whether it was given with a certain call.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["SENTINELS", "belongs_to_call", "is_ours", "of_call", "of_text"]

SECRET: Final = b"kiro-asgi simulator, gemini\0"
SENTINELS: Final = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
"""Documented values for calls that did not come from the model."""

HALF: Final = 16


def _sealed(what: bytes) -> str:
    told = hashlib.sha256(what).digest()[:HALF]
    return base64.b64encode(told + hashlib.sha256(SECRET + told).digest()[:HALF]).decode()


def of_text(text: str) -> str:
    """The signature of an answer, or a thought, that starts with *text*."""
    return _sealed(b"text\0" + text.encode(errors="surrogatepass"))


def of_call(name: str, arguments: Mapping[str, Any]) -> str:
    """The signature of a call."""
    return _sealed(f"call\0{name}\0{json.dumps(_plain(arguments), sort_keys=True)}".encode())


def _plain(value: Any) -> Any:
    """*value* with whole numbers as integers, as JavaScript writes them back."""
    match value:
        case dict():
            return {key: _plain(part) for key, part in value.items()}
        case list():
            return [_plain(part) for part in value]
        case float() if value.is_integer():
            return int(value)
        case _:
            return value


def is_ours(signature: object) -> bool:
    """Whether *signature* was given by this service, and is unchanged."""
    try:
        data = base64.b64decode(str(signature), validate=True)
    except ValueError:
        return False
    return len(data) == 2 * HALF and hashlib.sha256(SECRET + data[:HALF]).digest()[:HALF] == data[HALF:]


def belongs_to_call(signature: object, call: Mapping[str, Any]) -> bool:
    """Whether *signature* was given with *call*, a ``functionCall``."""
    return signature == of_call(str(call.get("name")), call.get("args") or {})
