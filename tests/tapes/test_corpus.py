"""What was recorded once is what clients are sent today, however the service's bytes are cut."""

from __future__ import annotations

from itertools import cycle

from kiro_asgi.cli import main
from kiro_asgi.inspector.replays import answer_of
from kiro_asgi.replay import derive
from kiro_asgi.tapes import load_tape
from tests.tapes.corpus import CORPUS, cases, following

TAPES = sorted(CORPUS.iterdir())
CUTS = ("1", "7", "random:1", "random:2")


def test_the_same_today(capsys):
    """Byte for byte; and no tape holds what looks like a secret."""
    recorded = {f"{name}.tape.jsonl" for name in (*cases(), *following())}
    assert recorded <= {path.name for path in TAPES}  # the others are real clients'
    failed = [path.name for path in TAPES if main(["tape", "check", str(path)])]
    assert failed == [], capsys.readouterr().out


def test_however_it_is_cut():
    """Each of a few ways to cut is tried with some of the tapes."""
    for path, cut in zip(TAPES[::3], cycle(CUTS), strict=False):
        assert derive(load_tape(path), rechunk=cut).difference is None, f"kiro-asgi replay {path} --rechunk {cut}"


def test_the_answer_that_is_shown():
    """Of each the inspector has blocks that have all come, and who said why it ended; of a torn one what had come."""
    for path in TAPES:
        told = answer_of(derive(load_tape(path), changed={"stream.relay": "never"}))
        whole = path.name != "torn.tape.jsonl"
        assert told["blocks"] and (told["end"] is not None) == whole, path
        if whole:
            assert told["end"]["said_by"] and all(block["ended"] is not None for block in told["blocks"]), path
