"""The commands on tapes, on a tape of the simulated service."""

from __future__ import annotations

import gzip
import json
import shlex
import urllib.error
import urllib.request
from html.parser import HTMLParser
from pathlib import Path

import anyio
import pytest

from kiro_asgi import simulator
from kiro_asgi.cli import main
from kiro_asgi.tapes import read_tape
from tests.cli.processes import serving
from tests.tapes.recording import question, tapes_of


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tape with its words, of a call that comes in pieces."""
    folder = tmp_path_factory.mktemp("tapes")

    async def record() -> None:
        async with simulator.serve() as sim:
            asked = [question("anthropic", "Plans of mine sim:tool", tools=True)]
            await tapes_of(sim, folder, asked, tapes={"when": "all", "content": "full"})

    anyio.run(record)
    (path,) = folder.iterdir()
    return path


def test_replay(tape, capsys):
    """The same, however it is cut; other settings make a difference, which is told with its place."""
    for options in ([], ["--rechunk", "1"], ["--rechunk", "random:7", "--diff", str(tape)]):
        assert main(["replay", str(tape), *options]) == 0
    capsys.readouterr()

    assert main(["replay", str(tape), "--stage", "toolcallassembler"]) == 0
    assert "ToolCallAssembler" in capsys.readouterr().out
    assert main(["replay", str(tape), "--set", "stream.synthetic=true"]) == 1
    assert "differs at byte" in capsys.readouterr().out
    assert main(["replay", str(tape), "--rechunk", "often"]) == 1
    assert "--rechunk must be recorded" in capsys.readouterr().err


class Elements(HTMLParser):
    """Elements and attributes of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {(name, value or "") for name, value in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def test_page(tape, tmp_path, capsys):
    """One file, without scripts and without anything from elsewhere; whatever others wrote is text in it."""
    evil = "</pre><script>alert(1)</script><img src=http://evil.example onerror=alert(1)>\u202egnp"
    quoted = json.dumps(json.dumps(evil)[1:-1])[1:-1]  # in a body, in a line
    told = tmp_path / "hostile.tape.jsonl"
    told.write_bytes(tape.read_bytes().replace(b"Plans of mine", quoted.encode()))
    page = tmp_path / "page.html"

    main(["replay", str(told), "--html", str(page)])

    capsys.readouterr()
    seen = Elements(page.read_text("utf-8"))
    assert not seen.names & {"script", "img", "link", "iframe", "object", "base", "form"}
    assert {name for name, _ in seen.attributes} <= {
        *("charset", "name", "content", "http-equiv", "lang", "id", "href", "scope", "class", "role"),
        *("viewbox", "preserveaspectratio", "x", "y", "width", "height"),
    }
    assert all(value.startswith("#s") for name, value in seen.attributes if name == "href")
    assert "<script>alert(1)</script>" in seen.text and "get_weather" in seen.text and "FrameDecoder" in seen.text
    assert "\u202e" not in seen.text and "\\u202e" in seen.text


def test_check_and_mask(tape, tmp_path, capsys):
    """A masked tape has no word of the other, is packed or not, and gives the same again; a secret is found."""
    assert main(["tape", "check", str(tape)]) == 0
    capsys.readouterr()
    assert main(["tape", "mask", str(tape)]) == 0
    masked = capsys.readouterr().out
    packed = tmp_path / "masked.tape.jsonl.gz"
    packed.write_bytes(gzip.compress(masked.encode()))
    bad = tmp_path / "bad.tape.jsonl"
    bad.write_bytes(tape.read_bytes().replace(b"Plans of mine", b"sk-" + b"a1" * 20))

    assert main(["tape", "check", str(packed)]) == 0
    assert read_tape([masked.encode()]).is_masked and "Plans" not in masked
    assert main(["tape", "check", str(bad)]) == 1
    assert "looks like a secret" in capsys.readouterr().out
    assert main(["tape", "check", str(tmp_path / "none")]) == 1


def test_for_other_tools(tape, capsys):
    """A command, and an archive with one entry for the client and one for the service."""
    assert main(["tape", "curl", str(tape)]) == 0
    words = shlex.split(capsys.readouterr().out)
    assert words[:2] == ["printf", "%s"] and json.loads(words[2])["stream"] is True
    assert "authorization: Bearer $KIRO_ASGI_KEY" in words

    assert main(["tape", "har", str(tape)]) == 0
    log = json.loads(capsys.readouterr().out)["log"]
    assert [entry["response"]["status"] for entry in log["entries"]] == [200, 200]
    assert "message_stop" in log["entries"][0]["response"]["content"]["text"]


def test_serve(tape, tmp_path, capsys):
    """A client gets the answer of then; whoever asks something else is told, and so is who forgets --simulate."""
    body = read_tape([tape.read_bytes()]).request.data
    options = ["--simulate", "--tapes", str(tape.parent), "--tape-speed", "0"]
    with serving(*options, cwd=tmp_path) as server:
        assert server.told("Answers") == "those of 1 tapes, to the requests that are on them"

        def ask(data: bytes) -> bytes:
            request = urllib.request.Request(f"{server.base}/v1/messages", data, {"content-type": "application/json"})
            with urllib.request.urlopen(request, timeout=20) as response:
                return response.read()

        assert b"get_weather" in ask(body) and b"get_weather" in ask(body.replace(b"Plans", b"Plums"))
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(body.replace(b"Plans", b"A plan"))
        with refused.value as error:
            assert error.code == 400 and b"None of 1 tapes has this request" in error.read()
    assert main(["serve", "--tapes", str(tape.parent)]) == 1
    assert "add --simulate" in capsys.readouterr().err
    assert main(["serve", "--simulate", "--tapes", str(tmp_path)]) == 1
    assert "has no *.tape.jsonl" in capsys.readouterr().err
