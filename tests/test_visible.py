"""What others have written reaches a terminal and a log without a character that a terminal obeys, or that hides."""

from __future__ import annotations

import ast
import io
import json
import logging
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kiro_asgi
from kiro_asgi.cli.terminal import PlainPrinter, Spinner, printer_on
from kiro_asgi.observers.logs import LineFormatter
from kiro_asgi.quota.base import UsageKey, UsageRow
from kiro_asgi.quota.ledger import as_csv, totals
from kiro_asgi.visible import visible, visible_json

PACKAGE = Path(kiro_asgi.__file__).parent

EVIL = "a\x1b[31m\x9b2J\u202eb\u2066c\u200bd\u2028e\r\n\x00\x7f\ufeff\U000e0041\ud800"

PRINTS = {"cli/terminal.py", "simulator/__main__.py"}
"""The printer; and the simulator's own command, which prints nothing but its address and its own markers."""


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def obeyed(text: str) -> set[str]:
    """The characters that a terminal obeys, or does not show."""
    return {it for it in text if unicodedata.category(it) in ("Cc", "Cf", "Cs", "Zl", "Zp") and it != "\n"}


@given(st.text(st.characters(exclude_categories=()), max_size=30))
def test_nothing_unseen_is_left(text):
    """Whatever a text is made of; JSON means the same afterwards."""
    assert obeyed(visible(text)) == set() and "\n" not in visible(text)
    visible(text).encode()
    written = json.dumps([text], ensure_ascii=False)
    assert obeyed(visible_json(written)) == set()
    assert json.loads(visible_json(written)) == [text]


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_the_printer(stream):
    """It escapes in each of its ways to print, with colours and without."""
    output = stream()
    printer = printer_on(output, {"TERM": "xterm", **({} if stream is Terminal else {"NO_COLOR": "1"})})
    printer.line(EVIL, hang=2)
    printer.text(EVIL)
    printer.json(json.dumps(EVIL, ensure_ascii=False))
    spinner = io.StringIO()
    Spinner(spinner, animated=True, frames="|").show(EVIL)

    assert "\x1b[31m" not in output.getvalue()
    assert obeyed(output.getvalue()) <= ({"\x1b"} if stream is Terminal else set())
    assert obeyed(spinner.getvalue()) == {"\r", "\x1b"}  # its own: to the start of the line, and erase it
    plain = io.StringIO()
    PlainPrinter(plain).line(EVIL)
    assert plain.getvalue().count("\n") == 1


def test_log_lines():
    """A record is one line; a traceback's lines are indented, so that no text in it can look like a record."""
    try:
        raise ValueError("x\n2026-11-25 INFO kiro_asgi: forged" + EVIL)
    except ValueError as error:
        caught = (type(error), error, error.__traceback__)
    record = logging.LogRecord("kiro_asgi", logging.ERROR, "", 0, "model %s", (EVIL,), caught)

    first, *rest = LineFormatter("%(message)s").format(record).split("\n")

    assert first.startswith("model a\\x1b[31m")
    assert all(line.startswith("    ") for line in rest) and any("forged" in line for line in rest)
    assert obeyed("\n".join([first, *rest])) == set()


def test_tables_for_spreadsheets():
    """No control character, and no formula."""
    rows = [UsageRow(UsageKey("2026-11-25", "k", "u", model), {"requests": 1}) for model in (EVIL, "=1+1", "\t=1")]
    written = as_csv(totals(rows, ["model"]), ["model"])
    assert obeyed(written) == set()
    assert written.count("\n") == 4 and "\n=" not in written


def test_one_module_prints():
    """No other calls ``print``, or writes to a standard stream: what it prints would not be escaped."""
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and _prints(node.func)
    }
    assert found == PRINTS


def _prints(called: ast.expr) -> bool:
    words = ast.unparse(called)
    return words == "print" or words.startswith(("sys.stdout.write", "sys.stderr.write", "sys.stdout.buffer"))
