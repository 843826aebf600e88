"""What an object that somebody hands in lacks of the interface that it is to have.

The interface is a class, mostly a protocol, and the one place where its members are listed: the names that there must
be, the parameters that each is called with, and whether it is awaited.  An object whose members cannot be looked into,
as those of compiled modules, gets the benefit of the doubt.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache, partial
from inspect import Parameter
from itertools import repeat
from types import FunctionType, NoneType, UnionType
from typing import Any, Final, TypeAlias, Union, get_args, get_origin, get_type_hints

import attrs

_AWAITABLE: Final = re.compile(r"\b(Awaitable|Coroutine|Future|Task)\b")
"""In the annotation of a plain function: what it returns can be awaited."""

_SEVERAL: Final = re.compile(r"Itera|Generator|tuple|Sequence|Collection|Mapping|Any|object")
"""In the annotation of a function: one that yields may stand in its place."""

_PLAIN: Final = frozenset((str, bytes, bool, int, float))
"""Types whose values have nothing in them to be looked at."""

_PLACE: Final = re.compile(r"\w+(\.\w+)*(:\w+(\.\w+)*)?")
"""A module, and an object in it."""

_MISSING: Final = object()

_QUOTED: Final = re.compile(r"(?<=: |> )'([^']*)'")
"""An annotation as `inspect.signature` writes it, where it is kept as text."""


def lacks(given: object, interface: type, only: Collection[str] = ()) -> Iterator[str]:
    """What *given* lacks of *interface*, each in a few words with advice; nothing where it has all of it.

    Args:
        given: An object of somebody else's.
        interface: What is asked of it.
        only: The members that are asked for, where that is not each of them.
    """
    if isinstance(given, type):
        yield class_lacks(given)
        return
    for name, wanted in _members(interface).items():
        if only and name not in only:
            continue
        try:
            member = getattr(given, name, _MISSING)
        except Exception as error:  # noqa: BLE001 - a property from outside may raise anything
            yield f"{name} cannot be read: {type(error).__name__}: {error}"
            continue
        if isinstance(wanted, property):
            yield from _value_lacks(name, member, _hints(wanted.fget).get("return", Any))
        else:
            yield from _method_lacks(member, wanted)


def offers(given: object, interface: type) -> bool:
    """Whether *given* has a member of *interface*, which it need not have: all others are asked of it then.

    What *interface* inherits says nothing about that.
    """
    return any(_is_there(given, name) for name in _members(interface) if name in vars(interface))


def _is_there(given: object, name: str) -> bool:
    try:
        return getattr(given, name, None) is not None
    except Exception:  # noqa: BLE001 - a property from outside may raise anything; it is one
        return True


def fields_lack(given: object) -> Iterator[str]:
    """Which fields of *given*, an attrs object, are not what their annotations say, each in a few words.

    No value is repeated: some are secrets.
    """
    for place, value, hint in _parts(given, type(given), ()):
        if words := _unlike(value, hint):
            yield f"{place[1:]}{words}"


def class_lacks(given: type) -> str:
    """Why a class cannot stand where an object is asked for, in a few words with advice."""
    return f"is a class; hand over an object, such as {given.__name__}()"


def call_lacks(given: object, wanted: Callable[..., Any]) -> str:
    """Why *given* cannot be called in the place of *wanted*, in a few words; empty where it can."""
    declared = _declared(wanted, inspect.signature(wanted))
    return _misuse(given, wanted, inspect.signature(wanted), f"such as {declared}")


def is_async(given: Callable[..., Any]) -> bool:
    """Whether *given* gives something to await; what wraps an async function, as a context manager does, may not."""
    function = _function(given)
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


Refused: TypeAlias = Callable[[Any, str], Exception]
"""Makes the error that refuses a manifest, for a reason in a few words that begin with the name of a member."""


def must_be_texts(refused: Refused) -> Callable[[Any, Any, Any], None]:
    """Make the validator of a manifest's member that is several texts."""

    def check(manifest: Any, attribute: Any, value: object) -> None:
        if not isinstance(value, tuple) or not all(isinstance(it, str) for it in value):
            raise refused(manifest, f"{attribute.name} must be a tuple of texts, not {value!r:.60}")

    return check


def must_be_named(refused: Refused) -> Callable[[Any, Any, Any], None]:
    """Make the validator of a manifest's member that names an object by its place; empty for none."""

    def check(manifest: Any, attribute: Any, value: object) -> None:
        if not isinstance(value, str) or (value and not _PLACE.fullmatch(value)):
            raise refused(manifest, f"{attribute.name} must be text such as 'package.module:name', not {value!r:.60}")

    return check


def must_be(kind: type, words: str, refused: Refused) -> Callable[[Any, Any, Any], None]:
    """Make the validator of a manifest's member that is of one *kind*, which is *words* in messages."""

    def check(manifest: Any, attribute: Any, value: object) -> None:
        if not isinstance(value, kind):
            raise refused(manifest, f"{attribute.name} must be {words}, not {value!r:.60}")

    return check


def must_stand_for(wanted: Callable[..., Any], refused: Refused) -> Callable[[Any, Any, Any], None]:
    """Make the validator of a manifest's member that is called in the place of *wanted*."""

    def check(manifest: Any, attribute: Any, value: object) -> None:
        if words := call_lacks(value, wanted):
            raise refused(manifest, f"{attribute.name} {words}")

    return check


def _members(interface: type) -> dict[str, property | FunctionType]:
    """The public properties and methods of *interface* and of what it derives from."""
    return {
        name: member
        for kind in reversed(interface.__mro__)
        for name, member in vars(kind).items()
        if not name.startswith("_") and isinstance(member, property | FunctionType)
    }


def _value_lacks(name: str, value: object, hint: Any) -> Iterator[str]:
    if value is _MISSING:
        yield f"there must be an attribute: {name}, {_words(hint)}"
    elif words := _unlike(value, hint):
        yield f"{name}{words}"


def _unlike(value: object, hint: Any) -> str:
    """Why *value* is not what *hint* says, in words that follow its name; empty where it is, as far as can be seen."""
    if type(value) is hint and hint in _PLAIN:
        return ""  # as most are; tables of models have thousands
    kind, of = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        found = {each: _unlike(value, each) for each in of}
        others = [words for each, words in found.items() if each is not NoneType]
        deeper = (words for words in others if len(others) == 1 or words.startswith((".", "[")))
        return "" if "" in found.values() else next(deeper, _not(value, hint))
    if kind is Callable:
        return _unlike_function(value, hint)
    if getattr(kind, "_is_protocol", False):
        lack = next(lacks(value, kind), "")
        return f", {type(value).__name__}: {lack}" if lack else ""
    if kind is Any or not isinstance(kind, type):  # a type variable, or what any value fits
        return ""
    is_text = kind is Collection and isinstance(value, str | bytes)  # a collection of its characters
    if is_text or not isinstance(value, (int, float) if kind is float else kind):
        return _not(value, hint)
    if kind is tuple and isinstance(value, tuple) and of and of[-1] is not ... and len(value) != len(of):
        return f" must have {len(of)} members, not {len(value)}"
    within = ((place, _unlike(each, wanted)) for place, each, wanted in _parts(value, kind, of))
    return next((f"{place}{words}" for place, words in within if words), "")


def _parts(value: Any, kind: type, of: tuple[Any, ...]) -> Iterator[tuple[str, object, Any]]:
    """What *value*, a *kind* of collection *of* something, or an attrs object, has in it: place, value, annotation."""
    if attrs.has(kind):
        hints = _hints(kind)
        names = (it.name for it in attrs.fields(kind) if not it.name.startswith("_"))
        yield from ((f".{name}", getattr(value, name), hints[name]) for name in names)
    elif kind is tuple and of:
        each = repeat(of[0]) if of[-1] is Ellipsis else of
        yield from ((f"[{at}]", *pair) for at, pair in enumerate(zip(value, each, strict=False)))
    elif issubclass(kind, Mapping) and of:
        for key, each in value.items():
            yield from ((f"[{key!r:.60}]", it, hint) for it, hint in zip((key, each), of, strict=True))


@cache
def _hints(of: Any) -> Mapping[str, Any]:
    """The annotations of a class or a function; a name that is there for type checkers alone stands for anything."""
    absent: dict[str, Any] = {}
    while True:
        try:
            return get_type_hints(of, localns=absent)
        except NameError as error:
            absent[str(error.name)] = Any


def _unlike_function(given: object, hint: Any) -> str:
    """Why *given* cannot be called as *hint* says, in words that follow its name; empty where it can."""
    wanted, result = get_args(hint) or (..., Any)
    if not callable(given):
        return _not(given, hint)
    is_awaited = bool(_AWAITABLE.search(str(result)))
    if is_async(given) and not is_awaited:
        return f" must not be async, as nobody awaits it: {_words(hint)}"
    if is_awaited and _is_plain(given):
        return f" must be async, or be annotated to return an Awaitable: {_words(hint)}"
    called = [] if wanted is ... else [Parameter(f"it{at}", Parameter.POSITIONAL_ONLY) for at in range(len(wanted))]
    fits = wanted is ... or _takes(given, inspect.Signature(called))
    return "" if fits else f" must take what it is called with: {_words(hint)}"


def _not(value: object, hint: Any) -> str:
    return f" must be {_words(hint)}, not {'None' if value is None else type(value).__name__}"


def _words(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and get_origin(hint) is None else re.sub(r"\b\w+\.", "", str(hint))


def _method_lacks(given: object, wanted: Callable[..., Any]) -> Iterator[str]:
    """What the method *given* lacks of *wanted*, which is a function of a class."""
    signature = inspect.signature(wanted)
    declared = _declared(wanted, signature)
    called = signature.replace(parameters=[*signature.parameters.values()][1:])
    if given is _MISSING or given is None:
        yield f"there must be a method: {declared}"
    elif words := _misuse(given, wanted, called, declared):
        yield f"{wanted.__name__} {words}"


def _misuse(given: object, wanted: Callable[..., Any], called: inspect.Signature, declared: str) -> str:
    """Why *given* cannot be called as *called*, and used as what *wanted* gives; empty where it can."""
    if not callable(given):
        return f"must be a function, not {given!r:.60}: {declared}"
    if not inspect.iscoroutinefunction(wanted):
        if is_async(given):
            return f"must not be async, as nobody awaits it: {declared}"
        if inspect.isgeneratorfunction(_function(given)) and not _SEVERAL.search(str(called.return_annotation)):
            return f"must not yield, as nothing of it would run: {declared}"
    elif _is_plain(given):
        return f"must be async, or be annotated to return an Awaitable: {declared}"
    return "" if _takes(given, called) else f"must take what it is called with: {declared}"


def _declared(function: Callable[..., Any], signature: inspect.Signature) -> str:
    """The first line of *function*, as its author would write it."""
    word = "async def" if inspect.iscoroutinefunction(function) else "def"
    return f"{word} {function.__name__.strip('_')}{_QUOTED.sub(lambda found: found[1], str(signature))}"


def _function(given: Any) -> Any:
    """What runs when *given* is called."""
    while isinstance(given, partial):
        given = given.func
    return given if inspect.isroutine(given) or isinstance(given, type) else type(given).__call__


def _is_plain(given: Callable[..., Any]) -> bool:
    """Whether what *given* returns can certainly not be awaited; of a lambda, and of what is compiled, nobody knows."""
    if inspect.iscoroutinefunction(given):
        return False
    function = inspect.unwrap(getattr(_function(given), "__func__", _function(given)))
    if isinstance(function, type):
        return True
    if not inspect.isfunction(function) or function.__name__ == "<lambda>":
        return False
    told = str(function.__annotations__.get("return", ""))
    return not (inspect.iscoroutinefunction(function) or _AWAITABLE.search(told))


def _takes(given: Callable[..., Any], called: inspect.Signature) -> bool:
    """Whether *given* takes the parameters of *called*: all of them, and only those that have no default."""
    try:
        signature = inspect.signature(given)
    except (TypeError, ValueError):  # compiled, and without a signature
        return True
    every = [*called.parameters.values()]
    least = [each for each in every if each.default is each.empty]
    try:
        for some in (every, least):
            named = {it.name: None for it in some if it.kind is it.KEYWORD_ONLY}
            signature.bind(*(None for it in some if it.kind is not it.KEYWORD_ONLY), **named)
    except TypeError:
        return False
    return True
