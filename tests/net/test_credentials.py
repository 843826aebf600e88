"""The credentials of an app, over real sockets and real files."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import define

from kiro_asgi import simulator
from kiro_asgi.config import KiroSettings
from kiro_asgi.errors import (
    ConfigError,
    KiroAsgiError,
    UpstreamDenied,
    UpstreamFault,
    UpstreamModelQuotaSpent,
    UpstreamQuotaSpent,
    UpstreamSuspended,
    UpstreamUnavailable,
    UpstreamUnreachable,
)
from kiro_asgi.limits import RESTING_MODELS
from kiro_asgi.net.credentials import sources
from kiro_asgi.net.credentials.pool import Clocks, Credentials
from kiro_asgi.net.transport import Transport
from kiro_asgi.upstreams.access import SignIns
from kiro_asgi.upstreams.base import Credential, CredentialKind
from kiro_asgi.upstreams.kiro.tokens import KiroVendor, rfc3339

pytestmark = pytest.mark.anyio

PAST, SOON = 1_000.0, 100.0
ARN = "arn:aws:codewhisperer:us-east-1:123456789012:profile/SIMULATED"
GIVEN = Credential(CredentialKind.ACCESS_TOKEN, "given", ARN, source="kiro.access_token")


@define
class Hands:
    """Both clocks of a test, to be turned."""

    steady: float = 0.0
    wall: float = 1_800_000_000.0

    def turn(self, seconds: float) -> None:
        self.steady += seconds
        self.wall += seconds

    def clocks(self) -> Clocks:
        return Clocks(lambda: self.steady, lambda: self.wall, lambda: 0.0)


@define
class Bench:
    """A sign-in service, a file, and a clock."""

    running: simulator.Simulator
    path: Path
    hands: Hands
    transport: Transport

    def sign_in(self, left: float = -1.0, path: Path | None = None, **fields: Any) -> Path:
        """Write a token that lasts *left* seconds more."""
        path = path or self.path
        document = {
            "accessToken": "aoaOld",
            "refreshToken": "aorOld",
            "expiresAt": rfc3339(self.hands.wall + left),
            "authMethod": "social",
            "profileArn": ARN,
            "kept": "theirs",
            **fields,
        }
        path.write_text(json.dumps(document))
        path.chmod(0o600)
        return path

    def credentials(self, given: Credential | None = None, **settings: Any) -> Credentials:
        settings.setdefault("credentials_file", str(self.path))
        url = self.running.url
        vendor = KiroVendor(KiroSettings(auth_endpoint=url, endpoint=url), given=given)
        return Credentials.create(SignIns(vendor, KiroSettings(**settings)), self.transport, self.hands.clocks())

    @property
    def refreshes(self) -> int:
        return self.running.accounts.refreshes

    @property
    def asked(self) -> int:
        return sum(request.operation == "RefreshToken" for request in self.running.requests)

    def stored(self) -> dict[str, Any]:
        return json.loads(self.path.read_text())


@pytest.fixture(scope="session")
def shared_transport() -> Transport:
    return Transport()


@pytest.fixture
async def bench(anyio_backend: str, tmp_path: Path, shared_transport: Transport):
    async with simulator.serve() as running:
        yield Bench(running, tmp_path / "token.json", Hands(), shared_transport)


async def together(times: int, ask: Callable[[], Any]) -> list[Any]:
    """What so many concurrent calls return or raise."""
    came: list[Any] = []

    async def one() -> None:
        try:
            came.append(await ask())
        except KiroAsgiError as error:
            came.append(error)

    async with anyio.create_task_group() as group:
        for _ in range(times):
            group.start_soon(one)
    return came


# When a token is renewed.


async def test_a_stampede_makes_one_call(bench):
    """R32, F434: 200 requests at once with an expired token are served after one renewal, which is on disk by then."""
    bench.sign_in()
    bench.running.accounts.delay = 0.3
    credentials = bench.credentials()
    came = await together(200, credentials.get)

    assert bench.refreshes == 1
    assert {it.secret for it in came} == {bench.stored()["accessToken"]}
    assert len(came) == 200
    assert bench.stored()["kept"] == "theirs"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancelled_task_does_not_cancel_the_renewal(bench, anyio_backend):
    """R32: the task that started it is cancelled, as a server does it; the others get the token it asked for."""
    bench.sign_in()
    bench.running.accounts.delay = 0.2
    credentials = bench.credentials()
    first = asyncio.ensure_future(credentials.get())
    await asyncio.sleep(0.1)
    first.cancel()
    came = await together(20, credentials.get)

    assert bench.refreshes == 1 == bench.asked
    assert {it.secret for it in came} == {bench.stored()["accessToken"]}
    assert first.cancelled()


async def test_who_leaves_leaves_at_once_and_nothing_is_lost(bench):
    """R32: a cancelled scope does not wait for the sign-in service, and the new token is kept although nobody waits."""
    bench.sign_in()
    bench.running.accounts.delay = 2.0
    credentials = bench.credentials()
    started = time.monotonic()
    with anyio.move_on_after(0.05):
        await credentials.get()
    assert time.monotonic() - started < 1.8
    await credentials.aclose()

    assert bench.refreshes == 1
    assert bench.stored()["refreshToken"] != "aorOld"


@pytest.mark.parametrize("access", [None, "", " \t\n", 7, {}], ids=["missing", "empty", "blank", "number", "object"])
@pytest.mark.parametrize("ends", [None, 3600], ids=["no end", "an end"])
async def test_a_refresh_token_alone_is_renewed_at_once(bench, access, ends):
    """F259: a file without an access token holds no token yet: nothing is asked with an empty one, whatever the file
    says of its end."""
    bench.sign_in(accessToken=access, expiresAt=None if ends is None else rfc3339(bench.hands.wall + ends))
    credentials = bench.credentials()
    came = await together(5, credentials.get)

    assert {it.secret for it in came} == {bench.stored()["accessToken"]}
    assert (bench.asked, bench.stored()["kept"]) == (1, "theirs")


@pytest.mark.parametrize("ends", [None, "", "soon", -1, 10**300, True, {}, "9999-99-99T00:00:00Z"], ids=repr)
async def test_an_end_that_cannot_be_read_is_none(bench, ends):
    """A token of unknown life is used until the service refuses it, and is renewed then."""
    bench.sign_in(expiresAt=ends)
    credentials = bench.credentials()
    old = await credentials.get()
    assert (old.secret, bench.asked) == ("aoaOld", 0)

    assert (await credentials.renew(old)).secret == bench.stored()["accessToken"] != "aoaOld"


@pytest.mark.parametrize("ends", ["NaN", "Infinity", "-1e999", "9" * 4_300, "9" * 5_000])
async def test_a_number_that_is_none_is_told_at_the_start(bench, ends):
    """What no JSON holds, or no number can be made of, is a damaged file; it is refused without being quoted."""
    document = json.dumps({"accessToken": "aoaOld", "expiresAt": 0}).replace(": 0}", f": {ends}}}")
    bench.path.write_text(document)
    bench.path.chmod(0o600)
    try:
        credentials = bench.credentials()
    except ConfigError as error:
        assert "it is not JSON" in error.message and ends not in error.message
    else:
        assert (await credentials.get()).secret == "aoaOld"


async def test_a_good_token_costs_nothing(bench):
    """Nothing is asked and nothing is read again before the token comes near its end."""
    bench.sign_in(left=3600)
    credentials = bench.credentials()
    bench.path.unlink()

    assert (await credentials.get()).secret == "aoaOld"
    assert bench.running.requests == ()


async def test_a_token_is_renewed_ahead_of_its_end(bench):
    """Up to the margin it is used; from there on it is replaced, and nobody waits for that while it is good."""
    bench.sign_in(left=1000)
    credentials = bench.credentials(refresh_margin=300.0)
    bench.hands.turn(699)
    await credentials.get()
    await credentials.aclose()
    assert bench.asked == 0
    bench.hands.turn(2)
    bench.running.accounts.delay = 0.1
    assert {it.secret for it in await together(20, credentials.get)} == {"aoaOld"}
    await credentials.aclose()
    assert (await credentials.get()).secret == bench.stored()["accessToken"] != "aoaOld"
    assert bench.refreshes == 1


async def test_a_short_lived_token_is_not_renewed_all_the_time(bench):
    """A token that lasts less than the margin is used for half its life."""
    bench.sign_in()
    bench.running.accounts.expires_in = 60
    credentials = bench.credentials(refresh_margin=300.0)
    for _ in range(12):
        await credentials.get()
        await credentials.aclose()
        bench.hands.turn(10)

    assert bench.refreshes == 4


@pytest.mark.parametrize(("jump", "refreshes"), [(-7200.0, 1), (7200.0, 1)])
async def test_a_clock_that_is_set(bench, jump, refreshes):
    """Set back, a clock does not make an ended token good; set forward, it costs one renewal and no more."""
    bench.sign_in(left=3600)
    credentials = bench.credentials()
    bench.hands.wall += jump
    bench.hands.turn(3700 if jump < 0 else 1)
    for _ in range(5):
        await credentials.get()
        await credentials.aclose()

    assert bench.refreshes == refreshes


async def test_the_kind_decides_who_is_asked(bench):
    """Tokens of AWS and of a company's own provider are renewed at their own doors."""
    bench.sign_in(authMethod="IdC", clientIdHash="0a1b")
    bench.path.with_name("0a1b.json").write_text('{"clientId": "c", "clientSecret": "s"}')
    assert (await bench.credentials().get()).kind is CredentialKind.ACCESS_TOKEN
    bench.sign_in(
        authMethod="external_idp", clientId="c", tokenEndpoint="https://login.example/token", refreshToken="aorOther"
    )
    assert (await bench.credentials().get()).kind is CredentialKind.EXTERNAL_IDP

    assert [it.operation for it in bench.running.requests] == ["CreateToken", "CreateExternalToken"]


# When that fails.


async def test_a_failure_fails_everybody_once_and_then_waits(bench):
    """R32: waiters share one failure; within the pause nobody asks again, and each pause is longer."""
    bench.sign_in()
    bench.running.accounts.refresh_answer = simulator.refusal(503, "out of order")
    credentials = bench.credentials()
    came = await together(50, credentials.get)
    assert {type(it) for it in came} == {UpstreamUnavailable}
    assert bench.asked == 1
    assert came[0].retry_after == 2.0
    for seconds, asked in ((1.9, 1), (0.2, 2), (3.8, 2), (0.3, 3)):
        bench.hands.turn(seconds)
        await together(5, credentials.get)
        assert bench.asked == asked
    bench.running.accounts.refresh_answer = None
    bench.hands.turn(8.1)

    assert (await credentials.get()).secret == bench.stored()["accessToken"]


async def test_while_the_old_token_is_good_a_failure_hurts_nobody(bench, caplog):
    """An early renewal that fails is no reason to refuse anybody, so the log alone tells of it; the end of the token
    is."""
    bench.sign_in(left=SOON)
    bench.running.accounts.refresh_answer = simulator.refusal(500, "x")
    credentials = bench.credentials()

    assert {it.secret for it in await together(5, credentials.get)} == {"aoaOld"}
    await credentials.aclose()
    assert bench.asked == 1
    assert caplog.text.count("failed, next try in 2 s: UpstreamFault(") == 1
    bench.hands.turn(SOON + 1)
    with pytest.raises(UpstreamFault):
        await credentials.get()


async def test_an_ended_sign_in_is_not_asked_about_again(bench):
    """A dead refresh token costs one call; signing in again is noticed without a restart."""
    bench.running.accounts.refresh_answer = simulator.json_answer(400, {"error": "invalid_grant"})
    bench.sign_in()
    credentials = bench.credentials()
    for _ in range(4):
        with pytest.raises(UpstreamDenied, match="sign in again") as caught:
            await credentials.get()
        bench.hands.turn(6)
    assert (caught.value.code, bench.asked) == ("credentials.login", 1)
    bench.sign_in(left=3600, accessToken="aoaNew", refreshToken="aorNew")

    assert (await credentials.get()).secret == "aoaNew"


async def test_an_unreachable_sign_in_service(bench):
    """It is an upstream like any other."""
    bench.sign_in()
    nowhere = KiroVendor(KiroSettings(auth_endpoint="http://127.0.0.1:1"))
    credentials = Credentials.create(
        SignIns(nowhere, KiroSettings(credentials_file=str(bench.path))), bench.transport, bench.hands.clocks()
    )

    with pytest.raises(UpstreamUnreachable):
        await credentials.get()


async def test_another_process_was_faster(bench):
    """R35: what is in the file by then is used, without a call."""
    bench.sign_in()
    credentials = bench.credentials()
    bench.sign_in(left=3600, accessToken="aoaTheirs")

    assert (await credentials.get()).secret == "aoaTheirs"
    assert bench.asked == 0


async def test_a_program_without_our_lock_was_faster(bench):
    """A refresh token that somebody else has used up is no end: the file is looked at once more."""
    bench.sign_in()
    credentials = bench.credentials()

    def steal(request: simulator.RecordedRequest) -> None:
        bench.sign_in(left=3600, accessToken="aoaTheirs", refreshToken="aorTheirs")
        bench.running.accounts.refresh_social({"refreshToken": "aorOld"})

    bench.running.answer_with(steal)

    assert (await credentials.get()).secret == "aoaTheirs"


# Where tokens are kept.


@pytest.mark.parametrize("trouble", ["full", "link", "gone", "nowhere"])
async def test_what_cannot_be_written_is_served_from_memory(bench, monkeypatch, caplog, trouble):
    """A full disk, a link, a file that was removed: a warning, and the gateway goes on, renewals included."""
    bench.sign_in()
    settings = {"write_back": "nowhere"} if trouble == "nowhere" else {}
    credentials = bench.credentials(**settings)
    if trouble == "link":
        bench.path.rename(bench.path.with_name("target"))
        bench.path.symlink_to("target")
    elif trouble == "gone":
        bench.path.unlink()
    elif trouble == "full":
        monkeypatch.setattr("kiro_asgi.net.credentials.sources.os.fsync", _full)
    with caplog.at_level(logging.WARNING, "kiro_asgi"):
        first = await credentials.get()
        bench.hands.turn(3700)
        second = await credentials.get()

    assert bench.refreshes == 2
    assert len({first.secret, second.secret, "aoaOld"}) == 3
    assert ("memory" in caplog.text) is (trouble != "nowhere")
    assert "aor" not in caplog.text and "aoa" not in caplog.text
    assert trouble == "gone" or bench.stored()["accessToken"] == "aoaOld"


def _full(_: int) -> None:
    raise OSError(28, "No space left on device")


async def test_of_two_lines_of_tokens_the_one_that_was_written_last_is_followed(bench):
    """Where we do not write, the owner's new token is taken over, and afterwards our own renewals of it are."""
    bench.sign_in()
    credentials = bench.credentials(write_back="nowhere")
    await credentials.get()
    bench.sign_in(accessToken="aoaTheirs", refreshToken="aorTheirs")
    for _ in range(3):
        bench.hands.turn(3500)
        await credentials.get()
        await credentials.aclose()

    sent = [json.loads(it.body)["refreshToken"] for it in bench.running.requests if it.operation == "RefreshToken"]
    assert sent[:2] == ["aorOld", "aorTheirs"]
    assert bench.refreshes == len(sent) == 4


async def test_what_could_not_be_written_is_written_later(bench, monkeypatch):
    """Once there is room again, the newest token is on disk without another renewal."""
    bench.sign_in()
    credentials = bench.credentials()
    with monkeypatch.context() as patch:
        patch.setattr("kiro_asgi.net.credentials.sources.os.fsync", _full)
        newest = await credentials.get()
        await credentials.get()
        await credentials.aclose()
    assert bench.stored()["accessToken"] == "aoaOld"
    bench.hands.turn(61)
    await credentials.get()
    await credentials.aclose()

    assert bench.stored()["accessToken"] == newest.secret
    assert bench.refreshes == 1


@pytest.mark.parametrize("write_back", ["files", "stores"])
async def test_a_store_is_written_only_if_that_is_wanted(bench, tmp_path, write_back):
    """The command line's own store is read; it is changed where the setting says so."""
    path = tmp_path / "data.sqlite3"
    value = {"access_token": "a", "refresh_token": "r", "expires_at": "2020-01-01T00:00:00.123456789Z", "x": 1}
    with closing(sqlite3.connect(path)) as store:
        store.execute("CREATE TABLE auth_kv (key TEXT PRIMARY KEY, value TEXT)")
        store.execute("INSERT INTO auth_kv VALUES ('kirocli:social:token', ?)", (json.dumps(value),))
        store.commit()
    credential = await bench.credentials(credentials_file=str(path), write_back=write_back).get()
    with closing(sqlite3.connect(path)) as store:
        ((text,),) = store.execute("SELECT value FROM auth_kv")

    assert credential.secret.startswith("aoaSimulated")
    assert json.loads(text)["access_token"] == (credential.secret if write_back == "stores" else "a")
    assert json.loads(text)["x"] == 1


# After a refusal by the service.


async def test_a_refused_token_is_renewed_once(bench):
    """R36: one forced renewal, shared by all whose token it was; soon after, another is no remedy."""
    bench.sign_in(left=3600)
    credentials = bench.credentials()
    refused = await credentials.get()
    came = await together(20, lambda: credentials.renew(refused))

    assert {it.secret for it in came} == {bench.stored()["accessToken"]}
    assert bench.refreshes == 1
    assert await credentials.renew(came[0]) is None
    bench.hands.turn(11)
    assert (await credentials.renew(came[0])).secret not in ("aoaOld", came[0].secret)
    assert bench.refreshes == 2


async def test_a_refused_token_that_another_process_has_replaced(bench):
    """R36: the file is read before anybody is asked."""
    bench.sign_in(left=3600)
    credentials = bench.credentials()
    refused = await credentials.get()
    bench.sign_in(left=3600, accessToken="aoaTheirs")

    assert (await credentials.renew(refused)).secret == "aoaTheirs"
    assert bench.asked == 0


async def test_a_refused_token_and_a_sign_in_that_has_ended(bench):
    """The caller is told what helps."""
    bench.sign_in(left=3600, refreshToken="")
    credentials = bench.credentials()

    with pytest.raises(UpstreamDenied, match="sign in again"):
        await credentials.renew(await credentials.get())


async def test_what_stands_in_the_settings_cannot_be_renewed(bench):
    """An API key is what it is."""
    credentials = bench.credentials(GIVEN, credentials_file="")

    assert await credentials.renew(await credentials.get()) is None
    assert await credentials.renew(Credential(CredentialKind.API_KEY, "strange")) is None


# Several.


async def test_the_next_one_serves_while_the_first_rests(bench, tmp_path):
    """A rest ends; while all rest, the error is that of the one that may be asked soonest, with the time until then."""
    other = bench.sign_in(3600, tmp_path / "other.json", accessToken="aoaOther")
    bench.sign_in(left=3600)
    credentials = bench.credentials(fallback_credentials_files=(str(other), str(bench.path)))
    first = await credentials.get()
    second = await credentials.get(exclude=[first])
    assert (first.secret, second.secret) == ("aoaOld", "aoaOther")
    with pytest.raises(UpstreamDenied, match="no other"):
        await credentials.get(exclude=[first, second])

    credentials.cool(first, UpstreamQuotaSpent("spent", code="MONTHLY", retry_after=100.0))
    assert await credentials.get() == second
    credentials.cool(second, UpstreamSuspended("locked"))
    bench.hands.turn(40)
    with pytest.raises(UpstreamQuotaSpent, match=r"^spent; not asked again now, the next try is in 60 s$") as caught:
        await credentials.get()
    assert (caught.value.code, caught.value.retry_after, caught.value.asked) == ("MONTHLY", 60.0, False)
    assert [(name, left) for name, _, left in credentials.cooldowns()] == [
        (str(bench.path), 60.0),
        (str(other), 1760.0),
    ]
    bench.hands.turn(61)
    assert await credentials.get() == first


async def test_a_quota_of_one_model_says_nothing_about_others(bench):
    """The credential serves every other model, and a question about none; how many are remembered is bounded."""
    credentials = bench.credentials(GIVEN, credentials_file="")
    for number in range(RESTING_MODELS + 1):
        credentials.cool(GIVEN, UpstreamModelQuotaSpent("spent"), f"model-{number}")

    assert await credentials.get() == await credentials.get("other") == await credentials.get("model-0") == GIVEN
    with pytest.raises(UpstreamModelQuotaSpent):
        await credentials.get("model-1")
    assert len(list(credentials.cooldowns())) == RESTING_MODELS


async def test_what_came_to_rest_meanwhile_is_not_asked(bench):
    """Between choosing a credential and asking with it others may have learnt more."""
    credentials = bench.credentials(GIVEN, credentials_file="")
    credential = await credentials.get("m")
    credentials.cool(credential, UpstreamQuotaSpent("spent"))
    with pytest.raises(UpstreamQuotaSpent), credentials.asking(credential, "m"):
        pytest.fail("asked all the same")
    bench.hands.turn(300)

    with credentials.asking(credential, "m") as accepted:
        with pytest.raises(UpstreamQuotaSpent):
            await credentials.get("m")
        accepted()
        assert await credentials.get("m") == credential
    with credentials.asking(Credential(CredentialKind.API_KEY, "strange"), "m") as accepted:
        accepted()


async def test_a_sign_in_that_has_ended_is_passed_over(bench, tmp_path):
    """Fail-over works for tokens as it does for quotas."""
    bench.sign_in(refreshToken="")
    other = bench.sign_in(3600, tmp_path / "other.json", accessToken="aoaOther")

    credentials = bench.credentials(fallback_credentials_files=(str(other),))
    assert (await credentials.get()).source == str(other)


async def test_a_key_in_the_settings_comes_first(bench):
    """What was given on purpose is preferred to what was found in a file."""
    bench.sign_in(left=3600)

    assert (await bench.credentials(GIVEN).get()) == GIVEN


# Programs.

PRINT = "import json, time; print(json.dumps({'access_token': 'a%d' % time.time_ns(), 'expires_in': 60}))"


def command(code: str) -> str:
    return f"{sys.executable} -c {json.dumps(code)}"


async def test_a_program_is_run_again_when_its_token_ends(bench):
    """It is run once for all who wait, and again for the next token, or after a refusal."""
    credentials = bench.credentials(credentials_file="", credentials_command=command(PRINT), discover_profile=False)
    came = await together(10, credentials.get)
    first = came[0]
    assert {it.secret for it in came} == {first.secret}
    second = await credentials.renew(first)
    assert second.secret != first.secret
    bench.hands.turn(61)

    assert (await credentials.get()).secret not in (first.secret, second.secret)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("raise SystemExit('SECRET')", "failed"),
        ("print('SECRET')", "printed no token"),
        ("print('SECRET' * 10**6)", "printed far too much"),
    ],
)
async def test_a_program_that_prints_no_token(bench, capfd, code, words):
    """What it printed is neither quoted nor shown, nor is what it says on standard error."""
    credentials = bench.credentials(credentials_file="", credentials_command=command(code))
    with pytest.raises(UpstreamFault, match=words) as caught:
        await credentials.get()

    assert "SECRET" not in caught.value.message + "".join(capfd.readouterr())


async def test_a_program_that_never_ends_is_ended(bench, tmp_path, monkeypatch):
    """It gets a time, and is killed then, whatever it does about signals; the answer says so."""
    monkeypatch.setattr(sources, "_COMMAND_TIMEOUT", 1.0)
    note = tmp_path / "pid"
    code = (
        "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        f"open({str(note)!r}, 'w').write(str(os.getpid())); print('SECRET', flush=True); time.sleep(60)"
    )
    script = tmp_path / "program.py"
    script.write_text(code)
    credentials = bench.credentials(credentials_file="", credentials_command=f"{sys.executable} {script}")
    with pytest.raises(UpstreamFault, match="took too long"):
        await credentials.get()
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


async def test_a_program_that_prints_no_access_token(bench):
    """A refresh token is the program's own to use: nothing is asked with an empty access token."""
    printed = "import json; print(json.dumps({'refreshToken': 'SECRET', 'expiresIn': 60}))"
    credentials = bench.credentials(credentials_file="", credentials_command=command(printed))
    with pytest.raises(UpstreamFault, match="printed no access token") as caught:
        await credentials.get()

    assert "SECRET" not in caught.value.message


async def test_a_program_is_no_shell(bench, tmp_path):
    """What a shell would act upon is an argument like any other."""
    touched = tmp_path / "touched"
    with pytest.raises(UpstreamFault):
        await bench.credentials(
            credentials_file="", credentials_command=f"echo $(touch {touched}); touch {touched}"
        ).get()

    assert not touched.exists()


# Profiles.


async def test_a_profile_is_found_once(bench):
    """A token without a profile gets the account's; it is asked for once, and still known after a renewal."""
    bench.sign_in(left=3600, profileArn="", authMethod="IdC", clientId="c", clientSecret="s")
    credentials = bench.credentials()
    came = await together(5, credentials.get)
    renewed = await credentials.renew(came[0])

    assert {it.profile_arn for it in (*came, renewed)} == {ARN}
    assert [it.operation for it in bench.running.requests] == ["ListAvailableProfiles", "CreateToken"]


@pytest.mark.parametrize(
    ("answer", "asked"),
    [
        pytest.param(simulator.json_answer(200, {"profiles": []}), 1, id="none"),
        pytest.param(simulator.refusal(403, "no"), 1, id="refused"),
        pytest.param((simulator.Reset(),), 2, id="unreachable"),
        pytest.param(simulator.refusal(503, "later"), 2, id="out-of-order"),
    ],
)
async def test_no_profile_is_no_obstacle(bench, answer, asked):
    """Without one the call is made without one; who could not be asked is asked again after a while."""
    bench.sign_in(left=3600, profileArn="")
    bench.running.answer_with(lambda _: answer)
    credentials = bench.credentials()
    for seconds in (0, 30, 31):
        bench.hands.turn(seconds)
        assert (await credentials.get()).profile_arn == ""
        await credentials.aclose()

    assert len(bench.running.requests) == asked


async def test_a_search_for_a_profile_holds_nobody_up_for_long(bench, monkeypatch):
    """A service that lists nothing and does not end is waited for once, up to a limit, by all together; a profile that
    is found later is named from then on."""
    monkeypatch.setattr("kiro_asgi.net.credentials.state._PROFILE_PATIENCE", 0.3)
    bench.sign_in(left=3600, profileArn="")
    bench.running.enqueue(
        (simulator.Pause(1.5), *simulator.json_answer(200, LISTED)), operation="ListAvailableProfiles"
    )
    credentials = bench.credentials()
    came = await together(5, credentials.get)
    assert {it.profile_arn for it in (*came, await credentials.get())} == {""}

    await credentials.aclose()
    assert (await credentials.get()).profile_arn == ARN
    assert len(bench.running.requests) == 1


LISTED = {"profiles": [{"arn": ARN, "status": "ACTIVE"}]}


async def test_a_search_that_does_not_end_is_given_up(bench, monkeypatch):
    """All places together have one limit; afterwards there is another search, but not at once."""
    monkeypatch.setattr("kiro_asgi.net.credentials.state._PROFILE_TIMEOUT", 0.3)
    bench.sign_in(left=3600, profileArn="")
    bench.running.answer_with(lambda _: (simulator.Stall(),))
    credentials = bench.credentials()
    assert (await credentials.get()).profile_arn == ""
    await credentials.aclose()
    bench.hands.turn(61)
    await credentials.get()
    await credentials.aclose()

    assert len(bench.running.requests) == 2


async def test_a_new_token_may_be_told_of_a_profile(bench):
    """Who did not take the old token is asked again with the new one; nobody is asked twice with the same."""
    bench.sign_in(left=3600, profileArn="", authMethod="IdC", clientId="c", clientSecret="s")
    bench.running.revoke("aoaOld")
    credentials = bench.credentials()
    refused = await credentials.get()
    assert (await credentials.get()).profile_arn == refused.profile_arn == ""

    assert (await credentials.renew(refused)).profile_arn == ARN
    assert [it.operation for it in bench.running.requests].count("ListAvailableProfiles") == 2


# Threads.


async def test_a_machine_without_threads_left_has_some_later(bench, monkeypatch):
    """A renewal that cannot be begun fails; the next request begins one."""
    bench.sign_in()
    credentials = bench.credentials()
    with monkeypatch.context() as patch:
        patch.setattr("threading.Thread.start", _no_thread)
        with pytest.raises(RuntimeError, match="new thread"):
            await credentials.get()

    assert (await credentials.get()).secret == bench.stored()["accessToken"]


def _no_thread(_: object) -> None:
    raise RuntimeError("can't start new thread")


async def test_a_bug_in_a_renewal_is_told_and_holds_nobody_up(bench, monkeypatch, caplog):
    """What fails while nobody waits is in the log; the token is used as long as it is good, and closing works."""
    bench.sign_in(left=SOON)
    credentials = bench.credentials()
    monkeypatch.setattr("kiro_asgi.net.credentials.refresh.TokenRefresher.renew", _bug)
    with caplog.at_level(logging.ERROR, "kiro_asgi"):
        assert (await credentials.get()).secret == "aoaOld"
        await credentials.aclose()

    assert "ZeroDivisionError" in caplog.text and "secret" not in caplog.text


async def _bug(*_: object) -> None:
    raise ZeroDivisionError("secret")


# Settings.


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"credentials_file": "missing.json"}, "kiro.credentials_file: .*missing.json: No such file"),
        ({"credentials_file": "."}, "kiro.credentials_file: .*: Is a directory"),
        ({"credentials_file": "empty.json"}, "kiro.credentials_file: .*empty.json: it is not JSON"),
        ({"fallback_credentials_files": ("missing.json",)}, "kiro.fallback_credentials_files: .*missing.json"),
        (
            {"credentials_command": "no-such-program-at-all x"},
            "kiro.credentials_command: there is no such program; check the PATH of the gateway's process",
        ),
        ({"credentials_command": "echo 'x"}, "kiro.credentials_command: No closing quotation"),
        ({}, "no Kiro credential: set KIRO_API_KEY"),
    ],
)
async def test_what_cannot_be_used_is_said_at_the_start(tmp_path, shared_transport, settings, words):
    """A wrong path is an error with the setting's name, before the first request."""
    (tmp_path / "empty.json").touch()
    paths = {name: str(tmp_path / value) if name == "credentials_file" else value for name, value in settings.items()}
    with pytest.raises(ConfigError, match=words):
        Credentials.create(SignIns(KiroVendor(), KiroSettings(**paths)), shared_transport)


async def test_all_problems_are_told_at_once(shared_transport):
    """Who has to repair two settings need not start twice."""
    settings = KiroSettings(credentials_file="/missing/a", fallback_credentials_files=("/missing/b",))
    with pytest.raises(ConfigError, match="2 settings cannot be used") as caught:
        Credentials.create(SignIns(KiroVendor(), settings), shared_transport)

    assert "/missing/a" in caught.value.message and "/missing/b" in caught.value.message


async def test_an_open_file_is_warned_about(bench, caplog):
    """R34: who else may read the tokens is told at the start."""
    bench.sign_in(left=3600).chmod(0o640)
    with caplog.at_level(logging.WARNING, "kiro_asgi"):
        bench.credentials()

    assert "other users may read the tokens" in caplog.text


def test_two_event_loops_share_one_renewal(tmp_path, shared_transport):
    """Locks belong to loops; the credential does not."""
    with simulator.running() as running:
        bench = Bench(running, tmp_path / "token.json", Hands(), shared_transport)
        bench.sign_in()
        running.accounts.delay = 0.2
        credentials = bench.credentials()

        async def both() -> None:
            async with anyio.create_task_group() as group:
                for backend in ("asyncio", "trio"):
                    group.start_soon(anyio.to_thread.run_sync, lambda backend=backend: anyio.run(one, backend=backend))

        async def one() -> None:
            await together(5, credentials.get)

        anyio.run(both)

        assert bench.refreshes == 1
