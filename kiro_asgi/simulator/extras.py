"""Markers that only formats other than Kiro's know, because only they have words for what these show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import evolve

from kiro_asgi.simulator.answers import ANSWERS, CHANGES, SENTENCE, Marker, number
from kiro_asgi.simulator.builders import Trailers, json_answer, text, thinking, words
from kiro_asgi.simulator.conversation import Conversation
from kiro_asgi.simulator.faults import FAULTS
from kiro_asgi.simulator.pieces import Hit, search
from kiro_asgi.simulator.scenarios import Repertoire
from kiro_asgi.simulator.scripts import Event, Script
from kiro_asgi.simulator.smalltalk import compose, thought_about

__all__ = ["EXTRA_ANSWERS", "EXTRA_CHANGES", "Change", "habit", "repertoire", "searched", "with_thought"]

Change = tuple[str, Callable[[Script, str], Script], str]

HITS: Final = (
    Hit("https://example.org/weather", "Weather of the day"),
    Hit("https://example.com/news", "News of the day"),
)


def searched(conversation: Conversation, script: Script) -> Script:
    """*script* with a search before its first text; without any text, *script*."""
    at = next((at for at, step in enumerate(script) if _is_text(step)), None)
    done = search(conversation.said[:80] or "simulated", *HITS)
    return script if at is None else (*script[:at], done, *script[at:])


def with_thought(conversation: Conversation, script: Script) -> Script:
    """*script* with a thought before everything else, if it calls and has none: what a call goes back with."""
    kinds = [step.type for step in script if isinstance(step, Event)]
    if "toolUseEvent" not in kinds or "reasoningContentEvent" in kinds:
        return script
    at = next(at for at, step in enumerate(script) if isinstance(step, Event))
    return (*script[:at], *thinking(*words(thought_about(conversation))), *script[at:])


def _is_text(step: Any) -> bool:
    return isinstance(step, Event) and step.type == "assistantResponseEvent"


def _search(conversation: Conversation, _: str) -> Script:
    return searched(conversation, compose(conversation, *text(*words(SENTENCE))))


def _refused(conversation: Conversation, _: str) -> Script:
    return compose(conversation, trailers=Trailers("REFUSED"))


def _finished(conversation: Conversation, parameter: str) -> Script:
    return compose(conversation, *text(*words(SENTENCE)), trailers=Trailers(parameter or "OTHER"))


def habit(shows: str, parameter: str = "") -> Change:
    """A change to how an answer is spoken, of which its encoder knows."""
    return shows, lambda script, _: script, parameter


def _cached(script: Script, parameter: str) -> Script:
    cached = int(number(parameter, 16, 1e6))
    return tuple(_with_cached(step, cached) if isinstance(step, Event) else step for step in script)


def _with_cached(step: Event, cached: int) -> Event:
    used = step.payload.get("tokenUsage")
    if used is None:
        return step
    return evolve(step, payload={**step.payload, "tokenUsage": {**used, "cacheReadInputTokens": cached}})


EXTRA_ANSWERS: Final[Mapping[str, Marker]] = {
    "refused": Marker("no answer: the model, or the service, refuses in the format's own words", _refused),
    "search": Marker("text that rests on a web search of the service's own", _search),
    "finish": Marker("a text with this very word as its reason to end", _finished, "word (OTHER)"),
}

EXTRA_CHANGES: Final[Mapping[str, Change]] = {
    "cached": ("usage with input tokens from a cache", _cached, "tokens (16)"),
    "unstreamed": habit("one document, although a stream was asked for"),
}


def repertoire(
    answers: Mapping[str, Marker],
    changes: Mapping[str, Change],
    refusals: Mapping[str, tuple[Any, ...]],
    refusal: Callable[..., Script],
    envelope: Callable[..., Any],
) -> Repertoire:
    """What a format can be asked for: all that Kiro can, with refusals in the format's words, and more.

    Args:
        answers: What only this format can answer.
        changes: How only this format can speak.
        refusals: Name of a fault to what *refusal* makes a script of.
        refusal: Makes a script of one of them, and of ``retry_after``.
        envelope: Makes a body of one of them.
    """
    faults = {name: Marker(f"status {words[0]}", _refusing(refusal, words)) for name, words in refusals.items()}
    delayed = Marker(FAULTS["429-retry-after"].shows, _throttled(refusal, refusals["429"]), "seconds (2)")
    friendly = Marker(FAULTS["json-200-error"].shows, lambda *_: json_answer(200, envelope(refusals["500"])))
    own = {**faults, "429-retry-after": delayed, "json-200-error": friendly}
    return Repertoire(
        {**ANSWERS, **EXTRA_ANSWERS, **answers}, {**CHANGES, **EXTRA_CHANGES, **changes}, {**FAULTS, **own}
    )


def _refusing(refusal: Callable[..., Script], refused: tuple[Any, ...]) -> Callable[[Conversation, str], Script]:
    return lambda conversation, parameter: refusal(*refused)


def _throttled(refusal: Callable[..., Script], refused: tuple[Any, ...]) -> Callable[[Conversation, str], Script]:
    return lambda conversation, parameter: refusal(*refused, retry_after=parameter or "2")
