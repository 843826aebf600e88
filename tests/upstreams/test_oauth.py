"""Services whose users sign in: the base, and the one of the documentation from its sign-in to its answer."""

from __future__ import annotations

import argparse
import json
import stat
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

import pytest

from kiro_asgi import create_app
from kiro_asgi.errors import UpstreamDenied, UpstreamFault
from kiro_asgi.testing import ask, check_upstream
from kiro_asgi.testing.hostile import RUBBISH
from kiro_asgi.upstreams import OAuthVendor, Token, token_document
from tests.examples import example

lake = example("lake_upstream")
VENDOR = OAuthVendor("lake", "https://lake.example/token", "me", "hush")
NOW = 1_000_000.0


class Lake(ThreadingHTTPServer):
    """The service: each token is good for one answer, unless it is told otherwise."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.forms: list[dict[str, list[str]]] = []
        self.given = 0
        self.good: set[str] = set()
        self.revoked = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Lake

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/token":
            self._token(parse_qs(body.decode()))
        elif self.headers["authorization"].removeprefix("Bearer ") in self.server.good:
            lines = [{"text": "Deep "}, {"text": "water."}, {"end": True}]
            self._reply(200, b"".join(json.dumps(line).encode() + b"\n" for line in lines), lake.MEDIA_TYPE)
        else:
            self._reply(401, b'{"error": "who are you?"}')

    def _token(self, form: dict[str, list[str]]) -> None:
        self.server.forms.append(form)
        if self.server.revoked or form.get("password", ["swim"]) != ["swim"]:
            self._reply(400, b'{"error": "invalid_grant"}')
            return
        self.server.given += 1
        token = f"token-{self.server.given}"
        self.server.good = {token}
        answer = {"access_token": token, "refresh_token": f"again-{self.server.given}", "expires_in": 3600}
        self._reply(200, json.dumps(answer).encode())

    def _reply(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def service() -> Iterator[Lake]:
    with Lake() as running:
        thread = Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def sign_in(service: Lake, file: Path, password: str = "swim") -> int:
    parser = argparse.ArgumentParser()
    lake.add_arguments(parser)
    arguments = parser.parse_args(["--user", "ada", "--token-url", f"{service.url}/token", "--file", str(file)])
    return int(lake.run(arguments, {"LAKE_PASSWORD": password}))


async def answer(service: Lake, file: Path) -> Any:
    settings = {
        "client": {"allow_anonymous": True},
        "lake": {"endpoint": service.url, "credentials_file": str(file), "models_ttl": 0.0},
    }
    app = create_app(settings, upstreams=[lake.LAKE])
    question = {"model": "deep", "messages": [{"role": "user", "content": "Hi"}]}
    found = await ask(app, "/v1/chat/completions", question)
    await app.aclose()
    return found


@pytest.mark.anyio
async def test_from_the_sign_in_to_the_answer(service, tmp_path, capsys):
    """The token goes into a file that nobody else can read, and from there to the service."""
    file = tmp_path / "lake.json"

    assert sign_in(service, file) == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert f"KIRO_ASGI__LAKE__CREDENTIALS_FILE={file}" in capsys.readouterr().out
    found = await answer(service, file)
    assert (found.status, found.json()["choices"][0]["message"]["content"]) == (200, "Deep water.")


@pytest.mark.anyio
async def test_a_token_that_has_expired_is_renewed_and_kept(service, tmp_path):
    """By the file, which has the new one afterwards; and so is one that the service refuses before its time."""
    file = tmp_path / "lake.json"
    sign_in(service, file)
    file.write_bytes(json.dumps({**json.loads(file.read_bytes()), "expires_at": 1, "note": "mine"}).encode())

    assert (await answer(service, file)).status == 200
    kept = json.loads(file.read_bytes())
    assert (kept["access_token"], kept["refresh_token"], kept["note"]) == ("token-2", "again-2", "mine")
    assert kept["expires_at"] > time.time() + 3000
    assert service.forms[1] == {
        "grant_type": ["refresh_token"],
        "refresh_token": ["again-1"],
        "client_id": ["kiro-asgi"],
    }
    service.good = set()
    assert (await answer(service, file)).status == 200


@pytest.mark.anyio
async def test_a_sign_in_that_was_revoked_names_the_command(service, tmp_path):
    """Not the client's key is at fault, so it is no 401."""
    file = tmp_path / "lake.json"
    sign_in(service, file)
    service.revoked, service.good = True, set()
    found = await answer(service, file)

    assert found.status == 502
    assert "kiro-asgi login lake" in found.text


def test_a_wrong_password_is_told(service, tmp_path, capsys):
    """And no file is written."""
    assert sign_in(service, tmp_path / "lake.json", "sink") == 1
    assert "Lake gave no token: HTTP Error 400" in capsys.readouterr().err
    assert not (tmp_path / "lake.json").exists()


def test_the_service_keeps_the_laws() -> None:
    """Those that ours are held to."""
    lines = '{"text":"Deep wäter."}\n{"end":true}\n'.encode()

    assert check_upstream(lake.LAKE, lines, lake.MEDIA_TYPE, models=b'["deep"]')


@pytest.mark.parametrize(
    "document", [*RUBBISH, b'{"access_token": 1}', b'{"access_token": "a b"}', b'{"access_token": ""}']
)
def test_what_holds_no_token_is_refused_without_a_word_of_it(document):
    """In a file and from the token endpoint, with what to do."""
    for read in (lambda: VENDOR.parse(document, lambda name: None, NOW), lambda: token_document(document, NOW)):
        with pytest.raises(UpstreamFault, match="sign in again: kiro-asgi login"):
            read()


@pytest.mark.parametrize(
    ("fields", "end"),
    [
        ({}, None),
        ({"expires_at": 5}, 5.0),
        ({"expires_at": -1}, None),
        ({"expires_at": "5"}, None),
        ({"expires_at": 1e300}, None),
    ],
)
def test_an_end_that_is_none_is_not_known(fields, end):
    """Then the token is used until it is refused."""
    document = json.dumps({"access_token": "a", **fields}).encode()

    assert VENDOR.parse(document, lambda name: None, NOW).expires_at == end


def test_renewing_keeps_a_refresh_token_that_goes_on():
    """Services need not give another one."""
    old = Token("a", "r")
    new = VENDOR.renewed(old, 200, (), b'{"access_token": "b", "expires_in": 60}', NOW)

    assert (new.access_token, new.refresh_token, new.expires_at) == ("b", "r", NOW + 60)
    assert json.loads(VENDOR.merge(b'{"x": 1}', new)) == {
        "x": 1,
        "access_token": "b",
        "refresh_token": "r",
        "expires_at": NOW + 60,
    }


def test_the_request_for_a_renewal():
    """A form; secrets stand nowhere else."""
    request = VENDOR.renewal(Token("a", "r&r"))

    assert parse_qs(request.body.decode()) == {
        "grant_type": ["refresh_token"],
        "refresh_token": ["r&r"],
        "client_id": ["me"],
        "client_secret": ["hush"],
    }
    assert "hush" not in repr(VENDOR) + repr(request)


@pytest.mark.parametrize(
    ("status", "error"), [(400, UpstreamDenied), (401, UpstreamDenied), (500, UpstreamFault), (302, UpstreamFault)]
)
def test_a_renewal_that_fails(status, error):
    """For good, or for now."""
    with pytest.raises(error):
        VENDOR.renewed(Token("a", "r"), status, (), b"{}", NOW)
    with pytest.raises(UpstreamDenied, match="run: kiro-asgi login lake"):
        VENDOR.renewal(Token("a"))
