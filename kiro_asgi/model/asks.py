"""What a request may ask for in which somebody other than the service may have a part."""

from __future__ import annotations

from enum import Enum

__all__ = ["Ask"]


class Ask(Enum):
    """One kind of wish, as far as it decides whether a request may go on as it is."""

    TOOLS = "tools"
    """Tools that the client runs."""

    UNKNOWN_TOOLS = "unknown_tools"
    """Tools that somebody else is to run, declared in a way that the service has none of."""

    CHOICE = "choice"
    """Another choice of tools than ``auto``, or one call at a time."""

    FORM = "form"
    """An answer that is JSON, by a schema or without one."""

    SERVED = "served"
    """Tools that nobody but the service runs, and of which a translation tells nothing."""

    THINKING = "thinking"
    """Thinking, in so many words."""

    THOUGHTS = "thoughts"
    """Earlier thinking, handed back."""

    FOREIGN_SIGNATURES = "foreign_signatures"
    """Something handed back that another service has signed, and that is marked as such."""

    STOP = "stop"
    """Stop sequences."""

    MANY_STOPS = "many_stops"
    """More stop sequences than the service takes."""

    SAMPLING = "sampling"
    """Temperature, ``top_p``, ``top_k`` or penalties."""

    SAMPLED_TWICE = "sampled_twice"
    """Temperature and ``top_p``."""

    MAX_TOKENS = "max_tokens"
    """The greatest length by its older name."""

    MAX_COMPLETION_TOKENS = "max_completion_tokens"
    """The greatest length by its newer name."""

    COUNTS = "counts"
    """Token counts at the end of a stream."""
