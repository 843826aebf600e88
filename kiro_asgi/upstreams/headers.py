"""What may stand in a header of a request."""

from __future__ import annotations

import re
from typing import Any, Final

from attrs import Attribute

from kiro_asgi.errors import ConfigError

__all__ = ["check_header"]

_VALUE: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?")


def check_header(instance: Any, attribute: Attribute[Any], value: str) -> None:
    """Validate a field of an upstream that is sent as a header's value.

    Raises:
        ConfigError: It cannot be; the code is the upstream's name and ``header``.
    """
    if not _VALUE.fullmatch(value):
        name = instance.name
        raise ConfigError(f"{name}.{attribute.name} cannot stand in a header", code=f"{name}.header")
