"""What the service refuses about thinking: how it is asked for, and how it comes back.

Source: https://docs.claude.com/en/docs/build-with-claude/extended-thinking
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kiro_asgi.simulator.anthropic.places import blocks, joined, of_type
from kiro_asgi.simulator.builders import SEALED, sign
from kiro_asgi.simulator.conversation import as_map
from kiro_asgi.simulator.format import FormatRule, Json
from kiro_asgi.simulator.question import Question

__all__ = ["THINKING"]

MIN_BUDGET: Final = 1024
THOUGHTS: Final = ("thinking", "redacted_thinking")
ADAPTIVE: Final = ("claude-opus-4-6",)
"""Models that think as they see fit, and know efforts."""


def _thinking(document: Json) -> Mapping[str, Any]:
    return as_map(document.get("thinking"))


def _thinks(document: Json) -> bool:
    return _thinking(document).get("type") in ("enabled", "adaptive")


def kind_possible(document: Json, question: Question) -> str:
    """Thinking is ``enabled`` with a budget, or ``disabled``; ``adaptive``, and an effort, with newer models only."""
    kind = _thinking(document).get("type", "disabled")
    if kind not in ("enabled", "disabled", "adaptive"):
        return "thinking: Input tag does not match any of the expected tags: 'enabled', 'disabled', 'adaptive'"
    newer = question.model.startswith(ADAPTIVE)
    if kind == "adaptive" and not newer:
        return "adaptive thinking is not supported on this model"
    effort = as_map(document.get("output_config")).get("effort")
    return "" if effort is None or newer else "This model does not support the effort parameter."


def budget_possible(document: Json, _: Question) -> str:
    """The budget is at least 1024, and less than ``max_tokens``."""
    if _thinking(document).get("type") != "enabled":
        return ""
    budget = _thinking(document).get("budget_tokens")
    if not isinstance(budget, int):
        return "thinking.enabled.budget_tokens: Field required"
    if budget < MIN_BUDGET:
        return "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
    return "" if budget < document["max_tokens"] else "`max_tokens` must be greater than `thinking.budget_tokens`."


def sampling_untouched(document: Json, _: Question) -> str:
    """With thinking, ``temperature`` is 1, ``top_p`` at least 0.95, and there is no ``top_k``."""
    if not _thinks(document):
        return ""
    if document.get("temperature", 1) not in (1, None):
        return "`temperature` may only be set to 1 when thinking is enabled."
    if document.get("top_k") is not None:
        return "`top_k` must be unset when thinking is enabled."
    top_p = document.get("top_p")
    if top_p is None or top_p >= 0.95:
        return ""
    return "`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled."


def nothing_forced(document: Json, _: Question) -> str:
    """With thinking, no tool has to be called."""
    forced = as_map(document.get("tool_choice")).get("type") in ("any", "tool")
    return "Thinking may not be enabled when tool_choice forces tool use." if forced and _thinks(document) else ""


def signatures_valid(document: Json, _: Question) -> str:
    """Thinking comes back as it was given, with its own signature."""
    for place, block in blocks(document):
        if block.get("type") == "thinking" and block.get("signature") != sign(str(block.get("thinking"))):
            return f"{place}: Invalid `signature` in `thinking` block"
        if block.get("type") == "redacted_thinking" and block.get("data") != SEALED:
            return f"{place}: Invalid `data` in `redacted_thinking` block"
    return ""


def turn_starts_with_thinking(document: Json, _: Question) -> str:
    """With a thinking budget, an assistant's message whose calls are being answered starts with thinking."""
    if _thinking(document).get("type") != "enabled":
        return ""
    for at, (side, content) in reversed(list(enumerate(joined(document)))):
        if side == "assistant":
            if not of_type(content, "tool_use") or content[0].get("type") in THOUGHTS:
                return ""
            return (
                f"messages.{at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
                f"`{content[0].get('type')}`. When `thinking` is enabled, a final `assistant` message must start with "
                "a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks)."
            )
    return ""


THINKING: Final[tuple[FormatRule, ...]] = (
    kind_possible,
    budget_possible,
    sampling_untouched,
    nothing_forced,
    signatures_valid,
    turn_starts_with_thinking,
)
