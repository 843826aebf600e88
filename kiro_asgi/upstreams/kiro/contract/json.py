"""JSON of tool arguments and results that may have been cut or escaped badly."""

from __future__ import annotations

from typing import Any, Final

from kiro_asgi.wire.json import JsonError, loads

__all__ = ["safe_parse_json"]

CUT_ESCAPES: Final = ("\\u", "\\u0", "\\u00")
"""How an escape sequence of a character looks that was cut."""


def safe_parse_json(value: str) -> Any:
    """What *value* means as JSON: an object, a list or a primitive.

    White space around it is passed over, and so is the beginning of an escape sequence at its very end.

    Returns:
        The very same *value* where it is blank or not JSON.  ``NaN``, infinities, numbers that overflow and what is
        nested deeper than `kiro_asgi.limits.JSON_DEPTH` levels are not.
    """
    text = value.strip()
    if text.endswith("\\") and not text.endswith("\\\\"):
        text = text[:-1]
    elif text.endswith(CUT_ESCAPES):
        text = text[: text.rindex("\\u")]
    try:
        return loads(text)
    except JsonError:
        return value
