"""Texts of one call, in any client API: what was asked, the tools that were called, and all words for a search.

They are found by the names of members, which the APIs have in common, and not by reading each API: an answer's pieces
are joined, so a word that came in three of them is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from kiro_asgi.wire.json import JsonError, loads

BODY_BYTES: Final = 4 * 1024 * 1024
"""Largest request, and largest answer, whose texts are read; of a larger one nothing is found."""

_SAID: Final = 160
"""Characters of what was asked that are shown."""

_COVERED: Final = 4000
"""Characters of it from which secrets are taken before it is cut."""

_TOOLS: Final = 10
_NAME: Final = 64
"""Names of tools, and their characters, that are shown of an answer."""

_MESSAGES: Final = ("messages", "input", "contents", "prompt")
"""Members of a request that hold what is said, in any of the APIs."""

_CALLS: Final = frozenset({"tool_use", "server_tool_use", "function_call", "custom_tool_call", "mcp_call"})
"""Types of a part, or an item, that is a call of a tool."""

_FUNCTIONS: Final = ("function", "functionCall")
"""Members that are a call of a tool."""

_PIECES: Final = frozenset(
    {
        *("text", "content", "thinking", "partial_json", "arguments", "delta", "input", "refusal", "message"),
        *("reasoning", "reasoning_content", "summary", "name"),
    }
)
"""Members of events whose texts are pieces of an answer."""


def messages_of(request: Any) -> list[Any]:
    """The messages of a request; a request of one text has one."""
    found = (request[name] for name in _MESSAGES if name in request) if isinstance(request, Mapping) else iter(())
    value: Any = next(found, [])
    return value if isinstance(value, list) else [{"role": "user", "content": value}]


def is_user(message: Any) -> bool:
    """Whether a message is the user's; a text alone is."""
    return isinstance(message, str) or (isinstance(message, Mapping) and message.get("role", "user") == "user")


def asked_in(request: Any) -> str:
    """The beginning of the last text of the user's; programs put reminders in tags beside it, which are left out."""
    for message in reversed(messages_of(request)):
        found = [*_parts(message)] if is_user(message) else []
        if found:
            plain = [text for text in found if not text.lstrip().startswith("<")]
            return (plain or found)[-1].strip()[:_COVERED]
    return ""


def _parts(message: Any) -> Iterator[str]:
    """The texts of a message, without those of its tools' results."""
    if isinstance(message, str):
        yield message
        return
    if message.get("type", "message") != "message":
        return
    content = message.get("content", message.get("parts"))
    for part in content if isinstance(content, list) else [content]:
        text = part.get("text") if isinstance(part, Mapping) else part
        if isinstance(text, str) and text.strip():
            yield text


def shortened(text: str) -> str:
    """On one line, and no longer than a row shows."""
    line = " ".join(text.split())
    return line if len(line) <= _SAID else f"{line[: _SAID - 1]}…"


def documents(sent: bytes) -> list[Any]:
    """The values of an answer as it was sent: events, or one document; none where it is neither."""
    if len(sent) > BODY_BYTES:
        return []
    lines = (line[5:] for line in sent.splitlines() if line.startswith(b"data:"))
    return [*_read(lines)] or [*_read([sent])]


def _read(texts: Iterable[bytes]) -> Iterator[Any]:
    for text in texts:
        try:
            yield loads(text)
        except JsonError:
            continue


def tools_in(answer: Iterable[Any]) -> tuple[str, ...]:
    """Names of the tools that an answer calls, each once."""
    return tuple(islice(dict.fromkeys(_tools(answer)), _TOOLS))


def _tools(answer: Iterable[Any]) -> Iterator[str]:
    for name, value in _members(answer):
        if isinstance(value, Mapping) and (name in _FUNCTIONS or str(value.get("type")) in _CALLS):
            tool = value.get("name")
            if isinstance(tool, str) and tool:
                yield tool[:_NAME]


def words_of(request: Any, answer: list[Any]) -> str:
    """All texts, one a line; the pieces of an answer that came as events are joined by the member they are in."""
    lines = [value for _, value in _members([request]) if isinstance(value, str)]
    pieces: dict[str, list[str]] = {}
    for name, value in _members(answer):
        if isinstance(value, str):
            (pieces.setdefault(name, []) if name in _PIECES else lines).append(value)
    return "\n".join([*lines, *map("".join, pieces.values())])


def _members(values: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Every value within, in order, with the name of the member it is in, also through lists."""
    waiting: list[tuple[str, Any]] = [("", value) for value in reversed([*values])]
    while waiting:
        name, value = waiting.pop()
        yield name, value
        if isinstance(value, Mapping):
            waiting += reversed([*value.items()])
        elif isinstance(value, list):
            waiting += [(name, each) for each in reversed(value)]
