"""What the service refuses about ``generationConfig``, ``toolConfig`` and ``safetySettings``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kiro_asgi.simulator.conversation import as_list, as_map
from kiro_asgi.simulator.format import FormatRule, Json
from kiro_asgi.simulator.gemini.reader import either
from kiro_asgi.simulator.question import Question

__all__ = ["OPTIONS"]

RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "temperature": (0, 2),
    "topP": (0, 1),
    "topK": (1, 1_000_000),
    "candidateCount": (1, 1),
    "maxOutputTokens": (1, 65_536),
    "presencePenalty": (-2, 2),
    "frequencyPenalty": (-2, 2),
}
"""Numbers and their bounds, both included."""

BUDGETS: Final[Mapping[str, tuple[int, int]]] = {
    "gemini-2.5-pro": (128, 32_768),
    "gemini-2.5-flash": (0, 24_576),
    "gemini-2.5-flash-lite": (512, 24_576),
    "gemini-3-pro-preview": (128, 32_768),
}
"""Model to the bounds of its thinking budget; besides, -1 is a budget of all, and 0 one of Flash-Lite."""

MODES: Final = ("MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED")
MAX_STOPS: Final = 5
CATEGORIES: Final = frozenset(
    f"HARM_CATEGORY_{word}"
    for word in ("HARASSMENT", "HATE_SPEECH", "SEXUALLY_EXPLICIT", "DANGEROUS_CONTENT", "CIVIC_INTEGRITY")
)
THRESHOLDS: Final = frozenset(("OFF", "BLOCK_NONE", "BLOCK_ONLY_HIGH", "BLOCK_MEDIUM_AND_ABOVE", "BLOCK_LOW_AND_ABOVE"))


def _options(document: Json) -> Mapping[str, Any]:
    return as_map(either(document, "generationConfig"))


def numbers_in_range(document: Json, _: Question) -> str:
    """Temperature, ``topP`` … are numbers within their bounds."""
    for name, (least, most) in RANGES.items():
        value = either(_options(document), name)
        if value is None:
            continue
        if not isinstance(value, int | float) or not least <= value <= most:
            return f"* GenerateContentRequest.generation_config.{name}: {name} must be in the range [{least}, {most}]."
    return ""


def few_stops(document: Json, _: Question) -> str:
    """There are five stop sequences at most, none empty."""
    stops = as_list(either(_options(document), "stopSequences"))
    if len(stops) <= MAX_STOPS and all(stops):
        return ""
    return "* GenerateContentRequest.generation_config.stop_sequences: at most 5 stop sequences, none of them empty."


def thinking_possible(document: Json, question: Question) -> str:
    """A thinking budget is within the model's bounds; a level is for Gemini 3 only, and never beside a budget."""
    thinking = as_map(either(_options(document), "thinkingConfig"))
    budget, level = either(thinking, "thinkingBudget"), either(thinking, "thinkingLevel")
    if budget is not None and level is not None:
        return "You can only set only one of thinking budget and thinking level."
    if level is not None:
        known = question.model.startswith("gemini-3") and str(level).lower() in ("low", "high")
        return "" if known else "Thinking level is not supported for this model."
    if budget is None or question.model not in BUDGETS:
        return ""
    if not isinstance(budget, int):
        return "Invalid value at 'generation_config.thinking_config.thinking_budget' (TYPE_INT32)"
    least, most = BUDGETS[question.model]
    if budget == -1 or (budget == 0 and "flash" in question.model) or least <= budget <= most:
        return ""
    return f"The thinking budget {budget} is invalid. Please choose a value between {least} and {most}."


def thinking_leaves_room(document: Json, _: Question) -> str:
    """The most tokens of the answer are more than the thinking budget, which is a part of them."""
    budget = either(as_map(either(_options(document), "thinkingConfig")), "thinkingBudget")
    most = either(_options(document), "maxOutputTokens")
    if budget is None or most is None or most > budget:
        return ""
    return "The thinking budget must be less than max_output_tokens."


def calling_configured(document: Json, _: Question) -> str:
    """``functionCallingConfig`` has a known mode, comes with functions, and allows only those, with ``ANY``."""
    config = as_map(either(as_map(either(document, "toolConfig")), "functionCallingConfig"))
    mode, allowed = config.get("mode", "AUTO"), as_list(either(config, "allowedFunctionNames"))
    tools = (as_map(tool) for tool in as_list(document.get("tools")))
    names = [as_map(one).get("name") for tool in tools for one in as_list(either(tool, "functionDeclarations"))]
    if mode not in MODES:
        return f"Invalid value at 'tool_config.function_calling_config.mode', \"{mode}\""
    if config and not names:
        return "Function calling config is set without function_declarations."
    if allowed and mode not in ("ANY", "VALIDATED"):
        return "Allowed function names are only supported with the modes ANY and VALIDATED."
    unknown = next((name for name in allowed if name not in names), None)
    return "" if unknown is None else f"allowed_function_names: {unknown} is not a declared function."


def safety_known(document: Json, _: Question) -> str:
    """Safety settings have known categories, each once, and known thresholds."""
    settings = [as_map(one) for one in as_list(either(document, "safetySettings"))]
    categories = [str(one.get("category")) for one in settings]
    if not set(categories) <= CATEGORIES or not {str(one.get("threshold")) for one in settings} <= THRESHOLDS:
        return "Invalid value at 'safety_settings'"
    return "" if len(set(categories)) == len(categories) else "safety_settings: element has duplicate category."


OPTIONS: Final[tuple[FormatRule, ...]] = (
    numbers_in_range,
    few_stops,
    thinking_possible,
    thinking_leaves_room,
    calling_configured,
    safety_known,
)
