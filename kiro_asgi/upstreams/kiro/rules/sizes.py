"""How much the service reads.  What is more is refused here, before it costs a call and comes back without a reason.

The service says "Improperly formed request." to a body of about 615 KB for a model with a window of 200,000 tokens, and
takes more for models with larger ones.  Images and documents are counted otherwise, and not here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kiro_asgi.errors import ContextTooLong
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Document, Part, Prompt, Role, Text, ThinkingPart, ToolCallPart, ToolResult
from kiro_asgi.upstreams.errors import too_long
from kiro_asgi.upstreams.kiro.rules.drafts import MessageDraft
from kiro_asgi.upstreams.kiro.rules.texts import paragraphs
from kiro_asgi.wire.json import dumps

MAX_MESSAGE: Final = 600_000
"""Characters of a user's message."""

MAX_RESULT: Final = 800_000
"""Characters of one tool result."""

WINDOW: Final = 200_000
"""Tokens of the window for which `payload_limit` is told."""

TRIMMED: Final = "Earlier exchanges of this conversation were left out, because it had become too long."


def payload_limit(bytes_for_window: int, context_window: int) -> int:
    """Largest body in bytes, attachments not counted, for a model's window; 0 is no limit."""
    return bytes_for_window * context_window // WINDOW


def require_messages(drafts: list[MessageDraft], prompt: Prompt, notes: Notes) -> None:
    """Stop at a message or a result that is longer than the service reads.

    Raises:
        ContextTooLong: There is one; ``param`` names the client's largest turn.
    """
    for draft in drafts:
        if len(draft.text) > MAX_MESSAGE and draft.role is Role.USER and "size.message" not in notes.off:
            raise _too_long("size.message", f"a message of {len(draft.text):,} characters", MAX_MESSAGE, prompt)
        for result in draft.results:
            size = sum([len(part["text"]) for part in result["content"]])
            if size > MAX_RESULT and "size.result" not in notes.off:
                raise _too_long("size.result", f"a tool's result of {size:,} characters", MAX_RESULT, prompt)


def require_payload(size: int, limit: int, prompt: Prompt, notes: Notes) -> None:
    """Stop at a body of more bytes than *limit*.

    Raises:
        ContextTooLong: It has more; ``param`` names the client's largest turn, or the tools or the system text.
    """
    if size > limit and "size.payload" not in notes.off:
        raise _too_long("size.payload", f"a request of {size:,} bytes", limit, prompt)


def messages(body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every message of a body in order, without the member that says whose it is."""
    state = body["conversationState"]
    for item in (*state.get("history", ()), state["currentMessage"]):
        yield from item.values()


def measure(data: bytes, body: Mapping[str, Any]) -> int:
    """Bytes of *body*, which is written down in *data*, without those of images and documents."""
    attached = (one for each in messages(body) for kind in ("images", "documents") for one in each.get(kind, ()))
    return len(data) - sum(len(one["source"]["bytes"]) for one in attached)


def trim(body: dict[str, Any], excess: int, prompt: Prompt, notes: Notes, *, kept: int) -> bool:
    """Leave out the oldest exchanges, as many as make *excess* bytes, and say so to the model.

    Calls and their results stay together, and so do the first *kept* messages, which are the system text.  Whether it
    is possible is returned.
    """
    history = body["conversationState"].get("history", [])
    users = [*history, body["conversationState"]["currentMessage"]]
    freed = -len(TRIMMED) - 4
    for index in range(kept, len(users), 2):
        user = users[index].get("userInputMessage", {})
        if freed >= excess and "toolResults" not in user.get("userInputMessageContext", ()):
            break
        freed += sum(len(dumps(item)) for item in history[index : index + 2])
    else:
        return False
    if not notes.applies("size.trimmed", prompt.turns[0].place, (index - kept) // 2):
        return False
    user["content"] = paragraphs(TRIMMED, user["content"])
    del history[kept:index]
    if not history:
        del body["conversationState"]["history"]
    return True


def _too_long(rule: str, what: str, limit: int, prompt: Prompt) -> ContextTooLong:
    place, size = _largest(prompt)
    most = f"the largest part is {place} with {size:,} characters"
    return too_long(rule, f"{what} where {limit:,} are taken; {most}", place)


def _largest(prompt: Prompt) -> tuple[str, int]:
    """The place of the longest text, and its characters."""
    sizes = {turn.place or "messages": sum(map(_characters, turn.parts)) for turn in prompt.turns}
    sizes[prompt.system_place] = sum(map(len, prompt.system))
    sizes["tools"] = sum(len(tool.description) + len(dumps(dict(tool.schema))) for tool in prompt.tools)
    return max(sizes.items(), key=lambda item: item[1])


def _characters(part: Part) -> int:
    match part:
        case Text(text) | ThinkingPart(text):
            return len(text)
        case Document():
            return len(part.text)
        case ToolCallPart():
            return len(dumps(dict(part.input)))
        case ToolResult():
            return sum(map(_characters, part.parts))
        case _:
            return 0
