"""Errors inside a stream as the Chat Completions API words them; for others see `kiro_asgi.dialects.openai_errors`.

A chunk holds the same object that an HTTP answer would, but ``type`` says what kind of trouble it is and ``code`` is
``stream_error``.

Source: https://platform.openai.com/docs/guides/error-codes
"""

from __future__ import annotations

from typing import Any

from kiro_asgi.dialects.openai_errors import openai_message, wording_of
from kiro_asgi.errors import KiroAsgiError

__all__ = ["stream_error_object"]


def stream_error_object(error: KiroAsgiError) -> dict[str, Any]:
    """The ``error`` member of the chunk that ends a broken stream."""
    return {
        "message": openai_message(error),
        "type": wording_of(error).streamed,
        "param": error.param or None,
        "code": "stream_error",
    }
