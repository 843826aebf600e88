"""What the service refuses about models and about the fields that go to them as they are."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.simulator.rules import Asked, Refusal, Rule

__all__ = ["MODEL"]

TYPES: Final[Mapping[str, type]] = MappingProxyType({"string": str, "integer": int, "object": dict})


def model_known(asked: Asked) -> bool:
    """The model is in the list."""
    return asked.models is None or asked.model is not None


def options_fit_model(asked: Asked) -> bool:
    """``additionalModelRequestFields`` has nothing that the model's own schema does not list.

    Effort of one family is refused by the other, and a model without a schema takes no field at all.
    """
    return not _problem(asked)


def _problem(asked: Asked) -> str:
    fields = asked.conversation.document.get("additionalModelRequestFields", {})
    if asked.models is None or fields == {}:
        return ""
    schema = asked.model.options_schema if asked.model else None
    return _misfit("additionalModelRequestFields", fields, schema or {"type": "object"})


def _misfit(name: str, value: Any, schema: Mapping[str, Any]) -> str:
    if not isinstance(value, TYPES[schema["type"]]) or isinstance(value, bool):
        return f"property '{name}' must be of type {schema['type']}"
    if value not in schema.get("enum", [value]):
        return f"property '{name}' must be one of {schema['enum']}"
    if isinstance(value, int) and not schema["minimum"] <= value <= schema["maximum"]:
        return f"property '{name}' must be between {schema['minimum']} and {schema['maximum']}"
    return _misfit_within(value, schema.get("properties", {})) if isinstance(value, dict) else ""


def _misfit_within(value: Mapping[str, Any], properties: Mapping[str, Any]) -> str:
    for name, part in value.items():
        if name not in properties:
            return f"property '{name}' is not defined in the schema"
        if problem := _misfit(name, part, properties[name]):
            return problem
    return ""


MODEL: Final = (
    Rule(
        model_known,
        Refusal(400, "Invalid model ID. Please select a different model to continue.", "INVALID_MODEL_ID"),
    ),
    Rule(options_fit_model, Refusal(400, "Invalid additionalModelRequestFields"), _problem),
)
