"""The arguments of a call that was made earlier, as clients of the OpenAI APIs echo them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kiro_asgi.errors import RequestError
from kiro_asgi.wire.json import JsonError, loads

__all__ = ["read_arguments"]


def read_arguments(arguments: str | Mapping[str, Any] | None, place: str) -> Mapping[str, Any]:
    """Arguments as an object; what is none is kept, under ``input``, because an old call cannot be made again.

    Raises:
        RequestError: They are nested too deep; ``param`` is *place*.
    """
    if isinstance(arguments, Mapping):
        return arguments
    if not arguments or arguments.isspace():
        return {}
    try:
        value = loads(arguments)
    except JsonError as error:
        if error.code == "json.too_deep":
            raise RequestError(f"{place}: {error.message}", code="invalid_value", param=place) from error
        value = arguments
    return value if isinstance(value, dict) else {"input": value}
