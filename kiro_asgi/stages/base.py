"""The interface of a stage, and how stages are joined.

A stage turns a stream of items into another, keeping state between calls.  An answer is a tuple of stages, and
running it is a loop: bytes go in at the front, bytes come out at the back, nothing awaits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from operator import call
from typing import Any, Generic, Protocol, TypeVar

from attrs import frozen

from kiro_asgi.extension import ExtensionManifest
from kiro_asgi.model.events import Delta
from kiro_asgi.model.prompt import Prompt

In = TypeVar("In", contravariant=True)
Out = TypeVar("Out", covariant=True)


class Stage(Protocol[In, Out]):
    """Turns a stream of *In* into a stream of *Out*, keeping state between calls.

    What `feed` yields before it raises is valid output; after it raised, the stage is dead.
    """

    def feed(self, items: Iterable[In], /) -> Iterator[Out]:
        """Take *items*; give what can be given by now."""
        ...

    def flush(self) -> Iterator[Out]:
        """Give what is left at the end of the input."""
        ...


class Filter(Generic[Out]):
    """Base of stages that hold nothing back."""

    __slots__ = ()

    def flush(self) -> Iterator[Out]:
        """Nothing."""
        return iter(())


StageFactory = Callable[[Prompt], Stage[Delta, Delta]]
"""Makes a fresh stage for one try at the answer to a prompt."""


@frozen(kw_only=True)
class StageManifest(ExtensionManifest[StageFactory]):
    """A stage of an installed package, with an entry point in the group ``kiro_asgi.stages``.

    `make` gives what makes the stage for each try.  Of several, the one whose table is written first sees an answer
    first, after those that a program hands in.
    """


class Pipeline(Generic[In, Out]):
    """Stages one after the other; itself a stage."""

    __slots__ = ("stages",)

    def __init__(self, *stages: Stage[Any, Any]) -> None:
        self.stages = stages

    def feed(self, items: Iterable[In], /) -> Iterator[Out]:
        """Pass *items* through every stage, lazily."""
        stream: Iterable[Any] = items
        for stage in self.stages:
            stream = stage.feed(stream)
        return iter(stream)

    def flush(self) -> Iterator[Out]:
        """End the input: each stage sees what the one before it had left, then yields what it has left itself."""
        stream: Iterable[Any] = ()
        for stage in self.stages:
            # `flush` is called only after *stream* was fed: what a stage has left depends on that.
            rest: Iterable[Callable[[], Iterator[Any]]] = (partial(stage.feed, stream), stage.flush)
            stream = chain.from_iterable(map(call, rest))
        return iter(stream)
