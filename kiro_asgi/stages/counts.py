"""Token counts as the services' APIs write them, read alike whether an answer is translated or relayed.

A report whose counts are all 0 comes from a server that does not count: it says nothing.

Sources: ``anthropic.types.beta.BetaUsage`` of version 2.14.0, ``openai.types.CompletionUsage`` and
``openai.types.responses.ResponseUsage`` of version 3.57.0,
https://ai.google.dev/api/generate-content#UsageMetadata
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from attrs import define, field

from kiro_asgi.limits import USAGE_MEMBERS
from kiro_asgi.model.events import SideRun, TokenUsage
from kiro_asgi.wire.json import count, count_of, object_of, objects_of, text_of

_IN_THE_SUM: Final = frozenset({"message", "fallback_message"})
"""Kinds of ``usage.iterations`` whose tokens are among those of the message."""

_BESIDE: Final = frozenset({"compaction", "advisor_message"})
"""Kinds whose tokens are not, and are charged all the same."""


@define
class Reports:
    """The reports on the tokens of one answer, as one: a later one contains the earlier ones, or has other counts.

    A 0 takes the place of no other count: some servers end with a report of zeros.  What is no count is not kept.
    """

    _read: Callable[[Mapping[str, Any]], TokenUsage]
    """The counts of the API's report."""

    _whole: dict[str, Any] = field(init=False, factory=dict)

    def take(self, report: Mapping[str, Any]) -> None:
        """Add one."""
        _merge(self._whole, report)

    @property
    def counts(self) -> TokenUsage:
        """What they all say."""
        return self._read(self._whole)


_NAME: Final = 64
"""Most characters of a count's name."""

_LISTS: Final = frozenset({"iterations", "candidatesTokensDetails"})
"""Members of reports that are lists of counts."""


def _merge(whole: dict[str, Any], report: Mapping[str, Any]) -> None:
    for name, value in report.items():
        if type(value) is not dict:
            _keep(whole, name, value)
        elif name in whole or _has_room(whole, name):
            before = whole.get(name)
            inner = whole[name] = before if type(before) is dict else {}
            for key, each in value.items():
                _keep(inner, key, each)


def _keep(whole: dict[str, Any], name: str, value: Any) -> None:
    if name in whole and not value:
        return
    is_read = count(value) is not None or (type(value) is list and name in _LISTS)
    if is_read and (name in whole or _has_room(whole, name)):
        whole[name] = value


def _has_room(whole: Mapping[str, Any], name: str) -> bool:
    return len(whole) < USAGE_MEMBERS and len(name) <= _NAME


def messages_counts(usage: Mapping[str, Any]) -> TokenUsage:
    """Counts of the Messages API; a summary of the conversation, and an advisor, are runs beside the message."""
    details = object_of(usage.get("output_tokens_details"))
    runs = usage.get("iterations")
    return told(
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

    What was read from or written to a cache is among the prompt's tokens, and thinking among those of the answer, but
    where the total shows that it is not: thinking of xAI's and Google's, what other servers read from a cache.
    """
    of_prompt, of_answer = (object_of(usage.get(f"{side}_tokens_details")) for side in ("prompt", "completion"))
    return _of_sums(
        prompt=count_of(usage, "prompt_tokens"),
        answer=count_of(usage, "completion_tokens"),
        read=_first((of_prompt, *_READ), (usage, *_READ)),
        written=_first((of_prompt, *_WRITTEN), (usage, *_WRITTEN)),
        thought=_first((of_answer, "reasoning_tokens"), (usage, "reasoning_tokens")),
        total=count_of(usage, "total_tokens"),
    )


_READ: Final = ("cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens", "cache_read_tokens")
"""What servers call tokens that were read from a cache: OpenAI, DeepSeek, LiteLLM."""

_WRITTEN: Final = ("cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens")
"""What they call those that were written to one: OpenRouter, LiteLLM, DashScope."""


def _first(*places: tuple[Any, ...]) -> int | None:
    """The first count but 0 of objects, each with the names that it may have there; 0 if any is, else ``None``."""
    found = [number for place, *names in places for name in names if (number := count_of(place, name)) is not None]
    return next(filter(None, found), found[0] if found else None)


def responses_counts(usage: Mapping[str, Any]) -> TokenUsage:
    """Counts of the Responses API, each as in Chat Completions."""
    names = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
    names |= {f"{chat}_details": f"{ours}_details" for chat, ours in names.items()}
    return chat_counts({**usage, **{chat: usage.get(ours) for chat, ours in names.items()}})


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
    return _of_sums(
        prompt=prompt,
        answer=answer,
        read=cached,
        written=None,
        thought=thought,
        total=count_of(metadata, "totalTokenCount"),
        images=_image_tokens(metadata),
    )


def converse_counts(usage: Mapping[str, Any]) -> TokenUsage:
    """Counts of Bedrock's Converse: what was read from or written to a cache stands beside the prompt's."""
    return told(
        TokenUsage(
            input_tokens=count_of(usage, "inputTokens"),
            output_tokens=count_of(usage, "outputTokens"),
            cache_read_tokens=count_of(usage, "cacheReadInputTokens"),
            cache_write_tokens=count_of(usage, "cacheWriteInputTokens"),
        )
    )


def _image_tokens(metadata: Mapping[str, Any]) -> int | None:
    """The tokens of candidates that are images; ``None`` where nothing is said of what they are."""
    details = objects_of(metadata.get("candidatesTokensDetails"))
    images = (count_of(each, "tokenCount") or 0 for each in details if text_of(each, "modality") == "IMAGE")
    return sum(images) if "candidatesTokensDetails" in metadata else None


def _of_sums(
    *,
    prompt: int | None,
    answer: int | None,
    read: int | None,
    written: int | None,
    thought: int | None,
    total: int | None,
    images: int | None = None,
) -> TokenUsage:
    """Counts where those of a cache are among the prompt's, and *thought* is among the answer's.

    Tokens that only the *total* shows are those of the cache, where there are as many; else they are thinking.
    """
    cached, hidden = (read or 0) + (written or 0), 0
    if prompt is not None and answer is not None:
        hidden = max((total or 0) - prompt - answer, 0)
        if cached and hidden != thought and hidden in (cached, cached + (thought or 0)):
            prompt, hidden = prompt + cached, hidden - cached
        if hidden and (not thought or hidden == thought):
            answer, thought = answer + hidden, hidden
    uncached = None if prompt is None else max(prompt - cached, 0)
    return told(TokenUsage(uncached, answer, read, written, thought, images))


def told(usage: TokenUsage) -> TokenUsage:
    """*usage*, unless all of it is 0."""
    counts = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
    return usage if any(counts) or usage.thinking_tokens or usage.side_runs else TokenUsage()
