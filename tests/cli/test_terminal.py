"""On a terminal the command has colours and fits the width; in a pipe it says the same words, plain."""

from __future__ import annotations

import io
import os
import re
import threading
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from kiro_asgi import simulator
from kiro_asgi.cli.demo import APIS
from kiro_asgi.cli.terminal import RichPrinter, Tone
from kiro_asgi.simulator import Simulator
from tests.cli.processes import command, on_a_terminal
from tests.pictures import picture

SPINNER = re.compile(r"\r\x1b\[K(?:[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏] [^\r\n]*)?")
CODES = re.compile(r"\x1b\[[0-9;]*m")
BODY = '{"model": "claude-sonnet-4.5", "max_tokens": 64, "n": 2, "messages": [{"role": "user", "content": "Hi"}]}'

COMMANDS = [
    pytest.param(("serve",), {}, id="serve"),
    pytest.param(("check", "--all"), {"KIRO_ASGI__KIRO__REGION": "eu-central-1"}, id="check"),
    pytest.param(("doctor",), {"KIRO_API_KEY": "ksk_x", "HTTPS_PROXY": "", "HTTP_PROXY": ""}, id="doctor"),
    pytest.param(("explain", "body.json"), {"KIRO_API_KEY": "ksk_x"}, id="explain"),
    pytest.param(("demo",), {}, id="demo"),
]


@pytest.fixture
def service() -> Iterator[Simulator]:
    with simulator.running() as running:
        yield running


@pytest.fixture
def place(service: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a request, and a service that `doctor` finds."""
    (tmp_path / "body.json").write_text(BODY)
    monkeypatch.setenv("KIRO_ASGI_CONFIG", "")
    (tmp_path / "gateway.toml").write_text(f'[kiro]\nendpoint = "{service.url}"\n')
    return tmp_path


def plain(seen: str) -> str:
    """What is left on a terminal when nothing moves any more, without its colours."""
    return CODES.sub("", SPINNER.sub("", seen))


def words(text: str) -> list[str]:
    """The words, numbers and made-up ids apart: they differ from run to run."""
    return [re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "ID", re.sub(r"\d+(?:\.\d+)?", "N", word)) for word in text.split()]


@pytest.mark.parametrize("columns", [60, 120])
@pytest.mark.parametrize(("arguments", "environ"), COMMANDS)
def test_a_terminal_gets_the_words_of_a_pipe_in_its_width(
    columns: int, arguments: tuple[str, ...], environ: dict[str, str], place: Path
) -> None:
    """Colour is added and nothing is lost; a row is wider than the terminal only where a single word is, or JSON."""
    environ = {**environ, "KIRO_ASGI_CONFIG": "gateway.toml"}
    piped = command(*arguments, cwd=place, **environ)
    status, seen = on_a_terminal(*arguments, cwd=place, columns=columns, **environ)
    rows = plain(seen).splitlines()
    payload = rows.index("{") if "{" in rows else len(rows)

    assert status == piped.returncode
    assert words(plain(seen)) == words(piped.stderr + piped.stdout)
    assert CODES.search(seen) and "\x1b" not in piped.stdout + piped.stderr
    assert [row for row in rows[:payload] if len(row) > columns and len(row.split()) > 1] == []


@pytest.mark.parametrize(
    "environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"PYTHONPATH": ""}], ids=["NO_COLOR", "dumb", "without-rich"]
)
def test_where_there_is_no_colour_a_terminal_gets_what_a_pipe_gets(environ: dict[str, str], place: Path) -> None:
    """Line by line; without rich, which is an extra, as well."""
    if "PYTHONPATH" in environ:
        (place / "rich").mkdir()
        (place / "rich" / "__init__.py").write_text("raise ModuleNotFoundError('gone', name='rich')\n")
    piped = command("check", cwd=place, **environ)
    status, seen = on_a_terminal("check", cwd=place, columns=60, **environ)

    assert (status, seen) == (piped.returncode, piped.stderr + piped.stdout)


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_ctrl_c_leaves_no_traceback(loop: str, tmp_path: Path) -> None:
    """In the middle of an answer, with a server and two connections; the status is what shells expect."""
    arguments = ("demo", "--loop", loop, "--question", "sim:count=99 sim:slow=0.2")
    status, seen = on_a_terminal(*arguments, cwd=tmp_path, interrupt_at="POST ")

    assert status == 130
    assert plain(seen).strip().splitlines()[-1].endswith("POST /v1/chat/completions")


@pytest.mark.parametrize(
    "arguments",
    [
        ("demo",),
        ("demo", "--loop", "trio"),
        ("doctor", "--no-request"),
        ("check", "--all"),
        ("explain", "body.json"),
    ],
    ids=" ".join,
)
def test_a_reader_that_leaves_after_a_line_gets_no_traceback(arguments: tuple[str, ...], place: Path) -> None:
    """``| head -1``: the command ends, and says nothing of it."""
    pipe = place / "pipe"
    os.mkfifo(pipe)

    def head() -> None:
        with pipe.open() as reader:
            reader.readline()

    thread = threading.Thread(target=head)
    thread.start()
    good = {"KIRO_API_KEY": "k", "KIRO_ASGI__CLIENT__API_KEYS": "k", "KIRO_ASGI_CONFIG": "gateway.toml"}
    done = command(*arguments, cwd=place, output=pipe, **good)
    thread.join()

    assert (done.returncode in (0, 1), done.stderr) == (True, "")


WORDS = st.lists(st.text(st.characters(exclude_categories=["C", "Z"]), max_size=30), max_size=12).map(" ".join)


@given(st.lists(st.tuples(WORDS, st.sampled_from(Tone)), max_size=4), st.integers(10, 60), st.integers(0, 40))
def test_lines_are_cut_between_words_only(parts: list[tuple[str, Tone]], columns: int, hang: int) -> None:
    """Whatever the widths: the words stay, no row is too wide unless it is one word, and later rows are indented."""
    file = io.StringIO()
    RichPrinter(file, Console(file=file, width=columns, color_system=None, highlight=False)).line(*parts, hang=hang)
    first, *others = file.getvalue().split("\n")[:-1]
    text = "".join(text for text, _ in parts)

    assert [word for row in (first, *others) for word in row.split(" ") if word] == [w for w in text.split(" ") if w]
    assert all(cell_len(row) <= columns or len(row.split()) <= 1 for row in (first, *others))
    assert all(row.startswith(" " * min(hang, columns // 3)) for row in others)


def test_the_picture_of_a_run_stands_alone() -> None:
    """``python -m tests.pictures demo FILE`` for the pages: all three answers, and nothing that is fetched."""
    drawing = picture("demo")
    text = "".join(ET.fromstring(drawing).itertext()).replace("\xa0", " ")

    assert [text.count(f"POST {api.path}") for api in APIS] == [1, 1, 1]
    assert text.count('get_weather {"city": "Bergen"}') == len(APIS)
    assert "url(http" not in drawing and "@import" not in drawing
