"""``kiro-asgi serve`` on real sockets, ended by real signals."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from kiro_asgi import ConfigError, simulator
from kiro_asgi.cli.standalone import bind
from tests.asgi.driver import ask as a_question
from tests.cli.processes import PREFIX, Serving, clean_environment, command, serving

LOOPS = ("asyncio", "trio")


def question(text: str, *, stream: bool = True) -> bytes:
    messages = [{"role": "user", "content": text}]
    return json.dumps({"model": "claude-sonnet-4.5", "stream": stream, "messages": messages}).encode()


@contextmanager
def ask(base: str, body: bytes, **headers: str) -> Iterator[http.client.HTTPResponse]:
    """The answer, its body still to be read; after the block the client is gone."""
    url = urlsplit(base)
    with closing(http.client.HTTPConnection(url.hostname or "", url.port, timeout=20)) as connection:
        path = url.path + "/v1/chat/completions"
        connection.request("POST", path, body, {"content-type": "application/json", **headers})
        yield connection.getresponse()


def get(url: str) -> str:
    address = urlsplit(url)
    with closing(http.client.HTTPConnection(address.hostname or "", address.port, timeout=20)) as connection:
        connection.request("GET", address.path)
        return connection.getresponse().read().decode()


def status_of(base: str, **headers: str) -> int:
    with ask(base, question("sim:text"), **headers) as answer:
        return answer.status


def chunks(answer: http.client.HTTPResponse) -> Iterator[str]:
    """Data of the server-sent events."""
    for line in answer:
        if line.startswith(b"data: "):
            yield line[6:].decode().rstrip("\n")


def text_of(answer: http.client.HTTPResponse) -> str:
    pieces = [json.loads(data) for data in chunks(answer) if data != "[DONE]"]
    return "".join(choice["delta"].get("content") or "" for piece in pieces for choice in piece["choices"])


@pytest.mark.parametrize("loop", LOOPS)
def test_simulate_needs_nothing(loop: str, tmp_path: Path) -> None:
    """No account, no key, no settings: it answers at once, tells where, and ends cleanly when told to."""
    with serving("--simulate", "--loop", loop, cwd=tmp_path) as server:
        with ask(server.base, question("sim:count=5")) as answer:
            status, text = answer.status, text_of(answer)
        errors = server.stop()

    assert (status, text) == (200, "1 2 3 4 5 ")
    assert (server.process.returncode, errors) == (0, "")
    assert server.announced[0] == f"OpenAI base_url:    {server.base}/v1"
    assert server.told("Client keys") == "none needed, any text will do"
    assert "sim:tool" in server.told("Marker words")


def test_simulate_keeps_the_configured_keys_and_never_uses_the_real_credential(tmp_path: Path) -> None:
    """R28/R37: keys that are set stay in force; the key of the service stays at home."""
    keys = {"KIRO_ASGI__CLIENT__API_KEYS": "one,two", "KIRO_API_KEY": "ksk_canary"}
    with serving("--simulate", cwd=tmp_path, **keys) as server:
        refused, served = status_of(server.base), status_of(server.base, authorization="Bearer two")
        errors = server.stop()

    assert (refused, served) == (401, 200)
    assert server.told("Client keys") == "2 configured, one of them is needed"
    assert "canary" not in "".join(server.announced) + errors


def test_simulate_is_anonymous_on_this_machine_only(tmp_path: Path) -> None:
    """Whoever can be reached from elsewhere must say who may come in."""
    done = command("serve", "--simulate", "--host", "0.0.0.0", "--port", "0", cwd=tmp_path)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("kiro-asgi: --host 0.0.0.0: other machines can connect there, so clients need a key")
    assert "KIRO_ASGI__CLIENT__API_KEYS" in done.stderr and "127.0.0.1" in done.stderr


def test_simulate_may_be_a_setting(tmp_path: Path) -> None:
    """It is the option then: the rule about the address, a service on loopback, tapes; and `/ready` says so."""
    asked = {"KIRO_ASGI__SIMULATE": "true", "KIRO_API_KEY": "ksk_canary"}
    elsewhere = command("serve", "--host", "0.0.0.0", "--port", "0", cwd=tmp_path, **asked)
    with serving(cwd=tmp_path, **asked) as server:
        with ask(server.base, question("sim:count=3")) as answer:
            text = text_of(answer)
        ready = json.loads(urlopen(f"{server.base}/ready").read())
        errors = server.stop()

    assert (elsewhere.returncode, "--host 0.0.0.0" in elsewhere.stderr) == (1, True)
    assert (text, ready["degraded"], errors) == ("1 2 3 ", ["simulated"], "")
    assert server.told("Service").startswith("simulated at http://127.0.0.1:")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_simulation_touches_no_real_state(workers: str, tmp_path: Path) -> None:
    """Neither a ledger nor a budget nor a response: the file that the settings name is not even made."""
    key = 'hash = "sha256:' + sha256(b"k").hexdigest() + '"\ncost_per_day = 1\n'
    state = '[state]\nengine = "sqlite"\npath = "real.db"\nusage = true\n'
    (tmp_path / "gateway.toml").write_text(f'{state}[prices]\nmodels = ["*=3/15"]\n[keys.ada]\n{key}')
    with serving("--simulate", "--config", "gateway.toml", "--workers", workers, cwd=tmp_path) as server:
        with ask(server.base, question("sim:count=3"), authorization="Bearer k") as answer:
            assert text_of(answer) == "1 2 3 "
        server.stop()

    assert sorted(path.name for path in tmp_path.iterdir()) == ["gateway.toml"]


@pytest.mark.parametrize(("when", "kept"), [("", 1), ("error", 0)])
def test_whoever_looks_has_tapes_of_what_is_noticed(when: str, kept: int, tmp_path: Path) -> None:
    """With ``--inspect`` an answer whose tool call was cut is kept, unless the settings say what is."""
    settings = {"KIRO_ASGI__TAPES__PATH": str(tmp_path / "tapes")} | ({"KIRO_ASGI__TAPES__WHEN": when} if when else {})
    with serving("--simulate", "--inspect", cwd=tmp_path, **settings) as server:
        for asked_for in ("hi", "sim:cut-tool"):
            with ask(server.base, question(asked_for)) as answer:
                answer.read()
        server.stop()

    assert len([*(tmp_path / "tapes").glob("*.tape.jsonl")]) == kept


def test_a_gateway_does_not_become_simulated(tmp_path: Path) -> None:
    """Settings that are read anew neither let a simulated gateway ask services, nor the other way round."""
    settings = tmp_path / "gateway.toml"
    with simulator.running() as service:
        kiro = f'[client]\nallow_anonymous = true\n[kiro]\nendpoint = "{service.url}"\napi_key = "ksk_file"\n'
        for first, then in (("", "simulate = true\n"), ("simulate = true\n", "")):
            settings.write_text(first + kiro)
            with serving("--config", "gateway.toml", "--log-level", "info", cwd=tmp_path) as server:
                settings.write_text(then + kiro)
                server.process.send_signal(signal.SIGHUP)
                assert server.process.stderr is not None
                said = next(line for line in server.process.stderr if "settings" in line)
                status_of(server.base)
                server.stop()
            assert ("simulate: takes effect at the start only" in said) == (not first), said
    asked = [it for it in service.requests if it.operation == "GenerateAssistantResponse"]

    assert len(asked) == 1


def test_serves_a_configured_service_below_a_prefix(tmp_path: Path) -> None:
    """C02/C04: settings from a file and the environment, a root path in both spellings that occur."""
    with simulator.running() as service:
        (tmp_path / "gateway.toml").write_text(f'[kiro]\nendpoint = "{service.url}"\napi_key = "ksk_file"\n')
        arguments = ("--config", "gateway.toml", "--root-path", "llm/")
        with serving(*arguments, cwd=tmp_path, KIRO_ASGI__CLIENT__API_KEYS="one") as server:
            with ask(server.base, question("sim:count=3"), **{"x-api-key": "one"}) as answer:
                below = text_of(answer)
            stripped = status_of(server.base.removesuffix("/llm"), **{"x-api-key": "one"})
            beside = status_of(server.base + "x", **{"x-api-key": "one"})
            server.stop()
        asked = service.requests[0].headers

    assert server.base.endswith("/llm")
    assert (below, stripped, beside) == ("1 2 3 ", 200, 404)
    assert asked["authorization"] == "Bearer ksk_file"


@pytest.mark.parametrize(
    ("loop", "sent"), [("asyncio", signal.SIGTERM), ("trio", signal.SIGINT)], ids=["asyncio-SIGTERM", "trio-SIGINT"]
)
def test_open_streams_may_end(loop: str, sent: signal.Signals, tmp_path: Path) -> None:
    """R45: after the signal nothing new is accepted, what runs runs on, then it ends at once and with status 0."""
    with (
        serving("--simulate", "--loop", loop, cwd=tmp_path) as server,
        ask(server.base, question("sim:count=10 sim:slow=0.1")) as answer,
    ):
        first = next(chunks(answer))
        server.process.send_signal(sent)
        time.sleep(0.3)
        accepts = _accepts(server)
        rest = [*chunks(answer)]
        ended = time.monotonic()
        errors = server.finish()
        took = time.monotonic() - ended

    assert json.loads(first)["object"] == "chat.completion.chunk"
    assert (accepts, rest[-1]) == (False, "[DONE]")
    assert (server.process.returncode, errors) == (0, "")
    assert took < 5  # of the 10 that it may take: an idle connection is not waited for


ENDS = {
    "anthropic": "event: error\ndata: ",
    "openai": '"error":',
    "responses": "event: response.failed\ndata: ",
}
"""How an API's stream says that it cannot go on."""


@pytest.mark.parametrize("loop", LOOPS)
def test_streams_that_take_too_long_are_told(loop: str, tmp_path: Path) -> None:
    """R45: at the graceful timeout each stream ends with its API's own error and a proper end of the body, a collected
    answer is 503 with a time to come back, and the process ends in time, whatever its clients do."""
    limit = ("--graceful-timeout", "1")
    with serving("--simulate", "--loop", loop, *limit, cwd=tmp_path) as server, ExitStack() as stack:
        never_read = stack.enter_context(asked(server.base, "openai", "sim:flood=64", stream=True, receive_buffer=4096))
        streams = {
            api: stack.enter_context(asked(server.base, api, "sim:count=500 sim:slow=0.1", stream=True)).getresponse()
            for api in ENDS
        }
        whole = stack.enter_context(asked(server.base, "openai", "sim:count=500 sim:slow=0.1", stream=False))
        first = [answer.readline() for answer in streams.values()]
        began = time.monotonic()
        server.process.terminate()
        rest = {api: answer.read().decode() for api, answer in streams.items()}  # fails where the body is torn
        refused = whole.getresponse()
        refused.read()
        server.process.wait(10)
        took = time.monotonic() - began
        errors = server.finish()

    assert all(first)
    assert never_read
    assert {api: words for api, words in ENDS.items() if words in rest[api]} == ENDS
    assert all("being stopped" in text for text in rest.values())
    assert (refused.status, refused.getheader("retry-after")) == (503, "1")
    assert server.process.returncode == 0
    assert 0.9 < took < 5
    assert "Traceback" not in errors


@contextmanager
def asked(
    base: str, api: str, prompt: str, *, stream: bool, receive_buffer: int = 0
) -> Iterator[http.client.HTTPConnection]:
    """A connection on which a question has been asked."""
    url, exchange = urlsplit(base), a_question(api, prompt, stream=stream, max_tokens=10**9)
    with closing(http.client.HTTPConnection(url.hostname or "", url.port, timeout=20)) as connection:
        connection.sock = socket.socket()
        if receive_buffer:
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.sock.settimeout(20)
        connection.sock.connect((url.hostname, url.port))
        headers = {name.decode(): value.decode() for name, value in exchange.scope["headers"]}
        connection.request("POST", exchange.scope["path"], exchange.body[0], headers)
        yield connection


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    """Whoever presses Ctrl-C twice means it."""
    with (
        serving("--simulate", "--graceful-timeout", "60", cwd=tmp_path) as server,
        ask(server.base, question("sim:count=500 sim:slow=0.1")) as answer,
    ):
        first = next(chunks(answer))
        server.process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        running = server.process.poll() is None
        server.process.send_signal(signal.SIGINT)
        server.process.wait(5)

    assert first
    assert running


ATTEMPT = 'kiro_asgi_attempts_total{error_type="",kiro_asgi_outcome="complete",kiro_asgi_upstream="kiro"} 1.0'


def test_what_an_operator_sees_is_asked_for(tmp_path: Path) -> None:
    """One line a request when it is wanted, as text or JSON, nothing at all when not; metrics at an address of their
    own; never a key."""
    written, scraped = [], ""
    everything = ("--access-log", "--log-format", "json", "--metrics-listen", "0", "--opentelemetry")
    for arguments in ((), ("--access-log",), everything):
        with serving("--simulate", *arguments, cwd=tmp_path) as server:
            with ask(server.base, question("sim:text"), authorization="Bearer canary") as answer:
                answer.read()
            deadline = time.monotonic() + 20
            if arguments is everything:
                while ATTEMPT not in scraped and time.monotonic() < deadline:  # told when all has been taken
                    scraped = get(server.told("Metrics"))
            written.append(server.stop().splitlines())

    silent, (line,), (formatted,) = written
    assert silent == []
    assert "POST /v1/chat/completions 200" in line
    assert json.loads(formatted)["route"] == "/v1/chat/completions"
    assert ATTEMPT in scraped
    assert "canary" not in line + formatted + scraped


def test_a_port_that_is_taken_is_said_in_one_line(tmp_path: Path) -> None:
    """No traceback for what the user can repair."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = command("serve", "--simulate", "--port", str(port), cwd=tmp_path)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        f"kiro-asgi: cannot listen on 127.0.0.1 port {port}: Address already in use; another program "
        "listens there: end it, or choose another --port; 0 takes a free one"
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--port", "99999"], "--port: must be from 0 to 65535, not '99999'"),
        (["--port", "-1"], "--port: must be from 0 to 65535, not '-1'"),
        (["--port", "٣"], "--port: must be from 0 to 65535"),
        (["--port", "9" * 5000], "--port: must be from 0 to 65535"),
        (["--graceful-timeout", "nan"], "--graceful-timeout: must be from 0 to 86400 seconds, not 'nan'"),
        (["--graceful-timeout", "-3"], "--graceful-timeout: must be from 0 to 86400 seconds"),
    ],
)
def test_options_that_cannot_be_are_refused(options: list[str], words: str, tmp_path: Path) -> None:
    """The system would take port 99999 for 34463, and listen where nobody expects it."""
    done = command("serve", "--simulate", *options, cwd=tmp_path)

    assert done.returncode == 2
    assert words in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("port", [-1, 65_536, 99_999])
def test_there_is_no_such_port(port: int) -> None:
    """Nor for whoever uses the function."""
    with pytest.raises(ConfigError, match="it must be from 0 to 65535"):
        bind("127.0.0.1", port)


def test_a_name_that_is_no_hosts_is_a_mistake_in_words(tmp_path: Path) -> None:
    """One line, no traceback."""
    done = command("serve", "--simulate", "--host", "a" * 300, cwd=tmp_path, KIRO_ASGI__CLIENT__API_KEYS="k")

    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"kiro-asgi: cannot listen on '{'a' * 80}': there is no host of this name; --host 127.0.0.1 is for this "
        "machine alone, 0.0.0.0 is for others as well"
    ]


@pytest.mark.parametrize("name", ["pipe", "folder"])
def test_a_token_file_that_is_none_is_refused_at_once(name: str, tmp_path: Path) -> None:
    """A named pipe that nobody writes to would be waited for without end."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    path = str(tmp_path / name)
    done = command(
        "serve",
        "--port=0",
        cwd=tmp_path,
        KIRO_ASGI__CLIENT__API_KEYS="k",
        KIRO_ASGI__KIRO__CREDENTIALS_FILE=path,
    )

    assert done.returncode == 1
    assert path in done.stderr and "Traceback" not in done.stderr


def test_bad_settings_are_said_in_one_message(tmp_path: Path) -> None:
    """Start-up fails with the whole list, and with nothing else."""
    bad = {"KIRO_ASGI__KIRO__WIRE_STYLE": "soap", "KIRO_ASGI__RETRY__JITTER": "2"}
    done = command("serve", cwd=tmp_path, KIRO_ASGI__CLIENT__API_KEYS="k", **bad)

    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "kiro-asgi: 2 settings cannot be used:",
        "  KIRO_ASGI__KIRO__WIRE_STYLE: must be one of rest, rpc, not 'soap'",
        "  KIRO_ASGI__RETRY__JITTER: must be from 0 to 1, not 2.0",
        "To try the gateway without an account or settings: kiro-asgi serve --simulate",
    ]


def test_a_missing_server_is_named_with_its_extra(tmp_path: Path) -> None:
    """Without the extra, the message says what to install."""
    (tmp_path / "hypercorn.py").write_text("raise ModuleNotFoundError('gone', name='hypercorn')\n")
    done = command("serve", "--simulate", cwd=tmp_path)

    assert done.returncode == 1
    assert done.stderr == "kiro-asgi: hypercorn is not installed; it comes with: pip install 'kiro-asgi[standalone]'\n"


@pytest.mark.parametrize("loop", LOOPS)
def test_a_gateway_whose_announcement_nobody_reads_serves_on(loop: str, tmp_path: Path) -> None:
    """``| head -1`` is done after the first line, and the service is not."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    arguments = (*PREFIX, "serve", "--simulate", "--loop", loop, "--port", str(port))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(arguments, cwd=tmp_path, env=clean_environment(), text=True, **pipes) as process:
        assert process.stdout is not None
        process.stdout.close()
        server = Serving(process, [f"Anthropic base_url: http://127.0.0.1:{port}"])
        deadline = time.monotonic() + 20
        while not _accepts(server) and time.monotonic() < deadline:
            time.sleep(0.05)
        status = status_of(server.base)
        process.terminate()
        assert process.stderr is not None
        errors = process.stderr.read()

    assert (status, process.returncode, errors) == (200, 0, "")


def _accepts(server: Serving) -> bool:
    url = urlsplit(server.base)
    try:
        socket.create_connection((url.hostname or "", url.port or 0), timeout=1).close()
    except OSError:
        return False
    return True
