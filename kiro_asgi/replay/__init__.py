"""Replay of tapes: the same application, between a client and services that are read from a file.

`derive` runs an exchange again and records its steps, so that what is shown cannot differ from what the gateway does.
"""

from __future__ import annotations

from kiro_asgi.replay.run import Difference, Replay, derive, read_setting, same_start
from kiro_asgi.replay.steps import Step

__all__ = ["Difference", "Replay", "Step", "derive", "read_setting", "same_start"]
