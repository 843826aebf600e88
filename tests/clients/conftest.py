"""One installation, one gateway, and a home for every test."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kiro_asgi.replay import Replay, derive
from kiro_asgi.tapes import Tape, load_tapes
from tests.clients.contracts import printed
from tests.clients.surroundings import CONNECTED, Gateway, obstacle, running
from tests.conformance import node
from tests.installing import installed, room

ROOM = "KIRO_ASGI_CLIENTS_ROOM"
"""The folder in which packages are kept from run to run; unless set, where the machine has its temporary files."""

CLAUDE_CODE_INSTALLER = ("node", "node_modules/@anthropic-ai/claude-code/install.cjs")


@pytest.fixture(scope="session")
def packages() -> Path:
    """The folder with ``node_modules``."""
    return node.install(Path(__file__).parent, room(ROOM), then=CLAUDE_CODE_INSTALLER)


@pytest.fixture(scope="session")
def frameworks() -> Path:
    """The interpreter that has the frameworks of ``frameworks/requirements.txt``."""
    return installed(Path(__file__).parent / "frameworks" / "requirements.txt", room(ROOM)) / "python"


@pytest.fixture(scope="module")
def scripts(packages: Path) -> Iterator[Path]:
    """A folder in which scripts find the packages."""
    with tempfile.TemporaryDirectory(prefix="run-", dir=packages) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def secluded() -> bool:
    """Whether a gateway and its clients have a network of their own."""
    reason = obstacle()
    if reason and os.environ.get(CONNECTED) != "1":
        pytest.skip(f"no network of its own for a client ({reason}); {CONNECTED}=1 runs it in this one")
    return not reason


def has_left_early(replay: Replay) -> bool:
    """Whether the client had left before the error that is sent apart, for which the client of a replay stays."""
    rest = replay.sent.removeprefix(replay.tape.sent)
    return len(rest) < len(replay.sent) and rest.startswith(b'{"error":') and rest.count(b"\n") == 1


def differing(tapes: Iterable[Tape]) -> Iterator[str]:
    """What is not the same where the exchanges on *tapes* are done again; those that have a request, and all of it.

    Lists of models are on no tape, so a model that is not listed is none in a replay.
    """
    for tape in tapes:
        listed = tape.end is None or tape.end.text("error") != "UnknownModel"
        if next(tape.of("client.request"), None) is not None and not tape.cut and listed:
            replay = derive(tape)
            if replay.missing or (replay.difference is not None and not has_left_early(replay)):
                yield f"{tape.head.text('id')} {tape.request.text('path')} {replay.missing} {replay.difference}"


@pytest.fixture(scope="session")
def gateway(secluded: bool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """What ``kiro-asgi serve --simulate`` gives, where nothing else can be reached.

    Each call is on a tape; at the end all are done again, and the clients are sent the same.
    """
    tapes = tmp_path_factory.mktemp("tapes")
    recorded = {"PATH": str(tapes), "WHEN": "all", "CONTENT": "full"}
    settings = {f"KIRO_ASGI__TAPES__{name}": value for name, value in recorded.items()}
    with running(tmp_path_factory.mktemp("gateway"), secluded=secluded, **settings) as found:
        yield found
    assert [*differing(load_tapes(tapes))] == []


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home that no client has seen."""
    made = tmp_path / "home"
    made.mkdir()
    return made


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder to work in, with one file."""
    made = tmp_path / "project"
    made.mkdir()
    (made / "notes.txt").write_text("Buy bread.\n")
    return made


_WORST = ("failed", "error", "skipped", "passed")
"""What can become of a test; of several with one name the first of these counts."""


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what each client's vendor demands, with what became of it."""
    outcomes: dict[str, str] = {}
    for word in reversed(_WORST):
        for report in terminalreporter.stats.get(word, ()):
            outcomes[report.nodeid.partition("[")[0]] = word
    terminalreporter.section("what clients demand")
    for line in printed(outcomes):
        terminalreporter.line(line)
