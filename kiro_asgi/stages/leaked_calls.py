"""Tool calls in the notations that models fall back to when they write a call instead of making it.

These are what histories that were flattened to text, and the models' own training, look like::

    [Called write_file with args: {"path": "a"}]
    [Tool call: write_file {"path": "a"}]
    <invoke name="write_file"><parameter name="path">a</parameter></invoke>

the last also as one of several within ``<function_calls>``.  People write them too, so only a call of a tool that there
is, with arguments that can be read, counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Final

from attrs import define, field

from kiro_asgi.stages.excerpt import Brackets, Form, Word, WrittenCall, is_json
from kiro_asgi.wire.json import dumps

__all__ = ["leaked_forms"]

_SUFFIX: Final = "text"
_NAME: Final = r"([A-Za-z0-9_.:/-]+)"
_BRACKETED: Final = (
    ("[Called ", rf"\[Called (?:tool )?{_NAME} with(?: (?:args|arguments|input))?:?\s*\{{"),
    ("[Tool call: ", rf"\[Tool call: {_NAME}(?: with)?(?: (?:args|arguments|input))?:?\s*\{{"),
)
_PREFIXES: Final = ("", "antml:")
"""What the names of the tags may begin with."""


def leaked_forms(names: Collection[str]) -> tuple[Form, ...]:
    """The notations, for calls of tools of these names."""
    brackets = (_bracketed(names, lead, head) for lead, head in _BRACKETED)
    return (*brackets, *(form for prefix in _PREFIXES for form in _tagged(names, prefix)))


def _bracketed(names: Collection[str], lead: str, head: str) -> Form:
    def calls(head: re.Match[str], excerpt: str) -> tuple[WrittenCall, ...]:
        text = excerpt[head.end() - 1 : -1].rstrip()
        return (WrittenCall(head[1], text),) if head[1] in names and is_json(text) else ()

    return Form(lead=lead, stop="{", head=re.compile(head), closing=lambda _: Brackets(), calls=calls, suffix=_SUFFIX)


def _tagged(names: Collection[str], prefix: str) -> tuple[Form, Form]:
    notation = _Notation(names, prefix)

    def form(lead: str, head: str, name: str, calls: Callable[[str], Sequence[WrittenCall]]) -> Form:
        return Form(
            lead=f"<{prefix}{lead}",
            stop=">",
            head=re.compile(f"<{prefix}{head}>"),
            closing=lambda _: Word(f"</{prefix}{name}>"),
            calls=lambda _, excerpt: calls(excerpt),
            suffix=_SUFFIX,
        )

    return (
        form('invoke name="', rf'invoke name="{_NAME}"', "invoke", notation.calls),
        form("function_calls", "function_calls", "function_calls", notation.wrapped),
    )


@define
class _Notation:
    """The notation with tags."""

    _names: Collection[str]
    _prefix: str
    _invocation: re.Pattern[str] = field(init=False)
    _parameter: re.Pattern[str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        prefix = self._prefix
        self._invocation = re.compile(rf'\s*<{prefix}invoke name="{_NAME}">(.*?)</{prefix}invoke>', re.DOTALL)
        self._parameter = re.compile(rf'\s*<{prefix}parameter name="([^"]+)">(.*?)</{prefix}parameter>', re.DOTALL)

    def wrapped(self, text: str) -> Sequence[WrittenCall]:
        """The calls within a pair of outer tags."""
        return self.calls(text[text.index(">") + 1 : text.rindex("</")])

    def calls(self, text: str) -> Sequence[WrittenCall]:
        """All calls of *text*; none where there is anything else in it, or one of them is none."""
        found = _only(self._invocation, text)
        calls = [call for name, inside in found if (call := self._call(name, inside)) is not None]
        return calls if len(calls) == len(found) else ()

    def _call(self, name: str, inside: str) -> WrittenCall | None:
        parameters = _only(self._parameter, inside)
        arguments = dict(parameters)
        readable = len(arguments) == len(parameters) and (bool(arguments) or not inside.strip())
        return WrittenCall(name, dumps(arguments).decode()) if readable and name in self._names else None


def _only(pattern: re.Pattern[str], text: str) -> list[tuple[str, str]]:
    """Matches of *pattern* if *text* holds nothing else but blanks behind them; otherwise none."""
    found, at = [], 0
    while match := pattern.match(text, at):
        found.append((match[1], match[2]))
        at = match.end()
    return [] if text[at:].strip() else found
