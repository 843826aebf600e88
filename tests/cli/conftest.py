"""Commands find no state but their own test's, and leave the log of the process as it was."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

LOGGERS = ("", "kiro_asgi", "kiro_asgi.access", "hypercorn.error", "trio.serve_listeners")


@pytest.fixture(autouse=True)
def _state_of_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    """``serve`` decides for its whole process what is logged; tests of access lines run in this one as well."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [(each.level, each.propagate, [*each.handlers], [*each.filters]) for each in loggers]
    yield
    for each, (level, propagate, handlers, filters) in zip(loggers, before, strict=True):
        each.setLevel(level)
        each.propagate, each.handlers[:], each.filters[:] = propagate, handlers, filters
