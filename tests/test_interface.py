"""What an object lacks of an interface is found, whichever member is taken away, made async or called otherwise."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from functools import partial, wraps
from types import FunctionType
from typing import Any

import pytest
from attrs import evolve, field, fields, frozen

from kiro_asgi import BatchStore, Observer, Settings, TokenEstimator, WatchedStore
from kiro_asgi.asgi.kept.guarded import GuardedStore
from kiro_asgi.asgi.kept.server_tools import ServerTool, WebSearch
from kiro_asgi.asgi.routing import new_dialects
from kiro_asgi.dialects.base import (
    CountingDialect,
    DescribedDialect,
    Dialect,
    DialectTraits,
    EmbeddingDialect,
    ListingDialect,
    OperatingDialect,
    RecallingDialect,
)
from kiro_asgi.dialects.manifest import COUNT, EMBED, MODELS, Endpoint, QuotaHeaders, RoutedDialect
from kiro_asgi.dialects.passthrough import TransparentDialect
from kiro_asgi.errors import ConfigError
from kiro_asgi.interface import call_lacks, fields_lack, lacks, offers
from kiro_asgi.observers.base import ByteObserver
from kiro_asgi.stages.base import Stage
from kiro_asgi.stages.estimate import Estimator
from kiro_asgi.state.base import Store
from kiro_asgi.state.memory import MemoryStore
from kiro_asgi.state.sqlite import SqliteStore
from kiro_asgi.upstreams.access import Hosts, KeyExchange, Keys, Vendor
from kiro_asgi.upstreams.base import Embedder, Forwarding, ModelCard, NamingUpstream, Traits, Upstream
from kiro_asgi.upstreams.manifest import Configured, all_of, manifests_in
from kiro_asgi.upstreams.settings import AnswerOptions, DescribedQuota, Search, Setup

INTERFACES: tuple[type, ...] = (
    Store,
    Observer,
    ByteObserver,
    ServerTool,
    Estimator,
    Stage,
    Dialect,
    CountingDialect,
    ListingDialect,
    TransparentDialect,
    Upstream,
    BatchStore,
    WatchedStore,
    EmbeddingDialect,
    RecallingDialect,
    RoutedDialect,
    OperatingDialect,
    DescribedDialect,
    NamingUpstream,
    Forwarding,
    Embedder,
    Search,
    DescribedQuota,
    Hosts,
    Vendor,
)
"""Every interface that somebody outside may have to fulfil."""


def members(interface: type) -> dict[str, Any]:
    return {
        name: member
        for kind in reversed(interface.__mro__)
        for name, member in vars(kind).items()
        if not name.startswith("_") and isinstance(member, property | FunctionType)
    }


EACH = [pytest.param(it, name, id=f"{it.__name__}.{name}") for it in INTERFACES for name in members(it)]
METHODS = [it for it in EACH if isinstance(members(it.values[0])[it.values[1]], FunctionType)]


def whole(interface: type, without: str = "") -> Any:
    """An object that has all of *interface* but one member: its own methods, and values for its attributes."""
    values = {
        name: next((kind() for kind in (str, tuple, dict) if not [*lacks_of(kind(), member)]), None)
        for name, member in members(interface).items()
        if isinstance(member, property)
    }
    methods = {name: member for name, member in members(interface).items() if isinstance(member, FunctionType)}
    return type("Whole", (), {name: it for name, it in {**methods, **values}.items() if name != without})()


def lacks_of(value: object, member: property) -> Iterator[str]:
    """What *value* lacks to be the attribute."""
    holder = type("Holder", (), {"it": value})()
    return lacks(holder, type("Interface", (), {"it": member}))


def changed(interface: type, name: str, member: object) -> Any:
    """The same with another *member* of that name."""
    kind = type(whole(interface))
    return type("Changed", (kind,), {name: member})()


def found(given: object, interface: type) -> list[str]:
    """What *given* lacks, but for attributes of types that `whole` cannot make."""
    usual = [*lacks(whole(interface), interface)]
    return [words for words in lacks(given, interface) if words not in usual]


def async_twin(method: Callable[..., Any]) -> Callable[..., Any]:
    """The same as an async function, or the reverse."""

    @wraps(method, updated=())
    def plain(*args: Any, **kwargs: Any) -> None: ...

    @wraps(method, updated=())
    async def waiting(*args: Any, **kwargs: Any) -> None: ...

    twin = plain if inspect.iscoroutinefunction(method) else waiting
    del twin.__wrapped__  # type: ignore[attr-defined]
    twin.__annotations__ = {}
    return twin


@pytest.mark.parametrize(("interface", "name"), EACH)
def test_what_is_missing_is_found(interface: type, name: str) -> None:
    """With its first line, or its type, as it has to be written."""
    [words] = found(whole(interface, without=name), interface)

    assert words.startswith(("there must be a method: ", "there must be an attribute: "))
    assert name in words


@pytest.mark.parametrize(("interface", "name"), METHODS)
def test_what_is_async_or_is_not_is_found(interface: type, name: str) -> None:
    """The one would never run, the other give what cannot be awaited."""
    [words] = found(changed(interface, name, async_twin(members(interface)[name])), interface)

    assert words.startswith((f"{name} must be async, or be annotated", f"{name} must not be async, as nobody"))


@pytest.mark.parametrize(("interface", "name"), METHODS)
def test_what_yields_is_found_where_it_gives_one_thing(interface: type, name: str) -> None:
    """Called, it would run nothing; where several are given, that is how to write it."""

    def twin(*args: Any, **kwargs: Any) -> Any:
        yield

    member = members(interface)[name]
    told = found(changed(interface, name, twin), interface)
    if inspect.iscoroutinefunction(member):
        assert told[0].startswith(f"{name} must be async")
    elif "Iter" in str(member.__annotations__["return"]):
        assert told == []
    elif told:
        assert told[0].startswith(f"{name} must not yield, as nothing of it would run: def {name}(")
    else:
        assert re.search("tuple|Mapping", str(member.__annotations__["return"]))


@pytest.mark.parametrize(("interface", "name"), METHODS)
def test_what_takes_something_else_is_found(interface: type, name: str) -> None:
    """One parameter more than it is called with."""
    one_more = "(self, a, b, c, d, e, f, g, h, i, j): ..."
    space: dict[str, Any] = {}
    word = "async def" if inspect.iscoroutinefunction(members(interface)[name]) else "def"
    exec(f"{word} {name}{one_more}", space)

    [words] = found(changed(interface, name, space[name]), interface)
    assert words.startswith(f"{name} must take what it is called with: ")


@pytest.mark.parametrize(("interface", "name"), METHODS)
def test_what_is_no_function_is_found(interface: type, name: str) -> None:
    """A value in its place."""
    [words] = found(changed(interface, name, 5), interface)

    assert words.startswith(f"{name} must be a function, not 5: ")


@pytest.mark.parametrize("interface", INTERFACES)
def test_a_class_is_no_object(interface: type) -> None:
    """Handed over by those who forget the parentheses."""
    [words] = lacks(type(whole(interface)), interface)

    assert words == "is a class; hand over an object, such as Whole()"


def test_what_the_package_has_lacks_nothing(tmp_path: Any) -> None:
    """The interfaces ask no more than what is used: all parts of our own fulfil them."""
    ours: list[tuple[object, type]] = [
        (MemoryStore(1, 1), Store),
        (SqliteStore(tmp_path / "state.db", 1, 1), Store),
        (GuardedStore(MemoryStore(1, 1), 2.0), Store),
        (TokenEstimator(), Estimator),
        (Observer(), Observer),
        (ByteObserver(), ByteObserver),
        (WebSearch(None, None, 1.0), ServerTool),  # type: ignore[arg-type]
    ]
    for api, dialect in new_dialects(Settings()).items():
        operations = {endpoint.operation for endpoint in api.endpoints}
        ours.append((dialect, Dialect))
        ours += [(dialect, TransparentDialect)] if dialect.traits.transparent else []
        ours += [(dialect, CountingDialect)] if COUNT in operations and api.operations.endswith(":Operations") else []
        ours += [(dialect, ListingDialect)] if MODELS in operations else []
        ours += [(dialect, EmbeddingDialect)] if EMBED in operations else []
        optional = (RoutedDialect, OperatingDialect, DescribedDialect)
        ours += [(dialect, interface) for interface in optional if offers(dialect, interface)]
    ours += [(setup.upstream, Upstream) for setup in setups()]

    assert [(given, words) for given, interface in ours for words in lacks(given, interface)] == []
    assert [words for setup in setups() for words in fields_lack(setup)] == []


def setups() -> Iterator[Setup]:
    """Everything that it takes to ask each service."""
    yield from (each.make() for each in all_of(Settings()))
    custom = dict(manifests_in(Settings))["custom"]
    yield Configured("custom.x", custom, custom.settings(endpoint="http://x")).make()


async def waited(scope: str) -> None: ...


def always(*args: Any) -> str:
    return ""


FACTS: tuple[Any, ...] = (
    next(setups()),
    AnswerOptions(first_event_timeout=1.0, thinking_first_event_timeout=1.0),
    Keys((("a", "b"),), examine=lambda: ""),
    KeyExchange("http://x"),
    ModelCard("m"),
    Traits(),
    DialectTraits(),
    Endpoint("GET", "/x"),
    QuotaHeaders("x-{kind}-{part}", always),
)
"""One of each class of facts that somebody outside makes."""


@frozen
class Unlike:
    """What no field takes."""


@pytest.mark.parametrize("facts", FACTS, ids=lambda it: type(it).__name__)
def test_each_field_of_facts_is_looked_at(facts: Any) -> None:
    """Whatever its annotation says; and what is there already is as it says."""
    assert [*fields_lack(facts)] == []
    for it in fields(type(facts)):
        try:
            words = [*fields_lack(evolve(facts, **{it.name: Unlike()}))]
        except ConfigError as error:
            words = [error.message.rpartition(": ")[2]]
        assert any(it.name in each for each in words), it.name


@frozen
class Sample:
    """Fields of every kind of annotation."""

    later: Callable[[str, int], Awaitable[None]] = lambda text, number: waited(text)
    at_once: Callable[[str], int] = len
    pairs: tuple[tuple[bytes, bytes], ...] = ()
    table: Mapping[str, int] = {}
    names: Collection[str] = ()
    share: float | None = None
    card: ModelCard = field(factory=lambda: ModelCard("m"))
    secret: str = field(default="", repr=False)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("later", lambda *_: waited(""), ""),
        ("later", lambda text: None, " must take what it is called with: Callable[[str, int], Awaitable[None]]"),
        ("later", 5, " must be Callable[[str, int], Awaitable[None]], not int"),
        ("at_once", waited, " must not be async, as nobody awaits it: Callable[[str], int]"),
        ("pairs", ((b"a", "b"),), "[0][1] must be bytes, not str"),
        ("pairs", ((b"a", b"b", b"c"),), "[0] must have 2 members, not 3"),
        ("pairs", [(b"a", b"b")], " must be tuple[tuple[bytes, bytes], ...], not list"),
        ("table", {"a": "b"}, "['a'] must be int, not str"),
        ("table", {5: 5}, "[5] must be str, not int"),
        ("names", "ab", " must be Collection[str], not str"),
        ("share", 1, ""),
        ("share", "1", " must be float, not str"),
        ("card", ModelCard("m", context_window="8k"), ".context_window must be int, not str"),  # type: ignore[arg-type]
        ("secret", 5, " must be str, not int"),
    ],
)
def test_a_field_is_told_by_its_place(name: str, value: Any, words: str) -> None:
    """And by what it must be; no value is repeated, as some are secrets."""
    sample = Sample()
    assert [*fields_lack(sample)] == []

    assert [*fields_lack(evolve(sample, **{name: value}))] == ([f"{name}{words}"] if words else [])


async def three(scope: str, receive: str, send: str) -> None: ...


def plain(scope: str) -> None: ...


def told(scope: str) -> Any:
    return waited(scope)


told.__annotations__["return"] = "Awaitable[None]"


def wrapping(scope: str) -> None: ...


class Waiting:
    async def __call__(self, scope: str) -> None: ...


@pytest.mark.parametrize(
    "given",
    [
        waited,
        partial(three, receive="", send=""),
        lambda scope: waited(scope),
        told,
        Waiting(),
        wraps(waited)(wrapping),
    ],
    ids=["async", "partial", "lambda", "annotated", "object", "wrapped"],
)
def test_what_can_be_awaited_may_be_written_in_many_ways(given: Any) -> None:
    """None of them is refused for its form."""
    assert call_lacks(given, waited) == ""


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (plain, "must be async, or be annotated to return an Awaitable"),
        (three, "must take what it is called with"),
        (5, "must be a function, not 5"),
        (Waiting, "must be async"),
    ],
)
def test_what_cannot_be_called_so_is_refused(given: Any, words: str) -> None:
    """With the first line of what can."""
    found = call_lacks(given, waited)

    assert found.startswith(words)
    assert found.endswith("such as async def waited(scope: str) -> None")
