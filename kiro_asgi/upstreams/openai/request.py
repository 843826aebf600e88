"""A prompt in the words of Chat Completions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from kiro_asgi.model.notes import Note, Notes
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.openai.attachments import Attachments
from kiro_asgi.upstreams.openai.healing import CALL_IDS, DETAILED, RENAMED, REPLAYED
from kiro_asgi.upstreams.openai.messages import Messages
from kiro_asgi.upstreams.openai.options import written_options
from kiro_asgi.upstreams.openai.tools import tool_names, written_tools

__all__ = ["Document", "Wording", "document"]


_HEALED: Final[Mapping[str, str]] = MappingProxyType(
    {REPLAYED: "healed.reasoning", DETAILED: "healed.reasoning", CALL_IDS: "healed.call_ids"}
)
"""What was refused that is no field of its own, to the rule that sees to it."""


@frozen(kw_only=True)
class Wording:
    """How prompts are put, the same for all of them."""

    service: str = ""
    """Name of the upstream, which is handed back what it has said of its thinking; empty where it is not to be."""

    custom: bool = False
    """Whether the server is another than OpenAI's."""

    max_tokens_field: str = "max_completion_tokens"
    include_usage: bool = True
    replay_thinking: bool = False
    short_ids: bool = False
    """Whether ids of calls are nine letters and digits."""

    without: tuple[str, ...] = ()
    """Fields that the service refused, see `kiro_asgi.upstreams.openai.healing`."""


@frozen
class Document:
    """A request body, and what is to be known about it."""

    body: dict[str, Any]
    tool_names: Mapping[str, str]
    notes: tuple[Note, ...]


def document(prompt: Prompt, model: ModelCard, wording: Wording) -> Document:
    """The request body for *prompt*.

    Raises:
        RequestError: The prompt holds something that the service cannot be asked; the message names the rule.
    """
    notes = Notes()
    for name in wording.without:
        notes.applies(_HEALED.get(name, "healed.field"))
    names = tool_names(notes)
    tools = written_tools(prompt, names, notes)
    attachments = Attachments(notes, model.images, wording.custom)
    messages = Messages(
        notes,
        names,
        attachments,
        wording.service,
        replay_thinking=wording.replay_thinking,
        sign_calls=wording.custom,
        refusals=not wording.custom,
        short_ids=wording.short_ids or CALL_IDS in wording.without,
    )
    body: dict[str, Any] = {"model": model.id, "messages": messages.write(prompt), "stream": True}
    if wording.include_usage:
        body["stream_options"] = {"include_usage": True}
    field = wording.max_tokens_field
    body |= written_options(prompt, model, notes, custom=wording.custom, max_tokens_field=field)
    body |= tools
    _leave_out(body, wording.without)
    return Document(body, names.changed(), notes.found())


def _leave_out(body: dict[str, Any], fields: Iterable[str]) -> None:
    for name in fields:
        value = body.pop(name, None)
        if value is not None and name in RENAMED:
            body[RENAMED[name]] = value
