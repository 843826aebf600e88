"""Wrong objects are found when they are handed in, with place and advice; what only shows later is a plain 500."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve, fields, frozen

from kiro_asgi import (
    App,
    ConfigError,
    Observer,
    ObserverManifest,
    StageManifest,
    StoreManifest,
    StoreUnavailable,
    create_app,
)
from kiro_asgi.asgi.kept.guarded import GuardedStore
from kiro_asgi.dialects import CONSTANT, COUNT, EMBED, MODELS, DialectTraits, Endpoint, constant
from kiro_asgi.dialects.manifest import QuotaHeaders, duration
from kiro_asgi.model.events import Delta, Notice, TextDelta
from kiro_asgi.state.memory import MemoryStore
from kiro_asgi.upstreams import (
    Configured,
    Credential,
    DirectSettings,
    DirectUpstream,
    KeyExchange,
    Keys,
    Manifest,
    ModelCard,
    ModelPage,
    Rendered,
    UpstreamRequest,
    common,
    direct_setup,
)
from tests.asgi.answers import ALL_DIALECTS, text_of
from tests.asgi.conftest import settings_for
from tests.asgi.driver import Exchange, ask, get, http_scope, post
from tests.examples import example

pytestmark = pytest.mark.anyio

PLAIN = example("plain_dialect").PLAIN
PlainText = example("plain_dialect").PlainText
SETTINGS: dict[str, Any] = {"client": {"api_keys": ["k"]}, "kiro": {"api_key": "ksk_test"}}

EACH_WAY = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "collected"])


class Without:
    """An object with the members of another, but one."""

    def __init__(self, whole: object, name: str, /, **others: Any) -> None:
        for each in dir(whole):
            if not each.startswith("__") and each != name:
                setattr(self, each, getattr(whole, each))
        self.__dict__.update(others)


class Late(Observer):
    async def ended(self, call: Any, end: Any) -> None: ...  # type: ignore[override]


class Curt(Observer):
    def began(self) -> None: ...  # type: ignore[override]


class Yonder(Observer):
    def ended(self, call: Any, end: Any) -> Any:
        yield


class Many(MemoryStore):
    def get_many(self, keys: Any) -> Any: ...  # type: ignore[override]


class Locked(MemoryStore):
    async def lock(self, key: str) -> Any: ...


def make_nothing(options: object) -> Any: ...


async def make_later(options: object) -> Any: ...


def made(dialect: object) -> Any:
    return evolve(PLAIN, make=lambda options: dialect)


def with_setup(setup: object) -> Manifest[Any]:
    return Manifest(name="river", title="River", settings=DirectSettings, make=lambda configured: setup)


def setup_with(**changes: Any) -> Manifest[Any]:
    def make(configured: Configured[Any]) -> Any:
        return evolve(direct_setup(configured, Odd(**common(configured)), (), "http://h"), **changes)

    return Manifest(name="river", title="River", settings=DirectSettings, make=make)


def stage_by_stage(prompt: Any) -> Any:
    yield


async def wait_for_stage(prompt: Any) -> Any: ...


def told_at_once(scope: Any) -> bool:
    return True


def no_app(scope: Any) -> None: ...


def no_keys() -> None: ...


async def two_keys(key: str, user: str) -> None: ...


STORE = MemoryStore(1, 1)
ODD_EXCHANGE = KeyExchange("http://x", scheme=5)  # type: ignore[arg-type]
EVERYTHING = Endpoint("GET", "/plain/{id:path}")
DIALECT = PlainText(example("plain_dialect").PlainSettings())

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "settings": ({"settings": "gateway.toml"}, "settings: must be Settings, a mapping or None, not 'gateway.toml'"),
    "inner": ({"inner": no_app}, "inner, no_app: must be async, or be annotated to return an Awaitable"),
    "upstream": ({"upstreams": ["river"]}, "upstreams[0], str: must be a kiro_asgi.Manifest"),
    "upstreams, one": ({"upstreams": setup_with()}, "upstreams: must be a list, even of one, not Manifest("),
    "dialect": ({"dialects": [PLAIN, DIALECT]}, "dialects[1], PlainText: must be a kiro_asgi.DialectManifest"),
    "dialects, one": ({"dialects": PLAIN}, "dialects: must be a list, even of one, not DialectManifest("),
    "dialect, made of nothing": (
        {"dialects": [evolve(PLAIN, make=make_nothing)]},
        "plain: the client API's make gave a NoneType, which is no Dialect: there must be an attribute: name, str",
    ),
    "dialect without error": (
        {"dialects": [made(Without(DIALECT, "error"))]},
        "plain: the client API's make gave a Without, which is no Dialect: there must be a method: "
        "def error(self, error: KiroAsgiError, request_id: str) -> ErrorReply; see kiro_asgi.dialects.Dialect",
    ),
    "dialect of another name": (
        {"dialects": [made(Without(DIALECT, "name", name="other"))]},
        "plain: the client API's make gave a Without whose name is 'other'; it must be the API's",
    ),
    "dialect that cannot count": (
        {
            "dialects": [
                evolve(
                    made(Without(DIALECT, "parse_count")),
                    endpoints=(*PLAIN.endpoints, Endpoint("POST", "/plain/count", COUNT)),
                )
            ]
        },
        "which is no CountingDialect: there must be a method: def parse_count(self, body: bytes, /) -> Prompt",
    ),
    "dialect that cannot list": (
        {"dialects": [evolve(PLAIN, endpoints=(*PLAIN.endpoints, Endpoint("GET", "/plain/models", MODELS)))]},
        "which is no ListingDialect: there must be a method: def render_models(",
    ),
    "dialect that cannot pass": (
        {"dialects": [made(Without(DIALECT, "traits", traits=DialectTraits(transparent=True)))]},
        "whose traits.transparent is true: there must be a method: def passed(",
    ),
    "dialect that cannot embed": (
        {"dialects": [evolve(PLAIN, endpoints=(*PLAIN.endpoints, Endpoint("POST", "/plain/vectors", EMBED)))]},
        "which is no EmbeddingDialect: there must be a method: def parse_embeddings(",
    ),
    "dialect that cannot recall": (
        {"dialects": [made(Without(DIALECT, "traits", traits=DialectTraits(recalls=True)))]},
        "whose traits.recalls is true: there must be a method: def parse_recalled(",
    ),
    "dialect with operations of nothing": (
        {"dialects": [made(Without(DIALECT, "", operations=["sing"]))]},
        "operations must be Mapping[str, Callable[[ApiRequest], Awaitable[ApiReply]]], not list; see",
    ),
    "dialect with an operation that is not async": (
        {"dialects": [made(Without(DIALECT, "", operations={"sing": make_nothing}))]},
        "operations['sing'] must be async, or be annotated to return an Awaitable: Callable[[ApiRequest]",
    ),
    "dialect with an operation of nothing": (
        {"dialects": [made(Without(DIALECT, "", operations={"sing": lambda: None}))]},
        "operations['sing'] must take what it is called with: Callable[[ApiRequest]",
    ),
    "dialect that is nowhere": (
        {"dialects": [made(Without(DIALECT, "", at=lambda: DIALECT))]},
        "at must take what it is called with: def at(self, endpoint: Endpoint, argument: str, /) -> Dialect; see",
    ),
    "dialect whose bodies are none": (
        {"dialects": [made(Without(DIALECT, "", bodies=[]))]},
        "bodies must be Mapping[str, Any], not list; see kiro_asgi.dialects.DescribedDialect",
    ),
    "operation of no one's": (
        {"dialects": [evolve(PLAIN, endpoints=(Endpoint("POST", "/plain", "_gateway"),))]},
        "plain has no operation '_gateway' for /plain; there are answer, count, embed, model, models",
    ),
    "operations that are no class": (
        {"dialects": [evolve(PLAIN, operations="os:sep")]},
        "the client API 'plain' has operations = 'os:sep', which must be a function, not '/'",
    ),
    "endpoint that nobody meets": (
        {"dialects": [evolve(PLAIN, endpoints=(Endpoint("POST", "/plain/"),))]},
        "no request would meet /plain/, as no slash at the end counts; choose another path",
    ),
    "endpoint behind another": (
        {"dialects": [evolve(PLAIN, endpoints=(EVERYTHING, Endpoint("GET", "/plain/x/{id}")))]},
        "no request would meet /plain/x/{id}, as /plain/{id:path} is before it; choose another path",
    ),
    "operation": (
        {"dialects": [evolve(PLAIN, endpoints=(Endpoint("POST", "/plain", "sing"),))]},
        "plain has no operation 'sing' for /plain; there are answer, count, embed, model, models",
    ),
    "stage": ({"stages": [5]}, "stages[0], int: must be a function, not 5: such as def make_stage(prompt: Prompt, /)"),
    "stage, async": ({"stages": [wait_for_stage]}, "stages[0], wait_for_stage: must not be async, as nobody awaits it"),
    "stage, curt": ({"stages": [lambda: None]}, "stages[0], <lambda>: must take what it is called with"),
    "stages, one": ({"stages": example("redacting_stage").redact_codename}, "stages: must be a list, even of one, not"),
    "store": (
        {"store": object()},
        "store, object: there must be a method: async def get(self, key: str) -> bytes | None; see kiro_asgi.Store",
    ),
    "store, class": ({"store": MemoryStore}, "store, MemoryStore: is a class; hand over an object, such as Memory"),
    "store, half": ({"store": Without(STORE, "take")}, "there must be a method: async def take(self, key: str)"),
    "store, async lock": (
        {"store": Locked(1, 1)},
        "store, Locked: lock must not be async, as nobody awaits it: def lock(self, key: str)",
    ),
    "store, not async": ({"store": Without(STORE, "", get=lambda: None)}, "get must take what it is called with"),
    "estimator": ({"estimator": SimpleNamespace()}, "estimator, SimpleNamespace: there must be a method: def estimate"),
    "observer": ({"observers": [object()]}, "observers[0], object: must inherit from kiro_asgi.Observer"),
    "observer, class": ({"observers": [Late]}, "observers[0], Late: is a class; hand over an object, such as Late()"),
    "observer, async": (
        {"observers": [Observer(), Late()]},
        "observers[1], Late: ended must not be async, as nobody awaits it: def ended(self, call: CallFacts, end: EndF",
    ),
    "observer, curt": ({"observers": [Curt()]}, "observers[0], Curt: began must take what it is called with"),
    "store that gives many at once": (
        {"store": Many(1, 1)},
        "store, Many: get_many must be async, or be annotated to return an Awaitable: async def get_many(self, keys",
    ),
    "store that watches itself by a method": (
        {"store": Without(STORE, "", is_reachable=lambda: True)},
        "store, Without: is_reachable must be bool, not function; see kiro_asgi.WatchedStore",
    ),
    "stage that yields": (
        {"stages": [stage_by_stage]},
        "stages[0], stage_by_stage: must not yield, as nothing of it would run: such as def make_stage(prompt",
    ),
    "observer that yields": (
        {"observers": [Yonder()]},
        "observers[0], Yonder: ended must not yield, as nothing of it would run: def ended(self, call",
    ),
    "server tool": ({"server_tools": [object()]}, "server_tools[0], object: kind must be a word"),
    "server tool, not async": (
        {"server_tools": [SimpleNamespace(kind="a", names=(), call=make_nothing)]},
        "server_tools[0], SimpleNamespace: call must be async, or be annotated to return an Awaitable",
    ),
    "keys": ({"keys": {"k": "ada"}}, "keys, dict: must be a function, not {'k': 'ada'}: such as def find(presented: "),
    "keys, a class": (
        {"keys": MemoryStore},
        "keys, MemoryStore: is a class; hand over an object, such as MemoryStore()",
    ),
    "keys, of nothing": ({"keys": no_keys}, "keys, no_keys: must take what it is called with: such as def find("),
    "keys, of two": (
        {"keys": two_keys},
        "keys, two_keys: must take what it is called with: such as async def find_later(",
    ),
    "may_inspect": ({"may_inspect": told_at_once}, "may_inspect, told_at_once: must be async, or be annotated"),
    "setup": (
        {"upstreams": [with_setup(None)]},
        "river: the upstream's make gave None, and must give a kiro_asgi.upstreams.Setup",
    ),
    "setup, upstream": (
        {"upstreams": [setup_with(upstream=object())]},
        "river: the upstream's make gave a Setup whose upstream, object: there must be an attribute: name, str",
    ),
    "setup, access": (
        {"upstreams": [setup_with(access="sk-secret")]},
        "a Setup whose access is a str; it must be Keys or SignIns",
    ),
    "setup, keys": (
        {"upstreams": [setup_with(access=Keys(("sk-secret",)))]},  # type: ignore[arg-type]
        "a Setup whose access has keys without names; Keys.named must be pairs of a name and a key, both texts",
    ),
    "setup, of the old days": (
        {"upstreams": [setup_with(named=lambda: ModelCard("m"))]},
        "a Setup whose named must take what it is called with: Callable[[str], ModelCard]",
    ),
    "setup, embedder": (
        {"upstreams": [setup_with(embedder=5)]},
        "a Setup whose embedder, int: there must be a method: def size(self, model: ModelCard) -> int",
    ),
    "setup, quota": (
        {"upstreams": [setup_with(quota=SimpleNamespace(questions=(), reset=lambda body: None, describe=5))]},
        "a Setup whose quota, SimpleNamespace: describe must be a function, not 5",
    ),
    "setup, exchange": (
        {"upstreams": [setup_with(access=Keys((("a", "sk-secret"),), ODD_EXCHANGE))]},
        "a Setup whose access.exchange.scheme must be str, not int",
    ),
    "setup, rules": (
        {"upstreams": [setup_with(rules=("turns.merged",))]},
        "a Setup whose rules[0] must be Rule, not str",
    ),
}
"""What is handed in, and the beginning, or a part, of what is said about it."""


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_object_is_found_when_it_is_handed_in(name: str) -> None:
    """With its place and what to do; a key is not repeated."""
    given, words = WRONG[name]
    river = {"river": {"api_key": "k"}} if "upstreams" in given and isinstance(given["upstreams"], list) else {}
    with pytest.raises(ConfigError) as caught:
        create_app(**{"settings": {**SETTINGS, **river}, **given})

    assert words in caught.value.message
    assert "sk-secret" not in caught.value.message


def test_all_wrong_objects_are_told_at_once() -> None:
    """A line for each, as of settings."""
    with pytest.raises(ConfigError) as caught:
        create_app(SETTINGS, store=object(), observers=[object(), Observer()], stages=[5])  # type: ignore[arg-type, list-item]

    assert [line.partition(":")[0] for line in caught.value.reasons] == [
        "store, object",
        "stages[0], int",
        "observers[0], object",
    ]


MANIFESTS: dict[str, Any] = {
    "client API": PLAIN,
    "upstream": with_setup(None),
    "stage": StageManifest(name="loud", title="Loud", make=lambda own: lambda prompt: Observer()),
    "store": StoreManifest(name="room", title="A room", make=lambda own: MemoryStore(10, 10_000)),
    "observer": ObserverManifest(name="seer", title="A seer", make=lambda own: Observer()),
}


@pytest.mark.parametrize("kind", MANIFESTS)
@pytest.mark.parametrize("value", [5, None, (5,), object], ids=repr)
def test_each_member_of_each_manifest_is_looked_at(kind: str, value: object) -> None:
    """A value that no member takes is found when the manifest is made, and the message names the member.

    A class is taken for that of settings here; what it is has to do with where they are read.
    """
    manifest, missed = MANIFESTS[kind], []
    for member in fields(type(manifest)):
        try:
            evolve(manifest, **{member.name: value})
        except ConfigError as error:
            if member.name not in error.message:
                missed.append(f"{member.name}: {error.message}")
        else:
            if not (member.name == "settings" and isinstance(value, type)):
                missed.append(f"{member.name} may be {value!r}")
    assert missed == []


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Endpoint("post", "/plain"), "the method must be in capitals, such as POST"),
        (lambda: Endpoint("POST", "plain"), "the path must begin with a slash"),
        (lambda: evolve(PLAIN, endpoints=("/plain",)), "the client API 'plain': endpoints[0] must be an Endpoint, not"),
        (lambda: evolve(PLAIN, endpoints=5), "'plain': endpoints[0] must be an Endpoint, not 5"),
        (lambda: Endpoint("GET", "/plain/{id"), "each name in the path must be in braces, and there can be two"),
        (lambda: Endpoint("GET", "/{a}/{b}/{c}"), "each name in the path must be in braces, and there can be two"),
        (lambda: Endpoint("GET", "/plain", 5), "operation must be str, not int"),  # type: ignore[arg-type]
        (lambda: Endpoint("GET", "/plain", CONSTANT, "text"), "content must be bytes, not str"),  # type: ignore[arg-type]
        (lambda: constant("/plain", {1, 2}), "the constant at '/plain' must be JSON: Object of type set"),
        (lambda: QuotaHeaders("x-limit", duration), "name must hold {kind} and {part}"),
        (lambda: QuotaHeaders("{kind}-{part}", lambda: ""), "time must take what it is called with"),  # type: ignore[arg-type,misc]
        (lambda: evolve(PLAIN, prefix="api"), "prefix must begin with a slash, and end without one, not 'api'"),
        (lambda: evolve(PLAIN, prefix="/api/"), "prefix must begin with a slash, and end without one, not '/api/'"),
        (lambda: evolve(PLAIN, example={"a": {1}}), "example must be a Mapping that is JSON"),
        (lambda: evolve(with_setup(None), doctor="a b"), "doctor must be text such as 'package.module:name', not"),
        (lambda: evolve(PLAIN, make=None), "'plain': make must be a function, not None"),
        (lambda: evolve(PLAIN, make=make_later), "'plain': make must not be async, as nobody awaits it"),
        (lambda: evolve(PLAIN, make=lambda: DIALECT), "'plain': make must take what it is called with"),
        (lambda: evolve(PLAIN, title=None), "'plain': title must be text, not None"),
        (lambda: evolve(PLAIN, key_headers=("x-key",)), "'plain': key_headers must be a tuple of names as bytes"),
        (lambda: evolve(PLAIN, marks=(b"X-Mark",)), "'plain': marks must be a tuple of names as bytes, in lower case"),
        (lambda: evolve(PLAIN, rules=("nothing",)), "a client API: rules: no rule of the catalogue is named 'nothing'"),
        (lambda: evolve(PLAIN, rules=(5,)), "a client API: rules[0] must be a Rule, not 5"),
        (lambda: evolve(with_setup(None), make=make_later), "the upstream 'river': make must not be async"),
        (lambda: evolve(with_setup(None), name=5), "the manifest of the upstream 5: name must be text, not 5"),
        (lambda: evolve(with_setup(None), rules=("nothing",)), "an upstream: rules: no rule of the catalogue"),
    ],
)
def test_a_manifest_is_looked_at_when_it_is_made(make: Callable[[], object], words: str) -> None:
    """So the traceback leads to the line that has the mistake."""
    with pytest.raises(ConfigError) as caught:
        make()

    assert words in caught.value.message


# What only shows when it is used.


@frozen
class Yielding:
    """A stage, or a decoder's stage, that gives *items* for whatever it is given."""

    items: Any

    def feed(self, items: Any, /) -> Iterator[Delta]:
        for _ in items:
            yield from self.items

    def flush(self) -> Iterator[Delta]:
        yield from ()


class Giving(Yielding):
    def feed(self, items: Any, /) -> Any:
        return self.items

    def flush(self) -> Any:
        return self.items


class Odd(DirectUpstream):
    """A service whose answers are read by *decoded*."""

    decoded: Any = (Yielding(()),)

    def render(self, prompt: Any, model: Any, credential: Credential, conversation: str = "") -> Rendered:
        body = b'{"model": "gpt-4o", "stream": true, "messages": [{"role": "user", "content": "hi"}]}'
        return Rendered(self.post(self.url(credential, "/chat/completions"), credential, body, "text/event-stream"))

    def decoder(self, content_type: str) -> Any:
        return type(self).decoded

    def models_request(self, credential: Credential, *, page: str = "") -> UpstreamRequest:
        return self.get(self.url(credential, "/models"), credential)

    def parse_models(self, body: bytes) -> ModelPage:
        return ModelPage((ModelCard("m"),))


def odd_app(sim: Any, decoded: Any) -> App:
    """A gateway in front of a service whose answers are decoded as *decoded*."""
    kind = type("Odd", (Odd,), {"decoded": decoded})

    def make(configured: Configured[Any]) -> Any:
        return direct_setup(configured, kind(**common(configured)), (), "http://h")

    river = Manifest(name="river", title="River", settings=DirectSettings, make=make)
    settings = {**SETTINGS, "river": {"endpoint": f"{sim.url}/v1", "models_ttl": 0.0}, "retry": {"attempts": 1}}
    return create_app(settings, upstreams=[river])


async def refused(app: App, exchange: Exchange, caplog: pytest.LogCaptureFixture, words: str) -> None:
    """The client gets a whole 500, and the log has *words*."""
    await exchange.run(app)
    await app.aclose()

    assert (exchange.status, exchange.starts, exchange.complete) == (500, 1, True)
    assert exchange.headers["x-request-id"] in exchange.content.decode()
    assert words in caplog.text


NO_DELTAS = [
    pytest.param(("text",), "yielded a str; it must yield deltas", id="text"),
    pytest.param((None,), "yielded a NoneType; it must yield deltas", id="nothing"),
    pytest.param((b"bytes",), "yielded a bytes; it must yield deltas", id="bytes"),
    pytest.param((TextDelta(5),), "a TextDelta holds a int; it must hold text", id="a number"),  # type: ignore[arg-type]
    pytest.param((TextDelta(None),), "a TextDelta holds a NoneType; it must hold text", id="none"),  # type: ignore[arg-type]
]


@pytest.mark.unexpected("TypeError")
@EACH_WAY
@pytest.mark.parametrize("dialect", ALL_DIALECTS)
@pytest.mark.parametrize(("items", "words"), NO_DELTAS)
async def test_a_stage_that_yields_no_deltas(items, words, dialect, stream, sim, caplog):
    """It was a 200 without a word, and no line in the log."""
    app = create_app(settings_for(sim.url, {}), stages=[lambda prompt: Yielding(items)])

    await refused(app, ask(dialect, "hi", stream=stream), caplog, words)


@pytest.mark.unexpected("TypeError")
@EACH_WAY
@pytest.mark.parametrize(("items", "words"), NO_DELTAS[:3])
async def test_a_decoder_that_yields_no_deltas(items, words, stream, sim, caplog):
    """Likewise; the message tells it from a stage."""
    exchange = ask("openai", "hi", stream=stream, model="river/m")

    await refused(odd_app(sim, (Yielding(items),)), exchange, caplog, f"TypeError: the upstream's decoder {words}")


@pytest.mark.unexpected("Error: ")
@pytest.mark.parametrize(
    "decoded",
    [None, (5,), (Giving(None),), (Yielding((TextDelta(5),)),)],  # type: ignore[arg-type]
    ids=["none", "no stage", "no iterator", "a number"],
)
async def test_a_decoder_that_is_none(decoded, sim, caplog):
    """Whatever it is: the client gets its 500."""
    await refused(odd_app(sim, decoded), ask("openai", "hi", stream=True, model="river/m"), caplog, "Error")


@pytest.mark.unexpected("TypeError")
@pytest.mark.parametrize(
    ("stage", "words"),
    [
        (None, "stages[0] made a NoneType, which is no stage: there must be a method: def feed("),
        (object(), "stages[0] made a object, which is no stage: there must be a method: def feed("),
        (Giving(None), "the stage of stages[0], Giving: feed gave a NoneType; it must yield deltas"),
        (Yielding(("text",)), "the stage of stages[0], Yielding yielded a str"),
    ],
    ids=["nothing", "an object", "no iterator", "text"],
)
async def test_the_message_names_the_stage(stage, words, sim, caplog):
    """And where it was handed in: others beside it are not to blame."""
    app = create_app(settings_for(sim.url, {}), stages=[lambda prompt: stage, lambda prompt: Passing()])

    await refused(app, ask("openai", "hi", stream=True), caplog, words)


class Passing:
    def feed(self, items: Any, /) -> Iterator[Delta]:
        yield from items

    def flush(self) -> Iterator[Delta]:
        yield from ()


class Reporting(Passing):
    def flush(self) -> Iterator[Delta]:
        yield Notice("redacted")


async def test_what_a_stage_reports_is_information(sim, caplog):
    """By default: it is what the stage is for.  What the gateway found stays a warning."""
    caplog.set_level(logging.INFO, "kiro_asgi")
    app = create_app(settings_for(sim.url, {}), stages=[lambda prompt: Reporting(), lambda prompt: Passing()])
    await ask("openai", "sim:no-trailers", stream=False).run(app)
    await app.aclose()

    told = [(it.levelname, it.getMessage()) for it in caplog.records if "answer complete" in it.getMessage()]
    assert told == [
        ("INFO", "answer complete, with redacted"),
        ("WARNING", "answer complete, but: stream.no_terminal_signal (1)"),
    ]


def broken_dialect(name: str, member: Any) -> App:
    """A gateway with a client API whose member of that *name* is another."""
    return create_app(SETTINGS | {"simulate": True}, dialects=[made(Without(DIALECT, name, **{name: member}))])


def plain_call(*headers: tuple[str, str]) -> Exchange:
    sent = [("authorization", "Bearer k"), ("x-model", "claude-sonnet-4.5"), *headers]
    return Exchange(http_scope("POST", "/plain", sent), [b"hi"])


@frozen
class StrEncoder:
    """Writes text where bytes belong."""

    heartbeat = b""

    def feed(self, items: Any, /) -> Any:
        yield from ("text" for item in items if isinstance(item, TextDelta))

    def flush(self) -> Any:
        yield "\n"

    def error(self, error: Any) -> Any:
        return ["broken off"]


@pytest.mark.unexpected("Error")
@pytest.mark.parametrize(
    ("name", "member", "headers"),
    [
        ("parse", lambda body, headers=(): None, ()),
        ("meta", lambda parsed, token, created: None, ()),
        ("encoder", lambda meta: None, (("x-stream", "yes"),)),
        ("encoder", lambda meta: StrEncoder(), (("x-stream", "yes"),)),
        ("render", lambda message, meta: None, ()),
        ("render", lambda message, meta: iter(["text"]), ()),
    ],
    ids=["parse", "meta", "encoder", "encoder of text", "render", "render of text"],
)
async def test_a_dialect_that_gives_something_else(name, member, headers, caplog):
    """A 500 in the API's own form, and no head without a body."""
    app = broken_dialect(name, member)
    exchange = plain_call(*headers)

    await refused(app, exchange, caplog, "Traceback")
    assert exchange.content.startswith(b"internal error; the gateway's log has it under req_")


@pytest.mark.unexpected("Error")
@pytest.mark.parametrize(
    "error",
    [lambda error, request_id: None, lambda error, request_id: 1 / 0, lambda error, request_id: ("no", "reply")],
    ids=["none", "raises", "something else"],
)
async def test_a_dialect_that_cannot_tell_an_error(error, caplog):
    """The last resort is plain, whatever the error was: the client is answered, and the log says with what."""
    app = broken_dialect("error", error)
    exchange = Exchange(http_scope("POST", "/plain", [("authorization", "Bearer wrong")]), [b"hi"])

    await refused(app, exchange, caplog, "Traceback")
    assert exchange.headers["content-type"] == "text/plain; charset=utf-8"


class Failing(MemoryStore):
    """A store all of whose methods raise what they may not, or one of them."""

    only: str = ""

    def _break(self, method: str) -> None:
        if self.only in ("", method):
            raise LookupError("of the store, at /secret/path")

    async def get(self, key: str) -> bytes | None:
        self._break("get")
        return await super().get(key)

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        self._break("set")
        await super().set(key, value, ttl)

    async def take(self, key: str) -> bytes | None:
        self._break("take")
        return await super().take(key)

    async def delete(self, key: str) -> None:
        self._break("delete")
        await super().delete(key)

    def lock(self, key: str) -> AbstractAsyncContextManager[None]:
        self._break("lock")
        return super().lock(key)

    async def aclose(self) -> None:
        self._break("aclose")


@pytest.mark.unexpected("LookupError")
@EACH_WAY
@pytest.mark.parametrize("dialect", ALL_DIALECTS)
async def test_a_store_that_raises_anything(dialect, stream, sim, caplog):
    """An answer that can do without it is whole, and the log has what was raised; ``/ready`` knows of it."""
    app = create_app(settings_for(sim.url, {}), store=Failing(10, 10_000))
    await app.check_state()
    exchange = await ask(dialect, "sim:count=3", stream=stream).run(app)
    ready = (await get("/ready").run(app)).json()
    await app.aclose()

    assert (exchange.status, exchange.complete, text_of(dialect, exchange)) == (200, True, "1 2 3 ")
    assert ready["degraded"] == ["store"]
    assert "the store failed in get, which is logged once" in caplog.text
    assert caplog.text.count("LookupError: of the store") <= 5


@pytest.mark.unexpected("LookupError")
@pytest.mark.parametrize("only", ["get", "set", "take", "lock", "aclose"])
async def test_whatever_fails_in_a_store(only, sim):
    """Each request is answered whole; where the store is needed, with 503, and not a word of what was raised."""
    store = Failing(100, 100_000)
    store.only = only
    app = create_app(settings_for(sim.url, {}), store=store)
    said = {"model": "claude-sonnet-4.5", "input": "hi"}
    asked = [post("/v1/responses", {**said, "stream": stream}) for stream in (True, False)]
    asked += [
        post("/v1/responses", {**said, "previous_response_id": "resp_1"}),
        post("/v1/conversations", {}),
        post("/v1/responses", {**said, "background": True}),
        get("/v1/responses/resp_1"),
        Exchange(http_scope("DELETE", "/v1/responses/resp_1", [("authorization", "Bearer k")])),
    ]
    for exchange in asked:
        await exchange.run(app)
        assert exchange.complete, exchange.scope["path"]
        assert exchange.status in (200, 400, 404, 503), exchange.scope["path"]
        assert b"secret" not in exchange.content
    await app.idle()
    await app.aclose()


@pytest.mark.unexpected("LookupError")
@pytest.mark.parametrize(
    ("method", "arguments"), [("get", ()), ("take", ()), ("set", (b"value", 1.0)), ("delete", ()), ("lock", ())]
)
async def test_there_is_one_error_of_a_store(method, arguments):
    """`StoreUnavailable`, whatever was raised; what is within a lock stays what it is."""
    store = GuardedStore(Failing(10, 10_000), 2.0)
    with pytest.raises(StoreUnavailable, match=f"the store raised LookupError in {method}"):
        used = getattr(store, method)("key", *arguments)
        if method != "lock":
            await used
        else:
            async with used:
                pass
    assert not store.is_reachable
    with pytest.raises(ZeroDivisionError):
        async with GuardedStore(MemoryStore(10, 10_000), 2.0).lock("key"):
            raise ZeroDivisionError


@pytest.mark.unexpected("get gave a str")
async def test_a_store_that_gives_text(sim, caplog):
    """Values are bytes."""

    class Textual(MemoryStore):
        async def get(self, key: str) -> Any:
            return "text"

    app = create_app(settings_for(sim.url, {}), store=Textual(10, 10_000))
    exchange = await get("/v1/responses/resp_1").run(app)
    await app.aclose()

    assert exchange.status == 503
    assert "the store raised TypeError in get, and may raise StoreUnavailable only" in caplog.text


@pytest.mark.parametrize("found", [None, {"key": "text"}, [b"v"]])
@pytest.mark.unexpected("get_many gave no mapping of keys to bytes")
async def test_a_store_that_gives_many_of_something_else(found, caplog):
    """As for one value; `StoreUnavailable` is what those who read expect."""

    class Odd(MemoryStore):
        async def get_many(self, keys: Sequence[str]) -> Any:
            return found

    with pytest.raises(StoreUnavailable):
        await GuardedStore(Odd(10, 10_000), 2.0).get_many(["key", "other"])
    assert "the store failed in get_many" in caplog.text


async def test_a_store_is_looked_at_once():
    """What it need not have is found when it is handed in: to ask for a whole interface takes as long as a short
    lookup, and a request of an agent does hundreds."""

    class Counted(MemoryStore):
        looks = 0

        @property
        def is_reachable(self) -> bool:
            type(self).looks += 1
            return True

    store = GuardedStore(Counted(10, 10_000), 2.0)
    await store.set("key", b"value", 60.0)
    before = Counted.looks
    for _ in range(5):
        assert await store.get_many(["key", "other"]) == {"key": b"value"}
        assert await store.get("key") == b"value"
    assert Counted.looks == before
    assert store.is_reachable
    assert Counted.looks == before + 1


async def test_a_store_that_says_so_is_not_a_fault(sim, caplog):
    """`StoreUnavailable` is what it is to raise: no traceback."""

    class Away(MemoryStore):
        async def get(self, key: str) -> bytes | None:
            raise StoreUnavailable(detail="the disk is full")

    app = create_app(settings_for(sim.url, {}), store=Away(10, 10_000))
    exchange = await get("/v1/responses/resp_1").run(app)
    await app.aclose()

    assert exchange.status == 503
    assert "the store cannot be used: the disk is full" in caplog.text
    assert not [record for record in caplog.records if record.exc_info]


class Clumsy(Observer):
    """Fails in every method."""

    def __init__(self) -> None:
        self.closed = 0

    def began(self, call: Any) -> None:
        raise LookupError("of the observer")

    planned = attempted = ended = lambda self, *facts: 1 / 0

    async def aclose(self) -> None:
        self.closed += 1
        raise LookupError("at the end")


@pytest.mark.unexpected("of the observer", "at the end")
@EACH_WAY
async def test_an_observer_that_fails_is_not_noticed(stream, sim, caplog):
    """By clients; nor does it keep others from being closed."""
    first, second = Clumsy(), Clumsy()
    app = create_app(settings_for(sim.url, {}), observers=[first, second])
    exchange = await ask("openai", "sim:count=3", stream=stream).run(app)
    await app.aclose()

    assert (exchange.status, text_of("openai", exchange)) == (200, "1 2 3 ")
    assert (first.closed, second.closed) == (1, 1)
    assert caplog.text.count("an observer failed, which is logged once: began of") == 2
    assert caplog.text.count("an observer could not be closed") == 2


@pytest.mark.unexpected("of the host")
async def test_a_host_that_cannot_decide_lets_nobody_in(caplog):
    """The inspector's page is no operation, and has the same last resort."""

    async def may_inspect(scope: Any) -> bool:
        raise LookupError("of the host")

    app = create_app({**SETTINGS, "inspector": {"enabled": True, "trust_host": True}}, may_inspect=may_inspect)
    exchange = await get("/inspector/").run(app)
    await app.aclose()

    assert (exchange.status, exchange.complete) == (500, True)
    assert "may_inspect failed" in caplog.text


async def test_a_store_of_ones_own_is_not_blamed_on_memory(sim, caplog):
    """A response that was not found is not in the memory of this process, where it never was."""
    app = create_app(settings_for(sim.url, {}), store=MemoryStore(10, 10_000))
    assert (await get("/v1/responses/resp_1").run(app)).status == 404
    await app.aclose()

    assert "memory" not in caplog.text


async def test_an_upstream_that_never_learns_is_given_up(sim, caplog):
    """One that asks in yet another form after every refusal is asked a limited number of times."""

    class Restless(Odd):
        decoded = (Yielding(()),)

        def render(self, prompt: Any, model: Any, credential: Credential, conversation: str = "") -> Rendered:
            request = super().render(prompt, model, credential, conversation).request
            return Rendered(evolve(request, url=f"{request.url}?{id(self)}", body=b"no json"))

        def adapt_after_error(self, error: Any, rendered: Rendered) -> Any:
            return evolve(self)

    def make(configured: Configured[Any]) -> Any:
        return direct_setup(configured, Restless(**common(configured)), (), "http://h")

    river = Manifest(name="river", title="River", settings=DirectSettings, make=make)
    settings = {**SETTINGS, "river": {"endpoint": f"{sim.url}/v1", "models_ttl": 0.0}, "retry": {"attempts": 1}}
    app = create_app(settings, upstreams=[river])
    exchange = await ask("openai", "hi", stream=False, model="river/m").run(app)
    await app.aclose()

    assert exchange.status == 400
    assert len([request for request in sim.requests if request.method == "POST"]) == 33
    assert caplog.text.count("sending an adapted request") == 32
