"""Features of the Messages API that a client asks for in the ``anthropic-beta`` headers of its request.

Source: https://docs.anthropic.com/en/api/beta-headers
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from kiro_asgi.limits import BETA_CHARACTERS, BETAS

_NAME: Final = re.compile(rb"[\w.:/-]+", re.ASCII)


def betas_in(headers: Iterable[tuple[bytes, bytes]]) -> tuple[str, ...]:
    """The first `BETAS` features that *headers* name, each once; anything that is no name is skipped."""
    return tuple(islice(dict.fromkeys(_names(headers)), BETAS))


def _names(headers: Iterable[tuple[bytes, bytes]]) -> Iterator[str]:
    for header, value in headers:
        if header.lower() == b"anthropic-beta":
            names = map(bytes.strip, value.split(b","))
            yield from (name.decode() for name in names if len(name) <= BETA_CHARACTERS and _NAME.fullmatch(name))
