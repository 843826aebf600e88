"""The plugin for pytest: a tape is a test, and a test's services are tapes; it costs nothing where there are none."""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

from kiro_asgi import App, create_app, simulator
from kiro_asgi.replay import service
from kiro_asgi.tapes import load_tapes

pytest_plugins = ("pytester",)

IMPORTED = (App, create_app, service)
"""What runs of pytest within this one use: they forget modules that they import first, but not who refers to them."""

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "docs" / "examples" / "test_with_tape.py"
TAPE = EXAMPLE.parent / "tapes" / "morning.tape.jsonl"
PLUGIN = ("-p", "kiro_asgi.pytest_plugin", "-p", "no:cacheprovider", "-W", "error")


def test_a_report_is_a_test(pytester: pytest.Pytester) -> None:
    """It passes as it is, packed, and cut differently, as does the example beside it; else it says where it differs."""
    tape = TAPE.read_text("utf-8")
    sends = [line for line in tape.splitlines() if '"client.bytes"' in line]
    shutil.copy(EXAMPLE, pytester.path)
    shutil.copytree(TAPE.parent, pytester.path / "tapes")
    Path("packed.tape.jsonl.gz").write_bytes(gzip.compress(tape.encode()))
    result = pytester.runpytest_inprocess(*PLUGIN, "--tape-rechunk", "3")
    result.assert_outcomes(passed=4)

    Path("differs.tape.jsonl").write_text(tape.replace(sends[-1], sends[-1].replace("chat.comp", "chat.cump")), "utf-8")
    Path("torn.tape.jsonl").write_text("{}\n", "utf-8")
    result = pytester.runpytest_inprocess(*PLUGIN, "differs.tape.jsonl", "torn.tape.jsonl")

    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "what the client would be sent differs at byte *",
            "  same   *object*chat.c'",
            "  tape   b'umpletion*",
            "  replay b'ompletion*",
            "kiro-asgi replay *differs.tape.jsonl --stage all shows*",
            "*a line has no kind*",
        ]
    )
    assert "Traceback" not in result.stdout.str() and "derive" not in result.stdout.str()


def test_recorded_when_asked(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a tape nobody is asked; what a service answers to the option's run is there in the next."""
    shutil.copy(EXAMPLE, pytester.path)
    missing = pytester.runpytest_inprocess(*PLUGIN)
    missing.assert_outcomes(errors=2)
    missing.stdout.fnmatch_lines(["*morning.tape.jsonl is missing; --record-tapes records it*"])

    with simulator.running() as sim, monkeypatch.context() as environment:
        environment.setenv("KIRO_API_KEY", "ksk_recording")
        environment.setenv("KIRO_ASGI__KIRO__ENDPOINT", sim.url)
        shutil.copytree(TAPE.parent, pytester.path / "tapes" / "morning")  # these are deleted
        recorded = pytester.runpytest_inprocess(*PLUGIN, "--record-tapes", "full", "-k", "morning")
        recorded.assert_outcomes(passed=1, deselected=1)
    (tape,) = load_tapes(pytester.path / "tapes" / "morning")
    assert b"Good morning!" in tape.request.data and b"ksk_recording" not in tape.write()

    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(passed=3)


def test_it_costs_nothing() -> None:
    """Where the package is installed, every run of pytest loads it, by the name of its module, which may be given."""
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    assert setup["options.entry_points"]["pytest11"].split("=")[0].strip() == "kiro_asgi.pytest_plugin"
    code = (
        "import sys, kiro_asgi.pytest_plugin; print(*sorted(it for it in sys.modules if it.startswith('kiro_asgi.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.split() == ["kiro_asgi._version", "kiro_asgi.pytest_plugin"]
