"""The grammar of a Chat Completions stream, of whose chunks each is what the official SDK expects."""

from __future__ import annotations

import json
from typing import Any

from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import TypeAdapter

from kiro_asgi.testing.grammar import chat
from kiro_asgi.testing.grammar.chat import FINISHES, fold, payloads

__all__ = ["CHUNK", "COMPLETION", "FINISHES", "check", "fold", "payloads"]

CHUNK = TypeAdapter(ChatCompletionChunk)
COMPLETION = TypeAdapter(ChatCompletion)


def check(stream: bytes) -> list[dict[str, Any]]:
    """As `kiro_asgi.testing.grammar.chat.check`.

    Raises:
        pydantic.ValidationError: A chunk is not what the official SDK expects.
    """
    chunks = chat.check(stream)
    for chunk in chunks:
        CHUNK.validate_json(json.dumps(chunk), strict=True)
    return chunks
