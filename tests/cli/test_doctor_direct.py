"""``kiro-asgi doctor`` and the upstreams that are asked with a key."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kiro_asgi import simulator
from kiro_asgi.cli import main
from kiro_asgi.simulator import Simulator, refusal
from tests.cli.test_doctor import NAMES_WITH_A_KEY
from tests.codex_files import jwt, signed_in, write

NOBODY = "http://127.0.0.1:9"
LINKS = ("key", "service", "models", "request")
CHATS = ("anthropic.chat", "openai.chat", "gemini.chat")
KIRO = {"KIRO_API_KEY": "ksk_canary"}


@pytest.fixture
def service() -> Iterator[Simulator]:
    with simulator.running() as running:
        yield running


@pytest.fixture
def examine(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the command with these settings alone: status, and verdict, detail and advice by name, in their order."""

    def run(environ: dict[str, str], *arguments: str) -> tuple[int, dict[str, tuple[str, str, str]]]:
        for name in [name for name in os.environ if name.startswith("KIRO_") or name.upper().endswith("_PROXY")]:
            monkeypatch.delenv(name)
        for name, value in {"CLIENT__API_KEYS": "k", **environ}.items():
            monkeypatch.setenv(name if name == "KIRO_API_KEY" else f"KIRO_ASGI__{name}", value)
        status = main(["doctor", "--json", *arguments])
        out, err = capsys.readouterr()
        report = json.loads(out)
        assert (report["ok"], err) == (status == 0, "")
        assert "anary" not in out
        return status, {it["name"]: (it["verdict"], it["detail"], it["advice"]) for it in report["findings"]}

    return run


def gemini(service: Simulator, **more: str) -> dict[str, str]:
    return {"GEMINI__API_KEY": "goo-canary", "GEMINI__ENDPOINT": service.url, **more}


def everything(service: Simulator) -> dict[str, str]:
    return {
        **gemini(service),
        "ANTHROPIC__API_KEY": "ant-canary",
        "ANTHROPIC__ENDPOINT": service.url,
        "OPENAI__API_KEY": "oai-canary",
        "OPENAI__ENDPOINT": f"{service.url}/v1",
        "CUSTOM__LOCAL__ENDPOINT": f"{service.url}/v1",
    }


def test_what_a_service_refuses_is_learnt_and_told(service: Simulator, examine: Any) -> None:
    """A server that differs from its settings answers all the same, and the operator reads in what it differs."""
    refused = refusal(400, "Unsupported parameter: stream_options")
    service.enqueue(refused, operation="openai.chat")
    environ = {"CUSTOM__LOCAL__SERVICE": "vllm", "CUSTOM__LOCAL__ENDPOINT": f"{service.url}/v1"}
    status, found = examine(environ)

    verdict, detail, advice = found["local request"]
    assert (status, verdict) == (0, "warn")
    assert detail.endswith("learnt from refusals: the service takes no stream_options")
    assert advice.startswith("set what differs in its table")

    service.enqueue(refused, refused, operation="openai.chat")
    status, found = examine(environ)
    assert (status, found["local request"][0]) == (1, "fail")


def test_every_upstream_has_its_links(service: Simulator, examine: Any) -> None:
    """Kiro's are left out where it is not set up; each upstream is asked one small question."""
    status, found = examine(everything(service))
    links = [f"{name} {link}" for name in ("anthropic", "openai", "gemini", "local") for link in LINKS]

    assert (status, list(found)) == (0, ["settings", "proxy", *links])
    assert {verdict for verdict, _, _ in found.values()} == {"ok"}
    assert found["gemini key"][1] == "gemini.api_key"
    assert found["local key"][1] == "none; the service is asked without one"
    assert [service.calls[chat] for chat in CHATS] == [1, 2, 1]
    for name in ("anthropic", "openai", "gemini", "local"):
        assert found[f"{name} request"][1].endswith("stop reason end, usage in tokens by the service")


def test_the_api_that_is_set_is_asked(service: Simulator, examine: Any) -> None:
    """By a small question, which is answered."""
    openai = {"OPENAI__API_KEY": "oai-canary", "OPENAI__ENDPOINT": f"{service.url}/v1", "OPENAI__API": "responses"}
    status, found = examine(openai)

    assert (status, found["openai request"][0]) == (0, "ok")
    assert [service.calls[f"{api}.chat"] for api in ("openai", "responses")] == [0, 1]


def test_kiro_and_another(service: Simulator, examine: Any) -> None:
    """Kiro's links come first and keep their names."""
    status, found = examine({**KIRO, "KIRO__ENDPOINT": service.url, **gemini(service)}, "--no-request")

    assert (status, list(found)) == (0, NAMES_WITH_A_KEY[:-1] + [f"gemini {link}" for link in LINKS[:-1]])
    assert service.calls["gemini.chat"] == 0


def test_a_cheap_model_is_asked(service: Simulator, examine: Any) -> None:
    """Under whatever spelling the service lists it."""
    _, found = examine(everything(service))

    assert found["gemini request"][1].startswith("gemini-2.5-flash-lite:")
    assert found["anthropic request"][1].startswith("claude-haiku-4-5:")
    assert found["openai request"][1].startswith("gpt-4o-mini:")


def test_several_keys(service: Simulator, examine: Any) -> None:
    """They are counted by their settings, and never shown."""
    _, found = examine(gemini(service, GEMINI__FALLBACK_API_KEYS="canary-2,canary-3"), "--no-request")

    assert found["gemini key"][1] == "gemini.api_key; 2 more, which are not tried here"


@pytest.mark.parametrize("good", [True, False])
def test_a_key_that_is_exchanged(good: bool, service: Simulator, examine: Any) -> None:
    """The exchange is a link of its own; without a token nothing else is tried."""
    if not good:
        service.revoke("hub-canary")
    hub = {
        "ENDPOINT": f"{service.url}/v1",
        "API_KEY": "hub-canary",
        "TOKEN_URL": f"{service.url}/copilot_internal/v2/token",
    }
    status, found = examine({f"CUSTOM__HUB__{name}": value for name, value in hub.items()}, "--no-request")
    verdict, detail, advice = found["hub token"]

    if good:
        assert (status, verdict, detail) == (0, "ok", "the key was exchanged for one")
        assert found["hub models"][0] == "ok"
    else:
        assert (status, verdict, list(found)[-1]) == (1, "fail", "hub token")
        assert "custom.hub.api_key" in detail + advice


def test_a_key_that_is_refused(service: Simulator, examine: Any) -> None:
    """The setting to look at is named; no model is asked."""
    service.revoke("goo-canary")
    status, found = examine(gemini(service))

    assert (status, found["gemini models"][0], list(found)[-1]) == (1, "fail", "gemini models")
    assert found["gemini models"][2].startswith("check that gemini.api_key is right")


def test_nobody_is_there(service: Simulator, examine: Any) -> None:
    """What follows is not tried; another upstream is."""
    status, found = examine({**everything(service), "GEMINI__ENDPOINT": NOBODY}, "--no-request")

    assert (status, found["gemini service"][0], found["local models"][0]) == (1, "fail", "ok")
    assert "gemini models" not in found


def test_a_proxy_of_its_own(service: Simulator, examine: Any) -> None:
    """Nothing is connected to directly; who asks the proxy is not shown."""
    status, found = examine(gemini(service, GEMINI__PROXY="http://user:canary@127.0.0.1:9"))

    assert (status, found["gemini models"][0]) == (1, "fail")
    assert found["gemini service"][1] == "gemini.proxy: connections go through 127.0.0.1:9, and are not checked"
    assert not service.requests


def test_a_server_without_a_list(service: Simulator, examine: Any) -> None:
    """It works under any name, so that is a warning; there is no model to ask, which is another."""
    status, found = examine({"CUSTOM__BARE__ENDPOINT": f"{service.url}/elsewhere"})

    assert (status, found["bare models"][0], found["bare request"][0]) == (0, "warn", "warn")
    assert "passed on as it is" in found["bare models"][2]


def test_a_refused_question(service: Simulator, examine: Any) -> None:
    """The class and code of the error are told."""
    service.enqueue(refusal(503, "no capacity"), operation="gemini.chat")
    status, found = examine(gemini(service))

    assert (status, found["gemini request"][0]) == (1, "fail")
    assert "no capacity" in found["gemini request"][1]


def test_a_table_that_leads_nowhere(service: Simulator, examine: Any) -> None:
    """The gateway would not start."""
    status, found = examine(gemini(service, ROUTING__DEFAULT="nobody"))

    assert (status, found["settings"][0]) == (1, "fail")
    assert "nobody" in found["settings"][1]


def short_term(hours: float) -> str:
    """A Bedrock API key that was made *hours* ago, for twelve of them."""
    begun = datetime.now(UTC) - timedelta(hours=hours)
    address = f"bedrock.amazonaws.com/?X-Amz-Date={begun:%Y%m%dT%H%M%SZ}&X-Amz-Expires=43200&Version=1"
    return f"bedrock-api-key-{b64encode(address.encode()).decode()}"


def test_whose_credentials_bedrock_is_asked_with(
    service: Simulator, examine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a short-term key ends, or where the chain found its credentials; profiles are listed as well."""
    where = {"BEDROCK__ENDPOINT": service.url, "BEDROCK__REGION": "us-east-1"}

    _, found = examine({**where, "BEDROCK__API_KEY": short_term(2)}, "--no-request")
    assert found["bedrock key"][:2] == ("ok", "bedrock.api_key; of short term, good for 10.0 hours more")
    assert found["bedrock models"][1].endswith("and 12 more")
    status, found = examine({**where, "BEDROCK__API_KEY": short_term(13)}, "--no-request")
    assert (status, found["bedrock key"][0], list(found)[-1]) == (1, "fail", "bedrock key")
    assert "ended 1.0 hours ago" in found["bedrock key"][1]
    _, found = examine({**where, "BEDROCK__API_KEY": "ABSKx"}, "--no-request")
    assert found["bedrock key"][1] == "bedrock.api_key; it does not say when it ends"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "simulated")
    _, found = examine(where, "--no-request")
    assert found["bedrock key"][1].endswith("AWS's own tools find; found by way of env, for us-east-1")


CODEX = [f"openai {link}" for link in ("sign-in", "file mode", "expiry", "service", "models", "limits", "request")]


@pytest.fixture
def codex(service: Simulator, tmp_path: Path) -> Any:
    """Settings with a file of the Codex command."""

    def make(document: Any) -> dict[str, str]:
        path = write(tmp_path / "auth.json", document)
        return {"OPENAI__CREDENTIALS_FILE": str(path), "OPENAI__ENDPOINT": f"{service.url}/backend-api/codex"}

    return make


def test_the_sign_in_of_codex(service: Simulator, examine: Any, codex: Any) -> None:
    """Its file, its token, its models, its limits, and a question."""
    status, found = examine(codex(signed_in(jwt(1))))

    assert (status, list(found)) == (0, ["settings", "proxy", *CODEX])
    assert {verdict for verdict, _, _ in found.values()} == {"ok"}
    assert found["openai expiry"][1].startswith("in 59 min")
    assert found["openai limits"][1] == "plan plus; 25 % of 168 hours used"
    assert found["openai request"][1].startswith("gpt-5.2:")


REFUSED = jwt(3)
SIGN_IN_FAULTS: dict[str, tuple[Any, str, str]] = {
    "no token": ({}, "settings", "tokens.access_token is missing"),
    "no JSON": ("{", "settings", "it is not JSON"),
    "expired": (signed_in(jwt(2, exp=5)), "openai token", "expired"),
    "refused": (signed_in(REFUSED), "openai models", "invalidated"),
}


@pytest.mark.parametrize("name", SIGN_IN_FAULTS)
def test_a_sign_in_that_does_not_work(name: str, service: Simulator, examine: Any, codex: Any) -> None:
    """The link that breaks names the command that mends it."""
    document, link, reason = SIGN_IN_FAULTS[name]
    service.revoke(REFUSED)
    status, found = examine(codex(document))
    verdict, detail, advice = found[link]

    assert (status, verdict) == (1, "fail")
    assert reason in detail
    assert "codex login" in detail + advice
    assert service.calls["codex.chat"] == 0


def test_a_missing_sign_in(examine: Any, tmp_path: Path) -> None:
    """The file is named."""
    status, found = examine({"OPENAI__CREDENTIALS_FILE": str(tmp_path / "auth.json")})

    assert (status, found["settings"][0]) == (1, "fail")
    assert f"{tmp_path}/auth.json: No such file" in found["settings"][1]


def test_others_may_read_the_sign_in(examine: Any, codex: Any, tmp_path: Path) -> None:
    """That is a warning."""
    settings = codex(signed_in(jwt(4)))
    (tmp_path / "auth.json").chmod(0o644)

    assert examine(settings, "--no-request")[1]["openai file mode"][0] == "warn"
