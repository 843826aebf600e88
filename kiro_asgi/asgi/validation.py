"""Structured answers against their JSON Schema, where jsonschema is installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from logging import getLogger
from typing import Any

__all__ = ["complaint_for"]

_log = getLogger("kiro_asgi")


def complaint_for(schema: Mapping[str, Any]) -> Callable[[Any], str]:
    """What finds the place, as a JSON path, where a value does not match *schema*; empty where none is known."""
    return partial(_complaint, schema)


def _complaint(schema: Mapping[str, Any], value: Any) -> str:
    try:
        from jsonschema import Draft202012Validator, validators
        from referencing import Registry
    except ImportError:
        return ""
    if not schema or "patternProperties" in str(schema):
        return ""  # A client's regular expression may take for ever, so none is run.
    unhurried = validators.extend(Draft202012Validator, {"pattern": lambda *_: ()})
    try:
        Draft202012Validator.check_schema(schema)
        # A registry of our own: the default one fetches what a reference names.
        error = next(unhurried(schema, registry=Registry()).iter_errors(value), None)
    except Exception as why:  # noqa: BLE001 - a client's schema may be anything, and the answer is there already
        _log.warning("the schema cannot be checked: %s", type(why).__name__)
        return ""
    return "" if error is None else str(error.json_path)
