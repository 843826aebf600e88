"""How the contract's translator works."""

from __future__ import annotations

from typing import Any

from attrs import Attribute, field, frozen

from kiro_asgi.errors import ConfigError
from kiro_asgi.upstreams.kiro.contract.functions import BUDGETS
from kiro_asgi.upstreams.kiro.settings import KiroSettings

__all__ = ["ContractOptions", "contract_options"]


def _check_budgets(_: Any, __: Attribute[tuple[int, ...]], value: tuple[int, ...]) -> None:
    if len(value) != 2 or value[0] > value[1]:
        raise ConfigError("kiro.effort_budgets must be two numbers, the smaller one first", code="kiro.effort_budgets")


@frozen(kw_only=True)
class ContractOptions:
    """Choices that hold for all requests.

    Raises:
        ConfigError: Not two budgets, or the wrong way round.
    """

    description_limit: int = 256
    """Characters of a tool description; what is longer stands in full in the system text."""

    drop_tool_events: bool = True
    """Tell earlier tool calls and results as text, instead of as structures."""

    inline_tool_context: bool = False
    """Tell them in the turns that they belong to, instead of all of them in front of the current text."""

    strip_system_reminders: bool = True
    """Take complete ``<system-reminder>`` blocks out of all texts."""

    send_sidecar_fields: bool = False
    """Send manifest, tool choice, plan mode and metadata as members of their own, which the service does not know."""

    legacy_stop_map: bool = True
    """A stop sequence ends an answer as ``end_turn``, and so does every reason that the contract does not know."""

    plan_mode_key: str = "plan_mode"
    """The member of ``metadata`` that switches plan mode on."""

    effort_budgets: tuple[int, ...] = field(default=BUDGETS, validator=_check_budgets)
    """Largest thinking budgets, in tokens, that mean low and medium effort."""

    continue_text: str = "Continue"
    """The user's message where the assistant's is the last."""

    origin: str = "AI_EDITOR"


def contract_options(settings: KiroSettings) -> ContractOptions:
    """The choices that *settings* make.

    Raises:
        ConfigError: As for the class.
    """
    return ContractOptions(
        inline_tool_context=settings.inline_tool_context,
        send_sidecar_fields=settings.send_sidecar_fields,
        strip_system_reminders=settings.strip_system_reminders,
        legacy_stop_map=settings.legacy_stop_map,
        plan_mode_key=settings.plan_mode_key,
        effort_budgets=tuple(map(int, settings.effort_budgets)),
    )
