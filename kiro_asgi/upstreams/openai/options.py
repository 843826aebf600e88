"""Everything about an answer but the conversation: its length, how it is drawn, its form, how hard to think.

Whoever asks for thinking in so many words is believed to know about models of which nobody else does.

Sources: https://platform.openai.com/docs/api-reference/chat/create, https://platform.openai.com/docs/guides/reasoning
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Prompt, Sampling, Thinking, ThinkingMode
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.models import effort_of, nearest_effort
from kiro_asgi.upstreams.openai.models import USUAL_EFFORTS, efforts_of, longest_answer, refuses_sampling

MAX_STOPS: Final = 4
"""Stop sequences that OpenAI takes."""

_DRAWING: Final = ("temperature", "top_p", "presence_penalty", "frequency_penalty")


def written_options(
    prompt: Prompt, model: ModelCard, notes: Notes, *, custom: bool, max_tokens_field: str
) -> dict[str, Any]:
    """The fields.

    Args:
        prompt: What is asked.
        model: Of whom.
        notes: What had to be adapted.
        custom: Whether the server is another than OpenAI's: then it is sent what only others know.
        max_tokens_field: Name of the field with the answer's greatest length.
    """
    sampling = prompt.sampling
    fields: dict[str, Any] = {max_tokens_field: max_tokens(sampling, model, notes), "seed": sampling.seed}
    fields["stop"] = _stop(sampling, model, notes, custom=custom)
    fields["reasoning_effort"] = effort = reasoning_effort(prompt, model, notes) or None
    fields |= drawing(sampling, model, notes, thinks=effort != "none")
    if sampling.top_k is not None:
        if custom:
            fields["top_k"] = sampling.top_k
        else:
            notes.applies("sampling.top_k", "top_k")
    fields["verbosity"] = prompt.verbosity or None
    if prompt.schema is not None:
        fields["response_format"] = form_of(prompt.schema)
    return {name: value for name, value in fields.items() if value is not None}


def is_guaranteed(form: Mapping[str, Any]) -> bool:
    """Whether OpenAI's own service, asked for this *form* in either of its APIs, holds the model to it."""
    return form.get("type") == "json_object" or form.get("json_schema", form).get("strict") is True


def max_tokens(sampling: Sampling, model: ModelCard, notes: Notes) -> int | None:
    """The greatest length of the answer: clients of other services ask for more than a model of this one writes."""
    wanted, most = sampling.max_tokens, longest_answer(model)
    if wanted is None or most is None or wanted <= most:
        return wanted
    notes.applies("sampling.max_tokens", "max_tokens")
    return most


def _stop(sampling: Sampling, model: ModelCard, notes: Notes, *, custom: bool) -> list[str] | None:
    """The first of them, as many as the service takes; whoever reads the answer sees to the others."""
    if sampling.stop and refuses_sampling(model.id):
        notes.applies("stop.unavailable", "stop")
        return None
    if len(sampling.stop) > MAX_STOPS and not custom:
        notes.applies("stop.limit", "stop")
        return [*sampling.stop[:MAX_STOPS]]
    return [*sampling.stop] or None


def drawing(sampling: Sampling, model: ModelCard, notes: Notes, *, thinks: bool) -> dict[str, float]:
    """Temperature and its kin, where the model takes them; *thinks* tells whether it is going to."""
    given = {name: getattr(sampling, name) for name in sampling.given(_DRAWING)}
    if not given or not thinks or not refuses_sampling(model.id):
        return given
    for name in given:
        notes.applies("sampling.fixed", name)
    return {}


def form_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The form of an answer that obeys *schema*, in the words of Chat Completions."""
    if not schema:
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": _is_strict(schema)}}


def _is_strict(schema: Any) -> bool:
    """Whether the service can be held to *schema*: every object in it is closed, and all its members are required.

    Source: https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
    """
    if isinstance(schema, list | tuple):
        return all(map(_is_strict, schema))
    if not isinstance(schema, Mapping):
        return True
    properties = schema.get("properties")
    named = properties if isinstance(properties, Mapping) else {}
    if schema.get("type") == "object":
        required = schema.get("required")
        if schema.get("additionalProperties") is not False or not isinstance(required, list):
            return False
        if set(map(str, required)) != {*named}:
            return False
    inner = (value for key, value in schema.items() if key not in _VALUES)
    return all(map(_is_strict, (*named.values(), *inner)))


_VALUES: Final = frozenset({"properties", "required", "enum", "const", "default", "examples"})
"""Members of a schema that are no schemas."""


def reasoning_effort(prompt: Prompt, model: ModelCard, notes: Notes) -> str:
    """The value of ``reasoning_effort``; empty where it is not sent."""
    thinking = prompt.thinking
    known = _known_efforts(model)
    if thinking.mode is ThinkingMode.DISABLED:
        return _weakest(known, notes)
    if not (thinking.wanted or thinking.effort):
        return ""
    if known == ():
        notes.applies("thinking.unavailable")
        return ""
    return nearest_effort(_wanted(thinking, notes), set(known or USUAL_EFFORTS) - {"none"})


def _known_efforts(model: ModelCard) -> tuple[str, ...] | None:
    """Efforts that *model* knows; what its server lists counts more than its name.  ``None`` where nobody says."""
    if model.thinking is None:
        return model.efforts or efforts_of(model.id)
    return (model.efforts or efforts_of(model.id) or None) if model.thinking else ()


def _weakest(known: tuple[str, ...] | None, notes: Notes) -> str:
    if known == ():
        return ""
    if known is None or "none" not in known:
        notes.applies("thinking.not_disabled")
    return known[0] if known else ""


def _wanted(thinking: Thinking, notes: Notes) -> str:
    if thinking.effort:
        return thinking.effort
    if thinking.budget_tokens is None:
        return "medium"
    notes.applies("thinking.budget_to_effort")
    return effort_of(thinking.budget_tokens)
