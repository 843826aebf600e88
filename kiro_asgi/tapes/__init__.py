"""Tapes: one exchange in a file, with all inputs of the gateway, so that it can be replayed.

Kept are inputs: the client's request, what the service sent as it was cut, times, ids, and what was learnt before.
Everything else is computed again, by the same code, in a replay (`kiro_asgi.replay`).  What the client was sent is
kept, too, to compare.
"""

from __future__ import annotations

from kiro_asgi.tapes.folder import load_tape, load_tapes
from kiro_asgi.tapes.format import Line, Tape, TapeError, read_tape

__all__ = ["Line", "Tape", "TapeError", "load_tape", "load_tapes", "read_tape"]
