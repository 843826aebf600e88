"""A command for a shell is the same request, whatever the client wrote."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Final
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kiro_asgi.tapes import Line, Tape, TapeError
from kiro_asgi.tapes.exports import as_curl

SHELL: Final = ("'", 'it\'s $(date) `id` "x"', "a\nb", "--output /etc/passwd", "@/etc/passwd", "\\", "!%0a", "a\0b")
BODY: Final = st.binary(max_size=60) | st.text(max_size=60).map(str.encode) | st.sampled_from(SHELL).map(str.encode)
VALUE: Final = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=30) | st.sampled_from(
    [words for words in SHELL if words.isprintable()]
)

PATHS: Final = ("/v1/messages", "/v1beta/models/a b/{x}[1]/ü?:generate", "/a/../b")


class _Server(ThreadingHTTPServer):
    """Keeps the last request that it had."""

    daemon_threads = True
    came: tuple[str, str, list[tuple[str, str]], bytes]


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        self.server.came = (self.command, self.path, self.headers.items(), body)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *words: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[_Server]:
    with _Server(("127.0.0.1", 0), _Handler) as server:
        Thread(target=server.serve_forever, args=(0.01,)).start()
        yield server
        server.shutdown()


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@settings(max_examples=60, deadline=None)
@given(body=BODY, value=VALUE, path=st.sampled_from(PATHS))
@example(body=b'{"long": "' + b"it's " * 100_000 + b'"}', value="", path="/v1/messages")
@example(body=bytes(range(256)), value="ü", path="/v1/messages")
def test_a_shell_sends_it_as_it_was(server, body, value, path):
    """By the real programs: what was asked for, headers and body, and a key from the environment."""
    headers = [["user-agent", value.encode()], ["content-type", b"application/json"], ["host", b"elsewhere"]]
    members = {"method": "POST", "path": path, "query": "a=1&b='{2}[3]", "headers": headers}
    tape = Tape((Line("tape", 0.0, {}), Line("client.request", 0.0, members, body)))
    command = as_curl(tape, f"http://127.0.0.1:{server.server_port}")

    subprocess.run(["sh"], input=command.encode(), env={"KIRO_ASGI_KEY": "k$(x)"}, timeout=10, check=True)

    method, target, came, sent = server.came
    assert (method, urlsplit(target).query, sent) == ("POST", "a=1&b='{2}[3]", body)
    assert unquote(urlsplit(target).path) == path
    told = {name.lower(): text.encode("latin-1").decode() for name, text in came}
    assert told["user-agent"] == value
    assert (told["authorization"], told["content-type"]) == ("Bearer k$(x)", "application/json")
    assert told["host"] == f"127.0.0.1:{server.server_port}"


def test_a_tape_without_a_request():
    """Says so."""
    with pytest.raises(TapeError, match="no client request"):
        as_curl(Tape((Line("tape", 0.0, {}),)))
