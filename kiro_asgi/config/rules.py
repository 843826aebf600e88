"""What a value must be beyond its type: tables by path, and their only reader.

All members of a family have the rules of one path, e.g. ``custom.*.endpoint``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.config.leaves import Leaf, leaves, members_of
from kiro_asgi.config.shapes import SHAPES
from kiro_asgi.config.wholes import conflicts
from kiro_asgi.errors import ConfigError

__all__ = ["BOUNDS", "CHOICES", "SHAPES", "complaint", "require", "violations"]

DAY: Final = 86_400.0
MOMENT: Final = 0.001
"""The shortest time that is not "at once"."""

_OPENAI: Final = ("openai", "custom.*")
_DIRECT: Final = ("gemini", "anthropic", *_OPENAI)
"""Slices that share their settings."""

CHOICES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "kiro.wire_style": ("rest", "rpc"),
        "kiro.fake_reasoning_handling": ("as_reasoning_content", "remove", "pass", "strip_tags"),
        "kiro.thinking_scan": ("start", "anywhere"),
        "kiro.checksums": ("strict", "warn", "off"),
        "kiro.write_back": ("files", "stores", "nowhere"),
        "kiro.tool_history": ("native", "text", "auto"),
        "kiro.translation": ("native", "contract"),
        "gemini.safety_threshold": (
            "",
            "OFF",
            "BLOCK_NONE",
            "BLOCK_ONLY_HIGH",
            "BLOCK_MEDIUM_AND_ABOVE",
            "BLOCK_LOW_AND_ABOVE",
        ),
        **{f"{service}.token_scheme": ("bearer", "token") for service in _OPENAI},
        **{f"{service}.max_tokens_field": ("max_completion_tokens", "max_tokens") for service in _OPENAI},
        "preset": ("native", "contract"),
        "stream.language": ("en", "zh"),
        **{f"{service}.call_ids": ("auto", "any", "nine") for service in _OPENAI},
        **{f"{service}.relay": ("auto", "allow", "never") for service in _OPENAI},
        "stream.relay": ("auto", "unrepaired", "never"),
        "http_library": ("httpcore", "httpcore2"),
        "stream.usage_chunk": ("own", "finish"),
        "stream.tool_emission": ("complete", "end", "incremental"),
        "structured.streaming": ("checked", "unchecked"),
        "state.engine": ("memory", "sqlite"),
    }
)

BOUNDS: Final[Mapping[str, tuple[float, float]]] = MappingProxyType(
    {
        "kiro.first_token_timeout": (MOMENT, DAY),
        "kiro.thinking_first_token_timeout": (MOMENT, DAY),
        "kiro.models_ttl": (0, 30 * DAY),
        **{f"{service}.first_token_timeout": (MOMENT, DAY) for service in _DIRECT},
        **{f"{service}.thinking_first_token_timeout": (MOMENT, DAY) for service in _DIRECT},
        **{f"{service}.models_ttl": (0, 30 * DAY) for service in _DIRECT},
        "kiro.refresh_margin": (0, DAY),
        "kiro.description_limit": (1, 10_000),
        "kiro.max_images": (0, 1000),
        "kiro.payload_bytes": (0, 2**40),
        "kiro.server_tool_timeout": (MOMENT, DAY),
        "stream.heartbeat": (0, DAY),
        "stream.early_commit_after": (0, DAY),
        "stream.idle_timeout": (0, DAY),
        "fetch.max_bytes": (1, 2**40),
        "fetch.timeout": (MOMENT, DAY),
        "limits.body_bytes": (1, 2**40),
        "limits.body_bytes_in_flight": (2, 2**41),
        "limits.body_timeout": (MOMENT, DAY),
        "limits.connections": (1, 2**20),
        "limits.queue": (0, 2**20),
        "limits.keep_alive": (0, DAY),
        "limits.connect_timeout": (MOMENT, DAY),
        "limits.request_timeout": (MOMENT, DAY),
        "limits.write_timeout": (MOMENT, DAY),
        "limits.tool_input_bytes": (1, 2**40),
        "limits.answer_bytes": (1, 2**40),
        "retry.attempts": (1, 100),
        "retry.timeout_attempts": (1, 100),
        "retry.base": (0, DAY),
        "retry.factor": (1, 100),
        "retry.max_wait": (0, DAY),
        "retry.jitter": (0, 1),
        "retry.rate_base": (0, DAY),
        "retry.capacity_base": (0, DAY),
        "retry.suspicion": (0, 30 * DAY),
        "retry.refused_base": (0, DAY),
        "retry.refused_cap": (0, DAY),
        "retry.quota_probe": (0, DAY),
        "recovery.ttl": (0, 30 * DAY),
        "state.ttl": (0, 30 * DAY),
        "state.entries": (0, 2**20),
        "state.bytes": (0, 2**40),
    }
)
"""Lowest and highest value, both included."""


TYPES: Final[Mapping[Any, str]] = MappingProxyType(
    {
        bool: "true or false",
        int: "a whole number",
        float: "a number",
        str: "text",
        tuple[str, ...]: "a list of texts",
    }
)


def complaint(leaf: Leaf, value: Any) -> str:
    """What is wrong with *value*, in words that follow the name of the setting; empty when nothing is.

    The words never repeat a secret, nor a text of the wrong shape: it may hold one.
    """
    if not has_type(leaf.type, value):
        return f"must be {TYPES[leaf.type]}{_shown(leaf, value)}"
    if (choices := CHOICES.get(leaf.rule)) is not None and value not in choices:
        return f"must be one of {', '.join(filter(None, choices))}{_shown(leaf, value)}"
    if (bounds := BOUNDS.get(leaf.rule)) is not None and not bounds[0] <= value <= bounds[1]:
        return f"must be from {bounds[0]:.15g} to {bounds[1]:.15g}{_shown(leaf, value)}"
    if (shape := SHAPES.get(leaf.rule)) is not None and value != leaf.default:
        fits, words = shape
        return "" if all(map(fits, value if isinstance(value, tuple) else (value,))) else f"must be {words}"
    return ""


def violations(root: type, values: Mapping[str, Any]) -> tuple[str, ...]:
    """One line for every value that breaks its rule, and for all that do not go together."""
    members = members_of(root, values)
    known = leaves(root, members)
    found = ((path, complaint(known[path], value)) for path, value in values.items())
    return tuple(f"{path}: {words}" for path, words in (*found, *conflicts(members, values)) if words)


def require(problems: Iterable[str]) -> None:
    """Accept no problems.

    Raises:
        ConfigError: There are some; the message has one line for each.
    """
    if lines := tuple(problems):
        head = "1 setting cannot be used" if len(lines) == 1 else f"{len(lines)} settings cannot be used"
        raise ConfigError("\n  ".join((f"{head}:", *lines)), code="config.invalid")


def has_type(kind: Any, value: Any) -> bool:
    """Whether *value* is of a setting's type, without any coercion; a whole number will do for a ``float``."""
    if kind is bool or kind is str:
        return type(value) is kind
    if kind is int:
        return type(value) is int
    if kind is float:
        return type(value) is int or (type(value) is float and abs(value) != float("inf") and value == value)
    return type(value) is tuple and all(type(item) is str for item in value)


def _shown(leaf: Leaf, value: Any) -> str:
    return "" if leaf.secret else f", not {value!r:.60}"
