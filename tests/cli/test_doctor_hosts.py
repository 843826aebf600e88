"""``kiro-asgi doctor`` in a network in which both of Kiro's hosts are a simulator's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from kiro_asgi import Settings, simulator
from kiro_asgi.cli import main
from kiro_asgi.cli.doctor_checks import Way
from kiro_asgi.simulator import PROFILE_ARN, Simulator, refusal
from kiro_asgi.simulator.kiro.faults import REFUSALS
from tests.asgi.named_hosts import NamedHosts

RUNTIME, Q = "runtime.us-east-1.kiro.dev", "q.us-east-1.amazonaws.com"


@pytest.fixture
def service() -> Iterator[Simulator]:
    with simulator.running() as running:
        yield running


@pytest.fixture
def hosts(service: Simulator, monkeypatch: pytest.MonkeyPatch) -> NamedHosts:
    """The network of the command."""
    made = NamedHosts(service.url)
    monkeypatch.setattr("kiro_asgi.cli.kiro.doctor.new_transport", made.transport)

    async def walk(url: str, context: Any, patience: float) -> Way:
        await anyio.lowlevel.checkpoint()
        host = url.partition("://")[2].partition("/")[0]
        way = Way(host, 443, encrypted=False)
        way.at = "DNS"
        way.failure = "Name or service not known" if host.endswith(tuple(made.unknown)) else ""
        return way

    monkeypatch.setattr("kiro_asgi.cli.doctor_checks.walk", walk)
    return made


def doctor(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path, **token: str
) -> tuple[int, dict[str, tuple[str, str]]]:
    """The exit status and the findings, by name."""
    path = folder / "token.json"
    path.write_text(json.dumps({"accessToken": "aoaDoctor", "expiresAt": "2099-01-01T00:00:00Z", **token}))
    path.chmod(0o600)
    monkeypatch.setenv("KIRO_ASGI__KIRO__CREDENTIALS_FILE", str(path))
    monkeypatch.setenv("KIRO_ASGI__CLIENT__API_KEYS", "k")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.chdir(folder)
    status = main(["doctor", "--json"])
    found = json.loads(capsys.readouterr().out)["findings"]
    return status, {each["name"]: (each["verdict"], each["detail"]) for each in found}


def test_each_host_says_what_it_saw(
    service: Simulator, hosts: NamedHosts, monkeypatch: Any, capsys: Any, tmp_path: Path
) -> None:
    """A host that does not take the credential is a warning as long as another does; that one answers the rest."""
    service.accounts.hosts = {"": ("amazonaws",)}
    _, found = doctor(monkeypatch, capsys, tmp_path, profileArn=PROFILE_ARN)

    assert {"service kiro.dev", "management kiro.dev", "service amazonaws"} <= set(found)
    assert found["host amazonaws"] == ("ok", "lists models for this credential")
    assert found["host kiro.dev"][0] == "warn"
    assert "bearer token" in found["host kiro.dev"][1]
    assert (found["models"][0], found["usage limits"][0], found["request"][0]) == ("ok", "ok", "ok")
    asked = [each.headers["host"] for each in service.requests if each.operation == "GenerateAssistantResponse"]
    assert asked == [Q]


def test_a_host_that_does_not_exist(
    service: Simulator, hosts: NamedHosts, monkeypatch: Any, capsys: Any, tmp_path: Path
) -> None:
    """Nor is one that cannot be reached; where none can, the chain is broken."""
    hosts.unknown = ("amazonaws.com",)
    _, found = doctor(monkeypatch, capsys, tmp_path, profileArn=PROFILE_ARN)
    assert (found["service amazonaws"][0], found["host amazonaws"][0]) == ("warn", "warn")
    assert (found["host kiro.dev"][0], found["request"][0]) == ("ok", "ok")

    hosts.unknown = ("amazonaws.com", "kiro.dev")
    status, found = doctor(monkeypatch, capsys, tmp_path, profileArn=PROFILE_ARN)
    assert status == 1
    assert found["service kiro.dev"][0] == found["service amazonaws"][0] == "fail"


def test_answers_and_lists_may_be_taken_at_different_hosts(
    service: Simulator, hosts: NamedHosts, monkeypatch: Any, capsys: Any, tmp_path: Path
) -> None:
    """The question goes to the other host where the first does not take it, and only for such a reason."""
    status, message, reason = REFUSALS["token-invalid"]
    service.enqueue(refusal(status, message, reason), operation="GenerateAssistantResponse")
    _, found = doctor(monkeypatch, capsys, tmp_path, profileArn=PROFILE_ARN)
    assert (found["host kiro.dev"][0], found["request"][0]) == ("warn", "ok")

    service.forget()
    status, message, reason = REFUSALS["suspended"]
    service.enqueue(refusal(status, message, reason), operation="GenerateAssistantResponse")
    _, found = doctor(monkeypatch, capsys, tmp_path, profileArn=PROFILE_ARN)
    asked = [each.headers["host"] for each in service.requests if each.operation == "GenerateAssistantResponse"]
    assert (found["request"][0], asked) == ("fail", [RUNTIME])


@pytest.mark.parametrize("hosts_wanted", ["kiro.dev", "amazonaws"])
def test_where_the_operator_chose_only_that_is_looked_at(
    service: Simulator, hosts: NamedHosts, monkeypatch: Any, capsys: Any, tmp_path: Path, hosts_wanted: str
) -> None:
    """No host is asked that the gateway would not ask."""
    monkeypatch.setenv("KIRO_ASGI__KIRO__HOSTS", hosts_wanted)
    assert Settings.from_env({"KIRO_ASGI__KIRO__HOSTS": hosts_wanted}).kiro.hosts == hosts_wanted
    _, found = doctor(monkeypatch, capsys, tmp_path, profileArn=PROFILE_ARN)

    assert not [name for name in found if name.startswith("host ")]
    assert found["request"][0] == "ok"
    public = {"kiro.dev": "kiro.dev", "amazonaws": "amazonaws.com"}[hosts_wanted]
    assert all(name.endswith(public) for name in hosts.tried)
