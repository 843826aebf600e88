"""What Bedrock is asked with: keys and AWS credentials, which of them counts, and what a signature covers."""

from __future__ import annotations

import sys
from pathlib import Path
from threading import get_ident
from typing import Any

import anyio
import pytest

from kiro_asgi.errors import ConfigError, KiroAsgiError, UpstreamDenied, UpstreamRejected
from kiro_asgi.failures.phrases import UNSTREAMED
from kiro_asgi.net.aws import Signer, ThisMachine
from kiro_asgi.net.transport import Transport
from kiro_asgi.upstreams.access import Keys
from kiro_asgi.upstreams.base import Credential, CredentialKind, UpstreamRequest
from kiro_asgi.upstreams.bedrock import BEDROCK
from kiro_asgi.upstreams.bedrock.models import card_of
from kiro_asgi.upstreams.bedrock.settings import BedrockSettings
from kiro_asgi.upstreams.bedrock.upstream import set_up
from kiro_asgi.upstreams.manifest import Configured
from kiro_asgi.upstreams.settings import Setup
from tests.upstreams.bedrock.test_request import LOOK, asked

VARIABLES = (
    *("AWS_BEARER_TOKEN_BEDROCK", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_DEFAULT_PROFILE"),
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"),
)
CONFIG = "[profile work]\nregion = eu-west-3\naws_access_key_id = AKIDWORK\naws_secret_access_key = s\n"
REQUEST = UpstreamRequest(
    "POST",
    "https://bedrock-runtime.us-east-1.amazonaws.com/model/a%3A0/converse",
    ((b"content-type", b"application/json"), (b"accept", b"application/json"), (b"user-agent", b"x")),
    b"{}",
)


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with one profile and no variables."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "config").write_text(CONFIG)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def made(**settings: Any) -> Setup:
    return set_up(Configured("bedrock", BEDROCK, BedrockSettings(**settings), machine=ThisMachine()))


def named(setup: Setup) -> list[str]:
    assert isinstance(setup.access, Keys)
    return [name for name, _ in setup.access.named]


def test_which_one_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that is set, a profile that is set, the variable's key, what AWS's tools find."""
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "from-the-environment")

    assert named(made(region="us-east-1", api_key="k", profile="work")) == ["bedrock.api_key"]
    assert named(made(region="us-east-1", profile="work")) == ["bedrock.profile"]
    assert named(made(region="us-east-1")) == ["AWS_BEARER_TOKEN_BEDROCK"]


def test_variables_turn_nothing_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies in the environment for other programs is used once Bedrock is set up, and not before."""
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "k")
    monkeypatch.setenv("AWS_REGION", "us-east-1")

    assert not BedrockSettings().configured
    assert BedrockSettings(profile="work").configured


@pytest.mark.parametrize(
    ("variables", "settings", "region"),
    [
        ({"AWS_REGION": "us-west-2"}, {"region": "eu-west-1"}, "eu-west-1"),
        ({"AWS_REGION": "us-west-2", "AWS_DEFAULT_REGION": "us-east-2"}, {"profile": "work"}, "us-west-2"),
        ({}, {"profile": "work"}, "eu-west-3"),
    ],
)
def test_which_region(
    variables: dict[str, str], settings: dict[str, str], region: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The setting, AWS's variables, the profile's."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert made(**settings).account == f"bedrock-runtime.{region}.amazonaws.com"


def test_a_profile_that_is_not_there() -> None:
    """It is found at the start, by its setting."""
    with pytest.raises(ConfigError, match=r"bedrock\.profile"):
        made(region="us-east-1", profile="home")


def test_without_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys need none; else the message says what to install."""
    monkeypatch.setitem(sys.modules, "botocore.session", None)

    assert named(made(region="us-east-1", api_key="k")) == ["bedrock.api_key"]
    with pytest.raises(ConfigError, match="pip install botocore"):
        made(region="us-east-1")


def test_without_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is only described looks at no variables, and finds no credentials."""
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "from-the-environment")

    assert named(Configured("bedrock", BEDROCK, BedrockSettings()).make()) == ["bedrock.profile"]
    with pytest.raises(ConfigError, match="none was given"):
        Configured("bedrock", BEDROCK, BedrockSettings(profile="work")).make()


def test_what_is_signed() -> None:
    """Headers that a proxy may change are not; those that were there stay, and the request can be signed again."""
    signed = Signer("work", "us-east-1", "bedrock", "bedrock").sign(REQUEST)
    headers = dict(signed.headers)

    assert b"SignedHeaders=content-type;host;x-amz-date," in headers[b"authorization"]
    assert b"/us-east-1/bedrock/aws4_request" in headers[b"authorization"]
    assert headers.items() >= {(b"accept", b"application/json"), (b"user-agent", b"x")}
    assert len(headers) == len(signed.headers)
    assert (signed.url, signed.body) == (REQUEST.url, REQUEST.body)


def test_without_credentials() -> None:
    """The error says what to set, and another request may find some."""
    with pytest.raises(UpstreamDenied, match=r"bedrock\.api_key") as raised:
        Signer("", "us-east-1", "bedrock", "bedrock").sign(REQUEST)

    assert raised.value.code == "credentials.aws"


def test_single_sign_on_that_has_ended(tmp_path: Path) -> None:
    """The message names the remedy."""
    sso = "sso_start_url = https://x.example\nsso_region = us-east-1\nsso_account_id = 1\nsso_role_name = r\n"
    (tmp_path / "config").write_text(f"[profile sso]\n{sso}")

    with pytest.raises(UpstreamDenied, match="aws sso login"):
        Signer("sso", "us-east-1", "bedrock", "bedrock").sign(REQUEST)


@pytest.mark.anyio
async def test_requests_are_finished_in_a_thread() -> None:
    """What may block keeps no loop; its error is the request's, and the connection's place is free again."""
    threads: list[int] = []

    def finish(request: UpstreamRequest) -> UpstreamRequest:
        threads.append(get_ident())
        raise UpstreamDenied("no", code="credentials.aws")

    transport = Transport(connections=1)
    request = UpstreamRequest("GET", "http://127.0.0.1:9/", (), finish=finish)
    with anyio.fail_after(20):
        for _ in range(2):
            with pytest.raises(UpstreamDenied):
                await transport.fetch(request, None, patience=5)  # type: ignore[arg-type]  # no answer is read

    assert len(threads) == 2 and get_ident() not in threads
    await transport.aclose()


def test_a_model_that_streams_none_is_asked_for_a_whole_answer() -> None:
    """A refusal to stream where tools are offered is remembered for the model; another refusal changes nothing."""
    upstream = made(region="us-east-1", api_key="k").upstream
    credential = Credential(CredentialKind.API_KEY, "k")
    rendered = upstream.render(asked(tools=(LOOK,)), card_of("unheard.of-v1:0"), credential)

    changed = upstream.adapt_after_error(UpstreamRejected("x", code=UNSTREAMED), rendered)

    assert changed is not None and changed.remedies[-1].lasting
    again = changed.render(asked(tools=(LOOK,)), card_of("unheard.of-v1:0"), credential)
    assert rendered.request.url.endswith("/converse-stream") and again.request.url.endswith("/converse")
    assert changed.adapt_after_error(UpstreamRejected("x", code=UNSTREAMED), again) is None
    assert upstream.adapt_after_error(KiroAsgiError("x"), rendered) is None
