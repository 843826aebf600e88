"""Reminders of cut answers, put into the messages of a request without reading them strictly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kiro_asgi.model.prompt import Text, Turn
from kiro_asgi.stages.cut_answers import CutAnswer, Reminder, reminders


def reminded(
    body: Mapping[str, Any],
    records: Mapping[str, CutAnswer],
    read: Callable[[list[Any]], Iterator[tuple[int, Turn]]],
    tell: Callable[[list[Any], int, Reminder], None],
) -> dict[str, Any]:
    """A copy of *body* with a notice for every record that one of its answers matches.

    Args:
        body: A request.
        records: What is known of cut answers.
        read: The turns of messages, by their index.
        tell: Puts one notice into messages, at or behind an index.
    """
    messages = _messages_of(body)
    turns = dict(read(messages))
    places = list(turns)
    told = reminders(tuple(turns.values()), records)
    for reminder in told:
        tell(messages, places[reminder.reply], reminder)
    return {**body, "messages": messages} if told else dict(body)


def _messages_of(body: Mapping[str, Any]) -> list[Any]:
    """A list of its own of the messages; empty where there are none."""
    messages = body.get("messages")
    return list(messages) if isinstance(messages, list | tuple) else []


def blocks_of(content: Any) -> Iterator[Mapping[str, Any]]:
    """The blocks of a message; a text is one block of text, and what is no block is passed over."""
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    elif isinstance(content, list | tuple):
        yield from (block for block in content if isinstance(block, Mapping))


def texts_of(content: Any, *members: str) -> Iterator[Text]:
    """Texts under *members* of its blocks."""
    for block in blocks_of(content):
        yield from (Text(block[name]) for name in members if isinstance(block.get(name), str))


def reply_from(messages: Sequence[Any], start: int) -> Iterator[int]:
    """Indexes of the messages from *start* on with which a user replies, system messages among them included."""
    for index in range(start, len(messages)):
        if isinstance(messages[index], Mapping):
            if messages[index].get("role") == "assistant":
                return
            yield index
