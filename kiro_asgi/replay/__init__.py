"""Tapes played again: the same application, between a client and services that are a file.

`derive` does an exchange again and says what happened, step by step, so that what is shown cannot differ from what the
gateway does.
"""

from __future__ import annotations

from kiro_asgi.replay.run import Difference, Replay, derive, read_setting, same_start
from kiro_asgi.replay.steps import Step

__all__ = ["Difference", "Replay", "Step", "derive", "read_setting", "same_start"]
