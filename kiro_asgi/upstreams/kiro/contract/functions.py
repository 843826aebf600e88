"""Functions of the contract that stand on their own, as `kiro_asgi.streaming` offers them.

Efforts from budgets, JSON that may have been cut, texts without terminal escape sequences and control characters, and
schemas with the keywords that every service takes.

Source: https://www.ecma-international.org/publications-and-standards/standards/ecma-48/
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from kiro_asgi.model.prompt import Thinking, ThinkingMode, require_depth
from kiro_asgi.wire.json import JsonError, loads

BUDGETS: Final = (50, 200)
"""Largest budgets, in tokens, that mean low and medium effort."""


def reasoning_effort_from_budget(budget: int | None, low: int = BUDGETS[0], medium: int = BUDGETS[1]) -> str:
    """``low``, ``medium`` or ``high``.

    Args:
        budget: Tokens; ``None``, where nobody said, is ``high``.
        low: The largest budget that is ``low``.
        medium: The largest budget that is ``medium``.
    """
    if budget is None or budget > medium:
        return "high"
    return "low" if budget <= low else "medium"


def effort_of(thinking: Thinking, budgets: tuple[int, ...]) -> str:
    """The effort that a client asks for: in so many words, else by its budget.

    ``none`` where it declined thinking, empty where it did not speak of it.
    """
    if thinking.mode is ThinkingMode.DISABLED:
        return "none"
    return thinking.effort or (
        reasoning_effort_from_budget(thinking.budget_tokens, *budgets) if thinking.wanted else ""
    )


CUT_ESCAPES: Final = ("\\u", "\\u0", "\\u00")
"""How an escape sequence of a character looks that was cut."""


def safe_parse_json(value: str) -> Any:
    """Parse *value* as JSON: an object, a list or a primitive.

    White space around it is passed over, and so is the beginning of an escape sequence at its very end.

    Returns:
        The very same *value* where it is blank or not JSON.  ``NaN``, infinities, numbers that overflow and what is
        nested deeper than `kiro_asgi.limits.JSON_DEPTH` levels are not.
    """
    text = value.strip()
    if text.endswith("\\") and not text.endswith("\\\\"):
        text = text[:-1]
    elif text.endswith(CUT_ESCAPES):
        text = text[: text.rindex("\\u")]
    try:
        return loads(text)
    except JsonError:
        return value


OPEN: Final = "<system-reminder>"
CLOSE: Final = "</system-reminder>"

_NOISE: Final = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
    r"(?:(?<=\x1b)\[[0-?]*+[ -/]*+[@-~]?"  # a control sequence, complete or not
    r"|(?<=\x9b)[0-?]*+[ -/]*+[@-~]?"  # the same with its one-character introducer
    r"|(?<=\x1b)[]PX^_][^\x00-\x1f\x9c]*+(?:\x07|\x1b\\|\x9c)"  # a string for the terminal: its title, a link's address
    r"|(?<=\x1b)[ -/]?[0-~])?"  # any other escape sequence
)
"""A control character, and the escape sequence that it begins.  One class at the front keeps the search fast."""

_PIECE: Final = re.compile(r"[^>]*+>|[^>]+")


def sanitize_text(text: str, *, reminders: bool = True) -> str:
    """*text* without escape sequences and control characters; line feeds, carriage returns and tabs stay.

    Args:
        text: Any text; everything beyond the control characters stays as it is.
        reminders: Whether complete ``<system-reminder>`` blocks go, too: each from an opening tag to the first closing
            one behind it.  A tag that is never closed stays.
    """
    text = _NOISE.sub("", text)
    return strip_reminders(text) if reminders and CLOSE in text and OPEN in text else text


def strip_reminders(text: str) -> str:
    """*text* without complete ``<system-reminder>`` blocks.

    Removing a block may join a tag that stood around it, so tags are looked for in what is kept.
    """
    kept: list[str] = []
    opened = -1
    for piece in _PIECE.findall(text):
        kept.append(piece)
        if opened < 0:
            opened = _open(kept) if _ends_with(kept, OPEN) else -1
        elif _ends_with(kept, CLOSE):
            del kept[opened:]
            opened = -1
    return "".join(kept)


def _ends_with(kept: list[str], tag: str) -> bool:
    """Whether *tag* ends what is kept; no piece of it is empty."""
    return "".join(piece[-len(tag) :] for piece in kept[-len(tag) :]).endswith(tag)


def _open(kept: list[str]) -> int:
    """Where in *kept* the opening tag that ends it begins, from now on."""
    tail = ""
    while len(tail) < len(OPEN):
        tail = kept.pop() + tail
    if before := tail[: -len(OPEN)]:
        kept.append(before)
    kept.append(OPEN)
    return len(kept) - 1


KEPT: Final = frozenset(("type", "description", "properties", "required", "enum", "items"))


def clean_json_schema_properties(schema: Any) -> Any:
    """*schema* with six keywords only, at every level: ``type description properties required enum items``.

    Names of properties are no keywords and all stay.  What is not an object is returned as it is; *schema* itself is
    never changed.

    Raises:
        RequestError: It is nested deeper than `kiro_asgi.limits.JSON_DEPTH` levels.
    """
    require_depth(schema, "schema", "schema")
    return _cleaned(schema)


def _cleaned(schema: Any) -> Any:
    """The same of a schema whose depth is known."""
    if not isinstance(schema, Mapping):
        return schema
    return {key: _value(key, value) for key, value in schema.items() if key in KEPT}


def _value(key: str, value: Any) -> Any:
    if key == "properties" and isinstance(value, Mapping):
        return {name: _cleaned(part) for name, part in value.items()}
    return _cleaned(value) if key == "items" else value


def left_out(schema: Any) -> dict[str, int]:
    """Rules of what `clean_json_schema_properties` leaves out of *schema*, each with how often: keywords, and all of
    them of a part that had some."""
    found: dict[str, int] = {}
    pending = [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, Mapping):
            if dropped := len(node.keys() - KEPT):
                found["schema.keywords"] = found.get("schema.keywords", 0) + dropped
                if dropped == len(node):
                    found["contract.schema_emptied"] = found.get("contract.schema_emptied", 0) + 1
            properties = node.get("properties")
            pending += properties.values() if isinstance(properties, Mapping) else ()
            pending.append(node.get("items"))
    return found
