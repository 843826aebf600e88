"""A request to any simulated service, as far as its answer depends on it: the same question has the same answer.

Each service reads its own documents into this form, forgivingly: its rules judge them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from attrs import frozen

THINKING_TAGS: Final = re.compile(r"<(thinking_mode|max_thinking_length|thinking_effort)>[^<]*</\1>|</?thinking>")
THINKING_WANTED: Final = re.compile(
    r"<thinking_mode>\s*(enabled|adaptive)\s*</thinking_mode>|<thinking>", re.IGNORECASE
)

REMINDERS: Final = ("system-reminder", "environment_details", "session_context", "environment_context", "user_info")
"""Tags around what clients add to their users' words."""

LONG: Final = 400
"""Characters after which only the last paragraph counts as the user's own text."""

_IMAGE_FORMATS: Final[Mapping[str, str]] = {"jpg": "jpeg"}
"""Subtypes of images that have another name."""


def as_map(value: Any) -> Mapping[str, Any]:
    """*value* if it is a JSON object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: Any) -> Sequence[Any]:
    """*value* if it is a JSON array, else an empty one."""
    return value if isinstance(value, list) else ()


@frozen
class OfferedTool:
    """One tool of a request."""

    name: str
    description: str
    schema: Mapping[str, Any]


@frozen
class Result:
    """The result of a tool call."""

    call_id: str
    text: str
    failed: bool = False


@frozen(kw_only=True, slots=False)
class Conversation:
    """One request."""

    model: str = "auto"
    content: str = ""
    """The current message's text, as sent."""

    earlier: tuple[str, ...] = ()
    """Texts of the messages before it; the first is where system prompts are put."""

    images: tuple[tuple[str, int], ...] = ()
    """Format and bytes of each image of the current message."""

    tools: tuple[OfferedTool, ...] = ()
    results: tuple[Result, ...] = ()
    """Those in the current message."""

    wants_native_thinking: bool = False
    """Whether thinking was asked for in the request's fields, and is not to be left out of the answer."""

    id: str = ""
    """The client's; empty for none."""

    window: int = 200_000
    """Tokens that the model reads at most."""

    opens: bool = False
    """Whether its answer begins by naming the conversation, before anything else, and not in a header."""

    @property
    def instructions(self) -> str:
        """Text of the first message."""
        return self.earlier[0] if self.earlier else ""

    @cached_property
    def question(self) -> str:
        """The current message's text without reminders of the client's; all of it where there is nothing else."""
        return without_reminders(self.content) or self.content

    @cached_property
    def user_text(self) -> str:
        """The user's own text, as far as it shows: without requests for thinking; if long, the last paragraph."""
        paragraphs = self.question.split("\n\n")
        plain = [part for part in paragraphs if "<thinking>" not in part] or paragraphs
        text = THINKING_TAGS.sub("", "\n\n".join(plain)).strip()
        return text if len(text) <= LONG else text.rsplit("\n\n", 1)[-1].strip()[-LONG:]

    @property
    def wants_tagged_thinking(self) -> bool:
        """Whether the prompt asks for thinking between tags."""
        return bool(THINKING_WANTED.search(self.content) or THINKING_WANTED.search(self.instructions))

    @property
    def size(self) -> int:
        """Prompt tokens, at four characters a token."""
        return 1 + sum(map(len, (self.content, *self.earlier))) // 4


def without_reminders(text: str) -> str:
    """*text* without what stands between `REMINDERS`."""
    for tag in REMINDERS:
        kept, (first, *rest) = [], text.split(f"<{tag}>")
        for part in rest:
            _, closed, behind = part.partition(f"</{tag}>")
            kept.append(behind if closed else part)
        text = "".join((first, *kept))
    return text.strip()


@frozen
class ChatTurn:
    """One message."""

    side: str
    """``user`` or ``assistant``."""

    text: str = ""
    images: tuple[tuple[str, str], ...] = ()
    """Media type and base64 of each."""

    results: tuple[Result, ...] = ()

    def __add__(self, other: ChatTurn) -> ChatTurn:
        text = "\n".join(part for part in (self.text, other.text) if part)
        return ChatTurn(self.side, text, self.images + other.images, self.results + other.results)


def conversation_of(
    model: str,
    turns: Iterable[ChatTurn],
    *,
    system: str = "",
    tools: Iterable[OfferedTool] = (),
    thinks: bool = False,
    schema: Any = None,
) -> Conversation:
    """The conversation of *turns*; neighbours of one side are one message, and the system text is the first.

    A *schema* for the answer becomes an instruction in words.
    """
    merged: list[ChatTurn] = []
    for turn in turns:
        if merged and merged[-1].side == turn.side:
            merged[-1] += turn
        else:
            merged.append(turn)
    current = merged.pop() if merged and merged[-1].side == "user" else ChatTurn("user", "Go on.")
    wanted = "" if schema is None else f"\nAnswer in this JSON schema: {json.dumps(schema)}"
    return Conversation(
        model=model or "auto",
        content=current.text,
        earlier=(system + wanted, *(turn.text for turn in merged)),
        images=tuple((image_format(media_type), size_of(data)) for media_type, data in current.images),
        tools=tuple(tools),
        results=current.results,
        wants_native_thinking=thinks,
    )


def image_format(media_type: str) -> str:
    """The format of an image of this media type."""
    subtype = media_type.rpartition("/")[2]
    return _IMAGE_FORMATS.get(subtype, subtype)


def size_of(data: str) -> int:
    """Bytes that *data* stands for, which is base64."""
    return len(data.rstrip("=")) * 3 // 4
