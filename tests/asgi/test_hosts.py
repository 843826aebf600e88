"""Both hosts of the service, for accounts of both kinds: which is asked, when the other is, and what is remembered."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from anyio.abc import SocketStream
from attrs import define, field

from kiro_asgi import App, Settings
from kiro_asgi.asgi.door.parts import Additions, Internals
from kiro_asgi.create import new_app
from kiro_asgi.observers import Observer
from kiro_asgi.simulator import answer, refusal, text
from kiro_asgi.simulator.kiro.accounts import PROFILE_ARN
from kiro_asgi.simulator.kiro.faults import BAD_TOKEN, REFUSALS
from kiro_asgi.simulator.server import Simulator
from tests.asgi.answers import DIALECTS, text_of
from tests.asgi.conftest import settings_for
from tests.asgi.driver import ask, get
from tests.asgi.named_hosts import NamedHosts
from tests.asgi.test_tokens import GOOD, HOSTED
from tests.listening import listening

pytestmark = pytest.mark.anyio

RUNTIME, MANAGEMENT, Q = "runtime.us-east-1.kiro.dev", "management.us-east-1.kiro.dev", "q.us-east-1.amazonaws.com"
CHAT = "GenerateAssistantResponse"

BUILDER_ID: dict[str, Any] = {"authMethod": "IdC", "provider": "BuilderId"}
IDC: dict[str, Any] = {"authMethod": "IdC", "provider": "Enterprise", "profileArn": PROFILE_ARN}
ACCOUNTS = pytest.mark.parametrize("account", [BUILDER_ID, IDC], ids=["builder-id", "idc"])


@define
class Attempts(Observer):
    """What observers are told of each attempt."""

    seen: list[tuple[str, str]] = field(factory=list)

    def attempted(self, call: Any, attempt: Any) -> None:
        self.seen.append((attempt.plan.host, attempt.code))


@define
class World:
    """A gateway in a network of its own."""

    sim: Simulator
    folder: Path
    hosts: NamedHosts
    attempts: Attempts = field(factory=Attempts)
    apps: list[App] = field(factory=list)

    def gateway(self, account: dict[str, Any], *, retry: Any = (), **kiro: Any) -> App:
        path = self.folder / f"{len(self.apps)}.json"
        kept = {"clientId": "c", "clientSecret": "s", "refreshToken": f"aor{self.folder.name}", "expiresAt": GOOD}
        path.write_text(json.dumps({"accessToken": f"aoa{self.folder.name}", **kept, **account}))
        path.chmod(0o600)
        mine = {"endpoint": "", "api_key": "", "credentials_file": str(path), "auth_endpoint": self.sim.url, **kiro}
        settings = settings_for(self.sim.url, {"kiro": mine, "retry": dict(retry)})
        assert isinstance(settings, Settings)
        made = new_app(settings, Additions(observers=(self.attempts,)), Internals(transports=self.hosts.transport))
        self.apps.append(made)
        return made

    def asked(self, operation: str = CHAT) -> list[str]:
        """The hosts that were asked for *operation*, in order."""
        return [request.headers["host"] for request in self.sim.requests if request.operation == operation]


@pytest.fixture
async def world(sim: Simulator, tmp_path: Path) -> AsyncIterator[World]:
    made = World(sim, tmp_path, NamedHosts(sim.url))
    accounts = sim.accounts
    kept = accounts.hosts, accounts.profiles, accounts.profile_required, accounts.revoked
    accounts.profiles, accounts.revoked = {"": ()}, set()
    yield made
    for app in made.apps:
        await app.aclose()
    accounts.hosts, accounts.profiles, accounts.profile_required, accounts.revoked = kept
    accounts.refresh_answer = None
    sim.answer_with(None)


Change = Callable[[World], None]


def taking(*families: str) -> Change:
    def change(world: World) -> None:
        world.sim.accounts.hosts = {"": families}

    return change


def without(family: str) -> Change:
    def change(world: World) -> None:
        world.hosts.unknown = (family,)

    return change


def closing(family: str) -> Change:
    def change(world: World) -> None:
        world.hosts.closed = (family,)

    return change


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "collect"])
@pytest.mark.parametrize(("account", "first"), [(BUILDER_ID, Q), (IDC, RUNTIME)], ids=["builder-id", "idc"])
async def test_the_first_host_is_the_one_that_the_credential_suggests(account, first, dialect, stream, world):
    """Both kinds of account are answered where they are taken, without a detour."""
    exchange = await ask(dialect, "sim:text", stream=stream).run(world.gateway(account))

    assert exchange.status == 200, exchange.content
    assert text_of(dialect, exchange)
    assert world.asked() == [first]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "collect"])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(taking("amazonaws"), id="refused"),
        pytest.param(without("kiro.dev"), id="unknown"),
        pytest.param(closing("kiro.dev"), id="closed"),
    ],
)
async def test_the_other_host_is_asked_and_remembered(change, dialect, stream, world):
    """The client sees an answer and nothing else; the next one begins where the last was answered."""
    change(world)
    app = world.gateway(IDC)
    for _ in range(3):
        exchange = await ask(dialect, "sim:text", stream=stream).run(app)
        assert exchange.status == 200, exchange.content
        assert text_of(dialect, exchange)

    assert world.hosts.tried.count(RUNTIME) == 1
    assert world.asked()[-3:] == [Q] * 3


async def test_a_proxy_that_finds_nobody_says_that_of_one_host(tmp_path):
    """The other host is asked, as where the name itself is not found; where the proxy refuses us, neither is."""
    for said, hosts in ((b"502 Bad Gateway", [RUNTIME, Q]), (b"407 Proxy Authentication Required", [RUNTIME])):
        asked: list[str] = []

        async def refuse(client: SocketStream, said: bytes = said, asked: list[str] = asked) -> None:
            async with client:
                asked.append((await client.receive()).split(b" ")[1].decode())
                await client.send(b"HTTP/1.1 " + said + b"\r\nContent-Length: 0\r\n\r\n")

        path = tmp_path / "token.json"
        path.write_text(json.dumps({"accessToken": "aoaProxied", "expiresAt": GOOD, **IDC}))
        path.chmod(0o600)
        async with listening(refuse) as port:
            mine = {"endpoint": "", "api_key": "", "credentials_file": str(path), "proxy": f"http://127.0.0.1:{port}"}
            app = new_app(settings_for("", {"kiro": mine, "retry": {"attempts": 1, "base": 0.01}}))
            exchange = await ask("openai", "claude-sonnet-4.5", stream=True).run(app)
            await app.aclose()

        assert exchange.status == 503, exchange.content
        assert list(dict.fromkeys(each.partition(":")[0] for each in asked if MANAGEMENT not in each)) == hosts


async def test_a_builder_id_is_taken_to_the_new_hosts_where_the_old_ones_refuse_it(world):
    """The old host takes the token no more; the new one demands a profile, which the account got meanwhile."""
    world.sim.accounts.profiles = {"": (PROFILE_ARN,)}
    world.sim.accounts.hosts = {"": ("kiro.dev",)}
    app = world.gateway(BUILDER_ID)
    exchange = await ask("openai", "sim:text", stream=True).run(app)

    assert exchange.status == 200, exchange.content
    assert world.asked() == [RUNTIME]
    assert world.sim.last_request.json()["profileArn"] == PROFILE_ARN


async def test_neither_host_takes_the_credential(world, caplog):
    """Each is asked once with the token and once with a new one at most; the client is told what the first said."""
    world.sim.accounts.hosts = {"": ()}
    exchange = await ask("openai", "sim:text", stream=True).run(world.gateway(IDC))

    assert exchange.status in (401, 403, 502, 503)
    assert b"bearer token" in exchange.content
    assert (world.asked().count(RUNTIME), world.asked().count(Q)) == (2, 1)


async def test_where_the_other_host_wants_a_profile_the_first_refusal_counts(world):
    """A refusal that only says that the second try was in vain is not the client's concern."""
    world.sim.accounts.hosts = {"": ("kiro.dev",)}
    exchange = await ask("openai", "sim:text", stream=True).run(world.gateway(BUILDER_ID))

    assert b"bearer token" in exchange.content
    assert b"profileArn" not in exchange.content
    assert (world.asked().count(Q), world.asked().count(RUNTIME)) == (2, 1)


@pytest.mark.parametrize("name", ["suspicious", "suspended", "quota", "daily", "overage", "429", "500", "bad-request"])
@ACCOUNTS
async def test_no_other_host_is_asked_after_a_judgement(account, name, world):
    """Decision 0d: what a host says of the account holds at the other one, and to ask it there would make it worse."""
    status, message, reason = REFUSALS[name]
    world.sim.answer_with(lambda request: refusal(status, message, reason) if request.operation == CHAT else None)
    exchange = await ask("openai", "hi", stream=True).run(world.gateway(account))

    assert exchange.status >= 400
    assert len(set(world.asked())) == 1


async def test_nothing_is_asked_elsewhere_once_the_client_has_seen_something(world):
    """An exception within an answer ends it, whatever it says."""
    from kiro_asgi.simulator import ExceptionFrame

    cut = answer(*text("some "), ExceptionFrame("AccessDeniedException", BAD_TOKEN))
    world.sim.enqueue(cut)
    exchange = await ask("openai", "hi", stream=True).run(world.gateway(IDC))

    assert exchange.status == 200
    assert world.asked() == [RUNTIME]


async def test_the_detour_is_seen_and_costs_no_try(world, caplog):
    """One line in the log, one attempt for observers, and as many tries as before where the other host is busy."""
    world.sim.accounts.hosts = {"": ("amazonaws",)}
    app = world.gateway({**IDC}, retry={"attempts": 3})

    def busy(request: Any) -> Any:
        busy_there = request.operation == CHAT and request.headers["host"] == Q and len(world.asked()) < 5
        return refusal(500, "Encountered unexpectedly high load when processing the request.") if busy_there else None

    world.sim.answer_with(busy)
    with caplog.at_level(logging.WARNING):
        exchange = await ask("openai", "sim:text", stream=True).run(app)

    assert exchange.status == 200, exchange.content
    assert world.asked() == [RUNTIME, RUNTIME, Q, Q, Q]
    assert [code for _, code in world.attempts.seen] == [
        "token_invalid",
        "token_invalid",
        "overloaded",
        "overloaded",
        "",
    ]
    assert [host for host, _ in world.attempts.seen] == world.asked()
    assert sum("at amazonaws" in record.getMessage() for record in caplog.records) == 1


async def test_what_was_found_survives_the_renewal_of_the_token(world):
    """The hosts are the account's: a new token of it is taken where the old one was."""
    without("kiro.dev")(world)
    app = world.gateway(IDC)
    await ask("openai", "sim:text", stream=True).run(app)
    used = world.sim.last_request.headers["authorization"].removeprefix("Bearer ")
    world.sim.revoke(used)
    world.sim.forget()
    exchange = await ask("openai", "sim:text", stream=True).run(app)

    assert exchange.status == 200, exchange.content
    assert (set(world.asked()), world.hosts.tried.count(RUNTIME)) == ({Q}, 1)
    assert world.sim.last_request.headers["authorization"] != f"Bearer {used}"


async def test_each_credential_has_hosts_of_its_own(world, tmp_path):
    """What one account was refused says nothing about another."""
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"accessToken": "aoaOther", "refreshToken": "aorOther", "expiresAt": GOOD, **IDC}))
    other.chmod(0o600)
    world.sim.accounts.hosts = {"": ("amazonaws",), "aoaOther": ("kiro.dev", "amazonaws")}
    app = world.gateway(IDC, fallback_credentials_files=[str(other)])
    await ask("openai", "sim:text", stream=True).run(app)
    assert world.asked()[-1] == Q
    world.sim.forget()

    status, message, reason = REFUSALS["quota"]
    world.sim.enqueue(refusal(status, message, reason))
    exchange = await ask("openai", "sim:text", stream=True).run(app)

    assert exchange.status == 200, exchange.content
    assert world.asked() == [Q, RUNTIME]


LISTS = {"models": "ListAvailableModels", "search": "InvokeMCP"}


@pytest.mark.parametrize("change", [taking("amazonaws"), without("kiro.dev")], ids=["refused", "unknown"])
async def test_lists_and_searches_find_their_host_too(change, world):
    """Every small question leaves a host that the credential is not for, and the next begins at the other."""
    change(world)
    app = world.gateway(IDC)
    for _ in range(2):
        assert len((await get("/v1/models").run(app)).json()["data"]) > 5
    exchange = await ask("openai", 'sim:tool=web_search {"query": "x"}', stream=False, **HOSTED["openai"]).run(app)

    assert exchange.status == 200
    assert set(world.asked("ListAvailableModels")[-2:]) == {Q}
    assert world.asked("InvokeMCP") == [Q]
    assert world.hosts.tried.count(MANAGEMENT) == 1


@pytest.mark.parametrize(
    ("hosts", "places"), [("kiro.dev", {RUNTIME, MANAGEMENT}), ("amazonaws", {Q})], ids=["kiro.dev", "amazonaws"]
)
@ACCOUNTS
async def test_the_operators_choice_is_not_left(account, hosts, places, world):
    """Where the operator chose, a refusal is a refusal."""
    world.sim.accounts.hosts = {"": ()}
    app = world.gateway(account, hosts=hosts)
    await ask("openai", "sim:text", stream=True).run(app)
    await get("/v1/models").run(app)

    public = {host.replace("eu-central-1", "us-east-1") for host in world.hosts.tried if "127.0.0.1" not in host}
    assert public <= places


async def test_an_address_of_the_operators_is_not_left(world):
    """`kiro.endpoint` is the address, whoever answers there."""
    world.sim.enqueue(*[refusal(403, BAD_TOKEN)] * 4)
    exchange = await ask("openai", "hi", stream=True).run(world.gateway(IDC, endpoint=world.sim.url))

    assert exchange.status >= 400
    assert all(host.startswith("127.0.0.1") for host in world.asked())


async def test_an_organisations_lists_name_the_profile(world):
    """§8: without it they are refused; the list is there, and so is what is left of the quota."""
    world.sim.accounts.profile_required = True
    world.sim.accounts.profiles = {"": (PROFILE_ARN,)}
    app = world.gateway({**IDC, "profileArn": ""})
    assert len((await get("/v1/models").run(app)).json()["data"]) > 5
    status, message, reason = REFUSALS["quota"]
    world.sim.enqueue(refusal(status, message, reason))
    exchange = await ask("openai", "hi", stream=True).run(app)

    assert exchange.status in (402, 429)
    served = [
        request for request in world.sim.requests if request.operation in ("ListAvailableModels", "GetUsageLimits")
    ]
    assert {request.operation for request in served} == {"ListAvailableModels", "GetUsageLimits"}
    assert {request.status for request in served} == {200}
