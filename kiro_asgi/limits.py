"""Every fixed cap on what others send, in one place; those that an operator may set are `LimitSettings`.

A cap bounds work or memory that foreign input can cause.  What a service itself limits (lengths of its names, its
largest image) is knowledge about that service and stands with it.  ``docs/explanation/limits.rst`` is made from this
file: each constant has a docstring that says what it bounds, and what happens beyond it.
"""

from __future__ import annotations

from typing import Final

__all__ = ["JSON_DEPTH"]

JSON_DEPTH: Final = 128
"""Arrays and objects open at once in one JSON document, a tool's schema, a call's input or its arguments.  Beyond it a
request is refused with 400 and the place, an answer with an upstream error."""
