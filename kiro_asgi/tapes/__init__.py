"""Tapes: one exchange in a file, with everything that the gateway was given, so that what it did can be done again.

Kept are inputs: the client's request, what the service sent as it was cut, times, ids, and what was learnt before.
Everything else is computed again, by the same code, when somebody looks (`kiro_asgi.replay`).  Beside them stands what
the client was sent, to compare.
"""

from __future__ import annotations

from kiro_asgi.tapes.folder import load_tape, load_tapes
from kiro_asgi.tapes.format import Line, Tape, TapeError, read_tape

__all__ = ["Line", "Tape", "TapeError", "load_tape", "load_tapes", "read_tape"]
