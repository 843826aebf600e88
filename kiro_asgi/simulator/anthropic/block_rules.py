"""What the service refuses about the blocks of messages."""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kiro_asgi.simulator.anthropic.message import sealed
from kiro_asgi.simulator.anthropic.places import blocks
from kiro_asgi.simulator.anthropic.reader import blocks_of
from kiro_asgi.simulator.conversation import as_list, as_map
from kiro_asgi.simulator.format import FormatRule, Json
from kiro_asgi.simulator.question import Question

__all__ = ["BLOCKS"]


def _names(names: str) -> frozenset[str]:
    return frozenset(names.split())


FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "text": _names("type text cache_control citations"),
    "image": _names("type source cache_control"),
    "document": _names("type source title context citations cache_control"),
    "search_result": _names("type source title content citations cache_control"),
    "thinking": _names("type thinking signature"),
    "redacted_thinking": _names("type data"),
    "tool_use": _names("type id name input cache_control caller"),
    "tool_result": _names("type tool_use_id content is_error cache_control"),
    "server_tool_use": _names("type id name input cache_control caller"),
    "web_search_tool_result": _names("type tool_use_id content cache_control caller"),
}
"""Type of a block to its fields."""

ASSISTANT_ONLY: Final = frozenset(("thinking", "redacted_thinking", "tool_use", "server_tool_use"))
USER_ONLY: Final = frozenset(("image", "tool_result"))
SERVER_ID: Final = re.compile(r"srvtoolu_[a-zA-Z0-9_]+")
IMAGES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")


def _all(document: Json) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every block, those within tool results too."""
    for place, block in blocks(document):
        yield place, block
        if block.get("type") == "tool_result":
            for number, part in enumerate(blocks_of(block.get("content"))):
                yield f"{place}.tool_result.content.{number}", part


def blocks_known(document: Json, _: Question) -> str:
    """A block has a known type, and only the fields of that."""
    for place, block in _all(document):
        kind = str(block.get("type"))
        if kind not in FIELDS:
            return f"{place}: Input tag '{kind}' found using 'type' does not match any of the expected tags"
        unknown = next((name for name in block if name not in FIELDS[kind]), None)
        if unknown is not None:
            return f"{place}.{kind}.{unknown}: Extra inputs are not permitted"
    return ""


def blocks_on_their_side(document: Json, _: Question) -> str:
    """Thinking and calls are the assistant's, images and results the user's."""
    for at, message in enumerate(map(as_map, as_list(document.get("messages")))):
        wrong = ASSISTANT_ONLY if message.get("role") == "user" else USER_ONLY
        kind = next((one["type"] for one in blocks_of(message.get("content")) if one.get("type") in wrong), None)
        if kind is not None:
            return f"messages.{at}: `{kind}` blocks are not allowed in messages of this role"
    return ""


def text_present(document: Json, _: Question) -> str:
    """Text is not empty, and not only spaces; that of the system neither."""
    system = as_list(document.get("system"))
    texts = [str(block.get("text", "")) for _, block in _all(document) if block.get("type") == "text"]
    texts += [str(as_map(block).get("text", "")) for block in system]
    if not all(texts):
        return "messages: text content blocks must be non-empty"
    return "" if all(map(str.strip, texts)) else "messages: text content blocks must contain non-whitespace text"


def images_valid(document: Json, _: Question) -> str:
    """An image is base64 of a known media type, or a URL."""
    for place, block in _all(document):
        source = as_map(block.get("source"))
        if block.get("type") != "image" or source.get("type") == "url":
            continue
        if source.get("media_type") not in IMAGES:
            return f"{place}.image.source.base64.media_type: Input should be 'image/jpeg', 'image/png', …"
        try:
            binascii.a2b_base64(str(source.get("data", "")), strict_mode=True)
        except ValueError:
            return f"{place}.image.source.base64: invalid base64 data"
    return ""


def seals_kept(document: Json, _: Question) -> str:
    """What was sealed of a page that a search found comes back as it was, in results and in citations."""
    for place, block in blocks(document):
        pages = blocks_of(block.get("content")) if block.get("type") == "web_search_tool_result" else []
        for page in pages:
            if page.get("encrypted_content") != sealed(str(page.get("url"))):
                return f"{place}: Invalid `encrypted_content` in `search_result` block"
        for citation in map(as_map, as_list(block.get("citations"))):
            cites_search = citation.get("type") == "web_search_result_location"
            if cites_search and citation.get("encrypted_index") != sealed(str(citation.get("url"))):
                return f"{place}: Invalid `encrypted_index` in `web_search_result_location` citation"
    return ""


def searches_answered(document: Json, _: Question) -> str:
    """A search that the service ran has an id of its own kind, and, but for a last one, its result in its message."""
    messages = [*map(as_map, as_list(document.get("messages")))]
    for at, message in enumerate(messages):
        content = blocks_of(message.get("content"))
        uses = [str(block.get("id")) for block in content if block.get("type") == "server_tool_use"]
        results = [block.get("tool_use_id") for block in content if block.get("type") == "web_search_tool_result"]
        if any(not SERVER_ID.fullmatch(use) for use in uses):
            return f"messages.{at}.server_tool_use.id: String should match pattern '^srvtoolu_[a-zA-Z0-9_]+$'"
        if uses[: len(results)] != results or (len(uses) > len(results) and at + 1 < len(messages)):
            return f"messages.{at}: `web_search` tool use without a corresponding `web_search_tool_result` block"
    return ""


BLOCKS: Final[tuple[FormatRule, ...]] = (
    blocks_known,
    blocks_on_their_side,
    text_present,
    images_valid,
    seals_kept,
    searches_answered,
)
