"""Headers of requests: what may stand in one, and whose counts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from attrs import Attribute

from kiro_asgi.errors import ConfigError

__all__ = ["Headers", "check_header", "overridden"]

Headers = tuple[tuple[bytes, bytes], ...]
"""Name and value of each."""

_VALUE: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?")


def check_header(instance: Any, attribute: Attribute[Any], value: str) -> None:
    """Validate a field of an upstream that is sent as a header's value.

    Raises:
        ConfigError: It cannot be; the code is the upstream's name and ``header``.
    """
    if not _VALUE.fullmatch(value):
        name = instance.name
        raise ConfigError(f"{name}.{attribute.name} cannot stand in a header", code=f"{name}.header")


def overridden(ours: Iterable[tuple[bytes, bytes]], theirs: Headers) -> Headers:
    """*theirs*, the operator's, behind those of *ours* whose names none of them has; ours are in lower case."""
    named = {name.lower() for name, _ in theirs}
    return (*(header for header in ours if header[0] not in named), *theirs)
