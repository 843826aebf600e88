"""Options of an answer in Converse: its length, sampling, and how a model is asked to think.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InferenceConfiguration.html
"""

from __future__ import annotations

from typing import Any, Final

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.bedrock import claude
from kiro_asgi.upstreams.bedrock.models import Family
from kiro_asgi.upstreams.models import effort_of, nearest_effort

__all__ = ["claude_options", "model_options"]

_DEFAULT_EFFORT: Final = "medium"
"""Of who wants thinking and says no more."""

_INFERENCE: Final = (
    ("maxTokens", "max_tokens"),
    ("temperature", "temperature"),
    ("topP", "top_p"),
    ("stopSequences", "stop_sequences"),
)
"""Members of ``inferenceConfig``, and what the Messages API calls them."""


def claude_options(
    prompt: Prompt, model: ModelCard, resumed: bool, betas: tuple[str, ...], notes: Notes
) -> dict[str, Any]:
    """Length, thinking and sampling of Claude.

    Args:
        prompt: What is asked.
        model: Of whom, as `kiro_asgi.upstreams.bedrock.claude.known` has it.
        resumed: Whether the model is in the middle of a turn that does not begin with thinking.
        betas: The operator's.
        notes: What was adapted.
    """
    fields = claude.fields(prompt, model, resumed, notes)
    inference = {ours: fields.pop(theirs) for ours, theirs in _INFERENCE if theirs in fields}
    if kept := claude.betas((*betas, *prompt.betas), notes):
        fields["anthropic_beta"] = kept
    made: dict[str, Any] = {"inferenceConfig": inference, "additionalModelRequestFields": fields}
    if "stopSequences" in inference:
        made["additionalModelResponseFieldPaths"] = ["/delta/stop_sequence"]
    return made


def model_options(prompt: Prompt, peculiar: Family, notes: Notes) -> dict[str, Any]:
    """Length, sampling and reasoning of models that are not Claude."""
    sampling = prompt.sampling
    for name in sampling.given(("seed", "presence_penalty", "frequency_penalty")):
        notes.applies("sampling.ignored", name)
    stops = [text for text in sampling.stop if text and not text.isspace()]
    if len(stops) != len(sampling.stop):
        notes.applies("sampling.stop_blank", "stop_sequences")
    inference: dict[str, Any] = {}
    if sampling.max_tokens is not None:
        inference["maxTokens"] = max(sampling.max_tokens, 1)
    if peculiar.sampled:
        inference |= _sampled(prompt, notes)
    else:
        for name in sampling.given(("temperature", "top_p")):
            notes.applies("sampling.model", name)
    if stops:
        inference["stopSequences"] = stops
    own: dict[str, Any] = {}
    if sampling.top_k is not None and peculiar.top_k:
        *outer, last = peculiar.top_k
        own = {last: sampling.top_k}
        for name in reversed(outer):
            own = {name: own}
    elif sampling.top_k is not None:
        notes.applies("sampling.model", "top_k")
    own |= _reasoning(prompt, peculiar, notes)
    return {"inferenceConfig": inference, "additionalModelRequestFields": own}


def _sampled(prompt: Prompt, notes: Notes) -> dict[str, Any]:
    sampling, made = prompt.sampling, {}
    if sampling.temperature is not None:
        if sampling.temperature > 1:
            notes.applies("sampling.temperature", "temperature")
        made["temperature"] = min(sampling.temperature, 1)
    if sampling.top_p is not None:
        made["topP"] = sampling.top_p
    return made


def _reasoning(prompt: Prompt, peculiar: Family, notes: Notes) -> dict[str, Any]:
    """The member by which the model is asked to reason; nothing where that is not wanted, or it cannot be asked."""
    wanted = prompt.thinking
    if not wanted.wanted and not wanted.effort:
        return {}
    if peculiar.reasoning is None:
        notes.applies("thinking.unavailable", "thinking")
        return {}
    effort = wanted.effort or (effort_of(wanted.budget_tokens) if wanted.budget_tokens else _DEFAULT_EFFORT)
    if effort == "none" and "none" not in peculiar.reasoning.levels:
        return {}
    nearest = nearest_effort(effort, peculiar.reasoning.levels)
    if nearest != wanted.effort:
        notes.applies("thinking.effort", "thinking")
    return peculiar.reasoning.fields(nearest) if nearest else {}
