"""Counts the steps of a backtracking matcher, so that the growth of a regular expression is asserted of steps.

Python's own matcher does not say how much it does.  This one walks the tree that `re` parses a pattern into, tries
what the real one tries in the same order, and counts each attempt.  It leaves out the real one's short cuts (a literal
prefix is searched for at once), so its numbers are larger by a constant, and never of a smaller order.

Only what occurs in this package is understood; anything else raises.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from re import _constants as constants  # type: ignore[attr-defined]  # the parser has no public name
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from attrs import define, field

__all__ = ["Matcher", "steps_of"]

Then = Callable[[int], bool]
"""What follows, tried at a position."""

Try = Callable[[int, Then], bool]

_CATEGORIES: dict[Any, Callable[[str], bool]] = {
    constants.CATEGORY_DIGIT: str.isdigit,
    constants.CATEGORY_SPACE: str.isspace,
    constants.CATEGORY_WORD: lambda char: char.isalnum() or char == "_",
}
_NEGATED = {
    constants.CATEGORY_NOT_DIGIT: constants.CATEGORY_DIGIT,
    constants.CATEGORY_NOT_SPACE: constants.CATEGORY_SPACE,
    constants.CATEGORY_NOT_WORD: constants.CATEGORY_WORD,
}


@define
class Matcher:
    """One pattern over one text."""

    pattern: re.Pattern[Any]
    text: str
    steps: int = 0
    _groups: dict[int, tuple[int, int]] = field(init=False, factory=dict)
    _try: Try = field(init=False)

    def __attrs_post_init__(self) -> None:
        source = self.pattern.pattern
        tree = parser.parse(
            source if isinstance(source, str) else source.decode("latin-1"),
            self.pattern.flags & ~re.UNICODE & ~re.DEBUG if isinstance(source, bytes) else self.pattern.flags,
        )
        self._try = self._sequence(list(tree), self.pattern.flags)

    def match(self, at: int = 0) -> tuple[int, int] | None:
        """Where a match that begins at *at* begins and ends."""
        return self._from(at, lambda _: True)

    def fullmatch(self) -> tuple[int, int] | None:
        """The same for all of the text."""
        return self._from(0, lambda end: end == len(self.text))

    def search(self, at: int = 0) -> tuple[int, int] | None:
        """The first match from *at* on."""
        for start in range(at, len(self.text) + 1):
            if (found := self.match(start)) is not None:
                return found
        return None

    def finditer(self) -> Iterator[tuple[int, int]]:
        """All matches, as ``sub``, ``split`` and ``findall`` find them."""
        at = 0
        while at <= len(self.text) and (found := self.search(at)) is not None:
            yield found
            at = found[1] if found[1] > found[0] else found[1] + 1

    def _from(self, at: int, accepts: Then) -> tuple[int, int] | None:
        self._groups.clear()
        end = at

        def finish(position: int) -> bool:
            nonlocal end
            end = position
            return accepts(position)

        return (at, end) if self._try(at, finish) else None

    # The parts of a pattern.

    def _sequence(self, nodes: list[Any], flags: int) -> Try:
        tries = [self._node(operation, argument, flags) for operation, argument in nodes]

        def attempt(index: int, at: int, then: Then) -> bool:
            if index == len(tries):
                return then(at)
            return tries[index](at, lambda after: attempt(index + 1, after, then))

        if len(tries) == 1:
            return tries[0]
        return lambda at, then: attempt(0, at, then)

    def _node(self, operation: Any, argument: Any, flags: int) -> Try:
        if (test := self._character(operation, argument, flags)) is not None:
            return self._one(test)
        maker = getattr(self, f"_{str(operation).lower()}", None)
        if maker is None:
            raise NotImplementedError(f"{operation} in {self.pattern.pattern!r}")
        made: Try = maker(argument, flags)
        return made

    def _character(self, operation: Any, argument: Any, flags: int) -> Callable[[str], bool] | None:
        """The test that one character has to pass, where *operation* is one."""
        if operation is constants.LITERAL:
            return self._literal(chr(argument), flags)
        if operation is constants.NOT_LITERAL:
            literal = self._literal(chr(argument), flags)
            return lambda char: not literal(char)
        if operation is constants.ANY:
            return (lambda char: True) if flags & re.DOTALL else (lambda char: char != "\n")
        if operation is constants.CATEGORY:
            return self._category(argument, flags)
        if operation is constants.IN:
            return self._class(argument, flags)
        return None

    def _literal(self, wanted: str, flags: int) -> Callable[[str], bool]:
        if flags & re.IGNORECASE:
            return lambda char: char.lower() == wanted.lower()
        return lambda char: char == wanted

    def _category(self, category: Any, flags: int) -> Callable[[str], bool]:
        if category in _NEGATED:
            positive = self._category(_NEGATED[category], flags)
            return lambda char: not positive(char)
        test = _CATEGORIES[category]
        if flags & re.UNICODE:
            return test
        return lambda char: char.isascii() and test(char)

    def _class(self, items: list[Any], flags: int) -> Callable[[str], bool]:
        negated = items[0][0] is constants.NEGATE
        tests: list[Callable[[str], bool]] = []
        for operation, argument in items[negated:]:
            if operation is constants.RANGE:
                tests.append(self._range(*argument, flags))
            else:
                test = self._character(operation, argument, flags)
                assert test is not None, operation
                tests.append(test)
        return lambda char: any(test(char) for test in tests) is not negated

    def _range(self, low: int, high: int, flags: int) -> Callable[[str], bool]:
        if flags & re.IGNORECASE:
            return lambda char: any(low <= ord(it) <= high for it in {char, *char.lower()[:1], *char.upper()[:1]})
        return lambda char: low <= ord(char) <= high

    def _one(self, test: Callable[[str], bool]) -> Try:
        def attempt(at: int, then: Then) -> bool:
            self.steps += 1
            return at < len(self.text) and test(self.text[at]) and then(at + 1)

        return attempt

    def _subpattern(self, argument: Any, flags: int) -> Try:
        number, add, remove, nodes = argument
        inner = self._sequence(list(nodes), (flags | add) & ~remove)
        if number is None:
            return inner

        def attempt(at: int, then: Then) -> bool:
            def close(end: int) -> bool:
                before = self._groups.get(number)
                self._groups[number] = at, end
                if then(end):
                    return True
                if before is not None:
                    self._groups[number] = before
                return False

            return inner(at, close)

        return attempt

    def _branch(self, argument: Any, flags: int) -> Try:
        branches = [self._sequence(list(nodes), flags) for nodes in argument[1]]

        def attempt(at: int, then: Then) -> bool:
            self.steps += 1
            return any(branch(at, then) for branch in branches)

        return attempt

    def _max_repeat(self, argument: Any, flags: int) -> Try:
        least, most, nodes = argument
        if (test := self._only_character(nodes, flags)) is not None:
            return self._run(least, most, test)
        body = self._sequence(list(nodes), flags)

        def attempt(at: int, then: Then, count: int = 0) -> bool:
            self.steps += 1

            def again(after: int) -> bool:
                return (after > at or count < least) and attempt(after, then, count + 1)

            if count < most and body(at, again):
                return True
            return count >= least and then(at)

        return attempt

    def _min_repeat(self, argument: Any, flags: int) -> Try:
        least, most, nodes = argument
        test = self._only_character(nodes, flags)
        if test is None:
            raise NotImplementedError(f"a lazy repeat of more than a character in {self.pattern.pattern!r}")

        def attempt(at: int, then: Then) -> bool:
            count = 0
            while True:
                self.steps += 1
                if count >= least and then(at):
                    return True
                if count >= most or at >= len(self.text) or not test(self.text[at]):
                    return False
                at, count = at + 1, count + 1

        return attempt

    def _possessive_repeat(self, argument: Any, flags: int) -> Try:
        least, most, nodes = argument
        body = self._atomic_group(nodes, flags)

        def attempt(at: int, then: Then) -> bool:
            count, end = 0, at

            def reached(after: int) -> bool:
                nonlocal end
                end = after
                return True

            while count < most:
                start = end
                self.steps += 1
                if not body(start, reached) or (end == start and count >= least):
                    break
                count += 1
            return count >= least and then(end)

        return attempt

    def _atomic_group(self, nodes: Any, flags: int) -> Try:
        body = self._sequence(list(nodes), flags)

        def attempt(at: int, then: Then) -> bool:
            end = -1

            def reached(after: int) -> bool:
                nonlocal end
                end = after
                return True

            return body(at, reached) and then(end)

        return attempt

    def _only_character(self, nodes: Any, flags: int) -> Callable[[str], bool] | None:
        inner = list(nodes)
        return self._character(*inner[0], flags) if len(inner) == 1 else None

    def _run(self, least: int, most: int, test: Callable[[str], bool]) -> Try:
        """A greedy repeat of one character, without a call for each."""

        def attempt(at: int, then: Then) -> bool:
            end = at
            while end - at < most and end < len(self.text) and test(self.text[end]):
                self.steps += 1
                end += 1
            self.steps += 1
            while end - at >= least:
                self.steps += 1
                if then(end):
                    return True
                end -= 1
            return False

        return attempt

    def _at(self, place: Any, flags: int) -> Try:
        def word(at: int) -> bool:
            return 0 <= at < len(self.text) and self._category(constants.CATEGORY_WORD, flags)(self.text[at])

        def holds(at: int) -> bool:
            match place:
                case constants.AT_BEGINNING | constants.AT_BEGINNING_STRING:
                    return at == 0
                case constants.AT_END:
                    return at == len(self.text) or (at == len(self.text) - 1 and self.text[at] == "\n")
                case constants.AT_END_STRING:
                    return at == len(self.text)
                case constants.AT_BOUNDARY:
                    return word(at - 1) is not word(at)
            raise NotImplementedError(f"{place} in {self.pattern.pattern!r}")

        def attempt(at: int, then: Then) -> bool:
            self.steps += 1
            return holds(at) and then(at)

        return attempt

    def _assert(self, argument: Any, flags: int) -> Try:
        direction, nodes = argument
        body, back = self._sequence(list(nodes), flags), nodes.getwidth()[0] if direction < 0 else 0
        return lambda at, then: at >= back and body(at - back, lambda _: True) and then(at)

    def _assert_not(self, argument: Any, flags: int) -> Try:
        direction, nodes = argument
        body, back = self._sequence(list(nodes), flags), nodes.getwidth()[0] if direction < 0 else 0
        return lambda at, then: not (at >= back and body(at - back, lambda _: True)) and then(at)

    def _failure(self, argument: Any, flags: int) -> Try:
        return lambda at, then: False

    def _groupref(self, number: int, flags: int) -> Try:
        def attempt(at: int, then: Then) -> bool:
            self.steps += 1
            start, end = self._groups.get(number, (0, -1))
            said = self.text[start : max(end, 0)]
            return end >= 0 and self.text.startswith(said, at) and then(at + len(said))

        return attempt


def steps_of(pattern: re.Pattern[Any], method: str, text: str) -> int:
    """Steps of *method*, which is ``match``, ``fullmatch``, ``search`` or ``finditer``, over *text*."""
    matcher = Matcher(pattern, text)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000_000)
    try:
        found = getattr(matcher, method)()
        if method == "finditer":
            for _ in found:
                pass
    finally:
        sys.setrecursionlimit(before)
    return matcher.steps
