"""What ends an answer early: the most tokens that were asked for, and stop sequences."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from kiro_asgi.simulator.question import Question
from kiro_asgi.simulator.scripts import Event, Repeat, Script, Step

__all__ = ["limited"]

SPOKEN = ("assistantResponseEvent", "reasoningContentEvent", "toolUseEvent")


def limited(script: Script, question: Question) -> Script:
    """*script*, ended where *question* wants it to end; each event counts as a token, in the way `Trailers` do."""
    script = _up_to_stop(script, question.stops) if question.stops else script
    return script if question.max_tokens is None else _up_to_length(script, question.max_tokens)


def _up_to_length(script: Script, most: int) -> Script:
    tokens_so_far = sum(_tokens(step) for step in script)
    return script if tokens_so_far <= most else tuple(_shortened(script, most))


def _tokens(step: Step) -> int:
    if isinstance(step, Repeat):
        return step.times
    return int(isinstance(step, Event) and step.type in SPOKEN)


def _shortened(script: Script, most: int) -> Iterator[Step]:
    left = most
    for step in script:
        tokens = _tokens(step)
        if isinstance(step, Repeat) and left:
            yield evolve(step, times=min(step.times, left))
        elif tokens <= left:
            yield _ended(step, stopReason="MAX_TOKENS")
        left = max(left - tokens, 0)


def _up_to_stop(script: Script, stops: tuple[str, ...]) -> Script:
    text = "".join(_text(step) or "" for step in script)
    places = sorted((at, stop) for stop in stops if stop and (at := text.find(stop)) >= 0)
    return tuple(_stopped(script, *places[0])) if places else script


def _stopped(script: Script, at: int, stop: str) -> Iterator[Step]:
    done = 0
    for step in script:
        content = _text(step)
        if content is not None and isinstance(step, Event):
            kept = content[: max(at - done, 0)]
            done += len(content)
            if kept:
                yield evolve(step, payload={**step.payload, "content": kept})
        elif done <= at or not _tokens(step):
            yield _ended(step, stopReason="STOP_SEQUENCE", stopSequence=stop)


def _text(step: Step) -> str | None:
    """The text of *step*, if that is what it is."""
    return step.payload["content"] if isinstance(step, Event) and step.type == "assistantResponseEvent" else None


def _ended(step: Step, **reason: str) -> Step:
    if isinstance(step, Event) and step.type == "metadataEvent":
        return evolve(step, payload={**step.payload, **reason})
    return step
