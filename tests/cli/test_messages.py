"""What ``kiro-asgi`` says to whoever has just begun, or was just woken; and what it says unasked."""

from __future__ import annotations

import os
import pty
import socket
import ssl
from contextlib import suppress
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from kiro_asgi import simulator
from kiro_asgi.cli import main
from kiro_asgi.cli.docs import PAGES
from tests.cli.processes import command, serving
from tests.cli.test_readiness import NO_CLIENT, NO_SERVICE


def test_with_nothing_set_up_it_says_what_to_set(tmp_path: Path) -> None:
    """Both things that are missing, the variables, why the key that is there does not count, and how to try it."""
    done = command("serve", "--port", "0", cwd=tmp_path, OPENAI_API_KEY="sk-canary")

    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "kiro-asgi: 2 settings cannot be used:",
        f"  {NO_CLIENT}",
        "    -> in the environment: KIRO_ASGI__CLIENT__API_KEYS, KIRO_ASGI__CLIENT__TRUST_HOST, "
        "KIRO_ASGI__CLIENT__ALLOW_ANONYMOUS",
        f"  {NO_SERVICE}; OPENAI_API_KEY is there, but no other program's key is used unasked: to use it, set "
        "KIRO_ASGI__OPENAI__API_KEY to it",
        "    -> in the environment: KIRO_ASGI__ANTHROPIC__API_KEY, KIRO_ASGI__GEMINI__API_KEY, "
        "KIRO_ASGI__BEDROCK__API_KEY, KIRO_ASGI__CUSTOM__NAME__ENDPOINT",
        "To try the gateway without an account or settings: kiro-asgi serve --simulate",
    ]


def test_a_broken_file_is_one_problem(tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").write_text("[kiro]\napi_key = ksk_1\n")
    done = command("serve", "--port", "0", "--config", "gateway.toml", cwd=tmp_path)

    assert done.returncode == 1
    assert done.stderr.splitlines()[:2] == [
        "kiro-asgi: 1 setting cannot be used:",
        "  gateway.toml: is not TOML: Invalid value (at line 2, column 11)",
    ]


@pytest.mark.parametrize("how", ["serve", "simulate", "check", "doctor"])
def test_a_misspelt_prefix_is_warned_of(how: str, tmp_path: Path) -> None:
    """In the log of a gateway that starts, and by the commands that look at settings."""
    misspelt = {"KIRO_ASGI_CLIENT__API_KEYS": "x", "KIRO_ASGI__CLIENT__ALLOW_ANONYMOUS": "1", "KIRO_API_KEY": "ksk_1"}
    words = "KIRO_ASGI_CLIENT__API_KEYS is not read: names of settings begin with KIRO_ASGI__"
    if how in ("check", "doctor"):
        options = ["--no-request"] if how == "doctor" else []
        done = command(how, *options, cwd=tmp_path, KIRO_ASGI__KIRO__ENDPOINT="http://127.0.0.1:1", **misspelt)
        said = done.stdout + done.stderr
    else:
        with serving(*(["--simulate"] if how == "simulate" else []), cwd=tmp_path, **misspelt) as server:
            said = server.stop()

    assert words in said
    assert said.count("did you mean KIRO_ASGI__CLIENT__API_KEYS?") == 1


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("http://127.0.0.1", "'http://127.0.0.1': give the host alone, without http:// and without a path"),
        (
            "a b",
            "'a b': there is no host of this name; --host 127.0.0.1 is for this machine alone, 0.0.0.0 is for others",
        ),
        (
            "192.0.2.1",
            "192.0.2.1 port 0: Cannot assign requested address; this machine has no such address; --host 127.0",
        ),
    ],
)
def test_a_bad_host_is_told_as_one(host: str, words: str, tmp_path: Path) -> None:
    """Not as one where others could connect without a key."""
    done = command("serve", "--simulate", "--host", host, "--port", "0", cwd=tmp_path, KIRO_ASGI__CLIENT__API_KEYS="k")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"kiro-asgi: cannot listen on {words}")
    if "b" in host or ":" in host:
        assert "cannot listen" in command("serve", "--simulate", "--host", host, "--port", "0", cwd=tmp_path).stderr


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_tls_at_a_plain_port_is_logged(loop: str, tmp_path: Path) -> None:
    """A client sees no more than a broken connection, so its operator has to; a flood of them is a few lines."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with serving("--simulate", "--loop", loop, cwd=tmp_path) as server:
        port = int(server.base.rpartition(":")[2])
        for _ in range(40):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as plain:
                context.wrap_socket(plain).close()
        assert urlopen(f"{server.base}/health", timeout=10).status == 200
        said = server.stop().splitlines()

    assert "a client speaks TLS to a port that serves plain HTTP; let it use http:// instead of https://" in said[0]
    assert 16 <= len(said) < 20, said


def test_state_that_cannot_be_opened(tmp_path: Path) -> None:
    """Of a file that was named, the start fails; without one, the state is in memory, and what to do is logged."""
    (tmp_path / "file").touch()
    named = {"KIRO_ASGI__STATE__ENGINE": "sqlite", "KIRO_ASGI__STATE__PATH": str(tmp_path / "file" / "state.db")}
    known = {"KIRO_API_KEY": "ksk_1", "KIRO_ASGI__CLIENT__API_KEYS": "k"}
    done = command("serve", "--port", "0", cwd=tmp_path, **known, **named)
    with serving(cwd=tmp_path, **{**known, "XDG_STATE_HOME": str(tmp_path / "file")}) as server:
        said = server.stop()

    assert done.returncode == 1
    assert f"state.path: {tmp_path / 'file' / 'state.db'} cannot be used: Not a directory" in done.stderr
    assert "the state is kept in memory, and lost when the process ends" in said
    assert "let state.path name a file in a folder that this user can write, or set state.engine to memory" in said


def test_usage_that_is_not_there_yet_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """Nothing was kept, nothing is kept, nothing was written in those days, or it is in another process."""

    def told(**environ: str) -> tuple[int, str, str]:
        with monkeypatch.context() as changed:
            for name, value in environ.items():
                changed.setenv(f"KIRO_ASGI__{name}", value)
            return main(["usage"]), *capsys.readouterr()

    file = {"STATE__ENGINE": "sqlite", "STATE__PATH": str(tmp_path / "state.db")}
    status, out, never = told()
    assert (status, out) == (1, "")
    assert "state.usage: nothing was written yet: there is no file " in never and "up to 5 seconds after" in never
    status, out, off = told(**file)
    assert (status, out) == (0, "")
    assert "state.usage is off in these settings, and a gateway with them keeps none." in off
    status, out, on = told(**file, STATE__USAGE="1")
    assert (status, out) == (0, "")
    assert on.startswith("No usage was written for ")
    assert on.endswith("A gateway writes the usage of an answer up to 5 seconds after its end.\n")
    for name, value in {"SIMULATE": "1", "STATE__ENGINE": "memory"}.items():
        status, _, elsewhere = told(**{name: value})
        assert status == 1
        assert "keeps usage in its own memory, where its inspector alone can show it" in elsewhere


def test_usage_is_kept_in_simulation(tmp_path: Path) -> None:
    """For the inspector: it starts, and answers."""
    with serving("--simulate", "--inspect", cwd=tmp_path, KIRO_ASGI__STATE__USAGE="1") as server:
        assert urlopen(f"{server.base}/health", timeout=10).status == 200
        assert server.stop() == ""


def test_the_banner_says_what_to_do_next(tmp_path: Path) -> None:
    """Each vendor's base URL, a request to copy that works, and how to look inside; a pointer that can be followed."""
    with serving("--simulate", "--root-path", "/llm", cwd=tmp_path) as server:
        base = server.base
        assert [line.partition(":")[0] for line in server.announced[:3]] == [
            "OpenAI base_url",
            "Anthropic base_url",
            "Gemini base_url",
        ]
        assert (server.told("OpenAI base_url"), server.told("Gemini base_url")) == (f"{base}/v1", base)
        assert server.told("Look inside").startswith("kiro-asgi serve --inspect")
        assert server.told("In a browser") == f"{base}/"
        assert "kiro-asgi docs markers" in server.told("Marker words")
        command_line = server.told("Try it")
        url, body = command_line.split()[1], command_line.split("-d ")[1].strip("'")
        request = Request(url, body.encode(), {"content-type": "application/json"})
        with urlopen(request, timeout=10) as answer:
            assert b"What is ASGI?" in answer.read()
        assert b"Base URLs" in urlopen(Request(f"{base}/", headers={"accept": "text/html"}), timeout=10).read()
        server.stop()


def test_the_banner_of_a_real_service(tmp_path: Path) -> None:
    """A model that costs little, and a place for the key, which is not shown."""
    with simulator.running() as service:
        environ = {"KIRO_API_KEY": "ksk_1", "KIRO_ASGI__KIRO__ENDPOINT": service.url}
        with serving(cwd=tmp_path, KIRO_ASGI__CLIENT__API_KEYS="canary", **environ) as server:
            line = server.told("Try it")
            server.stop()

    assert "Bearer YOUR-KEY" in line and '"claude-haiku-4.5"' in line
    assert "canary" not in "".join(server.announced)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_printed(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the installed package's own tables, without markup."""
    assert main(["docs", page]) == 0
    text = capsys.readouterr().out

    assert {"markers": "sim:tool", "settings": "KIRO_ASGI__CLIENT__API_KEYS", "errors": "UpstreamThrottled"}[
        page
    ] in text
    assert "``" not in text


def test_pages_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [*PAGES]
    assert main(["docs", "nonsense"]) == 1
    assert "there is no page 'nonsense'; there are: markers, settings, errors" in capsys.readouterr().err


@pytest.mark.parametrize(("options", "lines"), [([], 1), (["--no-access-log"], 0)])
def test_a_terminal_shows_each_request(options: list[str], lines: int, tmp_path: Path) -> None:
    """Whoever sits there wants to see that something happens; a file or a supervisor is sent none unasked."""
    ours, theirs = pty.openpty()
    with serving("--simulate", *options, cwd=tmp_path, stderr=theirs) as server:
        urlopen(f"{server.base}/v1/models", timeout=10).read()
        server.stop()
    os.write(theirs, b".")
    said = os.read(ours, 65_536).decode()
    os.close(ours)
    os.close(theirs)

    assert said.count("GET /v1/models 200") == lines
