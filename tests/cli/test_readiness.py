"""``serve``, ``check``, ``doctor`` and ``create_app`` refuse the same settings, in the same words, all at once."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest

from kiro_asgi import create_app
from kiro_asgi.cli import main
from kiro_asgi.config import Settings
from kiro_asgi.errors import ConfigError
from kiro_asgi.upstreams.base import Token
from kiro_asgi.upstreams.kiro.tokens import render_token
from tests.asgi.driver import ask

GOOD = {"KIRO_API_KEY": "ksk_canary-51c0", "KIRO_ASGI__CLIENT__API_KEYS": "k"}
NO_KEY = {"KIRO_API_KEY": ""}
NO_CLIENT = (
    "no client could authenticate: set client.api_keys or keys, or client.trust_host where a host's middleware "
    "authenticates, or client.allow_anonymous to serve clients without a key"
)
NO_SERVICE = (
    "no service is set up; set one of: KIRO_API_KEY (Kiro; kiro-asgi login signs in without one), anthropic.api_key "
    "(Anthropic), openai.api_key (OpenAI), gemini.api_key (Gemini), bedrock.api_key (Amazon Bedrock), "
    "custom.NAME.endpoint (a server of your own)"
)

WRONG: list[tuple[str, Mapping[str, str], tuple[str, ...]]] = [
    ("nobody-let-in", {"KIRO_ASGI__CLIENT__API_KEYS": ""}, (NO_CLIENT,)),
    ("no-credential", NO_KEY, (NO_SERVICE,)),
    ("both", {**NO_KEY, "KIRO_ASGI__CLIENT__API_KEYS": ""}, (NO_CLIENT, NO_SERVICE)),
    (
        "unreadable-value-and-others",
        {"KIRO_ASGI__LIMITS__QUEUE": "many", **NO_KEY, "KIRO_ASGI__CLIENT__API_KEYS": ""},
        ("KIRO_ASGI__LIMITS__QUEUE: must be a whole number, not 'many'", NO_CLIENT, NO_SERVICE),
    ),
    (
        "value-of-the-same-table",
        {**NO_KEY, "KIRO_ASGI__KIRO__REGION": "nowhere"},
        ("KIRO_ASGI__KIRO__REGION: must be a region such as us-east-1",),
    ),
    (
        "unknown-setting",
        {"KIRO_ASGI__KIRO__REGOIN": "x"},
        ("KIRO_ASGI__KIRO__REGOIN: no such setting; did you mean KIRO_ASGI__KIRO__REGION?",),
    ),
    (
        "unknown-rule",
        {"KIRO_ASGI__KIRO__RULES_OFF": "turns.merge"},
        ("kiro.rules_off: there is no rule 'turns.merge'; did you mean turns.merged or turns.prefill or turns.empty?",),
    ),
    (
        "unknown-rule-of-any-form",
        {"KIRO_ASGI__KIRO__RULES_OFF": "Nonsense!"},
        ("kiro.rules_off: there is no rule 'Nonsense!'; kiro-asgi explain names those that apply to a request",),
    ),
    (
        "no-such-file",
        {"KIRO_ASGI__KIRO__CREDENTIALS_FILE": "gone.json", "KIRO_ASGI__KIRO__CREDENTIALS_COMMAND": "no-such-program"},
        (
            "kiro.credentials_file: gone.json: No such file or directory",
            "kiro.credentials_command: there is no such program; check the PATH of the gateway's process",
        ),
    ),
    ("alias", {"KIRO_ASGI__KIRO__MODEL_ALIASES": "a=b,a=c"}, ("kiro.model_aliases: a means two models",)),
    (
        "order",
        {"KIRO_ASGI__ROUTING__ORDER": "gemini"},
        ("routing.order: no upstream is set up by the name of gemini; there are: kiro",),
    ),
    (
        "key",
        {"KIRO_ASGI__KEYS__ALICE__HASH": "sha256:" + 64 * "0", "KIRO_ASGI__KEYS__ALICE__UPSTREAMS": "kiro,kiroo"},
        ("keys.alice.upstreams: no upstream is set up by the name of kiroo; there are: kiro",),
    ),
    (
        "route",
        {"KIRO_ASGI__ROUTING__MODELS": "gpt-*=openai"},
        ("routing: no upstream is set up by the name of openai",),
    ),
    ("default", {"KIRO_ASGI__ROUTING__DEFAULT": "openai"}, ("routing: no upstream is set up by the name of openai",)),
    (
        "state",
        {"KIRO_ASGI__STATE__ENGINE": "sqlite"},
        ("state.path: must name the file where state.engine is sqlite",),
    ),
    (
        "budgets",
        {"KIRO_ASGI__PRESET": "contract", "KIRO_ASGI__KIRO__EFFORT_BUDGETS": "9,3"},
        ("kiro.effort_budgets must be two numbers, the smaller one first",),
    ),
]

EACH = pytest.mark.parametrize(("wrong", "reasons"), [pytest.param(*row[1:], id=row[0]) for row in WRONG])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of whoever runs the tests."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("KIRO_")]:
        monkeypatch.delenv(name)


def told(command: str, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main([command, *arguments])
    return status, *capsys.readouterr()


@EACH
def test_all_refuse_in_the_same_words(
    wrong: Mapping[str, str],
    reasons: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Issue 11, 25: every reason at once, a sentence for each; the three commands end with a status that is not 0."""
    for name, value in {**GOOD, **wrong}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) as refused:
        create_app()
    served = told("serve", capsys, "--port", "0")
    checked = told("check", capsys, "--json")
    examined = told("doctor", capsys, "--json", "--no-request")
    findings = json.loads(examined[1])["findings"]

    assert refused.value.reasons == reasons
    assert [line for line in served[2].replace("kiro-asgi: ", "  ").splitlines() if line[2:] in reasons] == [
        f"  {reason}" for reason in reasons
    ]
    assert served[2].endswith("kiro-asgi serve --simulate\n")
    assert tuple(json.loads(checked[1])["problems"]) == reasons
    assert tuple(it["detail"] for it in findings if it["name"] == "settings" and it["verdict"] == "fail") == reasons
    assert all(it["advice"] for it in findings if it["verdict"] == "fail")
    assert (served[0], checked[0], examined[0]) == (1, 1, 1)


def test_settings_made_in_python_are_refused_for_every_reason() -> None:
    """The same without any reading."""
    with pytest.raises(ConfigError) as refused:
        create_app(Settings())

    assert refused.value.reasons == (NO_CLIENT, NO_SERVICE)


def test_an_unreachable_sign_in_host_has_one_wording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where a token is renewed, in the gateway and in ``doctor``, and where somebody signs in."""
    token = Token("aoa", "aor", time.time() - 60, region="us-east-1")
    (tmp_path / "token.json").write_bytes(render_token(token, "Google"))
    (tmp_path / "token.json").chmod(0o600)
    monkeypatch.setenv("KIRO_ASGI__CLIENT__ALLOW_ANONYMOUS", "1")
    monkeypatch.setenv("KIRO_ASGI__RETRY__ATTEMPTS", "1")
    monkeypatch.setenv("KIRO_ASGI__KIRO__CREDENTIALS_FILE", str(tmp_path / "token.json"))
    for name in ("ENDPOINT", "AUTH_ENDPOINT"):
        monkeypatch.setenv(f"KIRO_ASGI__KIRO__{name}", "http://127.0.0.1:1")
    words = re.compile(
        r"the sign-in service at 127\.0\.0\.1:1 cannot be reached \(.+\); check the network, kiro\.proxy and "
        r"kiro\.auth_endpoint"
    )

    async def answered() -> str:
        app = create_app()
        try:
            return (await ask("openai", "hi", stream=False).run(app)).json()["error"]["message"]
        finally:
            await app.aclose()

    _, examined, _ = told("doctor", capsys, "--json", "--no-request")
    _, _, signed_in = told("login", capsys, "--no-browser", "--file", "new.json")
    findings = {it["name"]: it for it in json.loads(examined)["findings"]}

    assert words.search(findings["refresh"]["detail"])
    assert "kiro.proxy" in findings["refresh"]["advice"]
    assert words.search(signed_in)
    assert words.search(anyio.run(answered))


def test_doctor_goes_on_with_what_it_can_examine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """That no client could authenticate says nothing about the credential: the chain is looked at all the same."""
    monkeypatch.setenv("KIRO_API_KEY", "ksk_canary-51c0")
    monkeypatch.setenv("KIRO_ASGI__KIRO__ENDPOINT", "http://127.0.0.1:1")
    status, out, _ = told("doctor", capsys, "--json", "--no-request")
    verdicts = {it["name"]: it["verdict"] for it in json.loads(out)["findings"]}

    assert status == 1
    assert (verdicts["settings"], verdicts["credential"], verdicts["service"]) == ("fail", "ok", "fail")
