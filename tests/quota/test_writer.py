"""The thread that writes usage: an outage is told each time, and a bug of ours is seen."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from attrs import define, field

from kiro_asgi.errors import StoreUnavailable
from kiro_asgi.quota.base import UsageKey, UsageRow
from kiro_asgi.quota.ledger import UsageWriter
from kiro_asgi.quota.memory import MemoryLedger
from kiro_asgi.state import pending

ROW = UsageRow(UsageKey("2026-11-25", "alice", "kiro", "m"), {"requests": 1})


@define
class FailingLedger(MemoryLedger):
    """A ledger that fails with what it is told to."""

    failure: Exception | None = field(default=None)

    def add(self, rows: Sequence[UsageRow]) -> None:
        if self.failure is not None:
            raise self.failure
        MemoryLedger.add(self, rows)


def test_each_outage_is_told_once(caplog):
    """Outage, recovery, outage: two warnings, however often it is tried; nothing is lost."""
    kept = FailingLedger()
    writer = UsageWriter(kept)
    warnings = []
    for failure in (StoreUnavailable(detail="gone"), None, StoreUnavailable(detail="gone again")):
        kept.failure = failure
        writer._buffer.add(ROW)
        for _ in range(3):
            assert writer._write() is (failure is None)
        warnings.append(caplog.text.count("usage cannot be written"))
    kept.failure = None
    assert writer._write()

    assert warnings == [1, 1, 2]
    assert "gone again" in caplog.text
    assert [row.amounts for row in kept.rows("", "9")] == [{"requests": 3.0}]


def test_a_bug_is_seen(monkeypatch):
    """The thread ends with it, for all to see; what comes later is written, and closing does not wait for ever."""
    seen: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda failure: seen.append(failure.exc_type))
    monkeypatch.setattr(pending, "WRITE_EVERY", 0.0)
    kept = FailingLedger(failure=ZeroDivisionError())
    writer = UsageWriter(kept)
    writer.add(ROW)
    end = time.monotonic() + 10
    while not seen and time.monotonic() < end:
        time.sleep(0.01)
    kept.failure = None
    monkeypatch.undo()
    writer.add(ROW)
    closing = threading.Thread(target=writer.close, daemon=True)  # else a failure of this would never end
    closing.start()
    closing.join(10)

    assert not closing.is_alive()
    assert seen == [ZeroDivisionError]
    assert [row.amounts for row in kept.rows("", "9")] == [{"requests": 1.0}]
