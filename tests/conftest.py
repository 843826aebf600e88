"""Every async test runs on both event loops; hypothesis is bounded and repeatable."""

from __future__ import annotations

import gc
import logging
import os
import signal
from collections.abc import Generator, Iterable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from kiro_asgi.dialects.openai_responses.encoder import ResponsesEncoder
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.events import Event
from tests import certificates
from tests.conformance.responses_schema import SERVED, sse_events
from tests.unexpected import MARKER, Bugs, watched

settings.register_profile(
    "default", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.register_profile("brief", settings.get_profile("default"), max_examples=20)
settings.register_profile("soak", deadline=None, max_examples=10_000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell without job control starts background jobs so, and the processes of the tests would not hear of Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.disable()  # until all is collected: importing the SDKs makes a million objects, none of which is ever garbage


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()  # what is there now stays to the end, and need not be looked at again and again
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Escape half surrogates, which many tests have in their values: a process that is sent one ends the whole run."""
    return _printable((yield))


def _printable(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case dict():
            return {_printable(name): _printable(each) for name, each in value.items()}
        case list() | tuple():
            return type(value)(map(_printable, value))
    return value


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The event loops that a test marked ``anyio`` runs on."""
    return request.param


@pytest.fixture(scope="session", autouse=True)
def _certificates_read_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        certificates.read_once(patch.setattr)
        yield


@pytest.fixture(scope="module", autouse=True)
def _filters_go_with_their_apps() -> Iterator[None]:
    """Each app searches every log record until it is collected, which takes long in a heap as large as that of tests.

    Hundreds that nobody uses any more would make every test that logs a traceback cost a second.
    """
    loggers = [logging.getLogger(name) for name in ("kiro_asgi", "kiro_asgi.access")]
    before = [logger.filters[:] for logger in loggers]
    yield
    for logger, filters in zip(loggers, before, strict=True):
        logger.filters[:] = filters


@pytest.fixture(scope="session", autouse=True)
def _responses_judged() -> Iterator[list[str]]:
    """What the events of the Responses API that any test makes have against the schema; collected answers are these."""
    problems: list[str] = []
    feed, error = ResponsesEncoder.feed, ResponsesEncoder.error

    def judge(pieces: Iterable[bytes]) -> None:
        for event in sse_events(pieces):
            problems.extend(SERVED.problems(event))

    def judged_feed(encoder: ResponsesEncoder, items: Iterable[Event], /) -> Iterator[bytes]:
        pieces: list[bytes] = []
        for piece in feed(encoder, items):
            pieces.append(piece)
            yield piece
        judge(pieces)

    def judged_error(encoder: ResponsesEncoder, broken: KiroAsgiError) -> list[bytes]:
        pieces = error(encoder, broken)
        judge(pieces)
        return pieces

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ResponsesEncoder, "feed", judged_feed)
        patch.setattr(ResponsesEncoder, "error", judged_error)
        yield problems


@pytest.fixture(autouse=True)
def _responses_are_legal(_responses_judged: list[str]) -> Iterator[None]:
    _responses_judged.clear()
    yield
    assert not _responses_judged, "\n".join(_responses_judged[:10])


@pytest.fixture(scope="session", autouse=True)
def _bugs() -> Iterator[Bugs]:
    with watched() as bugs:
        yield bugs
        bugs.check(())


@pytest.fixture(autouse=True)
def _nothing_unexpected(request: pytest.FixtureRequest, _bugs: Bugs) -> Iterator[None]:
    """Fails a test in which a bug was logged, see `tests.unexpected`."""
    yield
    _bugs.check([words for marker in request.node.iter_markers(MARKER) for words in marker.args])


@pytest.fixture(scope="session", autouse=True)
def _state_of_nobody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Commands find nothing of what whoever runs the tests has in the folder for state."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield
