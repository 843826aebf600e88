"""From the bytes of a request to attrs classes: strict, tolerant of what is unknown, precise about what is wrong.

Strict means that nothing is coerced: a boolean is not a number, a string is not a list, ``null`` stands only where a
field may be ``None``; but an integer is taken where a float is wanted.  Tolerant means that unknown fields pass, and so
do objects whose ``type`` word is unknown.  The member of a union is chosen by the JSON type of the value, so that
``str | tuple[Block, ...] | None`` needs no declaration; in a union of several objects it is chosen by a word in them,
and the union is declared as `Tagged`.

Source: https://catt.rs/
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache, partial
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from attrs import field, fields_dict, frozen, has
from cattrs import Converter
from cattrs.errors import (
    AttributeValidationNote,
    BaseValidationError,
    ClassValidationError,
    IterableValidationError,
    IterableValidationNote,
)
from cattrs.gen import make_dict_structure_fn, override

from kiro_asgi.dialects.known import MEMBERS
from kiro_asgi.errors import RequestError
from kiro_asgi.limits import (
    ID_CHARACTERS,
    JSON_VALUES,
    LARGEST_INTEGER,
    NAME_CHARACTERS,
    REQUEST_DEPTH,
)
from kiro_asgi.wire.json import Decoder, JsonError, deep_place, loads

T = TypeVar("T")

Hook = Callable[[Any, Any], Any]

Each = Callable[[Iterable[tuple[Any, Any]], Hook, Any], list[Any]]
"""Structures the second of every pair; the first is its place."""

MISSING: Final = "required field missing"

MAX_PROBLEMS: Final = 5
"""Most problems that one message names."""

MAX_ECHO: Final = 60
"""Most characters of an offending word that are repeated."""


_NAMES: Final = (
    *("name", "namespace", "allowed_function_names", "role", "type", "mode", "status", "display", "execution"),
    *("effort", "reasoning_effort", "thinking_level", "generate_summary", "summary", "verbosity", "truncation"),
    *("include", "modalities", "response_modalities", "response_mime_type", "mime_type", "media_type"),
    *("encoding_format", "input_type", "allowed_domains", "blocked_domains", "exclude_domains"),
    *("user", "safety_identifier", "prompt_cache_key"),
)
_IDS: Final = ("id", "call_id", "tool_call_id", "tool_use_id", "previous_response_id", "conversation", "file_id")

LONGEST: Final[Mapping[str, int]] = MappingProxyType(
    {**dict.fromkeys(_NAMES, NAME_CHARACTERS), **dict.fromkeys(_IDS, ID_CHARACTERS)}
)
"""Members whose texts are compared, counted by, repeated in messages or stored under, whichever API has them, to how
many characters each may have.  What is not here is content, which is only handed on; ``model`` is
`kiro_asgi.model.conversion.is_model`'s."""


@frozen
class Raw:
    """A JSON object of a kind that we do not know, as it came."""

    value: Mapping[str, Any]
    rule: str = field(default="", kw_only=True, eq=False, repr=False)
    """As of `Tagged`."""


_NONE: Final[Mapping[str, Any]] = MappingProxyType({})

_TAGS: Final = frozenset({"type", "role"})
"""Members by which an object's class is found; every writer of the object has its own."""


_ABOUT: Final = frozenset({"unread", "given"})
"""Fields of shapes that are none of their members."""


@frozen
class Shape:
    """A JSON object that its class reads in part."""

    unread: Mapping[str, Any] = field(default=_NONE, kw_only=True, eq=False, repr=False)
    """The members for which the class has no field; of an object that it reads, as of `kiro_asgi.model.unread.Unread`,
    and of the items of arrays, which have their own, nothing."""


@frozen
class Whole(Shape):
    """An object that services of its API may need whole."""

    given: Mapping[str, Any] = field(default=_NONE, kw_only=True, eq=False, repr=False)
    """As it came."""


@frozen
class Tagged:
    """A union of classes, chosen by a word in the object; an unknown word gives `Raw`."""

    union: Any
    """The union type, e.g. ``TextBlock | ImageBlock | Raw``."""

    classes: Mapping[str, type]
    """Word to class."""

    tag: str = "type"
    """The field that holds the word."""

    default: str | None = None
    """The word of an object where the field is absent or null; ``None`` makes the field required."""

    endings: Mapping[str, type] = MappingProxyType({})
    """Ending to class, for words that *classes* has not: of kinds that go on being added."""

    rule: str = field(default="", kw_only=True)
    """The rule that leaves objects of unknown kinds out; empty where their reader notes that, or refuses them."""

    members: frozenset[Any] = field(init=False)

    @members.default
    def _members(self) -> frozenset[Any]:
        return frozenset(get_args(self.union) or (self.union,))

    def class_of(self, word: str) -> type:
        """The class of objects of this *word*; `Raw` where it is unknown."""
        found = self.classes.get(word)
        return found or next((cls for ending, cls in self.endings.items() if word.endswith(ending)), Raw)


@frozen
class StrictConverter:
    """Reads decoded JSON as classes: once, as most requests are right, and again for the places of what is wrong."""

    quick: Converter
    """Stops at the first problem, wherever that is."""

    precise: Converter
    """Notes the places of all problems."""

    def structure(self, value: Any, cls: type[T]) -> T:
        """The *value* as *cls*.

        Raises:
            ValueMismatch: It is of another kind.
            BaseValidationError: Something in it is; the steps that lead there are noted.
        """
        try:
            return self.quick.structure(value, cls)
        except (KeyError, TypeError, ValueError, BaseValidationError):
            return self.precise.structure(value, cls)


class ValueMismatch(ValueError):
    """A value does not fit its place; the place is added on the way up."""


def structure(
    body: bytes,
    cls: type[T],
    *,
    converter: StrictConverter | None = None,
    missing: str = MISSING,
    max_depth: int = REQUEST_DEPTH,
) -> T:
    """Read a request body.

    Args:
        body: UTF-8 JSON, one object.
        cls: The attrs class of the object.
        converter: From `make_converter`, where *cls* holds tagged unions.
        missing: Message about a required field that is absent.
        max_depth: Most arrays and objects open at once.

    Raises:
        RequestError: Not JSON (code ``invalid_json``), or not what *cls* wants (code ``invalid_value``, or
            ``missing_required_parameter``): the message names the places, ``param`` the first of them.
    """
    return structure_value(read_json(body, max_depth=max_depth), cls, converter=converter, missing=missing)


def read_json(
    body: bytes,
    *,
    max_depth: int = REQUEST_DEPTH,
    max_values: int = JSON_VALUES,
    decoder: Decoder | None = None,
) -> Any:
    """The value of a request body, with at most *max_depth* arrays and objects open at once, and *max_values* in all.

    Raises:
        RequestError: Code ``invalid_json``; it is none, or has a member twice.
    """
    try:
        return loads(body, max_depth=max_depth, max_values=max_values, decoder=decoder or MEMBERS)
    except JsonError as exc:
        place = deep_place(body, max_depth) if exc.code == "json.too_deep" else ""
        message = f"{place}: {exc.message}" if place else exc.message
        raise RequestError(message, code="invalid_json", param=place) from exc


def structure_value(
    value: Any, cls: type[T], *, converter: StrictConverter | None = None, missing: str = MISSING, at: str = ""
) -> T:
    """Read an already decoded JSON value that stands at the place *at* of its document; otherwise like `structure`."""
    try:
        return (converter or PLAIN).structure(value, cls)
    except (ValueMismatch, BaseValidationError) as exc:
        raise _request_error(exc, missing, at) from exc


# Messages about what is wrong.


def _request_error(error: Exception, missing: str, at: str) -> RequestError:
    problems = list(_problems(error, at))
    path, first = problems[0]
    lines = [f"{place or 'request body'}: {_words(problem, missing)}" for place, problem in problems[:MAX_PROBLEMS]]
    if len(problems) > MAX_PROBLEMS:
        lines.append(f"and {len(problems) - MAX_PROBLEMS} more")
    code = "missing_required_parameter" if isinstance(first, KeyError) else "invalid_value"
    return RequestError("; ".join(lines), code=code, param=path)


def _problems(error: BaseException, path: str) -> Iterator[tuple[str, BaseException]]:
    """Every leaf of a tree of errors with its place, in the order of the fields."""
    if not isinstance(error, BaseValidationError):
        yield path, error
        return
    for child in error.exceptions:
        yield from _problems(child, path + _step(child, path))


def _step(error: BaseException, path: str) -> str:
    """The last step of the way to *error*, which its collector has noted on it."""
    note = error.__notes__[-1]
    if isinstance(note, IterableValidationNote) and isinstance(note.index, int):
        return f"[{note.index}]"
    name = note.name if isinstance(note, AttributeValidationNote) else _clip(str(note.index))
    return f".{name}" if path else name


def _words(problem: BaseException, missing: str) -> str:
    return missing if isinstance(problem, KeyError) else str(problem)


def _clip(text: str) -> str:
    return text if len(text) <= MAX_ECHO else f"{text[: MAX_ECHO - 1]}…"


_KINDS: Final = MappingProxyType(
    {
        str: "a string",
        int: "an integer",
        float: "a number",
        bool: "a boolean",
        list: "an array",
        dict: "an object",
        NoneType: "null",
    }
)
"""Python type of a decoded JSON value to its name in JSON."""


def _mismatch(expected: str, value: Any) -> ValueMismatch:
    return ValueMismatch(f"expected {expected}, got {_KINDS.get(type(value), 'something else')}")


# Hooks.


def make_converter(*unions: Tagged) -> StrictConverter:
    """A strict converter that also knows these unions of objects."""
    quick, precise = Converter(detailed_validation=False), Converter(detailed_validation=True)
    return StrictConverter(_strict(quick, unions, _every), _strict(precise, unions, _each))


def _strict(converter: Converter, unions: Sequence[Tagged], each: Each) -> Converter:
    for cls in (str, bool, NoneType):
        converter.register_structure_hook(cls, _exactly(cls))
    converter.register_structure_hook(int, _integer)
    converter.register_structure_hook(float, _number)
    converter.register_structure_hook_factory(has, _object)
    converter.register_structure_hook_factory(_is_array, partial(_array, each))
    converter.register_structure_hook_factory(_is_mapping, partial(_mapping, each))
    converter.register_structure_hook_factory(_is_words, _words_of)
    converter.register_structure_hook_factory(_is_union, lambda cls, conv: _union(cls, conv, unions))
    return converter


def _exactly(cls: type) -> Hook:
    """Take values of *cls* itself, as they are."""
    expected = _KINDS[cls]

    def hook(value: Any, _: Any) -> Any:
        if type(value) is not cls:
            raise _mismatch(expected, value)
        return value

    return hook


def is_worded(kind: Any) -> bool:
    """Whether values of a member of this *kind* are texts, or several, and no objects."""
    return kind is str or (not has(kind) and not _is_mapping(kind) and any(map(is_worded, get_args(kind))))


def _short(hook: Hook, most: int) -> Hook:
    """*hook* for texts of at most *most* characters each."""

    def limited(value: Any, of: Any) -> Any:
        found = hook(value, of)
        for text in found if type(found) is tuple else (found,):
            if type(text) is str and len(text) > most:
                raise ValueMismatch(f"is longer than {most:,} characters")
        return found

    return limited


def _integer(value: Any, _: Any) -> int:
    if type(value) is not int:
        raise _mismatch(_KINDS[int], value)
    if abs(value) >= LARGEST_INTEGER:
        raise ValueMismatch("number out of range")
    return value


def _number(value: Any, _: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is not int:
        raise _mismatch("a number", value)
    try:
        return float(value)
    except OverflowError:
        raise ValueMismatch("number out of range") from None


def _object(cls: Any, converter: Converter) -> Hook:
    """The generated hook of an attrs class, which itself would also look for fields in a string or a list."""
    types = members_of(cls)
    about: Any = {name: override(omit=True) for name in fields_dict(cls) if name not in types}
    for name, kind in types.items():
        if name in LONGEST and is_worded(kind):
            about[name] = override(struct_hook=_short(converter.get_structure_hook(kind), LONGEST[name]))
    inner = make_dict_structure_fn(cls, converter, _cattrs_detailed_validation=converter.detailed_validation, **about)
    known = _TAGS.union(types)
    objects = [name for name, kind in types.items() if any(map(has, get_args(kind) or (kind,)))]
    is_shape, is_whole = issubclass(cls, Shape), issubclass(cls, Whole)

    def hook(value: Any, _: Any) -> Any:
        if type(value) is not dict:
            raise _mismatch("an object", value)
        found = inner(value, cls)
        if not is_shape:
            return found
        unread = {} if known.issuperset(value) else _unread(cls, value, known)
        for name in objects:
            if isinstance(part := getattr(found, name), Shape) and part.unread:
                unread[name] = part.unread
        if unread:
            _set(found, "unread", unread)
        if is_whole:
            _set(found, "given", value)
        return found

    return hook


_set: Final = object.__setattr__
"""Completes a frozen object that nobody else has yet; to make it anew takes as long as to read it."""


@cache
def members_of(cls: type) -> Mapping[str, Any]:
    """The members of an object that *cls* reads, with their types.

    Asked for with every request, and to read the types of one class takes as long as to read twenty messages.
    """
    return MappingProxyType({name: kind for name, kind in get_type_hints(cls).items() if name not in _ABOUT})


def _unread(cls: type, value: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    """The members of *value*, which *cls* reads, that are not *known*."""
    return {name: it for name, it in value.items() if name not in known and not is_misspelt(cls, name)}


@cache
def _folded(cls: type) -> frozenset[str]:
    return frozenset(name.lower() for name in members_of(cls))


def is_misspelt(cls: type, name: str) -> bool:
    """Whether *name* is, but for case, that of a member that *cls* reads: services that read names without case would
    take it for that one, so none is sent it."""
    return name.lower() in _folded(cls) and name not in members_of(cls)


def _is_array(cls: Any) -> bool:
    return get_origin(cls) in (tuple, list, Sequence)


def _array(each: Each, cls: Any, converter: Converter) -> Hook:
    """Arrays become tuples (lists where the field says so)."""
    item = get_args(cls)[0]
    structure_item = converter.get_structure_hook(item)
    is_list = get_origin(cls) is list

    def hook(value: Any, _: Any) -> Any:
        if type(value) is not list:
            raise _mismatch("an array", value)
        taken = each(enumerate(value), structure_item, item)
        return taken if is_list else tuple(taken)

    return hook


def _is_mapping(cls: Any) -> bool:
    return (get_origin(cls) or cls) in (dict, Mapping)


def _mapping(each: Each, cls: Any, converter: Converter) -> Hook:
    """Objects whose keys are data; kept as they are unless the class has a type for the values."""
    of = (get_args(cls) or (str, Any))[1]
    if of is Any:
        return _exactly(dict)
    structure_item = converter.get_structure_hook(of)

    def hook(value: Any, _: Any) -> Any:
        if type(value) is not dict:
            raise _mismatch("an object", value)
        return dict(zip(value, each(value.items(), structure_item, of), strict=True))

    return hook


def _every(items: Iterable[tuple[Any, Any]], hook: Hook, of: Any) -> list[Any]:
    """As of `Each`, up to the first that fails."""
    return [hook(value, of) for _, value in items]


def _each(items: Iterable[tuple[Any, Any]], hook: Hook, of: Any) -> list[Any]:
    """As of `Each`; the places of those that fail are noted, and `MAX_PROBLEMS` of them end the search."""
    taken: list[Any] = []
    errors: list[Exception] = []
    for place, value in items:
        try:
            taken.append(hook(value, of))
        except (ValueMismatch, BaseValidationError) as exc:
            exc.add_note(IterableValidationNote(f"at {place!r}", place, of))
            errors.append(exc)
            if len(errors) > MAX_PROBLEMS:
                break
    if errors:
        raise IterableValidationError("bad items", errors, list)
    return taken


def _is_words(cls: Any) -> bool:
    return get_origin(cls) is Literal or (isinstance(cls, type) and issubclass(cls, Enum))


def _words_of(cls: Any, _: Converter) -> Hook:
    """Enumerations and literals of strings."""
    table = {word: word for word in get_args(cls)} if get_origin(cls) is Literal else {each.value: each for each in cls}
    expected = " or ".join(f'"{word}"' for word in table)

    def hook(value: Any, _: Any) -> Any:
        if type(value) is not str:
            raise _mismatch(expected, value)
        if value not in table:
            raise ValueMismatch(f'expected {expected}, got "{_clip(value)}"')
        return table[value]

    return hook


def _is_union(cls: Any) -> bool:
    return get_origin(cls) in (Union, UnionType)


def _union(cls: Any, converter: Converter, unions: Sequence[Tagged]) -> Hook:
    """Choose the member of a union by the JSON type of the value."""
    members = frozenset(get_args(cls))
    objects = frozenset(member for member in members if has(member))
    if objects == members:
        return _tagged(_declared(objects, unions), converter)
    table: dict[type, tuple[Hook, Any]] = {}
    for member in members - objects:
        for kind in _json_types(member):
            table[kind] = (converter.get_structure_hook(member), member)
    if len(objects) == 1:
        (member,) = objects
        table[dict] = (converter.get_structure_hook(member), member)
    elif objects:
        table[dict] = (_tagged(_declared(objects, unions), converter), None)
    names = (name for kind, name in _KINDS.items() if kind in table and not (kind is int and float in table))
    expected = " or ".join(names)

    def hook(value: Any, _: Any) -> Any:
        found = table.get(type(value))
        if found is None:
            raise _mismatch(expected, value)
        return found[0](value, found[1])

    return hook


def _declared(objects: frozenset[Any], unions: Sequence[Tagged]) -> Tagged:
    for union in unions:
        if union.members == objects:
            return union
    raise TypeError(f"a union of {len(objects)} classes that was not declared as Tagged: {sorted(map(str, objects))}")


def _json_types(member: Any) -> tuple[type, ...]:
    """The Python types of the decoded JSON values that *member* takes."""
    if member is float:
        return (float, int)
    if _is_array(member):
        return (list,)
    if _is_mapping(member):
        return (dict,)
    return (str,) if _is_words(member) else (member,)


def _tagged(union: Tagged, converter: Converter) -> Hook:
    tag, default = union.tag, union.default
    table = {word: (converter.get_structure_hook(cls), cls) for word, cls in union.classes.items()}
    endings = {ending: (converter.get_structure_hook(cls), cls) for ending, cls in union.endings.items()}

    def hook(value: Any, _: Any) -> Any:
        if type(value) is not dict:
            raise _mismatch("an object", value)
        word = value.get(tag)
        if word is None:
            word = default
        if type(word) is not str:
            raise _bad_tag(tag, _mismatch("a string", value[tag]) if tag in value else KeyError(tag))
        if len(word) > NAME_CHARACTERS:
            raise _bad_tag(tag, ValueMismatch(f"is longer than {NAME_CHARACTERS:,} characters"))
        found = table.get(word) or next((it for ending, it in endings.items() if word.endswith(ending)), None)
        return Raw(value, rule=union.rule) if found is None else found[0](value, found[1])

    return hook


def _bad_tag(tag: str, problem: Exception) -> ClassValidationError:
    problem.add_note(AttributeValidationNote(f"at {tag}", tag, str))
    return ClassValidationError("bad tag", [problem], dict)


PLAIN: Final = make_converter()
"""Knows no union of objects."""
