"""Token counts as the services' APIs write them, read alike whether an answer is translated or relayed.

A report whose counts are all 0 comes from a server that does not count: it says nothing.

Sources: ``anthropic.types.beta.BetaUsage`` of version 2.14.0, ``openai.types.CompletionUsage`` and
``openai.types.responses.ResponseUsage`` of version 3.57.0,
https://ai.google.dev/api/generate-content#UsageMetadata
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kiro_asgi.model.events import SideRun, TokenUsage
from kiro_asgi.wire.json import count_of, object_of, objects_of, text_of

_IN_THE_SUM: Final = frozenset({"message", "fallback_message"})
"""Kinds of ``usage.iterations`` whose tokens are among those of the message."""

_BESIDE: Final = frozenset({"compaction", "advisor_message"})
"""Kinds whose tokens are not, and are charged all the same."""


def messages_counts(usage: Mapping[str, Any]) -> TokenUsage:
    """Counts of the Messages API; a summary of the conversation, and an advisor, are runs beside the message."""
    details = object_of(usage.get("output_tokens_details"))
    runs = usage.get("iterations")
    return _told(
        TokenUsage(
            input_tokens=count_of(usage, "input_tokens"),
            output_tokens=count_of(usage, "output_tokens"),
            cache_read_tokens=count_of(usage, "cache_read_input_tokens"),
            cache_write_tokens=count_of(usage, "cache_creation_input_tokens"),
            thinking_tokens=count_of(details, "thinking_tokens"),
            side_runs=tuple(map(_side_run, _runs_beside(runs))) if type(runs) is list else None,
        )
    )


def unknown_runs(usage: Mapping[str, Any]) -> Iterator[str]:
    """Kinds of ``usage.iterations`` of which it is not known whether the message's counts hold them.

    They are counted beside these, for each is a run of a model of its own.
    """
    return (kind for run in _runs_beside(usage.get("iterations")) if (kind := text_of(run, "type")) not in _BESIDE)


def _runs_beside(runs: Any) -> Iterator[Mapping[str, Any]]:
    return (run for run in objects_of(runs) if text_of(run, "type") not in _IN_THE_SUM)


def _side_run(run: Mapping[str, Any]) -> SideRun:
    return SideRun(
        text_of(run, "type"),
        text_of(run, "model"),
        count_of(run, "input_tokens") or 0,
        count_of(run, "output_tokens") or 0,
        count_of(run, "cache_read_input_tokens") or 0,
        count_of(run, "cache_creation_input_tokens") or 0,
    )


def chat_counts(usage: Mapping[str, Any]) -> TokenUsage:
    """Counts of Chat Completions.

    What was read from or written to a cache is among the prompt's tokens.  Thinking is among those of the answer, but
    where the total shows that it is not, as xAI's does.
    """
    prompt_details = object_of(usage.get("prompt_tokens_details"))
    prompt, answer = count_of(usage, "prompt_tokens"), count_of(usage, "completion_tokens")
    thought = count_of(object_of(usage.get("completion_tokens_details")), "reasoning_tokens")
    if prompt is not None and answer is not None and thought:
        answer += thought if count_of(usage, "total_tokens") == prompt + answer + thought else 0
    cached = count_of(prompt_details, "cached_tokens")
    if cached is None:  # DeepSeek's
        cached = count_of(usage, "prompt_cache_hit_tokens")
    if cached is None:  # Moonshot's
        cached = count_of(usage, "cached_tokens")
    written = count_of(prompt_details, "cache_write_tokens")
    return _told(TokenUsage(_uncached(prompt, cached, written), answer, cached, written, thought))


def responses_counts(usage: Mapping[str, Any]) -> TokenUsage:
    """Counts of the Responses API, each as in Chat Completions."""
    of_input, of_output = object_of(usage.get("input_tokens_details")), object_of(usage.get("output_tokens_details"))
    cached, written = count_of(of_input, "cached_tokens"), count_of(of_input, "cache_write_tokens")
    prompt, thought = count_of(usage, "input_tokens"), count_of(of_output, "reasoning_tokens")
    answer = count_of(usage, "output_tokens")
    return _told(TokenUsage(_uncached(prompt, cached, written), answer, cached, written, thought))


def gemini_counts(metadata: Mapping[str, Any]) -> TokenUsage:
    """Counts of ``usageMetadata``.

    Thoughts are not among those of the candidates, what tools added is not among those of the prompt, and what was
    read from a cache is.  Nothing where the total is 0: LiteLLM writes 0 for what it does not know.
    """
    if metadata.get("totalTokenCount") == 0:
        return TokenUsage()
    cached, thought = count_of(metadata, "cachedContentTokenCount"), count_of(metadata, "thoughtsTokenCount")
    prompt, answer = count_of(metadata, "promptTokenCount"), count_of(metadata, "candidatesTokenCount")
    if prompt is not None:
        prompt += count_of(metadata, "toolUsePromptTokenCount") or 0
    if answer is not None or thought is not None:
        answer = (answer or 0) + (thought or 0)
    images = _image_tokens(metadata)
    return _told(TokenUsage(_uncached(prompt, cached, None), answer, cached, None, thought, images))


def _image_tokens(metadata: Mapping[str, Any]) -> int | None:
    """The tokens of candidates that are images; ``None`` where nothing is said of what they are."""
    details = objects_of(metadata.get("candidatesTokensDetails"))
    images = (count_of(each, "tokenCount") or 0 for each in details if text_of(each, "modality") == "IMAGE")
    return sum(images) if "candidatesTokensDetails" in metadata else None


def _uncached(prompt: int | None, read: int | None, written: int | None) -> int | None:
    return None if prompt is None else max(prompt - (read or 0) - (written or 0), 0)


def _told(usage: TokenUsage) -> TokenUsage:
    """*usage*, unless all of it is 0."""
    counts = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
    return usage if any(counts) or usage.thinking_tokens or usage.side_runs else TokenUsage()
