"""The file of the Codex command in every shape, also hostile ones; it is read as the gateway reads it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kiro_asgi.errors import ConfigError
from kiro_asgi.net.credentials.pool import Credentials
from kiro_asgi.net.transport import Transport
from kiro_asgi.upstreams.base import CredentialKind
from kiro_asgi.upstreams.openai.codex_tokens import codex_sign_in
from kiro_asgi.upstreams.openai.settings import CODEX_ENDPOINT
from tests.codex_files import ACCOUNT, AUTH, jwt, signed_in, write

pytestmark = pytest.mark.anyio

KEY_ENDPOINT = "https://api.openai.com/v1"
TOKEN = jwt()


def opened(path: Path) -> Credentials:
    return Credentials.create(codex_sign_in("openai", str(path), "", KEY_ENDPOINT), Transport())


GOOD: dict[str, tuple[Any, tuple[str, str, str]]] = {
    "signed in": (signed_in(TOKEN), (TOKEN, ACCOUNT, CODEX_ENDPOINT)),
    "without an account": (signed_in(TOKEN, account_id=None), (TOKEN, ACCOUNT, CODEX_ENDPOINT)),
    "account of the id token": (
        signed_in("opaque", account_id=None, id_token=jwt(7, **{AUTH: {"chatgpt_account_id": "acc-7"}})),
        ("opaque", "acc-7", CODEX_ENDPOINT),
    ),
    "an old file": ({**signed_in(TOKEN), "auth_mode": None}, (TOKEN, ACCOUNT, CODEX_ENDPOINT)),
    "both, signed in": ({**signed_in(TOKEN), "OPENAI_API_KEY": "sk-canary"}, (TOKEN, ACCOUNT, CODEX_ENDPOINT)),
    "both, by the key": (
        {**signed_in(TOKEN), "OPENAI_API_KEY": "sk-canary", "auth_mode": "apikey"},
        ("sk-canary", "", KEY_ENDPOINT),
    ),
    "a key": ({"OPENAI_API_KEY": "sk-canary"}, ("sk-canary", "", KEY_ENDPOINT)),
    "more members": ({**signed_in(TOKEN), "new": {"a": [1]}}, (TOKEN, ACCOUNT, CODEX_ENDPOINT)),
    "no expiry": (signed_in(jwt(8, exp=None)), (jwt(8, exp=None), ACCOUNT, CODEX_ENDPOINT)),
}


@pytest.mark.parametrize("name", GOOD)
async def test_good_files(name, tmp_path):
    """Whose token or key it holds, of which account, and where it is used."""
    document, (secret, account, endpoint) = GOOD[name]
    held = opened(write(tmp_path / "auth.json", document))
    credential = await held.get()
    kept = (document.get("tokens") or {}).values()

    assert (credential.secret, credential.account, credential.endpoint) == (secret, account, endpoint)
    assert (credential.kind is CredentialKind.API_KEY) == (not account)
    assert {it for it in (*kept, document.get("OPENAI_API_KEY")) if it and it != ACCOUNT} <= set(held.secrets)
    assert secret not in repr(held) + repr(credential)


NAN = jwt(9).split(".")
UNREADABLE: dict[str, tuple[Any, str]] = {
    "empty": ("", "it is not JSON"),
    "garbage": ("\0\1\2 not a file", "it is not JSON"),
    "half": (json.dumps(signed_in(TOKEN))[:200], "it is not JSON"),
    "a list": ([], "it is not a JSON object"),
    "nothing": ({}, "tokens.access_token is missing"),
    "signed out": ({"OPENAI_API_KEY": None, "tokens": None}, "tokens.access_token is missing"),
    "another sign-in": ({"auth_mode": "agentIdentity", "agent_identity": "x"}, "tokens.access_token is missing"),
    "tokens of another kind": ({"tokens": ["a"]}, "tokens.access_token is missing"),
    "a number": (signed_in(7), "tokens.access_token is missing"),  # type: ignore[arg-type]
    "no account": (signed_in("opaque", account_id=None, id_token=None), "tokens.account_id is missing"),
    "too deep": ('{"a":' + "[" * 9999 + "]" * 9999 + "}", "it is nested too deeply"),
    "NaN in the file": ('{"tokens": NaN}', "it is not JSON"),
    "NaN for an end": (signed_in(jwt(9, exp=float("nan"))), "the claims of tokens.access_token are not JSON"),
    "an end that is none": (signed_in(jwt(9, exp="soon")), "the claim exp of tokens.access_token is no time"),
    "an end that is never": (signed_in(jwt(9, exp=10**30)), "the claim exp of tokens.access_token is no time"),
    "claims that are none": (signed_in("a.%%%.c"), "the claims of tokens.access_token are not JSON"),
    "a line in the account": (signed_in(TOKEN, account_id="acc\r\nx-evil: 1"), "tokens.account_id has characters"),
    "a long account": (signed_in(TOKEN, account_id="a" * 201), "tokens.account_id has characters"),
    "a line in the token": (signed_in("canary\r\nx-evil: 1"), "tokens.access_token has characters"),
    "a line in the key": ({"OPENAI_API_KEY": "sk-canary\nx"}, "OPENAI_API_KEY has characters"),
    "a letter in the key": ({"OPENAI_API_KEY": "sk-canäry"}, "OPENAI_API_KEY has characters"),
    "a store": ("SQLite format 3\0", ""),
    "huge": (" " * 64 * 1024 * 1024, "is too large"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_unreadable_files(name, tmp_path):
    """The error names the setting, the file and the place in it, and quotes nothing."""
    document, reason = UNREADABLE[name]
    path = write(tmp_path / "auth.json", document)
    with pytest.raises(ConfigError) as caught:
        opened(path)

    assert f"openai.credentials_file: {path}" in caught.value.message
    assert reason in caught.value.message
    assert not {"canary", "evil"} & set(caught.value.message.replace(str(path), "").split())
    assert len(caught.value.message) < 500


def test_no_file(tmp_path):
    """Missing, a folder, a loop of links, a pipe, one that nobody may read: each is named, and none is waited for."""
    path = tmp_path / "auth.json"
    with pytest.raises(ConfigError, match=r"auth\.json: No such file"):
        opened(path)
    path.symlink_to(path)
    with pytest.raises(ConfigError, match=r"auth\.json: Too many levels of symbolic links"):
        opened(path)
    with pytest.raises(ConfigError, match=r"Is a directory|not an ordinary file"):
        opened(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="not an ordinary file"):
        opened(tmp_path / "pipe")
    if os.geteuid():
        with pytest.raises(ConfigError, match="Permission denied"):
            write(tmp_path / "secret", signed_in(TOKEN)).chmod(0)
            opened(tmp_path / "secret")


async def test_a_file_that_cannot_be_read_any_more(tmp_path):
    """The token goes on as long as it is good: the command writes in place, and another moment reads it."""
    path = write(tmp_path / "auth.json", signed_in(TOKEN))
    held = opened(path)
    for broken in ("", "{", json.dumps({"tokens": {}})):
        write(path, broken)
        for state in held._states:
            state._read_at = 0.0
        assert (await held.get()).secret == TOKEN
    path.unlink()
    assert (await held.get()).secret == TOKEN


async def test_it_is_looked_at_once_a_second(tmp_path):
    """However many requests come."""
    held = opened(write(tmp_path / "auth.json", signed_in(TOKEN)))
    await held.get()
    (state,) = held._states
    looked = state._read_at
    await held.get()
    await held.get()

    assert state._read_at == looked
