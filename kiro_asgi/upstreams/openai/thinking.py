"""How a server is told whether to think, and how hard.

OpenAI has one field for both; other servers have switches of their own beside it, or in place of it.

Sources: https://platform.openai.com/docs/guides/reasoning, and those in `kiro_asgi.upstreams.openai.services`
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Prompt, Thinking, ThinkingMode
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.models import effort_of, nearest_effort
from kiro_asgi.upstreams.openai.calls import API
from kiro_asgi.upstreams.openai.models import USUAL_EFFORTS, efforts_of
from kiro_asgi.wire.json import object_of

EFFORT: Final = "reasoning_effort"


@frozen
class Switch:
    """Fields that turn thinking on and off."""

    on: Mapping[str, Any]
    off: Mapping[str, Any]
    level: tuple[str, str] = ("", EFFORT)
    """Where the effort stands: the object that holds it, empty for the request itself, and its name there."""

    levelled: bool = False
    """Whether efforts are known of every model; else they are sent where the settings name them."""


SWITCHES: Final[Mapping[str, Switch]] = MappingProxyType(
    {
        "thinking": Switch({"thinking": {"type": "enabled"}}, {"thinking": {"type": "disabled"}}),
        "enable_thinking": Switch({"enable_thinking": True}, {"enable_thinking": False}),
        "chat_template_kwargs": Switch(  # templates of models have one name or the other, and pass over what they lack
            {"chat_template_kwargs": {"enable_thinking": True, "thinking": True}},
            {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}},
        ),
        "reasoning": Switch(
            {"reasoning": {"enabled": True}}, {"reasoning": {"enabled": False}}, ("reasoning", "effort"), levelled=True
        ),
    }
)
"""Setting ``thinking_control`` to the fields that it stands for."""

AS_SAID: Final = "auto"
NOT_SAID: Final = "none"

CONTROLS: Final = (AS_SAID, EFFORT, *SWITCHES, NOT_SAID)
"""Values of the setting."""

SWITCHED: Final = frozenset(name for switch in SWITCHES.values() for name in switch.off)
"""Fields that a server may refuse, and a request can do without."""


def thinking_fields(
    prompt: Prompt, model: ModelCard, notes: Notes, control: str, efforts: tuple[str, ...]
) -> dict[str, Any]:
    """The fields about thinking; none where the client does not say.

    Args:
        prompt: The request.
        model: The model that is asked.
        notes: Gets the rules that applied.
        control: One of `CONTROLS`; `AS_SAID` is as the client has said it, who may know the server.
        efforts: As of `known_efforts`.
    """
    if control == AS_SAID:
        control = prompt.thinking.said or EFFORT
    if control == EFFORT and goes_as_sent(prompt, API, EFFORT):
        return {}
    if control == EFFORT:
        effort = reasoning_effort(prompt, model, notes, efforts)
        return {EFFORT: effort} if effort else {}
    thinking, off = prompt.thinking, prompt.thinking.mode is ThinkingMode.DISABLED
    if not (off or thinking.wanted or thinking.effort):
        return {}
    if (known := known_efforts(model, efforts)) == () or control == NOT_SAID:
        if control == NOT_SAID or not off:
            notes.applies("thinking.not_disabled" if off else "thinking.unavailable")
        return {}
    switch = SWITCHES[control]
    if off:
        return dict(switch.off)
    fields = {name: dict(value) if isinstance(value, Mapping) else value for name, value in switch.on.items()}
    if (efforts or switch.levelled) and (thinking.effort or thinking.budget_tokens is not None):
        inside, name = switch.level
        (fields[inside] if inside else fields)[name] = _level(thinking, known, notes)
    return fields


def goes_as_sent(prompt: Prompt, api: str, *path: str) -> bool:
    """Whether the member that *path* leads to goes to a service of this *api* as the client has it: a word that is
    unknown here."""
    if prompt.unread is None or prompt.unread.api != api:
        return False
    *outer, name = path
    members = prompt.unread.members
    for each in outer:
        members = object_of(members.get(each))
    return name in members


def reasoning_effort(prompt: Prompt, model: ModelCard, notes: Notes, efforts: tuple[str, ...] = ()) -> str:
    """The value of ``reasoning_effort``; empty where it is not sent."""
    thinking, known = prompt.thinking, known_efforts(model, efforts)
    if thinking.mode is ThinkingMode.DISABLED:
        return _weakest(known, notes)
    if not (thinking.wanted or thinking.effort):
        return ""
    if known == ():
        notes.applies("thinking.unavailable")
        return ""
    return _level(thinking, known, notes)


def known_efforts(model: ModelCard, efforts: tuple[str, ...] = ()) -> tuple[str, ...] | None:
    """Efforts that *model* knows: as its server lists them, as the settings name them for all of its models, or as its
    name shows.  ``None`` where nothing does."""
    if model.thinking is None:
        return model.efforts or efforts or efforts_of(model.id)
    return (model.efforts or efforts or efforts_of(model.id) or None) if model.thinking else ()


def _weakest(known: tuple[str, ...] | None, notes: Notes) -> str:
    if known == ():
        return ""
    if known is None or "none" not in known:
        notes.applies("thinking.not_disabled")
    return known[0] if known else ""


def _level(thinking: Thinking, known: tuple[str, ...] | None, notes: Notes) -> str:
    return nearest_effort(_wanted(thinking, notes), set(known or USUAL_EFFORTS) - {"none"})


def _wanted(thinking: Thinking, notes: Notes) -> str:
    if thinking.effort:
        return thinking.effort
    if thinking.budget_tokens is None:
        return "medium"
    notes.applies("thinking.budget_to_effort")
    return effort_of(thinking.budget_tokens)
