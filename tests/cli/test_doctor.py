"""``kiro-asgi doctor``: every link of the chain, intact and broken."""

from __future__ import annotations

import json
import os
import re
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import which
from typing import Any
from urllib.parse import quote

import anyio
import httpx2
import pytest
from anyio.abc import SocketStream
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi import Settings, errors, simulator
from kiro_asgi.cli import main
from kiro_asgi.cli.doctor import resting
from kiro_asgi.cli.doctor_checks import Verdict, clock, connection, failed, masked, span, walk
from kiro_asgi.cli.standalone import bind
from kiro_asgi.simulator import PROFILE_ARN, Reset, Simulator, refusal, usage_limits
from kiro_asgi.upstreams.base import Token, TokenKind
from kiro_asgi.upstreams.kiro.tokens import parse_token, render_token
from tests.cli.processes import command, serving
from tests.listening import listening
from tests.valkey_server import needs_server, running

CLIENT = {"KIRO_ASGI__CLIENT__ALLOW_ANONYMOUS": "1"}
KEY = {"KIRO_API_KEY": "ksk_canary-51c0", **CLIENT}
NAMES_WITH_A_KEY = ["settings", "credential", "regions", "proxy", "service", "profile", "clock", "models"]
NAMES_WITH_A_KEY += ["usage limits", "request"]
NAMES_WITH_A_FILE = ["settings", "credential", "file mode", "regions", "expiry", "proxy", "service", "sign-in"]
NAMES_WITH_A_FILE += ["refresh", "profile", "clock", "models", "usage limits", "request"]


@pytest.fixture
def service() -> Iterator[Simulator]:
    with simulator.running() as running:
        yield running


class Doctor:
    """The command in this process, in a folder and an environment of its own."""

    def __init__(self, service: Simulator, folder: Path, patch: pytest.MonkeyPatch, capture: Any) -> None:
        self.file = folder / "token.json"
        self._patch, self._capture = patch, capture
        for name in [name for name in os.environ if name.startswith("KIRO_") or name.upper().endswith("_PROXY")]:
            patch.delenv(name)
        self.set(KIRO_ASGI__KIRO__ENDPOINT=service.url, KIRO_ASGI__KIRO__AUTH_ENDPOINT=service.url, **CLIENT)

    def set(self, **environ: str) -> None:
        for name, value in environ.items():
            self._patch.setenv(name, value)

    def keep(self, left: float = 3600.0, refresh: str = "aorMine", mode: int = 0o600, **more: Any) -> None:
        """Put a token into a file and name that."""
        token = Token("aoaCanary", refresh, time.time() + left, region="us-east-1", **more)
        self.file.write_bytes(render_token(token, "Google"))
        self.file.chmod(mode)
        self.set(KIRO_ASGI__KIRO__CREDENTIALS_FILE=str(self.file))

    def examine(self, *arguments: str) -> tuple[int, dict[str, tuple[str, str, str]]]:
        """Status, and of every name the last verdict, detail and advice."""
        status = main(["doctor", "--json", *arguments])
        out, err = self._capture.readouterr()
        report = json.loads(out)
        assert (report["ok"], err) == (status == 0, "")
        assert "anary" not in out and "aorMine" not in out
        return status, {it["name"]: (it["verdict"], it["detail"], it["advice"]) for it in report["findings"]}

    def assert_found(self, name: str, outcome: tuple[int, str], words: str, advice: str) -> None:
        """The exit status and the verdict on one link are *outcome*; its detail and its advice hold these words."""
        status, found = self.examine()
        verdict, detail, told = found[name]

        assert (status, verdict) == outcome
        assert words in detail
        assert advice in told


@pytest.fixture
def doctor(
    service: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Doctor:
    return Doctor(service, tmp_path, monkeypatch, capsys)


def test_a_good_chain_with_a_key(service: Simulator, tmp_path: Path) -> None:
    """Every link is looked at in its order, one small question is asked, and the secret is not shown."""
    environ = {"KIRO_ASGI__KIRO__ENDPOINT": service.url, **KEY}
    done = command("doctor", cwd=tmp_path, **environ)
    *lines, blank, summary = done.stdout.splitlines()

    assert (done.returncode, done.stderr) == (0, "")
    assert (blank, summary) == ("", "Nothing is broken.")
    assert [line[6:24].strip() for line in lines] == NAMES_WITH_A_KEY
    assert {line.split()[0] for line in lines} == {"ok"}
    assert re.search(r"first event after \d+\.\d\d s, stop reason end, usage in tokens by the service", lines[-1])
    assert "987.5 of 1000 credits left" in lines[-2]
    assert service.calls["GenerateAssistantResponse"] == 1
    assert "canary" not in done.stdout


def test_a_good_chain_with_a_token_file(service: Simulator, doctor: Doctor) -> None:
    """More links, all of them good; a token that lasts is not renewed, and ids are not shown in full."""
    doctor.keep(profile_arn=PROFILE_ARN)
    before = doctor.file.read_bytes()
    status, found = doctor.examine("--no-request")

    assert (status, list(found)) == (0, NAMES_WITH_A_FILE[:-1])
    assert {verdict for verdict, _, _ in found.values()} == {"ok"}
    assert found["profile"][1] == "arn:aws:codewhisperer:us-east-1:…9012:profile/…ATED, from the token"
    assert found["expiry"][1].startswith("in 59 min")
    assert (service.calls["RefreshToken"], service.calls["GenerateAssistantResponse"]) == (0, 0)
    assert doctor.file.read_bytes() == before


def test_an_expired_token_is_renewed_and_kept(service: Simulator, doctor: Doctor) -> None:
    """As the gateway would; the new one is in the file before it is used."""
    doctor.keep(left=-7200)
    status, found = doctor.examine("--no-request")

    assert (status, found["expiry"][:2]) == (0, ("ok", "2 h ago"))
    assert found["refresh"][:2] == ("ok", "works; there is a new token")
    assert parse_token(doctor.file.read_bytes(), lambda _: None, 0).refresh_token != "aorMine"
    assert service.calls["RefreshToken"] == 1


def test_a_program_may_print_the_token(service: Simulator, doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it prints is used as the gateway uses it."""
    doctor.keep(profile_arn=PROFILE_ARN)
    monkeypatch.delenv("KIRO_ASGI__KIRO__CREDENTIALS_FILE")
    doctor.set(KIRO_ASGI__KIRO__CREDENTIALS_COMMAND=f"cat {doctor.file}")
    status, found = doctor.examine()

    assert (status, found["credential"][1]) == (0, "kiro.credentials_command: a program that prints a token")
    assert found["request"][0] == "ok"
    assert "expiry" not in found


def test_a_refresh_that_is_asked_for(service: Simulator, doctor: Doctor) -> None:
    """``--refresh`` proves that the token can be renewed while it is still good."""
    doctor.keep()
    status, found = doctor.examine("--no-request", "--refresh")

    assert (status, found["refresh"][1]) == (0, "works; there is a new token")
    assert service.calls["RefreshToken"] == 1


def nothing(service: Simulator, doctor: Doctor) -> None:
    """No credential at all."""


def bad_setting(service: Simulator, doctor: Doctor) -> None:
    doctor.set(KIRO_ASGI__LIMITS__QUEUE="many", KIRO_API_KEY="ksk_canary-51c0")


def missing_file(service: Simulator, doctor: Doctor) -> None:
    doctor.set(KIRO_ASGI__KIRO__CREDENTIALS_FILE="/nowhere/token.json")


def not_a_token(service: Simulator, doctor: Doctor) -> None:
    doctor.keep()
    doctor.file.write_text("{}")


def no_refresh_token(service: Simulator, doctor: Doctor) -> None:
    doctor.keep(left=-60, refresh="")


def dead_refresh_token(service: Simulator, doctor: Doctor) -> None:
    service.accounts.refresh_answer = refusal(400, "Invalid refresh token provided")
    doctor.keep(left=-60)


def nowhere_to_keep(service: Simulator, doctor: Doctor) -> None:
    doctor.set(KIRO_ASGI__KIRO__WRITE_BACK="nowhere")
    doctor.keep(left=-60)


def missing_program(service: Simulator, doctor: Doctor) -> None:
    doctor.set(KIRO_ASGI__KIRO__CREDENTIALS_COMMAND="no-such-program")


def refused_token(service: Simulator, doctor: Doctor) -> None:
    service.revoke("aoaCanary")
    doctor.keep()


def chat(script: Any) -> Callable[[Simulator, Doctor], None]:
    def prepare(service: Simulator, doctor: Doctor) -> None:
        service.enqueue(script, operation="GenerateAssistantResponse")
        doctor.set(**KEY)

    return prepare


def unreachable(service: Simulator, doctor: Doctor) -> None:
    doctor.set(KIRO_ASGI__KIRO__ENDPOINT="http://127.0.0.1:1", **KEY)


def not_encrypted_there(service: Simulator, doctor: Doctor) -> None:
    doctor.set(KIRO_ASGI__KIRO__ENDPOINT=service.url.replace("http", "https"), **KEY)


SUSPENDED = "Your User ID (d-1234567890.abc) temporarily is suspended. We've locked it as a security precaution."


@pytest.mark.parametrize(
    ("trouble", "name", "words", "advice"),
    [
        pytest.param(nothing, "credential", "none is set", "kiro-asgi login", id="nothing"),
        pytest.param(bad_setting, "settings", "must be a whole number", "kiro-asgi check", id="setting"),
        pytest.param(missing_file, "credential", "No such file", "kiro-asgi login", id="missing"),
        pytest.param(not_a_token, "credential", "it holds no token", "kiro-asgi login", id="no-token"),
        pytest.param(no_refresh_token, "expiry", "1 min ago; there is no refresh", "kiro-asgi login", id="no-refresh"),
        pytest.param(dead_refresh_token, "refresh", "Invalid refresh token", "", id="dead"),
        pytest.param(nowhere_to_keep, "refresh", "not tried", "the program that the file belongs to", id="not-kept"),
        pytest.param(missing_program, "credential", "no such program", "kiro-asgi check", id="program"),
        pytest.param(refused_token, "request", "UpstreamTokenInvalid, token_invalid", "--refresh", id="refused"),
        pytest.param(
            chat(refusal(403, SUSPENDED, "TEMPORARILY_SUSPENDED")), "request", "(….abc)", "support", id="suspended"
        ),
        pytest.param(
            chat(refusal(402, "You have reached the limit.", "MONTHLY_REQUEST_COUNT")),
            "request",
            "(UpstreamQuotaSpent, MONTHLY_REQUEST_COUNT)",
            "wait for the reset",
            id="quota",
        ),
        pytest.param(chat((Reset(),)), "request", "UpstreamUnreachable", "connections above", id="reset"),
        pytest.param(unreachable, "service", "127.0.0.1:1: TCP failed", "firewall", id="unreachable"),
        pytest.param(not_encrypted_there, "service", "TLS failed", "SSL_CERT_FILE", id="no-tls"),
    ],
)
def test_what_is_broken_is_a_failure(
    trouble: Callable[[Simulator, Doctor], None],
    name: str,
    words: str,
    advice: str,
    service: Simulator,
    doctor: Doctor,
) -> None:
    """The link is named, with what is wrong and what to do; the status is 1."""
    trouble(service, doctor)

    doctor.assert_found(name, (1, "fail"), words, advice)


def exposed_file(service: Simulator, doctor: Doctor) -> None:
    doctor.keep(mode=0o640)


def no_registration(service: Simulator, doctor: Doctor) -> None:
    doctor.keep(kind=TokenKind.OIDC)


def proxy(service: Simulator, doctor: Doctor) -> None:
    doctor.set(https_proxy="http://user:canary@proxy", **KEY)


def wrong_clock(service: Simulator, doctor: Doctor) -> None:
    service.service.clock_ahead = 3725
    doctor.set(**KEY)


def spent(service: Simulator, doctor: Doctor) -> None:
    service.accounts.usage = usage_limits(used=50, limit=50, resets_at=1_893_456_000)
    doctor.set(**KEY)


def no_profile(service: Simulator, doctor: Doctor) -> None:
    service.accounts.profiles[""] = ()
    doctor.keep()


def no_models(service: Simulator, doctor: Doctor) -> None:
    service.service.models = None
    doctor.set(**KEY)


def silent_answer(service: Simulator, doctor: Doctor) -> None:
    service.enqueue(simulator.answer(), operation="GenerateAssistantResponse")
    doctor.set(**KEY)


def far_region(service: Simulator, doctor: Doctor) -> None:
    service.enqueue(refusal(404, "x"), operation="GetUsageLimits")
    service.enqueue(refusal(404, "x"), operation="GetUsageLimits")
    doctor.set(**KEY)


@pytest.mark.parametrize(
    ("trouble", "name", "words", "advice"),
    [
        pytest.param(exposed_file, "file mode", "other users may read", "chmod 600", id="mode"),
        pytest.param(no_registration, "sign-in", "without the client's registration", "", id="registration"),
        pytest.param(proxy, "proxy", "https_proxy in the environment not used", "directly", id="proxy"),
        pytest.param(wrong_clock, "clock", "ours is 1 h 2 min behind the service's", "set the clock", id="clock"),
        pytest.param(spent, "usage limits", "0 of 50 credits left, reset on 2030-01-01", "reset", id="spent"),
        pytest.param(no_profile, "profile", "none", "kiro.profile_arn", id="profile"),
        pytest.param(no_models, "models", "404", "passed on as it is", id="models"),
        pytest.param(silent_answer, "request", "no text", "once more", id="silence"),
        pytest.param(far_region, "usage limits", "404", "chats may work", id="limits"),
    ],
)
def test_what_is_odd_is_a_warning(
    trouble: Callable[[Simulator, Doctor], None],
    name: str,
    words: str,
    advice: str,
    service: Simulator,
    doctor: Doctor,
) -> None:
    """It is told, but the gateway works, so the status is 0."""
    trouble(service, doctor)

    doctor.assert_found(name, (0, "warn"), words, advice)


def test_what_is_quoted_of_a_secret_is_not_shown(service: Simulator, doctor: Doctor) -> None:
    """A service, or a sign-in service, that quotes what it refuses gives nothing of it away to a bug report."""
    access, refresh = "CaNaRy-access/0123456789abcdef", "CaNaRy-refresh/0123456789abcdef"
    doctor.keep(refresh=refresh)
    doctor.file.write_bytes(doctor.file.read_bytes().replace(b"aoaCanary", access.encode()))
    service.enqueue(refusal(400, f"not {access} nor {quote(access, safe='')}, nor {refresh[:20]}"))
    _, found = doctor.examine()
    assert "not [redacted] nor [redacted], nor [redacted]" in found["request"][1]

    service.accounts.refresh_answer = refusal(500, f"no such token: {refresh}")
    _, found = doctor.examine("--refresh")
    assert "[redacted]" in found["refresh"][1]


def test_a_proxy_of_our_own_is_used(service: Simulator, doctor: Doctor) -> None:
    """Where it is set, nothing is connected to directly; who asks the proxy is not shown."""
    doctor.set(KIRO_ASGI__KIRO__PROXY="http://user:canary@127.0.0.1:1", **KEY)
    status, found = doctor.examine("--no-request")

    assert found["proxy"] == ("ok", "kiro.proxy: connections go through 127.0.0.1:1, and are not checked", "")
    assert (status, "service" in found, found["models"][0]) == (1, False, "fail")
    assert not service.requests


def test_a_store_of_another_program_is_not_renewed_behind_its_back(service: Simulator, doctor: Doctor) -> None:
    """Refresh tokens rotate: a new one that nobody writes down would sign that program out."""
    doctor.set(KIRO_ASGI__KIRO__WRITE_BACK="nowhere")
    doctor.keep()
    status, found = doctor.examine("--refresh", "--no-request")

    assert (status, found["models"][0]) == (0, "ok")
    assert service.calls["RefreshToken"] == 0


def test_regions_are_kept_apart(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one signs in says nothing of where the service is asked; only known regions have it."""
    arn = PROFILE_ARN.replace("us-east-1", "eu-central-1")
    doctor.keep(profile_arn=arn)
    doctor.set(KIRO_ASGI__KIRO__AUTH_REGION="eu-west-1")
    _, found = doctor.examine("--no-request")
    assert found["regions"][1].endswith("profile eu-central-1")

    doctor.set(KIRO_API_KEY="ksk_x", KIRO_ASGI__KIRO__REGION="ap-south-1", KIRO_ASGI__LIMITS__CONNECT_TIMEOUT="0.2")
    monkeypatch.delenv("KIRO_ASGI__KIRO__ENDPOINT")
    monkeypatch.delenv("KIRO_ASGI__KIRO__CREDENTIALS_FILE")
    _, found = doctor.examine("--no-request")
    assert found["regions"][:2] == ("warn", "service ap-south-1")


@pytest.fixture
def encrypted(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Address of a host with a certificate of its own, and the certificate."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    made += ["-subj", "/O=Simulated Authority/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "30"]
    subprocess.run([*made, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    listener = bind("127.0.0.1", 0)

    def serve() -> None:
        try:
            peer, _ = listener.accept()
            with peer, context.wrap_socket(peer, server_side=True) as stream:
                stream.recv(1)
        except OSError:  # the peer did not trust us
            pass

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"https://localhost:{listener.getsockname()[1]}", certificate
    thread.join(timeout=5)
    listener.close()


@pytest.mark.skipif(which("openssl") is None, reason="needs openssl")
@pytest.mark.parametrize("trusted", [True, False])
def test_certificates(encrypted: tuple[str, Path], trusted: bool) -> None:
    """Version, issuer and end of a certificate are told, and why one is not trusted."""
    url, certificate = encrypted
    context = ssl.create_default_context(cafile=certificate if trusted else None)
    way = anyio.run(walk, url, context, 5.0)
    environ = {"SSL_CERT_FILE": str(certificate)} if trusted else {}
    found = connection("service", way, environ, time.time())

    if trusted:
        assert (found.verdict, list(way.steps)) == (Verdict.OK, ["DNS", "TCP", "TLS"])
        assert "TLSv1.3, certificate of Simulated Authority for 29 d" in found.detail
        assert found.detail.endswith("trusted by SSL_CERT_FILE")
        assert connection("service", way, {}, time.time() + 20 * 86_400).verdict is Verdict.WARN
    else:
        assert found.verdict is Verdict.FAIL
        assert "TLS failed: self-signed certificate" in found.detail.replace("self signed", "self-signed")


def test_a_host_that_hangs_up_during_the_handshake() -> None:
    """That is a failure of the encryption, not of the program."""
    with simulator.running() as service:
        way = anyio.run(walk, service.url.replace("http:", "https:"), ssl.create_default_context(), 5.0)

    assert (way.at, bool(way.failure)) == ("TLS", True)


def test_clocks() -> None:
    """A minute apart is nothing; no date is no comparison."""
    date = (b"Date", b"Mon, 01 Jan 2029 00:00:00 GMT")
    then = 1_861_920_000.0

    assert clock([date], then + 59).verdict is Verdict.OK
    assert "3 min 20 s ahead of" in clock([date], then + 200).detail
    assert "not compared" in clock([(b"date", b"soon")], then).detail


def test_ids_in_messages_are_cut() -> None:
    """The service quotes accounts and users; reports of the doctor get pasted into issues."""
    message = f"User (arn:aws:iam::123456789012:user/somebody) may not use {PROFILE_ARN} of account 123456789012"
    found = failed("request", errors.UpstreamDenied(message, code="access_denied"))

    assert "123456789012" not in found.detail
    assert "somebody" not in found.detail
    assert "SIMULATED" not in found.detail
    assert found.detail.endswith("of account …9012 (UpstreamDenied, access_denied)")


@given(st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=5), st.integers(10**11, 10**12 - 1))
def test_an_arn_cannot_be_read_in_full(name: str, account: int) -> None:
    """Its ends tell two apart, no more."""
    shown = masked(f"arn:aws:codewhisperer:us-east-1:{account}:profile/{name}")

    assert shown == f"arn:aws:codewhisperer:us-east-1:…{account % 10_000:04}:profile/…{name[-4:]}"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59.9, "59 s"), (-61, "1 min 1 s"), (3600, "1 h"), (93_784, "1 d 2 h"), (86_460, "1 d 1 min")],
)
def test_spans(seconds: float, words: str) -> None:
    """Two units are enough."""
    assert span(seconds) == words


# What rests at a running gateway.


def test_a_simulated_gateway_is_not_taken_for_one_that_works(service: Simulator, doctor: Doctor) -> None:
    """No credential is used, so none is good: that is a warning, and no service is asked."""
    doctor.set(KIRO_API_KEY="ksk_canary-51c0", KIRO_ASGI__SIMULATE="true")

    doctor.assert_found("services", (0, "warn"), "no credential", "remove the setting simulate")
    assert service.requests == ()


def test_a_simulated_gateway_is_asked(tmp_path: Path) -> None:
    """That no service is checked does not keep the gateway from being asked."""
    environ = {"KIRO_ASGI__SIMULATE": "true", "KIRO_ASGI__CLIENT__API_KEYS": "k"}
    with serving("--log-level", "error", cwd=tmp_path, **environ) as server:
        found = command("doctor", "--gateway", server.base, cwd=tmp_path, **environ).stdout
        server.stop()

    assert "ok    resting            no credential rests" in found
    assert "simulated" in found


def test_what_rests_is_shown(service: Simulator, tmp_path: Path) -> None:
    """A gateway that runs is asked with a key of its own; before a fault nothing rests."""
    environ = {"KIRO_ASGI__KIRO__ENDPOINT": service.url, "KIRO_ASGI__CLIENT__API_KEYS": "k", **KEY}
    with serving("--log-level", "error", cwd=tmp_path, **environ) as server:
        ask = ("doctor", "--no-request", "--gateway", server.base)
        before = command(*ask, cwd=tmp_path, **environ).stdout
        service.enqueue(refusal(402, "You have reached the limit.", "MONTHLY_REQUEST_COUNT"))
        chat = {"model": "claude-sonnet-4.5", "messages": [{"role": "user", "content": "hi"}]}
        told = httpx2.post(f"{server.base}/v1/chat/completions", json=chat, headers={"authorization": "Bearer k"})
        after = command(*ask, cwd=tmp_path, **environ)
        stranger = httpx2.get(f"{server.base}/ready")
        other = command(*ask, cwd=tmp_path, **{**environ, "KIRO_ASGI__CLIENT__API_KEYS": "not-its-own"}).stdout
        del environ["KIRO_ASGI__CLIENT__API_KEYS"]
        named = command(*ask, cwd=tmp_path, KIRO_ASGI__KEYS__ALICE__HASH="sha256:" + 64 * "0", **environ).stdout
        server.stop()
    gone = command(*ask, cwd=tmp_path, KIRO_ASGI__CLIENT__API_KEYS="k", **environ)

    assert told.status_code == 402
    assert "ok    resting            no credential rests" in before
    assert re.search(r"warn  resting +kiro.api_key: UpstreamQuotaSpent, next try in (5 min|4 min \d+ s)", after.stdout)
    assert after.returncode == 0
    assert (stranger.status_code, stranger.json()) == (200, {"ready": True})
    assert "warn  resting            the gateway does not show" in other
    assert "ok    settings" in named
    assert "the settings have only hashes of keys" in named
    assert gone.returncode == 1 and "fail  resting" in gone.stdout


@pytest.mark.anyio
async def test_what_a_service_refused_is_shown() -> None:
    """A gateway tells what it asks otherwise since a refusal, and for how long."""
    lesson = {"upstream": "openai", "model": "llama-3", "refused": "seed", "with": [], "for": "all clients"}
    body = json.dumps({"ready": True, "resting": [], "adapted": [{**lesson, "seconds_left": 3120}]}).encode()

    async def ready(client: SocketStream) -> None:
        async with client:
            await client.receive()
            await client.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    async with listening(ready) as port:
        found = await resting(f"http://127.0.0.1:{port}", Settings.from_env({}))

    assert found.verdict is Verdict.OK
    assert found.detail == "no credential rests; openai:llama-3 is asked without seed, which it refused, for 52 min"


# What gateways share.


def test_state_that_outlives_a_gateway_is_tried(doctor: Doctor, tmp_path: Path) -> None:
    """The file that serve would use, once it is there; one that cannot be used is a failure, and says what to do."""
    doctor.keep()
    file = tmp_path / "state" / "kiro-asgi" / "state.db"

    assert "state" not in doctor.examine("--no-request")[1]
    file.parent.mkdir(parents=True)
    file.touch(mode=0o600)
    verdict, detail, _ = doctor.examine("--no-request")[1]["state"]
    assert verdict == "ok" and detail.startswith(f"{file}: written, locked, and read by another in ")
    file.write_bytes(b"no database" * 1000)
    file.chmod(0o644)
    doctor.assert_found("state", (1, "fail"), str(file), "check that this user may write")


def test_nothing_is_touched_outside_the_state_that_is_set(service: Simulator, tmp_path: Path) -> None:
    """A gateway may run with its own state while its operator looks at another's settings."""
    home, own = tmp_path / "home", tmp_path / "own" / "state.db"
    others = home / ".local" / "state" / "kiro-asgi"
    for folder in (others, own.parent):
        folder.mkdir(parents=True, mode=0o700)
    for file in (others / "state.db", own):
        file.touch(mode=0o600)
    environ = {"KIRO_ASGI__KIRO__ENDPOINT": service.url, "KIRO_ASGI__STATE__PATH": str(own), "HOME": str(home), **KEY}
    before = [(path, path.stat().st_mtime_ns) for path in sorted(home.rglob("*"))]
    done = command("doctor", "--no-request", cwd=tmp_path, **environ)

    assert f"{own}: written, locked, and read by another in " in done.stdout
    assert [(path, path.stat().st_mtime_ns) for path in sorted(home.rglob("*"))] == before


@needs_server
def test_a_server_that_gateways_share_is_tried(doctor: Doctor, service: Simulator) -> None:
    """By its address alone, without the password; what it may drop is worth a word.  A renewed token is left there."""
    doctor.keep()
    with running(0, "--requirepass", "canary-battery", "--maxmemory-policy", "allkeys-lru") as server:
        url = f"valkey://:canary-battery@127.0.0.1:{server.port}/0"
        doctor.set(KIRO_ASGI__STATE__ENGINE="valkey", KIRO_ASGI__STATE__URL=url)
        status, found = doctor.examine("--no-request", "--refresh")
        doctor.keep()
        again = doctor.examine("--no-request", "--refresh")[1]["refresh"]

    assert (status, found["refresh"][0], found["state"][0]) == (0, "ok", "warn")
    assert found["state"][1].startswith(f"127.0.0.1:{server.port}: written, locked, and read by another in ")
    assert "allkeys-lru" in found["state"][1] and "volatile-ttl" in found["state"][2]
    assert (again[0], service.calls["RefreshToken"]) == ("ok", 1), "who has the old token finds the new one"
    doctor.assert_found("state", (1, "fail"), f"127.0.0.1:{server.port}: ", "check that the server runs")
