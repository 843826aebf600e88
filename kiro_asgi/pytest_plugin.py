"""A plugin for pytest: tapes as tests, and tests whose services are tapes.

A file named ``*.tape.jsonl`` is a test: it is done again, and fails where the client would be sent anything else.  A
test marked ``tape("name")`` has the exchanges of ``tapes/name.tape.jsonl``, or of the folder ``tapes/name``, beside it.

The plugin is loaded wherever the package is installed, so nothing of the gateway is imported before it is needed.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from kiro_asgi.config import Settings
    from kiro_asgi.replay import Difference, Replay
    from kiro_asgi.tapes import Tape

_SUFFIXES: Final = (".tape.jsonl", ".tape.jsonl.gz")
"""As `kiro_asgi.tapes.folder.SUFFIXES`, which is not imported to look at other files."""

_RECHUNK: Final = "--tape-rechunk"
_RECORD: Final = "--record-tapes"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add our options."""
    group = parser.getgroup("kiro_asgi", "tapes of kiro_asgi")
    group.addoption(
        _RECHUNK,
        default="recorded",
        metavar="HOW",
        help="cut the services' bytes on tapes that are tests: recorded, a number, random:SEED (default: %(default)s)",
    )
    group.addoption(
        _RECORD,
        choices=("masked", "full"),
        help="let tests marked with a tape ask real services, and record the tape anew: its texts masked, or in full",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare our marker."""
    config.addinivalue_line("markers", "tape(name): the exchanges in tapes/name.tape.jsonl, or in tapes/name/")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> TapeFile | None:
    """Make a test of a tape; not while tapes are recorded, which deletes some."""
    if file_path.name.endswith(_SUFFIXES) and not parent.config.getoption(_RECORD):
        return TapeFile.from_parent(parent, path=file_path)
    return None


class TapeFile(pytest.File):
    """A tape."""

    def collect(self) -> Iterable[TapeItem]:
        """Give the one test that it is."""
        yield TapeItem.from_parent(self, name="replay")


class TapeDiffers(AssertionError):
    """The client would be sent something else than the tape has."""


class TapeItem(pytest.Item):
    """The test that a tape, done again, gives the same bytes."""

    def runtest(self) -> None:
        """Do the exchange again."""
        from kiro_asgi.replay import derive
        from kiro_asgi.tapes import load_tape

        replay = derive(load_tape(self.path), rechunk=self.config.getoption(_RECHUNK))
        if (difference := replay.difference) is not None:
            raise TapeDiffers("\n".join(_explained(self.path, replay, difference)))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Explain a difference, or what cannot be done; show the traceback of anything else."""
        from kiro_asgi.errors import ConfigError

        if isinstance(excinfo.value, TapeDiffers | ConfigError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Name the test in reports."""
        return self.path, None, f"replay of {self.path.name}"


def _explained(path: Path, replay: Replay, difference: Difference) -> Iterator[str]:
    yield "what the client would be sent " + "\n".join(difference.explain())
    if replay.missing:
        yield f"{replay.missing} requests have no answer on the tape"
    yield f"kiro-asgi replay {shlex.quote(str(path))} --stage all shows how each byte came about"


@pytest.fixture
def tape(request: pytest.FixtureRequest) -> Tape:
    """The tape that the test is marked with; of several the first."""
    return _load(_place(request))[0]


@pytest.fixture
def taped_settings(request: pytest.FixtureRequest) -> Iterator[Settings]:
    """Settings for an application whose services answer as they do on the test's tapes; its clients need no key.

    With ``--record-tapes`` they are those of the environment, and the application's exchanges become the tapes.
    """
    content = request.config.getoption(_RECORD)
    place = _place(request)
    if content:
        yield _recording(place, content)
        return
    tapes = _load(place)
    from kiro_asgi.replay.service import TapeService, settings_at
    from kiro_asgi.simulator import running

    with running() as simulator:
        simulator.answer_with(TapeService.of(tapes))
        yield settings_at(simulator.url, tapes)


def _place(request: pytest.FixtureRequest) -> Path:
    """Where the tapes of a test are, without an end of their name."""
    marker = request.node.get_closest_marker("tape")
    if marker is None or len(marker.args) != 1:
        raise pytest.UsageError(f'{request.node.nodeid}: mark it with one tape, as @pytest.mark.tape("name")')
    return Path(request.path.parent, "tapes", marker.args[0])


def _load(place: Path) -> list[Tape]:
    from kiro_asgi.tapes import load_tape, load_tapes

    files = [file for suffix in _SUFFIXES if (file := place.with_name(place.name + suffix)).exists()]
    if not files and not place.is_dir():
        pytest.fail(f"{place}{_SUFFIXES[0]} is missing; {_RECORD} records it, by asking real services", pytrace=False)
    return [load_tape(files[0])] if files else load_tapes(place)


def _recording(place: Path, content: str) -> Settings:
    """The environment's settings, which record into a folder; what was recorded before is deleted."""
    from attrs import evolve

    from kiro_asgi.config import ClientSettings, Settings, TapeSettings

    for old in (*(place.with_name(place.name + suffix) for suffix in _SUFFIXES), *place.glob("*" + _SUFFIXES[0])):
        old.unlink(missing_ok=True)
    return evolve(
        Settings.from_env(os.environ),
        client=ClientSettings(allow_anonymous=True),
        tapes=TapeSettings(path=str(place), when="all", content=content),
    )
