"""``kiro-asgi login`` against the simulated sign-in services."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import stat
import subprocess
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from time import time
from typing import Any

import anyio
import anyio.to_thread
import pytest

from kiro_asgi import simulator
from kiro_asgi.cli import main
from kiro_asgi.cli.kiro.login import SigningIn
from kiro_asgi.cli.terminal import Countdown
from kiro_asgi.errors import UpstreamDenied
from kiro_asgi.net.credentials.sources import locked
from kiro_asgi.net.transport import Transport
from kiro_asgi.simulator import PROFILE_ARN, Reset, Simulator, refusal
from kiro_asgi.upstreams.base import Token, TokenKind
from kiro_asgi.upstreams.kiro import signin
from kiro_asgi.upstreams.kiro.tokens import parse_token
from tests.cli.processes import PREFIX, clean_environment, command

PAGE = "http://127.0.0.1/device?user_code=SIMU-LATE"


@pytest.fixture
def service() -> Iterator[Simulator]:
    with simulator.running() as running:
        running.accounts.devices.interval = 0.02
        yield running


def sign_in(service: Simulator, cwd: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """The command in a home of its own."""
    homes = {"HOME": str(cwd), "XDG_CONFIG_HOME": "", "DISPLAY": "", "WAYLAND_DISPLAY": "", "BROWSER": ""}
    return command("login", "--auth-endpoint", service.url, *arguments, cwd=cwd, **{**homes, **environ})


def sign_in_here(service: Simulator, cwd: Path, patch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The same in this process, where only the end matters."""
    patch.chdir(cwd)
    return main(["login", "--no-browser", "--auth-endpoint", service.url, *arguments])


def token_in(path: Path) -> Token:
    return parse_token(path.read_bytes(), lambda _: None, 0)


def browser(folder: Path) -> str:
    """A browser that notes where it was sent."""
    script = folder / "browser"
    script.write_text(f'#!/bin/sh\necho "$1" > {folder}/opened\n')
    script.chmod(0o755)
    return f"{script} %s"


def test_builder_id_is_the_default(service: Simulator, tmp_path: Path) -> None:
    """Register, show the code, poll, and keep a token that the gateway can renew, for its owner's eyes only."""
    done = sign_in(service, tmp_path, "--no-browser", BROWSER=browser(tmp_path))
    path = tmp_path / ".config" / "kiro-asgi" / "credentials.json"
    token = token_in(path)

    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        [
            "Open this page, and see that it shows the code SIMU-LATE:",
            "",
            f"   {PAGE}",
            "",
            f"You are signed in. The token is in {path}, which only you can read. To use it:",
            "",
            f"   export KIRO_ASGI__KIRO__CREDENTIALS_FILE={path}",
            f"   export KIRO_ASGI__KIRO__AUTH_ENDPOINT={service.url}",
        ],
    )
    assert not (tmp_path / "opened").exists()
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)
    assert (token.kind, token.region, token.client_id) == (TokenKind.OIDC, "us-east-1", "simulated-client")
    assert token.access_token.startswith("aoa") and token.refresh_token.startswith("aor") and token.client_secret
    assert token.expires_at is not None and abs(token.expires_at - time() - 3600) < 60
    assert [it.operation for it in service.requests] == [
        "RegisterClient",
        "StartDeviceAuthorization",
        "CreateToken",
        "CreateToken",
    ]
    assert service.requests[1].json()["startUrl"] == signin.BUILDER_ID


def test_an_organisation(service: Simulator, tmp_path: Path) -> None:
    """Its portal and its region are the user's to name; the method follows from them."""
    path = tmp_path / "mine" / "token.json"
    arguments = ("--start-url", "https://d-1.awsapps.com/start", "--region", "eu-west-1", "--file", str(path))
    done = sign_in(service, tmp_path, *arguments)

    assert (done.returncode, token_in(path).region) == (0, "eu-west-1")
    assert json.loads(path.read_bytes())["provider"] == "Enterprise"
    assert service.requests[1].json()["startUrl"] == "https://d-1.awsapps.com/start"


def test_the_profile_is_kept_with_the_token(service: Simulator, tmp_path: Path) -> None:
    """An organisation's token comes without one, and has to name it in nearly every question: it is asked for now."""
    path = tmp_path / "token.json"
    arguments = ("--start-url", "https://d-1.awsapps.com/start", "--file", str(path))
    done = sign_in(service, tmp_path, *arguments, KIRO_ASGI__KIRO__ENDPOINT=service.url)

    assert (done.returncode, token_in(path).profile_arn) == (0, PROFILE_ARN)


@pytest.mark.parametrize("answer", [refusal(403, "no"), refusal(503, "later"), (Reset(),)])
def test_a_sign_in_needs_no_profile(service: Simulator, tmp_path: Path, answer: Any) -> None:
    """Where the service lists none, the token is good all the same."""
    service.enqueue(*[answer] * 4, operation="ListAvailableProfiles")
    path = tmp_path / "token.json"
    done = sign_in(service, tmp_path, "--file", str(path), KIRO_ASGI__KIRO__ENDPOINT=service.url)

    assert (done.returncode, token_in(path).profile_arn) == (0, "")


def test_social(service: Simulator, tmp_path: Path) -> None:
    """No registration; the profile comes with the token; the lifetime, which the service does not say, is an hour."""
    done = sign_in(service, tmp_path, "--provider", "google", XDG_CONFIG_HOME=str(tmp_path / "xdg"))
    token = token_in(tmp_path / "xdg" / "kiro-asgi" / "credentials.json")

    assert done.returncode == 0
    assert (token.kind, token.profile_arn) == (TokenKind.SOCIAL, PROFILE_ARN)
    assert token.expires_at is not None and abs(token.expires_at - time() - 3600) < 60
    assert [it.operation for it in service.requests][:1] == ["StartSocialAuthorization"]
    assert service.requests[0].json() == {"clientId": "kiro-asgi", "loginProvider": "Google"}


def test_for_programs(service: Simulator, tmp_path: Path) -> None:
    """One object a line, nothing else, and no browser that might write between them."""
    done = sign_in(service, tmp_path, "--json", "--file", "t.json", BROWSER=browser(tmp_path))
    code, end = map(json.loads, done.stdout.splitlines())

    assert (done.returncode, done.stderr) == (0, "")
    assert code == {"event": "code", "address": PAGE, "user_code": "SIMU-LATE", "expires_in": 600.0}
    assert end["event"] == "done"
    assert end["settings"]["KIRO_ASGI__KIRO__CREDENTIALS_FILE"] == end["file"] == str(tmp_path / "t.json")
    assert not (tmp_path / "opened").exists()


def test_the_page_is_opened_in_a_browser(service: Simulator, tmp_path: Path) -> None:
    """Where there is one."""
    done = sign_in(service, tmp_path, BROWSER=browser(tmp_path))

    assert (done.returncode, (tmp_path / "opened").read_text()) == (0, PAGE + "\n")


@pytest.mark.parametrize(
    ("arguments", "operation"),
    [
        pytest.param((), "CreateToken", id="builder-id"),
        pytest.param(("--provider", "github"), "RefreshToken", id="social"),
    ],
)
def test_what_a_sign_in_gives_can_be_renewed(
    arguments: tuple[str, ...], operation: str, service: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file holds all that the gateway needs to go on without the user."""
    assert sign_in_here(service, tmp_path, monkeypatch, "--file", "t.json", *arguments) == 0
    before, first = service.calls[operation], token_in(tmp_path / "t.json")
    for name in ("ENDPOINT", "AUTH_ENDPOINT"):
        monkeypatch.setenv(f"KIRO_ASGI__KIRO__{name}", service.url)
    monkeypatch.setenv("KIRO_ASGI__KIRO__CREDENTIALS_FILE", str(tmp_path / "t.json"))

    monkeypatch.setenv("KIRO_ASGI__CLIENT__API_KEYS", "k")
    assert main(["doctor", "--refresh", "--no-request"]) == 0
    assert service.calls[operation] == before + 1
    assert token_in(tmp_path / "t.json").access_token != first.access_token


def refused(service: Simulator) -> None:
    service.enqueue(simulator.json_answer(400, {"error": "invalid_request"}), operation="RegisterClient")


def expired(service: Simulator) -> None:
    service.accounts.devices.expires_in = 0.2
    service.accounts.devices.pending = 10_000


def denied(service: Simulator) -> None:
    service.accounts.devices.outcome = "denied"


def broken(service: Simulator) -> None:
    service.enqueue((Reset(),), operation="RegisterClient")


@pytest.mark.parametrize(
    ("trouble", "expected"),
    [
        pytest.param(denied, "the sign-in was refused in the browser", id="denied"),
        pytest.param(expired, "the code was not confirmed in time; sign in again", id="expired"),
        pytest.param(refused, "the sign-in service refuses: no explanation (invalid_request 400)", id="refused"),
        pytest.param(broken, "the sign-in service at 127.0.0.1", id="broken"),
    ],
)
def test_each_failure_is_one_sentence(
    trouble: Any,
    expected: str,
    service: Simulator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Standard error ends with it, the status is 1, and nothing is written."""
    trouble(service)

    assert sign_in_here(service, tmp_path, monkeypatch, "--file", "t.json") == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"kiro-asgi: {expected}")
    assert not (tmp_path / "t.json").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(("--method", "idc"), "--start-url is needed", id="idc"),
        pytest.param(("--method", "social"), "--provider is needed", id="social"),
        pytest.param(("--method", "social", "--provider", "github", "--start-url", "x"), "does not go", id="both"),
        pytest.param(("--auth-endpoint", "nowhere"), "must be a URL", id="endpoint"),
        pytest.param(("--region", "evil.example/"), "is not the name of a region", id="region"),
        pytest.param(("--file", "notes.txt"), "exists and is left as it is", id="other-file"),
        pytest.param(("--file", "link.json"), "is a symbolic link", id="link"),
        pytest.param(("--config", "none.toml"), "none.toml", id="config"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_asked(
    arguments: tuple[str, ...],
    expected: str,
    service: Simulator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nobody signs in for nothing; a file that is no token file stays as it is."""
    (tmp_path / "notes.txt").write_text("dear diary")
    (tmp_path / "token.json").write_text('{"refreshToken": "old"}')
    (tmp_path / "link.json").symlink_to("token.json")

    assert (sign_in_here(service, tmp_path, monkeypatch, *arguments), service.requests) == (1, ())
    assert expected in capsys.readouterr().err
    assert (tmp_path / "notes.txt").read_text() == "dear diary"


def test_an_old_token_file_is_replaced(service: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Signing in again is how one gets out of a dead refresh token."""
    (tmp_path / "t.json").write_text('{"accessToken": "old", "refreshToken": "old", "authMethod": "social"}')

    assert sign_in_here(service, tmp_path, monkeypatch, "--file", "t.json") == 0
    assert token_in(tmp_path / "t.json").refresh_token.startswith("aor")
    assert stat.S_IMODE((tmp_path / "t.json").stat().st_mode) == 0o600


def on_a_terminal(service: Simulator, cwd: Path, *, interrupt: bool = False) -> tuple[int, str]:
    """Status, and what the terminal on standard error was sent."""
    ours, theirs = pty.openpty()
    environ = clean_environment(TERM="xterm", HOME=str(cwd), PYTHONIOENCODING="utf-8")
    process = subprocess.Popen(
        [*PREFIX, "login", "--no-browser", "--auth-endpoint", service.url, "--file", "t.json"],
        cwd=cwd,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    seen = bytearray()

    def read() -> None:
        try:
            while data := os.read(ours, 65536):
                seen.extend(data)
        except OSError:  # how Linux says that the other end is closed
            pass

    reader = threading.Thread(target=read)
    reader.start()
    try:
        if interrupt:
            assert service.wait_until(lambda: service.calls["CreateToken"] > 0, timeout=20)
            process.send_signal(signal.SIGINT)
        status = process.wait(timeout=30)
    finally:
        process.kill()
        process.wait()
    reader.join()
    os.close(ours)
    return status, seen.decode()


def test_a_terminal_sees_the_time_run(service: Simulator, tmp_path: Path) -> None:
    """One line that changes in place and is gone in the end."""
    service.accounts.devices.interval = 0.3
    status, seen = on_a_terminal(service, tmp_path)

    assert status == 0
    assert "\r\x1b[K⠹ waiting for you, 9:59 left" in seen
    assert seen.endswith("\r\x1b[K") and "\n" not in seen


def test_ctrl_c_ends_it_cleanly(service: Simulator, tmp_path: Path) -> None:
    """No traceback, no file, and the status that shells expect."""
    service.accounts.devices.pending = 10_000
    status, seen = on_a_terminal(service, tmp_path, interrupt=True)

    assert status == 130
    assert seen.replace("\r\n", "\n").endswith(
        "\r\x1b[K\x1b[1;31mkiro-asgi: \x1b[0mthe sign-in was interrupted; nothing was written\n"
    )
    assert not (tmp_path / "t.json").exists()


def test_a_log_file_gets_a_line_a_minute() -> None:
    """Where nothing can change in place, little is written."""
    log = io.StringIO()
    progress = Countdown.on(log, {"TERM": "xterm"}, "waiting for you")
    for tenths in range(1250, -1, -1):
        progress.show(tenths / 10)
    progress.end()

    assert log.getvalue().splitlines() == [f"waiting for you, {time} left" for time in ("2:05", "1:59", "0:59")]


def test_a_terminal_without_unicode_is_not_sent_any() -> None:
    """Nor is one that cannot erase a line sent the codes for that."""

    class Terminal(io.StringIO):
        encoding = "latin-1"

        def isatty(self) -> bool:
            return True

    old, dumb = Terminal(), Terminal()
    for terminal, environ in ((old, {"TERM": "vt100"}), (dumb, {"TERM": "dumb"})):
        Countdown.on(terminal, environ, "waiting").show(65)

    assert (old.getvalue(), dumb.getvalue()) == ("\r\x1b[K/ waiting, 1:05 left", "waiting, 1:05 left\n")


@pytest.mark.anyio
async def test_a_gateway_that_is_renewing_the_old_token_does_not_write_over_the_new_one(
    service: Simulator, tmp_path: Path
) -> None:
    """The file is written under the lock that renewals hold, so ours comes last."""
    path = tmp_path / "t.json"
    asked = ["login", "--json", "--auth-endpoint", service.url, "--file", str(path)]
    async with anyio.create_task_group() as tasks, locked(path, 5.0):
        tasks.start_soon(anyio.to_thread.run_sync, main, asked)
        assert await anyio.to_thread.run_sync(service.wait_until, lambda: service.calls["CreateToken"] == 2)
        await anyio.sleep(0.1)
        before = path.exists()

    assert (before, token_in(path).refresh_token[:3]) == (False, "aor")


class Quiet:
    """A screen that nobody looks at."""

    def code(self, code: object) -> None: ...
    def waiting(self, left: float) -> None: ...
    def done(self, path: object, endpoint: str) -> None: ...
    def failed(self, message: str, code: str) -> None: ...


@pytest.mark.anyio
async def test_polls_keep_their_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every slow-down, and every failure of the service, makes the interval longer for good; RFC 8628, section 3.5."""
    monkeypatch.setattr(signin, "SLOWER", 0.3)
    async with simulator.serve() as service:
        service.accounts.devices.interval, service.accounts.devices.slow_downs = 0.05, 1
        service.enqueue(refusal(503, "Busy."), operation="CreateToken")
        plan = SigningIn("us-east-1", service.url, "", signin.BUILDER_ID)
        transport = Transport()
        token, provider = await plan.run(transport, Quiet(), None, time)
        await transport.aclose()
        times = [it.received_at for it in service.requests if it.operation != "RegisterClient"]
        gaps = [later - earlier for earlier, later in pairwise(times)]

    assert (token.kind, provider) == (TokenKind.OIDC, "BuilderId")
    assert [wanted <= gap for wanted, gap in zip([0.05, 0.35, 0.65, 0.65], gaps, strict=True)] == [True] * 4


@pytest.mark.anyio
async def test_a_network_that_breaks_for_a_moment_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A poll that got lost is repeated, as long as the code lasts."""
    monkeypatch.setattr("kiro_asgi.cli.kiro.login.SLOWER", 0.1)
    async with simulator.serve() as service:
        devices = service.accounts.devices
        devices.interval, devices.expires_in, devices.pending = 0.02, 0.5, 10_000
        service.enqueue((Reset(),), operation="PollSocialAuthorization")
        plan = SigningIn("us-east-1", service.url, "Github", "")
        transport = Transport()
        with pytest.raises(UpstreamDenied) as caught:
            await plan.run(transport, Quiet(), None, time)
        await transport.aclose()

    assert caught.value.code == "sign_in.expired"
    assert service.calls["PollSocialAuthorization"] > 1
