"""A gateway that is tried without an account: what answers in it is what a simulator behind a socket answers."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import evolve

from kiro_asgi import ConfigError, Settings, create_app, simulator
from kiro_asgi.asgi.door.readiness import problems_with
from kiro_asgi.asgi.exchange.providers import NOWHERE
from kiro_asgi.config.leaves import leaves
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.net.transport import Transport
from kiro_asgi.quota.settings import hash_of
from kiro_asgi.simulation import SimulatedTransport
from kiro_asgi.simulator import CloseEarly, Event, HalfClose, Head, Layout, Pause, RawBytes, Repeat, Reset, Stall, text
from kiro_asgi.simulator.service import SimulatedService
from tests.asgi.answers import ALL_DIALECTS, text_of
from tests.asgi.driver import Exchange, ask, get, post
from tests.net.readers import Noting, request_to

pytestmark = pytest.mark.anyio

SAID = Event("assistantResponseEvent", {"content": "a"})
BEGINNINGS: dict[str, tuple[Any, ...]] = {
    "at once": (),
    "after the head": (Head(headers=(("x-number", "1"),)),),
    "after some bytes": (Head(layout=Layout(chunk=7)), SAID, RawBytes(b"more")),
    "after bytes without a head": (SAID,),
}
ENDS: dict[str, tuple[Any, ...]] = {
    "complete": (),
    "a pause": (Pause(0.05), SAID, Pause(0.05)),
    "a pause that is too long": (Pause(0.2), Pause(0.2), SAID),
    "many": (Repeat(SAID, 100),),
    "silence": (Stall(),),
    "fin": (CloseEarly(),),
    "half-close": (HalfClose(),),
    "reset": (Pause(0.05), Reset()),
}
PATIENCE = 0.3
FRAMING = {b"transfer-encoding", b"connection"}


async def outcome(transport: Transport, url: str) -> tuple[object, ...]:
    """What a reader sees of an answer: head, body, and the error that ends it."""
    reader, error = Noting(patience=PATIENCE, head_patience=PATIENCE), None
    try:
        await transport.fetch(request_to(url), reader, patience=5)
    except KiroAsgiError as fault:
        error = type(fault), fault.code
    headers = {(name.lower(), value) for name, value in reader.headers if name.lower() not in FRAMING}
    return reader.status, headers, reader.body, error


@pytest.mark.parametrize(("beginning", "end"), [*product(BEGINNINGS, ENDS)])
async def test_an_answer_is_what_it_is_behind_a_socket(beginning: str, end: str) -> None:
    """Whatever a script does, at whatever point of an answer: the same status, headers, bytes and error."""
    script = (*BEGINNINGS[beginning], *ENDS[end])
    service = SimulatedService(strict=False)
    service.enqueue(script)
    network = Transport(library="httpcore")
    async with simulator.serve(strict=False) as behind_socket:
        behind_socket.enqueue(script)
        truth = await outcome(network, behind_socket.url)
        await network.aclose()

    assert await outcome(SimulatedTransport(service), NOWHERE) == truth


async def test_a_reader_that_has_enough_stops_it() -> None:
    service = SimulatedService(strict=False)
    service.enqueue((SAID, SAID, Stall()))
    reader = Noting(enough_after=1)

    await SimulatedTransport(service).fetch(request_to(NOWHERE), reader, patience=5)

    assert len(reader.chunks) == 1


async def test_pieces_come_one_by_one() -> None:
    """Each piece is acted upon before the next comes, and others get a turn between two."""
    service = SimulatedService(strict=False)
    service.enqueue(text("a", "b", "c"))
    reader, turns = Noting(), 0

    async def other() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        await SimulatedTransport(service).fetch(request_to(NOWHERE), reader, patience=5)
        tasks.cancel_scope.cancel()

    assert (reader.turns, turns >= 3) == ([0, 1, 2, 3], True)


MODELS = {
    "kiro": "claude-sonnet-4.5",
    "gemini": "gemini/gemini-2.5-flash",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "openai": "openai/gpt-5",
    "bedrock": "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "custom": "local/gpt-5",
}
LOCAL = {"custom": {"local": {"endpoint": "https://canary.example/v1"}}}


@pytest.mark.parametrize(("dialect", "service"), [*product(ALL_DIALECTS, MODELS)])
async def test_every_api_in_front_of_every_service(dialect: str, service: str) -> None:
    """Without a key, an account, or a lifespan event, streamed and whole."""
    app = create_app(LOCAL, simulate=True)

    for stream in (True, False):
        answer = await ask(dialect, "sim:count=3", stream=stream, model=MODELS[service]).run(app)
        assert text_of(dialect, answer) == "1 2 3 "


async def test_faults_and_tools_on_demand() -> None:
    """Marker words do what they do with ``serve --simulate``; a made-up credential never rests."""
    app = create_app({"retry": {"attempts": 1}}, simulate=True)
    refused = await ask("openai", "sim:quota", stream=False).run(app)
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
    called = await ask("openai", "sim:tool", stream=False, tools=[tool]).run(app)

    assert refused.json()["error"]["type"] == "insufficient_quota"
    assert called.json()["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "get_weather"


async def environment(app_settings: dict[str, str], folder: Path) -> Exchange:
    """An answer of an application with the settings of its environment, in a process of its own."""
    code = "import anyio, kiro_asgi; from tests.asgi.driver import get\n"
    code += "print(anyio.run(get('/ready', key=None).run, kiro_asgi.create_app()).content.decode())"
    environ = {"PYTHONPATH": os.pathsep.join(sys.path), **app_settings}
    done = await anyio.run_process([sys.executable, "-c", code], env=environ, cwd=folder, stderr=subprocess.PIPE)
    return done.stdout.decode()


async def test_each_way_to_say_so(tmp_path: Path) -> None:
    """An argument, a setting in Python, in a mapping, in a file, in the environment: each is said once in the log, and
    at ``/ready``, where the gateway is no less ready."""
    (tmp_path / "gateway.toml").write_text("simulate = true\n")
    apps = [
        create_app({}, simulate=True),
        create_app(Settings(), simulate=True),
        create_app(Settings(simulate=True)),
        create_app({"simulate": True}),
        create_app(Settings.from_toml(tmp_path / "gateway.toml")),
    ]
    told = [(await get("/ready", key=None).run(app)).content.decode() for app in apps]
    told.append(await environment({"KIRO_ASGI__SIMULATE": "true"}, tmp_path))
    told.append(await environment({"KIRO_ASGI_CONFIG": "gateway.toml"}, tmp_path))

    assert all(it.startswith('{"ready":true,"reasons":[],"degraded":["simulated"]') for it in told), told


@pytest.mark.parametrize("given", [None, {}, Settings(), Settings.from_mapping({"client": {"api_keys": ["k"]}})])
async def test_the_variable_works_whatever_the_settings_come_from(given: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mapping, an object, as a Django project has them; a value that is no switch is refused by its name."""
    monkeypatch.setenv("KIRO_ASGI__SIMULATE", "true")
    told = (await get("/ready", key="k").run(create_app(given))).json()
    assert told["degraded"] == ["simulated"]

    monkeypatch.setenv("KIRO_ASGI__SIMULATE", "perhaps")
    with pytest.raises(ConfigError, match="KIRO_ASGI__SIMULATE"):
        create_app(given)


SITES = [
    *(
        "bare_site",
        "django_site",
        "ending_streams",
        "guarded",
        "proxied",
        "quart_site",
        "quart_users",
        "starlette_site",
    ),
    *("starlette_users", "mysite.asgi", "keysite.asgi"),
]


@pytest.mark.parametrize("site", SITES)
def test_each_documented_mount_is_simulated_by_the_variable(site: str, tmp_path: Path) -> None:
    """As the pages say; each says in its log that it is."""
    examples = Path(__file__).parent.parent / "docs" / "examples"
    folder = {"mysite": "django_project", "keysite": "django_keys"}.get(site.partition(".")[0], ".")
    environ = {
        "PYTHONPATH": os.pathsep.join([str(examples / folder), *sys.path]),
        "DJANGO_SETTINGS_MODULE": f"{site.partition('.')[0]}.settings"
        if "." in site
        else "django.conf.global_settings",
        "KIRO_ASGI__CLIENT__TRUST_HOST": "true",
        "KIRO_ASGI__SIMULATE": "true",
    }
    code = f"import importlib; importlib.import_module({site!r})"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr.partition(":")[0]) == (0, "simulated"), done.stderr


async def test_it_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    app = create_app({}, simulate=True)
    await get("/health").run(app)
    await ask("openai", "hi", stream=False).run(app)

    assert [(it.levelno, it.getMessage().partition(":")[0]) for it in caplog.records] == [
        (logging.WARNING, "simulated")
    ]


async def test_keys_that_are_set_are_needed() -> None:
    """R28: who names a key for clients gets what was asked for; without one there is nothing to protect."""
    statuses = {}
    for name, settings in {
        "key": {"client": {"api_keys": ["k"]}},
        "named": {"keys": {"one": {"hash": "sha256:" + "0" * 64}}},
        "host": {"client": {"trust_host": True}},
        "none": {},
    }.items():
        app = create_app(settings, simulate=True)
        statuses[name] = [(await get("/v1/models", key=key).run(app)).status for key in (None, "k")]

    assert statuses == {"key": [401, 200], "named": [401, 401], "host": [401, 401], "none": [200, 200]}


async def test_nothing_real_is_counted_or_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in a file nor on a server, whatever the settings name: no state, no ledger, no budget; nor in a store of
    a package."""
    place = tmp_path / "state.db"
    real = {
        "sqlite": {"engine": "sqlite", "path": str(place), "usage": True},
        "valkey": {"engine": "valkey", "url": "valkey://127.0.0.1:1", "usage": True},
        "auto": {"path": str(place), "usage": True},
    }
    limits = {"hash": hash_of(b"k"), "cost_per_day": 1}
    prices = {"models": ["claude-sonnet-*=3/15"]}

    def connect(*_: object) -> None:
        raise AssertionError("a simulated gateway connects to nothing")

    monkeypatch.setattr(socket, "getaddrinfo", connect)
    for state in real.values():
        app = create_app({"state": state, "keys": {"ada": limits}, "prices": prices}, simulate=True)
        answers = [await ask("responses", "sim:count=3", stream=False).run(app) for _ in range(2)]
        body = {"model": "claude-sonnet-4.5", "input": "and?", "previous_response_id": answers[0].json()["id"]}
        answers.append(await post("/v1/responses", body).run(app))
        await app.aclose()

        assert {answer.status for answer in answers} == {200}
        assert os.listdir(tmp_path) == []


CANARIES = {"proxy": "http://canary:x@canary.example", "headers": ["x-canary=canary"]}
"""Values of secrets that are not just any text."""


def all_secrets() -> dict[str, Any]:
    """Settings with every secret, and the other settings that lead to some."""
    tables: dict[str, dict[str, Any]] = {"kiro": {"credentials_file": "/canary", "profile_arn": "arn:canary"}}
    for leaf in leaves(Settings, ("custom.local",)).values():
        table, _, name = leaf.path.rpartition(".")
        if leaf.secret and table.partition(".")[0] in MODELS:
            canary = "canary" if leaf.type is str else [f"canary-{table}"]
            tables.setdefault(table, {})[name] = CANARIES.get(name, canary)
    local = tables.pop("custom.local") | {"endpoint": "https://canary.example/v1"}
    return {**tables, "custom": {"local": local}}


async def test_real_credentials_are_sent_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """R37: not even into the simulation, and no connection is made."""
    arrived: list[str] = []
    answer = SimulatedService.script_for

    def script_for(service: SimulatedService, request: simulator.RecordedRequest) -> Any:
        arrived.append(f"{request.path}?{request.query} {request.headers}")
        return answer(service, request)

    def connect(*_: object) -> None:
        raise AssertionError("a simulated gateway connects to nothing")

    monkeypatch.setattr(SimulatedService, "script_for", script_for)
    app = create_app(all_secrets(), simulate=True)
    monkeypatch.setattr(socket, "getaddrinfo", connect)
    for model in MODELS.values():
        assert (await ask("openai", "hi", stream=False, model=model).run(app)).status == 200
    await get("/v1/models").run(app)

    assert len(arrived) > len(MODELS)
    assert [it for it in arrived if "canary" in it] == []


async def test_what_stands_in_its_way_is_still_a_problem() -> None:
    """Settings that no gateway could work with are refused as ever; missing or broken credentials are none of them."""
    broken = Settings.from_mapping({"simulate": True, "kiro": {"credentials_file": "/nowhere"}})

    assert (problems_with(broken), len(problems_with(evolve(broken, simulate=False)))) == ((), 2)
    with pytest.raises(ConfigError, match=r"routing\.order"):
        create_app({"routing": {"order": ["nobody"]}}, simulate=True)


def test_it_serves_one_event_loop_after_another() -> None:
    """One application, loops of both kinds, and none of them is told that it ends."""
    app = create_app({}, simulate=True)

    for backend in ("asyncio", "trio", "asyncio"):
        answer = anyio.run(ask("openai", "sim:count=2", stream=True).run, app, backend=backend)
        assert text_of("openai", answer) == "1 2 "


async def test_a_client_that_leaves_ends_it() -> None:
    """A stream that stalls is given up as soon as nobody waits for it."""
    app = create_app({}, simulate=True)
    exchange = ask("openai", "sim:stall-mid", stream=True)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(exchange.run, app)
            while len(exchange.messages) < 2:  # noqa: ASYNC110 - of what is watched nothing can set an event
                await anyio.sleep(0.005)
            exchange.leave.set()
        await app.idle()


async def test_stored_conversations_and_counts_work() -> None:
    """What follows an answer does, as with any service."""
    app = create_app({}, simulate=True)
    first = await ask("responses", "sim:count=2", stream=False).run(app)
    body = {"model": "claude-sonnet-4.5", "input": "and?", "previous_response_id": first.json()["id"]}
    second = await post("/v1/responses", body).run(app)

    assert (first.status, second.status) == (200, 200)


def test_the_simulator_is_not_imported_otherwise() -> None:
    code = "import sys, kiro_asgi; kiro_asgi.create_app({'client': {'api_keys': ['k']}, 'gemini': {'api_key': 'k'}})\n"
    code += "print(*(name for name in sys.modules if name.startswith('kiro_asgi.simul')))"
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout

    assert printed == "\n"
