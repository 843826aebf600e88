"""Every regular expression of the package takes linear work, whatever text it sees.

They are collected from the syntax trees of all modules, so a new one is tested without being told of.  What is made
while the program runs has to be named in `MADE`.  The texts are made from the pattern itself: each of its beginnings,
then each of its parts again and again, then something that does not fit: half of
these, and at most `FEW`; all with the profile ``soak``.

The simulator is left out: it sees what tests send.
"""

from __future__ import annotations

import ast
import importlib
import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from re import _constants as constants  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final

import pytest
from attrs import frozen
from hypothesis import settings

import kiro_asgi
from kiro_asgi.failures import phrases
from kiro_asgi.stages.limits import WordMatcher
from kiro_asgi.stages.thinking import ThinkingParser
from kiro_asgi.stages.written_calls import _PREFIXES, WrittenCalls, _Notation, leaked_forms
from kiro_asgi.wire.objects import ObjectScanner
from tests.backtracking import Matcher, steps_of
from tests.growth import assert_linear

ROOT: Final = Path(kiro_asgi.__file__).parent
FUNCTIONS: Final = {
    "compile": None,
    "match": "match",
    "fullmatch": "fullmatch",
    "search": "search",
    "sub": "finditer",
    "split": "finditer",
    "findall": "finditer",
    "finditer": "finditer",
}
"""Function of `re`, or method of a pattern, to how the text is gone through."""


FEW: Final = 40
"""Texts that one pattern is tried with where time is short."""

TABLES: Final = {
    "kiro_asgi.upstreams.gemini.models": "match",
    "kiro_asgi.upstreams.openai.models": "match",
}
"""Modules with tables of patterns, and how those are used; any other is searched for."""


@frozen
class Use:
    """A regular expression as it is used."""

    where: str
    pattern: re.Pattern[Any]
    method: str

    def __str__(self) -> str:
        return f"{self.where}-{self.method}-{str(self.pattern.pattern)[:40]}"


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(ROOT.rglob("*.py")):
        name = ".".join(("kiro_asgi", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
        if not name.startswith("kiro_asgi.simulator") and not name.endswith("__main__"):
            yield name, ast.parse(path.read_text("utf-8"))


TREES: Final = dict(_modules())


def _methods() -> dict[str, set[str]]:
    """Name of a variable to the methods of it that are called, or handed on, anywhere."""
    used: dict[str, set[str]] = {}
    for tree in TREES.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and (method := FUNCTIONS.get(node.attr)):
                name = getattr(node.value, "id", getattr(node.value, "attr", ""))
                used.setdefault(name, set()).add(method)
    return used


METHODS: Final = _methods()


def _uses() -> Iterator[Use | str]:
    """The uses, and in place of one that cannot be evaluated the source of its pattern."""
    for name, tree in TREES.items():
        names = {
            id(node.value): _target(node) for node in ast.walk(tree) if isinstance(node, ast.AnnAssign | ast.Assign)
        }
        attached = {id(node.value): node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if getattr(node.func.value, "id", "") != "re" or node.func.attr not in FUNCTIONS:
                continue
            try:
                pattern = _pattern(node, name)
            except NameError:
                yield _quoted_alike(f"{name}: {ast.unparse(node.args[0])}")
                continue
            said = FUNCTIONS[node.func.attr] or FUNCTIONS.get(attached.get(id(node), ""))
            known = METHODS.get(names.get(id(node)) or "?", {TABLES.get(name, "search")})
            for method in [said] if said else sorted(known):
                yield Use(name.removeprefix("kiro_asgi."), pattern, method)


def _quoted_alike(source: str) -> str:
    """*source* with one kind of quotes: interpreters differ in those that they unparse to."""
    return source.replace('"', "'").replace("\\'", "'")


def _target(node: Any) -> str:
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    return getattr(target, "id", "")


def _pattern(node: ast.Call, module: str) -> re.Pattern[Any]:
    scope = vars(importlib.import_module(module))
    arguments = node.args if node.func.attr == "compile" else [node.args[0], *_flags(node)]  # type: ignore[attr-defined]
    source, *flags = (eval(compile(ast.Expression(each), module, "eval"), scope) for each in arguments)
    return re.compile(source, *flags)


def _flags(node: ast.Call) -> list[ast.expr]:
    last = node.args[-1]
    return [last] if ast.unparse(last).startswith("re.") else []


def _made() -> dict[str, list[tuple[re.Pattern[Any], str]]]:
    """What modules make while the program runs, by the source of the pattern; each as it is used."""
    notations = [_Notation(("f",), prefix) for prefix in _PREFIXES]
    heads = [(form.head, "fullmatch") for form in leaked_forms(("f",))]
    return {
        """kiro_asgi.stages.written_calls: f'\\\\s*<{prefix}invoke name="{_NAME}">(.*?)</{prefix}invoke>'""": [
            (notation._invocation, "match") for notation in notations
        ],
        """kiro_asgi.stages.written_calls: f'\\\\s*<{prefix}parameter name="([^"]+)">(.*?)</{prefix}parameter>'""": [
            (notation._parameter, "match") for notation in notations
        ],
        "kiro_asgi.stages.written_calls: head": heads,
        "kiro_asgi.stages.written_calls: f'<{prefix}{head}>'": heads,
        "kiro_asgi.stages.limits: "
        """f'[{re.escape(''.join({word[0] for word in words}))}]' if words else '(?!)'""": [
            (WordMatcher(words)._starts, "search") for words in ((), ("]-^",))
        ],
        "kiro_asgi.stages.thinking: '|'.join(map(re.escape, self._openers)) or '(?!)'": [
            (ThinkingParser()._opener, "finditer")
        ],
        "kiro_asgi.stages.written_calls: '|'.join((*map(re.escape, leads), *starts))": [
            (WrittenCalls(leaked_forms(("f",)))._lead, "search")
        ],
        "kiro_asgi.failures.phrases: '|'.join(alternatives)": [
            (value, "search") for value in vars(phrases).values() if isinstance(value, re.Pattern)
        ]
        + [(pattern, "search") for pattern, _, _ in (*phrases.BARRING, *phrases.PHRASES)],
        "kiro_asgi.wire.objects: b'|'.join(map(re.escape, self.prefixes))": [(ObjectScanner()._prefix, "search")],
    }


COLLECTED: Final = list(_uses())
MADE: Final = {_quoted_alike(source): made for source, made in _made().items()}
USES: Final = [
    *dict.fromkeys(use for use in COLLECTED if isinstance(use, Use)),
    *(Use(source.partition(":")[0], pattern, method) for source, made in MADE.items() for pattern, method in made),
]


def test_none_is_forgotten() -> None:
    """Whatever is made while the program runs is named here; and there are as many as one would think."""
    assert {source for source in COLLECTED if isinstance(source, str)} == set(MADE)
    assert len(USES) > 150


# What a pattern is attacked with.


def _sample(nodes: Any, repeats: int = 1) -> str:
    """A text that *nodes* match, as a rule, with each repeat so many times where that is allowed."""
    return "".join(_sample_of(operation, argument, repeats) for operation, argument in nodes)


def _sample_of(operation: Any, argument: Any, repeats: int) -> str:
    if operation is constants.LITERAL:
        return chr(argument)
    if operation in (constants.NOT_LITERAL, constants.ANY):
        return "x"
    if operation is constants.IN:
        return _member(argument)
    if operation is constants.BRANCH:
        return _sample(argument[1][0], repeats)
    if operation is constants.SUBPATTERN:
        return _sample(argument[3], repeats)
    if operation is constants.ATOMIC_GROUP:
        return _sample(argument, repeats)
    if operation in (constants.MAX_REPEAT, constants.MIN_REPEAT, constants.POSSESSIVE_REPEAT):
        least, most, inner = argument
        return _sample(inner, repeats) * min(max(least, repeats), int(most))
    return ""


def _member(items: list[Any]) -> str:
    """A character of a class."""
    matcher = Matcher(re.compile(""), "")
    test = matcher._class(items, int(re.UNICODE))
    return next(
        char for char in ("a", "x", "0", " ", "-", "_", ".", "<", '"', *map(chr, range(256)), "\ud800") if test(char)
    )


def _parts(nodes: Any) -> Iterator[Any]:
    """Every sequence of nodes within the pattern, itself included."""
    yield nodes
    for operation, argument in nodes:
        if operation is constants.BRANCH:
            for branch in argument[1]:
                yield from _parts(branch)
        elif operation is constants.SUBPATTERN:
            yield from _parts(argument[3])
        elif operation is constants.ATOMIC_GROUP:
            yield from _parts(argument)
        elif operation in (constants.MAX_REPEAT, constants.MIN_REPEAT, constants.POSSESSIVE_REPEAT):
            yield from _parts(argument[2])


def _tree(pattern: re.Pattern[Any]) -> Any:
    source = pattern.pattern
    text = source if isinstance(source, str) else source.decode("latin-1")
    return parser.parse(text, pattern.flags & ~re.UNICODE if isinstance(source, bytes) else pattern.flags)


def _ends(nodes: list[Any]) -> list[int]:
    """How many nodes make a beginning worth trying: not in the middle of a word."""
    letters = [operation is constants.LITERAL for operation, _ in nodes] + [False]
    return [size for size in range(1, len(nodes) + 1) if not (letters[size - 1] and letters[size])]


def _is_endless(nodes: list[Any]) -> bool:
    """Whether a repeat without a bound stands among *nodes*."""
    repeats = (constants.MAX_REPEAT, constants.MIN_REPEAT, constants.POSSESSIVE_REPEAT)
    return any(operation in repeats and argument[1] is constants.MAXREPEAT for operation, argument in nodes)


def _attacks(tree: Any) -> Iterable[tuple[str, str, str]]:
    """Beginnings, what is repeated behind them, and ends; none twice."""
    parts = [list(part) for part in _parts(tree)]
    words = {_sample(part[:size], repeats) for part in parts for size in _ends(part) for repeats in (0, 1)}
    whole = list(tree)
    begins = {"", *(_sample(whole[:size]) for size in _ends(whole)[:-1])}
    words = {word for word in words if word}
    if not any(_is_endless(part) for part in parts):
        words = set(
            sorted(words, key=lambda word: (len(word), word))[-6:]
        )  # each start costs a constant at most, so this is a sample
    apart = {f"{mark}{word}" for mark in "- " for word in words}
    pumps = words | apart | {"a", " ", "\n", "."}
    return [(begin, pump, end) for begin in sorted(begins) for pump in sorted(pumps) for end in ("", "\x00!")]


def _bound(tree: Any) -> int:
    """The largest number of repeats that has a bound: up to it, work may grow faster."""
    bounds = [
        int(argument[1])
        for part in _parts(tree)
        for operation, argument in part
        if operation in (constants.MAX_REPEAT, constants.MIN_REPEAT, constants.POSSESSIVE_REPEAT)
        and argument[1] is not constants.MAXREPEAT
    ]
    return max(bounds, default=0)


@pytest.mark.parametrize("use", USES, ids=str)
def test_work_is_linear(use: Use) -> None:
    """R24: twice the text takes twice the steps, whatever it repeats."""
    tree = _tree(use.pattern)
    bound = _bound(tree)
    attacks = list(_attacks(tree))
    if settings.get_current_profile_name() != "soak":
        attacks = random.Random(ascii(use)).sample(attacks, min(-(-len(attacks) // 2), FEW))
    for begin, pump, end in attacks:

        def make(times: int, begin: str = begin, pump: str = pump, end: str = end) -> Any:
            return lambda: begin + pump * times + end

        def count(work: Any) -> int:
            return steps_of(use.pattern, use.method, work())

        try:
            assert_linear(make, 12 + bound // len(pump), count=count)
        except AssertionError as grown:
            raise AssertionError(f"{use}: {begin!r} + {pump!r} * n + {end!r}: {grown}") from None


# The counter itself.


@pytest.mark.parametrize(
    ("pattern", "method", "text"),
    [
        (r"(?:a|a)*b", "match", "a"),
        (r"\s+$", "search", " "),
        (r"_session_([\w-]+)\Z", "search", "_session_"),
        (r".*?[.!?]+(?:\s+|$)|.+$", "finditer", "."),
        (r"(\w+,)*x", "search", "a,"),
    ],
)
def test_the_counter_finds_what_grows_faster(pattern: str, method: str, text: str) -> None:
    """Patterns that took a process down, and their like; so the table cannot pass for want of counting."""

    def make(times: int) -> Any:
        return lambda: text * times + "#"

    with pytest.raises(AssertionError, match="steps"):
        assert_linear(
            make, 3 if "a|a" in pattern else 20, count=lambda work: steps_of(re.compile(pattern), method, work())
        )


ALPHABET: Final = 'ab.!c xyz"\\foobarAB\n0-_'


@pytest.mark.parametrize(
    "pattern",
    [
        r"a*b",
        r"(?:ab|a)+c",
        r".*?[.!]+(?:\s+|$)|.+$",
        r"[^\d\W]{2,3}x?",
        r"x(?=y)|(?<!z)y",
        r"(\w)\1",
        r"(?:[^.]++|\.(?!\s))++",
        r'"(?:[^"\\]++|\\.)*+"?',
        r"\bfoo\b.{0,4}\bbar",
        r"(?i:A[b-x])c",
        r"(?s:a.?b)|\A.\Z",
    ],
)
def test_the_counter_matches_what_python_matches(pattern: str) -> None:
    """It is a matcher: had it another order of trying, its counts would mean nothing."""
    compiled, draw = re.compile(pattern), random.Random(pattern)
    for _ in range(300):
        text = "".join(draw.choices(ALPHABET, k=draw.randint(0, 12)))
        for method in ("match", "fullmatch", "search"):
            found = getattr(compiled, method)(text)
            assert (found and found.span()) == getattr(Matcher(compiled, text), method)(), (text, method)
