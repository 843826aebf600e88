"""What a Chat Completions request asks about the form of its answer."""

from __future__ import annotations

from attrs import frozen

from kiro_asgi.dialects.base import Heading

__all__ = ["ChatOptions", "options_of"]


@frozen
class ChatOptions:
    """The part of a request that only this dialect understands."""

    include_usage: bool = False
    """Whether the stream ends with a usage chunk (``stream_options.include_usage``)."""

    legacy_functions: bool = False
    """Whether the request used ``functions``, so that a call is answered as ``function_call``."""


def options_of(heading: Heading) -> ChatOptions:
    """The options that travel with *heading*, or the defaults where nobody set any."""
    return heading.options if isinstance(heading.options, ChatOptions) else ChatOptions()
