"""Settings: one frozen tree, built once, passed down.

Every field has the same path everywhere: ``kiro.first_token_timeout`` in Python and in a mapping, ``[kiro]
first_token_timeout`` in TOML, ``KIRO_ASGI__KIRO__FIRST_TOKEN_TIMEOUT`` in the environment.

Times are seconds, sizes bytes.
"""

from __future__ import annotations

from kiro_asgi.config.describe import SettingRow, describe
from kiro_asgi.config.reading import Reading, read_environment
from kiro_asgi.config.tree import (
    ClientSettings,
    KiroSettings,
    LimitSettings,
    RecoverySettings,
    RetrySettings,
    Settings,
    StateSettings,
    StreamSettings,
)

__all__ = [
    "ClientSettings",
    "KiroSettings",
    "LimitSettings",
    "Reading",
    "RecoverySettings",
    "RetrySettings",
    "SettingRow",
    "Settings",
    "StateSettings",
    "StreamSettings",
    "describe",
    "read_environment",
]
