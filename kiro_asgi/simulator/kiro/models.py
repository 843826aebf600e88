"""The models that the simulated Kiro service offers, and its list of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kiro_asgi.simulator.models import Model

FOUR: Final = ("low", "medium", "high", "max")
FIVE: Final = ("low", "medium", "high", "xhigh", "max")
GPT: Final = ("none", "low", "medium", "high", "xhigh", "max")

MODELS: Final = (
    Model("auto", 1_000_000, rate=1.0),
    Model("claude-sonnet-4.5", efforts=FOUR),
    Model("claude-sonnet-4"),
    Model("claude-sonnet-4.6", 1_000_000, efforts=FOUR),
    Model("claude-sonnet-5", 1_000_000, 128_000, efforts=FIVE),
    Model("claude-haiku-4.5", rate=0.4),
    Model("claude-opus-4.5", rate=2.2, efforts=FOUR),
    Model("claude-opus-4.6", 1_000_000, rate=2.2, efforts=FOUR),
    Model("claude-opus-4.7", 1_000_000, 128_000, 2.2, FIVE),
    Model("claude-opus-4.8", 1_000_000, 128_000, 2.2, FIVE),
    Model("claude-opus-5", 1_000_000, 128_000, 2.2, FIVE),
    Model("claude-3.7-sonnet"),
    Model("gpt-5.6-sol", 272_000, 128_000, 2.4, GPT, "gpt"),
    Model("gpt-5.6-terra", 272_000, 128_000, 1.2, GPT, "gpt"),
    Model("gpt-5.6-luna", 272_000, 128_000, 0.6, GPT, "gpt"),
    Model("deepseek-3.2", 164_000, rate=0.25, family="other"),
    Model("glm-5", rate=0.5, family="other"),
    Model("minimax-m2.5", rate=0.15, family="other"),
    Model("qwen3-coder-next", 256_000, rate=0.05, family="other"),
)


def options_schema(model: Model) -> dict[str, Any] | None:
    """Schema of ``additionalModelRequestFields``; ``None`` where the model has none.

    Claude takes ``output_config``, ``thinking`` and ``max_tokens``; GPT takes ``reasoning``.
    """
    if not model.efforts:
        return None
    effort = _object(effort={"type": "string", "enum": list(model.efforts)})
    if model.family == "gpt":
        return _object(reasoning=effort)
    return _object(
        output_config=effort,
        thinking=_object(
            type={"type": "string", "enum": ["adaptive", "disabled"]},
            display={"type": "string", "enum": ["summarized", "omitted"]},
        ),
        max_tokens={"type": "integer", "minimum": 1024, "maximum": model.output},
    )


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _entry(model: Model) -> Mapping[str, Any]:
    entry = {
        "modelId": model.id,
        "modelName": model.id.replace("-", " ").title(),
        "description": f"Simulated {model.id}",
        "rateMultiplier": model.rate,
        "rateUnit": "Credit",
        "tokenLimits": {"maxInputTokens": model.window, "maxOutputTokens": model.output},
        "supportedInputTypes": ["TEXT", "IMAGE"] if model.family != "other" else ["TEXT"],
        "promptCaching": {"supportsPromptCaching": model.family == "claude"},
    }
    schema = options_schema(model)
    return entry if schema is None else {**entry, "additionalModelRequestFieldsSchema": schema}


def listing(models: tuple[Model, ...]) -> dict[str, Any]:
    """The answer to ``ListAvailableModels``."""
    return {"defaultModel": {"modelId": models[0].id}, "models": [_entry(model) for model in models], "nextToken": None}
