"""Features that a request uses, as far as they decide whether it may go on as it is, and betas.

Betas are those of the Messages API, which a client asks for in the ``anthropic-beta`` headers of its request.

Source: https://docs.anthropic.com/en/api/beta-headers
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import islice
from typing import Final

from kiro_asgi.limits import BETA_CHARACTERS, BETAS


class Ask(Enum):
    """A feature that a request uses, as far as it decides whether the request may go on as it is."""

    MISSPELT = "misspelt"
    """A member whose name is, but for case, another one of the API's."""

    TOOLS = "tools"
    """Tools that the client runs."""

    UNKNOWN_TOOLS = "unknown_tools"
    """Tools declared in a way that the service does not know, for others to run."""

    FOREIGN_SHAPES = "foreign_shapes"
    """Tools or parts of messages in the form of another API than the request's."""

    CHOICE = "choice"
    """Another choice of tools than ``auto``, or one call at a time."""

    FORM = "form"
    """An answer that is JSON, by a schema or without one."""

    SERVED = "served"
    """Tools that only the service itself runs, or only its own API can call; a translation leaves them out, or makes
    functions of them.  Or something that the service holds; a translation is refused."""

    THINKING = "thinking"
    """Thinking, asked for explicitly."""

    EFFORT = "effort"
    """How much to think, in the service's own term."""

    THOUGHTS = "thoughts"
    """Earlier thinking, handed back."""

    FOREIGN_SIGNATURES = "foreign_signatures"
    """Something handed back that another service has signed, and that is marked as such."""

    STOP = "stop"
    """Stop sequences."""

    MANY_STOPS = "many_stops"
    """More stop sequences than the service takes."""

    BLANK_STOPS = "blank_stops"
    """Stop sequences without a visible character."""

    SAMPLING = "sampling"
    """Temperature, ``top_p``, ``top_k`` or penalties."""

    SAMPLED_TWICE = "sampled_twice"
    """Temperature and ``top_p``."""

    MAX_TOKENS = "max_tokens"
    """The greatest length by its older name."""

    MAX_COMPLETION_TOKENS = "max_completion_tokens"
    """The greatest length by its newer name."""

    OWN_LINE = "own_line"
    """A line for the service of the client's vendor, before the system text."""

    STATE = "state"
    """Something that the gateway keeps, makes or refuses itself."""

    COUNTS = "counts"
    """Token counts at the end of a stream."""

    WHOLE = "whole"
    """An answer in one piece, from the Responses API."""

    UNINSTRUCTED = "uninstructed"
    """No instructions, from the Responses API, nor developer messages among the items; or system messages there."""

    OPTIONS = "options"
    """Fields of the Responses API that the features above do not name, or a prompt that is one text."""


_NAME: Final = re.compile(rb"[\w.:/-]+", re.ASCII)


def betas_in(headers: Iterable[tuple[bytes, bytes]]) -> tuple[str, ...]:
    """The first `BETAS` features that *headers* name, each once; anything that is no name is skipped."""
    return tuple(islice(dict.fromkeys(_names(headers)), BETAS))


def _names(headers: Iterable[tuple[bytes, bytes]]) -> Iterator[str]:
    for header, value in headers:
        if header.lower() == b"anthropic-beta":
            names = map(bytes.strip, value.split(b","))
            yield from (name.decode() for name in names if len(name) <= BETA_CHARACTERS and _NAME.fullmatch(name))
