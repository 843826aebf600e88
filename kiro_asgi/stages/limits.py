"""Stop sequences and limits of tokens, for upstreams that do not apply them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final

from attrs import define, field

from kiro_asgi.errors import RequestError
from kiro_asgi.limits import STOP_CHARACTERS
from kiro_asgi.model.events import (
    BlockMembers,
    Citation,
    Delta,
    FollowupPrompt,
    OpaqueBlock,
    RedactedThinking,
    RefusalDelta,
    SignatureDelta,
    Stop,
    StopReason,
    TextBreak,
    TextDelta,
    ThinkingDelta,
    ToolCallCut,
    ToolCallEnd,
    ToolCallFragment,
    ToolCallMalformed,
    ToolCallStart,
    ToolInputDelta,
)
from kiro_asgi.stages.estimate import COUNTED_AT_ONCE, Estimator, TokenEstimator


@define
class _Node:
    """A prefix of a word."""

    depth: int = 0
    """Length of the prefix."""

    word: str = ""
    """The longest word that the prefix ends with."""

    fallback: _Node | None = None
    """The longest proper suffix that is a prefix too."""

    children: dict[str, _Node] = field(factory=dict)


@define
class WordMatcher:
    """Aho and Corasick's automaton: what has come so far ends with the first `pending` characters of some word.

    Of several words, the one that is complete first is found; of those complete at the same character, the longest.
    Empty words are never found.

    Source: https://doi.org/10.1145/360825.360855
    """

    words: tuple[str, ...]
    _root: _Node = field(init=False, factory=_Node)
    _node: _Node = field(init=False)
    _starts: re.Pattern[str] = field(init=False)
    """Any character that a word begins with."""

    def __attrs_post_init__(self) -> None:
        words = list(filter(None, self.words))
        self._node = self._root
        self._starts = re.compile(f"[{re.escape(''.join({word[0] for word in words}))}]" if words else r"(?!)")
        for word in words:
            self._insert(word)
        self._link()

    def __bool__(self) -> bool:
        return bool(self._root.children)

    @property
    def pending(self) -> int:
        """Length of the longest tail that a word may begin with."""
        return self._node.depth

    def find(self, text: str, start: int = 0) -> tuple[int, str] | None:
        """Go on by *text* from *start*, at most to the end of a word; that end and the word, if there is one."""
        node, root = self._node, self._root
        position, end = start, len(text)
        while position < end:
            if node is root:
                match = self._starts.search(text, position)
                if match is None:
                    break
                position = match.start()
            node = self._step(node, text[position])
            position += 1
            if node.word:
                self._node = root
                return position, node.word
        self._node = node
        return None

    def reset(self) -> None:
        """Forget what came: the text is interrupted here."""
        self._node = self._root

    def _step(self, node: _Node, character: str) -> _Node:
        while (child := node.children.get(character)) is None:
            if node.fallback is None:
                return node
            node = node.fallback
        return child

    def _insert(self, word: str) -> None:
        node = self._root
        for character in word:
            if character not in node.children:
                node.children[character] = _Node(node.depth + 1)
            node = node.children[character]
        node.word = word

    def _link(self) -> None:
        """Breadth first, so that what a node falls back to is linked already."""
        queue = deque([self._root])
        while queue:
            node = queue.popleft()
            for character, child in node.children.items():
                child.fallback = self._root if node.fallback is None else self._step(node.fallback, character)
                child.word = child.word or child.fallback.word
                queue.append(child)


_CONTENT: Final = frozenset(
    {
        TextDelta,
        TextBreak,
        Citation,
        RefusalDelta,
        ThinkingDelta,
        SignatureDelta,
        RedactedThinking,
        ToolCallFragment,
        ToolCallStart,
        ToolInputDelta,
        ToolCallEnd,
        ToolCallCut,
        ToolCallMalformed,
        FollowupPrompt,
        BlockMembers,
        OpaqueBlock,
        Stop,
    }
)
"""Kinds of delta that are dropped after a limit; reports on usage are not."""


def check_stop(stop: str | Sequence[str], place: str = "stop") -> None:
    """Refuse stop sequences that are too long together.

    Args:
        stop: The sequences, or the only one.
        place: Where in the request they stand.

    Raises:
        RequestError: ``param`` names the first one that is too much.
    """
    sequences = [stop] if isinstance(stop, str) else stop
    for index, size in enumerate(accumulate(map(len, sequences))):
        if size > STOP_CHARACTERS:
            param = place if isinstance(stop, str) else f"{place}[{index}]"
            message = f"{param}: stop sequences may have at most {STOP_CHARACTERS} characters in total"
            raise RequestError(message, code="invalid_value", param=param)


@define
class _Held:
    """Text that is held: added at the end and taken from the front, in pieces of any size."""

    size: int = 0
    _pieces: deque[str] = field(init=False, factory=deque)
    _gone: int = field(init=False, default=0)
    """Characters of the first piece that have left."""

    def put(self, text: str) -> None:
        """Hold *text*, too."""
        if text:
            self._pieces.append(text)
            self.size += len(text)

    def take(self, size: int) -> str:
        """The first *size* characters, which are then no longer held."""
        taken = []
        self.size -= size
        while size:
            piece, start = self._pieces[0], self._gone
            if len(piece) - start <= size:
                taken.append(piece[start:])
                size -= len(piece) - start
                self._pieces.popleft()
                self._gone = 0
            else:
                taken.append(piece[start : start + size])
                self._gone += size
                size = 0
        return "".join(taken)


@define(kw_only=True)
class Limits:
    """End the answer at a stop sequence or at a number of tokens, whichever comes first.

    A stop sequence is found across deltas, in text only, and not across anything that interrupts the text.  Of several,
    the one that is complete first counts.  Neither it nor what follows goes out; text that may be the beginning of one
    is held until that is certain.

    Tokens are estimated over text, thinking and tool input.  A text that passes the limit is cut there; a tool call
    that does is left unfinished.

    Raises:
        RequestError: See `check_stop`.
    """

    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    estimator: Estimator = field(factory=TokenEstimator)

    reached: bool = field(init=False, default=False)
    """Whether the answer has been ended; from then on only reports pass."""

    _stops: bool = field(init=False)
    """Whether there is anything to look for in the text."""

    _matcher: WordMatcher = field(init=False)
    """Only where `_stops`."""

    _held: _Held = field(init=False, factory=_Held)
    _tokens: float = field(init=False, default=0.0)
    """Tokens that have gone out, without `_uncounted`."""

    _uncounted: list[str] = field(init=False, factory=list)
    _room: int = field(init=False, default=0)
    """Characters that may go out uncounted, since they would fit whatever they are."""

    def __attrs_post_init__(self) -> None:
        self._stops = any(self.stop)
        if self._stops:
            check_stop(self.stop)
            self._matcher = WordMatcher(self.stop)

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """Pass *items* on, up to the limit."""
        return self._limit(items) if self._stops or self.max_tokens is not None else iter(items)

    def flush(self) -> Iterator[Delta]:
        """The text that was held."""
        return iter(self._release())

    def _limit(self, items: Iterable[Delta]) -> Iterator[Delta]:
        for item in items:
            if self.reached:
                if type(item) not in _CONTENT:
                    yield item
            elif type(item) is TextDelta:
                if self._stops:
                    yield from self._text(item)
                elif 0 < len(item.text) <= self._room:  # As `_spend` does, without a call for each delta.
                    self._room -= len(item.text)
                    self._uncounted.append(item.text)
                    yield item
                else:
                    yield from self._spend(item)
            elif type(item) is ToolCallFragment and 0 < len(item.input) <= self._room and not self._stops:
                self._room -= len(item.input)  # a call comes in many pieces, and each is as small as a text's
                self._uncounted.append(item.input)
                yield item
            elif type(item) in _CONTENT:
                yield from self._release()
                yield from self._other(item)
            else:
                yield item

    def _text(self, delta: TextDelta) -> tuple[Delta, ...]:
        found = self._matcher.find(delta.text)
        pending, held = self._matcher.pending, self._held
        if found is None and not pending and not held.size:
            return self._spend(delta)
        before = held.size
        held.put(delta.text)
        if found is None:
            return self._spend(TextDelta(held.take(held.size - pending)))
        end, word = found
        shown = self._spend(TextDelta(held.take(before + end - len(word))))
        held.take(held.size)
        if self.reached:
            return shown
        self.reached = True
        return (*shown, Stop(StopReason.STOP_SEQUENCE, word))

    def _release(self) -> tuple[Delta, ...]:
        """The text that was held: it is not part of a stop sequence."""
        if not self._stops:
            return ()
        held = self._held.take(self._held.size)
        self._matcher.reset()
        return self._spend(TextDelta(held)) if held and not self.reached else ()

    def _other(self, item: Delta) -> tuple[Delta, ...]:
        if self.reached:
            return ()
        match item:
            case RefusalDelta() | ThinkingDelta():
                return self._spend(item)
            case ToolCallFragment(input=json) | ToolInputDelta(json):
                return (item,) if self._pay(json) else (Stop(StopReason.LENGTH),)
            case _:
                return (item,)

    def _spend(self, delta: TextDelta | RefusalDelta | ThinkingDelta) -> tuple[Delta, ...]:
        """*delta*, or as much of it as the limit leaves."""
        text = delta.text
        if not text:
            return ()
        if self.max_tokens is None:
            return (delta,)
        if len(text) <= self._room:
            self._room -= len(text)
            self._uncounted.append(text)
            return (delta,)
        if self._pay(text):
            return (delta,)
        part = text[: self._fitting(text)]
        return (*((type(delta)(part),) if part else ()), Stop(StopReason.LENGTH))

    def _pay(self, text: str) -> bool:
        """Count *text*, unless that passes the limit."""
        if self.max_tokens is None:
            return True
        if self._uncounted:
            self._tokens += self.estimator.estimate_tokens("".join(self._uncounted))
            self._uncounted.clear()
        tokens = self._tokens + self.estimator.estimate_tokens(text)
        if tokens > self.max_tokens:
            self.reached = True
            return False
        self._tokens = tokens
        if isinstance(self.estimator, TokenEstimator):  # only this one states the most tokens of a character
            self._room = min(int((self.max_tokens - tokens) / self.estimator.most), COUNTED_AT_ONCE)
        return True

    def _fitting(self, text: str) -> int:
        """How many characters of *text* the limit leaves."""
        assert self.max_tokens is not None, "there is no limit"
        left = self.max_tokens - self._tokens
        return bisect_right(range(1, len(text)), left, key=lambda size: self.estimator.estimate_tokens(text[:size]))
