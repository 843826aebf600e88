"""The models that a request names beside its own: to stand in, to advise, to draw.

Services have many places for such names, and may get further ones: what is called like a model is one, wherever it
stands but in what the model reads.

Sources: https://openrouter.ai/docs/guides/routing/model-fallbacks,
https://docs.litellm.ai/docs/proxy/client_side_fallbacks, ``anthropic.types.beta`` (``fallbacks``, ``advisor_20260301``)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from kiro_asgi.errors import RequestError

NO_MODELS: Final[tuple[tuple[str, str], ...]] = ()

_NAMING: Final = frozenset({"fallback", "preset", "route"})
"""Members whose texts are names of models, beside those with ``model`` or ``fallbacks`` at their end."""

_ENDS: Final = ("model", "models", "modelname", "modellist", "fallbacks")

_DATA: Final = frozenset(
    {
        *("messages", "input", "contents", "system", "instructions", "systeminstruction", "prompt", "suffix"),
        *("documents", "prediction", "metadata", "clientmetadata", "labels"),
        *("inputschema", "parameters", "parametersjsonschema", "schema", "jsonschema", "responseschema"),
        *("responsejsonschema", "properties", "description"),
    }
)
"""Members that hold what the model reads, or the shape of that."""

_WORDS: Final = frozenset({"fallback"})
"""Words of ``route`` that name no model."""


def models_named(members: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Places and names of the models that a request with these *members* names, but for its own ``model``."""
    found: list[tuple[str, str]] = []
    pending = [(value, name, _is_naming(name)) for name, value in members.items() if name != "model"]
    pending = [each for each in pending if _folded(each[1]) not in _DATA]
    while pending:
        value, place, naming = pending.pop()
        if type(value) is str:
            if naming and value and value not in _WORDS:
                found.append((place, value))
        elif type(value) is list:
            pending += [(each, f"{place}[{at}]", naming) for at, each in enumerate(value)]
        elif isinstance(value, Mapping):
            for name, each in value.items():
                if _folded(name) not in _DATA:  # LiteLLM's maps have lists of names by names
                    names = _is_naming(name) or (naming and type(each) is list)
                    pending.append((each, f"{place}.{name}", names))
    return tuple(found)


def _folded(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _is_naming(name: str) -> bool:
    folded = _folded(name)
    return folded in _NAMING or folded.endswith(_ENDS)


def require_once(body: bytes) -> None:
    """Refuse a *body*, which is JSON, in which any object has a member twice: readers differ in which of them counts.

    Raises:
        RequestError: One has; ``param`` is its name.
    """
    json.JSONDecoder(object_pairs_hook=_once).decode(body.decode().strip("\ufeff \t\n\r"))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        raise twice(next(name for name in names if names.count(name) > 1))
    return members


def twice(name: str) -> RequestError:
    """The refusal of a request that has a member of this *name* twice."""
    shown = name[:60]
    return RequestError(f"{shown}: stands twice in one object; send it once", code="invalid_json", param=shown)
