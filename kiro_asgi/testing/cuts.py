"""The law of every stage: what it makes of its input does not depend on how that is cut."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from random import Random
from typing import Any, Final, TypeVar

from attrs import evolve

from kiro_asgi.model.events import (
    RefusalDelta,
    TextDelta,
    ThinkingDelta,
    ToolCallFragment,
    ToolInputDelta,
)
from kiro_asgi.stages.base import Pipeline, Stage
from kiro_asgi.stages.text_stage import SILENT

T = TypeVar("T", str, bytes)

_TEXTS: Final = {TextDelta: "text", RefusalDelta: "text", ThinkingDelta: "text", ToolInputDelta: "json"}
"""Class of what may come in pieces to its text."""

_PLACES: Final = 200
"""Places at which an input is cut in two; of a longer one, random ones."""


def check_cuts(make: Callable[[], Stage[Any, Any] | Iterable[Stage[Any, Any]]], data: bytes | Sequence[Any]) -> Any:
    """Fail unless a stage makes the same of an input however it is cut, and return what that is.

    Args:
        make: Makes a fresh stage, or several that run one after the other.
        data: The whole input: bytes, which are cut anywhere, or deltas, of which the texts are.

    Raises:
        AssertionError: It depends on the cut; the message has the cut, and the first difference.
    """
    whole = _result(make, [data] if isinstance(data, bytes) else [*data])
    for how, items in _cuts(data):
        found = _result(make, items)
        assert found == whole, f"{how}, the result is another: {_difference(whole, found)}"
    return whole[0]


def _cuts(data: bytes | Sequence[Any]) -> Iterator[tuple[str, list[Any]]]:
    if not isinstance(data, bytes):
        yield "cut into characters", [*chain.from_iterable(_each(item, lambda text: [*text]) for item in data)]
        for number in range(1, 20):
            pieces = chain.from_iterable(_each(item, partial(_random, Random(number))) for item in data)
            yield f"cut at random ({number})", [*pieces]
        return
    yield "cut into bytes", [data[at : at + 1] for at in range(len(data))]
    yield "with empty pieces", [b"", *chain.from_iterable((data[at : at + 7], b"") for at in range(0, len(data), 7))]
    places = range(1, len(data))
    for at in places if len(data) <= _PLACES else sorted(Random(0).sample(places, _PLACES)):
        yield f"cut at byte {at}", [data[:at], data[at:]]


def _each(item: Any, cut: Callable[[str], list[str]]) -> Iterator[Any]:
    """*item*, its text in pieces."""
    name = _TEXTS.get(type(item), "")
    if not name:
        yield item
        return
    for piece in cut(getattr(item, name)):
        yield evolve(item, **{name: piece})


def _random(random: Random, text: str) -> list[str]:
    places = sorted(random.randrange(len(text) + 1) for _ in range(3))
    return [text[begin:end] for begin, end in zip([0, *places], [*places, len(text)], strict=True)]


def _result(make: Callable[[], Any], items: list[Any]) -> tuple[list[Any], list[Any]]:
    """What a fresh stage gives for *items*, fed one at a time; neighbouring texts are joined, and what is silent stands
    apart: a stage may give it before a text that it holds back."""
    made = make()
    stage: Stage[Any, Any] = made if hasattr(made, "feed") else Pipeline(*made)
    given = [*chain.from_iterable(stage.feed([item]) for item in items), *stage.flush()]
    silent = [item for item in given if isinstance(item, SILENT)]
    return joined([item for item in given if not isinstance(item, SILENT)]), silent


def joined(items: Iterable[Any]) -> list[Any]:
    """*items* without empty texts, and with neighbouring ones of a kind as one; bytes are joined as well."""
    found: list[Any] = []
    for item in items:
        kind, last = type(item), found[-1] if found else None
        name = _TEXTS.get(kind, "")
        if (name and not getattr(item, name)) or item == b"":
            continue
        if name and type(last) is kind:
            found[-1] = evolve(item, **{name: getattr(last, name) + getattr(item, name)})
        elif isinstance(item, bytes) and isinstance(last, bytes):
            found[-1] = last + item
        elif last is not None and _continues(last, item):
            found[-1] = evolve(last, input=last.input + item.input, stop=item.stop)
        else:
            found.append(item)
    return found


def _continues(last: Any, item: Any) -> bool:
    """Whether *item* is the next piece of the tool call that *last* is a piece of."""
    pieces = isinstance(item, ToolCallFragment) and isinstance(last, ToolCallFragment)
    return pieces and not last.stop and item.call_id == last.call_id


def _difference(whole: tuple[list[Any], list[Any]], found: tuple[list[Any], list[Any]]) -> str:
    for one, other in zip(whole, found, strict=True):
        for left, right in zip(one, other, strict=False):
            if left != right:
                return f"{right!r:.300} in the place of {left!r:.300}"
        if len(one) != len(other):
            return f"{len(other)} items in the place of {len(one)}"
    return "none that can be shown"
