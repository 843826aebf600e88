"""Every async test runs on both event loops; hypothesis is bounded and repeatable."""

from __future__ import annotations

import functools
import gc
import importlib
import logging
import os
import signal
from collections.abc import Iterator
from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, settings

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


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The event loops that a test marked ``anyio`` runs on."""
    return request.param


@pytest.fixture(scope="session", autouse=True)
def _certificates_read_once() -> Iterator[None]:
    """Every transport makes a context for TLS, which takes 35 ms and is the same each time."""
    libraries = [importlib.import_module(name) for name in ("httpcore", "httpcore2") if find_spec(name)]
    with pytest.MonkeyPatch.context() as patch:
        for library in libraries:
            patch.setattr(library, "default_ssl_context", functools.cache(library.default_ssl_context))
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
