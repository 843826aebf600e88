"""A tape from somebody else is data: whatever is in it, a replay reads it, and does nothing outside of itself."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from kiro_asgi import errors
from kiro_asgi.asgi.kept.taping import is_replayed
from kiro_asgi.cli import main
from kiro_asgi.config import Settings
from kiro_asgi.config.leaves import Leaf, leaves
from kiro_asgi.replay import derive
from kiro_asgi.replay.service import settings_at
from kiro_asgi.tapes import Tape, TapeError, load_tape, read_tape

TAPE = Path(__file__).with_name("corpus") / "kiro-anthropic.tape.jsonl"


def test_no_setting_reaches_outside(tmp_path):
    """A check of a tape that names every setting there is writes, deletes, reads, dials and starts nothing."""
    command = [sys.executable, "-m", "tests.tapes.watched", str(TAPE), str(tmp_path)]

    watched = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)

    assert watched.returncode == 0, watched.stderr[-2000:]
    found = json.loads(watched.stdout)
    assert found["did"] == {}
    assert found["not_replayed"] == []
    assert [path.name for path in tmp_path.iterdir()] == ["told.tape.jsonl"]


def tape_with(lines: Iterable[bytes] = (), **members: Any) -> bytes:
    """A tape of the corpus, with other members of its first line, and more lines."""
    tape = load_tape(TAPE)
    head = evolve(tape.head, members={**tape.head.members, **members})
    return Tape((head, *tape.lines[1:])).write() + b"".join(lines)


CHOICE = b'{"k":"credential","t":0,"upstream":"kiro","asked":"get",%b}\n'

HOSTILE: dict[str, Callable[[], bytes]] = {
    "a table in place of a setting": lambda: tape_with(settings={"kiro": {"credentials_command": "touch x"}}),
    "a setting within a value": lambda: tape_with(settings={"kiro.region.x": 1, "kiro.region": "us-east-1"}),
    "settings of an unknown kind": lambda: tape_with(settings=["state.path"], upstreams=[{}, ["kiro"], None]),
    "too many settings": lambda: tape_with(settings={f"custom.a{n}.endpoint": "http://h" for n in range(1001)}),
    "a long setting": lambda: tape_with(settings={"custom." + "a" * 10_000: 1}),
    "a moment beyond all dates": lambda: tape_with(at=1e300),
    "an id that is no word": lambda: tape_with(id="\x1b[31m\u202e\n"),
    "a time that is no number": lambda: tape_with([b'{"k":"note","t":NaN}\n']),
    "a time of 1e300": lambda: tape_with([b'{"k":"note","t":1e300}\n']),
    "a time before the beginning": lambda: tape_with([b'{"k":"note","t":-1}\n']),
    "a number of 5,000 digits": lambda: tape_with([b'{"k":"note","t":0,"n":' + b"9" * 5000 + b"}\n"]),
    "a number of 400 digits": lambda: tape_with([b'{"k":"plan","t":0,"n":' + b"9" * 400 + b"}\n"]),
    "a credential of nobody": lambda: tape_with(
        [CHOICE % b'"found":true,"credential":"\\u001b[31m","host":"evil.example"']
    ),
    "a choice of another kind": lambda: tape_with([CHOICE % b'"found":[1],"credential":{},"host":7,"error":["x"]']),
    "an error of no kind": lambda: tape_with(
        [CHOICE % b'"error":"SystemExit","message":"\\u001b[31m","retry_after":-1e9']
    ),
    "a quota that never begins": lambda: tape_with([b'{"k":"reset","t":0,"value":1e300}\n']),
    "a status of 1e9": lambda: tape_with([b'{"k":"up.head","t":0,"status":1e9}\n']),
    "brackets without end": lambda: tape_with([b'{"k":"note","t":0,"x":' + b"[" * 100_000 + b"\n"]),
    "too many values": lambda: tape_with([b'{"k":"note","t":0,"x":[' + b"1," * 200_000 + b"1]}\n"]),
    "a line of 20 MB": lambda: tape_with([b'{"k":"note","t":0,"x":"' + b"x" * 20_000_000 + b'"}\n']),
    "headers that are none": lambda: tape_with([b'{"k":"client.head","t":0,"headers":[[{}]],"status":200}\n']),
    "base64 that is none": lambda: tape_with([b'{"k":"up.bytes","t":0,"b64":["x"]}\n']),
}

COMMANDS = (["tape", "check"], ["tape", "mask"], ["tape", "curl"], ["tape", "har"], ["replay"])


@pytest.mark.parametrize("name", HOSTILE)
def test_no_command_fails_on_a_hostile_tape(name, tmp_path, capsys, monkeypatch):
    """Each command ends with a message or a result, writes nothing, and repeats nothing that a terminal obeys."""
    monkeypatch.chdir(tmp_path)
    told = tmp_path / "told.tape.jsonl"
    told.write_bytes(HOSTILE[name]())
    for command in COMMANDS:
        assert main([*command, str(told)]) in (0, 1)
        printed = capsys.readouterr()
        assert len(printed.err) < 1000
        assert all(line.isprintable() for line in (printed.out + printed.err).splitlines())
    assert [path.name for path in tmp_path.iterdir()] == ["told.tape.jsonl"]


@pytest.mark.parametrize("kind", [*vars(errors), "__import__"])
def test_an_error_on_a_tape_is_one_of_a_service_or_none(kind):
    """Whatever a tape calls it: the client of the replay is refused, and nothing else is made."""
    told = read_tape([tape_with([CHOICE % json.dumps({"error": kind, "message": "No."})[1:-1].encode()])])
    replay = derive(told)

    assert replay.status >= 400 and b"No." in replay.sent


def test_a_message_names_the_line(tmp_path, capsys):
    """Whoever reads it finds what is wrong."""
    told = tmp_path / "told.tape.jsonl"
    told.write_bytes(HOSTILE["a time of 1e300"]())

    assert main(["tape", "check", str(told)]) == 1

    last = len(load_tape(TAPE).lines) + 1
    assert f"line {last}: t must be from 0 to 31622400" in capsys.readouterr().err


def test_lines_are_bounded(monkeypatch):
    """Millions of short lines would take many times their size in memory."""
    monkeypatch.setattr("kiro_asgi.tapes.format.TAPE_LINES", 50)
    line = b'{"k":"note","t":0}\n'
    assert len(read_tape([b'{"k":"tape","t":0,"v":1}\n', line * 49]).lines) == 50
    with pytest.raises(TapeError, match="more than 50 lines"):
        read_tape([b'{"k":"tape","t":0,"v":1}\n', line * 50])


def test_settings_that_a_replay_does_not_take(tmp_path, capsys):
    """A tape's are left out, which a check tells; one that is asked for by hand is refused by its name."""
    told = tmp_path / "told.tape.jsonl"
    told.write_bytes(tape_with(settings={"tapes.path": "x", "kiro.credentials_command": "touch x"}))
    assert main(["tape", "check", str(told)]) == 1
    printed = capsys.readouterr().out
    assert "names tapes.path, which a replay does not take" in printed
    assert "kiro.credentials_command" in printed
    assert main(["replay", str(told)]) == 0
    assert main(["replay", str(told), "--set", f"state.path={tmp_path / 'x.db'}"]) == 1
    assert "state.path: a replay does not take this setting" in capsys.readouterr().err


def test_a_tape_as_a_service_configures_no_more():
    """Settings for the pytest plugin and ``serve --tapes`` take the same, and addresses are those of the simulator."""
    known = leaves(Settings, ["custom.evil"])
    named = {path: value for path, value in hostile_values(known) if is_replayed(known[path]) is False}
    tape = read_tape([tape_with(settings={**named, "custom.evil.endpoint": "http://evil.example"})])
    plain = read_tape([tape_with(settings={"custom.evil.endpoint": "http://localhost"})])
    assert settings_at("http://127.0.0.1:1", [tape]) == settings_at("http://127.0.0.1:1", [plain])


def hostile_values(known: Mapping[str, Leaf]) -> Iterator[tuple[str, Any]]:
    """Texts for all settings that are texts."""
    for path, leaf in known.items():
        if leaf.type not in (bool, int, float) and path != "custom.evil.endpoint":
            yield path, "evil" if leaf.type is str else ["evil"]


def test_a_silence_of_a_day_with_a_sign_of_life_each_millisecond(monkeypatch):
    """A tape cannot keep whoever replays it busy for ever; the message names the setting that does."""
    tape = load_tape(TAPE)
    late = [evolve(line, t=line.t + 86_000) if line.kind.startswith("up.b") else line for line in tape.lines]
    patient = dict.fromkeys(("stream.idle_timeout", "kiro.first_token_timeout", "limits.request_timeout"), 86_400)
    settings = {**tape.head.members["settings"], **patient, "stream.heartbeat": 0.001}
    hostile = Tape((evolve(tape.head, members={**tape.head.members, "settings": settings}), *late[1:]))

    monkeypatch.setattr("kiro_asgi.replay.run.TAPE_WAITS", 5_000)
    with pytest.raises(TapeError, match=r"stream\.heartbeat") as raised:
        derive(hostile)

    assert raised.value.code == "replay.waits"
