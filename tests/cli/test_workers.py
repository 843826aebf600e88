"""``kiro-asgi serve`` over time: several processes, an end under load, new settings, and another process after it."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from attrs import evolve
from prometheus_client.parser import text_string_to_metric_families

from kiro_asgi import Settings, simulator
from kiro_asgi.cli.lasting import state_folder, with_lasting_state
from tests.cli.processes import Serving, command, serving
from tests.cli.test_serve import ask, chunks, question
from tests.valkey_server import free_port

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")


def request(base: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """The answer's status and object, on a connection of its own."""
    url = urlsplit(base)
    connection = HTTPConnection(url.hostname or "", url.port, timeout=60)  # the workers may just be starting
    try:
        headers = {"authorization": "Bearer k", "content-type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def respond(base: str, previous: str | None = None) -> tuple[int, Any]:
    body = {"model": "claude-sonnet-4.5", "input": "sim:count=2"}
    return request(base, "POST", "/v1/responses", body | ({"previous_response_id": previous} if previous else {}))


def conversation(base: str, turns: int) -> Counter[int]:
    """Statuses of turns that each build on the one before."""
    previous, statuses = None, Counter[int]()
    for _ in range(turns):
        status, answer = respond(base, previous)
        previous = answer.get("id", previous)
        statuses[status] += 1
    return statuses


def children(server: Serving) -> list[int]:
    pid = server.process.pid
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def waited(what: Any, seconds: float = 40) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.02)
    return False


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_workers_share_their_state_and_are_replaced(loop: str, tmp_path: Path) -> None:
    """Whichever process a client meets knows its responses; one that is killed takes nothing with it; a signal reaches
    all of them, and an open answer ends."""
    with serving("--simulate", "--workers", "2", "--loop", loop, cwd=tmp_path) as server:
        first = conversation(server.base, 8)
        before = children(server)
        os.kill(before[0], signal.SIGKILL)
        replaced = waited(lambda: len(children(server)) == 2 and before[0] not in children(server))
        second = conversation(server.base, 8)
        with ask(server.base, question("sim:count=5 sim:slow=0.1")) as answer:
            next(chunks(answer))
            for pid in (server.process.pid, *children(server)):  # as systemd does
                os.kill(pid, signal.SIGTERM)
            rest = [*chunks(answer)]
        errors = server.finish()

    assert (first, second) == ({200: 8}, {200: 8})
    assert replaced
    assert rest[-1] == "[DONE]"
    assert server.process.returncode == 0
    assert f"worker {before[0]} has died (signal 9), and is replaced" in errors
    assert "Traceback" not in errors
    assert not [each for each in before if Path(f"/proc/{each}").exists()]


def scraped(port: int) -> dict[str, float]:
    """The sums of what is counted, and is under way, by the names of the metrics; empty while nobody serves them."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            families = text_string_to_metric_families(answer.read().decode())
    except OSError:
        return {}
    return {each.name: sum(sample.value for sample in each.samples) for each in families if each.type != "histogram"}


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_metrics_outlive_the_workers(tmp_path: Path) -> None:
    """What a worker that was killed had counted stays, what it was just doing does not; another shows it."""
    port = free_port()
    metrics = ("--metrics-listen", str(port))
    with serving("--simulate", "--workers", "2", *metrics, cwd=tmp_path) as server:
        assert conversation(server.base, 3) == {200: 3}
        with ask(server.base, question("sim:count=99 sim:slow=0.2")) as answer:
            next(chunks(answer))
            open_before = waited(lambda: scraped(port).get("kiro_asgi_requests_active") == 1)
            for pid in children(server):
                os.kill(pid, signal.SIGKILL)
        forgotten = waited(lambda: (seen := scraped(port)) and not seen.get("kiro_asgi_requests_active"))
        counted = scraped(port)
        server.process.send_signal(signal.SIGTERM)
        errors = server.finish()

    assert open_before
    assert forgotten, errors
    assert counted["kiro_asgi_requests"] == 3


@contextmanager
def configured(tmp_path: Path, *arguments: str) -> Iterator[tuple[Serving, Path, simulator.Simulator]]:
    with simulator.running() as service:
        config = tmp_path / "gateway.toml"
        config.write_text(f'[client]\napi_keys = ["k"]\n[kiro]\nendpoint = "{service.url}"\napi_key = "ksk"\n')
        with serving("--config", str(config), "--log-level", "info", *arguments, cwd=tmp_path) as server:
            yield server, config, service


def test_new_settings_an_end_under_load_and_a_new_start(tmp_path: Path) -> None:
    """SIGHUP drops no stream and bad settings change nothing; at the end nobody who looks at ``/ready`` is refused
    (R45); the next process knows the responses of the last."""
    with configured(tmp_path, "--drain-delay", "1") as (server, config, _):
        good, kept = config.read_text(), respond(server.base)[1]["id"]
        with ask(server.base, question("sim:count=8 sim:slow=0.1"), authorization="Bearer k") as answer:
            next(chunks(answer))
            config.write_text(good.replace('"k"', '"k", "another"'))
            server.process.send_signal(signal.SIGHUP)
            entered = waited(lambda: status(server.base, "another") == 200)
            streamed = [*chunks(answer)]
        config.write_text(good.replace("ksk", ""))
        server.process.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        still = status(server.base, "another")
        config.write_text(good)
        told, ended = under_load(server)
        errors = server.finish()
    with configured(tmp_path) as (server, _, _):
        again = respond(server.base, kept)[0]

    assert entered
    assert streamed[-1] == "[DONE]"
    assert still == 200
    assert "the settings stay as they were" in errors and "no service is set up" in errors
    assert len(told) > 20 and Counter(told) == {"[DONE]": len(told)}
    assert (ended, again) == (0, 200)


def status(base: str, key: str) -> int:
    with ask(base, question("sim:text"), authorization=f"Bearer {key}") as answer:
        return answer.status


def under_load(server: Serving) -> tuple[list[str], int]:
    """Ends of all streams of clients that look at ``/ready`` before each one, and the status of the process."""
    told: list[str] = []

    def client() -> None:
        while request(server.base, "GET", "/ready")[0] == 200:
            with ask(server.base, question("sim:count=3 sim:slow=0.02"), authorization="Bearer k") as answer:
                told.append([*chunks(answer)][-1])

    clients = [threading.Thread(target=client) for _ in range(4)]
    for each in clients:
        each.start()
    waited(lambda: len(told) > 20)
    server.process.terminate()
    for each in clients:
        each.join(20)
    return told, server.process.wait(20)


LOCKED = """
import json, logging, os, pathlib, sys
import anyio
from kiro_asgi import Settings, create_app
from kiro_asgi.cli.lasting import with_lasting_state
from kiro_asgi.testing import ask
folder, key = pathlib.Path(sys.argv[1]), sys.argv[2]
kept = {"state": {"seal_key": key}} if key else {}
settings = Settings.from_mapping({"kiro": {"api_key": "ksk_x"}, "client": {"api_keys": ["k"]}, **kept})
logging.basicConfig(level=logging.WARNING)
if is_root := os.geteuid() == 0:
    os.setresuid(65534, 65534, 0)
settings = with_lasting_state(settings, folder)
if is_root:
    os.setresuid(0, 0, 0)
app = create_app(settings)
async def main():
    sent = []
    async def receive():
        return {"type": "http.request"}
    async def send(message):
        sent.append(message)
    scope = {"type": "http", "method": "GET", "path": "/ready", "headers": [(b"x-api-key", b"k")], "query_string": b""}
    await app(scope, receive, send)
    print(sent[-1]["body"].decode())
    await app.aclose()
anyio.run(main)
"""
"""Serves from a folder that its user cannot write: root can write any, so that it is somebody else for a moment."""


def test_without_a_folder_that_can_be_written_state_stays_in_memory(tmp_path: Path, caplog: Any) -> None:
    """A container may have none; that is said, and nobody is kept from serving."""
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING):
        settings = with_lasting_state(Settings(), tmp_path / "file" / "folder")

    assert settings == evolve(Settings(), state=evolve(Settings().state, path=str(tmp_path / "file/folder/state.db")))
    assert "kept in memory" in caplog.text


@pytest.mark.skipif(sys.platform == "win32", reason="rights of files are others there")
@pytest.mark.parametrize("key", ["", "a-key-of-our-own"], ids=["its own key", "a key of ours"])
def test_a_folder_that_cannot_be_written_is_told_at_the_start_and_in_ready(key: str) -> None:
    """By its name, with what to do; it would be found at the first answer that has to be kept."""
    with TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        folder = Path(place, "locked")
        folder.mkdir(mode=0o555)
        program = [sys.executable, "-W", "error", "-c", LOCKED, str(folder), key]
        told = subprocess.run(program, capture_output=True, text=True, timeout=120, check=True)

    assert (
        f"lost when the process ends: {folder} is a folder that this user cannot write; let state.path" in told.stderr
    )
    ready = json.loads(told.stdout)
    assert ready["degraded"] == ["store"]
    assert ready["store"].startswith("what is kept between requests is in memory and lost at the end")


def test_the_key_for_seals_lasts_and_is_nobody_elses(tmp_path: Path) -> None:
    first, second = (with_lasting_state(Settings(), tmp_path / "state").state for _ in range(2))

    assert len(first.seal_key) > 40
    assert (first.engine, first) == ("sqlite", second)
    assert (tmp_path / "state" / "seal.key").stat().st_mode & 0o777 == 0o600
    assert state_folder({"STATE_DIRECTORY": "/var/lib/a:/var/lib/b"}) == Path("/var/lib/a")
    assert state_folder({"XDG_STATE_HOME": "/x"}) == Path("/x/kiro-asgi")
    assert state_folder({"XDG_STATE_HOME": "not/absolute"}) == Path.home() / ".local/state/kiro-asgi"


def test_usage_is_found_where_it_is_kept_unasked(tmp_path: Path) -> None:
    """Neither the gateway nor the command was told of a file."""
    with simulator.running() as service:
        environ = {
            "KIRO_ASGI__KIRO__ENDPOINT": service.url,
            "KIRO_ASGI__KIRO__API_KEY": "ksk",
            "KIRO_ASGI__CLIENT__API_KEYS": "k",
            "KIRO_ASGI__STATE__USAGE": "true",
            "XDG_STATE_HOME": str(tmp_path / "state"),
        }
        nothing = command("usage", cwd=tmp_path, **environ)
        with serving("--log-level", "error", cwd=tmp_path, **environ) as server:
            assert respond(server.base)[0] == 200
            server.stop()
        told = command("usage", "--by", "upstream", "--csv", cwd=tmp_path, **environ)

    assert nothing.returncode == 1
    assert f"nothing was written yet: there is no file {tmp_path}" in nothing.stderr
    assert told.stdout.splitlines()[1].startswith("kiro,1,")
