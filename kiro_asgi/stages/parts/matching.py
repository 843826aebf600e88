"""Finding any of several words in text that comes in pieces, in one pass."""

from __future__ import annotations

import re
from collections import deque

from attrs import define, field

__all__ = ["WordMatcher"]


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
