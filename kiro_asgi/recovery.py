"""Reminders of cut answers in the bodies of requests, for code that sends them somewhere itself.

The gateway puts the same notices into neutral prompts (`kiro_asgi.stages.cut_answers`).  Here a body is not read
strictly, and nothing but the notices is added to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.model.prompt import Part, Role, Text, ToolCallPart, ToolResult, Turn
from kiro_asgi.stages.cut_answers import CutAnswer, Reminder, reminders

_NO_RECORDS: Final[Mapping[str, CutAnswer]] = MappingProxyType({})


def inject_openai_truncation_recovery(
    body: Mapping[str, Any], records: Mapping[str, CutAnswer] = _NO_RECORDS
) -> dict[str, Any]:
    """Tell the model, in a Chat Completions request, which of its answers were cut short, and how to go on.

    A notice goes in front of the content of the ``tool`` message for a call of which the client was shown a part, else
    into a ``user`` message of its own behind the answer and the results of its tools.

    Args:
        body: The request, as decoded from JSON; not changed.
        records: What `truncation_records` gave for earlier answers of the same client.  A record that matches none of
            the latest answers exactly leads to nothing; one that does should be dropped when the request has been
            answered.

    Returns:
        A request of its own, equal to *body* where nothing matches.
    """
    return _reminded(body, records, _chat_turns, _insert_in_messages)


def inject_anthropic_truncation_recovery(
    body: Mapping[str, Any], records: Mapping[str, CutAnswer] = _NO_RECORDS
) -> dict[str, Any]:
    """The same for a Messages request: a notice is a block of text, in the ``tool_result`` or in the user's message.

    Arguments and result as `inject_openai_truncation_recovery`.
    """
    return _reminded(body, records, _messages_turns, _insert_in_blocks)


def _reminded(
    body: Mapping[str, Any],
    records: Mapping[str, CutAnswer],
    read: Callable[[list[Any]], Iterator[tuple[int, Turn]]],
    insert: Callable[[list[Any], int, Reminder], None],
) -> dict[str, Any]:
    """A copy of *body* with a notice for every record that one of its answers matches.

    Args:
        body: A request.
        records: Records of cut answers.
        read: The turns of messages, by their index.
        insert: Puts one notice into messages, at or behind an index.
    """
    messages = _messages_of(body)
    turns = dict(read(messages))
    places = list(turns)
    notices = reminders(tuple(turns.values()), records)
    for notice in notices:
        insert(messages, places[notice.reply], notice)
    return {**body, "messages": messages} if notices else dict(body)


def _messages_of(body: Mapping[str, Any]) -> list[Any]:
    """A list of its own of the messages; empty where there are none."""
    messages = body.get("messages")
    return list(messages) if isinstance(messages, list | tuple) else []


def _blocks_of(content: Any) -> Iterator[Mapping[str, Any]]:
    """The blocks of a message; a text is one block of text, and other values are passed over."""
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    elif isinstance(content, list | tuple):
        yield from (block for block in content if isinstance(block, Mapping))


def _texts_of(content: Any, *members: str) -> Iterator[Text]:
    """Texts under *members* of its blocks."""
    for block in _blocks_of(content):
        yield from (Text(block[name]) for name in members if isinstance(block.get(name), str))


def _reply_from(messages: Sequence[Any], start: int) -> Iterator[int]:
    """Indexes of the messages from *start* on with which a user replies, system messages among them included."""
    for index in range(start, len(messages)):
        if isinstance(messages[index], Mapping):
            if messages[index].get("role") == "assistant":
                return
            yield index


# Chat Completions.


def _chat_turns(messages: list[Any]) -> Iterator[tuple[int, Turn]]:
    """Messages as the dialect reads them, by their index: the system's count as the user's once others have come."""
    begun = False
    for index, message in enumerate(messages):
        role = message.get("role") if isinstance(message, Mapping) else None
        if role == "assistant":
            yield index, Turn(Role.ASSISTANT, (*_chat_texts(message), *_chat_calls(message)))
        elif role == "tool":
            yield index, Turn(Role.USER, (ToolResult(str(message.get("tool_call_id"))),))
        elif role == "user" or (begun and role in ("system", "developer")):
            yield index, Turn(Role.USER, tuple(_chat_texts(message)))
        begun = begun or role in ("assistant", "tool", "user")


def _chat_texts(message: Mapping[str, Any]) -> Iterator[Part]:
    yield from _texts_of(message.get("content"), "text", "refusal")
    yield from _texts_of([message], "refusal")


def _chat_calls(message: Mapping[str, Any]) -> Iterator[Part]:
    for call in _blocks_of(message.get("tool_calls")):
        called = call.get("function") or call.get("custom")
        if isinstance(called, Mapping):
            yield ToolCallPart(str(call.get("id")), str(called.get("name")), {})


def _insert_in_messages(messages: list[Any], at: int, reminder: Reminder) -> None:
    results = [index for index in _reply_from(messages, at) if messages[index].get("role") == "tool"]
    if not reminder.call_id:
        behind = results[-1] + 1 if results else at
        messages.insert(behind, {"role": "user", "content": reminder.text})
        return
    for index in results:
        if messages[index].get("tool_call_id") == reminder.call_id:
            messages[index] = {**messages[index], "content": _prefixed(reminder.text, messages[index].get("content"))}
            return
    messages.insert(at, {"role": "tool", "tool_call_id": reminder.call_id, "content": reminder.text})


def _prefixed(text: str, content: Any) -> list[Any]:
    return [{"type": "text", "text": text}, *_blocks_of(content)]


# Messages.


def _messages_turns(messages: list[Any]) -> Iterator[tuple[int, Turn]]:
    """Messages other than the system's, by their index."""
    for index, message in enumerate(messages):
        role = message.get("role") if isinstance(message, Mapping) else None
        if role in ("user", "assistant"):
            yield index, Turn(Role(role), tuple(_block_parts(message.get("content"))))


def _block_parts(content: Any) -> Iterator[Part]:
    for block in _blocks_of(content):
        match block.get("type"):
            case "text":
                yield from _texts_of([block], "text")
            case "tool_use":
                yield ToolCallPart(str(block.get("id")), str(block.get("name")), {})
            case "tool_result":
                yield ToolResult(str(block.get("tool_use_id")))


def _insert_in_blocks(messages: list[Any], at: int, reminder: Reminder) -> None:
    """Put a notice into the result of the call that was cut, made where there is none; else behind the last result."""
    note = {"type": "text", "text": reminder.text}
    place = at, 0
    for index in _reply_from(messages, at):
        for position, block in enumerate(_blocks_of(messages[index].get("content"))):
            if block.get("type") != "tool_result":
                continue
            if not reminder.call_id:
                place = index, position + 1
            elif block.get("tool_use_id") == reminder.call_id:
                noted = {**block, "content": [note, *_blocks_of(block.get("content"))], "is_error": True}
                _put_block(messages, index, position, noted, replace=True)
                return
    result = {"type": "tool_result", "tool_use_id": reminder.call_id, "content": [note], "is_error": True}
    _put_block(messages, *place, result if reminder.call_id else note)


def _put_block(messages: list[Any], index: int, position: int, block: Any, *, replace: bool = False) -> None:
    blocks = list(_blocks_of(messages[index].get("content")))
    blocks[position : position + replace] = [block]
    messages[index] = {**messages[index], "content": blocks}
