"""Stages from outside: what they make and yield is looked at, so that a mistake is an error that names who made it.

What is no delta has no place in an answer.  Dropped, it would leave an answer that looks whole and is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, NoReturn, TypeVar, get_args
from weakref import WeakValueDictionary

from attrs import define, evolve, field

from kiro_asgi.interface import lacks
from kiro_asgi.limits import REMEMBERED_NOTICES
from kiro_asgi.model.events import Delta, Notice
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.stages.base import Stage, StageFactory

T = TypeVar("T")

Watch = Callable[[str, Callable[[], Any]], Any]
"""Calls a function for the part of this name, and returns its result."""

DELTAS: Final = frozenset(get_args(Delta))
"""Every kind of delta."""

DECODER: Final = "the upstream's decoder"


_END: Final = object()


def _unwatched(name: str, work: Callable[[], Any]) -> Any:
    return work()


def no_delta(item: object, whose: str) -> NoReturn:
    """Refuse *item*, which *whose* stage, in words, has yielded.

    Raises:
        TypeError: Always.  It is a mistake of the operator's code, so no `KiroAsgiError`: the log has it, and the
            client an internal error.
    """
    kind = type(item).__name__
    raise TypeError(f"{whose} yielded a {kind}; it must yield deltas of kiro_asgi.model.events, such as TextDelta")


@define
class WatchedStage:
    """A stage from outside, with what goes in and comes out of it looked at.

    Raises:
        TypeError: It has yielded what is no delta, or nothing that can be iterated over.
    """

    place: str
    """Where it was handed in, e.g. ``stages[0]``, or the table of its settings."""

    _stage: Stage[Delta, Delta]
    _watch: Watch = _unwatched
    """Called for each step of the stage, with those of the stages before it."""

    _passed: dict[int, Notice] = field(init=False, factory=dict)
    """Notices that went in, by identity: all others that come out are the stage's own."""

    @property
    def title(self) -> str:
        """Name of the stage, for people who look at the stages of an answer."""
        return type(self._stage).__name__

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """As the stage."""
        return self._checked("feed", partial(self._stage.feed, self._noted(items)))

    def flush(self) -> Iterator[Delta]:
        """As the stage."""
        return self._checked("flush", self._stage.flush)

    def _noted(self, items: Iterable[Delta]) -> Iterator[Delta]:
        for item in items:
            if type(item) is Notice:
                if len(self._passed) < REMEMBERED_NOTICES:
                    self._passed[id(item)] = item
            elif type(item) not in DELTAS:
                no_delta(item, DECODER)
            yield item

    def _checked(self, method: str, work: Callable[[], Any]) -> Iterator[Delta]:
        whose = f"the stage of {self.place}, {self.title}"
        items = self._watch(whose, work)
        if not isinstance(items, Iterable):
            raise TypeError(f"{whose}: {method} gave a {type(items).__name__}; it must yield deltas")
        following = partial(next, iter(items), _END)
        while (item := self._watch(whose, following)) is not _END:
            if type(item) not in DELTAS:
                no_delta(item, whose)
            is_own = type(item) is Notice and id(item) not in self._passed
            yield evolve(item, source=self.place) if is_own else item


@define
class OwnStage:
    """Makes a stage from outside, a new one for each try, and looks at each kind that is made once."""

    place: str
    """Where it was handed in, e.g. ``stages[0]``, or the table of its settings."""

    _make: StageFactory
    _watch: Watch = _unwatched
    _made: WeakValueDictionary[int, Any] = field(init=False, factory=WeakValueDictionary, repr=False)
    """Stages that were made and are still there, by identity."""

    _last: Any = field(init=False, default=None, repr=False)
    """The latest, where there can be no weak reference to it."""

    _known: type | None = field(init=False, default=None)

    def __call__(self, prompt: Prompt) -> WatchedStage:
        """Make the stage for one try at the answer to *prompt*.

        Raises:
            TypeError: What is made is no stage, or one that was made before.
        """
        stage = self._make(prompt)
        if type(stage) is not self._known:
            if lack := next(lacks(stage, Stage), ""):
                raise TypeError(f"{self.place} made a {type(stage).__name__}, which is no stage: {lack}")
            self._known = type(stage)
        self._require_new(stage)
        return WatchedStage(self.place, stage, self._watch)

    def _require_new(self, stage: object) -> None:
        """Refuse a stage that has worked already: what it still holds is of another client's answer."""
        if stage is self._last or self._made.get(id(stage)) is stage:
            raise TypeError(
                f"{self.place} made the same {type(stage).__name__} again, which may hold another client's text; make "
                "a new one each time"
            )
        try:
            self._made[id(stage)] = stage
        except TypeError:  # its class has no room for weak references
            self._last = stage
