"""What texts of the gateway's own settings must look like."""

from __future__ import annotations

import re
from typing import Final

from kiro_asgi.setting import Shape

__all__ = ["HOST", "PAGE", "PARAMETER", "REPAIR", "ROUTE", "STATE_URL"]


def _is_host(text: str) -> bool:
    name, _, port = text.removeprefix("*.").partition(":")
    *_, last = name.split(".")
    numeric = last.isdecimal() or not name.isascii()
    return bool(_HOST.fullmatch(text)) and not numeric and (not port or 0 < int(port) < 65_536)


_HOST: Final = re.compile(r"(?:\*\.)?[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?::[0-9]{1,5})?")

HOST: Final = Shape(
    _is_host, "names of hosts, such as images.example.com, *.example.com or example.com:8443, and nothing else"
)
PARAMETER: Final = Shape(re.compile(r"[^=\s]+\.[^=.\s]+=[^=\s]+").fullmatch, "written as tool.wire=client")
REPAIR: Final = Shape(
    frozenset({"control_characters", "trailing_commas", "byte_order_mark"}).__contains__,
    "names of repairs: control_characters, trailing_commas, byte_order_mark",
)
PAGE: Final = Shape(
    re.compile(
        r"\*|null|[a-z][a-z0-9+.-]*://[a-z0-9._-]+(:[0-9]{1,5})?|[a-z][a-z0-9+.-]*://\[[0-9a-f:.]+\](:[0-9]{1,5})?"
    ).fullmatch,
    "origins in small letters without a path, such as https://app.example, or null, or *",
)
STATE_URL: Final = Shape(
    re.compile(r"((valkeys?|rediss?)(\+sentinel|\+cluster)?://[^\s/]+(/\S*)?|unix://\S+)").fullmatch,
    "an address such as valkey://host:6379/0, valkeys://, unix://, valkey+sentinel:// or valkey+cluster://",
)
ROUTE: Final = Shape(
    re.compile(r"[^=\s]+=[a-z][a-z0-9_-]*(/[^>\s]+)?(>[a-z][a-z0-9_-]*(/[^>\s]+)?)*").fullmatch,
    "written as pattern=upstream/model, or pattern=upstream/model>upstream/model",
)
