"""The formats of JSON Schema that clients read into types of their own, so that a text in another one is no answer.

They are read as leniently as these clients read them: a time needs no zone.  Of every other format nothing is asked, as
the standard has it.

Source: https://json-schema.org/draft/2020-12/json-schema-validation, section 7
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from ipaddress import IPv4Address, IPv6Address
from types import MappingProxyType
from typing import Final
from uuid import UUID

__all__ = ["has_format"]

_READERS: Final[Mapping[str, Callable[[str], object]]] = MappingProxyType(
    {
        "date-time": datetime.fromisoformat,
        "date": date.fromisoformat,
        "time": time.fromisoformat,
        "uuid": UUID,
        "ipv4": IPv4Address,
        "ipv6": IPv6Address,
    }
)
"""Format to what reads it, or raises `ValueError`."""


def has_format(text: str, name: str) -> bool:
    """Whether *text* is in the format *name*, at a price in proportion to its length; true of unknown formats."""
    reader = _READERS.get(name)
    if reader is None:
        return True
    try:
        reader(text.upper())
    except ValueError:
        return False
    return True
