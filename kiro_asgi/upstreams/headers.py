"""Headers of requests, and media types of answers."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any, Final

from attrs import Attribute

from kiro_asgi.errors import ConfigError, NotTheUpstream
from kiro_asgi.model.media_types import essence

Headers = tuple[tuple[bytes, bytes], ...]
"""Name and value of each."""

_VALUE: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?")


def check_header(instance: Any, attribute: Attribute[Any], value: str) -> None:
    """Validate a field of an upstream that is sent as a header's value.

    Raises:
        ConfigError: It has characters that a header cannot have; the code is the upstream's name and ``header``.
    """
    if not _VALUE.fullmatch(value):
        name = instance.name
        raise ConfigError(
            f"{name}.{attribute.name} cannot stand in a header: use printable ASCII characters", code=f"{name}.header"
        )


def overridden(ours: Iterable[tuple[bytes, bytes]], theirs: Headers) -> Headers:
    """*theirs*, the operator's, behind those of *ours* whose names none of them has; ours are in lower case."""
    named = {name.lower() for name, _ in theirs}
    return (*(header for header in ours if header[0] not in named), *theirs)


EVENT_STREAM: Final = "text/event-stream"
JSON: Final = "application/json"


def require_media_type(content_type: str, accepted: Collection[str]) -> None:
    """Accept an answer of one of these media types, or one that names none.

    Raises:
        NotTheUpstream: Code ``upstream.content_type``.
    """
    media_type = essence(content_type)
    if media_type and media_type not in accepted:
        wanted = " or ".join(accepted)
        raise NotTheUpstream(
            f"the service answered with {media_type[:60]}, not with {wanted}: check the address of its endpoint",
            code="upstream.content_type",
        )
