"""Clients of the host's own table: by a key or a user, remembered for seconds, and never let in by a fault."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from attrs import evolve

from kiro_asgi import Allowance, Client, Group, Observer, Presented, Settings, create_app, mount
from kiro_asgi.asgi.door.client_table import ClientTable
from kiro_asgi.asgi.door.parts import Additions, usual_internals
from kiro_asgi.asgi.exchange.providers import in_effect
from kiro_asgi.create import new_app
from kiro_asgi.errors import KeysUnavailable
from kiro_asgi.limits import KEY_LOOKUPS, KEY_LOOKUPS_WAITING, KNOWN_KEYS, UNKNOWN_KEYS
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.observers import CallFacts
from kiro_asgi.quota.settings import hash_of
from kiro_asgi.testing import ask
from tests.asgi.test_websocket import connected
from tests.examples import example

pytestmark = pytest.mark.anyio

SETTINGS: dict[str, Any] = {"simulate": True, "prices": {"models": ["*=1000000/1000000"]}}
MODELS = "/v1/models"
QUESTION = {"model": "claude-sonnet-4.5", "messages": [{"role": "user", "content": "sim:count=3"}]}
CHAT = "/v1/chat/completions"


class Table:
    """A host's table, and how often it was asked about what."""

    def __init__(self, **clients: Client) -> None:
        self.clients = dict(clients)
        """By key, or by user with an underscore before it."""

        self.asked: list[str] = []
        self.fault: Exception | None = None
        self.wait = 0.0

    def __call__(self, shown: Presented) -> Client | None:
        self.asked.append(shown.key or f"_{shown.user}")
        if self.fault is not None:
            raise self.fault
        return self.clients.get(self.asked[-1])

    async def later(self, shown: Presented) -> Client | None:
        await anyio.sleep(self.wait)
        return self(shown)


class Seen(Observer):
    def __init__(self) -> None:
        self.calls: list[CallFacts] = []

    def began(self, call: CallFacts) -> None:
        self.calls.append(call)


class AsyncObject:
    def __init__(self, table: Table) -> None:
        self.table = table

    async def __call__(self, shown: Presented) -> Client | None:
        return await self.table.later(shown)


ADA = Client(name="ada")

WAYS: dict[str, Callable[[Table], Any]] = {
    "object": lambda table: table,
    "method": lambda table: table.__call__,
    "async method": lambda table: table.later,
    "async object": AsyncObject,
    "partial": lambda table: partial(Table.later, table),
    "gives an awaitable": lambda table: lambda shown: table.later(shown),
}


@pytest.mark.parametrize("way", WAYS)
async def test_a_client_is_found_by_its_key(way):
    """However the host's function is written; a key that it does not know is refused, and so is none."""
    table, seen = Table(tok_1=ADA), Seen()
    app = create_app(SETTINGS, keys=WAYS[way](table), observers=[seen])
    statuses = [(await ask(app, MODELS, key=key)).status for key in ("tok_1", "tok_2", "")]

    assert statuses == [200, 401, 401]
    assert [call.principal for call in seen.calls] == ["host:ada", "", ""]
    assert table.asked == ["tok_1", "tok_2"]
    await app.aclose()


async def test_the_keys_of_the_settings_are_not_asked_about():
    """They come first, and the host never sees them."""
    table, seen = Table(k=ADA), Seen()
    settings = {**SETTINGS, "client": {"api_keys": ["k"]}, "keys": {"bob": {"hash": hash_of(b"ka_bob")}}}
    app = create_app(settings, keys=table, observers=[seen])
    for key in ("k", "ka_bob"):
        assert (await ask(app, MODELS, key=key)).status == 200

    assert table.asked == []
    assert seen.calls[1].principal == "key:bob"


def test_a_key_is_shown_as_the_host_may_keep_it():
    """By its hash, as the command prints it, and never in words for a log."""
    assert Presented(key="tok_1").hash == hash_of(b"tok_1")
    assert "tok_1" not in repr(Presented(key="tok_1"))


async def test_the_hosts_users_are_clients_of_the_table():
    """Together with `mount(principal=…)`: a user whom the table lacks needs a key, as does nobody at all."""
    table, seen = Table(_ada=Client(name="ada", models=("kiro/claude-sonnet-*",)), tok_1=Client(name="bot")), Seen()
    gateway = create_app({**SETTINGS, "client": {"trust_host": True}}, keys=table, observers=[seen])
    app = mount(_no_host, "/llm", gateway, principal=lambda scope: dict(scope["headers"]).get(b"x-user", b"").decode())
    models = await ask(app, "/llm/v1/models", headers={"x-user": "ada"})
    eve = await ask(app, "/llm/v1/models", headers={"x-user": "eve"})
    eve_with_key = await ask(app, "/llm/v1/models", headers={"x-user": "eve"}, key="tok_1")

    assert {model["id"].rpartition("-")[0] for model in models.json()["data"]} == {"claude-sonnet"}
    assert eve.status == 401
    assert "may not use the gateway" in eve.json()["error"]["message"]
    assert eve_with_key.status == 200
    assert (await ask(app, "/llm/v1/models")).status == 401
    assert [call.principal for call in seen.calls] == ["host:ada", "", "host:bot", ""]
    assert table.asked == ["_ada", "_eve", "tok_1"]


async def _no_host(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("the host was asked")


async def test_a_page_of_another_site_needs_a_key_of_the_table():
    """What a browser sends on behalf of a user who is signed in (CSRF): a key that nobody knows opens nothing."""
    gateway = create_app({**SETTINGS, "client": {"trust_host": True}}, keys=Table(_ada=ADA, tok_1=ADA))
    app = mount(_no_host, "/llm", gateway, principal=lambda scope: "ada")
    page = {"origin": "https://evil.example", "host": "site.example"}
    statuses = [(await ask(app, "/llm/v1/models", key=key, headers=page)).status for key in ("", "tok_2", "tok_1")]

    assert statuses == [403, 403, 200]


async def test_what_a_client_may_ask_for():
    table = Table(a=Client(name="a", models=["kiro/claude-sonnet-*"]), b=Client(name="b", upstreams=["gemini"]))
    app = create_app(SETTINGS, keys=table)
    statuses = [
        (await ask(app, CHAT, {**QUESTION, "model": model}, key=key)).status
        for key, model in (("a", "claude-sonnet-4.5"), ("a", "claude-haiku-4.5"), ("b", "claude-sonnet-4.5"))
    ]

    assert statuses == [200, 404, 404]
    await app.aclose()


async def test_limits_are_the_clients_own():
    """A database's decimals among them; where there is none, the usual one holds."""
    limits = Allowance(requests_per_minute=1, cost_per_month=Decimal("1000000.00"))  # type: ignore[arg-type]
    table = Table(few=Client(name="few", limits=limits), usual=Client(name="usual"))
    app = create_app({**SETTINGS, "quotas": {"requests_per_minute": 2}}, keys=table)
    statuses = [(await ask(app, CHAT, QUESTION, key=key)).status for key in ("few", "few", "usual", "usual", "usual")]

    assert statuses == [200, 429, 200, 200, 429]
    await app.aclose()


async def test_a_group_has_a_budget_of_its_own():
    """Of the host's table, or of the settings where its table says no more than a name."""
    lab = Group(name="lab", limits=Allowance(cost_per_month=30.0))
    table = Table(
        a=Client(name="a", group=lab),
        b=Client(name="b", group=lab),
        c=Client(name="c", group=Group(name="team")),
        d=Client(name="d"),
    )
    app = create_app({**SETTINGS, "groups": {"team": {"requests_per_minute": 1}}}, keys=table)
    answers = [await ask(app, CHAT, {**QUESTION, "max_tokens": 9}, key=key) for key in "ababababccd"]
    spent = next(answer for answer in answers if answer.status != 200)

    assert spent.status == 402
    assert "the limit of the group lab is reached: 30 USD a month" in spent.json()["error"]["message"]
    assert [answer.status for answer in answers[-3:]] == [200, 429, 200]
    await app.aclose()


@pytest.mark.parametrize(
    ("client", "words"),
    [
        pytest.param(Client(name="a", disabled=True), "disabled", id="disabled"),
        pytest.param(Client(name="a", expires=datetime.now(UTC) - timedelta(seconds=1)), "expired", id="expired"),
    ],
)
async def test_a_client_that_may_not_any_more(client, words):
    """By its key, and as the host's user."""
    gateway = create_app({**SETTINGS, "client": {"trust_host": True}}, keys=Table(k=client, _a=client))
    app = mount(_no_host, "/llm", gateway, principal=lambda scope: dict(scope["headers"]).get(b"x-user", b"").decode())
    for shown in ({"key": "k"}, {"headers": {"x-user": "a"}}):
        answer = await ask(app, "/llm/v1/models", **shown)  # type: ignore[arg-type]
        assert answer.status == 401
        assert words in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(lambda: Client(name=""), "Client.name must be 1 to 200 printable", id="no-name"),
        pytest.param(lambda: Client(name=7), "Client.name must be", id="number-for-a-name"),  # type: ignore[arg-type]
        pytest.param(lambda: Client(name="a\nb"), "Client.name must be", id="name-of-two-lines"),
        pytest.param(lambda: Client(name="a", models="kiro/*"), "must be lists of texts", id="one-model"),
        pytest.param(lambda: Client(name="a", limits={"streams": 1}), "must be a kiro_asgi.Allowance", id="mapping"),
        pytest.param(
            lambda: Client(name="a", limits=Allowance(streams=None)),  # type: ignore[arg-type]
            "limits.streams must be a number from 0, which is no limit, to 2\\*\\*53, not None",
            id="null",
        ),
        pytest.param(lambda: Client(name="a", limits=Allowance(streams=-1)), "limits.streams", id="negative"),
        pytest.param(lambda: Client(name="a", limits=Allowance(cost_per_day=float("nan"))), "cost_per_day", id="nan"),
        pytest.param(lambda: Client(name="a", expires=datetime(2030, 1, 1)), "with its time zone", id="naive"),
        pytest.param(lambda: Client(name="a", limits=Allowance(streams=10**400)), "limits.streams", id="huge"),
        pytest.param(lambda: Client(name="a", models=None), "must be lists of texts, not None", id="no-models"),  # type: ignore[arg-type]
        pytest.param(lambda: Client(name="a", models=[b"x"]), "must be lists of texts", id="bytes"),  # type: ignore[list-item]
        pytest.param(lambda: Client(name="a", group="staff"), "must be a kiro_asgi.Group", id="group-by-name"),  # type: ignore[arg-type]
        pytest.param(lambda: Client(name="a", disabled="no"), "must be True or False, not 'no'", id="flag"),  # type: ignore[arg-type]
        pytest.param(lambda: Group(name=""), "Group.name", id="group"),
    ],
)
def test_what_is_no_client_is_told_where_it_is_made(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize("kind", [list, set, iter, lambda models: (it for it in models), dict.fromkeys, "".join])
def test_a_client_may_ask_for_what_it_is_given_and_for_nothing_else(kind):
    """Whatever the models come in: a query's iterator that was gone through permitted everything."""
    try:
        client = Client(name="a", models=kind(["kiro/small"]), upstreams=kind(["kiro"]))
    except ValueError:
        return
    assert (client.permits("kiro/small"), client.permits("kiro/large")) == (True, False)
    assert client.upstreams == ("kiro",)


async def test_the_table_of_the_page(tmp_path, monkeypatch):
    """In SQLite, by the hash; the settings are those of the environment, which lets nobody in itself."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KIRO_ASGI__SIMULATE", "false")
    monkeypatch.setenv("KIRO_API_KEY", "ksk_test")
    with closing(sqlite3.connect("keys.db")) as database, database:
        database.execute("CREATE TABLE keys (hash, name, team, requests, money, revoked)")
        for name, requests, revoked in (("ada", 0, False), ("bot", 1, False), ("eve", 0, True)):
            row = (hash_of(name.encode()), name, "lab", requests, 10.0, revoked)
            database.execute("INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?)", row)
    app = example("own_keys").app

    assert [(await ask(app, MODELS, key=key)).status for key in ("ada", "bot", "eve", "nobody")] == [200, 200, 401, 401]
    await app.aclose()


# For how long it holds.


@pytest.fixture
def clock():
    class Clock:
        now = 1000.0

        def __call__(self) -> float:
            return self.now

    return Clock()


def timed(clock: Any, table: Any, **client: Any) -> Any:
    settings = in_effect(Settings.from_mapping({**SETTINGS, "client": client}))
    return new_app(settings, Additions(keys=table), evolve(usual_internals(settings), clocks=Clocks(steady=clock)))


async def test_a_revoked_key_is_refused_within_seconds(clock):
    """Of both what was said is remembered as long: a new key opens as soon."""
    table = Table(old=ADA)
    app = timed(clock, table)
    statuses = []
    for seconds in (0, 9.9, 10.1, 19.9, 20.2):
        clock.now = 1000 + seconds
        statuses.append([(await ask(app, MODELS, key=key)).status for key in ("old", "new")])
        table.clients = {"new": ADA}

    assert statuses == [[200, 401], [200, 401], [401, 200], [401, 200], [401, 200]]
    assert table.asked == ["old", "new", "old", "new", "old", "new"]


async def test_every_request_asks_where_nothing_is_remembered(clock):
    table = Table(old=ADA)
    app = timed(clock, table, keys_ttl=0)
    before = (await ask(app, MODELS, key="old")).status
    table.clients.clear()

    assert (before, (await ask(app, MODELS, key="old")).status) == (200, 401)


async def test_a_question_that_took_long_holds_no_longer():
    """The seconds count from when the host was asked: it may have looked before the key was revoked."""
    now = 0.0

    def slow(shown: Presented) -> Client | None:
        nonlocal now
        now += 8
        return ADA

    table = ClientTable(slow, lambda client: client, 10, 60, lambda: now)
    assert await table.client(Presented(key="k")) is ADA
    now += 2.5
    await table.client(Presented(key="k"))
    assert now == 18.5  # it was asked again


async def test_a_revoked_key_is_refused_on_a_websocket_that_is_open(clock):
    """Each of its requests is one of its own."""
    table = Table(k=ADA)
    app = timed(clock, table)
    async with connected(app) as peer:
        await peer.say({"type": "response.create", "model": "claude-sonnet-4.5", "input": "sim:text=a"})
        first = await peer.answer(0)
        table.clients.clear()
        clock.now += 11
        await peer.say({"type": "response.create", "model": "claude-sonnet-4.5", "input": "sim:text=a"})
        second = await peer.answer(1)
        await peer.leave()

    assert (first[-1]["type"], second[-1]["type"]) == ("response.completed", "error")
    assert second[-1]["status"] == 401
    await app.aclose()


# Many at once.


@asynccontextmanager
async def asking(table: ClientTable, found: list[Any], *keys: str) -> AsyncIterator[Any]:
    async def one(key: str) -> None:
        try:
            found.append(await table.client(Presented(key=key)))
        except KeysUnavailable as error:
            found.append(error.code)

    async with anyio.create_task_group() as group:
        for key in keys:
            group.start_soon(one, key)
        await anyio.wait_all_tasks_blocked()
        yield group


def table_of(find: Any, ttl: float = 10.0, timeout: float = 5.0) -> ClientTable:
    return ClientTable(find, lambda client: client, ttl, timeout, time.monotonic)


@pytest.mark.parametrize("ttl", [10.0, 0.0])
async def test_requests_at_once_ask_once(ttl):
    """All of them get what was said, also where it is not remembered."""
    go, asked, found = anyio.Event(), [], list[Any]()

    async def find(shown: Presented) -> Client:
        asked.append(shown.key)
        await go.wait()
        return ADA

    async with asking(table_of(find, ttl), found, *["k"] * 100, "l"):
        go.set()

    assert (found, asked) == ([ADA] * 101, ["k", "l"])


async def test_who_asked_first_may_leave():
    """The others are answered all the same."""
    go, asked, found = anyio.Event(), [], list[Any]()

    async def find(shown: Presented) -> Client:
        asked.append(shown.key)
        await go.wait()
        return ADA

    table, first = table_of(find), anyio.CancelScope()

    async def ask_first() -> None:
        with first:
            await table.client(Presented(key="k"))

    async with anyio.create_task_group() as group:
        group.start_soon(ask_first)
        await anyio.wait_all_tasks_blocked()
        async with asking(table, found, "k", "k"):
            first.cancel()
            await anyio.wait_all_tasks_blocked()
            go.set()

    assert (found, asked) == ([ADA, ADA], ["k", "k"])


async def test_one_fault_is_that_of_all_who_wait():
    """A database that is down is not asked once a request."""
    go, asked, found = anyio.Event(), [], list[Any]()

    async def find(shown: Presented) -> Client:
        asked.append(shown.key)
        await go.wait()
        raise OSError("down")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logging.getLogger("kiro_asgi"), "disabled", True)  # the traceback is another test's
        async with asking(table_of(find), found, *["k"] * 50):
            go.set()

    assert (found, asked) == (["keys.fault"] * 50, ["k"])


async def test_made_up_keys_keep_no_client_waiting():
    """They have places of their own, and those that find none are told so at once; who was known goes on."""
    go, found, known = anyio.Event(), list[Any](), list[Any]()

    async def find(shown: Presented) -> Client | None:
        if shown.key == "k":
            return ADA
        await go.wait()
        return None

    table = table_of(find, ttl=0)
    assert await table.client(Presented(key="k")) is ADA
    flood = [f"made-up-{number}" for number in range(KEY_LOOKUPS + KEY_LOOKUPS_WAITING + 50)]
    async with asking(table, found, *flood):
        assert found == ["keys.busy"] * 50
        async with asking(table, known, "k"):
            assert known == [ADA]
        go.set()

    assert found.count(None) == KEY_LOOKUPS + KEY_LOOKUPS_WAITING


@pytest.mark.parametrize("crowd", [KEY_LOOKUPS + 300, KEY_LOOKUPS + KEY_LOOKUPS_WAITING + 200])
async def test_a_stranger_from_elsewhere_is_next(crowd):
    """Lines of addresses take turns: however many keys one makes up, another's new client waits for one place."""
    go, asked, found = anyio.Event(), list[str](), list[Any]()

    async def find(shown: Presented) -> Client | None:
        asked.append(shown.key)
        await go.wait()
        await anyio.lowlevel.checkpoint()
        return ADA if shown.key == "new" else None

    table = table_of(find)

    async def ask_from(peer: str, key: str) -> None:
        try:
            found.append((key, await table.client(Presented(key=key), peer)))
        except KeysUnavailable as error:
            found.append((key, error.code))

    async with anyio.create_task_group() as group:
        for number in range(crowd):
            group.start_soon(ask_from, "192.0.2.1", f"made-up-{number}")
        await anyio.wait_all_tasks_blocked()
        group.start_soon(ask_from, "192.0.2.2", "new")
        await anyio.wait_all_tasks_blocked()
        go.set()

    assert ("new", ADA) in found
    assert asked.index("new") < 2 * KEY_LOOKUPS
    refused = [key for key, came in found if came == "keys.busy"]
    assert len(refused) == max(crowd + 1 - KEY_LOOKUPS - KEY_LOOKUPS_WAITING, 0)
    late = {f"made-up-{number}" for number in range(KEY_LOOKUPS + KEY_LOOKUPS_WAITING, crowd)}
    assert not refused or set(refused) != late, "chance decides, or a flood that goes on would keep all new ones out"


async def test_who_leaves_while_waiting_keeps_no_place():
    """Places go on to others, whenever somebody is cancelled."""
    go, found = anyio.Event(), list[Any]()

    async def find(shown: Presented) -> Client | None:
        await go.wait()
        return ADA

    table = table_of(find)
    async with anyio.create_task_group() as group:
        for number in range(3 * KEY_LOOKUPS):
            group.start_soon(table.client, Presented(key=f"k{number}"), f"192.0.2.{number % 3}")
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    go.set()
    async with asking(table, found, *(f"n{number}" for number in range(2 * KEY_LOOKUPS))):
        pass
    assert found == [ADA] * 2 * KEY_LOOKUPS
    lane = table._here.here().strangers
    assert (lane._free, lane._waiting, dict(lane._lines)) == (KEY_LOOKUPS, 0, {})


async def test_waiting_for_a_place_is_no_fault_of_the_hosts():
    """Who does not get one in time is told so; the host was not asked, so neither the log nor ``/ready`` blames it."""
    go, found = anyio.Event(), list[Any]()

    async def find(shown: Presented) -> Client | None:
        with anyio.CancelScope(shield=True):
            await go.wait()
        return None

    table = table_of(find, timeout=0.1)
    async with asking(table, found, *(f"made-up-{number}" for number in range(KEY_LOOKUPS + 20))):
        await anyio.sleep(0.3)
        assert found == ["keys.busy"] * 20
        assert not table.is_failing
        go.set()


async def test_what_is_remembered_is_bounded():
    """However many keys somebody makes up, and however many clients there are."""

    async def find(shown: Presented) -> Client | None:
        await anyio.lowlevel.checkpoint()
        return ADA if shown.key.startswith("good") else None

    table = table_of(find)
    for kind, most in (("bad", UNKNOWN_KEYS), ("good", KNOWN_KEYS)):
        for number in range(most + 100):
            await table.client(Presented(key=f"{kind}{number}"))

    assert (len(table._unknown._kept), len(table._known._kept)) == (UNKNOWN_KEYS, KNOWN_KEYS)


def test_event_loops_share_what_is_known():
    """Each asks in its own, as a host's connections belong to theirs."""
    table, asked = Table(k=ADA), []

    async def find(shown: Presented) -> Client | None:
        asked.append(threading.get_ident())
        return table(shown)

    shared = table_of(find)
    threads = [threading.Thread(target=anyio.run, args=(shared.client, Presented(key="k"))) for _ in range(3)]
    for thread in threads:
        thread.start()
        thread.join(10)

    assert (len(asked), asked[0]) == (1, threads[0].ident)


# What goes wrong there.


@pytest.mark.parametrize(
    ("find", "words"),
    [
        pytest.param(find, words, id=words, marks=pytest.mark.unexpected(words))
        for find, words in (
            (lambda shown: _fails(), "no such table"),
            (lambda shown: "ada", "create_app(keys=…) gave str; give a kiro_asgi.Client, or None"),
            (lambda shown: True, "create_app(keys=…) gave bool"),
        )
    ],
)
@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/v1beta/models/x:generateContent"])
async def test_a_fault_lets_nobody_in(find, words, path, caplog):
    """503 in the form of the API, to be tried again; the log says why, once, and when it is over."""
    app = create_app(SETTINGS, keys=find)
    with caplog.at_level(logging.WARNING, "kiro_asgi"):
        answers = [await ask(app, path, {}, key="k") for _ in range(3)]

    assert {answer.status for answer in answers} == {503}
    assert answers[0].headers["retry-after"] == "1"
    assert "cannot say whose this is" in answers[0].text
    told = [record for record in caplog.records if "cannot say whose keys" in record.message]
    assert len(told) == 1
    assert words in str(told[0].exc_info[1])
    assert (await ask(app, "/health")).status == 200


def _fails() -> Client:
    raise LookupError("no such table")


@pytest.mark.unexpected("no such table")
async def test_the_log_says_when_it_is_over(caplog):
    table = Table(k=ADA)
    app = create_app(SETTINGS, keys=table)
    table.fault = LookupError("no such table")
    with caplog.at_level(logging.WARNING, "kiro_asgi"):
        failed = (await ask(app, MODELS, key="k")).status
        table.fault = None
        good = (await ask(app, MODELS, key="k")).status

    assert (failed, good) == (503, 200)
    assert "the host says again whose keys are shown" in caplog.text


def _hangs(shown: Presented) -> Client | None:
    time.sleep(0.5)
    return ADA


async def _hangs_later(shown: Presented) -> Client | None:
    await anyio.sleep(30)
    return ADA


@pytest.mark.unexpected("nothing was said within 0.05 s")
@pytest.mark.parametrize("find", [_hangs, _hangs_later])
async def test_silence_lets_nobody_in(find):
    """In a thread, and in the event loop."""
    app = create_app({**SETTINGS, "client": {"keys_timeout": 0.05}}, keys=find)
    with anyio.fail_after(5):
        answer = await ask(app, MODELS, key="k")

    assert (answer.status, answer.json()["error"]["code"]) == (503, "keys.timeout")


@pytest.mark.unexpected("no such table")
async def test_probes_and_the_start_page_need_no_host():
    """Whoever shows a key at them is told less while the host fails, and nothing else."""
    app = create_app(SETTINGS, keys=lambda shown: _fails())
    assert [(await ask(app, path, key="k")).status for path in ("/health", "/ready", "/")] == [200, 200, 200]
